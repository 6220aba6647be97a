//! DCTCP of Linux between two endpoints: who gets ECN, and what the receiver tells of each mark.

use tcp::stack::EcnMode;
use wire::{Ecn, Flags};

use crate::path::{MARKED_BYTES, Path, Run, marked};

fn with(stack: &str, change: impl FnOnce(&mut Path<'_>)) -> Run {
    marked("dctcp", stack, change)
}

/// Packets that ACKs with an echo newly cover, and all.
fn echoed(run: &Run) -> (u64, u64) {
    let (mut first, mut covered, mut echoed) = (None, 0, 0);
    for (_, answer) in run.answers.iter().filter(|(_, answer)| !answer.flags.has(Flags::SYN)) {
        let first = *first.get_or_insert(answer.ack);
        let now = u64::from(answer.ack.wrapping_sub(first)) / 1448;
        if answer.flags.has(Flags::ECE) {
            echoed += now.max(covered) - covered;
        }
        covered = covered.max(now);
    }
    (echoed, covered)
}

#[test]
fn every_packet_is_ecn_capable_whatever_the_host_says() {
    for ecn in [EcnMode::Accept, EcnMode::Off] {
        let run = with("linux-6.12", |path| path.ecn = ecn);
        assert_eq!(run.read, MARKED_BYTES);
        assert!(run.sent.iter().all(|(_, segment)| segment.ecn != Ecn::NotEct), "{ecn:?}");
        assert!(run.answers.iter().all(|(_, segment)| segment.ecn != Ecn::NotEct), "{ecn:?}");
    }
}

#[test]
fn acks_echo_as_many_packets_as_are_marked() {
    let run = with("linux-6.12", |_| ());
    let (echoed, _) = echoed(&run);
    assert!(run.marks > 50 && run.marks < 2000, "{} of 3000 are marked", run.marks);
    assert!(echoed.abs_diff(run.marks) <= 1, "{echoed} are echoed of {} marks", run.marks);
    // Each change of marks in the data is one of echoes.
    let changes = |of: &[bool]| of.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let echoes: Vec<bool> =
        run.answers.iter().map(|(_, answer)| answer.flags.has(Flags::ECE)).skip(1).collect();
    assert!(changes(&run.marked) > 2);
    assert_eq!(changes(&echoes), changes(&run.marked));
}

#[test]
fn a_listener_of_another_control_refuses_ecn_to_a_syn_that_could_be_marked() {
    let run = with("linux-6.12", |path| (path.accepts, path.ecn) = ("cubic", EcnMode::On));
    assert!(run.answers.iter().all(|(_, answer)| !answer.flags.has(Flags::ECE)));
    let data = run.sent.iter().filter(|(_, segment)| segment.len > 0);
    assert!(data.clone().count() > 0 && data.clone().all(|(_, segment)| segment.ecn == Ecn::NotEct));
}

/// Header prediction leaves out no segment of which congestion control has to hear.
#[test]
fn freebsd_echoes_no_more_than_is_marked_either() {
    let run = with("freebsd-13", |path| path.ecn = EcnMode::On);
    let (echoed, all) = echoed(&run);
    let changes = run.marked.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
    assert!(run.marks > 10 && run.marks < all / 2, "{} of {all} are marked", run.marks);
    // An ACK that a change hurries covers what waited for it too.
    assert!(echoed.abs_diff(run.marks) <= changes, "{echoed} are echoed of {} marks", run.marks);
}
