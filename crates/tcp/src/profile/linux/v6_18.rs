//! Linux 6.18 (2025).

use super::v6_8;
use super::{Knob, LinuxProfile, knob};
use crate::linux_config::Config;

/// Sysctls that are new in this era.
static OWN: [Knob; 2] = [
    knob!(
        "net.ipv4.tcp_rto_min_us",
        (1, 0x7fff_ffff),
        "floor of the timeout's deviation term, microseconds",
        config.rto_min_us,
        u64
    ),
    knob!(
        "net.ipv4.tcp_rto_max_ms",
        (1000, 120_000),
        "longest retransmission timeout, ms",
        config.rto_max_ms,
        u64
    ),
];

/// The profile `linux-6.18`.
pub(super) fn profile() -> LinuxProfile {
    let mut profile = v6_8::modern("linux-6.18", Config::linux_6_18(), v6_8::OWN);
    profile.knobs.extend(&OWN);
    profile
}
