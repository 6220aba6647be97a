//! What an agent is told, and what it answers: a line of JSON each.

use std::net::{IpAddr, Ipv4Addr};
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
        /// Their addresses.
        to: Vec<Ipv4Addr>,
        /// Echoes to each.
        count: u32,
        /// Time between two, ns.
        interval_ns: u64,
    },
    /// The run begins then, by this host's CLOCK_MONOTONIC.
    Start {
        /// That time, ns.
        zero_ns: u64,
    },
    /// Say what time it is.
    Clock {},
    /// Look at sockets of this host at an interval, from now on (Linux).
    Sample {
        /// What this sampler is called.
        name: String,
        /// What it is told (`live::sampler::Config`).
        config: serde_json::Value,
    },
    /// End a sampler, and write its rows into a file (`samples`).
    Samples {
        /// Which.
        name: String,
        /// Path of the file.
        file: PathBuf,
    },
    /// Carry links of a Scenario between interfaces of this host, from now on (Linux).
    Emulate {
        /// What the emulator is told (`live::emulator::Config`).
        config: serde_json::Value,
    },
    /// End that, and write its rows into a file (`samples`).
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
    /// Its name.
    pub flow: String,
    /// What it does.
    pub app: App,
    /// Congestion control, by the system's name; None: the system's.
    pub cc: Option<String>,
    /// Send buffer of the sender, bytes; None: the system's.
    pub sndbuf: Option<usize>,
    /// Receive buffer of the receiver, likewise.
    pub rcvbuf: Option<usize>,
    /// When it opens, ns of the run.
    pub start_ns: u64,
    /// When it stops.
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
    /// Programs that carry it out instead of us.
    #[serde(default)]
    pub tool: Option<Tool>,
    /// What the loadlatency tool is told, at the pinger of a scenario.
    #[serde(default)]
    pub load: Option<Load>,
}

/// A program at each end.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Tool {
    /// Its name.
    pub name: String,
    /// How long before the flow opens the client is started, ns.
    pub lead_ns: u64,
    /// Command of the sender.
    pub client: Vec<String>,
    /// Command of the receiver.
    pub server: Vec<String>,
}

/// The loadlatency tool at each end.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Load {
    /// When the client begins, ns of the run.
    pub start_ns: u64,
    /// How long it may take beyond the end, ns.
    pub after_ns: u64,
    /// What the client is told.
    pub client: client::Options,
    /// What the server is told.
    pub server: server::Options,
}

/// What an agent answers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// It is ready for the run.
    Ready {
        /// True.
        ready: bool,
    },
    /// Round trips, ns, by address, of those that were answered.
    Ping {
        /// By address.
        ping: std::collections::BTreeMap<Ipv4Addr, Vec<u64>>,
    },
    /// It knows when the run begins.
    Started {
        /// True.
        started: bool,
    },
    /// What its clocks say.
    Clock {
        /// CLOCK_MONOTONIC, ns.
        monotonic_ns: u64,
        /// Since 1970, ns.
        realtime_ns: u64,
    },
    /// The rows of a sampler, or of the emulator, are in the file.
    Sampled {
        /// What it says of itself.
        report: serde_json::Value,
    },
    /// What was seen.
    Ended {
        /// By each of our own ends.
        flows: Vec<Seen>,
        /// By tools.
        reports: Vec<Report>,
    },
    /// The order was not carried out.
    Error {
        /// Why: one line.
        error: String,
    },
}

/// What a tool said.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The flow.
    pub flow: String,
    /// `from` or `to`.
    pub role: &'static str,
    /// Its name.
    pub tool: String,
    /// All that it wrote, or its JSON document.
    pub text: String,
    /// What went wrong.
    pub error: Option<String>,
}
