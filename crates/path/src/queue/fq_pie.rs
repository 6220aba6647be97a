//! FQ-PIE: flow queueing with a PIE controller for each flow (Linux net/sched/sch_fq_pie.c).

use rand_core::RngCore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drr::Flows;
use super::pie::{Admission, Params, PieConfig, State, percent};
use super::{LinkContext, Param, Place, Qdisc, QueueKind, Sink, Store};
use crate::Xoshiro256PlusPlus;
use crate::packet::{Nanos, Packet};

/// Parameters of FQ-PIE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqPieConfig {
    /// Packets waiting, over all flows.
    pub limit_packets: u32,
    /// Queues that flows are hashed to.
    pub flows: u32,
    /// Queueing delay aimed at.
    pub target_ns: u64,
    /// Time between updates of the drop probabilities.
    pub tupdate_ns: u64,
    /// Weight of the distance from the target, in sixteenths per second.
    pub alpha: u32,
    /// Weight of the delay's change, in sixteenths per second.
    pub beta: u32,
    /// Bytes that a flow may send in a round; Linux's default is the link's MTU with overhead.
    pub quantum_bytes: u32,
    /// Memory of all packets, as Linux accounts for it.
    pub memory_limit_bytes: u64,
    /// Highest drop probability, in percent, at which packets are marked instead.
    pub ecn_prob: u32,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Drop small packets less often.
    pub bytemode: bool,
    /// Estimate the delay from the departure rate of the flow.
    pub dq_rate_estimator: bool,
}

/// Defaults of fq_pie_init.
pub(super) const FQ_PIE: QueueKind = QueueKind {
    kind: "fq_pie",
    params: &[
        Param::new("limit", "packets", Some(10_240)),
        Param::new("flows", "count", Some(1024)),
        Param::new("target", "ns", Some(15_000_000)),
        Param::new("tupdate", "ns", Some(15_000_000)),
        Param::new("alpha", "count", Some(2)),
        Param::new("beta", "count", Some(20)),
        Param::new("quantum", "bytes", None),
        Param::new("memory_limit", "bytes", Some(32 << 20)),
        Param::new("ecn_prob", "count", Some(10)),
        Param::new("ecn", "bool", Some(0)),
        Param::new("bytemode", "bool", Some(0)),
        Param::new("dq_rate_estimator", "bool", Some(0)),
    ],
};

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
        let pie = PieConfig {
            limit_packets: config.limit_packets,
            target_ns: config.target_ns,
            tupdate_ns: config.tupdate_ns,
            alpha: config.alpha,
            beta: config.beta,
            ecn: config.ecn,
            bytemode: config.bytemode,
            dq_rate_estimator: config.dq_rate_estimator,
        };
        FqPie {
            limit: config.limit_packets,
            memory_limit: config.memory_limit_bytes,
            mark_below: if config.ecn { percent(u64::from(config.ecn_prob)) } else { 0 },
            params: Params::new(&pie, link.mtu),
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
