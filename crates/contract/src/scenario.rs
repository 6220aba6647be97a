//! A `Scenario`: one run, fully resolved. No default is left in it; it is what Python hands to the engine as
//! JSON, what is stored with the results, and what `cargo run -p cwndlab-sim --example replay` runs again.
//!
//! Units are in the names: `_ns` nanoseconds, `_bps` bits per second, `_ppb` parts per billion; sizes are bytes.
//! Unknown fields are refused everywhere.

use std::collections::BTreeMap;

use params::cc::CcParams;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{HostId, LinkId};
pub use apps::{App, Distribution, Draws, EcnField, LoadPart};

/// The version of this format that the engine understands.
pub const VERSION: u32 = 1;

/// Run of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Always [`VERSION`].
    pub version: u32,
    /// The experiment's name, for messages.
    pub experiment: String,
    /// Seed of every random stream, with `repeat`.
    pub seed: u64,
    /// Number of the run among the repeats of its cell, from 0.
    pub repeat: u32,
    /// Length of the run.
    pub duration_ns: u64,
    /// Each flow's start is drawn uniformly from `start_ns .. start_ns + start_jitter_ns`.
    pub start_jitter_ns: u64,
    /// By the name of a link, how much its delay is longer at most: a draw from 0 to below this, once a run, is added for
    /// all packets. Absent: nothing is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phase_jitter_ns: BTreeMap<String, u64>,
    /// The part of the run that summaries cover.
    pub measure: Measure,
    /// Records to write.
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Start of the window.
    pub from_ns: u64,
    /// End of the window, at most the duration.
    pub to_ns: u64,
    /// The rate that the metric `time_to_rate_s` waits for; absent: none. The engine does not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_bps: Option<u64>,
}

/// Records of a run, besides events and samples, which are always written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Rows of the `tcp` table.
    pub tcp: Sampling,
    /// Rows of the `queue` table.
    pub queue: Sampling,
    /// Packet captures.
    pub pcap: Vec<Capture>,
}

/// Times at which a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sampling {
    /// Never.
    Off,
    /// After every ACK processed by the sender (tcp), on every change of the queue (queue).
    PerAck,
    /// Multiples of an interval.
    Interval {
        /// The interval, above zero.
        interval_ns: u64,
    },
}

/// Capture file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// A host's name (both directions, below segmentation, at its NIC) or a link's name (packets entering it).
    pub at: String,
    /// Bytes of each packet kept, from the IP header on.
    pub snaplen: u32,
}

/// An end host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Unique among hosts and nodes.
    pub name: String,
    /// A stack of the catalogue, such as `freebsd-9.2` or `linux-6.8`.
    pub stack: String,
    /// Clock ticks per second of the system.
    pub hz: u32,
    /// IP version of its packets.
    #[serde(default, skip_serializing_if = "IpVersion::is_v4")]
    pub ip: IpVersion,
    /// The MSS announced in the SYN (on Ethernet 1460 with IPv4, 1440 with IPv6).
    pub mss: u16,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Sysctls by their real names, as integers; only those set.
    pub sysctl: BTreeMap<String, i64>,
    /// The network interface.
    pub nic: Nic,
    /// A receiver that hands data to its stack in aggregates of this many segments, instead of what `nic` says; the
    /// next one is waited for as long as `nic.coalesce` says. Null: no.
    pub ack_every: Option<u16>,
    /// Way in which the host cheats those that send to it. Absent: it is honest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheats: Option<Cheat>,
    /// Time the host takes. Null: none.
    pub noise: Option<Noise>,
    /// Impairments by `tc netem` at the host's egress, where it sees segments before segmentation offload. Null:
    /// none.
    pub egress: Option<Egress>,
    /// Impairments at the host's ingress.
    pub ingress: Ingress,
}

/// Way in which a receiver has its senders believe more, by the acknowledgements that leave its host (Savage et al., CCR 29(5), 1999).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Cheat {
    /// An acknowledgement of new data leaves as several, each of a further part of it.
    AckDivision {
        /// Number of them, above zero; at most one for each byte.
        parts: u32,
    },
    /// An acknowledgement leaves more than once, and the host offers no SACK, by which its senders would see that this says nothing.
    DuplicateAcks {
        /// Number of duplicates behind each.
        copies: u32,
    },
    /// Acknowledgements of data that did not come yet leave in the place of the stack's, at a rate. What is lost is acknowledged too.
    OptimisticAcks {
        /// Rate of the payload that is acknowledged, above zero.
        rate_bps: u64,
    },
}

/// Version of the Internet Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IpVersion {
    /// IPv4, without options.
    #[default]
    Ipv4,
    /// IPv6, without extension headers.
    Ipv6,
}

impl IpVersion {
    /// Length of the header in bytes (RFC 791, RFC 8200).
    pub fn header(self) -> u32 {
        match self {
            IpVersion::Ipv4 => 20,
            IpVersion::Ipv6 => 40,
        }
    }

    /// Whether it is IPv4.
    pub fn is_v4(&self) -> bool {
        *self == IpVersion::Ipv4
    }
}

/// Processing-time and stall noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Time for what is handed to the stack, one after the other. Null: none.
    pub processing: Option<Processing>,
    /// Moments in which the host does nothing. Null: none.
    pub stall: Option<Stall>,
}

/// Time for one packet: a normal distribution, cut at zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Processing {
    /// Mean.
    pub mean_ns: u64,
    /// Standard deviation.
    pub sd_ns: u64,
}

/// Stalls: a Poisson process of exponential lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Mean time between two, above zero.
    pub every_ns: u64,
    /// Mean length.
    pub length_ns: u64,
}

/// A host's egress as netem makes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Segments inside, those being delayed included.
    pub limit_packets: u32,
    /// Added delay.
    pub delay_ns: u64,
    /// Variation of the delay.
    pub jitter: Option<path::JitterConfig>,
    /// Loss.
    pub loss: Option<path::LossConfig>,
    /// Probability that a segment is sent twice.
    pub duplicate_ppb: u32,
    /// Probability that a segment is damaged.
    pub corrupt_ppb: u32,
    /// Rate, behind the delay. Null: none.
    pub rate_bps: Option<u64>,
}

/// Impairments at a host's ingress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// Impairments on the wire. Null: none.
    pub before_gro: Option<IngressStage>,
    /// Behind receive aggregation, as a rule in the INPUT chain. Null: none.
    pub after_gro: Option<IngressStage>,
}

/// Impairment at one place of a host's ingress, of the packets that match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IngressStage {
    /// Loss.
    pub loss: Option<path::LossConfig>,
    /// Probability that a packet comes twice.
    pub duplicate_ppb: u32,
    /// Probability that a packet is damaged.
    pub corrupt_ppb: u32,
    /// Only packets to this port. Null: any.
    pub dport: Option<u16>,
    /// Only packets from this port. Null: any.
    pub sport: Option<u16>,
    /// Only packets with at least this many payload bytes.
    pub min_payload: u32,
}

/// ECN of a host (RFC 3168, RFC 9768).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ecn {
    /// Neither asked for nor accepted.
    Off,
    /// Accepted when the peer asks (the default of most systems).
    Accept,
    /// Asked for on outgoing connections, and accepted.
    On,
    /// Accurate ECN is asked for, and accepted like the ECN of RFC 3168.
    Accurate,
    /// The ECN of RFC 3168 is asked for, and Accurate ECN accepted too.
    OnAcceptAccurate,
    /// Nothing is asked for, and Accurate ECN accepted too.
    AcceptAccurate,
}

impl Ecn {
    /// The word in a Scenario.
    pub fn as_str(self) -> &'static str {
        match self {
            Ecn::Off => "off",
            Ecn::Accept => "accept",
            Ecn::On => "on",
            Ecn::Accurate => "accurate",
            Ecn::OnAcceptAccurate => "on-accept-accurate",
            Ecn::AcceptAccurate => "accept-accurate",
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Transmit queue, packets waiting. Applies to the host's outgoing link.
    pub tx_queue: u32,
    /// Reaction of a full transmit queue.
    pub full: WhenFull,
    /// Segmentation offload.
    pub tso: bool,
    /// Largest payload of a segment handed to the interface. Null: what an IP packet holds.
    pub tso_max: Option<u32>,
    /// Receive aggregation by the stack (Linux GRO).
    pub gro: bool,
    /// Receive aggregation by the driver (FreeBSD LRO).
    pub lro: bool,
    /// Interrupt moderation. Null: every frame interrupts, so that only what arrives at the same moment is aggregated.
    pub coalesce: Option<Coalesce>,
    /// A veth, through which packets arrive in the buffers of their senders: Linux counts the memory of those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub veth: bool,
}

/// Reaction of a full transmit queue to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Drops the packet, and the stack does not know.
    Drop,
    /// Refuses the packet: FreeBSD's stack sees ENOBUFS, Linux's a local congestion notice.
    Enobufs,
}

/// Interrupt moderation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Coalesce {
    /// Longest that a frame waits; 0: every frame interrupts.
    pub time_ns: u64,
    /// Frames that end the wait; 0: no such limit.
    pub frames: u32,
    /// Linux: time between passes of polling after an interrupt, in which aggregates are held; 0: none.
    pub gro_flush_timeout_ns: u64,
    /// Linux: passes without a frame before interrupts are switched on again.
    pub napi_defer_hard_irqs: u32,
}

/// A router or switch: forwards at once, queues on its outgoing links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique among hosts and nodes.
    pub name: String,
    /// Memory that the node's outgoing links share, besides the limits of their queues. Null: no such limit.
    pub switch: Option<path::SwitchConfig>,
}

/// Direction of a cable: loss, duplication, corruption, then queue, rate, delay and jitter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Unique among links.
    pub name: String,
    /// Host or node at the sending end.
    pub from: String,
    /// Host or node at the receiving end.
    pub to: String,
    /// Rate. Null: a packet takes no time.
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
    /// Limit of the link besides its rate.
    pub shaper: Option<path::ShaperConfig>,
    /// Largest IP packet.
    pub mtu: u32,
    /// The router ahead of the link drops larger packets without telling their sender by ICMP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub black_hole: bool,
    /// The delay lies before the queue, as where netem has the queue behind it: packets that come at one instant are all in the
    /// queue before the first of them leaves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delay_first: bool,
    /// Bytes added to an IP packet where a rate or a byte limit counts it.
    pub overhead: u32,
    /// Whether the link's queue appears in the `queue` table.
    pub observe: bool,
    /// Whether this is a bottleneck whose rate the summary's utilisation refers to.
    pub bottleneck: bool,
}

/// Flow of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Unique among flows.
    pub name: String,
    /// Host that opens the connection and sends.
    pub from: String,
    /// Host that accepts and receives.
    pub to: String,
    /// Application of the flow.
    pub app: App,
    /// Time when the connection is opened, before `start_jitter_ns`.
    pub start_ns: u64,
    /// Time when the flow stops sending and closes. Null: the end of the run.
    pub stop_ns: Option<u64>,
    /// Congestion control of the sender.
    pub cc: String,
    /// Constants of the congestion control that the experiment changes. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc_params: Option<CcParams>,
    /// Sender's SO_SNDBUF. Null: autotuning.
    pub sndbuf: Option<u64>,
    /// Receiver's SO_RCVBUF. Null: autotuning.
    pub rcvbuf: Option<u64>,
}

/// Event of a flow that a change of a link waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Occasion {
    /// The flow's name.
    pub flow: String,
    /// Kind of the event, one of those that endpoints tell.
    pub event: String,
}

/// A change of a link at a given time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time of the change, or from which on it waits for its event.
    pub at_ns: u64,
    /// Event with the first of which, from then on, the change is made. Absent: it is made at its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Occasion>,
    /// The link's name.
    pub link: String,
    /// New rate. Null: unchanged.
    pub rate_bps: Option<u64>,
    /// New delay. Null: unchanged.
    pub delay_ns: Option<u64>,
    /// New loss. Null: unchanged.
    pub loss: Option<path::LossConfig>,
    /// New queue discipline, which takes over the packets that wait. Null: unchanged.
    pub queue: Option<path::QueueConfig>,
    /// Outage: packets entering while down are lost. Null: unchanged.
    pub down: Option<bool>,
}

/// Names of the places in a host where packets may be lost, in their order.
pub const PLACES: [&str; 3] = ["egress", "ingress.before_gro", "ingress.after_gro"];

impl Scenario {
    /// Names of everything that may drop a packet, by its number as a hop: links, then the places in each host.
    pub fn hop_names(&self) -> Vec<String> {
        let links = self.links.iter().map(|l| l.name.clone());
        let places = self.hosts.iter().flat_map(|h| PLACES.map(|place| format!("{}.{place}", h.name)));
        links.chain(places).collect()
    }

    /// The number, as a hop, of a place (an index into [`PLACES`]) in a host.
    pub fn place_hop(&self, host: HostId, place: usize) -> u32 {
        (self.links.len() + host.index() * PLACES.len() + place) as u32
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.name == name).map(|index| HostId(index as u16))
    }

    /// The link of this name.
    pub fn link(&self, name: &str) -> Option<LinkId> {
        self.links.iter().position(|link| link.name == name).map(|index| LinkId(index as u32))
    }

    /// The links for which `is` holds, in order.
    pub fn links_where(&self, is: impl Fn(&Link) -> bool) -> Vec<LinkId> {
        (0..).map(LinkId).zip(&self.links).filter(|(_, link)| is(link)).map(|(id, _)| id).collect()
    }
}

impl Link {
    /// Configuration of a link for the path crate.
    pub fn path_config(&self, report_changes: bool) -> path::LinkConfig {
        path::LinkConfig {
            rate_bps: self.rate_bps,
            delay_ns: self.delay_ns,
            queue: self.queue.clone(),
            loss: self.loss.clone(),
            duplicate_ppb: self.duplicate_ppb,
            corrupt_ppb: self.corrupt_ppb,
            jitter: self.jitter.clone(),
            shaper: self.shaper.clone(),
            overhead: self.overhead,
            mtu: self.mtu,
            delay_first: self.delay_first,
            report_changes,
        }
    }
}

impl Change {
    /// Change of a link for the path crate.
    pub fn path_change(&self) -> path::LinkChange {
        path::LinkChange {
            rate_bps: self.rate_bps,
            delay_ns: self.delay_ns,
            loss: self.loss.clone(),
            queue: self.queue.clone(),
            down: self.down,
        }
    }
}

impl Egress {
    /// The link that stands for netem.
    pub fn path_config(&self) -> path::LinkConfig {
        path::LinkConfig {
            rate_bps: self.rate_bps,
            delay_ns: self.delay_ns,
            queue: path::QueueConfig::Netem { limit_packets: self.limit_packets },
            loss: self.loss.clone(),
            duplicate_ppb: self.duplicate_ppb,
            corrupt_ppb: self.corrupt_ppb,
            jitter: self.jitter.clone(),
            // tc counts the Ethernet header.
            overhead: 14,
            ..path::LinkConfig::default()
        }
    }
}

impl IngressStage {
    /// A link without rate and delay, of which only the impairments are left.
    pub fn path_config(&self) -> path::LinkConfig {
        path::LinkConfig {
            loss: self.loss.clone(),
            duplicate_ppb: self.duplicate_ppb,
            corrupt_ppb: self.corrupt_ppb,
            overhead: 0,
            ..path::LinkConfig::default()
        }
    }

    /// Whether the stage is about a packet with these ports and so many payload bytes.
    pub fn matches(&self, sport: u16, dport: u16, payload: u32) -> bool {
        self.dport.is_none_or(|port| port == dport)
            && self.sport.is_none_or(|port| port == sport)
            && payload >= self.min_payload
    }
}
