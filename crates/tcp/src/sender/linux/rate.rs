//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation) as tcp_rate.c takes them.

use super::LinuxSender;
use super::ack::Progress;
use super::scoreboard::{APP_LIMITED, DELIVERED_CE_MASK, EVER_RETRANS, Packet, RETRANS};
use crate::sender::SendState;

impl LinuxSender {
    /// `packet` has been delivered for the first time that counts.
    #[inline]
    pub(super) fn rate_delivered(&mut self, packet: &Packet, p: &mut Progress) {
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
        }
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
        if rate.prior_mstamp == 0 || p.had_reneged {
            rate.delivered = None;
            return;
        }
        let delivered_ce = core.delivered_ce as u32;
        rate.delivered_ce = delivered_ce.wrapping_sub(rate.prior_delivered_ce) & DELIVERED_CE_MASK;
        rate.interval_us = rate.send_interval_us.max(now_us - rate.prior_mstamp);
        // Shorter than the path: timing got lost in aggregation.
        rate.delivered = (rate.interval_us >= u64::from(core.min_rtt_us))
            .then(|| (core.delivered - rate.prior_delivered) as u32);
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
