//! Packet captures at hosts and links, as nanosecond pcap files of raw IP packets.
//!
//! A host's capture sits at its NIC, below segmentation offload and before receive aggregation: it shows the packets on
//! the wire in both directions. A link's capture shows the packets that enter it, before loss and queue. Hosts have the
//! addresses 10.x.y.1 in the experiment's order, or fd00::xxyy:1 and the flow's number as flow label; flow n uses the ports 10000 + n and 5201, a probe the former as its
//! identifier.

use std::net::{Ipv4Addr, Ipv6Addr};

use contract::ids::{ConnectionId, HostId, LinkId, Side};
use contract::scenario::{App, IpVersion, Scenario};
use path::Nanos;
use tcp::stack::Family;
use wire::capture::LinkType;
use wire::codec::{self, Address, SynLayout};
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
    /// IP version of each host.
    versions: Vec<IpVersion>,
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
            versions: scenario.hosts.iter().map(|host| host.ip).collect(),
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
        let layout = self.layouts[src.index()];
        let (sport, dport) = ports(receiver);
        let datagram = (segment.flags == Flags::default()).then(|| {
            let (identifier, sequence) = (sport.max(dport), segment.offset as u16);
            match (self.probes[receiver.flow().index()], receiver.side()) {
                (false, _) => Kind::Udp,
                (true, Side::Accepting) => Kind::EchoRequest { identifier, sequence },
                (true, Side::Opening) => Kind::EchoReply { identifier, sequence },
            }
        });
        match self.versions[src.index()] {
            IpVersion::Ipv4 => {
                let ends = codec::Ends { src: address(src), dst: address(dst), sport, dport };
                // Packets that are not to be fragmented need no identification (RFC 6864), and look the same at every
                // point.
                point.write(now, datagram, segment, &ends, layout, 0);
            }
            IpVersion::Ipv6 => {
                let ends = codec::Ends { src: long_address(src), dst: long_address(dst), sport, dport };
                point.write(now, datagram, segment, &ends, layout, receiver.flow().0 + 1);
            }
        }
    }
}

impl Point {
    /// Writes a packet into the file, which takes everything: a datagram of some kind, or a segment of TCP.
    fn write<A: Address>(
        &mut self,
        now: Nanos,
        datagram: Option<Kind>,
        segment: &Segment,
        ends: &codec::Ends<A>,
        layout: SynLayout,
        label: u32,
    ) {
        let _ = match datagram {
            Some(kind) => self.writer.datagram(now, kind, ends, segment.ecn, segment.len),
            None => self.writer.tcp(now, segment, ends, layout, label),
        };
    }
}

/// IPv4 address of a host.
pub(crate) fn address(host: HostId) -> Ipv4Addr {
    let [high, low] = host.0.to_be_bytes();
    Ipv4Addr::new(10, high, low, 1)
}

/// IPv6 address of a host.
fn long_address(host: HostId) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, host.0, 1)
}
