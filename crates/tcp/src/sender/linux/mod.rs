//! Linux's sender: tcp_input.c's ACK processing, tcp_output.c's transmission and tcp_timer.c's timeouts, in packets.
//!
//! One pipeline serves every era; [`crate::linux_config::Config`] chooses. What the eras do not share is apart: [`modern`] (RACK, since
//! 4.18 or so) and [`classic`] (FACK, 3.9) hold the order of operations and the recovery state machines.

mod ack;
mod burst;
mod classic;
mod flight;
mod modern;
mod output;
mod path_mtu;
mod peers;
mod rack;
mod rate;
mod recovery;
pub(crate) mod rtt;
mod scoreboard;
mod send_buffer;
#[cfg(test)]
mod tests;
mod timer;
mod timers;
mod user_timeout;
mod write_queue;

use std::any::Any;

use wire::RangeSet;

use self::rack::Rack;
use self::rtt::Estimator;
use self::scoreboard::{Id, Scoreboard};
use self::timer::Timer;
use self::user_timeout::UserTimeout;
use super::{Ack, Metrics, Opening, Poll, SegmentCounts, SendState, Sender};
use crate::cc::Phase;
use crate::cc::linux::{CaState, CongestionControl, Core, CwndEvent, INFINITE_SSTHRESH, Receiving};
use crate::clock::{MILLISECOND, Nanos, SECOND, earliest};
use crate::context::{Context, EcnAnswer, EcnSegment};
use crate::linux_config::{Detection, Shared};
use crate::peers::Lesson;
use crate::windowed::Windowed;

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
    /// Sequence numbers above `una` that the peer reported.
    sacked: RangeSet,
    /// Newly reported parts of the block at hand.
    newly_sacked: Vec<(u64, u64)>,
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
    /// Packets that D-SACKs reported, so far.
    dsack_dups: u64,
    /// How often the SYN or SYN-ACK was sent again, which the kernel counts among its retransmissions.
    syn_repeats: u32,
    /// The peer has thrown away what it had SACKed; not recovered from yet.
    reneged: bool,
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
    /// Unsent payload from which on a writer waits, bytes.
    notsent_lowat: u64,
    user_timeout: Option<Box<UserTimeout>>,
    timeouts: u64,
    recoveries: u64,
    failed: bool,
    /// Congestion control looks at the loss of flights.
    hears_losses: bool,
    /// Search for the path's MTU.
    search: path_mtu::Search,
}

/// A tail loss probe under way.
#[derive(Clone, Copy, Debug)]
struct Tlp {
    high_seq: u64,
    /// It sent old data again.
    retransmission: bool,
}

impl LinuxSender {
    /// A sender for one connection.
    pub fn new(config: &Shared, cc: Box<dyn CongestionControl>, random: u64) -> LinuxSender {
        LinuxSender {
            config: config.clone(),
            core: Core::new(random),
            hears_losses: cc.hears_losses(),
            cc,
            board: Scoreboard::new(),
            sacked: RangeSet::new(),
            newly_sacked: Vec::new(),
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
            dsack_dups: 0,
            syn_repeats: 0,
            reneged: false,
            frto: false,
            classic: classic::State::new(config),
            small_end: 0,
            usage_seq: 0,
            cwnd_used: 0,
            cwnd_stamp: 0,
            output: output::State::default(),
            cwr_pending: false,
            sndbuf_memory: None,
            notsent_lowat: config.notsent_lowat,
            user_timeout: None,
            timeouts: 0,
            recoveries: 0,
            failed: false,
            search: path_mtu::Search::default(),
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

    /// Reports what the congestion control has told of itself.
    #[inline]
    fn report_told(&mut self, snd: &SendState, cx: &mut Context<'_>) {
        if !self.core.told.is_empty() {
            let at = snd.offset(self.core.una);
            self.core.told.drain(..).for_each(|(kind, value)| cx.events.push(kind, at, value));
        }
    }
}

/// ACK processing common to all eras.
impl LinuxSender {}

impl Sender for LinuxSender {
    fn prefetch_targets(&self) -> [Option<&dyn Any>; 3] {
        let ends = [self.board.oldest(), self.board.next_slots()];
        let [oldest, coming] = ends.map(|packets| packets.map(|packets| packets as &dyn Any));
        [oldest, coming, Some(&*self.cc)]
    }

    fn on_established(&mut self, snd: &mut SendState, opening: Opening, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        self.core.hz = cx.clock.hz();
        self.tick = cx.clock.tick_ns();
        self.rtt = Estimator::new(self.config.rto_min_us * 1000 / self.rtt_unit());
        self.begin_search(snd, opening.passive);
        self.core.gso = snd.tso;
        self.core.ecn = snd.ecn;
        self.core.delivered_ce = snd.accecn.as_ref().map_or(0, |accecn| u64::from(accecn.delivered_ce()));
        self.core.receiving.nxt = opening.rcv_nxt;
        self.sack_ok = snd.sack;
        self.core.una = snd.una;
        self.core.nxt = snd.nxt;
        self.output.first_seq = snd.iss + 1;
        self.high_seq = snd.una;
        self.usage_seq = snd.una;
        self.small_end = snd.una;
        self.output.pushed = snd.una;
        self.core.delivered = 1;
        self.core.delivered_mstamp = self.core.now_us();
        self.core.first_tx_mstamp = self.core.now_us();
        self.core.last_sent_jiffies = self.core.jiffies;
        self.cwnd_stamp = self.core.jiffies;
        self.classic.fack_enabled = self.config.fack && snd.sack;
        // Without a round trip the longer one (tcp_init_metrics).
        self.rto = if opening.rtt.is_none() { 3 } else { 1 } * u64::from(self.core.hz);
        self.core.rto = self.rto;
        self.syn_repeats = opening.repeats;
        // RFC 5681 section 3.1, for the second repeat on (tcp_init_transfer), unless it was needless (5.2).
        if opening.repeats > 1 && !(self.is_modern() && opening.original_answered) {
            self.core.cwnd = 1;
        }
        if let Some(rtt) = opening.rtt {
            let unit = self.rtt_unit();
            let local = self.core.now;
            let measured = local / unit - (local - rtt.min(local)) / unit;
            self.rtt.sample(measured.max(1), snd.una, snd.nxt);
            self.update_min_rtt((measured * unit / 1000).max(1) as u32);
            self.set_rto();
        }
        self.begin_with(&opening.known, snd.nxt);
        self.cc.init(&mut self.core);
        self.init_sndbuf(snd);
        if snd.una < snd.max {
            self.resend_carried(snd);
        }
    }

    fn on_ack(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        snd.cork.more = false;
        self.core.una = snd.una;
        self.core.nxt = snd.max;
        self.core.peer_window = snd.wnd;
        self.core.unsent = snd.unsent();
        self.core.data_segments_out = ack.data_segments_out;
        self.core.timestamps = ack.tsecr.map(|tsecr| (ack.tsval, tsecr));
        self.output.host_has_queue |= self.output.in_host > 0;
        match self.config.detection {
            Detection::Rack => self.on_ack_modern(snd, ack, cx),
            Detection::Fack => self.on_ack_classic(snd, ack, cx),
        }
    }

    fn on_path_mtu(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.restart_below_path_mtu(snd, cx);
    }

    fn on_timer(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        self.core.una = snd.una;
        self.core.nxt = snd.max;
        self.output.host_has_queue |= self.output.in_host > 0;
        self.rate_check_silence(snd);
        self.run_timers(snd, cx);
    }

    fn next_timer(&self) -> Option<Nanos> {
        earliest(self.timer.at(), self.output.paced_until)
    }

    fn poll(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Poll {
        self.core.set_time(cx.clock, cx.now);
        self.core.una = snd.una;
        self.core.nxt = snd.max;
        let poll = self.poll_output(snd, cx);
        if self.config.paced_by_queue {
            snd.departure = cx.now + self.output.burst.departure.saturating_sub(self.core.now);
        }
        poll
    }

    fn on_tx_complete(&mut self, _s: &mut SendState, bytes: u32, _cx: &mut Context<'_>) {
        self.output.in_host = self.output.in_host.saturating_sub(u64::from(bytes));
    }

    fn on_tx_dropped(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        self.core.una = snd.una;
        self.core.nxt = snd.max;
        self.enter_cwr(snd, cx);
    }

    fn on_ecn_segment(&mut self, segment: &EcnSegment, cx: &mut Context<'_>) -> EcnAnswer {
        let answer = EcnAnswer { ack_now: false, echoes_ce: segment.echoed, first: None };
        if segment.payload == 0 || !segment.capable || !self.cc.hears_ecn() {
            return answer;
        }
        self.core.set_time(cx.clock, cx.now);
        self.core.receiving = Receiving { nxt: segment.next, delays_ack: segment.delayed_ack, answer };
        let event = if segment.ce { CwndEvent::EcnIsCe } else { CwndEvent::EcnNoCe };
        self.cc.cwnd_event(&mut self.core, event);
        self.core.receiving.answer
    }

    fn needs_ecn(&self) -> bool {
        self.cc.needs_ecn()
    }

    fn is_l4s(&self) -> bool {
        self.cc.is_l4s()
    }

    fn sends_ect1(&self) -> bool {
        self.cc.sends_ect1()
    }

    fn hears_ecn(&self) -> bool {
        self.cc.hears_ecn()
    }

    fn lesson(&self, _s: &SendState) -> Option<Lesson> {
        Some(self.learnt())
    }

    fn on_closed(&mut self) {
        // As long as there was no connection, nothing was begun.
        if self.core.mss > 0 {
            self.cc.release(&mut self.core);
        }
    }

    #[inline]
    fn on_write_begin(&mut self, snd: &SendState) {
        if snd.end == self.output.call_ended && snd.end != self.output.written_at_wait {
            self.part_calls(snd);
        }
    }

    fn on_write_end(&mut self, snd: &SendState) {
        self.output.pushed = snd.end;
        self.output.call_ended = snd.end;
    }

    fn end_record(&mut self, snd: &SendState) {
        self.take_in(snd, self.tso_segments(snd));
        self.output.write_queue.end_record();
    }

    fn set_notsent_lowat(&mut self, bytes: u32) {
        self.notsent_lowat = if bytes == 0 { self.config.notsent_lowat } else { u64::from(bytes) };
    }

    fn set_user_timeout(&mut self, limit: Nanos) {
        self.user_timeout = UserTimeout::new(limit);
    }

    fn space(&self, snd: &SendState, wanted: u64) -> u64 {
        self.buffer_space(snd, wanted)
    }

    fn send_buffer(&self, snd: &SendState) -> u64 {
        self.sndbuf_memory.unwrap_or(snd.sndbuf)
    }

    fn writable(&self, snd: &SendState) -> bool {
        self.wakes_writer(snd)
    }

    fn cwnd(&self, _s: &SendState) -> u64 {
        u64::from(self.core.cwnd) * u64::from(self.core.mss)
    }

    fn gave_up(&self) -> bool {
        self.failed
    }

    fn segment_counts(&self) -> Option<SegmentCounts> {
        let core = &self.core;
        Some(SegmentCounts {
            out: core.packets_out,
            sacked: core.sacked_out,
            lost: core.lost_out,
            retransmitted: core.retrans_out,
            delivered: core.delivered,
            delivered_ce: core.delivered_ce,
            reordering: self.reordering,
            backoff: self.backoff,
        })
    }

    fn set_send_buffer(&mut self, snd: &mut SendState, bytes: u64) {
        snd.sndbuf_auto = false;
        // Before the connection is open the limit waits for the size of a segment.
        if self.sndbuf_memory.is_some() {
            self.set_sndbuf(bytes, snd);
        } else {
            snd.sndbuf = bytes;
        }
    }

    fn srtt(&self, _s: &SendState) -> Option<Nanos> {
        (self.rtt.srtt8() != 0).then(|| (self.rtt.srtt8() * self.rtt_unit()) >> 3)
    }

    fn metrics(&self, s: &SendState) -> Metrics {
        let mss = u64::from(self.core.mss);
        let unit = self.rtt_unit();
        let known = self.rtt.srtt8() != 0;
        self.cc.get_info(&self.core);
        Metrics {
            cwnd: u64::from(self.core.cwnd) * mss,
            ssthresh: (self.core.ssthresh < INFINITE_SSTHRESH).then(|| u64::from(self.core.ssthresh) * mss),
            srtt: self.srtt(s),
            rttvar: known.then(|| self.rtt.deviation() * unit),
            rto: (self.rto << self.backoff.min(16)).min(self.rto_max()) * self.tick,
            inflight: u64::from(self.core.in_flight()) * mss,
            pacing_bps: self.paces().then(|| self.pacing_rate() * 8),
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
