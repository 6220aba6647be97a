//! Fates of the packets that taps see: events of links, and metrics of flows.

use contract::histogram::Histogram;
use contract::kinds::{EVENT_DROP, EVENT_MARK};
use contract::record::Recorder;
use contract::table::Batch;
use contract::tables::EventRow;
use path::Nanos;
use serde_json::{Value, json};

use super::backlog::{Backlogs, Entry};
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
    /// Acknowledgements that came to senders in the present look: the time and the flow.
    acknowledged: Vec<(Nanos, u32)>,
    backlogs: Backlogs,
    recorder: Recorder,
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
        let names = config.flows.iter().map(|flow| flow.key.flow.as_str());
        let links = config.links.iter().map(String::as_str);
        let changing = config.queues.iter().filter(|queue| queue.changes).map(|queue| queue.link);
        Tallies {
            recorder: Recorder::new(config.run_id, names, links),
            backlogs: Backlogs::new(changing),
            acknowledged: Vec::new(),
            addresses: config.queues.iter().map(|queue| address(&queue.address)).collect(),
            flows: config.flows.iter().map(flow).collect(),
            way: (0..=2 * config.flows.len()).map(|_| Between::default()).collect(),
            newest: vec![None; config.flows.len()],
            config: config.clone(),
        }
    }

    /// A packet came into a node, or left it.
    pub(super) fn passed(&mut self, t: Option<Nanos>, node: &mut Node, event: &Event) {
        let lane = lane(event.owner, self.flows.len());
        let mut inside = Inside { event: *event, since: t, waited: Some(0), echo: None, queued: None };
        if event.leaving {
            if let Some(before) = node.inside.get_mut(lane).and_then(|lane| lane.leave(event.identity)) {
                self.left(t, node.number, event, &before, lane);
            }
        } else if let Some(queue) = node.ahead(lane) {
            inside.queued = t.and_then(|t| self.enters(t, queue, event));
            node.inside[lane].enter(inside);
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
        if let Some(entry) = inside.queued {
            let bytes = inside.event.headers.bytes + self.config.queues[place].overhead;
            self.backlogs.dropped(link, entry, t, bytes);
        }
        if let Some(owner) = owner
            && self.measures(t)
        {
            self.flows[usize::from(owner.flow)].drops += 1;
        }
        self.event(t, link, EVENT_DROP, &inside.event);
    }

    /// A packet came to a queue, which it enters when the delay is over. None where nobody wants to know.
    fn enters(&mut self, t: Nanos, queue: usize, event: &Event) -> Option<Entry> {
        let queue = &self.config.queues[queue];
        let entry = t + queue.delay(t).unwrap_or(0);
        self.backlogs.enters(queue.link, entry, event.headers.bytes + queue.overhead)
    }

    /// A packet left a node in which it had been.
    fn left(&mut self, t: Option<Nanos>, node: usize, event: &Event, before: &Inside, lane: usize) {
        let here = |queue: &&Queue| queue.node == node && queue.interface == event.interface;
        let Some(queue) = self.config.queues.iter().find(here) else { return };
        let (link, since) = (queue.link, before.since.unwrap_or(0));
        let (delay, bytes) = (queue.delay(since), event.headers.bytes + queue.overhead);
        let waited =
            t.zip(before.since).zip(delay).map(|((t, since), delay)| (t - since).saturating_sub(delay));
        if let Some(way) = self.way[lane].find(event.identity) {
            way.waited = way.waited.zip(waited).map(|(so_far, waited)| so_far + waited);
        }
        let marked = event.headers.traffic_class & CE == CE && before.event.headers.traffic_class & CE != CE;
        if let Some((t, entry)) = t.zip(before.queued) {
            self.backlogs.left(link, entry, t, bytes, marked);
        }
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
        if let Some(t) = t.filter(|_| !owner.forward) {
            self.acknowledged.push((t, u32::from(owner.flow)));
        }
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
        let row = EventRow {
            t,
            flow: event.owner.map(|owner| u32::from(owner.flow)),
            hop: Some(link),
            kind,
            seq: event.offset,
            value: Some(i64::from(event.headers.payload)),
        };
        self.recorder.event(link, row);
    }

    /// Whether the measurement window has a time in it.
    fn measures(&self, t: Nanos) -> bool {
        let [from, to] = self.config.measure;
        from <= t && t < to
    }

    pub(super) fn round_trips(&self) -> &[Option<Nanos>] {
        &self.newest
    }

    /// Acknowledgements that came to senders since the last call of `begin_look`, in order: of each the time and the flow.
    pub(super) fn acknowledged(&self) -> &[(Nanos, u32)] {
        &self.acknowledged
    }

    pub(super) fn begin_look(&mut self) {
        self.acknowledged.clear();
    }

    /// Everything that happened before `now` was told; returns the rows that are complete.
    pub(super) fn settle(&mut self, now: Nanos) -> Vec<(&'static str, Batch)> {
        let recorder = &mut self.recorder;
        self.backlogs.tell(now, |row| recorder.queue(row));
        recorder.take()
    }

    /// Rows that are left, and metrics.
    pub(super) fn finish(mut self, end: Nanos) -> (Vec<(&'static str, Batch)>, Value) {
        let recorder = &mut self.recorder;
        self.backlogs.tell_before(end, |row| recorder.queue(row));
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
        (self.recorder.take(), self.flows.iter().map(flow).collect())
    }
}

/// A hardware address of twelve hexadecimal digits.
fn address(digits: &str) -> Option<[u8; 6]> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    number.to_be_bytes()[2..].try_into().ok()
}
