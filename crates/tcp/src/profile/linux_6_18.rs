//! Linux 6.18 (2025).

use super::linux::{Knob, LinuxProfile, knob};
use super::linux_6_8;
use crate::sender::linux::config::Config;

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
pub fn profile() -> LinuxProfile {
    let mut profile = linux_6_8::modern("linux-6.18", Config::linux_6_18(), linux_6_8::OWN);
    profile.knobs.extend(&OWN);
    profile
}
