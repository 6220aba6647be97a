//! Cookies of TCP Fast Open (RFC 7413), as options carry them, and the keyed hash that servers make them with.

/// A cookie as an option holds it; an empty one asks for a cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cookie {
    /// Bytes in the option, of which the first [`Cookie::MAX`] are kept.
    len: u8,
    /// The option is the experimental one (kind 254, RFC 6994), as before RFC 7413.
    experimental: bool,
    bytes: [u8; Cookie::MAX],
}

impl Cookie {
    /// Kind of the option (RFC 7413 section 4.1.1).
    pub const KIND: u8 = 34;
    /// Kind of options that share it (RFC 4727 section 2.1).
    pub const EXPERIMENT: u8 = 254;
    /// Identifier of Fast Open among these (RFC 7413 section 9).
    pub const MAGIC: u16 = 0xf989;
    /// Fewest bytes of a cookie (RFC 7413 section 4.1.1).
    pub const MIN: usize = 4;
    /// Most bytes of a cookie (RFC 7413 section 4.1.1).
    pub const MAX: usize = 16;

    /// A cookie of `bytes` in an option of either kind. Of more than [`Cookie::MAX`] only the number is kept.
    #[must_use]
    pub fn new(bytes: &[u8], experimental: bool) -> Cookie {
        let kept = bytes.len().min(Cookie::MAX);
        let mut cookie = Cookie { len: bytes.len().min(255) as u8, experimental, bytes: [0; Cookie::MAX] };
        cookie.bytes[..kept].copy_from_slice(&bytes[..kept]);
        cookie
    }

    /// A request for a cookie.
    #[must_use]
    pub fn request(experimental: bool) -> Cookie {
        Cookie { experimental, ..Cookie::default() }
    }

    /// Whether this asks for a cookie.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Whether the length is one that RFC 7413 section 4.1.1 allows: 4 to 16, and even.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        (Cookie::MIN..=Cookie::MAX).contains(&usize::from(self.len)) && self.len.is_multiple_of(2)
    }

    /// Whether the option is the experimental one.
    #[must_use]
    pub fn is_experimental(&self) -> bool {
        self.experimental
    }

    /// Cookie in an option of the kind that is asked for.
    #[must_use]
    pub fn in_option(self, experimental: bool) -> Cookie {
        Cookie { experimental, ..self }
    }

    /// The bytes that are kept.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(Cookie::MAX)]
    }

    /// Bytes of the option without padding.
    #[must_use]
    pub fn option_bytes(&self) -> u32 {
        2 + u32::from(self.experimental) * 2 + self.bytes().len() as u32
    }

    /// The cookie as the words that a segment has room for.
    pub(crate) fn words(&self) -> [u32; 5] {
        let mut words = [u32::from(self.len) | u32::from(self.experimental) << 8, 0, 0, 0, 0];
        for (word, bytes) in words[1..].iter_mut().zip(self.bytes.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        words
    }

    /// The cookie of [`Cookie::words`].
    pub(crate) fn of_words(words: [u32; 5]) -> Cookie {
        let mut cookie = Cookie::request(words[0] >> 8 != 0);
        cookie.len = words[0] as u8;
        for (bytes, word) in cookie.bytes.chunks_exact_mut(4).zip(&words[1..]) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        cookie
    }
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012): what both Linux and FreeBSD make cookies with. `key` is two words, little-endian.
#[must_use]
pub fn siphash(key: [u64; 2], data: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let absorb = |word: u64, v: &mut [u64; 4]| {
        v[3] ^= word;
        round(v);
        round(v);
        v[0] ^= word;
    };
    let chunks = data.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        absorb(u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8])), &mut v);
    }
    // The last word: what is left, and the length in its top byte.
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = data.len() as u8;
    absorb(u64::from_le_bytes(last), &mut v);
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the algorithm's paper, appendix A: key and message count up from 0.
    #[test]
    fn the_hash_is_that_of_its_paper() {
        let bytes: Vec<u8> = (0..16).collect();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!(siphash([word(0), word(8)], &bytes[..15]), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn lengths_that_the_rfc_allows() {
        let valid: Vec<usize> = (0..40).filter(|&n| Cookie::new(&vec![7; n], false).is_valid()).collect();
        assert_eq!(valid, [4, 6, 8, 10, 12, 14, 16]);
    }

    #[test]
    fn a_cookie_is_the_same_behind_its_words() {
        for cookie in
            [Cookie::request(true), Cookie::new(&[1, 2, 3, 4, 5, 6], false), Cookie::new(&[9; 18], true)]
        {
            assert_eq!(Cookie::of_words(cookie.words()), cookie);
        }
    }
}
