//! What flows may send, compared several at a time.

/// What a flow may send, in units of 2^-14 bytes: the debt of a packet of 64 KiB fits.
pub(super) type Credit = i32;

/// Credits of which several are looked at together.
#[derive(Default)]
pub(super) struct Credits {
    count: usize,
    /// Filled up to whole groups with the least there is.
    pub(super) values: Vec<Credit>,
}

/// So many.
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

    /// The first from `place` on that is more than `least`.
    #[inline]
    pub(super) fn find(&self, place: usize, least: Credit) -> Option<usize> {
        self.find_in_group(place, least).or_else(|| {
            let first = place / GROUP + 1;
            let coming = self.groups().get(first..)?.iter();
            coming.zip(first..).find_map(|(group, number)| {
                let above = above(group, least);
                (above != 0).then(|| number * GROUP + above.trailing_zeros() as usize)
            })
        })
    }

    /// The first from `place` to the end of its group that is more than `least`.
    #[inline]
    pub(super) fn find_in_group(&self, place: usize, least: Credit) -> Option<usize> {
        let above = above(self.groups().get(place / GROUP)?, least) >> (place % GROUP);
        (above != 0).then(|| place + above.trailing_zeros() as usize)
    }
}

/// Which of a group are more than `least`, a bit for each.
#[cfg(target_arch = "x86_64")]
#[inline]
fn above(group: &[Credit; GROUP], least: Credit) -> u32 {
    use std::arch::x86_64::{
        _mm_castsi128_ps, _mm_cmpgt_epi32, _mm_movemask_ps, _mm_set_epi32, _mm_set1_epi32,
    };
    let &[a, b, c, d, e, f, g, h] = group;
    // All at once, which the compiler does not find itself.
    // SAFETY: every x86-64 has SSE2.
    let (low, high) = unsafe {
        let least = _mm_set1_epi32(least);
        let low = _mm_cmpgt_epi32(_mm_set_epi32(d, c, b, a), least);
        let high = _mm_cmpgt_epi32(_mm_set_epi32(h, g, f, e), least);
        (_mm_movemask_ps(_mm_castsi128_ps(low)), _mm_movemask_ps(_mm_castsi128_ps(high)))
    };
    (low | high << 4) as u32
}

/// Which of a group are more than `least`, a bit for each.
#[cfg(not(target_arch = "x86_64"))]
fn above(group: &[Credit; GROUP], least: Credit) -> u32 {
    group.iter().rev().fold(0, |bits, &credit| bits << 1 | u32::from(credit > least))
}

/// The most that any of a group has but for one.
#[inline]
pub(super) fn most_but(group: &[Credit; GROUP], one: usize) -> Credit {
    let others =
        group.iter().enumerate().map(|(place, &credit)| if place == one { Credit::MIN } else { credit });
    others.fold(Credit::MIN, Credit::max)
}

/// The most that any of a group has.
#[inline]
pub(super) fn most(group: &[Credit; GROUP]) -> Credit {
    group.iter().fold(Credit::MIN, |most, &credit| most.max(credit))
}
