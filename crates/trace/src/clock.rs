//! The clocks of two capture points against each other: offset and skew, and one-way delays corrected by them.
//!
//! A packet towards the monitor point that leaves the reference point at time x (by its clock) is seen there after
//! y = d + o(x): its delay, and how far the monitor's clock is ahead then. A packet back gives y = o(x) - d'. Delays are
//! never below that of the empty path, so o(x) runs along the lower edge of the first cloud of points and the upper edge of
//! the second, apart from them by the two empty paths' delays.
//!
//! The skew is the slope of an edge of the convex hull, that edge whose line has the smallest sum of distances to all
//! points: the one that spans their mean time (Moon, Skelly and Towsley, "Estimation and removal of clock skew from network
//! delay measurements", INFOCOM 1999; the hull for it is Zhang, Liu and Xia's, INFOCOM 2002). A queue that is never
//! empty again tilts the edge of its direction, so of the two directions that one counts whose points are nearer to their
//! edge. The offset is then that at which the smallest delays of both directions are equal: what cannot be known from
//! captures is halved between them. A path whose empty delays differ by a gives one-way delays that are off by a/2.

use crate::connection::Direction;
use crate::pairs::Matched;

/// Lead of the monitor's clock over the reference clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// The time, by the reference clock, at which `offset_ns` holds.
    pub origin_ns: u64,
    /// Lead of the monitor's clock at the origin, in ns.
    pub offset_ns: i64,
    /// Growth of the lead, as a fraction: 1e-6 is one part per million.
    pub skew: f64,
}

impl Clock {
    /// Clocks that agree, as of captures taken with one clock.
    pub const SAME: Clock = Clock { origin_ns: 0, offset_ns: 0, skew: 0.0 };

    /// Lead of the monitor's clock at a time of the reference clock, in ns.
    #[inline]
    pub fn ahead_ns(&self, reference_ns: u64) -> i64 {
        let since = reference_ns.wrapping_sub(self.origin_ns) as i64;
        self.offset_ns.wrapping_add((since as f64 * self.skew).round() as i64)
    }

    /// The delay of a packet, nanoseconds. Below zero only if the clocks are not as they were taken to be.
    #[inline]
    pub fn delay_ns(&self, packet: &Matched, out: Direction) -> i64 {
        let ahead = packet.monitor_ns.wrapping_sub(packet.reference_ns) as i64;
        let forward = ahead.wrapping_sub(self.ahead_ns(packet.reference_ns));
        if packet.direction == out { forward } else { forward.wrapping_neg() }
    }
}

/// Estimates the monitor's clock from packets seen at both points; `out` leads from the reference point to the monitor.
/// None unless packets went both ways.
pub fn estimate(matched: &[Matched], out: Direction) -> Option<Clock> {
    let first = matched.first()?;
    let origin_ns = matched.iter().map(|packet| packet.reference_ns).min()?;
    // Far apart clocks (a machine that never was set) must not cost precision: f64 holds 53 bits.
    let base = first.monitor_ns.wrapping_sub(first.reference_ns);
    let cloud = |direction: Direction, sign: f64| -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = matched
            .iter()
            .filter(|packet| packet.direction == direction)
            .map(|packet| {
                let ahead = packet.monitor_ns.wrapping_sub(packet.reference_ns).wrapping_sub(base) as i64;
                (packet.reference_ns.wrapping_sub(origin_ns) as f64, sign * ahead as f64)
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        points
    };
    // Turned over, the upper edge of the way back is a lower edge too.
    let (there, back) = (cloud(out, 1.0), cloud(out.reversed(), -1.0));
    let (there_edge, back_edge) = (lower_edge(&there)?, lower_edge(&back)?);
    let skew = if there_edge.distance <= back_edge.distance { there_edge.slope } else { -back_edge.slope };
    let least = |points: &[(f64, f64)], slope: f64| {
        points.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min)
    };
    let (least_there, least_back) = (least(&there, skew), -least(&back, -skew));
    let offset = ((least_there + least_back) / 2.0).round() as i64;
    Some(Clock { origin_ns, offset_ns: offset.wrapping_add(base as i64), skew })
}

/// An edge below a cloud of points.
struct Edge {
    slope: f64,
    /// Mean distance of the points above it, nanoseconds.
    distance: f64,
}

/// The edge of the lower convex hull that spans the points' mean x. `points` are in order of x.
fn lower_edge(points: &[(f64, f64)]) -> Option<Edge> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        // Of points with one x, the lowest comes first, and the others are above the hull.
        if hull.last().is_some_and(|last| last.0 == point.0) {
            continue;
        }
        while let [.., a, b] = hull[..]
            && (b.0 - a.0) * (point.1 - a.1) <= (b.1 - a.1) * (point.0 - a.0)
        {
            hull.pop();
        }
        hull.push(point);
    }
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let place = hull.partition_point(|point| point.0 <= mean_x).clamp(1, hull.len().max(2) - 1);
    match hull[..] {
        [] => None,
        [only] => Some(Edge { slope: 0.0, distance: mean_y - only.1 }),
        _ => {
            let (a, b) = (hull[place - 1], hull[place]);
            let slope = (b.1 - a.1) / (b.0 - a.0);
            Some(Edge { slope, distance: mean_y - (a.1 + slope * (mean_x - a.0)) })
        }
    }
}
