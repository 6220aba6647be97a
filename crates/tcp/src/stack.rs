//! Properties of a stack that an endpoint knows: its constants and choices, and how it makes senders and receivers.

use wire::codec::SynLayout;

use crate::accecn;
use crate::cc::replay::Replay;
use crate::cc::{Module, RegistryError};
use crate::clock::{Nanos, SECOND};
use crate::fast_open;
use crate::peers;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::syn_cookies;

/// A family of systems that share their pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// FreeBSD's default stack.
    FreeBsd,
    /// FreeBSD's RACK stack.
    FreeBsdRack,
    /// Linux.
    Linux,
    /// Windows.
    Windows,
}

impl Family {
    /// The word in the catalogue.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::FreeBsd | Family::FreeBsdRack => "freebsd",
            Family::Linux => "linux",
            Family::Windows => "windows",
        }
    }

    /// Layout of the options of a SYN.
    pub fn syn_layout(self) -> SynLayout {
        match self {
            Family::FreeBsd | Family::FreeBsdRack => SynLayout::FreeBsd,
            Family::Linux => SynLayout::Linux,
            Family::Windows => SynLayout::Windows,
        }
    }
}

/// ECN of a host (RFC 3168, RFC 9768).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnMode {
    /// Neither asked for nor accepted.
    Off,
    /// Accepted when the peer asks.
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

impl EcnMode {
    /// The modes in the order of Linux's net.ipv4.tcp_ecn.
    pub const LINUX: [EcnMode; 6] = [
        EcnMode::Off,
        EcnMode::On,
        EcnMode::Accept,
        EcnMode::Accurate,
        EcnMode::OnAcceptAccurate,
        EcnMode::AcceptAccurate,
    ];

    /// Whether ECN is asked for.
    pub fn asks(self) -> bool {
        matches!(self, EcnMode::On | EcnMode::Accurate | EcnMode::OnAcceptAccurate)
    }

    /// Whether Accurate ECN is accepted.
    pub fn accepts_accurate(self) -> bool {
        matches!(self, EcnMode::Accurate | EcnMode::OnAcceptAccurate | EcnMode::AcceptAccurate)
    }
}

/// A buffer of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Buffer of what is not acknowledged, or not sent yet.
    Send,
    /// Buffer of what the application has not read.
    Receive,
}

impl Buffer {
    /// Size that the application asked for.
    pub fn asked(self, socket: &SocketOptions) -> Option<u64> {
        match self {
            Buffer::Send => socket.sndbuf,
            Buffer::Receive => socket.rcvbuf,
        }
    }

    /// Socket option that asks for the buffer's size (setsockopt(2)).
    pub fn option(self) -> &'static str {
        match self {
            Buffer::Send => "SO_SNDBUF",
            Buffer::Receive => "SO_RCVBUF",
        }
    }
}

/// Properties of a system that the endpoint itself needs to know: handshake, close, options.
#[derive(Clone, Debug)]
pub struct StackSpec {
    /// The stack's name, such as `freebsd-9.2`.
    pub name: &'static str,
    /// Family of the system.
    pub family: Family,
    /// No recording of the real system stands behind it.
    pub inferred: bool,
    /// Congestion controls by the system's own names; the first is the default.
    pub cc: &'static [&'static str],
    /// Names accepted for congestion controls besides the system's own: (accepted, meant).
    pub cc_alias: &'static [(&'static str, &'static str)],
    /// Ticks per second unless the experiment sets them.
    pub hz: u32,
    /// ECN unless the experiment sets it.
    pub ecn: EcnMode,
    /// Accurate ECN.
    pub accecn: accecn::Settings,
    /// TCP Fast Open.
    pub fast_open: fast_open::Settings,
    /// SYN cookies.
    pub syn_cookies: syn_cookies::Settings,
    /// Packets of IPv4 say that no router may cut them.
    pub sets_df: bool,
    /// Memory of peers between connections.
    pub peers: peers::Settings,
    /// Timestamps are offered and accepted (RFC 7323).
    pub timestamps: bool,
    /// Window scaling is offered and accepted (RFC 7323).
    pub window_scaling: bool,
    /// SACK is offered and accepted (RFC 2018).
    pub sack: bool,
    /// Gaps between transmissions of the SYN; after the last one the attempt has failed.
    pub syn_timeouts: Vec<Nanos>,
    /// Gaps between transmissions of the SYN-ACK, the last one before the attempt is given up.
    pub synack_timeouts: Vec<Nanos>,
    /// Timers of the handshake and of TIME-WAIT wait for the next slot of Linux's timer wheel.
    pub timer_wheel: bool,
    /// Least time between two ACKs that answer segments without data outside the window. It keeps two peers from
    /// answering each other for ever. 0: each is answered.
    pub invalid_ratelimit: Nanos,
    /// The first SYN is sent again after so many ticks when the peer acknowledged something else. None: at its own
    /// time.
    pub syn_retry_ticks: Option<u64>,
    /// Closing with unread data resets the connection (RFC 2525 section 2.17), and does not send a FIN all the same.
    pub unread_resets: bool,
    /// Time spent in TIME-WAIT.
    pub time_wait: Nanos,
    /// Keep-alive, as the sysctls have it.
    pub keep_alive: KeepAlive,
    /// Rules of connections in their less usual states.
    pub rules: StateRules,
}

/// Keep-alive (RFC 9293 section 3.8.4): when a silent peer is asked whether it is there, and when it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Every connection has it, whatever its application says (net.inet.tcp.always_keepalive).
    pub always: bool,
    /// Silence before the first probe.
    pub idle: Nanos,
    /// Time between probes.
    pub interval: Nanos,
    /// Probes without an answer after which the connection has failed.
    pub count: u32,
    /// Longest duration of a connection attempt (net.inet.tcp.keepinit). None: it ends with the last SYN.
    pub attempt: Option<Nanos>,
}

impl KeepAlive {
    /// The times of Linux and FreeBSD, where they agree: two hours, and 75 s between probes.
    pub const COMMON: KeepAlive =
        KeepAlive { always: false, idle: 7200 * SECOND, interval: 75 * SECOND, count: 9, attempt: None };
}

/// Reaction of a system's TCP to ICMP errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IcmpRules {
    /// None.
    #[default]
    Ignored,
    /// Any error ends an attempt to connect; of an open connection it is told once nothing answers.
    Linux,
    /// Few end an attempt.
    FreeBsd {
        /// Those do that speak of a refusal, or of a packet that lived too long (net.inet.tcp.icmp_may_rst).
        may_reset: bool,
    },
}

/// Rules by which a connection opens, closes and takes resets, where systems differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateRules {
    /// Every ACK repeats our FIN until it is acknowledged (FreeBSD's tcp_output).
    pub acks_repeat_fin: bool,
    /// TIME-WAIT answers as FreeBSD's tcp_twcheck: resets and segments without ACK are dropped, an ACK that says nothing
    /// new is not answered, and a SYN beyond RCV.NXT opens a new connection.
    pub time_wait_checks: bool,
    /// A reset in CLOSING and LAST-ACK is an error that the application is told.
    pub reset_of_closing_is_told: bool,
    /// A listener drops a SYN-ACK without a reset.
    pub listener_drops_syn_ack: bool,
    /// Any reset in the window counts (net.inet.tcp.insecure_rst), instead of only one at RCV.NXT (RFC 5961 section 3).
    pub insecure_rst: bool,
    /// A SYN in the window resets the connection (net.inet.tcp.insecure_syn), instead of being challenged (RFC 5961
    /// section 4).
    pub insecure_syn: bool,
    /// A SYN with FIN is dropped (net.inet.tcp.drop_synfin).
    pub drop_synfin: bool,
    /// A reset behind the window's last byte is dropped without a challenge.
    pub resets_lie_in_window: bool,
    /// The data of a SYN that crosses ours waits until the connection is open (RFC 9293 section 3.10.7.3).
    pub syn_data_waits: bool,
    /// Number of times that a SYN is sent again that asks for ECN (net.inet.tcp.ecn.maxretries); then it asks no
    /// more.
    pub ecn_syn_retries: u8,
    /// Timeouts after which the flags of a SYN-ACK still agree on ECN.
    pub ecn_syn_ack_timeouts: u8,
    /// A SYN that asks for classic ECN and could be marked itself does not get it.
    pub ect_syn_gets_no_ecn: bool,
    /// A reset that the application causes carries timestamps (tcp_send_active_reset); one that answers a segment does not.
    pub resets_carry_timestamps: bool,
    /// The scaled field is rounded down, and the right edge of the window kept to the byte; else the field is rounded up and
    /// says where the edge is.
    pub window_edge_unscaled: bool,
    /// The fourth SYN and later ones offer no more than the MSS (net.inet.tcp.rexmit_drop_options).
    pub rexmit_drop_options: bool,
    /// The timestamp of a segment that acknowledges what was never sent is not echoed (tcp_ack).
    pub ack_before_timestamp: bool,
    /// Keep-alive ends after so many probes; else after the time that they take. Its timer is not set again when something comes.
    pub keep_alive_counts_probes: bool,
    /// TCP may travel in UDP (net.inet.tcp.udp_tunneling_port).
    pub udp_encapsulation: bool,
    /// Reaction to ICMP errors.
    pub icmp: IcmpRules,
}

impl StateRules {
    /// Linux's.
    pub const LINUX: StateRules = StateRules {
        acks_repeat_fin: false,
        time_wait_checks: false,
        reset_of_closing_is_told: false,
        listener_drops_syn_ack: false,
        insecure_rst: false,
        insecure_syn: false,
        drop_synfin: false,
        resets_lie_in_window: false,
        syn_data_waits: false,
        ecn_syn_retries: 0,
        ecn_syn_ack_timeouts: u8::MAX,
        ect_syn_gets_no_ecn: true,
        resets_carry_timestamps: true,
        window_edge_unscaled: false,
        rexmit_drop_options: false,
        ack_before_timestamp: true,
        keep_alive_counts_probes: true,
        udp_encapsulation: false,
        icmp: IcmpRules::Linux,
    };
    /// FreeBSD's.
    pub const FREEBSD: StateRules = StateRules {
        acks_repeat_fin: true,
        time_wait_checks: true,
        reset_of_closing_is_told: true,
        listener_drops_syn_ack: true,
        insecure_rst: false,
        insecure_syn: false,
        drop_synfin: false,
        resets_lie_in_window: true,
        syn_data_waits: true,
        ecn_syn_retries: 1,
        ecn_syn_ack_timeouts: u8::MAX,
        ect_syn_gets_no_ecn: false,
        resets_carry_timestamps: false,
        window_edge_unscaled: true,
        rexmit_drop_options: false,
        ack_before_timestamp: false,
        keep_alive_counts_probes: false,
        udp_encapsulation: false,
        icmp: IcmpRules::FreeBsd { may_reset: true },
    };
}

/// Options that an application (or an experiment file) sets on a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// SO_SNDBUF in bytes. None: autotuning.
    pub sndbuf: Option<u64>,
    /// SO_RCVBUF in bytes. None: autotuning.
    pub rcvbuf: Option<u64>,
}

/// A sysctl a stack knows, by its real name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// The real name. A sysctl of three values has three entries, `….min`, `….default`, `….max`.
    pub name: &'static str,
    /// Value in this system.
    pub default: i64,
    /// Smallest value allowed.
    pub min: i64,
    /// Largest value allowed.
    pub max: i64,
    /// Purpose and unit of the sysctl, in a few words.
    pub about: &'static str,
}

/// Reason why a stack cannot be set up as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The stack does not carry such a sysctl out.
    #[error("sysctl {name}: not known to {stack}{}", did_you_mean(.nearest))]
    UnknownSysctl {
        /// Name that was asked for.
        name: String,
        /// The stack's name.
        stack: &'static str,
        /// Names of up to three sysctls of the stack that are like that one.
        nearest: Vec<&'static str>,
    },
    /// The value of a sysctl is out of range.
    #[error("sysctl {name}: found {found}; expected {min} to {max}")]
    SysctlRange {
        /// The sysctl's name.
        name: &'static str,
        /// The value.
        found: i64,
        /// The smallest one allowed.
        min: i64,
        /// The largest one allowed.
        max: i64,
    },
    /// A congestion control was registered with a stack whose family has other hooks.
    #[error("congestion control {name} is not made for {family}")]
    OtherFamily {
        /// The congestion control's name.
        name: String,
        /// The stack's family.
        family: &'static str,
    },
    /// A congestion control cannot be registered, as the registry says.
    #[error("{0}")]
    Registry(#[from] RegistryError),
}

fn did_you_mean(names: &[&str]) -> String {
    if names.is_empty() { String::new() } else { format!(" (did you mean {}?)", names.join(", ")) }
}

/// A congestion control was registered with a stack whose family has other hooks.
pub(crate) fn not_of_this_family(name: &str, spec: &StackSpec) -> ProfileError {
    ProfileError::OtherFamily { name: name.to_owned(), family: spec.family.as_str() }
}

/// A stack, with its sysctls set.
pub trait Profile: Send + Sync {
    /// Properties that the endpoint needs to know.
    fn spec(&self) -> &StackSpec;

    /// Every sysctl the model carries out, with this system's defaults.
    fn sysctls(&self) -> Vec<Sysctl>;

    /// Sets a sysctl; the value has been checked against [`Profile::sysctls`].
    fn set(&mut self, name: &str, value: i64);

    /// The send and receive buffers of a new socket and whether they autotune: (bytes, automatic).
    fn buffers(&self, socket: &SocketOptions) -> ((u64, bool), (u64, bool));

    /// Name of what keeps a buffer of `size` bytes from growing: the sysctl's, or the socket option's. None:
    /// autotuning could go on.
    fn holds_buffer(&self, buffer: Buffer, socket: &SocketOptions, size: u64) -> Option<&'static str>;

    /// Names of the stack's congestion controls, the default first: those of [`StackSpec::cc`] and what was
    /// registered since.
    fn congestion_controls(&self) -> Vec<&str> {
        self.spec().cc.to_vec()
    }

    /// Adds a congestion control from outside.
    ///
    /// # Errors
    /// It is made for another family, or refuses, or the name is taken.
    fn register(&mut self, name: &str, _module: &Module) -> Result<(), ProfileError> {
        Err(not_of_this_family(name, self.spec()))
    }

    /// A sender with congestion control `cc`, one of [`Profile::congestion_controls`]. `random` seeds whatever the algorithm
    /// draws.
    fn sender(&self, cc: &str, random: u64) -> Box<dyn Sender>;

    /// A receiver.
    fn receiver(&self) -> Box<dyn Receiver>;

    /// FQ stands at the host's interface. Linux leaves pacing to it.
    fn leave_pacing_to_queue(&mut self) {}

    /// Names of the congestion controls that [`Profile::reference`] knows.
    fn references(&self) -> &'static [&'static str] {
        &[]
    }

    /// Congestion control `cc`, one of [`Profile::references`], to be fed with what another sender saw in packets of `mss`
    /// bytes. `told`: it says when a recovery is over.
    fn reference(&self, _cc: &str, _mss: u32, _told: bool) -> Option<Replay> {
        None
    }
}
