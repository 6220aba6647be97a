//! Linux 6.18 (2025).

use super::{Knob, LinuxProfile, knob, knobs};
use super::{v6_8, v6_12};
use crate::linux_config::Config;

/// Sysctls that are new in this era.
pub(super) static OWN: [Knob; 1] = knobs! {
    "net.ipv4.tcp_rto_max_ms", (1000, 120_000), "longest retransmission timeout, of SYNs too, ms",
        (|p| p.config.rto_max_ms as i64, |p, v| { p.config.rto_max_ms = v as u64; p.set_handshake_timeouts(); });
};

/// The profile `linux-6.18`.
pub(super) fn profile() -> LinuxProfile {
    let mut profile = v6_8::modern("linux-6.18", Config::linux_6_18(), v6_8::OWN);
    profile.knobs.extend(v6_12::OWN.iter().chain(&OWN));
    profile
}
