//! System that a script runs against: a modelled stack ([`crate::model`]) or anything else that can do the same.

use std::net::Ipv4Addr;

use tcp::Nanos;
use tcp::endpoint::Icmp;
use wire::codec::Ends;

use tcp::stack::ProfileError;
use thiserror::Error;

use crate::errno::Errno;
use crate::message::{EpollEvent, Message};
use crate::packet::Seen;
use crate::script::{Call, OptionValue, UdpPorts};

/// Result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The result: a number, or an error, which scripts write as -1 and its name.
    pub result: Result<i64, Errno>,
    /// Output of the call besides its result.
    pub output: Output,
}

/// Output of a call besides its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// No output.
    #[default]
    None,
    /// The value of a socket option, or of SIOCINQ and SIOCOUTQ.
    Value(OptionValue),
    /// The returned events of poll, in order.
    Events(Vec<i16>),
    /// Flags and control messages of a message.
    Message(Message),
    /// The events that epoll reports, in order.
    Epoll(Vec<EpollEvent>),
}

impl From<Result<i64, Errno>> for Returned {
    fn from(result: Result<i64, Errno>) -> Returned {
        Returned { result, output: Output::None }
    }
}

/// Reason why a system does not tell of a connection, or does not take a setting.
#[derive(Debug, Error)]
pub enum SystemError {
    /// Question about a connection where there is none.
    #[error("there is no connection")]
    NoConnection,
    /// States of connections are asked of models alone.
    #[error("this system does not tell the states of its connections")]
    States,
    /// A counter that the system does not have, or does not tell.
    #[error("this system does not count {0}")]
    Counter(String),
    /// An interface that stays as it is.
    #[error("the interface of this system cannot be changed")]
    Interface,
    /// Memory of peers that cannot be forgotten once a script has begun.
    #[error("this system does not forget what it remembers of peers")]
    Remembers,
    /// The kernel does not tell.
    #[error("TCP_INFO: {}", .0.text())]
    Info(Errno),
    /// The system has no such congestion control.
    #[error("{sysctl}: found {found}; expected one of {}", .known.join(", "))]
    CongestionControl {
        /// Sysctl that names the congestion control.
        sysctl: String,
        /// Name that was asked for.
        found: String,
        /// Names that the system knows.
        known: Vec<String>,
    },
    /// A sysctl takes other values.
    #[error("sysctl {sysctl}: found {found}; expected {expected}")]
    Value {
        /// Name of the sysctl.
        sysctl: String,
        /// Value that was asked for.
        found: String,
        /// Values that the sysctl takes.
        expected: &'static str,
    },
    /// Sysctl that the modelled stack does not take.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A sysctl that is the whole machine's.
    #[error("sysctl {0}: only settings of a network namespace (net.…) can be made")]
    Machine(String),
    /// Sysctl that the kernel does not take.
    #[error("sysctl {sysctl}: {error}")]
    Kernel {
        /// Name of the sysctl.
        sysctl: String,
        /// Error of the kernel.
        error: std::io::Error,
    },
}

impl SystemError {
    /// Whether the system has nothing of that name, so that a script may go on without it.
    #[must_use]
    pub fn unknown(&self) -> bool {
        match self {
            SystemError::Profile(ProfileError::UnknownSysctl { .. }) | SystemError::Machine(_) => true,
            SystemError::Kernel { error, .. } => error.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// A system under test with its clock. Times are nanoseconds since the script began.
///
/// File descriptors are numbered from 3, the lowest free one first.
pub trait System {
    /// The time.
    fn now(&self) -> Nanos;

    /// Lets time pass.
    fn run_until(&mut self, until: Nanos);

    /// Next packet that the system has sent, and when; lets time pass up to `until` to get one.
    fn next_packet(&mut self, until: Nanos) -> Option<(Nanos, Seen)>;

    /// Delivers the bytes of an IPv4 packet to it; with `udp`, its segment travels in UDP.
    fn inject(&mut self, packet: &[u8], udp: Option<UdpPorts>);

    /// Delivers an ICMP message about a packet that the system has sent between `ends`, in UDP with `udp`.
    fn icmp(&mut self, ends: &Ends<Ipv4Addr>, message: &Icmp, udp: Option<UdpPorts>);

    /// Makes a call. None: it has not returned; the script lets it block if `may_block`.
    fn call(&mut self, call: &Call, may_block: bool) -> Option<Returned>;

    /// Returns the result of the blocked call and its time; lets time pass up to `until` to get it.
    fn returned(&mut self, until: Nanos) -> Option<(Nanos, Returned)>;

    /// TCP_INFO of the connection that was opened last, by the names of Linux (`tcpi_…`).
    ///
    /// # Errors
    /// There is no connection.
    fn info(&mut self) -> Result<Vec<(&'static str, i64)>, SystemError>;

    /// Sets a sysctl to a value or several, separated by blanks.
    ///
    /// # Errors
    /// A sysctl or a value that the system does not take.
    fn set(&mut self, name: &str, value: &str) -> Result<(), SystemError>;

    /// The states of all connections, as FreeBSD's netstat(1) calls them.
    ///
    /// # Errors
    /// The system does not tell.
    fn states(&mut self) -> Result<Vec<&'static str>, SystemError> {
        Err(SystemError::States)
    }

    /// Drops the connections in a state without a packet.
    ///
    /// # Errors
    /// The system cannot do that.
    fn drop_connections(&mut self, _state: &str) -> Result<(), SystemError> {
        Err(SystemError::States)
    }

    /// Whether the system has counted something by that name since it was last asked; no name: true.
    ///
    /// # Errors
    /// The system does not tell.
    fn counted(&mut self, name: Option<&str>) -> Result<bool, SystemError> {
        Err(SystemError::Counter(name.unwrap_or("anything").into()))
    }

    /// Has packets leave when they are due, or at once.
    ///
    /// # Errors
    /// The system cannot do that.
    fn queue(&mut self, _paces: bool) -> Result<(), SystemError> {
        Err(SystemError::Interface)
    }

    /// Has the interface take segments of more than one packet, or not.
    ///
    /// # Errors
    /// The system cannot do that.
    fn offload(&mut self, _on: bool) -> Result<(), SystemError> {
        Err(SystemError::Interface)
    }

    /// Forgets what is remembered of peers.
    ///
    /// # Errors
    /// The system cannot do that.
    fn forget(&mut self) -> Result<(), SystemError> {
        Err(SystemError::Remembers)
    }

    /// Time for which a packet that did not come in time is still waited for, so that the message can say when it
    /// came.
    fn late_wait(&self) -> Nanos;

    /// Reason why the script cannot go on. None unless the system under test has failed.
    fn broken(&self) -> Option<String> {
        None
    }
}
