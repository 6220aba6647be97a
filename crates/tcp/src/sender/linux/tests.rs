//! The sender against a receiver that SACKs everything and a path that loses and reorders: counters, work, repair.

use super::config::Config;
use super::scoreboard::{LOST, RETRANS, SACKED};
use super::*;
use crate::cc::linux;
use crate::clock::{HostClock, MICROSECOND};
use crate::event::Events;

/// A sender, its state, and a peer that acknowledges every packet.
struct Bench {
    s: SendState,
    sender: LinuxSender,
    clock: HostClock,
    events: Events,
    now: Nanos,
    /// Data and when it arrives, in order of arrival.
    wire: Vec<(Nanos, u64, u64)>,
    received: RangeSet,
    sent: u64,
    random: u64,
}

const FIRST: u64 = 1000;
const MSS: u64 = 1448;
const DELAY: Nanos = 40 * MILLISECOND;

impl Bench {
    fn new(config: &Config, cc: &str) -> Bench {
        let s = SendState {
            iss: FIRST - 1,
            una: FIRST,
            nxt: FIRST,
            max: FIRST,
            end: FIRST,
            fin: false,
            app_blocked: false,
            wnd: 1 << 30,
            max_wnd: 1 << 30,
            wscale: 14,
            mss: 1460,
            payload: MSS as u32,
            timestamps: false,
            sack: true,
            ecn: false,
            tso: false,
            tso_max: 65_160,
            sndbuf: 1 << 30,
            sndbuf_auto: false,
            retransmits: 0,
            last_received: 0,
            last_sent: 0,
        };
        let mut bench = Bench {
            s,
            sender: LinuxSender::new(config, linux::create(cc, config).expect("a module"), 1),
            clock: HostClock::new(1000, 3 * SECOND, 0),
            events: Events::default(),
            now: SECOND,
            wire: Vec::new(),
            received: RangeSet::new(),
            sent: 0,
            random: 12345,
        };
        bench.with(|sender, s, cx| sender.on_established(s, Some(DELAY), false, cx));
        bench
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut LinuxSender, &mut SendState, &mut Context<'_>) -> R) -> R {
        let mut cx = Context { now: self.now, clock: &self.clock, events: &mut self.events };
        call(&mut self.sender, &mut self.s, &mut cx)
    }

    /// Sends what the sender allows; `arrives` says when a packet arrives, if it does.
    fn transmit(&mut self, mut arrives: impl FnMut(&mut Bench, u64) -> Option<Nanos>) {
        loop {
            match self.with(|sender, s, cx| sender.poll(s, cx)) {
                Poll::Send(transmit) => {
                    self.sent += 1;
                    self.with(|sender, s, cx| sender.on_tx_complete(s, transmit.len, cx));
                    if let Some(at) = arrives(self, transmit.seq) {
                        self.wire.push((at, transmit.seq, transmit.seq + u64::from(transmit.len)));
                    }
                }
                Poll::Wait(_) => return,
            }
        }
    }

    /// Delivers the earliest packet; its ACK is back at once.
    fn deliver(&mut self) -> bool {
        let Some(index) = (0..self.wire.len()).min_by_key(|&i| self.wire[i].0) else { return false };
        let (at, seq, end) = self.wire.remove(index);
        self.now = self.now.max(at);
        self.acknowledge(seq, end);
        true
    }

    fn acknowledge(&mut self, seq: u64, end: u64) {
        let next = self.received.first().filter(|first| first.0 == FIRST).map_or(FIRST, |first| first.1);
        let duplicate = self.received.containing(seq).is_some_and(|(_, to)| end <= to);
        self.received.insert(seq, end, |_, _| {});
        let ack = self.received.first().filter(|first| first.0 == FIRST).map_or(next, |first| first.1);
        let mut blocks: Vec<(u64, u64)> =
            self.received.containing(seq).into_iter().filter(|b| b.0 > ack).collect();
        if seq > ack {
            blocks.extend(
                self.received
                    .iter()
                    .rev()
                    .filter(|b| b.0 > ack && !blocks.contains(b))
                    .take(2)
                    .collect::<Vec<_>>(),
            );
        }
        let wnd = self.s.wnd;
        self.with(|sender, s, cx| {
            let ack = Ack {
                ack: ack.max(s.una),
                sack: &blocks,
                dsack: duplicate.then_some((seq, end)),
                previous_wnd: wnd,
                payload: 0,
                tsecr: None,
                ece: false,
                fin: false,
                frames: 1,
            };
            sender.on_ack(s, &ack, cx);
        });
    }

    fn timer(&mut self) {
        if let Some(at) = self.sender.next_timer() {
            self.now = self.now.max(at);
            self.with(|sender, s, cx| sender.on_timer(s, cx));
        }
    }

    fn draw(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// The counters are what a recount of every packet gives.
    fn check(&self) {
        let board = &self.sender.board;
        let core = &self.sender.core;
        let count = |tag| (board.head()..board.tail()).filter(|&id| board.get(id).has(tag)).count() as u32;
        assert_eq!(core.packets_out, (board.tail() - board.head()) as u32);
        assert_eq!(core.sacked_out, count(SACKED), "sacked");
        assert_eq!(core.lost_out, count(LOST), "lost");
        assert_eq!(core.retrans_out, count(RETRANS), "retransmitted");
    }
}

fn eras() -> [Config; 3] {
    [Config::linux_3_9(), Config::linux_6_8(), Config::linux_6_18()]
}

/// Random loss of data, its retransmissions too, and jitter that reorders: everything arrives, the counters hold.
#[test]
fn counters_survive_loss_and_reordering() {
    for config in eras() {
        for (loss_percent, jitter) in
            [(1, 0), (5, 0), (20, 0), (2, 5 * MILLISECOND), (0, 10 * MILLISECOND), (40, 0)]
        {
            let mut bench = Bench::new(&config, "cubic");
            let total = 3000 * MSS + 100;
            bench.s.end = FIRST + total;
            bench.s.fin = false;
            let mut steps = 0;
            while bench.s.una < bench.s.end {
                bench.transmit(|bench, _| {
                    let lost = bench.draw(100) < loss_percent;
                    let delay = DELAY + if jitter > 0 { bench.draw(jitter) } else { 0 };
                    bench.now += MICROSECOND;
                    (!lost).then_some(bench.now + delay)
                });
                bench.check();
                let next = bench.wire.iter().map(|w| w.0).min();
                match (next, bench.sender.next_timer()) {
                    (Some(at), Some(timer)) if timer < at => bench.timer(),
                    (Some(_), _) => assert!(bench.deliver()),
                    (None, Some(_)) => bench.timer(),
                    (None, None) => panic!("stalled at {} of {total}", bench.s.una - FIRST),
                }
                bench.check();
                steps += 1;
                assert!(
                    steps < 2_000_000,
                    "no end: {loss_percent} %, jitter {jitter}, {:?}",
                    config.detection
                );
            }
            assert_eq!(bench.sender.core.in_flight(), 0);
        }
    }
}

/// Work per ACK does not grow with the window: 30,000 packets in flight, of which a burst of 3,000 and every 20th are lost.
/// Packets looked at are bounded by what an ACK changes and a binary search, for every ACK, recovery included.
#[test]
fn work_per_ack_does_not_depend_on_the_window() {
    for config in eras() {
        let mut bench = Bench::new(&config, "reno");
        let window = 30_000;
        bench.sender.core.cwnd = window;
        bench.sender.core.ssthresh = window;
        bench.s.end = FIRST + 200_000 * MSS;
        let mut first_pass = 0;
        let mut acks = 0u64;
        let mut worst = 0;
        let mut total = 0;
        while acks < 60_000 {
            bench.transmit(|bench, _| {
                first_pass += 1;
                bench.now += 10 * MICROSECOND;
                let lost = first_pass <= u64::from(window)
                    && (first_pass % 20 == 0 || (10_000..13_000).contains(&first_pass));
                (!lost).then_some(bench.now + DELAY)
            });
            // In order of arrival, which is that of sending.
            let Some(&(at, seq, end)) = bench.wire.first() else { break };
            if bench.sender.next_timer().is_some_and(|timer| timer < at) {
                bench.timer();
                continue;
            }
            bench.wire.remove(0);
            bench.now = bench.now.max(at);
            let core = &bench.sender.core;
            let before =
                (bench.sender.board.visits(), core.lost, core.sacked_out, core.delivered, core.packets_out);
            bench.acknowledge(seq, end);
            let core = &bench.sender.core;
            let visits = bench.sender.board.visits() - before.0;
            let changed = (core.lost - before.1)
                + u64::from(core.sacked_out.abs_diff(before.2))
                + (core.delivered - before.3)
                + u64::from(core.packets_out.abs_diff(before.4));
            acks += 1;
            total += visits;
            worst = worst.max(visits.saturating_sub(16 * changed));
        }
        bench.check();
        println!(
            "{:?}: {acks} ACKs, {} visits each on average, at most {worst} beyond 16 per change",
            config.detection,
            total / acks
        );
        assert!(acks > 40_000, "{acks} ACKs");
        // A binary search over 32,768 packets twice, and a few neighbours.
        assert!(worst <= 48, "{worst}");
        assert!(total <= 40 * acks, "{} visits per ACK", total / acks);
    }
}

/// A tail loss is probed after two round trips and repaired without a timeout where there is TLP; 3.9 times out.
#[test]
fn tail_loss_is_probed_or_times_out() {
    for config in eras() {
        let mut bench = Bench::new(&config, "cubic");
        bench.s.end = FIRST + 10 * MSS;
        let mut count = 0;
        let start = bench.now;
        while bench.s.una < bench.s.end {
            bench.transmit(|bench, _| {
                count += 1;
                (count != 10).then_some(bench.now + DELAY)
            });
            if !bench.deliver() {
                bench.timer();
            }
        }
        let took = bench.now - start;
        let timeouts = bench.sender.timeouts;
        match config.detection {
            Detection::Rack => {
                assert_eq!(timeouts, 0);
                // Two round trips of 40 ms and the probe's own, with one packet out 200 ms more: bounded by the RTO.
                assert!((200 * MILLISECOND..330 * MILLISECOND).contains(&took), "{took}");
            }
            Detection::Fack => {
                assert_eq!(timeouts, 1);
                assert!((300 * MILLISECOND..340 * MILLISECOND).contains(&took), "{took}");
            }
        }
    }
}
