//! Accurate ECN between two Linux endpoints: each mark is told once, and reduces once in a round trip.

use tcp::event::EventKind;
use tcp::profile;
use tcp::stack::EcnMode;
use wire::{Ecn, Flags, Options};

use crate::path::{Path, Run, run};

/// Payload beside timestamps and three counters.
const PAYLOAD: u64 = 1436;
const BYTES: u64 = 3000 * PAYLOAD;

fn with(option: i64, change: impl FnOnce(&mut Path<'_>)) -> Run {
    let mut profile = profile::find("linux-7.3").expect("a stack");
    profile::set_checked(&mut *profile, "net.ipv4.tcp_ecn_option", option).expect("its range");
    let mut path = Path {
        bytes: BYTES,
        rate: Some(30_000_000),
        mark_at: 12,
        ecn: EcnMode::Accurate,
        ..Path::new(profile.as_ref())
    };
    change(&mut path);
    run(&path)
}

/// Counters of ECT(1), CE and ECT(0) in the last ACK that has all.
fn told(run: &Run) -> Vec<(Ecn, u32)> {
    let counted = |options: Options| options.has(Options::ACCECN);
    let last =
        run.answers.iter().rev().find(|(_, answer)| counted(answer.options) && answer.accecn.len() == 3);
    last.expect("an ACK with counters").1.accecn.iter().collect()
}

#[test]
fn every_mark_is_told_in_packets_and_in_bytes() {
    let run = with(2, |_| ());
    assert_eq!(run.read, BYTES);
    assert!(run.marks > 20 && run.marks < 2000, "{} of 3000 are marked", run.marks);
    let marked = run.marks * PAYLOAD;
    assert_eq!(
        told(&run),
        [(Ecn::Ect1, 1), (Ecn::Ce, marked as u32), (Ecn::Ect0, (BYTES - marked) as u32 + 1)]
    );
    let (_, last) = run.answers.last().expect("ACKs");
    assert_eq!(tcp::accecn::ace(last.flags), (5 + run.marks as u32) & 7);
}

#[test]
fn all_but_syns_could_be_marked_whatever_it_is() {
    let run = with(2, |path| path.lose = |n, _| n == 40);
    let syn = |flags: Flags| flags.has(Flags::SYN);
    for (_, segment) in run.sent.iter().chain(&run.answers) {
        let field = if syn(segment.flags) { Ecn::NotEct } else { Ecn::Ect0 };
        assert_eq!(segment.ecn, field, "{segment:?}");
    }
    let again = run.sent.windows(2).any(|pair| pair[1].1.len > 0 && pair[1].1.offset < pair[0].1.offset);
    assert!(again, "data is sent again");
}

#[test]
fn marks_reduce_once_in_a_round_trip() {
    let run = with(2, |path| path.cc = "reno");
    let cuts: Vec<_> = run.events.iter().filter(|(_, kind, ..)| *kind == EventKind::Reduction).collect();
    assert!(cuts.len() > 1, "{} reductions", cuts.len());
    assert!(cuts.windows(2).all(|pair| pair[1].0 - pair[0].0 > 40_000_000));
    assert!((cuts.len() as u64) < run.marks, "{} of {} marks", cuts.len(), run.marks);
    // A counter is no notice that the window was reduced, which classic ECN gives in CWR alone.
    assert!(
        run.sent
            .iter()
            .skip(1)
            .all(|(_, segment)| tcp::accecn::ace(segment.flags) != 0b010 || segment.len == 0)
    );
}

#[test]
fn without_counters_packets_are_larger_and_marks_are_told_all_the_same() {
    let run = with(0, |_| ());
    assert!(run.sent.iter().any(|(_, segment)| segment.len == 1448));
    assert!(run.sent.iter().chain(&run.answers).all(|(_, segment)| !segment.options.has(Options::ACCECN)));
    let (_, last) = run.answers.last().expect("ACKs");
    assert_eq!(tcp::accecn::ace(last.flags), (5 + run.marks as u32) & 7);
}
