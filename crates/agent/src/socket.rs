//! A connection of the kernel's as the socket of an application.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};

use apps::{HEADER, Message};
use socket2::{Domain, SockRef, Socket as Socket2, Type};

use crate::metrics::Metrics;
use crate::order::Task;
use crate::sys;

/// Bytes of one read, and the most of one write.
const READ: usize = 256 << 10;
const WRITE: usize = 4 << 20;

/// Bytes that a turn may write: the time is looked at in between, also where the socket takes everything.
const TURN: u64 = 4 << 20;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Opens the connection of a flow, from its own port or any. It is known when it was asked for.
///
/// # Errors
/// As the system says.
pub(crate) fn connect(task: &Task, own_port: bool, metrics: &Metrics) -> io::Result<TcpStream> {
    let target = SocketAddr::new(task.target, task.target_port);
    let socket = Socket2::new(Domain::for_address(target), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if let Some(cc) = &task.cc {
        loadlatency::sys::set_congestion_control(SockRef::from(&socket), cc)?;
    }
    if let Some(bytes) = task.sndbuf {
        sys::set_send_buffer(&socket, bytes)?;
    }
    let port = if own_port { task.source_port } else { 0 };
    socket.bind(&SocketAddr::new(task.source, port).into())?;
    if task.fast_open {
        sys::open_fast(&socket)?;
    }
    metrics.opens();
    socket.connect(&target.into())?;
    Ok(socket.into())
}

/// Listens for the connections of a flow.
///
/// # Errors
/// As the system says.
pub(crate) fn listen(task: &Task) -> io::Result<Listener> {
    let own = SocketAddr::new(task.target, task.target_port);
    let socket = Socket2::new(Domain::for_address(own), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if let Some(bytes) = task.rcvbuf {
        sys::set_receive_buffer(&socket, bytes)?;
    }
    socket.bind(&own.into())?;
    if task.fast_open {
        sys::accept_fast(&socket, BACKLOG)?;
    }
    socket.listen(BACKLOG)?;
    Ok(Listener { socket, source: task.source })
}

/// A listening socket of a flow.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket2,
    source: IpAddr,
}

impl Listener {
    /// The next connection from the flow's other host; others are closed.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn accept(&self) -> io::Result<TcpStream> {
        loop {
            match self.socket.accept() {
                Ok((socket, from)) if from.as_socket().is_some_and(|from| from.ip() == self.source) => {
                    return Ok(socket.into());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A connection, and what the driver of its end has to know of it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    metrics: Metrics,
    /// Bytes of messages that the kernel has not taken yet: they go before filler.
    said: Vec<u8>,
    filler: Vec<u8>,
    /// Payload that was read from the kernel and not by the end, as it may be the beginning of a message.
    ahead: Vec<u8>,
    block: Vec<u8>,
    /// Bytes that the turn may still write.
    turn: u64,
    full: bool,
    closed: bool,
    /// The connection may not be open yet: what is written first leaves with the SYN.
    opens: bool,
    /// The end has closed before the connection was open.
    closes_late: bool,
    eof: bool,
    error: Option<io::Error>,
    /// Bytes that came, and when the last were read.
    came: u64,
    last_read: Option<u64>,
}

impl Connection {
    /// Takes an open connection.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn new(stream: TcpStream, metrics: Metrics) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            metrics,
            said: Vec::new(),
            filler: Vec::new(),
            ahead: Vec::new(),
            block: vec![0; READ],
            turn: TURN,
            full: false,
            closed: false,
            opens: false,
            closes_late: false,
            eof: false,
            error: None,
            came: 0,
            last_read: None,
        })
    }

    /// [`Connection::new`] of a stream that was opened by [`connect`], with Fast Open or not.
    ///
    /// # Errors
    /// Error of the system, where the stream cannot be set up.
    pub(crate) fn opened(stream: TcpStream, metrics: Metrics, fast: bool) -> io::Result<Connection> {
        Ok(Connection { opens: fast, ..Connection::new(stream, metrics)? })
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = TURN;
        self.opens = self.opens && sys::is_opening(&self.stream);
        if self.closes_late && !self.opens {
            self.closes_late = false;
            self.shut();
        }
    }

    /// A turn is over: the SYN leaves without data, if none was written.
    pub(crate) fn end_turn(&mut self) {
        if self.opens {
            sys::send_nothing(&self.stream);
        }
    }

    /// Whether the turn ended before the socket was full.
    pub(crate) fn is_spent(&self) -> bool {
        self.turn == 0
    }

    /// Descriptor of the socket.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Whether the connection's end waits for room.
    pub(crate) fn is_full(&self) -> bool {
        self.full || self.closes_late
    }

    /// Whether the connection's end has closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether no more can come.
    pub(crate) fn has_ended(&self) -> bool {
        self.eof
    }

    /// Bytes that have come.
    pub(crate) fn came(&self) -> u64 {
        self.came
    }

    /// Time when the end last read something.
    pub(crate) fn last_read(&self) -> Option<u64> {
        self.last_read
    }

    /// Takes the error of the connection, once.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Looks what has come, as the end does not read: data, the end of the stream, an error. True if there was anything.
    pub(crate) fn look(&mut self) -> bool {
        let mut more = [0; HEADER];
        let missing = HEADER.saturating_sub(self.ahead.len());
        let count = self.receive(&mut more[..missing]);
        self.ahead.extend_from_slice(&more[..count]);
        count > 0 || self.eof
    }

    /// Reads what nobody wants, up to the end of the stream if it has come.
    pub(crate) fn skip(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        while self.receive(&mut block) > 0 {}
        self.block = block;
        self.ahead.clear();
    }

    /// Reads from the kernel what is there.
    fn receive(&mut self, into: &mut [u8]) -> usize {
        if self.eof || into.is_empty() {
            return 0;
        }
        loop {
            match (&self.stream).read(into) {
                Ok(0) => self.eof = true,
                Ok(count) => {
                    self.came += count as u64;
                    return count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => self.give_up(error),
            }
            return 0;
        }
    }

    fn shut(&mut self) {
        if let Err(error) = self.stream.shutdown(std::net::Shutdown::Write)
            && error.kind() != io::ErrorKind::NotConnected
        {
            self.give_up(error);
        }
    }

    fn give_up(&mut self, error: io::Error) {
        (self.eof, self.closed) = (true, true);
        self.error.get_or_insert(error);
    }

    /// Hands the kernel one piece; what it took of it, none if it is full.
    fn send(&mut self, bytes: usize) -> Option<usize> {
        let said = self.said.len().min(bytes);
        if said == 0 && self.filler.len() < bytes {
            self.filler.resize(bytes, 0);
        }
        let piece = if said > 0 { &self.said[..said] } else { &self.filler[..bytes] };
        loop {
            match (&self.stream).write(piece) {
                Ok(taken) => {
                    if said > 0 {
                        self.said.drain(..taken);
                    }
                    return Some(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // The SYN had no room for data.
                    let opens = self.opens && error.raw_os_error() == Some(libc::EINPROGRESS);
                    if error.kind() != io::ErrorKind::WouldBlock && !opens {
                        self.give_up(error);
                    }
                    return None;
                }
            }
        }
    }
}

impl apps::Socket for Connection {
    fn write(&mut self, bytes: u64) -> u64 {
        self.full = false;
        let most = if self.closed { 0 } else { bytes.min(self.turn) };
        let mut taken = 0;
        while taken < most {
            let piece = usize::try_from(most - taken).unwrap_or(WRITE).min(WRITE);
            // What a message says and the filler behind it leave as one write.
            if !self.said.is_empty() && piece > self.said.len() {
                self.said.resize(piece.min(READ), 0);
            }
            let Some(count) = self.send(piece) else {
                self.full = true;
                break;
            };
            taken += count as u64;
        }
        self.turn -= taken;
        taken
    }

    fn writable(&self) -> bool {
        !self.closed
    }

    fn read(&mut self, most: u64) -> u64 {
        let from_ahead = usize::try_from(most).unwrap_or(usize::MAX).min(self.ahead.len());
        self.ahead.drain(..from_ahead);
        let mut count = from_ahead as u64;
        if self.ahead.is_empty() {
            let mut block = std::mem::take(&mut self.block);
            let room = usize::try_from(most - count).unwrap_or(usize::MAX).min(block.len());
            count += self.receive(&mut block[..room]) as u64;
            self.block = block;
        }
        if count > 0 {
            self.last_read = Some(self.metrics.took(count));
        }
        count
    }

    fn at_end(&self) -> bool {
        self.eof && self.ahead.is_empty()
    }

    fn close(&mut self) {
        self.closed = true;
        self.full = false;
        // Until the connection is open Linux takes a shutdown for the end of it (inet_shutdown).
        self.closes_late = self.opens && sys::is_opening(&self.stream);
        if !self.closes_late {
            self.shut();
        }
    }

    fn say(&mut self, message: Message) {
        let (header, length) = message.encode();
        self.said.extend_from_slice(&header[..length]);
    }

    fn heard(&mut self) -> Option<Message> {
        self.look();
        match Message::decode(&self.ahead) {
            Ok(message) => message,
            Err(why) => {
                self.give_up(io::Error::new(io::ErrorKind::InvalidData, why));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use apps::Socket as _;

    use super::*;
    use crate::clock::Clock;
    use crate::sys::{Wait, wait};

    /// Makes both ends of a connection over loopback; the first one's send buffer is small.
    fn pair() -> [Connection; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        SockRef::from(&listener).set_recv_buffer_size(4096).expect("a buffer");
        let sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        SockRef::from(&sender).set_send_buffer_size(1 << 19).expect("a buffer");
        let (receiver, _) = listener.accept().expect("accepted");
        let clock = Arc::new(Clock::default());
        clock.begin(0);
        [sender, receiver].map(|stream| {
            Connection::new(stream, Metrics::new("f", "to", [0, 1], 1, &clock)).expect("a connection")
        })
    }

    fn until_readable(connection: &Connection) {
        let asked = Wait { socket: connection.descriptor(), read: true, write: false };
        wait(&[asked], Some(10_000_000_000)).expect("polled");
    }

    #[test]
    fn writes_fill_the_send_buffer() {
        let [mut sender, _receiver] = pair();
        let mut written = 0;
        while !sender.is_full() {
            sender.begin_turn();
            written += sender.write(4096);
        }
        // One that polls before each write is told of room only while a third of the buffer is free.
        let [mut polling, _other] = pair();
        let mut polled = 0;
        let room = |sender: &Connection| {
            let asked = Wait { socket: sender.descriptor(), read: false, write: true };
            wait(&[asked], Some(100_000_000)).expect("polled")[0].write
        };
        while room(&polling) {
            polling.begin_turn();
            polled += polling.write(4096);
        }
        assert!(written * 5 > polled * 6, "{written} and {polled}");
    }

    #[test]
    fn a_message_is_heard_where_it_was_said_and_is_payload() {
        let [mut sender, mut receiver] = pair();
        let first = Message::Request { bytes: 100, response: 7, last: false };
        let second = Message::Answer { read_at: 1 << 60 };
        sender.say(first);
        assert_eq!(sender.write(100), 100);
        sender.say(second);
        assert_eq!(sender.write(20), 20);
        sender.close();
        assert_eq!(sender.write(1), 0);
        until_readable(&receiver);
        assert_eq!(receiver.heard(), Some(first));
        assert_eq!(receiver.heard(), Some(first), "as nothing was read");
        assert_eq!(receiver.read(10), 10, "of what was looked at");
        assert_eq!(receiver.read(90), 90);
        assert_eq!(receiver.heard(), Some(second));
        assert_eq!(receiver.read(u64::MAX), 20);
        while !receiver.at_end() {
            assert_eq!(receiver.read(u64::MAX), 0);
        }
        assert_eq!(receiver.came(), 120);
    }

    #[test]
    fn what_was_written_before_a_close_arrives() {
        let [mut sender, mut receiver] = pair();
        let mut written = 0;
        while !sender.is_full() {
            sender.begin_turn();
            written += sender.write(10 << 20);
        }
        sender.close();
        let mut read = 0;
        while !receiver.at_end() {
            until_readable(&receiver);
            read += receiver.read(u64::MAX);
        }
        assert_eq!(read, written);
    }

    #[test]
    fn a_reset_is_an_error() {
        let [mut sender, receiver] = pair();
        sender.say(Message::Answer { read_at: 1 });
        sender.write(100);
        until_readable(&receiver);
        // It closes with data unread, which is a reset (RFC 9293, section 3.6.1).
        drop(receiver);
        until_readable(&sender);
        assert_eq!(sender.read(u64::MAX), 0);
        let error = sender.take_error().expect("an error");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(sender.at_end() && sender.is_closed());
    }
}
