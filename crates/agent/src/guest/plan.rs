//! Plan that a guest is told, and its answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use live::taps::Config as Taps;

use crate::metrics::Seen;
use crate::order::{Prepare, Report as ToolReport};

/// A run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Only say what the kernel has: the file `inventory.json`.
    #[serde(default)]
    pub inventory: bool,
    /// Number of network namespaces. Node N has file descriptor `FIRST_NODE` + N.
    #[serde(default)]
    pub nodes: usize,
    /// Settings, in this order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Orders to agents of nodes, by the node's number.
    #[serde(default)]
    pub orders: Vec<(usize, Prepare)>,
    /// Samplers of sockets: a name, which is that of their file, and what they are told (`live::sampler::Config`).
    #[serde(default)]
    pub samplers: Vec<(String, Value)>,
    /// Whether acknowledgements make rows of samplers that want it.
    #[serde(default)]
    pub per_ack: bool,
    /// Links whose queues are looked at.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Time between two looks, ns.
    #[serde(default)]
    pub queue_interval_ns: u64,
    /// Taps, which see every packet. None: there are none.
    #[serde(default)]
    pub taps: Option<Taps>,
    /// Settings of links that change in mid-run, in order of time.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// The run's length, ns.
    #[serde(default)]
    pub duration_ns: u64,
    /// The measurement window, ns of the run.
    #[serde(default)]
    pub measure: [u64; 2],
}

/// A setting.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Step {
    /// Write a file of /proc or /sys.
    Write {
        /// The node. None: outside of all.
        node: Option<usize>,
        /// Path of the file.
        path: String,
        /// Text to write.
        text: String,
    },
    /// Send a message of rtnetlink(7).
    Netlink(Message),
    /// Have packets cut before they leave by an interface, not behind it.
    Cut {
        /// The node.
        node: usize,
        /// Interface of the link.
        interface: String,
        /// Whether TCP hands down more than a packet at a time.
        gso: bool,
    },
}

/// A message of rtnetlink(7).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    /// The node.
    pub node: usize,
    /// Purpose of the message, for errors.
    pub what: String,
    /// struct nlmsghdr and what follows, in hexadecimal.
    pub message: String,
}

/// Messages at a time of the run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Time of the change in the run, in ns.
    pub at_ns: u64,
    /// Messages to send.
    pub messages: Vec<Message>,
}

/// A link's queue discipline.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// Name of the link.
    pub name: String,
    /// Node from which the link leads.
    pub node: usize,
    /// Number of the link's interface at that node.
    pub interface: i32,
    /// Handle of the queue discipline whose queue it is.
    pub queue: u32,
    /// Handle of the queue discipline in which loss is made. None: nowhere.
    pub netem: Option<u32>,
    /// Whether the run records the link's queue.
    pub observe: bool,
}

/// Record of what was seen of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Release of the kernel and how it was built, as `uname -a` prints it.
    pub kernel: String,
    /// Records of each end of a flow.
    pub flows: Vec<Seen>,
    /// Reports of tools.
    pub reports: Vec<ToolReport>,
    /// Reports of samplers, by their name.
    pub samplers: BTreeMap<String, Value>,
    /// Counters of each link in the measurement window.
    pub links: BTreeMap<String, Counters>,
    /// Metrics of flows from their packets.
    pub packets: Value,
    /// Packets that found no place in a ring: what is said of packets is not true then.
    pub unseen: u64,
    /// Looks at queues: time in ns of the run, the link, and what was found.
    pub queue: Vec<(u64, String, Counters)>,
    /// Counters of the kernel for each host, by its node: the text of its files before the run, and at its end.
    pub counters: BTreeMap<usize, [String; 2]>,
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Counters {
    /// Packets dropped so far, those that loss on the way has taken among them.
    pub drops: u64,
    /// Packets among these that were lost on the way.
    pub lost: u64,
    /// Bytes in the queue.
    pub backlog_bytes: u64,
    /// Packets in the queue.
    pub backlog_packets: u64,
    /// Bytes that have left the queue.
    pub bytes: u64,
    /// Packets that have left the queue.
    pub packets: u64,
    /// Packets marked so far. None where the discipline does not tell.
    pub marks: Option<u64>,
}
