//! Taps of a kernel's network: every packet that passes the hosts and routers of a run, whose namespaces are of this kernel.
//!
//! Each node has a ring of what enters and leaves its interfaces, in order. Of a queue discipline one so sees when a packet came
//! to the node and when it left; what is dropped the kernel tells (drop_monitor), with its headers and the time. Nothing is
//! guessed: a packet that neither left nor was dropped is still in the queue.
//!
//! `node` is a node's ring and the packets that are in it, `tally` what becomes of it: rows, metrics of flows, captures; `backlog`
//! the queues whose every change is recorded.

mod backlog;
mod node;
mod tally;

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::RawFd;
use std::path::PathBuf;

use contract::table::Batch;
use path::Nanos;
use serde::Deserialize;
use serde_json::Value;
use wire::capture::LinkType;
use wire::pcap;

use crate::emulator::FlowKey;
use node::{Event, Node};
use tally::Tallies;

/// Configuration of all taps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of the run, for its records.
    pub run_id: u32,
    /// Flows in the experiment's order.
    pub flows: Vec<Flow>,
    /// Names of all links, in the experiment's order.
    pub links: Vec<String>,
    /// Queue disciplines.
    pub queues: Vec<Queue>,
    /// The measurement window, ns of the run.
    pub measure: [Nanos; 2],
    /// Files for packets.
    pub captures: Vec<Capture>,
    /// Short packets that a node's ring holds, a power of two: those that pass it between two looks.
    pub places: usize,
}

/// A flow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Addresses and ports by which the flow's packets are known.
    pub key: FlowKey,
    /// Node from which the flow sends.
    pub from: usize,
    /// Node to which the flow sends.
    pub to: usize,
    /// Bytes that the flow's bottleneck counts a packet as longer.
    pub overhead: u32,
}

/// The queue disciplines of a link, at the interface where it begins.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Number of the link.
    pub link: u32,
    /// The node.
    pub node: usize,
    /// Number of the link's interface at the node.
    pub interface: i32,
    /// Hardware address of the interface, in hexadecimal.
    pub address: String,
    /// Delays of a packet in the link besides waiting in the queue, each with the time of the run from which on it
    /// holds. None where nobody knows.
    pub delays: Vec<(Nanos, Option<Nanos>)>,
    /// Bytes that the queue counts a packet as longer.
    pub overhead: u32,
    /// Flows whose packets pass the queue, by number and whether it is those of the flow's sender.
    pub flows: Vec<(usize, bool)>,
    /// Whether every change of the queue's backlog is recorded.
    pub changes: bool,
}

impl Queue {
    /// The delay of a packet that comes at `t`, besides waiting in the queue.
    fn delay(&self, t: Nanos) -> Option<Nanos> {
        self.delays.iter().rev().find(|(from, _)| *from <= t).and_then(|&(_, delay)| delay)
    }
}

/// A capture file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// The node.
    pub node: usize,
    /// Number of the interface at the node.
    pub interface: i32,
    /// Whether packets that leave by the interface are taken, and not those that come in.
    pub leaving: bool,
    /// Bytes of each packet kept, from the IP header on.
    pub snaplen: u32,
    /// The file, which is overwritten.
    pub file: PathBuf,
}

/// A packet that the kernel dropped.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// Time of the drop (CLOCK_REALTIME).
    pub at: Nanos,
    /// Beginning of the packet's Ethernet frame.
    pub frame: Vec<u8>,
}

/// Rows and metrics of a run that taps saw.
#[derive(Debug)]
pub struct Seen {
    /// Rows by table.
    pub batches: Vec<(&'static str, Batch)>,
    /// Metrics of flows: a list of objects.
    pub flows: Value,
    /// Packets that the taps missed.
    pub missed: u64,
}

/// A time (CLOCK_REALTIME), the order among what happens then, the place of the node, and what happens.
type Passed = (Nanos, Stage, usize, Event);

/// Order of what happens at one time: a packet leaves a host, passes routers, and arrives; what a full queue drops came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Sent,
    OnTheWay,
    Arrived,
    Dropped,
}

struct Open {
    told: Capture,
    pcap: pcap::Writer<BufWriter<File>>,
}

/// Taps at every node that has a queue discipline, a flow's end or a capture.
pub struct Taps {
    nodes: Vec<Node>,
    captures: Vec<Open>,
    tallies: Tallies,
    /// Nodes from which flows send.
    senders: Vec<usize>,
    /// CLOCK_REALTIME at the start of the run.
    zero: Nanos,
    events: Vec<Passed>,
}

/// Moves the calling thread to a node.
pub type Enter<'a> = dyn Fn(usize) -> io::Result<()> + 'a;

impl Taps {
    /// Begins to listen; the run begins when CLOCK_REALTIME is `zero`. The calling thread ends up at one of the nodes.
    ///
    /// # Errors
    /// Not enough rights, or a file that cannot be.
    pub fn begin(config: &Config, zero: Nanos, enter: &Enter<'_>) -> io::Result<Taps> {
        let ends = config.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let queues = config.queues.iter().map(|queue| queue.node);
        let mut numbers: Vec<usize> =
            ends.chain(queues).chain(config.captures.iter().map(|capture| capture.node)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut nodes = Vec::new();
        for number in numbers {
            enter(number)?;
            nodes.push(Node::listen(number, config)?);
        }
        let open = |told: &Capture| {
            let file = BufWriter::new(File::create(&told.file)?);
            Ok(Open { told: told.clone(), pcap: pcap::Writer::new(file, LinkType::RAW, told.snaplen)? })
        };
        let captures = config.captures.iter().map(open).collect::<io::Result<_>>()?;
        let senders = config.flows.iter().map(|flow| flow.from).collect();
        Ok(Taps { nodes, captures, tallies: Tallies::new(config), senders, zero, events: Vec::new() })
    }

    /// Descriptors that can be read while a packet of a flow's sender has not been looked at.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let sends = |node: &&Node| self.senders.contains(&node.number);
        self.nodes.iter().filter(sends).map(Node::descriptor).collect()
    }

    /// Takes in what has passed since the last look, and what was dropped; returns rows that are complete.
    ///
    /// # Errors
    /// A capture that cannot be written.
    pub fn look(&mut self, dropped: &[Dropped]) -> io::Result<Vec<(&'static str, Batch)>> {
        self.events.clear();
        self.tallies.begin_look();
        for (place, node) in self.nodes.iter_mut().enumerate() {
            let (number, captures, zero) = (node.number, &mut self.captures, self.zero);
            let (host, mut arrived) = (node.is_host, 0);
            node.take(&mut |at, event, bytes| {
                let stage = match (host, event.leaving) {
                    (false, _) => Stage::OnTheWay,
                    // An acknowledgement leaves behind what it acknowledges.
                    (true, true) if arrived != at => Stage::Sent,
                    (true, _) => Stage::Arrived,
                };
                arrived = if stage == Stage::Arrived { at } else { arrived };
                self.events.push((at, stage, place, event));
                let wanted = |open: &&mut Open| {
                    let told = &open.told;
                    (told.node, told.interface, told.leaving) == (number, event.interface, event.leaving)
                };
                match (captures.iter_mut().find(wanted), at.checked_sub(zero)) {
                    (Some(open), Some(t)) => open.pcap.packet(t, event.headers.bytes, bytes),
                    _ => Ok(()),
                }
            })?;
        }
        let read = |told: &Dropped| Some((told.at, Stage::Dropped, 0, node::dropped(&told.frame)?));
        self.events.extend(dropped.iter().filter_map(read));
        // A node's own are in order, and stay so.
        self.events.sort_by_key(|&(at, stage, ..)| (at, stage));
        for &(at, stage, place, event) in &self.events {
            let t = at.checked_sub(self.zero);
            if stage == Stage::Dropped {
                self.tallies.dropped(t, &mut self.nodes, &event);
            } else {
                self.tallies.passed(t, &mut self.nodes[place], &event);
            }
        }
        let newest = self.events.last().and_then(|(at, ..)| at.checked_sub(self.zero));
        Ok(self.tallies.settle(newest.unwrap_or(0)))
    }

    /// Acknowledgements that senders were seen to get in the last look, in order: of each the time of the run and the flow.
    pub fn acknowledged(&self) -> &[(Nanos, u32)] {
        self.tallies.acknowledged()
    }

    /// Newest round trip of each flow.
    pub fn round_trips(&self) -> &[Option<Nanos>] {
        self.tallies.round_trips()
    }

    /// Ends the taps; `end` is the end of the run in ns of its time.
    pub fn finish(self, end: Nanos) -> Seen {
        let missed = self.nodes.iter().map(Node::missed).sum();
        let (batches, flows) = self.tallies.finish(end);
        Seen { batches, flows, missed }
    }
}
