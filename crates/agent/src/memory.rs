//! Memory that is kept for the next who asks for as much, not handed back to the system.
//!
//! In a guest in virtual time (`guest`) memory that comes and goes is what costs: each piece is two system calls and a fault
//! for every page, some ten times what a packet is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Sizes that are kept: powers of two, from 16 bytes to 4 MiB, which is more than what one look at a fast link takes.
const SMALLEST: u32 = 4;
const LARGEST: u32 = 22;
/// Alignment that every piece has.
const ALIGNED: usize = 16;

/// Pieces of one size that nobody uses; each begins with the address of the next.
struct Free(*mut u8);

// SAFETY: the pieces belong to whoever holds the list, which a mutex guards.
unsafe impl Send for Free {}

/// The system's memory, of which small pieces are kept once they were taken.
pub struct Kept([Mutex<Free>; (LARGEST - SMALLEST + 1) as usize]);

impl Kept {
    /// Keeps nothing yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a static is made by a constant function")]
    pub const fn new() -> Kept {
        Kept([const { Mutex::new(Free(ptr::null_mut())) }; (LARGEST - SMALLEST + 1) as usize])
    }

    /// The list for pieces of a layout, and the layout that all of them have. None: the system alone has such.
    fn list(&self, layout: Layout) -> Option<(&Mutex<Free>, Layout)> {
        let size = layout.size().checked_next_power_of_two()?.max(1 << SMALLEST);
        let list = self.0.get((size.trailing_zeros() - SMALLEST) as usize)?;
        let whole = Layout::from_size_align(size, ALIGNED).ok()?;
        (layout.align() <= ALIGNED).then_some((list, whole))
    }
}

// SAFETY: a piece is the system's, as large and as aligned as asked for at least, and in a list only while nobody has it. The
// layout alone says whether and where it is kept.
unsafe impl GlobalAlloc for Kept {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the system's functions; what a list holds begins with an address.
        unsafe {
            let Some((list, whole)) = self.list(layout) else { return System.alloc(layout) };
            let mut free = list.lock().unwrap_or_else(PoisonError::into_inner);
            if free.0.is_null() {
                return System.alloc(whole);
            }
            let piece = free.0;
            free.0 = piece.cast::<*mut u8>().read();
            piece
        }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: the piece came from `alloc` with this layout, so that it has room for an address.
        unsafe {
            let Some((list, _)) = self.list(layout) else { return System.dealloc(piece, layout) };
            let mut free = list.lock().unwrap_or_else(PoisonError::into_inner);
            piece.cast::<*mut u8>().write(free.0);
            free.0 = piece;
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises, the new size is one that a layout may have.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            match (self.list(layout), self.list(new)) {
                (None, None) => return System.realloc(piece, layout, size),
                (Some((_, had)), Some((_, wanted))) if had == wanted => return piece,
                _ => (),
            }
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(piece, moved, size.min(layout.size()));
                self.dealloc(piece, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("a layout")
    }

    #[test]
    fn a_piece_is_kept_for_the_next_who_asks_for_as_much() {
        let kept = Kept::new();
        // SAFETY: each piece is given back once, with the layout that it has then.
        unsafe {
            let first = kept.alloc(layout(5000));
            kept.dealloc(first, layout(5000));
            let other = kept.alloc(layout(100));
            assert_ne!(other, first, "it is of another size");
            let again = kept.alloc(layout(8192));
            assert_eq!(again, first);
            assert_ne!(kept.alloc(layout(8000)), again, "it is in use");
        }
    }

    #[test]
    fn what_is_in_a_piece_moves_with_it() {
        let kept = Kept::new();
        // SAFETY: as above; what is read was written.
        unsafe {
            let mut piece = kept.alloc(layout(1));
            piece.write(42);
            let small = kept.realloc(piece, layout(1), 16);
            assert_eq!(small, piece, "there is room for 16 bytes");
            let mut size = 16;
            for larger in [17, 1 << LARGEST, (1 << LARGEST) + 1, 1 << 24, 20] {
                piece = kept.realloc(piece, layout(size), larger);
                size = larger;
                assert_eq!(piece.read(), 42, "{larger} bytes");
            }
            kept.dealloc(piece, layout(size));
        }
    }

    #[test]
    fn a_wide_alignment_is_kept_to() {
        let kept = Kept::new();
        let wide = Layout::from_size_align(64, 4096).expect("a layout");
        // SAFETY: as above.
        unsafe {
            let piece = kept.alloc(wide);
            assert_eq!(piece as usize % 4096, 0);
            kept.dealloc(piece, wide);
            assert_eq!(kept.alloc(layout(64)) as usize % ALIGNED, 0);
        }
    }
}
