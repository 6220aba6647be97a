//! Linux's sender: tcp_input.c's ACK processing, tcp_output.c's transmission and tcp_timer.c's timeouts, in packets.
//!
//! One pipeline serves every era; [`crate::linux_config::Config`] chooses. What the eras do not share is apart: [`modern`] (RACK, since
//! 4.18 or so) and [`classic`] (FACK, 3.9) hold the order of operations and the recovery state machines.

mod classic;
mod modern;
mod output;
mod rack;
mod rate;
pub(crate) mod rtt;
mod scoreboard;
#[cfg(test)]
mod tests;
mod timers;

use std::any::Any;

use wire::RangeSet;

use self::rack::Rack;
use self::rtt::Estimator;
use self::scoreboard::{EVER_RETRANS, Id, LOST, NONE, Packet, RETRANS, SACKED, Scoreboard};
use self::timers::Timer;
use super::{Ack, Metrics, Poll, SendState, Sender};
use crate::cc::Phase;
use crate::cc::linux::{
    AckSample, CaState, CongestionControl, Core, CwndEvent, INFINITE_SSTHRESH, RateSample,
};
use crate::clock::{MILLISECOND, Nanos, SECOND, earliest};
use crate::context::Context;
use crate::event::EventKind;
use crate::linux_config::{Detection, Shared};
use crate::mutants::mutant;
use crate::windowed::Windowed;

/// The minimum RTT is that of the last five minutes (tcp_min_rtt_wlen).
const MIN_RTT_WINDOW_US: u64 = 300_000_000;

/// Memory of a packet without segmentation offload, bytes: a power of two for data and headers, and the metadata.
const TRUESIZE: u64 = 2304;

/// A Linux sender.
// Begins with a cache line: from the middle of one it would reach into one more.
#[repr(align(64))]
pub struct LinuxSender {
    config: Shared,
    core: Core,
    cc: Box<dyn CongestionControl>,
    board: Scoreboard,
    /// What the peer reported above `una`.
    sacked: RangeSet,
    /// Newly reported parts of the block at hand.
    fresh: Vec<(u64, u64)>,
    /// Highest packet ever SACKed.
    fack: Id,
    rtt: Estimator,
    min_rtt: Windowed,
    timer: Timer,
    /// Retransmission timeout in jiffies, without backoff.
    rto: u64,
    backoff: u32,
    /// Timeouts since the last progress (icsk_retransmits).
    retransmits: u32,
    probes: u32,
    /// Length of a jiffy.
    tick: Nanos,
    sack_ok: bool,

    /// SND.NXT when the present state was entered.
    high_seq: u64,
    undo_marker: Option<u64>,
    /// Retransmissions not yet reported as duplicates; below zero: none made.
    undo_retrans: i64,
    prior_ssthresh: u32,
    /// Timestamp of the first retransmission of the episode.
    retrans_stamp: Option<u32>,
    prr_delivered: u32,
    prr_out: u32,
    /// Degree of reordering, packets.
    reordering: u32,
    reord_seen: u32,
    rack: Rack,
    tlp: Option<Tlp>,
    /// RFC 5682's test is under way.
    frto: bool,
    classic: classic::State,

    /// End of the last segment shorter than the MSS (Minshall).
    small_end: u64,
    /// The window of data over which "limited by cwnd" is remembered ends here.
    usage_seq: u64,
    cwnd_used: u32,
    cwnd_stamp: u64,
    output: output::State,
    /// The next new data says that the window was reduced (RFC 3168).
    cwr_pending: bool,
    /// Send buffer in bytes of memory; None until known.
    sndbuf_memory: Option<u64>,
    timeouts: u64,
    recoveries: u64,
    failed: bool,
}

/// A tail loss probe under way.
#[derive(Clone, Copy, Debug)]
struct Tlp {
    high_seq: u64,
    /// It sent old data again.
    retransmission: bool,
}

/// What one ACK brought.
#[derive(Debug)]
struct Progress {
    /// End of the highest SACK before.
    prior_fack: u64,
    prior_packets: u32,
    prior_sacked: u32,
    /// SND.UNA moved.
    advanced: bool,
    /// Whole packets were cumulatively acknowledged.
    acked: bool,
    /// Packets were SACKed.
    sacked: bool,
    /// Data never retransmitted and sent before `high_seq` was delivered.
    original: bool,
    /// 3.9: every newly SACKed packet had never been retransmitted and lay below the F-RTO mark.
    only_original: bool,
    retransmission_acked: bool,
    /// 3.9: such a packet other than the head.
    later_retransmission_acked: bool,
    dsack: bool,
    /// The D-SACK answers the tail loss probe.
    dsack_tlp: bool,
    ece: bool,
    /// Not a duplicate ACK: data, a window update, or progress.
    not_dup: bool,
    lost_retransmission: bool,
    set_timer: bool,
    first_acked_sent: Nanos,
    last_acked_sent: Nanos,
    first_sacked_sent: Nanos,
    last_sacked_sent: Nanos,
    /// Lowest never-retransmitted data delivered out of order.
    reordered: u64,
    tsecr: Option<u32>,
    rate: RateSample,
    prior_delivered: u64,
    prior_lost: u64,
}

impl LinuxSender {
    /// A sender for one connection.
    pub fn new(config: &Shared, cc: Box<dyn CongestionControl>, random: u64) -> LinuxSender {
        LinuxSender {
            config: config.clone(),
            core: Core::new(random),
            cc,
            board: Scoreboard::new(),
            sacked: RangeSet::new(),
            fresh: Vec::new(),
            fack: 0,
            rtt: Estimator::new(0),
            min_rtt: Windowed::default(),
            timer: Timer::default(),
            rto: 0,
            backoff: 0,
            retransmits: 0,
            probes: 0,
            tick: MILLISECOND,
            sack_ok: false,
            high_seq: 0,
            undo_marker: None,
            undo_retrans: 0,
            prior_ssthresh: 0,
            retrans_stamp: None,
            prr_delivered: 0,
            prr_out: 0,
            reordering: config.reordering,
            reord_seen: 0,
            rack: Rack::default(),
            tlp: None,
            frto: false,
            classic: classic::State::new(config),
            small_end: 0,
            usage_seq: 0,
            cwnd_used: 0,
            cwnd_stamp: 0,
            output: output::State::default(),
            cwr_pending: false,
            sndbuf_memory: None,
            timeouts: 0,
            recoveries: 0,
            failed: false,
        }
    }

    #[inline]
    fn is_modern(&self) -> bool {
        self.config.detection == Detection::Rack
    }

    /// The estimator's unit: microseconds, or a jiffy in 3.9.
    #[inline]
    fn rtt_unit(&self) -> Nanos {
        if self.is_modern() { 1000 } else { self.tick }
    }

    fn cwnd_bytes(&self) -> i64 {
        i64::from(self.core.cwnd) * i64::from(self.core.mss)
    }

    /// One past the highest sequence number reported received.
    #[inline]
    fn fack_end(&self) -> u64 {
        self.sacked.last().map_or(self.core.una, |(_, end)| end)
    }

    /// Packets from the head up to the highest SACKed one (3.9's fackets_out).
    fn fackets_out(&self) -> u32 {
        if self.core.sacked_out == 0 || self.fack < self.board.head() {
            0
        } else {
            (self.fack - self.board.head() + 1) as u32
        }
    }

    fn set_state(&mut self, state: CaState) {
        self.cc.set_state(&mut self.core, state);
        self.core.state = state;
    }
}

/// ACK processing common to all eras.
impl LinuxSender {
    fn begin(&mut self, s: &SendState, ack: &Ack<'_>) -> Progress {
        Progress {
            prior_fack: self.fack_end(),
            prior_packets: self.core.packets_out,
            prior_sacked: self.core.sacked_out,
            advanced: ack.ack > s.una,
            acked: false,
            sacked: false,
            original: false,
            only_original: true,
            retransmission_acked: false,
            later_retransmission_acked: false,
            dsack: false,
            dsack_tlp: false,
            ece: ack.ece,
            not_dup: ack.payload > 0 || ack.fin || s.wnd != ack.previous_wnd,
            lost_retransmission: false,
            set_timer: false,
            first_acked_sent: 0,
            last_acked_sent: 0,
            first_sacked_sent: 0,
            last_sacked_sent: 0,
            reordered: u64::MAX,
            tsecr: ack.tsecr,
            rate: RateSample { prior_in_flight: self.core.in_flight(), ..RateSample::default() },
            prior_delivered: self.core.delivered,
            prior_lost: self.core.lost,
        }
    }

    /// Tags what the SACK blocks newly cover.
    fn tag_sacks(&mut self, ack: &Ack<'_>, p: &mut Progress) {
        if let Some((left, right)) = ack.dsack {
            self.take_dsack(left, right, p);
        }
        if self.board.is_empty() {
            return;
        }
        for &(left, right) in ack.sack {
            let left = left.max(self.core.una).max(ack.ack);
            let mut fresh = std::mem::take(&mut self.fresh);
            fresh.clear();
            self.sacked.insert(left, right, |start, end| fresh.push((start, end)));
            for &(start, end) in &fresh {
                self.tag_range(start, end, p);
            }
            self.fresh = fresh;
        }
    }

    fn tag_range(&mut self, start: u64, end: u64, p: &mut Progress) {
        let mut id = self.board.find(start);
        while id < self.board.tail() {
            let packet = self.board.get(id);
            let (seq, packet_end) = (packet.seq, packet.end());
            if seq >= end {
                break;
            }
            let whole = (start <= seq && packet_end <= end)
                || self.sacked.covered_within(seq, packet_end) == packet_end - seq;
            if whole && !self.board.get(id).has(SACKED) {
                self.sack_packet(id, p);
            }
            id += 1;
        }
    }

    fn sack_packet(&mut self, id: Id, p: &mut Progress) {
        let packet = *self.board.get(id);
        p.sacked = true;
        if !packet.has(RETRANS | EVER_RETRANS) {
            if packet.seq < p.prior_fack {
                p.reordered = p.reordered.min(packet.seq);
            }
            if packet.end() <= self.high_seq {
                p.original = true;
            }
            if p.first_sacked_sent == 0 {
                p.first_sacked_sent = packet.sent;
            }
            p.last_sacked_sent = packet.sent;
        }
        if packet.has(RETRANS | EVER_RETRANS) || packet.end() > self.classic.frto_highmark {
            p.only_original = false;
        }
        self.board.mark_sacked(&mut self.core, id);
        self.core.delivered += 1;
        self.fack = self.fack.max(id);
        if self.is_modern() {
            self.rack_advance(&packet);
            self.rate_delivered(&packet, p);
            self.delist(id);
            self.board.get_mut(id).tags |= scoreboard::RATED;
        } else if id < self.classic.lost_cursor {
            self.classic.sacked_below += 1;
        }
    }

    fn take_dsack(&mut self, left: u64, right: u64, p: &mut Progress) {
        p.dsack = true;
        if self.tlp.is_some_and(|tlp| tlp.retransmission && right == tlp.high_seq) {
            p.dsack_tlp = true;
        }
        self.rack.dsack_seen = true;
        if self.undo_marker.is_some_and(|marker| right > marker) && self.undo_retrans > 0 {
            let packets = (right - left).div_ceil(u64::from(self.core.mss.max(1))) as i64;
            self.undo_retrans = (self.undo_retrans - packets).max(0);
        }
    }

    /// Forgets what is cumulatively acknowledged. Returns how many packets that was.
    fn clean_queue(&mut self, s: &mut SendState, p: &mut Progress) -> u32 {
        let una = self.core.una;
        let head = self.board.head();
        let mut packets = 0;
        while let Some(&packet) = self.board.front() {
            if packet.end() > una {
                break;
            }
            packets += 1;
            if packet.has(RETRANS | EVER_RETRANS) {
                if packet.has(RETRANS) {
                    self.core.retrans_out -= 1;
                }
                p.retransmission_acked = true;
                if self.board.head() > head {
                    p.later_retransmission_acked = true;
                }
            } else if !packet.has(SACKED) {
                if p.first_acked_sent == 0 {
                    p.first_acked_sent = packet.sent;
                }
                p.last_acked_sent = packet.sent;
                p.reordered = p.reordered.min(packet.seq);
                if packet.end() <= self.high_seq {
                    p.original = true;
                }
            }
            if packet.has(SACKED) {
                self.core.sacked_out -= 1;
                if self.board.head() < self.classic.lost_cursor {
                    self.classic.sacked_below -= 1;
                }
            } else if self.sack_ok {
                self.core.delivered += 1;
                if self.is_modern() {
                    self.rack_advance(&packet);
                }
            }
            if packet.has(LOST) {
                self.core.lost_out -= 1;
            }
            if self.is_modern() {
                if !packet.has(scoreboard::RATED) {
                    self.rate_delivered(&packet, p);
                }
                self.delist(self.board.head());
            }
            self.core.packets_out -= 1;
            self.board.pop();
        }
        self.sacked.remove_below(una);
        if packets > 0 {
            p.acked = true;
            p.not_dup = true;
            p.set_timer = true;
            if !self.sack_ok {
                self.remove_reno_sacks(packets);
            }
        }
        debug_assert_eq!(self.board.is_empty(), s.outstanding() == 0 || una == s.max);
        packets
    }

    /// Round trips from the packets the ACK delivered: feeds the estimator, tells the congestion control.
    fn take_rtt(&mut self, p: &mut Progress, packets: u32, cx: &mut Context<'_>) {
        // Whole microseconds, or whole jiffies in 3.9.
        let (modern, tick, now_us, jiffies) =
            (self.is_modern(), self.tick, self.core.now_us(), self.core.jiffies);
        let since =
            |sent: Nanos| if modern { now_us.saturating_sub(sent / 1000) } else { jiffies - sent / tick };
        let unit = self.rtt_unit();
        let usable = p.first_acked_sent != 0 && !p.retransmission_acked;
        let mut rtt = usable.then(|| since(p.first_acked_sent));
        let mut newest = usable.then(|| since(p.last_acked_sent));
        let mut sack_rtt = None;
        if self.is_modern() {
            if p.first_sacked_sent != 0 {
                sack_rtt = Some(since(p.first_sacked_sent));
                newest = Some(since(p.last_sacked_sent));
            }
            rtt = rtt.or(sack_rtt);
        }
        // Timestamps: modern kernels where packets were retransmitted, 3.9 always.
        if let Some(tsecr) = p.tsecr
            && p.acked
            && (rtt.is_none() || !self.is_modern())
        {
            let ms = cx.clock.timestamp_ms(cx.now).wrapping_sub(tsecr);
            if ms < 120_000 {
                let measured = u64::from(ms) * MILLISECOND / unit;
                rtt = Some(measured);
                if self.is_modern() {
                    newest = Some(measured.max(1000));
                }
            }
        }
        let newest_us = newest.map(|rtt| if modern { rtt as u32 } else { (rtt * unit / 1000) as u32 });
        p.rate.rtt_us = newest_us;
        if let Some(rtt) = rtt {
            if let Some(us) = newest_us {
                self.update_min_rtt(us.max(1));
            }
            self.rtt.sample(rtt, self.core.una, self.core.nxt);
            self.backoff = 0;
            self.set_rto();
            if self.is_modern()
                && !p.acked
                && let (Some(sack_rtt), Some(head)) = (sack_rtt, self.board.front())
                && sack_rtt > since(head.sent)
            {
                p.set_timer = true;
            }
        }
        if packets > 0 || newest_us.is_some() {
            let before = self.core.ssthresh;
            let sample = AckSample { packets, rtt_us: newest_us };
            self.cc.pkts_acked(&mut self.core, &sample);
            if self.core.ssthresh != before {
                let at = self.core.una.saturating_sub(self.output.first_seq);
                cx.events.push(EventKind::SlowStartExit, at, self.cwnd_bytes());
            }
        }
    }

    fn update_min_rtt(&mut self, us: u32) {
        let now = self.core.now_us();
        let min = self.min_rtt.update(MIN_RTT_WINDOW_US, now, u64::from(us), |a, b| a <= b);
        self.core.min_rtt_us = min as u32;
    }

    fn set_rto(&mut self) {
        let timeout = self.rtt.timeout();
        if self.is_modern() {
            self.rto = self.us_to_jiffies(timeout);
            self.core.srtt_us = self.rtt.srtt();
        } else {
            self.rto = timeout;
            self.core.srtt_us = self.rtt.srtt() * self.tick / 1000;
        }
    }

    /// Rounded up.
    fn us_to_jiffies(&self, us: u64) -> u64 {
        (us * u64::from(self.core.hz)).div_ceil(1_000_000)
    }

    /// Data below the highest SACK that was never retransmitted has arrived: the path reorders.
    fn check_reordering(&mut self, p: &Progress) {
        if p.reordered >= p.prior_fack || !self.sack_ok {
            return;
        }
        let distance = self.fack_end().max(p.prior_fack) - p.reordered;
        let mss = u64::from(self.core.mss);
        if distance > u64::from(self.reordering) * mss {
            self.reordering = (distance.div_ceil(mss) as u32).min(self.config.max_reordering);
            self.classic.fack_enabled = false;
        }
        self.reord_seen += 1;
    }

    // Peers without SACK: duplicate ACKs stand for SACKed packets (RFC 6582).

    fn add_reno_sack(&mut self) {
        let holes = self.core.lost_out.max(1).min(self.core.packets_out);
        if self.core.sacked_out + holes < self.core.packets_out {
            self.core.sacked_out += 1;
            self.core.delivered += 1;
        } else {
            self.reordering = self.reordering.max(self.core.packets_out + 1).min(self.config.max_reordering);
        }
    }

    fn remove_reno_sacks(&mut self, acked: u32) {
        self.core.delivered += u64::from(acked.saturating_sub(self.core.sacked_out).max(1));
        self.core.sacked_out = self.core.sacked_out.saturating_sub(acked.saturating_sub(1));
        let holes = self.core.lost_out.max(1).min(self.core.packets_out);
        self.core.sacked_out =
            self.core.sacked_out.min(self.core.packets_out - holes.min(self.core.packets_out));
    }
}

/// Reductions, PRR and undo.
impl LinuxSender {
    fn init_cwnd_reduction(&mut self) {
        self.high_seq = self.core.nxt;
        self.tlp = None;
        self.core.cwnd_cnt = 0;
        self.core.prior_cwnd = self.core.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.core.ssthresh = self.cc.ssthresh(&mut self.core);
        self.cwr_pending = true;
    }

    /// Proportional rate reduction (RFC 6937): cwnd follows what is delivered. `fast` forces one transmission.
    fn reduce_cwnd(&mut self, delivered: u32, newly_lost: bool, advanced: bool, fast: bool) {
        let modern = self.is_modern();
        if modern && (delivered == 0 || self.core.prior_cwnd == 0) {
            return;
        }
        if mutant!(NoPrr) {
            self.core.cwnd = self.core.ssthresh;
            return;
        }
        let in_flight = self.core.in_flight();
        self.prr_delivered += delivered;
        let (done, out) = (i64::from(self.prr_delivered), i64::from(self.prr_out));
        let delta = i64::from(self.core.ssthresh) - i64::from(in_flight);
        let mut send = if delta < 0 {
            let prior = u64::from(self.core.prior_cwnd.max(1));
            let share = u64::from(self.core.ssthresh) * u64::from(self.prr_delivered);
            share.div_ceil(prior) as i64 - out
        } else if modern {
            let bound = (done - out).max(i64::from(delivered)) + i64::from(advanced && !newly_lost);
            bound.min(delta)
        } else {
            ((done - out).max(i64::from(delivered)) + 1).min(delta)
        };
        let force = if modern { self.prr_out == 0 } else { fast };
        send = send.max(i64::from(force));
        self.core.cwnd = (i64::from(in_flight) + send).max(0) as u32;
    }

    fn end_cwnd_reduction(&mut self) {
        if self.cc.owns_window() {
            return;
        }
        if self.core.ssthresh < INFINITE_SSTHRESH
            && (self.core.state == CaState::Cwr || self.undo_marker.is_some())
        {
            self.core.cwnd = self.core.ssthresh;
            self.cwnd_stamp = self.core.jiffies;
        }
        self.cc.cwnd_event(&mut self.core, CwndEvent::CompleteCwr);
    }

    /// One reduction per window without loss: ECN echo, local drop.
    fn enter_cwr(&mut self, s: &SendState, cx: &mut Context<'_>) {
        self.prior_ssthresh = 0;
        if self.core.state < CaState::Cwr {
            self.undo_marker = None;
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
            let value = i64::from(self.core.ssthresh) * i64::from(self.core.mss);
            cx.events.push(EventKind::Reduction, s.offset(self.core.una), value);
        }
    }

    fn init_undo(&mut self) {
        self.undo_marker = Some(self.core.una);
        self.undo_retrans = if self.core.retrans_out > 0 { i64::from(self.core.retrans_out) } else { -1 };
    }

    fn enter_recovery(&mut self, s: &SendState, ece: bool, cx: &mut Context<'_>) {
        cx.events.push(EventKind::RecoveryIn, s.offset(self.core.una), self.cwnd_bytes());
        self.recoveries += 1;
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.core.in_cwnd_reduction() {
            if !ece {
                self.prior_ssthresh = self.core.current_ssthresh();
            }
            self.init_cwnd_reduction();
        } else {
            self.high_seq = self.core.nxt;
        }
        self.set_state(CaState::Recovery);
    }

    fn may_undo(&self, p: &Progress) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.original_arrived(p))
    }

    /// The echoed timestamp is older than the first retransmission: the original had arrived (Eifel, RFC 3522).
    fn original_arrived(&self, p: &Progress) -> bool {
        match (self.retrans_stamp, p.tsecr) {
            (Some(stamp), Some(tsecr)) => !mutant!(NoTimestampUndo) && wire::seq::before(tsecr, stamp),
            // Without a retransmission there is nothing that could have been spurious.
            (None, _) => true,
            _ => false,
        }
    }

    fn undo_cwnd(&mut self, s: &SendState, unmark_loss: bool, cx: &mut Context<'_>) {
        if unmark_loss {
            for id in self.board.head()..self.board.tail() {
                self.board.unmark_lost(&mut self.core, id);
            }
            self.board.clear_lost();
        }
        if self.prior_ssthresh > 0 {
            self.core.cwnd = self.cc.undo_cwnd(&mut self.core);
            if self.prior_ssthresh > self.core.ssthresh {
                self.core.ssthresh = self.prior_ssthresh;
                self.cwr_pending = false;
            }
            cx.events.push(EventKind::Undo, s.offset(self.core.una), self.cwnd_bytes());
        }
        self.cwnd_stamp = self.core.jiffies;
        self.undo_marker = None;
        self.rack.advanced = true;
    }

    /// Everything outstanding when Recovery or Loss began has arrived: Open again, unless a peer without SACK could
    /// still send duplicate ACKs for it. True: hold.
    fn try_undo_recovery(&mut self, s: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        if self.may_undo(p) {
            self.undo_cwnd(s, false, cx);
        } else {
            self.rack.persist = self.rack.persist.saturating_sub(1);
        }
        if self.core.retrans_out == 0 {
            self.retrans_stamp = None;
        }
        if self.core.una == self.high_seq && !self.sack_ok {
            if !self.is_modern() {
                self.moderate_cwnd();
            }
            return true;
        }
        self.set_state(CaState::Open);
        false
    }

    /// Leaves Recovery with cwnd at ssthresh, unless it was undone.
    fn leave_recovery(&mut self, s: &SendState, p: &Progress, cx: &mut Context<'_>) -> bool {
        if self.try_undo_recovery(s, p, cx) {
            return true;
        }
        self.end_cwnd_reduction();
        cx.events.push(EventKind::RecoveryOut, s.offset(self.core.una), self.cwnd_bytes());
        false
    }

    /// All retransmissions of the episode were reported as duplicates: none was needed.
    fn try_undo_dsack(&mut self, s: &SendState, cx: &mut Context<'_>) -> bool {
        if self.undo_marker.is_none() || self.undo_retrans != 0 {
            return false;
        }
        self.rack.persist = self.rack.persist.saturating_add(1).min(16);
        self.undo_cwnd(s, false, cx);
        true
    }

    /// Open or Disorder, whichever fits.
    fn keep_open(&mut self) {
        let state = if self.core.left_out() > 0 || self.core.retrans_out > 0 {
            CaState::Disorder
        } else {
            CaState::Open
        };
        if self.core.state != state {
            self.set_state(state);
            self.high_seq = self.core.nxt;
        }
    }

    /// Everything unSACKed is lost; used by timeouts. `keep` spares a packet.
    fn mark_all_lost(&mut self, keep: impl Fn(&Packet) -> bool) {
        let head = self.board.head();
        for id in head..self.board.tail() {
            let packet = self.board.get(id);
            if packet.has(SACKED) || (id != head && keep(packet)) {
                continue;
            }
            self.delist(id);
            self.board.mark_lost(&mut self.core, id);
        }
    }
}

impl Sender for LinuxSender {
    fn prefetch_targets(&self) -> [Option<&dyn Any>; 3] {
        let ends = [self.board.oldest(), self.board.coming()];
        let [oldest, coming] = ends.map(|packets| packets.map(|packets| packets as &dyn Any));
        [oldest, coming, Some(&*self.cc)]
    }

    fn on_established(
        &mut self,
        s: &mut SendState,
        rtt: Option<Nanos>,
        syn_retransmitted: bool,
        cx: &mut Context<'_>,
    ) {
        self.core.set_time(cx.clock, cx.now);
        self.core.hz = cx.clock.hz();
        self.tick = cx.clock.tick_ns();
        self.rtt = Estimator::new(self.config.rto_min_us * 1000 / self.rtt_unit());
        self.core.mss = s.payload;
        self.core.gso = s.tso;
        self.sack_ok = s.sack;
        self.core.una = s.una;
        self.core.nxt = s.nxt;
        self.output.first_seq = s.iss + 1;
        self.high_seq = s.una;
        self.usage_seq = s.una;
        self.small_end = s.una;
        self.core.delivered = 1;
        self.core.delivered_mstamp = self.core.now_us();
        self.core.first_tx_mstamp = self.core.now_us();
        self.core.last_sent_jiffies = self.core.jiffies;
        self.cwnd_stamp = self.core.jiffies;
        self.classic.fack_enabled = self.config.fack && s.sack;
        self.rto = if syn_retransmitted { 3 } else { 1 } * u64::from(self.core.hz);
        if let Some(rtt) = rtt {
            let unit = self.rtt_unit();
            let local = self.core.now;
            let measured = local / unit - (local - rtt.min(local)) / unit;
            self.rtt.sample(measured.max(1), s.una, s.nxt);
            self.update_min_rtt((measured * unit / 1000).max(1) as u32);
            self.set_rto();
        }
        self.cc.init(&mut self.core);
        self.init_sndbuf(s);
    }

    fn on_ack(&mut self, s: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        self.core.una = s.una;
        self.core.nxt = s.max;
        match self.config.detection {
            Detection::Rack => self.on_ack_modern(s, ack, cx),
            Detection::Fack => self.on_ack_classic(s, ack, cx),
        }
    }

    fn on_timer(&mut self, s: &mut SendState, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        self.core.una = s.una;
        self.core.nxt = s.max;
        self.run_timers(s, cx);
    }

    fn next_timer(&self) -> Option<Nanos> {
        earliest(self.timer.at(), self.output.paced_until)
    }

    fn poll(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Poll {
        self.core.set_time(cx.clock, cx.now);
        self.core.una = s.una;
        self.core.nxt = s.max;
        self.poll_output(s, cx)
    }

    fn on_tx_complete(&mut self, _s: &mut SendState, bytes: u32, _cx: &mut Context<'_>) {
        self.output.in_host = self.output.in_host.saturating_sub(u64::from(bytes));
    }

    fn on_tx_dropped(&mut self, s: &mut SendState, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        self.core.una = s.una;
        self.core.nxt = s.max;
        self.enter_cwr(s, cx);
    }

    fn space(&self, s: &SendState) -> u64 {
        self.buffer_space(s)
    }

    fn send_buffer(&self, s: &SendState) -> u64 {
        self.sndbuf_memory.unwrap_or(s.sndbuf)
    }

    fn writable(&self, s: &SendState) -> bool {
        self.wakes_writer(s)
    }

    fn cwnd(&self, _s: &SendState) -> u64 {
        u64::from(self.core.cwnd) * u64::from(self.core.mss)
    }

    fn gave_up(&self) -> bool {
        self.failed
    }

    fn metrics(&self, _s: &SendState) -> Metrics {
        let mss = u64::from(self.core.mss);
        let unit = self.rtt_unit();
        let known = self.rtt.srtt8() != 0;
        Metrics {
            cwnd: u64::from(self.core.cwnd) * mss,
            ssthresh: (self.core.ssthresh < INFINITE_SSTHRESH).then(|| u64::from(self.core.ssthresh) * mss),
            srtt: known.then(|| (self.rtt.srtt8() * unit) >> 3),
            rttvar: known.then(|| self.rtt.deviation() * unit),
            rto: (self.rto << self.backoff.min(16)).min(self.rto_max()) * self.tick,
            inflight: u64::from(self.core.in_flight()) * mss,
            pacing_bps: self.core.pacing.then_some(self.core.pacing_rate * 8),
            phase: match self.core.state {
                CaState::Cwr => Phase::Cwr,
                CaState::Recovery => Phase::Recovery,
                CaState::Loss => Phase::Loss,
                CaState::Disorder => Phase::Disorder,
                CaState::Open if self.core.in_slow_start() => Phase::SlowStart,
                CaState::Open => Phase::Avoidance,
            },
            timeouts: self.timeouts,
            recoveries: self.recoveries,
        }
    }
}

/// Nanoseconds of `bytes` at `rate` bytes per second.
fn time_at(bytes: u64, rate: u64) -> Nanos {
    bytes * SECOND / rate
}
