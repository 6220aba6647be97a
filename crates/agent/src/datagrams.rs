//! Flows of datagrams: each says its number and when it was sent.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use apps::{Datagrams, EcnField, STAMP};
use socket2::{Domain, Protocol, Socket, Type};

use crate::metrics::Metrics;
use crate::order::Task;
use crate::sys;

/// Receive buffer: a burst must not be lost at its end.
const BUFFER: usize = 4 << 20;

/// Sends the datagrams of a flow at their times, from its start to its stop.
///
/// # Errors
/// As the system says.
pub(crate) fn send(task: &Task, mut source: Datagrams, metrics: &Metrics) -> io::Result<()> {
    let clock = &metrics.clock;
    clock.sleep_until(task.start_ns as i64);
    metrics.opens();
    let own = SocketAddr::new(task.source, task.source_port);
    let socket = Socket::new(Domain::for_address(own), Type::DGRAM, Some(Protocol::UDP))?;
    // The ECN field of the IP header (RFC 3168 section 5, RFC 9331).
    let field = match source.ecn() {
        EcnField::Off => 0,
        EcnField::Ect0 => 2,
        EcnField::Ect1 => 1,
    };
    if own.is_ipv4() {
        socket.set_tos_v4(field)?
    } else {
        socket.set_tclass_v6(field)?
    }
    socket.bind(&own.into())?;
    socket.connect(&SocketAddr::new(task.target, task.target_port).into())?;
    let socket: UdpSocket = socket.into();
    let mut payload = vec![0; source.payload() as usize];
    let mut at = task.start_ns;
    while at < task.stop_ns {
        clock.sleep_until(at as i64);
        let sent = source.send(at);
        payload[..8].copy_from_slice(&sent.number.to_be_bytes());
        payload[8..STAMP].copy_from_slice(&clock.now_ns().to_be_bytes());
        match socket.send(&payload[..sent.payload as usize]) {
            Ok(_) => metrics.sent(),
            // Nobody listened, or the queue was full: what a network does too.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => metrics.sent(),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => metrics.sent(),
            Err(error) => return Err(error),
        }
        at = sent.next;
    }
    Ok(())
}

/// The receiving socket of a flow, which hears nobody but its sender.
///
/// # Errors
/// As the system says.
pub(crate) fn bind(task: &Task) -> io::Result<UdpSocket> {
    let own = SocketAddr::new(task.target, task.target_port);
    let socket = Socket::new(Domain::for_address(own), Type::DGRAM, Some(Protocol::UDP))?;
    sys::set_receive_buffer(&socket, BUFFER)?;
    socket.bind(&own.into())?;
    socket.connect(&SocketAddr::new(task.source, task.source_port).into())?;
    Ok(socket.into())
}

/// Takes datagrams as long as there are any.
///
/// # Errors
/// As the system says.
pub(crate) fn receive(socket: &UdpSocket, metrics: &Metrics) -> io::Result<()> {
    let mut data = [0; 1 << 16];
    loop {
        let length = match socket.recv(&mut data) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let word = |place: usize| data[place..place + 8].try_into().map_or(0, u64::from_be_bytes);
        if length < STAMP || !metrics.arrived(word(0)) {
            continue;
        }
        let now = metrics.took(length as u64);
        metrics.sample(now, "one-way-delay", now.saturating_sub(word(8)));
    }
}
