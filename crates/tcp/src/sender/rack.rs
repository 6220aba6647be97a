//! FreeBSD's RACK stack (tcp_rack(4)): time-based loss detection (RFC 8985), tail loss probes, one retransmission per
//! output, cwnd untouched during recovery.
//!
//! Every transmission is an entry in the order of the stream, and a place in the order of sending. The entry sent
//! longest ago is lost once something sent after it was SACKed and a reordering time has passed; the same holds for
//! retransmissions.

use std::collections::VecDeque;

use wire::RangeSet;

use super::freebsd::packet_rtt::PacketRtt;
use super::freebsd::rtt::{MAX_SHIFT, Rtt};
use super::freebsd::tuning::Tuning;
use super::{Ack, Context, Limit, Metrics, Phase, Poll, SendState, Sender, Transmit};
use crate::cc::freebsd::{self as cc, AckKind, CcVar, CongestionControl, SSTHRESH_INFINITE, Signal};
use crate::clock::{MILLISECOND, Nanos};
use crate::event::EventKind;

/// Duplicate ACKs that count as evidence of loss like a SACK (RFC 5681 section 3.2).
const DUPLICATE_THRESHOLD: u32 = 3;
/// Probes per episode.
const MOST_PROBES: u32 = 2;
/// Shortest probe timeout, ms.
const SHORTEST_PROBE_MS: u64 = 10;
/// Added for the receiver's delayed ACK when one segment is outstanding, ms.
const DELAYED_ACK_MS: u64 = 40;
/// Segments after recovery's end that unused PRR credit may add to the window.
const CREDIT_SEGMENTS: u64 = 2;

/// What distinguishes the RACK stacks of two releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RackTuning {
    /// The reordering time is the smoothed RTT and 2 ms (13), else the last RTT and a quarter (15).
    pub threshold_adds_2ms: bool,
    /// A retransmission holds back other output for 1 ms (13).
    pub retransmission_slot: bool,
    /// PRR's product of bytes delivered and ssthresh is kept in 32 bits and wraps (13), which stops new data until the
    /// pipe is down to ssthresh.
    pub prr_wraps: bool,
    /// Bytes counted per ACK in congestion avoidance are capped at L segments (15).
    pub abc_capped: bool,
    /// Segments of one output call.
    pub burst_segments: u32,
    /// Wait after a full burst, ms.
    pub burst_wait_ms: u64,
    /// Largest retransmission timeout, ms.
    pub rto_max_ms: u64,
}

/// One transmission of a segment that is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    /// True time it was last sent.
    at: Nanos,
    /// Place in the order of sending.
    order: u64,
    sacked: bool,
    /// Times it was sent.
    count: u32,
    /// Its last transmission is taken for lost.
    lost: bool,
}

/// The sender of one connection.
pub struct RackSender {
    t: Tuning,
    rack: RackTuning,
    cc: Box<dyn CongestionControl>,
    v: CcVar,
    rtt: Rtt,
    /// Unacknowledged transmissions, in the order of the stream.
    entries: VecDeque<Entry>,
    /// Entries acknowledged and gone: the number of the first in `entries`.
    gone: u64,
    /// Numbers of entries in the order of sending, with the order they had; stale ones are dropped when met.
    sent: VecDeque<(u64, u64)>,
    next_order: u64,
    sacked: RangeSet,
    /// The latest in the order of sending that was SACKed.
    passed: u64,
    /// Bytes sent again and not cumulatively acknowledged.
    again: u64,
    /// Bytes taken for lost and not sent again yet.
    lost: u64,
    dupacks: u32,
    /// RTT of the last sample, ns.
    last_rtt: Nanos,
    prr_delivered: u64,
    prr_out: u64,
    prr_credit: u64,
    recover_fs: u64,
    /// Nothing leaves before this.
    held_until: Nanos,
    burst: u32,
    rexmt: Option<Nanos>,
    probe_at: Option<Nanos>,
    probes: u32,
    probe_due: bool,
    /// When the oldest transmission can be judged.
    judge_at: Option<Nanos>,
    persist: Option<Nanos>,
    window_probe: bool,
    /// A retransmission may leave (one per ACK or timer).
    retransmission_due: bool,
    /// RTTs of single packets, where the congestion control wants them.
    packets: Option<Box<PacketRtt>>,
    cwr: bool,
    undo: Option<Undo>,
    lost_until: u64,
    limit: Limit,
    timeouts: u64,
    recoveries: u64,
    gave_up: bool,
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
    /// If the release has no such congestion control; [`crate::profile::Profile::sender`] is called with checked names.
    pub fn new(tuning: Tuning, rack: RackTuning, name: &str, random: u64) -> RackSender {
        let cc = cc::by_name(name, tuning.cubic, &tuning.cdg, random).expect("a checked name");
        RackSender {
            v: CcVar::new(tuning.cc),
            rtt: Rtt::new(1000, tuning.rexmit_min_ms, tuning.rexmit_slop_ms),
            t: tuning,
            rack,
            cc,
            entries: VecDeque::new(),
            gone: 0,
            sent: VecDeque::new(),
            next_order: 1,
            sacked: RangeSet::new(),
            passed: 0,
            again: 0,
            lost: 0,
            dupacks: 0,
            last_rtt: 0,
            prr_delivered: 0,
            prr_out: 0,
            prr_credit: 0,
            recover_fs: 1,
            held_until: 0,
            burst: 0,
            rexmt: None,
            probe_at: None,
            probes: 0,
            probe_due: false,
            judge_at: None,
            persist: None,
            window_probe: false,
            retransmission_due: false,
            packets: None,
            cwr: false,
            undo: None,
            lost_until: 0,
            limit: Limit::App,
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
    }

    fn ack_received(&mut self, kind: AckKind) {
        if kind == AckKind::New {
            let cap = self.v.nsegs * self.t.cc.abc_l_var * self.v.mss;
            self.v.count_ack(self.rack.abc_capped.then_some(cap));
        } else {
            self.v.cwnd_limited = self.v.cwnd <= self.v.snd_wnd;
        }
        self.cc.ack_received(&mut self.v, kind);
    }

    /// Bytes in flight: SACKed ones are not, those sent again count twice.
    fn pipe(&self, s: &SendState) -> u64 {
        (s.max - s.una + self.again).saturating_sub(self.sacked.covered())
    }

    /// How long after its transmission something passed is lost.
    fn threshold(&self) -> Nanos {
        let srtt = self.rtt.srtt_ns().unwrap_or(100 * MILLISECOND);
        if self.rack.threshold_adds_2ms {
            return srtt / MILLISECOND * MILLISECOND + 2 * MILLISECOND;
        }
        let rtt = if self.last_rtt > 0 { self.last_rtt } else { srtt };
        (rtt + rtt / 4).max(rtt + MILLISECOND).min(2 * rtt)
    }

    /// The transmission longest ago that is neither acknowledged nor SACKed.
    fn oldest(&mut self) -> Option<usize> {
        while let Some(&(number, order)) = self.sent.front() {
            if number >= self.gone {
                let index = (number - self.gone) as usize;
                let entry = &self.entries[index];
                if entry.order == order && !entry.sacked {
                    return Some(index);
                }
            }
            self.sent.pop_front();
        }
        None
    }

    /// The next entry to send again, if it is lost by now; else notes when it will be.
    fn lost_entry(&mut self, now: Nanos) -> Option<usize> {
        self.judge_at = None;
        let index = self.oldest()?;
        let entry = self.entries[index];
        if entry.lost {
            return Some(index);
        }
        if entry.order >= self.passed && self.dupacks < DUPLICATE_THRESHOLD {
            return None;
        }
        let due = entry.at + self.threshold();
        if now >= due {
            self.entries[index].lost = true;
            self.lost += entry.end - entry.start;
            return Some(index);
        }
        self.judge_at = Some(due.max(now + MILLISECOND));
        None
    }

    /// Takes in SACK blocks; returns newly SACKed bytes.
    fn take_sack(&mut self, blocks: &[(u64, u64)], now: Nanos) -> u64 {
        let mut fresh = 0;
        let (entries, passed, lost) = (&mut self.entries, &mut self.passed, &mut self.lost);
        let mut newest: Option<Entry> = None;
        for &(start, end) in blocks {
            fresh += self.sacked.insert(start, end, |from, to| {
                let first = entries.partition_point(|entry| entry.end <= from);
                for entry in entries.iter_mut().skip(first) {
                    if entry.start >= to {
                        break;
                    }
                    if entry.start >= from && entry.end <= to && !entry.sacked {
                        entry.sacked = true;
                        if std::mem::take(&mut entry.lost) {
                            *lost -= entry.end - entry.start;
                        }
                        *passed = (*passed).max(entry.order);
                        if newest.is_none_or(|newest| newest.order < entry.order) {
                            newest = Some(*entry);
                        }
                    }
                }
            });
        }
        if let Some(entry) = newest.filter(|entry| entry.count == 1) {
            self.sample(now - entry.at, now);
        }
        fresh
    }

    /// Removes what `ack` covers; returns bytes it newly delivers.
    fn take_ack(&mut self, ack: u64, una: u64, now: Nanos) -> u64 {
        let sacked = self.sacked.covered_within(una, ack);
        let mut newest: Option<Entry> = None;
        while let Some(&entry) = self.entries.front() {
            let done = entry.end <= ack;
            if !done && entry.start >= ack {
                break;
            }
            let length = entry.end.min(ack) - entry.start;
            if entry.count > 1 {
                self.again = self.again.saturating_sub(length);
            }
            if entry.lost {
                self.lost -= length;
            }
            if !done {
                self.entries[0].start = ack;
                break;
            }
            if !entry.sacked && newest.is_none_or(|newest| newest.order < entry.order) {
                newest = Some(entry);
            }
            self.entries.pop_front();
            self.gone += 1;
        }
        self.sacked.remove_below(ack);
        if let Some(entry) = newest.filter(|entry| entry.count == 1) {
            self.sample(now - entry.at, now);
        }
        ack - una - sacked
    }

    fn sample(&mut self, rtt: Nanos, _now: Nanos) {
        self.last_rtt = rtt;
        let ticks = rtt * u64::from(self.v.hz) / 1_000_000_000;
        self.rtt.sample(ticks as u32 + 1);
        self.v.srtt = self.rtt.srtt as u32;
        self.v.rtt_updates = self.rtt.updates;
        self.v.rxtshift = 0;
    }

    fn enter_recovery(&mut self, s: &SendState, cx: &mut Context<'_>) {
        self.recoveries += 1;
        cx.events.push(EventKind::RecoveryIn, s.offset(s.una), self.v.cwnd as i64);
        self.v.recover = s.max;
        self.cwr |= s.ecn;
        // The window stays as it was; only ssthresh is taken.
        let cwnd = self.v.cwnd;
        self.cc.cong_signal(&mut self.v, Signal::DuplicateAcks);
        self.v.cwnd = cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.prr_credit = self.v.mss;
        self.recover_fs = (s.max - s.una).max(1);
    }

    /// Proportional rate reduction for new data (RFC 6937 section 3).
    fn update_prr(&mut self, s: &SendState, delivered: u64) {
        self.prr_delivered += delivered;
        let (pipe, ssthresh) = (self.pipe(s), self.v.ssthresh);
        self.prr_credit = if pipe > ssthresh {
            let product = self.prr_delivered * ssthresh;
            let product = if self.rack.prr_wraps { u64::from(product as u32) } else { product };
            (product / self.recover_fs + 1).saturating_sub(self.prr_out)
        } else {
            let limit = self.prr_delivered.saturating_sub(self.prr_out).max(delivered) + self.v.mss;
            (ssthresh - pipe).min(limit)
        };
    }

    fn leave_recovery(&mut self, s: &SendState, ack: u64, cx: &mut Context<'_>) {
        self.v.pipe = s.max - ack;
        self.cc.post_recovery(&mut self.v);
        self.v.fast_recovery = false;
        self.v.cong_recovery = false;
        // RFC 6582 section 3.2 step 3, option 2, and the credit that was not used.
        let credit = self.prr_credit.min(CREDIT_SEGMENTS * self.v.maxseg);
        self.v.cwnd = self.v.cwnd.max(self.v.ssthresh) + credit;
        self.prr_credit = 0;
        cx.events.push(EventKind::RecoveryOut, s.offset(ack), self.v.cwnd as i64);
    }

    fn start_timers(&mut self, s: &SendState, cx: &Context<'_>) {
        if s.max == s.una {
            self.rexmt = None;
            self.probe_at = None;
            return;
        }
        let rto = self.rtt.rto_ns().min(self.rack.rto_max_ms * MILLISECOND);
        self.rexmt = Some(cx.now + rto);
        let srtt = self.rtt.srtt_ns().unwrap_or(0).max(self.last_rtt);
        self.probe_at = if self.probes < MOST_PROBES && !self.v.fast_recovery && srtt > 0 && s.sack {
            let mut wait = (2 * srtt).max(SHORTEST_PROBE_MS * MILLISECOND);
            if s.max - s.una <= self.v.mss {
                wait = wait.max(srtt + srtt / 2 + DELAYED_ACK_MS * MILLISECOND);
            }
            (wait < rto).then_some(cx.now + wait)
        } else {
            None
        };
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
        self.undo =
            (self.rtt.shift == 1).then_some(Undo { cwnd: self.v.cwnd, ssthresh: self.v.ssthresh, timestamp });
        self.rtt.back_off();
        self.v.rxtshift = self.rtt.shift;
        self.v.snd_wnd = s.wnd;
        self.v.pipe = self.pipe(s);
        self.v.bytes_acked = 0;
        self.v.fast_recovery = false;
        self.v.cong_recovery = false;
        self.v.recover = s.max;
        self.lost_until = s.max;
        self.dupacks = 0;
        self.see_state(s, cx);
        self.cc.cong_signal(&mut self.v, Signal::Timeout);
        self.lost = 0;
        // They go again in the order of the stream, whatever was sent when: a timeout each would else find another one first.
        self.sent.clear();
        for (index, entry) in self.entries.iter_mut().enumerate().filter(|(_, entry)| !entry.sacked) {
            entry.lost = true;
            self.lost += entry.end - entry.start;
            entry.order = self.next_order;
            self.next_order += 1;
            self.sent.push_back((self.gone + index as u64, entry.order));
        }
        self.again = 0;
        self.cwr = s.ecn;
        self.retransmission_due = true;
        self.start_timers(s, cx);
    }

    /// Bytes in flight as the window counts them; after a timeout only what was sent since.
    fn flight(&self, s: &SendState) -> u64 {
        if s.una < self.lost_until { self.pipe(s).saturating_sub(self.lost) } else { self.pipe(s) }
    }

    fn retransmit(&mut self, s: &mut SendState, index: usize, cx: &mut Context<'_>) -> Transmit {
        let order = self.next_order;
        self.next_order += 1;
        let entry = &mut self.entries[index];
        entry.at = cx.now;
        entry.order = order;
        entry.count += 1;
        let was_lost = std::mem::take(&mut entry.lost);
        let entry = *entry;
        let length = entry.end - entry.start;
        if was_lost {
            self.lost -= length;
        }
        if entry.count == 2 {
            self.again += length;
        }
        self.sent.push_back((self.gone + index as u64, order));
        self.prr_out += length;
        self.prr_credit = self.prr_credit.saturating_sub(length);
        s.retransmits += 1;
        self.retransmission_due = false;
        if self.rack.retransmission_slot && self.v.fast_recovery {
            self.held_until = cx.now + MILLISECOND;
        }
        self.start_timers(s, cx);
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

    fn send_new(&mut self, s: &mut SendState, len: u64, cx: &mut Context<'_>) -> Transmit {
        let seq = s.nxt;
        let data_end = seq + len;
        if let Some(packets) = &mut self.packets
            && len > 0
        {
            packets.on_sent(seq, data_end, cx.clock.timestamp_ms(cx.now));
        }
        let fin = s.fin && data_end == s.end;
        let end = data_end + u64::from(fin);
        // One entry a segment, however long the transmission.
        let mut start = seq;
        while start < end {
            let stop = if end - start > self.v.mss + u64::from(fin) { start + self.v.mss } else { end };
            let order = self.next_order;
            self.next_order += 1;
            self.sent.push_back((self.gone + self.entries.len() as u64, order));
            self.entries.push_back(Entry {
                start,
                end: stop,
                at: cx.now,
                order,
                sacked: false,
                count: 1,
                lost: false,
            });
            start = stop;
        }
        s.nxt = end;
        s.max = s.max.max(end);
        if self.v.fast_recovery {
            self.prr_out += len;
            self.prr_credit = self.prr_credit.saturating_sub(len);
        }
        self.burst += len.div_ceil(self.v.mss) as u32;
        if self.persist.take().is_some() {
            self.rtt.shift = 0;
        }
        self.start_timers(s, cx);
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
            self.see_state(s, cx);
            self.cc.after_idle(&mut self.v);
            // The idle restart never goes below the initial window.
            self.v.cwnd = self.v.cwnd.max(self.t.initial_window.bytes(self.v.mss));
        }
    }

    fn output(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        if s.max == s.una {
            self.restart_after_idle(s, cx);
        }
        if cx.now < self.held_until {
            return None;
        }
        if self.retransmission_due
            && let Some(index) = self.lost_entry(cx.now)
        {
            let in_loss = s.una < self.lost_until;
            if !in_loss || self.flight(s) < self.v.cwnd {
                let transmit = self.retransmit(s, index, cx);
                // After a timeout the window alone limits.
                self.retransmission_due = in_loss;
                return Some(transmit);
            }
            return None;
        }
        if std::mem::take(&mut self.probe_due) {
            return self.tail_probe(s, cx);
        }
        if s.una < self.lost_until && self.lost > 0 {
            return None;
        }
        let buffered = s.end.saturating_sub(s.una);
        let offset = s.nxt - s.una;
        self.autosize(s, buffered);
        let probing = std::mem::take(&mut self.window_probe);
        if probing && s.wnd == 0 && s.nxt < s.end {
            return Some(self.send_new(s, 1, cx));
        }
        if self.burst >= self.rack.burst_segments {
            self.burst = 0;
            self.held_until = cx.now + self.rack.burst_wait_ms * MILLISECOND;
            return None;
        }
        let flight = self.flight(s);
        let by_window = s.wnd.saturating_sub(offset);
        let by_cwnd = if self.v.fast_recovery { self.prr_credit } else { self.v.cwnd.saturating_sub(flight) };
        let room = buffered.saturating_sub(offset).min(by_window).min(by_cwnd);
        let whole = room >= self.v.mss;
        let last = room > 0 && s.nxt + room == s.end && (offset == 0 || s.fin) && !s.app_blocked;
        let half = room > 0 && s.max_wnd > 0 && room >= s.max_wnd / 2;
        let bare_fin = s.fin && s.nxt == s.end;
        if whole || last || half || bare_fin || (probing && room > 0) {
            return Some(self.send_new(s, self.length(s, room), cx));
        }
        if buffered > offset && offset == 0 && self.persist.is_none() {
            self.start_persist(cx);
        }
        None
    }

    /// How much of `room` one transmission takes.
    fn length(&self, s: &SendState, room: u64) -> u64 {
        if room <= self.v.mss {
            return room;
        }
        if !s.tso || !self.t.tso || self.cc.wants_packet_rtt() {
            return self.v.mss;
        }
        let left = u64::from(self.rack.burst_segments.saturating_sub(self.burst).max(1));
        let most = room.min(u64::from(s.tso_max)).min(left * self.v.mss);
        most - most % self.v.mss
    }

    /// New data if there is any and the window takes it, else the last segment again (RFC 8985 section 7.3).
    fn tail_probe(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Option<Transmit> {
        cx.events.push(EventKind::Tlp, s.offset(s.una), 0);
        self.probes += 1;
        let unsent = s.end.saturating_sub(s.nxt);
        let open = s.wnd.saturating_sub(s.nxt - s.una);
        if unsent > 0 && open > 0 {
            return Some(self.send_new(s, unsent.min(open).min(self.v.mss), cx));
        }
        let last = self.entries.iter().rposition(|entry| !entry.sacked)?;
        Some(self.retransmit(s, last, cx))
    }

    fn autosize(&self, s: &mut SendState, buffered: u64) {
        let window = s.wnd.min(self.v.cwnd);
        if s.sndbuf_auto
            && s.wnd / 4 * 5 >= s.sndbuf
            && buffered >= s.sndbuf / 8 * 7
            && buffered < self.t.sendbuf_max
            && window >= buffered.saturating_sub(s.nxt - s.una)
        {
            // A fifth more, where the default stack adds net.inet.tcp.sendbuf_inc.
            s.sndbuf = (s.sndbuf + (s.sndbuf / 5).max(self.t.sendbuf_inc)).min(self.t.sendbuf_max);
        }
    }

    fn start_persist(&mut self, cx: &Context<'_>) {
        let wait = self.rtt.persist();
        self.persist = Some(cx.now + u64::from(wait) * cx.clock.tick_ns());
    }

    fn what_limits(&self, s: &SendState) -> Limit {
        if s.nxt >= s.end {
            if s.app_blocked { Limit::SendBuffer } else { Limit::App }
        } else if self.v.cwnd <= s.wnd || self.v.fast_recovery {
            Limit::Cwnd
        } else {
            Limit::Rwnd
        }
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
        self.v.hz = cx.clock.hz();
        self.rtt = Rtt::new(cx.clock.hz(), self.t.rexmit_min_ms, self.t.rexmit_slop_ms);
        self.v.mss = u64::from(s.payload);
        self.v.maxseg = u64::from(s.mss);
        self.v.snd_scale = s.wscale;
        self.v.recover = s.una;
        s.sndbuf = s.sndbuf.next_multiple_of(self.v.mss);
        if let Some(rtt) = rtt {
            self.sample(rtt, cx.now);
        }
        self.v.cwnd = if syn_retransmitted { self.v.mss } else { self.t.initial_window.bytes(self.v.mss) };
        self.see_state(s, cx);
        self.packets = self.cc.wants_packet_rtt().then(Box::default);
        self.cc.conn_init(&mut self.v);
    }

    fn on_ack(&mut self, s: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        self.see_state(s, cx);
        self.burst = 0;
        self.v.snd_wnd = s.wnd;
        self.v.curack = ack.ack;
        self.v.nsegs = u64::from(ack.frames);
        self.v.bytes_this_ack = ack.ack.saturating_sub(s.una);
        if let (Some(undo), Some(echo)) = (self.undo, ack.tsecr)
            && self.rtt.shift == 1
            && echo != 0
            && wire::seq::before(echo, undo.timestamp)
        {
            self.undo = None;
            self.v.cwnd = undo.cwnd;
            self.v.ssthresh = undo.ssthresh;
            self.lost_until = 0;
            self.lost = 0;
            for entry in &mut self.entries {
                entry.lost = false;
            }
            self.cc.cong_signal(&mut self.v, Signal::TimeoutUndone);
            cx.events.push(EventKind::Undo, s.offset(s.una), self.v.cwnd as i64);
        }
        if ack.ece && (!self.v.cong_recovery || ack.ack >= self.v.recover) {
            self.v.cong_recovery = false;
            self.v.recover = s.max + 1;
            self.cwr = true;
            self.cc.cong_signal(&mut self.v, Signal::Ecn);
            cx.events.push(EventKind::Reduction, s.offset(s.una), self.v.cwnd as i64);
        }
        let advances = ack.ack > s.una;
        let mut delivered = if s.sack { self.take_sack(ack.sack, cx.now) } else { 0 };
        if let Some(packets) = &mut self.packets
            && (advances || delivered > 0)
        {
            let up_to = if advances { ack.ack } else { self.sacked.last().map_or(ack.ack, |last| last.1) };
            let now = cx.clock.timestamp_ms(cx.now);
            packets.on_ack(up_to, self.v.bytes_this_ack, ack.ack <= s.una, ack.tsecr, now, self.v.maxseg);
            self.v.delay_rtt = packets.rtt;
            self.v.new_measurement |= std::mem::take(&mut packets.new_measurement);
        }
        if advances {
            delivered += self.take_ack(ack.ack, s.una, cx.now);
            self.dupacks = 0;
            self.probes = 0;
            self.rtt.shift = 0;
        } else if !s.sack
            && ack.ack == s.una
            && ack.payload == 0
            && s.max > s.una
            && s.wnd == ack.previous_wnd
        {
            self.dupacks += 1;
        }
        if s.wnd > 0 {
            self.persist = None;
        }
        let was_in_recovery = self.v.fast_recovery;
        if advances {
            self.ack_received(AckKind::New);
        }
        s.una = s.una.max(ack.ack);
        s.nxt = s.nxt.max(s.una);
        if was_in_recovery {
            self.update_prr(s, delivered);
        }
        if advances {
            if self.v.in_recovery() && ack.ack >= self.v.recover {
                if self.v.fast_recovery {
                    self.leave_recovery(s, ack.ack, cx);
                }
                self.v.cong_recovery = false;
            }
            if s.una > self.v.recover {
                self.v.recover = s.una;
            }
            self.start_timers(s, cx);
        }
        let lost = self.lost_entry(cx.now).is_some();
        if lost && !self.v.fast_recovery && s.una >= self.lost_until {
            self.enter_recovery(s, cx);
        }
        self.retransmission_due = self.v.fast_recovery || s.una < self.lost_until;
    }

    fn on_timer(&mut self, s: &mut SendState, cx: &mut Context<'_>) {
        self.see_state(s, cx);
        let now = cx.now;
        let due = |at: Option<Nanos>| at.is_some_and(|at| at <= now);
        if self.judge_at.is_some_and(|at| at <= cx.now) {
            let lost = self.lost_entry(cx.now).is_some();
            if lost && !self.v.fast_recovery && s.una >= self.lost_until {
                self.enter_recovery(s, cx);
            }
            self.retransmission_due |= lost;
        }
        if self.held_until != 0 && self.held_until <= cx.now {
            self.held_until = 0;
            self.burst = 0;
            self.retransmission_due |= self.v.fast_recovery;
        }
        if due(self.probe_at) {
            self.probe_at = None;
            self.probe_due = true;
        }
        if due(self.rexmt) {
            self.rexmt = None;
            self.on_timeout(s, cx);
        }
        if due(self.persist) {
            self.start_persist(cx);
            self.window_probe = true;
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        let held = (self.held_until > 0).then_some(self.held_until);
        [self.rexmt, self.probe_at, self.judge_at, self.persist, held].into_iter().flatten().min()
    }

    fn poll(&mut self, s: &mut SendState, cx: &mut Context<'_>) -> Poll {
        match self.output(s, cx) {
            Some(transmit) => Poll::Send(transmit),
            None => {
                self.limit = self.what_limits(s);
                Poll::Wait(self.limit)
            }
        }
    }

    /// ENOBUFS: one segment of window; what was refused is treated as lost.
    fn on_tx_dropped(&mut self, s: &mut SendState, cx: &mut Context<'_>) {
        self.v.cwnd = self.v.mss;
        if let Some(last) = self.entries.back_mut()
            && !last.lost
        {
            last.lost = true;
            self.lost += last.end - last.start;
        }
        cx.events.push(EventKind::Reduction, s.offset(s.una), self.v.cwnd as i64);
    }

    fn gave_up(&self) -> bool {
        self.gave_up
    }

    fn metrics(&self, s: &SendState) -> Metrics {
        let phase = if self.v.fast_recovery {
            Phase::Recovery
        } else if s.una < self.lost_until {
            Phase::Loss
        } else if self.v.cong_recovery {
            Phase::Cwr
        } else if self.v.cwnd <= self.v.ssthresh {
            Phase::SlowStart
        } else {
            Phase::Avoidance
        };
        Metrics {
            cwnd: self.v.cwnd,
            ssthresh: (self.v.ssthresh != SSTHRESH_INFINITE).then_some(self.v.ssthresh),
            srtt: self.rtt.srtt_ns(),
            rttvar: self.rtt.rttvar_ns(),
            rto: self.rtt.rto_ns(),
            inflight: self.pipe(s),
            pacing_bps: None,
            phase,
            timeouts: self.timeouts,
            recoveries: self.recoveries,
        }
    }
}
