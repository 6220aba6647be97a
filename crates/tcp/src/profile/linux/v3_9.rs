//! Linux 3.9 (2013), the kernel of CAIA technical report 140502A.

use super::{Knob, LinuxProfile, knob, knobs};
use crate::linux_config::Config;

/// Sysctls of this era.
static OWN: [Knob; 4] = knobs! {
    "net.ipv4.tcp_adv_win_scale", (-31, 31), "share of buffer memory offered as window: 1 is half",
        (config.adv_win_scale: i32);
    "net.ipv4.tcp_fack", (0, 1), "forward acknowledgement", (config.fack: bool);
    "net.ipv4.tcp_frto_response", (0, 2), "after a spurious timeout: 0 halve, 1 conservative, 2 undo",
        (config.frto_response: u32);
    "net.ipv4.tcp_max_ssthresh", (0, 0x7fff_ffff), "limited slow start beyond so many packets; 0 off",
        (config.max_ssthresh: u32);
};

/// The profile `linux-3.9`.
pub(super) fn profile() -> LinuxProfile {
    LinuxProfile::new("linux-3.9", Config::linux_3_9(), &["cubic", "reno"], &OWN)
}
