//! Fragments of IP packets at the host that they are for: it has a packet once it has all of it.

use contract::ids::ConnectionId;
use path::Nanos;
use units::SECOND;
use wire::segment::IPV4_HEADER;
use wire::{Ecn, RangeSet};

use crate::packet::{MORE_FRAGMENTS, Packet};

/// Time for which a host waits for the rest of a packet (net.ipv4.ipfrag_time, net.inet.ip.fragttl).
const LIFETIME: Nanos = 30 * SECOND;

/// Packets of which a host lacks parts.
#[derive(Default)]
pub(super) struct Fragments {
    partial: Vec<Partial>,
    /// Memory of packets that were whole, for others.
    spare: Vec<RangeSet>,
}

/// Packet of which parts have come.
struct Partial {
    /// Connection, time of sending and sequence number, in place of the identification in IP headers.
    key: (ConnectionId, Nanos, u32),
    /// Arrival of the first part.
    since: Nanos,
    parts: RangeSet,
    /// Length behind the IP header, once the last part has come.
    end: Option<u64>,
    /// Length of all parts that have come, with their IP headers.
    bytes: u32,
    marked: bool,
}

impl Fragments {
    /// Takes a fragment; true if that makes a packet whole, which `packet` is then.
    #[cold]
    pub(super) fn take(&mut self, now: Nanos, packet: &mut Packet) -> bool {
        self.partial.retain(|partial| now - partial.since < LIFETIME);
        let key = (packet.connection, packet.sent_at, packet.segment.seq);
        let known = self.partial.iter().position(|partial| partial.key == key);
        let index = known.unwrap_or_else(|| {
            let parts = self.spare.pop().unwrap_or_default();
            let new = Partial { key, since: now, parts, end: None, bytes: 0, marked: false };
            self.partial.push(new);
            self.partial.len() - 1
        });
        let partial = &mut self.partial[index];
        let start = u64::from(packet.fragment & !MORE_FRAGMENTS) * 8;
        let end = start + u64::from(packet.bytes - IPV4_HEADER);
        if partial.parts.insert(start, end, |_, _| {}) > 0 {
            partial.bytes += packet.bytes;
        }
        partial.marked |= packet.segment.ecn == Ecn::Ce;
        if packet.fragment & MORE_FRAGMENTS == 0 {
            partial.end = Some(end);
        }
        if partial.parts.first().is_none_or(|(start, end)| start > 0 || Some(end) != partial.end) {
            return false;
        }
        let mut whole = self.partial.swap_remove(index);
        (packet.fragment, packet.bytes) = (0, whole.bytes);
        // A mark of one part is the packet's (RFC 3168 section 5.3).
        if whole.marked {
            packet.segment.ecn = Ecn::Ce;
        }
        whole.parts.clear();
        self.spare.push(whole.parts);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Part of the packet with sequence number `seq`: payload from `start` on, behind the IP header.
    fn part(seq: u32, (start, length): (u32, u32), more: bool) -> Packet {
        let mut packet = Packet { bytes: IPV4_HEADER + length, ..Packet::default() };
        packet.segment.seq = seq;
        packet.fragment = (start / 8) as u16 | if more { MORE_FRAGMENTS } else { 0 };
        packet
    }

    #[test]
    fn a_packet_is_whole_in_any_order_and_with_parts_twice() {
        let mut host = Fragments::default();
        let parts =
            [(1, (976, 504), false), (2, (0, 976), true), (1, (976, 504), false), (1, (0, 976), true)];
        let mut taken = parts.map(|(seq, payload, more)| part(seq, payload, more));
        taken[0].segment.ecn = Ecn::Ce;
        assert_eq!(taken.each_mut().map(|packet| host.take(5, packet)), [false, false, false, true]);
        let whole = &taken[3];
        assert_eq!((whole.fragment, whole.bytes, whole.segment.ecn), (0, 1480 + 2 * 20, Ecn::Ce));
        let mut rest = part(2, (976, 504), false);
        assert!(host.take(6, &mut rest) && rest.segment.ecn == Ecn::NotEct);
    }

    #[test]
    fn parts_wait_for_30_seconds() {
        for (later, whole) in [(LIFETIME - 1, true), (LIFETIME, false)] {
            let mut host = Fragments::default();
            assert!(!host.take(7, &mut part(1, (0, 976), true)));
            assert_eq!(host.take(7 + later, &mut part(1, (976, 504), false)), whole);
        }
    }
}
