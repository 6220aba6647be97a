//! The JSON document of a run: what was observed, and every metric made of it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::metrics::{Latency, Metrics, Summary, drift_ms, metrics, round_trips, summary};
use super::observed::{Direction, Observed, Scenario};
use super::{classic, measured, overall};

/// Version of the document; it changes when a reader of the old one would be misled.
pub const SCHEMA: u32 = 2;

/// Versions that are read: 1 had `figures` for `metrics`.
pub const READ: RangeInclusive<u32> = 1..=SCHEMA;

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// `SCHEMA`.
    pub schema: u32,
    /// Always `loadlatency`.
    pub kind: String,
    /// Conditions of the measurement.
    pub conditions: Conditions,
    /// The classic output, line for line.
    pub classic: String,
    /// The metrics of the run.
    pub overall: Summary,
    /// Observations.
    pub observed: Observed,
    /// The metrics of each scenario of `observed`, in its order.
    #[serde(alias = "figures")]
    pub metrics: Vec<Metrics>,
    /// Staircase: which of `observed`'s scenarios it is and what each step brought. None without one.
    pub staircase: Option<Staircase>,
}

/// Conditions of a measurement that a reader has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// `complete`, `interrupted` (by its user) or `failed`.
    pub status: String,
    /// Reason why the measurement is not complete. None if it is.
    pub message: Option<String>,
    /// Time when the measurement began, in seconds since 1970 (UTC). None in virtual time.
    pub started_unix_s: Option<u64>,
    /// Anything else, such as versions, systems and the address measured.
    pub facts: BTreeMap<String, String>,
}

/// Latency and goodput while flows joined one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Staircase {
    /// Index of the staircase's scenario in `observed`.
    pub scenario: usize,
    /// Steps, from each change of the number of flows to the next.
    pub steps: Vec<Step>,
    /// The traffic classes.
    pub classes: Vec<Class>,
}

/// The time in which a certain number of flows ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Beginning of the step.
    pub from_ns: u64,
    /// End of the step.
    pub to_ns: u64,
    /// Uploads that ran.
    pub uploads: u32,
    /// Downloads that ran.
    pub downloads: u32,
    /// Goodput of the uploads together, in KiB/s, by whole intervals of `BIN_NS`.
    pub up_kib_s: f64,
    /// Goodput of the downloads together, in KiB/s.
    pub down_kib_s: f64,
    /// Round trips sent in the step. None if there was none.
    pub loaded: Option<Latency>,
}

/// Goodput of the flows of one code point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// The differentiated services code point.
    pub dscp: u8,
    /// Sum of the mean goodputs of the uploads with this code point, in KiB/s.
    pub up_kib_s: f64,
    /// Goodput of the downloads with this code point, in KiB/s.
    pub down_kib_s: f64,
}

/// Makes the document of a run. A scenario whose flows do not all begin at once is a staircase: it is left out of the
/// classic output and of the metrics of the run.
pub fn document(observed: Observed, conditions: Conditions) -> Document {
    let is_staircase =
        |s: &Scenario| s.number == 0 && s.transfers.iter().any(|t| t.start_ns >= 1_000_000_000);
    let staircase = observed.scenarios.iter().position(is_staircase);
    let together = Observed {
        idle_pings: observed.idle_pings.clone(),
        scenarios: observed.scenarios.iter().filter(|s| !is_staircase(s)).cloned().collect(),
    };
    let summary = summary(&together);
    // In virtual time there is one clock.
    let two_clocks = conditions.started_unix_s.is_some();
    let of_scenario = |scenario: &Scenario| {
        let mut found = metrics(scenario, &observed.idle_pings);
        if let Some(change) = found.one_way.as_mut().filter(|_| two_clocks) {
            change.off_ms = drift_ms(scenario, &observed.idle_pings);
        }
        found
    };
    Document {
        schema: SCHEMA,
        kind: "loadlatency".to_owned(),
        conditions,
        classic: classic_text(&together, summary.min_rtt_ns),
        overall: summary,
        metrics: observed.scenarios.iter().map(of_scenario).collect(),
        staircase: staircase.map(|place| staircase_of(place, &observed.scenarios[place])),
        observed,
    }
}

fn classic_text(observed: &Observed, min_rtt_ns: Option<u64>) -> String {
    let mut text = min_rtt_ns.map(classic::min_rtt).unwrap_or_default();
    let all: Vec<_> = observed.scenarios.iter().map(measured).collect();
    for (place, (scenario, measured)) in observed.scenarios.iter().zip(&all).enumerate() {
        let number = if scenario.number > 0 { scenario.number as usize } else { place + 1 };
        text += &classic::line(number, measured);
        text.push('\n');
    }
    if !all.is_empty() {
        text.push('\n');
        text += &classic::overall(&overall(&all));
    }
    text
}

fn staircase_of(place: usize, scenario: &Scenario) -> Staircase {
    let mut edges: Vec<u64> = scenario.transfers.iter().flat_map(|t| [t.start_ns, t.end_ns]).collect();
    edges.sort_unstable();
    // Flows of one step do not begin in the same nanosecond.
    edges.dedup_by(|next, first| *next < first.saturating_add(super::BIN_NS));
    let steps = edges.windows(2).map(|edge| step(scenario, edge[0], edge[1])).collect();
    let mut dscps: Vec<u8> = scenario.transfers.iter().map(|t| t.dscp).collect();
    dscps.sort_unstable();
    dscps.dedup();
    let rates = metrics(scenario, &[]).goodput;
    let class = |dscp: u8| {
        let sum = |direction: Direction| {
            let of = scenario
                .transfers
                .iter()
                .zip(&rates)
                .filter(|(t, _)| t.dscp == dscp && t.direction == direction);
            of.map(|(_, rate)| rate.kib_s).sum()
        };
        Class { dscp, up_kib_s: sum(Direction::Up), down_kib_s: sum(Direction::Down) }
    };
    Staircase { scenario: place, steps, classes: dscps.into_iter().map(class).collect() }
}

fn step(scenario: &Scenario, from_ns: u64, to_ns: u64) -> Step {
    let running = |direction: Direction| {
        let middle = u64::midpoint(from_ns, to_ns);
        let of = scenario.transfers.iter().filter(move |t| t.direction == direction);
        of.filter(|t| (t.start_ns..t.end_ns).contains(&middle)).count() as u32
    };
    let rate = |direction: Direction| {
        let mut bytes = 0.0;
        for transfer in scenario.transfers.iter().filter(|t| t.direction == direction) {
            for (bin, count) in (0_u64..).zip(&transfer.bins) {
                // An interval belongs to the step in which its middle lies.
                let middle = transfer.start_ns.saturating_add(bin * super::BIN_NS + super::BIN_NS / 2);
                bytes += if (from_ns..to_ns).contains(&middle) { *count as f64 } else { 0.0 };
            }
        }
        bytes / 1024.0 / ((to_ns - from_ns).max(1) as f64 / 1e9)
    };
    let pings = scenario.pings.iter().filter(|p| (from_ns..to_ns).contains(&p.t_ns));
    Step {
        from_ns,
        to_ns,
        uploads: running(Direction::Up),
        downloads: running(Direction::Down),
        up_kib_s: rate(Direction::Up),
        down_kib_s: rate(Direction::Down),
        loaded: round_trips(pings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ping, transfer};
    use crate::{Flows, Transfer};

    const SECOND: u64 = 1_000_000_000;

    /// A flow of 1000 KiB/s from `start_s` to the end.
    fn steady(direction: Direction, dscp: u8, start_s: u64) -> Transfer {
        Transfer {
            dscp,
            start_ns: start_s * SECOND,
            end_ns: 4 * SECOND,
            bytes: (4 - start_s) * 1024 * 1000,
            longest_gap_ns: SECOND / 100,
            bins: vec![102_400; (4 - start_s) as usize * 10],
            ..transfer(direction)
        }
    }

    fn scenario(number: u32, transfers: Vec<Transfer>) -> Scenario {
        let of = |direction| transfers.iter().filter(|t| t.direction == direction).count() as u32;
        Scenario {
            number,
            flows: Flows { uploads: of(Direction::Up), downloads: of(Direction::Down) },
            duration_ns: 4 * SECOND,
            pings: (0..40).map(|k| ping(k * SECOND / 10, SECOND / 50)).collect(),
            transfers,
            ..Scenario::default()
        }
    }

    #[test]
    fn the_classic_output_is_whole() {
        let one = scenario(1, vec![steady(Direction::Down, 0, 0)]);
        let found = document(
            Observed { idle_pings: vec![ping(0, 1_290_000)], scenarios: vec![one] },
            Conditions::default(),
        );
        assert_eq!(
            found.classic,
            "MinRTT: 1.2ms\nScenario 1: 0 uploads, 1 downloads... 1000 KiB/s down, 100.00 Hz smoothness\n\n\
             OVERALL:\n    Upload Capacity: 0 KiB/s\n  Download Capacity: 1000 KiB/s\n\
             Link Responsiveness: 50 Hz\n    Flow Smoothness: 100 Hz\n"
        );
        assert_eq!(found.staircase, None);
        let text = serde_json::to_string(&found).expect("JSON");
        assert_eq!(serde_json::from_str::<Document>(&text).expect("a document"), found);
    }

    #[test]
    fn a_staircase_is_told_step_by_step() {
        let pairs = |dscp, start| [steady(Direction::Up, dscp, start), steady(Direction::Down, dscp, start)];
        let climbing = scenario(0, [pairs(0, 0), pairs(8, 2)].concat());
        let found =
            document(Observed { idle_pings: Vec::new(), scenarios: vec![climbing] }, Conditions::default());
        let stairs = found.staircase.expect("a staircase");
        let counts: Vec<_> = stairs.steps.iter().map(|s| (s.uploads, s.downloads, s.up_kib_s)).collect();
        assert_eq!(counts, [(1, 1, 1000.0), (2, 2, 2000.0)]);
        assert_eq!(stairs.steps[0].loaded.expect("pings").count, 20);
        assert_eq!(
            stairs.classes.iter().map(|c| (c.dscp, c.down_kib_s)).collect::<Vec<_>>(),
            [(0, 1000.0), (8, 1000.0)]
        );
        assert_eq!(found.overall.upload_capacity_kib_s, None, "no part of the classic metrics");
    }
}
