//! Linux 7.3 (2026): Accurate ECN can be asked for.

use super::{COUNT, Knob, LinuxProfile, SWITCH, get_ecn, knob, knobs, set_ecn};
use super::{v6_8, v6_12, v6_18};
use crate::accecn::Settings;
use crate::linux_config::{BoundedBbr, Config, PragueWindow};
use crate::stack::EcnMode;

/// Sysctls that are new in this era, or mean more.
static OWN: [Knob; 21] = knobs! {
    "net.ipv4.tcp_ecn", (0, 5),
        "ECN: 0 off, 1 ask and accept, 2 accept, 3 ask for and accept Accurate ECN too, 4 ask and accept Accurate ECN, 5 accept Accurate ECN",
        (get_ecn, set_ecn);
    "net.ipv4.tcp_ecn_option", (0, 3),
        "byte counters of Accurate ECN: 0 never, 1 where needed, 2 in every packet, 3 also if they seem to be lost",
        (spec.accecn.option: u8);
    "net.ipv4.tcp_ecn_option_beacon", (0, 3),
        "byte counters of Accurate ECN are sent so often in a round trip at least",
        (spec.accecn.beacon: u32);
    "net.ipv4.tcp_ecn_fallback", SWITCH, "give ECN up where the path seems not to let it through",
        (spec.accecn.fallback: bool);
    "net.ipv4.tcp_comp_sack_rtt_percent", (1, 1000),
        "longest delay of compressed duplicate ACKs, per cent of a round trip",
        (config.comp_sack_rtt_percent: u32);
    "net.ipv4.tcp_rcvbuf_low_rtt", (1, 0x7fff_ffff),
        "round trip below which receive buffers grow less, microseconds",
        (config.rcvbuf_low_rtt_us: u64);
    "tcp_prague.prague_rtt_target", (0, 1_000_000),
        "prague: round trip that flows of shorter ones pretend to have, microseconds; 0 none",
        (config.prague.rtt_target_us: u32);
    "tcp_prague.prague_rtt_transition", COUNT, "prague: rounds after slow start from which on they do",
        (config.prague.rtt_transition: u32);
    "tcp_prague.prague_burst_shift", (0, 31), "prague: longest burst, seconds as a power of 1/2",
        (config.prague.burst_shift: u32);
    "tcp_bbr3.ecn_low", SWITCH, "bbr3: routes have shallow marks, which count where ECN was agreed",
        (config.bbr3.marks: bool);
    "tcp_bbr3.bbr_ecn_max_rtt_us", COUNT, "bbr3: marks count up to this minimum round trip, microseconds; 0 at any",
        (config.bbr3.ecn_max_rtt_us: u32);
    "tcp_bbr3.bbr_drain_gain", (1, 256), "bbr3: pacing gain after start-up, in 1/256 (draft-ietf-ccwg-bbr-06: 128)",
        (config.bbr3.drain_gain: u32);
    "tcp_bbr3.bbr_down_gain", (1, 256), "bbr3: pacing gain after a probe, in 1/256 (draft-ietf-ccwg-bbr-06: 230)",
        (config.bbr3.down_gain: u32);
    "tcp_bbr3.bbr_loss_thresh", (1, 256), "bbr3: part of a flight whose loss ends a probe, in 1/256",
        (config.bbr3.loss_threshold: u32);
    "tcp_bbr3.bbr_beta", (0, 256), "bbr3: part by which loss cuts bounds, in 1/256", (config.bbr3.beta: u32);
    "tcp_bbr2.ecn_enable", SWITCH, "bbr2: marks count", (config.bbr2.marks: bool);
    "tcp_bbr2.ecn_max_rtt_us", COUNT,
        "bbr2: marks count up to this minimum round trip, microseconds; 0 at any (google/bbr: 5000)",
        (config.bbr2.ecn_max_rtt_us: u32);
    "tcp_bbr2.drain_gain", (1, 256), "bbr2: pacing gain after start-up, in 1/256", (config.bbr2.drain_gain: u32);
    "tcp_bbr2.down_gain", (1, 256), "bbr2: pacing gain after a probe, in 1/256", (config.bbr2.down_gain: u32);
    "tcp_bbr2.loss_thresh", (1, 256), "bbr2: part of a flight whose loss ends a probe, in 1/256",
        (config.bbr2.loss_threshold: u32);
    "tcp_bbr2.beta", (0, 256), "bbr2: part by which loss cuts bounds, in 1/256", (config.bbr2.beta: u32);
};

/// The profile `linux-7.3`.
pub(super) fn profile() -> LinuxProfile {
    accurate("linux-7.3", Config::linux_7_3())
}

/// Kernels of L4STeam, whose Prague and BBRv2 are the newest or those of 2020. Inferred: no recording stands behind them, and what else of
/// TCP they have is taken to be that of Linux 6.12.
pub(super) fn l4s() -> [LinuxProfile; 2] {
    let mut config = Config::linux_6_12();
    let testing = accurate("linux-prague-testing", config.clone());
    config.prague.window = PragueWindow::Carry;
    config.bbr2 = BoundedBbr::L4S_2020;
    [accurate("linux-prague-2020-08", config), testing].map(|mut profile| {
        profile.spec.inferred = true;
        profile.spec.ecn = EcnMode::Accurate;
        profile
    })
}

/// A profile with Accurate ECN, and the congestion controls that use it.
fn accurate(name: &'static str, config: Config) -> LinuxProfile {
    let cc = &[
        "cubic", "reno", "bbr", "cdg", "dctcp", "htcp", "illinois", "vegas", "westwood", "bbr2", "bbr3",
        "prague",
    ];
    let mut profile = v6_8::with_controls(name, config, cc, v6_8::OWN);
    profile.spec.accecn = Settings { known: true, option: 2, beacon: 3, fallback: true, essential: false };
    profile.spec.rules.ecn_syn_ack_timeouts = 1;
    profile.knobs.retain(|knob| knob.name != OWN[0].name);
    profile.knobs.extend(v6_12::OWN.iter().chain(&v6_18::OWN).chain(&OWN));
    profile
}
