//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation) as tcp_rate.c takes them.

use super::LinuxSender;
use super::ack::Progress;
use super::flight::Flight;
use super::scoreboard::{
    APP_LIMITED, BURST_END, DELIVERED_CE_MASK, EVER_RETRANS, Id, LOST, Packet, RETRANS, SACKED,
};
use crate::cc::linux::LostPacket;
use crate::sender::SendState;

impl LinuxSender {
    /// `packet`, named `id`, has been delivered for the first time that counts. `in_flight` is what a SACK makes of the number of
    /// packets in flight; else that of the buffer counts.
    #[inline]
    pub(super) fn rate_delivered(
        &mut self,
        id: Id,
        packet: &Packet,
        in_flight: Option<u32>,
        p: &mut Progress,
    ) {
        let sent_us = packet.sent / 1000;
        let newest = p.rate.prior_delivered == 0
            || sent_us > self.core.first_tx_mstamp
            || (sent_us == self.core.first_tx_mstamp && packet.end() > p.rate.last_end_seq);
        if newest {
            p.rate.prior_delivered = packet.delivered;
            p.rate.prior_mstamp = packet.delivered_mstamp;
            p.rate.prior_delivered_ce = packet.delivered_ce();
            p.rate.is_app_limited = packet.has(APP_LIMITED);
            p.rate.is_retrans = packet.has(RETRANS | EVER_RETRANS);
            p.rate.last_end_seq = packet.end();
            self.core.first_tx_mstamp = sent_us;
            p.rate.send_interval_us = sent_us - packet.first_tx_mstamp;
            if let Some(flight) = self.board.flight(id) {
                p.rate.tx_in_flight = in_flight.unwrap_or_else(|| self.buffer_flight(id, packet));
                p.rate.prior_lost = flight.lost;
            }
        }
    }

    /// The last packet of the buffer of `packet`, named `id`, as far as no SACK has cut that.
    fn buffer_end(&self, id: Id, packet: &Packet) -> Id {
        let state = |packet: &Packet| packet.tags & (SACKED | LOST | RETRANS | EVER_RETRANS);
        let (mut end, mut last) = (id, packet);
        while !last.is_marked(BURST_END) && end + 1 < self.board.tail() {
            last = self.board.get(end + 1);
            if state(last) != state(packet) {
                break;
            }
            end += 1;
        }
        end
    }

    /// Number of packets in flight when the buffer of `packet` had left: the kernel has one for all of it (tcp_rate_skb_sent).
    #[cold]
    #[inline(never)]
    fn buffer_flight(&self, id: Id, packet: &Packet) -> u32 {
        self.board.flight(self.buffer_end(id, packet)).unwrap_or_default().packets
    }

    /// Number of packets that were in flight by `packet`, which a SACK reports. Where the packet before was reported by an earlier ACK
    /// the kernel adds a part of a buffer to that one, and lets the rest have left with so much less in flight (tcp_shifted_skb);
    /// else it cuts the part out, which then has left alone (tcp_fragment).
    #[cold]
    #[inline(never)]
    pub(super) fn sacked_flight(&mut self, id: Id, packet: &Packet, p: &mut Progress) -> Option<u32> {
        let flight = self.board.flight(id)?;
        let before = (id > self.board.head()).then(|| self.board.get(id - 1));
        if p.sack_run.next != id || before.is_some_and(|before| before.is_marked(BURST_END)) {
            let joins =
                before.is_some_and(|before| before.has(SACKED)) && (packet.has(LOST) || !packet.has(RETRANS));
            p.sack_run.joined = joins.then(|| self.buffer_flight(id, packet));
        }
        p.sack_run.next = id + 1;
        if p.sack_run.joined.is_none() {
            return Some(flight.packets);
        }
        for rest in id + 1..=self.buffer_end(id, packet) {
            let flight = self.board.flight(rest)?;
            self.board.note_flight(rest, Flight { packets: flight.packets.saturating_sub(1), ..flight });
        }
        p.sack_run.joined
    }

    /// Completes the sample once the ACK has been taken in.
    pub(super) fn rate_finish(&mut self, p: &mut Progress) {
        let core = &mut self.core;
        if core.app_limited != 0 && core.delivered > core.app_limited {
            core.app_limited = 0;
        }
        let delivered = (core.delivered - p.prior_delivered) as u32;
        let now_us = core.now_us();
        if delivered > 0 {
            core.delivered_mstamp = now_us;
        }
        let rate = &mut p.rate;
        rate.acked_sacked = delivered;
        rate.losses = (core.lost - p.prior_lost) as u32;
        rate.is_ece = p.ece;
        if rate.prior_mstamp == 0 || p.had_reneged {
            rate.delivered = None;
            return;
        }
        rate.lost = (core.lost as u32).wrapping_sub(rate.prior_lost);
        let delivered_ce = core.delivered_ce as u32;
        rate.delivered_ce = delivered_ce.wrapping_sub(rate.prior_delivered_ce) & DELIVERED_CE_MASK;
        rate.interval_us = rate.send_interval_us.max(now_us - rate.prior_mstamp);
        // Shorter than the path: timing got lost in aggregation.
        rate.delivered = (rate.interval_us >= u64::from(core.min_rtt_us))
            .then(|| (core.delivered - rate.prior_delivered) as u32);
    }

    /// `id` leaves, for a module that looks at the loss of flights.
    #[cold]
    #[inline(never)]
    pub(super) fn note_flight(&mut self, id: Id) {
        let flight = Flight { packets: self.core.in_flight() + 1, lost: self.core.lost as u32 };
        self.board.note_flight(id, flight);
    }

    /// Tags `id` LOST, and tells a module that looks at the loss of flights (tcp_notify_skb_loss_event).
    pub(super) fn mark_lost(&mut self, id: Id) {
        let before = self.core.lost;
        self.board.mark_lost(&mut self.core, id);
        if !self.hears_losses || self.core.lost == before {
            return;
        }
        let flight = self.board.flight(id).unwrap_or_default();
        let lost = LostPacket {
            tx_in_flight: flight.packets,
            lost: (self.core.lost as u32).wrapping_sub(flight.lost),
            is_app_limited: self.board.get(id).has(APP_LIMITED),
        };
        self.cc.packet_lost(&mut self.core, &lost);
    }

    /// [`LinuxSender::rate_check_app_limited`] where an ACK or a timer comes, for a module that looks at the loss of flights: silence
    /// between retransmissions is the application's too.
    pub(super) fn rate_check_silence(&mut self, snd: &SendState) {
        if self.hears_losses && self.output.in_host == 0 {
            self.rate_check_app_limited(snd);
        }
    }

    /// Notes that the application, not the network, limits the sender now.
    pub(super) fn rate_check_app_limited(&mut self, snd: &SendState) {
        let core = &mut self.core;
        if snd.unsent() < u64::from(core.mss)
            && core.in_flight() < core.cwnd
            && core.lost_out <= core.retrans_out
        {
            core.app_limited = (core.delivered + u64::from(core.in_flight())).max(1);
        }
    }
}
