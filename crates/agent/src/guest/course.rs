//! The course of a run in a guest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use live::sampler::Stepped;
use live::taps::Taps;
use loadlatency::sys::monotonic_ns;
use serde_json::Value;

use crate::agent::Agent;
use crate::clock::{self, Clock};
use crate::error::{self, Error, Result};
use crate::order::Prepare;
use crate::samples;
use crate::sys;

use super::dropped::Drops;
use super::inventory;
use super::netlink::Netlink;
use super::node::{self, FIRST_NODE, Node};
use super::plan::{Counters, Link, Message, Plan, Report, Step};
use super::queues::{Found, Queues};

/// Time from the end of the settings to the beginning of the run, in ns: what a queue discipline does first after it was made, such
/// as PIE's first update after half a second, is over then, as in a lab.
const LEAD_NS: u64 = 2_000_000_000;
/// Time from the end of the run to the last samples, in ns.
const AFTER_NS: u64 = 1_000_000;
/// File of the rows that packets make.
const PACKETS: &str = "/samples-packets";
/// Longest time between two looks at packets, in ns: so many fit into a ring.
const TAPS_NS: u64 = 10_000_000;
/// Number of reports in a run of how far it is.
const REPORTS: u64 = 100;

/// Carries out `plan.json`.
///
/// # Errors
/// Any setting or link that the kernel refuses.
pub(super) fn carry_out() -> Result<()> {
    let plan: Plan = serde_json::from_slice(&error::at("plan.json", fs::read("/plan.json"))?)?;
    if plan.inventory {
        return inventory::write();
    }
    let report = Course::set_up(plan)?.run()?;
    error::at("report.json", fs::write("/report.json", serde_json::to_vec(&report)?))
}

/// A run whose hosts and links are there.
struct Course {
    plan: Plan,
    nodes: Vec<Node>,
    agents: Vec<Agent>,
}

impl Course {
    fn set_up(mut plan: Plan) -> Result<Course> {
        let nodes: Vec<Node> =
            (0..plan.nodes).map(|number| Node::new(FIRST_NODE + number as i32)).collect::<Result<_>>()?;
        for step in std::mem::take(&mut plan.steps) {
            set(step, &nodes)?;
        }
        let mut agents = Vec::new();
        for (number, order) in std::mem::take(&mut plan.orders) {
            agents.push(begin(&nodes[number], order)?);
        }
        for (_, config) in &mut plan.samplers {
            // The plan has numbers of nodes for the names of namespaces.
            for socket in config["sockets"].as_array_mut().into_iter().flatten() {
                if let Some(number) = socket["netns"].as_u64() {
                    socket["netns"] = node::path(number as usize).into();
                }
            }
        }
        Ok(Course { plan, nodes, agents })
    }

    fn run(mut self) -> Result<Report> {
        let zero = monotonic_ns() + LEAD_NS;
        let clock = Arc::new(Clock::default());
        clock.begin(zero);
        for agent in &mut self.agents {
            agent.begin(zero)?;
        }
        let looks = Looks::begin(&self.plan, &self.nodes, zero)?;
        let links = self.pass(&clock)?;
        clock.sleep_until((self.plan.duration_ns + AFTER_NS) as i64);
        let Seen { queue, sampled, taps } = looks.end()?;
        let name = |(at, link, counters): Found| (at, self.plan.links[link].name.clone(), counters);
        let mut report = Report {
            kernel: inventory::version()?,
            flows: Vec::new(),
            reports: Vec::new(),
            samplers: BTreeMap::new(),
            links,
            packets: Value::Null,
            unseen: 0,
            queue: queue.into_iter().map(name).collect(),
        };
        if let Some(taps) = taps {
            let seen = taps.finish(self.plan.duration_ns);
            error::at(PACKETS, samples::write(Path::new(PACKETS), &seen.batches))?;
            (report.packets, report.unseen) = (seen.flows, seen.missed);
        }
        for (name, sampler) in sampled {
            let (batches, told) = sampler.finish();
            let file = format!("/samples-{name}");
            error::at(&file, samples::write(Path::new(&file), &batches))?;
            report.samplers.insert(name, serde_json::from_str(&told)?);
        }
        for agent in &self.agents {
            let (flows, reports) = agent.seen();
            report.flows.extend(flows);
            report.reports.extend(reports);
        }
        Ok(report)
    }

    /// Lets the run go by; returns what passed each link in the measurement window.
    fn pass(&self, clock: &Clock) -> Result<BTreeMap<String, Counters>> {
        let plan = &self.plan;
        let mut queues = open(plan, &self.nodes, |_| true)?;
        let mut sockets: BTreeMap<usize, Netlink> = BTreeMap::new();
        for message in plan.changes.iter().flat_map(|change| &change.messages) {
            if let Entry::Vacant(place) = sockets.entry(message.node) {
                place.insert(self.nodes[message.node].inside(Netlink::open)?);
            }
        }
        let mut moments: Vec<u64> = (1..=REPORTS).map(|part| plan.duration_ns / REPORTS * part).collect();
        moments.extend(plan.measure);
        moments.extend(plan.changes.iter().map(|change| change.at_ns));
        moments.sort_unstable();
        moments.dedup();
        let mut progress =
            error::at("progress", OpenOptions::new().append(true).create(true).open("/progress"))?;
        let mut ends = [BTreeMap::new(), BTreeMap::new()];
        for at in moments {
            clock.sleep_until(at as i64);
            for message in plan.changes.iter().filter(|change| change.at_ns == at).flat_map(|c| &c.messages) {
                change(&mut sockets, message)?;
            }
            for (edge, end) in plan.measure.iter().zip(&mut ends) {
                if *edge == at {
                    *end = look(&mut queues)?;
                }
            }
            writeln!(progress, "{at}")?;
        }
        let [before, after] = ends;
        let passed = |(number, now): (usize, Counters)| {
            let then: Counters = before.get(&number).copied().unwrap_or_default();
            let grown = Counters {
                drops: now.drops.saturating_sub(then.drops),
                lost: now.lost.saturating_sub(then.lost),
                bytes: now.bytes.saturating_sub(then.bytes),
                packets: now.packets.saturating_sub(then.packets),
                marks: now.marks.map(|marks| marks.saturating_sub(then.marks.unwrap_or(0))),
                ..now
            };
            (plan.links[number].name.clone(), grown)
        };
        Ok(after.into_iter().map(passed).collect())
    }
}

fn change(sockets: &mut BTreeMap<usize, Netlink>, message: &Message) -> Result<()> {
    let socket = sockets.get_mut(&message.node);
    socket.ok_or_else(|| Error::from(io::Error::other("no such node")))?.obey(message)
}

fn set(step: Step, nodes: &[Node]) -> Result<()> {
    match step {
        Step::Write { node: None, path, text } => write(&path, &text),
        Step::Write { node: Some(node), path, text } => nodes[node].inside(move || write(&path, &text)),
        Step::Netlink(message) => nodes[message.node].inside(move || Netlink::open()?.obey(&message)),
        Step::Cut { node, interface, gso } => {
            nodes[node].inside(move || error::at(&interface, live::offload::cut(&interface, gso)))
        }
    }
}

fn write(path: &str, text: &str) -> Result<()> {
    let opened = OpenOptions::new().write(true).open(Path::new(path));
    error::at(&format!("{path} = {text}"), opened.and_then(|mut file| file.write_all(text.as_bytes())))
}

/// The agent of a host, which has what it sends and receives.
fn begin(node: &Node, order: Prepare) -> Result<Agent> {
    node.inside(move || {
        let mut agent = Agent::of_guest();
        agent.prepare(&order).map(|()| agent)
    })
}

/// Ways to ask about the links that are wanted, by node.
fn open(plan: &Plan, nodes: &[Node], wanted: impl Fn(&Link) -> bool) -> Result<Vec<Queues>> {
    let mut by_node: BTreeMap<usize, Vec<(usize, Link)>> = BTreeMap::new();
    for (number, link) in plan.links.iter().enumerate().filter(|(_, link)| wanted(link)) {
        by_node.entry(link.node).or_default().push((number, link.clone()));
    }
    let opened = by_node.into_iter().map(|(node, links)| nodes[node].inside(move || Queues::open(links)));
    error::at("queue disciplines", opened.collect())
}

fn look(queues: &mut [Queues]) -> Result<BTreeMap<usize, Counters>> {
    let mut found = BTreeMap::new();
    for node in queues {
        found.extend(error::at("queue disciplines", node.look())?);
    }
    Ok(found)
}

/// Samplers of sockets by name.
type Sampled = Vec<(String, Stepped)>;

/// Looks of a run: at queues, at sockets, and at packets.
struct Seen {
    queue: Vec<Found>,
    sampled: Sampled,
    taps: Option<Taps>,
}

/// Looks at queues, sockets and packets at their intervals, in one thread: every system call costs.
struct Looks {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen>>,
}

/// Thread that looks, and the ways by which it asks.
struct Look {
    zero: u64,
    end: u64,
    /// Ways to ask about recorded links, with the time between two looks.
    queues: Vec<Queues>,
    interval: u64,
    packets: Option<Drops>,
    seen: Seen,
}

impl Looks {
    fn begin(plan: &Plan, nodes: &[Node], zero: u64) -> Result<Looks> {
        let mut sampled = Sampled::new();
        for (name, config) in &plan.samplers {
            let sampler = Stepped::new(&config.to_string(), zero).map_err(Error::Sampler)?;
            sampled.push((name.clone(), sampler));
        }
        let any = plan.queue_interval_ns > 0 && plan.links.iter().any(|link| link.observe);
        let (taps, packets) = match &plan.taps {
            Some(told) => {
                // In a thread of its own, which stays at the node that it was at last.
                let (told, real) = (told.clone(), clock::real_time_of(zero));
                let open = thread::spawn(move || Taps::begin(&told, real, &node::enter));
                let opened = open.join().map_err(|_| Error::Panicked)?;
                let drops = error::at("dropped packets", Drops::begin())?;
                (Some(error::at("packets", opened)?), Some(drops))
            }
            None => (None, None),
        };
        let over = Arc::new(AtomicBool::new(false));
        let look = Look {
            zero,
            end: plan.duration_ns,
            queues: if any { open(plan, nodes, |link| link.observe)? } else { Vec::new() },
            interval: if any { plan.queue_interval_ns } else { u64::MAX },
            packets,
            seen: Seen { queue: Vec::new(), sampled, taps },
        };
        let told = Arc::clone(&over);
        Ok(Looks {
            over,
            thread: error::at("a thread", thread::Builder::new().spawn(move || look.until(&told)))?,
        })
    }

    fn end(self) -> Result<Seen> {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap_or(Err(Error::Panicked))
    }
}

impl Look {
    /// Looks until the run ends, or is said to be over.
    fn until(mut self, over: &AtomicBool) -> Result<Seen> {
        let taps_ns = if self.packets.is_some() { TAPS_NS } else { u64::MAX };
        let mut at = 0;
        while at < self.end && !over.load(Ordering::Acquire) {
            sys::sleep_until(self.zero + at);
            self.at(at)?;
            let intervals = self.seen.sampled.iter().map(|(_, sampler)| sampler.interval());
            at = intervals
                .chain([self.interval, taps_ns])
                .map(|interval| (at / interval).saturating_add(1).saturating_mul(interval))
                .min()
                .unwrap_or(self.end);
        }
        sys::sleep_until(self.zero + self.end);
        self.packets()?;
        for queues in self.queues {
            self.seen.queue.extend(error::at("queue disciplines", queues.finish())?);
        }
        self.seen.queue.sort_by_key(|&(at, link, _)| (at, link));
        Ok(self.seen)
    }

    fn at(&mut self, at: u64) -> Result<()> {
        self.packets()?;
        let round_trips = self.seen.taps.as_ref().map(Taps::round_trips).unwrap_or_default();
        for (_, sampler) in &mut self.seen.sampled {
            if at.is_multiple_of(sampler.interval()) {
                sampler.sample(at, round_trips);
            }
        }
        if at.is_multiple_of(self.interval) {
            for queues in &mut self.queues {
                error::at("queue disciplines", queues.note(at))?;
            }
        }
        Ok(())
    }

    fn packets(&mut self) -> Result<()> {
        let Some((taps, drops)) = self.seen.taps.as_mut().zip(self.packets.as_mut()) else { return Ok(()) };
        error::at("packets", drops.take().and_then(|dropped| taps.look(dropped)))
    }
}
