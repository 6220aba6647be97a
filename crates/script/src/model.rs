//! A modelled stack as a system under test: sockets with Linux's semantics around [`tcp::Endpoint`]s, in virtual time.

mod calls;
mod epoll;
mod fast_open;
mod info;
mod interface;
mod keep_alive;
mod options;
mod reports;
mod tunnel;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use tcp::endpoint::{Failure, Icmp, NetworkError};
use tcp::peers::{Known, Memory};
use tcp::profile;
use tcp::stack::{Family, Profile, SocketOptions};
use tcp::{Config, Endpoint, HostClock, Listener, Nanos, State, SynOutcome, listener};
use wire::codec::{self, Ends, Payload};
use wire::segment::{IPV4_HEADER, IPV6_HEADER, TCP_HEADER};
use wire::{Flags, Segment};

use crate::errno::Errno;
use crate::packet::{self, LOCAL, REMOTE, Seen};
use crate::parse::int;
use crate::script::{Call, Options, UdpPorts};
use crate::system::{Returned, System, SystemError};
use epoll::{Epoll, Look};
use fast_open::PEER;
use info::tcp_info;
use interface::Interface;
use keep_alive::KeepAliveOptions;
use reports::Reports;
use tunnel::Tunnel;

/// Time that the modelled host has been up when a script begins, in ns.
const UPTIME: Nanos = 10_000_000_000;
/// The initial sequence number: so close to 2^32 that sequence numbers wrap in most scripts.
const ISS: u32 = u32::MAX - 2500;
/// States of sockets without a connection, as Linux numbers them (TCP_CLOSE, TCP_LISTEN).
const CLOSE: i64 = 7;
const LISTEN: i64 = 10;
/// A model whose timer is due, or that sends, so often at one moment would do so for ever.
const MAX_ROUNDS: u32 = 100_000;
/// Time for which a packet that did not come in time is still waited for, in ns: longer than any timeout of a
/// model.
const LATE_WAIT: Nanos = 200_000_000_000;

/// Name that no stack has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stack {stack}: not known; expected one of {}", .known.join(", "))]
pub struct UnknownStack {
    /// Name that was asked for.
    pub stack: String,
    /// Names of stacks.
    pub known: Vec<&'static str>,
}

/// A host with one stack.
pub struct Model {
    profile: Box<dyn Profile>,
    cc: String,
    /// Length in bytes of the IP header of its packets.
    ip_header: u32,
    /// Memory of the peer.
    peers: Memory,
    /// MSS of the interface.
    mss: u16,
    now: Nanos,
    sockets: BTreeMap<i32, Socket>,
    epolls: BTreeMap<i32, Epoll>,
    connections: Vec<Connection>,
    sent: VecDeque<(Nanos, Seen)>,
    interface: Interface,
    /// Number of ICMP messages since the script last asked that were not about what is under way.
    stray_icmps: u32,
    blocked: Option<Waiting>,
    returned: Option<(Nanos, Returned)>,
    opened: u32,
    /// Memory of Fast Open.
    fast_open: tcp::fast_open::Host,
    /// Addresses of the host and the peer, as cookies are made of them.
    addresses: [Ipv4Addr; 2],
    broken: Option<String>,
    tunnel: Tunnel,
}

/// A call that has not returned.
struct Waiting {
    call: Call,
    /// Bytes a write has handed over so far.
    written: u64,
    /// Time when poll or epoll_wait gives up.
    deadline: Option<Nanos>,
}

#[derive(Clone, Debug, Default)]
struct Settings {
    socket: SocketOptions,
    cc: Option<String>,
    mss: Option<u16>,
    no_delay: bool,
    linger: Option<(bool, i64)>,
    keep_alive: KeepAliveOptions,
    /// The peer's port of UDP (TCP_REMOTE_UDP_ENCAPS_PORT); 0: none.
    udp_port: u16,
    /// Packets are no longer than every link of IPv6 takes (IPV6_USE_MIN_MTU).
    min_mtu: bool,
    reuse: [bool; 2],
    /// TCP_FASTOPEN: 0 off; of a listener on Linux how many connections may wait.
    fast_open: i64,
    /// TCP_FASTOPEN_CONNECT.
    fast_open_connect: bool,
    /// TCP_FASTOPEN_KEY: the listener's own keys.
    fast_open_keys: Option<Vec<[u64; 2]>>,
    /// TCP_SYNCNT.
    syn_retries: Option<usize>,
    /// TCP_CORK.
    cork: bool,
    /// TCP_NOTSENT_LOWAT; 0: the host's.
    notsent_lowat: u32,
    /// TCP_USER_TIMEOUT, ms; 0: none.
    user_timeout_ms: u32,
    /// SO_ZEROCOPY.
    zero_copy: bool,
    /// SO_TIMESTAMPING.
    timestamping: i64,
    /// TCP_INQ.
    tells_unread: bool,
}

struct Socket {
    kind: Kind,
    nonblocking: bool,
    /// `connect` was called, and waits for something to send.
    deferred: bool,
    settings: Settings,
}

enum Kind {
    Fresh,
    Listening,
    /// Index of the connection.
    Connected(usize),
}

struct Connection {
    endpoint: Endpoint,
    ends: Ends<Ipv4Addr>,
    /// Listening socket that the connection belongs to until it is accepted.
    listener: Option<i32>,
    settings: Settings,
    passive: bool,
    /// SHUT_RD was called.
    read_shut: bool,
    /// The application has been told of the failure, or that connect succeeded.
    told: bool,
    /// Whether the administrator has dropped the connection: nothing reaches it any more.
    dropped: bool,
    times: Times,
    reports: Reports,
    /// A writer or a poll found no room in the send buffer (SOCK_NOSPACE).
    no_space: bool,
    look: Look,
}

/// Times that TCP_INFO tells and the endpoint does not keep.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Time up to `busy_since` in which something was written and not acknowledged.
    busy: Nanos,
    busy_since: Option<Nanos>,
    /// Time when the last SYN or data came.
    data_received: Nanos,
}

impl Times {
    fn busy_at(&self, now: Nanos) -> Nanos {
        self.busy + self.busy_since.map_or(0, |since| now - since)
    }

    /// Notes whether something written is not acknowledged: call it whenever that may have changed.
    fn note(&mut self, busy: bool, now: Nanos) {
        if busy && self.busy_since.is_none() {
            self.busy_since = Some(now);
        } else if !busy {
            self.busy = self.busy_at(now);
            self.busy_since = None;
        }
    }
}

/// Whether a SYN to a listener opens a new connection where there was this one.
fn gives_way(connection: &Connection, segment: &Segment) -> bool {
    connection.endpoint.state() == State::Closed || connection.endpoint.gives_way_to(segment)
}

fn errno_of(error: NetworkError) -> Errno {
    match error {
        NetworkError::AccessDenied => Errno::EACCES,
        NetworkError::HostDown => Errno::EHOSTDOWN,
        NetworkError::HostUnreachable => Errno::EHOSTUNREACH,
        NetworkError::MessageSize => Errno::EMSGSIZE,
        NetworkError::NetUnreachable => Errno::ENETUNREACH,
        NetworkError::NoNet => Errno::ENONET,
        NetworkError::NoProtocolOption => Errno::ENOPROTOOPT,
        NetworkError::NotSupported => Errno::EOPNOTSUPP,
        NetworkError::Protocol => Errno::EPROTO,
        NetworkError::Refused => Errno::ECONNREFUSED,
    }
}

/// A state as netstat(1) calls it.
fn name_of(state: State) -> &'static str {
    match state {
        State::Closed => "CLOSED",
        State::SynSent => "SYN_SENT",
        State::SynReceived => "SYN_RCVD",
        State::Established => "ESTABLISHED",
        State::CloseWait => "CLOSE_WAIT",
        State::FinWait1 => "FIN_WAIT_1",
        State::Closing => "CLOSING",
        State::LastAck => "LAST_ACK",
        State::FinWait2 => "FIN_WAIT_2",
        State::TimeWait => "TIME_WAIT",
    }
}

impl Connection {
    fn failure(&self) -> Option<Errno> {
        self.endpoint.failure().and_then(|failure| match failure {
            Failure::Reset if !self.passive && !self.was_open() => Some(Errno::ECONNREFUSED),
            Failure::Reset => Some(Errno::ECONNRESET),
            Failure::HandshakeTimeout | Failure::Timeout => {
                Some(self.endpoint.soft_error().map_or(Errno::ETIMEDOUT, errno_of))
            }
            Failure::Network(error) => Some(errno_of(error)),
            Failure::Aborted => None,
        })
    }

    fn was_open(&self) -> bool {
        self.endpoint.payload() > 0 && self.endpoint.established()
    }

    fn open(&self) -> bool {
        !matches!(self.endpoint.state(), State::Closed | State::SynSent | State::SynReceived)
    }

    fn take_failure(&mut self) -> Option<Errno> {
        let failure = self.failure().filter(|_| !self.told);
        self.told |= failure.is_some();
        failure
    }
}

impl Model {
    /// A host with the stack called `stack`, whose interface has the MTU and the packets of the IP version that
    /// `options` say.
    ///
    /// # Errors
    /// There is no such stack.
    pub fn new(stack: &str, options: &Options) -> Result<Model, UnknownStack> {
        let Some(profile) = profile::find(stack) else {
            let known = profile::all().iter().map(|profile| profile.spec().name).collect();
            return Err(UnknownStack { stack: stack.to_string(), known });
        };
        let ip_header = if options.ipv6 { IPV6_HEADER } else { IPV4_HEADER };
        Ok(Model {
            cc: profile.spec().cc[0].to_string(),
            profile,
            peers: Memory::default(),
            ip_header,
            mss: options.mtu.saturating_sub((ip_header + TCP_HEADER) as u16),
            now: UPTIME,
            sockets: BTreeMap::new(),
            epolls: BTreeMap::new(),
            connections: Vec::new(),
            sent: VecDeque::new(),
            interface: Interface::default(),
            stray_icmps: 0,
            blocked: None,
            returned: None,
            opened: 0,
            fast_open: tcp::fast_open::Host::new(fast_open::KEY),
            addresses: [options.local, options.remote],
            broken: None,
            tunnel: Tunnel::default(),
        })
    }
}

impl System for Model {
    fn now(&self) -> Nanos {
        self.now - UPTIME
    }

    fn run_until(&mut self, until: Nanos) {
        let until = until.saturating_add(UPTIME);
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    fn next_packet(&mut self, until: Nanos) -> Option<(Nanos, Seen)> {
        let limit = until.saturating_add(UPTIME);
        while self.sent.is_empty() && self.step(limit) {}
        if self.sent.is_empty() {
            self.now = self.now.max(limit);
        }
        self.sent.pop_front().map(|(at, seen)| (at - UPTIME, seen))
    }

    fn inject(&mut self, bytes: &[u8], udp: Option<UdpPorts>) {
        // Nothing listens on another port of UDP.
        if udp.is_some_and(|udp| self.tunnel.port != Some(udp.dport)) {
            return;
        }
        let Ok(read) = codec::parse(bytes, bytes.len() as u32) else { return };
        let ends = Ends { src: LOCAL, dst: REMOTE, sport: read.ends.dport, dport: read.ends.sport };
        self.deliver(ends, udp.map(UdpPorts::reversed), &read.segment);
        self.send_and_retry();
    }

    fn icmp(&mut self, ends: &Ends<Ipv4Addr>, message: &Icmp, udp: Option<UdpPorts>) {
        let tunnel = self.tunnel;
        let mut known = self.connections.iter_mut().rev().filter(|connection| !connection.dropped);
        if let Some(connection) = known.find(|connection| connection.ends == *ends)
            && tunnel.ports(connection.settings.udp_port) == udp
        {
            // What UDP takes of a packet is not TCP's.
            let less = tunnel.overhead_of(connection.settings.udp_port);
            let mtu = message.mtu.saturating_sub(less);
            let stray = !connection.endpoint.on_icmp(self.now, &Icmp { mtu, ..*message });
            self.stray_icmps += u32::from(stray);
            if let Some(mtu) = connection.endpoint.path_mtu() {
                self.peers.learn_mtu(PEER, mtu);
            }
        }
        self.send_and_retry();
    }

    fn call(&mut self, call: &Call, _may_block: bool) -> Option<Returned> {
        let deadline = match call {
            Call::Poll { timeout_ms, .. } | Call::EpollWait { timeout_ms, .. } if *timeout_ms >= 0 => {
                Some(self.now + *timeout_ms as u64 * 1_000_000)
            }
            _ => None,
        };
        let mut waiting = Waiting { call: call.clone(), written: 0, deadline };
        let returned = self.attempt(&mut waiting, true);
        self.send_and_retry();
        if returned.is_none() {
            self.blocked = Some(waiting);
        }
        returned
    }

    fn returned(&mut self, until: Nanos) -> Option<(Nanos, Returned)> {
        let limit = until.saturating_add(UPTIME);
        self.send_and_retry();
        while self.returned.is_none() && self.step(limit) {}
        self.returned.take().map(|(at, returned)| (at - UPTIME, returned))
    }

    fn info(&mut self) -> Result<Vec<(&'static str, i64)>, SystemError> {
        let now = self.now;
        let linux = self.profile.spec().family == Family::Linux;
        let Some(connection) = self.connections.last_mut() else {
            let mut sockets = self.sockets.values();
            let listens = sockets.clone().any(|socket| matches!(socket.kind, Kind::Listening));
            let state = if listens { LISTEN } else { CLOSE };
            return sockets.next().map(|_| vec![("tcpi_state", state)]).ok_or(SystemError::NoConnection);
        };
        Ok(tcp_info(connection, now, linux))
    }

    fn states(&mut self) -> Result<Vec<&'static str>, SystemError> {
        let held = |index: usize| {
            self.sockets.values().any(|socket| matches!(socket.kind, Kind::Connected(own) if own == index))
        };
        let connections = self.connections.iter().enumerate().filter(|(_, connection)| !connection.dropped);
        let states = connections.filter_map(|(index, connection)| {
            let state = connection.endpoint.state();
            (state != State::Closed || held(index)).then(|| name_of(state))
        });
        Ok(states.collect())
    }

    fn drop_connections(&mut self, state: &str) -> Result<(), SystemError> {
        for connection in &mut self.connections {
            connection.dropped |= name_of(connection.endpoint.state()) == state;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SystemError> {
        if matches!(name, "net.ipv4.tcp_congestion_control" | "net.inet.tcp.cc.algorithm") {
            self.cc = self.congestion_control(value).ok_or_else(|| {
                let known = self.profile.spec().cc.iter().map(|&name| name.to_string()).collect();
                SystemError::CongestionControl { sysctl: name.to_string(), found: value.to_string(), known }
            })?;
            return Ok(());
        }
        if self.tunnel.set(self.profile.spec(), name, value) {
            return Ok(());
        }
        if name == "net.inet.tcp.hostcache.purgenow" {
            self.peers.forget();
        }
        if name == "net.ipv4.tcp_fastopen_key" {
            return self.set_fast_open_keys(name, value);
        }
        if name == "net.inet.tcp.fastopen.client_enable" && value == "0" {
            self.fast_open.forget();
        }
        let numbers: Option<Vec<i64>> = value.split(' ').map(int).collect();
        let wrong = |found, expected| SystemError::Value { sysctl: name.to_string(), found, expected };
        let numbers = numbers.ok_or_else(|| wrong(value.to_string(), "a number"))?;
        let mut set = |name: &str, value: i64| profile::set_checked(&mut *self.profile, name, value);
        match numbers.as_slice() {
            [value] => {
                set(name, *value)?;
                let accecn = self.profile.spec().accecn;
                let open = self.connections.iter_mut().map(|connection| &mut connection.endpoint);
                open.for_each(|endpoint| endpoint.set_accecn(accecn));
                Ok(())
            }
            [min, default, max] => {
                set(&format!("{name}.min"), *min)?;
                set(&format!("{name}.default"), *default)?;
                Ok(set(&format!("{name}.max"), *max)?)
            }
            _ => Err(wrong(format!("{} values", numbers.len()), "one or three")),
        }
    }

    fn counted(&mut self, name: Option<&str>) -> Result<bool, SystemError> {
        let found = std::mem::take(&mut self.stray_icmps);
        match name {
            None => Ok(true),
            Some("TcpExtOutOfWindowIcmps") => Ok(found > 0),
            Some(name) => Err(SystemError::Counter(name.into())),
        }
    }

    fn queue(&mut self, paces: bool) -> Result<(), SystemError> {
        self.set_queue(paces)
    }

    fn offload(&mut self, on: bool) -> Result<(), SystemError> {
        self.interface.cuts = !on;
        Ok(())
    }

    fn forget(&mut self) -> Result<(), SystemError> {
        self.fast_open.forget();
        self.peers.forget_lessons();
        Ok(())
    }

    fn late_wait(&self) -> Nanos {
        LATE_WAIT
    }

    fn broken(&self) -> Option<String> {
        self.broken.clone()
    }
}

impl Model {
    /// Keys as the sysctl has them: eight hexadecimal digits four times, one key or two.
    fn set_fast_open_keys(&mut self, name: &str, value: &str) -> Result<(), SystemError> {
        let wrong = || SystemError::Value {
            sysctl: name.to_string(),
            found: value.to_string(),
            expected: "a key as 01234567-89abcdef-01234567-89abcdef, or two with a comma",
        };
        let words: Option<Vec<u32>> =
            value.split([',', '-']).map(|word| u32::from_str_radix(word, 16).ok()).collect();
        let bytes: Vec<u8> = words.ok_or_else(wrong)?.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.fast_open.set_keys(fast_open::keys(&bytes).ok_or_else(wrong)?);
        Ok(())
    }

    /// Goes on to the next timer if it is due by `limit`, and lets it fire; false: none is.
    fn step(&mut self, limit: Nanos) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let timers = self.connections.iter().filter_map(|connection| connection.endpoint.next_timer());
        let waiting = self.blocked.as_ref().and_then(|waiting| waiting.deadline);
        let held = self.interface.next();
        let Some(at) = timers.chain(waiting).chain(held).min().filter(|&at| at <= limit) else {
            return false;
        };
        self.now = self.now.max(at);
        self.release();
        let mut rounds = 0;
        for index in 0..self.connections.len() {
            while self.connections[index].endpoint.next_timer().is_some_and(|at| at <= self.now) {
                self.connections[index].endpoint.on_timer(self.now);
                self.transmit(index);
                rounds += 1;
                if rounds > MAX_ROUNDS {
                    self.broken = Some(format!("the model's timer at {} ns stays due", self.now - UPTIME));
                    return false;
                }
            }
        }
        self.send_and_retry();
        true
    }

    /// Sends what can be sent, and tries the blocked call again: call it after anything has happened.
    fn send_and_retry(&mut self) {
        self.transmit_all();
        let Some(mut waiting) = self.blocked.take() else { return };
        match self.attempt(&mut waiting, false) {
            Some(returned) => self.returned = Some((self.now, returned)),
            None => self.blocked = Some(waiting),
        }
        self.transmit_all();
    }

    fn transmit_all(&mut self) {
        (0..self.connections.len()).for_each(|index| self.transmit(index));
        self.learn_of_peer();
        for connection in &mut self.connections {
            connection.times.note(connection.endpoint.unacknowledged() > 0, self.now);
            let acknowledged = connection.acknowledged();
            connection.reports.note_acknowledged(self.now - UPTIME, acknowledged);
        }
        self.wake_epolls();
    }

    fn transmit(&mut self, index: usize) {
        let mut packets = 0;
        while let Some(segment) = self.connections[index].endpoint.poll_transmit(self.now) {
            let due = self.connections[index].endpoint.due(&segment);
            if self.interface.paces && due > self.now {
                self.interface.hold(due, index, segment);
            } else {
                self.leave(index, &segment);
            }
            packets += 1;
            if packets > MAX_ROUNDS {
                self.broken = Some("the model sends without end".into());
                return;
            }
        }
    }

    fn send(&mut self, ends: &Ends<Ipv4Addr>, udp: Option<UdpPorts>, segment: &Segment) {
        let layout = self.profile.spec().family.syn_layout();
        let mut bytes = Vec::with_capacity(100);
        let length = codec::write(&mut bytes, segment, ends, layout, 0, Payload::Zeros { snaplen: 100 });
        let with_udp = |mut seen: Seen| {
            seen.packet.udp = udp;
            (self.now, seen)
        };
        self.sent.extend(packet::decode(&bytes, length).map(with_udp));
    }

    fn deliver(&mut self, ends: Ends<Ipv4Addr>, udp: Option<UdpPorts>, segment: &Segment) {
        let listener = self.sockets.iter().find(|(_, socket)| matches!(socket.kind, Kind::Listening));
        let mut listener = listener.map(|(&fd, socket)| (fd, socket.settings.clone()));
        if let Some((_, settings)) = &mut listener {
            settings.udp_port = udp.map_or(0, |udp| udp.dport);
        }
        let tunnel = self.tunnel;
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        let mut known = self.connections.iter_mut().rev().filter(|connection| !connection.dropped);
        let known = known.find(|connection| connection.ends == ends);
        if let Some(connection) = known
            && !(opens && listener.is_some() && gives_way(connection, segment))
        {
            // A cookie does not tell the port.
            let cookies = self.profile.spec().syn_cookies.answers().is_some();
            if cookies && connection.endpoint.state() == State::SynReceived && connection.passive {
                connection.settings.udp_port = udp.map_or(0, |udp| udp.dport);
            }
            if tunnel.ports(connection.settings.udp_port) != udp {
                if let SynOutcome::Reset(segment) = listener::refusal(segment) {
                    self.send(&ends, udp, &segment);
                }
                return;
            }
            if segment.len > 0 || segment.flags.has(Flags::SYN) {
                connection.times.data_received = self.now;
            }
            connection.endpoint.on_segment(self.now, segment);
            return;
        }
        let known = self.recall();
        let outcome = match &listener {
            Some((fd, settings)) => {
                let config = self.config(settings, known);
                let welcome = self.welcome(segment, settings);
                let outcome =
                    Listener::new(&*self.profile).on_segment_with(self.now, segment, &config, welcome);
                if let SynOutcome::Connection(endpoint) = outcome {
                    self.connections.push(Connection {
                        endpoint: *endpoint,
                        ends,
                        listener: Some(*fd),
                        settings: settings.clone(),
                        passive: true,
                        read_shut: false,
                        told: false,
                        dropped: false,
                        times: Times { data_received: self.now, ..Times::default() },
                        reports: Reports::default(),
                        no_space: false,
                        look: Look::FIRST,
                    });
                    self.apply_keep_alive(self.connections.len() - 1);
                    return;
                }
                outcome
            }
            None => listener::refusal(segment),
        };
        if let SynOutcome::Reset(segment) = outcome {
            self.send(&ends, udp, &segment);
        }
    }

    /// Knowledge of the peer when a connection begins.
    fn recall(&mut self) -> Known {
        self.peers.recall(&self.profile.spec().peers, PEER, self.now)
    }

    fn config<'a>(&'a self, settings: &'a Settings, known: Known) -> Config<'a> {
        let spec = self.profile.spec();
        Config {
            clock: HostClock::new(spec.hz, 0, 0),
            ip_header: self.ip_header,
            known,
            mss: self.mss_of(settings),
            ecn: spec.ecn,
            // Linux builds super-packets whatever the interface can do; the others only if it can.
            tso: spec.family == Family::Linux && !self.interface.cuts,
            socket: settings.socket,
            cc: settings.cc.as_deref().unwrap_or(&self.cc),
            iss: ISS,
            veth: false,
            timestamp_offset: 0,
            random: 1,
        }
    }

    fn congestion_control(&self, name: &str) -> Option<String> {
        let spec = self.profile.spec();
        let meant = spec.cc_alias.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, meant)| meant);
        spec.cc.contains(&meant).then(|| meant.to_string())
    }
}
