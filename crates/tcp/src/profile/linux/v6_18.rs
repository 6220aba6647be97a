//! Linux 6.18 (2025).

use super::{Knob, LinuxProfile, knob};
use super::{v6_8, v6_12};
use crate::linux_config::Config;

/// Sysctls that are new in this era.
static OWN: [Knob; 1] = [knob!(
    "net.ipv4.tcp_rto_max_ms",
    (1000, 120_000),
    "longest retransmission timeout, ms",
    config.rto_max_ms,
    u64
)];

/// The profile `linux-6.18`.
pub(super) fn profile() -> LinuxProfile {
    let mut profile = v6_8::modern("linux-6.18", Config::linux_6_18(), v6_8::OWN);
    profile.knobs.extend(v6_12::OWN.iter().chain(&OWN));
    profile
}
