//! Bounds of BBR's versions 2 and 3: what loss and marks say about how much may be in flight.

use super::{Bbr3, GAIN_SCALE, MIN_CWND, Mode, Phase, UNBOUND, UNIT, is_valid, part};
use crate::cc::linux::{CaState, Core, LostPacket, RateSample};

/// Weight of a round's marks in `ecn_alpha`: 1/16.
const ALPHA_GAIN: u32 = UNIT / 16;
/// Marks cut the lower bound by up to a third (bbr_ecn_factor).
const ECN_FACTOR: u32 = UNIT / 3;
/// Part of the packets that is marked where probing has gone too far.
const ECN_THRESHOLD: u32 = UNIT / 2;
/// Rounds in a row with so many marks that end start-up.
const FULL_ECN_ROUNDS: u32 = 2;
/// Part of the upper bound that is left to other flows.
const HEADROOM: u32 = UNIT * 15 / 100;

impl Bbr3 {
    /// A round has begun: the part of the packets that was marked (bbr_update_ecn_alpha).
    pub(super) fn update_ecn_alpha(&mut self, core: &Core) {
        // Version 2 keeps alpha whatever the peer has agreed on, and on every path.
        let always = self.rules.is_2;
        let may = if always { self.params.marks } else { self.can_use_ecn(core) };
        let longest = self.params.ecn_max_rtt_us;
        self.ecn_eligible |= may && (longest == 0 || self.min_rtt_us <= longest);
        let delivered = core.delivered.saturating_sub(self.alpha_delivered);
        if !(always || may && self.ecn_eligible) || delivered == 0 {
            return;
        }
        let marked = core.delivered_ce.saturating_sub(self.alpha_delivered_ce);
        let ratio = ((marked << GAIN_SCALE) / delivered) as u32;
        let alpha = part(self.ecn_alpha, UNIT - ALPHA_GAIN) + part(ratio, ALPHA_GAIN);
        self.ecn_alpha = alpha.min(UNIT);
        self.alpha_delivered = core.delivered;
        self.alpha_delivered_ce = core.delivered_ce;
        if !self.full_bw_reached && self.ecn_eligible {
            self.startup_ecn_rounds = if ratio >= ECN_THRESHOLD { self.startup_ecn_rounds + 1 } else { 0 };
            if self.startup_ecn_rounds >= FULL_ECN_ROUNDS {
                self.end_startup(core);
            }
        }
    }

    /// The queue is too long already.
    fn end_startup(&mut self, core: &Core) {
        self.full_bw_reached = true;
        self.inflight_hi = self.inflight_for(core, self.max_bw(), UNIT);
        if !self.rules.is_2 {
            self.inflight_hi = self.inflight_hi.max(self.inflight_latest);
        }
    }

    pub(super) fn check_loss_in_startup(&mut self, core: &Core, sample: &RateSample) {
        if self.full_bw_reached {
            return;
        }
        if sample.losses > 0 {
            self.loss_events = (self.loss_events + 1).min(0xf);
        }
        if self.loss_round_start
            && core.state == CaState::Recovery
            && self.loss_events >= self.rules.full_loss_events
            && self.is_inflight_too_high(sample)
        {
            self.end_startup(core);
            return;
        }
        if self.loss_round_start {
            self.loss_events = 0;
        }
    }

    /// Whether the part of a flight that was lost or marked says that it was too large.
    pub(super) fn is_inflight_too_high(&self, sample: &RateSample) -> bool {
        if sample.lost > 0
            && sample.tx_in_flight > 0
            && sample.lost > part(sample.tx_in_flight, self.params.loss_threshold)
        {
            return true;
        }
        let delivered = sample.delivered.unwrap_or(0);
        let threshold = part(delivered, ECN_THRESHOLD) + if self.rules.is_2 { 0 } else { 1 };
        self.ecn_eligible && sample.delivered_ce > 0 && delivered > 0 && sample.delivered_ce >= threshold
    }

    /// Packets in flight when the loss of `packet`'s flight became too high, packet by packet.
    fn inflight_hi_from(&self, packet: &LostPacket) -> u32 {
        let threshold = self.params.loss_threshold;
        let Some(before) = packet.tx_in_flight.checked_sub(1) else { return UNBOUND };
        let lost_before = packet.lost.saturating_sub(1);
        let budget = ((u64::from(before) * u64::from(threshold) + u64::from(UNIT) - 1) >> GAIN_SCALE) as u32;
        let prefix = match budget.checked_sub(lost_before) {
            Some(left) if threshold < UNIT => (left << GAIN_SCALE) / (UNIT - threshold),
            _ => 0,
        };
        before + prefix
    }

    /// Probing has gone too far: once per probe the upper bound is cut.
    pub(super) fn on_inflight_too_high(&mut self, core: &mut Core, tx_in_flight: u32, app_limited: bool) {
        self.prev_probe_too_high = true;
        self.probe_samples = false;
        if !app_limited {
            let cut = part(self.target_inflight(core), UNIT - self.params.beta);
            self.inflight_hi = tx_in_flight.max(cut);
        }
        if self.is_up() {
            self.start_down(core);
        } else {
            self.tell_model(core);
        }
    }

    fn note_loss(&mut self, core: &Core) {
        if !self.loss_in_round {
            self.loss_round_delivered = core.delivered;
        }
        self.loss_in_round = true;
        self.loss_in_cycle = true;
    }

    pub(super) fn on_packet_lost(&mut self, core: &mut Core, packet: &LostPacket) {
        self.note_loss(core);
        if !self.probe_samples {
            return;
        }
        let flight =
            RateSample { tx_in_flight: packet.tx_in_flight, lost: packet.lost, ..RateSample::default() };
        if self.is_inflight_too_high(&flight) {
            self.on_inflight_too_high(core, self.inflight_hi_from(packet), packet.is_app_limited);
        }
    }

    /// A tail loss probe repaired a loss that nothing else noticed.
    pub(super) fn on_loss_probe_recovery(&mut self, core: &mut Core) {
        self.note_loss(core);
        if !self.probe_samples {
            return;
        }
        let tx_in_flight = self.inflight_latest + 1;
        let flight = RateSample { tx_in_flight, lost: 1, ..RateSample::default() };
        if self.is_inflight_too_high(&flight) {
            self.on_inflight_too_high(core, tx_in_flight, core.app_limited != 0);
        }
    }

    /// The upper bound less what is left to others.
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.inflight_hi == UNBOUND {
            return UNBOUND;
        }
        let headroom = part(self.inflight_hi, HEADROOM).max(1);
        self.inflight_hi.saturating_sub(headroom).max(MIN_CWND)
    }

    pub(super) fn bound_cwnd(&mut self, core: &mut Core) {
        let cap = match (self.mode, self.phase) {
            (Mode::ProbeRtt, _) | (Mode::ProbeBw, Phase::Cruise) => self.inflight_with_headroom(),
            (Mode::ProbeBw, _) => self.inflight_hi,
            _ => UNBOUND,
        };
        core.cwnd = core.cwnd.min(cap.min(self.inflight_lo).max(MIN_CWND));
    }

    /// Once per round trip with loss or marks, while the path is not probed.
    fn adapt_lower_bounds(&mut self, core: &mut Core) {
        if self.is_probing() {
            return;
        }
        let mut by_marks = UNBOUND;
        if self.ecn_in_round && self.ecn_eligible {
            self.init_inflight_lo(core);
            by_marks = part(self.inflight_lo, UNIT - part(self.ecn_alpha, ECN_FACTOR));
        }
        if self.loss_in_round {
            if self.bw_lo == UNBOUND {
                self.bw_lo = self.max_bw();
            }
            self.init_inflight_lo(core);
            let left = UNIT - self.params.beta;
            self.bw_lo = self.bw_latest.max(part(self.bw_lo, left));
            self.inflight_lo = self.inflight_latest.max(part(self.inflight_lo, left));
        }
        self.inflight_lo = self.inflight_lo.min(by_marks);
        self.bw_lo = self.bw_lo.max(1);
        if self.loss_in_round || by_marks != UNBOUND {
            self.tell_model(core);
        }
    }

    fn init_inflight_lo(&mut self, core: &Core) {
        if self.inflight_lo == UNBOUND {
            self.inflight_lo = core.cwnd;
        }
    }

    pub(super) fn reset_lower_bounds(&mut self) {
        self.bw_lo = UNBOUND;
        self.inflight_lo = UNBOUND;
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.ecn_in_round = false;
        self.loss_in_cycle = false;
        self.ecn_in_cycle = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    pub(super) fn update_latest_delivery(&mut self, core: &Core, sample: &RateSample) {
        self.loss_round_start = false;
        if !is_valid(sample) || sample.acked_sacked == 0 {
            return;
        }
        self.bw_latest = self.bw_latest.max(self.bw_sample);
        self.inflight_latest = self.inflight_latest.max(sample.delivered.unwrap_or(0));
        if sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = core.delivered;
            self.loss_round_start = true;
        }
    }

    /// A new round forgets the last one, but for an ACK that may answer a tail loss probe.
    pub(super) fn advance_latest_delivery(&mut self, sample: &RateSample) {
        if self.loss_round_start && (self.rules.is_2 || !sample.acks_probe) {
            self.bw_latest = self.bw_sample;
            self.inflight_latest = sample.delivered.unwrap_or(0);
        }
    }

    pub(super) fn update_congestion_signals(&mut self, core: &mut Core, sample: &RateSample) {
        if !is_valid(sample) || sample.acked_sacked == 0 {
            return;
        }
        if !sample.is_app_limited || self.bw_sample >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(self.bw_sample);
        }
        self.loss_in_round |= sample.losses > 0;
        if self.loss_round_start {
            self.adapt_lower_bounds(core);
            self.loss_in_round = false;
            self.ecn_in_round = false;
        }
    }
}
