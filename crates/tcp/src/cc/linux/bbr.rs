//! BBR version 1 as Linux has it (tcp_bbr.c since 4.9): a model of the path's bandwidth and round trip sets pacing rate and cwnd.

use std::cmp::Ordering;

use super::bbr_events::{Model, Teller};
use super::bbr_model::{
    self as model, AGGREGATION_ROUNDS, Aggregation, BW_UNIT, FULL_BW_ROUNDS, GAIN_SCALE, MIN_CWND,
    MIN_RTT_SECONDS, PROBE_RTT_MS, UNIT, rate_bytes,
};
use super::{CaState, CongestionControl, Core, CwndEvent, INFINITE_SSTHRESH, INIT_CWND, RateSample};
use crate::event::EventKind;
use crate::windowed::Windowed;

/// 2/ln 2: doubles the rate each round trip.
const HIGH_GAIN: u32 = UNIT * 2885 / 1000 + 1;
/// Inverse of `HIGH_GAIN`, to drain the queue that start-up built.
const DRAIN_GAIN: u32 = UNIT * 1000 / 2885;
/// cwnd above the BDP in steady state, for delayed and aggregated ACKs.
const CWND_GAIN: u32 = 2 * UNIT;
/// Pacing gains of PROBE_BW: probe, drain, cruise.
const CYCLE: [u32; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Phases among which PROBE_BW begins at random.
const CYCLE_RANDOM: u32 = 7;
/// The bandwidth filter's length in round trips.
const BW_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// Largest burst in segments.
const MAX_TSO_SEGS: u32 = 127;
/// Largest burst in bytes: 64 KB less the largest headers.
const MAX_TSO_BYTES: u64 = 65_536 - 1 - 320;
/// Policer detection: shortest sampling interval, round trips; the longest is four times that.
const LT_ROUNDS: u32 = 4;
/// Lost packets per delivered one, in 1/256: about 20 %.
const LT_LOSS: u64 = 50;
/// Two intervals agree within 1/8 ...
const LT_RATIO: u64 = UNIT as u64 / 8;
/// ... or this many bytes per second.
const LT_DIFF: u64 = 4000 / 8;
/// Round trips for which a policed rate is believed.
const LT_MAX_ROUNDS: u32 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The `bbr` module.
#[derive(Debug)]
pub(super) struct Bbr {
    mode: Mode,
    pacing_gain: u32,
    cwnd_gain: u32,

    bw: Windowed,
    min_rtt_us: u32,
    /// Jiffies.
    min_rtt_stamp: u64,
    /// Jiffies. None: PROBE_RTT waits for the window to drain.
    probe_rtt_done: Option<u64>,
    probe_rtt_round_done: bool,

    rounds: u64,
    next_round_delivered: u64,
    round_start: bool,

    full_bw: u64,
    full_bw_rounds: u32,
    full_bw_reached: bool,

    cycle_index: usize,
    cycle_start: u64,

    prior_state: CaState,
    prior_cwnd: u32,
    packet_conservation: bool,
    idle_restart: bool,
    has_seen_rtt: bool,

    aggregation: Aggregation,
    policer: Policer,
    teller: Teller,
}

/// Long-term rate under a token-bucket policer.
#[derive(Debug, Default)]
struct Policer {
    sampling: bool,
    in_use: bool,
    bw: u64,
    rounds: u32,
    last_delivered: u64,
    last_lost: u64,
    /// Milliseconds.
    last_stamp: u64,
}

impl Bbr {
    pub(super) fn new() -> Bbr {
        Bbr {
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            bw: Windowed::default(),
            min_rtt_us: u32::MAX,
            min_rtt_stamp: 0,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            rounds: 0,
            next_round_delivered: 0,
            round_start: false,
            full_bw: 0,
            full_bw_rounds: 0,
            full_bw_reached: false,
            cycle_index: 0,
            cycle_start: 0,
            prior_state: CaState::Open,
            prior_cwnd: 0,
            packet_conservation: false,
            idle_restart: false,
            has_seen_rtt: false,
            aggregation: Aggregation::default(),
            policer: Policer::default(),
            teller: Teller::default(),
        }
    }

    /// Tells that a phase begins.
    fn tell(&mut self, core: &mut Core, phase: EventKind) {
        let model = self.model();
        self.teller.phase(core, phase, model);
    }

    fn model(&self) -> Model {
        Model {
            bw_hi: Some(self.max_bw()).filter(|&bw| bw > 0),
            bw_lo: self.policer.in_use.then_some(self.policer.bw),
            inflight_hi: None,
            inflight_lo: None,
            min_rtt: Some(self.min_rtt_us).filter(|&us| us != u32::MAX),
        }
    }

    fn max_bw(&self) -> u64 {
        self.bw.get()
    }

    /// The bandwidth believed in: the policer's rate once detected.
    fn believed_bw(&self) -> u64 {
        if self.policer.in_use { self.policer.bw } else { self.max_bw() }
    }

    /// gain * bw * min_rtt in packets, rounded up.
    fn bdp(&self, bw: u64, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX {
            return INIT_CWND;
        }
        model::bdp(bw, self.min_rtt_us, gain)
    }

    /// Room for bursts that sender, offloads and delayed ACKs need.
    fn quantise(&self, core: &Core, packets: u32) -> u32 {
        let mut packets = packets + 3 * self.tso_goal(core);
        packets = (packets + 1) & !1;
        if self.mode == Mode::ProbeBw && self.cycle_index == 0 {
            packets += 2;
        }
        packets
    }

    fn inflight_for(&self, core: &Core, bw: u64, gain: u32) -> u32 {
        self.quantise(core, self.bdp(bw, gain))
    }

    /// Segments of one burst: a millisecond of the pacing rate.
    fn tso_goal(&self, core: &Core) -> u32 {
        let bytes = (core.pacing_rate >> 10).min(MAX_TSO_BYTES);
        ((bytes / u64::from(core.mss)) as u32).max(model::min_tso_segs(core)).min(MAX_TSO_SEGS)
    }

    /// Packets that will be in the network when the next packet may leave.
    fn in_net_at_departure(&self, core: &Core, now: u32) -> u32 {
        let burst = if self.pacing_gain > UNIT { self.tso_goal(core) } else { 0 };
        model::in_net_at_departure(core, self.believed_bw(), now + burst)
    }

    fn set_initial_pacing_rate(&mut self, core: &mut Core) {
        self.has_seen_rtt |= core.srtt_us > 0;
        core.pacing_rate = model::initial_rate(core, HIGH_GAIN);
    }

    fn set_pacing_rate(&mut self, core: &mut Core, bw: u64, gain: u32) {
        let rate = rate_bytes(core, bw, gain);
        if !self.has_seen_rtt && core.srtt_us > 0 {
            self.set_initial_pacing_rate(core);
        }
        if self.full_bw_reached || rate > core.pacing_rate {
            core.pacing_rate = rate;
        }
    }

    fn save_cwnd(&mut self, core: &Core) {
        let in_probe_rtt = self.mode == Mode::ProbeRtt;
        self.prior_cwnd = model::window_to_restore(core, self.prior_state, in_probe_rtt, self.prior_cwnd);
    }

    fn update_bw(&mut self, core: &mut Core, sample: &RateSample) {
        self.round_start = false;
        let Some(delivered) = sample.delivered else { return };
        if sample.interval_us == 0 {
            return;
        }
        if sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = core.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_policer(core, sample);
        let bw = u64::from(delivered) * BW_UNIT / sample.interval_us;
        if !sample.is_app_limited || bw >= self.max_bw() {
            self.bw.update(BW_ROUNDS, self.rounds, bw, |a, b| a >= b);
        }
    }

    fn aggregation_cwnd(&self) -> u32 {
        if !self.full_bw_reached {
            return 0;
        }
        self.aggregation.cwnd(self.believed_bw())
    }

    fn advance_cycle(&mut self, core: &mut Core) {
        let before = self.cycle_gain();
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        self.cycle_start = core.delivered_mstamp;
        if self.cycle_gain() != before {
            self.tell_cycle(core);
        }
    }

    fn cycle_gain(&self) -> u32 {
        if self.policer.in_use { UNIT } else { CYCLE[self.cycle_index] }
    }

    fn tell_cycle(&mut self, core: &mut Core) {
        let phase = match self.cycle_gain().cmp(&UNIT) {
            Ordering::Less => EventKind::BbrDown,
            Ordering::Equal => EventKind::BbrCruise,
            Ordering::Greater => EventKind::BbrUp,
        };
        self.tell(core, phase);
    }

    fn update_cycle(&mut self, core: &mut Core, sample: &RateSample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let whole = core.delivered_mstamp - self.cycle_start > u64::from(self.min_rtt_us);
        let next = if self.pacing_gain == UNIT {
            whole
        } else {
            let inflight = self.in_net_at_departure(core, sample.prior_in_flight);
            let bw = self.max_bw();
            if self.pacing_gain > UNIT {
                whole && (sample.losses > 0 || inflight >= self.inflight_for(core, bw, self.pacing_gain))
            } else {
                whole || inflight <= self.inflight_for(core, bw, UNIT)
            }
        };
        if next {
            self.advance_cycle(core);
        }
    }

    fn enter_probe_bw(&mut self, core: &mut Core) {
        if self.mode != Mode::ProbeBw {
            self.mode = Mode::ProbeBw;
            self.tell(core, EventKind::BbrProbeBw);
        }
        self.cycle_index = (CYCLE.len() - core.random_below(CYCLE_RANDOM) as usize) % CYCLE.len();
        self.cycle_start = core.delivered_mstamp;
        self.tell_cycle(core);
    }

    fn check_full_bw(&mut self, sample: &RateSample) {
        if self.full_bw_reached || !self.round_start || sample.is_app_limited {
            return;
        }
        if self.max_bw() >= self.full_bw * 5 / 4 {
            self.full_bw = self.max_bw();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    fn check_drain(&mut self, core: &mut Core) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            core.ssthresh = self.inflight_for(core, self.max_bw(), UNIT);
            self.tell(core, EventKind::BbrDrain);
        }
        if self.mode == Mode::Drain
            && self.in_net_at_departure(core, core.in_flight())
                <= self.inflight_for(core, self.max_bw(), UNIT)
        {
            self.enter_probe_bw(core);
        }
    }

    fn check_probe_rtt_done(&mut self, core: &mut Core) {
        if self.probe_rtt_done.is_none_or(|done| core.jiffies <= done) {
            return;
        }
        self.min_rtt_stamp = core.jiffies;
        core.cwnd = core.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw(core);
        } else {
            self.mode = Mode::Startup;
            self.tell(core, EventKind::BbrStartup);
        }
    }

    fn update_min_rtt(&mut self, core: &mut Core, sample: &RateSample) {
        let hz = u64::from(core.hz);
        let expired = core.jiffies > self.min_rtt_stamp + MIN_RTT_SECONDS * hz;
        if let Some(rtt) = sample.rtt_us
            && (rtt < self.min_rtt_us || (expired && !sample.is_ack_delayed))
        {
            self.min_rtt_us = rtt;
            self.min_rtt_stamp = core.jiffies;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(core);
            self.probe_rtt_done = None;
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
            } else if core.in_flight() <= MIN_CWND {
                self.probe_rtt_done = Some(core.jiffies + PROBE_RTT_MS * hz / 1000);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = core.delivered;
            }
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw => (self.cycle_gain(), CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    fn set_cwnd(&mut self, core: &mut Core, sample: &RateSample) {
        let acked = sample.acked_sacked;
        if acked > 0 {
            let mut cwnd = core.cwnd;
            if sample.losses > 0 {
                cwnd = cwnd.saturating_sub(sample.losses).max(1);
            }
            if core.state == CaState::Recovery && self.prior_state != CaState::Recovery {
                // First round trip of recovery: one packet out per packet delivered.
                self.packet_conservation = true;
                self.next_round_delivered = core.delivered;
                cwnd = core.in_flight() + acked;
            } else if self.prior_state >= CaState::Recovery && core.state < CaState::Recovery {
                cwnd = cwnd.max(self.prior_cwnd);
                self.packet_conservation = false;
            }
            self.prior_state = core.state;
            if self.packet_conservation {
                core.cwnd = cwnd.max(core.in_flight() + acked);
            } else {
                let bdp = self.bdp(self.believed_bw(), self.cwnd_gain);
                let target = self.quantise(core, bdp + self.aggregation_cwnd());
                if self.full_bw_reached {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || core.delivered < u64::from(INIT_CWND) {
                    cwnd += acked;
                }
                core.cwnd = cwnd.max(MIN_CWND);
            }
        }
        if self.mode == Mode::ProbeRtt {
            core.cwnd = core.cwnd.min(MIN_CWND);
        }
    }

    fn reset_policer_interval(&mut self, core: &Core) {
        self.policer.last_stamp = core.delivered_mstamp / 1000;
        self.policer.last_delivered = core.delivered;
        self.policer.last_lost = core.lost;
        self.policer.rounds = 0;
    }

    fn reset_policer(&mut self, core: &Core) {
        self.policer = Policer::default();
        self.reset_policer_interval(core);
    }

    /// Heavy loss at the same rate in two intervals: a policer. Its rate then replaces the model for a while.
    fn sample_policer(&mut self, core: &mut Core, sample: &RateSample) {
        if self.policer.in_use {
            if self.mode == Mode::ProbeBw && self.round_start {
                self.policer.rounds += 1;
                if self.policer.rounds >= LT_MAX_ROUNDS {
                    self.reset_policer(core);
                    self.enter_probe_bw(core);
                }
            }
            return;
        }
        if !self.policer.sampling {
            if sample.losses == 0 {
                return;
            }
            self.reset_policer_interval(core);
            self.policer.sampling = true;
        }
        if sample.is_app_limited {
            self.reset_policer(core);
            return;
        }
        if self.round_start {
            self.policer.rounds += 1;
        }
        if self.policer.rounds < LT_ROUNDS {
            return;
        }
        if self.policer.rounds > 4 * LT_ROUNDS {
            self.reset_policer(core);
            return;
        }
        // Losses end an interval: the bucket is empty then.
        if sample.losses == 0 {
            return;
        }
        let lost = core.lost - self.policer.last_lost;
        let delivered = core.delivered - self.policer.last_delivered;
        if delivered == 0 || lost << GAIN_SCALE < LT_LOSS * delivered {
            return;
        }
        let elapsed_ms = core.delivered_mstamp / 1000 - self.policer.last_stamp;
        if elapsed_ms == 0 {
            return;
        }
        let bw = delivered * BW_UNIT / (elapsed_ms * 1000);
        let known = self.policer.bw;
        if known > 0 {
            let difference = bw.abs_diff(known);
            if difference * u64::from(UNIT) <= LT_RATIO * known
                || rate_bytes(core, difference, UNIT) <= LT_DIFF
            {
                self.policer.bw = (bw + known) >> 1;
                self.policer.in_use = true;
                self.pacing_gain = UNIT;
                self.policer.rounds = 0;
                let model = self.model();
                self.teller.model(core, model);
                return;
            }
        }
        self.policer.bw = bw;
        self.reset_policer_interval(core);
    }
}

impl CongestionControl for Bbr {
    fn init(&mut self, core: &mut Core) {
        core.ssthresh = INFINITE_SSTHRESH;
        core.pacing = true;
        self.next_round_delivered = core.delivered;
        self.min_rtt_us = core.min_rtt_us;
        self.min_rtt_stamp = core.jiffies;
        self.aggregation.begin(core.now_us());
        self.bw.reset(0, 0);
        self.set_initial_pacing_rate(core);
        self.reset_policer(core);
        self.tell(core, EventKind::BbrStartup);
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.save_cwnd(core);
        core.ssthresh
    }

    fn cong_avoid(&mut self, _core: &mut Core, _ack: u64, _acked: u32) {
        // The window is cong_control's.
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        if state == CaState::Loss {
            self.prior_state = CaState::Loss;
            self.full_bw = 0;
            // A timeout counts as the end of a round with loss.
            self.round_start = true;
            self.sample_policer(core, &RateSample { losses: 1, ..RateSample::default() });
        }
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        if event == CwndEvent::TxStart && core.app_limited != 0 {
            self.idle_restart = true;
            self.aggregation.begin(core.now_us());
            // No burst after idleness: the rate the path had.
            if self.mode == Mode::ProbeBw {
                self.set_pacing_rate(core, self.believed_bw(), UNIT);
            } else if self.mode == Mode::ProbeRtt {
                self.check_probe_rtt_done(core);
            }
        }
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        self.full_bw = 0;
        self.full_bw_rounds = 0;
        self.reset_policer(core);
        core.cwnd
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn cong_control(&mut self, core: &mut Core, sample: &RateSample) {
        self.update_bw(core, sample);
        self.aggregation.update(core, sample, self.believed_bw(), self.round_start, AGGREGATION_ROUNDS);
        self.update_cycle(core, sample);
        self.check_full_bw(sample);
        self.check_drain(core);
        self.update_min_rtt(core, sample);
        self.update_gains();
        self.set_pacing_rate(core, self.believed_bw(), self.pacing_gain);
        self.set_cwnd(core, sample);
    }

    fn min_tso_segs(&self, core: &Core) -> Option<u32> {
        Some(model::min_tso_segs(core))
    }

    fn sndbuf_expand(&mut self, _core: &Core) -> u32 {
        3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventKind::*;

    fn established() -> (Bbr, Core) {
        let mut core = Core::new(3);
        core.mss = 1448;
        core.srtt_us = 40_000;
        core.min_rtt_us = 40_000;
        core.delivered = 1;
        let mut bbr = Bbr::new();
        bbr.init(&mut core);
        (bbr, core)
    }

    /// Carries out a round trip of 40 ms in which `delivered` packets arrived and `lost` were lost.
    fn round(bbr: &mut Bbr, core: &mut Core, delivered: u32, lost: u32) {
        let prior_delivered = core.delivered;
        core.delivered += u64::from(delivered);
        core.lost += u64::from(lost);
        core.delivered_mstamp += 40_000;
        core.jiffies += 40;
        core.packets_out = 2 * delivered;
        let sample = RateSample {
            delivered: Some(delivered),
            interval_us: 40_000,
            prior_delivered,
            rtt_us: Some(40_000),
            losses: lost,
            acked_sacked: delivered,
            prior_in_flight: core.packets_out,
            ..RateSample::default()
        };
        bbr.cong_control(core, &sample);
    }

    #[test]
    fn start_up_ends_after_three_rounds_without_growth_then_drains_and_cruises() {
        let (mut bbr, mut core) = established();
        assert_eq!((HIGH_GAIN, DRAIN_GAIN), (739, 88));
        for delivered in [10, 20, 40, 80, 100, 100] {
            round(&mut bbr, &mut core, delivered, 0);
            assert_eq!(bbr.mode, Mode::Startup);
        }
        round(&mut bbr, &mut core, 100, 0);
        round(&mut bbr, &mut core, 100, 0);
        assert_eq!(bbr.mode, Mode::Drain);
        assert!(core.pacing_rate < 100 * 1448 * 25 / 2, "draining: {}", core.pacing_rate);
        core.packets_out = 50;
        bbr.check_drain(&mut core);
        assert_eq!(bbr.mode, Mode::ProbeBw);
        let mut gains = Vec::new();
        for _ in 0..16 {
            round(&mut bbr, &mut core, 100, 0);
            gains.push(bbr.pacing_gain);
        }
        for gain in [320, 192, 256] {
            assert!(gains.contains(&gain), "{gains:?}");
        }
        let phases = [BbrStartup, BbrDrain, BbrProbeBw, BbrUp, BbrDown, BbrCruise];
        let told: Vec<_> =
            core.told.iter().map(|&(kind, _)| kind).filter(|kind| phases.contains(kind)).collect();
        assert_eq!(told[..3], phases[..3]);
        assert_eq!(told.iter().filter(|&&kind| kind == BbrUp).count(), 2, "{told:?}");
        // Payload of 100 packets in 40 ms, and the first round trip.
        let values = |of| core.told.iter().filter(move |&&(kind, _)| kind == of).map(|&(_, value)| value);
        assert_eq!(values(BbrMinRtt).collect::<Vec<_>>(), [40_000_000]);
        let rate = values(BbrBwHi).next_back().expect("a bandwidth");
        assert!((rate - 100 * 1448 * 8 * 25).abs() < 1000, "{rate}");
        // Twice the BDP of 100 packets, quantised, and what ACKs bunch.
        assert!((200..=320).contains(&core.cwnd), "{}", core.cwnd);
    }

    #[test]
    fn a_policer_is_recognised_after_two_like_intervals_and_forgotten_after_48_rounds() {
        let (mut bbr, mut core) = established();
        let mut rounds = 0;
        while !bbr.policer.in_use {
            round(&mut bbr, &mut core, 100, 40);
            rounds += 1;
            assert!(rounds < 20, "two intervals of four rounds");
        }
        assert!(rounds >= 8);
        let rate = rate_bytes(&core, bbr.believed_bw(), UNIT);
        let real = 100 * 1448 * 25;
        assert!(rate.abs_diff(real) < real / 8, "{rate} of {real}");
        core.packets_out = 0;
        let mut believed = 0;
        while bbr.policer.in_use {
            round(&mut bbr, &mut core, 100, 0);
            core.packets_out = 0;
            bbr.check_drain(&mut core);
            believed += 1;
            assert!(believed < 80);
        }
        assert!(believed >= 48, "{believed}");
    }
}
