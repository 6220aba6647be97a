//! The Internet checksum (RFC 1071).

/// The sum of the bytes as 16-bit words in network byte order, the last one padded with zero; not folded, so that sums
/// of pieces of even length can be added.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let tail = match *words.remainder() {
        [a] => u64::from(a) << 8,
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c] => u64::from(u16::from_be_bytes([a, b])) + (u64::from(c) << 8),
        _ => 0,
    };
    // 2^16 is 1 modulo 2^16 - 1, so words of 32 bits give the same sum after folding.
    words.map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum::<u64>() + tail
}

/// The checksum of what was summed: folded to 16 bits, and inverted. 0 if a right checksum was among it.
#[inline]
pub fn of(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: the words 0001 f203 f4f5 f6f7 sum to 2ddf0, folded ddf2.
        assert_eq!(of(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
        assert_eq!(of(sum(&[0x00, 0x01, 0xf2])), !(0x0001 + 0xf200));
    }

    #[test]
    fn words_of_any_number_are_summed() {
        let bytes: Vec<u8> = (0..255).map(|byte| byte ^ 0xa5).collect();
        for length in 0..bytes.len() {
            let words = bytes[..length].chunks(2);
            let slow = words.map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |&byte| byte.into()));
            assert_eq!(of(sum(&bytes[..length])), of(slow.sum()), "{length}");
        }
    }
}
