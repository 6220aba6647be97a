//! CAIA Delay-Gradient as Linux has it (tcp_cdg.c since 4.2): Reno growth, and back-off by chance when delays rise.
//!
//! D. A. Hayes and G. Armitage, "Revisiting TCP congestion control using delay gradients", IFIP Networking 2011.

use super::reno::Reno;
use super::{AckSample, CongestionControl, Core, CwndEvent};
use crate::linux_config::Shared;

/// Round trips over which gradients are summed (the module's `window`).
const WINDOW: usize = 8;
/// Multiplicative decrease by delay, 0.7071 in 1/1024 (`backoff_beta`).
const BACKOFF_BETA: u32 = 724;
/// P(backoff) = 1 - exp(-42e-6 g), g the summed gradient in microseconds (`backoff_factor`).
const BACKOFF_FACTOR: f64 = 42e-6;
/// Back-offs without effect before delay is ignored (`use_ineff`).
const INEFFECTUAL: u32 = 5;
/// A gradient sum this low, microseconds, shows that a back-off had effect.
const EFFECTUAL: i64 = -32;
/// HyStart: largest gap of an ACK train, microseconds.
const TRAIN_GAP_US: u64 = 3000;
/// HyStart: smallest threshold, microseconds.
const MIN_US: u32 = 125;
/// HyStart: samples before the delay test.
const SAMPLES: u32 = 8;
/// ACKs of several packets that let single ones be taken for delayed.
const DELAYED_ACKS: u32 = 5;

/// Lowest and highest RTT of a round trip, microseconds; 0: none yet.
#[derive(Clone, Copy, Debug, Default)]
struct MinMax {
    min: u32,
    max: u32,
}

/// The `cdg` module.
#[derive(Debug)]
pub(super) struct Cdg {
    reno: Reno,
    rtt: MinMax,
    previous: MinMax,
    rtt_seq: u64,
    /// Changes of minimum and maximum per round trip, their sums, and where the oldest is.
    gradients: [(i64, i64); WINDOW],
    sum: (i64, i64),
    tail: usize,
    filled: bool,
    /// The reduction under way was caused by delay.
    backing_off: bool,
    backoffs: u32,
    delayed: u32,
    /// Window that loss-based growth would have reached.
    shadow: u32,
    round_start: u64,
    last_ack: u64,
    delay_min: u32,
    samples: u32,
}

impl Cdg {
    pub(super) fn new(config: &Shared) -> Cdg {
        Cdg {
            reno: Reno::new(config),
            rtt: MinMax::default(),
            previous: MinMax::default(),
            rtt_seq: 0,
            gradients: [(0, 0); WINDOW],
            sum: (0, 0),
            tail: 0,
            filled: false,
            backing_off: false,
            backoffs: 0,
            delayed: 0,
            shadow: 0,
            round_start: 0,
            last_ack: 0,
            delay_min: 0,
            samples: 0,
        }
    }

    fn hystart(&mut self, core: &mut Core) {
        self.delay_min = lower(self.delay_min, self.rtt.min);
        if self.delay_min == 0 {
            return;
        }
        let now = core.now_us();
        if self.last_ack == 0 || !core.is_cwnd_limited() {
            self.last_ack = now;
            self.round_start = now;
        } else if now < self.last_ack + TRAIN_GAP_US {
            self.last_ack = now;
            if now > self.round_start + u64::from((self.delay_min / 2).max(MIN_US)) {
                core.ssthresh = core.cwnd;
                return;
            }
        }
        if self.samples < SAMPLES {
            self.samples += 1;
        } else if self.rtt.min > (self.delay_min + self.delay_min / 8).max(MIN_US) {
            core.ssthresh = core.cwnd;
        }
    }

    /// The summed gradient in microseconds after one more round trip.
    fn gradient(&mut self) -> i64 {
        let change = |new: u32, old: u32| i64::from(new) - i64::from(old);
        let latest = (change(self.rtt.min, self.previous.min), change(self.rtt.max, self.previous.max));
        let oldest = std::mem::replace(&mut self.gradients[self.tail], latest);
        self.sum.0 += latest.0 - oldest.0;
        self.sum.1 += latest.1 - oldest.1;
        self.tail = (self.tail + 1) % WINDOW;
        let (min, max) = self.sum;
        let mut gradient = if min > 0 { min } else { max };
        // Until the window is full, what is missing is taken to be like the rest.
        if !self.filled {
            if self.tail == 0 {
                self.filled = true;
            } else {
                gradient = gradient * WINDOW as i64 / self.tail as i64;
            }
        }
        if min <= EFFECTUAL || max <= EFFECTUAL {
            self.backoffs = 0;
        }
        gradient
    }

    fn backs_off(&mut self, core: &mut Core, gradient: i64) -> bool {
        let stay = libm::exp(-BACKOFF_FACTOR * gradient as f64) * f64::from(u32::MAX);
        if f64::from(core.random_below(u32::MAX)) <= stay {
            return false;
        }
        self.backoffs += 1;
        if self.backoffs > INEFFECTUAL {
            return false;
        }
        self.shadow = self.shadow.max(core.cwnd);
        self.backing_off = true;
        core.cwr_requested = true;
        true
    }
}

/// The lower of two where 0 means none.
fn lower(a: u32, b: u32) -> u32 {
    if a == 0 || (b != 0 && b < a) { b } else { a }
}

impl CongestionControl for Cdg {
    fn init(&mut self, core: &mut Core) {
        self.rtt_seq = core.nxt;
        self.shadow = core.cwnd;
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        if self.backing_off {
            return ((core.cwnd * BACKOFF_BETA) >> 10).max(2);
        }
        self.shadow = (self.shadow >> 1).min(core.cwnd);
        self.shadow.max(core.cwnd >> 1).max(2)
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        if core.in_slow_start() {
            self.hystart(core);
        }
        if ack > self.rtt_seq && self.rtt.max > 0 {
            let gradient = if self.previous.max > 0 { self.gradient() } else { 0 };
            self.rtt_seq = core.nxt;
            self.previous = self.rtt;
            self.rtt = MinMax::default();
            self.last_ack = 0;
            self.samples = 0;
            if gradient > 0 && self.backs_off(core, gradient) {
                return;
            }
        }
        if !core.is_cwnd_limited() {
            self.shadow = self.shadow.min(core.cwnd);
            return;
        }
        let before = core.cwnd;
        self.reno.cong_avoid(core, ack, acked);
        self.shadow += core.cwnd - before;
    }

    fn pkts_acked(&mut self, core: &mut Core, sample: &AckSample) {
        let Some(rtt) = sample.rtt_us.filter(|&rtt| rtt > 0) else { return };
        // An ACK of one packet among ACKs of several was probably delayed: it can only lower the minimum.
        if core.sacked_out == 0 {
            if sample.packets == 1 && self.delayed > 0 {
                self.rtt.min = self.rtt.min.min(rtt);
                self.delayed -= 1;
                return;
            }
            if sample.packets > 1 && self.delayed < DELAYED_ACKS {
                self.delayed += 1;
            }
        }
        self.rtt.min = lower(self.rtt.min, rtt);
        self.rtt.max = self.rtt.max.max(rtt);
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        match event {
            CwndEvent::Restart => {
                self.gradients = [(0, 0); WINDOW];
                self.sum = (0, 0);
                self.tail = 0;
                self.filled = false;
                self.rtt_seq = core.nxt;
                self.shadow = core.cwnd;
                self.rtt = MinMax::default();
                self.previous = MinMax::default();
            }
            CwndEvent::CompleteCwr => {
                self.backing_off = false;
                self.rtt_seq = core.nxt;
                self.previous = self.rtt;
                self.rtt = MinMax::default();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_config::Config;

    fn core() -> Core {
        let mut core = Core::new(7);
        core.cwnd = 100;
        core.ssthresh = 50;
        core.cwnd_limited = true;
        core
    }

    /// Carries out a round trip whose packets saw RTTs from `min` to `max`. True if it backed off.
    fn round(cdg: &mut Cdg, core: &mut Core, min: u32, max: u32) -> bool {
        for rtt_us in [min, max] {
            cdg.pkts_acked(
                core,
                &AckSample { packets: 1, rtt_us: Some(rtt_us), stamped_rtt_us: None, in_flight: 0 },
            );
        }
        core.una = core.nxt + 1;
        core.nxt = core.una + 1000;
        let ack = core.una;
        cdg.cong_avoid(core, ack, 1);
        std::mem::take(&mut core.cwr_requested)
    }

    #[test]
    fn backs_off_as_often_as_the_gradient_says() {
        // A mean gradient of 3 ms over 8 round trips: P = 1 - exp(-42e-6 * 24000) = 0.635.
        let mut core = core();
        let mut backed = 0;
        for _ in 0..2000 {
            let mut cdg = Cdg::new(&Config::linux_6_8().into());
            cdg.init(&mut core);
            cdg.filled = true;
            cdg.sum = (21_000, 21_000);
            cdg.previous = MinMax { min: 40_000, max: 50_000 };
            if round(&mut cdg, &mut core, 43_000, 53_000) {
                backed += 1;
            }
            core.cwnd = 100;
        }
        assert!((1210..1330).contains(&backed), "{backed} of 2000");
    }

    #[test]
    fn falling_delays_never_cause_a_reduction_and_forgive_earlier_ones() {
        let mut core = core();
        let mut cdg = Cdg::new(&Config::linux_6_8().into());
        cdg.init(&mut core);
        cdg.backoffs = 4;
        for i in 0..50 {
            assert!(!round(&mut cdg, &mut core, 90_000 - i * 100, 95_000 - i * 100));
        }
        assert_eq!(cdg.backoffs, 0);
    }

    #[test]
    fn delay_costs_0_7071_and_loss_half() {
        let mut core = core();
        let mut cdg = Cdg::new(&Config::linux_6_8().into());
        cdg.init(&mut core);
        cdg.backing_off = true;
        assert_eq!(cdg.ssthresh(&mut core), 70);
        cdg.cwnd_event(&mut core, CwndEvent::CompleteCwr);
        cdg.shadow = 0;
        assert_eq!(cdg.ssthresh(&mut core), 50);
        // A shadow window above cwnd spares what delay has already taken.
        cdg.shadow = 160;
        assert_eq!(cdg.ssthresh(&mut core), 80);
    }
}
