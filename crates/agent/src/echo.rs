//! ICMP echoes (RFC 792, of IPv6 RFC 4443): the other end's kernel answers.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
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

/// Types of a request and of its reply, of ICMP and of ICMPv6.
const ECHO: [u8; 2] = [8, 0];
const ECHO_V6: [u8; 2] = [128, 129];
const ECHO_HEADER: usize = 8;

/// Round-trip times of `count` echoes, ns; those without a reply within a second after the last are left out.
///
/// # Errors
/// As the system says.
pub(crate) fn ping(to: IpAddr, count: u32, interval_ns: u64) -> io::Result<Vec<u64>> {
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
    echoes(task.target, source, task.stop_ns, 0, metrics)
}

/// Sends requests up to `until`, and notes when replies come, `linger` longer at most.
fn echoes(
    target: IpAddr,
    mut source: Datagrams,
    until: u64,
    linger: u64,
    metrics: &Metrics,
) -> io::Result<()> {
    // Told apart from others of this process, and as far as that goes of this host.
    static FLOWS: AtomicU16 = AtomicU16::new(0);
    let identifier = (std::process::id() as u16).wrapping_add(FLOWS.fetch_add(1, Ordering::Relaxed));
    let clock = &metrics.clock;
    let protocol = if target.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
    let target = SocketAddr::new(target, 0);
    let mut socket = Socket::new(Domain::for_address(target), Type::RAW, Some(protocol))?;
    socket.connect(&target.into())?;
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
            match socket.send(&request(target.is_ipv4(), identifier, which, probe.payload)) {
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
        if let Some(which) = reply(target.is_ipv4(), &packet[..length], identifier)
            && let Some((number, asked)) = sent.remove(&which)
        {
            metrics.arrived(number);
            metrics.sample(now, "probe-rtt", now - asked);
            metrics.took(u64::from(source.payload()));
        }
    }
}

/// An echo request with its checksum (RFC 1071); that of ICMPv6 the system writes (RFC 3542 section 3.1).
fn request(version4: bool, identifier: u16, number: u16, payload: u32) -> Vec<u8> {
    let mut packet = vec![0; ECHO_HEADER + payload as usize];
    let [kind, _] = if version4 { ECHO } else { ECHO_V6 };
    packet[0] = kind;
    packet[4..6].copy_from_slice(&identifier.to_be_bytes());
    packet[6..8].copy_from_slice(&number.to_be_bytes());
    let mut sum: u32 = u32::from(kind) << 8;
    sum += u32::from(identifier) + u32::from(number);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    packet[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// Returns the number of the request of ours that what came replies to. Of IPv4 the whole packet comes, of IPv6 what is in it.
fn reply(version4: bool, packet: &[u8], identifier: u16) -> Option<u16> {
    let header = if version4 { usize::from(packet.first()? & 15) * 4 } else { 0 };
    let [_, kind] = if version4 { ECHO } else { ECHO_V6 };
    let message = packet.get(header..)?;
    let word = |place: usize| Some(u16::from_be_bytes([*message.get(place)?, *message.get(place + 1)?]));
    (message.first() == Some(&kind) && word(4)? == identifier).then(|| word(6))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_either_version_is_known_by_its_identifier() {
        for version4 in [true, false] {
            let asked = request(version4, 7, 9, 56);
            assert_eq!((asked[0], asked.len()), (if version4 { 8 } else { 128 }, 64));
            // The replier copies all but the type; the kernel hands IPv4's header up as well.
            let mut came = asked;
            came[0] = if version4 { 0 } else { 129 };
            let came = [if version4 { vec![0x45; 20] } else { Vec::new() }, came].concat();
            assert_eq!(reply(version4, &came, 7), Some(9));
            assert_eq!(reply(version4, &came, 8), None, "somebody else's");
            assert_eq!(reply(version4, &came[..came.len() - 60], 7), None, "cut short");
        }
    }
}
