//! Packets between hosts: the links, what is under way on each, and when the next packet arrives. docs/architecture.md
//! follows a packet through the files of this folder.

mod batch;
mod delivery;
mod gate;
mod mode;
mod output;
mod pool;
mod route;
mod switches;
mod travel;

use contract::ids::{HostId, LinkId};
use contract::scenario::{self, Sampling, Scenario};
use host::nic::TransmitRing;
use path::{Link, Nanos};
use wire::Segment;

use crate::event_queue::{EventQueue, NEVER, Source};
use crate::packet::Packet;
use crate::topology::{End, Topology};
use batch::Batches;
use delivery::Delivery;
use gate::Gate;
pub(crate) use mode::LinkMode;
use mode::ModeCriteria;
use output::{Emitted, LinkOutput};
pub(crate) use output::{Fate, PacketReport, Reports};
use pool::{PacketPool, PacketRef};
use route::Routes;
use switches::{Hop, PauseFrame, PauseFrames, PortId, SwitchRun, switches};

/// Links, and what is on them.
pub(crate) struct Network {
    /// Topology: which links lead where.
    pub topology: Topology,
    links: Vec<Link<PacketRef>>,
    meta: Vec<LinkMeta>,
    routes: Routes,
    /// The gate of each link that is too small for some packets.
    gates: Vec<Option<Gate>>,
    /// Hosts whose packets are of IPv6.
    ipv6: Vec<bool>,
    /// Hosts whose packets routers may cut.
    fragmentable: Vec<bool>,
    /// The packets in links that keep them, and behind those.
    pool: PacketPool,
    /// Packets on their way to the far end of each link.
    deliveries: Vec<Delivery>,
    /// Packets that links have put out and that have not gone on yet, the latest last.
    emitted: Vec<Emitted>,
    /// Packets that wait to enter batched links.
    batches: Batches,
    switches: Vec<SwitchRun>,
    pauses: PauseFrames,
    /// Segments that do not begin their way on plain links are written here.
    scratch: Segment,
    /// Packets in each host's interface, for hosts whose stack wants to know.
    pub rings: Vec<Option<TransmitRing>>,
    /// Time by which what hosts send leaves later: [`Network::process_lag`] where a process makes it.
    lag: Nanos,
    /// A process runs after what woke it: what the stack sent at that instant is on its way. A nanosecond, where links tell
    /// instants apart.
    process_lag: Nanos,
    /// Time by which what follows the next packet leaves later than that.
    first_alone: Nanos,
    /// Value of `first_alone` for processes that work now.
    woken_by_clock: Nanos,
    /// Reports to the engine.
    pub reports: Reports,
}

/// Properties of a link besides its state.
pub(crate) struct LinkMeta {
    /// Far end of the link.
    end: End,
    mode: LinkMode,
    /// Whether the link is fused and has no impairments: a packet crosses it by its time being moved on.
    plain: bool,
    /// Whether the link's packets may overtake each other.
    reorders: bool,
    /// Whether packets that enter the link are captured.
    captured: bool,
    /// Whether packets are looked at before they enter: see [`Network::inspect`].
    inspected: bool,
    /// The host whose interface it is.
    host: Option<HostId>,
    /// Whether packets stay in that interface until they are due.
    keeps: bool,
    /// The port of a switch that it is. Its entry in [`Network::links`] is not used then.
    port: Option<PortId>,
}

/// Whether a link's packets stay in its queue until their senders want them to leave.
fn keeps(link: &scenario::Link) -> bool {
    matches!(link.queue, path::QueueConfig::Fq(_))
}

/// Whether a host's stack leaves pacing to its interface.
pub(crate) fn paces(scenario: &Scenario, host: &scenario::Host) -> bool {
    scenario.links.iter().any(|link| link.from == host.name && keeps(link))
}

impl Network {
    /// Sets up the links of a scenario. Of hosts that are `tracked`, what leaves the interface is kept in a ring; packets of
    /// those that are `fragmentable` may be cut; links
    /// that are `captured` report the packets that enter them; `force_stepped` makes every hop wait for events, for
    /// comparison.
    pub(crate) fn new(
        scenario: &Scenario,
        topology: Topology,
        tracked: &[bool],
        fragmentable: Vec<bool>,
        captured: &[bool],
        force_stepped: bool,
    ) -> Network {
        let per_change = scenario.record.queue == Sampling::PerAck;
        let (switches, ports) = switches(scenario, per_change);
        let may_pause = |name: &str| {
            let node = scenario.nodes.iter().find(|node| node.name == name);
            node.and_then(|node| node.switch.as_ref()).is_some_and(|switch| switch.pause.is_some())
        };
        let (gates, fed_by_router) = gate::gates(scenario, &topology);
        let mut links = Vec::new();
        let mut meta = Vec::new();
        for (index, link) in scenario.links.iter().enumerate() {
            let config = link.path_config(per_change && link.observe);
            let host = scenario.host(&link.from);
            let inspected = captured[index] || gates[index].is_some();
            let mode = LinkMode::choose(&ModeCriteria {
                config: &config,
                force_stepped,
                single_fed: topology.single_fed[index] && !fed_by_router[index],
                changes: scenario.schedule.iter().any(|change| change.link == link.name),
                inspected,
                is_switch_port: ports[index].is_some(),
                may_be_paused: may_pause(&link.to),
                fed_by_host: host.is_some(),
            });
            let streams = |purpose: &str| path::stream(scenario.seed, scenario.repeat, purpose, &link.name);
            let mut hop = Link::new(&config, &streams, mode.of_link());
            if !link.observe {
                hop.next_query(NEVER);
            }
            meta.push(LinkMeta {
                end: topology.ends[index],
                mode,
                plain: hop.is_plain(),
                reorders: Link::<PacketRef>::reorders(&config),
                captured: captured[index],
                inspected,
                host,
                keeps: keeps(link),
                port: ports[index],
            });
            links.push(hop);
        }
        Network {
            routes: Routes::new(scenario, &topology, &meta),
            deliveries: links.iter().map(|_| Delivery::new()).collect(),
            gates,
            ipv6: scenario.hosts.iter().map(|host| !host.ip.is_v4()).collect(),
            fragmentable,
            emitted: Vec::new(),
            batches: Batches::new(&meta),
            rings: tracked.iter().map(|&tracked| tracked.then(TransmitRing::default)).collect(),
            topology,
            links,
            meta,
            pool: PacketPool::default(),
            switches,
            pauses: PauseFrames::default(),
            scratch: Segment::default(),
            lag: 0,
            first_alone: 0,
            woken_by_clock: 0,
            process_lag: scenario.links.iter().any(|link| link.delay_first).into(),
            reports: Reports::default(),
        }
    }

    /// From here on, a stack sends by itself, or since a process has worked.
    #[inline(always)]
    pub(crate) fn set_process(&mut self, works: bool) {
        self.lag = if works { self.process_lag } else { 0 };
        self.first_alone = if works { self.woken_by_clock } else { 0 };
    }

    /// Processes that work from here on were woken by a time, or by a packet. In the first case the first burst of a call leaves
    /// before the rest is made (tcp_push_one); in the second what came has set a timer to which both are one.
    pub(crate) fn set_woken_by_clock(&mut self, is: bool) {
        self.woken_by_clock = if is { self.process_lag } else { 0 };
    }

    /// The links whose service is an event, and those at whose far end an arrival is one.
    pub(crate) fn sources(&self) -> (Vec<bool>, Vec<bool>) {
        let services = self.meta.iter().map(|meta| meta.mode.has_service_events()).collect();
        let arrivals = (0..self.links.len() as u32).map(|link| self.has_arrivals(LinkId(link))).collect();
        (services, arrivals)
    }

    /// Whether the arrival of a packet at the far end is an event. It is one at a host, before a link that packets do
    /// not enter ahead of the clock, and where packets overtake each other: there their order is known only then.
    fn has_arrivals(&self, link: LinkId) -> bool {
        let meta = &self.meta[link.index()];
        matches!(meta.end, End::Host(_))
            || meta.reorders
            || self.topology.links_after(link).any(|next| !self.meta[next.index()].mode.takes_early())
    }

    /// Returns for each link whether packets may arrive over it before what happens at other hosts meanwhile. They
    /// may where packets are all that others can do to the host at its end; then the sides of connections (opening,
    /// accepting) that are there.
    pub(crate) fn run_ahead(&self, scenario: &Scenario) -> Vec<Option<[bool; 2]>> {
        let mut ahead = vec![None; self.links.len()];
        let (services, arrivals) = self.sources();
        let at_host = |link: usize| matches!(self.meta[link].end, End::Host(_));
        if services.contains(&true) || (0..self.links.len()).any(|link| arrivals[link] && !at_host(link)) {
            return ahead;
        }
        let mut last_links: Vec<Vec<(LinkId, usize)>> = vec![Vec::new(); scenario.hosts.len()];
        for flow in &scenario.flows {
            let (Some(a), Some(b)) = (scenario.host(&flow.from), scenario.host(&flow.to)) else { continue };
            for (source, sink, side) in [(a, b, 1), (b, a, 0)] {
                if let Some(&last) = self.topology.path(source, sink).last() {
                    last_links[sink.index()].push((last, side));
                }
            }
        }
        for links in last_links {
            let Some(&(link, _)) = links.first() else { continue };
            // What comes over two links comes in order of time, and what overtakes comes sooner than it seems.
            if links.iter().all(|&(other, _)| other == link) && !self.meta[link.index()].reorders {
                ahead[link.index()] = Some([0, 1].map(|side| links.iter().any(|&(_, other)| other == side)));
            }
        }
        ahead
    }

    /// The service of a link is due: it starts a transmission.
    pub(crate) fn serve(&mut self, link: LinkId, now: Nanos, events: &mut EventQueue) {
        self.with_hop(link, |hop, output| hop.on_event(now, output), events);
    }

    /// Pause frames take effect.
    pub(crate) fn pause(&mut self, now: Nanos, events: &mut EventQueue) {
        while let Some(PauseFrame { link, pause, .. }) = self.pauses.take(now) {
            self.with_hop(link, |hop, output| hop.pause(now, pause, output), events);
        }
        events.set_occasional(Source::Pause, self.pauses.next().unwrap_or(NEVER));
    }

    /// State of a link as of `t`.
    pub(crate) fn counters(&mut self, link: LinkId, t: Nanos) -> path::Counters {
        let mut counters = match self.meta[link.index()].port {
            None => self.links[link.index()].counters(t),
            Some(PortId { switch, port }) => self.switches[switch].switch.counters(port, t),
        };
        counters.drops += self.gates[link.index()].map_or(0, |gate| gate.drops);
        counters
    }

    /// Promises not to ask for [`Network::counters`] of a link before `at`.
    pub(crate) fn next_query(&mut self, link: LinkId, at: Nanos) {
        self.links[link.index()].next_query(at);
    }

    /// Changes a link.
    pub(crate) fn change(
        &mut self,
        link: LinkId,
        now: Nanos,
        change: &path::LinkChange,
        seed: (u64, u32),
        events: &mut EventQueue,
    ) {
        let name = format!("{} after {now}", link.0);
        let streams = |purpose: &str| path::stream(seed.0, seed.1, purpose, &name);
        let apply = |hop: &mut Hop<'_>, output: &mut LinkOutput<'_>| {
            if let Hop::Link(link) = hop {
                link.change(now, change, &streams, output);
            }
        };
        self.with_hop(link, apply, events);
    }

    /// Runs `work` on a link. What it puts out goes on, and when it wants to be served next is noted.
    #[inline]
    fn with_hop(
        &mut self,
        link: LinkId,
        work: impl FnOnce(&mut Hop<'_>, &mut LinkOutput<'_>),
        events: &mut EventQueue,
    ) {
        let mut pauses = Vec::new();
        let meta = &self.meta[link.index()];
        let ring = meta.host.and_then(|host| self.rings[host.index()].as_mut());
        let first = self.emitted.len();
        let mut output = LinkOutput {
            link,
            pool: &mut self.pool,
            emitted: &mut self.emitted,
            reports: &mut self.reports,
            pauses: &mut pauses,
            ring,
        };
        match meta.port {
            None => {
                let hop = &mut self.links[link.index()];
                work(&mut Hop::Link(hop), &mut output);
                if meta.mode.has_service_events() {
                    events.set_service(link, hop.next_event().unwrap_or(NEVER));
                }
            }
            Some(PortId { switch, port }) => {
                let run = &mut self.switches[switch];
                work(&mut Hop::Port(&mut run.switch, port), &mut output);
                let release = run.switch.next_release();
                for (port, &link) in run.ports.iter().enumerate() {
                    let next = run.switch.next_event(port).into_iter().chain(release).min();
                    events.set_service(link, next.unwrap_or(NEVER));
                }
                for (at, pause) in pauses {
                    for &(link, delay) in &run.incoming {
                        self.pauses.send(PauseFrame { at: at + delay, link, pause });
                    }
                }
                events.set_occasional(Source::Pause, self.pauses.next().unwrap_or(NEVER));
            }
        }
        if let Some(host) = meta.host
            && let Some(ring) = &mut self.rings[host.index()]
            && ring.awaited
            && let Some(at) = ring.next_departure()
        {
            ring.awaited = false;
            events.set_departure(host, at.min(events.departure(host)));
        }
        self.forward_emitted(link, first, events);
    }
}

/// Arrivals at hosts.
impl Network {
    /// The packet that arrives at the far end of `link`, if that is a host, and the ring of the host's interface if it has
    /// one.
    #[inline(always)]
    pub(crate) fn front_at_host(&mut self, link: LinkId) -> Option<(&Packet, Option<&mut TransmitRing>)> {
        let End::Host(host) = self.meta[link.index()].end else { return None };
        let packet = self.deliveries[link.index()].front(&mut self.pool)?;
        Some((packet, self.rings[host.index()].as_mut()))
    }

    /// The packet of [`Network::front_at_host`] has been taken in. Returns when the next arrives.
    #[inline(always)]
    pub(crate) fn drop_front(&mut self, link: LinkId, events: &mut EventQueue) -> Nanos {
        let next = self.deliveries[link.index()].pop_front(&mut self.pool).unwrap_or(NEVER);
        events.set_arrival(link, next);
        next
    }

    /// The packets under way to the far end of `link`, and the pool that some of them lie in; to prefetch what they need.
    #[inline(always)]
    pub(crate) fn under_way(&mut self, link: LinkId) -> (&Delivery, &mut PacketPool) {
        (&self.deliveries[link.index()], &mut self.pool)
    }
}
