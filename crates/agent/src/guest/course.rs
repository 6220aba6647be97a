//! The course of a run in a guest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use loadlatency::sys::monotonic_ns;
use serde_json::Value;

use crate::agent::Agent;
use crate::clock::Clock;
use crate::error::{self, Error, Result};
use crate::order::Prepare;

use super::inventory;
use super::looks::{Looks, Sampled, Seen};
use super::netlink::Netlink;
use super::node::{self, FIRST_NODE, Node};
use super::plan::{Counters, Message, Plan, Report, Step};
use super::queues::{self, Found, Queues};

/// Time from the end of the settings to the beginning of the run, in ns: what a queue discipline does first after it was made, such
/// as PIE's first update after half a second, is over then, as in a lab.
const LEAD_NS: u64 = 2_000_000_000;
/// Time from the end of the run to the last samples, in ns.
const AFTER_NS: u64 = 1_000_000;
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
    /// Nodes at which flows begin or end.
    hosts: Vec<usize>,
    agents: Vec<Agent>,
}

impl Course {
    fn set_up(mut plan: Plan) -> Result<Course> {
        let nodes: Vec<Node> =
            (0..plan.nodes).map(|number| Node::new(FIRST_NODE + number as i32)).collect::<Result<_>>()?;
        for step in std::mem::take(&mut plan.steps) {
            set(step, &nodes)?;
        }
        let (mut agents, mut hosts) = (Vec::new(), Vec::new());
        for (number, order) in std::mem::take(&mut plan.orders) {
            agents.push(begin(&nodes[number], order)?);
            hosts.push(number);
        }
        for (_, config) in &mut plan.samplers {
            // The plan has numbers of nodes for the names of namespaces.
            for socket in config["sockets"].as_array_mut().into_iter().flatten() {
                if let Some(number) = socket["netns"].as_u64() {
                    socket["netns"] = node::path(number as usize).into();
                }
            }
        }
        Ok(Course { plan, nodes, hosts, agents })
    }

    fn run(mut self) -> Result<Report> {
        let before = self.counters()?;
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
        let after = self.counters()?;
        let counters = self.hosts.iter().copied().zip(before.into_iter().zip(after));
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
            counters: counters.map(|(host, (then, now))| (host, [then, now])).collect(),
        };
        if let Some((taps, mut rows)) = taps {
            let seen = taps.finish(self.plan.duration_ns);
            error::at("rows of packets", rows.append(&seen.batches).and_then(|()| rows.finish()))?;
            (report.packets, report.unseen) = (seen.flows, seen.missed);
        }
        for Sampled { name, sampler, mut rows } in sampled {
            let (batches, told) = sampler.finish();
            error::at(&name, rows.append(&batches).and_then(|()| rows.finish()))?;
            report.samplers.insert(name, serde_json::from_str(&told)?);
        }
        for agent in &self.agents {
            let (flows, reports) = agent.seen();
            report.flows.extend(flows);
            report.reports.extend(reports);
        }
        Ok(report)
    }

    /// The kernel's counters of each host so far, as text.
    fn counters(&self) -> Result<Vec<String>> {
        self.hosts.iter().map(|host| self.nodes[*host].inside(counters)).collect()
    }

    /// Lets the run go by; returns what passed each link in the measurement window.
    fn pass(&self, clock: &Clock) -> Result<BTreeMap<String, Counters>> {
        let plan = &self.plan;
        let mut queues = queues::open(plan, &self.nodes, |_| true)?;
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

/// Text of a namespace's counters of IP and what is above it, as nstat(8) reads them; a kernel may have no IPv6.
fn counters() -> Result<String> {
    let mut text = String::new();
    for file in ["snmp", "netstat", "snmp6"] {
        match fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => {}
            read => text += &error::at(file, read)?,
        }
    }
    Ok(text)
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

fn look(queues: &mut [Queues]) -> Result<BTreeMap<usize, Counters>> {
    let mut found = BTreeMap::new();
    for node in queues {
        found.extend(error::at("queue disciplines", node.look())?);
    }
    Ok(found)
}
