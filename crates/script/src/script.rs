//! Script as it was read: options, settings and timed events, with everything already checked.

use std::net::Ipv4Addr;

use tcp::Nanos;
use wire::{Ecn, Flags};

use crate::code::Code;
use crate::errno::Errno;
use crate::message::{EpollEvent, EpollOperation, Message, ReceiveFlags, SendFlags};

/// The address of the system under test.
pub const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
/// The address that scripts speak for (TEST-NET-1, RFC 5737).
pub const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// A script as it was read.
#[derive(Clone, Debug)]
pub struct Script {
    /// Name of the file, for messages.
    pub name: String,
    /// Options at the top of the script.
    pub options: Options,
    /// Orders carried out before the clock starts.
    pub init: Vec<Order>,
    /// Events, in order.
    pub events: Vec<Event>,
}

/// Options at the top of a script (`--tolerance_usecs=…`).
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Greatest distance of an event from its time, in ns.
    pub tolerance: Nanos,
    /// Greatest distance of an event from its time, in per mille of the time since the event before; the larger of
    /// the two counts.
    pub tolerance_permille: u64,
    /// Nanoseconds between ticks of the timestamp clock. None: the values of timestamps are not checked.
    pub timestamp_tick: Option<Nanos>,
    /// Check segment boundaries; otherwise one segment of data may arrive as several, and several as one.
    pub strict_segments: bool,
    /// MTU of the interface, bytes.
    pub mtu: u16,
    /// Address of the system under test, where it matters: cookies of Fast Open are made of it.
    pub local: Ipv4Addr,
    /// Address of the peer likewise.
    pub remote: Ipv4Addr,
    /// Packets and sockets are of IPv6.
    pub ipv6: bool,
    /// A packet that differs is reported and the script goes on.
    pub packets_may_differ: bool,
    /// A call that returns something else is reported and the script goes on.
    pub calls_may_differ: bool,
    /// Packets that come behind the last event are not looked at, as the original tool does it.
    pub end_unseen: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tolerance: 4_000_000,
            tolerance_permille: 125,
            timestamp_tick: None,
            strict_segments: false,
            mtu: 1500,
            local: LOCAL,
            remote: REMOTE,
            ipv6: false,
            packets_may_differ: false,
            calls_may_differ: false,
            end_unseen: false,
        }
    }
}

/// Order that is read out of a command. Commands themselves are never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A sysctl is set.
    Set(Setting),
    /// The system must have so many sockets in a state (`sockstat … | grep -c STATE | grep N`).
    CountStates {
        /// Line of the script.
        line: u32,
        /// The state as FreeBSD's netstat(1) calls it, such as `TIME_WAIT`.
        state: String,
        /// Number of sockets.
        count: usize,
    },
    /// Connections in a state are dropped without a packet (`tcpdrop -s STATE`).
    Drop {
        /// Line of the script.
        line: u32,
        /// The state.
        state: String,
    },
    /// The system must have counted something since it was last asked (`nstat | grep NAME`).
    Counted {
        /// Line of the script.
        line: u32,
        /// Name of the counter. None: what was counted so far is not asked for (`nstat`).
        name: Option<String>,
    },
    /// The interface gets another queue (`tc qdisc replace dev tun0 root fq`).
    Queue {
        /// Line of the script.
        line: u32,
        /// Packets leave when they are due (fq); else at once.
        paces: bool,
    },
    /// The interface takes segments of one packet only (`ethtool -K tun0 tso off gso off`), or longer ones.
    Offload {
        /// Line of the script.
        line: u32,
        /// Longer ones.
        on: bool,
    },
    /// Memory of peers is forgotten (`ip tcp_metrics flush all`).
    Forget {
        /// Line of the script.
        line: u32,
    },
}

impl Order {
    /// Line of the script.
    #[must_use]
    pub fn line(&self) -> u32 {
        match self {
            Order::Set(Setting { line, .. })
            | Order::CountStates { line, .. }
            | Order::Drop { line, .. }
            | Order::Counted { line, .. }
            | Order::Queue { line, .. }
            | Order::Offload { line, .. }
            | Order::Forget { line } => *line,
        }
    }
}

/// `name=value`, read from a command that sets a sysctl. Never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Line of the script.
    pub line: u32,
    /// The sysctl's name.
    pub name: String,
    /// Value or values of the sysctl, separated by blanks.
    pub value: String,
    /// No error if the system does not know it.
    pub optional: bool,
}

/// Event of a script.
#[derive(Clone, Debug)]
pub struct Event {
    /// Line of the script.
    pub line: u32,
    /// Time of the event.
    pub when: When,
    /// Action of the event.
    pub action: Action,
}

/// Time of an event, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Time since the start of the script.
    At(Nanos),
    /// Time since the event before.
    After(Nanos),
    /// Between two times since the start.
    Between(Nanos, Nanos),
    /// Between two times since the event before.
    AfterBetween(Nanos, Nanos),
    /// Time of no interest: whenever the event comes.
    Any,
}

/// Action of an event.
#[derive(Clone, Debug)]
pub enum Action {
    /// A packet is sent to the system under test.
    Inject(Packet),
    /// An ICMP message about a packet of the system's is sent to it.
    Icmp(Icmp),
    /// The system under test must send this.
    Expect(Packet),
    /// A system call is made.
    Call(CallEvent),
    /// Assertions.
    Code(Code),
    /// Orders of a command.
    Orders(Vec<Order>),
}

/// A packet as a script writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// ECN field of the IP header. None: any.
    pub ecn: Option<EcnField>,
    /// TCP flags.
    pub flags: Flags,
    /// First sequence number.
    pub seq: u32,
    /// Any sequence number will do: `...(0)`.
    pub any_seq: bool,
    /// Payload, bytes.
    pub len: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Window field. None: any.
    pub window: Option<u16>,
    /// Options in order. None: `<...>`, any.
    pub options: Option<Vec<TcpOption>>,
    /// Ports of the UDP that the segment travels in.
    pub udp: Option<UdpPorts>,
    /// The sequence number is the one on the wire: `0:0(0)!`.
    pub absolute: bool,
}

/// Source and destination port of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPorts {
    /// Source.
    pub sport: u16,
    /// Destination.
    pub dport: u16,
}

impl UdpPorts {
    /// The opposite direction.
    #[must_use]
    pub fn reversed(self) -> UdpPorts {
        UdpPorts { sport: self.dport, dport: self.sport }
    }
}

/// An ICMP message, and what it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Type, by the numbers of the script's IP version.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// MTU of the next link; 0: not told.
    pub mtu: u32,
    /// First sequence number of the packet.
    pub seq: u32,
    /// Payload of the packet, bytes.
    pub len: u32,
    /// Ports of the UDP that the packet travelled in.
    pub udp: Option<UdpPorts>,
}

/// Demand on the ECN field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnField {
    /// Exactly this.
    Is(Ecn),
    /// ECT(0) or ECT(1).
    Capable,
}

/// Order of the counters of an AccECN option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccEcnOrder {
    /// Bytes with ECT(0), with CE, with ECT(1): AccECN0.
    Zero,
    /// Bytes with ECT(1), with CE, with ECT(0): AccECN1.
    One,
}

impl AccEcnOrder {
    /// Kind of the option.
    pub fn kind(self) -> u8 {
        match self {
            AccEcnOrder::Zero => 172,
            AccEcnOrder::One => 174,
        }
    }

    /// Names of the counters in scripts.
    pub fn names(self) -> [&'static str; 3] {
        match self {
            AccEcnOrder::Zero => ["e0b", "ceb", "e1b"],
            AccEcnOrder::One => ["e1b", "ceb", "e0b"],
        }
    }
}

/// Option of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// End of options.
    End,
    /// Padding.
    Nop,
    /// Maximum segment size, bytes.
    Mss(u16),
    /// Window scale, shift.
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks.
    Sack(Vec<(u32, u32)>),
    /// Timestamps.
    Timestamps {
        /// Value.
        val: u32,
        /// Echo reply.
        ecr: u32,
    },
    /// Byte counters of Accurate ECN (RFC 9768 section 3.2.3), of 24 bits each, as many as the option holds.
    AccEcn {
        /// Order of the counters.
        order: AccEcnOrder,
        /// Counters from the first.
        counters: Vec<u32>,
    },
    /// A cookie of Fast Open, or the request for one (RFC 7413).
    FastOpen {
        /// Bytes of the cookie; none asks for one.
        cookie: Vec<u8>,
        /// The option of RFC 6994.
        experimental: bool,
    },
    /// An option that the language has no name for: kind and value.
    Other(u8, Vec<u8>),
}

/// A system call with what it must return.
#[derive(Clone, Debug)]
pub struct CallEvent {
    /// The name of the call in the script.
    pub name: String,
    /// The call.
    pub call: Call,
    /// Time when a call that blocks must return: since the start or since the event before, as its event's time is.
    pub until: Option<Nanos>,
    /// Result that the call must have. None for `...`: any result.
    pub result: Option<i64>,
    /// Error that the call must fail with.
    pub errno: Option<Errno>,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A TCP socket.
    Socket {
        /// SOCK_NONBLOCK.
        nonblocking: bool,
    },
    /// Takes the address of the host and the port.
    Bind(i32),
    /// Listens.
    Listen(i32),
    /// Takes a connection.
    Accept {
        /// The listening socket.
        fd: i32,
        /// SOCK_NONBLOCK for the new one.
        nonblocking: bool,
    },
    /// Connects to the peer.
    Connect(i32),
    /// F_GETFL.
    GetFlags(i32),
    /// F_SETFL.
    SetFlags {
        /// The socket.
        fd: i32,
        /// O_NONBLOCK.
        nonblocking: bool,
    },
    /// Reads.
    Read {
        /// The socket.
        fd: i32,
        /// Largest number of bytes to read.
        len: u64,
        /// Way of reading.
        flags: ReceiveFlags,
    },
    /// Reads a message and what comes with it.
    ReadMessage {
        /// The socket.
        fd: i32,
        /// Largest number of bytes to read.
        len: u64,
        /// Way of reading.
        flags: ReceiveFlags,
        /// Flags and control messages that must come with the data.
        message: Message,
    },
    /// Writes.
    Write {
        /// The socket.
        fd: i32,
        /// Bytes.
        len: u64,
        /// Way of writing.
        flags: SendFlags,
    },
    /// Writes to an address, which opens a connection where the socket has none.
    SendTo {
        /// The socket.
        fd: i32,
        /// Bytes.
        len: u64,
        /// Way of writing.
        flags: SendFlags,
    },
    /// Shuts down a direction.
    Shutdown {
        /// The socket.
        fd: i32,
        /// Receiving (SHUT_RD or SHUT_RDWR).
        read: bool,
        /// Sending (SHUT_WR or SHUT_RDWR).
        write: bool,
    },
    /// Closes.
    Close(i32),
    /// Sets an option.
    SetOption {
        /// The socket.
        fd: i32,
        /// Option to set.
        option: SocketOption,
        /// Value to set.
        value: OptionValue,
    },
    /// Asks for an option.
    GetOption {
        /// The socket.
        fd: i32,
        /// Option to read.
        option: SocketOption,
        /// Value that the option must have. None for `...`: any value.
        value: Option<OptionValue>,
    },
    /// Bytes waiting to be read (SIOCINQ) or to be acknowledged (SIOCOUTQ).
    Queued {
        /// The socket.
        fd: i32,
        /// SIOCOUTQ.
        out: bool,
        /// Number of bytes that there must be.
        value: Option<i64>,
    },
    /// Waits for readiness.
    Poll {
        /// The sockets.
        fds: Vec<PollFd>,
        /// Milliseconds; negative: for ever.
        timeout_ms: i32,
    },
    /// Makes an instance of epoll.
    EpollCreate,
    /// Changes what an instance of epoll watches.
    EpollControl {
        /// The instance.
        epoll: i32,
        /// Change.
        operation: EpollOperation,
        /// The socket.
        fd: i32,
        /// Events to watch for, and the datum to report them with.
        event: EpollEvent,
    },
    /// Waits for a watched event.
    EpollWait {
        /// The instance.
        epoll: i32,
        /// Event that it must report first.
        event: EpollEvent,
        /// Largest number of events.
        most: i32,
        /// Milliseconds; negative: for ever.
        timeout_ms: i32,
    },
}

impl Call {
    /// Descriptors that the call names.
    pub(crate) fn descriptors(&mut self) -> Vec<&mut i32> {
        match self {
            Call::Socket { .. } | Call::EpollCreate => Vec::new(),
            Call::EpollControl { epoll, fd, .. } => vec![epoll, fd],
            Call::Poll { fds, .. } => fds.iter_mut().map(|entry| &mut entry.fd).collect(),
            Call::Bind(fd)
            | Call::Listen(fd)
            | Call::Connect(fd)
            | Call::GetFlags(fd)
            | Call::Close(fd)
            | Call::Accept { fd, .. }
            | Call::SetFlags { fd, .. }
            | Call::EpollWait { epoll: fd, .. }
            | Call::Read { fd, .. }
            | Call::ReadMessage { fd, .. }
            | Call::Write { fd, .. }
            | Call::SendTo { fd, .. }
            | Call::Shutdown { fd, .. }
            | Call::SetOption { fd, .. }
            | Call::GetOption { fd, .. }
            | Call::Queued { fd, .. } => vec![fd],
        }
    }

    /// Whether the call makes a descriptor.
    pub(crate) fn opens(&self) -> bool {
        matches!(self, Call::Socket { .. } | Call::Accept { .. } | Call::EpollCreate)
    }
}

/// Entry of poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// The socket.
    pub fd: i32,
    /// Events asked for, Linux's bits.
    pub events: i16,
    /// Events that poll must return.
    pub revents: i16,
}

/// O_RDWR as Linux has it.
pub const O_RDWR: i64 = 2;
/// O_NONBLOCK as Linux has it.
pub const O_NONBLOCK: i64 = 0x800;

/// Bits of poll's events: (name, Linux's bit).
pub const POLL_BITS: [(&str, i16); 5] =
    [("POLLIN", 1), ("POLLOUT", 4), ("POLLERR", 8), ("POLLHUP", 16), ("POLLRDHUP", 0x2000)];

/// A socket option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the option of that name")]
pub enum SocketOption {
    ReuseAddr,
    ReusePort,
    KeepAlive,
    SendBuffer,
    ReceiveBuffer,
    Linger,
    Error,
    NoDelay,
    Cork,
    QuickAck,
    MaxSegment,
    Congestion,
    UserTimeout,
    Linger2,
    WindowClamp,
    NotSentLowWater,
    SynCount,
    FastOpen,
    FastOpenConnect,
    FastOpenKey,
    KeepIdle,
    KeepInterval,
    KeepCount,
    KeepInit,
    RemoteUdpPort,
    FunctionBlock,
    UseMinMtu,
    MtuDiscovery,
    TypeOfService,
    ZeroCopy,
    Mark,
    Timestamping,
    Unread,
    Info,
}

impl SocketOption {
    /// Whether the option belongs to keep-alive.
    #[must_use]
    pub fn is_keep_alive(self) -> bool {
        matches!(
            self,
            SocketOption::KeepAlive
                | SocketOption::KeepIdle
                | SocketOption::KeepInterval
                | SocketOption::KeepCount
                | SocketOption::KeepInit
        )
    }
}

/// Socket options by their names: (level, name, option).
pub const SOCKET_OPTIONS: &[(&str, &str, SocketOption)] = &[
    ("SOL_SOCKET", "SO_REUSEADDR", SocketOption::ReuseAddr),
    ("SOL_SOCKET", "SO_REUSEPORT", SocketOption::ReusePort),
    ("SOL_SOCKET", "SO_KEEPALIVE", SocketOption::KeepAlive),
    ("SOL_SOCKET", "SO_SNDBUF", SocketOption::SendBuffer),
    ("SOL_SOCKET", "SO_RCVBUF", SocketOption::ReceiveBuffer),
    ("SOL_SOCKET", "SO_LINGER", SocketOption::Linger),
    ("SOL_SOCKET", "SO_ERROR", SocketOption::Error),
    ("SOL_TCP", "TCP_NODELAY", SocketOption::NoDelay),
    ("SOL_TCP", "TCP_CORK", SocketOption::Cork),
    ("SOL_TCP", "TCP_QUICKACK", SocketOption::QuickAck),
    ("SOL_TCP", "TCP_MAXSEG", SocketOption::MaxSegment),
    ("SOL_TCP", "TCP_CONGESTION", SocketOption::Congestion),
    ("SOL_TCP", "TCP_USER_TIMEOUT", SocketOption::UserTimeout),
    ("SOL_TCP", "TCP_LINGER2", SocketOption::Linger2),
    ("SOL_TCP", "TCP_WINDOW_CLAMP", SocketOption::WindowClamp),
    ("SOL_TCP", "TCP_NOTSENT_LOWAT", SocketOption::NotSentLowWater),
    ("SOL_TCP", "TCP_KEEPIDLE", SocketOption::KeepIdle),
    ("SOL_TCP", "TCP_KEEPINTVL", SocketOption::KeepInterval),
    ("SOL_TCP", "TCP_KEEPCNT", SocketOption::KeepCount),
    ("SOL_TCP", "TCP_KEEPINIT", SocketOption::KeepInit),
    ("SOL_TCP", "TCP_REMOTE_UDP_ENCAPS_PORT", SocketOption::RemoteUdpPort),
    ("SOL_TCP", "TCP_FUNCTION_BLK", SocketOption::FunctionBlock),
    ("IPPROTO_IPV6", "IPV6_USE_MIN_MTU", SocketOption::UseMinMtu),
    ("SOL_TCP", "TCP_SYNCNT", SocketOption::SynCount),
    ("SOL_TCP", "TCP_FASTOPEN", SocketOption::FastOpen),
    ("SOL_TCP", "TCP_FASTOPEN_CONNECT", SocketOption::FastOpenConnect),
    ("SOL_TCP", "TCP_FASTOPEN_KEY", SocketOption::FastOpenKey),
    ("SOL_TCP", "TCP_INFO", SocketOption::Info),
    ("SOL_IP", "IP_MTU_DISCOVER", SocketOption::MtuDiscovery),
    ("SOL_IP", "IP_TOS", SocketOption::TypeOfService),
    ("SOL_SOCKET", "SO_ZEROCOPY", SocketOption::ZeroCopy),
    ("SOL_SOCKET", "SO_MARK", SocketOption::Mark),
    ("SOL_SOCKET", "SO_TIMESTAMPING", SocketOption::Timestamping),
    ("SOL_TCP", "TCP_INQ", SocketOption::Unread),
];

/// The bytes of a text that may have some written as `\x0f`.
#[must_use]
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut pieces = text.split("\\x");
    let mut bytes = pieces.next().unwrap_or("").as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.len().min(2);
        let byte = piece.get(..digits).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend(byte);
        bytes.extend(&piece.as_bytes()[if byte.is_some() { digits } else { 0 }..]);
    }
    bytes
}

/// The value of a socket option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A number.
    Number(i64),
    /// A name.
    Text(String),
    /// SO_LINGER: on, and seconds.
    Linger(bool, i64),
}
