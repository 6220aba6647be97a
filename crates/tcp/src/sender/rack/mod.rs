//! FreeBSD's RACK stack (tcp_rack(4)): time-based loss detection (RFC 8985), tail loss probes, one retransmission per
//! output, cwnd untouched during recovery. The high-precision timer system paces output and keeps the timers.
//!
//! Transmissions are kept in the order of the stream and in the order of sending. The one sent longest ago is lost once a
//! later one was SACKed and a reordering time has passed; so is a retransmission. One call of output sends either one
//! lost segment or as much new data as fits. What it sent decides how long the next call waits, unless an ACK or a loss
//! ends the wait.

mod detection;
mod goodput;
mod map;
mod output;
mod recovery;
mod sack_filter;
mod timers;
mod tuning;
mod wheel;

use std::sync::Arc;

use detection::{PathDelay, Sample};
use goodput::Goodput;
use map::SendMap;
use recovery::{PriorWindows, Undo};
use sack_filter::SackFilter;
use wheel::Wheel;

pub use sack_filter::SackFilterKind;
pub use tuning::RackTuning;
pub use wheel::WheelTimers;

use super::freebsd::packet_rtt::PacketRtt;
use super::freebsd::rtt::Rtt;
use super::freebsd::tuning::Tuning;
use super::freebsd::{self, FreeBsdSender};
use super::{Ack, Metrics, Opening, Poll, SendState, Sender, Transmit};
use crate::cc::freebsd::{CcVar, CongestionControl, NewReno, Signal};
use crate::clock::{MICROSECOND, Nanos, earliest};
use crate::context::{Context, EcnAnswer, EcnSegment};
use crate::event::EventKind;
use crate::peers::Lesson;

/// Duplicate ACKs that count as evidence of loss like a SACK (RFC 5681 section 3.2).
const DUPLICATE_THRESHOLD: u8 = 3;
/// RTT that is assumed before any was measured (RACK_INITIAL_RTO), us.
const UNKNOWN_RTT_US: u64 = 500_000;
/// Shortest reordering timer, and where a release waits after each retransmission, that wait; us
/// (net.inet.tcp.rack.minto).
const SHORTEST_TIMER_US: u64 = 1000;
/// Time after which what the host refused is tried again, in us.
const REFUSED_US: u64 = 10_000;

/// The sender of one connection.
pub struct RackSender {
    /// The default stack's sender, once the connection went back to it.
    fallback: Option<Box<FreeBsdSender>>,
    /// Name and random seed of the congestion control, for that one.
    tuning: Arc<Tuning>,
    rack: RackTuning,
    cc: Box<dyn CongestionControl>,
    ccv: CcVar,
    rtt: Rtt,
    map: SendMap,
    sack_filter: SackFilter,
    /// The host's clock at the event at hand, us.
    now_us: u64,
    /// RTT of the transmission sent last that was delivered, us in steps of the stack's clock.
    last_rtt: u64,
    /// Time when the transmission of `last_rtt` was sent, in us.
    last_sent_at: u64,
    /// Smallest of such RTTs, us; 0: none yet.
    min_rtt: u64,
    /// RTT of the ACK at hand, us, and what it shows of the path.
    sample: Option<Sample>,
    path: PathDelay,
    /// Goodput, for which pacing waits (FreeBSD 13).
    goodput: Goodput,
    /// cwnd at the last call of output, by which growth is counted.
    cwnd_used: u64,
    largest_cwnd: u64,
    /// Round trips so far.
    round: u32,
    /// The present round trip ends when this is acknowledged.
    round_ends: u64,
    /// Bytes delivered in this recovery (RFC 6937 section 3).
    prr_delivered: u64,
    /// Bytes sent in this recovery.
    prr_out: u64,
    /// Bytes of new data that recovery lets out now.
    prr_credit: u64,
    /// Bytes outstanding when recovery began (RecoverFS).
    recover_fs: u64,
    /// Whether this recovery does not reduce the window.
    cwnd_spared: bool,
    prior_windows: Option<PriorWindows>,
    /// Time when reordering was last seen, in us.
    reordered_at: Option<u64>,
    /// Round trips with a D-SACK, as the reordering window counts them (RFC 8985 section 6.2 step 4).
    dsacks: u32,
    /// Recoveries until that count is forgotten.
    dsacks_persist: u32,
    /// No other D-SACK counts until this is acknowledged.
    dsack_round: u64,
    /// Pacing: output waits for this time, us.
    paced_until: Option<u64>,
    /// The next call of output does not wait.
    pacing_waived: bool,
    timer: Option<(Timer, u64)>,
    /// Time when the timer system wakes the connection.
    wake: Option<Nanos>,
    /// Time for which the timer system was asked, in us: the timer's or the end of pacing.
    wake_for: Option<u64>,
    /// Timer wheel in which the connection waits (FreeBSD 13).
    wheel: Option<Wheel>,
    /// Whether an ACK or a timer has called for output since the last call.
    called: bool,
    /// End of what the application had written at the last call of output.
    written: u64,
    output_call: OutputCall,
    /// Bytes sent by the call of output at hand.
    sent_in_call: u64,
    /// Entry that a timer wants sent again.
    resend: Option<usize>,
    probe: Probe,
    /// Tail loss probes in a row.
    probes: u32,
    /// Last timer, or transmission when nothing was out: earlier transmissions do not count for probe and timeout.
    timers_from: u64,
    persist: Option<Nanos>,
    window_probe: bool,
    /// RTTs of single packets, where the congestion control wants them.
    packets: Option<Box<PacketRtt>>,
    cwr: bool,
    undo: Option<Undo>,
    /// Whether nothing more leaves until an ACK comes: after a timeout that leaves the windows as they are.
    awaits_ack: bool,
    /// ssthresh when a timeout ended a recovery; it is this again after the next one.
    ssthresh_at_timeout: Option<u64>,
    /// ssthresh before the last recovery, bytes that it sent again, and bytes that D-SACKs said were needless.
    ssthresh_before: u64,
    resent_in_recovery: u64,
    needless: u64,
    last_transmit: Option<Transmit>,
    timeouts: u64,
    recoveries: u64,
    gave_up: bool,
}

/// State of a call of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputCall {
    /// None is under way.
    Idle,
    Sending,
    /// Call that has sent what it may.
    Finished,
}

/// Data that a tail loss probe sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    None,
    /// The entry at this index again.
    Resend(usize),
    NewData,
}

/// Timer that runs; there is only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Reordering,
    Probe,
    Retransmission,
}

impl RackSender {
    /// A sender for a release, with a congestion control of its own.
    pub fn new(
        tuning: impl Into<Arc<Tuning>>,
        rack: RackTuning,
        mut cc: Box<dyn CongestionControl>,
    ) -> RackSender {
        let tuning = tuning.into();
        let mut ccv = CcVar::new(tuning.cc);
        cc.cb_init(&mut ccv);
        RackSender {
            fallback: None,
            ccv,
            rtt: Rtt::new(1000, tuning.rexmit_min_ms, tuning.rexmit_slop_ms),
            sack_filter: SackFilter::new(rack.sack_filter),
            tuning,
            rack,
            cc,
            map: SendMap::default(),
            now_us: 0,
            last_rtt: 0,
            last_sent_at: 0,
            min_rtt: 0,
            sample: None,
            path: PathDelay::default(),
            goodput: Goodput::default(),
            cwnd_used: 0,
            largest_cwnd: 0,
            round: 0,
            round_ends: 0,
            prr_delivered: 0,
            prr_out: 0,
            prr_credit: 0,
            recover_fs: 0,
            cwnd_spared: false,
            prior_windows: None,
            reordered_at: None,
            dsacks: 0,
            dsacks_persist: 0,
            dsack_round: 0,
            paced_until: None,
            pacing_waived: false,
            timer: None,
            wake: None,
            wake_for: None,
            wheel: rack.wheel.map(Wheel::new),
            called: false,
            written: 0,
            output_call: OutputCall::Idle,
            sent_in_call: 0,
            resend: None,
            probe: Probe::None,
            probes: 0,
            timers_from: 0,
            persist: None,
            window_probe: false,
            packets: None,
            cwr: false,
            undo: None,
            awaits_ack: false,
            ssthresh_at_timeout: None,
            ssthresh_before: 0,
            resent_in_recovery: 0,
            needless: 0,
            last_transmit: None,
            timeouts: 0,
            recoveries: 0,
            gave_up: false,
        }
    }

    fn refresh_cc_var(&mut self, snd: &SendState, cx: &Context<'_>) {
        self.ccv.una = snd.una;
        self.ccv.nxt = snd.nxt;
        self.ccv.max = snd.max;
        self.ccv.ticks = cx.clock.ticks(cx.now);
        self.ccv.micros = self.ccv.ticks * (cx.clock.tick_ns() / 1000);
        self.now_us = cx.clock.micros(cx.now);
    }

    /// A time of the host's clock as the stack's clock shows it, us.
    #[inline]
    fn stack_time(&self, us: u64) -> u64 {
        if self.rack.milliseconds { us / 1000 * 1000 } else { us }
    }

    /// Time since `us` by the stack's clock, us.
    #[inline]
    fn elapsed_since(&self, us: u64) -> u64 {
        self.stack_time(self.now_us).saturating_sub(self.stack_time(us))
    }

    fn srtt_us(&self) -> Option<u64> {
        self.rtt.srtt_ns().map(|srtt| self.stack_time(srtt / MICROSECOND)).filter(|srtt| *srtt > 0)
    }

    fn rto_us(&self) -> u64 {
        (self.rtt.rto_ns() / MICROSECOND).min(self.rack.rto_max_ms * 1000)
    }

    /// Bytes in flight with what was sent again, where `una` is acknowledged.
    fn pipe(&self, snd: &SendState, una: u64) -> u64 {
        let lost = if self.rack.pipe_without_lost { self.map.considered_lost } else { 0 };
        (snd.max - una + self.map.retransmitted).saturating_sub(self.map.sacked.covered() + lost)
    }

    /// An echo of congestion experienced. Of those in a window one begins a reaction; modules that count marks are told of all.
    #[inline(never)]
    fn on_ecn_echo(&mut self, snd: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        self.ccv.pipe = self.pipe(snd, snd.una);
        if self.ccv.cong_recovery && ack.ack < self.ccv.recover {
            return self.cc.cong_signal(&mut self.ccv, Signal::Ecn);
        }
        self.ccv.cong_recovery = false;
        self.ccv.recover = snd.max + 1;
        self.cwr = true;
        self.cc.cong_signal(&mut self.ccv, Signal::Ecn);
        cx.events.push(EventKind::Reduction, snd.offset(snd.una), self.ccv.cwnd as i64);
    }

    /// Bytes in flight as the window counts them: retransmissions are not.
    fn flight(&self, snd: &SendState) -> u64 {
        (snd.max - snd.una).saturating_sub(self.map.sacked.covered())
    }
}

impl Sender for RackSender {
    fn on_established(&mut self, snd: &mut SendState, opening: Opening, cx: &mut Context<'_>) {
        if self.rack.needs_sack && !snd.sack {
            // The congestion control goes along.
            let cc = std::mem::replace(&mut self.cc, Box::new(NewReno::default()));
            let mut default = Box::new(FreeBsdSender::adopt(self.tuning.clone(), cc, self.ccv.clone()));
            default.on_established(snd, opening, cx);
            self.fallback = Some(default);
            return;
        }
        self.ccv.hz = cx.clock.hz();
        self.rtt = if self.rack.milliseconds {
            Rtt::new(cx.clock.hz(), self.tuning.rexmit_min_ms, self.tuning.rexmit_slop_ms)
        } else {
            Rtt::micros(self.tuning.rexmit_min_ms, self.tuning.rexmit_slop_ms)
        };
        self.rtt.begin_with(opening.known.rtt, opening.known.rttvar, cx.clock.hz());
        self.ccv.mss = u64::from(snd.payload);
        self.ccv.maxseg = u64::from(snd.mss);
        self.ccv.snd_scale = snd.wscale;
        self.ccv.recover = snd.una;
        snd.sndbuf = snd.sndbuf.next_multiple_of(self.ccv.mss);
        self.refresh_cc_var(snd, cx);
        if let Some(rtt) = opening.rtt {
            // From the echoed timestamp: it shows nothing of the path in microseconds.
            let rtt = self.elapsed_since(self.now_us.saturating_sub(rtt / MICROSECOND)).max(1);
            self.sample = Some(Sample { rtt, exact: rtt, trusted: false, flight: None });
            self.commit_sample();
            self.path = PathDelay::default();
        }
        let initial = self.tuning.initial_window.bytes(self.ccv.mss);
        self.goodput = Goodput::new(initial, self.ccv.mss);
        self.ccv.cwnd = if opening.repeats > 0 { self.ccv.mss } else { initial };
        self.cwnd_used = self.ccv.cwnd;
        self.packets = self.cc.wants_packet_rtt().then(Box::default);
        self.ccv.ecn = snd.ecn;
        freebsd::peers::begin_with(&mut self.ccv, &opening.known);
        self.cc.conn_init(&mut self.ccv);
        // It is to begin in slow start whatever is known (rack_cc_conn_init).
        self.ccv.ssthresh = self.ccv.ssthresh.max(snd.wnd);
    }

    fn on_ack(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        if let Some(default) = &mut self.fallback {
            return default.on_ack(snd, ack, cx);
        }
        self.refresh_cc_var(snd, cx);
        self.ccv.snd_wnd = snd.wnd;
        self.ccv.curack = ack.ack;
        self.ccv.nsegs = u64::from(ack.frames);
        self.ccv.bytes_this_ack = ack.ack.saturating_sub(snd.una);
        self.awaits_ack = false;
        self.called = true;
        self.undo_timeout(snd, ack, cx);
        if ack.ece() {
            self.on_ecn_echo(snd, ack, cx);
        }
        let advances = ack.ack > snd.una;
        let counts = ack.sack.is_empty() && ack.dsack.is_none() || self.rack.sacks_count_as_duplicates;
        let same = ack.ack == snd.una && snd.wnd == ack.previous_wnd && ack.payload == 0;
        if counts && same && snd.max > snd.una {
            self.pacing_waived |= self.map.count_duplicate_ack() >= DUPLICATE_THRESHOLD;
        }
        let plain = advances && !self.ccv.in_recovery() && self.map.sacked.is_empty() && snd.wnd > 0;
        let delivered = self.log_ack(snd, ack, cx);
        // The RACK stack runs the helper that measures RTTs for congestion control on plain ACKs only: not in recovery,
        // which includes the round trip after a delay signal.
        if plain && let Some(packets) = &mut self.packets {
            let now = cx.clock.timestamp_ms(cx.now);
            packets.on_ack(ack.ack, self.ccv.bytes_this_ack, false, ack.tsecr, now, self.ccv.maxseg);
            packets.tell(&mut self.ccv);
        }
        if delivered > 0 {
            self.timer = None;
            self.leave_wheel(cx);
        }
        let una = snd.una.max(ack.ack);
        self.detect_losses(snd, una, delivered, cx);
        if snd.wnd > 0 {
            self.leave_persist();
        }
        if advances {
            self.probes = 0;
            self.rtt.shift = 0;
            let ends = self.ccv.in_recovery() && (ack.ack >= self.ccv.recover || ack.ack >= snd.max);
            if ends {
                self.leave_recovery(snd, ack.ack, cx);
            }
            if ack.ack >= self.round_ends {
                self.round += 1;
                self.round_ends = snd.max;
                self.cc.new_round(&mut self.ccv, self.round);
            }
            if self.goodput.on_ack(ack.ack, ack.ack == snd.max, self.path.smoothed, self.now_us) {
                // What was paced before it is not trusted, and RTTs are smoothed anew.
                self.paced_until = None;
                self.path.smoothed = 0;
            }
            self.ack_received();
            snd.una = una;
            snd.nxt = snd.nxt.max(una);
            self.ccv.recover = self.ccv.recover.max(una);
            if una == snd.max {
                self.sack_filter.clear();
                // Nothing is left that the next call of output could come too soon after (rack_timer_cancel).
                self.paced_until = None;
                if snd.limit() == una {
                    self.rest(cx);
                }
            }
        }
        self.commit_sample();
    }

    /// The oldest is sent again; what else is lost, its own detection finds.
    fn on_path_mtu(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if let Some(default) = &mut self.fallback {
            return default.on_path_mtu(snd, cx);
        }
        self.refresh_cc_var(snd, cx);
        (self.ccv.mss, self.ccv.maxseg) = (u64::from(snd.payload), u64::from(snd.mss));
        self.resend = self.map.oldest();
        self.pacing_waived = true;
    }

    fn on_timer(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if let Some(default) = &mut self.fallback {
            return default.on_timer(snd, cx);
        }
        self.refresh_cc_var(snd, cx);
        if self.wake.is_some_and(|at| at <= cx.now) {
            self.wake = None;
            if let Some(wheel) = &mut self.wheel {
                wheel.begin_look();
            }
            self.pacing_waived |= self.paced_until.is_some();
            let due = self.timer.filter(|&(_, at)| self.stack_time(self.now_us) >= at);
            if let Some((timer, _)) = due {
                self.timer = None;
                // Everything may have been acknowledged since.
                if snd.max > snd.una {
                    self.on_timer_expired(snd, timer, cx);
                }
            }
        }
        if self.persist.is_some_and(|at| at <= cx.now) {
            self.start_persist(cx);
            self.window_probe = true;
            self.called = true;
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        if let Some(default) = &self.fallback {
            return default.next_timer();
        }
        earliest(self.wake, self.persist)
    }

    fn poll(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Poll {
        if let Some(default) = &mut self.fallback {
            return default.poll(snd, cx);
        }
        if self.output_call == OutputCall::Idle {
            self.now_us = cx.clock.micros(cx.now);
            if !self.may_call(snd) {
                return Poll::Wait(self.limit(snd));
            }
            if self.is_paced() {
                self.arm(snd, cx);
                return Poll::Wait(self.limit(snd));
            }
            self.paced_until = None;
            self.leave_wheel(cx);
            self.pacing_waived = false;
            self.output_call = OutputCall::Sending;
            self.sent_in_call = 0;
            if snd.max == snd.una {
                self.refresh_cc_var(snd, cx);
                self.restart_after_idle(snd, cx);
            }
        }
        let transmit = if self.output_call == OutputCall::Sending { self.output(snd, cx) } else { None };
        if let Some(transmit) = transmit {
            self.last_transmit = Some(transmit);
            return Poll::Send(transmit);
        }
        if self.output_call == OutputCall::Sending {
            if self.sent_in_call > 0 {
                self.pace(self.pacing_delay());
            } else if snd.limit() == snd.una {
                self.rest(cx);
            } else {
                self.map.end_flight();
            }
        }
        self.output_call = OutputCall::Idle;
        self.shorten_unmeasured_pace(snd);
        self.arm(snd, cx);
        Poll::Wait(self.limit(snd))
    }

    /// ENOBUFS: what was refused was never sent, and nothing is for 10 ms.
    fn on_tx_dropped(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        if let Some(default) = &mut self.fallback {
            return default.on_tx_dropped(snd, cx);
        }
        let Some(refused) = self.last_transmit.take() else { return };
        let end = refused.seq + u64::from(refused.len) + u64::from(refused.fin);
        if !refused.retransmission && snd.nxt == end && snd.max == end {
            self.map.remove_refused(refused.seq);
            snd.nxt = refused.seq;
            snd.max = refused.seq;
        }
        self.now_us = cx.clock.micros(cx.now);
        self.paced_until = Some(self.now_us + REFUSED_US);
        self.pacing_waived = false;
        self.output_call = OutputCall::Finished;
    }

    fn hears_ecn(&self) -> bool {
        true
    }

    fn on_ecn_segment(&mut self, segment: &EcnSegment, cx: &mut Context<'_>) -> EcnAnswer {
        if let Some(default) = &mut self.fallback {
            return default.on_ecn_segment(segment, cx);
        }
        self.ccv.note_ecn(*segment);
        self.cc.ecnpkt_handler(&mut self.ccv);
        self.ccv.ecn_answer()
    }

    fn lesson(&self, snd: &SendState) -> Option<Lesson> {
        match &self.fallback {
            Some(default) => default.lesson(snd),
            None => freebsd::peers::lesson(snd, &self.ccv, &self.rtt),
        }
    }

    fn on_closed(&mut self) {
        match &mut self.fallback {
            Some(default) => default.on_closed(),
            None => self.cc.cb_destroy(&mut self.ccv),
        }
    }

    fn gave_up(&self) -> bool {
        self.fallback.as_ref().map_or(self.gave_up, |default| default.gave_up())
    }

    fn cwnd(&self, snd: &SendState) -> u64 {
        self.fallback.as_ref().map_or(self.ccv.cwnd, |default| default.cwnd(snd))
    }

    fn srtt(&self, snd: &SendState) -> Option<Nanos> {
        self.fallback.as_ref().map_or_else(|| self.rtt.srtt_ns(), |default| default.srtt(snd))
    }

    fn metrics(&self, snd: &SendState) -> Metrics {
        if let Some(default) = &self.fallback {
            return default.metrics(snd);
        }
        Metrics {
            rto: self.rto_us() * MICROSECOND,
            inflight: self.pipe(snd, snd.una),
            ..freebsd::metrics(snd, &self.ccv, &self.rtt, 0, self.timeouts, self.recoveries)
        }
    }
}
