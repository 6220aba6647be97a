//! What the engine refuses of a scenario: every refusal is one line.

use contract::scenario::{Flow, VERSION};
use contract::{AppError, NetworkError, ParseError};
use tcp::cc::foreign::{Failure, Knob};
use tcp::stack::ProfileError;
use thiserror::Error;

/// Why the engine does not run a scenario.
#[derive(Debug, Error)]
pub enum Error {
    /// It is none.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// Nobody could carry its network out.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// It is written for another version of the engine.
    #[error("version: found {0}; expected {VERSION}")]
    Version(u32),
    /// It takes no time.
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
        /// Where it stands.
        list: &'static str,
        /// The name.
        name: String,
    },
    /// A link ends nowhere.
    #[error("link {link}: no host or node is called {end}")]
    LinkEnd {
        /// Its name.
        link: String,
        /// The name of its end.
        end: String,
    },
    /// A flow.
    #[error("flow {flow}: {why}")]
    Flow {
        /// Its name.
        flow: String,
        /// What is wrong with it.
        why: FlowError,
    },
    /// A host.
    #[error("host {host}: {why}")]
    Host {
        /// Its name.
        host: String,
        /// What is wrong with it.
        why: HostError,
    },
    /// A capture is nowhere.
    #[error("record.pcap: no host or link is called {0}")]
    CapturePoint(String),
    /// A capture cannot begin.
    #[error("record.pcap: {0}")]
    Capture(std::io::Error),
}

/// Why a flow cannot be.
#[derive(Debug, Error)]
pub enum FlowError {
    /// It stops before it starts.
    #[error("stop_ns must be after start_ns")]
    Stop,
    /// Its application.
    #[error(transparent)]
    App(#[from] AppError),
    /// A socket's buffer that setsockopt(2), which takes an `int`, cannot be told.
    #[error("{key} must be from 1 to 2147483647 bytes, as setsockopt takes an int; found {bytes}")]
    Buffer {
        /// `sndbuf` or `rcvbuf`.
        key: &'static str,
        /// Its size.
        bytes: u64,
    },
    /// There is no such host.
    #[error("no host is called {0}")]
    NoHost(String),
    /// Its sender's stack has no such congestion control.
    #[error("{stack} has no congestion control {cc}; it has {}", .known.join(", "))]
    NoCc {
        /// The stack's name.
        stack: String,
        /// What was asked for.
        cc: String,
        /// What it has.
        known: Vec<String>,
    },
    /// A constant of its congestion control is out of range.
    #[error("cc_params.{0}")]
    Constant(#[from] params::ParamError),
    /// It changes constants of a congestion control that is another one, or has none such.
    #[error("cc_params: has constants of {params}, and the flow's congestion control is {cc}")]
    OtherCc {
        /// The flow's congestion control.
        cc: String,
        /// Of which there are constants.
        params: &'static str,
    },
    /// Nothing of it would be on the network.
    #[error("from and to are the same host")]
    SameHost,
    /// Its packets, or their acknowledgements, have no way.
    #[error("no path from {from} to {to}")]
    NoPath {
        /// The host that would send them.
        from: String,
        /// The host that would receive them.
        to: String,
    },
}

impl FlowError {
    /// With the flow that it is about.
    pub(crate) fn of(self, flow: &Flow) -> Error {
        Error::Flow { flow: flow.name.clone(), why: self }
    }
}

/// Why a host cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// Its ticks are no whole number of nanoseconds, or too short.
    #[error("hz must divide 10^9 and be at most 10000; found {0}")]
    Hz(u32),
    /// Too small for options and data.
    #[error("mss must be at least 88; found {0}")]
    Mss(u16),
    /// An acknowledgement would be for nothing, or never be sent.
    #[error("ack_every and the coalesce.time_ns it waits must be above zero")]
    AckEvery,
    /// Nothing says how long an acknowledgement waits.
    #[error("ack_every needs nic.coalesce, which says how long it waits")]
    AckEveryWithoutCoalesce,
    /// It would do nothing but stall.
    #[error("noise.stall.every_ns must be above zero")]
    Stall,
    /// So many stalls are within one piece of work that the engine would count them for ever.
    #[error("noise.stall.every_ns: found {0}; expected above a thousandth of noise.processing")]
    StallInProcessing(u64),
    /// There is no such stack.
    #[error("no stack is called {stack}; there are {}", .known.join(", "))]
    NoStack {
        /// What was asked for.
        stack: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// Its stack cannot be set up so.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A congestion control from outside does not take such a value.
    #[error("sysctl {}: found {found}; expected {} to {}", .knob.name, .knob.min, .knob.max)]
    Knob {
        /// Of what.
        knob: Knob,
        /// The value.
        found: i64,
    },
    /// A congestion control from outside does not begin.
    #[error("{name}: {why}")]
    Module {
        /// Its name.
        name: String,
        /// How.
        why: Failure,
    },
}
