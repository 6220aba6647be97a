//! Prefetching: asks the processor for memory before it is needed. With many connections, what one of them needs has left the
//! caches since it was last used.

/// Prefetches all of `what` into the caches. A hint: no result depends on it, and on processors other than x86-64 it does
/// nothing.
#[inline(always)]
pub fn prefetch<T: ?Sized>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(what).cast::<i8>();
        let size = size_of_val(what);
        for offset in (0..size).step_by(CACHE_LINE) {
            // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; this one is inside `what`.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) };
        }
        // A value that begins in the middle of a cache line may end one line further than its size tells.
        if size > 0 && (size - 1) % CACHE_LINE >= align_of_val(what) {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(size - 1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

/// Bytes.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;
