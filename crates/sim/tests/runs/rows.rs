//! The golden scenarios, and what is noted of a run. Used by the tests, and on WebAssembly (examples/golden.rs).

use std::fmt::Write as _;

use crate::kinds::{accurate_ecn, app, kinds, loss, losses, queue_variants, stacks};
use crate::support::{
    MS, SECOND, attach, bottleneck, bulk, carry_out, dumbbell, host, link_mut, random_loss, run,
};
use contract::Scenario;
use contract::scenario::{
    App, Capture, Change, Cheat, Coalesce, Ecn, EcnField, Egress, Flow, Host, IngressStage, Link, LoadPart,
    Node, Noise, Occasion, Processing, Sampling, Stall, WhenFull,
};
use contract::table::{Batch, ColumnData};
use path::{
    CodelConfig, JitterConfig, JitterKind, LossConfig, PauseConfig, PeakConfig, PfifoConfig, QueueConfig,
    ShaperConfig, SwitchConfig,
};
use sha2::{Digest, Sha256};

const MBPS: u64 = 1_000_000;

/// Every golden scenario by name: those with a story, then one for each thing that the catalogue names.
pub(crate) fn rows() -> Vec<(String, Scenario)> {
    let mut all: Vec<_> = stories().into_iter().map(|(name, scenario)| (name.to_owned(), scenario)).collect();
    all.extend(stacks().iter().map(|(stack, cc)| (format!("stack:{stack}:{cc}"), two_way(stack, cc))));
    let mut each: Vec<String> = stacks().into_iter().map(|(stack, _)| stack).collect();
    each.dedup();
    for stack in &each {
        all.push((format!("ecn:{stack}"), with_ecn(stack)));
        all.push((format!("offloads:{stack}"), with_offloads(stack)));
    }
    for stack in each.iter().filter(|stack| accurate_ecn(stack)) {
        all.push((format!("accurate-ecn:{stack}"), with_accurate_ecn(stack, false)));
        all.push((format!("accurate-ecn-offloads:{stack}"), with_accurate_ecn(stack, true)));
    }
    for kind in kinds("queues") {
        for (name, queue) in queue_variants(&kind, 60, 10 * MBPS) {
            all.push((format!("queue:{name}"), mixed(queue)));
        }
    }
    all.extend(kinds("apps").iter().map(|kind| (format!("app:{kind}"), with_app(kind))));
    all.extend(losses().iter().map(|kind| (format!("loss:{kind}"), with_loss(kind))));
    all.extend(links().into_iter().map(|(name, scenario)| (format!("link:{name}"), scenario)));
    all.extend(hosts().into_iter().map(|(name, scenario)| (format!("host:{name}"), scenario)));
    all.extend(changes().into_iter().map(|(name, change)| (format!("schedule:{name}"), scheduled(change))));
    all.push(("schedule:on".to_owned(), scheduled_with_an_event()));
    all
}

/// Scenarios with a story, longer than the others.
fn stories() -> Vec<(&'static str, Scenario)> {
    [plain_dumbbells(), losses_and_codel(), other_stories()].concat()
}

/// Scenarios of one flow through a bottleneck with a FIFO.
fn plain_dumbbells() -> Vec<(&'static str, Scenario)> {
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
    all
}

fn losses_and_codel() -> Vec<(&'static str, Scenario)> {
    let mut all = Vec::new();
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
        link_mut(&mut s, "r1-r2").queue = QueueConfig::Codel(CodelConfig {
            limit_packets: 1000,
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            ecn: false,
            ce_threshold_ns: None,
        });
        s
    }));
    all.push(("codel-with-ecn", {
        let mut s = dumbbell("linux-6.8", "cubic", 10 * MBPS, 40 * MS, 1000, 10);
        s.hosts.iter_mut().for_each(|host| host.ecn = Ecn::On);
        link_mut(&mut s, "r1-r2").queue = QueueConfig::Codel(CodelConfig {
            limit_packets: 1000,
            target_ns: 5 * MS,
            interval_ns: 100 * MS,
            ecn: true,
            ce_threshold_ns: None,
        });
        s
    }));
    all
}

/// Several flows, several bottlenecks, transfers that end, damage, load.
fn other_stories() -> Vec<(&'static str, Scenario)> {
    let mut all = Vec::new();
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

/// The default congestion control of a stack.
fn default_cc(stack: &str) -> String {
    stacks().into_iter().find(|(name, _)| name == stack).expect("a stack of the catalogue").1
}

/// Two bulk transfers against each other, with losses: one with buffers that the application has set, one that finds its
/// own and comes to its end.
fn two_way(stack: &str, cc: &str) -> Scenario {
    let mut s = dumbbell(stack, cc, 20 * MBPS, 20 * MS, 30, 3);
    link_mut(&mut s, "r1-r2").loss = random_loss(2_000_000);
    s.flows.push(Flow {
        app: App::Bulk { bytes: Some(1_500_000), write_bytes: 16_384 },
        start_ns: 500 * MS,
        sndbuf: None,
        rcvbuf: None,
        ..bulk("f2", "b", "a", cc)
    });
    s
}

/// A marking queue that both ends understand.
fn with_ecn(stack: &str) -> Scenario {
    let mut s = dumbbell(stack, &default_cc(stack), 20 * MBPS, 20 * MS, 1000, 3);
    s.hosts.iter_mut().for_each(|host| host.ecn = Ecn::On);
    let (target_ns, interval_ns) = (5 * MS, 30 * MS);
    link_mut(&mut s, "r1-r2").queue = QueueConfig::Codel(CodelConfig {
        limit_packets: 1000,
        target_ns,
        interval_ns,
        ecn: true,
        ce_threshold_ns: None,
    });
    s
}

/// A marking queue between two ends with Accurate ECN, in packets or with offloads.
fn with_accurate_ecn(stack: &str, offloads: bool) -> Scenario {
    let mut s = if offloads { with_offloads(stack) } else { with_ecn(stack) };
    let marks = with_ecn(stack);
    link_mut(&mut s, "r1-r2").queue =
        marks.links.iter().find(|link| link.name == "r1-r2").unwrap().queue.clone();
    s.hosts.iter_mut().for_each(|host| host.ecn = Ecn::Accurate);
    s
}

/// Segmentation offload at the sender, aggregation behind moderated interrupts at the receiver.
fn with_offloads(stack: &str) -> Scenario {
    let mut s = dumbbell(stack, &default_cc(stack), 100 * MBPS, 10 * MS, 60, 2);
    for host in &mut s.hosts {
        (host.nic.tso, host.nic.gro, host.nic.lro) = (true, true, true);
        host.nic.coalesce = Some(coalesce());
    }
    s
}

fn coalesce() -> Coalesce {
    Coalesce { time_ns: 300_000, frames: 20, gro_flush_timeout_ns: 0, napi_defer_hard_irqs: 0 }
}

/// A queue with the flows that disciplines tell apart: of two systems, one with ECN; datagrams that answer to nothing, and
/// a few that want to be quick.
fn mixed(queue: QueueConfig) -> Scenario {
    let mut s = dumbbell("linux-6.8", "cubic", 10 * MBPS, 20 * MS, 60, 4);
    s.hosts.iter_mut().for_each(|host| host.ecn = Ecn::On);
    attach(&mut s, host("c", "freebsd-13"), "r1", 1000 * MBPS);
    attach(&mut s, host("d", "freebsd-13"), "r2", 1000 * MBPS);
    let cbr = App::UdpCbr { rate_bps: 2_000_000, payload_bytes: 1000, ecn: EcnField::Ect1 };
    s.flows.push(bulk("f2", "c", "d", "newreno"));
    s.flows.push(Flow {
        app: cbr,
        start_ns: SECOND,
        stop_ns: Some(3 * SECOND),
        ..bulk("cbr", "a", "d", "cubic")
    });
    let voip = App::Voip { frame_ns: 20 * MS, payload_bytes: 172, ecn: EcnField::Off };
    s.flows.push(Flow { app: voip, ..bulk("voip", "c", "b", "newreno") });
    link_mut(&mut s, "r1-r2").queue = queue;
    s
}

/// An application beside a bulk transfer, between different systems.
fn with_app(kind: &str) -> Scenario {
    let mut s = dumbbell("linux-6.8", "cubic", 10 * MBPS, 20 * MS, 50, 3);
    s.hosts[1].stack = "freebsd-13".into();
    for (name, reversed, app) in app(kind) {
        let (from, to, cc) = if reversed { ("b", "a", "newreno") } else { ("a", "b", "cubic") };
        s.flows.push(Flow { app, start_ns: 200 * MS, ..bulk(name, from, to, cc) });
    }
    s
}

fn with_loss(kind: &str) -> Scenario {
    let mut s = dumbbell("linux-6.8", "cubic", 20 * MBPS, 20 * MS, 100, 3);
    link_mut(&mut s, "r1-r2").loss = loss(kind);
    s
}

/// The bottleneck with something else than a rate, a delay and a queue.
fn links() -> Vec<(&'static str, Scenario)> {
    let with = |change: &dyn Fn(&mut Link)| {
        let mut s = dumbbell("linux-6.8", "cubic", 20 * MBPS, 20 * MS, 60, 3);
        change(link_mut(&mut s, "r1-r2"));
        s
    };
    let jitter = |kind, reorder| {
        let table = (kind == JitterKind::Table).then(|| vec![-8192, 0, 4096, 8192]);
        with(&|link| link.jitter = Some(JitterConfig { kind, sd_ns: 2 * MS, reorder, table: table.clone() }))
    };
    let shaped = |shaper: ShaperConfig| with(&|link| link.shaper = Some(shaper.clone()));
    let (rate_bps, burst_bytes) = (10 * MBPS, 20_000);
    let opportunities_ns = (0..40).map(|n| n * n * 50_000).collect();
    vec![
        ("jitter-uniform", jitter(JitterKind::Uniform, false)),
        ("jitter-normal", jitter(JitterKind::Normal, true)),
        ("jitter-pareto", jitter(JitterKind::Pareto, false)),
        ("jitter-table", jitter(JitterKind::Table, true)),
        ("token-bucket", shaped(ShaperConfig::TokenBucket { rate_bps, burst_bytes, peak: None })),
        ("token-bucket-peak", {
            let peak = Some(PeakConfig { rate_bps: 2 * rate_bps, burst_bytes: 1514 });
            shaped(ShaperConfig::TokenBucket { rate_bps, burst_bytes, peak })
        }),
        ("htb", {
            let (ceil_bps, cburst_bytes) = (2 * rate_bps, 1514);
            shaped(ShaperConfig::Htb { rate_bps, ceil_bps, burst_bytes, cburst_bytes })
        }),
        ("policer", shaped(ShaperConfig::Policer { rate_bps, burst_bytes })),
        ("slots", {
            let (packets, bytes) = (Some(10), Some(9_000));
            shaped(ShaperConfig::Slots { interval_ns: 5 * MS, packets, bytes })
        }),
        ("trace", shaped(ShaperConfig::Trace { opportunities_ns, period_ns: 80 * MS, bytes: 1504 })),
        ("switch", {
            let mut s = two_way("freebsd-13", "newreno");
            let pause = Some(PauseConfig { stop_bytes: 30_000, go_bytes: 20_000 });
            s.nodes
                .iter_mut()
                .for_each(|node| node.switch = Some(SwitchConfig { buffer_bytes: 60_000, pause }));
            s
        }),
        ("captures-per-ack", {
            let mut s = two_way("linux-6.8", "cubic");
            s.record.pcap = ["a", "r1-r2"].map(|at| Capture { at: at.into(), snaplen: 96 }).to_vec();
            (s.record.tcp, s.record.queue) = (Sampling::PerAck, Sampling::PerAck);
            s
        }),
    ]
}

/// Hosts with something between network and stack, both of a connection.
fn hosts() -> Vec<(&'static str, Scenario)> {
    let with = |change: &dyn Fn(&mut Host)| {
        let mut s = dumbbell("linux-6.8", "cubic", 50 * MBPS, 20 * MS, 60, 3);
        s.hosts[1].stack = "freebsd-13".into();
        s.hosts.iter_mut().for_each(change);
        s
    };
    let egress = |jitter: Option<JitterConfig>| Egress {
        limit_packets: 200,
        delay_ns: 5 * MS,
        jitter,
        loss: random_loss(5_000_000),
        duplicate_ppb: 1_000_000,
        corrupt_ppb: 1_000_000,
        rate_bps: Some(30 * MBPS),
    };
    let jitter = JitterConfig { kind: JitterKind::Normal, sd_ns: MS, reorder: true, table: None };
    let stage = |every| IngressStage {
        loss: Some(LossConfig::Nth { every, packet: 7, min_payload: 1, dport: None, sport: None }),
        duplicate_ppb: 1_000_000,
        corrupt_ppb: 1_000_000,
        dport: None,
        sport: None,
        min_payload: 1,
    };
    vec![
        ("netem", with(&|host| host.egress = Some(egress(None)))),
        ("netem-jitter-offloads", {
            let mut s = with(&|host| host.egress = Some(egress(Some(jitter.clone()))));
            s.hosts.iter_mut().for_each(|host| (host.nic.tso, host.nic.gro) = (true, true));
            s
        }),
        ("ingress-before-and-after-aggregation", {
            with(&|host| {
                (host.nic.gro, host.nic.lro, host.nic.coalesce) = (true, true, Some(coalesce()));
                host.ingress.before_gro = Some(stage(150));
                host.ingress.after_gro = Some(stage(100));
            })
        }),
        ("ack-every-four", {
            with(&|host| (host.ack_every, host.nic.coalesce) = (Some(4), Some(coalesce())))
        }),
        ("cheats-divide", { with(&|host| host.cheats = Some(Cheat::AckDivision { parts: 8 })) }),
        ("cheats-duplicate", { with(&|host| host.cheats = Some(Cheat::DuplicateAcks { copies: 5 })) }),
        ("cheats-early", { with(&|host| host.cheats = Some(Cheat::OptimisticAcks { rate_bps: 20 * MBPS })) }),
        ("polling", {
            let polls = Coalesce { gro_flush_timeout_ns: 50_000, napi_defer_hard_irqs: 2, ..coalesce() };
            with(&|host| (host.nic.gro, host.nic.coalesce) = (true, Some(polls)))
        }),
        ("noise", {
            let processing = Some(Processing { mean_ns: 20_000, sd_ns: 10_000 });
            let stall = Some(Stall { every_ns: 50 * MS, length_ns: 3 * MS });
            with(&|host| host.noise = Some(Noise { processing, stall }))
        }),
        ("full-transmit-queue", {
            let mut s = with(&|host| (host.nic.tx_queue, host.nic.full) = (20, WhenFull::Enobufs));
            link_mut(&mut s, "a-r1").rate_bps = Some(20 * MBPS);
            s.flows.push(bulk("f2", "b", "a", "newreno"));
            link_mut(&mut s, "b-r2").rate_bps = Some(20 * MBPS);
            s
        }),
        ("full-transmit-queue-drops", {
            let mut s = with(&|host| (host.nic.tx_queue, host.nic.full) = (20, WhenFull::Drop));
            link_mut(&mut s, "a-r1").rate_bps = Some(20 * MBPS);
            s
        }),
    ]
}

/// Changes that can happen to a link in the middle of a run.
pub(crate) fn changes() -> Vec<(&'static str, Change)> {
    let none = Change {
        at_ns: SECOND,
        on: None,
        link: "r1-r2".into(),
        rate_bps: None,
        delay_ns: None,
        loss: None,
        queue: None,
        down: None,
    };
    vec![
        ("rate", Change { rate_bps: Some(3 * MBPS), ..none.clone() }),
        ("delay", Change { delay_ns: Some(30 * MS), ..none.clone() }),
        ("loss", Change { loss: random_loss(20_000_000), ..none.clone() }),
        (
            "queue",
            Change { queue: Some(QueueConfig::Pfifo(PfifoConfig { limit_packets: 5 })), ..none.clone() },
        ),
        ("down", Change { down: Some(true), ..none }),
    ]
}

/// A rate that falls when BBR begins to drain its queue.
fn scheduled_with_an_event() -> Scenario {
    let mut s = dumbbell("linux-6.18", "bbr", 10 * MBPS, 20 * MS, 50, 3);
    let on = Some(Occasion { flow: s.flows[0].name.clone(), event: "bbr-drain".into() });
    let (_, rate) = changes().swap_remove(0);
    s.schedule = vec![Change { at_ns: 0, on, ..rate }];
    s
}

/// A change after a second, and what it was before half a second later.
fn scheduled(change: Change) -> Scenario {
    let mut s = dumbbell("linux-6.8", "cubic", 10 * MBPS, 20 * MS, 50, 3);
    let back = Change {
        at_ns: 1500 * MS,
        on: None,
        link: change.link.clone(),
        rate_bps: change.rate_bps.and(Some(10 * MBPS)),
        delay_ns: change.delay_ns.and(Some(10 * MS)),
        loss: change.loss.as_ref().and(random_loss(0)),
        queue: change.queue.as_ref().and(Some(QueueConfig::Pfifo(PfifoConfig { limit_packets: 50 }))),
        down: change.down.map(|down| !down),
    };
    s.schedule = vec![change, back];
    s
}

/// Lines of golden.txt about a run, one each for the tables, the captures and the summary: name, what, rows or
/// bytes, hash.
pub(crate) fn lines(name: &str, scenario: &Scenario) -> String {
    let outcome = carry_out(scenario, false);
    let mut lines = String::new();
    let mut line = |what: &str, size: usize, hash: String| {
        writeln!(lines, "{name} {what} {size} {hash}").expect("a string takes everything");
    };
    for table in ["tcp", "queue", "events", "samples"] {
        let batches = outcome.tables.get(table).map_or(&[][..], Vec::as_slice);
        line(table, batches.iter().map(|batch| batch.rows).sum(), hash(batches));
    }
    for (point, bytes) in &outcome.captures {
        line(&format!("capture:{point}"), bytes.len(), hex(Sha256::digest(bytes)));
    }
    let mut summary = outcome.summary;
    // How many events the engine needed is its own affair.
    summary.as_object_mut().expect("an object").remove("events");
    let text = summary.to_string();
    line("summary", text.len(), hex(Sha256::digest(&text)));
    lines
}

/// SHA-256 over the columns in order: names, values, which are null. Independent of where batches were cut.
pub(crate) fn hash(batches: &[Batch]) -> String {
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
    hex(sha.finalize())
}

/// The first 16 bytes of a digest.
fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
