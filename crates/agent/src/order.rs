//! Orders to an agent, and its answers: a line of JSON each.

use std::net::IpAddr;
use std::path::PathBuf;

use contract::scenario::App;
use loadlatency::{client, server};
use serde::{Deserialize, Serialize};

use crate::metrics::Seen;

/// An order; the next one is read when it is answered.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Order {
    /// Get ready for the flows that this host sends and receives. Receivers listen when it is answered.
    Prepare(Prepare),
    /// Round trips to other hosts, one after the other.
    Ping {
        /// Addresses to ping.
        to: Vec<IpAddr>,
        /// Echoes to each.
        count: u32,
        /// Time between two, ns.
        interval_ns: u64,
    },
    /// The run begins then, by this host's CLOCK_MONOTONIC.
    Start {
        /// Time when the run begins, in ns.
        zero_ns: u64,
    },
    /// Say what time it is.
    Clock {},
    /// Look at sockets of this host at an interval, from now on (Linux).
    Sample {
        /// Name of the sampler.
        name: String,
        /// Settings of the sampler (`live::sampler::Config`).
        config: serde_json::Value,
    },
    /// End a sampler, and write its rows into a file (`samples`).
    Samples {
        /// Name of the sampler.
        name: String,
        /// Path of the file.
        file: PathBuf,
    },
    /// Carry links of a Scenario between interfaces of this host, from now on (Linux).
    Emulate {
        /// Settings of the emulator (`live::emulator::Config`).
        config: serde_json::Value,
    },
    /// End the emulator, and write its rows into a file (`samples`).
    Emulated {
        /// Path of the file.
        file: PathBuf,
    },
    /// Stop everything, and say what was seen.
    End {},
}

/// The flows of a run.
#[derive(Debug, Deserialize)]
pub(crate) struct Prepare {
    /// The measurement window, ns of the run.
    pub measure: [u64; 2],
    /// The run's length, ns.
    pub duration_ns: u64,
    /// Flows that begin here.
    pub sends: Vec<Task>,
    /// Flows that end here.
    pub receives: Vec<Task>,
}

/// A flow, told to both of its ends.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Task {
    /// Name of the flow.
    pub flow: String,
    /// Application of the flow.
    pub app: App,
    /// Congestion control, by the system's name. None: the system's.
    pub cc: Option<String>,
    /// Send buffer of the sender, bytes. None: the system's.
    pub sndbuf: Option<usize>,
    /// Receive buffer of the receiver, in bytes. None: the system's choice.
    pub rcvbuf: Option<usize>,
    /// Time of the run when the flow opens, in ns.
    pub start_ns: u64,
    /// Time of the run when the flow stops, in ns.
    pub stop_ns: u64,
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub target: IpAddr,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's.
    pub target_port: u16,
    /// Seed of the experiment, for what the application draws.
    pub seed: u64,
    /// Repeat of the experiment.
    pub repeat: u32,
    /// Programs that carry the flow out instead of us.
    #[serde(default)]
    pub tool: Option<Tool>,
    /// The connection is opened with TCP Fast Open, and taken with it (Linux).
    #[serde(default)]
    pub fast_open: bool,
    /// Options of the loadlatency tool, at the pinger of a scenario.
    #[serde(default)]
    pub load: Option<Load>,
    /// Guest that carries the flow out in place of this host's kernel.
    #[serde(default)]
    pub guest: Option<Stack>,
}

/// A guest at both ends of a flow.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(not(all(feature = "quinn", target_os = "linux")), expect(dead_code))]
pub(crate) struct Stack {
    /// Name of the guest, as the catalogue has it.
    pub stack: String,
    /// Largest payload of a datagram that the interfaces of sender and receiver carry, bytes.
    pub payload: [u16; 2],
    /// Whether the hosts of sender and receiver set ECN fields.
    pub marks: [bool; 2],
    /// Time between two looks at an end, ns.
    pub interval_ns: u64,
}

/// A program at each end.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Time before the flow opens when the client is started, in ns.
    pub lead_ns: u64,
    /// Command of the sender.
    pub client: Vec<String>,
    /// Command of the receiver.
    pub server: Vec<String>,
}

/// The loadlatency tool at each end.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Load {
    /// Time of the run when the client begins, in ns.
    pub start_ns: u64,
    /// Time that the client may take beyond the end, in ns.
    pub after_ns: u64,
    /// Options of the client.
    pub client: client::Options,
    /// Options of the server.
    pub server: server::Options,
}

/// Answer of an agent.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// Agent that is ready for the run.
    Ready {
        /// True.
        ready: bool,
    },
    /// Round trips, ns, by address, of those that were answered.
    Ping {
        /// Round-trip times by address.
        ping: std::collections::BTreeMap<IpAddr, Vec<u64>>,
    },
    /// Agent that knows when the run begins.
    Started {
        /// True.
        started: bool,
    },
    /// Readings of the host's clocks.
    Clock {
        /// CLOCK_MONOTONIC, ns.
        monotonic_ns: u64,
        /// Time since 1970, in ns.
        realtime_ns: u64,
    },
    /// The rows of a sampler, or of the emulator, are in the file.
    Sampled {
        /// Report of the sampler.
        report: serde_json::Value,
    },
    /// Records of a run that ended.
    Ended {
        /// Records of the agent's own ends.
        flows: Vec<Seen>,
        /// Reports of tools.
        reports: Vec<Report>,
    },
    /// The order was not carried out.
    Error {
        /// Reason: one line.
        error: String,
    },
}

/// Report of a tool.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The flow.
    pub flow: String,
    /// `from` or `to`.
    pub role: &'static str,
    /// Name of the tool.
    pub tool: String,
    /// Text that the tool wrote, or its JSON document.
    pub text: String,
    /// Error of the tool. None where nothing went wrong.
    pub error: Option<String>,
}
