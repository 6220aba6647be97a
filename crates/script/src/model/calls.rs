//! Socket calls on the model, with Linux's semantics.

use tcp::fast_open::Attempt;
use tcp::stack::Family;
use tcp::{Endpoint, Nanos, State};
use wire::codec::Ends;

use super::{Connection, Kind, Look, Model, Reports, Settings, Socket, Times, Waiting};
use crate::errno::Errno;
use crate::message::{ReceiveFlags, SendFlags};
use crate::packet::{LOCAL, PORT, REMOTE};
use crate::script::{Call, O_NONBLOCK, O_RDWR, OptionValue, POLL_BITS, PollFd};
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
            Call::Read { fd, len, flags } => return self.read(fd, len, flags).map(Returned::from),
            Call::ReadMessage { fd, len, flags, .. } => return self.read_message(fd, len, flags),
            Call::Write { fd, len, flags } | Call::SendTo { fd, len, flags } => {
                let to = matches!(waiting.call, Call::SendTo { .. });
                return self.send_data(fd, len, flags, (to, first), &mut waiting.written).map(Returned::from);
            }
            Call::EpollCreate => Ok(self.epoll_create()),
            Call::EpollControl { epoll, operation, fd, event } => {
                self.epoll_control(epoll, operation, fd, event)
            }
            Call::EpollWait { epoll, most, .. } => return self.epoll_wait(epoll, most, waiting.deadline),
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
        let fd = self.free_descriptor();
        self.sockets.insert(fd, socket);
        fd
    }

    /// The lowest number that no descriptor has.
    pub(super) fn free_descriptor(&self) -> i32 {
        let free = |fd: &i32| !self.sockets.contains_key(fd) && !self.epolls.contains_key(fd);
        (3..).find(free).unwrap_or(3)
    }

    pub(super) fn socket(&mut self, fd: i32) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&fd).ok_or(Errno::EBADF)
    }

    /// The connection of a socket and whether calls on it block.
    pub(super) fn connection(&mut self, fd: i32) -> Result<(&mut Connection, bool), Errno> {
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
                self.connections[index].endpoint.note_accepted();
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
        let known = self.recall();
        let config = self.config(&settings, known);
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
            reports: Reports::default(),
            no_space: false,
            look: Look::FIRST,
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

    pub(super) fn read(&mut self, fd: i32, len: u64, flags: ReceiveFlags) -> Option<Result<i64, Errno>> {
        if self.sockets.get(&fd).is_some_and(|socket| socket.deferred) {
            return Some(Err(Errno::EAGAIN));
        }
        let now = self.now;
        let (connection, blocks) = match self.connection(fd) {
            Ok(found) => found,
            Err(errno) => return Some(Err(errno)),
        };
        let endpoint = &mut connection.endpoint;
        if flags.no_buffer && endpoint.readable() > 0 && len > 0 {
            return Some(Err(Errno::EFAULT));
        }
        let read = if flags.peek { endpoint.readable().min(len) } else { endpoint.read(now, len) };
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
        if blocks && !flags.dont_wait { None } else { Some(Err(Errno::EAGAIN)) }
    }

    /// A call that sends, to an address or not. None: the call blocks.
    fn send_data(
        &mut self,
        fd: i32,
        len: u64,
        flags: SendFlags,
        (to, first): (bool, bool),
        written: &mut u64,
    ) -> Option<Result<i64, Errno>> {
        let linux = self.profile.spec().family == Family::Linux;
        if !linux && (flags.more || flags.end_of_record || flags.zero_copy) {
            return Some(Err(Errno::EINVAL));
        }
        if flags.fast_open && flags.no_family {
            return Some(Err(Errno::EOPNOTSUPP));
        }
        let (fresh, deferred) = match self.sockets.get(&fd) {
            Some(Socket { kind: Kind::Fresh, deferred, .. }) => (true, *deferred),
            _ => (false, false),
        };
        let result = if deferred || fresh && to {
            let len = if flags.no_buffer { 0 } else { len };
            let fast_open = flags.fast_open || deferred;
            self.send_opening(fd, len, (flags.dont_wait, fast_open), written)
        } else if first && flags.fast_open && self.opens_already(fd) {
            Some(Err(Errno::EALREADY))
        } else {
            self.write(fd, len, flags, written)
        };
        if let Some(Ok(1..)) = result
            && let Ok((connection, _)) = self.connection(fd)
        {
            connection.note_write(flags);
        }
        result
    }

    fn write(
        &mut self,
        fd: i32,
        len: u64,
        flags: SendFlags,
        written: &mut u64,
    ) -> Option<Result<i64, Errno>> {
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
        let blocks = blocks && !flags.dont_wait;
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
            if flags.no_buffer && len > 0 {
                return Some(Err(Errno::EFAULT));
            }
            *written += connection.endpoint.write_with(len - *written, flags.more, flags.end_of_record);
            connection.no_space |= *written < len;
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
            fds.iter().map(|entry| self.polled(entry.fd) & (entry.events | err | hup)).collect();
        let ready = events.iter().filter(|&&bits| bits != 0).count() as i64;
        if ready > 0 || deadline.is_some_and(|at| at <= self.now) {
            return Some(Returned { result: Ok(ready), output: Output::Events(events) });
        }
        None
    }

    /// Readiness of a socket that poll reports, in Linux's bits.
    pub(super) fn readiness(&self, fd: i32) -> i16 {
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
        let fails = connection.failure().is_some() && !connection.told;
        bits |= if fails || connection.reports.waits() { err } else { 0 };
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
        if self.epoll_forget(fd) {
            return Ok(0);
        }
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
}
