//! A `Scenario`: one run, fully resolved. No default is left in it; it is what Python hands to the engine as
//! JSON, what is stored with the results, and what `cargo run -p sim --example replay` runs again.
//!
//! Units are in the names: `_ns` nanoseconds, `_bps` bits per second, `_ppb` parts per billion; sizes are bytes.
//! Unknown fields are refused everywhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of this format that the engine understands.
pub const VERSION: u32 = 1;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Always [`VERSION`].
    pub version: u32,
    /// The experiment's name, for messages.
    pub experiment: String,
    /// Seed of every random stream, with `repeat`.
    pub seed: u64,
    /// Which repeat of its cell this run is, from 0.
    pub repeat: u32,
    /// Length of the run.
    pub duration_ns: u64,
    /// Each flow's start is drawn uniformly from `start_ns .. start_ns + start_jitter_ns`.
    pub start_jitter_ns: u64,
    /// The part of the run that summaries cover.
    pub measure: Measure,
    /// What is recorded.
    pub record: Record,
    /// End hosts, in the experiment's order, which is also the order of simultaneous events.
    pub hosts: Vec<Host>,
    /// Routers and switches.
    pub nodes: Vec<Node>,
    /// One-directional links; a cable is two of them. Routes are shortest paths in hops, ties by link order.
    pub links: Vec<Link>,
    /// Flows in order.
    pub flows: Vec<Flow>,
    /// Changes of links at given times, in order of time.
    pub schedule: Vec<Change>,
}

/// The window `from_ns <= t < to_ns` of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Start of the window.
    pub from_ns: u64,
    /// End of the window, at most the duration.
    pub to_ns: u64,
}

/// What is recorded of a run, besides events and samples, which always are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Rows of the `tcp` table.
    pub tcp: Sampling,
    /// Rows of the `queue` table.
    pub queue: Sampling,
    /// Packet captures.
    pub pcap: Vec<Capture>,
}

/// When a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sampling {
    /// Never.
    Off,
    /// After every ACK processed by the sender (tcp), on every change of the queue (queue).
    PerAck,
    /// At multiples of an interval.
    Interval {
        /// The interval, above zero.
        interval_ns: u64,
    },
}

/// One capture file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// A host's name (both directions, below segmentation, at its NIC) or a link's name (packets entering it).
    pub at: String,
    /// Bytes of each packet kept, from the IP header on.
    pub snaplen: u32,
}

/// An end host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Unique among hosts and nodes.
    pub name: String,
    /// A stack of the catalogue, such as `freebsd-9.2` or `linux-6.8`.
    pub stack: String,
    /// Clock ticks per second of the system.
    pub hz: u32,
    /// The MSS announced in the SYN (1460 on Ethernet).
    pub mss: u16,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Sysctls by their real names, as integers; only those set.
    pub sysctl: BTreeMap<String, i64>,
    /// The network interface.
    pub nic: Nic,
    /// A receiver that hands data to its stack in aggregates of this many segments; null: every segment alone.
    pub ack_every: Option<u32>,
}

/// ECN of a host (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecn {
    /// Neither asked for nor accepted.
    Off,
    /// Accepted when the peer asks (the default of most systems).
    Accept,
    /// Asked for on outgoing connections, and accepted.
    On,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Transmit queue, packets waiting. Applies to the host's outgoing link.
    pub tx_queue: u32,
    /// Segmentation offload.
    pub tso: bool,
    /// Receive aggregation by the stack (Linux GRO).
    pub gro: bool,
    /// Receive aggregation by the driver (FreeBSD LRO).
    pub lro: bool,
}

/// A router or switch: forwards at once, queues on its outgoing links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique among hosts and nodes.
    pub name: String,
}

/// One direction of a cable: loss, duplication, corruption, then queue, rate, delay and jitter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Unique among links.
    pub name: String,
    /// Host or node at the sending end.
    pub from: String,
    /// Host or node at the receiving end.
    pub to: String,
    /// Rate; null: a packet takes no time.
    pub rate_bps: Option<u64>,
    /// One-way propagation delay.
    pub delay_ns: u64,
    /// Queue discipline.
    pub queue: path::QueueConfig,
    /// Loss before the queue.
    pub loss: Option<path::LossConfig>,
    /// Probability that a packet is sent twice.
    pub duplicate_ppb: u32,
    /// Probability that a packet is damaged, which the receiver drops.
    pub corrupt_ppb: u32,
    /// Variation of the delay.
    pub jitter: Option<path::JitterConfig>,
    /// What limits the link besides its rate.
    pub shaper: Option<path::ShaperConfig>,
    /// Largest IP packet.
    pub mtu: u32,
    /// Bytes added to an IP packet where a rate or a byte limit counts it.
    pub overhead: u32,
    /// Whether the link's queue appears in the `queue` table.
    pub observe: bool,
    /// Whether this is a bottleneck whose rate the summary's utilisation refers to.
    pub bottleneck: bool,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Unique among flows.
    pub name: String,
    /// Host that opens the connection and sends.
    pub from: String,
    /// Host that accepts and receives.
    pub to: String,
    /// What it does.
    pub app: App,
    /// When the connection is opened, before `start_jitter_ns`.
    pub start_ns: u64,
    /// When it stops sending and closes; null: at the end of the run.
    pub stop_ns: Option<u64>,
    /// Congestion control of the sender.
    pub cc: String,
    /// Sender's SO_SNDBUF; null: autotuning.
    pub sndbuf: Option<u64>,
    /// Receiver's SO_RCVBUF; null: autotuning.
    pub rcvbuf: Option<u64>,
}

/// What a flow's application does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum App {
    /// Writes as fast as the socket takes it.
    Bulk {
        /// Bytes to send, after which it closes; null: no limit.
        bytes: Option<u64>,
        /// Size of one write.
        write_bytes: u64,
    },
}

/// A change of a link at a given time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// When.
    pub at_ns: u64,
    /// The link's name.
    pub link: String,
    /// New rate; null: unchanged.
    pub rate_bps: Option<u64>,
    /// New delay; null: unchanged.
    pub delay_ns: Option<u64>,
    /// New loss; null: unchanged.
    pub loss: Option<path::LossConfig>,
    /// New queue discipline, which takes over the packets that wait; null: unchanged.
    pub queue: Option<path::QueueConfig>,
    /// Outage: packets entering while down are lost; null: unchanged.
    pub down: Option<bool>,
}
