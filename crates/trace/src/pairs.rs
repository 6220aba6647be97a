//! Round-trip times between two capture points whose clocks need not agree: synthetic packet pairs.
//!
//! The method is that of Zander, Armitage, Nguyen, Mark and Tyo, "Minimally intrusive round trip time measurements using
//! synthetic packet-pairs" (CAIA), which TEACUP used. A packet passes the reference point at R1 and the monitor point
//! at M1; the next packet back passes the monitor at M2 and the reference at R2. Then
//!
//! ```text
//! RTT = (R2 - R1) - (M2 - M1)
//! ```
//!
//! Each clock only measures a difference, so its offset drops out, and the time between the two packets at the far end
//! is not part of the result. Of several packets that reach the monitor before one comes back, the last is taken, which
//! keeps M2 - M1, and with it what a drifting clock can spoil, small; no packet is used twice.
//!
//! A packet is known again by its sequence numbers, flags, timestamps, length, window, SACK blocks and IP
//! identification. One that looks the same as another (a retransmission by a system that neither numbers packets nor
//! sends timestamps) is left out, and so is one that segmentation or aggregation changed on the way: capture below both.

use wire::Segment;

use crate::connection::{Direction, Seen};

/// The packets of one connection at one capture point.
#[derive(Clone, Debug, Default)]
pub struct Sightings {
    list: Vec<Sighting>,
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    key: Key,
    t_ns: u64,
    offset: i64,
}

impl Sighting {
    fn alone(&self) -> Alone {
        Alone { t_ns: self.t_ns, direction: self.key.direction(), offset: self.offset, bytes: self.key.len }
    }
}

/// Key by which a packet is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// [`BACKWARD`] or not, TCP flags, IP identification.
    head: u32,
    seq: u32,
    ack: u32,
    tsval: u32,
    tsecr: u32,
    len: u32,
    /// Digest of the window and the SACK blocks.
    rest: u32,
}

/// The bit of [`Key::head`] that says which way a packet goes.
const BACKWARD: u32 = 1 << 25;

impl Key {
    fn direction(&self) -> Direction {
        if self.head & BACKWARD == 0 { Direction::Forward } else { Direction::Backward }
    }
}

impl Sightings {
    /// None yet.
    pub fn new() -> Sightings {
        Sightings::default()
    }

    /// Takes a packet of the connection; for [`crate::read`].
    #[inline]
    pub fn add(&mut self, seen: &Seen<'_>) {
        let Segment { seq, ack, tsval, tsecr, len, flags, window, ref sack, .. } = seen.packet.segment;
        let way = if seen.direction == Direction::Forward { 0 } else { BACKWARD };
        let head = way | u32::from(flags.0) << 16 | u32::from(seen.packet.ip_id);
        let rest = sack.as_slice().iter().fold(u32::from(window), |mix, &(left, right)| {
            // Any odd multiplier spreads what differs.
            mix.wrapping_mul(0x9e37_79b1) ^ left.rotate_left(7) ^ right
        });
        let key = Key { head, seq, ack, tsval, tsecr, len, rest };
        self.list.push(Sighting { key, t_ns: seen.t_ns, offset: seen.offset });
    }

    /// Exchanges the directions of all packets, for a capture that took the other side for the one that opened the
    /// connection.
    pub fn turned(&self) -> Sightings {
        let turn = |sighting: &Sighting| {
            let mut turned = *sighting;
            turned.key.head ^= BACKWARD;
            turned
        };
        Sightings { list: self.list.iter().map(turn).collect() }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Ordered by key, without those whose key occurs more than once; and how many those are.
    fn unique(&self) -> (Vec<Sighting>, u64) {
        let mut sorted = self.list.clone();
        sorted.sort_unstable_by_key(|sighting| (sighting.key, sighting.t_ns));
        let unique: Vec<Sighting> = sorted
            .chunk_by(|a, b| a.key == b.key)
            .filter(|same| same.len() == 1)
            .map(|same| same[0])
            .collect();
        let ambiguous = (sorted.len() - unique.len()) as u64;
        (unique, ambiguous)
    }
}

/// A packet seen at both points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Time when the packet passed the reference point, by that point's clock.
    pub reference_ns: u64,
    /// Time when the packet passed the monitor point, by that point's clock.
    pub monitor_ns: u64,
    /// Direction of the packet.
    pub direction: Direction,
}

/// A packet seen at one point alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Time when the packet passed that point, by that point's clock.
    pub t_ns: u64,
    /// Direction of the packet.
    pub direction: Direction,
    /// Offset of the first payload byte from the start of the stream as that capture holds it.
    pub offset: i64,
    /// Size of the payload, in bytes.
    pub bytes: u32,
}

/// The packets of a connection at two points.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    /// Seen at both, in order of the monitor's time.
    pub matched: Vec<Matched>,
    /// Left out at either point because another packet looks the same.
    pub ambiguous: u64,
    /// Seen at the reference point alone, both directions: lost beyond it, or changed on the way. In order of time.
    pub at_reference: Vec<Alone>,
    /// Seen at the monitor point alone, in order of time.
    pub at_monitor: Vec<Alone>,
}

impl Matching {
    /// Packets of the direction that leads from the reference point to the monitor point that were lost between them: seen
    /// at the first alone, after the first and before the last packet that arrived. What one capture holds from before the
    /// other began, or after it ended, is not lost.
    pub fn lost(&self, out: Direction) -> impl Iterator<Item = &Alone> {
        let times = || {
            self.matched
                .iter()
                .filter(move |packet| packet.direction == out)
                .map(|packet| packet.reference_ns)
        };
        let (first, last) = (times().min().unwrap_or(u64::MAX), times().max().unwrap_or(0));
        self.at_reference
            .iter()
            .filter(move |packet| packet.direction == out && (first..=last).contains(&packet.t_ns))
    }
}

/// Finds each packet of one capture in the other.
pub fn matching(reference: &Sightings, monitor: &Sightings) -> Matching {
    let ((reference, doubtful_there), (monitor, doubtful_here)) = (reference.unique(), monitor.unique());
    let mut found = Matching { ambiguous: doubtful_there + doubtful_here, ..Matching::default() };
    let mut candidates = monitor.iter().peekable();
    for there in &reference {
        while let Some(here) = candidates.next_if(|here| here.key < there.key) {
            found.at_monitor.push(here.alone());
        }
        match candidates.next_if(|here| here.key == there.key) {
            None => found.at_reference.push(there.alone()),
            Some(here) => found.matched.push(Matched {
                reference_ns: there.t_ns,
                monitor_ns: here.t_ns,
                direction: there.key.direction(),
            }),
        }
    }
    found.at_monitor.extend(candidates.map(Sighting::alone));
    // Packets of one burst may have one time.
    found.at_reference.sort_by_key(|packet| (packet.t_ns, packet.offset));
    found.at_monitor.sort_by_key(|packet| (packet.t_ns, packet.offset));
    found.matched.sort_by_key(|packet| (packet.monitor_ns, packet.reference_ns));
    found
}

/// A round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time when the round trip was complete: the packet back passed the reference point, by that point's clock.
    pub t_ns: u64,
    /// The round-trip time, nanoseconds. Below zero only if a clock is not to be trusted.
    pub rtt_ns: i64,
}

/// Round-trip times from the reference point to the monitor point and back, in order of time. `out` is the direction that
/// leads from the reference point to the monitor point.
pub fn round_trips(matched: &[Matched], out: Direction) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut newest_out = None;
    for packet in matched {
        if packet.direction == out {
            newest_out = Some(packet);
        } else if let Some(sent) = newest_out.take() {
            let whole = packet.reference_ns.wrapping_sub(sent.reference_ns) as i64;
            let turnaround = packet.monitor_ns.wrapping_sub(sent.monitor_ns) as i64;
            samples.push(Sample { t_ns: packet.reference_ns, rtt_ns: whole.wrapping_sub(turnaround) });
        }
    }
    samples.sort_by_key(|sample| sample.t_ns);
    samples
}

#[cfg(test)]
mod tests {
    use wire::Flags;

    use super::*;

    #[test]
    fn no_flag_is_taken_for_the_direction() {
        let all = u32::from((Flags::FEEDBACK | Flags(0x3f)).0);
        assert_eq!((all << 16 | u32::from(u16::MAX)) & BACKWARD, 0);
    }
}
