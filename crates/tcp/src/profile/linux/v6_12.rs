//! Linux 6.12 (2024), the kernel of Debian 13 and RHEL 10, as of its stable releases since 6.12.35.

use super::v6_8;
use super::{Knob, LinuxProfile, knob, knobs};
use crate::linux_config::Config;

/// Sysctls that are new since 6.8.
pub(super) static OWN: [Knob; 1] = knobs! {
    "net.ipv4.tcp_rto_min_us", (1, 0x7fff_ffff), "floor of the timeout's deviation term, microseconds",
        (config.rto_min_us: u64);
};

/// The profile `linux-6.12`.
pub(super) fn profile() -> LinuxProfile {
    let mut profile = v6_8::modern("linux-6.12", Config::linux_6_12(), v6_8::OWN);
    profile.knobs.extend(&OWN);
    profile
}
