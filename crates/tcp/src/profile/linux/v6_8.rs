//! Linux 6.8 (2024), the kernel of Ubuntu 24.04.

use super::{Knob, LinuxProfile, SWITCH, knob, knobs};
use crate::clock::MILLISECOND;
use crate::linux_config::Config;

/// Payloads of a search for the path's MTU (TCP_MIN_SND_MSS), bytes.
const PAYLOAD: (i64, i64) = (48, 65_495);

/// Sysctls of this era.
pub(super) static OWN: &[Knob] = &knobs! {
    "net.ipv4.tcp_recovery", (0, 7),
        "bits: 1 RACK (6.18: always), 2 static reordering window, 4 no duplicate threshold",
        (config.recovery: u32);
    "net.ipv4.tcp_max_reordering", (1, 300), "largest degree of reordering learned, packets",
        (config.max_reordering: u32);
    "net.ipv4.tcp_comp_sack_delay_ns", (0, 0x7fff_ffff), "longest delay of compressed duplicate ACKs, ns",
        (config.comp_sack_delay_ns: u64);
    "net.ipv4.tcp_comp_sack_slack_ns", (0, 0x7fff_ffff), "slack of that timer, ns",
        (config.comp_sack_slack_ns: u64);
    "net.ipv4.tcp_comp_sack_nr", (0, 255), "most duplicate ACKs compressed into one; 0 off",
        (config.comp_sack_nr: u32);
    "net.ipv4.tcp_min_tso_segs", (1, 65535), "smallest autosized burst, segments", (config.min_tso_segs: u32);
    "net.ipv4.tcp_tso_rtt_log", (0, 31), "bursts halve per 2^this microseconds of minimum RTT; 0 off",
        (config.tso_rtt_log: u32);
    "net.ipv4.tcp_pacing_ss_ratio", (0, 1000), "pacing rate in slow start, per cent", (config.pacing_ss_ratio: u32);
    "net.ipv4.tcp_pacing_ca_ratio", (0, 1000), "pacing rate in congestion avoidance, per cent",
        (config.pacing_ca_ratio: u32);
    "tcp_dctcp.dctcp_alpha_on_init", (0, 1024),
        "dctcp: part of the packets that a new connection takes to be marked, in 1/1024",
        (config.dctcp_alpha_on_init: u32);
    "tcp_dctcp.dctcp_shift_g", (0, 10), "dctcp: weight of a window's marks, as a power of 1/2",
        (config.dctcp_shift_g: u32);
    "net.ipv4.tcp_mtu_probing", (0, 2),
        "search for the path's MTU: 0 off, 1 once a black hole is suspected, 2 always",
        (config.mtu_probing: u32);
    "net.ipv4.tcp_base_mss", PAYLOAD, "payload that the search begins with, bytes", (config.base_mss: u32);
    "net.ipv4.tcp_mtu_probe_floor", PAYLOAD, "least payload of the search, bytes", (config.mtu_probe_floor: u32);
    "net.ipv4.tcp_probe_threshold", (0, 65_535), "range of sizes that is not searched further, bytes",
        (config.mtu_probe_threshold: u32);
    "net.ipv4.tcp_retries1", (0, 10), "retransmissions by whose time a black hole is suspected",
        (config.retries1: u32);
    "net.ipv4.tcp_notsent_lowat", (0, 0xffff_ffff), "unsent payload from which on a writer waits, bytes",
        (config.notsent_lowat: u64);
    "net.ipv4.tcp_shrink_window", SWITCH,
        "a scaled window may shrink, so that the receive buffer is never exceeded",
        (config.shrink_window: bool);
    "net.ipv4.tcp_no_ssthresh_metrics_save", SWITCH,
        "of what is kept for later connections, the slow-start threshold is left out",
        (|p| i64::from(!p.spec.peers.keeps_ssthresh), |p, v| p.spec.peers.keeps_ssthresh = v == 0);
    "net.ipv4.tcp_invalid_ratelimit", (0, 0x7fff_ffff),
        "least time between ACKs of what is outside the window, ms; 0 no limit",
        (spec.invalid_ratelimit: MILLISECOND * u64);
    "net.ipv4.tcp_syn_linear_timeouts", (0, 127), "repeats of a SYN after one second each, before the gap doubles",
        (|p| i64::from(p.syn_linear_timeouts), |p, v| { p.syn_linear_timeouts = v as u32; p.set_handshake_timeouts(); });
};

/// Congestion controls of this era, the default first.
const CONTROLS: &[&str] = &["cubic", "reno", "bbr", "cdg", "dctcp", "htcp", "illinois", "vegas", "westwood"];

/// The shortest timer, jiffies (TCP_TIMEOUT_MIN). Since 5.6 the first SYN is sent again after it when the peer
/// acknowledges something else, such as an old connection. Measured on 6.18.
const TIMEOUT_MIN: u64 = 2;

/// The profile `linux-6.8`.
pub(super) fn profile() -> LinuxProfile {
    modern("linux-6.8", Config::linux_6_8(), OWN)
}

/// A profile with what 6.8 brought.
pub(super) fn modern(name: &'static str, config: Config, own: &'static [Knob]) -> LinuxProfile {
    with_controls(name, config, CONTROLS, own)
}

/// [`modern`] with other congestion controls.
pub(super) fn with_controls(
    name: &'static str,
    config: Config,
    cc: &'static [&'static str],
    own: &'static [Knob],
) -> LinuxProfile {
    let mut profile = LinuxProfile::new(name, config, cc, own);
    profile.syn_linear_timeouts = 4;
    profile.spec.fast_open = crate::fast_open::Settings::LINUX;
    profile.knobs.extend(&super::fast_open::FAST_OPEN);
    // Since 5.6.
    profile.spec.peers.keeps_ssthresh = false;
    profile.spec.invalid_ratelimit = 500 * MILLISECOND;
    profile.spec.syn_retry_ticks = Some(TIMEOUT_MIN);
    profile.set_handshake_timeouts();
    profile
}
