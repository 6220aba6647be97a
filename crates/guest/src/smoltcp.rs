//! smoltcp as a guest: unmodified, with its defaults. One interface and one socket for each end of a connection.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpListenEndpoint};

use crate::{Apart, Ecn, Guest, GuestEvent, GuestStack, Kind, Nanos, Observed, Setup};

/// Version of smoltcp that is built in.
pub const VERSION: &str = "0.12.0";

/// smoltcp in the catalogue.
pub const STACK: GuestStack = GuestStack {
    name: "smoltcp-0.12.0",
    family: "smoltcp",
    cc: &["cubic", "reno", "none"],
    kind: Kind::Packets,
    payload: [88, 1460],
    ecn: false,
    sysctls: false,
    buffers: true,
    boot: &Apart(|setup| Box::new(Smoltcp::new(setup))),
};

/// Buffers of a socket where the flow sets none, bytes: what a window holds that is not scaled. smoltcp has no default.
const BUFFER: u64 = 65_535;
/// Largest buffer: beyond it smoltcp refuses a window (RFC 7323 section 2.3).
const LARGEST_BUFFER: u64 = 1 << 30;
/// Headers of IPv4 and TCP, bytes.
const HEADERS: usize = 40;
/// smoltcp's clock has microseconds.
const TICK: Nanos = 1000;

/// One end of a connection of smoltcp.
struct Smoltcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    wire: Wire,
    now: Nanos,
    was_open: bool,
    is_finished: bool,
    /// The other end has ended its stream.
    has_ended: bool,
    written: u64,
    failure: Option<&'static str>,
}

/// Interface's device: packets on their way to and from the engine.
struct Wire {
    arrived: Option<Vec<u8>>,
    leaving: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Arrived(Vec<u8>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, work: F) -> R {
        work(&self.0)
    }
}

struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, work: F) -> R {
        let mut packet = vec![0; len];
        let result = work(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Leaving<'_>)> {
        Some((Arrived(self.arrived.take()?), Leaving(&mut self.leaving)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.leaving))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

fn instant(now: Nanos) -> Instant {
    Instant::from_micros((now / TICK) as i64)
}

fn buffer(bytes: Option<u64>) -> SocketBuffer<'static> {
    SocketBuffer::new(vec![0; bytes.unwrap_or(BUFFER).clamp(1, LARGEST_BUFFER) as usize])
}

impl Smoltcp {
    fn new(setup: &Setup<'_>) -> Smoltcp {
        let mtu = usize::from(setup.mss()) + HEADERS;
        let mut wire = Wire { arrived: None, leaving: VecDeque::new(), mtu };
        let mut config = Config::new(HardwareAddress::Ip);
        let [a, b, c, d, e, f, g, h, ..] = setup.seed;
        config.random_seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let mut interface = Interface::new(config, &mut wire, instant(setup.now));
        let address = |address: Ipv4Addr| IpAddress::Ipv4(address);
        interface.update_ip_addrs(|all| {
            // One network: every host is reached without a route. There is room for one.
            let _ = all.push(IpCidr::new(address(setup.local.0), 8));
        });
        let mut socket = Socket::new(buffer(setup.receive_buffer), buffer(setup.send_buffer));
        socket.set_congestion_control(match setup.cc {
            "reno" => CongestionControl::Reno,
            "none" => CongestionControl::None,
            _ => CongestionControl::Cubic,
        });
        let refused = if setup.opening {
            let remote = (address(setup.remote.0), setup.remote.1);
            socket.connect(interface.context(), remote, setup.local.1).is_err()
        } else {
            socket.listen(IpListenEndpoint::from(setup.local.1)).is_err()
        };
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Smoltcp {
            interface,
            sockets,
            handle,
            wire,
            now: setup.now,
            was_open: false,
            is_finished: false,
            has_ended: false,
            written: 0,
            failure: refused.then_some("smoltcp refused the socket's address"),
        }
    }

    fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Keeps in mind what the state says of the connection, which a later one does not.
    fn note_state(&mut self) {
        match self.socket().state() {
            State::Established | State::FinWait1 | State::FinWait2 => self.was_open = true,
            State::CloseWait | State::Closing | State::LastAck | State::TimeWait => {
                (self.was_open, self.has_ended) = (true, true);
            }
            State::Closed if !self.has_ended => {
                self.failure = self.failure.or(Some("reset by the other end"));
            }
            State::Closed | State::Listen | State::SynSent | State::SynReceived => {}
        }
    }
}

impl Guest for Smoltcp {
    fn handle(&mut self, now: Nanos, packet: &[u8], _ecn: Ecn) {
        self.now = now;
        self.wire.arrived = Some(packet.to_vec());
        self.interface.poll_ingress_single(instant(now), &mut self.wire, &mut self.sockets);
        self.note_state();
    }

    fn handle_timeout(&mut self, now: Nanos) {
        self.now = now;
    }

    fn poll_timeout(&mut self) -> Option<Nanos> {
        let at = self.interface.poll_at(instant(self.now), &self.sockets)?;
        // What is due has been sent by now: the next look is a tick later.
        Some((at.total_micros().max(0) as Nanos * TICK).max(self.now / TICK * TICK + TICK))
    }

    fn poll_transmit(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        self.now = now;
        if self.wire.leaving.is_empty() {
            self.interface.poll_egress(instant(now), &mut self.wire, &mut self.sockets);
            self.note_state();
        }
        *buffer = self.wire.leaving.pop_front()?;
        Some(Ecn::NotEct)
    }

    fn is_open(&self) -> bool {
        self.was_open && self.socket().state() != State::Closed
    }

    fn write(&mut self, _now: Nanos, bytes: u64) -> u64 {
        let taken = self.socket_mut().send(|room| {
            let taken = room.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            (taken, taken as u64)
        });
        let taken = taken.unwrap_or(0);
        self.written += taken;
        taken
    }

    fn is_writable(&self) -> bool {
        self.socket().can_send()
    }

    fn finish(&mut self, _now: Nanos) {
        if !std::mem::replace(&mut self.is_finished, true) {
            self.socket_mut().close();
        }
    }

    fn readable(&self) -> u64 {
        self.socket().recv_queue() as u64
    }

    fn read(&mut self, _now: Nanos, most: u64) -> u64 {
        let mut read = 0;
        // Two pieces where the buffer's end is between them.
        for _ in 0..2 {
            let more = self.socket_mut().recv(|bytes| {
                let taken = bytes.len().min(usize::try_from(most - read).unwrap_or(usize::MAX));
                (taken, taken as u64)
            });
            read += more.unwrap_or(0);
        }
        read
    }

    fn is_at_end(&self) -> bool {
        self.has_ended && self.readable() == 0
    }

    fn failure(&self) -> Option<&str> {
        self.failure
    }

    fn observe(&self) -> Observed {
        let socket = self.socket();
        Observed {
            acknowledged: Some(self.written - (socket.send_queue() as u64).min(self.written)),
            buffer: Some(socket.send_capacity() as u64),
            written: self.written,
            ..Observed::default()
        }
    }

    fn poll_event(&mut self) -> Option<GuestEvent> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_version_that_is_built_in() {
        let needed = format!("smoltcp = {{ version = \"={VERSION}\"");
        assert!(include_str!("../Cargo.toml").contains(&needed), "{needed}");
        assert_eq!(STACK.name, format!("smoltcp-{VERSION}"));
    }

    #[test]
    fn a_socket_that_nobody_listens_at_is_a_failure_once_it_is_reset() {
        let mut ends = [true, false].map(|opening| {
            let setup = Setup { opening, cc: "reno", seed: [opening.into(); 32], ..Setup::default() };
            // The other end listens at another port.
            let (local, remote) =
                if opening { (setup.local, setup.remote) } else { ((setup.remote.0, 9), setup.local) };
            Smoltcp::new(&Setup { local, remote, ..setup })
        });
        for (from, to) in [(0, 1), (1, 0)] {
            let mut packet = Vec::new();
            assert_eq!(ends[from].poll_transmit(1000, &mut packet), Some(Ecn::NotEct));
            assert_eq!(ends[from].poll_transmit(1000, &mut Vec::new()), None);
            ends[to].handle(1000, &packet, Ecn::NotEct);
        }
        assert_eq!(ends[0].failure(), Some("reset by the other end"));
        assert!(!ends[0].is_open() && !ends[0].is_at_end() && ends[1].failure().is_none());
    }
}
