//! Packet captures at hosts and links, as nanosecond pcap files of raw IPv4 packets.
//!
//! A host's capture sits at its NIC, below segmentation offload and before receive aggregation: it shows the packets on
//! the wire in both directions. A link's capture shows the packets that enter it, before loss and queue. Hosts have the
//! addresses 10.x.y.1 in the experiment's order; flow n uses the ports 10000 + n and 5201, a probe the former as its
//! identifier.

use std::net::Ipv4Addr;

use contract::ids::{ConnectionId, HostId, LinkId, Side};
use contract::scenario::{App, Scenario};
use path::Nanos;
use tcp::stack::Family;
use wire::capture::LinkType;
use wire::codec::{self, SynLayout};
use wire::datagram::Kind;
use wire::pcap::Writer;
use wire::{Flags, Segment};

use crate::error::Error;
use crate::packet::{Ends, Packet, ports};

/// The captures of a run.
pub(crate) struct Captures {
    /// Whether there is any.
    active: bool,
    points: Vec<Point>,
    /// Capture of each host.
    hosts: Vec<Option<usize>>,
    /// Capture of each link.
    links: Vec<Option<usize>>,
    /// Layout of the options of a SYN, for each host.
    layouts: Vec<SynLayout>,
    /// Whether the datagrams of each flow are ICMP echoes.
    probes: Vec<bool>,
}

struct Point {
    name: String,
    writer: Writer<Vec<u8>>,
}

impl Captures {
    /// Opens the captures that the scenario asks for. `families` are those of its hosts.
    ///
    /// # Errors
    /// When a capture is at no host or link, or twice at one.
    pub(crate) fn new(scenario: &Scenario, families: &[Family]) -> Result<Captures, Error> {
        let mut captures = Captures {
            active: !scenario.record.pcap.is_empty(),
            points: Vec::new(),
            hosts: vec![None; scenario.hosts.len()],
            links: vec![None; scenario.links.len()],
            layouts: families.iter().map(|family| family.syn_layout()).collect(),
            probes: scenario.flows.iter().map(|flow| matches!(flow.app, App::Ping { .. })).collect(),
        };
        for capture in &scenario.record.pcap {
            let at = &capture.at;
            let host = scenario.hosts.iter().position(|h| h.name == *at);
            let link = scenario.links.iter().position(|l| l.name == *at);
            let slot = match (host, link) {
                (Some(host), _) => &mut captures.hosts[host],
                (None, Some(link)) => &mut captures.links[link],
                (None, None) => return Err(Error::CapturePoint(at.clone())),
            };
            if slot.replace(captures.points.len()).is_some() {
                return Err(Error::Twice { list: "record.pcap", name: at.clone() });
            }
            let writer = Writer::new(Vec::new(), LinkType::RAW, capture.snaplen).map_err(Error::Capture)?;
            captures.points.push(Point { name: at.clone(), writer });
        }
        Ok(captures)
    }

    /// Links whose packets are captured.
    pub(crate) fn links(&self) -> Vec<bool> {
        self.links.iter().map(Option::is_some).collect()
    }

    /// A host hands a packet to its NIC.
    #[inline]
    pub(crate) fn sent(&mut self, now: Nanos, ends: &Ends, segment: &Segment) {
        if self.active {
            self.write(now, self.hosts[ends.src.index()], ends.src, ends.dst, ends.peer, segment);
        }
    }

    /// A packet reaches a host.
    #[inline]
    pub(crate) fn received(&mut self, now: Nanos, packet: &Packet) {
        if self.active {
            self.write(
                now,
                self.hosts[packet.dst.index()],
                packet.src,
                packet.dst,
                packet.connection,
                &packet.segment,
            );
        }
    }

    /// A packet enters a link.
    pub(crate) fn entered(&mut self, now: Nanos, link: LinkId, packet: &Packet) {
        self.write(now, self.links[link.index()], packet.src, packet.dst, packet.connection, &packet.segment);
    }

    /// Capture bytes finished since the last call: (capture point, bytes to append to its file).
    pub(crate) fn take(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut finished = Vec::new();
        for point in &mut self.points {
            let bytes = std::mem::take(point.writer.get_mut());
            if !bytes.is_empty() {
                finished.push((point.name.clone(), bytes));
            }
        }
        finished
    }

    #[cold]
    fn write(
        &mut self,
        now: Nanos,
        point: Option<usize>,
        src: HostId,
        dst: HostId,
        receiver: ConnectionId,
        segment: &Segment,
    ) {
        let Some(point) = point.map(|index| &mut self.points[index]) else { return };
        let (sport, dport) = ports(receiver);
        let ends = codec::Ends { src: address(src), dst: address(dst), sport, dport };
        if segment.flags == Flags::default() {
            let (identifier, sequence) = (sport.max(dport), segment.offset as u16);
            let kind = match (self.probes[receiver.flow().index()], receiver.side()) {
                (false, _) => Kind::Udp,
                (true, Side::Accepting) => Kind::EchoRequest { identifier, sequence },
                (true, Side::Opening) => Kind::EchoReply { identifier, sequence },
            };
            let _ = point.writer.datagram(now, kind, &ends, segment.ecn, segment.len);
            return;
        }
        // Packets that are not to be fragmented need no identification (RFC 6864), and look the same at every point. A
        // Vec takes everything.
        let _ = point.writer.ipv4(now, segment, &ends, self.layouts[src.index()], 0);
    }
}

/// Address of a host.
pub(crate) fn address(host: HostId) -> Ipv4Addr {
    let [high, low] = host.0.to_be_bytes();
    Ipv4Addr::new(10, high, low, 1)
}
