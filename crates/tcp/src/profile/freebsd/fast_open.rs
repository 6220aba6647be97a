//! FreeBSD's sysctls of TCP Fast Open (tcp(4)).

use super::sysctls::{Knob, switch};
use crate::clock::SECOND;

/// Sysctls of releases that are modelled with Fast Open.
pub(super) const FAST_OPEN: &[Knob] = &[
    switch!(
        "net.inet.tcp.fastopen.client_enable",
        fast_open.client,
        "connections may be opened with Fast Open"
    ),
    switch!("net.inet.tcp.fastopen.server_enable", fast_open.server, "listeners may take Fast Open"),
    switch!("net.inet.tcp.fastopen.acceptany", fast_open.server_needs_no_cookie, "any cookie is taken"),
    Knob {
        name: "net.inet.tcp.fastopen.path_disable_time",
        min: 0,
        max: 0x7fff_ffff,
        about: "seconds for which a path does without Fast Open after a failure",
        get: |p| (p.spec.fast_open.disabled_for / SECOND) as i64,
        set: |p, value| p.spec.fast_open.disabled_for = value as u64 * SECOND,
    },
];
