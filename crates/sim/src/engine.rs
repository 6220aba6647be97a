//! The engine: one run of a scenario on one thread, event by event, in a total order.
//!
//! Simultaneous events run in the order arrival < transport timer < application < sampler, and within a class in the
//! experiment's order (links, hosts and flows as they are listed); see [`crate::agenda`].

use host::nic::TransmitRing;
use host::{app, nic};
use path::{DropReason, Nanos, near};
use tcp::endpoint::State;
use tcp::event::EventKind;
use tcp::profile::{EcnMode, Family, Profile, SocketOptions};
use tcp::{Answer, Config, Endpoint, HostClock, Listener};
use wire::Segment;

use crate::agenda::{Agenda, NEVER, Source, Sources};
use crate::capture::Captures;
use crate::check;
use crate::flow::{FlowRun, Snapshot, Work};
use crate::machine::{Egress, Ingress};
use crate::network::{Lost, Network};
use crate::packet::{Ends, Packet};
use crate::record::{EVENT_KINDS, EventRow, QueueRow, Recorder, SampleRow, TcpRow, sample};
use crate::scenario::{self, Ecn, Full, PLACES, Sampling, Scenario};
use crate::table::Batch;
use crate::topology::Topology;
use crate::work::{self, Group};

const SECOND: Nanos = 1_000_000_000;

/// Up to this many flows, percentiles are within 0.05 %; beyond it within 0.4 %, to bound memory.
const FINE_HISTOGRAMS: usize = 256;

/// So many connections have no room near the processor together: memory is asked for ahead.
const CROWD: usize = 16;
/// So many packets ahead, and in time for a second and a third look, each of which follows what the one before brought.
const FAR: usize = 6;
const NEAR: usize = 3;
const LAST: usize = 1;

/// At most so many packets arrive at a host ahead of what happens at others.
const AHEAD: usize = 32;

/// A run.
pub struct Simulation {
    scenario: Scenario,
    pub(crate) now: Nanos,
    events: u64,
    packets: u64,
    finished: bool,
    pub(crate) agenda: Agenda,
    network: Network,
    hosts: Vec<HostRun>,
    /// Flows of the experiment, then those for the transfers of background traffic.
    pub(crate) flows: Vec<FlowRun>,
    pub(crate) groups: Vec<Group>,
    /// Connections: 2 x flow, + 1 at the accepting side.
    pub(crate) connections: Vec<Option<Endpoint>>,
    pub(crate) recorder: Recorder,
    ingresses: Vec<Option<Ingress>>,
    egresses: Vec<Option<Egress>>,
    /// Something other than a stack sees packets at some host.
    watched: bool,
    captures: Captures,
    observed: Vec<usize>,
    /// A segment that is to be cut, or goes to more than the network.
    scratch: Segment,
    /// The packet that arrives.
    arrived: Packet,
    next_change: usize,
    window: Window,
    per_ack: bool,
    /// See [`Simulation::force_long_way`].
    long_way: bool,
    /// For each link: whether timers of opening and of accepting connections matter where it ends; None: everything may. See
    /// [`Simulation::arrive_ahead`].
    ahead: Vec<Option<[bool; 2]>>,
    /// See [`CROWD`].
    crowded: bool,
    /// For each link: bits of whether memory was asked for when the last packets arrived, the last one's lowest.
    soon: Vec<u32>,
    links_before: Vec<path::Counters>,
    links_after: Vec<path::Counters>,
}

/// One machine.
struct HostRun {
    profile: Box<dyn Profile>,
    clock: HostClock,
    timestamp_offset: u32,
    mss: u16,
    ecn: EcnMode,
    tso: bool,
    tso_max: Option<u32>,
    /// What a full transmit queue does.
    full: Full,
    /// Connections that wait for their packets to leave the NIC.
    waiting: Vec<u32>,
}

/// Why [`Simulation::take_turn`] ended.
enum Turn {
    /// There is nothing more to do.
    Done,
    /// There is, but for [`Simulation::notice`].
    Notice,
    /// Something that was just sent was lost at once.
    Lost,
    /// A segment is to be handed over that does not just go out as a packet.
    Packet,
    /// It is the turn of an application that is not bulk transfer.
    Model,
}

/// Where the measurement window stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    Before,
    Inside,
    After,
}

impl Simulation {
    /// Sets up a run; `run_id` goes into every row.
    ///
    /// # Errors
    /// One line saying what in the scenario the engine refuses.
    pub fn new(scenario: &str, run_id: u32) -> Result<Simulation, String> {
        Simulation::from_scenario(check::parse(scenario)?, run_id, false)
    }

    /// As [`Simulation::new`], from a parsed scenario. `force_stepped` makes every hop wait for events: slower, and
    /// equal in every result.
    ///
    /// # Errors
    /// One line saying what in the scenario the engine refuses.
    pub fn from_scenario(
        mut scenario: Scenario,
        run_id: u32,
        force_stepped: bool,
    ) -> Result<Simulation, String> {
        let profiles = check::check(&scenario)?;
        let topology = Topology::new(&scenario)?;
        let named = scenario.flows.len();
        let parents = work::expand(&mut scenario);
        let groups = work::groups(&scenario);
        let hosts = hosts(&scenario, profiles);
        let mut flows = flows(&scenario, &parents, &groups)?;
        let tracked: Vec<bool> = hosts.iter().map(|h| h.profile.facts().family == Family::Linux).collect();
        for flow in &mut flows {
            let path = topology.path(flow.from as usize, flow.to as usize);
            let link = path.iter().find(|&&l| scenario.links[l].bottleneck).or(path.first());
            flow.overhead = link.map_or(0, |&l| scenario.links[l].overhead);
        }
        let observed: Vec<usize> =
            scenario.links.iter().enumerate().filter(|(_, l)| l.observe).map(|(i, _)| i).collect();
        let recorder = Recorder::new(
            run_id,
            scenario.flows[..named].iter().map(|f| f.name.as_str()),
            scenario.hop_names().iter().map(String::as_str),
        );
        let families: Vec<Family> = hosts.iter().map(|h| h.profile.facts().family).collect();
        let captures = Captures::new(&scenario, &families)?;
        let mut network = Network::new(&scenario, topology, &tracked, &captures.links(), force_stepped);
        let ingresses = ingresses(&scenario, &families);
        let egresses = egresses(&scenario);
        let (services, arrivals) = network.sources();
        let watched = !scenario.record.pcap.is_empty()
            || ingresses.iter().any(Option::is_some)
            || egresses.iter().any(Option::is_some);
        let per_ack = scenario.record.tcp == Sampling::PerAck;
        // Others know at one end what happens at the other.
        let apart = |flow: &FlowRun| matches!(flow.app, Work::Bulk(_) | Work::Datagrams(_));
        let ahead = if watched || per_ack || !flows.iter().all(apart) {
            vec![None; scenario.links.len()]
        } else {
            network.ahead(&scenario)
        };
        let mut agenda = Agenda::new(&Sources {
            services,
            egresses: egresses.iter().map(Option::is_some).collect(),
            arrivals,
            ingresses: ingresses.iter().map(Option::is_some).collect(),
            timers: 2 * flows.len(),
            departures: tracked,
            rounds: groups.len(),
            apps: flows.len(),
        });
        for (flow, run) in (0u32..).zip(&flows[..named]) {
            agenda.set_rare(Source::App(flow), run.start);
        }
        if let Some(change) = scenario.schedule.first() {
            agenda.set_rare(Source::Change, change.at_ns);
        }
        if let Sampling::Interval { interval_ns } = scenario.record.tcp {
            agenda.set_rare(Source::SampleTcp, interval_ns);
        }
        if let Sampling::Interval { .. } = scenario.record.queue {
            agenda.set_rare(Source::SampleQueue, 0);
        }
        agenda.set_rare(Source::Second, SECOND);
        agenda.set_rare(Source::Window, scenario.measure.from_ns);
        if scenario.record.queue == Sampling::PerAck || scenario.record.queue == Sampling::Off {
            for &link in &observed {
                network.next_query(link, scenario.measure.from_ns);
            }
        }
        Ok(Simulation {
            now: 0,
            events: 0,
            packets: 0,
            finished: false,
            agenda,
            network,
            connections: flows.iter().flat_map(|_| [None, None]).collect(),
            hosts,
            flows,
            groups,
            recorder,
            watched,
            ingresses,
            egresses,
            captures,
            observed,
            scratch: Segment::default(),
            arrived: Packet::default(),
            next_change: 0,
            window: Window::Before,
            soon: vec![0; scenario.links.len()],
            ahead,
            crowded: scenario.flows.len() >= CROWD,
            per_ack,
            long_way: false,
            links_before: Vec::new(),
            links_after: Vec::new(),
            scenario,
        })
    }

    /// Makes endpoints leave out the short ways of usual segments, for comparison: slower, and equal in every result. To
    /// be called before the first event.
    pub fn force_long_way(&mut self) {
        self.long_way = true;
    }

    /// Runs `events` events, or a few more; true when the run is over.
    pub fn advance(&mut self, events: u64) -> bool {
        let end = self.scenario.duration_ns;
        let enough = self.events + events;
        while self.events < enough {
            let (time, source) = self.agenda.first();
            if time > end || self.finished {
                self.finish();
                return true;
            }
            self.now = time;
            self.events += 1;
            self.run(source);
        }
        // Arrivals may have been ahead of it.
        self.now = self.now.min(self.agenda.first().0);
        if self.recorder.wants_settling() {
            self.catch_up();
            self.recorder.settle(self.now);
        }
        self.finished
    }

    /// Virtual time reached.
    pub fn now_ns(&self) -> Nanos {
        self.now
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Packets that hosts have put on the wire so far, data and acknowledgements.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Record batches finished since the last call.
    pub fn take(&mut self) -> Vec<(&'static str, Batch)> {
        self.recorder.take()
    }

    /// Capture bytes finished since the last call: (capture point, bytes to append to its file).
    pub fn captures(&mut self) -> Vec<(String, Vec<u8>)> {
        self.captures.take()
    }

    #[inline(always)]
    fn run(&mut self, source: Source) {
        // Nearly every event is an arrival: a branch that is foreseen costs less than a table of them.
        if let Source::Arrival(link) = source {
            self.arrive(link as usize);
            if let Some(timers) = self.ahead[link as usize] {
                self.arrive_ahead(link as usize, timers);
            }
        } else {
            self.run_other(source);
        }
    }

    /// More packets arrive over a link, before what happens at other hosts meanwhile. Nothing of that matters to this one but by
    /// packets behind these, nor what they do here to the others before packets get there. So long at one host, the
    /// processor has its code at hand for many packets.
    #[inline(always)]
    fn arrive_ahead(&mut self, link: usize, timers: [bool; 2]) {
        for _ in 0..AHEAD {
            let next = self.agenda.arrival(link);
            let is_last = next >= self.agenda.first_other(timers) || next > self.scenario.duration_ns;
            if is_last || !self.is_routine(link) {
                return;
            }
            self.now = next;
            self.events += 1;
            self.arrive(link);
        }
    }

    /// Whether the next packet over a link is of a bulk transfer that goes on, of which one end does not learn more from the
    /// other than what comes over the network.
    #[inline(always)]
    fn is_routine(&mut self, link: usize) -> bool {
        let Some((packet, _)) = self.network.front_at_host(link) else { return false };
        let connection = packet.connection as usize;
        let flow = &self.flows[connection / 2];
        let goes_on = matches!(&flow.app, Work::Bulk(bulk) if bulk.is_open()) && !flow.attention;
        goes_on && self.connections[connection].is_some()
    }

    #[inline(never)]
    fn run_other(&mut self, source: Source) {
        match source {
            Source::Arrival(link) => self.arrive(link as usize),
            Source::Service(link) => {
                self.network.serve(link as usize, self.now, &mut self.agenda);
                self.report_losses(None);
            }
            Source::Egress(host) => self.leave(host as usize),
            Source::Ingress(host) => self.enter(host as usize),
            Source::Timer(connection) => self.timer(connection as usize),
            Source::Departure(host) => self.departure(host as usize),
            Source::CatchUp => self.catch_up(),
            Source::Pause => {
                self.network.pause(self.now, &mut self.agenda);
                self.report_losses(None);
            }
            Source::Round(group) => self.begin_round(group as usize),
            Source::App(flow) => self.app(flow as usize),
            Source::Change => self.change(),
            Source::SampleTcp => self.sample_tcp(),
            Source::SampleQueue => self.sample_queue(),
            Source::Second => self.sample_goodput(),
            Source::Window => self.turn_window(),
        }
    }
}

/// Packets and timers.
impl Simulation {
    #[inline]
    fn arrive(&mut self, link: usize) {
        if self.watched || !self.arrive_in_place(link) {
            self.arrive_with_copy(link);
        }
    }

    /// The usual case: a sound packet for a connection, read where it lies. False, and nothing done, in any other.
    #[inline(always)]
    fn arrive_in_place(&mut self, link: usize) -> bool {
        let Simulation { network, connections, flows, agenda, now, window, crowded, soon, .. } = self;
        if *crowded {
            bring_upcoming(network, connections, flows, link, &mut soon[link]);
        }
        let Some((packet, ring)) = network.front_at_host(link) else { return false };
        let connection = packet.connection as usize;
        if packet.corrupt || connections[connection].is_none() {
            return false;
        }
        let flow = &mut flows[connection / 2];
        flow.note_arrival(packet, *now, *window == Window::Inside);
        if let Some(ring) = ring {
            depart(ring, connections, *now);
        }
        let Some(endpoint) = &mut connections[connection] else { return false };
        endpoint.on_segment(*now, &packet.segment);
        network.drop_front(link, agenda);
        if connection & 1 == 0 {
            self.service_after_segment(connection);
        } else if endpoint.may_transmit()
            || !matches!(flow.app, Work::Bulk(_))
            || Self::let_application_work(endpoint, flow, connection, *now)
        {
            self.service(connection);
        } else if Self::settle(endpoint, flow, connection, *now, agenda) {
            self.notice(connection);
        }
        true
    }

    #[inline(never)]
    fn arrive_with_copy(&mut self, link: usize) {
        if !self.network.arrive(link, &mut self.arrived, &mut self.agenda) {
            self.report_losses(None);
            return;
        }
        if self.watched {
            self.captures.received(self.now, &self.arrived);
        }
        if self.arrived.corrupt {
            self.report_corrupt(link);
            return;
        }
        let host = self.arrived.dst;
        let flow = self.arrived.connection as usize / 2;
        self.flows[flow].note_arrival(&self.arrived, self.now, self.window == Window::Inside);
        self.depart(host);
        if self.watched && self.take_in(host) {
            return;
        }
        self.deliver();
    }

    /// The stack gets the packet in `arrived`.
    #[inline]
    fn deliver(&mut self) {
        let connection = self.arrived.connection as usize;
        if let Some(endpoint) = &mut self.connections[connection] {
            endpoint.on_segment(self.now, &self.arrived.segment);
            self.service_after_segment(connection);
        } else {
            self.deliver_elsewhere(connection);
        }
    }

    #[inline]
    fn service_after_segment(&mut self, connection: usize) {
        self.service(connection);
        if self.per_ack && connection & 1 == 0 {
            self.record_tcp(connection / 2);
        }
    }

    #[cold]
    fn deliver_elsewhere(&mut self, connection: usize) {
        let packet = self.arrived;
        if !self.take_datagram(&packet) && connection & 1 == 1 {
            self.listen(connection, packet.dst, &packet.segment);
        }
    }

    #[cold]
    fn listen(&mut self, connection: usize, host: u16, segment: &Segment) {
        let flow = connection / 2;
        let options = SocketOptions { sndbuf: None, rcvbuf: self.scenario.flows[flow].rcvbuf };
        let answer = self.with_config(host, connection, options, None, |profile, config, now| {
            Listener::new(profile).on_segment(now, segment, config)
        });
        match answer {
            Answer::Connection(mut endpoint) => {
                self.prepare(host, flow, &mut endpoint);
                self.connections[connection] = Some(*endpoint);
                self.service(connection);
            }
            Answer::Reset(reset) => self.transmit_alone(connection, &reset),
            Answer::Silence => {}
        }
    }

    fn with_config<T>(
        &self,
        host: u16,
        connection: usize,
        socket: SocketOptions,
        cc: Option<&str>,
        work: impl FnOnce(&dyn Profile, &Config<'_>, Nanos) -> T,
    ) -> T {
        let machine = &self.hosts[host as usize];
        let flow = &self.scenario.flows[connection / 2];
        let side = if connection & 1 == 0 { "open" } else { "accept" };
        let name = match self.flows[connection / 2].uses {
            0 => flow.name.clone(),
            uses => format!("{}/{uses}", flow.name),
        };
        let mut random = path::stream(self.scenario.seed, self.scenario.repeat, side, &name);
        let profile = &*machine.profile;
        let config = Config {
            clock: machine.clock,
            mss: machine.mss,
            ecn: machine.ecn,
            tso: machine.tso,
            socket,
            cc: cc.unwrap_or(profile.facts().cc[0]),
            iss: draw(&mut random) as u32,
            timestamp_offset: machine.timestamp_offset,
            random: draw(&mut random),
        };
        work(profile, &config, self.now)
    }

    fn timer(&mut self, connection: usize) {
        let host = self.host_of(connection);
        self.depart(host);
        if let Some(endpoint) = &mut self.connections[connection] {
            endpoint.on_timer(self.now);
            // The source has fired; service sets it to what is next.
            self.agenda.set_timer(connection, NEVER);
            self.service(connection);
        }
    }

    /// After any input of a connection: sends what it wants to send, lets its application work, sends again.
    #[inline(never)]
    pub(crate) fn service(&mut self, connection: usize) {
        let mut polling = false;
        loop {
            match self.take_turn(connection, polling) {
                Turn::Done => return,
                Turn::Notice => return self.notice(connection),
                Turn::Lost => {
                    polling = false;
                    self.report_losses(Some(connection));
                }
                Turn::Packet => {
                    polling = self.hand_over(connection);
                    if !polling {
                        self.report_losses(Some(connection));
                    }
                }
                Turn::Model if self.model_works(connection) => polling = false,
                Turn::Model => break,
            }
        }
        let Simulation { connections, agenda, flows, now, .. } = self;
        let Some(endpoint) = &mut connections[connection] else { return };
        if Self::settle(endpoint, &mut flows[connection / 2], connection, *now, agenda) {
            self.notice(connection);
        }
    }

    /// Everything is sent and written: sets the timer and counts cwnd. True if [`Simulation::notice`] has work to do.
    #[inline(always)]
    fn settle(
        endpoint: &mut Endpoint,
        flow: &mut FlowRun,
        connection: usize,
        now: Nanos,
        agenda: &mut Agenda,
    ) -> bool {
        let due = endpoint.next_timer().unwrap_or(NEVER);
        // A timer that moved away is left to fire early: endpoints do nothing then, and it moves rarely.
        if due < agenda.timer(connection) {
            agenda.set_timer(connection, due.max(now));
        }
        if connection & 1 == 0 {
            let cwnd = if endpoint.state() == State::Closed { 0 } else { endpoint.cwnd() };
            flow.tally.cwnd(now, cwnd);
        }
        flow.attention | !endpoint.events().is_empty() || endpoint.wants_tx_complete()
    }

    /// What comes of few services: a wait for the NIC, events to report, a flow that ends.
    #[inline(never)]
    fn notice(&mut self, connection: usize) {
        let Some(endpoint) = &mut self.connections[connection] else { return };
        let reports = !endpoint.events().is_empty();
        if endpoint.wants_tx_complete() {
            self.await_departure(connection);
        }
        if reports {
            self.report_events(connection);
        }
        if self.flows[connection / 2].attention {
            self.attend(connection / 2);
        }
    }

    /// Puts on the wire whatever the endpoint has to send, and lets its application work, until neither does any more.
    /// `polling`: the endpoint has just sent something.
    #[inline(always)]
    fn take_turn(&mut self, connection: usize, mut polling: bool) -> Turn {
        let Simulation { connections, network, agenda, flows, scratch, packets, now, watched, .. } = self;
        let now = *now;
        let Some(endpoint) = &mut connections[connection] else { return Turn::Done };
        let flow = &mut flows[connection / 2];
        loop {
            if polling || endpoint.may_transmit() {
                let ends = &flow.ends[connection & 1];
                loop {
                    let draft = network.draft(ends);
                    if !endpoint.poll_transmit_into(now, draft) {
                        break;
                    }
                    if *watched || draft.len > endpoint.payload() {
                        *scratch = *draft;
                        return Turn::Packet;
                    }
                    *packets += 1;
                    let size = (draft.ip_bytes(), draft.len);
                    network.send_draft(now, ends, size, agenda);
                    if !network.lost.is_empty() {
                        return Turn::Lost;
                    }
                }
            }
            if !matches!(flow.app, Work::Bulk(_)) {
                return Turn::Model;
            }
            if !Self::let_application_work(endpoint, flow, connection, now) {
                let notice = Self::settle(endpoint, flow, connection, now, agenda);
                return if notice { Turn::Notice } else { Turn::Done };
            }
            polling = false;
        }
    }

    /// The segment in `scratch` leaves through whatever is between stack and NIC, or as several packets. False if
    /// something was lost at once, or a capture wants to see it.
    #[inline(never)]
    fn hand_over(&mut self, connection: usize) -> bool {
        let Simulation { connections, network, agenda, flows, scratch, now, .. } = self;
        let now = *now;
        let Some(endpoint) = &mut connections[connection] else { return true };
        let ends = flows[connection / 2].ends[connection & 1];
        if let Some(egress) = &mut self.egresses[ends.src as usize] {
            egress.send(now, ends.packet(now, scratch, scratch.ip_bytes(), 0), &mut network.lost);
            agenda.set_egress(ends.src as usize, egress.next_event().unwrap_or(NEVER));
            if egress.orphans {
                endpoint.on_tx_complete(now, scratch.len);
            }
            return network.lost.is_empty();
        }
        let payload = endpoint.payload();
        let mut sent = 0;
        loop {
            let part = network.draft(&ends);
            nic::cut(scratch, payload, sent, part);
            sent += part.len;
            self.packets += 1;
            self.captures.sent(now, &ends, part);
            let size = (part.ip_bytes(), part.len);
            network.send_draft(now, &ends, size, agenda);
            if sent == scratch.len {
                break;
            }
        }
        network.lost.is_empty() && network.tapped.is_empty()
    }

    /// The application's turn; true if it did something that may let the endpoint send.
    #[inline(always)]
    fn let_application_work(
        endpoint: &mut Endpoint,
        flow: &mut FlowRun,
        connection: usize,
        now: Nanos,
    ) -> bool {
        if connection & 1 == 0 {
            let Work::Bulk(bulk) = &mut flow.app else { return false };
            let state = endpoint.state();
            flow.attention |= state == State::Closed;
            return matches!(state, State::Established | State::CloseWait)
                && endpoint.writable()
                && bulk.on_writable(endpoint, now)
                && endpoint.data_may_flow();
        }
        if app::drain(endpoint, now) {
            return endpoint.may_transmit();
        }
        match endpoint.state() {
            State::CloseWait => {
                flow.completed = Some(now);
                flow.attention = true;
                endpoint.shutdown(now);
                true
            }
            State::Closed => {
                flow.attention = true;
                false
            }
            _ => false,
        }
    }

    /// Puts one packet of no endpoint's on the wire.
    fn transmit_alone(&mut self, connection: usize, segment: &Segment) {
        let ends = self.flows[connection / 2].ends[connection & 1];
        self.emit(ends.packet(self.now, segment, segment.ip_bytes(), 0));
    }

    /// A host sends a packet that is made already.
    pub(crate) fn emit(&mut self, packet: Packet) {
        let host = packet.src as usize;
        if let Some(egress) = &mut self.egresses[host] {
            egress.send(self.now, packet, &mut self.network.lost);
            self.agenda.set_egress(host, egress.next_event().unwrap_or(NEVER));
        } else {
            self.transmit(packet);
        }
        self.report_losses(None);
    }

    /// A packet reaches a host's NIC.
    fn transmit(&mut self, packet: Packet) {
        self.packets += 1;
        let Packet { src, dst, connection, echo_delay, .. } = packet;
        self.captures.sent(self.now, &Ends { src, dst, peer: connection, echo_delay }, &packet.segment);
        self.network.send_on(self.now, packet, &mut self.agenda);
    }

    fn host_of(&self, connection: usize) -> u16 {
        let flow = &self.flows[connection / 2];
        if connection & 1 == 0 { flow.from } else { flow.to }
    }
}

/// Transmit queues of hosts whose stack watches them (Linux TSQ).
impl Simulation {
    /// Tells endpoints what has left the NIC by now. One that waits for it is serviced by its own event, which is due
    /// at the same time.
    #[inline]
    pub(crate) fn depart(&mut self, host: u16) {
        if let Some(ring) = &mut self.network.rings[host as usize] {
            depart(ring, &mut self.connections, self.now);
        }
    }

    fn departure(&mut self, host: usize) {
        self.agenda.set_departure(host, NEVER);
        self.depart(host as u16);
        let mut waiting = std::mem::take(&mut self.hosts[host].waiting);
        waiting.sort_unstable();
        for &connection in &waiting {
            self.service(connection as usize);
        }
        // The memory is kept for the next time; service may have added to the list meanwhile.
        let added = std::mem::take(&mut self.hosts[host].waiting);
        waiting.clear();
        waiting.extend(added);
        self.hosts[host].waiting = waiting;
    }

    #[cold]
    fn await_departure(&mut self, connection: usize) {
        let host = self.host_of(connection) as usize;
        if !self.hosts[host].waiting.contains(&(connection as u32)) {
            self.hosts[host].waiting.push(connection as u32);
        }
        if let Some(at) = self.network.rings[host].as_ref().and_then(TransmitRing::next_departure) {
            self.agenda.set_departure(host, at.max(self.now).min(self.agenda.departure(host)));
        }
    }
}

/// Between NIC and stack.
impl Simulation {
    /// Hands the packet in `arrived` to what stands before the host's stack; false if nothing does.
    fn take_in(&mut self, host: u16) -> bool {
        let Some(ingress) = &mut self.ingresses[host as usize] else { return false };
        ingress.receive(self.now, &self.arrived, &mut self.network.lost);
        self.enter(host as usize);
        true
    }

    /// Whatever is due at a host's ingress.
    fn enter(&mut self, host: usize) {
        self.depart(host as u16);
        if let Some(ingress) = &mut self.ingresses[host] {
            ingress.on_event(self.now, &mut self.network.lost);
        }
        self.report_losses(None);
        while let Some(ingress) = &mut self.ingresses[host]
            && let Some(packet) = ingress.take(self.now)
        {
            self.arrived = packet;
            self.deliver();
        }
        if let Some(ingress) = &self.ingresses[host] {
            self.agenda.set_ingress(host, ingress.next_event().unwrap_or(NEVER));
        }
    }

    /// Segments reach a host's NIC from its egress.
    fn leave(&mut self, host: usize) {
        while let Some(egress) = &mut self.egresses[host]
            && let Some(packet) = egress.take(self.now)
        {
            let payload =
                self.connections[packet.connection as usize ^ 1].as_ref().map_or(u32::MAX, Endpoint::payload);
            let headers = packet.bytes - packet.segment.len;
            nic::segment(&packet.segment, payload, |part| {
                self.transmit(Packet { segment: *part, bytes: headers + part.len, ..packet });
            });
            self.report_losses(None);
        }
        if let Some(egress) = &self.egresses[host] {
            self.agenda.set_egress(host, egress.next_event().unwrap_or(NEVER));
        }
    }

    /// The hop of a host's egress in `events`.
    fn egress_hop(&self, host: u16) -> u32 {
        self.scenario.place_hop(host as usize, 0)
    }
}

/// Applications and scheduled changes.
impl Simulation {
    /// Opens a flow's connection.
    pub(crate) fn connect(&mut self, flow: usize) {
        let host = self.flows[flow].from;
        let spec = &self.scenario.flows[flow];
        let socket = SocketOptions { sndbuf: spec.sndbuf, rcvbuf: None };
        let cc = spec.cc.clone();
        let mut endpoint = self.with_config(host, 2 * flow, socket, Some(&cc), |profile, config, now| {
            Endpoint::connect(profile, config, now)
        });
        self.prepare(host, flow, &mut endpoint);
        self.connections[2 * flow] = Some(endpoint);
    }

    /// What a new endpoint is told besides its configuration.
    fn prepare(&self, host: u16, flow: usize, endpoint: &mut Endpoint) {
        if let Some(most) = self.hosts[host as usize].tso_max {
            endpoint.limit_tso(most);
        }
        endpoint.set_no_delay(matches!(self.flows[flow].app, Work::Pinger(_)));
        if self.long_way {
            endpoint.force_long_way();
        }
    }

    fn change(&mut self) {
        while let Some(change) = self.scenario.schedule.get(self.next_change)
            && change.at_ns <= self.now
        {
            let link = self.scenario.links.iter().position(|l| l.name == change.link);
            let seed = (self.scenario.seed, self.scenario.repeat);
            if let Some(link) = link {
                self.network.change(link, self.now, &change.path_change(), seed, &mut self.agenda);
            }
            self.next_change += 1;
        }
        let next = self.scenario.schedule.get(self.next_change).map_or(NEVER, |c| c.at_ns);
        self.agenda.set_rare(Source::Change, next);
        self.report_losses(None);
    }
}

/// What is recorded.
impl Simulation {
    fn record_tcp(&mut self, flow: usize) {
        let delivered = self.read_by(flow);
        if self.flows[flow].parent.is_some() {
            return;
        }
        let Some(endpoint) = &mut self.connections[2 * flow] else { return };
        if matches!(endpoint.state(), State::Closed | State::SynSent | State::SynReceived) {
            return;
        }
        let info = endpoint.info(self.now);
        self.recorder.tcp(&TcpRow {
            t: self.now,
            flow: flow as u32,
            cwnd: info.sender.cwnd,
            ssthresh: info.sender.ssthresh,
            srtt: info.sender.srtt,
            rtt: self.flows[flow].rtt,
            inflight: info.sender.inflight,
            delivered,
            retransmits: info.retransmits,
            pacing_bps: info.sender.pacing_bps,
            phase: info.sender.phase,
        });
    }

    pub(crate) fn read_by(&self, flow: usize) -> u64 {
        self.connections[2 * flow + 1].as_ref().map_or(0, Endpoint::bytes_read)
    }

    fn sample_tcp(&mut self) {
        let Sampling::Interval { interval_ns } = self.scenario.record.tcp else { return };
        self.agenda.set_rare(Source::SampleTcp, self.now + interval_ns);
        for flow in 0..self.flows.len() {
            self.record_tcp(flow);
        }
    }

    fn sample_queue(&mut self) {
        let Sampling::Interval { interval_ns } = self.scenario.record.queue else { return };
        self.agenda.set_rare(Source::SampleQueue, self.now + interval_ns);
        self.catch_up();
        for index in 0..self.observed.len() {
            let hop = self.observed[index];
            let c = self.network.counters(hop, self.now);
            // The window's edges are asked for too.
            let mut next = self.now + interval_ns;
            for edge in [self.scenario.measure.from_ns, self.scenario.measure.to_ns] {
                if edge >= self.now {
                    next = next.min(edge);
                }
            }
            self.network.next_query(hop, next);
            self.recorder.queue(&QueueRow {
                t: self.now,
                hop: hop as u32,
                backlog_bytes: c.backlog_bytes,
                backlog_packets: c.backlog_packets,
                drops: c.drops,
                ce_marks: c.ce_marks,
            });
        }
    }

    fn sample_goodput(&mut self) {
        self.agenda.set_rare(Source::Second, self.now + SECOND);
        for flow in 0..self.flows.len() {
            let read = match self.flows[flow].app {
                Work::Datagrams(_) | Work::Background(_) => self.totals(flow).read,
                _ if self.connections[2 * flow].is_none() || self.flows[flow].parent.is_some() => continue,
                _ => self.read_by(flow),
            };
            let run = &mut self.flows[flow];
            let value = (read - run.read_at_second) as i64;
            run.read_at_second = read;
            if run.seconds.is_empty() {
                run.seconds_from = self.now - SECOND;
            }
            run.seconds.push(value as u64);
            let kind = sample::GOODPUT;
            self.recorder.sample(&SampleRow { t: self.now, flow: flow as u32, kind, value });
            // Of background traffic the transfers have the packets, and none of them lasts.
            if !matches!(run.app, Work::Background(_)) {
                let value = (run.wire - run.wire_at_second) as i64;
                run.wire_at_second = run.wire;
                let kind = sample::WIRE;
                self.recorder.sample(&SampleRow { t: self.now, flow: flow as u32, kind, value });
            }
        }
    }

    fn turn_window(&mut self) {
        self.catch_up();
        let snapshots: Vec<Snapshot> = (0..self.flows.len()).map(|f| self.totals(f)).collect();
        let beginning = self.window == Window::Before;
        for (run, snapshot) in self.flows.iter_mut().zip(snapshots) {
            if beginning {
                run.tally.begin(self.now, snapshot);
            } else {
                run.tally.end(self.now, snapshot);
            }
        }
        let measure = self.scenario.measure;
        let mut counters = Vec::new();
        for &hop in &self.observed {
            counters.push(self.network.counters(hop, self.now));
            if self.scenario.record.queue == Sampling::Off || self.scenario.record.queue == Sampling::PerAck {
                self.network.next_query(hop, if beginning { measure.to_ns } else { NEVER });
            }
        }
        if beginning {
            self.links_before = counters;
            self.window = Window::Inside;
            self.agenda.set_rare(Source::Window, measure.to_ns);
        } else {
            self.links_after = counters;
            self.window = Window::After;
            self.agenda.set_rare(Source::Window, NEVER);
        }
    }

    /// Whether figures count.
    pub(crate) fn window_is_open(&self) -> bool {
        self.window == Window::Inside
    }

    /// Totals of a flow's present connection.
    pub(crate) fn snapshot(&mut self, flow: usize) -> Snapshot {
        let read = self.read_by(flow);
        let info = self.connections[2 * flow].as_mut().map(|e| e.info(self.now));
        Snapshot::new(info.as_ref(), read)
    }

    /// The place of a flow's events among those of one time: behind those of hops.
    pub(crate) fn rank(&self, flow: usize) -> u32 {
        (self.scenario.links.len() + PLACES.len() * self.hosts.len() + flow) as u32
    }

    #[cold]
    fn report_events(&mut self, connection: usize) {
        let rank = self.rank(connection / 2);
        let Some(endpoint) = &mut self.connections[connection] else { return };
        let flow = connection / 2;
        let named = self.flows[flow].parent.unwrap_or(flow as u32);
        let tally = &mut self.flows[flow].tally;
        for event in endpoint.events().drain() {
            if connection & 1 == 1 {
                continue;
            }
            // The first slow start ends by itself, or with the first congestion.
            if matches!(
                event.kind,
                EventKind::SlowStartExit | EventKind::RecoveryIn | EventKind::Rto | EventKind::Reduction
            ) {
                tally.slow_start_exit.get_or_insert(self.now);
            }
            if self.window == Window::Inside {
                match event.kind {
                    EventKind::Rto => tally.rtos += 1,
                    EventKind::RecoveryIn => tally.recoveries.push(self.now),
                    _ => {}
                }
            }
            let kind =
                EVENT_KINDS.iter().position(|&k| k == event.kind.as_str()).expect("every kind has its word");
            self.recorder.event(EventRow {
                t: self.now,
                rank,
                flow: Some(named),
                hop: None,
                kind: kind as u32,
                seq: Some(event.seq),
                value: Some(event.value),
            });
        }
    }

    /// Reports drops and marks. `sender` is the connection that was just transmitting, whose own NIC may have refused
    /// its packets.
    #[inline]
    fn report_losses(&mut self, sender: Option<usize>) {
        if !self.network.tapped.is_empty() {
            for (at, link, packet) in self.network.tapped.drain(..) {
                self.captures.entered(at, link as usize, &packet);
            }
        }
        if !self.network.changes.is_empty() {
            self.report_changes();
        }
        if !self.network.lost.is_empty() {
            self.report_losses_now(sender);
        }
    }

    #[cold]
    fn report_losses_now(&mut self, sender: Option<usize>) {
        let mut lost = std::mem::take(&mut self.network.lost);
        for loss in lost.drain(..) {
            self.report_loss(&loss);
            if loss.marked || loss.payload == 0 {
                continue;
            }
            let connection = loss.connection as usize ^ 1;
            let flow = &self.flows[connection / 2];
            let (src, dst) = if connection & 1 == 0 { (flow.from, flow.to) } else { (flow.to, flow.from) };
            let netem = self.egress_hop(src);
            let own_nic = loss.link as usize == self.network.topology.first_link(src, dst);
            if let Some(endpoint) = &mut self.connections[connection]
                && (own_nic || loss.link == netem)
            {
                let told = loss.link == netem || self.hosts[src as usize].full == Full::Enobufs;
                if sender == Some(connection) && loss.why == DropReason::Overlimit && told {
                    endpoint.on_tx_dropped(self.now);
                }
                endpoint.on_tx_complete(self.now, loss.payload);
            }
        }
        self.network.lost = lost;
    }

    fn report_loss(&mut self, loss: &Lost) {
        let flow = loss.connection / 2;
        let named = self.flows[flow as usize].parent.unwrap_or(flow);
        let measure = self.scenario.measure;
        if loss.at >= measure.from_ns && loss.at < measure.to_ns {
            let tally = &mut self.flows[flow as usize].tally;
            if loss.marked {
                tally.ce_marks += 1;
            } else {
                tally.drops += 1;
            }
        }
        self.recorder.event(EventRow {
            t: loss.at,
            rank: loss.link,
            flow: Some(named),
            hop: Some(loss.link),
            kind: u32::from(loss.marked),
            seq: (loss.payload > 0).then_some(loss.offset),
            value: Some(i64::from(loss.payload)),
        });
    }

    #[cold]
    fn report_corrupt(&mut self, link: usize) {
        let packet = &self.arrived;
        self.report_loss(&Lost {
            at: self.now,
            link: link as u32,
            connection: packet.connection,
            offset: packet.segment.offset,
            payload: packet.segment.len,
            why: DropReason::Corrupt,
            marked: false,
        });
    }

    fn report_changes(&mut self) {
        let mut changes = std::mem::take(&mut self.network.changes);
        for (t, hop, backlog_bytes, backlog_packets) in changes.drain(..) {
            let c = self.network.counters(hop as usize, t);
            self.recorder.queue(&QueueRow {
                t,
                hop,
                backlog_bytes,
                backlog_packets,
                drops: c.drops,
                ce_marks: c.ce_marks,
            });
        }
        self.network.changes = changes;
    }

    /// Lets links do, and reports, what they have put off.
    fn catch_up(&mut self) {
        self.network.catch_up(self.now, &mut self.agenda);
        self.report_losses(None);
    }

    fn finish(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        self.now = self.scenario.duration_ns;
        self.catch_up();
        if self.window == Window::Inside {
            self.turn_window();
        }
        self.recorder.finish(self.now);
    }
}

/// For the summary.
impl Simulation {
    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    pub(crate) fn flow_runs(&self) -> &[FlowRun] {
        &self.flows
    }

    pub(crate) fn connection(&self, index: usize) -> Option<&Endpoint> {
        self.connections[index].as_ref()
    }

    pub(crate) fn link_figures(&self) -> impl Iterator<Item = (usize, path::Counters, path::Counters)> + '_ {
        let zero = path::Counters::default();
        self.observed.iter().enumerate().map(move |(i, &hop)| {
            let before = self.links_before.get(i).copied().unwrap_or(zero);
            let after = self.links_after.get(i).copied().unwrap_or(zero);
            (hop, before, after)
        })
    }
}

/// Asks the processor for what packets that will soon arrive over `link` need, where they are not of the connection
/// before.
#[inline]
fn bring_upcoming(
    network: &mut Network,
    connections: &[Option<Endpoint>],
    flows: &[FlowRun],
    link: usize,
    soon: &mut u32,
) {
    let asked = *soon;
    *soon <<= 1;
    if let Some((connection, before)) = network.upcoming(link, FAR)
        && connection != before
    {
        *soon |= 1;
        near::bring(&connections[connection as usize]);
        flows[connection as usize / 2].bring(connection & 1 == 0);
    }
    if asked >> (FAR - NEAR - 1) & 1 == 1
        && let Some((at, packet)) = network.look(link, NEAR)
    {
        let connection = packet.connection as usize;
        flows[connection / 2].bring_counts(packet, at);
        if let Some(endpoint) = &connections[connection] {
            if connection & 1 == 0 {
                near::bring(endpoint.sender());
            }
            // Both sides ask it for its timer.
            near::bring(endpoint.receiver());
        }
    }
    if asked >> (FAR - LAST - 1) & 1 == 1
        && let Some((_, packet)) = network.look(link, LAST)
        && packet.connection & 1 == 0
        && let Some(endpoint) = &connections[packet.connection as usize]
    {
        endpoint.sender().elsewhere().into_iter().flatten().for_each(near::bring);
    }
}

/// Tells endpoints what has left their NIC by `now`.
#[inline]
fn depart(ring: &mut TransmitRing, connections: &mut [Option<Endpoint>], now: Nanos) {
    while let Some((connection, bytes)) = ring.pop_departed(now) {
        if let Some(endpoint) = &mut connections[connection as usize] {
            endpoint.on_tx_complete(now, bytes);
        }
    }
}

fn draw(random: &mut path::Xoshiro256PlusPlus) -> u64 {
    rand_core::RngCore::next_u64(random)
}

fn ingresses(scenario: &Scenario, families: &[Family]) -> Vec<Option<Ingress>> {
    let ingress = |(number, (host, &family)): (usize, (&scenario::Host, &Family))| {
        let streams = |purpose: &str, place: &str| {
            path::stream(scenario.seed, scenario.repeat, purpose, &format!("{}.{place}", host.name))
        };
        Ingress::new(host, family, [0, 1, 2].map(|place| scenario.place_hop(number, place)), &streams)
    };
    scenario.hosts.iter().zip(families).enumerate().map(ingress).collect()
}

fn egresses(scenario: &Scenario) -> Vec<Option<Egress>> {
    let egress = |(number, host): (usize, &scenario::Host)| {
        let streams = |purpose: &str| {
            path::stream(scenario.seed, scenario.repeat, purpose, &format!("{}.egress", host.name))
        };
        Egress::new(host, scenario.place_hop(number, 0), &streams)
    };
    scenario.hosts.iter().enumerate().map(egress).collect()
}

fn hosts(scenario: &Scenario, profiles: Vec<Box<dyn Profile>>) -> Vec<HostRun> {
    scenario
        .hosts
        .iter()
        .zip(profiles)
        .map(|(host, profile)| {
            let mut random = path::stream(scenario.seed, scenario.repeat, "clock", &host.name);
            // Up for 100 s to 1100 s, at a random point of a tick.
            let phase = 100 * SECOND + draw(&mut random) % (1000 * SECOND);
            HostRun {
                clock: HostClock::new(host.hz, phase, 0),
                timestamp_offset: draw(&mut random) as u32,
                mss: host.mss,
                ecn: match host.ecn {
                    Ecn::Off => EcnMode::Off,
                    Ecn::Accept => EcnMode::Accept,
                    Ecn::On => EcnMode::On,
                },
                tso: host.nic.tso,
                tso_max: host.nic.tso_max,
                full: host.nic.full,
                profile,
                waiting: Vec::new(),
            }
        })
        .collect()
}

fn flows(scenario: &Scenario, parents: &[Option<u32>], groups: &[Group]) -> Result<Vec<FlowRun>, String> {
    let host = |name: &str| {
        let index = scenario.hosts.iter().position(|h| h.name == name);
        index.map(|i| i as u16).ok_or_else(|| format!("no host is called {name}"))
    };
    let mantissa_bits = if scenario.flows.len() <= FINE_HISTOGRAMS { 10 } else { 7 };
    scenario
        .flows
        .iter()
        .enumerate()
        .map(|(number, flow)| {
            let mut random = path::stream(scenario.seed, scenario.repeat, "start", &flow.name);
            let offset = match scenario.start_jitter_ns {
                0 => 0,
                jitter => draw(&mut random) % jitter,
            };
            let app = work::build(scenario, number, flow.start_ns + offset, parents, groups);
            let mut run = FlowRun::new(
                number as u32,
                flow,
                app,
                host(&flow.from)?,
                host(&flow.to)?,
                offset,
                mantissa_bits,
            );
            run.parent = parents[number];
            Ok(run)
        })
        .collect()
}
