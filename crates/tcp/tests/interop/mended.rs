//! Cases that failed once: what was mended stays mended.

use super::driver::{self, Case, Path, Side};

/// A side that closes at once, which the cases change.
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

fn check(a: Side, b: Side, path: Path) {
    let case = Case { a, b, path };
    driver::run(&case).unwrap_or_else(|error| panic!("{error}\n{case:?}"));
}

fn linux_3_9() -> Side {
    Side { stack: stack("linux-3.9"), ..IDLE }
}

fn stack(name: &str) -> usize {
    driver::stacks().iter().position(|p| p.spec().name == name).expect("a stack")
}

/// The window that a SYN had promised was forgotten: Linux then offered none, and the peer's FIN was outside it.
#[test]
fn a_window_that_a_syn_promised_is_remembered() {
    check(linux_3_9(), IDLE, STILL);
}

/// A window update in TIME-WAIT met a peer that was gone, and its reset.
#[test]
fn a_window_update_in_time_wait_finds_the_peer() {
    check(
        Side { mss: 536, bytes: 1049, rcvbuf: Some(4716), read: 3000, pause: 242_000_000, ..linux_3_9() },
        Side { stack: stack("freebsd-15-current"), bytes: 65_394, ..IDLE },
        Path { duplicate: 3, seed: 2_251_502_507_832_426_395, ..STILL },
    );
}

/// A reset in TIME-WAIT was told to the application as a failure.
#[test]
fn a_reset_in_time_wait_is_no_failure() {
    check(
        Side { stack: stack("freebsd-13"), ..IDLE },
        Side { stack: stack("freebsd-13"), ..IDLE },
        Path { jittered: 113, loss: 2, duplicate: 3, seed: 6_891_030_932_787_069_154, ..STILL },
    );
}

/// A segment in order that reached over two ranges which waited was joined with the first of them only.
#[test]
fn a_segment_over_two_waiting_ranges_joins_both() {
    check(
        Side { stack: stack("freebsd-15-d49540/rack"), bytes: 57_922, ecn: true, ..IDLE },
        Side { stack: stack("linux-6.8"), ..IDLE },
        Path {
            delay: 40_000_000,
            jittered: 48,
            loss: 181,
            cut: 284,
            join: 76,
            seed: 1_832_467_115_340_596_558,
            ..STILL
        },
    );
}

/// A timer that had backed off without timestamps waits for two minutes: the schedule, not a stall.
#[test]
fn a_backed_off_timer_is_no_stall() {
    check(
        Side { cc: 1674622122047576125, bytes: 67403, tso: true, ..linux_3_9() },
        Side { stack: stack("windows-7"), mss: 503, bytes: 2, ..IDLE },
        Path { delay: 40_000_000, loss: 100, cut: 279, join: 136, seed: 17496476125064182972, ..STILL },
    );
}

/// A tail loss probe sent SACKed data again, which RACK then took for lost.
#[test]
fn a_tail_loss_probe_sends_no_sacked_data() {
    check(
        Side { stack: stack("freebsd-15-d49540"), mss: 88, ecn: true, ..IDLE },
        Side {
            stack: stack("linux-6.8"),
            mss: 1460,
            cc: 4708776515298228530,
            bytes: 1102,
            sndbuf: Some(10368),
            ..IDLE
        },
        Path {
            delay: 150_000_000,
            jitter: 379,
            jittered: 151,
            loss: 143,
            cut: 182,
            mark: 6,
            seed: 17578683129450454632,
            ..STILL
        },
    );
}

/// A window that closed below what had been sent was never probed, and every timeout counted against the connection.
#[test]
fn a_window_closed_below_what_was_sent_is_probed() {
    check(
        Side { stack: stack("windows-7"), mss: 1276, bytes: 31_901, rcvbuf: Some(5376), ecn: true, ..IDLE },
        Side {
            stack: stack("freebsd-15-d49540/rack"),
            cc: 3454465772678510274,
            bytes: 29_898,
            rcvbuf: Some(4381),
            read: 4744,
            pause: 256_000_000,
            tso: true,
            ..IDLE
        },
        Path {
            delay: 5_000_000,
            loss: 185,
            duplicate: 62,
            cut: 369,
            mark: 38,
            seed: 1937057317046465612,
            ..STILL
        },
    );
}

/// Two closed windows answered each other's ACKs, which a path that duplicates made ever more of.
#[test]
fn closed_windows_do_not_answer_each_other_for_ever() {
    check(
        Side {
            stack: stack("linux-6.8"),
            cc: 4401449484842295070,
            mss: 1095,
            bytes: 60_000,
            rcvbuf: Some(5475),
            pause: 1_000_000,
            ecn: true,
            ..IDLE
        },
        Side {
            stack: stack("freebsd-15-d49540/rack"),
            cc: 4029960473586013169,
            bytes: 9807,
            rcvbuf: Some(4345),
            read: 3852,
            pause: 22_000_000,
            ..IDLE
        },
        Path { loss: 43, duplicate: 75, seed: 4501382170921965526, ..STILL },
    );
}

/// A negative window of the first CUBIC, which is a huge one in its arithmetic, overflowed after a recovery.
#[test]
fn a_negative_cubic_window_does_not_overflow() {
    check(
        Side {
            stack: stack("freebsd-15-current/rack"),
            cc: 2999073060386445345,
            mss: 187,
            bytes: 21_351,
            rcvbuf: Some(3851),
            ..IDLE
        },
        Side { stack: stack("freebsd-11"), cc: 9087234657265679392, bytes: 144_909, ..IDLE },
        Path { delay: 500_000, loss: 154, duplicate: 62, seed: 6662381060158434302, ..STILL },
    );
}

/// BBR stamps what it paces with a time to come, and RACK took its age for negative.
#[test]
fn a_paced_stamp_in_the_future_has_no_negative_age() {
    check(
        Side { stack: stack("freebsd-13/rack"), ..IDLE },
        Side {
            stack: stack("linux-6.8"),
            cc: 15_432_394_597_964_906_250,
            mss: 536,
            bytes: 13_101,
            tso: true,
            ..IDLE
        },
        Path {
            delay: 40_000_000,
            jitter: 18_857,
            jittered: 178,
            loss: 81,
            duplicate: 70,
            cut: 426,
            seed: 4_924_121_253_488_511_506,
            ..STILL
        },
    );
}

/// A probe sent again told of a smaller window than the ACKs before it, which a sender need not heed.
#[test]
fn a_probe_with_a_smaller_window_does_not_shrink_it() {
    check(
        Side { stack: stack("freebsd-15-d49540"), mss: 870, bytes: 4740, ..IDLE },
        Side {
            stack: stack("freebsd-15-d49540/rack"),
            bytes: 859,
            rcvbuf: Some(3000),
            pause: 11_000_000,
            ..IDLE
        },
        Path { jittered: 35, cut: 145, join: 11, seed: 4_663_424_383_617_096_902, ..STILL },
    );
}

/// Probes of a closed window backed RACK's timer off, and the first timeout after it opened was one too many.
#[test]
fn window_probes_do_not_count_as_timeouts() {
    check(
        Side {
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
        Side {
            stack: stack("freebsd-13"),
            cc: 1_918_293_652_340_829_251,
            bytes: 108_245,
            rcvbuf: Some(3000),
            read: 2212,
            pause: 162_000_000,
            ..IDLE
        },
        Path { delay: 5_000_000, loss: 175, cut: 9, join: 56, seed: 12_244_576_493_158_443_695, ..STILL },
    );
}

/// A window that closed after everything, FIN included, had been sent: each timeout found no window and sent nothing.
#[test]
fn a_window_closed_over_everything_sent_is_probed() {
    check(
        Side {
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
        Side { stack: stack("freebsd-11"), bytes: 10_995, ..IDLE },
        Path { delay: 500_000, jittered: 119, loss: 64, mark: 12, seed: 12_099_378_099_978_623_306, ..STILL },
    );
}
