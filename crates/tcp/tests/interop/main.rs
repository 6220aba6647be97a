//! Any two stacks talk over any path: every byte arrives exactly once and in order, both sides close, nothing stalls.

mod case;
mod driver;

use std::cell::RefCell;

use driver::{Case, Path, Seen, Side};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Cases of a run; a hundred take a second or two.
const CASES: u32 = 1500;

/// How many cases had what.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cases: u64,
    rto: u64,
    tail_loss_probe: u64,
    sequence_wrap: u64,
    zero_window: u64,
    reordering_past_dupthresh: u64,
    resegmented: u64,
    bytes: u64,
}

impl Counts {
    fn add(&mut self, seen: &Seen) {
        self.cases += 1;
        self.rto += u64::from(seen.rtos > 0);
        self.tail_loss_probe += u64::from(seen.probes > 0);
        self.sequence_wrap += u64::from(seen.wrapped);
        self.zero_window += u64::from(seen.zero_window);
        self.reordering_past_dupthresh += u64::from(seen.reordered);
        self.resegmented += u64::from(seen.resegmented > 0);
        self.bytes += seen.bytes;
    }
}

/// A side that closes at once, and how the cases below are told from it.
const IDLE: Side = Side {
    stack: 0,
    cc: 0,
    mss: 1460,
    iss: 0,
    bytes: 0,
    sndbuf: None,
    rcvbuf: None,
    read: 2000,
    pause: 0,
    tso: false,
    ecn: false,
};

/// A path that does nothing.
const STILL: Path =
    Path { delay: 10_000, jitter: 0, jittered: 0, loss: 0, duplicate: 0, cut: 0, join: 0, mark: 0, seed: 0 };

/// Cases that failed once.
#[test]
fn what_was_mended_stays_mended() {
    let linux = Side { stack: stack("linux-3.9"), ..IDLE };
    let cases = [
        // The window that a SYN had promised was forgotten: Linux then offered none, and the peer's FIN was outside it.
        Case { a: linux, b: IDLE, path: STILL },
        // A window update in TIME-WAIT met a peer that was gone, and its reset.
        Case {
            a: Side { mss: 536, bytes: 1049, rcvbuf: Some(4716), read: 3000, pause: 242_000_000, ..linux },
            b: Side { stack: stack("freebsd-15-current"), bytes: 65_394, ..IDLE },
            path: Path { duplicate: 3, seed: 2_251_502_507_832_426_395, ..STILL },
        },
        // A reset in TIME-WAIT was told to the application as a failure.
        Case {
            a: Side { stack: stack("freebsd-13"), ..IDLE },
            b: Side { stack: stack("freebsd-13"), ..IDLE },
            path: Path { jittered: 113, loss: 2, duplicate: 3, seed: 6_891_030_932_787_069_154, ..STILL },
        },
        // A segment in order that reached over two ranges which waited was joined with the first of them only.
        Case {
            a: Side { stack: stack("freebsd-15-d49540/rack"), bytes: 57_922, ecn: true, ..IDLE },
            b: Side { stack: stack("linux-6.8"), ..IDLE },
            path: Path {
                delay: 40_000_000,
                jittered: 48,
                loss: 181,
                cut: 284,
                join: 76,
                seed: 1_832_467_115_340_596_558,
                ..STILL
            },
        },
        // A timer that had backed off without timestamps waits for two minutes: the schedule, not a stall.
        Case {
            a: Side { cc: 1674622122047576125, bytes: 67403, tso: true, ..linux },
            b: Side { stack: stack("windows-7"), mss: 503, bytes: 2, ..IDLE },
            path: Path {
                delay: 40_000_000,
                loss: 100,
                cut: 279,
                join: 136,
                seed: 17496476125064182972,
                ..STILL
            },
        },
        // A tail loss probe sent SACKed data again, which RACK then took for lost.
        Case {
            a: Side { stack: stack("freebsd-15-d49540"), mss: 88, ecn: true, ..IDLE },
            b: Side {
                stack: stack("linux-6.8"),
                mss: 1460,
                cc: 4708776515298228530,
                bytes: 1102,
                sndbuf: Some(10368),
                ..IDLE
            },
            path: Path {
                delay: 150_000_000,
                jitter: 379,
                jittered: 151,
                loss: 143,
                cut: 182,
                mark: 6,
                seed: 17578683129450454632,
                ..STILL
            },
        },
        // A window that closed below what had been sent was never probed, and every timeout counted against the connection.
        Case {
            a: Side {
                stack: stack("windows-7"),
                mss: 1276,
                bytes: 31_901,
                rcvbuf: Some(5376),
                ecn: true,
                ..IDLE
            },
            b: Side {
                stack: stack("freebsd-15-d49540/rack"),
                cc: 3454465772678510274,
                bytes: 29_898,
                rcvbuf: Some(4381),
                read: 4744,
                pause: 256_000_000,
                tso: true,
                ..IDLE
            },
            path: Path {
                delay: 5_000_000,
                loss: 185,
                duplicate: 62,
                cut: 369,
                mark: 38,
                seed: 1937057317046465612,
                ..STILL
            },
        },
        // Two closed windows answered each other's ACKs, which a path that duplicates made ever more of.
        Case {
            a: Side {
                stack: stack("linux-6.8"),
                cc: 4401449484842295070,
                mss: 1095,
                bytes: 60_000,
                rcvbuf: Some(5475),
                pause: 1_000_000,
                ecn: true,
                ..IDLE
            },
            b: Side {
                stack: stack("freebsd-15-d49540/rack"),
                cc: 4029960473586013169,
                bytes: 9807,
                rcvbuf: Some(4345),
                read: 3852,
                pause: 22_000_000,
                ..IDLE
            },
            path: Path { loss: 43, duplicate: 75, seed: 4501382170921965526, ..STILL },
        },
        // A negative window of the first CUBIC, which is a huge one in its arithmetic, overflowed after a recovery.
        Case {
            a: Side {
                stack: stack("freebsd-15-current/rack"),
                cc: 2999073060386445345,
                mss: 187,
                bytes: 21_351,
                rcvbuf: Some(3851),
                ..IDLE
            },
            b: Side { stack: stack("freebsd-11"), cc: 9087234657265679392, bytes: 144_909, ..IDLE },
            path: Path { delay: 500_000, loss: 154, duplicate: 62, seed: 6662381060158434302, ..STILL },
        },
        // BBR stamps what it paces with a time to come, and RACK took its age for negative.
        Case {
            a: Side { stack: stack("freebsd-13/rack"), ..IDLE },
            b: Side {
                stack: stack("linux-6.8"),
                cc: 15_432_394_597_964_906_250,
                mss: 536,
                bytes: 13_101,
                tso: true,
                ..IDLE
            },
            path: Path {
                delay: 40_000_000,
                jitter: 18_857,
                jittered: 178,
                loss: 81,
                duplicate: 70,
                cut: 426,
                seed: 4_924_121_253_488_511_506,
                ..STILL
            },
        },
        // A probe sent again told of a smaller window than the ACKs before it, which a sender need not heed.
        Case {
            a: Side { stack: stack("freebsd-15-d49540"), mss: 870, bytes: 4740, ..IDLE },
            b: Side {
                stack: stack("freebsd-15-d49540/rack"),
                bytes: 859,
                rcvbuf: Some(3000),
                pause: 11_000_000,
                ..IDLE
            },
            path: Path { jittered: 35, cut: 145, join: 11, seed: 4_663_424_383_617_096_902, ..STILL },
        },
        // Probes of a closed window backed RACK's timer off, and the first timeout after it opened was one too many.
        Case {
            a: Side {
                stack: stack("freebsd-13/rack"),
                cc: 10_049_613_684_557_653_557,
                mss: 536,
                bytes: 16_769,
                sndbuf: Some(2097),
                rcvbuf: Some(4717),
                read: 2000,
                tso: true,
                ..IDLE
            },
            b: Side {
                stack: stack("freebsd-13"),
                cc: 1_918_293_652_340_829_251,
                bytes: 108_245,
                rcvbuf: Some(3000),
                read: 2212,
                pause: 162_000_000,
                ..IDLE
            },
            path: Path {
                delay: 5_000_000,
                loss: 175,
                cut: 9,
                join: 56,
                seed: 12_244_576_493_158_443_695,
                ..STILL
            },
        },
        // A window that closed after everything, FIN included, had been sent: each timeout found no window and sent nothing.
        Case {
            a: Side {
                stack: stack("freebsd-15-d49540"),
                cc: 3_307_914_577_172_882_822,
                mss: 1375,
                bytes: 152_657,
                rcvbuf: Some(8179),
                read: 6938,
                pause: 260_000_000,
                ecn: true,
                ..IDLE
            },
            b: Side { stack: stack("freebsd-11"), bytes: 10_995, ..IDLE },
            path: Path {
                delay: 500_000,
                jittered: 119,
                loss: 64,
                mark: 12,
                seed: 12_099_378_099_978_623_306,
                ..STILL
            },
        },
    ];
    for case in cases {
        driver::run(&case).unwrap_or_else(|error| panic!("{error}\n{case:?}"));
    }
}

fn stack(name: &str) -> usize {
    tcp::profile::all().iter().position(|p| p.spec().name == name).expect("a stack")
}

#[test]
fn any_two_stacks_talk_over_any_path() {
    let cases = std::env::var("INTEROP_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES);
    // Without persistence: the failing case is printed whole, with its seed, and is all that is needed to run it again.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let counts = RefCell::new(Counts::default());
    // The same cases in every run, so that a change is judged by what it changed; INTEROP_CASES goes further.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, random).run(&case::any_case(), |case| {
        let seen = driver::run(&case).map_err(proptest::test_runner::TestCaseError::fail)?;
        counts.borrow_mut().add(&seen);
        Ok(())
    });
    let counts = counts.into_inner();
    println!("{counts:#?}");
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(counts.rto > 0, "no case had a timeout");
    assert!(counts.tail_loss_probe > 0, "no case had a tail loss probe");
    assert!(counts.sequence_wrap > 0, "no case had a sequence wrap");
    assert!(counts.zero_window > 0, "no case had a zero window");
    assert!(counts.reordering_past_dupthresh > 0, "no case had reordering past DupThresh");
    assert!(counts.resegmented > 0, "no case was resegmented");
    assert!(counts.bytes > 0, "no byte was delivered");
}
