//! Scenarios for tests, in a few words each.

use std::collections::BTreeMap;

use contract::scenario::{
    App, Ecn, Flow, Host, Ingress, IpVersion, Link, Measure, Nic, Node, Record, Sampling, Scenario, VERSION,
    WhenFull,
};
use contract::table::{Batch, ColumnData};
use path::{LossConfig, PfifoConfig, QueueConfig};
use sim::Simulation;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// An empty run of so many seconds, recorded every 10 ms.
pub(crate) fn run(seconds: u64) -> Scenario {
    Scenario {
        version: VERSION,
        experiment: "test".into(),
        seed: 1,
        repeat: 0,
        duration_ns: seconds * SECOND,
        start_jitter_ns: 0,
        phase_jitter_ns: BTreeMap::new(),
        measure: Measure { from_ns: 0, to_ns: seconds * SECOND, time_to_bps: None },
        record: Record {
            tcp: Sampling::Interval { interval_ns: 10 * MS },
            queue: Sampling::Interval { interval_ns: 10 * MS },
            pcap: vec![],
        },
        hosts: vec![],
        nodes: vec![],
        links: vec![],
        flows: vec![],
        schedule: vec![],
    }
}

pub(crate) fn host(name: &str, stack: &str) -> Host {
    Host {
        name: name.into(),
        stack: stack.into(),
        hz: 1000,
        ip: IpVersion::Ipv4,
        mss: 1460,
        ecn: Ecn::Off,
        sysctl: BTreeMap::new(),
        nic: Nic {
            tx_queue: 1000,
            full: WhenFull::Enobufs,
            tso: false,
            tso_max: None,
            gro: false,
            lro: false,
            coalesce: None,
            veth: false,
        },
        ack_every: None,
        cheats: None,
        noise: None,
        egress: None,
        ingress: Ingress::default(),
    }
}

pub(crate) fn link(
    name: &str,
    from: &str,
    to: &str,
    rate_bps: Option<u64>,
    delay_ns: u64,
    limit_packets: u32,
) -> Link {
    Link {
        name: name.into(),
        from: from.into(),
        to: to.into(),
        rate_bps,
        delay_ns,
        queue: QueueConfig::Pfifo(PfifoConfig { limit_packets }),
        loss: None,
        duplicate_ppb: 0,
        corrupt_ppb: 0,
        jitter: None,
        shaper: None,
        mtu: 1500,
        black_hole: false,
        delay_first: false,
        overhead: 14,
        observe: false,
        bottleneck: false,
    }
}

pub(crate) fn bulk(name: &str, from: &str, to: &str, cc: &str) -> Flow {
    Flow {
        name: name.into(),
        from: from.into(),
        to: to.into(),
        app: App::Bulk { bytes: None, write_bytes: 131_072 },
        start_ns: 0,
        stop_ns: None,
        cc: cc.into(),
        cc_params: None,
        sndbuf: Some(4 << 20),
        rcvbuf: Some(4 << 20),
    }
}

/// A bottleneck between two routers, in both directions.
pub(crate) fn bottleneck(
    scenario: &mut Scenario,
    left: &str,
    right: &str,
    rate_bps: u64,
    delay_ns: u64,
    limit: u32,
) {
    let name = format!("{left}-{right}");
    let mut forth = link(&name, left, right, Some(rate_bps), delay_ns, limit);
    forth.observe = true;
    forth.bottleneck = true;
    scenario.links.push(forth);
    scenario.links.push(link(&format!("{name}.reverse"), right, left, Some(rate_bps), delay_ns, 1000));
}

/// A host and its cable to a router.
pub(crate) fn attach(scenario: &mut Scenario, host: Host, router: &str, rate_bps: u64) {
    let name = host.name.clone();
    scenario.links.push(link(&format!("{name}-{router}"), &name, router, Some(rate_bps), 0, 1000));
    scenario.links.push(link(&format!("{router}-{name}"), router, &name, Some(rate_bps), 0, 1000));
    scenario.hosts.push(host);
}

/// Scenario of one sender, one receiver, one bottleneck; access at 10 Gbps.
pub(crate) fn dumbbell(
    stack: &str,
    cc: &str,
    rate_bps: u64,
    rtt_ns: u64,
    limit: u32,
    seconds: u64,
) -> Scenario {
    let mut s = run(seconds);
    s.nodes = vec![Node { name: "r1".into(), switch: None }, Node { name: "r2".into(), switch: None }];
    attach(&mut s, host("a", stack), "r1", 10_000_000_000);
    attach(&mut s, host("b", stack), "r2", 10_000_000_000);
    bottleneck(&mut s, "r1", "r2", rate_bps, rtt_ns / 2, limit);
    s.flows.push(bulk("f1", "a", "b", cc));
    s
}

/// The link called `name`.
pub(crate) fn link_mut<'a>(scenario: &'a mut Scenario, name: &str) -> &'a mut Link {
    scenario.links.iter_mut().find(|l| l.name == name).expect("a link of this name")
}

/// Independent loss of data packets.
pub(crate) fn random_loss(probability_ppb: u32) -> Option<LossConfig> {
    Some(LossConfig::Random { probability_ppb })
}

/// Everything a run leaves behind.
#[derive(Default)]
pub(crate) struct Outcome {
    pub tables: BTreeMap<&'static str, Vec<Batch>>,
    pub captures: BTreeMap<String, Vec<u8>>,
    pub summary: serde_json::Value,
}

impl Outcome {
    /// Takes what the run has finished.
    pub(crate) fn add(&mut self, run: &mut Simulation) {
        for (table, batch) in run.take() {
            self.tables.entry(table).or_default().push(batch);
        }
        for (point, bytes) in run.captures() {
            self.captures.entry(point).or_default().extend(bytes);
        }
    }

    /// The summary but for the number of events, which depends on how hops are carried out.
    pub(crate) fn metrics(&self) -> serde_json::Value {
        let mut summary = self.summary.clone();
        summary["events"] = 0.into();
        summary
    }
}

pub(crate) fn carry_out(scenario: &Scenario, force_stepped: bool) -> Outcome {
    finish(Simulation::from_scenario(scenario.clone(), 7, force_stepped).expect("the engine takes it"))
}

/// Carries a run out to its end.
pub(crate) fn finish(mut run: Simulation) -> Outcome {
    let mut outcome = Outcome::default();
    let mut over = false;
    while !over {
        over = run.advance(10_000);
        outcome.add(&mut run);
    }
    outcome.summary = serde_json::from_str(&run.summary()).expect("the summary is JSON");
    outcome
}

/// Difference between two runs of a scenario. None if there is none. The number of events that the engine needed
/// does not matter.
pub(crate) fn difference(one: &Outcome, other: &Outcome) -> Option<String> {
    for table in ["tcp", "queue", "events", "samples"] {
        if one.tables.get(table) != other.tables.get(table) {
            return Some(format!("table {table}"));
        }
    }
    if one.captures != other.captures {
        return Some("captures".into());
    }
    if one.metrics() != other.metrics() {
        return Some("summary".into());
    }
    one.tables.is_empty().then(|| "nothing recorded".into())
}

/// The values of an integer column over all batches; nulls as None.
pub(crate) fn column(batches: &[Batch], name: &str) -> Vec<Option<i64>> {
    let mut all = Vec::new();
    for batch in batches {
        let column = batch.columns.iter().find(|c| c.name == name).expect("a column of this name");
        let valid = |row: usize| column.validity.as_ref().is_none_or(|v| v[row / 8] >> (row % 8) & 1 == 1);
        for row in 0..batch.rows {
            let value = match &column.data {
                ColumnData::U32(v) => i64::from(v[row]),
                ColumnData::U64(v) => v[row] as i64,
                ColumnData::I64(v) => v[row],
                ColumnData::Dict { indices, .. } => i64::from(indices[row]),
            };
            all.push(valid(row).then_some(value));
        }
    }
    all
}
