//! The engine: one run of a scenario on one thread, event by event, in a total order.
//!
//! Simultaneous events run in the order arrival < transport timer < application < sampler, and within a class in the
//! experiment's order (links, hosts and flows as they are listed); see [`crate::event_queue`].

mod app_events;
mod arrival;
mod background;
mod changes;
mod datagrams;
mod edges;
mod fast_open;
mod fragments;
mod guests;
mod incast;
mod media;
mod peers;
mod prefetch;
mod recording;
mod reports;
mod service;
mod setup;

use contract::ids::{ConnectionId, FlowId, HostId, LinkId};
use contract::scenario::{IpVersion, Scenario, WhenFull};
use contract::table::Batch;
use guest::Machine;
use path::Nanos;
use tcp::cc::foreign::Trouble;
use tcp::stack::EcnMode;
use tcp::{Endpoint, HostClock};
use wire::Segment;
use wire::segment::TCP_HEADER;

use crate::applications::IncastGroup;
use crate::cheat::Cheat;
use crate::event_queue::{EventQueue, NEVER, Source};
use crate::flow::{FlowApp, FlowRun};
use crate::host_edge::{Egress, Ingress};
use crate::host_stack::HostStack;
use crate::limits::Capacity;
use crate::network::Network;
use crate::packet::Packet;
use crate::transport::{SenderState, Transport};
use fragments::Fragments;
use prefetch::Prefetcher;
use recording::Recording;

/// Largest number of further packets that arrive at a host before what happens at others; see
/// [`Simulation::run_ahead`].
const MAX_RUN_AHEAD: usize = 32;

/// A run.
///
/// ```
/// // One flow of TCP over 10 Mbit/s and 20 ms, for a second.
/// let json = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../contract/examples/two-hosts.json"));
/// let mut run = sim::Simulation::new(json, 0)?;
/// let mut rows = 0;
/// while !run.advance(10_000) {
///     rows += run.take().iter().map(|(_, batch)| batch.rows).sum::<usize>();
/// }
/// rows += run.take().iter().map(|(_, batch)| batch.rows).sum::<usize>();
/// assert!(rows > 0 && run.now_ns() == 1_000_000_000);
/// # Ok::<(), sim::Error>(())
/// ```
pub struct Simulation {
    scenario: Scenario,
    now: Nanos,
    /// Events at this time and later wait.
    until: Nanos,
    event_count: u64,
    packet_count: u64,
    /// Another packet for the connection at hand arrives at this instant: its application's turn is after that.
    app_waits: bool,
    finished: bool,
    events: EventQueue,
    network: Network,
    /// Capacity of the links.
    capacity: Capacity,
    hosts: Vec<HostRun>,
    /// Flows of the experiment, then those for the transfers of background traffic.
    flows: Vec<FlowRun>,
    groups: Vec<IncastGroup>,
    /// Connections by [`ConnectionId`].
    connections: Vec<Transport>,
    recording: Recording,
    /// Something other than a stack sees packets at some host: a capture, impairments, receive aggregation.
    intercepted: bool,
    /// A segment that is to be cut, or goes to more than the network.
    scratch: Segment,
    /// The packet that arrives.
    arrived: Packet,
    /// Bytes of a packet to or from a guest.
    guest_packet: Vec<u8>,
    /// The first change of the schedule that is still to come.
    next_change: usize,
    /// Changes of the schedule that wait for an event, in order, and those whose event has come.
    waiting_changes: Vec<usize>,
    due_changes: Vec<usize>,
    /// Whether packets of each link may arrive ahead of other hosts' events. If so, whether timers of opening and
    /// of accepting connections matter at the link's far end. See [`Simulation::run_ahead`].
    run_ahead: Vec<Option<[bool; 2]>>,
    prefetcher: Prefetcher,
    /// See [`Simulation::disable_fast_paths`].
    no_fast_path: bool,
    /// Trouble that congestion controls from outside report.
    trouble: Trouble,
}

/// Host in a run.
struct HostRun {
    stack: HostStack,
    /// Guest's machine. None where the stack is a kernel's.
    machine: Option<Box<dyn Machine>>,
    clock: HostClock,
    timestamp_offset: u32,
    /// Memory of Fast Open of the host.
    fast_open: tcp::fast_open::Host,
    ip: IpVersion,
    mss: u16,
    /// Memory of other hosts.
    peers: tcp::peers::Memory,
    /// Packets of which fragments have come.
    fragments: Fragments,
    ecn: EcnMode,
    tso: bool,
    veth: bool,
    tso_max: Option<u32>,
    /// Reaction of a full transmit queue.
    full: WhenFull,
    /// Between network interface and stack, on the way in and on the way out.
    ingress: Option<Ingress>,
    egress: Option<Egress>,
    /// Cheat by acknowledgements. None: the host is honest.
    cheat: Option<Box<Cheat>>,
    /// Connections that wait for their packets to leave the interface.
    waiting: Vec<ConnectionId>,
}

/// MTU of the link of a host that announces such an MSS.
fn mtu(ip: IpVersion, mss: u16) -> u32 {
    ip.header() + TCP_HEADER + u32::from(mss)
}

impl HostRun {
    /// MTU of its link.
    fn mtu(&self) -> u32 {
        mtu(self.ip, self.mss)
    }

    /// Whether anything other than the stack sees packets.
    fn has_edge(&self) -> bool {
        self.ingress.is_some() || self.sends_later()
    }

    /// Whether packets leave at other times than the stack's.
    fn sends_later(&self) -> bool {
        self.egress.is_some() || self.cheat.is_some()
    }

    /// Time when a packet leaves next that the stack does not send then.
    fn next_departure(&self) -> Nanos {
        let egress = self.egress.as_ref().and_then(Egress::next_event);
        let cheat = self.cheat.as_ref().and_then(|cheat| cheat.next_event());
        egress.into_iter().chain(cheat).min().unwrap_or(NEVER)
    }
}

impl Simulation {
    /// Has endpoints take no fast path: slower, and equal in every result, which tests compare. To be called before the first
    /// event.
    pub fn disable_fast_paths(&mut self) {
        self.no_fast_path = true;
    }

    /// Runs `events` events, or a few more; true when the run is over.
    pub fn advance(&mut self, events: u64) -> bool {
        self.until = NEVER;
        self.run_events(self.event_count.saturating_add(events));
        // Arrivals may have run ahead of it.
        self.now = self.now.min(self.events.first().0);
        self.settle_records();
        self.finished
    }

    /// Carries out every event before `t` and none at `t`; true when the run is over. Virtual time is `t` then, or the end
    /// of the run.
    pub fn run_until(&mut self, t: Nanos) -> bool {
        self.until = t;
        self.run_events(u64::MAX);
        if !self.finished {
            self.now = t.max(self.now);
            self.settle_records();
        }
        self.finished
    }

    /// Returns what TCP_INFO would say of a flow's sender at the present time. None before the sender has opened a
    /// connection, and for flows without one.
    pub fn observe(&mut self, flow: FlowId) -> Option<SenderState> {
        self.connections.get_mut(flow.opening().index())?.sender(self.now)
    }

    /// Reason why the run has failed, one line. None if it has not.
    pub fn failure(&self) -> Option<&str> {
        self.trouble.get()
    }

    /// Virtual time reached.
    pub fn now_ns(&self) -> Nanos {
        self.now
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.event_count
    }

    /// Packets that hosts have put on the wire so far, data and acknowledgements.
    pub fn packets(&self) -> u64 {
        self.packet_count
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Record batches finished since the last call.
    pub fn take(&mut self) -> Vec<(&'static str, Batch)> {
        self.recording.recorder.take()
    }

    /// Record batches of every row up to the present time since the last call, however few. Between two steps only.
    pub fn take_recorded(&mut self) -> Vec<(&'static str, Batch)> {
        if !self.finished {
            self.catch_up_links();
            self.recording.recorder.settle(self.now);
            self.recording.recorder.cut();
        }
        self.take()
    }

    /// Capture bytes finished since the last call: (capture point, bytes to append to its file).
    pub fn captures(&mut self) -> Vec<(String, Vec<u8>)> {
        self.recording.captures.take()
    }

    pub(crate) fn flow_runs(&self) -> &[FlowRun] {
        &self.flows
    }

    pub(crate) fn stack(&self, host: HostId) -> &HostStack {
        &self.hosts[host.index()].stack
    }

    pub(crate) fn transport(&self, connection: ConnectionId) -> &Transport {
        &self.connections[connection.index()]
    }

    pub(crate) fn connection(&self, connection: ConnectionId) -> Option<&Endpoint> {
        self.connections[connection.index()].tcp()
    }
}

/// The loop over events.
impl Simulation {
    /// Runs events before [`Simulation::until`], until `enough` have run or the run is over.
    fn run_events(&mut self, enough: u64) {
        while self.event_count < enough {
            let (time, source) = self.events.first();
            if time > self.scenario.duration_ns || self.finished {
                // What lies behind the end is not carried out, but the end itself may still be to come.
                if self.until > self.scenario.duration_ns {
                    self.finish();
                }
                return;
            }
            if time >= self.until {
                return;
            }
            self.now = time;
            self.event_count += 1;
            self.run(source);
        }
    }

    #[inline(always)]
    fn run(&mut self, source: Source) {
        // Nearly every event is an arrival: a branch that is predicted costs less than a jump table.
        if let Source::Arrival(link) = source {
            self.run_arrivals(link);
        } else {
            self.run_other(source);
        }
    }

    /// A packet arrives over a link, and more behind it, before what happens at other hosts meanwhile. Other hosts reach
    /// this one only by packets behind these, and these reach other hosts only by packets of this one. So the code of one
    /// host stays in the processor's caches for many packets.
    #[inline(never)]
    fn run_arrivals(&mut self, link: LinkId) {
        let mut ahead = 0;
        loop {
            self.arrive(link);
            let Some(timers) = self.run_ahead[link.index()].filter(|_| ahead < MAX_RUN_AHEAD) else { return };
            let next = self.events.arrival(link);
            let is_last = next >= self.events.first_other(timers) || next > self.scenario.duration_ns;
            if is_last || next >= self.until || !self.is_routine(link) {
                return;
            }
            ahead += 1;
            self.now = next;
            self.event_count += 1;
        }
    }

    /// Whether the next packet over a link belongs to a bulk transfer that goes on. Its ends learn of each other only
    /// over the network.
    #[inline(always)]
    fn is_routine(&mut self, link: LinkId) -> bool {
        let Some((packet, _)) = self.network.front_at_host(link) else { return false };
        let connection = packet.connection;
        let flow = &self.flows[connection.flow().index()];
        let goes_on = matches!(&flow.app, FlowApp::Bulk(bulk) if bulk.is_open()) && !flow.needs_report;
        goes_on && self.connections[connection.index()].tcp().is_some()
    }

    #[inline(never)]
    fn run_other(&mut self, source: Source) {
        match source {
            Source::Arrival(link) => self.run_arrivals(link),
            Source::Service(link) => {
                self.network.serve(link, self.now, &mut self.events);
                self.report_network(None);
            }
            Source::Egress(host) => self.leave_egress(host),
            Source::Ingress(host) => self.run_ingress(host),
            Source::Timer(connection) => self.run_timer(connection),
            Source::Departure(host) => self.run_departure(host),
            Source::CatchUp => self.catch_up_links(),
            Source::Pause => {
                self.network.pause(self.now, &mut self.events);
                self.report_network(None);
            }
            Source::Round(group) => self.begin_round(group as usize),
            Source::App(flow) => self.run_app(flow),
            Source::Change => self.change_links(),
            Source::SampleTcp => self.sample_tcp(),
            Source::SampleQueue => self.sample_queue(),
            Source::Second => self.sample_second(),
            Source::Window => self.begin_or_end_window(),
        }
    }

    /// Has links carry out, and reports, what they have put off.
    fn catch_up_links(&mut self) {
        self.network.catch_up(self.now, &mut self.events);
        self.report_network(None);
    }

    /// Writes the events of the past where many wait.
    fn settle_records(&mut self) {
        if self.recording.recorder.wants_settling() {
            self.catch_up_links();
            self.recording.recorder.settle(self.now);
        }
    }

    fn finish(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        self.now = self.scenario.duration_ns;
        self.catch_up_links();
        self.close_window();
        self.recording.recorder.finish(self.now);
    }

    /// The host at which a connection is.
    fn host_of(&self, connection: ConnectionId) -> HostId {
        let flow = &self.flows[connection.flow().index()];
        if connection.is_opening() { flow.from } else { flow.to }
    }
}
