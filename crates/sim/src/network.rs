//! Packets between hosts: links, the packets in flight on each, and when the next one arrives.

use std::collections::VecDeque;

use host::nic::TransmitRing;
use path::{DropReason, Link, LinkConfig, Mode, Nanos, Output, Switch, prefetch};
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
    /// Pause frames on their way: when they take effect, on which link. In order of time.
    pauses: VecDeque<(Nanos, u32, bool)>,
    /// What is known of each link.
    ways: Vec<Way>,
    /// When the first of the patient links is to be served at the latest; see [`Way::patience`].
    due: Nanos,
    /// For each pair of hosts, `source * hosts + sink`: how its packets begin their way.
    outlets: Vec<Outlet>,
    /// Where segments are written that take no usual way.
    aside: Segment,
    hosts: usize,
    /// Packets on their way to the far end of each link, to a host or to a link that waits for events, if all links
    /// before were plain.
    pipes: Vec<Pipe<Packet>>,
    /// The same of other links; these packets are in `waiting`.
    flights: Vec<Pipe<Light>>,
    /// What links put out that has not gone on yet, the latest last.
    emitted: Vec<Emitted>,
    /// Packets that will enter each link when that has to happen, in order of time; see [`AT_ONCE`].
    entering: Vec<Vec<(Nanos, Light)>>,
    /// Links have to be as they are now: nothing may wait to enter one.
    catching_up: bool,
    /// What is in each host's NIC, for hosts whose stack wants to know.
    pub rings: Vec<Option<TransmitRing>>,
    /// Drops and marks since they were last taken. Almost always empty.
    pub lost: Vec<Lost>,
    /// Queue changes reported by links that were asked to: (time, link, bytes, packets).
    pub changes: Vec<(Nanos, u32, u64, u32)>,
    /// Packets that entered links with a capture since they were last taken: (time, link, packet).
    pub tapped: Vec<(Nanos, u32, Packet)>,
}

/// What a packet on a link needs to know of it.
struct Way {
    /// Where it ends.
    end: End,
    /// It needs no events.
    fused: bool,
    /// It is fused, or packets may enter it ahead of time.
    early: bool,
    /// It is fused and has no impairments.
    plain: bool,
    /// Its packets may overtake each other.
    reorders: bool,
    /// It has a capture; it is stepped then, so that packets enter it in order of time.
    tapped: bool,
    delay: Nanos,
    /// How long after its time a transmission may be started: as long as nobody can notice. Arrivals have a link do
    /// what is due, and [`Network::catch_up`] does. 0: not at all.
    patience: Nanos,
    /// The host that feeds it.
    host: Option<u16>,
    /// The switch and the port that it is. Its place in [`Network::links`] is not used then.
    port: Option<(u32, u32)>,
}

/// How the way from one host to another begins.
#[derive(Clone)]
struct Outlet {
    /// The plain links up to the first other one.
    plain: Box<[u32]>,
    /// The last of them, if packets are in its pipe next; or [`NO_LINK`].
    piped: u32,
    /// The link behind them if packets may enter it at once, or [`NO_LINK`].
    onward: u32,
}

/// There is no link behind that could be entered at once.
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
struct Pipe<T> {
    /// A power of two of places; entry n is at n modulo that.
    slots: Box<[(Nanos, T)]>,
    head: usize,
    tail: usize,
}

impl<T: Copy + Default> Pipe<T> {
    fn new() -> Pipe<T> {
        Pipe { slots: vec![Default::default(); FIRST_SLOTS].into(), head: 0, tail: 0 }
    }

    #[inline(always)]
    fn slot(&self, entry: usize) -> &(Nanos, T) {
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
    fn front(&self) -> Option<&(Nanos, T)> {
        if self.is_empty() { None } else { Some(self.slot(self.head)) }
    }

    /// The one `behind` the next.
    #[inline(always)]
    fn behind(&self, behind: usize) -> Option<&(Nanos, T)> {
        let entry = self.head + behind;
        (entry < self.tail).then(|| self.slot(entry))
    }

    #[inline(always)]
    fn pop_front(&mut self) {
        debug_assert!(!self.is_empty());
        self.head += 1;
    }

    /// Where the next packet is to be written.
    #[inline(always)]
    fn draft(&mut self) -> &mut (Nanos, T) {
        if self.tail - self.head == self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        &mut self.slots[self.tail & mask]
    }

    /// What was written into [`Pipe::draft`] arrives after all others.
    #[inline(always)]
    fn push_draft(&mut self) {
        self.tail += 1;
    }

    /// A packet that arrives after all others.
    #[inline(always)]
    fn push_back(&mut self, at: Nanos, packet: T) {
        *self.draft() = (at, packet);
        self.push_draft();
    }

    /// When the last packet arrives.
    fn last(&self) -> Nanos {
        if self.is_empty() { 0 } else { self.slot(self.tail - 1).0 }
    }

    /// A packet that may arrive before others; it does after those of the same time.
    fn insert(&mut self, at: Nanos, packet: T) {
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

/// So many packets enter a patient link together: one after the other, the processor has the link's code and memory at hand.
const AT_ONCE: usize = 64;
/// A link must be as patient as this for that: links may have to catch up as often.
const WORTHWHILE: Nanos = 1_000_000;

/// A packet that a link has put out.
#[derive(Clone, Copy)]
struct Emitted {
    at: Nanos,
    /// In queues, longer than the packet itself says: writing it there, and then reading the whole, would have to wait.
    waited: Nanos,
    light: Light,
}

/// What a link puts out.
struct Exit<'a> {
    link: u32,
    waiting: &'a mut Waiting,
    emitted: &'a mut Vec<Emitted>,
    lost: &'a mut Vec<Lost>,
    changes: &'a mut Vec<(Nanos, u32, u64, u32)>,
    paused: &'a mut Vec<(Nanos, bool)>,
    ring: Option<(&'a mut TransmitRing, Nanos)>,
}

impl Output<Light> for Exit<'_> {
    #[inline]
    fn forward(&mut self, at: Nanos, light: Light, waited: Nanos) {
        if let Some((ring, delay)) = &mut self.ring {
            ring.push(at - *delay, light.connection() ^ 1, path::Packet::payload(&light));
        }
        self.emitted.push(Emitted { at, waited, light });
    }

    #[cold]
    fn dropped(&mut self, at: Nanos, light: &Light, why: DropReason) {
        self.lost.push(lost(at, self.link, self.waiting.get(light), why, false));
        self.waiting.free(light);
    }

    #[cold]
    fn marked(&mut self, at: Nanos, light: &Light) {
        self.lost.push(lost(at, self.link, self.waiting.get(light), DropReason::Aqm, true));
    }

    fn duplicate(&mut self, light: &Light) -> Light {
        self.waiting.twin(light)
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
        let way = |(index, link): (usize, &scenario::Link)| {
            let host = fed_by_host[index];
            // A host's stack learns at once what becomes of its packets in its own NIC. Whatever else starts late
            // is only to reach the far end in time.
            let patient = early[index] && !fused[index] && host.is_none() && link.jitter.is_none();
            Way {
                end: topology.ends[index],
                fused: fused[index],
                early: early[index],
                plain: links[index].is_plain(),
                reorders: reorders[index],
                tapped: tapped[index],
                delay: link.delay_ns,
                patience: if patient { link.delay_ns.saturating_sub(1) } else { 0 },
                host,
                port: ports[index],
            }
        };
        let ways: Vec<Way> = scenario.links.iter().enumerate().map(way).collect();
        let hosts = scenario.hosts.len();
        let mut outlets =
            vec![Outlet { plain: Box::default(), piped: NO_LINK, onward: NO_LINK }; hosts * hosts];
        for flow in &scenario.flows {
            let host = |name: &str| scenario.hosts.iter().position(|h| h.name == name);
            if let (Some(a), Some(b)) = (host(&flow.from), host(&flow.to)) {
                for (source, sink) in [(a, b), (b, a)] {
                    let route: Box<[u32]> = topology.path(source, sink).iter().map(|&l| l as u32).collect();
                    let plain = route.iter().take_while(|&&l| ways[l as usize].plain).count();
                    let next = route.get(plain).filter(|&&next| ways[next as usize].early);
                    outlets[source * hosts + sink] = Outlet {
                        plain: route[..plain].into(),
                        piped: route[..plain].last().filter(|_| next.is_none()).map_or(NO_LINK, |&last| last),
                        onward: next.copied().unwrap_or(NO_LINK),
                    };
                }
            }
        }
        Network {
            pipes: links.iter().map(|_| Pipe::new()).collect(),
            flights: links.iter().map(|_| Pipe::new()).collect(),
            emitted: Vec::new(),
            entering: links.iter().map(|_| Vec::with_capacity(AT_ONCE)).collect(),
            catching_up: false,
            ways,
            due: NEVER,
            rings: tracked.iter().map(|&tracked| tracked.then(TransmitRing::default)).collect(),
            topology,
            links,
            waiting: Waiting::default(),
            switches,
            pauses: VecDeque::new(),
            outlets,
            aside: Segment::default(),
            hosts,
            lost: Vec::new(),
            changes: Vec::new(),
            tapped: Vec::new(),
        }
    }

    /// Where the next segment that goes to `ends` is to be written: where it will lie on its way, as moving it at once
    /// would have to wait for the writing.
    #[inline(always)]
    pub fn draft(&mut self, ends: &Ends) -> &mut Segment {
        let outlet = &self.outlets[ends.src as usize * self.hosts + ends.dst as usize];
        if let Some(pipe) = self.pipes.get_mut(outlet.piped as usize) {
            &mut pipe.draft().1.segment
        } else if outlet.plain.is_empty() {
            &mut self.aside
        } else {
            &mut self.waiting.draft().segment
        }
    }

    /// A host hands the segment in [`Network::draft`] to its NIC, which makes an IP packet of `bytes` with `payload`.
    #[inline(always)]
    pub fn send_draft(&mut self, now: Nanos, ends: &Ends, (bytes, payload): (u32, u32), agenda: &mut Agenda) {
        // The usual case: there is no packet until its time has gone from link to link.
        let outlet = &self.outlets[ends.src as usize * self.hosts + ends.dst as usize];
        let Some((&first, rest)) = outlet.plain.split_first() else {
            self.send_stepwise(now, ends, agenda);
            return;
        };
        let onward = outlet.onward;
        let mut last = first as usize;
        let Some((mut at, mut queue_delay)) = self.links[last].pass(now, bytes) else {
            self.lose(now, first, ends);
            return;
        };
        if let Some(ring) = &mut self.rings[ends.src as usize] {
            ring.push(at - self.ways[last].delay, ends.peer ^ 1, payload);
        }
        for &link in rest {
            last = link as usize;
            let Some((arrival, waited)) = self.links[last].pass(at, bytes) else {
                self.lose(at, link, ends);
                return;
            };
            queue_delay += waited;
            at = arrival;
        }
        if onward != NO_LINK {
            let light = self.waiting.put_draft(now, ends, bytes, queue_delay);
            self.go_through(onward as usize, at, light, agenda);
            return;
        }
        let pipe = &mut self.pipes[last];
        if pipe.is_empty() {
            agenda.set_arrival(last, at);
        }
        let (arrival, draft) = pipe.draft();
        *arrival = at;
        ends.fill(now, draft, bytes, queue_delay);
        pipe.push_draft();
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
            self.with_exit(link as usize, apply, agenda);
        }
        agenda.set_rare(Source::Pause, self.pauses.front().map_or(NEVER, |&(at, ..)| at));
    }

    /// [`Network::send_draft`] over a route whose first link is not plain.
    #[inline(never)]
    fn send_stepwise(&mut self, now: Nanos, ends: &Ends, agenda: &mut Agenda) {
        let link = self.topology.first_link(ends.src, ends.dst);
        let packet = ends.packet(now, &self.aside, self.aside.ip_bytes(), 0);
        self.enter(link, now, packet, agenda);
    }

    /// A queue's limit drops the segment in [`Network::draft`].
    #[cold]
    #[inline(never)]
    fn lose(&mut self, at: Nanos, link: u32, ends: &Ends) {
        let packet = ends.packet(at, self.draft(ends), 0, 0);
        self.lost.push(lost(at, link, &packet, DropReason::Overlimit, false));
    }

    /// The service of a stepped link is due.
    pub fn serve(&mut self, link: usize, now: Nanos, agenda: &mut Agenda) {
        self.with_exit(link, |hop: &mut Hop<'_>, exit: &mut Exit<'_>| hop.on_event(now, exit), agenda);
    }

    /// Patient links start every transmission that is due at or before `now`.
    pub fn catch_up(&mut self, now: Nanos, agenda: &mut Agenda) {
        self.catching_up = true;
        for link in 0..self.links.len() {
            if self.ways[link].patience > 0 {
                self.enter_all(link, agenda);
                self.with_patience(link, |link, exit| link.on_event(now, exit), agenda);
            }
        }
        self.catching_up = false;
        let due =
            (0..self.links.len()).filter(|&link| self.ways[link].patience > 0).map(|link| self.due(link));
        self.due = due.min().unwrap_or(NEVER);
        agenda.set_rare(Source::CatchUp, self.due);
    }

    /// When a patient link is to be served at the latest: before a packet that it lets go can get to the far end.
    #[inline(always)]
    fn due(&self, link: usize) -> Nanos {
        self.links[link].next_event().map_or(NEVER, |next| next + self.ways[link].patience)
    }

    /// The packet that arrives at the far end of `link`, if that is a host, and the host's ring if it has one.
    #[inline(always)]
    pub fn front_at_host(&mut self, link: usize) -> Option<(&Packet, Option<&mut TransmitRing>)> {
        let End::Host(host) = self.ways[link].end else { return None };
        let packet = match self.pipes[link].front() {
            Some((_, packet)) => packet,
            None => self.waiting.unpack(&self.flights[link].front()?.1),
        };
        Some((packet, self.rings[host as usize].as_mut()))
    }

    /// The packet of [`Network::front_at_host`] has been taken in.
    #[inline(always)]
    pub fn drop_front(&mut self, link: usize, agenda: &mut Agenda) {
        let pipe = &mut self.pipes[link];
        let next = if pipe.is_empty() {
            self.end_flight(link)
        } else {
            pipe.pop_front();
            pipe.next()
        };
        agenda.set_arrival(link, next.unwrap_or(NEVER));
    }

    /// The connections of the packet that is `behind` the next on its way to the far end of `link`, and of the one
    /// before it; the packet itself, and the memory for those that are sent meanwhile, are asked for.
    #[inline(always)]
    pub fn upcoming(&self, link: usize, behind: usize) -> Option<(u32, u32)> {
        if let Some((_, packet)) = self.pipes[link].behind(behind) {
            let (_, before) = self.pipes[link].behind(behind - 1)?;
            return Some((packet.connection, before.connection));
        }
        let flight = &self.flights[link];
        if let Some(far) = flight.behind(3 * behind) {
            prefetch(far);
        }
        let (_, light) = flight.behind(behind)?;
        let (_, before) = flight.behind(behind - 1)?;
        prefetch(self.waiting.get(light));
        self.waiting.bring_draft();
        Some((light.connection(), before.connection()))
    }

    /// The packet that is `behind` the next on its way to the far end of `link`, and when it arrives.
    #[inline(always)]
    pub fn look(&mut self, link: usize, behind: usize) -> Option<(Nanos, &Packet)> {
        if let Some((at, packet)) = self.pipes[link].behind(behind) {
            return Some((*at, packet));
        }
        let (at, light) = self.flights[link].behind(behind)?;
        Some((*at, self.waiting.unpack(light)))
    }

    /// Takes the next packet from its flight over `link`; returns when the one behind it arrives.
    #[inline]
    fn end_flight(&mut self, link: usize) -> Option<Nanos> {
        let flight = &mut self.flights[link];
        if let Some((_, light)) = flight.front() {
            self.waiting.free(light);
            flight.pop_front();
        }
        flight.next()
    }

    /// Writes the packet that arrives at the far end of `link` into `packet`; false if it went on to another link.
    #[inline]
    pub fn arrive(&mut self, link: usize, packet: &mut Packet, agenda: &mut Agenda) -> bool {
        let at_host = matches!(self.ways[link].end, End::Host(_));
        if let Some(&(at, front)) = self.pipes[link].front() {
            self.drop_front(link, agenda);
            if at_host {
                *packet = front;
            } else {
                self.enter(self.topology.next_link(link, front.dst), at, front, agenda);
            }
            return at_host;
        }
        let Some(&(at, light)) = self.flights[link].front() else { return false };
        if at_host {
            *packet = *self.waiting.unpack(&light);
            self.drop_front(link, agenda);
        } else {
            self.flights[link].pop_front();
            agenda.set_arrival(link, self.flights[link].next().unwrap_or(NEVER));
            let next = self.topology.next_link(link, path::Packet::dst(&light));
            self.go_on(next, at, 0, light, agenda);
        }
        at_host
    }

    /// The links whose service is an event, and those at whose far end an arrival is one.
    pub fn sources(&self) -> (Vec<bool>, Vec<bool>) {
        let stepped: Vec<bool> = self.ways.iter().map(|way| !way.fused && way.patience == 0).collect();
        let arrives = |link: usize| {
            matches!(self.ways[link].end, End::Host(_))
                || self.ways[link].reorders
                || self.topology.links_after(link).any(|next| !self.ways[next].early)
        };
        let arrivals = (0..self.links.len()).map(arrives).collect();
        (stepped, arrivals)
    }

    /// Whether packets may arrive over each link before what happens at other hosts meanwhile, because they are all that the
    /// others can do to this one: then the sides of connections that are there, opening and accepting.
    pub fn ahead(&self, scenario: &scenario::Scenario) -> Vec<Option<[bool; 2]>> {
        let mut ahead = vec![None; self.links.len()];
        let (services, arrivals) = self.sources();
        let at_host = |link: usize| matches!(self.ways[link].end, End::Host(_));
        if services.contains(&true) || (0..self.links.len()).any(|link| arrivals[link] && !at_host(link)) {
            return ahead;
        }
        let host = |name: &str| scenario.hosts.iter().position(|h| h.name == name);
        let mut last_links = vec![Vec::new(); scenario.hosts.len()];
        for flow in &scenario.flows {
            let (Some(a), Some(b)) = (host(&flow.from), host(&flow.to)) else { continue };
            for (source, sink, side) in [(a, b, 1), (b, a, 0)] {
                if let Some(&last) = self.topology.path(source, sink).last() {
                    last_links[sink].push((last, side));
                }
            }
        }
        for links in last_links {
            let Some(&(link, _)) = links.first() else { continue };
            // What comes over two links comes in order of time, and what overtakes comes sooner than it seems.
            if links.iter().all(|&(other, _)| other == link) && !self.ways[link].reorders {
                ahead[link] = Some([0, 1].map(|side| links.iter().any(|&(_, other)| other == side)));
            }
        }
        ahead
    }

    /// State of a link as of `t`.
    pub fn counters(&mut self, link: usize, t: Nanos) -> path::Counters {
        match self.ways[link].port {
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
            self.ways[link].delay = delay;
        }
        let name = format!("{link} after {now}");
        let streams = |purpose: &str| path::stream(seed.0, seed.1, purpose, &name);
        let apply = |hop: &mut Hop<'_>, exit: &mut Exit<'_>| {
            if let Hop::Link(link) = hop {
                link.change(now, change, &streams, exit);
            }
        };
        self.with_exit(link, apply, agenda);
    }

    /// A packet enters `link` at `at`. Over plain links it is not moved but only its time is.
    #[inline]
    fn enter(&mut self, mut link: usize, mut at: Nanos, mut packet: Packet, agenda: &mut Agenda) {
        while self.ways[link].plain {
            let Some((arrival, waited)) = self.links[link].pass(at, packet.bytes) else {
                self.lost.push(lost(at, link as u32, &packet, DropReason::Overlimit, false));
                return;
            };
            packet.queue_delay += waited;
            if let Some((ring, delay)) = self.ring(link) {
                ring.push(arrival - delay, packet.connection ^ 1, packet.segment.len);
            }
            if self.ways[link].end == End::Node {
                let next = self.topology.next_link(link, packet.dst);
                if self.ways[next].early {
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
        let light = self.waiting.put(&packet);
        self.go_through(link, at, light, agenda);
    }

    /// [`Network::enter`] for a packet that is in `waiting` already.
    #[inline]
    fn go_on(
        &mut self,
        mut link: usize,
        mut at: Nanos,
        mut waited: Nanos,
        mut light: Light,
        agenda: &mut Agenda,
    ) {
        while self.ways[link].plain {
            let Some((arrival, longer)) = self.links[link].pass(at, path::Packet::bytes(&light)) else {
                self.lost.push(lost(at, link as u32, self.waiting.get(&light), DropReason::Overlimit, false));
                self.waiting.free(&light);
                return;
            };
            waited += longer;
            at = arrival;
            if self.ways[link].end == End::Node {
                let next = self.topology.next_link(link, path::Packet::dst(&light));
                if self.ways[next].early {
                    link = next;
                    continue;
                }
            }
            self.fly(link, at, waited, light, agenda);
            return;
        }
        light.add_queue_delay(waited);
        self.go_through(link, at, light, agenda);
    }

    /// A packet enters `link`, which is not plain.
    #[inline(always)]
    fn go_through(&mut self, link: usize, at: Nanos, light: Light, agenda: &mut Agenda) {
        if self.ways[link].tapped {
            self.tapped.push((at, link as u32, *self.waiting.unpack(&light)));
        }
        let patience = self.ways[link].patience;
        if patience >= WORTHWHILE && !self.catching_up {
            let entering = &mut self.entering[link];
            entering.push((at, light));
            if entering.len() == AT_ONCE {
                self.enter_all(link, agenda);
            } else if at + patience < self.due {
                self.due = at + patience;
                agenda.set_rare(Source::CatchUp, self.due);
            }
        } else if patience > 0 {
            self.enter_all(link, agenda);
            self.with_patience(link, |link, exit| link.arrive(at, light, exit), agenda);
        } else {
            self.with_exit(
                link,
                |hop: &mut Hop<'_>, exit: &mut Exit<'_>| hop.arrive(at, light, exit),
                agenda,
            );
        }
    }

    /// Packets that wait to enter a patient link do so.
    #[inline(never)]
    fn enter_all(&mut self, link: usize, agenda: &mut Agenda) {
        if self.entering[link].is_empty() {
            return;
        }
        let mut entering = std::mem::take(&mut self.entering[link]);
        let enter = |link: &mut Link<Light>, exit: &mut Exit<'_>| {
            for (at, light) in entering.drain(..) {
                link.arrive(at, light, exit);
            }
        };
        self.with_patience(link, enter, agenda);
        self.entering[link] = entering;
    }

    /// A packet is on its way to the far end of `link`, after all others unless the link reorders.
    #[inline]
    fn fly(&mut self, link: usize, at: Nanos, waited: Nanos, mut light: Light, agenda: &mut Agenda) {
        let flight = &mut self.flights[link];
        let first = flight.next();
        if self.ways[link].reorders {
            light.add_queue_delay(waited);
            flight.insert(at, light);
        } else {
            debug_assert!(flight.last() <= at, "links without reordering keep the order");
            let draft = flight.draft();
            *draft = (at, light);
            draft.1.add_queue_delay(waited);
            flight.push_draft();
        }
        if first.is_none_or(|first| at < first) {
            agenda.set_arrival(link, at);
        }
    }

    /// The transmit ring that `link` drains, if its host's stack watches it, and the link's delay.
    #[inline]
    fn ring(&mut self, link: usize) -> Option<(&mut TransmitRing, Nanos)> {
        let Way { host, delay, .. } = self.ways[link];
        self.rings[host? as usize].as_mut().map(|ring| (ring, delay))
    }

    /// Runs `work` on a link with somewhere to put what comes out, and sees that it gets there.
    #[inline]
    fn with_exit(
        &mut self,
        link: usize,
        work: impl FnOnce(&mut Hop<'_>, &mut Exit<'_>),
        agenda: &mut Agenda,
    ) {
        let mut paused = Vec::new();
        let way = &self.ways[link];
        let ring = way.host.and_then(|host| self.rings[host as usize].as_mut());
        let ring = ring.map(|ring| (ring, way.delay));
        let before = self.emitted.len();
        let mut exit = Exit {
            link: link as u32,
            waiting: &mut self.waiting,
            emitted: &mut self.emitted,
            lost: &mut self.lost,
            changes: &mut self.changes,
            paused: &mut paused,
            ring,
        };
        match way.port {
            None => {
                work(&mut Hop::Link(&mut self.links[link]), &mut exit);
                if !way.fused {
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
        self.leave_all(link, before, agenda);
    }

    /// [`Network::with_exit`] for a patient link.
    #[inline]
    fn with_patience(
        &mut self,
        link: usize,
        work: impl FnOnce(&mut Link<Light>, &mut Exit<'_>),
        agenda: &mut Agenda,
    ) {
        let before = self.emitted.len();
        let mut exit = Exit {
            link: link as u32,
            waiting: &mut self.waiting,
            emitted: &mut self.emitted,
            lost: &mut self.lost,
            changes: &mut self.changes,
            paused: &mut Vec::new(),
            ring: None,
        };
        work(&mut self.links[link], &mut exit);
        // It may be served early and in vain, which is rarer than a change of its time.
        let due = self.due(link);
        if due < self.due {
            self.due = due;
            agenda.set_rare(Source::CatchUp, due);
        }
        self.leave_all(link, before, agenda);
    }

    /// What `link` has put out, on top of `before` that others have, goes on.
    #[inline]
    fn leave_all(&mut self, link: usize, before: usize, agenda: &mut Agenda) {
        // Links behind this one leave the list as they find it.
        let mut next = before;
        while let Some(&Emitted { at, waited, light }) = self.emitted.get(next) {
            next += 1;
            self.leave(link, at, waited, light, agenda);
        }
        self.emitted.truncate(before);
    }

    /// A packet leaves `link`, which is not plain.
    #[inline]
    fn leave(&mut self, link: usize, at: Nanos, waited: Nanos, light: Light, agenda: &mut Agenda) {
        // Behind a link that reorders, packets go on in the order of their arrival, which is known only then.
        if self.ways[link].end == End::Node && !self.ways[link].reorders {
            let next = self.topology.next_link(link, path::Packet::dst(&light));
            if self.ways[next].early {
                self.go_on(next, at, waited, light, agenda);
                return;
            }
        }
        self.fly(link, at, waited, light, agenda);
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
