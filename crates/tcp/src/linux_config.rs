//! Differences between Linux versions for sender, receiver and congestion control: sysctls and, by era, choices.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use units::linux_wheel;

/// Unit that congestion window growth counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// ACKs, whatever they cover (Linux 3.9).
    Acks,
    /// Packets acknowledged.
    Packets,
}

/// Rule by which a sender decides that a packet is lost, and what surrounds that decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// Forward acknowledgement with a packet threshold, early retransmit, F-RTO after RFC 4138 (Linux 3.9).
    Fack,
    /// RACK and TLP (RFC 8985), F-RTO after RFC 5682.
    Rack,
}

/// Rule by which the receive buffer follows the application (dynamic right-sizing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drs {
    /// Twice what was copied in a round trip, when that exceeds the present space (Linux 3.9).
    Doubling,
    /// Twice what was copied, 16 packets and the growth of the last round trip (Linux 6.8).
    Growth,
    /// Twice what was copied, 16 packets and the growth of the last round trip; data still queued does not count (Linux
    /// 6.12).
    GrowthRead,
    /// Twice what was copied, and the growth of the last round trip; data still queued does not count, out-of-order
    /// data does (Linux 6.18).
    GrowthOutOfOrder,
}

/// Three values of a buffer sysctl, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Smallest.
    pub min: u64,
    /// Size at the start.
    pub default: u64,
    /// Largest that autotuning reaches.
    pub max: u64,
}

/// Bandwidth that has to grow for start-up of BBR to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The bandwidth of a round (2020).
    OfRounds,
    /// Any sample's.
    OfSamples,
}

/// Constants of BBR's versions 2 and 3 in which a draft or a branch differs, or that experiments change. Gains and shares are in
/// 1/256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundedBbr {
    /// Marks count. Version 3: the route is one of shallow marks (RTAX_FEATURE_ECN_LOW); version 2: ecn_enable.
    pub marks: bool,
    /// Bandwidth that has to grow for start-up to go on.
    pub growth: Growth,
    /// Marks count up to this minimum round trip, microseconds (bbr_ecn_max_rtt_us); 0: at any.
    pub ecn_max_rtt_us: u32,
    /// Pacing gain in DRAIN (bbr_drain_gain).
    pub drain_gain: u32,
    /// Pacing gain in PROBE_DOWN (bbr_pacing_gain).
    pub down_gain: u32,
    /// cwnd above the BDP in PROBE_UP (bbr_bw_probe_cwnd_gain).
    pub up_cwnd_gain: u32,
    /// Part of a flight that is lost where probing has gone too far (bbr_loss_thresh).
    pub loss_threshold: u32,
    /// Part by which loss cuts bounds (bbr_beta).
    pub beta: u32,
}

impl BoundedBbr {
    /// The constants of google/bbr's branch v3.
    pub const GOOGLE: BoundedBbr = BoundedBbr {
        marks: false,
        growth: Growth::OfSamples,
        ecn_max_rtt_us: 5000,
        drain_gain: 256 * 1000 / 2885,
        down_gain: 256 * 91 / 100,
        up_cwnd_gain: 256 * 9 / 4,
        loss_threshold: 256 * 2 / 100,
        beta: 256 * 30 / 100,
    };
    /// Those of version 2 in L4STeam's kernels: marks count on every path.
    pub const L4S: BoundedBbr = BoundedBbr { marks: true, ecn_max_rtt_us: 0, ..BoundedBbr::GOOGLE };
    /// Those of version 2 in L4STeam's kernels of 2020.
    pub const L4S_2020: BoundedBbr = BoundedBbr {
        growth: Growth::OfRounds,
        down_gain: 256 * 3 / 4,
        up_cwnd_gain: 256 * 2,
        ..BoundedBbr::L4S
    };
}

/// Form in which Prague keeps the fractions of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PragueWindow {
    /// Whole packets, and a carry of what they are to change by (2020).
    Carry,
    /// A window with fractions, which whole packets follow.
    Fraction,
}

/// Parameters of module tcp_prague.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prague {
    /// Era: the window.
    pub window: PragueWindow,
    /// Round trip that flows of shorter ones pretend to have, microseconds (prague_rtt_target); 0: none.
    pub rtt_target_us: u32,
    /// Rounds after slow start from which on they do (prague_rtt_transition).
    pub rtt_transition: u32,
    /// Longest burst, seconds as a power of 1/2 (prague_burst_shift).
    pub burst_shift: u32,
}

/// Sysctls (their names in comments where they differ) and choices of an era.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Era: what growth counts.
    pub counting: Counting,
    /// Era: loss detection.
    pub detection: Detection,
    /// Era: timers wait for the next slot of a wheel (Linux 4.8); before, they ran in their tick.
    pub timer_wheel: bool,
    /// Era: RACK whatever `tcp_recovery` says (Linux 6.18); before, its bit 1 chooses between RACK and the
    /// duplicate threshold.
    pub rack_always: bool,
    /// Era: receive buffer autotuning.
    pub drs: Drs,
    /// Era: out-of-order data opens the receive window too (Linux 3.12), if the peer uses SACK (Linux 5.8; before,
    /// always).
    pub ooo_grows_window: bool,
    /// Era: the receiver's round-trip estimate falls at once and rises smoothly (Linux 6.16, and 6.12 since 6.12.35).
    pub rcv_rtt_seeks_minimum: bool,
    /// Era: HyStart rounds are tracked below its low window too (Linux 6.12).
    pub hystart_rounds_at_any_window: bool,
    /// Era: the deferral of a partial burst looks at the next expected ACK (Linux 6.12), not at the head's age (Linux
    /// 6.8).
    pub defer_by_next_ack: bool,
    /// Era: a burst that its socket buffer leaves short is filled from the next one (Linux 6.10).
    pub grows_bursts: bool,
    /// Era: congestion control is told of an ACK once what it acknowledges is taken off the queue (Linux 6.16, and 6.12
    /// since 6.12.32); before, ahead of that.
    pub ack_event_after_cleaning: bool,
    /// Era: TSQ's limit always applies (Linux 6.18), not only to unpaced connections (Linux 6.8).
    pub limit_output_always: bool,
    /// Era: a burst of several packets ends with PSH, so that a receiver's GRO lets it go (5.5).
    pub pushes_bursts: bool,
    /// Era: a full segment with PSH is acknowledged as soon as all is read (Linux 6.7, and stable releases of then).
    pub answers_full_push: bool,
    /// Era: a tail loss probe counts among the retransmissions that D-SACKs have to report before a reduction is undone
    /// (Linux 6.10).
    pub undo_counts_probe: bool,
    /// Era: duplicate ACKs are compressed.
    pub compresses_sacks: bool,
    /// Era: the window is a share of the buffer measured from packets (modern), not `tcp_adv_win_scale`'s.
    pub scaling_ratio: bool,
    /// Era: a window clamp that changes takes the window's slow start with it, down, or up to the window
    /// (tcp_set_window_clamp, 6.18); before, the clamp alone changed.
    pub clamp_moves_window: bool,
    /// Era: a segment that ends beyond the window is dropped while data waits to be read (Linux 6.17); before, it was
    /// always taken whole, as it still is when nothing waits (tcp_sequence).
    pub drops_overshoot: bool,
    /// Era: a FIN without data is taken though the window is closed (Linux 6.12 has it).
    pub takes_fin_into_closed_window: bool,

    /// net.ipv4.tcp_rmem.
    pub rmem: BufferSizes,
    /// net.ipv4.tcp_wmem.
    pub wmem: BufferSizes,
    /// net.core.rmem_max, bytes.
    pub rmem_max: u64,
    /// net.core.wmem_max, bytes.
    pub wmem_max: u64,
    /// net.ipv4.tcp_moderate_rcvbuf.
    pub moderate_rcvbuf: bool,
    /// net.ipv4.tcp_shrink_window.
    pub shrink_window: bool,
    /// net.ipv4.tcp_adv_win_scale (Linux 3.9).
    pub adv_win_scale: i32,
    /// net.ipv4.tcp_dsack.
    pub dsack: bool,
    /// net.ipv4.tcp_reordering, packets.
    pub reordering: u32,
    /// net.ipv4.tcp_max_reordering, packets.
    pub max_reordering: u32,
    /// net.ipv4.tcp_fack (Linux 3.9).
    pub fack: bool,
    /// net.ipv4.tcp_early_retrans.
    pub early_retrans: u32,
    /// net.ipv4.tcp_recovery, bits: 1 RACK, 2 static reordering window, 4 no duplicate threshold.
    pub recovery: u32,
    /// net.ipv4.tcp_frto.
    pub frto: u32,
    /// net.ipv4.tcp_frto_response (Linux 3.9): 0 halve by CWR, 1 conservative, 2 full undo.
    pub frto_response: u32,
    /// net.ipv4.tcp_slow_start_after_idle.
    pub slow_start_after_idle: bool,
    /// net.ipv4.tcp_max_ssthresh (Linux 3.9), packets; 0: off.
    pub max_ssthresh: u32,
    /// net.ipv4.tcp_limit_output_bytes.
    pub limit_output_bytes: u64,
    /// net.ipv4.tcp_tso_win_divisor.
    pub tso_win_divisor: u32,
    /// net.ipv4.tcp_min_tso_segs.
    pub min_tso_segs: u32,
    /// net.ipv4.tcp_tso_rtt_log.
    pub tso_rtt_log: u32,
    /// net.ipv4.tcp_pacing_ss_ratio, per cent.
    pub pacing_ss_ratio: u32,
    /// net.ipv4.tcp_pacing_ca_ratio, per cent.
    pub pacing_ca_ratio: u32,
    /// net.ipv4.tcp_rto_min_us (Linux 6.18); 200 ms before.
    pub rto_min_us: u64,
    /// net.ipv4.tcp_rto_max_ms (Linux 6.18); 120 s before.
    pub rto_max_ms: u64,
    /// net.ipv4.tcp_retries1: retransmissions by whose time a black hole is suspected.
    pub retries1: u32,
    /// net.ipv4.tcp_mtu_probing: 0 off, 1 once a black hole is suspected, 2 always.
    pub mtu_probing: u32,
    /// net.ipv4.tcp_base_mss: payload that a search for the path's MTU begins with, bytes.
    pub base_mss: u32,
    /// net.ipv4.tcp_mtu_probe_floor: least payload of a search, bytes.
    pub mtu_probe_floor: u32,
    /// net.ipv4.tcp_probe_threshold: range of sizes that is not searched further, bytes.
    pub mtu_probe_threshold: u32,
    /// net.ipv4.tcp_notsent_lowat: unsent payload from which on a writer waits, bytes.
    pub notsent_lowat: u64,
    /// net.ipv4.tcp_retries2: timeouts in a row before the connection fails.
    pub retries2: u32,
    /// net.ipv4.tcp_comp_sack_delay_ns.
    pub comp_sack_delay_ns: u64,
    /// net.ipv4.tcp_comp_sack_slack_ns.
    pub comp_sack_slack_ns: u64,
    /// net.ipv4.tcp_comp_sack_rtt_percent (Linux 7.3); 5 before.
    pub comp_sack_rtt_percent: u32,
    /// net.ipv4.tcp_rcvbuf_low_rtt, microseconds (Linux 7.3); 0 before: never.
    pub rcvbuf_low_rtt_us: u64,
    /// net.ipv4.tcp_comp_sack_nr.
    pub comp_sack_nr: u32,
    /// Parameter dctcp_alpha_on_init of module tcp_dctcp, in 1/1024.
    pub dctcp_alpha_on_init: u32,
    /// Parameter dctcp_shift_g of module tcp_dctcp: the weight of a window's marks, as a power of 1/2.
    pub dctcp_shift_g: u32,
    /// Parameters of Prague.
    pub prague: Prague,
    /// Parameters of BBR version 2.
    pub bbr2: BoundedBbr,
    /// Parameters of BBR version 3.
    pub bbr3: BoundedBbr,
    /// FQ at the host's interface keeps packets until they are due (SK_PACING_FQ): every connection is paced, by none of its own
    /// timers.
    pub paced_by_queue: bool,
    /// Largest burst handed to the interface, bytes (GSO_MAX_SIZE).
    pub gso_max_size: u64,
    /// Largest number of segments in a burst (GSO_MAX_SEGS).
    pub gso_max_segs: u32,
}

/// A configuration that all connections of a host have in common: one copy stays near the processor, where as many as there
/// are connections would not.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Config>);

impl From<Config> for Shared {
    fn from(config: Config) -> Shared {
        Shared(Arc::new(config))
    }
}

impl Deref for Shared {
    type Target = Config;

    #[inline(always)]
    fn deref(&self) -> &Config {
        &self.0
    }
}

/// Changes this one: connections that were opened before keep theirs.
impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.0)
    }
}

impl Config {
    /// Losses are found by time (RACK), not by counting.
    pub fn uses_rack(&self) -> bool {
        self.rack_always || self.recovery & 1 != 0
    }

    /// The jiffy in which a timer runs; it was set in jiffy `now` to `wait` jiffies.
    #[inline]
    pub(crate) fn timer_runs(&self, now: u64, wait: u64) -> u64 {
        if self.timer_wheel { linux_wheel(now, wait) } else { now + wait }
    }

    /// Linux 3.9 (2013).
    pub fn linux_3_9() -> Config {
        Config {
            counting: Counting::Acks,
            detection: Detection::Fack,
            timer_wheel: false,
            rack_always: false,
            drs: Drs::Doubling,
            ooo_grows_window: false,
            rcv_rtt_seeks_minimum: false,
            hystart_rounds_at_any_window: false,
            defer_by_next_ack: false,
            grows_bursts: false,
            ack_event_after_cleaning: false,
            limit_output_always: true,
            pushes_bursts: false,
            answers_full_push: false,
            undo_counts_probe: false,
            compresses_sacks: false,
            scaling_ratio: false,
            clamp_moves_window: false,
            drops_overshoot: false,
            takes_fin_into_closed_window: false,
            rmem: BufferSizes { min: 4096, default: 87_380, max: 6 << 20 },
            wmem: BufferSizes { min: 4096, default: 16_384, max: 4 << 20 },
            rmem_max: 212_992,
            wmem_max: 212_992,
            moderate_rcvbuf: true,
            shrink_window: false,
            adv_win_scale: 1,
            dsack: true,
            reordering: 3,
            max_reordering: 127,
            fack: true,
            early_retrans: 2,
            recovery: 0,
            frto: 2,
            frto_response: 0,
            slow_start_after_idle: true,
            max_ssthresh: 0,
            limit_output_bytes: 131_072,
            tso_win_divisor: 3,
            min_tso_segs: 2,
            tso_rtt_log: 0,
            pacing_ss_ratio: 200,
            pacing_ca_ratio: 120,
            rto_min_us: 200_000,
            rto_max_ms: 120_000,
            retries1: 3,
            mtu_probing: 0,
            base_mss: 512,
            mtu_probe_floor: 48,
            mtu_probe_threshold: 8,
            notsent_lowat: 0xffff_ffff,
            retries2: 15,
            comp_sack_delay_ns: 0,
            comp_sack_slack_ns: 0,
            comp_sack_rtt_percent: 5,
            rcvbuf_low_rtt_us: 0,
            comp_sack_nr: 0,
            dctcp_alpha_on_init: 1024,
            dctcp_shift_g: 4,
            prague: Prague {
                window: PragueWindow::Fraction,
                rtt_target_us: 25_000,
                rtt_transition: 500,
                burst_shift: 12,
            },
            bbr2: BoundedBbr::L4S,
            bbr3: BoundedBbr::GOOGLE,
            paced_by_queue: false,
            gso_max_size: 65_536,
            gso_max_segs: 65_535,
        }
    }

    /// Linux 6.8 (2024).
    pub fn linux_6_8() -> Config {
        Config {
            counting: Counting::Packets,
            detection: Detection::Rack,
            timer_wheel: true,
            drs: Drs::Growth,
            ooo_grows_window: true,
            limit_output_always: false,
            pushes_bursts: true,
            answers_full_push: true,
            compresses_sacks: true,
            scaling_ratio: true,
            rmem: BufferSizes { min: 4096, default: 131_072, max: 6 << 20 },
            max_reordering: 300,
            early_retrans: 3,
            base_mss: 1024,
            recovery: 1,
            limit_output_bytes: 1 << 20,
            tso_rtt_log: 9,
            comp_sack_delay_ns: 1_000_000,
            comp_sack_slack_ns: 100_000,
            comp_sack_nr: 44,
            ..Config::linux_3_9()
        }
    }

    /// Linux 6.12 (2024) as of its stable releases since 6.12.35.
    pub fn linux_6_12() -> Config {
        Config {
            drs: Drs::GrowthRead,
            rcv_rtt_seeks_minimum: true,
            hystart_rounds_at_any_window: true,
            defer_by_next_ack: true,
            grows_bursts: true,
            ack_event_after_cleaning: true,
            undo_counts_probe: true,
            takes_fin_into_closed_window: true,
            ..Config::linux_6_8()
        }
    }

    /// Linux 6.18 (2025).
    pub fn linux_6_18() -> Config {
        Config {
            rack_always: true,
            drs: Drs::GrowthOutOfOrder,
            limit_output_always: true,
            clamp_moves_window: true,
            drops_overshoot: true,
            rmem: BufferSizes { min: 4096, default: 131_072, max: 32 << 20 },
            rmem_max: 4 << 20,
            wmem_max: 4 << 20,
            limit_output_bytes: 4 << 20,
            ..Config::linux_6_12()
        }
    }

    /// Linux 7.3 (2026).
    pub fn linux_7_3() -> Config {
        Config {
            comp_sack_slack_ns: 10_000,
            comp_sack_rtt_percent: 33,
            rcvbuf_low_rtt_us: 1000,
            ..Config::linux_6_18()
        }
    }
}
