//! Linux's sysctls of what opens a connection: TCP Fast Open and SYN cookies (ip-sysctl).

use super::{Knob, knob, knobs};
use crate::clock::SECOND;

/// Sysctls of kernels that are modelled with Fast Open and SYN cookies.
pub(super) static FAST_OPEN: [Knob; 3] = knobs! {
    "net.ipv4.tcp_syncookies", (0, 2),
        "2: every SYN is answered with a cookie; 0 and 1: none is, as no queue of SYNs is full",
        (|p| p.spec.syn_cookies.mode.into(), |p, v| p.spec.syn_cookies.mode = v as u8);
    "net.ipv4.tcp_fastopen", (0, 0x7fff_ffff),
        "Fast Open: 1 clients may, 2 listeners may, 4 data without a cookie, 0x200 none is asked for, 0x400 every listener",
        (|p| p.spec.fast_open.linux_bits(), |p, v| p.spec.fast_open.set_linux_bits(v));
    "net.ipv4.tcp_fastopen_blackhole_timeout_sec", (0, 0x7fff_ffff),
        "seconds without Fast Open after the first black hole; 0: none is looked for",
        (spec.fast_open.disabled_for: SECOND * u64);
};
