//! Ends of flows of guests, transport protocols without I/O that the simulator has in virtual time: here over this host's
//! datagrams, by this host's clock.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;

use ::guest::{Ecn, Host, Kind, Setup};
use apps::{End, Nanos};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::{Error, Result};
use crate::metrics::{Metrics, Row};
use crate::order::{Stack, Task};
use crate::sys::{self, Wait};

/// Buffers of a socket, bytes: no burst is lost at its ends.
const BUFFER: usize = 4 << 20;

/// Number of datagrams taken before timers are looked at.
const BATCH: usize = 64;

/// One end of a flow.
struct Line {
    own: ::guest::End,
    app: Box<dyn End>,
    socket: UdpSocket,
    metrics: Metrics,
    opening: bool,
    /// Time of the run when the application is told to stop, in ns.
    stop: Nanos,
    stopped: bool,
    /// Whether all that the other end wrote was read.
    is_over: bool,
    last_read: Nanos,
    /// Datagram that is sent.
    buffer: Vec<u8>,
    /// ECN field that the socket sends.
    ecn: Ecn,
    /// Number of datagrams sent.
    sent: u64,
    interval: Nanos,
    /// Time of the next look at the guest, once its connection is open.
    look: Nanos,
}

/// The end of a flow that opens it, or accepts it; its socket takes datagrams when this returns. The application is told to
/// stop at `stop`.
///
/// # Errors
/// This agent has no such guest, or the system refuses.
pub(crate) fn work(
    app: Box<dyn End>,
    stack: &Stack,
    task: &Task,
    metrics: Metrics,
    opening: bool,
    stop: Nanos,
) -> Result<Box<dyn FnOnce() -> Result<()> + Send>> {
    let known = ::guest::find(&stack.stack).filter(|known| known.kind == Kind::Datagrams);
    let known = known.ok_or_else(|| Error::NoGuest(stack.stack.clone()))?;
    let socket = bind(task, opening)?;
    let (stack, task) = (stack.clone(), task.clone());
    Ok(Box::new(move || {
        // Both ends are there at once, as in the simulator: what comes before waits in the socket.
        metrics.clock.sleep_until(task.start_ns as i64);
        if opening {
            metrics.opens();
        }
        let now = metrics.clock.now_ns();
        let side = usize::from(!opening);
        let cc = task.cc.as_deref().filter(|cc| known.cc.contains(cc)).unwrap_or(known.cc[0]);
        let seed = ::guest::seed(task.seed, task.repeat, ::guest::purpose(opening), &task.flow);
        let setup = Setup { opening, cc, seed, payload: stack.payload[side], now, ..Setup::default() };
        let machine = known.boot.boot(&Host { now, ..Host::default() });
        let guest = machine.and_then(|mut machine| machine.open(&setup)).map_err(Error::Guest)?;
        let line = Line {
            own: ::guest::End::new(guest, stack.marks[side]),
            app,
            socket,
            metrics,
            opening,
            stop,
            stopped: false,
            is_over: false,
            last_read: now,
            buffer: Vec::new(),
            ecn: Ecn::NotEct,
            sent: 0,
            interval: stack.interval_ns,
            look: now,
        };
        line.carry_out()
    }))
}

/// The socket of one end, which hears nobody but the other.
fn bind(task: &Task, opening: bool) -> io::Result<UdpSocket> {
    let mut ends = [(task.source, task.source_port), (task.target, task.target_port)].map(SocketAddr::from);
    if !opening {
        ends.reverse();
    }
    let [own, other] = ends;
    let socket = Socket::new(Domain::for_address(own), Type::DGRAM, Some(Protocol::UDP))?;
    sys::set_send_buffer(&socket, BUFFER)?;
    sys::set_receive_buffer(&socket, BUFFER)?;
    sys::never_fragment(&socket, own.is_ipv4())?;
    if own.is_ipv4() {
        socket.set_recv_tos_v4(true)?;
    } else {
        socket.set_recv_tclass_v6(true)?;
    }
    socket.bind(&own.into())?;
    socket.connect(&other.into())?;
    Ok(socket.into())
}

impl Line {
    /// Carries the end out until the run is over.
    fn carry_out(mut self) -> Result<()> {
        let (clock, end) = (self.metrics.clock.clone(), self.metrics.duration());
        let mut data = [0; 1 << 16];
        loop {
            for _ in 0..BATCH {
                match sys::receive_datagram(&self.socket, &mut data) {
                    Ok(Some((length, class))) => {
                        let now = clock.now_ns();
                        self.own.guest.handle(now, &data[..length], ecn_of(class));
                        self.service(now)?;
                    }
                    Ok(None) => break,
                    // Nobody listens at the other end any more: what a network says too.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let now = clock.now_ns();
            if now >= end {
                return Ok(());
            }
            if self.own.guest.poll_timeout().is_some_and(|at| at <= now) {
                self.own.guest.handle_timeout(now);
            }
            self.service(now)?;
            if let Some(why) = self.own.guest.failure() {
                return Err(Error::Guest(why.to_owned()));
            }
            let look = self.own.guest.is_open().then_some(self.look);
            if look.is_some_and(|look| look <= now) {
                self.note(now);
            }
            let stop = (!self.stopped).then_some(self.stop);
            let times =
                [self.own.guest.poll_timeout(), self.app.due(), stop, look.map(|_| self.look), Some(end)];
            let due = times.into_iter().flatten().min().unwrap_or(end);
            let wait = Wait { socket: self.socket.as_raw_fd(), read: true, write: false };
            sys::wait(&[wait], Some(due.saturating_sub(clock.now_ns())))?;
        }
    }

    /// Lets the application work and sends what the guest wants to send, until neither does any more.
    fn service(&mut self, now: Nanos) -> io::Result<()> {
        loop {
            let worked = self.turn(now);
            if !self.send(now)? && !worked {
                break;
            }
        }
        while let Some(event) = self.own.guest.poll_event() {
            if self.opening {
                let written = self.own.guest.observe().written;
                self.metrics.happened(now, event.kind.as_str(), written, event.value);
            }
        }
        Ok(())
    }

    /// Turn of the application; returns whether it did something that may let the guest send.
    fn turn(&mut self, now: Nanos) -> bool {
        self.own.now = now;
        if !self.stopped && now >= self.stop {
            self.stopped = true;
            self.app.stop();
        }
        let (mut worked, before) = (false, self.own.bytes_read);
        if self.own.has_turns() {
            // Applications over a guest have nothing to tell but what is read.
            worked = self.app.turn(&mut &mut self.own, now, &mut Vec::new());
        }
        if self.own.bytes_read > before {
            self.last_read = self.metrics.took(self.own.bytes_read - before);
        }
        if !self.opening && !self.is_over && self.own.guest.is_at_end() {
            self.is_over = true;
            self.metrics.ended(self.last_read, now);
            self.own.guest.finish(now);
            worked = true;
        }
        worked
    }

    /// Sends whatever the guest has to send; returns whether there was anything.
    fn send(&mut self, now: Nanos) -> io::Result<bool> {
        let before = self.sent;
        self.buffer.clear();
        while let Some(ecn) = self.own.poll_datagram(now, &mut self.buffer) {
            if ecn != self.ecn {
                self.ecn = ecn;
                let socket = SockRef::from(&self.socket);
                match self.socket.local_addr()? {
                    SocketAddr::V4(_) => socket.set_tos_v4(ecn as u32)?,
                    SocketAddr::V6(_) => socket.set_tclass_v6(ecn as u32)?,
                }
            }
            match self.socket.send(&self.buffer) {
                Ok(_) => {}
                // Nobody listens any more, or the queue is full: what a network does too.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
            self.sent += 1;
            self.buffer.clear();
        }
        Ok(self.sent > before)
    }

    /// Notes what the guest says of itself.
    fn note(&mut self, now: Nanos) {
        self.look = (now / self.interval + 1) * self.interval;
        let seen = self.own.guest.observe();
        self.metrics.looked(Row {
            t_ns: now,
            cwnd_bytes: seen.cwnd,
            ssthresh_bytes: seen.ssthresh,
            srtt_ns: seen.srtt,
            inflight_bytes: seen.in_flight.unwrap_or(0),
            delivered_bytes: self.own.bytes_read,
            retransmits: seen.lost.unwrap_or(0),
            pacing_bps: seen.pacing_bps,
            rto_ns: seen.rto,
            send_window_bytes: seen.window,
            send_buffer_bytes: seen.buffer,
            state: seen.phase().map(|phase| phase.as_str()),
            sent_segments: seen.sent.unwrap_or(self.sent),
        });
    }
}

/// The ECN field of a byte of an IP header (RFC 3168 section 5).
fn ecn_of(class: u8) -> Ecn {
    [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(class & 3)]
}
