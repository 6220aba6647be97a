//! From a configuration to the threads that carry it out: which links go together, sockets, memory.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use contract::ids::HostId;
use contract::scenario::{self, Sampling};
use path::{BfifoConfig, CodelConfig, Link, LinkConfig, Mode, Nanos, PfifoConfig, QueueConfig, Switch};

use super::Shared;
use super::config::Config;
use super::flows::Flows;
use super::line::{Common, Line, Records};
use super::pool::Pool;
use super::port::{Input, Output};
use super::worker::{self, Change, Direction, Hop, Ingress, Piece, Stats, SwitchRun, Tap, Worker};
use crate::sys::{self, Waker};

/// Packets of a way of which nothing is known; what is known of others is rounded up by as many.
const FEW: u64 = 256;
/// Packets that wait in a queue whose limit is not a number of packets or bytes.
const SOME: u64 = 1024;
/// Memory is put in place for at most so many packets of a link; more is taken when they come.
const PREPARED: u64 = 8192;

/// Way through a cable, before it is opened.
struct Way<'a> {
    input: &'a str,
    output: &'a str,
    link: Option<(u32, &'a scenario::Link)>,
}

fn ways(config: &Config) -> Vec<Way<'_>> {
    let link = |name: &Option<String>| name.as_deref().and_then(|name| config.link(name));
    let both = config.cables.iter().flat_map(|cable| {
        [
            Way { input: &cable.a, output: &cable.b, link: link(&cable.forward) },
            Way { input: &cable.b, output: &cable.a, link: link(&cable.reverse) },
        ]
    });
    both.collect()
}

/// Number of threads: as asked for, but not more than there are groups of links.
pub(super) fn threads(config: &Config) -> usize {
    assign(config).into_iter().max().map_or(1, |last| last + 1)
}

/// Thread of each way. Ways of one switch stay together, those that lead to the switch too if it can pause them.
fn assign(config: &Config) -> Vec<usize> {
    let ways = ways(config);
    let shares = |node: &str| {
        config.scenario.nodes.iter().find(|n| n.name == node).and_then(|node| node.switch.as_ref())
    };
    let mut groups: Vec<usize> = (0..ways.len()).collect();
    let mut by_switch: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, way) in ways.iter().enumerate() {
        let Some((_, link)) = way.link else { continue };
        let from = shares(&link.from).map(|_| link.from.as_str());
        let to = shares(&link.to).and_then(|switch| switch.pause).map(|_| link.to.as_str());
        for switch in [from, to].into_iter().flatten() {
            let (old, new) = (groups[index], *by_switch.entry(switch).or_insert(groups[index]));
            groups.iter_mut().filter(|group| **group == old).for_each(|group| *group = new);
            by_switch.values_mut().filter(|group| **group == old).for_each(|group| *group = new);
        }
    }
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    groups.iter().for_each(|&group| *sizes.entry(group).or_default() += 1);
    let mut order: Vec<(usize, usize)> = sizes.into_iter().collect();
    order.sort_by_key(|&(group, size)| (std::cmp::Reverse(size), group));
    let threads = (config.threads as usize).min(order.len()).max(1);
    let mut loads = vec![0; threads];
    let mut thread_of = BTreeMap::new();
    for (group, size) in order {
        let least = (0..threads).min_by_key(|&thread| loads[thread]).unwrap_or(0);
        loads[least] += size;
        thread_of.insert(group, least);
    }
    groups.iter().map(|group| thread_of[group]).collect()
}

/// Opens everything in the calling thread's network namespace.
///
/// # Errors
/// An interface that is not there, rights that are missing; with its name.
pub(super) fn workers(
    config: &Arc<Config>,
    shared: &Arc<Shared>,
    files: &[Sender<Piece>],
) -> io::Result<Vec<Worker>> {
    let (ways, threads) = (ways(config), assign(config));
    let count = shared.live.len();
    (0..count)
        .map(|number| {
            let own: Vec<&Way<'_>> = ways
                .iter()
                .zip(&threads)
                .filter(|&(_, &thread)| thread == number)
                .map(|(way, _)| way)
                .collect();
            worker(config, shared, files, number, &own)
        })
        .collect()
}

fn worker(
    config: &Arc<Config>,
    shared: &Arc<Shared>,
    files: &[Sender<Piece>],
    number: usize,
    ways: &[&Way<'_>],
) -> io::Result<Worker> {
    let scenario = &config.scenario;
    let mut directions =
        ways.iter().map(|way| direction(config, files, way)).collect::<io::Result<Vec<_>>>()?;
    let switches = switches(config, ways, &mut directions);
    let packets: u64 = ways.iter().map(|way| way.link.map_or(FEW, |(_, link)| held(link))).sum();
    let waker = Arc::new(Waker::new()?);
    let flow = |name: &str| scenario.flows.iter().position(|flow| flow.name == name).unwrap_or(0) as u16;
    let keys = config.flows.iter().map(|key| (flow(&key.flow), key.clone())).collect();
    let measure = (scenario.measure.from_ns, scenario.measure.to_ns);
    let records = Records::new(scenario.hop_names().len(), scenario.flows.len(), measure);
    let mut schedule: Vec<Change> = Vec::new();
    for change in &scenario.schedule {
        let on = |way: &&Way<'_>| way.link.is_some_and(|(_, link)| link.name == change.link);
        if let Some(direction) = ways.iter().position(on) {
            schedule.push(Change { at: change.at_ns, direction, change: change.path_change() });
        }
    }
    let now = sys::monotonic() - shared.base;
    let streams_of = config.clone();
    Ok(Worker {
        number,
        shared: shared.clone(),
        polled: worker::polled(&waker, &directions),
        waker,
        directions,
        switches,
        common: Common::new(Pool::new(packets as usize)?, Flows::new(keys), records),
        stats: Stats::new(),
        changed: schedule.len(), // until the run begins
        schedule,
        sampling: match scenario.record.queue {
            Sampling::Interval { interval_ns } => Some(interval_ns),
            Sampling::Off | Sampling::PerAck => None,
        },
        next_sample: Nanos::MAX,
        measure: [measure.0, measure.1],
        measured: 0,
        zero: Nanos::MAX,
        next_zero: None,
        clock: 0,
        offset: worker::clock_offset(shared.base),
        next_housekeeping: now,
        pauses: VecDeque::new(),
        batch: Vec::new(),
        scratch: vec![0; 1 << 16],
        recent_since: now,
        last_sleep: now,
        recent: 0,
        busy: false,
        streams: Box::new(move |link, purpose| {
            let scenario = &streams_of.scenario;
            path::stream(scenario.seed, scenario.repeat, purpose, &scenario.links[link as usize].name)
        }),
    })
}

fn direction(config: &Config, files: &[Sender<Piece>], way: &Way<'_>) -> io::Result<Direction> {
    let scenario = &config.scenario;
    let per_change = scenario.record.queue == Sampling::PerAck;
    let mut direction = Direction {
        input: Input::open(way.input)?,
        output: Output::open(way.output)?,
        hop: Hop::Wire,
        egress: None,
        ingress: None,
        line: Line::new(FEW as usize),
        link: None,
        observe: false,
        bottleneck: None,
        mtu: u32::MAX,
        min_delay: 0,
        min_delay_ever: 0,
        window: [None, None],
        loss: None,
        tap: None,
        last_arrival: 0,
    };
    let Some((number, link)) = way.link else { return Ok(direction) };
    let streams = |purpose: &str| path::stream(scenario.seed, scenario.repeat, purpose, &link.name);
    let link_config = link.path_config(per_change && link.observe);
    direction.hop = Hop::Link(Box::new(Link::new(&link_config, &streams, Mode::Stepped)));
    direction.line = Line::new(held(link) as usize);
    direction.link = Some(number);
    direction.observe = link.observe;
    direction.bottleneck = link.bottleneck.then_some(link.overhead);
    direction.mtu = link.mtu;
    let changes = scenario.schedule.iter().filter(|change| change.link == link.name);
    if link.jitter.is_none() {
        direction.min_delay = link.delay_ns;
        direction.min_delay_ever =
            changes.filter_map(|change| change.delay_ns).fold(link.delay_ns, Nanos::min);
    }
    direction.loss = link.loss.clone();
    let at_place = |host: HostId, place: usize| {
        let name = format!("{}.{}", scenario.hosts[host.index()].name, scenario::PLACES[place]);
        let streams = move |purpose: &str| path::stream(scenario.seed, scenario.repeat, purpose, &name);
        (scenario.place_hop(host, place), streams)
    };
    if let Some(from) = scenario.host(&link.from)
        && let Some(egress) = &scenario.hosts[from.index()].egress
    {
        let (hop, streams) = at_place(from, 0);
        let netem = Link::new(&egress.path_config(), &streams, Mode::Stepped);
        direction.egress = Some((hop, netem, Line::new(FEW as usize)));
    }
    if let Some(to) = scenario.host(&link.to)
        && let Some(rule) = &scenario.hosts[to.index()].ingress.before_gro
    {
        let (hop, streams) = at_place(to, 1);
        let mut link = Link::new(&rule.path_config(), &streams, Mode::Fused);
        link.next_query(Nanos::MAX);
        direction.ingress = Some(Ingress { hop, link, rule: rule.clone(), passed: Line::default() });
    }
    if let Some(place) = config.captures.iter().position(|capture| capture.at == link.name) {
        direction.tap = Some(Tap::new(config.captures[place].snaplen, files[place].clone()));
    }
    Ok(direction)
}

/// Links from a node that shares memory become ports of one switch.
fn switches(config: &Config, ways: &[&Way<'_>], directions: &mut [Direction]) -> Vec<SwitchRun> {
    let scenario = &config.scenario;
    let mut runs = Vec::new();
    for node in &scenario.nodes {
        let Some(switch) = &node.switch else { continue };
        let ends = |end: fn(&scenario::Link) -> &str| -> Vec<usize> {
            let at = |way: &&Way<'_>| way.link.is_some_and(|(_, link)| end(link) == node.name);
            ways.iter().enumerate().filter(|(_, way)| at(way)).map(|(index, _)| index).collect()
        };
        let (outgoing, incoming) = (ends(|link| &link.from), ends(|link| &link.to));
        if outgoing.is_empty() {
            continue;
        }
        let links: Vec<&scenario::Link> =
            outgoing.iter().filter_map(|&index| Some(ways[index].link?.1)).collect();
        let per_change = scenario.record.queue == Sampling::PerAck;
        let configs: Vec<LinkConfig> =
            links.iter().map(|link| link.path_config(per_change && link.observe)).collect();
        let streams =
            |port: usize, what: &str| path::stream(scenario.seed, scenario.repeat, what, &links[port].name);
        for (port, &index) in outgoing.iter().enumerate() {
            directions[index].hop = Hop::Port { switch: runs.len(), port };
            // A port of a switch with shared memory does not change.
            directions[index].loss = None;
        }
        // A pause frame goes back over the delay of the cable's other direction.
        let delay = |index: usize| {
            let link = ways[index].link.map(|(_, link)| link);
            let back = link.and_then(|l| scenario.links.iter().find(|b| b.from == l.to && b.to == l.from));
            back.or(link).map_or(0, |link| link.delay_ns)
        };
        let incoming = incoming.into_iter().map(|index| (index, delay(index))).collect();
        runs.push(SwitchRun { switch: Switch::new(switch, &configs, &streams), outgoing, incoming });
    }
    runs
}

/// About how many packets a link holds.
fn held(link: &scenario::Link) -> u64 {
    let full = u64::from(link.mtu.max(576)) * 8;
    let flying = link.rate_bps.map_or(PREPARED, |rate| {
        (u128::from(rate) * u128::from(link.delay_ns) / 1_000_000_000 / u128::from(full)).min(1 << 32) as u64
    });
    let waiting = match &link.queue {
        QueueConfig::Pfifo(PfifoConfig { limit_packets })
        | QueueConfig::Codel(CodelConfig { limit_packets, .. }) => u64::from(*limit_packets),
        QueueConfig::Bfifo(BfifoConfig { limit_bytes }) => limit_bytes * 8 / full,
        _ => SOME,
    };
    (flying + waiting + FEW).min(PREPARED)
}

/// The files of captures, each written by a thread of its own, so that no disk delays a packet.
pub(super) struct Captures {
    files: Vec<Sender<Piece>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Captures {
    pub(super) fn open(config: &Config) -> io::Result<Captures> {
        let mut captures = Captures { files: Vec::new(), threads: Vec::new() };
        for capture in &config.captures {
            let path = capture.file.display().to_string();
            let mut file = File::create(&capture.file).map_err(|error| sys::about(&path, &error))?;
            let (sender, pieces) = mpsc::channel();
            let write = move || {
                let write = |piece| match piece {
                    Piece::Next(bytes) => file.write_all(&bytes),
                    Piece::Restart => file.rewind().and_then(|()| file.set_len(0)),
                };
                pieces.into_iter().try_for_each(write).map_err(|error| sys::about(&path, &error))
            };
            captures.threads.push(thread::Builder::new().name("capture".into()).spawn(write)?);
            captures.files.push(sender);
        }
        Ok(captures)
    }

    pub(super) fn files(&self) -> Vec<Sender<Piece>> {
        self.files.clone()
    }

    /// Waits until everything is written; all other senders are gone.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.files.clear();
        for thread in std::mem::take(&mut self.threads) {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("writing a capture panicked")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A star: hosts around a switch, a cable each.
    fn star(hosts: usize, threads: u32, switch: Value) -> Config {
        let link = |name: String, from: String, to: String| {
            json!({
                "name": name, "from": from, "to": to, "rate_bps": 1_000_000, "delay_ns": 0,
                "queue": {"kind": "pfifo", "limit_packets": 10}, "loss": null, "duplicate_ppb": 0,
                "corrupt_ppb": 0, "jitter": null, "shaper": null, "mtu": 1500, "overhead": 14,
                "observe": true, "bottleneck": false,
            })
        };
        let links: Vec<Value> = (0..hosts)
            .flat_map(|host| {
                let (up, down, name) = (format!("up{host}"), format!("down{host}"), format!("h{host}"));
                [link(up, name.clone(), "s".into()), link(down, "s".into(), name)]
            })
            .collect();
        let cable = |host: usize| {
            json!({"a": format!("a{host}"), "b": format!("b{host}"), "forward": format!("up{host}"),
                   "reverse": format!("down{host}")})
        };
        let config = json!({
            "run_id": 1, "netns": null, "flows": [], "captures": [], "threads": threads, "real_time": false,
            "cables": (0..hosts).map(cable).collect::<Vec<_>>(),
            "scenario": {
                "version": 1, "experiment": "x", "seed": 1, "repeat": 0, "duration_ns": 1, "start_jitter_ns": 0,
                "measure": {"from_ns": 0, "to_ns": 1}, "flows": [], "schedule": [], "hosts": [],
                "record": {"tcp": {"kind": "off"}, "queue": {"kind": "off"}, "pcap": []},
                "nodes": [{"name": "s", "switch": switch}], "links": links,
            },
        });
        Config::parse(&config.to_string()).unwrap()
    }

    #[test]
    fn threads_share_the_links() {
        assert_eq!(assign(&star(2, 1, Value::Null)), [0; 4]);
        let spread = assign(&star(2, 2, Value::Null));
        assert_eq!(spread.iter().filter(|&&thread| thread == 0).count(), 2, "{spread:?}");
        assert_eq!(threads(&star(2, 99, Value::Null)), 4, "no more than there are links");
    }

    #[test]
    fn links_of_a_switch_stay_together() {
        let shared = json!({"buffer_bytes": 10_000, "pause": null});
        let threads = assign(&star(3, 4, shared));
        let down: Vec<usize> = threads.iter().copied().skip(1).step_by(2).collect();
        assert_eq!(down, [down[0]; 3], "ports share the memory");
        assert!(threads.iter().step_by(2).all(|&up| up != down[0]), "{threads:?}");
        let pausing = json!({"buffer_bytes": 10_000, "pause": {"stop_bytes": 5000, "go_bytes": 2000}});
        assert_eq!(super::threads(&star(3, 4, pausing)), 1, "what leads to the switch can be paused");
    }
}
