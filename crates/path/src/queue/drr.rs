//! Flow queueing: hashed flows served by deficit round robin, new flows first (RFC 8290 section 4.2).

use std::cmp::Reverse;
use std::collections::VecDeque;

use params::Param;

use super::store::{Chain, Place, Store};
use crate::packet::Packet;
use crate::prefetch;

/// The queues of the flows and the order in which they are served. Their controllers are kept by the discipline.
pub(super) struct Flows {
    pub(super) flows: Box<[Flow]>,
    /// Indices of the flows that have just become active, and of the other active ones.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    quantum: i64,
    perturbation: u32,
    /// Bytes, packets and memory of all flows.
    pub(super) bytes: u64,
    pub(super) packets: u32,
    pub(super) memory: u64,
}

pub(super) struct Flow {
    items: Chain,
    pub(super) bytes: u64,
    deficit: i64,
    /// Whether it is in one of the lists.
    listed: bool,
}

/// The most queues that flows are hashed to (Linux fq_codel_change and fq_pie_change).
pub(super) const MAX_FLOWS: u64 = 65_536;

/// The parameter that says how much a flow may send in a round.
pub(super) const fn quantum() -> Param {
    Param::packet_bytes("quantum", 1, 1 << 20).otherwise("MTU + overhead")
}

/// Number of turns ahead at which a flow's first packet and its controller are prefetched; the flow itself is one
/// turn earlier.
const PREFETCH_TURNS: usize = 2;

/// A flow whose turn it is.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) flow: usize,
    is_new: bool,
}

impl Flows {
    pub(super) fn new(flows: u32, quantum: u32, perturbation: u32) -> Self {
        let flow = |_| Flow { items: Chain::EMPTY, bytes: 0, deficit: 0, listed: false };
        Flows {
            flows: (0..flows).map(flow).collect(),
            new: VecDeque::with_capacity(flows as usize),
            old: VecDeque::with_capacity(flows as usize),
            quantum: i64::from(quantum),
            perturbation,
            bytes: 0,
            packets: 0,
            memory: 0,
        }
    }

    /// The flow that a packet belongs to.
    pub(super) fn classify(&self, packet: &impl Packet) -> usize {
        let hash = (packet.flow_hash() ^ self.perturbation).wrapping_mul(0x9e37_79b1);
        ((u64::from(hash) * self.flows.len() as u64) >> 32) as usize
    }

    pub(super) fn push<P>(&mut self, index: usize, place: Place, store: &mut Store<P>) {
        let len = store[place].len;
        let flow = &mut self.flows[index];
        flow.bytes += u64::from(len);
        self.bytes += u64::from(len);
        self.packets += 1;
        self.memory += truesize(len);
        store.push(&mut flow.items, place);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.new.push_back(index as u32);
        }
    }

    pub(super) fn pop<P>(&mut self, index: usize, store: &mut Store<P>) -> Option<Place> {
        let flow = &mut self.flows[index];
        let place = store.pop(&mut flow.items)?;
        let len = store[place].len;
        flow.bytes -= u64::from(len);
        self.bytes -= u64::from(len);
        self.packets -= 1;
        self.memory -= truesize(len);
        Some(place)
    }

    /// The flow that may send now. What the next flows will need is prefetched: the flow itself, its packet and its controller, of
    /// which `controllers` has one for each flow.
    pub(super) fn turn<P, C>(&mut self, store: &Store<P>, controllers: &[C]) -> Option<Turn> {
        for turns in 1.. {
            let is_new = !self.new.is_empty();
            let list = if is_new { &self.new } else { &self.old };
            let index = *list.front()?;
            if let Some(&upcoming) = self.old.get(PREFETCH_TURNS) {
                if let Some(&after) = self.old.get(PREFETCH_TURNS + 1) {
                    prefetch(&self.flows[after as usize]);
                }
                store.prefetch_first(self.flows[upcoming as usize].items);
                prefetch(&controllers[upcoming as usize]);
            }
            let flow = &mut self.flows[index as usize];
            if flow.deficit > 0 {
                return Some(Turn { flow: index as usize, is_new });
            }
            flow.deficit += self.quantum;
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.pop_front();
            self.old.push_back(index);
            if turns == self.old.len() && self.new.is_empty() {
                self.skip_rounds();
            }
        }
        None
    }

    /// Carries out at once the rounds in which no flow may send yet: each gives every flow one quantum and leaves their order.
    fn skip_rounds(&mut self) {
        let owed = |index: &u32| -self.flows[*index as usize].deficit / self.quantum;
        let rounds = self.old.iter().map(owed).min().unwrap_or(0);
        if rounds > 0 {
            self.old.iter().for_each(|&index| self.flows[index as usize].deficit += rounds * self.quantum);
        }
    }

    /// Subtracts a packet from the deficit of the flow whose turn it is.
    pub(super) fn sent(&mut self, turn: Turn, len: u32) {
        self.flows[turn.flow].deficit -= i64::from(len);
    }

    /// Ends the turn of a flow that had nothing to send. A new flow then goes to the end of the old ones, so that
    /// it cannot starve them by becoming new again.
    pub(super) fn empty(&mut self, turn: Turn) {
        let list = if turn.is_new { &mut self.new } else { &mut self.old };
        list.pop_front();
        if turn.is_new && !self.old.is_empty() {
            self.old.push_back(turn.flow as u32);
        } else {
            self.flows[turn.flow].listed = false;
        }
    }

    /// The flow with the most bytes, the first of several.
    pub(super) fn fattest(&self) -> usize {
        let bytes = |&index: &u32| (self.flows[index as usize].bytes, Reverse(index));
        self.new.iter().chain(&self.old).map(bytes).max().map_or(0, |(_, Reverse(index))| index as usize)
    }
}

/// Memory that a packet takes in Linux: its sk_buff and its data with headroom and skb_shared_info, which come in
/// powers of two (2304 bytes for a full Ethernet frame).
pub(super) fn truesize(len: u32) -> u64 {
    256 + u64::from(len + 384).next_power_of_two().max(512)
}
