//! Links that are too small for some packets: a router drops those, and says so by ICMP, or is a black hole. Packets of hosts that
//! allow it are cut.

use contract::ids::{HostId, LinkId};
use contract::scenario::Scenario;
use path::{DropReason, Nanos};
use tcp::endpoint::Icmp;
use wire::segment::{IPV4_HEADER, IPV6_HEADER, TCP_HEADER};
use wire::{Options, Segment};

use super::output::{Fate, PacketReport};
use super::{Network, PacketRef};
use crate::event_queue::EventQueue;
use crate::packet::{MORE_FRAGMENTS, Packet};
use crate::topology::Topology;

/// ICMP behind an IP header: type, code, checksum, and four bytes that hold the MTU.
const ICMP_HEADER: u32 = 8;
/// Longest ICMP message of a router, with its IP header: of IPv4 (RFC 1812 section 4.3.2.3), of IPv6 (RFC 4443 section 2.4).
const LONGEST: [u32; 2] = [576, 1280];

/// A link that is smaller than packets which hosts may send over it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    /// Largest IP packet.
    mtu: u32,
    /// The router does not say so.
    black_hole: bool,
    /// It is no switch: it cuts packets that may be cut.
    cuts: bool,
    /// Packets that were too big.
    pub drops: u64,
}

/// The gate of each link, where it needs one, and whether routers feed each link with messages of their own.
pub(super) fn gates(scenario: &Scenario, topology: &Topology) -> (Vec<Option<Gate>>, Vec<bool>) {
    let mut gates = vec![None; scenario.links.len()];
    let mut fed_by_router = vec![false; scenario.links.len()];
    for flow in &scenario.flows {
        let (Some(from), Some(to)) = (scenario.host(&flow.from), scenario.host(&flow.to)) else { continue };
        let [a, b] = [from, to].map(|host| &scenario.hosts[host.index()]);
        let largest = u32::from(a.mss.min(b.mss)) + a.ip.header() + TCP_HEADER;
        for (source, sink) in [(from, to), (to, from)] {
            for link in topology.path(source, sink) {
                let config = &scenario.links[link.index()];
                // A host knows the MTU of its own interface.
                let Some(node) = scenario.nodes.iter().find(|node| node.name == config.from) else {
                    continue;
                };
                if config.mtu >= largest {
                    continue;
                }
                // A switch drops what is too long, and has no address to speak from.
                let back = topology.link_of_router(link, source).filter(|_| node.switch.is_none());
                let black_hole = config.black_hole || back.is_none();
                gates[link.index()] =
                    Some(Gate { mtu: config.mtu, black_hole, cuts: node.switch.is_none(), drops: 0 });
                if let Some(back) = back.filter(|_| !black_hole) {
                    fed_by_router[back.index()] = true;
                }
            }
        }
    }
    (gates, fed_by_router)
}

/// Message of a router to a sender, as a packet: of the sender's connection, with the numbers of the one that was dropped.
fn message(dropped: &Packet, mtu: u32, at: Nanos, header: u32) -> Packet {
    let longest = LONGEST[usize::from(header == IPV6_HEADER)];
    let segment = Segment {
        seq: dropped.segment.seq,
        tsval: dropped.bytes,
        tsecr: mtu,
        options: Options::ICMP,
        frames: 1,
        ..Segment::default()
    };
    Packet {
        segment,
        sent_at: at,
        bytes: (header + ICMP_HEADER + dropped.bytes).min(longest),
        connection: dropped.connection.peer(),
        src: dropped.dst,
        dst: dropped.src,
        // No stack takes it for a segment.
        corrupt: true,
        ..Packet::default()
    }
}

impl Packet {
    /// The router's message that a packet is. None: a segment.
    pub(crate) fn icmp(&self, header: u32) -> Option<Icmp> {
        let Segment { seq, tsval, tsecr, options, .. } = self.segment;
        options.has(Options::ICMP).then(|| Icmp::too_big(header, tsecr, seq, tsval))
    }
}

impl Network {
    /// A packet is about to enter a link that is captured or has a gate; false if it is too big.
    #[cold]
    #[inline(never)]
    pub(super) fn inspect(
        &mut self,
        link: LinkId,
        at: Nanos,
        reference: &PacketRef,
        events: &mut EventQueue,
    ) -> bool {
        let packet = *self.pool.unpack(reference);
        let is_message = packet.segment.options.has(Options::ICMP);
        let gate = self.gates[link.index()].filter(|gate| packet.bytes > gate.mtu && !is_message);
        if let Some(Gate { mtu, cuts: true, .. }) = gate
            && self.fragmentable[packet.src.index()]
        {
            self.pool.free(reference);
            self.cut(link, at, &packet, mtu, events);
            return false;
        }
        // Of fragments the first one shows the packet.
        let shows = packet.fragment & !MORE_FRAGMENTS == 0;
        if self.meta[link.index()].captured && !is_message && shows {
            self.reports.captured.push((at, link, packet));
        }
        let Some(Gate { mtu, black_hole, .. }) = gate else { return true };
        if let Some(gate) = &mut self.gates[link.index()] {
            gate.drops += 1;
        }
        self.pool.free(reference);
        self.reports.packets.push(PacketReport::new(at, link.0, &packet, Fate::Dropped(DropReason::TooBig)));
        let back = self.topology.link_of_router(link, packet.src).filter(|_| !black_hole);
        if let Some(back) = back {
            let header = self.header_of(packet.src);
            self.enter(back, at, message(&packet, mtu, at, header), events);
        }
        false
    }

    /// A packet enters a link in parts that fit, all but the last of whole units of eight bytes (RFC 791 section 3.2).
    fn cut(&mut self, link: LinkId, at: Nanos, packet: &Packet, mtu: u32, events: &mut EventQueue) {
        let (most, length) = ((mtu - IPV4_HEADER) / 8 * 8, packet.bytes - IPV4_HEADER);
        let mut start = 0;
        while start < length {
            let end = (start + most).min(length);
            let more = if end < length { MORE_FRAGMENTS } else { packet.fragment & MORE_FRAGMENTS };
            let offset = (packet.fragment & !MORE_FRAGMENTS) + (start / 8) as u16;
            let bytes = IPV4_HEADER + end - start;
            let part = self.pool.put(&Packet { bytes, fragment: offset | more, ..*packet });
            self.enter_keeping_link(link, at, part, events);
            start = end;
        }
    }

    /// Length of the IP header of a host's packets.
    fn header_of(&self, host: HostId) -> u32 {
        if self.ipv6[host.index()] { IPV6_HEADER } else { IPV4_HEADER }
    }
}
