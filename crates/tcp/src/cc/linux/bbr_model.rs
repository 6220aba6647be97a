//! Arithmetic that the versions of BBR share (tcp_bbr.c): rates, bandwidth times delay, and how much ACKs bunch up.

use super::{CaState, Core, RateSample};

/// Bandwidth is in packets per microsecond times 2^24.
pub(super) const BW_SCALE: u32 = 24;
pub(super) const BW_UNIT: u64 = 1 << BW_SCALE;
/// Gains and shares are in 1/256.
pub(super) const GAIN_SCALE: u32 = 8;
pub(super) const UNIT: u32 = 1 << GAIN_SCALE;
/// The smallest window, packets.
pub(super) const MIN_CWND: u32 = 4;
/// The minimum RTT is that of so many seconds.
pub(super) const MIN_RTT_SECONDS: u64 = 10;
/// Time in PROBE_RTT, milliseconds.
pub(super) const PROBE_RTT_MS: u64 = 200;
/// The pipe is full after this many rounds without 25 % growth.
pub(super) const FULL_BW_ROUNDS: u32 = 3;
/// Window over which ACK aggregation is remembered, twice: round trips.
pub(super) const AGGREGATION_ROUNDS: u32 = 5;
/// The pacing rate is that much below the bandwidth, per cent.
const MARGIN_PERCENT: u64 = 1;
/// Longest aggregation provided for, microseconds.
const AGGREGATION_US: u64 = 100_000;
/// An aggregation epoch ends after so many packets at the latest.
const AGGREGATION_RESET: u64 = 1 << 20;
/// Rates below this (bytes per second) send single segments.
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// Round trip before the first sample, microseconds.
const FIRST_RTT_US: u64 = 1000;

/// Bytes per second of gain * bw, less the margin. Both shifts round down.
#[inline]
pub(super) fn rate_bytes(core: &Core, bw: u64, gain: u32) -> u64 {
    let rate = (u128::from(bw) * u128::from(core.mss) * u128::from(gain)) >> GAIN_SCALE;
    ((rate * u128::from(1_000_000 / 100 * (100 - MARGIN_PERCENT))) >> BW_SCALE) as u64
}

/// Bytes per second of gain * cwnd in a round trip, of a millisecond before the first sample.
pub(super) fn initial_rate(core: &Core, gain: u32) -> u64 {
    let rtt_us = if core.srtt_us > 0 { core.srtt_us } else { FIRST_RTT_US };
    rate_bytes(core, u64::from(core.cwnd) * BW_UNIT / rtt_us, gain)
}

/// gain * bw * min_rtt in packets, rounded up.
#[inline]
pub(super) fn bdp(bw: u64, min_rtt_us: u32, gain: u32) -> u32 {
    let product = u128::from(bw) * u128::from(min_rtt_us) * u128::from(gain);
    ((product >> GAIN_SCALE) as u64).div_ceil(BW_UNIT) as u32
}

/// Packets of those `inflight` that will be in the network when the next packet may leave.
pub(super) fn in_net_at_departure(core: &Core, bw: u64, inflight: u32) -> u32 {
    let wait_us = core.departure.max(core.now).saturating_sub(core.now) / 1000;
    u64::from(inflight).saturating_sub((bw * wait_us) >> BW_SCALE) as u32
}

/// The window to come back to, where `prior` was kept before: the largest of an episode of loss or of PROBE_RTT.
pub(super) fn window_to_restore(core: &Core, state: CaState, in_probe_rtt: bool, prior: u32) -> u32 {
    if state < CaState::Recovery && !in_probe_rtt { core.cwnd } else { prior.max(core.cwnd) }
}

/// The smallest burst of versions 1 and 2, segments.
pub(super) fn min_tso_segs(core: &Core) -> u32 {
    if core.pacing_rate < MIN_TSO_RATE { 1 } else { 2 }
}

/// Whether a sample tells of a bandwidth.
#[inline]
pub(super) fn is_valid(sample: &RateSample) -> bool {
    sample.delivered.is_some() && sample.interval_us > 0
}

/// Aggregation: how much ACKs bunch up.
#[derive(Debug, Default)]
pub(super) struct Aggregation {
    epoch_start: u64,
    epoch_acked: u64,
    extra: [u32; 2],
    rounds: u32,
    index: usize,
}

impl Aggregation {
    /// Begins an epoch at a time in microseconds.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.epoch_start = now_us;
        self.epoch_acked = 0;
    }

    /// Counts an ACK. `bw` is what the path is believed to carry; `window` in round trips, of which one begins at `round_start`.
    #[inline]
    pub(super) fn update(
        &mut self,
        core: &Core,
        sample: &RateSample,
        bw: u64,
        round_start: bool,
        window: u32,
    ) {
        if sample.acked_sacked == 0 || !is_valid(sample) {
            return;
        }
        if round_start {
            self.rounds = (self.rounds + 1).min(0x1f);
            if self.rounds >= window {
                self.rounds = 0;
                self.index ^= 1;
                self.extra[self.index] = 0;
            }
        }
        let elapsed = core.delivered_mstamp.saturating_sub(self.epoch_start);
        let mut expected = ((u128::from(bw) * u128::from(elapsed)) >> BW_SCALE) as u64;
        let acked = u64::from(sample.acked_sacked);
        if self.epoch_acked <= expected || self.epoch_acked + acked >= AGGREGATION_RESET {
            self.begin(core.delivered_mstamp);
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + acked).min(AGGREGATION_RESET - 1);
        let extra = self.epoch_acked.saturating_sub(expected).min(u64::from(core.cwnd)) as u32;
        self.extra[self.index] = self.extra[self.index].max(extra);
    }

    /// Packets that the window has room for besides, where the path carries `bw`.
    #[inline]
    pub(super) fn cwnd(&self, bw: u64) -> u32 {
        let most = (bw * AGGREGATION_US / BW_UNIT) as u32;
        self.extra[0].max(self.extra[1]).min(most)
    }
}
