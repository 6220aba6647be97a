//! A modelled stack as a system under test: sockets with Linux's semantics around [`tcp::Endpoint`]s, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use tcp::cc;
use tcp::endpoint::Failure;
use tcp::profile::{self, Family, Profile, SocketOptions};
use tcp::sender::Phase;
use tcp::{Answer, Config, Endpoint, HostClock, Listener, Nanos, State, listener};
use wire::codec::{self, Ends, Payload};
use wire::{Flags, Segment};

use crate::errno::Errno;
use crate::packet::{self, LOCAL, PORT, REMOTE, Seen};
use crate::script::{Call, O_NONBLOCK, O_RDWR, OptionValue, POLL_BITS, PollFd, SocketOption};
use crate::system::{Output, Returned, System};

/// How long the modelled host has been up when a script begins, nanoseconds.
const UPTIME: Nanos = 10_000_000_000;
/// The initial sequence number: so close to the end that most scripts see it wrap.
const ISS: u32 = u32::MAX - 2500;
/// First ephemeral port.
const EPHEMERAL: u16 = 32_768;
/// Bytes of IPv4 and TCP headers, without options.
const HEADERS: u16 = 40;
/// POLLNVAL: no such descriptor.
const INVALID: i16 = 0x20;
/// A timer that is due this often at one moment is stuck.
const STUCK: u32 = 100_000;
/// How long to look further for a packet that did not come in time, nanoseconds: longer than any timeout of a model.
const PATIENCE: Nanos = 200_000_000_000;

/// A host with one stack.
pub struct Model {
    profile: Box<dyn Profile>,
    cc: String,
    mtu: u16,
    now: Nanos,
    sockets: BTreeMap<i32, Socket>,
    connections: Vec<Connection>,
    sent: VecDeque<(Nanos, Seen)>,
    blocked: Option<Waiting>,
    returned: Option<(Nanos, Returned)>,
    opened: u32,
    broken: Option<String>,
}

/// A call that has not returned.
struct Waiting {
    call: Call,
    /// Bytes a write has handed over so far.
    written: u64,
    /// When poll gives up.
    deadline: Option<Nanos>,
}

#[derive(Clone, Debug, Default)]
struct Settings {
    socket: SocketOptions,
    cc: Option<String>,
    mss: Option<u16>,
    no_delay: bool,
    linger: Option<(bool, i64)>,
    reuse: [bool; 2],
}

struct Socket {
    kind: Kind,
    nonblocking: bool,
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
    /// The listening socket it belongs to until it is accepted.
    listener: Option<i32>,
    settings: Settings,
    passive: bool,
    /// SHUT_RD was called.
    deaf: bool,
    /// The failure has been told to the application.
    told: bool,
}

impl Connection {
    fn failure(&self) -> Option<Errno> {
        self.endpoint.failure().and_then(|failure| match failure {
            Failure::Reset if !self.passive && !self.was_open() => Some(Errno::ECONNREFUSED),
            Failure::Reset => Some(Errno::ECONNRESET),
            Failure::HandshakeTimeout | Failure::Timeout => Some(Errno::ETIMEDOUT),
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
    /// A host with the stack called `stack` and an interface of `mtu` bytes.
    ///
    /// # Errors
    /// There is no such stack.
    pub fn new(stack: &str, mtu: u16) -> Result<Model, String> {
        let Some(profile) = profile::find(stack) else {
            let known: Vec<&str> = profile::all().iter().map(|profile| profile.facts().name).collect();
            return Err(format!("stack {stack}: not known; expected one of {}", known.join(", ")));
        };
        Ok(Model {
            cc: profile.facts().cc[0].to_string(),
            profile,
            mtu,
            now: UPTIME,
            sockets: BTreeMap::new(),
            connections: Vec::new(),
            sent: VecDeque::new(),
            blocked: None,
            returned: None,
            opened: 0,
            broken: None,
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

    fn inject(&mut self, bytes: &[u8]) {
        let Ok(read) = codec::parse(bytes, bytes.len() as u32) else { return };
        let ends = Ends { src: LOCAL, dst: REMOTE, sport: read.ends.dport, dport: read.ends.sport };
        self.deliver(ends, &read.segment);
        self.settle();
    }

    fn call(&mut self, call: &Call, _may_block: bool) -> Option<Returned> {
        let deadline = match call {
            Call::Poll { timeout_ms, .. } if *timeout_ms >= 0 => {
                Some(self.now + *timeout_ms as u64 * 1_000_000)
            }
            _ => None,
        };
        let mut waiting = Waiting { call: call.clone(), written: 0, deadline };
        let returned = self.attempt(&mut waiting, true);
        self.settle();
        if returned.is_none() {
            self.blocked = Some(waiting);
        }
        returned
    }

    fn returned(&mut self, until: Nanos) -> Option<(Nanos, Returned)> {
        let limit = until.saturating_add(UPTIME);
        self.settle();
        while self.returned.is_none() && self.step(limit) {}
        self.returned.take().map(|(at, returned)| (at - UPTIME, returned))
    }

    fn info(&mut self) -> Result<Vec<(&'static str, i64)>, String> {
        let now = self.now;
        let linux = self.profile.facts().family == Family::Linux;
        let timestamps_and_sack = (self.profile.facts().timestamps, self.profile.facts().sack);
        let connection = self.connections.last_mut().ok_or("there is no connection")?;
        Ok(tcp_info(connection, now, linux, timestamps_and_sack))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if matches!(name, "net.ipv4.tcp_congestion_control" | "net.inet.tcp.cc.algorithm") {
            self.cc = self.congestion_control(value).ok_or_else(|| {
                let known = self.profile.facts().cc.join(", ");
                format!("{name}: found {value}; expected one of {known}")
            })?;
            return Ok(());
        }
        let numbers: Option<Vec<i64>> = value.split(' ').map(|word| word.parse().ok()).collect();
        let numbers = numbers.ok_or_else(|| format!("sysctl {name}: found {value}; expected a number"))?;
        let mut set = |name: &str, value: i64| {
            profile::set_checked(&mut *self.profile, name, value).map_err(|error| error.to_string())
        };
        match numbers.as_slice() {
            [value] => set(name, *value),
            [min, default, max] => {
                set(&format!("{name}.min"), *min)?;
                set(&format!("{name}.default"), *default)?;
                set(&format!("{name}.max"), *max)
            }
            _ => Err(format!("sysctl {name}: found {} values; expected one or three", numbers.len())),
        }
    }

    fn patience(&self) -> Nanos {
        PATIENCE
    }

    fn broken(&self) -> Option<String> {
        self.broken.clone()
    }
}

/// Time and packets.
impl Model {
    /// Lets the next timer fire if it is due by `limit`; false: none is.
    fn step(&mut self, limit: Nanos) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let timers = self.connections.iter().filter_map(|connection| connection.endpoint.next_timer());
        let waiting = self.blocked.as_ref().and_then(|waiting| waiting.deadline);
        let Some(at) = timers.chain(waiting).min().filter(|&at| at <= limit) else { return false };
        self.now = self.now.max(at);
        let mut rounds = 0;
        for index in 0..self.connections.len() {
            while self.connections[index].endpoint.next_timer().is_some_and(|at| at <= self.now) {
                self.connections[index].endpoint.on_timer(self.now);
                self.transmit(index);
                rounds += 1;
                if rounds > STUCK {
                    self.broken = Some(format!("the model's timer at {} ns stays due", self.now - UPTIME));
                    return false;
                }
            }
        }
        self.settle();
        true
    }

    /// After anything has happened: everything that can be sent is, and the blocked call is tried again.
    fn settle(&mut self) {
        (0..self.connections.len()).for_each(|index| self.transmit(index));
        let Some(mut waiting) = self.blocked.take() else { return };
        match self.attempt(&mut waiting, false) {
            Some(returned) => self.returned = Some((self.now, returned)),
            None => self.blocked = Some(waiting),
        }
        (0..self.connections.len()).for_each(|index| self.transmit(index));
    }

    fn transmit(&mut self, index: usize) {
        let mut packets = 0;
        while let Some(segment) = self.connections[index].endpoint.poll_transmit(self.now) {
            let ends = self.connections[index].ends;
            self.send(&ends, &segment);
            // The interface is infinitely fast.
            if segment.len > 0 {
                self.connections[index].endpoint.on_tx_complete(self.now, segment.len);
            }
            packets += 1;
            if packets > STUCK {
                self.broken = Some("the model sends without end".into());
                return;
            }
        }
    }

    fn send(&mut self, ends: &Ends<Ipv4Addr>, segment: &Segment) {
        let layout = self.profile.facts().family.syn_layout();
        let mut bytes = Vec::with_capacity(100);
        let length = codec::write_ipv4(&mut bytes, segment, ends, layout, 0, Payload::Zeros { snaplen: 100 });
        self.sent.extend(packet::decode(&bytes, length).map(|seen| (self.now, seen)));
    }

    fn deliver(&mut self, ends: Ends<Ipv4Addr>, segment: &Segment) {
        let listener = self.sockets.iter().find(|(_, socket)| matches!(socket.kind, Kind::Listening));
        let listener = listener.map(|(&fd, socket)| (fd, socket.settings.clone()));
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        let known = self.connections.iter_mut().rev().find(|connection| connection.ends == ends);
        if let Some(connection) = known
            && !(connection.endpoint.state() == State::Closed && opens && listener.is_some())
        {
            connection.endpoint.on_segment(self.now, segment);
            return;
        }
        let answer = match &listener {
            Some((fd, settings)) => {
                let config = self.config(settings);
                let answer = Listener::new(&*self.profile).on_segment(self.now, segment, &config);
                if let Answer::Connection(endpoint) = answer {
                    self.connections.push(Connection {
                        endpoint: *endpoint,
                        ends,
                        listener: Some(*fd),
                        settings: settings.clone(),
                        passive: true,
                        deaf: false,
                        told: false,
                    });
                    return;
                }
                answer
            }
            None => listener::refusal(segment),
        };
        if let Answer::Reset(segment) = answer {
            self.send(&ends, &segment);
        }
    }

    fn config<'a>(&'a self, settings: &'a Settings) -> Config<'a> {
        let facts = self.profile.facts();
        let mss = self.mtu - HEADERS;
        Config {
            clock: HostClock::new(facts.hz, 0, 0),
            mss: settings.mss.map_or(mss, |own| own.min(mss)),
            ecn: facts.ecn,
            // Linux builds super-packets whatever the interface can do; the others only if it can.
            tso: facts.family == Family::Linux,
            socket: settings.socket,
            cc: settings.cc.as_deref().unwrap_or(&self.cc),
            iss: ISS,
            timestamp_offset: 0,
            random: 1,
        }
    }

    fn congestion_control(&self, name: &str) -> Option<String> {
        let facts = self.profile.facts();
        let meant = facts.cc_alias.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, meant)| meant);
        facts.cc.contains(&meant).then(|| meant.to_string())
    }
}

/// Calls.
impl Model {
    /// Tries a call; None: it blocks.
    fn attempt(&mut self, waiting: &mut Waiting, first: bool) -> Option<Returned> {
        let result = match waiting.call.clone() {
            Call::Socket { nonblocking } => Ok(i64::from(self.open(Socket {
                kind: Kind::Fresh,
                nonblocking,
                settings: Settings::default(),
            }))),
            Call::Accept { fd, nonblocking } => return self.accept(fd, nonblocking).map(Returned::from),
            Call::Connect(fd) => return self.connect(fd, first).map(Returned::from),
            Call::Read { fd, len, dont_wait } => return self.read(fd, len, dont_wait).map(Returned::from),
            Call::Write { fd, len, dont_wait, more: false } => {
                return self.write(fd, len, dont_wait, &mut waiting.written).map(Returned::from);
            }
            Call::Write { more: true, .. } => Err(Errno::EINVAL),
            Call::Poll { fds, .. } => return self.poll(&fds, waiting.deadline),
            Call::GetOption { fd, option, .. } => {
                return Some(match self.get_option(fd, option) {
                    Ok(value) => Returned { result: Ok(0), output: Output::Value(value) },
                    Err(errno) => Err(errno).into(),
                });
            }
            Call::Queued { fd, out, .. } => {
                return Some(match self.queued(fd, out) {
                    Ok(bytes) => {
                        Returned { result: Ok(0), output: Output::Value(OptionValue::Number(bytes)) }
                    }
                    Err(errno) => Err(errno).into(),
                });
            }
            Call::Bind(fd) => self.socket(fd).and_then(|socket| match socket.kind {
                Kind::Fresh => Ok(0),
                _ => Err(Errno::EINVAL),
            }),
            Call::Listen(fd) => self.socket(fd).and_then(|socket| match socket.kind {
                Kind::Connected(_) => Err(Errno::EINVAL),
                _ => {
                    socket.kind = Kind::Listening;
                    Ok(0)
                }
            }),
            Call::GetFlags(fd) => {
                self.socket(fd).map(|socket| O_RDWR | if socket.nonblocking { O_NONBLOCK } else { 0 })
            }
            Call::SetFlags { fd, nonblocking } => self.socket(fd).map(|socket| {
                socket.nonblocking = nonblocking;
                0
            }),
            Call::Shutdown { fd, read, write } => self.shutdown(fd, read, write),
            Call::Close(fd) => self.close(fd),
            Call::SetOption { fd, option, value } => self.set_option(fd, option, value),
        };
        Some(result.into())
    }

    fn open(&mut self, socket: Socket) -> i32 {
        let fd = (3..).find(|fd| !self.sockets.contains_key(fd)).unwrap_or(3);
        self.sockets.insert(fd, socket);
        fd
    }

    fn socket(&mut self, fd: i32) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&fd).ok_or(Errno::EBADF)
    }

    /// The connection of a socket and whether calls on it block.
    fn connection(&mut self, fd: i32) -> Result<(&mut Connection, bool), Errno> {
        let socket = self.sockets.get(&fd).ok_or(Errno::EBADF)?;
        match socket.kind {
            Kind::Connected(index) => Ok((&mut self.connections[index], !socket.nonblocking)),
            _ => Err(Errno::ENOTCONN),
        }
    }

    fn accept(&mut self, fd: i32, nonblocking: bool) -> Option<Result<i64, Errno>> {
        let blocks = match self.sockets.get(&fd) {
            None => return Some(Err(Errno::EBADF)),
            Some(socket) if !matches!(socket.kind, Kind::Listening) => return Some(Err(Errno::EINVAL)),
            Some(socket) => !socket.nonblocking,
        };
        let ready = self
            .connections
            .iter()
            .position(|connection| connection.listener == Some(fd) && connection.was_open());
        match ready {
            Some(index) => {
                self.connections[index].listener = None;
                let settings = self.connections[index].settings.clone();
                Some(Ok(i64::from(self.open(Socket { kind: Kind::Connected(index), nonblocking, settings }))))
            }
            None if blocks => None,
            None => Some(Err(Errno::EAGAIN)),
        }
    }

    fn connect(&mut self, fd: i32, first: bool) -> Option<Result<i64, Errno>> {
        let (settings, nonblocking) = match self.sockets.get(&fd) {
            None => return Some(Err(Errno::EBADF)),
            Some(Socket { kind: Kind::Listening, .. }) => return Some(Err(Errno::EISCONN)),
            Some(Socket { kind: Kind::Connected(index), nonblocking, .. }) => {
                let connection = &mut self.connections[*index];
                return match connection.endpoint.state() {
                    State::SynSent | State::SynReceived if first => Some(Err(Errno::EALREADY)),
                    State::SynSent | State::SynReceived if *nonblocking => Some(Err(Errno::EINPROGRESS)),
                    State::SynSent | State::SynReceived => None,
                    _ => Some(match connection.take_failure() {
                        Some(errno) => Err(errno),
                        None if first && connection.told => Err(Errno::EISCONN),
                        None => {
                            // The first connect after success returns 0, later ones EISCONN.
                            connection.told = true;
                            Ok(0)
                        }
                    }),
                };
            }
            Some(socket) => (socket.settings.clone(), socket.nonblocking),
        };
        let endpoint = Endpoint::connect(&*self.profile, &self.config(&settings), self.now);
        let sport = EPHEMERAL + self.opened as u16;
        self.opened += 1;
        self.connections.push(Connection {
            endpoint,
            ends: Ends { src: LOCAL, dst: REMOTE, sport, dport: PORT },
            listener: None,
            settings,
            passive: false,
            deaf: false,
            told: false,
        });
        let index = self.connections.len() - 1;
        if let Ok(socket) = self.socket(fd) {
            socket.kind = Kind::Connected(index);
        }
        self.apply(index);
        nonblocking.then_some(Err(Errno::EINPROGRESS))
    }

    fn read(&mut self, fd: i32, len: u64, dont_wait: bool) -> Option<Result<i64, Errno>> {
        let now = self.now;
        let (connection, blocks) = match self.connection(fd) {
            Ok(found) => found,
            Err(errno) => return Some(Err(errno)),
        };
        let read = connection.endpoint.read(now, len);
        if read > 0 || len == 0 {
            return Some(Ok(read as i64));
        }
        if let Some(errno) = connection.take_failure() {
            return Some(Err(errno));
        }
        if connection.deaf || connection.endpoint.at_eof() || connection.endpoint.state() == State::Closed {
            return Some(Ok(0));
        }
        if blocks && !dont_wait { None } else { Some(Err(Errno::EAGAIN)) }
    }

    fn write(&mut self, fd: i32, len: u64, dont_wait: bool, written: &mut u64) -> Option<Result<i64, Errno>> {
        let (connection, blocks) = match self.connection(fd) {
            Ok(found) => found,
            Err(Errno::ENOTCONN) => return Some(Err(Errno::EPIPE)),
            Err(errno) => return Some(Err(errno)),
        };
        if *written == 0
            && let Some(errno) = connection.take_failure()
        {
            return Some(Err(errno));
        }
        let blocks = blocks && !dont_wait;
        match connection.endpoint.state() {
            State::Established | State::CloseWait => {}
            State::SynSent | State::SynReceived => {
                return if blocks { None } else { Some(Err(Errno::EAGAIN)) };
            }
            _ if *written > 0 => return Some(Ok(*written as i64)),
            _ => return Some(Err(Errno::EPIPE)),
        }
        // A writer that waits is woken when the stack says so.
        if *written == 0 || connection.endpoint.writable() {
            *written += connection.endpoint.write(len - *written);
        }
        if *written == len {
            Some(Ok(len as i64))
        } else if blocks {
            None
        } else if *written > 0 {
            Some(Ok(*written as i64))
        } else {
            Some(Err(Errno::EAGAIN))
        }
    }

    fn poll(&mut self, fds: &[PollFd], deadline: Option<Nanos>) -> Option<Returned> {
        // Errors and hang-ups are told of unasked.
        let [_, _, err, hup, _] = POLL_BITS.map(|(_, bit)| bit);
        let events: Vec<i16> =
            fds.iter().map(|entry| self.readiness(entry.fd) & (entry.events | err | hup)).collect();
        let ready = events.iter().filter(|&&bits| bits != 0).count() as i64;
        if ready > 0 || deadline.is_some_and(|at| at <= self.now) {
            return Some(Returned { result: Ok(ready), output: Output::Events(events) });
        }
        None
    }

    /// What poll says of a socket, Linux's bits.
    fn readiness(&self, fd: i32) -> i16 {
        let [into, out, err, hup, rdhup] = POLL_BITS.map(|(_, bit)| bit);
        let Some(socket) = self.sockets.get(&fd) else { return INVALID };
        let index = match socket.kind {
            Kind::Fresh => return out | hup,
            Kind::Listening => {
                let ready = self.connections.iter().any(|c| c.listener == Some(fd) && c.open());
                return if ready { into } else { 0 };
            }
            Kind::Connected(index) => index,
        };
        let connection = &self.connections[index];
        let endpoint = &connection.endpoint;
        let state = endpoint.state();
        if matches!(state, State::SynSent | State::SynReceived) {
            return 0;
        }
        let eof = endpoint.peer_closed() || state == State::Closed || connection.deaf;
        let sending_over = !matches!(state, State::Established | State::CloseWait);
        let mut bits = 0;
        bits |= if endpoint.readable() > 0 || eof { into } else { 0 };
        bits |= if eof { rdhup } else { 0 };
        bits |= if endpoint.writable() || sending_over { out } else { 0 };
        bits |= if (eof && sending_over) || state == State::Closed { hup } else { 0 };
        bits |= if connection.failure().is_some() && !connection.told { err } else { 0 };
        bits
    }

    fn shutdown(&mut self, fd: i32, read: bool, write: bool) -> Result<i64, Errno> {
        let now = self.now;
        let (connection, _) = self.connection(fd)?;
        if connection.endpoint.state() == State::Closed {
            return Err(Errno::ENOTCONN);
        }
        connection.deaf |= read;
        if write {
            connection.endpoint.shutdown(now);
        }
        Ok(0)
    }

    fn close(&mut self, fd: i32) -> Result<i64, Errno> {
        let socket = self.sockets.remove(&fd).ok_or(Errno::EBADF)?;
        let now = self.now;
        match socket.kind {
            Kind::Fresh => {}
            Kind::Listening => {
                // Connections that nobody will accept are reset.
                for connection in self.connections.iter_mut().filter(|c| c.listener == Some(fd)) {
                    connection.listener = None;
                    connection.endpoint.abort(now);
                }
            }
            Kind::Connected(index) => {
                let connection = &mut self.connections[index];
                if matches!(connection.settings.linger, Some((true, 0))) {
                    connection.endpoint.abort(now);
                } else {
                    connection.endpoint.close(now);
                }
            }
        }
        Ok(0)
    }

    fn queued(&mut self, fd: i32, out: bool) -> Result<i64, Errno> {
        let (connection, _) = self.connection(fd)?;
        let endpoint = &connection.endpoint;
        Ok(if out { endpoint.unacknowledged() } else { endpoint.readable() } as i64)
    }

    fn set_option(&mut self, fd: i32, option: SocketOption, value: OptionValue) -> Result<i64, Errno> {
        let cc = match &value {
            OptionValue::Text(name) => self.congestion_control(name),
            _ => None,
        };
        let socket = self.sockets.get_mut(&fd).ok_or(Errno::EBADF)?;
        let fresh = !matches!(socket.kind, Kind::Connected(_));
        let settings = &mut socket.settings;
        match (option, value) {
            (SocketOption::SendBuffer, OptionValue::Number(bytes)) => {
                settings.socket.sndbuf = Some(bytes.max(0) as u64);
            }
            (SocketOption::ReceiveBuffer, OptionValue::Number(bytes)) if fresh => {
                settings.socket.rcvbuf = Some(bytes.max(0) as u64);
            }
            (SocketOption::MaxSegment, OptionValue::Number(mss)) if fresh && (88..=65_495).contains(&mss) => {
                settings.mss = Some(mss as u16);
            }
            (SocketOption::Congestion, OptionValue::Text(_)) if fresh => {
                settings.cc = Some(cc.ok_or(Errno::ENOENT)?);
            }
            (SocketOption::Linger, OptionValue::Linger(on, seconds)) => settings.linger = Some((on, seconds)),
            (SocketOption::NoDelay, OptionValue::Number(on)) => settings.no_delay = on != 0,
            (SocketOption::ReuseAddr, OptionValue::Number(on)) => settings.reuse[0] = on != 0,
            (SocketOption::ReusePort, OptionValue::Number(on)) => settings.reuse[1] = on != 0,
            // Off is all that it can be.
            (SocketOption::KeepAlive, OptionValue::Number(0)) => {}
            _ => return Err(Errno::EINVAL),
        }
        if let Kind::Connected(index) = socket.kind {
            self.connections[index].settings = self.sockets[&fd].settings.clone();
            self.apply(index);
        }
        Ok(0)
    }

    /// Hands a connection the options that work while it is open.
    fn apply(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.endpoint.set_no_delay(connection.settings.no_delay);
        if connection.settings.socket.sndbuf.is_some() {
            let ((bytes, _), _) = self.profile.buffers(&connection.settings.socket);
            connection.endpoint.set_send_buffer(bytes);
        }
    }

    fn get_option(&mut self, fd: i32, option: SocketOption) -> Result<OptionValue, Errno> {
        let cc = self.cc.clone();
        let mss = self.mtu - HEADERS;
        let socket = self.sockets.get(&fd).ok_or(Errno::EBADF)?;
        let settings = &socket.settings;
        let number = match option {
            SocketOption::Congestion => {
                return Ok(OptionValue::Text(settings.cc.clone().unwrap_or(cc)));
            }
            SocketOption::Linger => {
                let (on, seconds) = settings.linger.unwrap_or((false, 0));
                return Ok(OptionValue::Linger(on, seconds));
            }
            SocketOption::NoDelay => i64::from(settings.no_delay),
            SocketOption::ReuseAddr => i64::from(settings.reuse[0]),
            SocketOption::ReusePort => i64::from(settings.reuse[1]),
            // Not modelled, and so as every socket begins.
            SocketOption::KeepAlive | SocketOption::Cork | SocketOption::UserTimeout => 0,
            SocketOption::MaxSegment => match socket.kind {
                Kind::Connected(index) => i64::from(self.connections[index].endpoint.payload()),
                _ => i64::from(settings.mss.unwrap_or(mss)),
            },
            SocketOption::Error => match socket.kind {
                Kind::Connected(index) => {
                    self.connections[index].take_failure().map_or(0, |errno| i64::from(errno.0))
                }
                _ => 0,
            },
            _ => return Err(Errno::EINVAL),
        };
        Ok(OptionValue::Number(number))
    }
}

/// TCP_INFO under Linux's names; windows in segments for Linux, in bytes for FreeBSD, as each shows them.
fn tcp_info(
    connection: &mut Connection,
    now: Nanos,
    linux: bool,
    (timestamps, sack): (bool, bool),
) -> Vec<(&'static str, i64)> {
    let info = connection.endpoint.info(now);
    let sender = info.sender;
    let mss = u64::from(info.snd_mss.max(1));
    let unit = if linux { mss } else { 1 };
    let state = match info.state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    };
    let ca_state = match sender.phase {
        Phase::SlowStart | Phase::Avoidance => 0,
        Phase::Disorder => 1,
        Phase::Cwr => 2,
        Phase::Recovery => 3,
        Phase::Loss => 4,
    };
    let options = i64::from(timestamps) | i64::from(sack) << 1 | i64::from(info.ecn) << 3;
    let infinite =
        if linux { i64::from(cc::linux::INFINITE_SSTHRESH) } else { cc::freebsd::SSTHRESH_INFINITE as i64 };
    let micros = |time: Option<Nanos>| (time.unwrap_or(0) / 1000) as i64;
    vec![
        ("tcpi_state", state),
        ("tcpi_ca_state", ca_state),
        ("tcpi_options", options),
        ("tcpi_rto", micros(Some(sender.rto))),
        ("tcpi_snd_mss", mss as i64),
        ("tcpi_unacked", info.outstanding.div_ceil(mss) as i64),
        ("tcpi_rtt", micros(sender.srtt)),
        ("tcpi_rttvar", micros(sender.rttvar)),
        ("tcpi_snd_ssthresh", sender.ssthresh.map_or(infinite, |bytes| (bytes / unit) as i64)),
        ("tcpi_snd_cwnd", (sender.cwnd / unit) as i64),
        ("tcpi_total_retrans", info.retransmits as i64),
        ("tcpi_bytes_acked", info.bytes_acked as i64),
        ("tcpi_data_segs_out", info.data_segments_out as i64),
        ("tcpi_snd_wnd", info.snd_wnd as i64),
        ("tcpi_total_rto", sender.timeouts as i64),
    ]
}
