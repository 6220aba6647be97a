//! Differences between the RACK stacks of two releases.

use super::sack_filter::SackFilterKind;
use super::wheel::WheelTimers;

/// Differences between the RACK stacks of two releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RackTuning {
    /// The stack's clock counts milliseconds (FreeBSD 13), else microseconds (FreeBSD 15).
    pub milliseconds: bool,
    /// Wheel that timers and pacing wait in (FreeBSD 13). None: each waits for its slot of 10 us.
    pub wheel: Option<WheelTimers>,
    /// FreeBSD 13: a segment is lost after the last RTT and 2 ms; once reordering was seen, and 1 ms and a quarter
    /// of the RTT. FreeBSD 15: after the last RTT and a quarter, and more after D-SACKs.
    pub threshold_by_packet_delay: bool,
    /// Output is hardly paced before a first measurement of goodput (FreeBSD 13).
    pub paces_when_measured: bool,
    /// Whether output waits for 1 ms after a retransmission (FreeBSD 13).
    pub paces_after_retransmission: bool,
    /// Filter that SACK blocks pass.
    pub sack_filter: SackFilterKind,
    /// A retransmission that a timer asks for, a probe too, costs PRR credit as any other (FreeBSD 15).
    pub timer_costs_credit: bool,
    /// Whether what the reordering timer finds lost is taken out of the pipe until it is sent again (FreeBSD 15).
    pub pipe_without_lost: bool,
    /// Whether recovery leaves cwnd at ssthresh at least at its end (FreeBSD 15; RFC 6582 section 3.2 step 3,
    /// option 2), else at most (FreeBSD 13).
    pub exit_raises_window: bool,
    /// Segments of unused PRR credit that the window takes over when recovery ends. None: all of it (FreeBSD 13).
    pub credit_segments: Option<u64>,
    /// A loss on a deeply buffered path does not reduce the window while the RTT is near its minimum (FreeBSD 13).
    pub spares_cwnd_at_low_delay: bool,
    /// Bytes counted per ACK in congestion avoidance are capped at L segments (FreeBSD 15).
    pub abc_capped: bool,
    /// A timeout leaves both windows as they are (the hook is not called), sends the oldest transmission again,
    /// keeps what was SACKed until the third in a row, and then waits for an ACK (FreeBSD 15); else it reduces
    /// them, forgets what was SACKed and sends the first segment again (FreeBSD 13).
    pub timeout_spares_window: bool,
    /// Recovery is undone when an echoed timestamp or a short RTT shows that it was not needed (FreeBSD 13); else
    /// D-SACKs for all that was sent again restore ssthresh (FreeBSD 15).
    pub undoes_recovery: bool,
    /// Duplicate ACKs count where they have SACK blocks, too (FreeBSD 13).
    pub sacks_count_as_duplicates: bool,
    /// A spurious timeout is recognised by the echoed timestamp (FreeBSD 15).
    pub undoes_timeouts: bool,
    /// Without SACK the connection goes back to the default stack (FreeBSD 13; net.inet.tcp.rack.sack_not_required).
    pub needs_sack: bool,
    /// New data that a probe sends in recovery counts as any other: probes go on without end, and no timeout comes
    /// (FreeBSD 13; rack_timeout_tlp).
    pub recovery_hides_probes: bool,
    /// Segments of one output call (net.inet.tcp.rack.hptsi_seg_max).
    pub burst_segments: u32,
    /// The delayed ACK that a probe for a single segment allows for, ms.
    pub probe_delayed_ack_ms: u64,
    /// Largest retransmission timeout (net.inet.tcp.rack.rto_max), ms.
    pub rto_max_ms: u64,
}
