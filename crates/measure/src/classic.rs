//! The classic output, line for line: writing it, and reading it back.

use std::fmt::Write as _;

use super::{Flows, Measured, Overall};

/// The line above the scenarios, with its end: the smallest round trip of the idle link, in ms rounded down to a tenth.
pub fn min_rtt(ns: u64) -> String {
    format!("MinRTT: {}.{}ms\n", ns / 1_000_000, ns / 100_000 % 10)
}

/// The line of scenario `number`, counted from 1.
pub fn line(number: usize, scenario: &Measured) -> String {
    line_head(number, scenario.flows) + &line_tail(scenario)
}

/// Text printed while a scenario runs.
pub fn line_head(number: usize, Flows { uploads, downloads }: Flows) -> String {
    format!("Scenario {number}: {uploads} uploads, {downloads} downloads...")
}

/// Text that follows when the scenario has ended.
pub fn line_tail(scenario: &Measured) -> String {
    let mut text = String::new();
    for (rate, direction) in [(scenario.up, "up"), (scenario.down, "down")] {
        if let Some(rate) = rate {
            let _ = write!(text, " {} KiB/s {direction},", rate.floor());
        }
    }
    let _ = write!(text, " {:.2} Hz smoothness", scenario.smoothness);
    text
}

/// The block under the scenarios. Metrics are rounded down; a responsiveness that was not measured is printed as 0.
pub fn overall(metrics: &Overall) -> String {
    format!(
        "OVERALL:\n    Upload Capacity: {} KiB/s\n  Download Capacity: {} KiB/s\nLink Responsiveness: {} Hz\n    Flow Smoothness: {} Hz\n",
        metrics.upload_capacity.floor(),
        metrics.download_capacity.floor(),
        metrics.responsiveness.unwrap_or(0.0).floor(),
        metrics.smoothness.floor(),
    )
}

/// A line that is no scenario's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a scenario: {0:?}")]
pub struct NotAScenario(String);

/// Reads a scenario's line. A printed rate of n stands for one from n up to n + 1, as rates are rounded down: its middle
/// is taken, so that the metrics of all scenarios are not rounded down twice. A printed 0 is a 0.
///
/// # Errors
/// What was not understood.
pub fn parse(line: &str) -> Result<(usize, Measured), NotAScenario> {
    let unreadable = || NotAScenario(line.to_owned());
    let (head, metrics) = line.trim_end().split_once("...").ok_or_else(unreadable)?;
    let (number, mix) =
        head.strip_prefix("Scenario ").and_then(|h| h.split_once(": ")).ok_or_else(unreadable)?;
    let (uploads, downloads) = mix.split_once(", ").ok_or_else(unreadable)?;
    let count =
        |text: &str, what: &str| text.strip_suffix(what).and_then(|n| n.parse().ok()).ok_or_else(unreadable);
    let mut scenario = Measured {
        flows: Flows { uploads: count(uploads, " uploads")?, downloads: count(downloads, " downloads")? },
        up: None,
        down: None,
        smoothness: f64::NAN,
        responsiveness: None,
    };
    for metric in metrics.split(", ") {
        let metric = metric.trim();
        let value = |unit: &str| metric.strip_suffix(unit).and_then(|n| n.parse::<f64>().ok());
        if let Some(rate) = value(" KiB/s up") {
            scenario.up = Some(middle(rate));
        } else if let Some(rate) = value(" KiB/s down") {
            scenario.down = Some(middle(rate));
        } else if let Some(hertz) = value(" Hz smoothness") {
            scenario.smoothness = hertz;
        } else {
            return Err(unreadable());
        }
    }
    if scenario.smoothness.is_nan() {
        return Err(unreadable());
    }
    Ok((number.parse().map_err(|_| unreadable())?, scenario))
}

fn middle(printed: f64) -> f64 {
    if printed > 0.0 { printed + 0.5 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCENARIOS;

    /// The published run: nineteen lines and what was printed under them.
    fn published() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../groundtruth/loadlatency-2011.txt");
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn the_published_scenarios_give_what_was_printed_under_them() {
        let text = published();
        let scenarios: Vec<Measured> = text
            .lines()
            .filter(|line| line.starts_with("Scenario"))
            .map(|line| parse(line).expect("a scenario").1)
            .collect();
        assert_eq!(scenarios.iter().map(|s| s.flows).collect::<Vec<_>>(), SCENARIOS);
        let printed = &text[text.find("OVERALL:").expect("the metrics of all")..];
        assert_eq!(overall(&crate::overall(&scenarios)).trim_end(), printed.trim_end());
    }

    #[test]
    fn a_line_reads_back_as_itself() {
        for line in published().lines().filter(|line| line.starts_with("Scenario")) {
            let (number, scenario) = parse(line).expect("a scenario");
            assert_eq!(super::line(number, &scenario), line.trim_end());
        }
    }

    #[test]
    fn anything_else_is_refused_in_one_line() {
        for text in [
            "",
            "Scenario",
            "Scenario x: 1 uploads, 0 downloads... 1.00 Hz smoothness",
            "Scenario 1: 1 uploads, 0 downloads... 5 KiB/s sideways",
        ] {
            let error = parse(text).expect_err("not a scenario").to_string();
            assert_eq!(error.lines().count(), 1);
        }
    }
}
