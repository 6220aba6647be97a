//! Linux 7.3 (2026): Accurate ECN can be asked for.

use super::{Knob, LinuxProfile, SWITCH, get_ecn, knob, set_ecn};
use super::{v6_8, v6_12, v6_18};
use crate::accecn::Settings;
use crate::linux_config::Config;

/// Sysctls that are new in this era, or mean more.
static OWN: [Knob; 6] = [
    Knob {
        name: "net.ipv4.tcp_ecn",
        range: (0, 5),
        about: "ECN: 0 off, 1 ask and accept, 2 accept, 3 ask for and accept Accurate ECN too, 4 ask and accept Accurate ECN, 5 accept Accurate ECN",
        get: get_ecn,
        set: set_ecn,
    },
    knob!(
        "net.ipv4.tcp_ecn_option",
        (0, 3),
        "byte counters of Accurate ECN: 0 never, 1 where needed, 2 in every packet, 3 also if they seem to be lost",
        spec.accecn.option,
        u8
    ),
    knob!(
        "net.ipv4.tcp_ecn_option_beacon",
        (0, 3),
        "byte counters of Accurate ECN are sent so often in a round trip at least",
        spec.accecn.beacon,
        u32
    ),
    knob!(
        "net.ipv4.tcp_ecn_fallback",
        SWITCH,
        "give ECN up where the path seems not to let it through",
        spec.accecn.fallback,
        bool
    ),
    knob!(
        "net.ipv4.tcp_comp_sack_rtt_percent",
        (1, 1000),
        "longest delay of compressed duplicate ACKs, per cent of a round trip",
        config.comp_sack_rtt_percent,
        u32
    ),
    knob!(
        "net.ipv4.tcp_rcvbuf_low_rtt",
        (1, 0x7fff_ffff),
        "round trip below which receive buffers grow less, microseconds",
        config.rcvbuf_low_rtt_us,
        u64
    ),
];

/// The profile `linux-7.3`.
pub(super) fn profile() -> LinuxProfile {
    let mut profile = v6_8::modern("linux-7.3", Config::linux_7_3(), v6_8::OWN);
    profile.spec.accecn = Settings { known: true, option: 2, beacon: 3, fallback: true };
    profile.spec.rules.ecn_syn_ack_timeouts = 1;
    profile.knobs.retain(|knob| knob.name != OWN[0].name);
    profile.knobs.extend(v6_12::OWN.iter().chain(&v6_18::OWN).chain(&OWN));
    profile
}
