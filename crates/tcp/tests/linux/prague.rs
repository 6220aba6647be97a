//! Prague between two endpoints: Accurate ECN and ECT(1) whatever the host says, and Reno where the peer has none.

use tcp::stack::EcnMode;
use wire::{Ecn, Flags};

use crate::path::{MARKED_BYTES, Path, Run, marked};

fn with(stack: &str, change: impl FnOnce(&mut Path<'_>)) -> Run {
    marked("prague", stack, change)
}

#[test]
fn every_packet_is_ect_1_with_accurate_ecn_whatever_the_host_says() {
    for stack in ["linux-7.3", "linux-prague-testing", "linux-prague-2020-08"] {
        for ecn in [EcnMode::Accept, EcnMode::Off] {
            let run = with(stack, |path| path.ecn = ecn);
            assert_eq!(run.read, MARKED_BYTES);
            assert!(run.sent[0].1.flags.has(Flags::AE | Flags::CWR | Flags::ECE), "{stack} {ecn:?}");
            let all = run.sent.iter().chain(&run.answers);
            assert!(all.clone().all(|(_, segment)| segment.ecn == Ecn::Ect1), "{stack} {ecn:?}");
            assert!(run.marks > 10 && run.marks < 2000, "{stack}: {} of 3000 are marked", run.marks);
        }
    }
}

#[test]
fn a_listener_without_accurate_ecn_leaves_reno_without_ecn() {
    let run = with("linux-7.3", |path| (path.accepts, path.ecn) = ("cubic", EcnMode::On));
    assert_eq!((run.read, run.marks), (MARKED_BYTES, 0));
    let data = run.sent.iter().filter(|(_, segment)| segment.len > 0);
    assert!(data.clone().count() > 0 && data.clone().all(|(_, segment)| segment.ecn == Ecn::NotEct));
}
