//! Flow queueing: hashed flows served by deficit round robin, new flows first (RFC 8290 section 4.2).

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::store::{Chain, Place, Store};
use crate::near;
use crate::packet::Packet;

/// The flows' queues and their turns; their controllers are elsewhere.
pub(super) struct Flows {
    pub(super) flows: Box<[Flow]>,
    /// Flows that have just become active, and the others that are, as indices.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    quantum: i64,
    perturbation: u32,
    /// Over all flows.
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

/// Memory is asked for so many turns ahead.
const AHEAD: usize = 2;

/// The place of a flow in the round.
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

    /// The flow that may send now.
    pub(super) fn turn<P>(&mut self, store: &Store<P>) -> Option<Turn> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &self.new } else { &self.old };
            let index = *list.front()?;
            // Those to come: the flow of the farther one leads to the packet of the nearer one.
            if let Some(&next) = self.old.get(AHEAD) {
                if let Some(&after) = self.old.get(AHEAD + 1) {
                    near::bring(&self.flows[after as usize]);
                }
                store.bring(self.flows[next as usize].items);
            }
            let flow = &mut self.flows[index as usize];
            if flow.deficit > 0 {
                return Some(Turn { flow: index as usize, is_new });
            }
            flow.deficit += self.quantum;
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.pop_front();
            self.old.push_back(index);
        }
    }

    /// A flow whose turn may come soon.
    pub(super) fn upcoming(&self) -> Option<usize> {
        self.old.get(AHEAD).map(|&flow| flow as usize)
    }

    /// Charges the flow whose turn it is.
    pub(super) fn sent(&mut self, turn: Turn, len: u32) {
        self.flows[turn.flow].deficit -= i64::from(len);
    }

    /// The flow whose turn it is had nothing to send. A new one passes through the old ones once, so that it cannot
    /// starve them by coming back.
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
