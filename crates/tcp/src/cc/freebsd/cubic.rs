//! CUBIC as five generations of FreeBSD's cc_cubic(4) did it, bytes and fixed point as theirs.

use super::{AckKind, CcVar, CongestionControl, RTT_SHIFT, Signal, cubic_math as math, newreno};

/// Which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CubicEra {
    /// 9.0 to 11: draft-rhee-tcpm-cubic-02, beta 0.8, one step per window acknowledged.
    Draft02,
    /// 12 to 14: RFC 8312, beta 0.7, the window follows the cubic at every ACK.
    Rfc8312,
    /// Main until review D46546: the same in microseconds.
    Rfc8312Micros,
    /// Main from D46546 until the change to RFC 9438: NewReno's own step and reduction in the TCP-friendly region
    /// (sys/netinet/cc/cc_cubic.h of that time: tf_cwnd is NewReno's congestion avoidance, a flag remembers the region).
    Rfc8312Reno,
    /// Main after the change (review D49540): RFC 9438.
    Rfc9438,
}

impl CubicEra {
    /// Multiplicative decrease in 1/256.
    fn beta(self) -> u64 {
        if self == CubicEra::Draft02 { 204 } else { 179 }
    }

    /// The beta that [`math::k`] takes: its complement is 51/256 in the oldest era.
    fn beta_of_k(self) -> u64 {
        if self == CubicEra::Draft02 { 205 } else { 179 }
    }

    /// Fast convergence in 1/256: (1 + beta) / 2 (RFC 9438 section 4.7).
    fn fast_convergence(self) -> u64 {
        if self == CubicEra::Draft02 { 230 } else { 217 }
    }

    fn micros(self) -> bool {
        matches!(self, CubicEra::Rfc8312Micros | CubicEra::Rfc8312Reno | CubicEra::Rfc9438)
    }
}

/// RTT samples after which the smoothed RTT is trusted.
const RTT_SAMPLES: u32 = 8;

/// CUBIC's state. Times are ticks, or microseconds in the eras that count so.
#[derive(Clone, Debug)]
pub struct Cubic {
    era: CubicEra,
    /// W_max in bytes.
    wmax: u64,
    /// W_max before the last congestion.
    previous_wmax: u64,
    /// Time to return to W_max, 1/256 s.
    k: i64,
    /// Start of the epoch.
    epoch: u64,
    /// Smallest smoothed RTT; 0 while unknown.
    min_rtt: u64,
    /// Mean smoothed RTT of the last epoch.
    mean_rtt: u64,
    rtt_sum: u64,
    rtt_count: u64,
    /// Congestion so far (12 and later: a flag).
    congestions: u64,
    in_slow_start: bool,
    app_limited: bool,
    timed_out: bool,
    /// The window last grew by NewReno's step.
    friendly: bool,
    /// The epoch has not begun since the last congestion (RFC 9438).
    epoch_pending: bool,
    /// Window at the start of the epoch (RFC 9438).
    cwnd_epoch: u64,
    /// Where the last ACK found the curve, and its window there: it is the same for every ACK of a tick.
    place: Place,
    window: u64,
    undo: Undo,
}

/// What the window of an era before RFC 9438 depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    since: u64,
    mean_rtt: u64,
    wmax: u64,
    k: i64,
    maxseg: u64,
}

/// What a spurious timeout is undone with.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    wmax: u64,
    previous_wmax: u64,
    epoch: u64,
    k: i64,
    cwnd_epoch: u64,
}

impl Cubic {
    /// CUBIC before the connection is established.
    pub fn new(era: CubicEra) -> Cubic {
        Cubic {
            era,
            wmax: 0,
            previous_wmax: 0,
            k: 0,
            epoch: 0,
            min_rtt: 0,
            mean_rtt: 1,
            rtt_sum: 0,
            rtt_count: 0,
            congestions: 0,
            in_slow_start: false,
            app_limited: false,
            timed_out: false,
            friendly: false,
            epoch_pending: false,
            cwnd_epoch: 0,
            place: Place::default(),
            window: 0,
            undo: Undo::default(),
        }
    }

    #[inline]
    fn now(&self, v: &CcVar) -> u64 {
        if self.era.micros() { v.micros } else { v.ticks }
    }

    #[inline]
    fn per_second(&self, v: &CcVar) -> i64 {
        if self.era.micros() { 1_000_000 } else { i64::from(v.hz) }
    }

    fn k_from_wmax(&mut self, v: &CcVar) {
        self.k = math::k(self.wmax / v.maxseg, self.era.beta_of_k());
    }

    /// Keeps the smallest smoothed RTT and the sum for the epoch's mean.
    #[inline]
    fn record_rtt(&mut self, v: &CcVar) {
        if v.rtt_updates < RTT_SAMPLES {
            return;
        }
        let srtt = if self.era.micros() {
            (u64::from(v.srtt) * (1_000_000 / u64::from(v.hz))) >> RTT_SHIFT
        } else {
            u64::from(v.srtt >> RTT_SHIFT)
        };
        if srtt < self.min_rtt || self.min_rtt == 0 {
            self.min_rtt = srtt.max(1);
            // Until the first epoch's mean is known.
            self.mean_rtt = self.mean_rtt.max(self.min_rtt);
        }
        self.rtt_sum += srtt;
        self.rtt_count += 1;
    }

    fn mean_of_epoch(&mut self) {
        if self.rtt_count > 0 && self.rtt_sum >= self.rtt_count {
            self.mean_rtt = self.rtt_sum / self.rtt_count;
        }
        self.rtt_sum = 0;
        self.rtt_count = 0;
    }

    /// Before the first congestion W_max follows the window.
    fn probe(&mut self, v: &CcVar) {
        if self.congestions == 0 && self.wmax < v.cwnd {
            self.wmax = v.cwnd;
            self.k_from_wmax(v);
        }
    }

    /// One ACK in congestion avoidance, 11 and before: acts once per window acknowledged.
    fn avoid_draft02(&mut self, v: &mut CcVar) {
        if v.tuning.abc && !v.abc_sent_a_window {
            return;
        }
        let since = v.ticks - self.epoch;
        let friendly = math::friendly_9(since as u32, self.mean_rtt as u32, self.wmax, v.maxseg as u32);
        let next =
            math::window_9((since + self.mean_rtt) as i64, self.wmax, v.maxseg, self.k, i64::from(v.hz));
        v.abc_sent_a_window = false;
        // A negative window compares as a huge one, as unsigned.
        let next = next as u64;
        if next < friendly {
            v.cwnd = friendly;
        } else if v.cwnd < next {
            v.cwnd = if v.tuning.abc { next } else { v.cwnd + (next - v.cwnd) * v.maxseg / v.cwnd };
        }
        if self.congestions == 0 && self.wmax < v.cwnd {
            self.wmax = v.cwnd;
        }
    }

    /// Begins an epoch where slow start, an application limit or a timeout has ended (12 and later, before RFC 9438).
    fn begin_epoch(&mut self, v: &CcVar) {
        if self.timed_out && self.in_slow_start {
            self.timed_out = false;
            self.in_slow_start = false;
            self.wmax = v.cwnd;
            self.k = 0;
            if self.era != CubicEra::Rfc8312 {
                self.epoch = v.micros;
            }
        } else if self.in_slow_start || self.app_limited {
            self.in_slow_start = false;
            self.app_limited = false;
            self.epoch = self.now(v);
            self.k_from_wmax(v);
        }
    }

    /// One ACK in congestion avoidance, 12 to 14 and main before RFC 9438.
    fn avoid_rfc8312(&mut self, v: &mut CcVar) {
        self.begin_epoch(v);
        let place = Place {
            since: self.now(v) - self.epoch,
            mean_rtt: self.mean_rtt,
            wmax: self.wmax,
            k: self.k,
            maxseg: v.maxseg,
        };
        if place != self.place {
            self.window = self.window_rfc8312(&place, self.per_second(v));
            self.place = place;
        }
        v.cwnd = v.cwnd.max(self.window);
        self.probe(v);
    }

    /// The larger of the cubic's window and NewReno's at a place of the curve.
    #[inline(never)]
    fn window_rfc8312(&self, place: &Place, per_second: i64) -> u64 {
        let &Place { since, mean_rtt, wmax, k, maxseg } = place;
        let next = math::window_13((since + mean_rtt) as i64, wmax, maxseg, k, per_second);
        let friendly = math::friendly_13(since, mean_rtt, wmax, maxseg);
        friendly.max(next).min(i32::MAX as u64)
    }

    /// One ACK in congestion avoidance, main between D46546 and RFC 9438: the cubic, or NewReno's step where that is more.
    fn avoid_reno(&mut self, v: &mut CcVar) {
        self.begin_epoch(v);
        let since = (self.now(v) - self.epoch + self.mean_rtt) as i64;
        let cubic = math::window_13(since, self.wmax, v.maxseg, self.k, 1_000_000);
        let reno = v.cwnd + newreno::avoidance_increment(v);
        self.friendly = cubic < reno;
        v.cwnd = v.cwnd.max(if self.friendly { reno } else { cubic.min(i32::MAX as u64) });
        self.probe(v);
    }

    /// One ACK in congestion avoidance by RFC 9438 sections 4.2 to 4.5. W_est is NewReno's next window (section 4.3 counts
    /// its own).
    fn avoid_rfc9438(&mut self, v: &mut CcVar) {
        if self.in_slow_start || self.app_limited || self.epoch_pending {
            self.in_slow_start = false;
            self.app_limited = false;
            self.epoch_pending = false;
            self.epoch = v.micros;
            self.cwnd_epoch = v.cwnd;
            self.k = math::k_of_epoch(self.wmax / v.maxseg, v.cwnd / v.maxseg);
            if std::mem::take(&mut self.timed_out) {
                self.wmax = v.cwnd;
                self.k = 0;
            }
        }
        let since = (v.micros - self.epoch + self.mean_rtt) as i64;
        let cubic = math::window_13(since, self.wmax, v.maxseg, self.k, 1_000_000);
        let reno = v.cwnd + newreno::avoidance_increment(v);
        self.friendly = cubic < reno;
        if self.friendly {
            v.cwnd = reno;
        } else {
            let target = cubic.clamp(v.cwnd, v.cwnd + v.cwnd / 2);
            v.cwnd += ((((target - v.cwnd) << math::SHIFT) / v.cwnd) * v.maxseg) >> math::SHIFT;
        }
    }

    /// A reduction, 11 and before. A negative window of [`Cubic::avoid_draft02`] is a huge one here, and wraps.
    fn reduce_draft02(&mut self, v: &mut CcVar) {
        v.ssthresh = if self.congestions == 0 {
            v.cwnd / 2
        } else {
            v.cwnd.wrapping_mul(self.era.beta()) >> math::SHIFT
        };
        self.congestions += 1;
        self.previous_wmax = self.wmax;
        self.wmax = v.cwnd;
    }

    /// A reduction, 12 and later: fast convergence first, and it lowers ssthresh too.
    fn reduce_rfc8312(&mut self, v: &mut CcVar) {
        let mut window = v.cwnd;
        if window < self.wmax {
            window = (window * self.era.fast_convergence()) >> math::SHIFT;
        }
        self.previous_wmax = self.wmax;
        self.wmax = window;
        let kept = (window * self.era.beta()) >> math::SHIFT;
        let ssthresh = if self.congestions == 0 {
            self.wmax = kept;
            window >> 1
        } else if self.friendly {
            newreno::reduced(v, v.tuning.newreno_beta)
        } else {
            kept
        };
        v.ssthresh = ssthresh.max(2 * v.loss_unit());
        self.congestions += 1;
        self.epoch = self.now(v);
        self.k_from_wmax(v);
    }

    /// A reduction by RFC 9438 sections 4.6 and 4.7: of the window as it is, or NewReno's in the friendly region. (Main has
    /// since taken what is in flight.)
    fn reduce_rfc9438(&mut self, v: &mut CcVar) {
        self.previous_wmax = self.wmax;
        self.wmax =
            if v.cwnd < self.wmax { (v.cwnd * self.era.fast_convergence()) >> math::SHIFT } else { v.cwnd };
        let ssthresh = if self.friendly {
            newreno::reduced(v, v.tuning.newreno_beta)
        } else {
            (v.cwnd * self.era.beta()) >> math::SHIFT
        };
        v.ssthresh = ssthresh.max(2 * v.loss_unit());
        self.congestions += 1;
        self.epoch_pending = true;
    }

    fn reduce(&mut self, v: &mut CcVar) {
        match self.era {
            CubicEra::Draft02 => self.reduce_draft02(v),
            CubicEra::Rfc8312 | CubicEra::Rfc8312Micros | CubicEra::Rfc8312Reno => self.reduce_rfc8312(v),
            CubicEra::Rfc9438 => self.reduce_rfc9438(v),
        }
    }

    fn on_timeout(&mut self, v: &mut CcVar) {
        if self.era == CubicEra::Draft02 {
            // The first timeout may be a false alarm.
            if v.rxtshift >= 2 {
                self.congestions += 1;
            }
            self.epoch = v.ticks;
            return;
        }
        if v.rxtshift == 1 {
            self.undo = Undo {
                wmax: self.wmax,
                previous_wmax: self.previous_wmax,
                epoch: self.epoch,
                k: self.k,
                cwnd_epoch: self.cwnd_epoch,
            };
        }
        self.timed_out = true;
        self.congestions += 1;
        self.previous_wmax = self.wmax;
        let window = if self.era.micros() { v.snd_wnd.min(v.pipe) } else { v.cwnd };
        if self.era == CubicEra::Rfc8312 || v.rxtshift == 1 {
            v.ssthresh = (window * self.era.beta()) >> math::SHIFT;
            if self.era == CubicEra::Rfc9438 {
                v.ssthresh -= v.ssthresh % v.mss;
            }
            if self.era.micros() {
                v.ssthresh = v.ssthresh.max(2 * v.mss);
            }
        }
        v.cwnd = v.mss;
    }

    fn undo_timeout(&mut self) {
        self.timed_out = false;
        // As if there had been no congestion at all: it is one flag.
        self.congestions = 0;
        let undo = self.undo;
        self.wmax = undo.wmax;
        self.previous_wmax = undo.previous_wmax;
        self.epoch = undo.epoch;
        self.k = undo.k;
        self.cwnd_epoch = undo.cwnd_epoch;
    }
}

impl CongestionControl for Cubic {
    fn conn_init(&mut self, v: &mut CcVar) {
        // After the change W_max is beyond any window until the first loss.
        self.wmax = if self.era == CubicEra::Rfc9438 { u64::from(u32::MAX) } else { v.cwnd };
        self.epoch = self.now(v);
        // A tick, as the initial guess of the RTT.
        self.mean_rtt = if self.era.micros() { 1_000_000 / u64::from(v.hz) } else { 1 };
    }

    fn ack_received(&mut self, v: &mut CcVar, kind: AckKind) {
        self.record_rtt(v);
        if kind != AckKind::New || v.in_recovery() {
            return;
        }
        if !v.cwnd_limited {
            self.app_limited = true;
            return;
        }
        if v.cwnd <= v.ssthresh || self.min_rtt == 0 {
            self.in_slow_start = true;
            newreno::grow(v);
            return;
        }
        match self.era {
            CubicEra::Draft02 => self.avoid_draft02(v),
            CubicEra::Rfc8312 | CubicEra::Rfc8312Micros => self.avoid_rfc8312(v),
            CubicEra::Rfc8312Reno => self.avoid_reno(v),
            CubicEra::Rfc9438 => self.avoid_rfc9438(v),
        }
    }

    fn cong_signal(&mut self, v: &mut CcVar, signal: Signal) {
        match signal {
            Signal::DuplicateAcks => {
                if !v.fast_recovery {
                    if !v.cong_recovery {
                        self.reduce(v);
                    }
                    v.enter_recovery();
                }
            }
            Signal::Ecn => {
                if !v.cong_recovery {
                    self.reduce(v);
                    if self.era == CubicEra::Draft02 {
                        self.epoch = v.ticks;
                    }
                    v.cwnd = v.ssthresh;
                    v.cong_recovery = true;
                }
            }
            Signal::Timeout => self.on_timeout(v),
            Signal::TimeoutUndone => {
                if self.era != CubicEra::Draft02 {
                    self.undo_timeout();
                }
            }
        }
    }

    fn post_recovery(&mut self, v: &mut CcVar) {
        let draft = self.era == CubicEra::Draft02;
        if draft && self.wmax < self.previous_wmax {
            // A negative window wraps here too.
            self.wmax = self.wmax.wrapping_mul(self.era.fast_convergence()) >> math::SHIFT;
        }
        if v.fast_recovery {
            v.cwnd = newreno::conservative_exit(v).unwrap_or_else(|| match self.era {
                CubicEra::Draft02 => (self.wmax.wrapping_mul(self.era.beta()) >> math::SHIFT).max(1),
                _ => ((self.wmax * self.era.beta()) >> math::SHIFT).max(2 * v.loss_unit()),
            });
        }
        self.mean_of_epoch();
        if draft {
            self.epoch = v.ticks;
            self.k_from_wmax(v);
        }
    }

    fn after_idle(&mut self, v: &mut CcVar) {
        if self.era != CubicEra::Draft02 {
            self.wmax = self.wmax.max(v.cwnd);
            if self.era == CubicEra::Rfc9438 {
                self.k = math::k_of_epoch(self.wmax / v.maxseg, self.cwnd_epoch / v.maxseg);
            } else {
                self.k_from_wmax(v);
            }
        }
        newreno::after_idle(v);
        if self.era != CubicEra::Draft02 {
            self.epoch = self.now(v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::freebsd::CcTuning;

    const FULL: u64 = 1448;

    /// CUBIC of a release on a LAN, in a guest that ticks every 10 ms, with a window of `segments`.
    fn lan(name: &str, segments: u64) -> (Cubic, CcVar) {
        let era = match name {
            "freebsd-15-current" => CubicEra::Rfc8312Micros,
            "freebsd-15-d46546" => CubicEra::Rfc8312Reno,
            _ => CubicEra::Rfc9438,
        };
        let mut v = CcVar::new(CcTuning::FREEBSD_15);
        (v.mss, v.maxseg, v.hz, v.snd_scale, v.snd_wnd) = (FULL, FULL, 100, 8, 10_000 * FULL);
        (v.rtt_updates, v.srtt, v.cwnd_limited) = (100, 1 << RTT_SHIFT, true);
        v.cwnd = segments * FULL;
        let mut cc = Cubic::new(era);
        cc.conn_init(&mut v);
        cc.ack_received(&mut v, AckKind::New);
        (cc, v)
    }

    /// A loss with `in_flight` segments in the pipe, and the end of its recovery with a window's worth in flight.
    fn lose(cc: &mut Cubic, v: &mut CcVar, in_flight: u64) {
        v.pipe = in_flight * FULL;
        cc.cong_signal(v, Signal::DuplicateAcks);
        v.pipe = v.ssthresh;
        cc.post_recovery(v);
        (v.fast_recovery, v.cong_recovery) = (false, false);
        v.cwnd = v.ssthresh + FULL;
    }

    /// Segments that the window grows by in 20 round trips of one ACK each, all within a tick.
    fn growth(cc: &mut Cubic, v: &mut CcVar) -> u64 {
        let before = v.cwnd;
        for _ in 0..20 {
            v.bytes_this_ack = v.cwnd;
            v.abc_sent_a_window = true;
            cc.ack_received(v, AckKind::New);
        }
        (v.cwnd - before) / FULL
    }

    #[test]
    fn in_the_friendly_region_the_window_grows_a_segment_a_round_trip_whatever_the_tick() {
        for (name, grows) in [("freebsd-15-current", 0), ("freebsd-15-d46546", 20), ("freebsd-15-d49540", 20)]
        {
            let (mut cc, mut v) = lan(name, 20);
            lose(&mut cc, &mut v, 20);
            assert_eq!(growth(&mut cc, &mut v), grows, "{name}");
        }
    }

    #[test]
    fn a_loss_in_the_friendly_region_halves_the_window() {
        for name in ["freebsd-15-d46546", "freebsd-15-d49540"] {
            let (mut cc, mut v) = lan(name, 20);
            lose(&mut cc, &mut v, 20);
            growth(&mut cc, &mut v);
            v.cwnd = 40 * FULL;
            v.pipe = 40 * FULL;
            cc.cong_signal(&mut v, Signal::DuplicateAcks);
            assert!((16..=20).contains(&(v.ssthresh / FULL)), "{name}: {}", v.ssthresh / FULL);
        }
    }

    #[test]
    fn after_the_change_fast_convergence_lowers_the_plateau_and_not_ssthresh() {
        let (mut cc, mut v) = lan("freebsd-15-d49540", 100);
        v.pipe = 100 * FULL;
        cc.cong_signal(&mut v, Signal::DuplicateAcks);
        assert_eq!(v.ssthresh, (100 * FULL * 179) >> 8);
        assert_eq!(cc.wmax, (100 * FULL * 217) >> 8);
    }
}
