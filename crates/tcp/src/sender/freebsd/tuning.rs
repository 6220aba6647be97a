//! Differences between the releases of FreeBSD's default sender: sysctls with their values, and choices of
//! mechanism.

use super::path_mtu::BlackHoleTuning;
use crate::cc::freebsd::{CcTuning, CdgTuning, CubicEra, InitialWindow};

/// Rule for the time between the third duplicate ACK and the end of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// cwnd restarts at one segment and is spent as holes are filled; nothing is sent until less than ssthresh is in
    /// flight (FreeBSD 9.0 to 11).
    FromOneSegment,
    /// Proportional rate reduction with the first accounting, of every ACK in recovery whether or not it has SACK
    /// blocks (FreeBSD 13.0).
    Prr13,
    /// Proportional rate reduction against the RFC 6675 pipe, with rescue and lost-retransmission detection
    /// (FreeBSD 15).
    Prr15,
}

/// Rule by which ACKs count as duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateRule {
    /// Window unchanged, whatever SACK says (FreeBSD 9.x).
    SameWindow,
    /// ACKs with new SACK information, whatever the window, on SACK connections (FreeBSD 11 and 13).
    NewSack,
    /// ACKs with new SACK information, whatever the window, on SACK connections, and SACKed bytes alone may start
    /// recovery (FreeBSD 15).
    NewSackOrBytes,
}

/// Sysctls and choices of one release.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Congestion controls' own.
    pub cc: CcTuning,
    /// CUBIC's generation.
    pub cubic: CubicEra,
    /// CDG's sysctls.
    pub cdg: CdgTuning,
    /// The initial window.
    pub initial_window: InitialWindow,
    /// The control block holds the MSS less options (FreeBSD 9.x); later it holds the MSS itself.
    pub maxseg_without_options: bool,
    /// A closed window starts probes whenever data waits, even data to be sent again (FreeBSD 10.3 and later).
    /// Before, only a window that closed below what had been sent did.
    pub persists_when_closed: bool,
    /// Silly-window avoidance takes the MSS, options included, for a full segment: up to a segment of window stays
    /// unused (FreeBSD 11).
    pub silly_window_counts_options: bool,
    /// Bytes counted per ACK in congestion avoidance are capped at L segments (FreeBSD 9.0 to 11).
    pub abc_capped_in_avoidance: bool,
    /// Limited transmit (net.inet.tcp.rfc3042).
    pub rfc3042: bool,
    /// Duplicate ACKs.
    pub duplicates: DuplicateRule,
    /// Fast recovery.
    pub recovery: Recovery,
    /// PRR (net.inet.tcp.do_prr); off: as 11.
    pub do_prr: bool,
    /// PRR's conservative bound (net.inet.tcp.do_prr_conservative).
    pub prr_conservative: bool,
    /// Flight counted by RFC 6675 (net.inet.tcp.rfc6675_pipe).
    pub rfc6675_pipe: bool,
    /// Lost-retransmission detection (net.inet.tcp.do_lrd, net.inet.tcp.sack.lrd).
    pub lost_retransmission_detection: bool,
    /// Holes remembered (net.inet.tcp.sack.maxholes).
    pub sack_maxholes: usize,
    /// Holes may be filled with more than a segment per transmission (net.inet.tcp.sack.tso).
    pub sack_tso: bool,
    /// A spurious timeout is recognised by the echoed timestamp (FreeBSD 13 and later), else by an early ACK.
    pub undo_by_timestamp: bool,
    /// The first timeout keeps the scoreboard (FreeBSD 15).
    pub timeout_keeps_scoreboard: bool,
    /// Whether the RTT estimate starts again after three timeouts (FreeBSD 9.0 to 13).
    pub timeouts_reset_rtt: bool,
    /// Whether a time is idle too when no new data was sent for an RTO (t_sndtime; FreeBSD 13 and later).
    pub idle_counts_sending: bool,
    /// The end of recovery is processed after the window's growth and with the new SND.UNA (FreeBSD 15).
    pub post_recovery_last: bool,
    /// The end of a reaction to ECN calls the module's post-recovery hook, and PRR spreads it (FreeBSD 12 and later).
    pub ecn_recovery_by_prr: bool,
    /// Smallest retransmission timeout before slop, ms (net.inet.tcp.rexmit_min).
    pub rexmit_min_ms: u32,
    /// Added to every retransmission timeout, ms (net.inet.tcp.rexmit_slop).
    pub rexmit_slop_ms: u32,
    /// Segmentation offload is used where the interface has it (net.inet.tcp.tso).
    pub tso: bool,
    /// Step of send-buffer autotuning, bytes (net.inet.tcp.sendbuf_inc).
    pub sendbuf_inc: u64,
    /// Limit of send-buffer autotuning, in bytes (net.inet.tcp.sendbuf_max).
    pub sendbuf_max: u64,
    /// Largest buffer that a socket is granted, bytes (by kern.ipc.maxsockbuf).
    pub largest_buffer: u64,
    /// Path MTU black hole detection.
    pub black_hole: BlackHoleTuning,
    /// cwnd counts as limiting only while the pipe is near it (net.inet.tcp.newcwv).
    pub newcwv: bool,
}
