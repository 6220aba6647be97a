//! What distinguishes the RACK stacks of two releases.

/// What distinguishes the RACK stacks of two releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RackTuning {
    /// The stack's clock counts milliseconds (13), else microseconds (15).
    pub milliseconds: bool,
    /// Timers and pacing end on a tick of the host's clock, as recorded of 13; else on slots of 10 us.
    pub wheel_on_ticks: bool,
    /// 13: a segment is lost after the last RTT and 2 ms; once reordering was seen, and 1 ms and a quarter of the
    /// RTT. 15: after the last RTT and a quarter, and more after D-SACKs.
    pub threshold_by_packet_delay: bool,
    /// Output is hardly paced before a first measurement of goodput (13).
    pub paces_when_measured: bool,
    /// After a retransmission output waits for 1 ms (13).
    pub paces_after_retransmission: bool,
    /// SACKs are not read 2 to 4 GiB after the last ones (13).
    pub sack_filter_wraps: bool,
    /// PRR keeps the product of bytes delivered and ssthresh in 32 bits (13). It wraps, and then no new data leaves
    /// until the pipe is down to ssthresh.
    pub prr_wraps: bool,
    /// PRR counts bytes as delivered when they are SACKed, and again when they are acknowledged (13).
    pub prr_counts_twice: bool,
    /// Recovery ends before its last ACK lets the window grow, and leaves cwnd at ssthresh at most (13).
    pub exits_before_growth: bool,
    /// Segments of unused PRR credit that the window takes over when recovery ends; None: all of it (13).
    pub credit_segments: Option<u64>,
    /// A loss on a deeply buffered path does not reduce the window while the RTT is near its minimum (13).
    pub spares_cwnd_at_low_delay: bool,
    /// Bytes counted per ACK in congestion avoidance are capped at L segments (15).
    pub abc_capped: bool,
    /// A timeout takes all that is not SACKed for lost (15); else it sends the first segment again and forgets what was
    /// SACKed (13).
    pub timeout_loses_all: bool,
    /// A spurious timeout is recognised by the echoed timestamp (15).
    pub undoes_timeouts: bool,
    /// Without SACK the connection goes back to the default stack (13; net.inet.tcp.rack.sack_not_required).
    pub needs_sack: bool,
    /// New data that a probe sends in recovery counts as any other: probes go on without end, and no timeout comes
    /// (13; rack_timeout_tlp).
    pub recovery_hides_probes: bool,
    /// Segments of one output call (net.inet.tcp.rack.hptsi_seg_max).
    pub burst_segments: u32,
    /// The delayed ACK that a probe for a single segment allows for, ms.
    pub probe_delayed_ack_ms: u64,
    /// Largest retransmission timeout (net.inet.tcp.rack.rto_max), ms.
    pub rto_max_ms: u64,
}
