//! BBR version 3 as google/bbr's branch v3 has it (tcp_bbr.c), and version 2 as L4STeam's kernels do (tcp_bbr2.c): a model of the path
//! with upper bounds that probing finds and lower bounds that loss and marks draw between probes.

mod bounds;
mod phases;
mod rules;
#[cfg(test)]
mod tests;

use super::bbr_events::{Model, Teller};
use super::bbr_model::{
    self as model, AGGREGATION_ROUNDS, Aggregation, BW_UNIT, FULL_BW_ROUNDS, GAIN_SCALE, MIN_CWND,
    MIN_RTT_SECONDS, PROBE_RTT_MS, UNIT, is_valid,
};
use super::dctcp::EchoChanges;
use super::{
    CaState, CongestionControl, Core, CwndEvent, INFINITE_SSTHRESH, INIT_CWND, LostPacket, RateSample,
};
use crate::event::EventKind;
use crate::linux_config::{BoundedBbr, Growth, Shared};
use rules::{Rules, THREE, TWO};

/// A bound that is not known.
const UNBOUND: u32 = u32::MAX;
/// cwnd above the BDP in steady state but for PROBE_UP.
const CWND_GAIN: u32 = 2 * UNIT;
/// Pacing gain in PROBE_UP.
const PROBE_UP_PACING_GAIN: u32 = UNIT * 5 / 4;
/// Part of the BDP that stays in flight in PROBE_RTT.
const PROBE_RTT_CWND_GAIN: u32 = UNIT / 2;
/// PROBE_RTT comes after so long without a lower round trip, milliseconds.
const PROBE_RTT_INTERVAL_MS: u64 = 5000;
/// A burst of a short path halves for each 2^9 microseconds of its round trip.
const TSO_RTT_SHIFT: u32 = 9;
/// The largest burst, bytes (GSO_LEGACY_MAX_SIZE), and what of it is for headers.
const MAX_BURST: u64 = 65_536;
const BURST_HEADERS: u64 = 1 + 320;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Phase of PROBE_BW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    Down,
    Cruise,
    Refill,
}

/// Meaning of the ACKs that come, while the path is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The `bbr3` and the `bbr2` module.
#[derive(Debug)]
pub(super) struct Bbr3 {
    rules: &'static Rules,
    params: BoundedBbr,
    min_tso_segs: u32,
    mode: Mode,
    phase: Phase,
    ack_phase: AckPhase,
    pacing_gain: u32,
    cwnd_gain: u32,

    /// Highest bandwidth of the last cycle of probing and of this one.
    bw_hi: [u32; 2],
    bw_lo: u32,
    /// Bandwidth that this ACK tells of.
    bw_sample: u32,
    inflight_hi: u32,
    inflight_lo: u32,
    /// Most of the last round trip.
    bw_latest: u32,
    inflight_latest: u32,
    /// Bounds before the episode of loss under way.
    undo: Undo,

    min_rtt_us: u32,
    /// Jiffies.
    min_rtt_stamp: u64,
    probe_rtt_min_us: u32,
    /// Jiffies.
    probe_rtt_min_stamp: u64,
    /// Jiffies. None: PROBE_RTT waits for the window to drain.
    probe_rtt_done: Option<u64>,
    probe_rtt_round_done: bool,

    next_round_delivered: u64,
    round_start: bool,
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    ecn_in_round: bool,
    loss_in_cycle: bool,
    ecn_in_cycle: bool,
    /// Losses in a round of start-up, as ACKs that tell of some.
    loss_events: u32,

    full_bw: u32,
    full_bw_rounds: u32,
    /// Growth has ended lately; and once, in start-up.
    full_bw_now: bool,
    full_bw_reached: bool,

    /// Beginning of the phase, microseconds.
    cycle_stamp: u64,
    probe_wait_us: u64,
    rounds_since_probe: u32,
    /// Samples are of packets that probed.
    probe_samples: bool,
    prev_probe_too_high: bool,
    stopped_risky_probe: bool,
    up_rounds: u32,
    /// Packets acknowledged per packet that `inflight_hi` grows, and so far.
    up_count: u32,
    up_acks: u32,

    ecn_eligible: bool,
    ecn_alpha: u32,
    alpha_delivered: u64,
    alpha_delivered_ce: u64,
    startup_ecn_rounds: u32,
    echo: EchoChanges,

    prior_state: CaState,
    prior_cwnd: u32,
    init_cwnd: u32,
    idle_restart: bool,
    has_seen_rtt: bool,
    try_fast_path: bool,
    aggregation: Aggregation,
    teller: Teller,
}

#[derive(Debug, Default)]
struct Undo {
    bw_lo: u32,
    inflight_lo: u32,
    inflight_hi: u32,
}

impl Bbr3 {
    pub(super) fn version_2(config: &Shared) -> Bbr3 {
        Bbr3::new(&TWO, config.bbr2, config)
    }

    pub(super) fn version_3(config: &Shared) -> Bbr3 {
        Bbr3::new(&THREE, config.bbr3, config)
    }

    fn new(rules: &'static Rules, params: BoundedBbr, config: &Shared) -> Bbr3 {
        Bbr3 {
            rules,
            params,
            min_tso_segs: config.min_tso_segs,
            mode: Mode::Startup,
            phase: Phase::Up,
            ack_phase: AckPhase::Init,
            pacing_gain: rules.startup_pacing_gain,
            cwnd_gain: rules.startup_cwnd_gain,
            bw_hi: [0; 2],
            bw_lo: UNBOUND,
            bw_sample: 0,
            inflight_hi: UNBOUND,
            inflight_lo: UNBOUND,
            bw_latest: 0,
            inflight_latest: 0,
            undo: Undo::default(),
            min_rtt_us: UNBOUND,
            min_rtt_stamp: 0,
            probe_rtt_min_us: UNBOUND,
            probe_rtt_min_stamp: 0,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            next_round_delivered: 0,
            round_start: false,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            ecn_in_round: false,
            loss_in_cycle: false,
            ecn_in_cycle: false,
            loss_events: 0,
            full_bw: 0,
            full_bw_rounds: 0,
            full_bw_now: false,
            full_bw_reached: false,
            cycle_stamp: 0,
            probe_wait_us: 0,
            rounds_since_probe: 0,
            probe_samples: false,
            prev_probe_too_high: false,
            stopped_risky_probe: false,
            up_rounds: 0,
            up_count: UNBOUND,
            up_acks: 0,
            ecn_eligible: false,
            ecn_alpha: UNIT,
            alpha_delivered: 0,
            alpha_delivered_ce: 0,
            startup_ecn_rounds: 0,
            echo: EchoChanges::default(),
            prior_state: CaState::Open,
            prior_cwnd: 0,
            init_cwnd: INIT_CWND,
            idle_restart: false,
            has_seen_rtt: false,
            try_fast_path: false,
            aggregation: Aggregation::default(),
            teller: Teller::default(),
        }
    }

    /// Tells that a phase begins.
    fn tell(&mut self, core: &mut Core, phase: EventKind) {
        let model = self.model();
        self.teller.phase(core, phase, model);
    }

    /// Tells what has changed of the model.
    fn tell_model(&mut self, core: &mut Core) {
        let model = self.model();
        self.teller.model(core, model);
    }

    fn model(&self) -> Model {
        let bound = |value: u32| Some(value).filter(|&value| value != UNBOUND);
        Model {
            bw_hi: Some(self.max_bw()).filter(|&bw| bw > 0).map(u64::from),
            bw_lo: bound(self.bw_lo).map(u64::from),
            inflight_hi: bound(self.inflight_hi),
            inflight_lo: bound(self.inflight_lo),
            min_rtt: bound(self.min_rtt_us),
        }
    }

    #[inline]
    fn max_bw(&self) -> u32 {
        self.bw_hi[0].max(self.bw_hi[1])
    }

    #[inline]
    fn bw(&self) -> u32 {
        self.max_bw().min(self.bw_lo)
    }

    #[inline]
    fn is_up(&self) -> bool {
        self.mode == Mode::ProbeBw && self.phase == Phase::Up
    }

    fn is_probing(&self) -> bool {
        self.mode == Mode::Startup
            || self.mode == Mode::ProbeBw && matches!(self.phase, Phase::Refill | Phase::Up)
    }

    /// gain * bw * min_rtt in packets, rounded up.
    #[inline]
    fn bdp(&self, bw: u32, gain: u32) -> u32 {
        if self.min_rtt_us == UNBOUND {
            return self.init_cwnd;
        }
        model::bdp(bw.into(), self.min_rtt_us, gain)
    }

    /// Room for bursts that sender and receiver need.
    #[inline]
    fn quantise(&self, core: &Core, packets: u32) -> u32 {
        packets.max(3 * core.tso_segs).max(MIN_CWND) + if self.is_up() { 2 } else { 0 }
    }

    #[inline]
    fn inflight_for(&self, core: &Core, bw: u32, gain: u32) -> u32 {
        self.quantise(core, self.bdp(bw, gain))
    }

    /// Packets that shall be in flight: the BDP, unless congestion has cut cwnd.
    fn target_inflight(&self, core: &Core) -> u32 {
        self.inflight_for(core, self.bw(), UNIT).min(core.cwnd)
    }

    /// Segments of one burst: a millisecond of the pacing rate, and up to 64 KB on short paths (bbr_tso_segs).
    fn size_bursts(&self, core: &mut Core) {
        let mut bytes = core.pacing_rate >> 10;
        bytes += MAX_BURST.checked_shr(self.min_rtt_us >> TSO_RTT_SHIFT).unwrap_or(0);
        let bytes = bytes.min(MAX_BURST - BURST_HEADERS);
        let least = if self.rules.is_2 { model::min_tso_segs(core) } else { self.min_tso_segs };
        core.tso_segs = ((bytes / u64::from(core.mss.max(1))) as u32).max(least);
    }

    /// Packets that will be in the network when the next packet may leave.
    fn in_net_at_departure(&self, core: &Core, now: u32) -> u32 {
        let burst = if self.pacing_gain > UNIT { core.tso_segs } else { 0 };
        model::in_net_at_departure(core, self.bw().into(), now + burst)
    }

    fn set_initial_pacing_rate(&mut self, core: &mut Core) {
        self.has_seen_rtt |= core.srtt_us > 0;
        core.pacing_rate = model::initial_rate(core, self.rules.startup_pacing_gain).max(1);
    }

    fn set_pacing_rate(&mut self, core: &mut Core, bw: u32, gain: u32) {
        let rate = model::rate_bytes(core, bw.into(), gain).max(1);
        if !self.has_seen_rtt && core.srtt_us > 0 {
            self.set_initial_pacing_rate(core);
        }
        if self.full_bw_reached || rate > core.pacing_rate {
            core.pacing_rate = rate;
        }
        self.size_bursts(core);
    }

    fn save_cwnd(&mut self, core: &Core) {
        let in_probe_rtt = self.mode == Mode::ProbeRtt;
        self.prior_cwnd = model::window_to_restore(core, self.prior_state, in_probe_rtt, self.prior_cwnd);
    }

    fn update_round(&mut self, core: &Core, sample: &RateSample) {
        self.round_start = is_valid(sample) && sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.next_round_delivered = core.delivered;
            self.rounds_since_probe = (self.rounds_since_probe + 1).min(0xff);
            self.update_ecn_alpha(core);
        }
    }

    fn update_aggregation(&mut self, core: &Core, sample: &RateSample) {
        let window = if self.full_bw_reached { AGGREGATION_ROUNDS } else { 1 };
        self.aggregation.update(core, sample, self.bw().into(), self.round_start, window);
    }

    fn reset_full_bw(&mut self, bw: u32) {
        self.full_bw = bw;
        self.full_bw_rounds = 0;
        self.full_bw_now = false;
    }

    fn check_full_bw(&mut self, sample: &RateSample) {
        if self.full_bw_now || sample.is_app_limited {
            return;
        }
        let bw = match self.params.growth {
            Growth::OfRounds if !self.round_start => return,
            Growth::OfRounds => self.max_bw(),
            Growth::OfSamples => self.bw_sample,
        };
        if u64::from(bw) >= u64::from(self.full_bw) * 5 / 4 {
            self.reset_full_bw(bw);
            return;
        }
        if self.round_start {
            self.full_bw_rounds += 1;
            self.full_bw_now = self.full_bw_rounds >= FULL_BW_ROUNDS;
            self.full_bw_reached |= self.full_bw_now;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match (self.mode, self.phase) {
            (Mode::Startup, _) => (self.rules.startup_pacing_gain, self.rules.startup_cwnd_gain),
            (Mode::Drain, _) => (self.params.drain_gain, self.rules.startup_cwnd_gain),
            (Mode::ProbeBw, Phase::Up) => (PROBE_UP_PACING_GAIN, self.params.up_cwnd_gain),
            (Mode::ProbeBw, Phase::Down) => (self.params.down_gain, CWND_GAIN),
            (Mode::ProbeBw, Phase::Cruise | Phase::Refill) => (UNIT, CWND_GAIN),
            (Mode::ProbeRtt, _) => (UNIT, UNIT),
        };
    }

    fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bw(), PROBE_RTT_CWND_GAIN).max(MIN_CWND)
    }

    /// Approaches the target from below, and is there at once from above.
    fn set_cwnd(&mut self, core: &mut Core, sample: &RateSample) {
        if sample.acked_sacked > 0 {
            let target = self.bdp(self.bw(), self.cwnd_gain) + self.aggregation.cwnd(self.bw().into());
            let target = self.quantise(core, target);
            let mut cwnd = core.cwnd;
            self.try_fast_path = false;
            if self.full_bw_reached {
                cwnd += sample.acked_sacked;
                if cwnd >= target {
                    cwnd = target;
                    self.try_fast_path = true;
                }
            } else if cwnd < target || cwnd < 2 * self.init_cwnd {
                cwnd += sample.acked_sacked;
            } else {
                self.try_fast_path = true;
            }
            core.cwnd = cwnd.max(MIN_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            core.cwnd = core.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    fn update_model(&mut self, core: &mut Core, sample: &RateSample) {
        if self.rules.is_2 {
            self.update_latest_delivery(core, sample);
        }
        self.update_congestion_signals(core, sample);
        if self.rules.is_2 {
            self.advance_latest_delivery(sample);
        }
        self.update_aggregation(core, sample);
        self.check_loss_in_startup(core, sample);
        self.check_full_bw(sample);
        self.check_drain(core);
        self.update_cycle(core, sample);
        self.update_min_rtt(core, sample);
    }

    /// An application that sends less than the path takes changes nothing of the model: true if that is all (bbr_run_fast_path).
    /// `updates` becomes false where the rest of the model stays as it is.
    fn run_fast_path(&mut self, core: &mut Core, sample: &RateSample, updates: &mut bool) -> bool {
        if !self.try_fast_path
            || !sample.is_app_limited
            || self.bw_sample >= self.max_bw()
            || self.loss_in_round
            || self.ecn_in_round
        {
            return false;
        }
        let (mode, min_rtt) = (self.mode, self.min_rtt_us);
        self.check_drain(core);
        self.update_cycle(core, sample);
        self.update_min_rtt(core, sample);
        *updates = false;
        self.mode == mode && self.min_rtt_us == min_rtt && self.try_fast_path
    }

    fn can_use_ecn(&self, core: &Core) -> bool {
        core.ecn && self.params.marks
    }
}

/// `share` of `value`, in 1/256.
#[inline]
fn part(value: u32, share: u32) -> u32 {
    ((u64::from(value) * u64::from(share)) >> GAIN_SCALE) as u32
}

impl CongestionControl for Bbr3 {
    fn init(&mut self, core: &mut Core) {
        self.init_cwnd = core.cwnd.min(0x7f);
        self.prior_cwnd = core.prior_cwnd;
        core.ssthresh = INFINITE_SSTHRESH;
        core.pacing = true;
        self.next_round_delivered = if self.rules.is_2 { 0 } else { core.delivered };
        self.probe_rtt_min_us = core.min_rtt_us;
        self.probe_rtt_min_stamp = core.jiffies;
        self.min_rtt_us = core.min_rtt_us;
        self.min_rtt_stamp = core.jiffies;
        self.set_initial_pacing_rate(core);
        self.size_bursts(core);
        self.aggregation.begin(core.now_us());
        self.echo = EchoChanges::new(core);
        // Marks and losses are sampled from when the first flight is acknowledged.
        self.loss_round_delivered = core.delivered + 1;
        self.tell(core, EventKind::BbrStartup);
    }

    /// An episode of loss begins: what it changes is kept.
    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.save_cwnd(core);
        self.undo = Undo { bw_lo: self.bw_lo, inflight_lo: self.inflight_lo, inflight_hi: self.inflight_hi };
        core.ssthresh
    }

    fn cong_avoid(&mut self, _core: &mut Core, _ack: u64, _acked: u32) {
        // The window is cong_control's.
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        if state == CaState::Loss {
            self.prior_state = CaState::Loss;
            self.reset_full_bw(0);
            if !self.is_probing() && self.inflight_lo == UNBOUND {
                self.inflight_lo = core.cwnd.max(self.prior_cwnd);
            }
        } else if self.prior_state == CaState::Loss {
            core.cwnd = core.cwnd.max(self.prior_cwnd);
            self.try_fast_path = false;
        }
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        match event {
            CwndEvent::TxStart if core.app_limited != 0 => {
                self.idle_restart = true;
                self.aggregation.begin(core.now_us());
                // No burst after idleness: the rate the path had.
                if self.mode == Mode::ProbeBw {
                    self.set_pacing_rate(core, self.bw(), UNIT);
                } else if self.mode == Mode::ProbeRtt {
                    self.check_probe_rtt_done(core);
                }
            }
            CwndEvent::EcnIsCe | CwndEvent::EcnNoCe if self.can_use_ecn(core) => {
                self.echo.on_data(core, event == CwndEvent::EcnIsCe);
            }
            CwndEvent::TlpRecovery if !self.rules.is_2 => self.on_loss_probe_recovery(core),
            _ => {}
        }
    }

    /// The episode was spurious.
    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        self.reset_full_bw(0);
        self.loss_in_round = false;
        self.bw_lo = self.bw_lo.max(self.undo.bw_lo);
        self.inflight_lo = self.inflight_lo.max(self.undo.inflight_lo);
        self.inflight_hi = self.inflight_hi.max(self.undo.inflight_hi);
        self.try_fast_path &= self.rules.is_2;
        self.tell_model(core);
        self.prior_cwnd
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn cong_control(&mut self, core: &mut Core, sample: &RateSample) {
        self.update_round(core, sample);
        self.ecn_in_round |= (self.ecn_eligible || self.rules.is_2) && sample.is_ece;
        self.bw_sample = match sample.delivered {
            Some(delivered) if sample.interval_us > 0 => {
                (u64::from(delivered) * BW_UNIT).div_ceil(sample.interval_us) as u32
            }
            _ => 0,
        };
        if !self.rules.is_2 {
            self.update_latest_delivery(core, sample);
        }
        let mut updates = true;
        if !self.run_fast_path(core, sample, &mut updates) {
            if updates {
                self.update_model(core, sample);
            }
            self.update_gains();
            self.set_pacing_rate(core, self.bw(), self.pacing_gain);
            self.set_cwnd(core, sample);
            self.bound_cwnd(core);
        }
        if !self.rules.is_2 {
            self.advance_latest_delivery(sample);
        }
        self.prior_state = core.state;
        self.loss_in_cycle |= sample.lost > 0;
        self.ecn_in_cycle |= sample.delivered_ce > 0;
    }

    fn sndbuf_expand(&mut self, _core: &Core) -> u32 {
        3
    }

    fn hears_ecn(&self) -> bool {
        self.params.marks
    }

    fn sends_ect1(&self) -> bool {
        self.rules.is_2
    }

    fn hears_losses(&self) -> bool {
        true
    }

    fn packet_lost(&mut self, core: &mut Core, packet: &LostPacket) {
        self.on_packet_lost(core, packet);
    }
}
