//! TCP in UDP, as FreeBSD 15 has it: the host's port, and a connection's port at the peer.

use tcp::stack::StackSpec;
use wire::segment::{IPV6_HEADER, TCP_HEADER};

use super::{Model, Settings};
use crate::errno::Errno;
use crate::script::UdpPorts;

/// Length of a header of UDP.
const UDP_HEADER: u32 = 8;
/// Packets of IPv6 that every link takes (RFC 8200 section 5).
const IPV6_MIN_MTU: u32 = 1280;

/// Settings of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tunnel {
    /// Port at which TCP in UDP is taken (net.inet.tcp.udp_tunneling_port). None: none.
    pub(super) port: Option<u16>,
    /// Bytes that it takes of a packet (net.inet.tcp.udp_tunneling_overhead).
    overhead: u32,
}

impl Default for Tunnel {
    fn default() -> Tunnel {
        Tunnel { port: None, overhead: UDP_HEADER }
    }
}

impl Tunnel {
    /// Whether the stack has TCP in UDP.
    pub(super) fn known_to(self, spec: &StackSpec) -> bool {
        spec.rules.udp_encapsulation
    }

    /// Sets a sysctl; false if it is none of these.
    pub(super) fn set(&mut self, spec: &StackSpec, name: &str, value: &str) -> bool {
        let (true, Ok(value)) = (self.known_to(spec), value.parse::<u32>()) else { return false };
        match name {
            "net.inet.tcp.udp_tunneling_port" => {
                self.port = u16::try_from(value).ok().filter(|&port| port > 0)
            }
            "net.inet.tcp.udp_tunneling_overhead" => self.overhead = value,
            _ => return false,
        }
        true
    }

    /// The port that a socket asks for, which must not have begun.
    pub(super) fn checked(self, spec: &StackSpec, fresh: bool, port: i64) -> Result<u16, Errno> {
        if !self.known_to(spec) {
            return Err(Errno::ENOPROTOOPT);
        }
        let port = u16::try_from(port).ok().filter(|&port| port == 0 || self.port.is_some());
        port.filter(|_| fresh).ok_or(Errno::EINVAL)
    }

    /// Ports with which packets to the peer's port leave. None: they are not in UDP.
    pub(super) fn ports(self, peer: u16) -> Option<UdpPorts> {
        let sport = self.port.filter(|_| peer > 0)?;
        Some(UdpPorts { sport, dport: peer })
    }

    /// Bytes that UDP takes of a packet to the peer's port.
    pub(super) fn overhead_of(self, peer: u16) -> u32 {
        if self.ports(peer).is_some() { self.overhead } else { 0 }
    }
}

impl Model {
    /// MSS that a socket's connection announces.
    pub(super) fn mss_of(&self, settings: &Settings) -> u16 {
        let interface = if settings.min_mtu {
            let least = IPV6_MIN_MTU - IPV6_HEADER - TCP_HEADER;
            self.mss.min(least as u16)
        } else {
            self.mss
        };
        let room = interface - self.tunnel.overhead_of(settings.udp_port) as u16;
        settings.mss.map_or(room, |own| own.min(room))
    }
}
