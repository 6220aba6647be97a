//! Every topology run with fused and with stepped hops gives the same bytes.

use crate::support::{MS, attach, bottleneck, bulk, carry_out, host, link_mut, random_loss, run};
use path::{
    CakeConfig, Dualpi2Config, FlowMode, FqCodelConfig, FqPieConfig, PauseConfig, PieConfig, QueueConfig,
    RedConfig, SwitchConfig,
};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use sim::Scenario;
use sim::scenario::{
    App, Coalesce, Distribution, EcnField, Egress, Flow, IngressStage, Node, Noise, Processing, Sampling,
    Stall,
};

const STACKS: [(&str, &str); 8] = [
    ("freebsd-9.2", "newreno"),
    ("freebsd-9.2", "cubic"),
    ("freebsd-13", "newreno"),
    ("freebsd-13", "cubic"),
    ("linux-3.9", "reno"),
    ("linux-3.9", "cubic"),
    ("linux-6.8", "reno"),
    ("linux-6.8", "cubic"),
];

#[derive(Clone, Debug)]
pub struct Shape {
    stacks: Vec<usize>,
    chain: bool,
    rates_mbps: [u64; 2],
    delays_us: [u64; 2],
    limits: [u32; 2],
    loss_ppb: u32,
    reverse_loss_ppb: u32,
    duplicate_ppb: u32,
    corrupt_ppb: u32,
    queue: u8,
    per_ack: bool,
    seed: u64,
    jitter: bool,
    access_mbps: u64,
    machines: u8,
    app: u8,
    /// All flows go between the first two hosts, every other one the other way.
    together: bool,
}

pub fn shapes() -> impl Strategy<Value = Shape> {
    let small = prop_oneof![Just(0u32), Just(0), 1u32..30_000_000];
    (
        prop::collection::vec(0..STACKS.len(), 1..6),
        any::<bool>(),
        [1u64..60, 1u64..60],
        [0u64..30_000, 0u64..30_000],
        [1u32..60, 1u32..60],
        (small.clone(), small.clone(), small.clone(), small),
        0u8..10,
        any::<bool>(),
        any::<u64>(),
        any::<bool>(),
        prop_oneof![Just(10_000u64), Just(100)],
        (0u8..7, 0u8..8, any::<bool>()),
    )
        .prop_map(
            |(
                stacks,
                chain,
                rates_mbps,
                delays_us,
                limits,
                loss,
                queue,
                per_ack,
                seed,
                jitter,
                access_mbps,
                (machines, app, together),
            )| Shape {
                stacks,
                chain,
                rates_mbps,
                delays_us,
                limits,
                loss_ppb: loss.0,
                reverse_loss_ppb: loss.1,
                duplicate_ppb: loss.2,
                corrupt_ppb: loss.3,
                queue,
                per_ack,
                seed,
                jitter,
                access_mbps,
                machines,
                app,
                together,
            },
        )
}

/// A discipline with times so short that it acts within the run.
fn queue(number: u8, limit_packets: u32, rate_bps: u64) -> QueueConfig {
    let (target_ns, interval_ns) = (5 * MS, 30 * MS);
    let (tupdate_ns, memory_limit_bytes) = (15 * MS, 32 << 20);
    match number {
        0 => QueueConfig::Bfifo { limit_bytes: u64::from(limit_packets) * 1514 },
        1 => QueueConfig::Codel {
            limit_packets: 1000,
            target_ns,
            interval_ns,
            ecn: false,
            ce_threshold_ns: None,
        },
        2 => QueueConfig::Red(RedConfig {
            limit_bytes: 200_000,
            min_bytes: 10_000,
            max_bytes: 40_000,
            avpkt_bytes: 1000,
            burst_packets: 20,
            probability_ppb: 100_000_000,
            bandwidth_bps: rate_bps,
            ecn: false,
            harddrop: false,
            nodrop: false,
            adaptive: true,
        }),
        3 => QueueConfig::FqCodel(FqCodelConfig {
            limit_packets,
            flows: 1024,
            quantum_bytes: 1514,
            target_ns,
            interval_ns,
            ecn: true,
            ce_threshold_ns: None,
            memory_limit_bytes,
            drop_batch: 64,
        }),
        4 => QueueConfig::Pie(PieConfig {
            limit_packets: 1000,
            target_ns,
            tupdate_ns,
            alpha: 2,
            beta: 20,
            ecn: false,
            bytemode: false,
            dq_rate_estimator: limit_packets.is_multiple_of(2),
        }),
        5 => QueueConfig::FqPie(FqPieConfig {
            limit_packets,
            flows: 1024,
            target_ns,
            tupdate_ns,
            alpha: 2,
            beta: 20,
            quantum_bytes: 1514,
            memory_limit_bytes,
            ecn_prob: 10,
            ecn: false,
            bytemode: false,
            dq_rate_estimator: limit_packets.is_multiple_of(2),
        }),
        6 => QueueConfig::Cake(CakeConfig {
            bandwidth_bps: limit_packets.is_multiple_of(2).then_some(rate_bps * 9 / 10),
            rtt_ns: interval_ns,
            flow_mode: FlowMode::TripleIsolate,
            memlimit_bytes: limit_packets * 4000,
        }),
        7 => QueueConfig::Dualpi2(Dualpi2Config {
            limit_packets,
            target_ns,
            tupdate_ns,
            alpha_ppb: 160_000_000,
            beta_ppb: 3_200_000_000,
            coupling_factor: 2,
            step_thresh_ns: MS,
            classic_protection: 10,
            drop_on_overload: true,
        }),
        _ => QueueConfig::Pfifo { limit_packets },
    }
}

/// What stands between network and stacks.
fn equip(s: &mut Scenario, machines: u8) {
    let coalesce =
        Some(Coalesce { time_ns: 300_000, frames: 20, gro_flush_timeout_ns: 0, napi_defer_hard_irqs: 0 });
    for host in &mut s.hosts {
        match machines {
            1 => {
                host.nic.gro = true;
                host.nic.lro = true;
                host.nic.coalesce = coalesce;
            }
            2 => {
                host.ack_every = Some(4);
                host.nic.coalesce = coalesce;
            }
            3 => {
                host.noise = Some(Noise {
                    processing: Some(Processing { mean_ns: 20_000, sd_ns: 10_000 }),
                    stall: Some(Stall { every_ns: 50 * MS, length_ns: 3 * MS }),
                });
            }
            4 => {
                host.egress = Some(Egress {
                    limit_packets: 200,
                    delay_ns: 2 * MS,
                    jitter: None,
                    loss: random_loss(5_000_000),
                    duplicate_ppb: 1_000_000,
                    corrupt_ppb: 0,
                    rate_bps: Some(200_000_000),
                });
            }
            5 => {
                host.ingress.before_gro = Some(IngressStage {
                    loss: random_loss(5_000_000),
                    duplicate_ppb: 1_000_000,
                    corrupt_ppb: 1_000_000,
                    dport: Some(5201),
                    sport: None,
                    min_payload: 1,
                });
            }
            _ => {}
        }
    }
    if machines == 6 {
        let pause = Some(PauseConfig { stop_bytes: 30_000, go_bytes: 20_000 });
        // Neighbours: one pauses the other.
        for node in &mut s.nodes[..2] {
            node.switch = Some(SwitchConfig { buffer_bytes: 60_000, pause });
            for port in s.links.iter_mut().filter(|link| link.from == node.name) {
                (port.duplicate_ppb, port.jitter) = (0, None);
            }
        }
    }
}

/// An application beside the bulk flows.
fn beside(s: &mut Scenario, app: u8) {
    let request_bytes = 100;
    let app = match app {
        1 => App::UdpCbr { rate_bps: 3_000_000, payload_bytes: 1000, ecn: EcnField::Off },
        2 => App::Ping { interval_ns: 7 * MS, payload_bytes: 56 },
        3 => App::RequestResponse {
            requests: Some(5),
            request_bytes,
            response_bytes: 30_000,
            think_ns: 10 * MS,
        },
        4 => App::Incast {
            group: "g".into(),
            size_bytes: 20_000,
            request_bytes,
            rounds: None,
            think_ns: 5 * MS,
        },
        5 => App::Background { load_bps: 5_000_000, size_bytes: 20_000, shape_milli: 1500, connections: 3 },
        6 => App::Video { rate_bps: 2_000_000, chunk_ns: 200 * MS, buffer_ns: 500 * MS, request_bytes },
        7 => App::OnOff {
            on_ns: 30 * MS,
            off_ns: 20 * MS,
            rate_bps: Some(5_000_000),
            write_bytes: 10_000,
            distribution: Distribution::Exponential,
        },
        _ => return,
    };
    let beside = Flow { name: "beside".into(), app, ..s.flows[0].clone() };
    s.flows.push(beside);
}

/// Senders a0, a1 … left of r1 and one receiver each right of the last router; in a chain, odd receivers hang on the
/// middle one.
pub fn scenario(shape: &Shape) -> Scenario {
    let mut s = run(2);
    s.seed = shape.seed;
    if shape.jitter {
        s.start_jitter_ns = 30 * MS;
    }
    let access = shape.access_mbps * 1_000_000;
    s.nodes = ["r1", "r2", "r3"].map(|name| Node { name: name.into(), switch: None }).to_vec();
    for (index, &stack) in shape.stacks.iter().enumerate() {
        let (stack, cc) = STACKS[stack];
        let (a, b) = (format!("a{index}"), format!("b{index}"));
        if shape.together && index > 0 {
            let (from, to) = if index % 2 == 0 { ("a0", "b0") } else { ("b0", "a0") };
            s.flows.push(bulk(&format!("f{index}"), from, to, STACKS[shape.stacks[0]].1));
            continue;
        }
        attach(&mut s, host(&a, stack), "r1", access);
        let at = if shape.chain && index % 2 == 0 { "r3" } else { "r2" };
        attach(&mut s, host(&b, stack), at, access);
        s.flows.push(bulk(&format!("f{index}"), &a, &b, cc));
    }
    let rate = |i: usize| shape.rates_mbps[i] * 1_000_000;
    bottleneck(&mut s, "r1", "r2", rate(0), shape.delays_us[0] * 1000, shape.limits[0]);
    bottleneck(&mut s, "r2", "r3", rate(1), shape.delays_us[1] * 1000, shape.limits[1]);
    let first = link_mut(&mut s, "r1-r2");
    if shape.loss_ppb > 0 {
        first.loss = random_loss(shape.loss_ppb);
    }
    first.duplicate_ppb = shape.duplicate_ppb;
    first.corrupt_ppb = shape.corrupt_ppb;
    first.queue = queue(shape.queue, shape.limits[0], rate(0));
    if shape.reverse_loss_ppb > 0 {
        link_mut(&mut s, "r1-r2.reverse").loss = random_loss(shape.reverse_loss_ppb);
    }
    equip(&mut s, shape.machines);
    beside(&mut s, shape.app);
    if shape.per_ack {
        s.record.tcp = Sampling::PerAck;
    }
    s
}

/// Where the two runs differ, if they do.
fn difference(fused: &Scenario, stepped: &Scenario) -> Option<String> {
    let fused = carry_out(fused, false);
    let stepped = carry_out(stepped, true);
    for table in ["tcp", "queue", "events", "samples"] {
        if fused.rows(table) != stepped.rows(table) {
            return Some(format!("table {table}"));
        }
    }
    if fused.figures() != stepped.figures() {
        return Some("summary".into());
    }
    fused.tables.is_empty().then(|| "nothing recorded".into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn fused_and_stepped_hops_give_the_same_bytes(shape in shapes()) {
        let scenario = scenario(&shape);
        prop_assert_eq!(difference(&scenario, &scenario), None);
    }
}

/// What goes wrong in a stepped run shows: a hop that is a nanosecond slower, a place more in a queue, a rate that is a
/// millionth higher.
#[test]
fn a_difference_between_hops_is_found() {
    let bugs: [fn(&mut Scenario); 3] = [
        |s| link_mut(s, "r1-r2").delay_ns += 1,
        |s| match &mut link_mut(s, "r1-r2").queue {
            QueueConfig::Pfifo { limit_packets } => *limit_packets += 1,
            queue => *queue = QueueConfig::Pfifo { limit_packets: 1 },
        },
        |s| {
            let rate = &mut link_mut(s, "r1-r2").rate_bps;
            *rate = rate.map(|rate| rate + rate / 1_000_000);
        },
    ];
    for (number, bug) in bugs.into_iter().enumerate() {
        let mut runner = TestRunner::new_with_rng(
            ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) },
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        );
        let found = runner.run(&shapes(), |shape| {
            let right = scenario(&shape);
            let mut wrong = right.clone();
            bug(&mut wrong);
            prop_assert_eq!(difference(&right, &wrong), None);
            Ok(())
        });
        assert!(found.is_err(), "bug {number} is not found");
    }
}
