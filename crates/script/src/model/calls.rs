//! Socket calls on the model, with Linux's semantics.

use tcp::fast_open::{Attempt, Style};
use tcp::stack::Family;
use tcp::{Endpoint, Nanos, State};
use wire::codec::Ends;

use super::{Connection, Kind, Model, Settings, Socket, Times, Waiting};
use crate::errno::Errno;
use crate::packet::{LOCAL, PORT, REMOTE};
use crate::script::{Call, O_NONBLOCK, O_RDWR, OptionValue, POLL_BITS, PollFd, SocketOption, bytes_of};
use crate::system::{Output, Returned};

/// First ephemeral port.
const EPHEMERAL: u16 = 32_768;
/// POLLNVAL: no such descriptor.
const INVALID: i16 = 0x20;

impl Model {
    /// Tries a call. None: the call blocks.
    pub(super) fn attempt(&mut self, waiting: &mut Waiting, first: bool) -> Option<Returned> {
        let result = match waiting.call.clone() {
            Call::Socket { nonblocking } => Ok(i64::from(self.open(Socket {
                kind: Kind::Fresh,
                nonblocking,
                deferred: false,
                settings: Settings::default(),
            }))),
            Call::Accept { fd, nonblocking } => return self.accept(fd, nonblocking).map(Returned::from),
            Call::Connect(fd) => return self.connect(fd, first).map(Returned::from),
            Call::Read { fd, len, dont_wait, peek } => {
                return self.read(fd, len, dont_wait, peek).map(Returned::from);
            }
            Call::Write { fd, len, dont_wait, more: false } => {
                if self.sockets.get(&fd).is_some_and(|socket| socket.deferred) {
                    return self
                        .send_opening(fd, len, (dont_wait, true), &mut waiting.written)
                        .map(Returned::from);
                }
                return self.write(fd, len, dont_wait, &mut waiting.written).map(Returned::from);
            }
            Call::SendTo { fd, len, dont_wait, fast_open } => {
                let fresh = matches!(self.sockets.get(&fd), Some(Socket { kind: Kind::Fresh, .. }));
                if fresh {
                    return self
                        .send_opening(fd, len, (dont_wait, fast_open), &mut waiting.written)
                        .map(Returned::from);
                }
                if first && fast_open && self.opens_already(fd) {
                    return Some(Err(Errno::EALREADY).into());
                }
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
                let kind = Kind::Connected(index);
                Some(Ok(i64::from(self.open(Socket { kind, nonblocking, deferred: false, settings }))))
            }
            None if blocks => None,
            None => Some(Err(Errno::EAGAIN)),
        }
    }

    fn connect(&mut self, fd: i32, first: bool) -> Option<Result<i64, Errno>> {
        let (fast_open, nonblocking) = match self.sockets.get(&fd) {
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
            Some(Socket { deferred: true, .. }) => return Some(Err(Errno::EISCONN)),
            Some(socket) => (socket.settings.fast_open_connect, socket.nonblocking),
        };
        let attempt = if fast_open { self.fast_open_attempt() } else { None };
        if self.defers_connect(fd, attempt) {
            return Some(Ok(0));
        }
        self.open_connection(fd, attempt);
        nonblocking.then_some(Err(Errno::EINPROGRESS))
    }

    /// Begins to connect a socket; returns the connection's index.
    pub(super) fn open_connection(&mut self, fd: i32, attempt: Option<Attempt>) -> usize {
        let settings = self.sockets.get(&fd).map(|socket| socket.settings.clone()).unwrap_or_default();
        let config = self.config(&settings);
        let mut endpoint = match attempt {
            Some(attempt) => Endpoint::connect_fast_open(&*self.profile, &config, self.now, attempt),
            None => Endpoint::connect(&*self.profile, &config, self.now),
        };
        if let Some(retries) = settings.syn_retries {
            endpoint.set_syn_retries(retries);
        }
        let sport = EPHEMERAL + self.opened as u16;
        self.opened += 1;
        self.connections.push(Connection {
            endpoint,
            ends: Ends { src: LOCAL, dst: REMOTE, sport, dport: PORT },
            listener: None,
            settings,
            passive: false,
            read_shut: false,
            told: false,
            dropped: false,
            times: Times::default(),
        });
        let index = self.connections.len() - 1;
        if let Ok(socket) = self.socket(fd) {
            socket.kind = Kind::Connected(index);
            socket.deferred = false;
        }
        self.apply(index);
        self.apply_keep_alive(index);
        index
    }

    fn read(&mut self, fd: i32, len: u64, dont_wait: bool, peek: bool) -> Option<Result<i64, Errno>> {
        if self.sockets.get(&fd).is_some_and(|socket| socket.deferred) {
            return Some(Err(Errno::EAGAIN));
        }
        let now = self.now;
        let (connection, blocks) = match self.connection(fd) {
            Ok(found) => found,
            Err(errno) => return Some(Err(errno)),
        };
        let endpoint = &mut connection.endpoint;
        let read = if peek { endpoint.readable().min(len) } else { endpoint.read(now, len) };
        if read > 0 || len == 0 {
            return Some(Ok(read as i64));
        }
        if let Some(errno) = connection.take_failure() {
            return Some(Err(errno));
        }
        if connection.read_shut
            || connection.endpoint.at_eof()
            || connection.endpoint.state() == State::Closed
        {
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
        // A connection that never opened has sent nothing, whatever waited for it.
        if (*written == 0 || !connection.was_open())
            && let Some(errno) = connection.take_failure()
        {
            return Some(Err(errno));
        }
        let blocks = blocks && !dont_wait;
        match connection.endpoint.state() {
            State::Established | State::CloseWait => {}
            State::SynReceived if connection.endpoint.opened_early() => {}
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
        // Errors and hang-ups are reported whether asked for or not.
        let [_, _, err, hup, _] = POLL_BITS.map(|(_, bit)| bit);
        let events: Vec<i16> =
            fds.iter().map(|entry| self.readiness(entry.fd) & (entry.events | err | hup)).collect();
        let ready = events.iter().filter(|&&bits| bits != 0).count() as i64;
        if ready > 0 || deadline.is_some_and(|at| at <= self.now) {
            return Some(Returned { result: Ok(ready), output: Output::Events(events) });
        }
        None
    }

    /// Readiness of a socket that poll reports, in Linux's bits.
    fn readiness(&self, fd: i32) -> i16 {
        let [into, out, err, hup, rdhup] = POLL_BITS.map(|(_, bit)| bit);
        let Some(socket) = self.sockets.get(&fd) else { return INVALID };
        let index = match socket.kind {
            Kind::Fresh if socket.deferred => return out,
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
        let eof = endpoint.peer_closed() || state == State::Closed || connection.read_shut;
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
        connection.read_shut |= read;
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
        if option == SocketOption::FastOpenKey {
            let OptionValue::Text(key) = &value else { return Err(Errno::EINVAL) };
            let keys = super::fast_open::keys(&bytes_of(key)).ok_or(Errno::EINVAL)?;
            self.socket(fd)?.settings.fast_open_keys = Some(keys);
            return Ok(0);
        }
        let fast_open = self.profile.spec().fast_open;
        let cc = match &value {
            OptionValue::Text(name) => self.congestion_control(name),
            _ => None,
        };
        let socket = self.sockets.get_mut(&fd).ok_or(Errno::EBADF)?;
        let fresh = !matches!(socket.kind, Kind::Connected(_));
        let settings = &mut socket.settings;
        let mut lower_mss = None;
        match (option, value) {
            (SocketOption::SendBuffer, OptionValue::Number(bytes)) => {
                settings.socket.sndbuf = Some(bytes.max(0) as u64);
            }
            (SocketOption::ReceiveBuffer, OptionValue::Number(bytes)) => {
                settings.socket.rcvbuf = Some(bytes.max(0) as u64);
            }
            (SocketOption::MaxSegment, OptionValue::Number(mss)) if fresh && (88..=65_495).contains(&mss) => {
                settings.mss = Some(mss as u16);
            }
            (SocketOption::Congestion, OptionValue::Text(_)) if fresh => {
                settings.cc = Some(cc.ok_or(Errno::ENOENT)?);
            }
            (SocketOption::RemoteUdpPort, OptionValue::Number(port)) => {
                let may = matches!(socket.kind, Kind::Fresh);
                settings.udp_port = self.tunnel.checked(self.profile.spec(), may, port)?;
            }
            (SocketOption::UseMinMtu, OptionValue::Number(on)) => settings.min_mtu = on != 0,
            (SocketOption::FunctionBlock, OptionValue::Text(name)) => {
                let stack = match self.profile.spec().family {
                    Family::FreeBsd => "freebsd",
                    Family::FreeBsdRack => "rack",
                    _ => return Err(Errno::ENOPROTOOPT),
                };
                if name != stack {
                    return Err(Errno::ENOENT);
                }
            }
            (SocketOption::MaxSegment, OptionValue::Number(mss)) if !fresh => lower_mss = Some(mss),
            (SocketOption::Linger, OptionValue::Linger(on, seconds)) => settings.linger = Some((on, seconds)),
            (SocketOption::NoDelay, OptionValue::Number(on)) => settings.no_delay = on != 0,
            (SocketOption::ReuseAddr, OptionValue::Number(on)) => settings.reuse[0] = on != 0,
            (SocketOption::ReusePort, OptionValue::Number(on)) => settings.reuse[1] = on != 0,
            (option, OptionValue::Number(value)) if option.is_keep_alive() => {
                settings.keep_alive.set(self.profile.spec().family, option, value)?;
            }
            (SocketOption::FastOpen, OptionValue::Number(value)) if fresh && value >= 0 => {
                match fast_open.style {
                    Style::None => return Err(Errno::ENOPROTOOPT),
                    Style::FreeBsd if !fast_open.client && !fast_open.server => return Err(Errno::EPERM),
                    _ => settings.fast_open = value,
                }
            }
            (SocketOption::FastOpenConnect, OptionValue::Number(on))
                if fresh && fast_open.style == Style::Linux =>
            {
                if !fast_open.client {
                    return Err(Errno::EOPNOTSUPP);
                }
                settings.fast_open_connect = on != 0;
            }
            (SocketOption::SynCount, OptionValue::Number(count)) if (1..=127).contains(&count) => {
                settings.syn_retries = Some(count as usize);
            }
            // No router is modelled that would ask for smaller packets, or look at the type of service.
            (SocketOption::MtuDiscovery | SocketOption::TypeOfService, OptionValue::Number(_)) => {}
            _ => return Err(Errno::EINVAL),
        }
        if let Kind::Connected(index) = socket.kind {
            self.connections[index].settings = self.sockets[&fd].settings.clone();
            return self.apply_option(index, option, lower_mss);
        }
        Ok(0)
    }

    /// Hands an open connection an option that was set on its socket, of TCP_MAXSEG the lower value.
    fn apply_option(
        &mut self,
        index: usize,
        option: SocketOption,
        lower_mss: Option<i64>,
    ) -> Result<i64, Errno> {
        self.apply(index);
        if let Some(mss) = lower_mss {
            let now = self.now;
            let lowered = self.connections[index].endpoint.lower_mss(now, mss);
            return if lowered { Ok(0) } else { Err(Errno::EINVAL) };
        }
        if option.is_keep_alive() {
            self.apply_keep_alive(index);
        }
        if option == SocketOption::ReceiveBuffer {
            let settings = &self.connections[index].settings.socket;
            let (_, (bytes, _)) = self.profile.buffers(settings);
            self.connections[index].endpoint.set_receive_buffer(bytes);
        }
        Ok(0)
    }

    /// Hands a connection the options that work while it is open.
    fn apply(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.endpoint.set_no_delay(connection.settings.no_delay);
        if let Some(retries) = connection.settings.syn_retries {
            connection.endpoint.set_syn_retries(retries);
        }
        if connection.settings.socket.sndbuf.is_some() {
            let ((bytes, _), _) = self.profile.buffers(&connection.settings.socket);
            connection.endpoint.set_send_buffer(bytes);
        }
    }

    fn get_option(&mut self, fd: i32, option: SocketOption) -> Result<OptionValue, Errno> {
        let cc = self.cc.clone();
        let mss = self.mss;
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
            SocketOption::FastOpen => settings.fast_open,
            SocketOption::FastOpenConnect => i64::from(settings.fast_open_connect),
            SocketOption::ReuseAddr => i64::from(settings.reuse[0]),
            SocketOption::ReusePort => i64::from(settings.reuse[1]),
            SocketOption::RemoteUdpPort if self.tunnel.known_to(self.profile.spec()) => {
                i64::from(settings.udp_port)
            }
            _ if option.is_keep_alive() => {
                return settings.keep_alive.get(self.profile.spec(), option).map(OptionValue::Number);
            }
            // Not modelled: the values of a new socket.
            SocketOption::Cork | SocketOption::UserTimeout => 0,
            SocketOption::MaxSegment => match socket.kind {
                Kind::Connected(index) => i64::from(self.connections[index].endpoint.payload()),
                _ => i64::from(settings.mss.unwrap_or(mss)),
            },
            SocketOption::ReceiveBuffer => match socket.kind {
                Kind::Connected(index) => self.connections[index].endpoint.receive_buffer() as i64,
                _ => self.profile.buffers(&settings.socket).1.0 as i64,
            },
            SocketOption::SendBuffer => match socket.kind {
                Kind::Connected(index) => {
                    let now = self.now;
                    self.connections[index].endpoint.info(now).send_buffer as i64
                }
                _ => self.profile.buffers(&settings.socket).0.0 as i64,
            },
            SocketOption::Error => match socket.kind {
                Kind::Connected(index) => {
                    let connection = &mut self.connections[index];
                    // Linux tells of an error that has not ended the connection, too, and forgets it.
                    let soft = self.profile.spec().family == Family::Linux;
                    let take_soft = |c: &mut Connection| c.endpoint.take_soft_error().map(super::errno_of);
                    let errno =
                        connection.take_failure().or_else(|| if soft { take_soft(connection) } else { None });
                    errno.map_or(0, |errno| i64::from(errno.0))
                }
                _ => 0,
            },
            _ => return Err(Errno::EINVAL),
        };
        Ok(OptionValue::Number(number))
    }
}
