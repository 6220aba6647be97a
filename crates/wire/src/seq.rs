//! Sequence numbers: 32 bits that wrap on the wire, 64 bits that do not inside an endpoint.
//!
//! An endpoint counts its stream in u64 ("extended" sequence numbers) whose low 32 bits are what stands on the
//! wire. Every comparison is then an ordinary one, and wrapping is met in one place, [`extend`].

/// Start of an endpoint's extended sequence numbers, above the 32 random bits of its initial sequence number: one
/// whole lap above zero, so that a number a little below the first one is still representable.
pub const FIRST_LAP: u64 = 1 << 32;

/// The extended sequence number nearest to `near` whose low 32 bits are `seq` (RFC 9293 section 3.4 compares
/// sequence numbers modulo 2^32; within half the space the nearest one is the one meant).
#[inline]
pub fn extend(near: u64, seq: u32) -> u64 {
    let distance = seq.wrapping_sub(near as u32) as i32;
    near.wrapping_add(distance as i64 as u64)
}

/// The wire form of an extended sequence number.
#[inline]
pub fn wire(extended: u64) -> u32 {
    extended as u32
}

/// Whether timestamp or sequence number `a` is before `b`, modulo 2^32 (RFC 9293 section 3.4, RFC 7323 section 5.2).
#[inline]
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extends_across_a_wrap_in_both_directions() {
        let near = FIRST_LAP + 0xffff_fff0;
        assert_eq!(extend(near, 0x0000_0010), FIRST_LAP + 0x1_0000_0010);
        assert_eq!(extend(FIRST_LAP + 0x1_0000_0010, 0xffff_fff0), near);
        assert_eq!(extend(near, 0xffff_fff0), near);
    }

    #[test]
    fn before_wraps() {
        assert!(before(0xffff_ffff, 0));
        assert!(!before(0, 0xffff_ffff));
        assert!(!before(7, 7));
    }
}
