//! FQ-PIE: flow queueing with a PIE controller for each flow (Linux net/sched/sch_fq_pie.c).

use params::Param;
use rand_core::RngCore;

use super::drr::{Flows, MAX_FLOWS, quantum};
use super::pie::{Admission, Params, State, percent, pie_parameters};
use super::{LinkContext, Place, Qdisc, Sink, Store};
use crate::Xoshiro256PlusPlus;
use crate::packet::{Nanos, Packet};

pie_parameters! {
    /// FQ-PIE: flow queues with PIE.
    struct FqPieConfig: "fq_pie" {
        /// Packets waiting, over all flows.
        limit_packets: u32 = Param::limit_packets().default(10_240),
        /// Queues that flows are hashed to.
        flows: u32 = Param::count("flows", 1, MAX_FLOWS).default(1024),
    } controller {
        /// Bytes that a flow may send in a round.
        quantum_bytes: u32 = quantum(),
        /// Memory of all packets, as Linux accounts for it.
        memory_limit_bytes: u64 = Param::bytes("memory_limit").default(32 << 20),
        /// Highest drop probability, in percent, at which packets are marked instead.
        ecn_prob: u32 = Param::count("ecn_prob", 0, 100).default(10),
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = Param::flag("ecn").default(0),
    }
}

pub(super) struct FqPie {
    limit: u32,
    memory_limit: u64,
    mark_below: u64,
    params: Params,
    flows: Flows,
    states: Box<[State]>,
    random: Xoshiro256PlusPlus,
}

impl FqPie {
    pub(super) fn new(config: &FqPieConfig, mut link: LinkContext) -> Self {
        FqPie {
            limit: config.limit_packets,
            memory_limit: config.memory_limit_bytes,
            mark_below: if config.ecn { percent(u64::from(config.ecn_prob)) } else { 0 },
            params: config.controller(link.mtu),
            flows: Flows::new(config.flows, config.quantum_bytes, link.random.next_u32()),
            states: (0..config.flows).map(|_| State::default()).collect(),
            random: link.random,
        }
    }
}

impl<P: Packet> Qdisc<P> for FqPie {
    fn enqueue(&mut self, now: Nanos, place: Place, store: &mut Store<P>, sink: &mut dyn Sink<P>) {
        let index = self.flows.classify(&store[place].packet);
        let room = self.flows.packets < self.limit && self.flows.memory <= self.memory_limit;
        let backlog = self.flows.flows[index].bytes;
        let state = &mut self.states[index];
        state.catch_up(&self.params, now, backlog);
        let admission = Admission { now, room, mark_below: self.mark_below, backlog };
        if state.admit(&self.params, admission, place, store, &mut self.random, sink) {
            self.flows.push(index, place, store);
        }
    }

    fn dequeue(&mut self, now: Nanos, store: &mut Store<P>, _sink: &mut dyn Sink<P>) -> Option<Place> {
        loop {
            let turn = self.flows.turn(store, &self.states)?;
            let state = &mut self.states[turn.flow];
            state.catch_up(&self.params, now, self.flows.flows[turn.flow].bytes);
            match self.flows.pop(turn.flow, store) {
                Some(place) => {
                    let item = &store[place];
                    self.flows.sent(turn, item.len);
                    state.departed(&self.params, now, item, self.flows.flows[turn.flow].bytes);
                    return Some(place);
                }
                None => self.flows.empty(turn),
            }
        }
    }

    fn backlog_bytes(&self) -> u64 {
        self.flows.bytes
    }

    fn backlog_packets(&self) -> u32 {
        self.flows.packets
    }
}
