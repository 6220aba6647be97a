//! The summary of a run: counters and distributions of each flow and link over the measurement window, as every testbed
//! writes it. What a testbed cannot know is null.

use measure::{Metrics, Scenario as LoadScenario};
use schemars::JsonSchema;
use serde::Serialize;

/// The summary of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Summary {
    /// Every flow of the experiment, in its order.
    pub flows: Vec<FlowSummary>,
    /// Links whose queues are observed.
    pub links: Vec<LinkSummary>,
    /// Events of the engine. Null where no engine ran.
    pub events: Option<u64>,
    /// Packets that entered a link; of a real testbed, those in `links`.
    pub packets: u64,
}

/// The metrics of a flow. One of background traffic stands for all its transfers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FlowSummary {
    /// Name of the flow.
    pub flow: String,
    /// Status of the flow at the end.
    pub status: Status,
    /// Payload read by the receiving application; of datagrams, the payload that arrived.
    pub goodput_bytes: u64,
    /// Payload written and not acknowledged at the end. Null without a connection.
    pub unacknowledged_bytes: Option<u64>,
    /// Bytes that the sender's packets occupied at the bottleneck, with its overhead.
    pub wire_bytes: Option<u64>,
    /// Data segments sent; of datagrams, those sent.
    pub segments_sent: Option<u64>,
    /// Data segments that were sent again.
    pub retransmits: u64,
    /// Packets lost on the way, data and acknowledgements.
    pub drops: Option<u64>,
    /// Packets marked.
    pub ce_marks: Option<u64>,
    /// Timeouts. Null where the sender does not tell.
    pub rtos: Option<u64>,
    /// Entries into fast recovery.
    pub fast_recoveries: u64,
    /// Times in the run of entries into fast recovery.
    pub recovery_entries_ns: Vec<u64>,
    /// Time when slow start first ended, inside the window or not. Null if it never did.
    pub slow_start_exit_ns: Option<u64>,
    /// Payload read in each second of the whole run.
    pub goodput_seconds: GoodputSeconds,
    /// Packet-pair round trips of every acknowledgement: on the path, from interface to interface.
    pub rtt: Times,
    /// Mean of the smoothed RTT as the sender's TCP holds it, over the time it was active. Null without one.
    pub srtt_mean_ns: Option<u64>,
    /// Time that each data packet spent in queues, summed over the hops.
    pub queue_delay: Times,
    /// Mean congestion window over the time it was active. Null without one.
    pub cwnd_mean_bytes: Option<u64>,
    /// Largest congestion window.
    pub cwnd_max_bytes: Option<u64>,
    /// Limits of the flow, and for how long each held.
    pub limited_ns: Limited,
    /// Send buffer of the flow's sender. Null where nobody tells.
    pub send_buffer: Option<SocketBuffer>,
    /// Receive buffer of the flow's receiver. Null where nobody tells.
    pub receive_buffer: Option<SocketBuffer>,
    /// Time from opening to the last byte read.
    pub completion: Times,
    /// Time from a request to the last byte of its response.
    pub response: Times,
    /// Rounds of an incast, at the flow that answers last.
    pub round: Times,
    /// One-way delays of datagrams.
    pub one_way: Times,
    /// Error that the clocks of the two machines may bring into one-way delays. Absent where one clock stamps both
    /// ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub one_way_error_ns: Option<u64>,
    /// Number of times that a player had nothing to show.
    pub stalls: u64,
    /// Time in all that a player had nothing to show.
    pub stalled_ns: u64,
    /// Time of the window in which the flow was active.
    pub active_ns: u64,
    /// Time from the flow's start to the last byte read. Null if it is not complete.
    pub completion_ns: Option<u64>,
    /// Time when the flow was opened.
    pub start_ns: Option<u64>,
    /// Observations of a loadlatency scenario. Absent for other flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Load")]
    pub load: Option<Load>,
}

/// Status of a flow at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Flow that did what it was asked to.
    Complete,
    /// The run ended first.
    Unfinished,
    /// The connection broke.
    Failed,
    /// Flow whose start lies after the end.
    NotStarted,
    /// Flow whose path was not the one described, in real time only.
    Unreliable,
}

/// Payload read in each whole second of a flow's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GoodputSeconds {
    /// Beginning of the first second.
    pub from_ns: u64,
    /// Bytes, a number for each.
    pub bytes: Vec<u64>,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Times {
    /// Number of values; with none there is nothing else.
    pub count: u64,
    /// Metrics of the distribution.
    #[serde(flatten)]
    pub metrics: Option<TimeMetrics>,
}

/// The metrics of a distribution that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimeMetrics {
    /// The smallest.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// Time that each limit held, in ns. Null where the system does not tell. In the spirit of RFC 4898 (section 3.2,
/// SndLimTime), but a window, a buffer or pacing counts only while more of it would bring more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Limited {
    /// The congestion window.
    pub cwnd: Option<u64>,
    /// The peer's window.
    pub rwnd: Option<u64>,
    /// The send buffer.
    pub sndbuf: Option<u64>,
    /// The application.
    pub app: Option<u64>,
    /// A link that the flow fills, behind one of the others that has no room left.
    pub path: Option<u64>,
    /// The processing of the sending or of the receiving host.
    pub host: Option<u64>,
    /// The pacing rate.
    pub pacing: Option<u64>,
}

impl Limited {
    /// Times of a system that tells nothing.
    pub const UNKNOWN: Limited =
        Limited { cwnd: None, rwnd: None, sndbuf: None, app: None, path: None, host: None, pacing: None };
}

/// A buffer of a socket at the end of the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SocketBuffer {
    /// Size as the system counts: payload, of Linux memory.
    pub bytes: u64,
    /// Limit of the buffer's growth: a sysctl, or the socket option that set the size. Null: nothing limits it, or
    /// nobody tells.
    pub held_by: Option<String>,
}

/// Observations of a connection of a loadlatency scenario.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Load {
    /// The pinger.
    Pinger(Box<PingerLoad>),
    /// A flow of data.
    Data(DataLoad),
}

/// Observations of a pinger: the whole scenario and its metrics, with the idle round trips, whose times count from
/// the first of them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PingerLoad {
    /// Observations of the scenario.
    pub observed: LoadScenario,
    /// Metrics of the observations.
    pub metrics: Metrics,
}

/// Observations of a flow of data.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DataLoad {
    /// The longest time without data.
    pub longest_gap_ns: u64,
    /// Reason why the stack ended the flow before it was told to stop. Null if it did not.
    pub killed: Option<String>,
}

/// The counters of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LinkSummary {
    /// Name of the link.
    pub link: String,
    /// Packets sent.
    pub packets: u64,
    /// Bytes of these packets, with the link's overhead.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked. Null where the kernel carries the link.
    pub ce_marks: Option<u64>,
    /// Time in which it was sending. Null where the kernel carries the link.
    pub busy_ns: Option<u64>,
}
