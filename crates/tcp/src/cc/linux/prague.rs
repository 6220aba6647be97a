//! Prague (RFC 9331's requirements) as the kernels of L4STeam have it (tcp_prague.c 0.6): DCTCP for the public Internet, which reads one
//! mark as one mark, grows between marks too, paces, and comes to rates that do not depend on the round trip.

use super::reno::Reno;
use super::{CaState, CongestionControl, Core, CwndEvent, RateSample};
use crate::linux_config::{PragueWindow, Shared};

/// Fractional bits of alpha (PRAGUE_ALPHA_BITS), and all of it.
const ALPHA_BITS: u32 = 20;
const MAX_ALPHA: u64 = 1 << ALPHA_BITS;
/// Weight of a round's marks, as a power of 1/2 (PRAGUE_SHIFT_G): alpha is kept in units that it leaves whole.
const SHIFT_G: u32 = 4;
/// Fractional bits of a packet of the window (CWND_UNIT).
const PACKET_BITS: u32 = 20;
const PACKET: u64 = 1 << PACKET_BITS;
/// The smallest window, packets.
const MIN_CWND: u32 = 2;
/// Round trips are in units of 2^7 microseconds where growth is computed (RTT_UNIT).
const RTT_UNIT: u32 = 7;
/// Growth is not scaled above so many of these units (MAX_SCALED_RTT, which the source gives in microseconds).
const MAX_SCALED_RTT: u64 = 100_000;
/// Headers of a segment with timestamps, bytes: rates are of packets.
const HEADERS: u64 = 52;

/// The `prague` module.
#[derive(Debug)]
pub(super) struct Prague {
    config: Shared,
    reno: Reno,
    /// The peer has no Accurate ECN: this is Reno.
    falls_back: bool,
    /// Alpha times 2^`SHIFT_G`.
    alpha: u64,
    /// When it was updated last, and the window cut last, microseconds.
    alpha_stamp: u64,
    cwr_stamp: u64,
    /// Growth for a window of packets without a mark, in 1/2^20 packet.
    increase: u64,
    /// Window, in 1/2^20 packet. With a carry: what the integer window is to change by, and does packet by packet.
    window: i64,
    /// It, and cwnd, when a loss was found.
    loss_window: i64,
    loss_cwnd: u32,
    /// Packets delivered, and of them marked, when the round at hand began.
    delivered: u64,
    delivered_ce: u64,
    /// The round ends there.
    round_end: u64,
    /// Rounds since slow start.
    round: u32,
    saw_ce: bool,
    in_loss: bool,
}

impl Prague {
    pub(super) fn new(config: &Shared) -> Prague {
        Prague {
            config: config.clone(),
            reno: Reno::new(config),
            falls_back: false,
            alpha: MAX_ALPHA << SHIFT_G,
            alpha_stamp: 0,
            cwr_stamp: 0,
            increase: PACKET,
            window: 0,
            loss_window: 0,
            loss_cwnd: 0,
            delivered: 0,
            delivered_ce: 0,
            round_end: 0,
            round: 0,
            saw_ce: false,
            in_loss: false,
        }
    }

    #[inline]
    fn carries(&self) -> bool {
        self.config.prague.window == PragueWindow::Carry
    }

    /// The round trip that flows pretend to have, in the unit of growth.
    fn target(&self) -> u64 {
        u64::from(self.config.prague.rtt_target_us >> RTT_UNIT)
    }

    /// Whether the rate does not depend on the round trip, as the flow is old enough.
    fn is_rtt_independent(&self, core: &Core) -> bool {
        self.target() > 0 && !core.in_slow_start() && self.round >= self.config.prague.rtt_transition
    }

    /// Whether less than the target has passed since `stamp`.
    fn is_within_target(&self, core: &Core, stamp: u64) -> bool {
        core.now_us().saturating_sub(stamp) < self.target() << RTT_UNIT
    }

    /// A packet per round trip; of an older flow a packet per target, at the rate that the target would have
    /// (prague_rate_scaled_ai_ack_increase).
    fn update_increase(&mut self, core: &Core) {
        let rtt = core.srtt_us >> RTT_UNIT;
        let target = self.target();
        let plain = self.round < self.config.prague.rtt_transition
            || rtt == 0
            || rtt > MAX_SCALED_RTT
            || rtt >= target;
        self.increase = if plain {
            PACKET
        } else {
            let divisor = target * target;
            (((rtt << PACKET_BITS) * rtt) + (divisor >> 1)) / divisor
        };
    }

    fn new_round(&mut self, core: &Core) {
        self.round_end = core.nxt;
        self.delivered = core.delivered;
        self.delivered_ce = core.delivered_ce;
        if !core.in_slow_start() {
            self.round = self.round.checked_add(1).unwrap_or(self.config.prague.rtt_transition);
        }
        self.update_increase(core);
    }

    /// A round has ended: alpha becomes (1 - g) alpha + g F, with F the part that was marked. Before the first mark nothing says
    /// that the path marks.
    fn update_alpha(&mut self, core: &Core) {
        if self.saw_ce {
            let marked = core.delivered_ce.saturating_sub(self.delivered_ce);
            let delivered = (core.delivered - self.delivered).max(1);
            let alpha = self.alpha - (self.alpha >> SHIFT_G) + (marked << ALPHA_BITS) / delivered;
            self.alpha = alpha.min(MAX_ALPHA << SHIFT_G);
            self.alpha_stamp = core.now_us();
        }
        self.new_round(core);
    }

    /// Whether growth is allowed: the window was the limit. The older kernel takes pacing, as it does it itself, for no other limit.
    fn is_limited(&self, core: &Core) -> bool {
        core.is_cwnd_limited() || self.carries() && core.unsent > 0
    }

    fn update_cwnd(&mut self, core: &mut Core, sample: &RateSample) {
        self.saw_ce |= sample.delta_ce > 0;
        let mut acked = sample.acked_sacked.saturating_sub(sample.delta_ce);
        if acked > 0 && !self.in_loss && self.is_limited(core) {
            if core.in_slow_start() {
                acked = core.slow_start(acked);
                if !self.carries() {
                    self.window = i64::from(core.cwnd) << PACKET_BITS;
                }
                if acked == 0 {
                    return self.update_increase(core);
                }
            }
            let cwnd = u64::from(if self.carries() { core.cwnd } else { self.packets() }).max(1);
            let acked = u64::from(acked);
            self.window += ((acked * self.increase + (cwnd >> 1)) / cwnd).max(acked) as i64;
        }
        self.step(core);
    }

    /// The whole window in packets, rounded up.
    fn packets(&self) -> u32 {
        ((self.window.max(0) as u64).div_ceil(PACKET) as u32).max(1)
    }

    /// cwnd follows, by one packet for an ACK.
    fn step(&mut self, core: &mut Core) {
        let one = PACKET as i64;
        if self.carries() {
            if self.window <= -one {
                self.window += one;
                core.cwnd -= 1;
                if core.cwnd < MIN_CWND {
                    core.cwnd = MIN_CWND;
                    self.window = 0;
                }
                core.ssthresh = core.cwnd;
            } else if self.window >= one {
                self.window -= one;
                core.cwnd += 1;
            } else {
                return;
            }
        } else {
            let wanted = self.packets();
            if core.cwnd > wanted && core.cwnd > MIN_CWND {
                core.cwnd -= 1;
                core.ssthresh = core.cwnd;
            } else if core.cwnd < wanted {
                core.cwnd += 1;
            } else {
                return;
            }
        }
        self.update_increase(core);
    }

    /// Window of which a reduction takes its part, in 1/2^20 packet.
    fn whole(&self, core: &Core) -> i64 {
        if self.carries() { i64::from(core.cwnd) << PACKET_BITS } else { self.window }
    }

    /// Loss halves the window, as Reno's.
    fn on_loss(&mut self, core: &Core) {
        self.loss_cwnd = core.cwnd;
        self.loss_window = self.window;
        self.window -= if self.carries() {
            (i64::from(core.cwnd) << (PACKET_BITS - 1)) + (self.window >> 1)
        } else {
            self.window >> 1
        };
        self.in_loss = true;
        self.update_increase(core);
    }

    /// A round with marks: the window loses half of the part that was marked. Flows that are older wait for the target between.
    fn on_marks(&mut self, core: &Core) {
        if self.is_rtt_independent(core) && self.is_within_target(core, self.cwr_stamp) {
            return;
        }
        self.cwr_stamp = core.now_us();
        let reduction =
            ((self.alpha >> SHIFT_G) * self.whole(core).max(0) as u64 + MAX_ALPHA) >> (ALPHA_BITS + 1);
        self.window -= reduction as i64;
    }

    /// Pacing spreads the window over the round trip, twice as fast in early slow start; a burst lasts a quarter of a millisecond.
    fn update_pacing_rate(&self, core: &mut Core) {
        let packet = u64::from(core.mss) + HEADERS;
        let mut rate = 8_000_000 * packet;
        if core.cwnd < core.ssthresh / 2 {
            rate <<= 1;
        }
        rate = rate.checked_div(core.srtt8_us).unwrap_or(rate);
        rate = if self.carries() {
            rate * u64::from(core.cwnd.max(core.in_flight()))
        } else {
            ((u128::from(rate) * self.window.max(0) as u128 + u128::from(PACKET >> 1)) >> PACKET_BITS) as u64
        };
        core.pacing_rate = rate;
        let burst = (((rate / packet) >> self.config.prague.burst_shift) as u32).max(1);
        // That kernel asks the control how long bursts are (prague_tso_segs), the older one how long they may be.
        core.tso_segs = if self.carries() {
            let least = u64::from(self.config.min_tso_segs);
            burst.min(((rate >> 10) / u64::from(core.mss.max(1))).max(least) as u32)
        } else {
            burst
        };
    }
}

impl CongestionControl for Prague {
    fn init(&mut self, core: &mut Core) {
        if !core.ecn {
            self.falls_back = true;
            return;
        }
        core.pacing = true;
        if !self.carries() {
            self.window = i64::from(core.cwnd) << PACKET_BITS;
        }
        if core.srtt_us > 0 {
            self.update_pacing_rate(core);
        }
        core.tso_segs = 1;
        self.alpha_stamp = core.now_us();
        self.saw_ce = core.delivered_ce > 0;
        self.new_round(core);
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        if self.falls_back { self.reno.ssthresh(core) } else { core.ssthresh }
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        self.reno.cong_avoid(core, ack, acked);
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        if self.falls_back || state == core.state {
            return;
        }
        match state {
            CaState::Recovery => self.on_loss(core),
            CaState::Cwr => self.on_marks(core),
            CaState::Open => self.in_loss = false,
            _ => {}
        }
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        if event == CwndEvent::Loss && !self.falls_back {
            self.on_loss(core);
        }
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        if self.falls_back {
            return self.reno.undo_cwnd(core);
        }
        if self.carries() {
            // So the kernel does it: what came since then counts twice.
            self.window += self.window - self.loss_window;
        } else {
            self.window = self.window.max(self.loss_window);
        }
        core.cwnd.max(self.loss_cwnd)
    }

    fn owns_window(&self) -> bool {
        !self.falls_back
    }

    fn cong_control(&mut self, core: &mut Core, sample: &RateSample) {
        self.update_cwnd(core, sample);
        if core.una >= self.round_end
            && !(self.is_rtt_independent(core) && self.is_within_target(core, self.alpha_stamp))
        {
            self.update_alpha(core);
        }
        self.update_pacing_rate(core);
    }

    fn needs_ecn(&self) -> bool {
        !self.falls_back
    }

    fn is_l4s(&self) -> bool {
        !self.falls_back
    }

    /// Accurate ECN tells the peer of marks.
    fn hears_ecn(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_config::Config;

    fn connected(change: fn(&mut Config)) -> (Prague, Core) {
        let mut config = Config::linux_7_3();
        change(&mut config);
        let mut core = Core::new(1);
        (core.ecn, core.cwnd, core.ssthresh, core.mss) = (true, 40, 20, 1448);
        (core.srtt_us, core.srtt8_us, core.packets_out) = (10_000, 80_000, 40);
        core.cwnd_limited = true;
        let mut prague = Prague::new(&config.into());
        prague.init(&mut core);
        (prague, core)
    }

    fn carry(config: &mut Config) {
        config.prague.window = PragueWindow::Carry;
    }

    fn ack(prague: &mut Prague, core: &mut Core, acked: u32, marked: u32) {
        core.delivered += u64::from(acked);
        core.delivered_ce += u64::from(marked);
        let sample = RateSample { acked_sacked: acked, delta_ce: marked, ..RateSample::default() };
        prague.cong_control(core, &sample);
    }

    fn round(prague: &mut Prague, core: &mut Core, acked: u32, marked: u32) {
        core.una = core.nxt;
        core.nxt += 1;
        ack(prague, core, acked, marked);
    }

    #[test]
    fn alpha_keeps_what_a_shift_would_leave_of_it() {
        let (mut prague, mut core) = connected(|_| ());
        round(&mut prague, &mut core, 40, 0);
        assert_eq!(prague.alpha, 16 << 20, "before the first mark alpha stands");
        round(&mut prague, &mut core, 40, 10);
        assert_eq!(prague.alpha, 15 << 20 | 1 << 18);
        for _ in 0..400 {
            round(&mut prague, &mut core, 1000, 1);
        }
        // 1/1000, of which DCTCP's ten bits would leave one unit.
        assert!((prague.alpha >> SHIFT_G).abs_diff(1 << 20) > 0);
        assert!((prague.alpha >> SHIFT_G).abs_diff((1 << 20) / 1000) <= 2, "{}", prague.alpha >> SHIFT_G);
    }

    #[test]
    fn a_round_of_marks_takes_half_of_their_part_packet_by_packet() {
        for version in [(|_| ()) as fn(&mut Config), carry] {
            let (mut prague, mut core) = connected(version);
            prague.alpha = (MAX_ALPHA / 4) << SHIFT_G;
            prague.set_state(&mut core, CaState::Cwr);
            core.state = CaState::Cwr;
            let mut seen = Vec::new();
            for _ in 0..7 {
                ack(&mut prague, &mut core, 1, 1);
                seen.push(core.cwnd);
            }
            // An eighth of 40.
            assert_eq!(seen, [39, 38, 37, 36, 35, 35, 35]);
            assert_eq!(core.ssthresh, 35);
        }
    }

    #[test]
    fn packets_without_a_mark_let_it_grow_in_cwr_too() {
        // The window with fractions is rounded up.
        for (version, wanted) in [((|_| ()) as fn(&mut Config), 42), (carry, 41)] {
            let (mut prague, mut core) = connected(version);
            core.state = CaState::Cwr;
            for _ in 0..42 {
                ack(&mut prague, &mut core, 1, 0);
            }
            assert_eq!(core.cwnd, wanted);
            prague.in_loss = true;
            for _ in 0..90 {
                ack(&mut prague, &mut core, 1, 0);
            }
            assert_eq!(core.cwnd, wanted, "after a loss there is no growth");
        }
    }

    #[test]
    fn growth_follows_the_target_after_500_rounds() {
        let (mut prague, mut core) = connected(|_| ());
        for _ in 0..498 {
            round(&mut prague, &mut core, 1, 0);
        }
        assert_eq!(prague.increase, PACKET);
        round(&mut prague, &mut core, 1, 0);
        round(&mut prague, &mut core, 1, 0);
        // (10 / 25)^2, in steps of 128 microseconds.
        let wanted = PACKET * 78 * 78 / (195 * 195);
        assert!(prague.increase.abs_diff(wanted) <= 1, "{} of {wanted}", prague.increase);
        core.srtt_us = 30_000;
        prague.update_increase(&core);
        assert_eq!(prague.increase, PACKET);
    }

    #[test]
    fn an_old_flow_is_cut_once_in_a_target() {
        let (mut prague, mut core) = connected(|_| ());
        prague.round = 500;
        core.set_time(&crate::clock::HostClock::new(1000, 0, 0), 30_000_000);
        prague.on_marks(&core);
        let cut = prague.window;
        prague.on_marks(&core);
        assert_eq!(prague.window, cut);
        prague.round = 0;
        prague.on_marks(&core);
        assert!(prague.window < cut);
    }

    #[test]
    fn loss_halves_and_an_undo_restores() {
        let (mut prague, mut core) = connected(|_| ());
        prague.set_state(&mut core, CaState::Recovery);
        assert_eq!(prague.packets(), 20);
        core.cwnd = 30;
        assert_eq!((prague.undo_cwnd(&mut core), prague.packets()), (40, 40));
    }

    #[test]
    fn pacing_is_once_the_window_in_a_round_trip_and_a_burst_a_quarter_of_a_millisecond() {
        let (mut prague, mut core) = connected(|_| ());
        ack(&mut prague, &mut core, 0, 0);
        assert_eq!(core.pacing_rate, 40 * 1500 * 100);
        assert_eq!(core.tso_segs, 1);
        core.ssthresh = 1000;
        prague.window = 40_000 << PACKET_BITS;
        prague.update_pacing_rate(&mut core);
        assert_eq!(core.pacing_rate, 2 * 40_000 * 1500 * 100);
        assert_eq!(core.tso_segs, (8_000_000 / 4096) as u32);
    }

    #[test]
    fn without_accurate_ecn_it_is_reno() {
        let mut core = Core::new(1);
        core.cwnd = 40;
        let mut prague = Prague::new(&Config::linux_7_3().into());
        assert!(prague.needs_ecn() && prague.is_l4s());
        prague.init(&mut core);
        assert!(!prague.needs_ecn() && !prague.is_l4s() && !prague.owns_window());
        assert_eq!(prague.ssthresh(&mut core), 20);
    }
}
