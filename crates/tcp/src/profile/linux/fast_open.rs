//! Linux's sysctls of what opens a connection: TCP Fast Open and SYN cookies (ip-sysctl).

use super::Knob;
use crate::clock::SECOND;

/// Sysctls of kernels that are modelled with Fast Open and SYN cookies.
pub(super) static FAST_OPEN: [Knob; 3] = [
    Knob {
        name: "net.ipv4.tcp_syncookies",
        range: (0, 2),
        about: "2: every SYN is answered with a cookie; 0 and 1: none is, as no queue of SYNs is full",
        get: |p| p.spec.syn_cookies.mode.into(),
        set: |p, v| p.spec.syn_cookies.mode = v as u8,
    },
    Knob {
        name: "net.ipv4.tcp_fastopen",
        range: (0, 0x7fff_ffff),
        about: "Fast Open: 1 clients may, 2 listeners may, 4 data without a cookie, 0x200 none is asked for, 0x400 every listener",
        get: |p| p.spec.fast_open.linux_bits(),
        set: |p, v| p.spec.fast_open.set_linux_bits(v),
    },
    Knob {
        name: "net.ipv4.tcp_fastopen_blackhole_timeout_sec",
        range: (0, 0x7fff_ffff),
        about: "seconds without Fast Open after the first black hole; 0: none is looked for",
        get: |p| (p.spec.fast_open.disabled_for / SECOND) as i64,
        set: |p, v| p.spec.fast_open.disabled_for = v as u64 * SECOND,
    },
];
