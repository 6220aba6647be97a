//! Windows 7's sender: NewReno-type control with SACK, byte counting and F-RTO; Compound TCP beside it.
//!
//! The system is closed. What is modelled comes from Microsoft's documentation and from the RFCs it names; where neither says
//! more, the RFC's own rule stands. Everything here is inferred: no recording of the real system stands behind it.

use std::collections::VecDeque;

use wire::RangeSet;

use super::{Ack, Limit, Metrics, Opening, Poll, SendState, Sender, Transmit};
use crate::cc::Phase;
use crate::cc::windows::Compound;
use crate::clock::{MILLISECOND, Nanos, SECOND, earliest};
use crate::context::Context;
use crate::event::EventKind;

/// Duplicate ACKs that mean loss (RFC 5681 section 3.2).
const DUP_THRESH: u32 = 3;
/// Byte counting's limit in slow start, segments for an ACK (RFC 3465 section 2.2).
const ABC_LIMIT: u64 = 2;
/// Largest retransmission timeout (RFC 6298 section 2.4 wants at least 60 s).
const MAX_RTO: Nanos = 120 * SECOND;

/// Settings of Set-NetTCPSetting and the registry.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Initial window, segments (InitialCongestionWindowMss).
    pub initial_window: u64,
    /// Smallest retransmission timeout, ms (MinRtoMs).
    pub min_rto_ms: u64,
    /// Retransmission timeout before the first measurement, ms (InitialRtoMs).
    pub initial_rto_ms: u64,
    /// Timeouts of a segment before the connection is given up (TcpMaxDataRetransmissions).
    pub max_retransmissions: u32,
    /// The window restarts after a retransmission timeout without sending (CwndRestart; RFC 5681 section 4.1).
    pub restart: bool,
}

/// The sender of one connection.
pub struct WindowsSender {
    tuning: Tuning,
    compound: Option<Compound>,
    cwnd: u64,
    ssthresh: u64,
    /// SACKed, above SND.UNA.
    sacked: RangeSet,
    duplicates: u32,
    /// Recovery point (RFC 6582 section 3.2); of the last recovery or timeout when not in recovery.
    recover: u64,
    in_recovery: bool,
    /// Everything below was retransmitted in this recovery (RFC 6675's HighRxt).
    high_rxt: u64,
    /// RFC 6675's pipe, kept between ACKs by what is sent.
    pipe: u64,
    /// The first unacknowledged segment is to be sent again at once.
    resend: bool,
    /// New segments that limited transmit allows (RFC 3042).
    limited_transmit: u64,
    frto: Frto,
    rtt: Rtt,
    /// Segment that is timed, one at a time: its end, and when it left.
    timed: Option<(u64, Nanos)>,
    /// Segments in flight, for Compound TCP: their ends, and when they left.
    departures: VecDeque<(u64, Nanos)>,
    rexmt: Option<Nanos>,
    persist: Option<Nanos>,
    shift: u32,
    probe_due: bool,
    after_timeout: bool,
    gave_up: bool,
    timeouts: u64,
    recoveries: u64,
}

/// F-RTO (RFC 4138 section 2.1): whether the last timeout was spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frto {
    Off,
    /// The first unacknowledged segment was sent again; `flight` and `ssthresh` from before the timeout.
    Resent {
        flight: u64,
        ssthresh: u64,
    },
    /// An ACK advanced; two new segments may leave.
    Probing {
        flight: u64,
        ssthresh: u64,
    },
}

/// RFC 6298's estimator on the system's tick.
#[derive(Clone, Copy, Debug, Default)]
struct Rtt {
    srtt: Option<Nanos>,
    rttvar: Nanos,
}

impl Rtt {
    fn sample(&mut self, sample: Nanos) {
        match self.srtt {
            None => {
                self.srtt = Some(sample);
                self.rttvar = sample / 2;
            }
            Some(srtt) => {
                self.rttvar = (3 * self.rttvar + srtt.abs_diff(sample)) / 4;
                self.srtt = Some((7 * srtt + sample) / 8);
            }
        }
    }

    fn rto(&self, t: &Tuning) -> Nanos {
        match self.srtt {
            None => t.initial_rto_ms * MILLISECOND,
            Some(srtt) => (srtt + 4 * self.rttvar).max(t.min_rto_ms * MILLISECOND).min(MAX_RTO),
        }
    }
}

impl WindowsSender {
    /// A sender; with `compound`, Compound TCP instead of the default provider.
    pub fn new(tuning: Tuning, compound: bool) -> WindowsSender {
        WindowsSender {
            tuning,
            compound: compound.then(Compound::new),
            cwnd: 0,
            ssthresh: u64::MAX,
            sacked: RangeSet::new(),
            duplicates: 0,
            recover: 0,
            in_recovery: false,
            high_rxt: 0,
            pipe: 0,
            resend: false,
            limited_transmit: 0,
            frto: Frto::Off,
            rtt: Rtt::default(),
            timed: None,
            departures: VecDeque::new(),
            rexmt: None,
            persist: None,
            shift: 0,
            probe_due: false,
            after_timeout: false,
            gave_up: false,
            timeouts: 0,
            recoveries: 0,
        }
    }

    /// Number of bytes that may be in flight: of Compound TCP, both parts.
    fn window(&self) -> u64 {
        self.cwnd + self.compound.as_ref().map_or(0, Compound::delay_window)
    }

    fn halved(&self, flight: u64, snd: &SendState) -> u64 {
        (flight / 2).max(2 * u64::from(snd.payload))
    }

    fn tick_after(at: Nanos, cx: &Context<'_>) -> Nanos {
        cx.clock.time_of_tick(cx.clock.ticks(at) + 1)
    }

    fn arm_rexmt(&mut self, cx: &Context<'_>) {
        self.rexmt = Some(Self::tick_after(cx.now + self.backed_off_rto(), cx));
    }

    /// The timeout with its backoff: doubled for each timeout in a row, at most MAX_RTO. Sixteen doublings always
    /// reach that.
    fn backed_off_rto(&self) -> Nanos {
        (self.rtt.rto(&self.tuning) << self.shift.min(16)).min(MAX_RTO)
    }

    /// Bytes in flight by RFC 6675's SetPipe: what is neither SACKed nor lost, and what was sent again.
    fn set_pipe(&mut self, snd: &SendState) {
        let lost_below = self.lost_below(snd);
        let mut pipe = 0;
        let mut at = snd.una;
        for (start, end) in self.sacked.iter().chain(std::iter::once((snd.max, snd.max))) {
            // The hole before this range: the part not lost, and the part sent again.
            let hole_end = start.min(snd.max);
            if hole_end > at {
                pipe += hole_end.saturating_sub(at.max(lost_below));
                pipe += self.high_rxt.min(hole_end).min(lost_below).saturating_sub(at);
            }
            at = at.max(end);
        }
        self.pipe = pipe;
    }

    /// Everything below this that is not SACKed is lost: more than two segments, or three blocks, are SACKed above it
    /// (RFC 6675 section 4, IsLost).
    fn lost_below(&self, snd: &SendState) -> u64 {
        let mut bytes = 0;
        let mut blocks = 0;
        for (start, end) in self.sacked.iter().rev() {
            bytes += end - start;
            blocks += 1;
            if bytes > u64::from(DUP_THRESH - 1) * u64::from(snd.payload) || blocks >= DUP_THRESH {
                return start;
            }
        }
        snd.una
    }

    fn enter_recovery(&mut self, snd: &SendState, cx: &mut Context<'_>) {
        cx.events.push(EventKind::RecoveryIn, snd.offset(snd.una), self.window() as i64);
        self.recoveries += 1;
        self.in_recovery = true;
        self.recover = snd.max;
        self.limited_transmit = 0;
        let mss = u64::from(snd.payload);
        self.ssthresh = self.halved(snd.outstanding(), snd);
        if let Some(compound) = &mut self.compound {
            compound.on_loss(self.cwnd, mss);
        }
        self.cwnd = self.ssthresh;
        if !snd.sack {
            self.cwnd += u64::from(DUP_THRESH) * mss;
        } else if let Some(compound) = &self.compound {
            // The total is halved, not each part.
            self.cwnd = self.ssthresh.saturating_sub(compound.delay_window()).max(2 * mss);
        }
        self.high_rxt = snd.una;
        self.resend = true;
        self.timed = None;
        self.arm_rexmt(cx);
    }

    fn leave_recovery(&mut self, snd: &SendState, cx: &mut Context<'_>) {
        self.in_recovery = false;
        self.duplicates = 0;
        if !snd.sack {
            self.cwnd = self.ssthresh;
        }
        cx.events.push(EventKind::RecoveryOut, snd.offset(snd.una), self.window() as i64);
    }

    /// The window grows by an ACK of `acked` bytes that found the window full.
    fn grow(&mut self, acked: u64, mss: u64) {
        if self.cwnd < self.ssthresh {
            self.cwnd += acked.min(ABC_LIMIT * mss);
        } else {
            self.cwnd += (mss * acked / self.window()).max(1);
        }
    }

    fn on_advance(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        let acked = ack.ack - snd.una;
        let mss = u64::from(snd.payload);
        let full = snd.outstanding() + mss > self.window();
        self.sample_rtt(snd, ack.ack, cx);
        snd.una = ack.ack;
        snd.nxt = snd.nxt.max(snd.una);
        self.sacked.remove_below(snd.una);
        self.high_rxt = self.high_rxt.max(snd.una);
        self.shift = 0;
        self.limited_transmit = 0;
        if snd.una == snd.max {
            self.rexmt = None;
        } else {
            self.arm_rexmt(cx);
        }
        if self.after_timeout && snd.una >= self.recover {
            self.after_timeout = false;
        }
        if self.advance_frto(snd, cx) {
            return;
        }
        if !self.in_recovery {
            self.duplicates = 0;
            if full || self.after_timeout {
                self.grow(acked, mss);
            }
            self.compound_round(snd, mss);
        } else if snd.una >= self.recover {
            self.leave_recovery(snd, cx);
        } else if !snd.sack {
            // A partial ACK: the next hole at once, and the window deflated (RFC 6582 section 3.2).
            self.resend = true;
            self.cwnd = self.cwnd.saturating_sub(acked) + if acked >= mss { mss } else { 0 };
            self.cwnd = self.cwnd.max(mss);
        }
    }

    /// Lets F-RTO judge an ACK that advanced; true if it has dealt with it.
    fn advance_frto(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> bool {
        match self.frto {
            Frto::Off => false,
            Frto::Resent { .. } if snd.una >= self.recover => {
                // All of it is there: nothing can be told.
                self.frto = Frto::Off;
                false
            }
            Frto::Resent { flight, ssthresh } => {
                snd.nxt = snd.max;
                self.cwnd = snd.outstanding() + 2 * u64::from(snd.payload);
                self.frto = Frto::Probing { flight, ssthresh };
                true
            }
            Frto::Probing { flight, ssthresh } => {
                // The original transmissions arrive: the timeout was spurious. The window goes on from what is in flight
                // (RFC 4015 section 3.2).
                self.frto = Frto::Off;
                self.after_timeout = false;
                self.ssthresh = ssthresh.max(flight);
                self.cwnd = snd.outstanding() + self.tuning.initial_window * u64::from(snd.payload);
                cx.events.push(EventKind::Undo, snd.offset(snd.una), self.cwnd as i64);
                true
            }
        }
    }

    fn sample_rtt(&mut self, snd: &SendState, ack: u64, cx: &Context<'_>) {
        if let Some((end, sent)) = self.timed
            && ack >= end
        {
            self.timed = None;
            let tick = cx.clock.tick_ns();
            let ticks = cx.clock.ticks(cx.now) - cx.clock.ticks(sent);
            self.rtt.sample((ticks * tick).max(tick / 2));
        }
        let Some(compound) = &mut self.compound else { return };
        while let Some(&(end, sent)) = self.departures.front()
            && end <= ack
        {
            self.departures.pop_front();
            // Retransmissions are not timed (Karn): their departures were dropped.
            compound.sample(cx.now - sent);
        }
        debug_assert!(self.departures.len() as u64 <= snd.outstanding() + 1);
    }

    /// Compound TCP's delay part, once in a round trip of congestion avoidance.
    fn compound_round(&mut self, snd: &SendState, mss: u64) {
        let avoiding = self.cwnd >= self.ssthresh && !self.after_timeout;
        if let Some(compound) = &mut self.compound {
            compound.on_ack(snd.una, snd.nxt, self.cwnd, mss, avoiding);
        }
    }

    fn on_duplicate(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if self.frto != Frto::Off {
            // A duplicate after the retransmission: the loss was real (RFC 4138 section 2.1, steps 2a and 3a).
            if matches!(self.frto, Frto::Probing { .. }) {
                self.cwnd = 3 * u64::from(snd.payload);
            }
            self.frto = Frto::Off;
            snd.nxt = snd.una;
            return;
        }
        if self.in_recovery {
            if !snd.sack {
                self.cwnd += u64::from(snd.payload);
            }
            return;
        }
        self.duplicates += 1;
        let lost = self.duplicates >= DUP_THRESH || (snd.sack && self.lost_below(snd) > snd.una);
        if lost && snd.una >= self.recover && !self.after_timeout {
            self.enter_recovery(snd, cx);
        } else if self.duplicates < DUP_THRESH {
            self.limited_transmit += u64::from(snd.payload);
        }
    }

    fn on_timeout(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.rexmt = None;
        if snd.outstanding() == 0 {
            return;
        }
        if snd.wnd == 0 && snd.end > snd.una {
            // The peer took its window back: what lies beyond it waits, and the window is probed (RFC 9293 section 3.8.6.1).
            snd.nxt = snd.una;
            self.probe_due = self.persist.is_none();
            return;
        }
        self.shift += 1;
        self.timeouts += 1;
        if self.shift > self.tuning.max_retransmissions {
            self.gave_up = true;
            return;
        }
        cx.events.push(EventKind::Rto, snd.offset(snd.una), i64::from(self.shift));
        // What may have been in flight: with SACK, recovery goes on sending above a retransmission that was lost, and all
        // of that is outstanding although most of it has arrived.
        let flight = snd.outstanding().min(self.cwnd);
        if self.shift == 1 {
            // F-RTO where data above was sent, so that its ACKs can tell.
            let payload = u64::from(snd.payload);
            self.frto = if flight > payload && !self.in_recovery {
                Frto::Resent { flight, ssthresh: self.ssthresh }
            } else {
                Frto::Off
            };
            self.ssthresh = self.halved(flight, snd);
        } else {
            self.frto = Frto::Off;
        }
        if let Some(compound) = &mut self.compound {
            compound.on_timeout();
        }
        self.cwnd = u64::from(snd.payload);
        self.in_recovery = false;
        self.after_timeout = true;
        self.duplicates = 0;
        self.recover = snd.max;
        self.high_rxt = snd.una;
        // The receiver may have dropped what it reported (RFC 2018 section 8).
        self.sacked.clear();
        self.timed = None;
        self.departures.clear();
        self.limited_transmit = 0;
        self.resend = false;
        snd.nxt = snd.una;
        self.arm_rexmt(cx);
    }

    /// Makes a segment at `seq`, of at most `room` bytes, from what was sent before.
    fn retransmit(&mut self, snd: &mut SendState, seq: u64, until: u64, cx: &mut Context<'_>) -> Transmit {
        let end = (seq + u64::from(snd.payload)).min(until).min(snd.end.max(seq));
        let fin = snd.fin && end == snd.end && until > snd.end;
        snd.retransmits += 1;
        self.departures.retain(|&(sent, _)| sent <= seq);
        if self.rexmt.is_none() {
            self.arm_rexmt(cx);
        }
        Transmit {
            seq,
            len: (end - seq) as u32,
            fin,
            push: false,
            retransmission: true,
            ..Transmit::default()
        }
    }

    /// RFC 6675's NextSeg, rules 1 and 3, while pipe leaves room.
    fn next_hole(&self, snd: &SendState) -> Option<(u64, u64)> {
        let last = self.sacked.last()?.0;
        let mut at = self.high_rxt.max(snd.una);
        if let Some((_, end)) = self.sacked.containing(at) {
            at = end;
        }
        if at >= last.min(self.recover) {
            return None;
        }
        let until = self.sacked.iter().find(|&(start, _)| start > at).map_or(snd.max, |(start, _)| start);
        Some((at, until))
    }

    fn poll_recovery(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        if self.resend {
            self.resend = false;
            let until = self.sacked.first().map_or(snd.max, |(start, _)| start);
            let transmit = self.retransmit(snd, snd.una, until, cx);
            self.high_rxt = self.high_rxt.max(snd.una + u64::from(transmit.len) + u64::from(transmit.fin));
            self.set_pipe(snd);
            return Some(transmit);
        }
        if !snd.sack || self.pipe + u64::from(snd.payload) > self.window() {
            return None;
        }
        let (at, until) = self.next_hole(snd)?;
        let transmit = self.retransmit(snd, at, until, cx);
        let sent = u64::from(transmit.len) + u64::from(transmit.fin);
        self.high_rxt = at + sent;
        self.pipe += sent;
        Some(transmit)
    }

    /// Room in the windows for what is sent next, bytes.
    fn sendable(&self, snd: &SendState) -> u64 {
        let flight = snd.nxt - snd.una;
        let own = if self.in_recovery && snd.sack {
            self.window().saturating_sub(self.pipe)
        } else {
            (self.window() + self.limited_transmit).saturating_sub(flight)
        };
        own.min(snd.wnd.saturating_sub(flight))
    }

    fn poll_data(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Result<Transmit, Limit> {
        self.restart_after_idle(snd, cx);
        if snd.nxt < snd.max
            && let Some((_, end)) = self.sacked.containing(snd.nxt)
        {
            snd.nxt = end.min(snd.max);
        }
        let left = snd.end.saturating_sub(snd.nxt);
        let again = snd.nxt < snd.max;
        let bare_fin = left == 0 && snd.fin && snd.nxt == snd.end;
        if left == 0 && !bare_fin {
            return Err(snd.limit_without_data());
        }
        let room = self.sendable(snd);
        let payload = u64::from(snd.payload);
        let most = if snd.tso && !again { u64::from(snd.tso_max) } else { payload };
        let mut len = left.min(most).min(room);
        if len > payload && len < left {
            len -= len % payload;
        }
        let last = len == left;
        // Nagle (RFC 896) and the sender's silly-window rule (RFC 9293 section 3.8.6.2.1).
        let idle = snd.nxt == snd.una;
        let worth = bare_fin
            || len >= payload
            || (len > 0 && (again || (last && (idle || snd.no_delay || snd.fin)) || len >= snd.max_wnd / 2));
        if !worth {
            if snd.outstanding() == 0 && left > 0 && snd.wnd < payload.min(left) && self.persist.is_none() {
                // Nothing will come back by itself: the window must be probed (RFC 9293 section 3.8.6.1).
                self.shift = 0;
                self.persist = Some(Self::tick_after(cx.now + self.rtt.rto(&self.tuning), cx));
            }
            let by_peer = snd.wnd < snd.nxt - snd.una + payload.min(left) && snd.wnd < self.window();
            return Err(match room < payload.min(left) {
                false => snd.limit_without_data(),
                true if by_peer => Limit::Rwnd,
                true => Limit::Cwnd,
            });
        }
        Ok(self.send(snd, len, last && snd.fin, cx))
    }

    fn send(&mut self, snd: &mut SendState, len: u64, fin: bool, cx: &mut Context<'_>) -> Transmit {
        self.persist = None;
        let seq = snd.nxt;
        let retransmission = seq < snd.max;
        snd.nxt += len + u64::from(fin);
        if retransmission {
            snd.retransmits += len.div_ceil(u64::from(snd.payload)).max(1);
        } else {
            if self.timed.is_none() {
                self.timed = Some((snd.nxt, cx.now));
            }
            if self.compound.is_some() {
                self.departures.push_back((snd.nxt, cx.now));
            }
        }
        snd.max = snd.max.max(snd.nxt);
        if self.in_recovery {
            self.pipe += len;
        }
        if self.rexmt.is_none() {
            self.arm_rexmt(cx);
        }
        let push = seq + len == snd.end && len > 0;
        Transmit { seq, len: len as u32, fin, push, retransmission, ..Transmit::default() }
    }

    /// Sends a byte into a closed window.
    fn probe(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        self.probe_due = false;
        if snd.end <= snd.una || (snd.outstanding() > 1 && snd.wnd > 0) {
            return None;
        }
        snd.max = snd.max.max(snd.una + 1);
        let wait = self.backed_off_rto();
        self.shift += 1;
        self.persist = Some(Self::tick_after(cx.now + wait, cx));
        Some(Transmit { seq: snd.una, len: 1, ..Transmit::default() })
    }

    fn restart_after_idle(&mut self, snd: &SendState, cx: &Context<'_>) {
        let idle = snd.outstanding() == 0 && snd.last_sent > 0;
        if self.tuning.restart && idle && cx.now - snd.last_sent > self.rtt.rto(&self.tuning) {
            self.cwnd = self.cwnd.min(self.tuning.initial_window * u64::from(snd.payload));
        }
    }
}

impl Sender for WindowsSender {
    fn on_established(&mut self, snd: &mut SendState, opening: Opening, cx: &mut Context<'_>) {
        self.cwnd = self.tuning.initial_window * u64::from(snd.payload);
        self.recover = snd.una;
        self.high_rxt = snd.una;
        if let Some(rtt) = opening.rtt {
            let tick = cx.clock.tick_ns();
            self.rtt.sample(rtt.next_multiple_of(tick).max(tick));
        }
    }

    fn on_ack(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        let mut news = 0;
        for &(left, right) in ack.sack {
            // An old ACK may report what is acknowledged by now.
            let left = left.max(snd.una);
            if left < right {
                news += self.sacked.insert(left, right, |_, _| {});
            }
        }
        let opened = snd.wnd > ack.previous_wnd;
        if opened && self.persist.is_some() && snd.wnd > snd.outstanding().min(1) {
            self.persist = None;
            self.shift = 0;
            // What the probe carried is sent as part of a segment.
            snd.nxt = snd.una;
        }
        if ack.ack > snd.una {
            self.on_advance(snd, ack, cx);
        } else if ack.ack == snd.una
            && ack.payload == 0
            && !ack.fin
            && snd.outstanding() > 0
            && (news > 0 || (!snd.sack && snd.wnd == ack.previous_wnd))
        {
            self.on_duplicate(snd, cx);
        }
        if self.in_recovery {
            self.set_pipe(snd);
        }
    }

    /// Sends all again from the oldest on.
    fn on_path_mtu(&mut self, snd: &mut SendState, _cx: &mut Context<'_>) {
        self.sacked.clear();
        self.timed = None;
        snd.nxt = snd.una;
    }

    fn on_timer(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if self.rexmt.is_some_and(|at| at <= cx.now) {
            self.on_timeout(snd, cx);
        }
        if self.persist.is_some_and(|at| at <= cx.now) {
            self.persist = None;
            self.probe_due = true;
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        earliest(self.rexmt, self.persist)
    }

    fn poll(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Poll {
        if self.probe_due
            && let Some(transmit) = self.probe(snd, cx)
        {
            return Poll::Send(transmit);
        }
        if self.in_recovery
            && let Some(transmit) = self.poll_recovery(snd, cx)
        {
            return Poll::Send(transmit);
        }
        if matches!(self.frto, Frto::Resent { .. }) && snd.nxt > snd.una {
            return Poll::Wait(Limit::Cwnd);
        }
        match self.poll_data(snd, cx) {
            Ok(transmit) => Poll::Send(transmit),
            Err(limit) => Poll::Wait(limit),
        }
    }

    fn gave_up(&self) -> bool {
        self.gave_up
    }

    fn srtt(&self, _snd: &SendState) -> Option<Nanos> {
        self.rtt.srtt
    }

    fn metrics(&self, snd: &SendState) -> Metrics {
        let inflight = if self.in_recovery && snd.sack { self.pipe } else { snd.nxt - snd.una };
        Metrics {
            cwnd: self.window(),
            ssthresh: (self.ssthresh != u64::MAX).then_some(self.ssthresh),
            srtt: self.rtt.srtt,
            rttvar: self.rtt.srtt.map(|_| self.rtt.rttvar),
            rto: self.backed_off_rto(),
            inflight,
            pacing_bps: None,
            phase: if self.in_recovery {
                Phase::Recovery
            } else if self.after_timeout {
                Phase::Loss
            } else if self.cwnd < self.ssthresh {
                Phase::SlowStart
            } else {
                Phase::Avoidance
            },
            timeouts: self.timeouts,
            recoveries: self.recoveries,
        }
    }
}
