//! Record that Linux keeps of every packet sent and not yet acknowledged: a ring in sequence order, with the tags SACKED, LOST
//! and RETRANS, a list in order of transmission, and the lost ones waiting to be sent again.
//!
//! No operation looks at more packets than it changes, except for a binary search: [`Scoreboard::visits`] counts them
//! in tests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::flight::{Flight, Oldest};
use crate::cc::linux::Core;
use crate::clock::Nanos;

/// SACKed by the peer.
pub(super) const SACKED: u8 = 1;
/// Judged lost.
pub(super) const LOST: u8 = 2;
/// Retransmitted, and that retransmission is believed in flight.
pub(super) const RETRANS: u8 = 4;
/// Ever retransmitted.
pub(super) const EVER_RETRANS: u8 = 8;
/// In the list by time of transmission.
const LISTED: u8 = 16;
/// Ends with a FIN.
pub(super) const FIN: u8 = 32;
/// Tag of a packet whose delivery is accounted for in a rate sample.
pub(super) const RATED: u8 = 64;
/// The application was the limit at its last transmission.
pub(super) const APP_LIMITED: u8 = 128;

/// Last packet of a burst, which splits it from the next.
pub(super) const BURST_END: u8 = 16;
/// It ends with PSH, whenever it is sent: nothing was written behind it.
pub(super) const PUSHED: u8 = 32;

/// Bits of `Core::delivered_ce` that a packet and a rate sample have (tcp_skb_cb).
pub(super) const DELIVERED_CE_MASK: u32 = (1 << 20) - 1;

/// A packet's name: its number in the order of first transmission.
pub(super) type Id = u64;
/// No packet.
pub(super) const NONE: Id = Id::MAX;

/// One packet sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    /// First sequence number.
    pub seq: u64,
    /// Local time of its last transmission, nanoseconds.
    pub sent: Nanos,
    /// `Core::delivered` then (Fack: SND.NXT at the retransmission).
    pub delivered: u64,
    /// `Core::delivered_mstamp` then.
    pub delivered_mstamp: u64,
    /// `Core::first_tx_mstamp` then.
    pub first_tx_mstamp: u64,
    pub(super) earlier: Id,
    pub(super) later: Id,
    /// Sequence space it takes.
    pub len: u32,
    /// Tags.
    pub tags: u8,
    /// The lower bits of `Core::delivered_ce` then, lowest byte first, and above them `BURST_END` and `PUSHED`: there is no
    /// room for more in a cache line.
    pub delivered_ce_bytes: [u8; 3],
}

const _: () = assert!(size_of::<Packet>() == 64);

impl Packet {
    /// Notes where delivery stands as it is sent (tcp_rate_skb_sent).
    #[inline(always)]
    pub(super) fn note_delivery(&mut self, core: &Core) {
        self.delivered = core.delivered;
        self.delivered_mstamp = core.delivered_mstamp;
        self.first_tx_mstamp = core.first_tx_mstamp;
        let [low, middle, high, ..] = core.delivered_ce.to_le_bytes();
        let marks = self.delivered_ce_bytes[2] & (BURST_END | PUSHED);
        self.delivered_ce_bytes = [low, middle, high & !(BURST_END | PUSHED) | marks];
        self.tags = self.tags & !APP_LIMITED | if core.app_limited != 0 { APP_LIMITED } else { 0 };
    }

    /// `Core::delivered_ce` at its last transmission.
    #[inline]
    pub(super) fn delivered_ce(&self) -> u32 {
        let [low, middle, high] = self.delivered_ce_bytes;
        u32::from_le_bytes([low, middle, high, 0]) & DELIVERED_CE_MASK
    }

    /// Sets `BURST_END`, `PUSHED` or both.
    fn mark(&mut self, marks: u8) {
        self.delivered_ce_bytes[2] |= marks;
    }

    /// Whether one of them is set.
    pub(super) fn is_marked(&self, mark: u8) -> bool {
        self.delivered_ce_bytes[2] & mark != 0
    }

    /// One past its last sequence number.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    /// Whether any of `tags` is set.
    #[inline]
    pub(super) fn has(&self, tags: u8) -> bool {
        self.tags & tags != 0
    }
}

/// The packets outstanding.
#[derive(Debug)]
pub(super) struct Scoreboard {
    ring: Vec<Packet>,
    /// The flight of each, in the same places; empty where nobody asks.
    flights: Vec<Flight>,
    head: Id,
    tail: Id,
    /// Where the last search ended: SACK blocks grow at their right edge.
    hint: Id,
    first_sent: Id,
    last_sent: Id,
    /// Lost packets to send again, lowest first; entries whose packet needs it no more are dropped when met.
    lost: BinaryHeap<Reverse<Id>>,
    /// Number of packets behind which a socket buffer ends.
    ends: u32,
    #[cfg(test)]
    visited: std::cell::Cell<u64>,
}

impl Scoreboard {
    /// An empty one; it takes no memory until the first packet.
    pub(super) fn new() -> Scoreboard {
        Scoreboard {
            ring: Vec::new(),
            flights: Vec::new(),
            head: 0,
            tail: 0,
            hint: 0,
            first_sent: NONE,
            last_sent: NONE,
            lost: BinaryHeap::new(),
            ends: 0,
            #[cfg(test)]
            visited: std::cell::Cell::new(0),
        }
    }

    /// How many packets were looked at so far.
    #[cfg(test)]
    pub(super) fn visits(&self) -> u64 {
        self.visited.get()
    }

    #[inline]
    fn slot(&self, id: Id) -> usize {
        debug_assert!(id >= self.head && id < self.tail, "packet {id} outside {}..{}", self.head, self.tail);
        #[cfg(test)]
        self.visited.set(self.visited.get() + 1);
        id as usize & (self.ring.len() - 1)
    }

    /// The packet named `id`, which must be outstanding.
    #[inline]
    pub(super) fn get(&self, id: Id) -> &Packet {
        &self.ring[self.slot(id)]
    }

    /// Returns the packet `id` to change it.
    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> &mut Packet {
        let slot = self.slot(id);
        &mut self.ring[slot]
    }

    /// Name of the oldest packet; equals [`Scoreboard::tail`] when there is none.
    #[inline]
    pub(super) fn head(&self) -> Id {
        self.head
    }

    /// One past the name of the newest packet.
    #[inline]
    pub(super) fn tail(&self) -> Id {
        self.tail
    }

    /// Whether nothing is outstanding.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The oldest packet.
    #[inline]
    pub(super) fn front(&self) -> Option<&Packet> {
        if self.is_empty() { None } else { Some(self.get(self.head)) }
    }

    /// The oldest packets, as many as an acknowledgement usually looks at; None where the ring ends among them.
    #[inline]
    pub(super) fn oldest(&self) -> Option<&[Packet; 3]> {
        if self.is_empty() { None } else { self.ring[self.slot(self.head)..].first_chunk() }
    }

    /// Where the next packets go, as many as an acknowledgement usually lets leave; None where the ring ends among them.
    #[inline]
    pub(super) fn next_slots(&self) -> Option<&[Packet; 3]> {
        let mask = self.ring.len().checked_sub(1)?;
        self.ring[self.tail as usize & mask..].first_chunk()
    }

    /// Number of socket buffers that the packets are in.
    ///
    /// A burst leaves in one. A SACK of a part of it cuts it, and what a SACK reports is added to the buffer before that was
    /// reported as well (tcp_shift_skb_data).
    pub(super) fn buffers(&self) -> u64 {
        let unfinished = !self.is_empty() && !self.ends_buffer(self.tail - 1);
        u64::from(self.ends) + u64::from(unfinished)
    }

    /// [`Scoreboard::buffers`] by a look at every packet.
    #[cfg(test)]
    pub(super) fn buffers_recounted(&self) -> u64 {
        let ends = (self.head..self.tail).filter(|&id| id + 1 == self.tail || self.ends_buffer(id));
        ends.count() as u64
    }

    /// Whether a buffer ends behind `id`.
    fn ends_buffer(&self, id: Id) -> bool {
        let packet = self.get(id);
        match (packet.has(SACKED), id + 1 < self.tail && self.get(id + 1).has(SACKED)) {
            (true, true) => false,
            (false, false) => packet.is_marked(BURST_END),
            _ => true,
        }
    }

    /// `id` has left as the last packet of a burst.
    #[inline]
    pub(super) fn end_burst(&mut self, id: Id, marks: u8) {
        if id + 1 == self.tail && !self.get(id).has(SACKED) {
            // Nothing is behind it.
            let packet = self.get_mut(id);
            let before = packet.is_marked(BURST_END);
            packet.mark(marks | BURST_END);
            self.ends += u32::from(!before);
            return;
        }
        let before = self.ends_buffer(id);
        self.get_mut(id).mark(marks | BURST_END);
        self.ends += u32::from(!before && self.ends_buffer(id));
    }

    /// Appends a packet just sent for the first time.
    #[inline(always)]
    pub(super) fn push(&mut self, packet: Packet) -> Id {
        if (self.tail - self.head) as usize == self.ring.len() {
            self.grow();
        }
        let id = self.tail;
        self.tail += 1;
        let slot = self.slot(id);
        self.ring[slot] = packet;
        id
    }

    /// [`Scoreboard::push`] and [`Scoreboard::append_to_send_order`].
    #[inline(always)]
    pub(super) fn push_in_send_order(&mut self, packet: Packet) {
        let last = self.last_sent;
        let tags = packet.tags | LISTED;
        let id = self.push(Packet { earlier: last, later: NONE, tags, ..packet });
        if last == NONE {
            self.first_sent = id;
        } else {
            self.get_mut(last).later = id;
        }
        self.last_sent = id;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let new_len = (self.ring.len() * 2).max(32);
        self.ring = grown(&self.ring, self.head..self.tail, new_len);
        if !self.flights.is_empty() {
            self.flights = grown(&self.flights, self.head..self.tail, new_len);
        }
    }

    /// Notes what is under way as `id` leaves.
    pub(super) fn note_flight(&mut self, id: Id, flight: Flight) {
        if self.flights.len() != self.ring.len() {
            self.flights.resize(self.ring.len(), Flight::default());
        }
        let slot = self.slot(id);
        self.flights[slot] = flight;
    }

    /// Flight in which `id`, which is outstanding or was until this ACK, left last. None where nobody asks.
    #[inline]
    pub(super) fn flight(&self, id: Id) -> Option<Flight> {
        let mask = self.flights.len().wrapping_sub(1);
        self.flights.get(id as usize & mask).copied()
    }

    /// Forgets the oldest packets that end by `una`, as far as they were sent once and no SACK reported them; returns what is
    /// asked of the first, and the last of them. They come first in the order of transmission.
    #[inline(always)]
    pub(super) fn pop_plain(&mut self, una: u64) -> Option<(Oldest, Packet)> {
        let plain = |packet: &Packet| !packet.has(!(LISTED | APP_LIMITED)) && packet.end() <= una;
        let head = self.head;
        let first = self.front()?;
        if !plain(first) || self.first_sent != head {
            return None;
        }
        let oldest = Oldest { seq: first.seq, end: first.end(), sent: first.sent };
        let mut last = first;
        let mut next = head + 1;
        let mut ends = 0;
        let mut cut = false;
        while next < self.tail {
            let packet = self.get(next);
            if !plain(packet) {
                cut = packet.has(SACKED);
                break;
            }
            ends += u32::from(last.is_marked(BURST_END));
            last = packet;
            next += 1;
        }
        let last = *last;
        self.ends -= ends + u32::from(last.is_marked(BURST_END) || cut);
        self.head = next;
        self.first_sent = last.later;
        if last.later == NONE {
            self.last_sent = NONE;
        } else {
            self.get_mut(last.later).earlier = NONE;
        }
        Some((oldest, last))
    }

    /// Forgets the oldest packet, which has been acknowledged.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.ends -= u32::from(self.ends_buffer(self.head));
        self.remove_from_send_order(self.head);
        self.head += 1;
    }

    /// The packet that holds `seq`, which must be outstanding.
    pub(super) fn find(&mut self, seq: u64) -> Id {
        let (mut low, mut high) = (self.head, self.tail);
        for id in self.hint..self.hint + 2 {
            if id >= low && id < high {
                let packet = self.get(id);
                if packet.seq <= seq && seq < packet.end() {
                    self.hint = id;
                    return id;
                }
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.get(middle).seq <= seq {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.hint = low;
        low
    }

    /// Puts `id` last in the order of transmission.
    #[inline]
    pub(super) fn append_to_send_order(&mut self, id: Id) {
        self.remove_from_send_order(id);
        let last = self.last_sent;
        let packet = self.get_mut(id);
        packet.earlier = last;
        packet.later = NONE;
        packet.tags |= LISTED;
        if last == NONE {
            self.first_sent = id;
        } else {
            self.get_mut(last).later = id;
        }
        self.last_sent = id;
    }

    /// Takes `id` out of the order of transmission.
    #[inline]
    pub(super) fn remove_from_send_order(&mut self, id: Id) {
        let packet = self.get_mut(id);
        if !packet.has(LISTED) {
            return;
        }
        packet.tags &= !LISTED;
        let (earlier, later) = (packet.earlier, packet.later);
        if earlier == NONE {
            self.first_sent = later;
        } else {
            self.get_mut(earlier).later = later;
        }
        if later == NONE {
            self.last_sent = earlier;
        } else {
            self.get_mut(later).earlier = earlier;
        }
    }

    /// First in the order of transmission, or [`NONE`].
    #[inline]
    pub(super) fn first_sent(&self) -> Id {
        self.first_sent
    }

    /// Next in the order of transmission, or [`NONE`].
    #[inline]
    pub(super) fn sent_after(&self, id: Id) -> Id {
        self.get(id).later
    }

    /// Previous in the order of transmission, or [`NONE`].
    #[inline]
    pub(super) fn sent_before(&self, id: Id) -> Id {
        self.get(id).earlier
    }

    /// Tags `id` LOST: it waits to be sent again, unless a retransmission is in flight. If it was lost already, that
    /// retransmission is lost as well. A SACKed packet is not lost, whatever became of a tail loss probe that sent it again.
    pub(super) fn mark_lost(&mut self, core: &mut Core, id: Id) {
        let packet = self.get_mut(id);
        if packet.has(SACKED) {
            return;
        }
        if !packet.has(LOST) {
            packet.tags |= LOST;
            core.lost_out += 1;
        } else if packet.has(RETRANS) {
            packet.tags &= !RETRANS;
            core.retrans_out -= 1;
        } else {
            return;
        }
        core.lost += 1;
        self.lost.push(Reverse(id));
    }

    /// Tags `id` as not lost after all.
    pub(super) fn unmark_lost(&mut self, core: &mut Core, id: Id) {
        let packet = self.get_mut(id);
        if packet.has(LOST) {
            packet.tags &= !LOST;
            core.lost_out -= 1;
        }
    }

    /// Tags `id` SACKED. A lost packet is not lost any more, nor is its retransmission in flight.
    pub(super) fn mark_sacked(&mut self, core: &mut Core, id: Id) {
        let around = id.saturating_sub(1).max(self.head)..id + 1;
        self.ends -= self.count_ends(around.clone());
        let packet = self.get_mut(id);
        debug_assert!(!packet.has(SACKED));
        if packet.has(RETRANS) {
            // Without LOST the retransmission is believed to be still under way.
            if packet.has(LOST) {
                packet.tags &= !(LOST | RETRANS);
                core.lost_out -= 1;
                core.retrans_out -= 1;
            }
        } else if packet.has(LOST) {
            packet.tags &= !LOST;
            core.lost_out -= 1;
        }
        packet.tags |= SACKED;
        core.sacked_out += 1;
        self.ends += self.count_ends(around);
    }

    /// No packet is SACKED any more.
    #[cold]
    pub(super) fn forget_sacks(&mut self) {
        for id in self.head..self.tail {
            self.get_mut(id).tags &= !(SACKED | RATED);
        }
        self.ends = self.count_ends(self.head..self.tail);
    }

    fn count_ends(&self, ids: std::ops::Range<Id>) -> u32 {
        ids.map(|id| u32::from(self.ends_buffer(id))).sum()
    }

    /// The lowest lost packet that has not been sent again, or [`NONE`].
    pub(super) fn next_lost(&mut self) -> Id {
        while let Some(&Reverse(id)) = self.lost.peek() {
            if id >= self.head {
                let packet = self.get(id);
                if packet.tags & (LOST | RETRANS | SACKED) == LOST {
                    return id;
                }
            }
            self.lost.pop();
        }
        NONE
    }

    /// Cuts packets whose payload is longer than `payload` anew: those of a burst that have the same tags, as one. Sets the counts
    /// of `core`, of SACKed packets only if the peer `sacks`. All names change; `names` are translated.
    #[cold]
    pub(super) fn cut(&mut self, core: &mut Core, payload: u32, sacks: bool, names: &mut [&mut Id]) {
        let old: Vec<Packet> = (self.head..self.tail).map(|id| *self.get(id)).collect();
        let flights: Vec<Option<Flight>> = (self.head..self.tail).map(|id| self.flight(id)).collect();
        let mut order = Vec::new();
        let mut next = self.first_sent;
        while next != NONE {
            order.push((next - self.head) as usize);
            next = self.get(next).later;
        }
        // Where the pieces of each begin; those of a run stand at its first.
        let (mut pieces, mut of, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut index = 0;
        while index < old.len() {
            let end = run_end(&old, index, payload);
            starts.push(pieces.len());
            cut_run(&old[index..end], payload, &mut pieces);
            starts.extend((index + 1..end).map(|_| pieces.len()));
            of.resize(pieces.len(), index);
            index = end;
        }
        starts.push(pieces.len());
        for name in names.iter_mut() {
            let place = (**name).saturating_sub(self.head).min(old.len() as u64) as usize;
            **name = self.head + starts[place] as u64;
        }
        (self.tail, self.hint, self.first_sent, self.last_sent) = (self.head, self.head, NONE, NONE);
        self.lost.clear();
        for piece in &pieces {
            self.push(Packet { tags: piece.tags & !LISTED, earlier: NONE, later: NONE, ..*piece });
        }
        self.ends = self.count_ends(self.head..self.tail);
        let head = self.head;
        for place in order {
            for piece in starts[place]..starts[place + 1] {
                self.append_to_send_order(head + piece as u64);
            }
        }
        let count = |tag: u8| pieces.iter().filter(|piece| piece.has(tag)).count() as u32;
        (core.packets_out, core.lost_out, core.retrans_out) =
            (pieces.len() as u32, count(LOST), count(RETRANS));
        if sacks {
            core.sacked_out = count(SACKED);
        }
        for (piece, &from) in of.iter().enumerate() {
            let id = head + piece as u64;
            if pieces[piece].tags & (LOST | RETRANS | SACKED) == LOST {
                self.lost.push(Reverse(id));
            }
            if let Some(flight) = flights[from] {
                self.note_flight(id, flight);
            }
        }
    }

    /// Forgets which lost packets wait (their tags are about to be set anew).
    pub(super) fn clear_lost(&mut self) {
        self.lost.clear();
    }
}

/// Payload of a packet.
fn payload_of(packet: &Packet) -> u32 {
    packet.len - u32::from(packet.has(FIN))
}

/// End of the run of packets from `start` on that are cut together: one that is short enough is not.
fn run_end(packets: &[Packet], start: usize, payload: u32) -> usize {
    let tags = |packet: &Packet| packet.tags & !(LISTED | FIN | APP_LIMITED);
    let mut end = start + 1;
    if payload_of(&packets[start]) <= payload {
        return end;
    }
    while end < packets.len()
        && !packets[end - 1].is_marked(BURST_END)
        && tags(&packets[end]) == tags(&packets[start])
    {
        end += 1;
    }
    end
}

/// Cuts the packets of a run into pieces.
fn cut_run(run: &[Packet], payload: u32, pieces: &mut Vec<Packet>) {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
    if run.len() == 1 && payload_of(first) <= payload {
        pieces.push(*first);
        return;
    }
    let (mut at, end) = (first.seq, last.end());
    let fin = u64::from(last.has(FIN));
    while at < end {
        let rest = end - at;
        let whole = rest <= u64::from(payload) + fin;
        let len = if whole { rest } else { u64::from(payload) };
        let mut piece = Packet { seq: at, len: len as u32, tags: first.tags & !FIN, ..*first };
        piece.delivered_ce_bytes[2] &= !(BURST_END | PUSHED);
        if whole {
            piece.tags |= last.tags & FIN;
            piece.mark(last.delivered_ce_bytes[2] & (BURST_END | PUSHED));
        }
        pieces.push(piece);
        at += len;
    }
}

/// A ring of `new_len` with the packets `ids` of another.
fn grown<T: Clone + Copy + Default>(ring: &[T], ids: std::ops::Range<Id>, new_len: usize) -> Vec<T> {
    let mut longer = vec![T::default(); new_len];
    for id in ids {
        longer[id as usize & (new_len - 1)] = ring[id as usize & (ring.len() - 1)];
    }
    longer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> (Scoreboard, Core) {
        let mut board = Scoreboard::new();
        for i in 0..count {
            let id = board.push(Packet { seq: 1000 + i * 10, len: 10, sent: i, ..Packet::default() });
            board.append_to_send_order(id);
        }
        let mut core = Core::new(1);
        core.packets_out = count as u32;
        (board, core)
    }

    #[test]
    fn finds_packets_by_any_sequence_number_in_them() {
        let (mut board, _) = filled(1000);
        for i in (0..1000).rev() {
            assert_eq!(board.find(1000 + i * 10), i);
            assert_eq!(board.find(1000 + i * 10 + 9), i);
        }
    }

    #[test]
    fn lost_packets_come_lowest_first_and_only_while_lost() {
        let (mut board, mut core) = filled(10);
        for id in [7, 2, 5] {
            board.mark_lost(&mut core, id);
        }
        assert_eq!((core.lost_out, core.in_flight()), (3, 7));
        assert_eq!(board.next_lost(), 2);
        board.get_mut(2).tags |= RETRANS | EVER_RETRANS;
        core.retrans_out += 1;
        board.mark_sacked(&mut core, 5);
        assert_eq!(board.next_lost(), 7);
        board.mark_lost(&mut core, 2);
        assert_eq!(board.next_lost(), 2);
        assert_eq!((core.lost_out, core.retrans_out, core.sacked_out), (2, 0, 1));
    }

    #[test]
    fn flights_stay_with_their_packets_as_the_ring_grows() {
        let (mut board, _) = filled(20);
        assert!(board.flight(7).is_none(), "nobody asks");
        board.note_flight(7, Flight { packets: 8, lost: 2 });
        for i in 20..100 {
            board.push(Packet { seq: 1000 + i * 10, len: 10, sent: i, ..Packet::default() });
        }
        let flight = board.flight(7).expect("one that was noted");
        assert_eq!((flight.packets, flight.lost), (8, 2));
    }

    #[test]
    fn the_order_of_transmission_survives_growth_and_retransmission() {
        let (mut board, _) = filled(100);
        board.append_to_send_order(3);
        board.pop();
        let mut order = Vec::new();
        let mut id = board.first_sent();
        while id != NONE {
            order.push(id);
            id = board.sent_after(id);
        }
        let wanted: Vec<Id> = (1..100).filter(|&id| id != 3).chain([3]).collect();
        assert_eq!(order, wanted);
    }
}
