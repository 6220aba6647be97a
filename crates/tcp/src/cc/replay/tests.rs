//! Senders with and without faults beside a reference of Linux.

use super::*;
use crate::cc::linux::built_in;
use crate::linux_config::Config;

const MSS: u64 = 1000;
const RTT: Nanos = 50_000_000;

fn reference(config: &Config, cc: &'static str) -> Replay {
    let modules = built_in(&[cc]);
    let module = modules.get(cc).expect("built in");
    let connect = || module.connect(&config.clone().into());
    Replay::new(Box::new(Linux::new(connect, MSS as u32, 1000)), MSS as u32, false)
}

/// A sender whose window follows `grows` per packet acknowledged; a round trip of ACKs after the other.
struct Other {
    replay: Replay,
    now: Nanos,
    cwnd: u64,
    found: Vec<Verdict>,
}

impl Other {
    fn new(packets: u64) -> Other {
        Other::beside(reference(&Config::linux_6_18(), "cubic"), packets)
    }

    fn beside(replay: Replay, packets: u64) -> Other {
        let mut other = Other { replay, now: 0, cwnd: packets * MSS, found: Vec::new() };
        other.tell(Notice::Ack, 0);
        other
    }

    fn tell(&mut self, notice: Notice, bytes: u64) {
        let seen = Seen::with_window(self.now, notice, bytes, RTT, self.cwnd);
        self.found.extend(self.replay.step(&seen));
    }

    fn round(&mut self, more: u64) {
        let packets = self.cwnd / MSS;
        for packet in 0..packets {
            self.now += RTT / packets;
            self.cwnd += more * MSS * (packet + 1) / packets - more * MSS * packet / packets;
            self.tell(Notice::Ack, MSS);
        }
    }

    /// Loses a packet; its window is `cwnd` from then on.
    fn lose(&mut self, cwnd: u64) {
        let flight = self.cwnd;
        self.tell(Notice::Loss, MSS);
        self.cwnd = cwnd;
        let parts = flight / MSS + 1;
        for _ in 0..parts {
            self.now += RTT / parts;
            self.tell(Notice::Ack, MSS);
        }
    }

    fn last(&self, compared: Compared) -> Verdict {
        *self.found.iter().rfind(|verdict| verdict.compared == compared).expect("something was compared")
    }
}

#[test]
fn slow_start_adds_what_was_acknowledged() {
    let mut other = Other::new(10);
    for packets in [10, 20, 40] {
        other.round(packets);
        let told = other.last(Compared::SlowStart);
        assert_eq!((told.before, told.expected), (packets * MSS, 2 * packets * MSS));
        assert!(told.found.abs_diff(told.expected) <= MSS, "{told:?}");
    }
}

#[test]
fn each_reduction_is_compared_by_itself() {
    let mut other = Other::new(100);
    // A window of 1000 packets and more is left with 0.49 of it, twice: the second is judged by what is left.
    other.lose(49 * MSS);
    let first = other.last(Compared::Loss);
    assert_eq!((first.before, first.found, first.expected), (100 * MSS, 49 * MSS, 70 * MSS));
    other.lose(24 * MSS);
    let second = other.last(Compared::Loss);
    assert_eq!((second.before, second.found, second.expected), (49 * MSS, 24 * MSS, 34 * MSS));
}

#[test]
fn losses_of_one_window_are_one_reduction() {
    let mut other = Other::new(100);
    other.tell(Notice::Loss, MSS);
    other.tell(Notice::Loss, MSS);
    other.lose(70 * MSS);
    assert_eq!(other.found.iter().filter(|verdict| verdict.compared == Compared::Loss).count(), 1);
}

#[test]
fn a_loss_found_late_belongs_to_the_recovery_that_was_counted() {
    let mut other = Other::new(100);
    other.lose(70 * MSS);
    other.tell(Notice::Loss, MSS);
    other.round(0);
    other.round(0);
    assert_eq!(other.found.iter().filter(|verdict| verdict.compared == Compared::Loss).count(), 1);
    // Later a window that stays is one that is not reduced.
    other.lose(70 * MSS);
    let told = other.last(Compared::Loss);
    assert_eq!((told.before, told.found, told.expected), (70 * MSS, 70 * MSS, 49 * MSS));
}

#[test]
fn the_slow_start_after_a_timeout_shows_the_threshold() {
    for (threshold, lost_before) in [(49, false), (70, false), (70, true)] {
        let mut other = Other::new(100);
        if lost_before {
            other.tell(Notice::Loss, MSS);
        }
        other.cwnd = MSS;
        other.tell(Notice::Timeout, 0);
        assert_eq!(other.last(Compared::Timeout).found, MSS);
        // What is acknowledged first was sent before.
        other.round(0);
        while other.cwnd < threshold * MSS {
            let (now, packets) = (other.now, other.cwnd / MSS);
            for packet in 1..=packets {
                other.now = now + RTT * packet / packets;
                other.cwnd = (other.cwnd + MSS).min(threshold * MSS);
                other.tell(Notice::Ack, MSS);
            }
        }
        other.round(1);
        let told = other.last(Compared::Threshold);
        assert_eq!((told.before, told.expected), (100 * MSS, 70 * MSS));
        assert_eq!(told.found, threshold * MSS);
        let growth = other.found.iter().filter(|verdict| verdict.compared == Compared::SlowStart);
        assert!(growth.clone().count() >= 5, "{:?}", other.found);
        assert!(growth.clone().all(|verdict| verdict.found.abs_diff(verdict.expected) <= 2 * MSS));
    }
}

#[test]
fn a_window_that_stays_is_seen_beside_one_that_grows() {
    let mut other = Other::new(100);
    other.lose(70 * MSS);
    for _ in 0..40 {
        other.round(0);
    }
    let told = other.last(Compared::Avoidance);
    assert_eq!((told.before, told.found), (70 * MSS, 70 * MSS));
    assert!(told.expected > 85 * MSS, "{told:?}");
}

/// Five round trips of 20 packets each, at least, and of no more than `most`, of a window of 100 that grows by `grows` with each.
fn with_20_of_100(most: u64, grows: u64) -> Verdict {
    let mut other = Other::new(100);
    for _ in 0..100 {
        other.now += RTT / 20;
        other.cwnd += grows * MSS;
        let seen = Seen {
            flight: Some(20 * MSS),
            most: Some(most * MSS),
            ..Seen::with_window(other.now, Notice::Ack, MSS, RTT, other.cwnd)
        };
        other.found.extend(other.replay.step(&seen));
    }
    other.last(Compared::SlowStart)
}

#[test]
fn a_window_that_the_application_leaves_unused_does_not_grow() {
    for (grows, found) in [(0, 100), (1, 200)] {
        let told = with_20_of_100(20, grows);
        assert_eq!((told.found, told.expected, told.unused), (found * MSS, 100 * MSS, true));
    }
}

#[test]
fn a_window_that_may_have_been_used_or_not_may_grow_or_not() {
    for (grows, found, expected) in [(0, 100, 100), (1, 200, 200), (2, 300, 200)] {
        let told = with_20_of_100(300, grows);
        assert_eq!((told.found, told.expected, told.unused), (found * MSS, expected * MSS, false));
    }
}

#[test]
fn a_connection_that_begins_without_slow_start_does_not_leave_it() {
    let mut other = Other::new(10);
    other.round(1);
    let told = other.last(Compared::SlowStart);
    assert_eq!((told.before, told.found, told.expected), (10 * MSS, 11 * MSS, 20 * MSS));
    assert_eq!((told.threshold, told.unused), (None, false));
    other.round(1);
    let told = other.last(Compared::Avoidance);
    assert_eq!((told.before, told.found), (11 * MSS, 12 * MSS));
}

#[test]
fn what_the_ack_that_ends_a_recovery_covers_makes_no_window_grow() {
    let mut other = Other::new(100);
    other.replay.told = true;
    other.tell(Notice::Loss, MSS);
    other.now += RTT;
    other.cwnd = 70 * MSS;
    other.tell(Notice::Recovered, 0);
    assert_eq!(other.last(Compared::Loss).expected, 70 * MSS);
    other.tell(Notice::Ack, 100 * MSS);
    other.round(1);
    assert_eq!(other.last(Compared::Avoidance).acked, 70 * MSS);
}

#[test]
fn slow_start_that_is_left_in_a_recovery_is_followed() {
    let mut other = Other::new(100);
    other.replay.told = true;
    other.tell(Notice::Loss, MSS);
    let exit =
        Seen { ssthresh: Some(60 * MSS), ..Seen::with_window(other.now, Notice::Exit, 0, RTT, 60 * MSS) };
    assert!(other.replay.step(&exit).is_none());
    (other.now, other.cwnd) = (other.now + RTT, 60 * MSS);
    other.tell(Notice::Recovered, 0);
    assert_eq!(other.last(Compared::Loss).expected, 60 * MSS);
}

#[test]
fn a_rest_is_no_time_of_an_epoch() {
    let grown = |rest: u64| {
        let mut other = Other::new(100);
        other.lose(70 * MSS);
        other.round(0);
        let empty =
            Seen { left: Some(0), ..Seen::with_window(other.now + RTT, Notice::Ack, MSS, RTT, other.cwnd) };
        other.found.extend(other.replay.step(&empty));
        other.now += RTT + rest * RTT;
        for _ in 0..20 {
            other.round(0);
        }
        other.last(Compared::Avoidance).expected
    };
    let (without, with) = (grown(1), grown(100));
    assert!(without > 75 * MSS && with.abs_diff(without) <= MSS, "{without} {with}");
}

#[test]
fn a_window_may_fall_to_what_is_in_flight_once_it_is_not_used() {
    for (flight, falls) in [(30, true), (70, false)] {
        let mut other = Other::new(100);
        other.lose(70 * MSS);
        other.round(0);
        other.cwnd = 50 * MSS;
        other.now += RTT / 2;
        let seen = Seen {
            flight: Some(flight * MSS),
            left: Some(29 * MSS),
            ssthresh: Some(50 * MSS),
            ..Seen::with_window(other.now, Notice::Ack, MSS, RTT, other.cwnd)
        };
        other.found.extend(other.replay.step(&seen));
        other.round(0);
        other.round(0);
        let told = other.last(Compared::Avoidance);
        assert_eq!(told.before == 50 * MSS, falls, "{told:?}");
    }
}

#[test]
fn slow_start_that_ends_without_congestion_is_followed() {
    let mut other = Other::new(100);
    other.round(10);
    assert_eq!(other.last(Compared::Exit).found, 110 * MSS);
    other.round(2);
    let told = other.last(Compared::Avoidance);
    assert!(told.expected < 120 * MSS, "{told:?}");
}

#[test]
fn a_window_that_falls_after_nothing_was_in_flight_is_a_restart() {
    let mut other = Other::new(100);
    other.round(10);
    let (now, cwnd, ssthresh) = (other.now + 20 * RTT, 10 * MSS, Some(80 * MSS));
    let (notice, bytes, rtt, srtt) = (Notice::Ack, MSS, Some(RTT), None);
    let restart = Seen {
        now,
        notice,
        bytes,
        rtt,
        srtt,
        flight: Some(0),
        most: None,
        left: Some(9 * MSS),
        cwnd,
        ssthresh,
    };
    assert!(other.replay.step(&restart).is_none());
    (other.now, other.cwnd) = (now, cwnd);
    other.round(10);
    let told = other.last(Compared::SlowStart);
    assert_eq!((told.before, told.found, told.expected), (10 * MSS, 20 * MSS, 20 * MSS));
}

#[test]
fn a_recovery_that_leaves_what_is_in_flight_is_judged_by_its_threshold() {
    for (threshold, left, window, found) in
        [(70, 50, 52, 70), (49, 40, 42, 49), (70, 45, 53, 53), (49, 50, 49, 49)]
    {
        let mut other = Other::new(100);
        other.tell(Notice::Loss, MSS);
        let mut seen = Seen::with_window(RTT, Notice::Recovered, 0, RTT, window * MSS);
        (seen.left, seen.ssthresh) = (Some(left * MSS), Some(threshold * MSS));
        other.found.extend(other.replay.step(&seen));
        let told = other.last(Compared::Loss);
        assert_eq!((told.found, told.expected), (found * MSS, 70 * MSS), "a threshold of {threshold}");
    }
}

#[test]
fn an_ack_of_which_nothing_is_known_counts_where_acks_do() {
    for (config, notice, differs) in [
        (Config::linux_3_9(), Notice::Ack, true),
        (Config::linux_3_9(), Notice::Unclear, false),
        (Config::linux_6_18(), Notice::Unclear, true),
    ] {
        let mut other = Other::beside(reference(&config, "reno"), 20);
        other.lose(10 * MSS);
        // The window grows by a packet for eleven ACKs, of which every other one covers four packets.
        for ack in 1..=110 {
            other.now += RTT / 10;
            other.cwnd += if ack % 11 == 0 { MSS } else { 0 };
            let bare = ack % 2 == 0;
            other.tell(if bare { notice } else { Notice::Ack }, if bare { 0 } else { MSS });
        }
        let told = other.last(Compared::Avoidance);
        assert_eq!(told.found > told.expected + MSS, differs, "{told:?}");
    }
}

#[test]
fn a_reduction_in_the_first_ack_after_a_rest_is_followed() {
    for rested in [false, true] {
        let mut other = Other::new(100);
        let mut last = Seen::with_window(RTT, Notice::Ack, MSS, RTT, 100 * MSS);
        last.left = Some(if rested { 0 } else { 50 * MSS });
        other.found.extend(other.replay.step(&last));
        other.now = 40 * RTT;
        other.cwnd = 5 * MSS;
        other.tell(Notice::Ecn, 0);
        other.tell(Notice::Recovered, 0);
        let told = other.found.iter().find(|verdict| verdict.compared == Compared::Ecn);
        assert_eq!(told.map(|verdict| verdict.found), (!rested).then_some(5 * MSS));
    }
}
