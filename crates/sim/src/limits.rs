//! Limits of a flow: the times that its sender counted, divided anew round by round.
//!
//! A sender knows which window, buffer or timer keeps it from sending. It does not know whether more of that would bring more: data that
//! already waits at a full link or for a busy processor would only wait longer. So at the end of each round, in which a window of data
//! was sent and acknowledged, the flow's own data is compared with what could be carried in that time. Where a resource had less than
//! [`ROOM_PCT`] left, that is the limit of the round, and not the window in front of it.

use contract::ids::{HostId, LinkId};
use contract::scenario::{Change, Link, Scenario};
use path::{Nanos, QueueConfig, ShaperConfig};
use tcp::endpoint::{LimitedTimes, Round};

use crate::topology::{End, Topology};

/// More of what limits has to bring this much, per cent, or the limit lies elsewhere.
const ROOM_PCT: u128 = 5;

/// Time under each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Divided {
    /// Times under the limits that the sender tells.
    pub by: LimitedTimes,
    /// A link that the flow filled, behind a window or a buffer with no room left.
    pub path: Nanos,
    /// Processing of the sending or the receiving host.
    pub host: Nanos,
}

impl std::ops::AddAssign for Divided {
    fn add_assign(&mut self, other: Divided) {
        self.by += other.by;
        self.path += other.path;
        self.host += other.host;
    }
}

/// The limits of one connection, and its present round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// Times under each limit in the rounds so far.
    pub divided: Divided,
    /// Time that the processors of both ends have spent on the flow, by the side of the connection that received.
    pub processing: [Nanos; 2],
    since: Nanos,
    began: Round,
    processed: [Nanos; 2],
}

impl Limits {
    /// A round ends at `now`, when the connection has got to `round`.
    pub(crate) fn end_round(&mut self, now: Nanos, round: &Round, path: &Path<'_>) {
        let took = now - self.since;
        if took > 0 {
            let payload = round.acked - self.began.acked;
            let packets = payload.div_ceil(u64::from(round.payload.max(1)));
            let bytes = payload + packets * u64::from(round.header);
            let path = path.busy(bytes, packets, self.since, now);
            let host = [0, 1].map(|end| self.processing[end] - self.processed[end]).into_iter().max();
            let times = round.limited - self.began.limited;
            self.divided += divide(times, took, path, host.unwrap_or(0));
        }
        self.since = now;
        self.began = *round;
        self.processed = self.processing;
    }
}

/// Divides the times that the sender counted in a round of `took`, for whose data the narrowest link needed `path` and the busier
/// host `host`.
fn divide(times: LimitedTimes, took: Nanos, path: Nanos, host: Nanos) -> Divided {
    let LimitedTimes { cwnd, rwnd, sndbuf, app, pacing } = times;
    let is_full = |busy: Nanos| u128::from(busy) * 100 >= u128::from(took) * (100 - ROOM_PCT);
    if is_full(host) && host > path {
        let by = LimitedTimes { app, ..LimitedTimes::default() };
        return Divided { by, host: cwnd + rwnd + sndbuf + pacing, ..Divided::default() };
    }
    if is_full(path) {
        let by = LimitedTimes { app, cwnd, ..LimitedTimes::default() };
        return Divided { by, path: rwnd + sndbuf + pacing, ..Divided::default() };
    }
    // Pacing spreads a window over the round. Where the round goes on without it, a faster one would have waited longer.
    let mut by = times;
    let others = cwnd + rwnd + sndbuf + app;
    if u128::from(others) * 100 > u128::from(took) * ROOM_PCT {
        by.pacing = 0;
        let most = cwnd.max(rwnd).max(sndbuf).max(app);
        if most == app {
            by.app += pacing;
        } else if most == cwnd {
            by.cwnd += pacing;
        } else if most == rwnd {
            by.rwnd += pacing;
        } else {
            by.sndbuf += pacing;
        }
    }
    Divided { by, ..Divided::default() }
}

/// Capacity of every link at the present time.
pub(crate) struct Capacity {
    links: Vec<LinkCapacity>,
    /// Rate of the netem at the egress of each host.
    egresses: Vec<Option<u64>>,
}

struct LinkCapacity {
    rate_bps: Option<u64>,
    /// Bandwidth of CAKE.
    bandwidth_bps: Option<u64>,
    shaper: Option<ShaperConfig>,
    overhead: u64,
}

impl Capacity {
    /// The links as they are at first.
    pub(crate) fn new(scenario: &Scenario) -> Capacity {
        let link = |link: &Link| LinkCapacity {
            rate_bps: link.rate_bps,
            bandwidth_bps: bandwidth(&link.queue),
            shaper: link.shaper.clone(),
            overhead: u64::from(link.overhead),
        };
        let egresses =
            scenario.hosts.iter().map(|host| host.egress.as_ref().and_then(|egress| egress.rate_bps));
        Capacity { links: scenario.links.iter().map(link).collect(), egresses: egresses.collect() }
    }

    /// A change of the schedule is carried out.
    pub(crate) fn change(&mut self, link: LinkId, change: &Change) {
        let link = &mut self.links[link.index()];
        link.rate_bps = change.rate_bps.or(link.rate_bps);
        link.bandwidth_bps = change.queue.as_ref().map_or(link.bandwidth_bps, bandwidth);
    }
}

/// The way of a flow's data.
pub(crate) struct Path<'a> {
    /// Topology of the links.
    pub topology: &'a Topology,
    /// Capacity of the links.
    pub capacity: &'a Capacity,
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
}

impl Path<'_> {
    /// Part of the time from `since` to `now` that the narrowest hop needs for `bytes` of IP in so many packets.
    fn busy(&self, bytes: u64, packets: u64, since: Nanos, now: Nanos) -> Nanos {
        let egress = self.capacity.egresses[self.src.index()].map_or(0, |rate| at_rate(8 * bytes, rate));
        let mut longest = egress;
        let mut link = self.topology.first_link(self.src, self.dst);
        loop {
            longest = longest.max(self.capacity.links[link.index()].busy(bytes, packets, since, now));
            if self.topology.ends[link.index()] != End::Node {
                return longest;
            }
            link = self.topology.next_link(link, self.dst);
        }
    }
}

impl LinkCapacity {
    fn busy(&self, bytes: u64, packets: u64, since: Nanos, now: Nanos) -> Nanos {
        let bits = 8 * (bytes + packets * self.overhead);
        let own = [self.rate_bps, self.bandwidth_bps].into_iter().flatten().min();
        let own = own.map_or(0, |rate| at_rate(bits, rate));
        match &self.shaper {
            None => own,
            Some(ShaperConfig::Trace { opportunities_ns, period_ns, bytes: most }) => {
                let until = |t: Nanos| {
                    let rest = opportunities_ns.partition_point(|&at| at <= t % period_ns);
                    t / period_ns * opportunities_ns.len() as u64 + rest as u64
                };
                let carried = u128::from(until(now) - until(since)) * u128::from(*most) * 8;
                let share = |carried: u128| u128::from(bits) * u128::from(now - since) / carried;
                if carried == 0 { 0 } else { share(carried) as Nanos }
            }
            Some(buckets) => buckets.rate_bps().map_or(own, |rate_bps| own.max(at_rate(bits, rate_bps))),
        }
    }
}

/// The rate that a queue discipline keeps to.
fn bandwidth(queue: &QueueConfig) -> Option<u64> {
    if let QueueConfig::Cake(cake) = queue { cake.bandwidth_bps } else { None }
}

/// Time for so many bits.
fn at_rate(bits: u64, rate_bps: u64) -> Nanos {
    (u128::from(bits) * 1_000_000_000 / u128::from(rate_bps)) as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of 100 in which the sender counted these.
    fn divided(cwnd: Nanos, rwnd: Nanos, app: Nanos, pacing: Nanos, [path, host]: [Nanos; 2]) -> Divided {
        divide(LimitedTimes { cwnd, rwnd, sndbuf: 0, app, pacing }, 100, path, host)
    }

    #[test]
    fn a_window_is_the_limit_while_the_path_and_the_hosts_have_room() {
        for busy in [[0, 0], [50, 50], [94, 94]] {
            assert_eq!(divided(0, 100, 0, 0, busy).by.rwnd, 100, "{busy:?}");
        }
        assert_eq!(divided(0, 100, 0, 0, [95, 0]).path, 100);
        assert_eq!(divided(0, 100, 0, 0, [0, 95]).host, 100);
        assert_eq!(divided(0, 100, 0, 0, [96, 97]).host, 100);
    }

    #[test]
    fn the_congestion_window_stays_one_where_the_path_is_full_and_not_where_a_host_is() {
        assert_eq!(divided(100, 0, 0, 0, [100, 0]).by.cwnd, 100);
        assert_eq!(divided(100, 0, 0, 0, [0, 100]).host, 100);
    }

    #[test]
    fn an_application_that_writes_no_more_is_the_limit_whatever_is_busy() {
        for busy in [[0, 0], [100, 0], [0, 100]] {
            assert_eq!(divided(0, 0, 100, 0, busy).by.app, 100, "{busy:?}");
        }
    }

    #[test]
    fn pacing_is_the_limit_of_a_round_that_holds_nothing_else() {
        assert_eq!(divided(5, 0, 0, 95, [80, 0]).by.pacing, 95);
        // It spread a window that was full at the end, or what the application wrote.
        assert_eq!(divided(10, 0, 0, 90, [80, 0]).by.cwnd, 100);
        assert_eq!(divided(0, 10, 0, 90, [80, 0]).by.rwnd, 100);
        assert_eq!(divided(0, 0, 10, 90, [80, 0]).by.app, 100);
        assert_eq!(divided(0, 0, 0, 100, [96, 0]).path, 100);
    }

    #[test]
    fn a_trace_carries_its_opportunities_and_nothing_between() {
        let shaper = ShaperConfig::Trace { opportunities_ns: vec![10, 20, 60], period_ns: 100, bytes: 1000 };
        let link = LinkCapacity { rate_bps: None, bandwidth_bps: None, shaper: Some(shaper), overhead: 0 };
        // Of the opportunities at 110, 120 and 160, the flow took one, two and all.
        assert_eq!([1, 2, 3].map(|packets| link.busy(packets * 1000, packets, 100, 200)), [33, 66, 100]);
        assert_eq!(link.busy(1000, 1, 121, 159), 0);
    }

    #[test]
    fn a_link_is_as_fast_as_the_slowest_of_what_shapes_it() {
        let link = |rate, cake, bucket: Option<u64>| {
            let shaper =
                bucket.map(|rate_bps| ShaperConfig::TokenBucket { rate_bps, burst_bytes: 3000, peak: None });
            LinkCapacity { rate_bps: rate, bandwidth_bps: cake, shaper, overhead: 25 }.busy(1200, 2, 0, 1)
        };
        assert_eq!(link(Some(10_000), None, None), 1_000_000_000);
        assert_eq!(link(Some(10_000), Some(5_000), None), 2_000_000_000);
        assert_eq!(link(Some(10_000), None, Some(2_500)), 4_000_000_000);
        assert_eq!(link(None, None, None), 0);
    }
}
