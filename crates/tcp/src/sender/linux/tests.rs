//! The sender against a receiver that SACKs everything and a path that loses and reorders: counters, work, repair.

use super::scoreboard::{LOST, RETRANS, SACKED};
use super::*;
use crate::cc::linux;
use crate::clock::{HostClock, MICROSECOND};
use crate::event::Events;
use crate::linux_config::Config;
use crate::sender::Opening;

mod writer;

/// A sender, its state, and a peer that acknowledges every packet.
struct Bench {
    snd: SendState,
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
        Bench::with_hz(config, cc, 1000)
    }

    fn with_hz(config: &Config, cc: &str, hz: u32) -> Bench {
        let snd = SendState {
            probe: 0,
            ipv6: false,
            iss: FIRST - 1,
            una: FIRST,
            nxt: FIRST,
            max: FIRST,
            end: FIRST,
            fin: false,
            no_delay: false,
            cork: Default::default(),
            app_blocked: false,
            blocked_midway: false,
            wnd: 1 << 30,
            max_wnd: 1 << 30,
            wscale: 14,
            mss: 1460,
            payload: MSS as u32,
            timestamps: false,
            sack: true,
            ecn: false,
            accecn: None,
            tso: false,
            tso_max: 65_160,
            unqueued: false,
            sndbuf: 1 << 30,
            sndbuf_auto: false,
            retransmits: 0,
            last_received: 0,
            last_sent: 0,
            last_new_sent: 0,
            throttled: false,
            departure: 0,
            grant: crate::sender::SendGrant::default(),
            no_fast_path: false,
        };
        let config = &config.clone().into();
        let mut bench = Bench {
            snd,
            sender: LinuxSender::new(
                config,
                linux::built_in(&[cc]).get(cc).expect("a module").connect(config),
                1,
            ),
            clock: HostClock::new(hz, 3 * SECOND, 0),
            events: Events::default(),
            now: SECOND,
            wire: Vec::new(),
            received: RangeSet::new(),
            sent: 0,
            random: 12345,
        };
        bench.with(|sender, snd, cx| {
            let opening = Opening { rtt: Some(DELAY), ..Opening::default() };
            sender.on_established(snd, opening, cx);
        });
        bench
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut LinuxSender, &mut SendState, &mut Context<'_>) -> R) -> R {
        let mut cx = Context { now: self.now, clock: &self.clock, events: &mut self.events };
        call(&mut self.sender, &mut self.snd, &mut cx)
    }

    /// Sends what the sender allows; `arrives` says when a packet arrives, if it does.
    fn transmit(&mut self, mut arrives: impl FnMut(&mut Bench, u64) -> Option<Nanos>) {
        loop {
            match self.with(|sender, snd, cx| sender.poll(snd, cx)) {
                Poll::Send(transmit) => {
                    self.sent += 1;
                    self.with(|sender, snd, cx| sender.on_tx_complete(snd, transmit.len, cx));
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
        let wnd = self.snd.wnd;
        self.with(|sender, snd, cx| {
            let ack = Ack {
                ack: ack.max(snd.una),
                sack: &blocks,
                dsack: duplicate.then_some((seq, end)),
                previous_wnd: wnd,
                payload: 0,
                tsecr: None,
                tsval: 0,
                data_segments_out: 0,
                feedback: wire::Flags::default(),
                fin: false,
                frames: 1,
            };
            sender.on_ack(snd, &ack, cx);
        });
    }

    fn timer(&mut self) {
        if let Some(at) = self.sender.next_timer() {
            self.now = self.now.max(at);
            self.with(|sender, snd, cx| sender.on_timer(snd, cx));
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
        assert_eq!(board.buffers(), board.buffers_recounted(), "buffers");
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
            bench.snd.end = FIRST + total;
            bench.snd.fin = false;
            let mut steps = 0;
            while bench.snd.una < bench.snd.end {
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
                    (None, None) => panic!("stalled at {} of {total}", bench.snd.una - FIRST),
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
        bench.snd.end = FIRST + 200_000 * MSS;
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
        bench.snd.end = FIRST + 10 * MSS;
        let mut count = 0;
        let start = bench.now;
        while bench.snd.una < bench.snd.end {
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

/// Two round trips of 40 ms and 2 ms, rounded up to jiffies, not two jiffies more: 82, 21 and 9. The wheel makes a tick more
/// of the latter two, of the first a multiple of 8 ticks.
#[test]
fn a_tail_loss_probe_waits_2_ms_more_whatever_a_jiffy_is() {
    for (hz, wait_ms) in [(1000, 88), (250, 88), (100, 100)] {
        let mut bench = Bench::with_hz(&Config::linux_6_18(), "cubic", hz);
        bench.snd.end = FIRST + 10 * MSS;
        let (mut count, mut probe) = (0, None);
        while probe.is_none() {
            bench.transmit(|bench, _| {
                count += 1;
                if count > 10 {
                    probe.get_or_insert(bench.now);
                }
                (count < 9).then_some(bench.now + DELAY)
            });
            if !bench.deliver() {
                bench.timer();
            }
        }
        assert_eq!(probe, Some(SECOND + DELAY + wait_ms * MILLISECOND), "{hz} Hz");
    }
}

/// Everything is written, sent once in order and acknowledged; returns when.
fn transfer(bench: &mut Bench, bytes: u64, mut arrives: impl FnMut(&mut Bench, u64) -> Option<Nanos>) {
    bench.snd.end += bytes;
    let mut steps = 0;
    while bench.snd.una < bench.snd.limit() {
        bench.transmit(&mut arrives);
        let next = bench.wire.iter().map(|w| w.0).min();
        match (next, bench.sender.next_timer()) {
            (Some(at), Some(timer)) if timer < at => bench.timer(),
            (Some(_), _) => assert!(bench.deliver()),
            (None, _) => bench.timer(),
        }
        bench.check();
        steps += 1;
        assert!(steps < 1_000_000);
    }
}

fn in_time(bench: &mut Bench, _seq: u64) -> Option<Nanos> {
    Some(bench.now + DELAY)
}

#[test]
fn the_window_halves_per_timeout_of_idleness_down_to_the_initial_one() {
    for config in eras() {
        for (idle_ms, cwnd) in [(100, 80), (300, 40), (600, 20), (60_000, 10)] {
            let mut bench = Bench::new(&config, "reno");
            transfer(&mut bench, 100 * MSS, in_time);
            bench.sender.core.cwnd = 80;
            bench.sender.core.ssthresh = 20;
            bench.now += idle_ms * MILLISECOND;
            bench.snd.end += MSS;
            bench.transmit(in_time);
            assert_eq!(bench.sender.core.cwnd, cwnd, "{idle_ms} ms");
            assert_eq!(bench.sender.core.ssthresh, if cwnd < 80 { 60 } else { 20 });
        }
        let mut bench = Bench::new(&Config { slow_start_after_idle: false, ..config.clone() }, "reno");
        transfer(&mut bench, 100 * MSS, in_time);
        let before = bench.sender.core.cwnd;
        bench.now += 60 * SECOND;
        bench.snd.end += MSS;
        bench.transmit(in_time);
        assert_eq!(bench.sender.core.cwnd, before);
    }
}

/// A local drop or an ECN echo reduces once per window, by PRR, without a retransmission.
#[test]
fn a_local_drop_reduces_once_per_window() {
    for config in eras() {
        let mut bench = Bench::new(&config, "reno");
        bench.sender.core.cwnd = 100;
        bench.sender.core.ssthresh = 100;
        bench.snd.end += 300 * MSS;
        bench.transmit(in_time);
        bench.with(|sender, snd, cx| sender.on_tx_dropped(snd, cx));
        bench.with(|sender, snd, cx| sender.on_tx_dropped(snd, cx));
        assert_eq!((bench.sender.core.state, bench.sender.core.ssthresh), (CaState::Cwr, 50));
        let mut least = u32::MAX;
        while bench.deliver() {
            bench.transmit(in_time);
            least = least.min(bench.sender.core.cwnd);
        }
        assert_eq!(bench.sender.core.state, CaState::Open);
        assert_eq!(bench.snd.retransmits, 0);
        assert_eq!(least, 50);
    }
}

/// Data delayed by a second, nothing lost: the timeout is recognised as spurious and undone (3.9 halves instead).
#[test]
fn a_spurious_timeout_is_undone() {
    for config in eras() {
        let mut bench = Bench::new(&config, "cubic");
        transfer(&mut bench, 200 * MSS, in_time);
        let cwnd = bench.sender.core.cwnd;
        let (mut calls, start) = (0, bench.now);
        transfer(&mut bench, 2000 * MSS, |bench, _| {
            calls += 1;
            // The first flight waits until 700 ms after it was sent; what follows waits behind it.
            let at = bench.now + DELAY;
            Some(at.max(start + 700 * MILLISECOND + calls))
        });
        assert!(bench.sender.timeouts >= 1, "{:?}", config.detection);
        let undone = bench.sender.core.cwnd >= cwnd;
        match config.detection {
            Detection::Rack => assert!(undone, "{} of {cwnd}", bench.sender.core.cwnd),
            Detection::Fack => {
                let kept = f64::from(bench.sender.core.cwnd) / f64::from(cwnd);
                assert!((0.6..1.1).contains(&kept), "3.9 goes on at 0.7 of the window: {kept}");
            }
        }
        // At most the head and a probe were sent again.
        assert!(bench.snd.retransmits <= 3, "{}", bench.snd.retransmits);
    }
}

/// A closed window is probed with growing gaps until it opens, and the probe makes no data.
#[test]
fn a_closed_window_is_probed() {
    for config in eras() {
        let mut bench = Bench::new(&config, "cubic");
        bench.snd.wnd = 0;
        bench.snd.end += 5 * MSS;
        let mut probes = Vec::new();
        for _ in 0..20 {
            loop {
                match bench.with(|sender, snd, cx| sender.poll(snd, cx)) {
                    Poll::Send(transmit) => {
                        assert_eq!((transmit.seq, transmit.len), (bench.snd.una - 1, 0));
                        probes.push(bench.now);
                    }
                    Poll::Wait(limit) => {
                        assert_eq!(limit, crate::sender::Limit::Rwnd);
                        break;
                    }
                }
            }
            bench.timer();
        }
        assert!(probes.len() >= 3);
        let gaps: Vec<u64> = probes.windows(2).map(|w| (w[1] - w[0]) / MILLISECOND).collect();
        for (backoff, &gap) in gaps.iter().enumerate() {
            let wait = (bench.sender.rto << (backoff + 1)).min(120_000);
            // A slot of the wheel is an eighth of the shortest wait that needs it.
            let late = if config.timer_wheel { wait / 7 } else { 0 };
            assert!((wait..=wait + late).contains(&gap), "{gaps:?} after {wait}");
        }
        bench.snd.wnd = 1 << 20;
        transfer(&mut bench, MSS, in_time);
    }
}

/// Minshall: one short segment may be outstanding; the next waits for it or for a full one. The FIN does not wait.
#[test]
fn short_segments_wait_for_each_other() {
    let mut bench = Bench::new(&Config::linux_6_8(), "cubic");
    bench.snd.end += 100;
    bench.transmit(in_time);
    assert_eq!(bench.sent, 1);
    bench.snd.end += 100;
    bench.transmit(in_time);
    assert_eq!(bench.sent, 1);
    bench.snd.end += MSS;
    bench.transmit(in_time);
    assert_eq!(bench.sent, 2, "a full segment goes, its rest waits");
    bench.snd.fin = true;
    bench.transmit(in_time);
    assert_eq!(bench.sent, 3);
    assert_eq!(bench.snd.max, bench.snd.end + 1);
}

/// Small queues: with nothing reported sent, 3.9 lets 128 KiB of memory wait in the host, later ones a millisecond's worth:
/// 200 packets in 40 ms are 7.2 MB/s, twice that for a millisecond is 14 KB, in which 6 packets fit; the burst that begins
/// within them is of 9 and leaves whole.
#[test]
fn small_queues_bound_what_waits_in_the_host() {
    for (config, most) in [(Config::linux_3_9(), 57), (Config::linux_6_8(), 9)] {
        let mut bench = Bench::new(&config, "cubic");
        bench.sender.core.cwnd = 200;
        bench.snd.end += 500 * MSS;
        let mut sent = 0;
        while let Poll::Send(_) = bench.with(|sender, snd, cx| sender.poll(snd, cx)) {
            sent += 1;
        }
        assert!(bench.snd.throttled);
        assert_eq!(sent, most, "{:?}", config.detection);
        bench.with(|sender, snd, cx| sender.on_tx_complete(snd, 10 * MSS as u32, cx));
        assert!(matches!(bench.with(|sender, snd, cx| sender.poll(snd, cx)), Poll::Send(_)));
    }
}

/// With segmentation offload, bursts are whole segments, autosized to a millisecond (two segments at least).
#[test]
fn bursts_are_autosized() {
    let mut bench = Bench::new(&Config::linux_6_8(), "cubic");
    bench.snd.tso = true;
    bench.sender.core.gso = true;
    bench.sender.core.cwnd = 40;
    bench.sender.core.ssthresh = 40;
    bench.snd.end += 1000 * MSS;
    let mut lengths = Vec::new();
    while let Poll::Send(transmit) = bench.with(|sender, snd, cx| sender.poll(snd, cx)) {
        lengths.push(u64::from(transmit.len) / MSS);
        bench.with(|sender, snd, cx| sender.on_tx_complete(snd, transmit.len, cx));
    }
    // 40 packets in 40 ms, 120 %: 1.2 packets a millisecond.
    assert!(lengths.iter().all(|&l| l == 2), "{lengths:?}");
    assert_eq!(lengths.iter().sum::<u64>(), 40);
    bench.sender.core.cwnd = 4000;
    bench.sender.core.ssthresh = 4000;
    lengths.clear();
    bench.snd.end += 3000 * MSS;
    while let Poll::Send(transmit) = bench.with(|sender, snd, cx| sender.poll(snd, cx)) {
        lengths.push(u64::from(transmit.len) / MSS);
        bench.with(|sender, snd, cx| sender.on_tx_complete(snd, transmit.len, cx));
    }
    assert!(lengths.iter().rev().skip(1).all(|&l| l == 45), "{lengths:?}");
}

/// The kernel looks whether the application is the limit when a write begins. A writer that waits for room in the send
/// buffer is in the middle of one: the rates measured then are the path's, and end BBR's start-up.
#[test]
fn a_writer_that_waits_for_room_does_not_limit_the_rate() {
    for blocked in [true, false] {
        let mut bench = Bench::new(&Config::linux_6_18(), "bbr");
        bench.snd.end += 4 * MSS;
        bench.snd.app_blocked = blocked;
        bench.transmit(|_, _| None);
        assert_eq!(bench.sender.core.app_limited > 0, !blocked);
    }
}

/// A burst of several packets ends with PSH since 5.5, whether or not the interface cuts it; one packet does not, nor what is
/// sent again alone. Two packets lost one after the other are such a burst again.
#[test]
fn a_burst_ends_with_push() {
    for (config, tso) in
        [(Config::linux_6_18(), false), (Config::linux_6_18(), true), (Config::linux_3_9(), false)]
    {
        let mut bench = Bench::new(&config, "reno");
        bench.snd.tso = tso;
        bench.snd.end += 40 * MSS;
        let sent = |bench: &mut Bench| {
            let mut packets = Vec::new();
            while let Poll::Send(transmit) = bench.with(|sender, snd, cx| sender.poll(snd, cx)) {
                packets.push((transmit.seq, transmit.len, transmit.push));
                bench.with(|sender, snd, cx| sender.on_tx_complete(snd, transmit.len, cx));
            }
            packets
        };
        let first = sent(&mut bench);
        // Bursts of two: little is sent in a millisecond.
        let pushes: Vec<u64> = first.iter().filter(|p| p.2).map(|p| (p.0 - FIRST) / MSS).collect();
        match (config.detection, tso) {
            (Detection::Fack, _) => assert!(pushes.is_empty(), "{pushes:?}"),
            (_, true) => assert_eq!(pushes, [0, 2, 4, 6, 8]),
            (_, false) => assert_eq!(pushes, [1, 3, 5, 7, 9]),
        }
        if config.detection == Detection::Fack {
            continue;
        }
        // The second packet is lost, and the whole second burst.
        bench.now += DELAY;
        for packet in [0, 4, 5, 6, 7, 8, 9] {
            bench.acknowledge(FIRST + packet * MSS, FIRST + (packet + 1) * MSS);
        }
        let again: Vec<_> = sent(&mut bench).into_iter().filter(|p| p.0 < FIRST + 10 * MSS).collect();
        let ends: Vec<(u64, bool)> =
            again.iter().map(|p| ((p.0 - FIRST + u64::from(p.1)) / MSS, p.2)).collect();
        assert_eq!(ends.first(), Some(&(2, false)), "{again:?}");
        assert_eq!(ends.last(), Some(&(4, true)), "{again:?}");
    }
}

/// Lengths in segments of what the sender hands over until it waits.
fn bursts(bench: &mut Bench) -> Vec<u64> {
    let mut lengths = Vec::new();
    while let Poll::Send(transmit) = bench.with(|sender, snd, cx| sender.poll(snd, cx)) {
        lengths.push(u64::from(transmit.len) / MSS);
        bench.with(|sender, snd, cx| sender.on_tx_complete(snd, transmit.len, cx));
    }
    lengths
}

/// A sender that has sent 10 segments of 200. The buffer they left was filled again to 45, and more of 45 follow.
fn ten_of_two_hundred(config: &Config, burst: u32) -> Bench {
    let mut bench = Bench::new(config, "cubic");
    bench.snd.tso = true;
    bench.sender.core.gso = true;
    bench.snd.tso_max = burst * MSS as u32;
    bench.snd.end += 200 * MSS;
    assert_eq!(bursts(&mut bench).iter().sum::<u64>(), 10);
    bench.now += DELAY;
    bench
}

/// A burst ends with its socket buffer; since 6.10 it takes in the next one.
#[test]
fn a_burst_ends_with_its_buffer() {
    for (config, lengths) in [
        (Config::linux_6_8(), vec![40, 5, 40, 5, 40, 5, 40, 5, 10]),
        (Config::linux_6_12(), vec![40, 40, 40, 40, 30]),
    ] {
        let mut bench = ten_of_two_hundred(&config, 40);
        bench.sender.core.cwnd = 4000;
        bench.sender.core.ssthresh = 4000;
        assert_eq!(bursts(&mut bench), lengths);
    }
}

/// A rest of a buffer in the middle of the queue goes as soon as cwnd allows it. What begins the next one waits for
/// a whole burst.
#[test]
fn the_rest_of_a_buffer_is_not_deferred() {
    let mut bench = ten_of_two_hundred(&Config::linux_6_12(), 44);
    let core = &mut bench.sender.core;
    (core.cwnd, core.ssthresh, core.pacing) = (54, 54, true);
    core.pacing_rate = 1 << 40;
    assert_eq!(bursts(&mut bench), [44]);
    bench.now += 100 * MICROSECOND;
    bench.sender.core.cwnd = 55;
    assert_eq!(bursts(&mut bench), [1]);
    bench.sender.core.cwnd = 56;
    assert!(bursts(&mut bench).is_empty());
}

/// The peer's window cuts a burst, not a segment: its last one may be short.
#[test]
fn a_burst_fills_the_window_with_a_part_of_a_segment() {
    let mut bench = Bench::new(&Config::linux_6_12(), "cubic");
    bench.snd.wnd = MSS + 700;
    bench.snd.end += 100 * MSS;
    bench.transmit(|_, _| None);
    assert_eq!(bench.snd.max, FIRST + MSS + 700);
}
