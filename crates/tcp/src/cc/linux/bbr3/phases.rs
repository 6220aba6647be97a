//! Phases of BBR's versions 2 and 3: DRAIN, the cycle of PROBE_BW, PROBE_RTT.

use super::{
    AckPhase, Bbr3, MIN_RTT_SECONDS, Mode, PROBE_RTT_INTERVAL_MS, PROBE_RTT_MS, PROBE_UP_PACING_GAIN, Phase,
    UNBOUND, UNIT, part,
};
use crate::cc::linux::{CaState, Core, RateSample};
use crate::event::EventKind;

/// Probes come after so many round trips at the latest, as Reno's would on a path of 62 packets.
const MAX_ROUNDS: u32 = 63;
/// Rounds that are counted before the first, drawn below this.
const RANDOM_ROUNDS: u32 = 2;
/// Probes come after so long, and up to as much as drawn longer, microseconds.
const PROBE_WAIT_US: u64 = 2_000_000;
const RANDOM_WAIT_US: u32 = 1_000_000;

impl Bbr3 {
    pub(super) fn check_drain(&mut self, core: &mut Core) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            core.ssthresh = self.inflight_for(core, self.max_bw(), UNIT);
            self.reset_congestion_signals();
            self.tell(core, EventKind::BbrDrain);
        }
        if self.mode == Mode::Drain
            && self.in_net_at_departure(core, core.in_flight())
                <= self.inflight_for(core, self.max_bw(), UNIT)
        {
            self.mode = Mode::ProbeBw;
            self.tell(core, EventKind::BbrProbeBw);
            self.start_down(core);
        }
    }

    fn enter_phase(&mut self, core: &mut Core, phase: Phase) {
        self.phase = phase;
        self.try_fast_path = false;
        let told = match phase {
            Phase::Up => EventKind::BbrUp,
            Phase::Down => EventKind::BbrDown,
            Phase::Cruise => EventKind::BbrCruise,
            Phase::Refill => EventKind::BbrRefill,
        };
        self.tell(core, told);
    }

    /// The queue is drained, and a time drawn for the next probe.
    pub(super) fn start_down(&mut self, core: &mut Core) {
        self.reset_congestion_signals();
        self.up_count = UNBOUND;
        self.pick_wait(core);
        self.cycle_stamp = core.now_us();
        self.ack_phase = AckPhase::ProbeStopping;
        self.next_round_delivered = core.delivered;
        self.enter_phase(core, Phase::Down);
    }

    fn start_cruise(&mut self, core: &mut Core) {
        if self.inflight_lo != UNBOUND {
            self.inflight_lo = self.inflight_lo.min(self.inflight_hi);
        }
        self.enter_phase(core, Phase::Cruise);
    }

    /// The pipe is filled before it is probed: else what is lost soon says little.
    fn start_refill(&mut self, core: &mut Core, up_rounds: u32) {
        self.reset_lower_bounds();
        self.up_rounds = up_rounds;
        self.up_acks = 0;
        self.stopped_risky_probe = false;
        self.ack_phase = AckPhase::Refilling;
        self.next_round_delivered = core.delivered;
        self.enter_phase(core, Phase::Refill);
    }

    fn start_up(&mut self, core: &mut Core) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.next_round_delivered = core.delivered;
        self.cycle_stamp = core.now_us();
        self.reset_full_bw(self.bw_sample);
        self.enter_phase(core, Phase::Up);
        self.raise_slope(core);
    }

    /// The upper bound grows by twice as much each round trip.
    fn raise_slope(&mut self, core: &Core) {
        let growth = 1 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_count = (core.cwnd / growth).max(1);
    }

    fn probe_upward(&mut self, core: &Core, sample: &RateSample) {
        if !core.cwnd_limited || core.cwnd < self.inflight_hi {
            if self.rules.is_2 {
                self.up_acks = 0;
            }
            return;
        }
        self.up_acks += sample.acked_sacked;
        if self.up_acks >= self.up_count {
            let delta = self.up_acks / self.up_count;
            self.up_acks -= delta * self.up_count;
            self.inflight_hi = self.inflight_hi.saturating_add(delta);
            self.try_fast_path &= self.rules.is_2;
        }
        if self.round_start {
            self.raise_slope(core);
        }
    }

    /// Takes what samples of a probe say of the upper bound. True: a phase has begun.
    fn adapt_upper_bounds(&mut self, core: &mut Core, sample: &RateSample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Init;
            // All samples of the probe are in: those of the cycle before are forgotten.
            if self.mode == Mode::ProbeBw && !sample.is_app_limited && self.bw_hi[1] > 0 {
                self.bw_hi = [self.bw_hi[1], 0];
            }
            if self.mode == Mode::ProbeBw && self.stopped_risky_probe && !self.prev_probe_too_high {
                self.start_refill(core, 0);
                return true;
            }
        }
        if self.is_inflight_too_high(sample) {
            if self.probe_samples {
                self.on_inflight_too_high(core, sample.tx_in_flight, sample.is_app_limited);
            }
        } else if self.inflight_hi != UNBOUND {
            self.inflight_hi = self.inflight_hi.max(sample.tx_in_flight);
            if self.is_up() {
                self.probe_upward(core, sample);
            }
        }
        false
    }

    /// Draws when the next probe comes (bbr_pick_probe_wait).
    fn pick_wait(&mut self, core: &mut Core) {
        self.rounds_since_probe = core.random_below(RANDOM_ROUNDS);
        self.probe_wait_us = PROBE_WAIT_US + u64::from(core.random_below(RANDOM_WAIT_US));
    }

    fn is_time_to_probe(&mut self, core: &mut Core) -> bool {
        let gain = self.rules.reprobe_gain;
        let marked = self.ecn_eligible && self.ecn_in_cycle && !self.loss_in_cycle;
        if gain > 0 && marked && core.state == CaState::Open {
            // Marks have ended: perhaps other flows have.
            self.start_refill(core, part(self.inflight_hi, gain).max(1).ilog2());
            return true;
        }
        let elapsed = core.now_us() > self.cycle_stamp + self.probe_wait_us;
        if elapsed || self.rounds_since_probe >= MAX_ROUNDS.min(self.target_inflight(core)) {
            self.start_refill(core, 0);
            return true;
        }
        false
    }

    pub(super) fn update_cycle(&mut self, core: &mut Core, sample: &RateSample) {
        if !self.full_bw_reached || self.adapt_upper_bounds(core, sample) || self.mode != Mode::ProbeBw {
            return;
        }
        match self.phase {
            Phase::Cruise => {
                self.is_time_to_probe(core);
            }
            Phase::Refill => {
                if self.round_start {
                    self.probe_samples = true;
                    self.start_up(core);
                }
            }
            Phase::Up => {
                let inflight = self.in_net_at_departure(core, sample.prior_in_flight);
                if self.is_probe_done(core, inflight) {
                    self.prev_probe_too_high = false;
                    self.start_down(core);
                }
            }
            Phase::Down => {
                let inflight = self.in_net_at_departure(core, sample.prior_in_flight);
                if !self.is_time_to_probe(core)
                    && inflight <= self.inflight_with_headroom()
                    && inflight <= self.inflight_for(core, self.max_bw(), UNIT)
                {
                    self.start_cruise(core);
                }
            }
        }
    }

    fn is_probe_done(&mut self, core: &Core, inflight: u32) -> bool {
        if self.prev_probe_too_high && inflight >= self.inflight_hi {
            self.stopped_risky_probe = true;
            return true;
        }
        if self.rules.is_2 {
            // A queue of a quarter of a BDP.
            return core.now_us() > self.cycle_stamp + u64::from(self.min_rtt_us)
                && inflight >= self.inflight_for(core, self.max_bw(), PROBE_UP_PACING_GAIN);
        }
        if core.cwnd_limited && core.cwnd >= self.inflight_hi {
            // It is the bound that holds bandwidth back.
            self.reset_full_bw(self.bw_sample);
            return false;
        }
        self.full_bw_now
    }

    pub(super) fn check_probe_rtt_done(&mut self, core: &mut Core) {
        if self.probe_rtt_done.is_none_or(|done| core.jiffies <= done) {
            return;
        }
        self.probe_rtt_min_stamp = core.jiffies;
        core.cwnd = core.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.full_bw_reached {
            self.mode = Mode::ProbeBw;
            self.tell(core, EventKind::BbrProbeBw);
            self.start_down(core);
            self.start_cruise(core);
        } else {
            self.mode = Mode::Startup;
            self.tell(core, EventKind::BbrStartup);
        }
    }

    pub(super) fn update_min_rtt(&mut self, core: &mut Core, sample: &RateSample) {
        let hz = u64::from(core.hz);
        let expired = core.jiffies > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL_MS * hz / 1000;
        if let Some(rtt) = sample.rtt_us
            && (rtt < self.probe_rtt_min_us
                || self.rules.is_2 && rtt == self.probe_rtt_min_us
                || (expired && !sample.is_ack_delayed))
        {
            self.probe_rtt_min_us = rtt;
            self.probe_rtt_min_stamp = core.jiffies;
        }
        if self.probe_rtt_min_us <= self.min_rtt_us
            || core.jiffies > self.min_rtt_stamp + MIN_RTT_SECONDS * hz
        {
            self.min_rtt_us = self.probe_rtt_min_us;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(core);
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.next_round_delivered = core.delivered;
            self.tell(core, EventKind::BbrProbeRtt);
        }
        if self.mode == Mode::ProbeRtt {
            // Low rates now say nothing about the path.
            core.app_limited = (core.delivered + u64::from(core.in_flight())).max(1);
            if self.probe_rtt_done.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(core);
                }
            } else if core.in_flight() <= self.probe_rtt_cwnd() {
                self.probe_rtt_done = Some(core.jiffies + PROBE_RTT_MS * hz / 1000);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = core.delivered;
            }
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }
}
