//! Twenty-one seeded scenarios and the hash of every series they leave: results change on purpose or not at all.
//!
//! `CWNDLAB_UPDATE_GOLDEN=1 cargo test --profile ci -p sim --test runs golden` writes golden.txt again; say in the commit why
//! its lines changed.

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{
    MS, SECOND, attach, bottleneck, bulk, carry_out, dumbbell, host, link_mut, random_loss, run,
};
use path::{LossConfig, QueueConfig};
use sha2::{Digest, Sha256};
use sim::Scenario;
use sim::scenario::{App, Ecn, Flow, LoadPart, Node, Sampling};
use sim::table::{Batch, ColumnData};

const MBPS: u64 = 1_000_000;

/// The scenarios by name.
fn scenarios() -> Vec<(&'static str, Scenario)> {
    let mut all = Vec::new();
    for (name, stack, cc) in [
        ("freebsd-9.2-newreno", "freebsd-9.2", "newreno"),
        ("freebsd-9.2-cubic", "freebsd-9.2", "cubic"),
        ("freebsd-11-newreno", "freebsd-11", "newreno"),
        ("freebsd-13-newreno", "freebsd-13", "newreno"),
        ("freebsd-13-cubic", "freebsd-13", "cubic"),
        ("linux-3.9-reno", "linux-3.9", "reno"),
        ("linux-3.9-cubic", "linux-3.9", "cubic"),
        ("linux-6.8-reno", "linux-6.8", "reno"),
        ("linux-6.8-cubic", "linux-6.8", "cubic"),
        ("linux-6.18-cubic", "linux-6.18", "cubic"),
    ] {
        all.push((name, dumbbell(stack, cc, 10 * MBPS, 40 * MS, 50, 12)));
    }
    all.push(("no-queue-to-speak-of", dumbbell("freebsd-13", "newreno", 100 * MBPS, 10 * MS, 2, 4)));
    all.push(("gigabit", dumbbell("linux-6.8", "cubic", 1000 * MBPS, 20 * MS, 83, 3)));
    all.push(("random-loss", {
        let mut s = dumbbell("freebsd-9.2", "newreno", 20 * MBPS, 30 * MS, 100, 8);
        link_mut(&mut s, "r1-r2").loss = random_loss(10_000_000);
        s
    }));
    all.push(("gilbert-loss-both-ways", {
        let mut s = dumbbell("linux-3.9", "cubic", 20 * MBPS, 30 * MS, 100, 8);
        let loss = LossConfig::Gilbert {
            p_ppb: 2_000_000,
            r_ppb: 300_000_000,
            loss_bad_ppb: 700_000_000,
            loss_good_ppb: 0,
        };
        link_mut(&mut s, "r1-r2").loss = Some(loss);
        link_mut(&mut s, "r1-r2.reverse").loss = random_loss(20_000_000);
        s
    }));
    all.push(("codel", {
        let mut s = dumbbell("linux-6.8", "reno", 10 * MBPS, 40 * MS, 1000, 10);
        link_mut(&mut s, "r1-r2").queue = QueueConfig::Codel {
            limit_packets: 1000,
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            ecn: false,
            ce_threshold_ns: None,
        };
        s
    }));
    all.push(("codel-with-ecn", {
        let mut s = dumbbell("linux-6.8", "cubic", 10 * MBPS, 40 * MS, 1000, 10);
        s.hosts.iter_mut().for_each(|host| host.ecn = Ecn::On);
        link_mut(&mut s, "r1-r2").queue = QueueConfig::Codel {
            limit_packets: 1000,
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            ecn: true,
            ce_threshold_ns: None,
        };
        s
    }));
    all.push(("two-flows-per-ack", {
        let mut s = dumbbell("freebsd-13", "cubic", 10 * MBPS, 40 * MS, 50, 8);
        attach(&mut s, host("c", "linux-6.8"), "r1", 1000 * MBPS);
        attach(&mut s, host("d", "linux-6.8"), "r2", 1000 * MBPS);
        s.flows.push(bulk("f2", "c", "d", "cubic"));
        s.flows[1].start_ns = 2 * SECOND;
        s.flows[1].stop_ns = Some(6 * SECOND);
        s.start_jitter_ns = 40 * MS;
        s.record.tcp = Sampling::PerAck;
        s
    }));
    all.push(("chain-of-two-bottlenecks", {
        let mut s = run(8);
        s.nodes = ["r1", "r2", "r3"].map(|name| Node { name: name.into(), switch: None }).to_vec();
        attach(&mut s, host("a", "freebsd-9.2"), "r1", 1000 * MBPS);
        attach(&mut s, host("b", "linux-3.9"), "r2", 1000 * MBPS);
        attach(&mut s, host("c", "freebsd-13"), "r3", 1000 * MBPS);
        bottleneck(&mut s, "r1", "r2", 20 * MBPS, 10 * MS, 50);
        bottleneck(&mut s, "r2", "r3", 10 * MBPS, 5 * MS, 30);
        s.flows.push(bulk("long", "a", "c", "newreno"));
        s.flows.push(bulk("short", "b", "c", "cubic"));
        s
    }));
    all.push(("finite-transfer", {
        let mut s = dumbbell("freebsd-9.2", "cubic", 10 * MBPS, 40 * MS, 50, 10);
        s.flows[0].app = App::Bulk { bytes: Some(3_000_000), write_bytes: 65_536 };
        s
    }));
    all.push(("autotuned-buffers-duplicates-damage", {
        let mut s = dumbbell("freebsd-13", "newreno", 50 * MBPS, 60 * MS, 200, 6);
        s.flows[0].sndbuf = None;
        s.flows[0].rcvbuf = None;
        let link = link_mut(&mut s, "r1-r2");
        link.duplicate_ppb = 5_000_000;
        link.corrupt_ppb = 1_000_000;
        s
    }));
    all.push(("loadlatency", loaded()));
    all
}

/// Scenario 4 of the loadlatency tool: an upload and a download after a second with the pinger alone.
fn loaded() -> Scenario {
    let mut s = dumbbell("linux-6.18", "cubic", 10 * MBPS, 40 * MS, 50, 5);
    s.hosts[1] = host("b", "freebsd-13");
    s.flows.clear();
    for (name, from, to, cc, part) in [
        ("ll", "a", "b", "cubic", LoadPart::Pinger),
        ("ll.up1", "a", "b", "cubic", LoadPart::Upload),
        ("ll.down1", "b", "a", "newreno", LoadPart::Download),
    ] {
        let app = App::Loadlatency {
            group: "ll".into(),
            scenario: 4,
            part,
            write_bytes: 131_072,
            ping_bytes: 16,
            interval_ns: 20 * MS,
        };
        let start_ns = if part == LoadPart::Pinger { 0 } else { SECOND };
        s.flows.push(Flow { app, start_ns, ..bulk(name, from, to, cc) });
    }
    s
}

#[test]
fn every_series_is_what_it_was() {
    let scenarios = scenarios();
    assert_eq!(scenarios.len(), 21);
    let mut lines = String::new();
    for (name, scenario) in &scenarios {
        let outcome = carry_out(scenario, false);
        for table in ["tcp", "queue", "events", "samples"] {
            let batches = outcome.tables.get(table).map_or(&[][..], Vec::as_slice);
            let rows: usize = batches.iter().map(|batch| batch.rows).sum();
            writeln!(lines, "{name} {table} {rows} {}", hash(batches)).expect("a string takes everything");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/golden.txt");
    if std::env::var_os("CWNDLAB_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &lines).expect("golden.txt can be written");
    }
    let golden = std::fs::read_to_string(&path).expect("golden.txt is there");
    let changed: Vec<String> = golden
        .lines()
        .zip(lines.lines())
        .filter(|(old, new)| old != new)
        .map(|(old, new)| format!("- {old}\n+ {new}"))
        .collect();
    assert!(
        changed.is_empty() && golden.lines().count() == lines.lines().count(),
        "{} of {} series changed; if that is meant, see the head of golden.rs\n{}",
        changed.len(),
        golden.lines().count(),
        changed.join("\n")
    );
}

#[test]
fn fused_hops_change_nothing_that_a_pinger_sees() {
    let scenario = loaded();
    let (fused, stepped) = (carry_out(&scenario, false), carry_out(&scenario, true));
    for table in ["tcp", "samples"] {
        assert_eq!(hash(&fused.tables[table]), hash(&stepped.tables[table]), "{table}");
    }
}

#[test]
fn another_seed_or_repeat_gives_another_run() {
    let mut scenario = dumbbell("freebsd-13", "newreno", 10 * MBPS, 40 * MS, 50, 4);
    scenario.start_jitter_ns = 40 * MS;
    let of = |scenario: &Scenario| hash(&carry_out(scenario, false).tables["tcp"]);
    let first = of(&scenario);
    assert_eq!(first, of(&scenario), "the same seed gives the same run");
    scenario.repeat = 1;
    let repeated = of(&scenario);
    assert_ne!(first, repeated);
    scenario.repeat = 0;
    scenario.seed = 2;
    assert_ne!(first, of(&scenario));
}

/// SHA-256 over the columns in order: names, values, which are null. Independent of where batches were cut.
fn hash(batches: &[Batch]) -> String {
    let mut sha = Sha256::new();
    let columns = batches.first().map_or(0, |batch| batch.columns.len());
    for index in 0..columns {
        sha.update(batches[0].columns[index].name.as_bytes());
        for batch in batches {
            let column = &batch.columns[index];
            for row in 0..batch.rows {
                let valid = column.validity.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1);
                sha.update([u8::from(valid)]);
                match &column.data {
                    ColumnData::U32(values) => sha.update(values[row].to_le_bytes()),
                    ColumnData::U64(values) => sha.update(values[row].to_le_bytes()),
                    ColumnData::I64(values) => sha.update(values[row].to_le_bytes()),
                    ColumnData::Dict { indices, values } => {
                        let name = if valid { values[indices[row] as usize].as_str() } else { "" };
                        sha.update(name.as_bytes());
                        sha.update([0]);
                    }
                }
            }
        }
    }
    sha.finalize().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
