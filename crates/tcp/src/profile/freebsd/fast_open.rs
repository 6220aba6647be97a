//! FreeBSD's sysctls of TCP Fast Open (tcp(4)).

use super::sysctls::Knob;
use crate::clock::SECOND;

macro_rules! switch {
    ($name:literal, $field:ident, $about:literal) => {
        Knob {
            name: $name,
            min: 0,
            max: 1,
            about: $about,
            get: |p| i64::from(p.spec.fast_open.$field),
            set: |p, value| p.spec.fast_open.$field = value != 0,
        }
    };
}

/// Sysctls of releases that are modelled with Fast Open.
pub(super) const FAST_OPEN: &[Knob] = &[
    switch!("net.inet.tcp.fastopen.client_enable", client, "connections may be opened with Fast Open"),
    switch!("net.inet.tcp.fastopen.server_enable", server, "listeners may take Fast Open"),
    switch!("net.inet.tcp.fastopen.acceptany", server_needs_no_cookie, "any cookie is taken"),
    Knob {
        name: "net.inet.tcp.fastopen.path_disable_time",
        min: 0,
        max: 0x7fff_ffff,
        about: "seconds for which a path does without Fast Open after a failure",
        get: |p| (p.spec.fast_open.disabled_for / SECOND) as i64,
        set: |p, value| p.spec.fast_open.disabled_for = value as u64 * SECOND,
    },
];
