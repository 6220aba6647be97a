//! Accurate ECN of FreeBSD main (tcp_ecn.c), between two of its endpoints and beside Linux's: who agrees on it, and how marks are told.

use tcp::accecn::ace;
use tcp::event::EventKind;
use tcp::profile::{find, set_checked};
use tcp::stack::EcnMode;
use wire::{Ecn, Flags, Options};

use crate::path::{Path, Run, run};

const BYTES: u64 = 3000 * 1448;
const ASKS: Flags = Flags(Flags::AE.0 | Flags::CWR.0 | Flags::ECE.0);

fn with(sender: &str, receiver: &str, ecn: EcnMode) -> Run {
    let (sender, receiver) = (find(sender).expect("a stack"), find(receiver).expect("a stack"));
    let path = Path {
        receiver: receiver.as_ref(),
        cc: "cubic",
        accepts: "cubic",
        bytes: BYTES,
        rate: Some(30_000_000),
        mark_at: 12,
        ecn,
        ..Path::new(sender.as_ref())
    };
    let run = run(&path);
    assert_eq!(run.read, BYTES);
    run
}

#[test]
fn two_of_main_agree_on_it_and_tell_each_mark_by_flags_alone() {
    for stack in ["freebsd-15-current", "freebsd-15-current/rack"] {
        let run = with(stack, stack, EcnMode::Accurate);
        assert!(run.sent[0].1.flags.has(ASKS), "{stack}");
        assert_eq!(ace(run.answers[0].1.flags), 0b010, "its SYN could not be marked");
        assert_eq!(ace(run.sent[1].1.flags), 0b010, "nor could the SYN-ACK");
        let none = |segment: &wire::Segment| !segment.options.has(Options::ACCECN);
        assert!(run.sent.iter().chain(&run.answers).all(|(_, segment)| none(segment)));
        for (_, segment) in &run.sent {
            let field = if segment.len > 0 { Ecn::Ect0 } else { Ecn::NotEct };
            assert_eq!(segment.ecn, field, "{stack}: {segment:?}");
        }
        assert!(run.answers.iter().all(|(_, segment)| segment.ecn == Ecn::NotEct));
        assert!(run.marks > 2, "{stack}: {}", run.marks);
        let (_, last) = run.answers.last().expect("ACKs");
        assert_eq!(ace(last.flags), (5 + run.marks as u32) & 7, "{stack}");
        let reductions = run.events.iter().filter(|event| event.1 == EventKind::Reduction).count();
        assert!(reductions > 0 && reductions < run.marks as usize, "{stack}: {reductions} of {}", run.marks);
        assert_eq!(run.drops, 0);
    }
}

#[test]
fn it_agrees_with_linux_and_falls_back_to_what_an_older_release_has() {
    for (sender, receiver) in [("freebsd-15-current", "linux-7.3"), ("linux-7.3", "freebsd-15-current")] {
        let run = with(sender, receiver, EcnMode::Accurate);
        let (_, last) = run.answers.last().expect("ACKs");
        assert_eq!(ace(last.flags), (5 + run.marks as u32) & 7, "{sender} to {receiver}");
        assert!(run.marks > 10 && run.drops == 0, "{sender} to {receiver}");
    }
    let run = with("freebsd-15-current", "freebsd-13", EcnMode::Accurate);
    assert_eq!(ace(run.answers[0].1.flags), 0b001, "ECE alone: the ECN of RFC 3168");
    assert!(run.marks > 10);
}

#[test]
fn the_sysctl_has_two_more_values_in_main() {
    let mut main = find("freebsd-15-current").expect("a stack");
    for (value, mode) in [(3, EcnMode::Accurate), (4, EcnMode::AcceptAccurate), (2, EcnMode::Accept)] {
        set_checked(&mut *main, "net.inet.tcp.ecn.enable", value).expect("in its range");
        assert_eq!(main.spec().ecn, mode);
    }
    let mut older = find("freebsd-13").expect("a stack");
    assert!(set_checked(&mut *older, "net.inet.tcp.ecn.enable", 3).is_err());
}
