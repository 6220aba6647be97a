//! All metrics of a scenario and of a run, made from what was observed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::observed::{Direction, Observed, Ping, Probe, Scenario, Transfer};
use super::{Measured, Overall, capacity, overall};

/// The metrics of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LoadMetrics")]
pub struct Metrics {
    /// n times the harmonic mean of the uploads' mean goodputs, KiB/s. None without uploads.
    pub up_kib_s: Option<f64>,
    /// n times the harmonic mean of the downloads' mean goodputs, KiB/s. None without downloads.
    pub down_kib_s: Option<f64>,
    /// Smoothness: one over the longest gap between data arriving on any flow, in Hz; 0 if a flow was killed.
    pub smoothness_hz: f64,
    /// Responsiveness: one over the pinger's longest round trip, in Hz. None without a ping.
    pub responsiveness_hz: Option<f64>,
    /// Each flow's own mean goodput.
    pub goodput: Vec<GoodputOf>,
    /// Jain's fairness index of the uploads' goodputs (DEC-TR-301, 1984). None for fewer than two.
    pub jain_up: Option<f64>,
    /// Jain's index of the downloads.
    pub jain_down: Option<f64>,
    /// The pinger's round trips under load. None without a ping.
    pub loaded: Option<Latency>,
    /// Latency of the idle link to compare with: just before the scenario, else before the first.
    pub idle: Option<Latency>,
    /// Change of the two ways against the idle link. None without the server's clock.
    pub one_way: Option<OneWayChange>,
    /// Round trips per minute. None where a kind of probe is missing.
    pub rpm: Option<Rpm>,
    /// Additional time of round trips under load.
    pub bufferbloat: Option<Bufferbloat>,
}

/// Mean goodput of one flow over its lifetime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoodputOf {
    /// The flow.
    pub flow: String,
    /// KiB/s; 0 if it was killed.
    pub kib_s: f64,
}

/// A distribution of round trips or of changes of a one-way delay, ms. Percentiles are nearest ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// The smallest.
    pub min_ms: f64,
    /// Mean, in ms.
    pub mean_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// The largest.
    pub max_ms: f64,
}

/// Additional time of either way over the smallest round trip of the idle link. The clocks' offset cancels out;
/// their drift during the scenario does not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneWayChange {
    /// Way from the client to the server.
    pub up: Latency,
    /// Way from the server to the client.
    pub down: Latency,
    /// How far both may be off, ms: what the clocks of two machines may drift apart in that time. None where one clock is at
    /// both ends, as in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub off_ms: Option<f64>,
}

/// Round trips per minute under working conditions: draft-ietf-ippm-responsiveness-08, "Final Calculations", TCP only.
///
/// `TM` is the mean without the largest 5 %, over the probes that ended in the last four seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rpm {
    /// (foreign + loaded) / 2.
    pub rpm: f64,
    /// 60000 / ((TM(tcp_f) + TM(http_f)) / 2).
    pub foreign: f64,
    /// 60000 / TM(http_l).
    pub loaded: f64,
    /// TM of opening a connection, ms.
    pub tcp_f_ms: f64,
    /// TM of the pinger's round trips, ms; the draft's are requests over HTTP on new connections.
    pub http_f_ms: f64,
    /// TM of round trips within the flows' connections, ms; the draft's are requests over HTTP there.
    pub http_l_ms: f64,
}

/// The latency that load adds, and the school grade that the test of DSLReports gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bufferbloat {
    /// Mean round trip under load less that of the idle link, ms.
    pub increase_ms: f64,
    /// `A+` to `F`.
    pub grade: String,
}

/// The metrics of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Smallest round trip of the idle link, ns. None without a ping.
    pub min_rtt_ns: Option<u64>,
    /// Harmonic mean over the scenarios with uploads, KiB/s. None if there was none.
    pub upload_capacity_kib_s: Option<f64>,
    /// Harmonic mean over the scenarios with downloads, KiB/s. None if there was none.
    pub download_capacity_kib_s: Option<f64>,
    /// The worst scenario's, Hz.
    pub responsiveness_hz: Option<f64>,
    /// The worst scenario's, Hz. None before the first scenario.
    pub smoothness_hz: Option<f64>,
    /// The lowest of the scenarios, round trips per minute.
    pub rpm: Option<f64>,
    /// Round trips of the idle link before the first scenario.
    pub idle: Option<Latency>,
    /// Round trips under load, of all scenarios together.
    pub loaded: Option<Latency>,
    /// Mean of the increase over scenarios that only upload and that over those that only download, or the one there is.
    pub bufferbloat: Option<Bufferbloat>,
}

/// Share of the samples that a trimmed mean keeps, the smallest ones (draft-ietf-ippm-responsiveness-08, TMP).
const TRIMMED_TO: f64 = 0.95;

/// The end of a scenario whose probes make its RPM, ns: four intervals of a second (the same draft, MAD and ID).
const LAST_NS: u64 = 4_000_000_000;

/// How fast two clocks drift apart at most: as fast as NTP corrects one (RFC 5905, MAXFREQ).
const MAX_DRIFT: f64 = 500e-6;

/// Upper limits of the grades, ms of increase: DSLReports, "Bufferbloat Grades" (speed test FAQ, 2015). 400 ms and more are F.
const GRADES: [(f64, &str); 5] = [(5.0, "A+"), (30.0, "A"), (60.0, "B"), (200.0, "C"), (400.0, "D")];

/// The classic metrics of a scenario.
pub fn measured(scenario: &Scenario) -> Measured {
    let goodputs = |direction: Direction| -> Vec<f64> {
        scenario.transfers.iter().filter(|t| t.direction == direction).map(goodput_kib_s).collect()
    };
    let of = |count: u32, direction: Direction| (count > 0).then(|| capacity(&goodputs(direction)));
    let longest_gap = scenario.transfers.iter().map(|t| t.longest_gap_ns).max().unwrap_or(0);
    let killed = scenario.transfers.iter().any(|t| t.killed.is_some());
    let longest_trip = scenario.pings.iter().map(|p| p.rtt_ns).max();
    Measured {
        flows: scenario.flows,
        up: of(scenario.flows.uploads, Direction::Up),
        down: of(scenario.flows.downloads, Direction::Down),
        smoothness: if killed || scenario.transfers.is_empty() { 0.0 } else { hertz(longest_gap) },
        responsiveness: longest_trip.map(hertz),
    }
}

/// All metrics of a scenario; `idle` are the pings before the first one.
pub fn metrics(scenario: &Scenario, idle: &[Ping]) -> Metrics {
    let classic = measured(scenario);
    let fairness = |direction: Direction| {
        let rates = scenario.transfers.iter().filter(|t| t.direction == direction).map(goodput_kib_s);
        jain(&rates.collect::<Vec<_>>())
    };
    let before = before(scenario, idle);
    let (loaded, idle) = (round_trips(&scenario.pings), round_trips(before));
    let goodput =
        |transfer: &Transfer| GoodputOf { flow: transfer.name.clone(), kib_s: goodput_kib_s(transfer) };
    Metrics {
        up_kib_s: classic.up,
        down_kib_s: classic.down,
        smoothness_hz: classic.smoothness,
        responsiveness_hz: classic.responsiveness,
        goodput: scenario.transfers.iter().map(goodput).collect(),
        jain_up: fairness(Direction::Up),
        jain_down: fairness(Direction::Down),
        loaded,
        idle,
        one_way: one_way(&scenario.pings, before),
        rpm: rpm(scenario),
        bufferbloat: loaded.zip(idle).map(|(loaded, idle)| bloat(loaded.mean_ms - idle.mean_ms)),
    }
}

/// The metrics of a run.
pub fn summary(observed: &Observed) -> Summary {
    let classic: Vec<Measured> = observed.scenarios.iter().map(measured).collect();
    let Overall { upload_capacity, download_capacity, responsiveness, smoothness } = overall(&classic);
    let each: Vec<Metrics> = observed.scenarios.iter().map(|s| metrics(s, &observed.idle_pings)).collect();
    let increase = |only: fn(&Scenario) -> bool| {
        let scenarios = observed.scenarios.iter().zip(&each).filter(|(s, _)| only(s));
        mean(scenarios.filter_map(|(_, f)| f.bufferbloat.as_ref().map(|b| b.increase_ms)))
    };
    let single = [increase(|s| s.flows.downloads == 0), increase(|s| s.flows.uploads == 0)];
    Summary {
        min_rtt_ns: observed.idle_pings.iter().map(|p| p.rtt_ns).min(),
        upload_capacity_kib_s: classic.iter().any(|s| s.up.is_some()).then_some(upload_capacity),
        download_capacity_kib_s: classic.iter().any(|s| s.down.is_some()).then_some(download_capacity),
        responsiveness_hz: responsiveness,
        smoothness_hz: (!classic.is_empty()).then_some(smoothness),
        rpm: each.iter().filter_map(|f| f.rpm.map(|r| r.rpm)).reduce(f64::min),
        idle: round_trips(&observed.idle_pings),
        loaded: round_trips(observed.scenarios.iter().flat_map(|s| &s.pings)),
        bufferbloat: mean(single.into_iter().flatten()).or_else(|| increase(|_| true)).map(bloat),
    }
}

/// The distribution of some times in ns. None without any.
pub fn latency(values_ns: impl IntoIterator<Item = i64>) -> Option<Latency> {
    let mut sorted: Vec<i64> = values_ns.into_iter().collect();
    sorted.sort_unstable();
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    // Nearest rank: the smallest value that at least so many per cent do not exceed.
    let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
    let sum: i128 = sorted.iter().map(|&v| i128::from(v)).sum();
    Some(Latency {
        count: sorted.len() as u64,
        min_ms: ms(min),
        mean_ms: sum as f64 / sorted.len() as f64 / 1e6,
        p50_ms: ms(rank(50)),
        p90_ms: ms(rank(90)),
        p95_ms: ms(rank(95)),
        p99_ms: ms(rank(99)),
        max_ms: ms(max),
    })
}

/// Jain's fairness index (sum x)^2 / (n sum x^2), from 1/n to 1. None for fewer than two values or none above 0.
pub fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (values.len() > 1 && squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The grade of so many ms of latency added by load.
pub fn bufferbloat_grade(increase_ms: f64) -> &'static str {
    GRADES.iter().find(|(limit, _)| increase_ms < *limit).map_or("F", |(_, grade)| grade)
}

/// Mean goodput over the flow's lifetime, KiB/s; a flow that the stack killed counts as 0.
fn goodput_kib_s(transfer: &Transfer) -> f64 {
    let lifetime_ns = transfer.end_ns.saturating_sub(transfer.start_ns);
    if transfer.killed.is_some() || lifetime_ns == 0 {
        return 0.0;
    }
    transfer.bytes as f64 / 1024.0 / (lifetime_ns as f64 / 1e9)
}

fn hertz(ns: u64) -> f64 {
    1e9 / ns.max(1) as f64
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

fn bloat(increase_ms: f64) -> Bufferbloat {
    Bufferbloat { increase_ms, grade: bufferbloat_grade(increase_ms).to_owned() }
}

/// The distribution of round trips. None without any.
pub(super) fn round_trips<'a>(pings: impl IntoIterator<Item = &'a Ping>) -> Option<Latency> {
    latency(pings.into_iter().map(|p| signed(p.rtt_ns)))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// The idle round trips that a scenario is compared with.
fn before<'a>(scenario: &'a Scenario, idle: &'a [Ping]) -> &'a [Ping] {
    if scenario.idle_pings.is_empty() { idle } else { &scenario.idle_pings }
}

fn shortest(idle: &[Ping]) -> Option<&Ping> {
    idle.iter().filter(|p| p.up_ns.is_some() && p.down_ns.is_some()).min_by_key(|p| p.rtt_ns)
}

/// Time by which two clocks may have drifted apart, in ms, from the idle round trip that a scenario is compared with to its last one.
///
/// Neither way is quicker under load than idle. So the server's clock has gained no more than the way up seems longer, and
/// lost no more than the way down does; at one rate, that holds of every round trip.
pub(super) fn drift_ms(scenario: &Scenario, idle: &[Ping]) -> Option<f64> {
    let idle_pings = before(scenario, idle);
    let reference = shortest(idle_pings)?;
    let begins_ns = if scenario.idle_pings.is_empty() {
        scenario.start_ns
    } else {
        idle_pings.iter().map(|p| p.t_ns.saturating_add(p.rtt_ns)).max()?
    };
    let (mut lost, mut gained, mut longest_ns) = (MAX_DRIFT, MAX_DRIFT, 0.0_f64);
    for ping in &scenario.pings {
        let (Some(up), Some(down)) = (ping.up_ns, ping.down_ns) else { continue };
        let after_ns = (begins_ns.saturating_sub(reference.t_ns).saturating_add(ping.t_ns)).max(1) as f64;
        gained = gained.min(up.saturating_sub(reference.up_ns?) as f64 / after_ns);
        lost = lost.min(down.saturating_sub(reference.down_ns?) as f64 / after_ns);
        longest_ns = longest_ns.max(after_ns);
    }
    let rate = gained.abs().max(lost.abs()).min(MAX_DRIFT);
    (longest_ns > 0.0).then_some(rate * longest_ns / 1e6)
}

/// Differences to the two ways of the shortest idle round trip.
fn one_way(pings: &[Ping], idle: &[Ping]) -> Option<OneWayChange> {
    let shortest = shortest(idle)?;
    let change = |way: fn(&Ping) -> Option<i64>| {
        let before = way(shortest)?;
        latency(pings.iter().filter_map(way).map(|now| now.saturating_sub(before)))
    };
    Some(OneWayChange { up: change(|p| p.up_ns)?, down: change(|p| p.down_ns)?, off_ms: None })
}

fn rpm(scenario: &Scenario) -> Option<Rpm> {
    let from = scenario.duration_ns.saturating_sub(LAST_NS);
    let late = |probes: &mut dyn Iterator<Item = Probe>| {
        trimmed_mean_ms(
            probes.filter(|p| p.t_ns.saturating_add(p.took_ns) >= from).map(|p| p.took_ns).collect(),
        )
    };
    let tcp_f_ms = late(&mut scenario.connects.iter().copied())?;
    let answered = scenario.pings.iter().filter(|p| p.answered);
    let http_f_ms = late(&mut answered.map(|p| Probe { t_ns: p.t_ns, took_ns: p.rtt_ns }))?;
    let http_l_ms = late(&mut scenario.in_band.iter().copied())?;
    let foreign = 60_000.0 / ((tcp_f_ms + http_f_ms) / 2.0);
    let loaded = 60_000.0 / http_l_ms;
    Some(Rpm { rpm: f64::midpoint(foreign, loaded), foreign, loaded, tcp_f_ms, http_f_ms, http_l_ms })
}

/// Mean of the smallest 95 %, at least one, in ms. None without round trips.
fn trimmed_mean_ms(mut values_ns: Vec<u64>) -> Option<f64> {
    values_ns.sort_unstable();
    let kept = ((values_ns.len() as f64 * TRIMMED_TO) as usize).max(1);
    mean(values_ns.iter().take(kept).map(|&ns| ns.max(1) as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SCENARIOS, fixtures};

    const MS: u64 = 1_000_000;

    fn transfer(direction: Direction, bytes: u64, gap_ms: u64) -> Transfer {
        Transfer { bytes, longest_gap_ns: gap_ms * MS, ..fixtures::transfer(direction) }
    }

    fn ping(t_ms: u64, rtt_ms: u64) -> Ping {
        let half = signed(rtt_ms * MS / 2);
        // The server's clock is an hour ahead.
        let ahead = 3_600_000_000_000;
        let (up_ns, down_ns) = (Some(half + ahead), Some(half - ahead));
        Ping { up_ns, down_ns, ..fixtures::ping(t_ms * MS, rtt_ms * MS) }
    }

    fn scenario() -> Scenario {
        Scenario {
            number: 4,
            flows: SCENARIOS[3],
            duration_ns: 10_000 * MS,
            transfers: vec![transfer(Direction::Up, 10 << 20, 50), transfer(Direction::Down, 20 << 20, 125)],
            idle_pings: vec![ping(0, 20), ping(20, 22)],
            pings: (0..100).map(|k| ping(k * 100, 40 + k)).collect(),
            connects: vec![Probe { t_ns: 7_000 * MS, took_ns: 60 * MS }],
            in_band: vec![
                Probe { t_ns: 1_000 * MS, took_ns: 10 * MS },
                Probe { t_ns: 8_000 * MS, took_ns: 100 * MS },
            ],
            ..Scenario::default()
        }
    }

    #[test]
    fn the_classic_metrics() {
        let found = measured(&scenario());
        assert_eq!((found.up, found.down), (Some(1024.0), Some(2048.0)));
        assert_eq!((found.smoothness, found.responsiveness), (8.0, Some(1000.0 / 139.0)));
        let text = crate::classic::line(4, &found);
        assert_eq!(
            text,
            "Scenario 4: 1 uploads, 1 downloads... 1024 KiB/s up, 2048 KiB/s down, 8.00 Hz smoothness"
        );
    }

    #[test]
    fn a_flow_that_was_killed_shows_everywhere() {
        let mut killed = scenario();
        killed.transfers[1].killed = Some("connection reset".into());
        let found = measured(&killed);
        assert_eq!((found.up, found.down, found.smoothness), (Some(1024.0), Some(0.0), 0.0));
        let all = summary(&Observed { idle_pings: vec![ping(0, 20)], scenarios: vec![scenario(), killed] });
        assert_eq!(all.download_capacity_kib_s, Some(0.0));
        assert_eq!(all.smoothness_hz, Some(0.0));
        assert_eq!(all.upload_capacity_kib_s, Some(1024.0));
    }

    #[test]
    fn round_trips_per_minute_follow_the_draft_for_tcp_alone() {
        let found = metrics(&scenario(), &[]).rpm.expect("all kinds of probes");
        // Of pings, those answered in the last 4 s: those sent from 6.0 s on: 100 to 139 ms, less the upper 5 %.
        let (sum, kept) = (0..40).map(|k| 100 + k).take(38).fold((0, 0), |(sum, n), ms| (sum + ms, n + 1));
        let http_f = f64::from(sum) / f64::from(kept);
        assert!((found.http_f_ms - http_f).abs() < 1e-9, "{found:?}");
        assert_eq!((found.tcp_f_ms, found.http_l_ms), (60.0, 100.0));
        assert!((found.foreign - 60_000.0 / ((60.0 + http_f) / 2.0)).abs() < 1e-9);
        assert!((found.rpm - (found.foreign + 600.0) / 2.0).abs() < 1e-9);
        let without = Scenario { in_band: Vec::new(), ..scenario() };
        assert_eq!(metrics(&without, &[]).rpm, None, "no metric is made up");
    }

    #[test]
    fn one_way_changes_need_no_common_clock() {
        let found = metrics(&scenario(), &[]).one_way.expect("the server's clock");
        assert_eq!((found.up.min_ms, found.up.max_ms, found.down.max_ms), (10.0, 59.5, 59.5));
    }

    #[test]
    fn clocks_drift_apart_by_no_more_than_the_round_trips_allow() {
        // The scenario begins 42 ms after the idle round trip, and its last ping is 9.9 s later.
        let after_ms = 42.0 + 9_900.0;
        let off = |change: &dyn Fn(usize, &mut Ping)| {
            let mut with = scenario();
            with.pings.iter_mut().enumerate().for_each(|(k, ping)| change(k, ping));
            drift_ms(&with, &[]).expect("the server's clock")
        };
        // Load that keeps both ways longer says nothing of the clocks.
        assert!((off(&|_, _| {}) - MAX_DRIFT * after_ms).abs() < 1e-9);
        // A last round trip as short as the idle one, either way 0.2 ms longer.
        let idle_again = |k: usize, ping: &mut Ping, late: i64| {
            if k == 99 {
                let short = super::tests::ping(0, 20);
                (ping.up_ns, ping.down_ns) =
                    (short.up_ns.map(|ns| ns + late), short.down_ns.map(|ns| ns + 200_000));
            }
        };
        assert!((off(&|k, p| idle_again(k, p, 200_000)) - 0.2).abs() < 1e-9);
        // The server's clock lost 1 ms: the way up seems shorter than it can be.
        assert!((off(&|k, p| idle_again(k, p, -1_000_000)) - 1.0).abs() < 1e-9);
        // More than clocks do is not the clocks'.
        assert!((off(&|k, p| idle_again(k, p, -100_000_000)) - MAX_DRIFT * after_ms).abs() < 1e-9);
    }

    #[test]
    fn grades_are_those_of_dslreports() {
        let grades = [-1.0, 4.9, 5.0, 29.0, 59.0, 60.0, 399.0, 400.0].map(bufferbloat_grade);
        assert_eq!(grades, ["A+", "A+", "A", "A", "B", "C", "D", "F"]);
        let found = metrics(&scenario(), &[]).bufferbloat.expect("pings");
        assert_eq!((found.increase_ms, found.grade.as_str()), (68.5, "C"));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let found = latency((1..=100).map(|k| k * 1_000_000)).expect("values");
        assert_eq!((found.p50_ms, found.p95_ms, found.p99_ms, found.max_ms), (50.0, 95.0, 99.0, 100.0));
        assert_eq!(latency([]), None);
        let one = latency([7_000_000]).expect("a value");
        assert_eq!((one.min_ms, one.p50_ms, one.p99_ms), (7.0, 7.0, 7.0));
    }

    #[test]
    fn fairness_needs_two() {
        assert_eq!(jain(&[5.0]), None);
        assert_eq!(jain(&[5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0]), Some(0.5));
    }

    #[test]
    fn what_was_observed_reads_back_as_itself() {
        let observed = Observed { idle_pings: vec![ping(0, 20)], scenarios: vec![scenario()] };
        let text = serde_json::to_string(&observed).expect("JSON");
        assert_eq!(serde_json::from_str::<Observed>(&text).expect("an observation"), observed);
    }
}
