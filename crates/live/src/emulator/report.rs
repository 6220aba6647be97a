//! What an emulator tells when it ends: records, the metrics of links and flows, and whether to believe them.

use std::fs;
use std::sync::atomic::Ordering;

use contract::histogram::Histogram;
use contract::record::Recorder;
use contract::table::Batch;
use path::Counters;
use serde_json::{Value, json};

use super::config::Config;
use super::line::Tally;
use super::worker::{Stats, Worker};
use super::{LATE, Shared};

/// Packets that the machine's backlog of received packets (net.core.netdev_max_backlog) has dropped since it started:
/// the second number of each processor's line.
fn backlog_drops() -> u64 {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let second = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(second).sum()
}

/// Time so far for which what this machine runs on did not give it its processors: the eighth number of
/// /proc/stat's first line, in hundredths of a second (USER_HZ).
fn stolen_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let stolen = text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    stolen.unwrap_or(0) * 10_000_000
}

/// Counters of the machine, apart from the emulator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// See [`backlog_drops`].
    pub(super) backlog_drops: u64,
    /// See [`stolen_ns`].
    pub(super) stolen_ns: u64,
}

impl Machine {
    /// Reads the counters as they are now.
    pub(super) fn now() -> Machine {
        Machine { backlog_drops: backlog_drops(), stolen_ns: stolen_ns() }
    }

    /// Returns the increase from these counters to now.
    pub(super) fn since(self) -> Machine {
        let now = Machine::now();
        Machine {
            backlog_drops: now.backlog_drops.saturating_sub(self.backlog_drops),
            stolen_ns: now.stolen_ns.saturating_sub(self.stolen_ns),
        }
    }
}

/// The records of all threads in order, and the report.
pub(super) fn finish(
    config: &Config,
    shared: &Shared,
    workers: Vec<Worker>,
    machine: Machine,
) -> (Vec<(&'static str, Batch)>, String) {
    let scenario = &config.scenario;
    let hops = scenario.hop_names();
    let flow_names = scenario.flows.iter().map(|flow| flow.name.as_str());
    let mut recorder = Recorder::new(config.run_id, flow_names, hops.iter().map(String::as_str));
    let (mut queue, mut stats) = (Vec::new(), Stats::new());
    let mut tallies = vec![Tally::new(); scenario.flows.len()];
    let mut links: Vec<(u32, [Option<Counters>; 2])> = Vec::new();
    let mut end = 0;
    for worker in workers {
        end = end.max(worker.clock.saturating_sub(worker.zero));
        stats.merge(&worker.stats);
        let seen = worker.directions.iter().filter_map(|direction| Some((direction.link?, direction.window)));
        links.extend(seen);
        let records = worker.common.records;
        tallies.iter_mut().zip(&records.tallies).for_each(|(sum, tally)| sum.merge(tally));
        queue.extend(records.queue.into_rows());
        // All are of hops.
        records.events.into_rows().for_each(|row| recorder.event(row.hop.unwrap_or(0), row));
    }
    queue.sort_by_key(|row| (row.t, row.hop));
    queue.iter().for_each(|row| recorder.queue(row));
    recorder.finish(end);
    links.sort_by_key(|&(link, _)| link);
    let links: Vec<Value> =
        links.iter().map(|(link, window)| metrics(&scenario.links[*link as usize].name, *window)).collect();
    let flows: Vec<Value> = scenario
        .flows
        .iter()
        .zip(&tallies)
        .map(|(flow, tally)| {
            json!({
                "flow": flow.name,
                "drops": tally.drops,
                "ce_marks": tally.ce_marks,
                "wire_bytes": tally.wire_bytes,
                "queue_delay": tally.queue_delay.metrics(),
            })
        })
        .collect();
    let real_time = shared.live.iter().all(|live| live.real_time.load(Ordering::Relaxed));
    let health = health(&stats, machine, real_time);
    (recorder.take(), json!({"health": health, "links": links, "flows": flows}).to_string())
}

/// A link over the measurement window, as the simulator's summary has it; null where the run ended before the window.
fn metrics(name: &str, window: [Option<Counters>; 2]) -> Value {
    let [Some(before), Some(after)] = window else { return json!({"link": name, "packets": null}) };
    json!({
        "link": name,
        "packets": after.packets - before.packets,
        "bytes": after.bytes - before.bytes,
        "drops": after.drops - before.drops,
        "ce_marks": after.ce_marks - before.ce_marks,
        "busy_ns": after.busy_ns - before.busy_ns,
    })
}

fn health(stats: &Stats, machine: Machine, real_time: bool) -> Value {
    let mut reasons = Vec::new();
    if stats.too_late > 0 {
        reasons.push(format!(
            "{} of {} packets left more than {} ms after their time, by up to {:.1} ms",
            stats.too_late,
            stats.packets,
            LATE / 1_000_000,
            stats.late.max().unwrap_or(0) as f64 / 1e6
        ));
    }
    for (count, what) in [
        (stats.socket_drops, "packets found the emulator's sockets full"),
        (stats.unintended_drops, "packets were lost for want of memory or by an interface"),
        (stats.failures, "times an interface went down or away"),
        (machine.backlog_drops, "packets were dropped by this machine's receive backlog"),
    ] {
        if count > 0 {
            reasons.push(format!("{count} {what}"));
        }
    }
    json!({
        "unreliable": !reasons.is_empty(),
        "reason": (!reasons.is_empty()).then(|| reasons.join("; ")),
        "packets": stats.packets,
        "bytes": stats.bytes,
        "late": late(&stats.late),
        "late_over_1ms": stats.too_late,
        "socket_drops": stats.socket_drops,
        "unintended_drops": stats.unintended_drops,
        "backlog_drops": machine.backlog_drops,
        "stolen_ns": machine.stolen_ns,
        "other_frames": stats.other_frames,
        "real_time": real_time,
    })
}

fn late(late: &Histogram) -> Value {
    json!({
        "count": late.count(),
        "mean_ns": late.mean(),
        "p50_ns": late.quantile(500),
        "p99_ns": late.quantile(990),
        "p999_ns": late.quantile(999),
        "max_ns": late.max(),
    })
}
