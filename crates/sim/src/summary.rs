//! The summary of a run as JSON: counters and distributions over the measurement window.

use serde_json::{Value, json};
use tcp::Endpoint;

use crate::engine::Simulation;
use crate::flow::FlowRun;
use crate::histogram::Histogram;

impl Simulation {
    /// The figures of each flow and observed link over the measurement window; complete once the run is over.
    pub fn summary(&self) -> String {
        let scenario = self.scenario();
        let flows: Vec<Value> = self
            .flow_runs()
            .iter()
            .enumerate()
            .map(|(index, run)| {
                let endpoint = self.connection(2 * index);
                flow(&scenario.flows[index].name, run, endpoint, scenario.duration_ns)
            })
            .collect();
        let links: Vec<Value> = self
            .link_figures()
            .map(|(hop, before, after)| {
                json!({
                    "link": scenario.links[hop].name,
                    "packets": after.packets - before.packets,
                    "bytes": after.bytes - before.bytes,
                    "drops": after.drops - before.drops,
                    "ce_marks": after.ce_marks - before.ce_marks,
                    "busy_ns": after.busy_ns - before.busy_ns,
                })
            })
            .collect();
        json!({"flows": flows, "links": links, "events": self.events(), "packets": self.packets()})
            .to_string()
    }
}

fn flow(name: &str, run: &FlowRun, endpoint: Option<&Endpoint>, duration: u64) -> Value {
    let tally = &run.tally;
    let before = tally.before.unwrap_or_default();
    let after = tally.after.unwrap_or_default();
    json!({
        "flow": name,
        "status": status(run, endpoint, duration),
        "goodput_bytes": after.read - before.read,
        "wire_bytes": tally.wire_bytes,
        "segments_sent": after.segments - before.segments,
        "retransmits": after.retransmits - before.retransmits,
        "drops": tally.drops,
        "ce_marks": tally.ce_marks,
        "rtos": tally.rtos,
        "fast_recoveries": tally.recoveries.len(),
        "recovery_entries_ns": tally.recoveries,
        "rtt": distribution(&tally.rtt),
        "queue_delay": distribution(&tally.queue_delay),
        "cwnd_mean_bytes": tally.cwnd_mean(),
        "cwnd_max_bytes": tally.cwnd_max,
        "limited_ns": {
            "cwnd": after.limited.cwnd - before.limited.cwnd,
            "rwnd": after.limited.rwnd - before.limited.rwnd,
            "sndbuf": after.limited.sndbuf - before.limited.sndbuf,
            "app": after.limited.app - before.limited.app,
        },
        "active_ns": tally.active,
        "completion_ns": run.completed.map(|at| at - run.start),
        "start_ns": run.start,
    })
}

/// `complete`: did what it was asked to; `unfinished`: the run ended first; `failed`: the connection broke;
/// `not-started`: its start lies after the end.
fn status(run: &FlowRun, endpoint: Option<&Endpoint>, duration: u64) -> &'static str {
    match endpoint {
        None => "not-started",
        Some(endpoint) if endpoint.failure().is_some() => "failed",
        Some(_) if run.completed.is_some() => "complete",
        Some(_) if run.bytes.is_none() && run.stop.is_none_or(|stop| stop >= duration) => "complete",
        Some(_) => "unfinished",
    }
}

fn distribution(histogram: &Histogram) -> Value {
    if histogram.count() == 0 {
        return json!({"count": 0});
    }
    json!({
        "count": histogram.count(),
        "min_ns": histogram.min(),
        "mean_ns": histogram.mean(),
        "p50_ns": histogram.quantile(500),
        "p95_ns": histogram.quantile(950),
        "max_ns": histogram.max(),
    })
}
