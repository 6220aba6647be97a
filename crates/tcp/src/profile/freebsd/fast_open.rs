//! FreeBSD's sysctls of TCP Fast Open (tcp(4)).

use super::FreeBsd;
use crate::clock::SECOND;
use crate::profile::knob::{Knob, knob, knobs};

/// Sysctls of releases that are modelled with Fast Open.
pub(super) const FAST_OPEN: [Knob<FreeBsd>; 4] = knobs! {
    "net.inet.tcp.fastopen.client_enable", (0, 1),
        "connections may be opened with Fast Open", (spec.fast_open.client: bool);
    "net.inet.tcp.fastopen.server_enable", (0, 1), "listeners may take Fast Open", (spec.fast_open.server: bool);
    "net.inet.tcp.fastopen.acceptany", (0, 1),
        "any cookie is taken", (spec.fast_open.server_needs_no_cookie: bool);
    "net.inet.tcp.fastopen.path_disable_time", (0, 0x7fff_ffff),
        "seconds for which a path does without Fast Open after a failure", (spec.fast_open.disabled_for: SECOND * u64);
};
