//! Every topology run with fused and with stepped hops gives the same bytes.

use std::sync::LazyLock;

use crate::kinds::{accurate_ecn, app, kinds, loss, losses, queue, stacks};
use crate::rows::{changes, rows};
use crate::support::{MS, attach, bottleneck, bulk, carry_out, difference, host, link_mut, random_loss, run};
use contract::Scenario;
use contract::scenario::{
    Cheat, Coalesce, Ecn, Egress, Flow, IngressStage, Node, Noise, Processing, Sampling, Stall,
};
use path::{PauseConfig, PfifoConfig, QueueConfig, ShaperConfig, SwitchConfig};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

static STACKS: LazyLock<Vec<(String, String)>> = LazyLock::new(stacks);
static QUEUES: LazyLock<Vec<String>> = LazyLock::new(|| kinds("queues"));
static APPS: LazyLock<Vec<String>> = LazyLock::new(|| kinds("apps"));
static LOSSES: LazyLock<Vec<String>> = LazyLock::new(losses);

/// Shape of a random scenario.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    stacks: Vec<usize>,
    chain: bool,
    rates_mbps: [u64; 2],
    delays_us: [u64; 2],
    limits: [u32; 2],
    /// A place in the catalogue's losses; above: none.
    loss: usize,
    reverse_loss_ppb: u32,
    duplicate_ppb: u32,
    corrupt_ppb: u32,
    /// A place in the catalogue's disciplines; above: a plain queue.
    queue: usize,
    per_ack: bool,
    seed: u64,
    jitter: bool,
    access_mbps: u64,
    machines: u8,
    /// A place in the catalogue's applications; above: none besides bulk transfers.
    app: usize,
    /// A place in [`changes`]; above: none.
    change: usize,
    ecn: bool,
    /// All flows go between the first two hosts, every other one the other way.
    together: bool,
    /// Slots at the first bottleneck: packets of each; none where it is a multiple of 3.
    slots: u32,
}

/// Random scenarios.
pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    let small = prop_oneof![Just(0u32), Just(0), 1u32..30_000_000];
    (
        prop::collection::vec(0..STACKS.len(), 1..6),
        any::<bool>(),
        [1u64..60, 1u64..60],
        [0u64..30_000, 0u64..30_000],
        [1u32..60, 1u32..60],
        (0..2 * LOSSES.len(), small.clone(), small.clone(), small),
        0..QUEUES.len() + 2,
        any::<bool>(),
        any::<u64>(),
        any::<bool>(),
        prop_oneof![Just(10_000u64), Just(100)],
        (0u8..11, 0..APPS.len() + 2, 0..2 * changes().len(), any::<bool>(), any::<bool>(), 0u32..12),
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
                (machines, app, change, ecn, together, slots),
            )| Shape {
                stacks,
                chain,
                rates_mbps,
                delays_us,
                limits,
                loss: loss.0,
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
                change,
                ecn,
                together,
                slots,
            },
        )
}

/// A drawn run of video between hosts of one stack, whose senders rest between two pieces.
pub(crate) fn video_with_rests(stack: &str, cc: &str) -> Shape {
    let place =
        |list: &[String], kind: &str| list.iter().position(|entry| entry == kind).expect("it is there");
    let stack = STACKS.iter().position(|entry| *entry == (stack.into(), cc.into())).expect("it is there");
    Shape {
        stacks: vec![stack, 0],
        chain: false,
        rates_mbps: [18, 1],
        delays_us: [22_582, 0],
        limits: [1, 1],
        loss: LOSSES.len(),
        reverse_loss_ppb: 0,
        duplicate_ppb: 0,
        corrupt_ppb: 0,
        queue: place(&QUEUES, "red"),
        per_ack: false,
        seed: 16_351_050_156_351_393_579,
        jitter: false,
        access_mbps: 10_000,
        machines: 0,
        app: place(&APPS, "video"),
        change: 2,
        ecn: false,
        together: true,
        slots: 4,
    }
}

/// Equips what stands between network and stacks.
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
            7 => {
                (host.nic.tso, host.nic.gro, host.nic.lro) = (true, true, true);
                host.nic.coalesce = coalesce;
            }
            8 => host.cheats = Some(Cheat::AckDivision { parts: 5 }),
            9 => host.cheats = Some(Cheat::DuplicateAcks { copies: 3 }),
            10 => host.cheats = Some(Cheat::OptimisticAcks { rate_bps: 20_000_000 }),
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

/// Flows beside the bulk transfers.
fn beside(s: &mut Scenario, kind: &str, cc_back: &str) {
    for (name, reversed, app) in app(kind) {
        let first = s.flows[0].clone();
        let mut flow = Flow { name: name.into(), app, ..first.clone() };
        if reversed {
            (flow.from, flow.to, flow.cc) = (first.to, first.from, cc_back.into());
        }
        s.flows.push(flow);
    }
}

/// Senders a0, a1 … left of r1 and one receiver each right of the last router; in a chain, odd receivers hang on the
/// middle one.
pub(crate) fn scenario(shape: &Shape) -> Scenario {
    let mut s = run(2);
    s.seed = shape.seed;
    if shape.jitter {
        s.start_jitter_ns = 30 * MS;
    }
    let access = shape.access_mbps * 1_000_000;
    s.nodes = ["r1", "r2", "r3"].map(|name| Node { name: name.into(), switch: None }).to_vec();
    for (index, &stack) in shape.stacks.iter().enumerate() {
        let (stack, cc) = &STACKS[stack];
        let (a, b) = (format!("a{index}"), format!("b{index}"));
        if shape.together && index > 0 {
            let (from, to) = if index % 2 == 0 { ("a0", "b0") } else { ("b0", "a0") };
            s.flows.push(bulk(&format!("f{index}"), from, to, &STACKS[shape.stacks[0]].1));
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
    first.loss = LOSSES.get(shape.loss).and_then(|kind| loss(kind));
    first.duplicate_ppb = shape.duplicate_ppb;
    first.corrupt_ppb = shape.corrupt_ppb;
    let kind = QUEUES.get(shape.queue).map_or("pfifo", String::as_str);
    first.queue = queue(kind, shape.limits[0], rate(0));
    if !shape.slots.is_multiple_of(3) {
        let bytes = shape.slots.is_multiple_of(2).then_some(7_000);
        first.shaper = Some(ShaperConfig::Slots { interval_ns: 2 * MS, packets: Some(shape.slots), bytes });
    }
    if shape.reverse_loss_ppb > 0 {
        link_mut(&mut s, "r1-r2.reverse").loss = random_loss(shape.reverse_loss_ppb);
    }
    equip(&mut s, shape.machines);
    if let Some(kind) = APPS.get(shape.app) {
        beside(&mut s, kind, &STACKS[shape.stacks[0]].1);
    }
    if shape.ecn {
        for host in &mut s.hosts {
            host.ecn = if accurate_ecn(&host.stack) { Ecn::Accurate } else { Ecn::On };
        }
    }
    if let Some((_, change)) = changes().into_iter().nth(shape.change)
        && shape.machines != 6
    {
        s.schedule.push(change);
    }
    if shape.per_ack {
        s.record.tcp = Sampling::PerAck;
    }
    s
}

/// Difference between fused and stepped hops. None if there is none.
fn unequal(fused: &Scenario, stepped: &Scenario) -> Option<String> {
    difference(&carry_out(fused, false), &carry_out(stepped, true))
}

#[test]
fn golden_scenarios_are_the_same_with_stepped_hops() {
    let wrong: Vec<_> = rows()
        .iter()
        .filter_map(|(name, scenario)| Some(format!("{name}: {}", unequal(scenario, scenario)?)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn fused_and_stepped_hops_give_the_same_bytes(shape in shapes()) {
        let scenario = scenario(&shape);
        prop_assert_eq!(unequal(&scenario, &scenario), None);
    }
}

/// Finds what goes wrong in a stepped run: a hop that is a nanosecond slower, a place more in a queue, a rate that
/// is a millionth higher.
#[test]
fn a_difference_between_hops_is_found() {
    let bugs: [fn(&mut Scenario); 3] = [
        |s| link_mut(s, "r1-r2").delay_ns += 1,
        |s| match &mut link_mut(s, "r1-r2").queue {
            QueueConfig::Pfifo(PfifoConfig { limit_packets }) => *limit_packets += 1,
            queue => *queue = QueueConfig::Pfifo(PfifoConfig { limit_packets: 1 }),
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
            prop_assert_eq!(unequal(&right, &wrong), None);
            Ok(())
        });
        assert!(found.is_err(), "bug {number} is not found");
    }
}
