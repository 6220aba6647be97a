//! Credits that flows may still send, compared several at a time.

/// Bytes that a flow may still send, in units of 2^-14 bytes. Negative after it sent more: the debt of a packet of 64 KiB fits.
pub(super) type Credit = i32;

/// A list of credits that is searched in groups of [`GROUP`].
#[derive(Default)]
pub(super) struct Credits {
    count: usize,
    /// The last group is filled up with [`Credit::MIN`].
    pub(super) values: Vec<Credit>,
}

/// Credits in a group.
pub(super) const GROUP: usize = 8;

impl Credits {
    pub(super) fn insert(&mut self, place: usize, credit: Credit) {
        self.values.insert(place, credit);
        self.resize(self.count + 1);
    }

    pub(super) fn truncate(&mut self, count: usize) {
        self.values.truncate(count);
        self.resize(count);
    }

    pub(super) fn resize(&mut self, count: usize) {
        self.count = count;
        self.values.resize(count.next_multiple_of(GROUP), Credit::MIN);
    }

    pub(super) fn groups(&self) -> &[[Credit; GROUP]] {
        self.values.as_chunks().0
    }

    /// The first place from `place` on whose credit is above `threshold`.
    #[inline]
    pub(super) fn find(&self, place: usize, threshold: Credit) -> Option<usize> {
        self.find_in_group(place, threshold).or_else(|| {
            let first = place / GROUP + 1;
            let coming = self.groups().get(first..)?.iter();
            coming.zip(first..).find_map(|(group, number)| {
                let above = above(group, threshold);
                (above != 0).then(|| number * GROUP + above.trailing_zeros() as usize)
            })
        })
    }

    /// Searches as [`Credits::find`] does, but only to the end of the group that `place` is in.
    #[inline]
    pub(super) fn find_in_group(&self, place: usize, threshold: Credit) -> Option<usize> {
        let above = above(self.groups().get(place / GROUP)?, threshold) >> (place % GROUP);
        (above != 0).then(|| place + above.trailing_zeros() as usize)
    }
}

/// Credits of a group that are above `threshold`: a bit for each, the lowest for the first.
#[cfg(target_arch = "x86_64")]
#[inline]
fn above(group: &[Credit; GROUP], threshold: Credit) -> u32 {
    use std::arch::x86_64::{
        _mm_castsi128_ps, _mm_cmpgt_epi32, _mm_movemask_ps, _mm_set_epi32, _mm_set1_epi32,
    };
    let &[a, b, c, d, e, f, g, h] = group;
    // Written with intrinsics, as the compiler does not find this vectorisation itself.
    // SAFETY: every x86-64 has SSE2.
    let (low, high) = unsafe {
        let threshold = _mm_set1_epi32(threshold);
        let low = _mm_cmpgt_epi32(_mm_set_epi32(d, c, b, a), threshold);
        let high = _mm_cmpgt_epi32(_mm_set_epi32(h, g, f, e), threshold);
        (_mm_movemask_ps(_mm_castsi128_ps(low)), _mm_movemask_ps(_mm_castsi128_ps(high)))
    };
    (low | high << 4) as u32
}

/// Credits of a group that are above `threshold`: a bit for each, the lowest for the first.
#[cfg(not(target_arch = "x86_64"))]
fn above(group: &[Credit; GROUP], threshold: Credit) -> u32 {
    group.iter().rev().fold(0, |bits, &credit| bits << 1 | u32::from(credit > threshold))
}

/// The highest credit of a group.
#[inline]
pub(super) fn highest(group: &[Credit; GROUP]) -> Credit {
    group.iter().fold(Credit::MIN, |highest, &credit| highest.max(credit))
}

/// The highest credit of a group without the one at `place`.
#[inline]
pub(super) fn highest_except(group: &[Credit; GROUP], place: usize) -> Credit {
    let others =
        group.iter().enumerate().map(|(other, &credit)| if other == place { Credit::MIN } else { credit });
    others.fold(Credit::MIN, Credit::max)
}
