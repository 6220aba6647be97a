//! FreeBSD's RACK stack (tcp_rack(4)): time-based loss detection (RFC 8985), tail loss probes, one retransmission per
//! output, cwnd untouched during recovery, output held back and timers kept by the high-precision timer system.
//!
//! Every transmission is an entry in the order of the stream, and a place in the order of sending. The entry sent
//! longest ago is lost once something sent after it was SACKed and a reordering time has passed; the same holds for
//! retransmissions. One call of output sends either one lost segment or as much new data as fits; what it sent decides
//! how long the next call must wait, unless an ACK after that time or a loss comes first.

mod map;

use map::{Entry, SendMap};

use super::freebsd::output::{autosize, what_limits};
use super::freebsd::packet_rtt::PacketRtt;
use super::freebsd::rtt::{MAX_SHIFT, Rtt};
use super::freebsd::tuning::Tuning;
use super::freebsd::{self, FreeBsdSender};
use super::{Ack, Limit, Metrics, Poll, SendState, Sender, Transmit};
use crate::cc::freebsd::{self as cc, AckKind, CcVar, CongestionControl, Signal};
use crate::clock::{HostClock, MICROSECOND, Nanos, earliest};
use crate::context::Context;
use crate::event::EventKind;
use crate::mutants::mutant;

/// Duplicate ACKs that count as evidence of loss like a SACK (RFC 5681 section 3.2).
const DUPLICATE_THRESHOLD: u8 = 3;
/// RTT that is assumed before any was measured (RACK_INITIAL_RTO), us.
const UNKNOWN_RTT_US: u64 = 500_000;
/// Probes in a row (net.inet.tcp.rack.tlp_limit).
const MAX_PROBES: u32 = 2;
/// Shortest probe timeout, us (net.inet.tcp.rack.tlpminto).
const SHORTEST_PROBE_US: u64 = 10_000;
/// Shortest reordering timer, and where a release waits after each retransmission, that wait; us
/// (net.inet.tcp.rack.minto).
const SHORTEST_TIMER_US: u64 = 1000;
/// Extra reordering time before any reordering was seen (net.inet.tcp.rack.pktdelay, and 1 ms more), us.
const PACKET_DELAY_US: u64 = 1000;
/// How long reordering is remembered (net.inet.tcp.rack.reorder_fade), us.
const REORDERING_FADES_US: u64 = 60_000_000;
/// Recoveries over which a count of D-SACKs is kept (RFC 8985 section 6.2 step 4).
const DSACKS_PERSIST: u32 = 16;
/// A slot of the timer wheel, us.
const SLOT_US: u64 = 10;
/// Its shortest sleep, us.
const SHORTEST_SLEEP_US: u64 = 250;
/// What the host refused is tried again after this, us.
const REFUSED_US: u64 = 10_000;
/// The path counts as deeply buffered when the longest RTT is more than this many times the shortest (whole division).
const DEEP_BUFFER: u64 = 3;

/// What distinguishes the RACK stacks of two releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RackTuning {
    /// The stack's clock counts milliseconds (13), else microseconds (15).
    pub milliseconds: bool,
    /// Timers and held output end on a tick of the host's clock, as recorded of 13; else on slots of 10 us.
    pub wheel_on_ticks: bool,
    /// The reordering time is the last RTT and 2 ms, or 1 ms and a quarter of it once reordering was seen (13); else the
    /// last RTT and a quarter, more after D-SACKs (15).
    pub threshold_by_packet_delay: bool,
    /// A retransmission holds back other output for 1 ms (13).
    pub retransmission_slot: bool,
    /// PRR's product of bytes delivered and ssthresh is kept in 32 bits and wraps (13), which stops new data until the
    /// pipe is down to ssthresh.
    pub prr_wraps: bool,
    /// PRR counts what an ACK covers as delivered although it was counted when it was SACKed (13).
    pub prr_counts_twice: bool,
    /// Recovery ends before the ACK that ends it makes the window grow, at ssthresh at most (13).
    pub exits_before_growth: bool,
    /// Segments of unused PRR credit that the window takes over when recovery ends; None: all of it (13).
    pub credit_segments: Option<u64>,
    /// A loss on a deeply buffered path does not reduce the window while the RTT is near its minimum (13).
    pub spares_low_delay: bool,
    /// Bytes counted per ACK in congestion avoidance are capped at L segments (15).
    pub abc_capped: bool,
    /// A timeout takes all that is not SACKed for lost (15); else it sends the first segment again and forgets what was
    /// SACKed (13).
    pub timeout_loses_all: bool,
    /// A spurious timeout is recognised by the echoed timestamp (15).
    pub undoes_timeouts: bool,
    /// Without SACK the connection goes back to the default stack (13; net.inet.tcp.rack.sack_not_required).
    pub needs_sack: bool,
    /// Segments of one output call (net.inet.tcp.rack.hptsi_seg_max).
    pub burst_segments: u32,
    /// The delayed ACK that a probe for a single segment allows for, ms.
    pub probe_delayed_ack_ms: u64,
    /// Largest retransmission timeout (net.inet.tcp.rack.rto_max), ms.
    pub rto_max_ms: u64,
}

/// The one timer that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Reordering,
    Probe,
    Retransmission,
}

/// The sender of one connection.
pub struct RackSender {
    /// The default stack's sender, once the connection went back to it.
    default: Option<Box<FreeBsdSender>>,
    /// What that one is made with, besides the tuning.
    module: (String, u64),
    t: Tuning,
    rack: RackTuning,
    cc: Box<dyn CongestionControl>,
    v: CcVar,
    rtt: Rtt,
    map: SendMap,
    /// The host's clock at the event at hand, us.
    now_us: u64,
    /// RTT of the transmission sent last that was delivered, us in steps of the stack's clock.
    last_rtt: u64,
    /// When that was sent, us.
    last_sent_at: u64,
    /// Smallest of such RTTs, us; 0: none yet.
    min_rtt: u64,
    /// RTT of the ACK at hand, us, and what it shows of the path.
    sample: Option<Sample>,
    path: PathDelay,
    /// cwnd at the last call of output, by which growth is counted.
    cwnd_used: u64,
    largest_cwnd: u64,
    /// Round trips so far, and what ends the one at hand when it is acknowledged.
    round: u32,
    round_ends: u64,
    prr_delivered: u64,
    prr_out: u64,
    prr_credit: u64,
    recover_fs: u64,
    /// The window is spared in this recovery.
    spared: bool,
    before: Option<Before>,
    /// When reordering was last seen, us.
    reordered_at: Option<u64>,
    dsacks: u32,
    dsacks_persist: u32,
    dsack_round: u64,
    /// Output waits for this time, us.
    held_until: Option<u64>,
    /// Output need not wait.
    unheld: bool,
    timer: Option<(Timer, u64)>,
    /// When the wheel wakes the connection, for its timer or for output, and what it was asked for, us.
    wake: Option<Nanos>,
    asleep_until: Option<u64>,
    call: Call,
    /// Bytes sent by the call of output at hand.
    call_sent: u64,
    /// Entry that a timer wants sent again.
    resend: Option<usize>,
    probe: Probe,
    probes: u32,
    /// Last timer, or transmission when nothing was out: earlier transmissions do not count for probe and timeout.
    timers_from: u64,
    persist: Option<Nanos>,
    window_probe: bool,
    /// RTTs of single packets, where the congestion control wants them.
    packets: Option<Box<PacketRtt>>,
    cwr: bool,
    undo: Option<Undo>,
    lost_until: u64,
    last: Option<Transmit>,
    timeouts: u64,
    recoveries: u64,
    gave_up: bool,
}

/// Where a call of output stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    None,
    Open,
    /// It has sent what it may.
    Closed,
}

/// What a tail loss probe sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    None,
    Old(usize),
    New,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    rtt: u64,
    /// In microseconds whatever the stack's clock, and whether it can be trusted to show no delayed ACK.
    exact: u64,
    trusted: bool,
    /// Bytes in flight when what it measures was sent; None: that was sent more than once.
    flight: Option<u32>,
}

/// The RTTs by which a deeply buffered path is recognised, us.
#[derive(Clone, Copy, Debug, Default)]
struct PathDelay {
    lowest: u64,
    highest: u64,
    smoothed: u64,
    deep: bool,
}

/// Windows before recovery, to which a retransmission that was not needed returns.
#[derive(Clone, Copy, Debug)]
struct Before {
    start: u64,
    cwnd: u64,
    ssthresh: u64,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
    timestamp: u32,
}

impl RackSender {
    /// A sender for a release, with congestion control `name` (which the release has).
    ///
    /// # Panics
    /// If the release has no such congestion control; [`crate::stack::Profile::sender`] is called with checked names.
    pub fn new(tuning: Tuning, rack: RackTuning, name: &str, random: u64) -> RackSender {
        let cc = cc::by_name(name, tuning.cubic, &tuning.cdg, random).expect("a checked name");
        RackSender {
            default: None,
            module: (name.to_owned(), random),
            v: CcVar::new(tuning.cc),
            rtt: Rtt::new(1000, tuning.rexmit_min_ms, tuning.rexmit_slop_ms),
            t: tuning,
            rack,
            cc,
            map: SendMap::default(),
            now_us: 0,
            last_rtt: 0,
            last_sent_at: 0,
            min_rtt: 0,
            sample: None,
            path: PathDelay::default(),
            cwnd_used: 0,
            largest_cwnd: 0,
            round: 0,
            round_ends: 0,
            prr_delivered: 0,
            prr_out: 0,
            prr_credit: 0,
            recover_fs: 0,
            spared: false,
            before: None,
            reordered_at: None,
            dsacks: 0,
            dsacks_persist: 0,
            dsack_round: 0,
            held_until: None,
            unheld: false,
            timer: None,
            wake: None,
            asleep_until: None,
            call: Call::None,
            call_sent: 0,
            resend: None,
            probe: Probe::None,
            probes: 0,
            timers_from: 0,
            persist: None,
            window_probe: false,
            packets: None,
            cwr: false,
            undo: None,
            lost_until: 0,
            last: None,
            timeouts: 0,
            recoveries: 0,
            gave_up: false,
        }
    }

    fn see_state(&mut self, s: &SendState, cx: &Context<'_>) {
        self.v.una = s.una;
        self.v.nxt = s.nxt;
        self.v.max = s.max;
        self.v.ticks = cx.clock.ticks(cx.now);
        self.v.micros = self.v.ticks * (cx.clock.tick_ns() / 1000);
        self.now_us = cx.clock.micros(cx.now);
    }

    /// A time of the host's clock as the stack's clock shows it, us.
    #[inline]
    fn seen(&self, us: u64) -> u64 {
        if self.rack.milliseconds { us / 1000 * 1000 } else { us }
    }

    /// Time since `us` by the stack's clock, us.
    #[inline]
    fn since(&self, us: u64) -> u64 {
        self.seen(self.now_us).saturating_sub(self.seen(us))
    }

    /// The RTT by which losses are judged, us.
    fn judging_rtt(&self) -> u64 {
        if self.last_rtt > 0 {
            return self.last_rtt;
        }
        self.srtt_us().unwrap_or(UNKNOWN_RTT_US)
    }

    fn srtt_us(&self) -> Option<u64> {
        self.rtt.srtt_ns().map(|srtt| self.seen(srtt / MICROSECOND)).filter(|srtt| *srtt > 0)
    }

    /// How long after its transmission something passed is lost, us.
    fn threshold(&mut self) -> u64 {
        let rtt = self.judging_rtt();
        if self.reordered_at.is_some_and(|at| self.now_us.saturating_sub(at) > REORDERING_FADES_US) {
            self.reordered_at = None;
        }
        let reordered = self.reordered_at.is_some();
        let threshold = if mutant!(RackWithoutWindow) {
            rtt
        } else if self.rack.threshold_by_packet_delay {
            rtt + PACKET_DELAY_US + if reordered { self.seen(rtt / 4) } else { 1000 }
        } else {
            let more = if reordered { u64::from(self.dsacks) * (rtt / 4) } else { 0 };
            (rtt + rtt / 4 + more).min(2 * rtt)
        };
        threshold.min(self.rto_us())
    }

    fn rto_us(&self) -> u64 {
        (self.rtt.rto_ns() / MICROSECOND).min(self.rack.rto_max_ms * 1000)
    }

    /// The next entry to send again, if one is lost by now.
    fn lost_entry(&mut self, s: &SendState) -> Option<usize> {
        if s.max > s.end && s.una >= self.lost_until {
            // The FIN is out: only a timeout sends it again.
            return None;
        }
        let index = self.map.oldest()?;
        let entry = *self.map.get(index);
        if entry.lost {
            return Some(index);
        }
        if !self.passed(&entry) {
            return None;
        }
        let since = self.since(entry.at);
        if since == 0 || since < self.threshold() {
            return None;
        }
        self.map.mark_lost(index);
        Some(index)
    }

    /// Whether something sent after `entry` has arrived.
    fn passed(&self, entry: &Entry) -> bool {
        if mutant!(RackForgetsRetransmissions) && entry.count > 1 {
            return false;
        }
        entry.order < self.map.passed || entry.dupacks >= DUPLICATE_THRESHOLD
    }

    /// Takes the RTT of what arrived; `echo` where it was acknowledged cumulatively with a timestamp.
    fn take_rtt(
        &mut self,
        s: &SendState,
        entry: &Entry,
        sacked: bool,
        echo: Option<u32>,
        cx: &mut Context<'_>,
    ) {
        let rtt = self.since(entry.at).max(if self.rack.milliseconds { 1000 } else { 1 });
        let resolved = if entry.count == 1 {
            self.min_rtt = if self.min_rtt == 0 { rtt } else { self.min_rtt.min(rtt) };
            let exact = self.now_us.saturating_sub(entry.at).max(1);
            let trusted = sacked || !entry.last_of_flight;
            self.sample = Some(Sample { rtt, exact, trusted, flight: Some(entry.flight) });
            true
        } else {
            self.rtt.shift = 0;
            let first = echo.is_some_and(|echo| echo == entry.first_stamp);
            let early = self.min_rtt > 0 && rtt < self.min_rtt;
            if first || (echo.is_none() && early) {
                self.retransmitted_in_vain(s, entry, cx);
                false
            } else {
                if echo.is_some() {
                    self.sample = Some(Sample { rtt, exact: rtt, trusted: false, flight: None });
                }
                self.min_rtt > 0
            }
        };
        if resolved && entry.at > self.last_sent_at {
            self.last_sent_at = entry.at;
            self.last_rtt = rtt;
        }
    }

    /// An earlier transmission of `entry` had arrived: there was reordering, and recovery was not needed.
    fn retransmitted_in_vain(&mut self, s: &SendState, entry: &Entry, cx: &mut Context<'_>) {
        if entry.probe || mutant!(RackNeverUndoes) {
            return;
        }
        if let Some(before) = self.before
            && self.v.in_recovery()
            && before.start == entry.start
        {
            self.v.fast_recovery = false;
            self.v.cong_recovery = false;
            self.v.recover = s.una;
            self.v.cwnd = self.v.cwnd.max(before.cwnd);
            self.v.ssthresh = self.v.ssthresh.max(before.ssthresh);
            cx.events.push(EventKind::Undo, s.offset(s.una), self.v.cwnd as i64);
        }
        if entry.was_passed {
            self.reordered_at = Some(self.now_us);
        }
    }

    /// The sample of the ACK at hand becomes part of the estimates.
    fn commit_sample(&mut self) {
        let Some(sample) = self.sample.take() else { return };
        let ticks = sample.rtt * u64::from(self.v.hz) / 1_000_000;
        self.rtt.sample(ticks as u32 + 1);
        self.v.srtt = self.rtt.srtt as u32;
        self.v.rtt_updates = self.rtt.updates;
        self.v.rxtshift = 0;
        if let Some(flight) = sample.flight
            && self.v.tuning.hystart.allowed
        {
            self.cc.rtt_sample(&mut self.v, sample.exact, u64::from(flight));
        }
        let path = &mut self.path;
        if path.smoothed == 0 {
            path.smoothed = sample.exact;
        } else if sample.trusted {
            path.smoothed = path.smoothed - path.smoothed / 8 + sample.exact / 8;
        }
        if sample.trusted {
            path.highest = path.highest.max(sample.exact);
            path.deep |= path.lowest > 0 && path.highest / path.lowest > DEEP_BUFFER;
        }
        if path.lowest == 0 || sample.exact < path.lowest {
            path.lowest = sample.exact;
        }
    }

    /// Sees to the window on a loss judged from an ACK, a timer or in output. A loss inside recovery changes nothing.
    fn enter_recovery(&mut self, s: &SendState, index: usize, cx: &mut Context<'_>) {
        if !self.v.in_recovery() {
            let start = self.map.get(index).start;
            self.before = Some(Before { start, cwnd: self.v.cwnd, ssthresh: self.v.ssthresh });
        }
        if self.v.fast_recovery {
            return;
        }
        self.recoveries += 1;
        cx.events.push(EventKind::RecoveryIn, s.offset(s.una), self.v.cwnd as i64);
        self.v.recover = s.max;
        self.cwr |= s.ecn;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.prr_credit = self.v.mss;
        self.recover_fs = s.max - s.una;
        let path = self.path;
        self.spared =
            self.rack.spares_low_delay && path.deep && path.smoothed <= path.lowest + path.lowest / 4;
        if self.spared {
            self.v.enter_recovery();
            return;
        }
        // The window stays as it was; only ssthresh is taken.
        let cwnd = self.v.cwnd;
        self.cc.cong_signal(&mut self.v, Signal::DuplicateAcks);
        if !mutant!(RackReducesAtOnce) {
            self.v.cwnd = cwnd;
        } else {
            self.v.cwnd = self.v.ssthresh;
        }
    }

    /// Proportional rate reduction for new data (RFC 6937 section 3). `una` is what is acknowledged by now.
    fn update_prr(&mut self, s: &SendState, una: u64, delivered: u64) {
        self.prr_delivered += delivered;
        let pipe = self.pipe(s, una);
        let ssthresh = self.v.ssthresh;
        self.prr_credit = if pipe > ssthresh {
            let product = self.prr_delivered * ssthresh;
            let product = if self.rack.prr_wraps { u64::from(product as u32) } else { product };
            (product.checked_div(self.recover_fs).unwrap_or(0) + 1).saturating_sub(self.prr_out)
        } else {
            let limit = self.prr_delivered.saturating_sub(self.prr_out).max(delivered) + self.v.mss;
            (ssthresh - pipe).min(limit)
        };
    }

    fn leave_recovery(&mut self, s: &SendState, ack: u64, cx: &mut Context<'_>) {
        let was_loss = self.v.fast_recovery;
        if !self.spared {
            self.v.pipe = s.max - if self.t.rfc6675_pipe { s.una } else { ack };
            if was_loss {
                self.cc.post_recovery(&mut self.v);
            }
            self.v.cwnd = if self.rack.exits_before_growth {
                self.v.cwnd.min(self.v.ssthresh)
            } else {
                // RFC 6582 section 3.2 step 3, option 2.
                self.v.cwnd.max(self.v.ssthresh)
            };
        }
        let most = self.rack.credit_segments.map_or(u64::MAX, |segments| segments * self.v.maxseg);
        if (was_loss || self.rack.exits_before_growth) && !mutant!(RackCreditLost) {
            self.v.cwnd += self.prr_credit.min(most);
            self.prr_credit = 0;
        }
        self.v.fast_recovery = false;
        self.v.cong_recovery = false;
        self.spared = false;
        self.v.recover = s.una;
        self.before = None;
        if self.dsacks_persist > 0 {
            self.dsacks_persist -= 1;
            if self.dsacks_persist == 0 {
                self.dsacks = 0;
            }
        }
        if was_loss {
            cx.events.push(EventKind::RecoveryOut, s.offset(ack), self.v.cwnd as i64);
        }
    }

    fn ack_received(&mut self) {
        let used = self.cwnd_used;
        self.v.cwnd_limited = used <= self.v.snd_wnd;
        if used > self.v.ssthresh {
            let cap = self.v.nsegs * self.t.cc.abc_l_var * self.v.mss;
            self.v.bytes_acked +=
                if self.rack.abc_capped { self.v.bytes_this_ack.min(cap) } else { self.v.bytes_this_ack };
            if self.v.bytes_acked >= used {
                self.v.bytes_acked -= used;
                self.v.abc_sent_a_window = true;
            }
        } else {
            self.v.abc_sent_a_window = false;
            self.v.bytes_acked = 0;
        }
        self.cc.ack_received(&mut self.v, AckKind::New);
        self.largest_cwnd = self.largest_cwnd.max(used);
    }

    /// A timeout was spurious if what it sent again had arrived before: the echo is older.
    fn undo_timeout(&mut self, s: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        if let (Some(undo), Some(echo)) = (self.undo, ack.tsecr)
            && self.rtt.shift == 1
            && echo != 0
            && wire::seq::before(echo, undo.timestamp)
        {
            self.undo = None;
            self.v.cwnd = undo.cwnd;
            self.v.ssthresh = undo.ssthresh;
            self.lost_until = 0;
            self.map.none_lost();
            self.cc.cong_signal(&mut self.v, Signal::TimeoutUndone);
            cx.events.push(EventKind::Undo, s.offset(s.una), self.v.cwnd as i64);
        }
    }

    /// Takes an ACK into the map; returns the bytes that PRR counts for it.
    fn log_ack(&mut self, s: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) -> u64 {
        let mut bytes = 0;
        let mut newest: Option<(Entry, bool)> = None;
        if ack.ack > s.una {
            let delivered = self.map.take_ack(ack.ack, s.una);
            bytes = if self.rack.prr_counts_twice { ack.ack - s.una } else { delivered.bytes };
            newest = delivered.newest.map(|entry| (entry, false));
            self.note_reordering(delivered.reordered);
        }
        if s.sack && !ack.sack.is_empty() {
            let delivered = self.map.take_sack(ack.sack);
            bytes += delivered.bytes;
            self.note_reordering(delivered.reordered);
            if let Some(entry) = delivered.newest
                && newest.is_none_or(|(newest, _)| newest.order < entry.order)
            {
                newest = Some((entry, true));
            }
        }
        if let Some((entry, sacked)) = newest {
            let echo = if sacked { None } else { ack.tsecr.filter(|echo| *echo != 0) };
            self.take_rtt(s, &entry, sacked, echo, cx);
        }
        if ack.dsack.is_some() && s.una >= self.dsack_round {
            // One a round trip (RFC 8985 section 6.2 step 4).
            self.dsack_round = s.max;
            self.dsacks += 1;
            self.dsacks_persist = DSACKS_PERSIST;
        }
        bytes
    }

    fn note_reordering(&mut self, seen: bool) {
        if seen {
            self.reordered_at = Some(self.now_us);
        }
    }

    /// Judges losses after an ACK: recovery begins, or goes on with what the ACK delivered.
    fn judge(&mut self, s: &SendState, una: u64, delivered: u64, cx: &mut Context<'_>) {
        let lost = self.lost_entry(s);
        match lost {
            Some(index) if !self.v.in_recovery() && una >= self.lost_until => {
                self.enter_recovery(s, index, cx);
                self.unheld = true;
            }
            _ if self.v.in_recovery() => self.update_prr(s, una, delivered),
            _ => {}
        }
    }

    /// A timer has run out.
    fn expire(&mut self, s: &mut SendState, timer: Timer, cx: &mut Context<'_>) {
        self.timers_from = self.now_us;
        match timer {
            Timer::Reordering => {
                let due = self.map.oldest().filter(|&index| {
                    let at = self.map.get(index).at;
                    self.since(at) >= self.threshold()
                });
                let Some(index) = due else {
                    self.held_until = None;
                    self.call = Call::Closed;
                    return;
                };
                if s.una >= self.lost_until {
                    self.enter_recovery(s, index, cx);
                }
                self.prr_credit = self.prr_credit.max(self.v.mss);
                self.resend = Some(index);
                self.unheld = true;
            }
            Timer::Probe => self.plan_probe(s, cx),
            Timer::Retransmission => self.on_timeout(s, cx),
        }
    }

    /// The timer that should run, and how long from now, us. One at a time: reordering before probe before timeout.
    fn timer_to_run(&mut self, s: &SendState) -> Option<(Timer, u64)> {
        if s.max == s.una {
            return None;
        }
        let oldest = self.map.oldest().map(|index| *self.map.get(index));
        if let Some(oldest) = oldest {
            if self.passed(&oldest) && s.max <= s.end {
                let left = self.threshold().saturating_sub(self.since(oldest.at));
                return Some((Timer::Reordering, left));
            }
            if s.sack
                && s.max <= s.end
                && s.una >= self.lost_until
                && self.probes < MAX_PROBES
                && !mutant!(RackNeverProbes)
            {
                return Some((Timer::Probe, self.probe_time()));
            }
        }
        let from = oldest.map_or(0, |oldest| oldest.at).max(self.timers_from);
        let left = self.rto_us().saturating_sub(self.since(from));
        Some((Timer::Retransmission, left))
    }

    /// How long until a tail loss probe, us (RFC 8985 section 7.2).
    fn probe_time(&self) -> u64 {
        let (Some(last), before) = self.map.latest() else { return 0 };
        let srtt = self.srtt_us().unwrap_or(UNKNOWN_RTT_US).max(self.last_rtt).max(1);
        let mut wait = 2 * srtt;
        match before {
            Some(before) if last.end - last.start <= self.v.mss => {
                wait += self.seen(last.at).saturating_sub(self.seen(before.at));
            }
            None => wait = wait.max(srtt + srtt / 2 + self.rack.probe_delayed_ack_ms * 1000),
            Some(_) => {}
        }
        let wait = wait.min(self.rto_us()).max(SHORTEST_PROBE_US);
        wait.saturating_sub(self.since(last.at.max(self.timers_from)))
    }

    /// Sets the wheel for the timer that should run, or for output where that comes first.
    fn arm(&mut self, s: &SendState, cx: &Context<'_>) {
        let running = self.timer;
        self.timer = self.timer_to_run(s).map(|(timer, left)| {
            let at = self.seen(self.now_us) + left.max(SHORTEST_TIMER_US);
            match running {
                // What only the shortest timer puts off is not put off again.
                Some((same, earlier)) if same == timer && left < SHORTEST_TIMER_US => {
                    (timer, at.min(earlier))
                }
                _ => (timer, at),
            }
        });
        let until = [self.timer.map(|(_, at)| at), self.held_until].into_iter().flatten().min();
        if self.wake.is_none() || self.asleep_until != until {
            self.asleep_until = until;
            self.wake = until.map(|until| {
                let from = if self.held_until == Some(until) { self.now_us } else { self.seen(self.now_us) };
                self.wheel(until.saturating_sub(from), cx.clock, cx.now)
            });
        }
    }

    /// When the wheel wakes what asks for `us` microseconds from now.
    fn wheel(&self, us: u64, clock: &HostClock, now: Nanos) -> Nanos {
        let slots = us.div_ceil(SLOT_US) * SLOT_US;
        if self.rack.wheel_on_ticks {
            return clock.time_of_tick(clock.ticks(now + slots * MICROSECOND) + 1);
        }
        now + slots.max(SHORTEST_SLEEP_US) * MICROSECOND
    }

    fn on_timeout(&mut self, s: &mut SendState, cx: &mut Context<'_>) {
        self.rtt.shift += 1;
        if self.rtt.shift > MAX_SHIFT {
            self.gave_up = true;
            return;
        }
        self.timeouts += 1;
        cx.events.push(EventKind::Rto, s.offset(s.una), i64::from(self.rtt.shift));
        if self.v.fast_recovery {
            cx.events.push(EventKind::RecoveryOut, s.offset(s.una), self.v.mss as i64);
        }
        let timestamp = cx.clock.timestamp_ms(cx.now);
        self.undo = (self.rtt.shift == 1 && self.rack.undoes_timeouts).then_some(Undo {
            cwnd: self.v.cwnd,
            ssthresh: self.v.ssthresh,
            timestamp,
        });
        self.rtt.back_off();
        self.v.rxtshift = self.rtt.shift;
        self.v.snd_wnd = s.wnd;
        self.v.pipe = self.pipe(s, s.una);
        self.v.bytes_acked = 0;
        self.v.fast_recovery = false;
        self.v.cong_recovery = false;
        self.spared = false;
        self.before = None;
        self.v.recover = s.max;
        self.prr_credit = 0;
        self.timers_from = self.now_us;
        self.unheld = true;
        self.cwr = s.ecn;
        if self.rack.timeout_loses_all {
            self.map.lose_all();
            self.lost_until = s.max;
        } else {
            // The stack reduces before the module does, which then reduces the one segment that is left.
            let segments = s.wnd.min(self.cwnd_used) / 2 / self.v.mss;
            self.v.ssthresh = segments.max(2) * self.v.mss;
            self.v.cwnd = self.v.mss;
            self.map.forget_sacks();
            self.resend = self.map.oldest();
        }
        self.cc.cong_signal(&mut self.v, Signal::Timeout);
    }

    /// Bytes in flight with what was sent again, where `una` is acknowledged.
    fn pipe(&self, s: &SendState, una: u64) -> u64 {
        (s.max - una + self.map.again).saturating_sub(self.map.sacked.covered())
    }

    /// Bytes in flight as the window counts them: retransmissions are not. After a timeout that lost everything only
    /// what was sent since.
    fn flight(&self, s: &SendState) -> u64 {
        let flight = (s.max - s.una).saturating_sub(self.map.sacked.covered());
        if s.una < self.lost_until { flight.saturating_sub(self.map.lost) } else { flight }
    }

    fn retransmit(&mut self, s: &mut SendState, index: usize, probe: bool, cx: &Context<'_>) -> Transmit {
        let entry = self.map.resend(index, self.now_us, probe);
        let length = entry.end - entry.start;
        if self.v.in_recovery() {
            self.prr_out += length;
        }
        s.retransmits += length.div_ceil(u64::from(s.payload));
        self.call_sent += length;
        let data_end = entry.end.min(s.end);
        if let Some(packets) = &mut self.packets {
            packets.on_sent(entry.start, data_end, cx.clock.timestamp_ms(cx.now));
        }
        Transmit {
            seq: entry.start,
            len: (data_end - entry.start) as u32,
            fin: entry.end > s.end,
            push: data_end == s.end,
            retransmission: true,
            cwr: false,
        }
    }

    /// A retransmission is all that this call of output sends.
    fn close_call(&mut self) {
        self.call = Call::Closed;
        let wait = match self.rack.retransmission_slot {
            true if mutant!(RackNeverWaits) => 0,
            true => SHORTEST_TIMER_US,
            false => self.output_wait(),
        };
        self.held_until = (wait > 0).then_some(self.now_us + wait);
    }

    fn send_new(&mut self, s: &mut SendState, len: u64, cx: &mut Context<'_>) -> Transmit {
        let seq = s.nxt;
        let data_end = seq + len;
        let stamp = cx.clock.timestamp_ms(cx.now);
        if let Some(packets) = &mut self.packets
            && len > 0
        {
            packets.on_sent(seq, data_end, stamp);
        }
        // A FIN leaves by itself, when all data is acknowledged.
        let fin = len == 0 && s.fin;
        let end = data_end + u64::from(fin);
        if s.max == s.una {
            self.timers_from = self.now_us;
        }
        // One entry a segment, however long the transmission.
        let mut start = seq;
        while start < end {
            let stop = (start + self.v.mss).min(end);
            let flight = (stop - s.una).saturating_sub(self.map.sacked.covered());
            self.map.push(start, stop, self.now_us, stamp, flight as u32);
            start = stop;
        }
        s.nxt = end;
        s.max = s.max.max(end);
        if self.v.in_recovery() {
            self.prr_out += len;
        }
        if self.v.fast_recovery {
            self.prr_credit = self.prr_credit.saturating_sub(len);
        }
        self.call_sent += len;
        self.leave_persist();
        Transmit {
            seq,
            len: len as u32,
            fin,
            push: data_end == s.end && len > 0,
            retransmission: false,
            cwr: len > 0 && std::mem::take(&mut self.cwr),
        }
    }

    fn restart_after_idle(&mut self, s: &SendState, cx: &Context<'_>) {
        let rto = self.rtt.rto_ns();
        let quiet = cx.now.saturating_sub(s.last_received) >= rto
            && (!self.t.idle_counts_sending || cx.now.saturating_sub(s.last_sent) >= rto);
        if quiet {
            self.cc.after_idle(&mut self.v);
            // The idle restart never goes below the initial window.
            self.v.cwnd = self.v.cwnd.max(self.t.initial_window.bytes(self.v.mss));
        }
    }

    /// The next transmission of the call of output at hand.
    fn output(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        self.cwnd_used = self.v.cwnd;
        if let Some(index) = self.resend.take() {
            let transmit = self.retransmit(s, index, false, cx);
            self.close_call();
            return Some(transmit);
        }
        if let Some(index) = self.lost_entry(s) {
            return self.send_lost(s, index, cx);
        }
        let probe = std::mem::replace(&mut self.probe, Probe::None);
        if let Probe::Old(index) = probe {
            self.probes += 1;
            let transmit = self.retransmit(s, index, true, cx);
            self.close_call();
            return Some(transmit);
        }
        let buffered = s.end.saturating_sub(s.una);
        let offset = s.nxt - s.una;
        let probing = std::mem::take(&mut self.window_probe);
        if probing && s.wnd == 0 && s.nxt < s.end {
            return Some(self.send_new(s, 1, cx));
        }
        if self.call_sent >= u64::from(self.rack.burst_segments) * self.v.mss && !mutant!(RackBurstsFreely) {
            return None;
        }
        let len = self.room(s, buffered.saturating_sub(offset), probe == Probe::New);
        // A fifth more, where the default stack adds net.inet.tcp.sendbuf_inc.
        let step = (s.sndbuf / 5).max(self.t.sendbuf_inc);
        autosize(&self.t, s, s.wnd.min(self.v.cwnd), buffered, step);
        if self.worth_sending(s, len, offset, buffered) || (probing && len > 0) {
            if probe == Probe::New {
                self.probes += 1;
            } else {
                self.probes = 0;
            }
            return Some(self.send_new(s, self.length(s, len), cx));
        }
        if s.fin && s.nxt == s.end && s.una == s.end {
            return Some(self.send_new(s, 0, cx));
        }
        if buffered > offset && offset == 0 && self.persist.is_none() {
            self.start_persist(cx);
        }
        None
    }

    /// Sends a lost segment: one a call, or after a timeout that lost everything as many as the window takes.
    fn send_lost(&mut self, s: &mut SendState, index: usize, cx: &mut Context<'_>) -> Option<Transmit> {
        if s.una < self.lost_until {
            let fits = self.flight(s) < self.v.cwnd;
            return fits.then(|| self.retransmit(s, index, false, cx));
        }
        if !self.v.in_recovery() {
            self.enter_recovery(s, index, cx);
        }
        let transmit = self.retransmit(s, index, false, cx);
        self.prr_credit = self.prr_credit.saturating_sub(u64::from(transmit.len));
        self.close_call();
        Some(transmit)
    }

    /// How much new data may leave, of `left` bytes that wait. A probe is not limited by the window.
    fn room(&mut self, s: &SendState, left: u64, probe: bool) -> u64 {
        let outstanding = s.max - s.una;
        let by_window = s.wnd.saturating_sub(outstanding);
        if self.v.fast_recovery {
            return self.prr_credit.min(by_window).min(left);
        }
        if probe {
            return self.v.mss.min(left).min(by_window);
        }
        let window = s.wnd.min(self.v.cwnd);
        window.saturating_sub(self.flight(s)).min(by_window).min(left)
    }

    /// Silly-window avoidance and Nagle's algorithm (RFC 9293 section 3.8.6.2.1, RFC 896).
    fn worth_sending(&self, s: &SendState, len: u64, offset: u64, buffered: u64) -> bool {
        if len == 0 || len >= self.v.mss {
            return len > 0;
        }
        let outstanding = s.max - s.una;
        let last = offset + len >= buffered && (outstanding == 0 || s.no_delay || s.fin);
        let last_fit = s.wnd.saturating_sub(outstanding) < self.v.mss && outstanding < 2 * self.v.mss;
        ((last || outstanding == 0) && !s.app_blocked)
            || (s.max_wnd > 0 && len >= s.max_wnd / 2)
            || (last_fit && outstanding > 0 && !self.v.fast_recovery)
    }

    /// How much of `room` one transmission takes.
    fn length(&self, s: &SendState, room: u64) -> u64 {
        if room <= self.v.mss {
            return room;
        }
        if !s.tso || !self.t.tso || self.cc.wants_packet_rtt() {
            return self.v.mss;
        }
        let left = (u64::from(self.rack.burst_segments) * self.v.mss).saturating_sub(self.call_sent);
        let most = room.min(u64::from(s.tso_max)).min(left.max(self.v.mss));
        most - most % self.v.mss
    }

    /// How long output waits after a call that sent `call_sent` bytes, us: whole milliseconds, three quarters of the
    /// time those bytes take at the rate of the largest window per shortest RTT.
    fn output_wait(&self) -> u64 {
        let rtt = if self.min_rtt > 0 { self.min_rtt } else { self.srtt_us().unwrap_or(1000) };
        let cwnd = if self.largest_cwnd > 0 { self.largest_cwnd } else { self.cwnd_used };
        let per_ms = cwnd * 1000 / rtt;
        let slot = self.call_sent / if per_ms > 0 { per_ms } else { self.v.mss };
        if mutant!(RackNeverWaits) { 0 } else { (slot - slot / 4) * 1000 }
    }

    /// What a tail loss probe will send: new data if a segment of it fits the peer's window, else the last segment again
    /// (RFC 8985 section 7.3).
    fn plan_probe(&mut self, s: &SendState, cx: &mut Context<'_>) {
        cx.events.push(EventKind::Tlp, s.offset(s.una), 0);
        self.unheld = true;
        let outstanding = s.max - s.una;
        let whole = s.end.saturating_sub(s.nxt) >= self.v.mss && outstanding + self.v.mss <= s.wnd;
        if whole {
            if self.v.fast_recovery {
                self.prr_credit = self.v.mss;
            }
            self.probe = Probe::New;
        } else if let Some(index) = self.map.highest() {
            self.probe = Probe::Old(index);
        }
    }

    /// What keeps the stack from sending more: what a window would admit may wait for the end of its own pause.
    fn limit(&self, s: &SendState) -> Limit {
        let limit = what_limits(s, &self.v, self.v.mss);
        let paused = self.held_until.is_some() && s.end.saturating_sub(s.nxt) >= self.v.mss;
        if paused && limit != Limit::Rwnd { Limit::Cwnd } else { limit }
    }

    /// The window is open again: what probing it backed off counts against no retransmission (rack_exit_persist).
    fn leave_persist(&mut self) {
        if self.persist.take().is_some() {
            self.rtt.shift = 0;
        }
    }

    fn start_persist(&mut self, cx: &Context<'_>) {
        let wait = self.rtt.persist();
        self.persist = Some(cx.now + u64::from(wait) * cx.clock.tick_ns());
    }
}

impl Sender for RackSender {
    fn on_established(
        &mut self,
        s: &mut SendState,
        rtt: Option<Nanos>,
        syn_retransmitted: bool,
        cx: &mut Context<'_>,
    ) {
        if self.rack.needs_sack && !s.sack {
            let mut default = Box::new(FreeBsdSender::new(self.t.clone(), &self.module.0, self.module.1));
            default.on_established(s, rtt, syn_retransmitted, cx);
            self.default = Some(default);
            return;
        }
        self.v.hz = cx.clock.hz();
        self.rtt = Rtt::new(cx.clock.hz(), self.t.rexmit_min_ms, self.t.rexmit_slop_ms);
        self.v.mss = u64::from(s.payload);
        self.v.maxseg = u64::from(s.mss);
        self.v.snd_scale = s.wscale;
        self.v.recover = s.una;
        s.sndbuf = s.sndbuf.next_multiple_of(self.v.mss);
        self.see_state(s, cx);
        if let Some(rtt) = rtt {
            // From the echoed timestamp: it shows nothing of the path in microseconds.
            let rtt = self.since(self.now_us.saturating_sub(rtt / MICROSECOND)).max(1);
            self.sample = Some(Sample { rtt, exact: rtt, trusted: false, flight: None });
            self.commit_sample();
            self.path = PathDelay::default();
        }
        self.v.cwnd = if syn_retransmitted { self.v.mss } else { self.t.initial_window.bytes(self.v.mss) };
        self.cwnd_used = self.v.cwnd;
        self.packets = self.cc.wants_packet_rtt().then(Box::default);
        self.cc.conn_init(&mut self.v);
    }

    fn on_ack(&mut self, s: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        if let Some(default) = &mut self.default {
            return default.on_ack(s, ack, cx);
        }
        self.see_state(s, cx);
        self.v.snd_wnd = s.wnd;
        self.v.curack = ack.ack;
        self.v.nsegs = u64::from(ack.frames);
        self.v.bytes_this_ack = ack.ack.saturating_sub(s.una);
        self.undo_timeout(s, ack, cx);
        if ack.ece && (!self.v.cong_recovery || ack.ack >= self.v.recover) {
            self.v.cong_recovery = false;
            self.v.recover = s.max + 1;
            self.cwr = true;
            self.cc.cong_signal(&mut self.v, Signal::Ecn);
            cx.events.push(EventKind::Reduction, s.offset(s.una), self.v.cwnd as i64);
        }
        let advances = ack.ack > s.una;
        if ack.ack == s.una && s.wnd == ack.previous_wnd && ack.payload == 0 && s.max > s.una {
            self.unheld |= self.map.strike() >= DUPLICATE_THRESHOLD;
        }
        let plain = advances && !self.v.in_recovery() && self.map.sacked.is_empty() && s.wnd > 0;
        let delivered = self.log_ack(s, ack, cx);
        // The RACK stack runs the helper that measures RTTs for congestion control on plain ACKs only: not in recovery,
        // which includes the round trip after a delay signal.
        if plain && let Some(packets) = &mut self.packets {
            let now = cx.clock.timestamp_ms(cx.now);
            packets.on_ack(ack.ack, self.v.bytes_this_ack, false, ack.tsecr, now, self.v.maxseg);
            self.v.delay_rtt = packets.rtt;
            self.v.new_measurement |= std::mem::take(&mut packets.new_measurement);
        }
        if delivered > 0 {
            self.timer = None;
        }
        let una = s.una.max(ack.ack);
        self.judge(s, una, delivered, cx);
        if s.wnd > 0 {
            self.leave_persist();
        }
        if advances {
            self.probes = 0;
            self.rtt.shift = 0;
            let ends = self.v.in_recovery() && (ack.ack >= self.v.recover || ack.ack >= s.max);
            if ends && self.rack.exits_before_growth {
                self.leave_recovery(s, ack.ack, cx);
            }
            if ack.ack >= self.round_ends && self.v.tuning.hystart.allowed {
                self.round += 1;
                self.round_ends = s.max;
                self.cc.new_round(&mut self.v, self.round);
            }
            self.ack_received();
            if ends && !self.rack.exits_before_growth {
                self.leave_recovery(s, ack.ack, cx);
            }
            s.una = una;
            s.nxt = s.nxt.max(una);
            self.v.recover = self.v.recover.max(una);
        }
        self.commit_sample();
    }

    fn on_timer(&mut self, s: &mut SendState, cx: &mut Context<'_>) {
        if let Some(default) = &mut self.default {
            return default.on_timer(s, cx);
        }
        self.see_state(s, cx);
        if self.wake.is_some_and(|at| at <= cx.now) {
            self.wake = None;
            self.unheld |= self.held_until.is_some();
            let due = self.timer.filter(|&(_, at)| self.seen(self.now_us) >= at);
            if let Some((timer, _)) = due {
                self.timer = None;
                // Everything may have been acknowledged since.
                if s.max > s.una {
                    self.expire(s, timer, cx);
                }
            }
        }
        if self.persist.is_some_and(|at| at <= cx.now) {
            self.start_persist(cx);
            self.window_probe = true;
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        if let Some(default) = &self.default {
            return default.next_timer();
        }
        earliest(self.wake, self.persist)
    }

    fn poll(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Poll {
        if let Some(default) = &mut self.default {
            return default.poll(s, cx);
        }
        if self.call == Call::None {
            self.now_us = cx.clock.micros(cx.now);
            if self.held_until.is_some_and(|at| self.now_us < at) && !self.unheld {
                self.arm(s, cx);
                return Poll::Wait(self.limit(s));
            }
            self.held_until = None;
            self.unheld = false;
            self.call = Call::Open;
            self.call_sent = 0;
            if s.max == s.una {
                self.see_state(s, cx);
                self.restart_after_idle(s, cx);
            }
        }
        let transmit = if self.call == Call::Open { self.output(s, cx) } else { None };
        if let Some(transmit) = transmit {
            self.last = Some(transmit);
            return Poll::Send(transmit);
        }
        if self.call == Call::Open {
            if self.call_sent > 0 {
                let wait = self.output_wait();
                self.held_until = (wait > 0).then_some(self.now_us + wait);
            } else {
                self.map.end_flight();
            }
        }
        self.call = Call::None;
        self.arm(s, cx);
        Poll::Wait(self.limit(s))
    }

    /// ENOBUFS: what was refused was never sent, and nothing is for 10 ms.
    fn on_tx_dropped(&mut self, s: &mut SendState, cx: &mut Context<'_>) {
        if let Some(default) = &mut self.default {
            return default.on_tx_dropped(s, cx);
        }
        let Some(refused) = self.last.take() else { return };
        let end = refused.seq + u64::from(refused.len) + u64::from(refused.fin);
        if !refused.retransmission && s.nxt == end && s.max == end {
            self.map.unsent(refused.seq);
            s.nxt = refused.seq;
            s.max = refused.seq;
        }
        self.now_us = cx.clock.micros(cx.now);
        self.held_until = Some(self.now_us + REFUSED_US);
        self.unheld = false;
        self.call = Call::Closed;
    }

    fn gave_up(&self) -> bool {
        self.default.as_ref().map_or(self.gave_up, |default| default.gave_up())
    }

    fn cwnd(&self, s: &SendState) -> u64 {
        self.default.as_ref().map_or(self.v.cwnd, |default| default.cwnd(s))
    }

    fn metrics(&self, s: &SendState) -> Metrics {
        if let Some(default) = &self.default {
            return default.metrics(s);
        }
        Metrics {
            rto: self.rto_us() * MICROSECOND,
            inflight: self.pipe(s, s.una),
            ..freebsd::metrics(s, &self.v, &self.rtt, self.lost_until, self.timeouts, self.recoveries)
        }
    }
}
