//! CUBIC's window functions in the fixed point FreeBSD uses, to the unit: K, W_cubic and the TCP-friendly window.

/// Fractional bits of K and of the constants below.
pub const SHIFT: u32 = 8;

/// The constants of the curve, in 1/256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Multiplicative decrease.
    pub beta: u64,
    /// The beta whose complement K and the TCP-friendly window are made of: 205 beside 204 in the oldest era.
    pub beta_of_k: u64,
    /// Part of W_max that fast convergence leaves: (1 + beta) / 2 (RFC 9438 section 4.7); 256: there is none.
    pub fast_convergence: u64,
    /// C (RFC 9438 section 4.1).
    pub c: i64,
    /// Beyond this the cube of t - K would not fit: the cube root of 2^63 / C, as FreeBSD rounds it.
    pub largest_cubed: i64,
}

impl Curve {
    /// 11 and before: beta = 0.8 and C = 0.4.
    pub const DRAFT_02: Curve = Curve { beta: 204, beta_of_k: 205, fast_convergence: 230, ..Curve::RFC };

    /// 12 and later: beta = 0.7 and C = 0.4.
    pub const RFC: Curve =
        Curve { beta: 179, beta_of_k: 179, fast_convergence: 217, c: 102, largest_cubed: 448_845 };

    /// Sets another beta, and its fast convergence.
    pub fn with_beta(self, beta: u64) -> Curve {
        Curve { beta, beta_of_k: beta, fast_convergence: u64::midpoint(256, beta), ..self }
    }

    /// Sets another C.
    pub fn with_c(self, c: i64) -> Curve {
        let most = libm::cbrt((i64::MAX / c) as f64);
        Curve { c, largest_cubed: most as i64 - 1, ..self }
    }
}

/// The time to return to `wmax_segments` after a reduction to beta (RFC 8312 section 4.1), in 1/256 s: the cube root of
/// W_max (1 - beta) / C by a quadratic approximation on one octave of eight, as FreeBSD computes it.
pub fn k(wmax_segments: u64, curve: &Curve) -> i64 {
    cube_root(((wmax_segments as i64).wrapping_mul(256 - curve.beta_of_k as i64) << SHIFT) / curve.c)
}

/// The time to return from `epoch_segments` to `wmax_segments` (RFC 9438 section 4.2), in 1/256 s.
pub fn k_of_epoch(wmax_segments: u64, epoch_segments: u64, curve: &Curve) -> i64 {
    let below = wmax_segments.saturating_sub(epoch_segments) as i64;
    if below == 0 { 0 } else { cube_root((below << (2 * SHIFT)) / curve.c) }
}

/// Cube root of `s`/256, in 1/256.
pub fn cube_root(mut s: i64) -> i64 {
    let mut octaves = 0;
    while s >= 256 {
        s >>= 3;
        octaves += 1;
    }
    // A negative one, which a window that wrapped in 11 gives, wraps here as well.
    let square = s.wrapping_mul(s).wrapping_mul(120);
    ((s.wrapping_mul(275) >> SHIFT).wrapping_add(98).wrapping_sub((square >> SHIFT) >> SHIFT)) << octaves
}

/// W_cubic in bytes after `ticks` of a clock of `hz` ticks a second, in the order of operations of FreeBSD 11 and
/// before.
pub fn window_9(ticks: i64, wmax: u64, mss: u64, k: i64, hz: i64, curve: &Curve) -> i64 {
    let t = (ticks << SHIFT).wrapping_sub(k.wrapping_mul(hz)) / hz;
    (t.wrapping_mul(t).wrapping_mul(t).wrapping_mul(curve.c).wrapping_mul(mss as i64) >> (4 * SHIFT))
        .wrapping_add(wmax as i64)
}

/// W_cubic in bytes, in the order of operations of FreeBSD 12 and later: whole segments are added to `wmax`.
pub fn window_13(ticks: i64, wmax: u64, mss: u64, k: i64, hz: i64, curve: &Curve) -> u64 {
    let t = ((ticks << SHIFT) - k * hz) / hz;
    if t > curve.largest_cubed {
        return i32::MAX as u64;
    }
    if t < -curve.largest_cubed {
        return 0;
    }
    (((t * t * t * curve.c) >> (4 * SHIFT)) * mss as i64 + wmax as i64).max(0) as u64
}

/// The TCP-friendly window in bytes of FreeBSD 11 and before (draft-rhee-tcpm-cubic-02 equation 4, beta 0.8). The
/// middle term is a 32-bit product there and overflows about every 50 ms.
pub fn friendly_9(ticks: u32, mean_rtt: u32, wmax: u64, mss: u32, curve: &Curve) -> u64 {
    // 3 (1 - beta) and 1 + beta.
    let (three, two) = (3 * (256 - curve.beta_of_k as u32), 256 + curve.beta_of_k as u32);
    let growth = three.wrapping_mul(ticks).wrapping_mul(mss) << SHIFT;
    wmax.wrapping_mul(curve.beta).wrapping_add(u64::from(growth / two / mean_rtt)) >> SHIFT
}

/// The TCP-friendly window in bytes of FreeBSD 12 to 14 (RFC 8312 section 4.2, beta 0.7).
pub fn friendly_13(ticks: u64, mean_rtt: u64, wmax: u64, mss: u64, curve: &Curve) -> u64 {
    // 3 (1 - beta) and 1 + beta.
    let (three, two) = (3 * (256 - curve.beta), 256 + curve.beta);
    (wmax * curve.beta + ((three * ticks * mss) << SHIFT) / two / mean_rtt) >> SHIFT
}
