//! Flush rules of the aggregators, and that no byte is lost or reordered.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use wire::{Ecn, Flags, Options, Segment};

use super::*;

#[derive(Clone, Debug, PartialEq)]
struct Received(u32, Segment);

impl Frame for Received {
    fn connection(&self) -> u32 {
        self.0
    }
    fn segment(&self) -> &Segment {
        &self.1
    }
    fn segment_mut(&mut self) -> &mut Segment {
        &mut self.1
    }
}

/// Segment `index` of a stream of full segments.
fn data(index: u32) -> Segment {
    Segment {
        seq: 1_000 + index * 1448,
        ack: 500,
        len: 1448,
        tsval: 70,
        tsecr: 60,
        window: 100,
        flags: Flags::ACK,
        options: Options::TIMESTAMPS,
        frames: 1,
        ..Segment::default()
    }
}

fn pure_ack(ack: u32) -> Segment {
    Segment { len: 0, ack, ..data(0) }
}

/// Returns what comes up of frames of one connection: at once, and at the end of the pass.
fn run(rules: Rules, frames: impl IntoIterator<Item = Segment>) -> (Vec<Segment>, Vec<Segment>) {
    let mut aggregator = Aggregator::new(rules, 20);
    let mut at_once = Vec::new();
    for frame in frames {
        aggregator.push(Received(0, frame), &mut |up: Received| at_once.push(up.1));
    }
    let mut at_end = Vec::new();
    aggregator.flush(&mut |up: Received| at_end.push(up.1));
    assert!(!aggregator.holds());
    (at_once, at_end)
}

fn shapes(segments: &[Segment]) -> Vec<(u32, u16)> {
    segments.iter().map(|s| (s.len, s.frames)).collect()
}

#[test]
fn forty_five_full_segments_make_an_aggregate() {
    // Total below 65536 bytes (linux-tcp.md A17; freebsd-tcp.md D.1: 45 of 1448 B, 65160 B).
    for rules in [Rules::Gro, Rules::Lro { counts: true }] {
        let (at_once, at_end) = run(rules, (0..50).map(data));
        assert_eq!(shapes(&at_once), [(65_160, 45)]);
        assert_eq!(shapes(&at_end), [(5 * 1448, 5)]);
    }
}

#[test]
fn gro_merges_only_what_is_equal() {
    // linux-tcp.md A17.
    let change = |edit: fn(&mut Segment)| {
        let mut next = data(1);
        edit(&mut next);
        let (at_once, at_end) = run(Rules::Gro, [data(0), next]);
        at_once.len() + at_end.len()
    };
    assert_eq!(change(|_| ()), 1);
    assert_eq!(change(|s| s.window = 7), 1);
    assert_eq!(change(|s| s.ack += 1), 2);
    assert_eq!(change(|s| s.tsval += 1), 2);
    assert_eq!(change(|s| s.tsecr += 1), 2);
    assert_eq!(change(|s| s.seq += 1), 2);
    assert_eq!(change(|s| s.len += 1), 2);
    assert_eq!(change(|s| s.len = 0), 2);
    assert_eq!(change(|s| s.ecn = Ecn::Ce), 2);
    assert_eq!(change(|s| s.sack.push(1, 2)), 2);
    assert_eq!(change(|s| s.options = Options::default()), 2);
    for flag in [Flags::CWR, Flags::ECE, Flags::SYN, Flags::RST, Flags::URG] {
        let mut next = data(1);
        next.flags |= flag;
        let (at_once, at_end) = run(Rules::Gro, [data(0), next]);
        assert_eq!(at_once.len() + at_end.len(), 2, "{flag:?}");
    }
}

#[test]
fn gro_merges_packets_with_one_counter_of_accurate_ecn() {
    let counted = |number, flags| {
        let mut segment = data(number);
        segment.options |= Options::ACE | Options::ACCECN;
        segment.flags |= flags;
        segment
    };
    let merged = |next: Segment| {
        let (at_once, at_end) = run(Rules::Gro, [counted(0, Flags::CWR), next]);
        at_once.len() + at_end.len() == 1
    };
    assert!(merged(counted(1, Flags::CWR)));
    assert!(!merged(counted(1, Flags::default())));
    let mut more = counted(1, Flags::CWR);
    more.accecn.push(1448);
    assert!(!merged(more));
}

#[test]
fn gro_completes_an_aggregate_at_push_fin_and_a_short_segment() {
    // linux-tcp.md A17: a shorter one ends the aggregate; PSH and FIN flush it.
    let push = Segment { flags: Flags::ACK | Flags::PSH, ..data(1) };
    let fin = Segment { flags: Flags::ACK | Flags::FIN, ..data(1) };
    let short = Segment { len: 10, ..data(1) };
    for (last, flags) in [(push, push.flags), (fin, fin.flags), (short, Flags::ACK)] {
        let (at_once, at_end) = run(Rules::Gro, [data(0), last]);
        assert_eq!(shapes(&at_once), [(1448 + last.len, 2)]);
        assert_eq!(at_once[0].flags, flags);
        assert_eq!(at_end, []);
    }
    // By itself, such a segment is not held.
    assert_eq!(run(Rules::Gro, [push]).0, [push]);
}

#[test]
fn gro_lets_acks_through_and_keeps_their_order() {
    // linux-tcp.md A17: pure ACKs are not merged.
    let acks = [pure_ack(501), pure_ack(502)];
    assert_eq!(run(Rules::Gro, acks), (acks.to_vec(), vec![]));
    let (at_once, _) = run(Rules::Gro, [data(0), pure_ack(501)]);
    assert_eq!(shapes(&at_once), [(1448, 1), (0, 1)]);
}

#[test]
fn gro_merges_runs_behind_a_hole() {
    // freebsd-tcp.md D.3.
    let (at_once, at_end) = run(Rules::Gro, [0, 1, 3, 4, 5].map(data));
    assert_eq!(shapes(&at_once), [(2 * 1448, 2)]);
    assert_eq!(shapes(&at_end), [(3 * 1448, 3)]);
}

#[test]
fn lro_merges_acks_and_counts_them_where_the_release_does() {
    // freebsd-tcp.md D.1 and A.4: 13 and later learn how many frames, 9.x does not.
    let acks = || [pure_ack(501), pure_ack(3000), Segment { tsval: 72, window: 90, ..pure_ack(6000) }];
    for (counts, frames) in [(true, 3), (false, 1)] {
        let (at_once, at_end) = run(Rules::Lro { counts }, acks());
        assert_eq!((at_once, shapes(&at_end)), (vec![], vec![(0, frames)]));
        assert_eq!((at_end[0].ack, at_end[0].tsval, at_end[0].window), (6000, 72, 90));
    }
}

#[test]
fn lro_passes_duplicate_acks_and_whatever_it_does_not_know() {
    // freebsd-tcp.md D.1: exact duplicates are not merged; SACK or any other option is never merged and flushes.
    let lro = Rules::Lro { counts: true };
    assert_eq!(run(lro, [pure_ack(501), pure_ack(501)]).0.len(), 2);
    let update = Segment { window: 101, ..pure_ack(501) };
    assert_eq!(shapes(&run(lro, [pure_ack(501), update]).1), [(0, 2)]);
    let mut sack = pure_ack(501);
    sack.sack.push(9, 10);
    assert_eq!(run(lro, [data(0), data(1), sack]).0.len(), 2);
    let fin = Segment { flags: Flags::ACK | Flags::FIN, ..data(1) };
    assert_eq!(shapes(&run(lro, [data(0), fin]).0), [(1448, 1), (1448, 1)]);
    // PSH is tolerated and does not flush; a timestamp may advance and not go back.
    let push = Segment { flags: Flags::ACK | Flags::PSH, tsval: 71, ..data(1) };
    assert_eq!(shapes(&run(lro, [data(0), push, Segment { tsval: 71, ..data(2) }]).1), [(3 * 1448, 3)]);
    assert_eq!(shapes(&run(lro, [data(0), Segment { tsval: 69, ..data(1) }]).0), [(1448, 1)]);
}

#[test]
fn a_ninth_flow_lets_the_oldest_go() {
    // linux-tcp.md A17: at most 8 flows held; freebsd-tcp.md D.1: 8 flows per queue.
    let mut aggregator = Aggregator::new(Rules::Gro, 20);
    let mut up = Vec::new();
    for connection in 0..9 {
        aggregator.push(Received(connection, data(0)), &mut |frame: Received| up.push(frame.0));
    }
    assert_eq!(up, [0]);
}

#[test]
fn every_so_many_segments() {
    let (at_once, at_end) = run(Rules::Every { segments: 3 }, (0..7).map(data));
    assert_eq!(shapes(&at_once), [(3 * 1448, 3), (3 * 1448, 3)]);
    assert_eq!(shapes(&at_end), [(1448, 1)]);
    // A short segment, with or without PSH, and what follows it belong to the same aggregate.
    let short = Segment { len: 5, flags: Flags::ACK | Flags::PSH, ..data(1) };
    let next = Segment { seq: short.seq.wrapping_add(5), ..data(2) };
    let (at_once, _) = run(Rules::Every { segments: 3 }, [data(0), short, next]);
    assert_eq!(shapes(&at_once), [(2 * 1448 + 5, 3)]);
}

#[test]
fn a_wait_that_begins_anew_ends_when_the_line_is_quiet() {
    let mut moderation = Moderation::new(100, 0, Polling::default());
    for now in [1000, 1050, 1140] {
        moderation.restart(now);
        assert_eq!(moderation.due(), Some(now + 100));
    }
    assert_eq!(moderation.polled(1240, true), Flush::All);
    assert_eq!(moderation.due(), None);
}

#[test]
fn interrupts_wait_for_time_or_frames() {
    let mut moderation = Moderation::new(100, 3, Polling::default());
    assert!(!moderation.on_frame(1000));
    assert!(!moderation.on_frame(1050));
    assert_eq!(moderation.due(), Some(1100));
    assert!(moderation.on_frame(1060));
    assert_eq!(moderation.polled(1060, true), Flush::All);
    assert_eq!(moderation.due(), None);
    assert!(!moderation.on_frame(2000));
    assert!(Moderation::new(0, 0, Polling::default()).on_frame(5));
}

#[test]
fn linux_polls_on_as_long_as_frames_come() {
    // As the r8169 driver has it: gro_flush_timeout 20000 ns, napi_defer_hard_irqs 1.
    let mut napi = Moderation::new(0, 0, Polling { timeout: 20_000, defer: 1 });
    assert!(napi.on_frame(1_000));
    assert_eq!((napi.polled(1_000, true), napi.due()), (Flush::Old, Some(21_000)));
    // Interrupts are off: the frame waits for the timer.
    assert!(!napi.on_frame(13_000));
    assert_eq!((napi.polled(21_000, true), napi.due()), (Flush::Old, Some(41_000)));
    // A pass that finds nothing ends it all.
    assert_eq!((napi.polled(41_000, true), napi.due()), (Flush::All, None));
    assert!(napi.on_frame(50_000));
}

#[test]
fn with_a_flush_timeout_alone_interrupts_stay_on() {
    let mut napi = Moderation::new(0, 0, Polling { timeout: 20_000, defer: 0 });
    assert!(napi.on_frame(1_000));
    assert_eq!((napi.polled(1_000, true), napi.due()), (Flush::Old, Some(21_000)));
    assert!(napi.on_frame(13_000));
    assert_eq!((napi.polled(13_000, true), napi.due()), (Flush::Old, Some(33_000)));
    assert_eq!((napi.polled(33_000, true), napi.due()), (Flush::All, None));
    // Nothing held, nothing to wait for.
    assert!(napi.on_frame(40_000));
    assert_eq!((napi.polled(40_000, false), napi.due()), (Flush::All, None));
}

#[test]
fn a_pass_that_another_follows_keeps_aggregates_of_its_tick() {
    let mut aggregator = Aggregator::new(Rules::Gro, 20);
    let mut up = Vec::new();
    aggregator.set_tick(7);
    aggregator.push(Received(1, data(0)), &mut |frame| up.push(frame));
    aggregator.set_tick(8);
    aggregator.push(Received(2, data(0)), &mut |frame| up.push(frame));
    aggregator.flush_old(&mut |frame| up.push(frame));
    assert_eq!(up.iter().map(Received::connection).collect::<Vec<_>>(), [1]);
    assert!(aggregator.holds());
}

/// Draws what the network may do to a stream of a connection, in the order of its sequence numbers.
fn arrivals() -> impl Strategy<Value = Vec<Received>> {
    let kinds = prop_oneof![6 => Just(0u8), 1 => Just(1), 1 => Just(2), 1 => Just(3), 1 => Just(4)];
    prop::collection::vec((0u32..10, kinds), 0..200).prop_map(|steps| {
        let mut next = [0u32; 10];
        let frame = |(connection, kind): (u32, u8)| {
            let sent = &mut next[connection as usize];
            let mut segment = Segment { seq: *sent, offset: u64::from(*sent), ..data(0) };
            match kind {
                1 => segment.len = 100,
                2 => segment.flags |= Flags::PSH,
                3 => segment = Segment { seq: *sent, ..pure_ack(501 + *sent) },
                4 => segment.tsval = 71,
                _ => {}
            }
            *sent += segment.len;
            Received(connection, segment)
        };
        steps.into_iter().map(frame).collect()
    })
}

/// Something wrong with what comes up, to see whether a property notices.
#[derive(Clone, Copy, Debug)]
enum Bug {
    None,
    /// A byte is missing.
    Short,
    /// Frame that does not come up at all.
    Lost,
    /// A frame too many is counted.
    Miscounted,
    /// Two of a connection change places.
    Swapped,
}

impl Bug {
    fn spoil(self, up: &mut Vec<Received>) {
        let data = |frame: &Received| frame.1.len > 0;
        let Some(first) = up.iter().position(data) else { return };
        match self {
            Bug::None => {}
            Bug::Short => up[first].1.len -= 1,
            Bug::Lost => drop(up.remove(first)),
            Bug::Miscounted => up[first].1.frames += 1,
            Bug::Swapped => {
                let connection = up[first].0;
                let later = up[first + 1..].iter().position(|frame| frame.0 == connection && data(frame));
                later.into_iter().for_each(|later| up.swap(first, first + 1 + later));
            }
        }
    }
}

const RULES: [Rules; 4] =
    [Rules::Gro, Rules::Lro { counts: true }, Rules::Lro { counts: false }, Rules::Every { segments: 4 }];

/// Every flow comes up whole and in order, and the frames are all counted, or none of them beside the first of each.
fn conserves(rules: Rules, frames: &[Received], bug: Bug) -> Result<(), String> {
    let mut aggregator = Aggregator::new(rules, 20);
    let mut up = Vec::new();
    for frame in frames.iter().cloned() {
        aggregator.push(frame, &mut |frame| up.push(frame));
    }
    aggregator.flush(&mut |frame| up.push(frame));
    bug.spoil(&mut up);
    let counted: u32 = up.iter().map(|frame| u32::from(frame.1.frames)).sum();
    let told = if rules == (Rules::Lro { counts: false }) { up.len() } else { frames.len() };
    if counted != told as u32 {
        return Err(format!("{counted} frames of {told}"));
    }
    for connection in 0..10 {
        let mut expected = 0;
        for Received(_, segment) in up.iter().filter(|frame| frame.0 == connection) {
            if segment.seq != expected {
                return Err(format!("{} instead of {expected}", segment.seq));
            }
            if 20 + segment.tcp_bytes() > 65_535 {
                return Err(format!("an aggregate of {} bytes", 20 + segment.tcp_bytes()));
            }
            expected += segment.len;
        }
        let sent: u32 = frames.iter().filter(|frame| frame.0 == connection).map(|frame| frame.1.len).sum();
        if expected != sent {
            return Err(format!("{expected} bytes of {sent}"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn bytes_are_conserved(frames in arrivals()) {
        for rules in RULES {
            conserves(rules, &frames, Bug::None)
                .map_err(|why| TestCaseError::fail(format!("{rules:?}: {why}")))?;
        }
    }
}

#[test]
fn the_property_sees_what_is_lost_miscounted_or_swapped() {
    for rules in RULES {
        for bug in [Bug::Short, Bug::Lost, Bug::Miscounted, Bug::Swapped] {
            let config = Config { failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
            let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
            let found = TestRunner::new_with_rng(config, random)
                .run(&arrivals(), |frames| conserves(rules, &frames, bug).map_err(TestCaseError::fail));
            assert!(matches!(found, Err(TestError::Fail(..))), "{rules:?} and {bug:?}: {found:?}");
        }
    }
}
