//! Asks the processor for memory before it is needed: with many connections, each one's has gone far away meanwhile.

/// Asks for all of `what`. A hint: nothing depends on it, and where there is no way to give it, nothing happens.
#[inline(always)]
pub fn bring<T: ?Sized>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(what).cast::<i8>();
        let size = size_of_val(what);
        for offset in (0..size).step_by(CACHE_LINE) {
            // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; this one is inside `what`.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) };
        }
        // What begins in the middle of a line may end in one more than its size tells.
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
