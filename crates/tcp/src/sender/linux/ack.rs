//! Handling of an ACK that all eras share: SACK blocks, what is acknowledged, round trips, reordering.

use super::LinuxSender;
use super::scoreboard::{self, EVER_RETRANS, Id, LOST, RETRANS, SACKED};
use crate::accecn::Delivery;
use crate::cc::linux::{AckEvent, AckSample, CaState, CwndEvent, RateSample};
use crate::clock::{MILLISECOND, Nanos};
use crate::context::Context;
use crate::event::EventKind;
use crate::sender::{Ack, SendState};

/// The minimum RTT is that of the last five minutes (tcp_min_rtt_wlen).
const MIN_RTT_WINDOW_US: u64 = 300_000_000;

/// Packets of one buffer, one behind the other, that one ACK reports by SACK.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackRun {
    pub(super) next: Id,
    /// Number of packets that were in flight by the buffer, where the run is added to what was reported before it.
    pub(super) joined: Option<u32>,
}

/// Changes that one ACK brought.
#[derive(Debug)]
pub(super) struct Progress {
    /// SND.UNA before.
    pub(super) prior_una: u64,
    /// End of the highest SACK before.
    pub(super) prior_fack: u64,
    pub(super) prior_packets: u32,
    pub(super) prior_sacked: u32,
    /// SND.UNA moved.
    pub(super) advanced: bool,
    /// Whole packets were cumulatively acknowledged.
    pub(super) acked: bool,
    /// Packets were SACKed.
    pub(super) sacked: bool,
    /// Data never retransmitted and sent before `high_seq` was delivered.
    pub(super) original: bool,
    /// 3.9: every newly SACKed packet had never been retransmitted and lay below the F-RTO mark.
    pub(super) only_original: bool,
    pub(super) retransmission_acked: bool,
    /// 3.9: such a packet other than the head.
    pub(super) later_retransmission_acked: bool,
    /// A D-SACK came that a retransmission explains.
    pub(super) dsack: bool,
    /// A D-SACK answers the tail loss probe.
    pub(super) dsack_tlp: bool,
    pub(super) ece: bool,
    /// Accurate ECN tells more than the same number.
    pub(super) accurate_news: bool,
    /// Bytes of packets that were SACKed.
    pub(super) sacked_bytes: u64,
    /// The new head of the queue was SACKed: the peer has thrown it away.
    pub(super) reneging: bool,
    /// It had done so before this ACK.
    pub(super) had_reneged: bool,
    /// Not a duplicate ACK: data, a window update, or progress.
    pub(super) not_dup: bool,
    pub(super) lost_retransmission: bool,
    pub(super) set_timer: bool,
    pub(super) first_acked_sent: Nanos,
    pub(super) last_acked_sent: Nanos,
    pub(super) first_sacked_sent: Nanos,
    pub(super) last_sacked_sent: Nanos,
    /// Lowest never-retransmitted data delivered out of order.
    pub(super) reordered: u64,
    pub(super) tsecr: Option<u32>,
    pub(super) rate: RateSample,
    pub(super) prior_delivered: u64,
    pub(super) prior_lost: u64,
    pub(super) sack_run: SackRun,
}

impl LinuxSender {
    pub(super) fn begin_ack(&mut self, snd: &SendState, ack: &Ack<'_>) -> Progress {
        self.core.prior_in_flight = self.core.in_flight();
        Progress {
            prior_una: snd.una,
            prior_fack: self.fack_end(),
            prior_packets: self.core.packets_out,
            prior_sacked: self.core.sacked_out,
            advanced: ack.ack > snd.una,
            acked: false,
            sacked: false,
            original: false,
            only_original: true,
            retransmission_acked: false,
            later_retransmission_acked: false,
            dsack: false,
            dsack_tlp: false,
            ece: ack.ece(),
            accurate_news: false,
            sacked_bytes: 0,
            reneging: false,
            had_reneged: self.reneged,
            not_dup: ack.payload > 0 || ack.fin || snd.wnd != ack.previous_wnd,
            lost_retransmission: false,
            set_timer: false,
            first_acked_sent: 0,
            last_acked_sent: 0,
            first_sacked_sent: 0,
            last_sacked_sent: 0,
            reordered: u64::MAX,
            tsecr: ack.tsecr,
            rate: RateSample { prior_in_flight: self.core.prior_in_flight, ..RateSample::default() },
            prior_delivered: self.core.delivered,
            prior_lost: self.core.lost,
            sack_run: SackRun::default(),
        }
    }

    /// Tells the congestion control of the ACK: in an event of its own since 4.7, as a notice before.
    pub(super) fn tell_in_ack(&mut self, snd: &SendState, ack: &Ack<'_>, p: &Progress) {
        let window_same = snd.wnd == ack.previous_wnd;
        let blocks = !ack.sack.is_empty() || ack.dsack.is_some();
        let plain = p.advanced && window_same && !blocks && ack.payload == 0 && !ack.fin;
        let fast = plain && !p.ece && !p.accurate_news;
        if !self.is_modern() {
            let event = if fast { CwndEvent::FastAck } else { CwndEvent::SlowAck };
            return self.cc.cwnd_event(&mut self.core, event);
        }
        let slow = AckEvent::SLOWPATH.0 * u32::from(!fast);
        let update = AckEvent::WIN_UPDATE.0 * u32::from(fast || !window_same);
        let ece = AckEvent::ECE.0 * u32::from(p.ece);
        self.cc.in_ack_event(&mut self.core, AckEvent(slow | update | ece));
    }

    /// Tags what the SACK blocks newly cover.
    #[inline]
    pub(super) fn tag_sacks(&mut self, snd: &SendState, ack: &Ack<'_>, p: &mut Progress) {
        if !ack.sack.is_empty() || ack.dsack.is_some() {
            self.tag_blocks(snd, ack, p);
        }
    }

    fn tag_blocks(&mut self, snd: &SendState, ack: &Ack<'_>, p: &mut Progress) {
        let dsack = ack.dsack.filter(|&range| self.believes_dsack(snd, range, p));
        p.dsack = dsack.is_some();
        if self.board.is_empty() {
            return;
        }
        if let Some((left, right)) = dsack {
            self.tag_duplicates(left, right, p);
        }
        for &(left, right) in ack.sack {
            let left = left.max(self.core.una).max(ack.ack);
            let mut ranges = std::mem::take(&mut self.newly_sacked);
            ranges.clear();
            self.sacked.insert(left, right, |start, end| ranges.push((start, end)));
            for &(start, end) in &ranges {
                self.tag_range(start, end, p);
            }
            self.newly_sacked = ranges;
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
        p.sacked_bytes += u64::from(packet.len);
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
        let in_flight = if self.hears_losses { self.sacked_flight(id, &packet, p) } else { None };
        self.board.mark_sacked(&mut self.core, id);
        self.core.count_delivered(1, p.ece);
        self.fack = self.fack.max(id);
        if self.is_modern() {
            self.rack_advance(&packet);
            self.rate_delivered(id, &packet, in_flight, p);
            self.remove_from_send_order(id);
            self.board.get_mut(id).tags |= scoreboard::RATED;
        }
        if id < self.classic.lost_cursor {
            self.classic.sacked_below += 1;
        }
    }

    /// Whether a D-SACK tells of retransmissions, and what it tells then (tcp_check_dsack, tcp_dsack_seen). Once more
    /// packets were reported twice than were sent twice, it is the network that duplicates.
    fn believes_dsack(&mut self, snd: &SendState, (left, right): (u64, u64), p: &mut Progress) -> bool {
        let mut packets = 1;
        if self.is_modern() {
            if right - left > snd.max_wnd {
                return false;
            }
            packets = (right - left).div_ceil(u64::from(self.core.mss)).max(1);
            p.dsack_tlp = packets == 1 && self.tlp.is_some_and(|tlp| right == tlp.high_seq);
            self.dsack_dups += packets;
            if self.dsack_dups > snd.retransmits + u64::from(self.syn_repeats) {
                return false;
            }
            // A timer sent the probe, not RACK; and without reordering no window was too short for it.
            self.rack.dsack_seen |= self.reord_seen > 0 && !p.dsack_tlp;
            self.core.count_delivered(packets as u32, p.ece);
        }
        if right <= p.prior_una && self.undo_marker.is_some_and(|marker| right > marker) {
            self.undo_retrans -= (packets as i64).min(self.undo_retrans.max(0));
        }
        true
    }

    /// Tags what a D-SACK covers of the packets that were outstanding until now (tcp_sacktag_one): a retransmission less to
    /// be explained, and none in flight any more; where the packet was SACKed before, the original came late.
    fn tag_duplicates(&mut self, left: u64, right: u64, p: &mut Progress) {
        let una = self.core.una;
        // Below SND.UNA nothing is looked at without an episode that it could undo (tcp_is_sackblock_valid).
        if right <= p.prior_una || (left <= una && self.undo_marker.is_none()) {
            return;
        }
        let mut id = self.board.find(left);
        while id < self.board.tail() {
            let packet = *self.board.get(id);
            if packet.end() > right {
                break;
            }
            if left <= packet.seq && packet.has(RETRANS | EVER_RETRANS) {
                if self.undo_marker.is_some_and(|marker| packet.end() > marker) {
                    self.undo_retrans -= self.undo_retrans.clamp(0, 1);
                }
                if packet.has(SACKED) {
                    p.reordered = p.reordered.min(packet.seq);
                }
                if packet.end() > una && packet.has(RETRANS) && !packet.has(LOST) {
                    self.board.get_mut(id).tags &= !RETRANS;
                    self.core.retrans_out -= 1;
                }
            }
            id += 1;
        }
    }

    /// Forgets what is cumulatively acknowledged. Returns how many packets that was.
    #[inline]
    pub(super) fn clean_rtx_queue(&mut self, snd: &mut SendState, p: &mut Progress) -> u32 {
        let una = self.core.una;
        let head = self.board.head();
        let plain = self.sack_ok && self.is_modern() && !snd.no_fast_path;
        let mut packets = if plain { self.clean_plain(p) } else { 0 };
        if self.board.front().is_some_and(|packet| packet.end() <= una) {
            packets += self.clean_one_by_one(head, p);
        }
        self.sacked.remove_below(una);
        p.reneging = self.board.front().is_some_and(|head| head.has(SACKED));
        if packets > 0 {
            p.acked = true;
            p.not_dup = true;
            p.set_timer = true;
            if !self.sack_ok {
                self.remove_reno_sacks(packets, p.ece);
            }
        }
        debug_assert_eq!(self.board.is_empty(), snd.outstanding() == 0 || una == snd.max);
        packets
    }

    /// [`LinuxSender::clean_rtx_queue`] of any packets. `head`: the oldest packet before the ACK came.
    #[inline(never)]
    fn clean_one_by_one(&mut self, head: Id, p: &mut Progress) -> u32 {
        let una = self.core.una;
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
                self.core.count_delivered(1, p.ece);
                if self.is_modern() {
                    self.rack_advance(&packet);
                }
            }
            if packet.has(LOST) {
                self.core.lost_out -= 1;
            }
            if self.is_modern() {
                if !packet.has(scoreboard::RATED) {
                    self.rate_delivered(self.board.head(), &packet, None, p);
                }
                self.remove_from_send_order(self.board.head());
            }
            self.core.packets_out -= 1;
            self.board.pop();
        }
        packets
    }

    /// [`LinuxSender::clean_rtx_queue`] of the packets at the head that were sent once and never reported. They left in order,
    /// so that the last tells what each in turn would.
    #[inline]
    fn clean_plain(&mut self, p: &mut Progress) -> u32 {
        let head = self.board.head();
        let Some((first, last)) = self.board.pop_plain(self.core.una) else { return 0 };
        let packets = (self.board.head() - head) as u32;
        self.rack.forget(head..self.board.head());
        p.first_acked_sent = first.sent;
        p.last_acked_sent = last.sent;
        p.reordered = p.reordered.min(first.seq);
        p.original |= first.end <= self.high_seq;
        self.core.count_delivered(packets, p.ece);
        self.core.packets_out -= packets;
        self.rack_advance(&last);
        self.rate_delivered(self.board.head() - 1, &last, None, p);
        packets
    }

    /// Takes in what an ACK tells by Accurate ECN of the packets it delivers: an echo where more were marked (tcp_accecn_process).
    #[cold]
    #[inline(never)]
    pub(super) fn take_accurate_ecn(&mut self, snd: &mut SendState, ack: &Ack<'_>, p: &mut Progress) {
        let Some(accecn) = &mut snd.accecn else { return };
        p.accurate_news = accecn.news();
        let window_same = snd.wnd == ack.previous_wnd;
        let blocks = !ack.sack.is_empty() || ack.dsack.is_some();
        let plain = p.advanced && window_same && !blocks && ack.payload == 0 && !ack.fin;
        let head = self.board.front().map_or(self.core.una, |packet| packet.seq);
        let delivery = Delivery {
            packets: (self.core.delivered - p.prior_delivered) as u32,
            bytes: if p.acked { head.saturating_sub(p.prior_una) } else { p.sacked_bytes },
            forward: p.acked || p.sacked,
            slow: !plain || p.accurate_news,
            exact: self.sack_ok || matches!(self.core.state, CaState::Open | CaState::Cwr),
            mss: self.core.mss,
            sent: snd.max - snd.iss,
        };
        p.rate.delta_ce = accecn.deliver(&delivery);
        p.ece = p.rate.delta_ce > 0;
        self.core.delivered_ce = u64::from(accecn.delivered_ce());
    }

    /// Round trips from the packets the ACK delivered: feeds the estimator, tells the congestion control.
    #[inline]
    pub(super) fn update_rtt(&mut self, p: &mut Progress, packets: u32, cx: &mut Context<'_>) {
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
        if packets > 0 || modern {
            let before = self.core.ssthresh;
            let delivered = self.core.delivered - p.rate.prior_delivered;
            let in_flight = (delivered as u32).wrapping_mul(self.core.mss);
            let stamped_rtt_us = if modern {
                newest_us
            } else {
                usable.then(|| now_us.saturating_sub(p.last_acked_sent / 1000) as u32)
            };
            let sample = AckSample { packets, rtt_us: newest_us, stamped_rtt_us, in_flight };
            self.cc.pkts_acked(&mut self.core, &sample);
            if self.core.ssthresh != before {
                let at = self.core.una.saturating_sub(self.output.first_seq);
                cx.events.push(EventKind::SlowStartExit, at, self.cwnd_bytes());
            }
        }
    }

    #[inline(always)]
    pub(super) fn update_min_rtt(&mut self, us: u32) {
        let now = self.core.now_us();
        let min = self.min_rtt.update(MIN_RTT_WINDOW_US, now, u64::from(us), |a, b| a <= b);
        self.core.min_rtt_us = min as u32;
    }

    pub(super) fn set_rto(&mut self) {
        let timeout = self.rtt.timeout();
        if self.is_modern() {
            self.rto = self.core.us_to_jiffies(timeout);
            self.core.srtt_us = self.rtt.srtt();
            self.core.srtt8_us = self.rtt.srtt8();
        } else {
            self.rto = timeout;
            self.core.srtt_us = self.rtt.srtt() * self.tick / 1000;
            self.core.srtt8_us = self.rtt.srtt8() * self.tick / 1000;
        }
        self.core.rto = self.rto;
    }

    /// Data below the highest SACK that was never retransmitted has arrived: the path reorders.
    pub(super) fn check_reordering(&mut self, p: &Progress) {
        if p.reordered >= p.prior_fack || !self.sack_ok {
            return;
        }
        self.note_reordering(p.reordered, self.fack_end().max(p.prior_fack));
    }

    /// Data at `low` arrived after what ends at `fack` (tcp_check_sack_reordering).
    pub(super) fn note_reordering(&mut self, low: u64, fack: u64) {
        let distance = fack - low;
        let mss = u64::from(self.core.mss);
        if distance > u64::from(self.reordering) * mss {
            self.reordering = (distance.div_ceil(mss) as u32).min(self.config.max_reordering);
            self.classic.fack_enabled = false;
        }
        self.reord_seen += 1;
    }

    /// A duplicate ACK from a peer without SACK stands for a SACKed packet (RFC 6582).
    pub(super) fn add_reno_sack(&mut self, ece: bool) {
        let holes = self.core.lost_out.max(1).min(self.core.packets_out);
        if self.core.sacked_out + holes < self.core.packets_out {
            self.core.sacked_out += 1;
            self.core.count_delivered(1, ece);
        } else {
            self.reordering = self.reordering.max(self.core.packets_out + 1).min(self.config.max_reordering);
        }
    }

    fn remove_reno_sacks(&mut self, acked: u32, ece: bool) {
        self.core.count_delivered(acked.saturating_sub(self.core.sacked_out).max(1), ece);
        self.core.sacked_out = self.core.sacked_out.saturating_sub(acked.saturating_sub(1));
        let holes = self.core.lost_out.max(1).min(self.core.packets_out);
        self.core.sacked_out =
            self.core.sacked_out.min(self.core.packets_out - holes.min(self.core.packets_out));
    }
}
