//! ICMP echoes (RFC 792): the other end's kernel answers.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use apps::Datagrams;
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::order::Task;
use crate::sys::{self, Wait};

/// Payload of an idle ping, as ping(8) has it.
const PAYLOAD: u32 = 56;

/// Time for which replies to the last idle ping are waited for, in ns.
const LINGER: u64 = 1_000_000_000;

const ECHO_REQUEST: u8 = 8;
const ECHO_HEADER: usize = 8;

/// Round-trip times of `count` echoes, ns; those without a reply within a second after the last are left out.
///
/// # Errors
/// As the system says.
pub(crate) fn ping(to: Ipv4Addr, count: u32, interval_ns: u64) -> io::Result<Vec<u64>> {
    let clock = Arc::new(Clock::default());
    clock.begin(loadlatency::sys::monotonic_ns());
    let metrics = Metrics::new("", "", [0, 0], 0, &clock);
    let until = u64::from(count).saturating_mul(interval_ns);
    echoes(to, Datagrams::every(interval_ns.max(1), PAYLOAD, true), until, LINGER, &metrics)?;
    Ok(metrics.values("probe-rtt"))
}

/// The probes of a flow, from now to its stop.
///
/// # Errors
/// As the system says.
pub(crate) fn probe(task: &Task, source: Datagrams, metrics: &Metrics) -> io::Result<()> {
    let IpAddr::V4(target) = task.target else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "app ping: expected an IPv4 address"));
    };
    echoes(target, source, task.stop_ns, 0, metrics)
}

/// Sends requests until then, and notes when replies come, `linger` longer at most.
fn echoes(
    target: Ipv4Addr,
    mut source: Datagrams,
    until: u64,
    linger: u64,
    metrics: &Metrics,
) -> io::Result<()> {
    // Told apart from others of this process, and as far as that goes of this host.
    static FLOWS: AtomicU16 = AtomicU16::new(0);
    let identifier = (std::process::id() as u16).wrapping_add(FLOWS.fetch_add(1, Ordering::Relaxed));
    let clock = &metrics.clock;
    let mut socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.connect(&SocketAddrV4::new(target, 0).into())?;
    socket.set_nonblocking(true)?;
    let mut sent: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    let mut due = clock.now_ns();
    let end = until.saturating_add(linger);
    let mut packet = vec![0; 1 << 16];
    loop {
        let now = clock.now_ns();
        if now >= end || (sent.is_empty() && due >= until) {
            return Ok(());
        }
        if due < until && now >= due {
            let probe = source.send(due);
            due = probe.next;
            let which = probe.number as u16;
            sent.insert(which, (probe.number, now));
            match socket.send(&request(identifier, which, probe.payload)) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => metrics.sent(),
            }
        }
        let next = if due < until { due } else { end };
        let wait = Wait { socket: socket.as_raw_fd(), read: true, write: false };
        sys::wait(&[wait], Some(next.saturating_sub(clock.now_ns())))?;
        let length = match socket.read(&mut packet) {
            Ok(length) => length,
            Err(error) if loadlatency::sys::would_block(&error) => continue,
            Err(error) => return Err(error),
        };
        let now = clock.now_ns();
        if let Some(which) = reply(&packet[..length], identifier)
            && let Some((number, asked)) = sent.remove(&which)
        {
            metrics.arrived(number);
            metrics.sample(now, "probe-rtt", now - asked);
            metrics.took(u64::from(source.payload()));
        }
    }
}

/// An echo request with its checksum (RFC 1071).
fn request(identifier: u16, number: u16, payload: u32) -> Vec<u8> {
    let mut packet = vec![0; ECHO_HEADER + payload as usize];
    packet[0] = ECHO_REQUEST;
    packet[4..6].copy_from_slice(&identifier.to_be_bytes());
    packet[6..8].copy_from_slice(&number.to_be_bytes());
    let mut sum: u32 = u32::from(ECHO_REQUEST) << 8;
    sum += u32::from(identifier) + u32::from(number);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    packet[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// The number of the request of ours that an IPv4 packet replies to.
fn reply(packet: &[u8], identifier: u16) -> Option<u16> {
    let header = usize::from(packet.first()? & 15) * 4;
    let message = packet.get(header..)?;
    let word = |place: usize| Some(u16::from_be_bytes([*message.get(place)?, *message.get(place + 1)?]));
    (message.first() == Some(&0) && word(4)? == identifier).then(|| word(6))?
}
