//! Scenarios that parse but that no path can be made of are refused in one line, by the engine and for the emulator.

use contract::scenario::{Change, Egress, IngressStage, Scenario};
use path::{FqCodelConfig, JitterConfig, JitterKind, LossConfig, PfifoConfig, QueueConfig};
use sim::Simulation;

use crate::support;

/// The line that refuses a dumbbell so changed.
fn refusal(change: impl FnOnce(&mut Scenario)) -> String {
    let mut scenario = support::dumbbell("linux-6.8", "cubic", 10_000_000, 20 * support::MS, 100, 1);
    change(&mut scenario);
    let line = contract::check_links(&scenario).expect_err("the emulator would fail").to_string();
    let engine =
        Simulation::from_scenario(scenario, 0, false).map(|_| ()).expect_err("the engine would fail");
    assert_eq!(engine.to_string(), line);
    line
}

#[test]
fn a_good_scenario_is_not_refused() {
    let mut scenario = support::dumbbell("linux-6.8", "cubic", 10_000_000, 20 * support::MS, 100, 1);
    scenario.hosts[0].egress = Some(egress());
    scenario.hosts[0].ingress.before_gro = Some(stage(nth(1)));
    scenario.schedule.push(change(QueueConfig::Pfifo(PfifoConfig { limit_packets: 10 })));
    assert_eq!(contract::check_links(&scenario), Ok(()));
    assert!(Simulation::from_scenario(scenario, 0, false).is_ok());
}

#[test]
fn netem_is_no_discipline_of_a_link_even_later() {
    let netem = QueueConfig::Netem { limit_packets: 1000 };
    assert_eq!(
        refusal(|s| support::link_mut(s, "r1-r2").queue = netem.clone()),
        "link r1-r2: netem is for a host's egress"
    );
    assert_eq!(refusal(|s| s.schedule.push(change(netem))), "schedule: r1-r2: netem is for a host's egress");
}

#[test]
fn jitter_of_a_table_needs_values() {
    for table in [None, Some(vec![])] {
        let jitter = Some(JitterConfig { kind: JitterKind::Table, sd_ns: 1000, reorder: false, table });
        assert_eq!(
            refusal(|s| support::link_mut(s, "r1-r2").jitter = jitter.clone()),
            "link r1-r2: jitter table: found no values; expected at least one"
        );
        assert_eq!(
            refusal(|s| s.hosts[0].egress = Some(Egress { jitter, ..egress() })),
            "host a: egress: jitter table: found no values; expected at least one"
        );
    }
}

#[test]
fn a_phase_is_of_a_link() {
    assert_eq!(
        refusal(|s| s.phase_jitter_ns = [("a-b".to_owned(), 1)].into()),
        "phase_jitter_ns: no link is called a-b"
    );
}

#[test]
fn flow_queues_are_as_many_as_linux_allows() {
    let queue = QueueConfig::FqCodel(FqCodelConfig {
        limit_packets: 10_240,
        flows: u32::MAX,
        quantum_bytes: 1514,
        target_ns: 5 * support::MS,
        interval_ns: 100 * support::MS,
        ecn: true,
        ce_threshold_ns: None,
        ce_threshold_selector: 0,
        ce_threshold_mask: 0,
        memory_limit_bytes: 32 << 20,
        drop_batch: 64,
    });
    assert_eq!(
        refusal(|s| support::link_mut(s, "r1-r2").queue = queue),
        "link r1-r2: queue flows: found 4294967295; expected 1 to 65536"
    );
}

#[test]
fn what_hosts_do_to_packets_is_checked_too() {
    assert_eq!(
        refusal(|s| s.hosts[0].egress = Some(Egress { rate_bps: Some(0), ..egress() })),
        "host a: egress.rate_bps must be above zero"
    );
    let line = "host a: loss nth needs every >= 1 and packet below every";
    assert_eq!(refusal(|s| s.hosts[0].egress = Some(Egress { loss: nth(0), ..egress() })), line);
    assert_eq!(refusal(|s| s.hosts[0].ingress.before_gro = Some(stage(nth(0)))), line);
    assert_eq!(refusal(|s| s.hosts[0].ingress.after_gro = Some(stage(nth(0)))), line);
}

fn egress() -> Egress {
    Egress {
        limit_packets: 1000,
        delay_ns: 0,
        jitter: None,
        loss: None,
        duplicate_ppb: 0,
        corrupt_ppb: 0,
        rate_bps: None,
    }
}

fn stage(loss: Option<LossConfig>) -> IngressStage {
    IngressStage { loss, duplicate_ppb: 0, corrupt_ppb: 0, dport: None, sport: None, min_payload: 0 }
}

/// The first packet of so many is lost.
fn nth(every: u32) -> Option<LossConfig> {
    Some(LossConfig::Nth { every, packet: 0, min_payload: 0, dport: None, sport: None })
}

fn change(queue: QueueConfig) -> Change {
    let link = "r1-r2".to_owned();
    Change {
        at_ns: 1,
        on: None,
        link,
        rate_bps: None,
        delay_ns: None,
        loss: None,
        queue: Some(queue),
        down: None,
    }
}

#[test]
fn buffers_are_what_setsockopt_can_be_told() {
    let refused = |sndbuf, rcvbuf| {
        let mut scenario = support::dumbbell("linux-6.8", "cubic", 10_000_000, 20 * support::MS, 100, 1);
        (scenario.flows[0].sndbuf, scenario.flows[0].rcvbuf) = (sndbuf, rcvbuf);
        Simulation::from_scenario(scenario, 0, false).err().map(|error| error.to_string())
    };
    let line = |key, bytes: u64| {
        format!(
            "flow f1: {key} must be from 1 to 2147483647 bytes, as setsockopt takes an int; found {bytes}"
        )
    };
    assert_eq!(refused(Some(i32::MAX as u64), Some(1)), None);
    assert_eq!(refused(Some(1 << 31), None), Some(line("sndbuf", 1 << 31)));
    assert_eq!(refused(None, Some(0)), Some(line("rcvbuf", 0)));
}

#[test]
fn accurate_ecn_is_for_stacks_that_have_it() {
    let mut scenario = support::dumbbell("linux-6.8", "cubic", 10_000_000, 20 * support::MS, 100, 1);
    scenario.hosts[0].ecn = contract::scenario::Ecn::Accurate;
    let refused = Simulation::from_scenario(scenario, 0, false).map(|_| ()).expect_err("refused").to_string();
    assert_eq!(
        refused,
        "host a: ecn: found accurate; expected off, accept or on, as linux-6.8 has no Accurate ECN"
    );
}
