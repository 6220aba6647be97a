//! What becomes of the packets that taps see: events of links, and metrics of flows.

use contract::histogram::Histogram;
use contract::kinds::{EVENT_DROP, EVENT_MARK};
use contract::record::Recorder;
use contract::table::Batch;
use contract::tables::EventRow;
use path::Nanos;
use serde_json::{Value, json};

use super::node::{Between, Event, Inside, Node, lane};
use super::{Config, Queue};
use crate::emulator::flows::Owner;
use crate::emulator::frame::SYN;

/// ECN field with both bits set (RFC 3168): congestion was experienced.
const CE: u8 = 3;

/// A flow over the measurement window.
struct Flow {
    name: String,
    from: usize,
    to: usize,
    overhead: u32,
    drops: u64,
    ce_marks: u64,
    wire_bytes: u64,
    queue_delay: Histogram,
    rtt: Histogram,
    /// Delay of the newest data that has arrived.
    echo: Option<Nanos>,
}

/// Metrics of all flows, and rows.
pub(super) struct Tallies {
    config: Config,
    addresses: Vec<Option<[u8; 6]>>,
    flows: Vec<Flow>,
    /// Packets between the hosts, by `lane`.
    way: Vec<Between>,
    /// Newest round trip of each flow.
    newest: Vec<Option<Nanos>>,
    events: Vec<EventRow>,
}

impl Tallies {
    pub(super) fn new(config: &Config) -> Tallies {
        let flow = |told: &super::Flow| Flow {
            name: told.key.flow.clone(),
            from: told.from,
            to: told.to,
            overhead: told.overhead,
            drops: 0,
            ce_marks: 0,
            wire_bytes: 0,
            queue_delay: Histogram::new(10),
            rtt: Histogram::new(10),
            echo: None,
        };
        Tallies {
            addresses: config.queues.iter().map(|queue| address(&queue.address)).collect(),
            flows: config.flows.iter().map(flow).collect(),
            way: (0..=2 * config.flows.len()).map(|_| Between::default()).collect(),
            newest: vec![None; config.flows.len()],
            events: Vec::new(),
            config: config.clone(),
        }
    }

    /// A packet came into a node, or left it.
    pub(super) fn passed(&mut self, t: Option<Nanos>, node: &mut Node, event: &Event) {
        let lane = lane(event.owner, self.flows.len());
        let inside = Inside { event: *event, since: t, waited: Some(0), echo: None };
        if event.leaving {
            if let Some(before) = node.inside.get_mut(lane).and_then(|lane| lane.leave(event.identity)) {
                self.left(t, node.number, event, &before, lane);
            }
        } else if let Some(lane) = node.inside.get_mut(lane) {
            lane.enter(inside);
        }
        if let Some(owner) = event.owner {
            self.at_host(t, node.number, event, owner, inside, lane);
        }
    }

    /// A packet was dropped somewhere.
    pub(super) fn dropped(&mut self, t: Option<Nanos>, nodes: &mut [Node], event: &Event) {
        let Some(place) = self.addresses.iter().position(|address| *address == Some(event.address)) else {
            return;
        };
        let queue = &self.config.queues[place];
        let (link, number) = (queue.link, queue.node);
        let lanes = nodes.iter_mut().filter(|node| node.number == number).flat_map(|node| &mut node.inside);
        let Some(inside) = lanes.filter_map(|lane| lane.leave(event.identity)).next() else { return };
        let owner = inside.event.owner;
        self.way[lane(owner, self.flows.len())].leave(event.identity);
        let Some(t) = t else { return };
        if let Some(owner) = owner
            && self.measures(t)
        {
            self.flows[usize::from(owner.flow)].drops += 1;
        }
        self.event(t, link, EVENT_DROP, &inside.event);
    }

    /// A packet left a node in which it had been.
    fn left(&mut self, t: Option<Nanos>, node: usize, event: &Event, before: &Inside, lane: usize) {
        let here = |queue: &&Queue| queue.node == node && queue.interface == event.interface;
        let Some(queue) = self.config.queues.iter().find(here) else { return };
        let (link, since) = (queue.link, before.since.unwrap_or(0));
        let delay = queue.delays.iter().rev().find(|(from, _)| *from <= since).and_then(|&(_, delay)| delay);
        let waited =
            t.zip(before.since).zip(delay).map(|((t, since), delay)| (t - since).saturating_sub(delay));
        if let Some(way) = self.way[lane].find(event.identity) {
            way.waited = way.waited.zip(waited).map(|(so_far, waited)| so_far + waited);
        }
        let marked = event.headers.traffic_class & CE == CE && before.event.headers.traffic_class & CE != CE;
        if let Some(t) = t.filter(|_| marked) {
            if let Some(owner) = event.owner
                && self.measures(t)
            {
                self.flows[usize::from(owner.flow)].ce_marks += 1;
            }
            self.event(t, link, EVENT_MARK, &before.event);
        }
    }

    /// A packet of a flow at one of its hosts.
    fn at_host(
        &mut self,
        t: Option<Nanos>,
        node: usize,
        event: &Event,
        owner: Owner,
        mut inside: Inside,
        lane: usize,
    ) {
        let number = usize::from(owner.flow);
        let measured = t.is_some_and(|t| self.measures(t));
        let flow = &mut self.flows[number];
        let (sender, receiver) = if owner.forward { (flow.from, flow.to) } else { (flow.to, flow.from) };
        if event.leaving && node == sender {
            inside.echo = if owner.forward { None } else { flow.echo };
            self.way[lane].enter(inside);
            return;
        }
        if event.leaving || node != receiver {
            return;
        }
        let Some(sent) = self.way[lane].leave(event.identity) else { return };
        let delay = t.zip(sent.since).map(|(now, then)| now - then);
        if owner.forward {
            if event.headers.payload == 0 || event.headers.flags & SYN != 0 {
                return;
            }
            flow.echo = delay;
            if measured {
                flow.wire_bytes += u64::from(event.headers.bytes + flow.overhead);
                sent.waited.into_iter().for_each(|waited| flow.queue_delay.add(waited));
            }
        } else if let Some((echo, delay)) = sent.echo.zip(delay) {
            self.newest[number] = Some(echo + delay);
            if measured {
                flow.rtt.add(echo + delay);
            }
        }
    }

    fn event(&mut self, t: Nanos, link: u32, kind: u32, event: &Event) {
        self.events.push(EventRow {
            t,
            flow: event.owner.map(|owner| u32::from(owner.flow)),
            hop: Some(link),
            kind,
            seq: event.offset,
            value: Some(i64::from(event.headers.payload)),
        });
    }

    /// Whether the measurement window has a time in it.
    fn measures(&self, t: Nanos) -> bool {
        let [from, to] = self.config.measure;
        from <= t && t < to
    }

    pub(super) fn round_trips(&self) -> &[Option<Nanos>] {
        &self.newest
    }

    /// Rows and metrics.
    pub(super) fn finish(self, end: Nanos) -> (Vec<(&'static str, Batch)>, Value) {
        let names = self.config.flows.iter().map(|flow| flow.key.flow.as_str());
        let links = self.config.links.iter().map(String::as_str);
        let mut recorder = Recorder::new(self.config.run_id, names, links);
        self.events.into_iter().for_each(|row| recorder.event(row.hop.unwrap_or(0), row));
        recorder.finish(end);
        let flow = |flow: &Flow| {
            json!({
                "flow": flow.name,
                "drops": flow.drops,
                "ce_marks": flow.ce_marks,
                "wire_bytes": flow.wire_bytes,
                "queue_delay": flow.queue_delay.metrics(),
                "rtt": flow.rtt.metrics(),
            })
        };
        (recorder.take(), self.flows.iter().map(flow).collect())
    }
}

/// A hardware address of twelve hexadecimal digits.
fn address(digits: &str) -> Option<[u8; 6]> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    number.to_be_bytes()[2..].try_into().ok()
}
