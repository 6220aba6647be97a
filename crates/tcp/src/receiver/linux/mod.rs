//! Linux's receiver: quick and delayed ACKs, SACK compression, round trips; its buffer and window are in [`memory`].

mod memory;

use wire::Flags;
use wire::segment::DEFAULT_MSS;

use memory::{CopySpace, Merged};

use super::{Arrival, Overshoot, ReceiveState, Receiver};
use crate::clock::{MILLISECOND, Nanos, earliest};
use crate::context::{Context, EcnAnswer, EcnSegment};
use crate::linux_config::{Detection, Drs, Shared};

/// Most quick ACKs granted at once (TCP_MAX_QUICKACKS).
const MAX_QUICKACKS: u32 = 16;
/// Quick ACKs that a mark grants; 3.9 grants as many as otherwise.
const QUICKACKS_OF_MARK: u32 = 2;
/// Duplicate ACKs sent at once before compression begins (TCP_FASTRETRANS_THRESH).
const UNCOMPRESSED: u32 = 3;
/// SACK blocks of which every ACK tells, whatever else it has to tell (TCP_SACK_BLOCKS_EXPECTED).
const BLOCKS_EXPECTED: usize = 2;
/// Smallest packet that lets the window grow, bytes.
const GROWING_PACKET: u32 = 128;

/// A Linux receiver.
#[derive(Debug)]
// Begins with a cache line: from the middle of one it would reach into one more.
#[repr(align(64))]
pub struct LinuxReceiver {
    config: Shared,
    tick: Nanos,
    /// True time and jiffies of the last input.
    jiffies: u64,
    /// Where that jiffy begins and ends.
    jiffy_from: Nanos,
    jiffy_until: Nanos,
    /// Our MSS: payload of full packets of this connection.
    advmss: u64,
    /// Estimate of the peer's segment size.
    rcv_mss: u64,
    /// ACKs left to send at once.
    quick: u32,
    pingpong: bool,
    /// Delayed-ACK interval in jiffies; 0 before the first data.
    ato: u64,
    last_received: u64,
    /// An ACK is owed.
    scheduled: bool,
    pushed: bool,
    delayed: Option<Delayed>,
    /// Jiffy at which the timer of the last delayed ACK runs: an ACK that is sent before does not stop it.
    stale_timer_runs: u64,
    /// Slow-start threshold of the window we offer.
    rcv_ssthresh: u64,
    window_clamp: u64,
    /// Payload per memory in 1/256.
    scaling: u64,
    /// Memory per payload in 2^-20, rounded up.
    memory_factor: u64,
    /// Memory of data that waits, per payload, in 2^-20, without the metadata of each run's first packet.
    held_factor: u64,
    merged: Merged,
    /// The window last advertised.
    rcv_wnd: u64,
    /// The window that was found when the last segment came, and the buffer then, until something else happens.
    selected: Option<(u64, u64)>,
    rtt: ReceiveRtt,
    space: CopySpace,
    compression: Compression,
    /// Data has come that the peer's network could have marked (TCP_ECN_SEEN).
    ect_seen: bool,
    /// The segment at hand is marked, or was sent again, and grants quick ACKs.
    ecn_quickacks: bool,
    /// The next data is acknowledged at once (ICSK_ACK_NOW).
    hurries: bool,
}

/// A delayed ACK.
#[derive(Clone, Copy, Debug)]
struct Delayed {
    /// When it should leave, and when the timer runs.
    jiffy: u64,
    runs: u64,
    /// True time, not later than the jiffy.
    at: Nanos,
}

/// Round trip as the receiver sees it, microseconds times eight.
#[derive(Debug, Default)]
struct ReceiveRtt {
    rtt8: u64,
    tsecr: u32,
    /// Without timestamps: a window's worth from here takes at least a round trip.
    seq: u64,
    since: Nanos,
}

/// Duplicate ACKs held back.
#[derive(Debug, Default)]
struct Compression {
    /// RCV.NXT they are about.
    nxt: u64,
    sent: u32,
    held: u32,
    until: Option<Nanos>,
    /// The ACK that leaves next is of those held back; the newest packet's is held back then.
    renewed: bool,
}

/// Flags of an ACK that echoes a mark, or does not.
fn echo(echoes: bool) -> Flags {
    if echoes { Flags::ECE } else { Flags::default() }
}

/// The shortest interval of delayed ACKs, 40 ms (TCP_ATO_MIN), in jiffies.
fn ato_min(hz: u64) -> u64 {
    hz / 25
}

/// The longest delay of an ACK, 200 ms (TCP_DELACK_MAX), in jiffies.
fn delack_max(hz: u64) -> u64 {
    hz / 5
}

impl LinuxReceiver {
    /// A receiver for one connection.
    pub fn new(config: &Shared) -> LinuxReceiver {
        LinuxReceiver {
            config: config.clone(),
            tick: MILLISECOND,
            jiffies: 0,
            jiffy_from: 0,
            jiffy_until: 0,
            advmss: u64::from(DEFAULT_MSS),
            rcv_mss: u64::from(DEFAULT_MSS),
            quick: 0,
            pingpong: false,
            ato: 0,
            last_received: 0,
            scheduled: false,
            pushed: false,
            delayed: None,
            stale_timer_runs: 0,
            rcv_ssthresh: 0,
            window_clamp: u64::MAX,
            scaling: memory::DEFAULT_SCALING,
            memory_factor: memory::DEFAULT_FACTOR,
            held_factor: memory::DEFAULT_FACTOR,
            merged: Merged::default(),
            rcv_wnd: 0,
            selected: None,
            rtt: ReceiveRtt::default(),
            space: CopySpace::default(),
            compression: Compression::default(),
            ect_seen: false,
            ecn_quickacks: false,
            hurries: false,
        }
    }

    /// The receiver's own timeout, which bounds its patience: no data of its own gave it a sample.
    fn rto(&self, clock_hz: u64) -> u64 {
        (self.rtt.rtt8 / 8 * clock_hz).div_ceil(1_000_000) + clock_hz / 5
    }

    fn grant_quickacks(&mut self, rcv: &ReceiveState, most: u32) {
        let possible = (rcv.offered() / (2 * self.rcv_mss)) as u32;
        let granted = if possible == 0 { 2 } else { possible.min(most) };
        self.quick = self.quick.max(granted);
    }

    fn enter_quickack_mode(&mut self, rcv: &ReceiveState, most: u32, hz: u64) {
        self.grant_quickacks(rcv, most);
        self.pingpong = false;
        self.ato = ato_min(hz);
    }

    /// New data that is marked, or that was sent again on a connection with ECN, grants quick ACKs (tcp_data_ecn_check).
    fn take_ecn_quickacks(&mut self, rcv: &ReceiveState, hz: u64) {
        if self.ecn_quickacks {
            self.ecn_quickacks = false;
            let most =
                if self.config.detection == Detection::Rack { QUICKACKS_OF_MARK } else { MAX_QUICKACKS };
            self.enter_quickack_mode(rcv, most, hz);
        }
    }

    /// In-order data: measures the peer, tunes the delayed-ACK interval, opens the window.
    fn on_in_order(&mut self, rcv: &ReceiveState, arrival: &Arrival, cx: &Context<'_>) {
        let hz = u64::from(cx.clock.hz());
        let ato_min = ato_min(hz);
        self.scheduled = true;
        self.measure_mss(rcv, arrival);
        let now = self.jiffies;
        if self.ato == 0 {
            self.grant_quickacks(rcv, MAX_QUICKACKS);
            self.ato = ato_min;
        } else {
            let gap = now - self.last_received;
            if gap <= ato_min / 2 {
                self.ato = (self.ato >> 1) + ato_min / 2;
            } else if gap < self.ato {
                self.ato = ((self.ato >> 1) + gap).min(self.rto(hz));
            } else if gap > self.rto(hz) {
                self.grant_quickacks(rcv, MAX_QUICKACKS);
            }
        }
        self.last_received = now;
        self.take_ecn_quickacks(rcv, hz);
        if arrival.payload >= GROWING_PACKET {
            self.grow_window(rcv, arrival);
        }
    }

    fn measure_mss(&mut self, rcv: &ReceiveState, arrival: &Arrival) {
        let payload = u64::from(arrival.payload);
        let len = if arrival.frames > 1 { payload.div_ceil(u64::from(arrival.frames)) } else { payload };
        if len >= self.rcv_mss {
            if len != self.rcv_mss {
                self.measure_memory(rcv, arrival, len);
            }
            self.rcv_mss = len.min(self.advmss);
            self.pushed |= arrival.push && self.config.answers_full_push;
        } else {
            self.pushed = true;
        }
    }

    /// Round trips from echoed timestamps, and from the time that a window of data takes, which is at least a round
    /// trip.
    #[inline(always)]
    fn measure_rtt(&mut self, rcv: &ReceiveState, arrival: &Arrival, cx: &Context<'_>) {
        if arrival.in_order {
            if self.rtt.since == 0 {
                self.rtt.seq = arrival.previous_nxt + rcv.offered();
                self.rtt.since = cx.now;
            } else if arrival.previous_nxt >= self.rtt.seq {
                let elapsed = ((cx.now - self.rtt.since) / 1000).max(1);
                self.add_rtt_sample(elapsed, true, rcv, arrival);
                self.rtt.seq = arrival.previous_nxt + rcv.offered();
                self.rtt.since = cx.now;
            }
        }
        if rcv.timestamps && rcv.tsecr != self.rtt.tsecr && u64::from(arrival.payload) >= self.rcv_mss {
            self.rtt.tsecr = rcv.tsecr;
            let ms = cx.clock.timestamp_of_tick(self.jiffies).wrapping_sub(rcv.tsecr);
            if ms < 60_000 {
                self.add_rtt_sample(u64::from(ms.max(1)) * 1000, false, rcv, arrival);
            }
        }
    }

    fn add_rtt_sample(&mut self, sample: u64, window_bound: bool, rcv: &ReceiveState, arrival: &Arrival) {
        let old = self.rtt.rtt8;
        let new = sample << 3;
        let lowest = old == 0 || (new < old && (window_bound || self.config.rcv_rtt_seeks_minimum));
        if lowest {
            self.rtt.rtt8 = new;
        } else if !window_bound {
            // 6.18: an application slow to read makes round trips look long.
            let unread = rcv.readable > arrival.end.saturating_sub(arrival.previous_nxt);
            if !(self.config.drs == Drs::GrowthOutOfOrder && unread) {
                self.rtt.rtt8 = old - (old >> 3) + sample;
            }
        }
    }

    /// Now, later, or with the compressed ones: how the data at hand is acknowledged.
    fn check_ack(
        &mut self,
        rcv: &mut ReceiveState,
        arrival: &Arrival,
        out_of_order: bool,
        now_please: bool,
        cx: &Context<'_>,
    ) {
        let unacked = rcv.nxt - rcv.last_ack;
        let two_packets = unacked > self.rcv_mss && {
            let window = self.select_window(rcv);
            self.selected = Some((window, rcv.rcvbuf));
            window >= self.rcv_wnd.max(1)
        };
        if two_packets || (self.quick > 0 && !self.pingpong) || now_please || self.hurries {
            rcv.ack_now = true;
            return;
        }
        if !out_of_order || rcv.out_of_order.is_empty() {
            self.delay_ack(rcv, cx);
            return;
        }
        if !self.config.compresses_sacks || !rcv.sack || self.compression.held >= self.config.comp_sack_nr {
            rcv.ack_now = true;
            return;
        }
        let c = &mut self.compression;
        if c.nxt != rcv.nxt {
            c.nxt = rcv.nxt;
            c.sent = 0;
        }
        if c.sent < UNCOMPRESSED {
            c.sent += 1;
            rcv.ack_now = true;
            return;
        }
        // What an ACK has no room for must not wait for the next one (tcp_sack_compress_send_ack).
        if c.held > 0 && rcv.rank_of_newest(arrival.seq, arrival.end) >= BLOCKS_EXPECTED {
            c.renewed = true;
            rcv.withheld = Some((arrival.seq, arrival.end));
            rcv.ack_now = true;
            return;
        }
        self.compress_ack(cx);
    }

    /// One more ACK waits for the end of compression.
    fn compress_ack(&mut self, cx: &Context<'_>) {
        self.compression.held += 1;
        if self.compression.until.is_none() {
            let share = (self.rtt.rtt8 >> 3) * 10 * u64::from(self.config.comp_sack_rtt_percent);
            let delay = self.config.comp_sack_delay_ns.min(share);
            // The kernel may fire anywhere in the slack; an otherwise idle timer fires at its end.
            let mut until = cx.now + delay + self.config.comp_sack_slack_ns;
            // The timer of delayed ACKs sends them as well (tcp_delack_timer_handler).
            if self.stale_timer_runs > self.jiffies {
                until = until.min(cx.clock.time_of_tick(self.stale_timer_runs));
            }
            self.compression.until = Some(until);
        }
    }

    /// Takes the jiffy from the host's clock.
    #[cold]
    fn update_jiffy(&mut self, cx: &Context<'_>) {
        self.jiffies = cx.clock.ticks(cx.now);
        self.jiffy_from = cx.clock.time_of_tick(self.jiffies);
        self.jiffy_until = cx.clock.time_of_tick(self.jiffies + 1);
    }

    fn delay_ack(&mut self, rcv: &mut ReceiveState, cx: &Context<'_>) {
        let hz = u64::from(cx.clock.hz());
        let least = ato_min(hz);
        let mut ato = self.ato.max(1);
        if ato > least {
            let most = if self.pingpong || self.pushed { delack_max(hz) } else { hz / 2 };
            let rtt = (self.rtt.rtt8 / 8 * hz).div_ceil(1_000_000);
            let bound = if rtt > 0 { most.min(rtt.max(least)) } else { most };
            ato = ato.min(bound);
        }
        let ato = ato.min(delack_max(hz));
        let jiffy = self.jiffies + ato;
        if let Some(earlier) = self.delayed {
            if earlier.jiffy <= self.jiffies + (ato >> 2) {
                rcv.ack_now = true;
                return;
            }
            if earlier.jiffy <= jiffy {
                return;
            }
        }
        let runs = self.config.timer_runs(self.jiffies, ato);
        self.delayed = Some(Delayed { jiffy, runs, at: cx.now + (runs - self.jiffies - 1) * self.tick });
    }
}

impl Receiver for LinuxReceiver {
    fn syn_window(&self, rcv: &ReceiveState) -> (u64, u8) {
        self.first_window(rcv)
    }

    fn on_established(&mut self, rcv: &mut ReceiveState, cx: &mut Context<'_>) {
        self.tick = cx.clock.tick_ns();
        self.update_jiffy(cx);
        self.advmss = u64::from(rcv.payload);
        self.selected = None;
        self.rcv_mss = self.advmss.min(u64::from(DEFAULT_MSS));
        self.init_buffer(rcv, cx);
    }

    fn on_write_pending(&mut self) {
        self.pingpong = true;
    }

    fn on_data(&mut self, rcv: &mut ReceiveState, arrival: &Arrival, cx: &mut Context<'_>) {
        if !(cx.now < self.jiffy_until && cx.now >= self.jiffy_from) {
            self.update_jiffy(cx);
        }
        self.selected = None;
        if !arrival.in_order || arrival.filled_hole {
            self.count_behind_holes(rcv, arrival.seq);
        }
        self.measure_rtt(rcv, arrival, cx);
        let mut now_please = false;
        let mut out_of_order = true;
        if arrival.duplicate {
            let hz = u64::from(cx.clock.hz());
            self.enter_quickack_mode(rcv, MAX_QUICKACKS, hz);
            self.scheduled = true;
            now_please = true;
        } else if arrival.in_order {
            out_of_order = !rcv.out_of_order.is_empty() || arrival.filled_hole;
            self.on_in_order(rcv, arrival, cx);
            // The last hole is filled (RFC 5681 section 4.2).
            now_please |= arrival.filled_hole && rcv.out_of_order.is_empty();
        } else if arrival.payload == 0 {
            self.scheduled = true;
        } else {
            self.take_ecn_quickacks(rcv, u64::from(cx.clock.hz()));
            self.scheduled = true;
            if self.config.ooo_grows_window && rcv.sack {
                self.grow_window_out_of_order(rcv, arrival);
            }
            self.adjust_out_of_order(rcv);
        }
        if arrival.fin {
            // The ACK rides on our own FIN if the application closes soon (tcp_fin).
            self.pingpong = true;
        }
        self.check_ack(rcv, arrival, out_of_order, now_please, cx);
    }

    fn on_ecn(
        &mut self,
        rcv: &mut ReceiveState,
        segment: &EcnSegment,
        answer: EcnAnswer,
        _cx: &mut Context<'_>,
    ) {
        if segment.payload == 0 {
            return;
        }
        // A peer that has reduced may have a window of one packet (tcp_ecn_accept_cwr, since 4.19).
        rcv.ack_now |= answer.ack_now || segment.cwr && self.config.detection == Detection::Rack;
        rcv.reflected = answer.first.map(|(ack, echoes)| (ack, echo(echoes))).or(rcv.reflected);
        let first_mark = segment.ce && !answer.echoes_ce;
        // Without ECT among data with it: probably sent again.
        self.ecn_quickacks = first_mark || !segment.capable && self.ect_seen;
        self.ect_seen |= segment.capable;
        rcv.feedback = echo(answer.echoes_ce || segment.ce);
    }

    fn on_accurate_ecn(
        &mut self,
        rcv: &mut ReceiveState,
        segment: &EcnSegment,
        answer: EcnAnswer,
        hurries: bool,
    ) {
        self.hurries |= hurries;
        self.ecn_quickacks = segment.payload > 0 && !segment.capable && self.ect_seen;
        self.ect_seen |= segment.capable;
        rcv.ack_now |= answer.ack_now;
        rcv.reflected = answer.first.map(|(ack, _)| (ack, rcv.feedback)).or(rcv.reflected);
    }

    fn delays_ack(&self) -> bool {
        self.delayed.is_some()
    }

    fn overshoot(&self, rcv: &ReceiveState) -> Overshoot {
        if self.config.drops_overshoot && rcv.readable > 0 { Overshoot::Dropped } else { Overshoot::Whole }
    }

    fn on_refused_data(&mut self, rcv: &mut ReceiveState, end: u64, cx: &mut Context<'_>) {
        self.selected = None;
        self.enter_quickack_mode(rcv, MAX_QUICKACKS, u64::from(cx.clock.hz()));
        // What ends before the last ACK is answered outside the accounts (tcp_send_dupack).
        self.scheduled |= end >= rcv.last_ack;
    }

    fn takes_fin_into_closed_window(&self) -> bool {
        self.config.takes_fin_into_closed_window
    }

    fn delays_ack_of_fin(&self) -> bool {
        true
    }

    fn on_read(&mut self, rcv: &mut ReceiveState, bytes: u64, cx: &mut Context<'_>) {
        self.selected = None;
        self.space.copied += bytes;
        self.adjust_space(rcv, cx);
        if rcv.ack_now {
            return;
        }
        if self.scheduled
            && (rcv.nxt - rcv.last_ack > self.rcv_mss || (self.pushed && !self.pingpong && rcv.readable == 0))
        {
            rcv.ack_now = true;
            return;
        }
        let window = rcv.offered();
        if 2 * window <= self.window_clamp {
            let new = self.select_again(rcv);
            rcv.ack_now = new > 0 && new >= 2 * window;
        }
    }

    fn on_timer(&mut self, rcv: &mut ReceiveState, cx: &mut Context<'_>) {
        self.update_jiffy(cx);
        if self.compression.until.is_some_and(|at| at <= cx.now) {
            self.compression.until = None;
            if self.compression.held > 0 {
                rcv.ack_now = true;
            }
        }
        let Some(delayed) = self.delayed else { return };
        if cx.now < delayed.at {
            return;
        }
        if self.jiffies < delayed.runs {
            self.delayed = Some(Delayed { at: cx.clock.time_of_tick(delayed.runs), ..delayed });
            return;
        }
        self.delayed = None;
        if self.scheduled {
            let hz = u64::from(cx.clock.hz());
            if self.pingpong {
                self.pingpong = false;
                self.ato = ato_min(hz);
            } else {
                self.ato = (self.ato << 1).min(self.rto(hz));
            }
            rcv.ack_now = true;
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        earliest(self.delayed.map(|delayed| delayed.at), self.compression.until)
    }

    fn window(&mut self, rcv: &ReceiveState, _cx: &mut Context<'_>) -> u64 {
        let (window, offered) = (self.window_to_offer(rcv), rcv.offered());
        self.rcv_wnd = if window < offered && !self.shrinks(rcv) {
            offered.next_multiple_of(1 << rcv.wscale)
        } else {
            window
        };
        self.rcv_wnd
    }

    fn shrinks(&self, rcv: &ReceiveState) -> bool {
        self.config.shrink_window && rcv.wscale > 0
    }

    fn on_ack_sent(&mut self, _r: &mut ReceiveState, pure: bool, cx: &mut Context<'_>) {
        if self.quick > 0 && self.scheduled {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = ato_min(u64::from(cx.clock.hz()));
            }
        }
        // Data in both directions, one soon after the other: the next ACK can ride.
        if !pure && self.ato > 0 && !self.pingpong {
            self.update_jiffy(cx);
            self.pingpong = self.jiffies - self.last_received < self.ato;
        }
        self.scheduled = false;
        self.hurries = false;
        self.pushed = false;
        if let Some(delayed) = self.delayed.take() {
            self.stale_timer_runs = delayed.runs;
        }
        self.compression.held = 0;
        self.compression.until = None;
        if std::mem::take(&mut self.compression.renewed) {
            self.scheduled = true;
            self.compress_ack(cx);
        }
    }

    fn sends_dsack(&self) -> bool {
        self.config.dsack
    }

    fn reports_fin(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::HostClock;
    use crate::event::Events;
    use crate::linux_config::Config;

    /// Two packets that come at once, before the application reads: were the window behind them smaller than the one last
    /// advertised, the ACK waits until they are read.
    #[test]
    fn two_packets_are_acknowledged_where_the_window_does_not_shrink() {
        for (before, now) in [(4_000, true), (6_000, false)] {
            let mut receiver = LinuxReceiver::new(&Config::linux_6_12().into());
            let mut rcv = ReceiveState::new(131_072, false);
            (receiver.rcv_mss, receiver.advmss) = (1448, 1448);
            (receiver.rcv_ssthresh, receiver.window_clamp, receiver.rcv_wnd) = (before, 1 << 20, before);
            rcv.nxt = 2 * 1448;
            rcv.readable = 60_000;
            rcv.advertised = before;
            let arrival = Arrival {
                seq: 1448,
                end: 2 * 1448,
                payload: 1448,
                previous_nxt: 1448,
                in_order: true,
                filled_hole: false,
                duplicate: false,
                frames: 1,
                push: false,
                fin: false,
            };
            let (mut events, clock) = (Events::default(), HostClock::new(1000, 0, 0));
            let cx = Context { now: 0, clock: &clock, events: &mut events };
            receiver.check_ack(&mut rcv, &arrival, false, false, &cx);
            assert_eq!(rcv.ack_now, now, "a window of {before} bytes");
        }
    }

    /// A twentieth of a round trip up to 6.18, a third in 7.3, a millisecond at most, and the slack of the timer.
    #[test]
    fn duplicate_acks_wait_for_a_share_of_the_round_trip() {
        let waits = |config: Config, rtt_us: u64| {
            let mut receiver = LinuxReceiver::new(&config.into());
            receiver.rtt.rtt8 = 8 * rtt_us;
            let mut events = Events::default();
            let clock = HostClock::new(1000, 0, 0);
            receiver.compress_ack(&Context { now: 0, clock: &clock, events: &mut events });
            receiver.compression.until.expect("a timer") / 1000
        };
        assert_eq!(waits(Config::linux_6_18(), 2000), 100 + 100);
        assert_eq!(waits(Config::linux_7_3(), 2000), 660 + 10);
        assert_eq!(waits(Config::linux_6_18(), 40_000), 1000 + 100);
        assert_eq!(waits(Config::linux_7_3(), 40_000), 1000 + 10);
    }
}
