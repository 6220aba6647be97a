//! Packets between hosts: links, the packets in flight on each, and when the next one arrives.

use std::collections::VecDeque;

use host::nic::TransmitRing;
use path::{DropReason, Link, LinkConfig, Mode, Nanos, Output, Switch};
use wire::Segment;

use crate::agenda::{Agenda, NEVER, Source};
use crate::packet::{Ends, Light, Packet, Waiting};
use crate::scenario;
use crate::topology::{End, Topology};

/// A packet that did not make it.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// When.
    pub at: Nanos,
    /// On which link.
    pub link: u32,
    /// Connection it was meant for.
    pub connection: u32,
    /// Its place in the stream, if it carried payload.
    pub offset: u64,
    /// Payload bytes.
    pub payload: u32,
    /// Why.
    pub why: DropReason,
    /// It was not dropped but marked.
    pub marked: bool,
}

/// Places of a pipe at first.
const FIRST_SLOTS: usize = 4;

/// Links, and what is on them.
pub struct Network {
    /// Routes.
    pub topology: Topology,
    links: Vec<Link<Light>>,
    /// The packets in them that wait for events.
    waiting: Waiting,
    switches: Vec<SwitchRun>,
    /// For a link that is a port of a switch: the switch and the port. Its place in `links` is not used.
    ports: Vec<Option<(u32, u32)>>,
    /// Pause frames on their way: when they take effect, on which link. In order of time.
    pauses: VecDeque<(Nanos, u32, bool)>,
    fused: Vec<bool>,
    /// Fused links, and others that packets may enter ahead of time.
    early: Vec<bool>,
    /// Fused links without impairments.
    plain: Vec<bool>,
    /// Links whose packets may overtake each other.
    reorders: Vec<bool>,
    delays: Vec<Nanos>,
    /// For a link that a host feeds: that host.
    fed_by_host: Vec<Option<u16>>,
    /// For each pair of hosts, `source * hosts + sink`: the plain links that the way begins with.
    plain_routes: Vec<Box<[u32]>>,
    /// The link behind them, or [`NO_LINK`].
    onward: Vec<u32>,
    hosts: usize,
    /// Packets on their way to the far end of each link, to a host or to a link that waits for events.
    pipes: Vec<Pipe>,
    /// What is in each host's NIC, for hosts whose stack wants to know.
    pub rings: Vec<Option<TransmitRing>>,
    /// Drops and marks since they were last taken. Almost always empty.
    pub lost: Vec<Lost>,
    /// Queue changes reported by links that were asked to: (time, link, bytes, packets).
    pub changes: Vec<(Nanos, u32, u64, u32)>,
    /// Links with a capture; they are stepped, so that packets enter them in order of time.
    taps: Vec<bool>,
    /// Packets that entered them since they were last taken: (time, link, packet).
    pub tapped: Vec<(Nanos, u32, Packet)>,
}

/// There is no link behind.
const NO_LINK: u32 = u32::MAX;

/// A switch whose ports share its memory.
struct SwitchRun {
    switch: Switch<Light>,
    /// Its ports, as links.
    outgoing: Vec<u32>,
    /// Links that lead to it, and how long a pause frame takes to the far end of each.
    incoming: Vec<(u32, Nanos)>,
}

/// A link, or a port of a switch.
enum Hop<'a> {
    Link(&'a mut Link<Light>),
    Port(&'a mut Switch<Light>, usize),
}

impl Hop<'_> {
    #[inline]
    fn arrive(&mut self, at: Nanos, packet: Light, exit: &mut Exit<'_>) {
        match self {
            Hop::Link(link) => link.arrive(at, packet, exit),
            Hop::Port(switch, port) => switch.arrive(*port, at, packet, exit),
        }
    }

    #[inline]
    fn on_event(&mut self, now: Nanos, exit: &mut Exit<'_>) {
        match self {
            Hop::Link(link) => link.on_event(now, exit),
            Hop::Port(switch, port) => {
                switch.on_event(*port, now, exit);
                switch.update(now, exit);
            }
        }
    }
}

/// Packets on their way to the far end of a link, in order of their arrival there.
struct Pipe {
    /// A power of two of places; entry n is at n modulo that.
    slots: Box<[(Nanos, Packet)]>,
    head: usize,
    tail: usize,
}

impl Pipe {
    fn new() -> Pipe {
        Pipe { slots: vec![Default::default(); FIRST_SLOTS].into(), head: 0, tail: 0 }
    }

    #[inline(always)]
    fn slot(&self, entry: usize) -> &(Nanos, Packet) {
        &self.slots[entry & (self.slots.len() - 1)]
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// When the next packet arrives.
    #[inline(always)]
    fn next(&self) -> Option<Nanos> {
        self.front().map(|&(at, _)| at)
    }

    #[inline(always)]
    fn front(&self) -> Option<&(Nanos, Packet)> {
        if self.is_empty() { None } else { Some(self.slot(self.head)) }
    }

    #[inline(always)]
    fn pop_front(&mut self) {
        debug_assert!(!self.is_empty());
        self.head += 1;
    }

    /// A packet that arrives after all others.
    #[inline(always)]
    fn push_back(&mut self, at: Nanos, packet: Packet) {
        if self.tail - self.head == self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        self.slots[self.tail & mask] = (at, packet);
        self.tail += 1;
    }

    /// When the last packet arrives.
    fn last(&self) -> Nanos {
        if self.is_empty() { 0 } else { self.slot(self.tail - 1).0 }
    }

    /// A packet that may arrive before others; it does after those of the same time.
    fn insert(&mut self, at: Nanos, packet: Packet) {
        self.push_back(at, packet);
        let mask = self.slots.len() - 1;
        let mut entry = self.tail - 1;
        while entry > self.head && self.slot(entry - 1).0 > at {
            self.slots.swap(entry & mask, (entry - 1) & mask);
            entry -= 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let count = self.slots.len();
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        slots.rotate_left(self.head & (count - 1));
        slots.resize(2 * count, Default::default());
        *self = Pipe { slots: slots.into(), head: 0, tail: count };
    }
}

/// What a link puts out, on its way to a pipe or the next link.
struct Exit<'a> {
    link: u32,
    reorders: bool,
    waiting: &'a mut Waiting,
    pipe: Option<&'a mut Pipe>,
    chain: &'a mut Chain,
    lost: &'a mut Vec<Lost>,
    changes: &'a mut Vec<(Nanos, u32, u64, u32)>,
    paused: &'a mut Vec<(Nanos, bool)>,
    ring: Option<(&'a mut TransmitRing, Nanos)>,
}

/// Packets that go on to the next link at once: one, except where a link duplicates or catches up, so that only those
/// cases allocate.
#[derive(Default)]
struct Chain {
    first: Option<(Nanos, Packet)>,
    rest: Vec<(Nanos, Packet)>,
}

impl Chain {
    #[inline]
    fn push(&mut self, at: Nanos, packet: Packet) {
        if self.first.is_none() {
            self.first = Some((at, packet));
        } else {
            self.rest.push((at, packet));
        }
    }
}

impl Output<Light> for Exit<'_> {
    #[inline]
    fn forward(&mut self, at: Nanos, light: Light) {
        let packet = self.waiting.take(&light);
        if let Some((ring, delay)) = &mut self.ring {
            ring.push(at - *delay, packet.connection ^ 1, packet.segment.len);
        }
        match &mut self.pipe {
            Some(pipe) if self.reorders => pipe.insert(at, packet),
            Some(pipe) => {
                debug_assert!(pipe.last() <= at, "links without reordering keep the order");
                pipe.push_back(at, packet);
            }
            None => self.chain.push(at, packet),
        }
    }

    #[cold]
    fn dropped(&mut self, at: Nanos, light: &Light, why: DropReason) {
        let packet = self.waiting.take(light);
        self.lost.push(lost(at, self.link, &packet, why, false));
    }

    #[cold]
    fn marked(&mut self, at: Nanos, light: &Light) {
        self.lost.push(lost(at, self.link, self.waiting.get(light), DropReason::Aqm, true));
    }

    fn twin(&mut self, light: &Light) -> Light {
        let packet = *self.waiting.get(light);
        self.waiting.put(&packet)
    }

    fn queue_changed(&mut self, at: Nanos, backlog_bytes: u64, backlog_packets: u32) {
        self.changes.push((at, self.link, backlog_bytes, backlog_packets));
    }

    #[cold]
    fn paused(&mut self, at: Nanos, paused: bool) {
        self.paused.push((at, paused));
    }
}

/// The report of a packet that was lost or marked.
pub fn lost(at: Nanos, link: u32, packet: &Packet, why: DropReason, marked: bool) -> Lost {
    Lost {
        at,
        link,
        connection: packet.connection,
        offset: packet.segment.offset,
        payload: packet.segment.len,
        why,
        marked,
    }
}

impl Network {
    /// Sets up the links of a scenario. Of hosts that are `tracked`, what leaves the NIC is kept in a ring; links that
    /// are `tapped` report the packets that enter them; `force_stepped` makes every hop wait for events, for comparison.
    pub fn new(
        scenario: &scenario::Scenario,
        topology: Topology,
        tracked: &[bool],
        tapped: &[bool],
        force_stepped: bool,
    ) -> Network {
        let mut links = Vec::new();
        let mut fused = Vec::new();
        let mut early = Vec::new();
        let mut reorders = Vec::new();
        let per_change = scenario.record.queue == scenario::Sampling::PerAck;
        let (switches, ports) = switches(scenario, per_change);
        let pauses = |name: &str| {
            let node = scenario.nodes.iter().find(|n| n.name == name);
            node.and_then(|n| n.switch.as_ref()).is_some_and(|s| s.pause.is_some())
        };
        for (index, link) in scenario.links.iter().enumerate() {
            let config = link.path_config(per_change && link.observe);
            let changes = scenario.schedule.iter().any(|c| c.link == link.name);
            let ahead = topology.single_fed[index] && !force_stepped && !changes && !config.report_changes;
            let ahead = ahead && !tapped[index] && ports[index].is_none() && !pauses(&link.to);
            let fuse = ahead && Link::<Light>::can_fuse(&config);
            let mode = match (fuse, ahead) {
                (true, _) => Mode::Fused,
                (false, true) => Mode::Early,
                (false, false) => Mode::Stepped,
            };
            let streams = |purpose: &str| path::stream(scenario.seed, scenario.repeat, purpose, &link.name);
            let mut hop = Link::new(&config, &streams, mode);
            if !link.observe {
                hop.next_query(NEVER);
            }
            links.push(hop);
            fused.push(fuse);
            early.push(ahead);
            reorders.push(Link::<Light>::reorders(&config));
        }
        let fed_by_host: Vec<Option<u16>> = scenario
            .links
            .iter()
            .map(|l| scenario.hosts.iter().position(|h| h.name == l.from).map(|h| h as u16))
            .collect();
        let plain: Vec<bool> = links.iter().map(Link::is_plain).collect();
        let hosts = scenario.hosts.len();
        let mut plain_routes: Vec<Box<[u32]>> = vec![Box::default(); hosts * hosts];
        let mut onward = vec![NO_LINK; hosts * hosts];
        for flow in &scenario.flows {
            let host = |name: &str| scenario.hosts.iter().position(|h| h.name == name);
            if let (Some(a), Some(b)) = (host(&flow.from), host(&flow.to)) {
                for (source, sink) in [(a, b), (b, a)] {
                    let route: Box<[u32]> = topology.path(source, sink).iter().map(|&l| l as u32).collect();
                    let plain = route.iter().take_while(|&&l| plain[l as usize]).count();
                    if let Some(&next) = route.get(plain) {
                        onward[source * hosts + sink] = next;
                    }
                    plain_routes[source * hosts + sink] = route[..plain].into();
                }
            }
        }
        Network {
            pipes: links.iter().map(|_| Pipe::new()).collect(),
            delays: scenario.links.iter().map(|l| l.delay_ns).collect(),
            rings: tracked.iter().map(|&tracked| tracked.then(TransmitRing::default)).collect(),
            topology,
            links,
            waiting: Waiting::default(),
            switches,
            ports,
            pauses: VecDeque::new(),
            fused,
            early,
            plain,
            plain_routes,
            onward,
            hosts,
            reorders,
            fed_by_host,
            lost: Vec::new(),
            changes: Vec::new(),
            taps: tapped.to_vec(),
            tapped: Vec::new(),
        }
    }

    /// A host hands a packet to its NIC.
    #[inline(always)]
    pub fn send(&mut self, now: Nanos, ends: &Ends, segment: &Segment, agenda: &mut Agenda) {
        let bytes = segment.ip_bytes();
        // The usual case: there is no packet until its time has gone from link to link.
        let pair = ends.src as usize * self.hosts + ends.dst as usize;
        let route = &self.plain_routes[pair];
        let Some((&first, rest)) = route.split_first() else {
            self.send_stepwise(now, ends, segment, agenda);
            return;
        };
        let mut last = first as usize;
        let Some((mut at, mut queue_delay)) = self.links[last].pass(now, bytes) else {
            self.lose(now, first, ends, segment);
            return;
        };
        if let Some(ring) = &mut self.rings[ends.src as usize] {
            ring.push(at - self.delays[last], ends.peer ^ 1, segment.len);
        }
        for &link in rest {
            last = link as usize;
            let Some((arrival, waited)) = self.links[last].pass(at, bytes) else {
                self.lose(at, link, ends, segment);
                return;
            };
            queue_delay += waited;
            at = arrival;
        }
        let next = self.onward[pair] as usize;
        if next < self.early.len() && self.early[next] {
            self.enter(next, at, ends.packet(now, segment, bytes, queue_delay), agenda);
            return;
        }
        let pipe = &mut self.pipes[last];
        if pipe.is_empty() {
            agenda.set_arrival(last, at);
        }
        pipe.push_back(at, ends.packet(now, segment, bytes, queue_delay));
    }

    /// A host's NIC takes a packet that was made earlier.
    pub fn send_on(&mut self, now: Nanos, packet: Packet, agenda: &mut Agenda) {
        let link = self.topology.first_link(packet.src, packet.dst);
        self.enter(link, now, packet, agenda);
    }

    /// Pause frames take effect.
    pub fn pause(&mut self, now: Nanos, agenda: &mut Agenda) {
        while let Some(&(at, link, paused)) = self.pauses.front()
            && at <= now
        {
            self.pauses.pop_front();
            let apply = |hop: &mut Hop<'_>, exit: &mut Exit<'_>| match hop {
                Hop::Link(link) => link.pause(now, paused, exit),
                Hop::Port(switch, port) => switch.pause(*port, now, paused, exit),
            };
            self.with_exit(link as usize, None, apply, agenda);
        }
        agenda.set_rare(Source::Pause, self.pauses.front().map_or(NEVER, |&(at, ..)| at));
    }

    /// [`Network::send`] over a route with a link that is not plain.
    #[inline(never)]
    fn send_stepwise(&mut self, now: Nanos, ends: &Ends, segment: &Segment, agenda: &mut Agenda) {
        let link = self.topology.first_link(ends.src, ends.dst);
        self.enter(link, now, ends.packet(now, segment, segment.ip_bytes(), 0), agenda);
    }

    /// A queue's limit drops a packet.
    #[cold]
    #[inline(never)]
    fn lose(&mut self, at: Nanos, link: u32, ends: &Ends, segment: &Segment) {
        let packet = ends.packet(at, segment, 0, 0);
        self.lost.push(lost(at, link, &packet, DropReason::Overlimit, false));
    }

    /// The service of a stepped link is due.
    pub fn serve(&mut self, link: usize, now: Nanos, agenda: &mut Agenda) {
        self.with_exit(link, None, |hop: &mut Hop<'_>, exit: &mut Exit<'_>| hop.on_event(now, exit), agenda);
    }

    /// The packet that arrives at the far end of `link`, if that is a host, and the host's ring if it has one.
    #[inline(always)]
    pub fn front_at_host(&mut self, link: usize) -> Option<(&Packet, Option<&mut TransmitRing>)> {
        let End::Host(host) = self.topology.ends[link] else { return None };
        let (_, packet) = self.pipes[link].front()?;
        Some((packet, self.rings[host as usize].as_mut()))
    }

    /// The packet of [`Network::front_at_host`] has been taken in.
    #[inline]
    pub fn drop_front(&mut self, link: usize, agenda: &mut Agenda) {
        let pipe = &mut self.pipes[link];
        pipe.pop_front();
        agenda.set_arrival(link, pipe.next().unwrap_or(NEVER));
    }

    /// Writes the packet that arrives at the far end of `link` into `packet`; false if it went on to another link.
    #[inline]
    pub fn arrive(&mut self, link: usize, packet: &mut Packet, agenda: &mut Agenda) -> bool {
        let pipe = &mut self.pipes[link];
        let Some(&(at, front)) = pipe.front() else { return false };
        pipe.pop_front();
        let next = pipe.next().unwrap_or(NEVER);
        agenda.set_arrival(link, next);
        if matches!(self.topology.ends[link], End::Host(_)) {
            *packet = front;
            return true;
        }
        let next = self.topology.next_link(link, front.dst);
        self.enter(next, at, front, agenda);
        false
    }

    /// The links whose service is an event, and those at whose far end an arrival is one.
    pub fn sources(&self) -> (Vec<bool>, Vec<bool>) {
        let stepped: Vec<bool> = self.fused.iter().map(|fused| !fused).collect();
        let arrives = |link: usize| {
            matches!(self.topology.ends[link], End::Host(_))
                || self.reorders[link]
                || self.topology.links_after(link).any(|next| !self.early[next])
        };
        let arrivals = (0..self.links.len()).map(arrives).collect();
        (stepped, arrivals)
    }

    /// State of a link as of `t`.
    pub fn counters(&mut self, link: usize, t: Nanos) -> path::Counters {
        match self.ports[link] {
            None => self.links[link].counters(t),
            Some((switch, port)) => self.switches[switch as usize].switch.counters(port as usize, t),
        }
    }

    /// Promises not to ask for [`Network::counters`] of a link before `at`.
    pub fn next_query(&mut self, link: usize, at: Nanos) {
        self.links[link].next_query(at);
    }

    /// Changes a link.
    pub fn change(
        &mut self,
        link: usize,
        now: Nanos,
        change: &path::LinkChange,
        seed: (u64, u32),
        agenda: &mut Agenda,
    ) {
        if let Some(delay) = change.delay_ns {
            self.delays[link] = delay;
        }
        let name = format!("{link} after {now}");
        let streams = |purpose: &str| path::stream(seed.0, seed.1, purpose, &name);
        let apply = |hop: &mut Hop<'_>, exit: &mut Exit<'_>| {
            if let Hop::Link(link) = hop {
                link.change(now, change, &streams, exit);
            }
        };
        self.with_exit(link, None, apply, agenda);
    }

    /// A packet enters `link` at `at`. Over plain links it is not moved but only its time is.
    #[inline]
    fn enter(&mut self, mut link: usize, mut at: Nanos, mut packet: Packet, agenda: &mut Agenda) {
        while self.plain[link] {
            let Some((arrival, waited)) = self.links[link].pass(at, packet.bytes) else {
                self.lost.push(lost(at, link as u32, &packet, DropReason::Overlimit, false));
                return;
            };
            packet.queue_delay += waited;
            if let Some((ring, delay)) = self.ring(link) {
                ring.push(arrival - delay, packet.connection ^ 1, packet.segment.len);
            }
            if self.topology.ends[link] == End::Node {
                let next = self.topology.next_link(link, packet.dst);
                if self.early[next] {
                    link = next;
                    at = arrival;
                    continue;
                }
            }
            let pipe = &mut self.pipes[link];
            if pipe.is_empty() {
                agenda.set_arrival(link, arrival);
            }
            pipe.push_back(arrival, packet);
            return;
        }
        if self.taps[link] {
            self.tapped.push((at, link as u32, packet));
        }
        let dst = packet.dst;
        let packet = self.waiting.put(&packet);
        let apply = |hop: &mut Hop<'_>, exit: &mut Exit<'_>| hop.arrive(at, packet, exit);
        self.with_exit(link, Some(dst), apply, agenda);
    }

    /// The transmit ring that `link` drains, if its host's stack watches it, and the link's delay.
    #[inline]
    fn ring(&mut self, link: usize) -> Option<(&mut TransmitRing, Nanos)> {
        let host = self.fed_by_host[link]? as usize;
        self.rings[host].as_mut().map(|ring| (ring, self.delays[link]))
    }

    /// Runs `work` on a link with somewhere to put what comes out, and sees that it gets there. `dst` is the
    /// destination of whatever can come out at once, if known.
    #[inline]
    fn with_exit(
        &mut self,
        link: usize,
        dst: Option<u16>,
        work: impl FnOnce(&mut Hop<'_>, &mut Exit<'_>),
        agenda: &mut Agenda,
    ) {
        let to_pipe = match self.topology.ends[link] {
            End::Host(_) => true,
            End::Node => match dst {
                // A stepped link may put out packets for other destinations than the one that enters.
                Some(dst) if self.fused[link] && !self.reorders[link] => {
                    !self.early[self.topology.next_link(link, dst)]
                }
                // Its packets go on in the order of their arrival, which is known only then.
                _ if self.reorders[link] => true,
                _ => false,
            },
        };
        let mut chain = Chain::default();
        let mut paused = Vec::new();
        let ring = self.fed_by_host[link].and_then(|host| self.rings[host as usize].as_mut());
        let ring = ring.map(|ring| (ring, self.delays[link]));
        let head = self.pipes[link].next();
        let mut exit = Exit {
            link: link as u32,
            reorders: self.reorders[link],
            waiting: &mut self.waiting,
            pipe: to_pipe.then_some(&mut self.pipes[link]),
            chain: &mut chain,
            lost: &mut self.lost,
            changes: &mut self.changes,
            paused: &mut paused,
            ring,
        };
        match self.ports[link] {
            None => {
                work(&mut Hop::Link(&mut self.links[link]), &mut exit);
                if !self.fused[link] {
                    agenda.set_service(link, self.links[link].next_event().unwrap_or(NEVER));
                }
            }
            Some((number, port)) => {
                let run = &mut self.switches[number as usize];
                work(&mut Hop::Port(&mut run.switch, port as usize), &mut exit);
                let release = run.switch.next_release();
                for (port, &link) in run.outgoing.iter().enumerate() {
                    let next = run.switch.next_event(port).into_iter().chain(release).min();
                    agenda.set_service(link as usize, next.unwrap_or(NEVER));
                }
                for (at, paused) in paused {
                    for &(link, delay) in &run.incoming {
                        let place = self.pauses.partition_point(|&(other, ..)| other <= at + delay);
                        self.pauses.insert(place, (at + delay, link, paused));
                    }
                }
                agenda.set_rare(Source::Pause, self.pauses.front().map_or(NEVER, |&(at, ..)| at));
            }
        }
        if let Some((at, packet)) = chain.first {
            self.pass_on(link, at, packet, agenda);
            for (at, packet) in chain.rest {
                self.pass_on(link, at, packet, agenda);
            }
        }
        if (head.is_none() || self.reorders[link])
            && let Some(at) = self.pipes[link].next()
        {
            agenda.set_arrival(link, at);
        }
    }
}

impl Network {
    /// A packet leaves `link` for the next one.
    #[inline]
    fn pass_on(&mut self, link: usize, at: Nanos, packet: Packet, agenda: &mut Agenda) {
        let next = self.topology.next_link(link, packet.dst);
        if self.early[next] {
            self.enter(next, at, packet, agenda);
        } else {
            self.pipes[link].push_back(at, packet);
        }
    }
}

/// The switches of a scenario, and for each link the switch and port it is.
fn switches(scenario: &scenario::Scenario, per_change: bool) -> (Vec<SwitchRun>, Vec<Option<(u32, u32)>>) {
    let mut runs = Vec::new();
    let mut ports = vec![None; scenario.links.len()];
    for node in &scenario.nodes {
        let Some(switch) = &node.switch else { continue };
        let outgoing: Vec<u32> =
            (0u32..).zip(&scenario.links).filter(|(_, l)| l.from == node.name).map(|(i, _)| i).collect();
        let link = |port: usize| &scenario.links[outgoing[port] as usize];
        let configs: Vec<LinkConfig> = (0..outgoing.len())
            .map(|port| link(port).path_config(per_change && link(port).observe))
            .collect();
        let streams =
            |port: usize, what: &str| path::stream(scenario.seed, scenario.repeat, what, &link(port).name);
        for (port, &link) in (0u32..).zip(&outgoing) {
            ports[link as usize] = Some((runs.len() as u32, port));
        }
        // A pause frame goes back the way the packets came: over the delay of the cable's other direction.
        let incoming = (0u32..)
            .zip(&scenario.links)
            .filter(|(_, l)| l.to == node.name)
            .map(|(i, l)| {
                let back = scenario.links.iter().find(|b| b.from == l.to && b.to == l.from);
                (i, back.map_or(l.delay_ns, |b| b.delay_ns))
            })
            .collect();
        runs.push(SwitchRun { switch: Switch::new(switch, &configs, &streams), outgoing, incoming });
    }
    (runs, ports)
}
