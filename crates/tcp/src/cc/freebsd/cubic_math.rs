//! CUBIC's window functions in the fixed point FreeBSD uses, to the unit: K, W_cubic and the TCP-friendly window.

/// Fractional bits of K and of the constants below.
pub const SHIFT: u32 = 8;

/// C = 0.4 (RFC 9438 section 4.1), in 1/256.
const C: i64 = 102;

/// Beyond this the cube of t - K would not fit (the cube root of 2^63, as FreeBSD rounds it).
const LARGEST_CUBED: i64 = 448_845;

/// The time to return to `wmax_segments` after a reduction to beta (RFC 8312 section 4.1), in 1/256 s: the cube root of
/// W_max (1 - beta) / C by a quadratic approximation on one octave of eight, as FreeBSD computes it.
/// `beta` is in 1/256.
pub fn k(wmax_segments: u64, beta: u64) -> i64 {
    cube_root(((wmax_segments as i64).wrapping_mul(256 - beta as i64) << SHIFT) / C)
}

/// The time to return from `epoch_segments` to `wmax_segments` (RFC 9438 section 4.2), in 1/256 s.
pub fn k_of_epoch(wmax_segments: u64, epoch_segments: u64) -> i64 {
    let below = wmax_segments.saturating_sub(epoch_segments) as i64;
    if below == 0 { 0 } else { cube_root((below << (2 * SHIFT)) / C) }
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

/// W_cubic in bytes after `ticks` of a clock of `hz` ticks a second, in the order of operations of 11 and before.
pub fn window_9(ticks: i64, wmax: u64, mss: u64, k: i64, hz: i64) -> i64 {
    let t = (ticks << SHIFT).wrapping_sub(k.wrapping_mul(hz)) / hz;
    (t.wrapping_mul(t).wrapping_mul(t).wrapping_mul(C).wrapping_mul(mss as i64) >> (4 * SHIFT))
        .wrapping_add(wmax as i64)
}

/// W_cubic in bytes, in the order of operations of 12 and later: whole segments are added to `wmax`.
pub fn window_13(ticks: i64, wmax: u64, mss: u64, k: i64, hz: i64) -> u64 {
    let t = ((ticks << SHIFT) - k * hz) / hz;
    if t > LARGEST_CUBED {
        return i32::MAX as u64;
    }
    if t < -LARGEST_CUBED {
        return 0;
    }
    (((t * t * t * C) >> (4 * SHIFT)) * mss as i64 + wmax as i64).max(0) as u64
}

/// The TCP-friendly window in bytes of 11 and before (draft-rhee-tcpm-cubic-02 equation 4, beta 0.8). The middle term is a
/// 32-bit product there and overflows about every 50 ms.
pub fn friendly_9(ticks: u32, mean_rtt: u32, wmax: u64, mss: u32) -> u64 {
    /// 3 * 0.2 in 1/256.
    const THREE_X_0_2: u32 = 153;
    /// 2 - 0.2 in 1/256.
    const TWO_SUB_0_2: u32 = 461;
    /// 0.8 in 1/256.
    const BETA: u64 = 204;
    let growth = THREE_X_0_2.wrapping_mul(ticks).wrapping_mul(mss) << SHIFT;
    wmax.wrapping_mul(BETA).wrapping_add(u64::from(growth / TWO_SUB_0_2 / mean_rtt)) >> SHIFT
}

/// The TCP-friendly window in bytes of 12 to 14 (RFC 8312 section 4.2, beta 0.7).
pub fn friendly_13(ticks: u64, mean_rtt: u64, wmax: u64, mss: u64) -> u64 {
    /// 3 * 0.3 in 1/256, rounded up.
    const THREE_X_0_3: u64 = 231;
    /// 2 - 0.3 in 1/256.
    const TWO_SUB_0_3: u64 = 435;
    /// 0.7 in 1/256.
    const BETA: u64 = 179;
    (wmax * BETA + ((THREE_X_0_3 * ticks * mss) << SHIFT) / TWO_SUB_0_3 / mean_rtt) >> SHIFT
}
