//! CUBIC as Linux has it (tcp_cubic.c of 3.9, 6.8 and 6.18), in integers, with HyStart.

use super::{AckSample, CaState, CongestionControl, Core, CwndEvent};
use crate::linux_config::{Config, Counting, Shared};

/// Denominator of [`Constants::beta`].
const BETA_SCALE: u32 = 1024;
/// HyStart acts from this window on, packets (hystart_low_window).
const HYSTART_LOW_WINDOW: u32 = 16;
/// RTT samples of a round before the delay test (HYSTART_MIN_SAMPLES).
const HYSTART_MIN_SAMPLES: u32 = 8;
/// Largest gap of an ACK train, microseconds (hystart_ack_delta_us).
const HYSTART_ACK_DELTA_US: i64 = 2000;
/// Bounds of the delay threshold, microseconds.
const HYSTART_DELAY_US: (u32, u32) = (4000, 16000);
/// Fraction bits of 3.9's packets-per-ACK ratio.
const ACK_RATIO_SHIFT: u32 = 4;
/// Largest such ratio: 32 packets per ACK.
const ACK_RATIO_LIMIT: u32 = 32 << ACK_RATIO_SHIFT;

/// Constants of the kernel's module, and parameters of it that nobody sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cc) struct Constants {
    /// Multiplicative decrease, as a fraction of [`BETA_SCALE`].
    pub beta: u32,
    /// Reno-friendly growth: one packet per `this cwnd / 8` acknowledged; 8 (1 + beta) / (3 (1 - beta)) in integers.
    pub friendly_scale: u32,
    /// C as `this / 2^40` packets per (1/1024 s)^3: bic_scale times 10.
    pub cube_rtt_scale: u64,
    /// K = cbrt(packets * this), in 1/1024 s.
    pub cube_factor: u64,
    /// Whether a flow that lost below its last maximum makes room.
    pub fast_convergence: bool,
}

impl Constants {
    /// The kernel's: beta_cubic = 0.7002, C = 0.4004 packets/s^3.
    pub(crate) const KERNEL: Constants = Constants::new(717, 410, true);

    /// Makes the constants of a beta in 1/1024 and a C in 1/1024 packets/s^3.
    pub(crate) const fn new(beta: u32, c: u64, fast_convergence: bool) -> Constants {
        Constants {
            beta,
            friendly_scale: 8 * (BETA_SCALE + beta) / 3 / (BETA_SCALE - beta),
            cube_rtt_scale: c,
            cube_factor: (1 << 40) / c,
            fast_convergence,
        }
    }
}

/// The `cubic` module.
#[derive(Debug)]
// Begins with a cache line: from the middle of one it would reach into one more.
#[repr(align(64))]
pub(in crate::cc) struct Cubic {
    config: Shared,
    /// Packets to acknowledge per increment.
    cnt: u32,
    last_max_cwnd: u32,
    last_cwnd: u32,
    last_time: u64,
    origin: u32,
    /// K in 1/1024 s.
    k: u32,
    /// Minimum RTT, microseconds; 0: none yet.
    delay_min: u32,
    /// Jiffies; 0: no epoch.
    epoch_start: u64,
    ack_cnt: u32,
    tcp_cwnd: u32,
    /// cwnd at the last loss (3.9's undo).
    loss_cwnd: u32,
    /// 3.9: packets per ACK, times 16.
    ratio16: u32,
    hystart: HyStart,
    constants: Constants,
}

/// State of a HyStart round.
#[derive(Debug, Default)]
struct HyStart {
    found: bool,
    /// Microseconds (Linux 3.9: milliseconds), as is `last_ack`.
    round_start: u64,
    last_ack: u64,
    end_seq: u64,
    samples: u32,
    /// Lowest RTT of the round, microseconds; u32::MAX: none yet.
    round_min: u32,
}

impl Cubic {
    pub(super) fn new(config: &Shared) -> Cubic {
        Cubic::with(config, Constants::KERNEL)
    }

    pub(in crate::cc) fn with(config: &Shared, constants: Constants) -> Cubic {
        Cubic {
            config: config.clone(),
            cnt: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            delay_min: 0,
            epoch_start: 0,
            ack_cnt: 0,
            tcp_cwnd: 0,
            loss_cwnd: 0,
            ratio16: 2 << ACK_RATIO_SHIFT,
            hystart: HyStart::default(),
            constants,
        }
    }

    fn counts_acks(&self) -> bool {
        self.config.counting == Counting::Acks
    }

    /// Forgets all but the window that a timeout cut, for an undo.
    fn reset(&mut self) {
        let (loss_cwnd, hystart) = (self.loss_cwnd, std::mem::take(&mut self.hystart));
        let config = self.config.clone();
        *self = Cubic { loss_cwnd, ..Cubic::with(&config, self.constants) };
        self.hystart = HyStart { found: false, ..hystart };
    }

    fn hystart_reset(&mut self, core: &Core) {
        let clock = self.hystart_clock(core);
        self.hystart.round_start = clock;
        self.hystart.last_ack = clock;
        self.hystart.end_seq = core.nxt;
        self.hystart.round_min = u32::MAX;
        self.hystart.samples = 0;
    }

    /// Microseconds in modern kernels, milliseconds in 3.9, at any frequency of the clock.
    fn hystart_clock(&self, core: &Core) -> u64 {
        if self.counts_acks() { core.now_us() / 1000 } else { core.now_us() }
    }

    /// 3.9's tests (milliseconds; the round's minimum is frozen after eight samples).
    fn hystart_update_3_9(&mut self, core: &mut Core, delay_us: u32) {
        if self.hystart.found {
            return;
        }
        let now = self.hystart_clock(core);
        let h = &mut self.hystart;
        let mut found = false;
        if now - h.last_ack <= (HYSTART_ACK_DELTA_US / 1000) as u64 {
            h.last_ack = now;
            // delay_min in 1/8 ms, shifted by 4: half of it in ms.
            let half_ms = (u64::from(self.delay_min) * 8 / 1000) >> 4;
            found |= now - h.round_start > half_ms;
        }
        if h.samples < HYSTART_MIN_SAMPLES {
            h.round_min = h.round_min.min(delay_us);
            h.samples += 1;
        } else {
            let threshold = (self.delay_min >> 4).clamp(HYSTART_DELAY_US.0, HYSTART_DELAY_US.1);
            found |= h.round_min > self.delay_min + threshold;
        }
        if found {
            h.found = true;
            core.ssthresh = core.cwnd;
        }
    }

    fn hystart_update(&mut self, core: &mut Core, delay_us: u32) {
        if core.una > self.hystart.end_seq {
            self.hystart_reset(core);
        }
        if core.cwnd < HYSTART_LOW_WINDOW {
            return;
        }
        let now = core.now_us();
        let threshold_paced = self.delay_min as u64 + ack_delay_us(core, &self.config);
        let h = &mut self.hystart;
        if (now as i64) - (h.last_ack as i64) <= HYSTART_ACK_DELTA_US {
            h.last_ack = now;
            let paced = core.pacing || self.config.paced_by_queue;
            let threshold = if paced { threshold_paced } else { threshold_paced >> 1 };
            if now - h.round_start > threshold {
                h.found = true;
                core.ssthresh = core.cwnd;
            }
        }
        h.round_min = h.round_min.min(delay_us);
        if h.samples < HYSTART_MIN_SAMPLES {
            h.samples += 1;
        } else {
            let slack = (self.delay_min >> 3).clamp(HYSTART_DELAY_US.0, HYSTART_DELAY_US.1);
            if h.round_min > self.delay_min + slack {
                h.found = true;
                core.ssthresh = core.cwnd;
            }
        }
    }

    /// Sets `cnt` for the window and the time since the epoch began.
    fn update(&mut self, core: &Core, acked: u32) {
        let cwnd = core.cwnd;
        let modern = !self.counts_acks();
        self.ack_cnt += acked;
        let now = core.jiffies;
        let hz = u64::from(core.hz);
        if self.last_cwnd == cwnd && now - self.last_time <= hz / 32 {
            return;
        }
        // Modern kernels evaluate the cubic at most once a jiffy; friendliness is tested every time.
        if !(modern && self.epoch_start != 0 && now == self.last_time) {
            self.last_cwnd = cwnd;
            self.last_time = now;
            if self.epoch_start == 0 {
                self.epoch_start = now;
                self.ack_cnt = acked;
                self.tcp_cwnd = cwnd;
                if self.last_max_cwnd <= cwnd {
                    self.k = 0;
                    self.origin = cwnd;
                } else {
                    self.k = cubic_root(self.constants.cube_factor * u64::from(self.last_max_cwnd - cwnd));
                    self.origin = self.last_max_cwnd;
                }
            }
            let min_rtt_jiffies = if modern {
                (u64::from(self.delay_min) * hz).div_ceil(1_000_000)
            } else {
                (u64::from(self.delay_min / 1000) * hz).div_ceil(1000)
            };
            let t = ((now + min_rtt_jiffies - self.epoch_start) << 10) / hz;
            let k = u64::from(self.k);
            let offset = t.abs_diff(k);
            // An epoch that lasts for an hour, as nothing is lost, is beyond 64 bits.
            let cubed = offset.saturating_pow(3);
            let delta = (cubed.saturating_mul(self.constants.cube_rtt_scale) >> 40) as u32;
            let target =
                if t < k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
            self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
            // No loss known yet: at least 5 % per round trip.
            if self.last_max_cwnd == 0 && self.cnt > 20 {
                self.cnt = 20;
            }
        }
        let step = (cwnd * self.constants.friendly_scale) >> 3;
        while self.ack_cnt > step {
            self.ack_cnt -= step;
            self.tcp_cwnd += 1;
        }
        if self.tcp_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
        }
        self.cnt =
            if modern { self.cnt.max(2) } else { ((self.cnt << ACK_RATIO_SHIFT) / self.ratio16).max(1) };
    }
}

impl CongestionControl for Cubic {
    fn init(&mut self, core: &mut Core) {
        self.reset();
        self.hystart_reset(core);
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.epoch_start = 0;
        let Constants { beta, fast_convergence, .. } = self.constants;
        self.last_max_cwnd = if core.cwnd < self.last_max_cwnd && fast_convergence {
            core.cwnd * (BETA_SCALE + beta) / (2 * BETA_SCALE)
        } else {
            core.cwnd
        };
        self.loss_cwnd = core.cwnd;
        (core.cwnd * beta / BETA_SCALE).max(2)
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        if self.counts_acks() {
            if !core.was_cwnd_limited(&self.config) {
                return;
            }
            if core.cwnd <= core.ssthresh {
                if ack > self.hystart.end_seq {
                    self.hystart_reset(core);
                }
                core.slow_start_acks(self.config.max_ssthresh);
            } else {
                self.update(core, 1);
                core.avoid_acks(self.cnt);
            }
            return;
        }
        if let Some(left) = core.left_for_avoidance(acked) {
            self.update(core, left);
            core.avoid_packets(self.cnt, left);
        }
    }

    fn pkts_acked(&mut self, core: &mut Core, sample: &AckSample) {
        if self.counts_acks() && core.state == CaState::Open {
            let ratio = self.ratio16 + sample.packets - (self.ratio16 >> ACK_RATIO_SHIFT);
            self.ratio16 = ratio.min(ACK_RATIO_LIMIT);
        }
        let Some(rtt_us) = sample.rtt_us else { return };
        // Samples just after a reduction are not of this path at rest.
        if self.epoch_start != 0 && core.jiffies - self.epoch_start < u64::from(core.hz) {
            return;
        }
        let delay = rtt_us.max(1);
        if self.delay_min == 0 || self.delay_min > delay {
            self.delay_min = delay;
        }
        if self.counts_acks() {
            if core.cwnd <= core.ssthresh && core.cwnd >= HYSTART_LOW_WINDOW {
                self.hystart_update_3_9(core, delay);
            }
        } else if !self.hystart.found
            && core.in_slow_start()
            && (self.config.hystart_rounds_at_any_window || core.cwnd >= HYSTART_LOW_WINDOW)
        {
            self.hystart_update(core, delay);
        }
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        if state == CaState::Loss {
            self.reset();
            self.hystart_reset(core);
        }
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        // After idleness the epoch moves on, so that the window does not jump (since 4.4).
        if event == CwndEvent::TxStart && !self.counts_acks() && self.epoch_start != 0 {
            let idle = core.jiffies.saturating_sub(core.last_sent_jiffies);
            if idle > 0 {
                self.epoch_start = (self.epoch_start + idle).min(core.jiffies);
            }
        }
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        if self.counts_acks() { core.cwnd.max(self.loss_cwnd) } else { core.cwnd.max(core.prior_cwnd) }
    }
}

/// Time for which offloads may hold ACKs back: that of four 64 KB bursts, at most a millisecond.
fn ack_delay_us(core: &Core, config: &Config) -> u64 {
    let rate = if core.pacing { core.pacing_rate } else { core.usual_pacing_rate(config) };
    (4 * 65_536 * 1_000_000u64).checked_div(rate).unwrap_or(0).min(1000)
}

/// Cube roots of the leading bits of a number, in 1/64, as tcp_cubic.c has them: some are off by hand, so that one
/// step of Newton's leaves the least error on average.
#[rustfmt::skip]
const CUBE_ROOTS: [u8; 64] = [
      0,  54,  54,  54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156,
    157, 161, 164, 168, 170, 173, 176, 179, 181, 185, 187, 190, 192, 194, 197, 199,
    200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227, 229,
    231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
];

/// The kernel's cube root, 0.2 % off on average: a table, and one step of Newton's that divides by x (x - 1), not x^2.
fn cubic_root(a: u64) -> u32 {
    let bits = u64::BITS - a.leading_zeros();
    if bits < 7 {
        return (u32::from(CUBE_ROOTS[a as usize]) + 35) >> 6;
    }
    let third = ((bits * 84) >> 8) - 1;
    let leading = (a >> (third * 3)) as usize;
    let x = ((u64::from(CUBE_ROOTS[leading]) + 10) << third) >> 6;
    // 341 / 1024 is a third.
    (((2 * x + a / (x * (x - 1))) * 341) >> 10) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_those_of_the_kernel() {
        assert_eq!(Constants::KERNEL.friendly_scale, 15);
        assert_eq!(Constants::KERNEL.cube_factor, 2_681_735_677);
    }

    /// Compares with what tcp_cubic.c's own function gives: small numbers, powers of two, K for some losses.
    #[test]
    fn cube_roots_are_the_kernels() {
        let of = |packets: u64| cubic_root(Constants::KERNEL.cube_factor * packets);
        assert_eq!(
            [0, 1, 7, 63, 64, 1000, 1 << 30, 1 << 62].map(cubic_root),
            [0, 1, 2, 4, 4, 10, 1024, 1_664_674]
        );
        assert_eq!([1, 2, 27, 300, 10_000].map(of), [1388, 1750, 4165, 9294, 29_930]);
    }

    fn avoiding(cubic: &mut Cubic, cwnd: u32) -> Core {
        let mut core = Core::new(1);
        core.cwnd = cwnd;
        core.ssthresh = cwnd;
        core.cwnd_limited = true;
        core.prior_in_flight = cwnd;
        core.jiffies = 100_000;
        cubic.delay_min = 40_000;
        core
    }

    /// Acknowledges a window per 100 ms until cwnd reaches `goal`; seconds taken.
    fn time_to_reach(cubic: &mut Cubic, core: &mut Core, goal: u32) -> f64 {
        let start = core.jiffies;
        while core.cwnd < goal {
            for _ in 0..core.cwnd {
                cubic.cong_avoid(core, 0, 1);
            }
            core.jiffies += 100;
            assert!(core.jiffies - start < 1_000_000);
        }
        (core.jiffies - start) as f64 / 1000.0
    }

    #[test]
    fn returns_to_the_old_maximum_after_k_seconds() {
        let mut cubic = Cubic::new(&Config::linux_6_8().into());
        let mut core = avoiding(&mut cubic, 1000);
        core.ssthresh = cubic.ssthresh(&mut core);
        assert_eq!(core.ssthresh, 700);
        core.cwnd = 700;
        // K = cbrt(300 / 0.4004) = 9.08 s; one packet below the plateau is reached when
        // 0.4 (K - t)^3 < 2, 1.7 s before.
        let taken = time_to_reach(&mut cubic, &mut core, 999);
        assert!((7.0..7.6).contains(&taken), "{taken}");
    }

    #[test]
    fn fast_convergence_gives_up_a_part_of_the_maximum() {
        let mut cubic = Cubic::new(&Config::linux_6_8().into());
        let mut core = avoiding(&mut cubic, 1000);
        cubic.ssthresh(&mut core);
        core.cwnd = 990;
        cubic.ssthresh(&mut core);
        assert_eq!(cubic.last_max_cwnd, 841);
    }

    #[test]
    fn a_timeout_of_3_9_can_be_undone() {
        let mut cubic = Cubic::new(&Config::linux_3_9().into());
        let mut core = avoiding(&mut cubic, 1000);
        core.ssthresh = cubic.ssthresh(&mut core);
        cubic.set_state(&mut core, CaState::Loss);
        core.cwnd = 1;
        assert_eq!(cubic.undo_cwnd(&mut core), 1000);
    }

    #[test]
    fn hystart_of_3_9_counts_milliseconds_between_jiffies() {
        let mut cubic = Cubic::new(&Config::linux_3_9().into());
        let mut core = avoiding(&mut cubic, 20);
        (core.hz, core.ssthresh) = (250, super::super::INFINITE_SSTHRESH);
        cubic.hystart_reset(&core);
        // A train of ACKs 2 ms apart that lasts longer than half a round trip, of which jiffies of 4 ms see gaps.
        for ms in (2..=22).step_by(2) {
            core.now_us = ms * 1000;
            cubic.hystart_update_3_9(&mut core, 40_000);
        }
        assert_eq!(core.ssthresh, 20);
    }
}
