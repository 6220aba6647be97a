//! Refusals of a scenario by the engine: every refusal is one line.

use contract::scenario::{Flow, VERSION};
use contract::{AppError, NetworkError, ParseError};
use tcp::cc::foreign::{Failure, Knob};
use tcp::stack::ProfileError;
use thiserror::Error;

/// Reason why the engine does not run a scenario.
#[derive(Debug, Error)]
pub enum Error {
    /// Text that is no scenario.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// Network that nobody could carry out.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Scenario for another version of the engine.
    #[error("version: found {0}; expected {VERSION}")]
    Version(u32),
    /// Scenario that takes no time.
    #[error("duration_ns: must be above zero")]
    Duration,
    /// The measurement window is empty, or not within the run.
    #[error("measure: must be a window within the run")]
    Measure,
    /// Samples of this kind would be taken without end.
    #[error("record.{0}: the interval must be above zero")]
    SampleInterval(&'static str),
    /// Numbers of hosts and flows have no more bits.
    #[error("at most 65535 hosts and 2^24 flows")]
    TooMany,
    /// A name stands for two things.
    #[error("{list}: {name} is there twice")]
    Twice {
        /// List with the name.
        list: &'static str,
        /// The name.
        name: String,
    },
    /// A link ends nowhere.
    #[error("link {link}: no host or node is called {end}")]
    LinkEnd {
        /// Name of the link.
        link: String,
        /// Name of the link's end.
        end: String,
    },
    /// A flow.
    #[error("flow {flow}: {why}")]
    Flow {
        /// Name of the flow.
        flow: String,
        /// Fault of the flow.
        why: FlowError,
    },
    /// A host.
    #[error("host {host}: {why}")]
    Host {
        /// Name of the host.
        host: String,
        /// Fault of the host.
        why: HostError,
    },
    /// A datagram of a guest would arrive twice.
    #[error("{place}: duplicates packets, which is not carried out in a run with a guest ({host})")]
    DuplicateToGuest {
        /// Link or host that duplicates.
        place: String,
        /// Name of a host with a guest.
        host: String,
    },
    /// A capture is nowhere.
    #[error("record.pcap: no host or link is called {0}")]
    CapturePoint(String),
    /// A capture cannot begin.
    #[error("record.pcap: {0}")]
    Capture(std::io::Error),
}

/// Reason why a flow cannot be.
#[derive(Debug, Error)]
pub enum FlowError {
    /// Flow that stops before it starts.
    #[error("stop_ns must be after start_ns")]
    Stop,
    /// Application that cannot be.
    #[error(transparent)]
    App(#[from] AppError),
    /// A socket's buffer that setsockopt(2), which takes an `int`, cannot be told.
    #[error("{key} must be from 1 to 2147483647 bytes, as setsockopt takes an int; found {bytes}")]
    Buffer {
        /// `sndbuf` or `rcvbuf`.
        key: &'static str,
        /// Size of the buffer.
        bytes: u64,
    },
    /// Name that no host has.
    #[error("no host is called {0}")]
    NoHost(String),
    /// Flow between hosts of different IP versions.
    #[error("{from} and {to} have different IP versions")]
    IpVersions {
        /// The sending host.
        from: String,
        /// The receiving host.
        to: String,
    },
    /// Congestion control that the sender's stack does not have.
    #[error("{stack} has no congestion control {cc}; it has {}", .known.join(", "))]
    NoCc {
        /// The stack's name.
        stack: String,
        /// Name that was asked for.
        cc: String,
        /// Names that the stack knows.
        known: Vec<String>,
    },
    /// Constant of the flow's congestion control that is out of range.
    #[error("cc_params.{0}")]
    Constant(#[from] params::ParamError),
    /// Constants of another congestion control than the flow's, or of one that has none.
    #[error("cc_params: has constants of {params}, and the flow's congestion control is {cc}")]
    OtherCc {
        /// The flow's congestion control.
        cc: String,
        /// Congestion control of which there are constants.
        params: &'static str,
    },
    /// Flow between a guest and another stack.
    #[error(
        "{from} and {to} do not speak the same protocol; a flow of a guest needs the same stack at both ends"
    )]
    OtherStack {
        /// Stack of the sending host.
        from: String,
        /// Stack of the receiving host.
        to: String,
    },
    /// Application that guests do not carry.
    #[error("app: is not carried out over {stack}; there are {known}")]
    GuestApp {
        /// Name of the stack.
        stack: &'static str,
        /// Applications that are.
        known: &'static str,
    },
    /// Key that a guest does not have.
    #[error("{key}: {stack} does not have it; expected none")]
    GuestKey {
        /// Name of the stack.
        stack: &'static str,
        /// The key.
        key: &'static str,
    },
    /// Flow of which nothing would be on the network.
    #[error("from and to are the same host")]
    SameHost,
    /// Flow whose packets, or their acknowledgements, have no way.
    #[error("no path from {from} to {to}")]
    NoPath {
        /// Host that would send the packets.
        from: String,
        /// Host that would receive the packets.
        to: String,
    },
}

impl FlowError {
    /// Adds the flow that the error is about.
    pub(crate) fn of(self, flow: &Flow) -> Error {
        Error::Flow { flow: flow.name.clone(), why: self }
    }
}

/// Reason why a host cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// Ticks that are no whole number of nanoseconds, or too short.
    #[error("hz must divide 10^9 and be at most 10000; found {0}")]
    Hz(u32),
    /// MSS too small for options and data.
    #[error("mss must be at least 88; found {0}")]
    Mss(u16),
    /// An acknowledgement would be for nothing, or never be sent.
    #[error("ack_every and the coalesce.time_ns it waits must be above zero")]
    AckEvery,
    /// Acknowledgements that wait, and nothing says how long.
    #[error("ack_every needs nic.coalesce, which says how long it waits")]
    AckEveryWithoutCoalesce,
    /// Cheat that would send nothing, or no end of acknowledgements.
    #[error("cheats.{0}")]
    Cheats(String),
    /// Host that would do nothing but stall.
    #[error("noise.stall.every_ns must be above zero")]
    Stall,
    /// Stalls so frequent within one piece of work that the engine would count them for ever.
    #[error("noise.stall.every_ns: found {0}; expected above a thousandth of noise.processing")]
    StallInProcessing(u64),
    /// Name that no stack has.
    #[error("no stack is called {stack}; there are {}", .known.join(", "))]
    NoStack {
        /// Name that was asked for.
        stack: String,
        /// Names of stacks.
        known: Vec<&'static str>,
    },
    /// Accurate ECN of a stack that does not have it.
    #[error("ecn: found {found}; expected off, accept or on, as {stack} has no Accurate ECN")]
    AccurateEcn {
        /// Word of the Scenario.
        found: &'static str,
        /// Name of the stack.
        stack: String,
    },
    /// Host that asks of a guest what it does not have.
    #[error("{key} of {stack}: {why}")]
    Guest {
        /// Name of the stack.
        stack: &'static str,
        /// Key of the host.
        key: &'static str,
        /// Value that was found, and what is expected.
        why: String,
    },
    /// A guest does not begin on a host so.
    #[error("{stack}: {why}")]
    Refused {
        /// Name of the stack.
        stack: &'static str,
        /// Reason in words.
        why: String,
    },
    /// Stack that cannot be set up so.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A congestion control from outside does not take such a value.
    #[error("sysctl {}: found {found}; expected {} to {}", .knob.name, .knob.min, .knob.max)]
    Knob {
        /// Knob that was set.
        knob: Knob,
        /// The value.
        found: i64,
    },
    /// A congestion control from outside does not begin.
    #[error("{name}: {why}")]
    Module {
        /// Name of the module.
        name: String,
        /// Failure of the module.
        why: Failure,
    },
}
