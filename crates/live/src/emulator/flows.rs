//! Which packet belongs to which flow, and where in its stream.

use super::config::FlowKey;
use super::frame::{self, Headers, SYN};

/// Connections remembered at a time; more than that lose their place in the stream, and are looked up again.
const PLACES: usize = 4096;
/// Places in which a connection may be.
const PROBES: usize = 8;

/// The connections seen so far.
pub(crate) struct Flows {
    /// Keys with the number of the flow in the Scenario.
    keys: Vec<(u16, FlowKey)>,
    connections: Vec<Connection>,
    active: bool,
}

/// Direction of a connection.
#[derive(Clone, Copy, Default)]
struct Connection {
    /// Hash of the packets' headers; 0: none.
    hash: u64,
    owner: Option<Owner>,
    /// Sequence number of the first byte; None before a SYN.
    first: Option<u32>,
    /// Offset of the newest packet, for streams beyond 4 GB.
    newest: u64,
}

/// A flow, and the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Number of the flow in the Scenario.
    pub(crate) flow: u16,
    /// Whether the packet goes from the flow's `from` to its `to`.
    pub(crate) forward: bool,
}

impl Flows {
    /// Flows by their keys, with their numbers in the Scenario.
    pub(crate) fn new(keys: Vec<(u16, FlowKey)>) -> Flows {
        let active = !keys.is_empty();
        Flows { keys, connections: vec![Connection::default(); if active { PLACES } else { 0 }], active }
    }

    /// Whose packet it is, and how many payload bytes of the stream came before it, if it has payload.
    #[inline]
    pub(crate) fn find(&mut self, headers: &Headers, bytes: &[u8]) -> (Option<Owner>, Option<u64>) {
        if !self.active {
            return (None, None);
        }
        let start = headers.hash as usize % PLACES;
        let found = (start..start + PROBES)
            .map(|place| place % PLACES)
            .find(|&place| self.connections[place].hash == headers.hash);
        let place = found.unwrap_or_else(|| self.add(start, headers, bytes));
        let connection = &mut self.connections[place];
        if !headers.is_tcp() {
            return (connection.owner, None);
        }
        if headers.flags & SYN != 0 {
            connection.first = Some(headers.seq.wrapping_add(1));
            connection.newest = 0;
        }
        let offset = connection.first.filter(|_| headers.payload > 0).map(|first| {
            let step = headers.seq.wrapping_sub(first).wrapping_sub(connection.newest as u32) as i32;
            let offset = connection.newest.saturating_add_signed(i64::from(step));
            connection.newest = connection.newest.max(offset);
            offset
        });
        (connection.owner, offset)
    }

    #[cold]
    fn add(&mut self, start: usize, headers: &Headers, bytes: &[u8]) -> usize {
        let place = (start..start + PROBES)
            .map(|place| place % PLACES)
            .find(|&place| self.connections[place].hash == 0)
            .unwrap_or(start);
        let owner = self.owner(headers, bytes);
        self.connections[place] = Connection { hash: headers.hash, owner, first: None, newest: 0 };
        place
    }

    fn owner(&self, headers: &Headers, bytes: &[u8]) -> Option<Owner> {
        let (src, dst) = frame::addresses(bytes);
        let (sport, dport) = headers.ports;
        let port = |wanted: Option<u16>, port: u16| wanted.is_none_or(|wanted| wanted == port);
        self.keys.iter().find_map(|(flow, key)| {
            let forward =
                (key.src, key.dst) == (src, dst) && port(key.sport, sport) && port(key.dport, dport);
            let reverse =
                (key.src, key.dst) == (dst, src) && port(key.sport, dport) && port(key.dport, sport);
            // Echoes have no ports: other connections between their hosts are not theirs.
            let kind = key.dport.is_some() || headers.ports == (0, 0);
            (kind && (forward || reverse)).then_some(Owner { flow: *flow, forward })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::frame::IP;
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

    fn key(sport: Option<u16>, dport: Option<u16>) -> FlowKey {
        FlowKey { flow: "f".into(), src: A.into(), dst: B.into(), sport, dport }
    }

    /// A frame with a packet of a protocol, which begins with these ports.
    fn frame(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, ports: (u16, u16)) -> Vec<u8> {
        let mut bytes = vec![0; IP];
        bytes[IP - 2..].copy_from_slice(&[0x08, 0]);
        bytes.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
        bytes.extend(src.octets());
        bytes.extend(dst.octets());
        bytes.extend(ports.0.to_be_bytes());
        bytes.extend(ports.1.to_be_bytes());
        // TCP's header has five words.
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn echoes_own_what_has_no_ports_and_nothing_else() {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        const ICMP: u8 = 1;
        let mut flows = Flows::new(vec![(3, key(Some(40_000), Some(5201))), (4, key(None, None))]);
        let mut owner = |bytes: Vec<u8>| {
            let (owner, _) = flows.find(&Headers::read(&bytes).expect("a packet"), &bytes);
            owner.map(|owner| (owner.flow, owner.forward))
        };
        assert_eq!(owner(frame(A, B, TCP, (40_000, 5201))), Some((3, true)));
        assert_eq!(owner(frame(B, A, TCP, (5201, 40_000))), Some((3, false)));
        // An echo request begins with its type, 8, and its checksum.
        assert_eq!(owner(frame(A, B, ICMP, (0x800, 0x1234))), Some((4, true)));
        assert_eq!(owner(frame(B, A, ICMP, (0, 0x1234))), Some((4, false)));
        // The control connection of a tool, and a datagram of somebody else.
        assert_eq!(owner(frame(A, B, TCP, (40_002, 5201))), None);
        assert_eq!(owner(frame(B, A, UDP, (53, 53))), None);
        assert_eq!(owner(frame(B, Ipv4Addr::new(10, 0, 2, 1), ICMP, (0, 0))), None);
    }
}
