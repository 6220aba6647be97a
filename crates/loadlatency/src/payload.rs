//! Random payload, made once: links that compress, and those that look for repetitions nearby, gain nothing from it.

use std::sync::OnceLock;

use crate::auth::unguessable;
use crate::wire::MAX_BLOCK;

/// Bytes of random data; blocks begin at any place of the first half. Far beyond what LZ77-like compressors on links look
/// back (32 KiB of DEFLATE, RFC 1951; 64 KiB of LZ4).
const BYTES: usize = 4 << 20;

const _: () = assert!(BYTES / 2 >= MAX_BLOCK as usize);

/// Source of one flow's blocks.
#[derive(Debug)]
pub struct Payload {
    state: u64,
}

impl Payload {
    /// Creates the source for a flow, starting anywhere.
    pub fn begin_anywhere() -> Payload {
        Payload { state: u64::from_be_bytes(unguessable().unwrap_or([0x5a; 8])) | 1 }
    }

    /// The next block, of at most `MAX_BLOCK` bytes.
    pub fn block(&mut self, length: usize) -> &'static [u8] {
        let from = (xorshift(&mut self.state) as usize) % (BYTES / 2);
        &all()[from..from + length.min(MAX_BLOCK as usize)]
    }
}

fn all() -> &'static [u8] {
    static ALL: OnceLock<Vec<u8>> = OnceLock::new();
    ALL.get_or_init(|| {
        // Where there is no random device, any start does: this is no secret.
        let mut state = u64::from_be_bytes(unguessable().unwrap_or([0xa5; 8])) | 1;
        (0..BYTES / 8).flat_map(|_| xorshift(&mut state).to_be_bytes()).collect()
    })
}

/// The next random number: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2014).
pub fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_looks_random_and_blocks_differ() {
        let mut payload = Payload::begin_anywhere();
        let (one, other) = (payload.block(1 << 16), payload.block(1 << 16));
        assert_ne!(one, other);
        let mut counts = [0_u32; 256];
        for &byte in one {
            counts[usize::from(byte)] += 1;
        }
        // 256 of each expected; a binomial deviates by more than 100 with a probability below 1e-9.
        assert!(counts.iter().all(|&count| (156..356).contains(&count)), "{counts:?}");
    }
}
