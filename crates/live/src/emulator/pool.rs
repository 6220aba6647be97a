//! Memory for the packets that the emulator holds: slots of two sizes, taken and given back by number.

use std::io;

/// Bytes of a small slot: an Ethernet frame with its virtio header.
const SMALL: usize = 2048;
/// Bytes of a large slot: the largest IP packet with its headers.
const LARGE: usize = 68 * 1024;
/// Bytes taken from the system at a time.
const CHUNK: usize = 1 << 20;
/// Most bytes of each kind: about 260,000 packets of full size.
const MAX_BYTES: usize = 512 << 20;
/// Marks the number of a large slot.
const LARGE_BIT: u32 = 1 << 31;

/// Slots of both sizes.
pub(super) struct Pool {
    small: Arena,
    large: Arena,
}

impl Pool {
    /// A pool that holds so many packets of usual size without asking the system for more.
    pub(super) fn new(packets: usize) -> io::Result<Pool> {
        let mut pool = Pool { small: Arena::new(SMALL), large: Arena::new(LARGE) };
        while pool.small.free.len() < packets.min(MAX_BYTES / SMALL) {
            pool.small.grow()?;
        }
        Ok(pool)
    }

    /// A slot for so many bytes. None if there is no more memory, or it is more than an IP packet with its headers.
    pub(super) fn take(&mut self, bytes: usize) -> Option<u32> {
        if bytes <= SMALL {
            self.small.take()
        } else if bytes <= LARGE {
            self.large.take().map(|slot| slot | LARGE_BIT)
        } else {
            None
        }
    }

    /// Gives a slot back.
    pub(super) fn give(&mut self, slot: u32) {
        if slot & LARGE_BIT == 0 {
            self.small.free.push(slot);
        } else {
            self.large.free.push(slot & !LARGE_BIT);
        }
    }

    /// The bytes of a slot.
    pub(super) fn bytes(&mut self, slot: u32) -> &mut [u8] {
        if slot & LARGE_BIT == 0 { self.small.bytes(slot) } else { self.large.bytes(slot & !LARGE_BIT) }
    }
}

/// Slots of one size.
struct Arena {
    size: usize,
    chunks: Vec<Mapping>,
    free: Vec<u32>,
}

impl Arena {
    fn new(size: usize) -> Arena {
        Arena { size, chunks: Vec::new(), free: Vec::new() }
    }

    fn take(&mut self) -> Option<u32> {
        if self.free.is_empty() && (self.chunks.len() * CHUNK >= MAX_BYTES || self.grow().is_err()) {
            return None;
        }
        self.free.pop()
    }

    #[cold]
    fn grow(&mut self) -> io::Result<()> {
        let per_chunk = CHUNK / self.size;
        let first = self.chunks.len() * per_chunk;
        self.chunks.push(Mapping::new(CHUNK)?);
        self.free.extend((first..first + per_chunk).rev().map(|slot| slot as u32));
        Ok(())
    }

    fn bytes(&mut self, slot: u32) -> &mut [u8] {
        let per_chunk = CHUNK / self.size;
        let at = slot as usize % per_chunk * self.size;
        &mut self.chunks[slot as usize / per_chunk].as_mut()[at..at + self.size]
    }
}

/// Memory from the system, in place before it is used, and locked there if the rights are.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to the mapping alone.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a new mapping, of nothing that exists.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping just made. Without the right, it stays as it is.
        unsafe { libc::mlock(start, bytes) };
        Ok(Mapping { start: start.cast(), bytes })
    }
}

impl AsMut<[u8]> for Mapping {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is that long, is readable and writable, was zeroed by the system, and is borrowed with self.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nobody borrows any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_and_come_back() {
        let mut pool = Pool::new(10).unwrap();
        let mut slots: Vec<u32> = (0..2000).map(|_| pool.take(1514).unwrap()).collect();
        slots.extend((0..40).map(|_| pool.take(60_000).unwrap()));
        for (mark, &slot) in slots.iter().enumerate() {
            pool.bytes(slot).fill(mark as u8);
        }
        for (mark, &slot) in slots.iter().enumerate() {
            assert!(pool.bytes(slot).iter().all(|&byte| byte == mark as u8), "slot {slot}");
        }
        assert!(pool.bytes(slots[2000]).len() >= 65_535 + 64);
        let last = *slots.last().unwrap();
        pool.give(last);
        assert_eq!(pool.take(60_000), Some(last));
        assert_eq!(pool.take(70_000), None);
    }
}
