//! FreeBSD's default sender, 9.0 to 15: ACK processing in that system's order, bytes, ticks.
//!
//! The order of one ACK: ECN, scoreboard, duplicate ACK logic or recovery, spurious timeout, RTT, timer, window growth,
//! SND.UNA, output (see [`FreeBsdSender::on_ack`]). [`output`] is what the system calls output, one segment at a time.

pub(super) mod output;
pub(super) mod packet_rtt;
pub mod path_mtu;
pub(super) mod peers;
mod recovery;
pub mod rtt;
pub mod scoreboard;
pub mod tuning;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use self::packet_rtt::PacketRtt;
use self::path_mtu::BlackHole;
use self::rtt::Rtt;
use self::scoreboard::Scoreboard;
use self::tuning::{DuplicateRule, Recovery, Tuning};
use super::{Ack, Limit, Metrics, Opening, Poll, SendGrant, SendState, Sender, Transmit};
use crate::cc::freebsd::{AckKind, CcVar, CongestionControl, Signal};
use crate::clock::{HostClock, Nanos, earliest};
use crate::context::{Context, EcnAnswer, EcnSegment};
use crate::event::EventKind;
use crate::peers::Lesson;

/// Duplicate ACKs that start fast recovery (RFC 5681 section 3.2).
const DUPLICATE_THRESHOLD: u32 = 3;

/// A timer of n ticks fires n + 1 ticks after the tick in which it was set, so as never to be early (callout(9)).
const CALLOUT_TICK: u64 = 1;

/// The sender of one connection.
// Begins with a cache line: from the middle of one it would reach into one more.
#[repr(align(64))]
pub struct FreeBsdSender {
    /// Tuning, one for all connections of a host.
    tuning: Arc<Tuning>,
    cc: Box<dyn CongestionControl>,
    ccv: CcVar,
    rtt: Rtt,
    board: Scoreboard,
    /// Length from which a segment is full for silly-window avoidance.
    full_segment: u64,
    /// Duplicate ACKs in a row.
    dupacks: u32,
    /// Number of segments that limited transmit has sent since the first duplicate ACK.
    limited_transmits: u32,
    /// New data sent in recovery is counted from here.
    new_data_from: u64,
    prr: Prr,
    /// RTTs of single packets, where the congestion control wants them.
    packets: Option<Box<PacketRtt>>,
    /// The highest byte the last ACK reported that the scoreboard took in (sackhint.last_sack_ack).
    last_sack_ack: Option<u64>,
    /// Retransmission timer: true time.
    rexmt: Option<Nanos>,
    /// Persist timer: true time.
    persist: Option<Nanos>,
    /// A probe of a closed window is to be sent.
    window_probe: bool,
    /// A segment timed for its RTT, where timestamps are off: (tick it was sent, its end).
    timed: Option<(u64, u64)>,
    undo: Option<Undo>,
    /// Sequence number up to which a timeout took what was sent for lost.
    lost_until: u64,
    /// The next new segment carries CWR.
    cwr: bool,
    /// Transmissions decided on already.
    queue: VecDeque<Transmit>,
    /// Output is due.
    output_due: bool,
    /// Whether nothing was out when the call of output at hand began. None: none is at hand.
    began_idle: Option<bool>,
    /// The next output sends something whatever its length, if need be a bare ACK (TF_ACKNOW).
    force_output: bool,
    /// View that output had of the application's data when it last had nothing to send: (end, FIN asked for).
    app_data_seen: (u64, bool),
    limit: Limit,
    last_transmit: Option<Transmit>,
    tick: Tick,
    black_hole: BlackHole,
    timeouts: u64,
    recoveries: u64,
    gave_up: bool,
}

/// Proportional rate reduction (RFC 6937): bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Prr {
    delivered: u64,
    out: u64,
    /// Flight when recovery began.
    recover_fs: u64,
}

/// State with which a spurious timeout is undone.
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
    recover: u64,
    fast_recovery: bool,
    cong_recovery: bool,
    /// Tick before which an ACK shows that the timeout was spurious.
    before_tick: u64,
    /// Timestamp: an older echo shows that the timeout was spurious.
    timestamp: u32,
}

/// The tick at hand, so that the clock is divided down once a tick and not once an ACK.
#[derive(Clone, Copy, Debug, Default)]
struct Tick {
    number: u64,
    /// The millisecond clock of timestamps.
    ms: u32,
    start: Nanos,
    end: Nanos,
}

impl Tick {
    /// Whether the tick still goes on at `now`.
    #[inline(always)]
    fn contains(&self, now: Nanos) -> bool {
        now < self.end && now >= self.start
    }
}

impl FreeBsdSender {
    /// A sender for a release, with a congestion control of its own.
    pub fn new(tuning: impl Into<Arc<Tuning>>, mut cc: Box<dyn CongestionControl>) -> FreeBsdSender {
        let tuning = tuning.into();
        let mut ccv = CcVar::new(tuning.cc);
        cc.cb_init(&mut ccv);
        FreeBsdSender::adopt(tuning, cc, ccv)
    }

    /// A sender that takes over a congestion control another stack has begun with.
    pub(super) fn adopt(tuning: Arc<Tuning>, cc: Box<dyn CongestionControl>, ccv: CcVar) -> FreeBsdSender {
        FreeBsdSender {
            cc,
            ccv,
            rtt: Rtt::new(1000, tuning.rexmit_min_ms, tuning.rexmit_slop_ms),
            board: Scoreboard::new(tuning.sack_maxholes),
            full_segment: 0,
            dupacks: 0,
            limited_transmits: 0,
            new_data_from: 0,
            prr: Prr::default(),
            packets: None,
            last_sack_ack: None,
            rexmt: None,
            persist: None,
            window_probe: false,
            timed: None,
            undo: None,
            lost_until: 0,
            cwr: false,
            queue: VecDeque::new(),
            output_due: false,
            began_idle: None,
            force_output: false,
            app_data_seen: (0, false),
            limit: Limit::App,
            last_transmit: None,
            tick: Tick::default(),
            black_hole: BlackHole::default(),
            timeouts: 0,
            recoveries: 0,
            gave_up: false,
            tuning,
        }
    }

    /// Brings the tick counter up to `now`.
    #[inline(always)]
    fn update_tick(&mut self, now: Nanos, clock: &HostClock) {
        if !self.tick.contains(now) {
            self.enter_tick(clock.ticks(now), clock);
        }
    }

    #[cold]
    fn enter_tick(&mut self, number: u64, clock: &HostClock) {
        let start = clock.time_of_tick(number);
        self.tick =
            Tick { number, ms: clock.timestamp_ms(start), start, end: clock.time_of_tick(number + 1) };
        self.ccv.ticks = number;
        // The system's cheap clock of microseconds moves with the tick.
        self.ccv.micros = number * (clock.tick_ns() / 1000);
    }

    #[inline]
    fn refresh_cc_var(&mut self, snd: &SendState) {
        self.ccv.una = snd.una;
        self.ccv.nxt = snd.nxt;
        self.ccv.max = snd.max;
    }

    #[inline]
    fn start_rexmt(&mut self, clock: &HostClock) {
        self.rexmt = Some(clock.time_of_tick(self.tick.number + u64::from(self.rtt.rto) + CALLOUT_TICK));
    }

    /// Passes an ACK to the congestion control.
    #[inline]
    fn ack_received(&mut self, kind: AckKind) {
        if kind == AckKind::New {
            let cap = if self.tuning.abc_capped_in_avoidance {
                Some(self.tuning.cc.abc_l_var * self.ccv.mss)
            } else {
                None
            };
            self.ccv.count_ack(cap);
        } else {
            self.ccv.cwnd_limited = self.ccv.cwnd <= self.ccv.snd_wnd;
        }
        if self.tuning.newcwv && self.ccv.cwnd >= 2 * (self.ccv.max - self.ccv.una) {
            self.ccv.cwnd_limited = false;
        }
        self.cc.ack_received(&mut self.ccv, kind);
    }

    /// An echo of congestion experienced. Of those in a window one begins a reaction; modules that count marks are told of all.
    #[inline(never)]
    fn on_ecn_echo(&mut self, snd: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        let answered = self.tuning.ecn_recovery_by_prr && ack.ack >= self.ccv.recover;
        self.ccv.pipe = self.pipe(snd);
        if self.ccv.cong_recovery && !answered {
            return self.cc.cong_signal(&mut self.ccv, Signal::Ecn);
        }
        self.ccv.cong_recovery = false;
        self.ccv.recover = snd.max + u64::from(self.tuning.ecn_recovery_by_prr);
        self.cwr = true;
        self.cc.cong_signal(&mut self.ccv, Signal::Ecn);
        cx.events.push(EventKind::Reduction, snd.offset(snd.una), self.ccv.cwnd as i64);
    }

    /// An ACK that does not advance.
    #[inline(never)]
    fn on_old_ack(
        &mut self,
        snd: &mut SendState,
        ack: &Ack<'_>,
        has_sack: bool,
        new_sack: bool,
        cx: &mut Context<'_>,
    ) {
        let same_window = snd.wnd == ack.previous_wnd;
        let output_was_due = self.output_due;
        // A window update lets output try again, unless this ACK is counted as a duplicate.
        self.output_due |= !same_window;
        let reports = match self.tuning.duplicates {
            DuplicateRule::SameWindow => same_window,
            _ => same_window || snd.sack,
        };
        if ack.payload != 0 || !reports || ack.fin {
            if self.tuning.duplicates == DuplicateRule::SameWindow {
                self.dupacks = 0;
            }
            return;
        }
        if self.rexmt.is_none() || ack.ack != snd.una {
            self.dupacks = 0;
            return;
        }
        let in_sack_recovery = snd.sack && (has_sack || !self.board.is_empty());
        if self.tuning.duplicates != DuplicateRule::SameWindow && snd.sack && !new_sack {
            return;
        }
        self.dupacks += 1;
        let window = snd.wnd;
        // Nothing more is read of an ACK that is counted, not even its window.
        snd.wnd = ack.previous_wnd;
        if self.dupacks > DUPLICATE_THRESHOLD || self.ccv.fast_recovery {
            self.ack_received(AckKind::Duplicate);
            self.duplicate_in_recovery(snd, in_sack_recovery);
            self.output_due = true;
        } else if self.dupacks == DUPLICATE_THRESHOLD || self.sacked_bytes_show_loss() {
            if !snd.sack && ack.ack <= self.ccv.recover {
                self.dupacks = 0;
                snd.wnd = window;
                return;
            }
            self.enter_recovery(snd, ack, cx);
        } else if self.tuning.rfc3042 {
            self.output_due = output_was_due;
            self.ack_received(AckKind::Duplicate);
            self.limited_transmit(snd, cx);
        } else {
            snd.wnd = window;
        }
    }

    /// RFC 6675's byte rule: more than two segments are SACKed (FreeBSD 15).
    #[inline]
    fn sacked_bytes_show_loss(&self) -> bool {
        self.tuning.duplicates == DuplicateRule::NewSackOrBytes && self.board.sacked > 2 * self.ccv.mss
    }

    /// Whether the last timeout turns out spurious with this ACK.
    #[inline(never)]
    fn undo_if_spurious(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        let Some(undo) = self.undo else { return };
        if self.rtt.shift != 1 {
            return;
        }
        let spurious = match ack.tsecr {
            Some(echo) if self.tuning.undo_by_timestamp => {
                echo != 0 && wire::seq::before(echo, undo.timestamp)
            }
            _ => ack.ack > snd.una && self.tick.number < undo.before_tick,
        };
        if !spurious {
            return;
        }
        self.undo = None;
        self.ccv.cwnd = undo.cwnd;
        self.ccv.ssthresh = undo.ssthresh;
        self.ccv.recover = undo.recover;
        self.ccv.fast_recovery |= undo.fast_recovery;
        self.ccv.cong_recovery |= undo.cong_recovery;
        snd.nxt = snd.max;
        self.lost_until = 0;
        self.refresh_cc_var(snd);
        self.cc.cong_signal(&mut self.ccv, Signal::TimeoutUndone);
        cx.events.push(EventKind::Undo, snd.offset(snd.una), self.ccv.cwnd as i64);
    }

    /// RTTs of single packets, for a congestion control that wants them. SACK matters while the scoreboard has noted
    /// a highest byte reported. The fast path of an ACK that only advances does not reset that.
    #[cold]
    fn sample_packet_rtts(
        &mut self,
        snd: &SendState,
        ack: &Ack<'_>,
        has_sack: bool,
        holes: bool,
        cx: &Context<'_>,
    ) {
        let advances = ack.ack > snd.una;
        let highest = ack.sack.iter().map(|&(_, end)| end).max();
        if holes || has_sack {
            if let Some(end) = highest.or((advances && holes).then_some(ack.ack)) {
                self.last_sack_ack = Some(end);
            }
        } else if !self.is_header_predicted(snd, ack) {
            self.last_sack_ack = None;
        }
        let Some(packets) = &mut self.packets else { return };
        let up_to = match self.last_sack_ack {
            _ if advances => ack.ack,
            Some(end) => end,
            None => return,
        };
        let now = cx.clock.timestamp_ms(cx.now);
        let sacked = self.last_sack_ack.is_some();
        packets.on_ack(up_to, self.ccv.bytes_this_ack, sacked, ack.tsecr, now, self.ccv.maxseg);
        packets.tell(&mut self.ccv);
    }

    /// A plain ACK in sequence, while nothing is missing: FreeBSD has a short way for it.
    fn is_header_predicted(&self, snd: &SendState, ack: &Ack<'_>) -> bool {
        ack.ack > snd.una
            && ack.payload == 0
            && !self.ccv.in_recovery()
            && snd.wnd == ack.previous_wnd
            && snd.nxt == snd.max
    }

    /// Takes an RTT sample from the timestamp echo, or from the timed segment.
    #[inline]
    fn sample_rtt(&mut self, ack: &Ack<'_>) {
        let ticks = match ack.tsecr {
            Some(echo) if echo != 0 => {
                let ms = self.tick.ms.wrapping_sub(echo);
                if self.ccv.hz == 1000 { ms } else { (u64::from(ms) * u64::from(self.ccv.hz) / 1000) as u32 }
            }
            _ => match self.timed {
                Some((sent, end)) if ack.ack > end => {
                    self.timed = None;
                    (self.tick.number - sent) as u32
                }
                _ => return,
            },
        };
        self.rtt.sample(ticks + 1);
        self.ccv.srtt = self.rtt.srtt as u32;
        self.ccv.rtt_updates = self.rtt.updates;
    }

    /// The retransmission timer has fired (RFC 6298 section 5.4 onwards).
    fn on_timeout(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.rexmt = None;
        let keep = self.tuning.timeout_keeps_scoreboard && self.rtt.shift == 0;
        if keep {
            self.board.resend_all();
        } else {
            self.board.clear();
        }
        self.rtt.shift += 1;
        if self.rtt.shift > rtt::MAX_SHIFT {
            self.gave_up = true;
            return;
        }
        self.timeouts += 1;
        cx.events.push(EventKind::Rto, snd.offset(snd.una), i64::from(self.rtt.shift));
        if self.ccv.fast_recovery {
            cx.events.push(EventKind::RecoveryOut, snd.offset(snd.una), self.ccv.mss as i64);
        }
        self.undo = (self.rtt.shift == 1).then(|| Undo {
            cwnd: self.ccv.cwnd,
            ssthresh: self.ccv.ssthresh,
            recover: self.ccv.recover,
            fast_recovery: self.ccv.fast_recovery,
            cong_recovery: self.ccv.cong_recovery,
            before_tick: self.tick.number + self.rtt.half(),
            timestamp: cx.clock.timestamp_ms(cx.now),
        });
        self.rtt.back_off();
        self.detect_black_hole(snd);
        if self.tuning.timeouts_reset_rtt && self.rtt.shift > rtt::MAX_SHIFT / 4 {
            self.rtt.forget();
        }
        self.ccv.pipe = self.pipe(snd);
        snd.nxt = snd.una;
        self.ccv.recover = snd.max;
        self.lost_until = snd.max;
        self.timed = None;
        self.dupacks = 0;
        self.ccv.bytes_acked = 0;
        self.ccv.fast_recovery = false;
        self.ccv.cong_recovery = false;
        self.ccv.rxtshift = self.rtt.shift;
        self.ccv.snd_wnd = snd.wnd;
        self.refresh_cc_var(snd);
        if !self.tuning.cc.module_handles_rto {
            let unit = self.ccv.mss;
            self.ccv.ssthresh = (snd.wnd.min(self.ccv.cwnd) / 2 / unit).max(2) * unit;
            self.ccv.cwnd = unit;
        }
        self.cwr = snd.ecn;
        self.force_output = true;
        self.cc.cong_signal(&mut self.ccv, Signal::Timeout);
        self.output_due = true;
    }

    /// Bytes in flight by RFC 6675, as far as the release counts them.
    #[inline]
    fn pipe(&self, snd: &SendState) -> u64 {
        (snd.max - snd.una + self.board.rexmit).saturating_sub(self.board.sacked + self.board.lost)
    }
}

impl FreeBsdSender {
    /// [`Sender::poll`] out of its usual case.
    #[inline(never)]
    fn poll_slow_path(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Poll {
        if let Some(transmit) = self.queue.pop_front() {
            self.last_transmit = Some(transmit);
            return Poll::Send(transmit);
        }
        if !self.output_due && self.app_data_seen == (snd.end, snd.fin) {
            return Poll::Wait(self.limit);
        }
        self.update_tick(cx.now, cx.clock);
        match self.output(snd, cx) {
            Some(transmit) => {
                self.last_transmit = Some(transmit);
                Poll::Send(transmit)
            }
            None => {
                self.wait(snd);
                Poll::Wait(self.limit)
            }
        }
    }
}

impl Sender for FreeBsdSender {
    fn prefetch_targets(&self) -> [Option<&dyn Any>; 3] {
        let [first, last] = self.board.ends().map(|hole| hole.map(|hole| hole as &dyn Any));
        [first, last, Some(&*self.cc)]
    }

    fn on_established(&mut self, snd: &mut SendState, opening: Opening, cx: &mut Context<'_>) {
        self.update_tick(cx.now, cx.clock);
        self.ccv.hz = cx.clock.hz();
        self.rtt = Rtt::new(cx.clock.hz(), self.tuning.rexmit_min_ms, self.tuning.rexmit_slop_ms);
        self.rtt.begin_with(opening.known.rtt, opening.known.rttvar, cx.clock.hz());
        if let Some(rtt) = opening.rtt {
            let ticks = self.tick.number - cx.clock.ticks(cx.now.saturating_sub(rtt));
            self.rtt.sample(ticks as u32 + 1);
        }
        self.adopt_mss(snd);
        snd.sndbuf = snd.sndbuf.next_multiple_of(self.full_segment);
        self.ccv.snd_scale = snd.wscale;
        self.ccv.srtt = self.rtt.srtt as u32;
        self.ccv.rtt_updates = self.rtt.updates;
        self.ccv.recover = snd.iss;
        self.ccv.cwnd =
            if opening.repeats > 0 { self.ccv.mss } else { self.tuning.initial_window.bytes(self.ccv.mss) };
        self.refresh_cc_var(snd);
        self.packets = self.cc.wants_packet_rtt().then(Box::default);
        self.ccv.ecn = snd.ecn;
        peers::begin_with(&mut self.ccv, &opening.known);
        self.cc.conn_init(&mut self.ccv);
        self.output_due = true;
    }

    fn on_ack(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        self.revoke_grant(snd);
        self.update_tick(cx.now, cx.clock);
        self.refresh_cc_var(snd);
        self.ccv.snd_wnd = ack.previous_wnd;
        self.ccv.curack = ack.ack;
        self.ccv.nsegs = u64::from(ack.frames);
        self.ccv.bytes_this_ack = ack.ack.saturating_sub(snd.una);
        if self.undo.is_some() && self.tuning.undo_by_timestamp {
            self.undo_if_spurious(snd, ack, cx);
        }
        if ack.ece() {
            self.on_ecn_echo(snd, ack, cx);
        }
        let has_sack = snd.sack && (!ack.sack.is_empty() || ack.dsack.is_some());
        let holes = !self.board.is_empty();
        let mut new_sack = false;
        if has_sack || !self.board.is_empty() {
            new_sack = self.board.update(snd.una, ack.ack, ack.sack);
        } else {
            self.board.sacked = 0;
            if self.tuning.recovery != Recovery::Prr13 {
                self.board.delivered = 0;
            }
        }
        if new_sack && self.tuning.lost_retransmission_detection {
            self.detect_lost_retransmission(snd);
        }
        if self.packets.is_some() {
            self.sample_packet_rtts(snd, ack, has_sack, holes, cx);
        }
        let predicted = !holes && !has_sack && self.is_header_predicted(snd, ack);
        if ack.ack <= snd.una {
            self.on_old_ack(snd, ack, has_sack, new_sack, cx);
            return;
        }
        if self.ccv.in_recovery() {
            self.advance_in_recovery(snd, ack, has_sack, cx);
        }
        // An advance that reports new data above it is a duplicate's equal (RFC 6675 section 5).
        self.dupacks = u32::from(new_sack && has_sack && self.tuning.duplicates != DuplicateRule::SameWindow);
        if self.undo.is_some() && !self.tuning.undo_by_timestamp {
            self.undo_if_spurious(snd, ack, cx);
        }
        self.sample_rtt(ack);
        self.ccv.rxtshift = self.rtt.shift;
        if ack.ack == snd.max {
            self.rexmt = None;
        } else if self.persist.is_none() {
            self.start_rexmt(cx.clock);
        }
        self.ack_received(AckKind::New);
        self.finish_advance(snd, ack, predicted, cx);
        self.output_due = true;
    }

    fn on_path_mtu(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.restart_below_path_mtu(snd, cx);
    }

    fn on_timer(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.revoke_grant(snd);
        self.update_tick(cx.now, cx.clock);
        if self.rexmt.is_some_and(|at| at <= cx.now) {
            self.on_timeout(snd, cx);
        }
        if self.persist.is_some_and(|at| at <= cx.now) {
            self.start_persist(cx);
            self.window_probe = true;
            self.output_due = true;
        }
    }

    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        earliest(self.rexmt, self.persist)
    }

    fn poll(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Poll {
        if self.output_due
            && self.queue.is_empty()
            && self.tick.contains(cx.now)
            && let Some(answer) = self.output_fast_path(snd)
        {
            return answer;
        }
        self.poll_slow_path(snd, cx)
    }

    /// ENOBUFS: one segment of window, and the refused data is next again. ssthresh stays.
    fn on_tx_dropped(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        let Some(mut refused) = self.last_transmit.take() else { return };
        // It may have been a granted one.
        refused.seq = refused.seq.max(snd.grant.last);
        snd.grant = SendGrant::default();
        self.update_tick(cx.now, cx.clock);
        if self.ccv.fast_recovery && refused.retransmission && refused.seq < snd.nxt {
            self.board.unsent(refused.seq, u64::from(refused.len));
        } else if snd.nxt == refused.seq + u64::from(refused.len) + u64::from(refused.fin) {
            snd.nxt = refused.seq;
        }
        if self.rexmt.is_none() && self.persist.is_none() {
            self.start_rexmt(cx.clock);
        }
        self.ccv.cwnd = self.ccv.mss;
        self.output_due = false;
        self.queue.clear();
        self.app_data_seen = (snd.end, snd.fin);
        self.limit = Limit::Cwnd;
        cx.events.push(EventKind::Reduction, snd.offset(snd.una), self.ccv.cwnd as i64);
    }

    fn hears_ecn(&self) -> bool {
        true
    }

    fn on_ecn_segment(&mut self, segment: &EcnSegment, cx: &mut Context<'_>) -> EcnAnswer {
        self.update_tick(cx.now, cx.clock);
        self.ccv.note_ecn(*segment);
        self.cc.ecnpkt_handler(&mut self.ccv);
        self.ccv.ecn_answer()
    }

    fn lesson(&self, snd: &SendState) -> Option<Lesson> {
        peers::lesson(snd, &self.ccv, &self.rtt)
    }

    fn on_closed(&mut self) {
        self.cc.cb_destroy(&mut self.ccv);
    }

    fn gave_up(&self) -> bool {
        self.gave_up
    }

    fn srtt(&self, _snd: &SendState) -> Option<Nanos> {
        self.rtt.srtt_ns()
    }

    fn metrics(&self, snd: &SendState) -> Metrics {
        metrics(snd, &self.ccv, &self.rtt, self.lost_until, self.timeouts, self.recoveries)
    }
}

/// Figures that both of FreeBSD's stacks have. A timeout has taken all below `lost_until` for lost.
pub(super) fn metrics(
    snd: &SendState,
    ccv: &CcVar,
    rtt: &Rtt,
    lost_until: u64,
    timeouts: u64,
    recoveries: u64,
) -> Metrics {
    Metrics {
        cwnd: ccv.cwnd,
        ssthresh: ccv.known_ssthresh(),
        srtt: rtt.srtt_ns(),
        rttvar: rtt.rttvar_ns(),
        rto: rtt.rto_ns(),
        inflight: snd.outstanding(),
        pacing_bps: None,
        phase: ccv.phase(snd.una < lost_until),
        timeouts,
        recoveries,
    }
}
