//! Senders with and without faults beside a reference of Linux.

use super::*;
use crate::cc::linux::built_in;
use crate::linux_config::Config;

const MSS: u64 = 1000;
const RTT: Nanos = 50_000_000;

fn reference() -> Replay {
    let cubic = built_in(&["cubic"]).get("cubic").expect("built in").connect(&Config::linux_6_18().into());
    Replay::new(Box::new(Linux::new(cubic, MSS as u32, 1000)), MSS as u32, false)
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
        let mut other = Other { replay: reference(), now: 0, cwnd: packets * MSS, found: Vec::new() };
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

#[test]
fn a_window_that_the_application_leaves_unused_does_not_grow() {
    let mut other = Other::new(100);
    other.tell(Notice::AppLimited, 0);
    for _ in 0..5 {
        for _ in 0..20 {
            other.now += RTT / 20;
            let (now, cwnd) = (other.now, other.cwnd);
            let flight = Some(20 * MSS);
            let seen = Seen {
                now,
                notice: Notice::Ack,
                bytes: MSS,
                rtt: Some(RTT),
                srtt: None,
                flight,
                left: None,
                cwnd,
                ssthresh: None,
            };
            other.found.extend(other.replay.step(&seen));
        }
    }
    assert_eq!(other.last(Compared::SlowStart).expected, 100 * MSS);
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
    let restart =
        Seen { now, notice, bytes, rtt, srtt, flight: Some(0), left: Some(9 * MSS), cwnd, ssthresh };
    assert!(other.replay.step(&restart).is_none());
    (other.now, other.cwnd) = (now, cwnd);
    other.round(10);
    let told = other.last(Compared::SlowStart);
    assert_eq!((told.before, told.found, told.expected), (10 * MSS, 20 * MSS, 20 * MSS));
}
