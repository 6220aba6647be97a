//! SYN cookies: a listener that keeps nothing of a SYN, and reads of the handshake's third packet what it would have kept.

use wire::{Options, Segment};

/// System whose rules a listener follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Linux's (syncookies.c): options live on in the timestamp of the SYN-ACK, or not at all.
    Linux,
    /// FreeBSD's since 10 (tcp_syncache.c): window scale and SACK live on in the sequence number.
    FreeBsd,
}

/// Settings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The system's rules.
    pub style: Style,
    /// The sysctl: 2 every SYN is answered with a cookie, else those are for which there is no room.
    pub mode: u8,
}

/// The mode in which every SYN is answered with a cookie.
pub const ALWAYS: u8 = 2;

impl Settings {
    /// Linux's.
    pub const LINUX: Settings = Settings { style: Style::Linux, mode: 1 };
    /// FreeBSD's.
    pub const FREEBSD: Settings = Settings { style: Style::FreeBsd, mode: 1 };
    /// Settings of a system without cookies: no sysctl asks for them.
    pub const NONE: Settings = Settings { style: Style::Linux, mode: 0 };

    /// Rules by which a SYN is answered with a cookie. None: it is kept, as no queue of SYNs is modelled that could be full.
    #[must_use]
    pub fn answers(&self) -> Option<Style> {
        (self.mode == ALWAYS).then_some(self.style)
    }
}

/// Sizes that Linux tells apart over IPv4 and IPv6 (msstab).
const LINUX_MSS: [[u16; 4]; 2] = [[536, 1300, 1440, 1460], [1220, 1420, 1440, 8940]];
/// Sizes and window scales that FreeBSD tells apart (tcp_sc_msstab, tcp_sc_wstab).
const FREEBSD_MSS: [u16; 8] = [216, 536, 1200, 1360, 1400, 1440, 1452, 1460];
const FREEBSD_SCALES: [u8; 7] = [0, 1, 2, 4, 6, 7, 8];

/// The largest entry that is no larger, or the smallest one.
fn rounded<T: Copy + PartialOrd>(table: &[T], value: T) -> T {
    table.iter().rev().copied().find(|&entry| entry <= value).unwrap_or(table[0])
}

impl Style {
    /// MSS that is taken for the peer's. `usual` is the one by its SYN, or the one of a SYN that tells none.
    pub(crate) fn mss(self, syn: &Segment, usual: u16, ipv6: bool) -> u16 {
        match self {
            Style::Linux => rounded(&LINUX_MSS[usize::from(ipv6)], usual),
            Style::FreeBsd if !syn.options.has(Options::MSS) => FREEBSD_MSS[0],
            Style::FreeBsd => rounded(&FREEBSD_MSS, usual),
        }
    }

    /// Window scale that is taken for the peer's.
    pub(crate) fn scale(self, told: u8) -> u8 {
        match self {
            Style::Linux => told,
            Style::FreeBsd => rounded(&FREEBSD_SCALES, told),
        }
    }

    /// Whether window scaling and SACK outlive the SYN.
    pub(crate) fn keeps_options(self, timestamps: bool) -> bool {
        timestamps || self == Style::FreeBsd
    }

    /// Clock of the SYN-ACK in ms, which Linux rounds down to have six bits for options (cookie_init_timestamp).
    pub(crate) fn timestamp(self, now_ms: u32, syn_ack: &Segment, ecn: bool) -> u32 {
        if self == Style::FreeBsd {
            return now_ms;
        }
        let scale = if syn_ack.options.has(Options::WSCALE) { u32::from(syn_ack.wscale) } else { 0xf };
        let sack = u32::from(syn_ack.options.has(Options::SACK_PERMITTED)) << 4;
        let stamp = now_ms >> 6 << 6 | scale | sack | u32::from(ecn) << 5;
        if stamp > now_ms { stamp.wrapping_sub(64) } else { stamp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_scales_are_rounded_to_what_a_cookie_holds() {
        let syn = Segment { options: Options::MSS, ..Segment::default() };
        let linux = [400, 536, 1299, 1300, 1452, 1460, 8960].map(|mss| Style::Linux.mss(&syn, mss, false));
        assert_eq!(linux, [536, 536, 536, 1300, 1440, 1460, 1460]);
        assert_eq!([1200, 1440, 9000].map(|mss| Style::Linux.mss(&syn, mss, true)), [1220, 1440, 8940]);
        let freebsd = [100, 1199, 1380, 1460, 8960].map(|mss| Style::FreeBsd.mss(&syn, mss, false));
        assert_eq!(freebsd, [216, 536, 1360, 1460, 1460]);
        assert_eq!(Style::FreeBsd.mss(&Segment::default(), 536, false), 216);
        let scales = [0, 1, 3, 5, 7, 14].map(|scale| Style::FreeBsd.scale(scale));
        assert_eq!(scales, [0, 1, 2, 4, 7, 8]);
    }

    /// By hand: 1000 is 15 times 64 and 40; with scale 7 and SACK (16) the lower bits are 23, without options 15.
    #[test]
    fn options_stand_in_the_lower_bits_of_a_timestamp_that_has_passed() {
        let bare = Segment::default();
        let all =
            Segment { options: Options::WSCALE | Options::SACK_PERMITTED, wscale: 7, ..Segment::default() };
        assert_eq!(Style::Linux.timestamp(1000, &bare, false), 960 + 15);
        assert_eq!(Style::Linux.timestamp(1000, &all, false), 960 + 23);
        assert_eq!(Style::Linux.timestamp(1000, &all, true), 896 + 55);
        assert_eq!(Style::FreeBsd.timestamp(1000, &all, true), 1000);
    }
}
