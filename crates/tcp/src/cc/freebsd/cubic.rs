//! CUBIC as five generations of FreeBSD's cc_cubic(4) did it, bytes and fixed point as theirs.

use super::{AckKind, CcVar, CongestionControl, HyStart, RTT_SHIFT, Signal, cubic_math as math, newreno};

/// Generation of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CubicEra {
    /// FreeBSD 9.0 to 11: draft-rhee-tcpm-cubic-02, beta 0.8, one step per window acknowledged.
    Draft02,
    /// FreeBSD 12 to 14: RFC 8312, beta 0.7, the window follows the cubic at every ACK.
    Rfc8312,
    /// FreeBSD main until review D46546: RFC 8312, beta 0.7, in microseconds.
    Rfc8312Micros,
    /// FreeBSD main from D46546 until the change to RFC 9438: NewReno's own step and reduction in the TCP-friendly
    /// region (sys/netinet/cc/cc_cubic.h of that time: tf_cwnd is NewReno's congestion avoidance, a flag remembers
    /// the region).
    Rfc8312Reno,
    /// FreeBSD main after the change (review D49540): RFC 9438.
    Rfc9438,
}

impl CubicEra {
    /// The constants of its curve.
    pub fn curve(self) -> math::Curve {
        if self == CubicEra::Draft02 { math::Curve::DRAFT_02 } else { math::Curve::RFC }
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
    curve: math::Curve,
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
    /// Congestion so far (FreeBSD 12 and later: a flag).
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
    /// Place of the last ACK on the curve, and its window there: it is the same for every ACK of a tick.
    place: Place,
    window: u64,
    undo: Undo,
    /// HyStart++, where the stack allows it (FreeBSD 15's RACK).
    hystart: HyStart,
}

/// Place on the curve, on which the window of an era before RFC 9438 depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    since: u64,
    mean_rtt: u64,
    wmax: u64,
    k: i64,
    maxseg: u64,
}

/// State with which a spurious timeout is undone.
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
        Cubic::with(era, era.curve())
    }

    /// Creates CUBIC on another curve.
    pub fn with(era: CubicEra, curve: math::Curve) -> Cubic {
        Cubic {
            era,
            curve,
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
            hystart: HyStart::default(),
        }
    }

    #[inline]
    fn now(&self, ccv: &CcVar) -> u64 {
        if self.era.micros() { ccv.micros } else { ccv.ticks }
    }

    #[inline]
    fn per_second(&self, ccv: &CcVar) -> i64 {
        if self.era.micros() { 1_000_000 } else { i64::from(ccv.hz) }
    }

    fn k_from_wmax(&mut self, ccv: &CcVar) {
        self.k = math::k(self.wmax / ccv.maxseg, &self.curve);
    }

    /// K after congestion, which FreeBSD 12 to 14 count in segments as they are sent.
    fn k_after_congestion(&mut self, ccv: &CcVar) {
        let unit = if self.era == CubicEra::Rfc8312 { ccv.mss } else { ccv.maxseg };
        self.k = math::k(self.wmax / unit, &self.curve);
    }

    /// Keeps the smallest smoothed RTT and the sum for the epoch's mean.
    #[inline]
    fn record_rtt(&mut self, ccv: &CcVar) {
        if ccv.rtt_updates < RTT_SAMPLES {
            return;
        }
        let srtt = if self.era.micros() && ccv.srtt_us > 0 {
            ccv.srtt_us
        } else if self.era.micros() {
            (u64::from(ccv.srtt) * (1_000_000 / u64::from(ccv.hz))) >> RTT_SHIFT
        } else {
            u64::from(ccv.srtt >> RTT_SHIFT)
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

    /// Lets W_max follow the window before the first congestion.
    fn probe(&mut self, ccv: &CcVar) {
        if self.congestions == 0 && self.wmax < ccv.cwnd {
            self.wmax = ccv.cwnd;
            self.k_from_wmax(ccv);
        }
    }

    /// Grows the window by an ACK in slow start. FreeBSD 15 has slow start of its own, also above ssthresh while no
    /// RTT is known, and by HyStart++ where the stack allows it; before, NewReno decides.
    fn slow_start(&mut self, ccv: &mut CcVar) {
        self.in_slow_start = true;
        if self.era.micros() {
            let increment = self.hystart.slowed(&ccv.tuning.hystart, newreno::counted_increment(ccv));
            ccv.cwnd = (ccv.cwnd + increment).min(ccv.largest_window());
        } else {
            newreno::grow(ccv);
        }
    }

    /// Grows the window by an ACK in congestion avoidance, FreeBSD 11 and before: acts once per window
    /// acknowledged.
    fn avoid_draft02(&mut self, ccv: &mut CcVar) {
        if ccv.tuning.abc && !ccv.abc_sent_a_window {
            return;
        }
        let since = ccv.ticks - self.epoch;
        let friendly =
            math::friendly_9(since as u32, self.mean_rtt as u32, self.wmax, ccv.maxseg as u32, &self.curve);
        let next = math::window_9(
            (since + self.mean_rtt) as i64,
            self.wmax,
            ccv.maxseg,
            self.k,
            i64::from(ccv.hz),
            &self.curve,
        );
        ccv.abc_sent_a_window = false;
        // A negative window compares as a huge one, as unsigned.
        let next = next as u64;
        if next < friendly {
            ccv.cwnd = friendly;
        } else if ccv.cwnd < next {
            ccv.cwnd =
                if ccv.tuning.abc { next } else { ccv.cwnd + (next - ccv.cwnd) * ccv.maxseg / ccv.cwnd };
        }
        if self.congestions == 0 && self.wmax < ccv.cwnd {
            self.wmax = ccv.cwnd;
        }
    }

    /// Begins an epoch where slow start, an application limit or a timeout has ended (FreeBSD 12 and later, before
    /// RFC 9438).
    fn begin_epoch(&mut self, ccv: &CcVar) {
        if self.timed_out && self.in_slow_start {
            self.timed_out = false;
            self.in_slow_start = false;
            self.wmax = ccv.cwnd;
            self.k = 0;
            if self.era != CubicEra::Rfc8312 {
                self.epoch = ccv.micros;
            }
        } else if self.in_slow_start || self.app_limited {
            self.in_slow_start = false;
            self.app_limited = false;
            self.epoch = self.now(ccv);
            self.k_from_wmax(ccv);
        }
    }

    /// Grows the window by an ACK in congestion avoidance, FreeBSD 12 to 14 and main before RFC 9438.
    fn avoid_rfc8312(&mut self, ccv: &mut CcVar) {
        self.begin_epoch(ccv);
        let place = Place {
            since: self.now(ccv) - self.epoch,
            mean_rtt: self.mean_rtt,
            wmax: self.wmax,
            k: self.k,
            maxseg: ccv.maxseg,
        };
        if place != self.place {
            self.window = self.window_rfc8312(&place, self.per_second(ccv));
            self.place = place;
        }
        ccv.cwnd = ccv.cwnd.max(self.window);
        self.probe(ccv);
    }

    /// The larger of the cubic's window and NewReno's at a place of the curve.
    #[inline(never)]
    fn window_rfc8312(&self, place: &Place, per_second: i64) -> u64 {
        let &Place { since, mean_rtt, wmax, k, maxseg } = place;
        let next = math::window_13((since + mean_rtt) as i64, wmax, maxseg, k, per_second, &self.curve);
        let friendly = math::friendly_13(since, mean_rtt, wmax, maxseg, &self.curve);
        friendly.max(next).min(i32::MAX as u64)
    }

    /// Grows the window by an ACK in congestion avoidance, FreeBSD main between D46546 and RFC 9438: the cubic, or
    /// NewReno's step where that is more.
    fn avoid_reno(&mut self, ccv: &mut CcVar) {
        self.begin_epoch(ccv);
        let since = (self.now(ccv) - self.epoch + self.mean_rtt) as i64;
        let cubic = math::window_13(since, self.wmax, ccv.maxseg, self.k, 1_000_000, &self.curve);
        let reno = ccv.cwnd + newreno::avoidance_increment(ccv);
        self.friendly = cubic < reno;
        ccv.cwnd = ccv.cwnd.max(if self.friendly { reno } else { cubic.min(i32::MAX as u64) });
        self.probe(ccv);
    }

    /// Grows the window by an ACK in congestion avoidance by RFC 9438 sections 4.2 to 4.5. W_est is NewReno's next
    /// window (section 4.3 counts its own).
    fn avoid_rfc9438(&mut self, ccv: &mut CcVar) {
        if self.in_slow_start || self.app_limited || self.epoch_pending {
            self.in_slow_start = false;
            self.app_limited = false;
            self.epoch_pending = false;
            self.epoch = ccv.micros;
            self.cwnd_epoch = ccv.cwnd;
            self.k = math::k_of_epoch(self.wmax / ccv.maxseg, ccv.cwnd / ccv.maxseg, &self.curve);
            if std::mem::take(&mut self.timed_out) {
                self.wmax = ccv.cwnd;
                self.k = 0;
            }
        }
        let since = (ccv.micros - self.epoch + self.mean_rtt) as i64;
        let cubic = math::window_13(since, self.wmax, ccv.maxseg, self.k, 1_000_000, &self.curve);
        let reno = ccv.cwnd + newreno::avoidance_increment(ccv);
        self.friendly = cubic < reno;
        if self.friendly {
            ccv.cwnd = reno;
        } else {
            let target = cubic.clamp(ccv.cwnd, ccv.cwnd + ccv.cwnd / 2);
            ccv.cwnd += ((((target - ccv.cwnd) << math::SHIFT) / ccv.cwnd) * ccv.maxseg) >> math::SHIFT;
        }
    }

    /// A reduction, 11 and before. A negative window of [`Cubic::avoid_draft02`] is a huge one here, and wraps.
    fn reduce_draft02(&mut self, ccv: &mut CcVar) {
        ccv.ssthresh = if self.congestions == 0 {
            ccv.cwnd / 2
        } else {
            ccv.cwnd.wrapping_mul(self.curve.beta) >> math::SHIFT
        };
        self.congestions += 1;
        self.previous_wmax = self.wmax;
        self.wmax = ccv.cwnd;
    }

    /// A reduction, 12 and later: fast convergence first, and it lowers ssthresh too.
    fn reduce_rfc8312(&mut self, ccv: &mut CcVar) {
        let mut window = ccv.cwnd;
        if window < self.wmax {
            window = (window * self.curve.fast_convergence) >> math::SHIFT;
        }
        self.previous_wmax = self.wmax;
        self.wmax = window;
        let kept = (window * self.curve.beta) >> math::SHIFT;
        let ssthresh = if self.congestions == 0 {
            self.wmax = kept;
            window >> 1
        } else if self.friendly {
            newreno::reduced(ccv, ccv.tuning.newreno_beta)
        } else {
            kept
        };
        ccv.ssthresh = ssthresh.max(2 * ccv.loss_unit());
        self.congestions += 1;
        self.epoch = self.now(ccv);
        self.k_after_congestion(ccv);
    }

    /// A reduction by RFC 9438 sections 4.6 and 4.7: of the window as it is, or NewReno's in the friendly region. (Main has
    /// since taken what is in flight.)
    fn reduce_rfc9438(&mut self, ccv: &mut CcVar) {
        self.previous_wmax = self.wmax;
        self.wmax = if ccv.cwnd < self.wmax {
            (ccv.cwnd * self.curve.fast_convergence) >> math::SHIFT
        } else {
            ccv.cwnd
        };
        let ssthresh = if self.friendly {
            newreno::reduced(ccv, ccv.tuning.newreno_beta)
        } else {
            (ccv.cwnd * self.curve.beta) >> math::SHIFT
        };
        ccv.ssthresh = ssthresh.max(2 * ccv.loss_unit());
        self.congestions += 1;
        self.epoch_pending = true;
    }

    fn reduce(&mut self, ccv: &mut CcVar) {
        match self.era {
            CubicEra::Draft02 => self.reduce_draft02(ccv),
            CubicEra::Rfc8312 | CubicEra::Rfc8312Micros | CubicEra::Rfc8312Reno => self.reduce_rfc8312(ccv),
            CubicEra::Rfc9438 => self.reduce_rfc9438(ccv),
        }
    }

    fn on_timeout(&mut self, ccv: &mut CcVar) {
        if self.era == CubicEra::Draft02 {
            // The first timeout may be a false alarm.
            if ccv.rxtshift >= 2 {
                self.congestions += 1;
            }
            self.epoch = ccv.ticks;
            return;
        }
        if ccv.rxtshift == 1 {
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
        let window = if self.era.micros() { ccv.snd_wnd.min(ccv.pipe) } else { ccv.cwnd };
        if self.era == CubicEra::Rfc8312 || ccv.rxtshift == 1 {
            ccv.ssthresh = (window * self.curve.beta) >> math::SHIFT;
            if self.era == CubicEra::Rfc9438 {
                ccv.ssthresh -= ccv.ssthresh % ccv.mss;
            }
            if self.era.micros() {
                ccv.ssthresh = ccv.ssthresh.max(2 * ccv.mss);
            }
        }
        ccv.cwnd = ccv.mss;
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
    fn conn_init(&mut self, ccv: &mut CcVar) {
        // After the change W_max is beyond any window until the first loss.
        self.wmax = if self.era == CubicEra::Rfc9438 { u64::from(u32::MAX) } else { ccv.cwnd };
        self.epoch = self.now(ccv);
        // A tick, as the initial guess of the RTT.
        self.mean_rtt = if self.era.micros() { 1_000_000 / u64::from(ccv.hz) } else { 1 };
    }

    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        self.record_rtt(ccv);
        if kind != AckKind::New || ccv.in_recovery() {
            return;
        }
        if !ccv.cwnd_limited {
            self.app_limited = true;
            return;
        }
        if ccv.cwnd <= ccv.ssthresh || self.min_rtt == 0 {
            self.slow_start(ccv);
            return;
        }
        self.hystart.leave();
        match self.era {
            CubicEra::Draft02 => self.avoid_draft02(ccv),
            CubicEra::Rfc8312 | CubicEra::Rfc8312Micros => self.avoid_rfc8312(ccv),
            CubicEra::Rfc8312Reno => self.avoid_reno(ccv),
            CubicEra::Rfc9438 => self.avoid_rfc9438(ccv),
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        if matches!(signal, Signal::DuplicateAcks | Signal::Ecn) {
            self.hystart.stop();
        }
        match signal {
            Signal::DuplicateAcks => {
                if !ccv.fast_recovery {
                    if !ccv.cong_recovery {
                        self.reduce(ccv);
                    }
                    ccv.enter_recovery();
                }
            }
            Signal::Ecn => {
                if !ccv.cong_recovery {
                    self.reduce(ccv);
                    if self.era == CubicEra::Draft02 {
                        self.epoch = ccv.ticks;
                    }
                    ccv.cwnd = ccv.ssthresh;
                    ccv.cong_recovery = true;
                }
            }
            Signal::Timeout => self.on_timeout(ccv),
            Signal::TimeoutUndone => {
                if self.era != CubicEra::Draft02 {
                    self.undo_timeout();
                }
            }
        }
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        let draft = self.era == CubicEra::Draft02;
        if draft && self.wmax < self.previous_wmax {
            // A negative window wraps here too.
            self.wmax = self.wmax.wrapping_mul(self.curve.fast_convergence) >> math::SHIFT;
        }
        if ccv.fast_recovery {
            ccv.cwnd = newreno::conservative_exit(ccv).unwrap_or_else(|| match self.era {
                CubicEra::Draft02 => (self.wmax.wrapping_mul(self.curve.beta) >> math::SHIFT).max(1),
                _ => ((self.wmax * self.curve.beta) >> math::SHIFT).max(2 * ccv.loss_unit()),
            });
        }
        self.mean_of_epoch();
        if draft {
            self.epoch = ccv.ticks;
            self.k_from_wmax(ccv);
        }
    }

    fn new_round(&mut self, ccv: &mut CcVar, round: u32) {
        self.hystart.new_round(ccv, round);
    }

    fn rtt_sample(&mut self, ccv: &mut CcVar, rtt_us: u64, flight: u64) {
        self.hystart.rtt_sample(&ccv.tuning.hystart, rtt_us as u32, flight);
    }

    fn after_idle(&mut self, ccv: &mut CcVar) {
        if self.era != CubicEra::Draft02 {
            self.wmax = self.wmax.max(ccv.cwnd);
            if self.era == CubicEra::Rfc9438 {
                self.k = math::k_of_epoch(self.wmax / ccv.maxseg, self.cwnd_epoch / ccv.maxseg, &self.curve);
            } else {
                self.k_from_wmax(ccv);
            }
        }
        self.hystart.restart();
        newreno::after_idle(ccv);
        if self.era != CubicEra::Draft02 {
            self.epoch = self.now(ccv);
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
        let mut ccv = CcVar::new(CcTuning::FREEBSD_15);
        (ccv.mss, ccv.maxseg, ccv.hz, ccv.snd_scale, ccv.snd_wnd) = (FULL, FULL, 100, 8, 10_000 * FULL);
        (ccv.rtt_updates, ccv.srtt, ccv.cwnd_limited) = (100, 1 << RTT_SHIFT, true);
        ccv.cwnd = segments * FULL;
        let mut cc = Cubic::new(era);
        cc.conn_init(&mut ccv);
        cc.ack_received(&mut ccv, AckKind::New);
        (cc, ccv)
    }

    /// A loss with `in_flight` segments in the pipe, and the end of its recovery with a window's worth in flight.
    fn lose(cc: &mut Cubic, ccv: &mut CcVar, in_flight: u64) {
        ccv.pipe = in_flight * FULL;
        cc.cong_signal(ccv, Signal::DuplicateAcks);
        ccv.pipe = ccv.ssthresh;
        cc.post_recovery(ccv);
        (ccv.fast_recovery, ccv.cong_recovery) = (false, false);
        ccv.cwnd = ccv.ssthresh + FULL;
    }

    /// Segments that the window grows by in 20 round trips of one ACK each, all within a tick.
    fn growth(cc: &mut Cubic, ccv: &mut CcVar) -> u64 {
        let before = ccv.cwnd;
        for _ in 0..20 {
            ccv.bytes_this_ack = ccv.cwnd;
            ccv.abc_sent_a_window = true;
            cc.ack_received(ccv, AckKind::New);
        }
        (ccv.cwnd - before) / FULL
    }

    #[test]
    fn in_the_friendly_region_the_window_grows_a_segment_a_round_trip_whatever_the_tick() {
        for (name, grows) in [("freebsd-15-current", 0), ("freebsd-15-d46546", 20), ("freebsd-15-d49540", 20)]
        {
            let (mut cc, mut ccv) = lan(name, 20);
            lose(&mut cc, &mut ccv, 20);
            assert_eq!(growth(&mut cc, &mut ccv), grows, "{name}");
        }
    }

    #[test]
    fn a_loss_in_the_friendly_region_halves_the_window() {
        for name in ["freebsd-15-d46546", "freebsd-15-d49540"] {
            let (mut cc, mut ccv) = lan(name, 20);
            lose(&mut cc, &mut ccv, 20);
            growth(&mut cc, &mut ccv);
            ccv.cwnd = 40 * FULL;
            ccv.pipe = 40 * FULL;
            cc.cong_signal(&mut ccv, Signal::DuplicateAcks);
            assert!((16..=20).contains(&(ccv.ssthresh / FULL)), "{name}: {}", ccv.ssthresh / FULL);
        }
    }

    #[test]
    fn after_the_change_fast_convergence_lowers_the_plateau_and_not_ssthresh() {
        let (mut cc, mut ccv) = lan("freebsd-15-d49540", 100);
        ccv.pipe = 100 * FULL;
        cc.cong_signal(&mut ccv, Signal::DuplicateAcks);
        assert_eq!(ccv.ssthresh, (100 * FULL * 179) >> 8);
        assert_eq!(cc.wmax, (100 * FULL * 217) >> 8);
    }

    /// 145 segments of 1448 bytes are 143 of 1460.
    #[test]
    fn of_13_k_after_congestion_counts_segments_as_they_are_sent() {
        let (_, mut ccv) = lan("freebsd-15-current", 145);
        (ccv.maxseg, ccv.tuning.loss_counts_payload) = (1460, true);
        let mut cc = Cubic::new(CubicEra::Rfc8312);
        cc.conn_init(&mut ccv);
        cc.congestions = 1;
        cc.cong_signal(&mut ccv, Signal::DuplicateAcks);
        assert_eq!((cc.wmax / FULL, cc.wmax / 1460), (145, 143));
        assert_eq!(cc.k, math::k(145, &math::Curve::RFC));
        assert_ne!(cc.k, math::k(143, &math::Curve::RFC));
    }

    /// Rounds of eight samples each, of which the second shows a rise of an eighth.
    fn rise(cc: &mut Cubic, ccv: &mut CcVar) {
        for (number, rtt) in [(1, 40_000), (2, 50_000)] {
            cc.new_round(ccv, number);
            for _ in 0..8 {
                cc.rtt_sample(ccv, rtt, 50 * FULL);
            }
        }
    }

    /// Bytes that an ACK for two segments adds in slow start.
    fn step(cc: &mut Cubic, ccv: &mut CcVar) -> u64 {
        let before = ccv.cwnd;
        ccv.bytes_this_ack = 2 * FULL;
        cc.ack_received(ccv, AckKind::New);
        ccv.cwnd - before
    }

    #[test]
    fn hystart_slows_slow_start_where_the_stack_allows_it() {
        for name in ["freebsd-15-current", "freebsd-15-d46546", "freebsd-15-d49540"] {
            let (mut cc, mut ccv) = lan(name, 100);
            rise(&mut cc, &mut ccv);
            assert_eq!(step(&mut cc, &mut ccv), 2 * FULL, "{name}, not allowed");
            ccv.tuning.hystart.allowed = true;
            rise(&mut cc, &mut ccv);
            assert_eq!(step(&mut cc, &mut ccv), FULL / 2, "{name}");
            cc.cong_signal(&mut ccv, Signal::DuplicateAcks);
            (ccv.fast_recovery, ccv.cong_recovery) = (false, false);
            ccv.cwnd = ccv.ssthresh / 2;
            rise(&mut cc, &mut ccv);
            assert_eq!(step(&mut cc, &mut ccv), 2 * FULL, "{name}, after a loss");
            cc.after_idle(&mut ccv);
            rise(&mut cc, &mut ccv);
            assert_eq!(step(&mut cc, &mut ccv), FULL / 2, "{name}, after an idle time");
        }
    }

    #[test]
    fn of_15_slow_start_goes_on_above_ssthresh_while_no_rtt_is_known() {
        for (era, grows) in [(CubicEra::Rfc8312, 0), (CubicEra::Rfc8312Micros, 2 * FULL)] {
            let (_, mut ccv) = lan("freebsd-15-current", 10);
            let mut cc = Cubic::new(era);
            cc.conn_init(&mut ccv);
            (ccv.rtt_updates, ccv.ssthresh) = (RTT_SAMPLES - 1, 5 * FULL);
            assert_eq!(step(&mut cc, &mut ccv), grows, "{era:?}");
        }
    }
}
