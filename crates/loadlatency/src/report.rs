//! Today's metrics as text, printed under the classic output.

use std::fmt::Write as _;

use measure::{Direction, Document, Latency, Metrics, OneWayChange, Scenario, Transfer};

/// A table with a line per scenario, what the run comes to, and what both ends said of themselves.
pub fn text(document: &Document) -> String {
    let mut text = String::new();
    if document.metrics.is_empty() {
        return text;
    }
    text += "            round trip, ms                  one way, ms more  round trips  Jain         bufferbloat\n";
    text += "scenario    idle    p50    p95    p99    max   up p95  down p95  per minute     up   down      ms  grade\n";
    for (scenario, metrics) in document.observed.scenarios.iter().zip(&document.metrics) {
        text += &line(scenario, metrics);
    }
    let off = document.metrics.iter().filter_map(|f| f.one_way.as_ref()?.off_ms).reduce(f64::max);
    if let Some(off_ms) = off {
        let _ = writeln!(text, "\none way: off by {off_ms:.1} ms at most, as two clocks drift apart");
    }
    let overall = &document.overall;
    if let (Some(idle), Some(loaded)) = (overall.idle, overall.loaded) {
        let _ = writeln!(text, "\nidle    {}", latencies(&idle));
        let _ = writeln!(text, "loaded  {}", latencies(&loaded));
    }
    if let Some(rpm) = overall.rpm {
        let _ = writeln!(
            text,
            "round trips per minute (draft-ietf-ippm-responsiveness-08, TCP only): {rpm:.0}, the lowest"
        );
    }
    if let Some(bloat) = &overall.bufferbloat {
        let _ =
            writeln!(text, "bufferbloat: {:.1} ms more under load, grade {}", bloat.increase_ms, bloat.grade);
    }
    if let Some(stairs) = &document.staircase {
        text += "\nstaircase, KiB/s and ms\nuploads  downloads        up      down   RTT p50   RTT p95\n";
        for step in &stairs.steps {
            let rtt = |of: fn(&Latency) -> f64| number(step.loaded.as_ref().map(of), 1, 10);
            let (p50, p95) = (rtt(|l| l.p50_ms), rtt(|l| l.p95_ms));
            let counts = format!("{:>7}  {:>9}", step.uploads, step.downloads);
            let _ = writeln!(text, "{counts}{:>10.0}{:>10.0}{p50}{p95}", step.up_kib_s, step.down_kib_s);
        }
        text += "by code point\n";
        for class in &stairs.classes {
            let _ = writeln!(text, "{:>7}{:>21.0}{:>10.0}", class.dscp, class.up_kib_s, class.down_kib_s);
        }
    }
    text + &ends(document)
}

fn line(scenario: &Scenario, metrics: &Metrics) -> String {
    let rtt = |of: fn(&Latency) -> f64| number(metrics.loaded.as_ref().map(of), 1, 7);
    let way = |of: fn(&OneWayChange) -> f64| metrics.one_way.as_ref().map(of);
    let mix = format!("{},{}", scenario.flows.uploads, scenario.flows.downloads);
    let mut text = format!("{mix:<8}{}", number(metrics.idle.as_ref().map(|l| l.p50_ms), 1, 8));
    text += &[rtt(|l| l.p50_ms), rtt(|l| l.p95_ms), rtt(|l| l.p99_ms), rtt(|l| l.max_ms)].concat();
    text += &number(way(|w| w.up.p95_ms), 1, 9);
    text += &number(way(|w| w.down.p95_ms), 1, 10);
    text += &number(metrics.rpm.map(|r| r.rpm), 0, 12);
    text += &number(metrics.jain_up, 3, 7);
    text += &number(metrics.jain_down, 3, 7);
    let bloat = metrics.bufferbloat.as_ref();
    text += &number(bloat.map(|b| b.increase_ms), 1, 8);
    text + "  " + bloat.map_or("", |b| &b.grade) + "\n"
}

fn latencies(of: &Latency) -> String {
    format!(
        "min {:.1}  mean {:.1}  p50 {:.1}  p90 {:.1}  p95 {:.1}  p99 {:.1}  max {:.1} ms of {}",
        of.min_ms, of.mean_ms, of.p50_ms, of.p90_ms, of.p95_ms, of.p99_ms, of.max_ms, of.count
    )
}

/// A missing metric is blank.
fn number(value: Option<f64>, decimals: usize, width: usize) -> String {
    value.map_or_else(|| " ".repeat(width), |value| format!("{value:>width$.decimals$}"))
}

/// Congestion controls of what each end sent (of one that only received, what it would have sent with) and ECN; all that
/// occur, if flows differ.
fn ends(document: &Document) -> String {
    let transfers = || document.observed.scenarios.iter().flat_map(|s| &s.transfers);
    let all = |of: &dyn Fn(&Transfer) -> Option<String>| {
        let mut found: Vec<String> = transfers().filter_map(of).collect();
        found.sort_unstable();
        found.dedup();
        found.join(", ")
    };
    let control = |sends: Direction| {
        let sent = all(&|t| t.sender.cc.clone().filter(|_| t.direction == sends));
        if sent.is_empty() { all(&|t| t.receiver.cc.clone().filter(|_| t.direction != sends)) } else { sent }
    };
    let known = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
    format!(
        "\ncongestion control: client {}, server {}; ECN negotiated: {}\n",
        known(control(Direction::Up)),
        known(control(Direction::Down)),
        known(all(&|t| t.sender.ecn.map(|on| if on { "yes" } else { "no" }.to_owned()))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Conditions, End, Flows, Observed, document, fixtures};

    #[test]
    fn a_scenario_is_a_line_and_missing_figures_are_blank() {
        let end = |cc: &str| End { cc: Some(cc.into()), ecn: Some(false) };
        let transfer =
            Transfer { sender: end("cubic"), receiver: end("reno"), ..fixtures::transfer(Direction::Down) };
        let ping = |t_ns, rtt_ms: u64| fixtures::ping(t_ns, rtt_ms * 1_000_000);
        let scenario = Scenario {
            number: 1,
            flows: Flows { uploads: 0, downloads: 1 },
            duration_ns: 10_000_000_000,
            transfers: vec![transfer],
            idle_pings: vec![ping(0, 10)],
            pings: vec![ping(0, 50), ping(1, 70)],
            ..Scenario::default()
        };
        let observed = Observed { idle_pings: vec![ping(0, 10)], scenarios: vec![scenario] };
        let text = text(&document(observed, Conditions::default()));
        let line = text.lines().find(|line| line.starts_with("0,1 ")).expect("the scenario");
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>(),
            ["0,1", "10.0", "50.0", "70.0", "70.0", "70.0", "50.0", "B"]
        );
        assert!(text.contains("congestion control: client reno, server cubic; ECN negotiated: no"), "{text}");
        assert!(!text.contains("per minute (draft"), "not measured");
        assert!(!text.contains("one way: off by"), "no clocks are known");
    }
}
