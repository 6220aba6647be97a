//! What the RACK stack remembers of SACKs so as not to read them twice (sack_filter.c).

/// The acknowledgement that came with the last blocks, in the 32 bits of a sequence number. Only a timeout, or an ACK for all
/// that is out, forgets it. An ACK that is 2^31 bytes or more behind it seems older, and its blocks are taken for known: so
/// are those of a loss that follows the last one after 2 to 4 GiB (sack_filter_blks, is_sack_on_board).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackFilter {
    last: Option<u64>,
}

impl SackFilter {
    pub(super) fn clear(&mut self) {
        self.last = None;
    }

    /// Whether the blocks that came with `ack` are read.
    pub(super) fn passes(&mut self, ack: u64) -> bool {
        let Some(last) = self.last else {
            self.last = Some(ack);
            return true;
        };
        if wire::seq::before(ack as u32, last as u32) {
            return ack < last;
        }
        self.last = Some(ack);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::SackFilter;

    /// Between the recoveries of the recorded `f13rack_cubic_1g_41ms_b256` at 41.6 s and at 65.2 s lie 2.5 GB, and SACKs
    /// of the second do nothing.
    #[test]
    fn two_to_four_gib_after_the_last_sack_the_next_ones_are_not_read() {
        for (bytes, read) in
            [(1, true), (0x7fff_ffff, true), (0x8000_0001, false), (0xffff_ffff, false), (1 << 32, true)]
        {
            let mut filter = SackFilter::default();
            assert!(filter.passes(1000));
            assert_eq!(filter.passes(1000 + bytes), read, "{bytes} bytes on");
            assert_eq!(
                filter.passes(2000 + bytes),
                read || bytes == 0xffff_ffff,
                "{bytes} bytes on, the next ACK"
            );
            filter.clear();
            assert!(filter.passes(3000 + bytes));
        }
    }

    #[test]
    fn an_ack_that_was_overtaken_is_read() {
        let mut filter = SackFilter::default();
        assert!(filter.passes(5000));
        assert!(filter.passes(4000));
    }
}
