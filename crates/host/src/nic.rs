//! A network interface: segmentation offload, and what is in its transmit queue.

use std::collections::VecDeque;

use tcp::Nanos;
use wire::{Flags, Options, Segment};

/// Cuts a segment into packets of at most `payload` bytes, as segmentation offload does: sequence numbers advance, FIN
/// and PSH stay on the last packet, CWR on the first, unless it is a part of a counter ([`Options::ACE`]).
#[inline(always)]
pub fn segment(segment: &Segment, payload: u32, mut packet: impl FnMut(&Segment)) {
    if segment.len <= payload {
        packet(segment);
    } else {
        split(segment, payload, &mut packet);
    }
}

#[inline(never)]
fn split(segment: &Segment, payload: u32, packet: &mut impl FnMut(&Segment)) {
    let mut sent = 0;
    let mut part = Segment::default();
    while sent < segment.len {
        cut(segment, payload, sent, &mut part);
        packet(&part);
        sent += part.len;
    }
}

/// Writes the packet that begins `sent` bytes into the segment; see [`segment`].
#[inline]
pub fn cut(segment: &Segment, payload: u32, sent: u32, part: &mut Segment) {
    let len = payload.min(segment.len - sent);
    let mut flags = segment.flags;
    if sent + len < segment.len {
        flags.0 &= !(Flags::FIN.0 | Flags::PSH.0);
    }
    if sent > 0 && !segment.options.has(Options::ACE) {
        flags.0 &= !Flags::CWR.0;
    }
    *part = *segment;
    part.seq = segment.seq.wrapping_add(sent);
    part.offset = segment.offset + u64::from(sent);
    part.len = len;
    part.flags = flags;
}

/// Packets in the transmit queue and when they will have left, for stacks that limit their own share of it (Linux
/// TSQ).
#[derive(Clone, Debug, Default)]
pub struct TransmitRing {
    departures: VecDeque<(Nanos, u32, u32)>,
    /// The next departure is awaited, and not known yet: a token bucket keeps what was sent.
    pub awaited: bool,
}

impl TransmitRing {
    /// `bytes` of payload of `connection` will have left at `at`.
    #[inline]
    pub fn push(&mut self, at: Nanos, connection: u32, bytes: u32) {
        self.departures.push_back((at, connection, bytes));
    }

    /// The next departures of one connection at or before `now`, one behind the other: (connection, bytes of all).
    #[inline]
    pub fn pop_departed(&mut self, now: Nanos) -> Option<(u32, u32)> {
        let &(_, connection, mut bytes) = self.departures.front().filter(|&&(at, ..)| at <= now)?;
        self.departures.pop_front();
        while let Some(&(at, other, more)) = self.departures.front()
            && at <= now
            && other == connection
            && let Some(sum) = bytes.checked_add(more)
        {
            bytes = sum;
            self.departures.pop_front();
        }
        Some((connection, bytes))
    }

    /// Time when the next packet will have left.
    #[inline]
    pub fn next_departure(&self) -> Option<Nanos> {
        self.departures.front().map(|&(at, ..)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_segment_becomes_full_packets_and_a_rest() {
        let big = Segment {
            seq: u32::MAX - 100,
            offset: 5,
            len: 3000,
            flags: Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR,
            ..Segment::default()
        };
        let mut parts = Vec::new();
        segment(&big, 1448, |p| parts.push(*p));
        assert_eq!(parts.iter().map(|p| p.len).collect::<Vec<_>>(), [1448, 1448, 104]);
        assert_eq!(parts[1].seq, (u32::MAX - 100).wrapping_add(1448));
        assert_eq!(parts[2].offset, 5 + 2896);
        assert_eq!(parts[0].flags, Flags::ACK | Flags::CWR);
        assert_eq!(parts[1].flags, Flags::ACK);
        assert_eq!(parts[2].flags, Flags::ACK | Flags::PSH | Flags::FIN);
    }

    #[test]
    fn a_counter_in_the_flags_is_repeated_in_every_packet() {
        let flags = Flags::ACK | Flags::CWR;
        let big = Segment { len: 3000, flags, options: Options::ACE, ..Segment::default() };
        let mut parts = Vec::new();
        segment(&big, 1448, |p| parts.push(p.flags));
        assert_eq!(parts, [flags; 3]);
    }

    #[test]
    fn departures_come_in_order() {
        let mut ring = TransmitRing::default();
        ring.push(10, 0, 1448);
        ring.push(20, 1, 1448);
        assert_eq!(ring.pop_departed(9), None);
        assert_eq!(ring.pop_departed(15), Some((0, 1448)));
        assert_eq!(ring.next_departure(), Some(20));
        ring.push(30, 1, 52);
        ring.push(40, 0, 1448);
        ring.push(50, 0, 1448);
        assert_eq!(ring.pop_departed(40), Some((1, 1500)));
        assert_eq!(ring.pop_departed(40), Some((0, 1448)));
        assert_eq!(ring.pop_departed(40), None);
    }
}
