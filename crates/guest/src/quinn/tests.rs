//! Two ends of quinn over a wire of our own.

use super::*;

const MS: Nanos = 1_000_000;

fn made(setup: &Setup<'_>) -> Box<dyn Guest> {
    Box::new(Quinn::new(setup))
}

/// Two ends, and a wire that takes `delay` each way and loses datagrams that `loses` says by their number.
struct Wire {
    ends: [Box<dyn Guest>; 2],
    /// Datagrams under way: when they arrive, at which end, their bytes and ECN field.
    under_way: Vec<(Nanos, usize, Vec<u8>, Ecn)>,
    now: Nanos,
    sent: Vec<(usize, Vec<u8>)>,
}

impl Wire {
    fn new(cc: &str, payload: u16) -> Wire {
        let end = |opening: bool| {
            made(&Setup { opening, cc, seed: [opening as u8 + 1; 32], payload, ..Setup::default() })
        };
        Wire { ends: [end(true), end(false)], under_way: Vec::new(), now: 0, sent: Vec::new() }
    }

    /// Runs until `until`, or nothing is left to do. `work` is each end's application.
    fn run(
        &mut self,
        until: Nanos,
        mark: impl Fn(usize, Ecn) -> Option<Ecn>,
        work: impl Fn(usize, &mut dyn Guest),
    ) {
        loop {
            for side in 0..2 {
                let mut buffer = Vec::new();
                loop {
                    work(side, &mut *self.ends[side]);
                    buffer.clear();
                    let Some(ecn) = self.ends[side].poll_transmit(self.now, &mut buffer) else { break };
                    self.sent.push((side, buffer.clone()));
                    if let Some(ecn) = mark(self.sent.len(), ecn) {
                        self.under_way.push((self.now + 20 * MS, 1 - side, buffer.clone(), ecn));
                    }
                }
            }
            let arrival = self.under_way.iter().map(|(at, ..)| *at).min();
            let timers = [0, 1].map(|side| self.ends[side].poll_timeout());
            let Some(next) = arrival.into_iter().chain(timers.into_iter().flatten()).min() else { return };
            if next > until {
                return;
            }
            self.now = next.max(self.now);
            for (end, timer) in self.ends.iter_mut().zip(timers) {
                if timer.is_some_and(|at| at <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
            while let Some(place) = self.under_way.iter().position(|(at, ..)| *at <= self.now) {
                let (_, side, bytes, ecn) = self.under_way.remove(place);
                self.ends[side].handle(self.now, &bytes, ecn);
            }
        }
    }
}

/// The opening end writes so many bytes and ends its stream.
fn transfer(wire: &mut Wire, bytes: u64, mark: impl Fn(usize, Ecn) -> Option<Ecn>) -> u64 {
    let (left, read) = (std::cell::Cell::new(bytes), std::cell::Cell::new(0));
    wire.run(60_000 * MS, mark, |side, end| {
        if side == 1 {
            read.set(read.get() + end.read(0, u64::MAX));
        } else if end.is_open() {
            left.set(left.get() - end.write(0, left.get()));
            if left.get() == 0 {
                end.finish(0);
            }
        }
    });
    read.get()
}

fn keep(_: usize, ecn: Ecn) -> Option<Ecn> {
    Some(ecn)
}

#[test]
fn the_name_says_the_version_that_is_built_in() {
    let needed = format!("quinn-proto = {{ version = \"={VERSION}\"");
    assert!(include_str!("../../Cargo.toml").contains(&needed), "{needed}");
    assert_eq!(STACK.name, format!("quinn-{VERSION}"));
}

#[test]
fn all_bytes_arrive_and_the_connection_ends_at_both_ends() {
    let mut wire = Wire::new("cubic", 1472);
    assert_eq!(transfer(&mut wire, 300_000, keep), 300_000);
    assert!(wire.ends[1].is_at_end());
    assert_eq!(wire.ends.each_ref().map(|end| end.failure().map(str::to_owned)), [None, None]);
    assert!(wire.now < 5_000 * MS, "it is over long before the idle timeout: {}", wire.now);
    assert_eq!(wire.ends[0].observe().written, 300_000);
    assert_eq!(wire.ends[0].observe().lost, Some(0));
    assert_eq!(wire.ends[0].observe().srtt.map(|srtt| srtt / MS), Some(40));
}

#[test]
fn the_handshake_takes_one_round_trip_in_padded_datagrams() {
    let mut wire = Wire::new("cubic", 1472);
    wire.run(41 * MS, keep, |_, _| ());
    assert!(wire.ends[0].is_open());
    assert!(wire.sent[0].1.len() >= 1200, "RFC 9000 section 14.1: {}", wire.sent[0].1.len());
}

#[test]
fn the_same_seed_gives_the_same_datagrams_and_another_others() {
    let sent = |seed: u8| {
        let mut wire = Wire::new("newreno", 1472);
        wire.ends[0] = made(&Setup { cc: "newreno", seed: [seed; 32], ..Setup::default() });
        transfer(&mut wire, 50_000, keep);
        wire.sent
    };
    assert!(sent(7) == sent(7));
    assert!(sent(7) != sent(8));
}

#[test]
fn every_congestion_control_sends_the_same_for_the_same_seed() {
    for cc in STACK.cc {
        let sent = || {
            let mut wire = Wire::new(cc, 1472);
            let lose = |number: usize, ecn: Ecn| (!number.is_multiple_of(211)).then_some(ecn);
            assert_eq!(transfer(&mut wire, 6_000_000, lose), 6_000_000, "{cc}");
            wire.sent
        };
        let first = sent();
        assert!((0..3).all(|_| sent() == first), "{cc}");
    }
}

#[test]
fn the_window_of_bbr_is_in_no_slow_start() {
    let mut wire = Wire::new("bbr", 1472);
    transfer(&mut wire, 1_000_000, keep);
    let seen = wire.ends[0].observe();
    assert!(
        seen.in_slow_start == Some(false) && seen.ssthresh.is_none() && seen.pacing_bps.is_none(),
        "{seen:?}"
    );
    let mut wire = Wire::new("cubic", 1472);
    transfer(&mut wire, 100_000, keep);
    assert_eq!(wire.ends[0].observe().in_slow_start, Some(true));
}

#[test]
fn a_lost_datagram_is_an_entry_into_recovery() {
    let mut wire = Wire::new("cubic", 1472);
    assert_eq!(transfer(&mut wire, 1_000_000, |number, ecn| (number != 100).then_some(ecn)), 1_000_000);
    let events: Vec<GuestEvent> = std::iter::from_fn(|| wire.ends[0].poll_event()).collect();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [crate::EventKind::RecoveryIn]);
    let seen = wire.ends[0].observe();
    assert_eq!(seen.lost, Some(1));
    // quinn's CUBIC reduces to 0.7 (RFC 9438 section 4.6).
    assert_eq!(seen.ssthresh, Some((events[0].value as f64 * 0.7) as u64));
}

#[test]
fn a_mark_is_a_reduction_and_loses_nothing() {
    let mut wire = Wire::new("cubic", 1472);
    let mark = |number: usize, ecn: Ecn| Some(if number == 100 { Ecn::Ce } else { ecn });
    assert_eq!(transfer(&mut wire, 1_000_000, mark), 1_000_000);
    let events: Vec<GuestEvent> = std::iter::from_fn(|| wire.ends[0].poll_event()).collect();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [crate::EventKind::Reduction]);
    assert_eq!(wire.ends[0].observe().lost, Some(0));
}

#[test]
fn no_datagram_is_larger_than_the_interface_carries() {
    for payload in [1200, 1300, 1472] {
        let mut wire = Wire::new("cubic", payload);
        transfer(&mut wire, 500_000, keep);
        let largest = wire.sent.iter().map(|(_, bytes)| bytes.len()).max();
        assert_eq!(largest, Some(usize::from(payload.min(1452))));
    }
}
