//! A host between its network interface and its stack: impairments, interrupt moderation, receive aggregation and processing time on
//! the way in; netem on the way out.

use std::collections::VecDeque;

use contract::scenario::{self, Host, PLACES};
use host::aggregate::{Aggregator, Flush, Frame, Moderation, Polling, Rules};
use host::noise::{Processing, Processor, Stalls};
use path::{DropReason, Link, Mode, Nanos, Output, Xoshiro256PlusPlus};
use tcp::stack::Family;
use wire::Segment;

use crate::network::{Fate, PacketReport};
use crate::packet::{Packet, ports};

impl Frame for Packet {
    fn connection(&self) -> u32 {
        self.connection.0
    }

    fn segment(&self) -> &Segment {
        &self.segment
    }

    fn segment_mut(&mut self) -> &mut Segment {
        &mut self.segment
    }
}

/// The way in. Whatever reaches the stack leaves by [`Ingress::take`].
pub(crate) struct Ingress {
    before: Option<Stage>,
    moderation: Moderation,
    /// Frames that the host has not seen yet.
    ring: VecDeque<Packet>,
    aggregator: Option<Aggregator<Packet>>,
    /// The aggregator works on arrival, and the moderation's time is how long it waits for the next frame.
    eager: bool,
    /// A clock tick, in ns.
    tick: Nanos,
    after: Option<Stage>,
    processor: Option<Processor>,
    /// Packets on their way to the stack, in order of time: when they reach it, and how long the processor was busy with each.
    ready: VecDeque<(Nanos, Nanos, Packet)>,
}

/// FreeBSD's releases whose stack does not learn how many frames LRO merged.
const UNCOUNTED: [&str; 2] = ["freebsd-9", "freebsd-11"];

impl Ingress {
    /// The ingress of a host, None if packets just go through. `hops` are the numbers of its places; `streams` gives
    /// the random stream of a purpose and a place.
    pub(crate) fn new(
        host: &Host,
        family: Family,
        hops: [u32; 3],
        streams: &dyn Fn(&str, &str) -> Xoshiro256PlusPlus,
    ) -> Option<Ingress> {
        let rules = match (host.ack_every, family) {
            (Some(segments), _) => Some(Rules::Every { segments }),
            (None, Family::FreeBsd | Family::FreeBsdRack) if host.nic.lro => {
                let counts = !UNCOUNTED.iter().any(|release| host.stack.starts_with(release));
                Some(Rules::Lro { counts })
            }
            (None, _) => host.nic.gro.then_some(Rules::Gro),
        };
        let noise = host.noise.filter(|noise| noise.processing.is_some() || noise.stall.is_some());
        let nothing = host.ingress == scenario::Ingress::default() && host.nic.coalesce.is_none();
        if nothing && rules.is_none() && noise.is_none() {
            return None;
        }
        let stage = |stage: &Option<scenario::IngressStage>, place: usize| {
            stage.as_ref().map(|s| Stage::new(s, hops[place], &|purpose| streams(purpose, PLACES[place])))
        };
        let processor = noise.map(|noise| {
            Processor::new(
                noise
                    .processing
                    .map(|p| (Processing { mean: p.mean_ns, sd: p.sd_ns }, streams("processing", "noise"))),
                noise
                    .stall
                    .map(|s| (Stalls { every: s.every_ns, length: s.length_ns }, streams("stall", "noise"))),
            )
        });
        let moderation = host.nic.coalesce.map_or(Moderation::new(0, 0, Polling::default()), |c| {
            let polling = Polling { timeout: c.gro_flush_timeout_ns, defer: c.napi_defer_hard_irqs };
            match host.ack_every {
                Some(_) => Moderation::new(c.time_ns, 0, Polling::default()),
                None => Moderation::new(c.time_ns, c.frames, polling),
            }
        });
        Some(Ingress {
            before: stage(&host.ingress.before_gro, 1),
            moderation,
            ring: VecDeque::new(),
            aggregator: rules.map(|rules| Aggregator::new(rules, host.ip.header())),
            eager: host.ack_every.is_some(),
            tick: 1_000_000_000 / u64::from(host.hz),
            after: stage(&host.ingress.after_gro, 2),
            processor,
            ready: VecDeque::new(),
        })
    }

    /// A packet is in at the NIC.
    pub(crate) fn receive(&mut self, now: Nanos, packet: &Packet, reports: &mut Vec<PacketReport>) {
        let frames = match &mut self.before {
            None => [Some(*packet), None],
            Some(stage) => stage.pass(now, *packet, reports),
        };
        for frame in frames.into_iter().flatten() {
            if self.eager {
                self.aggregate(now, frame, reports);
                let holds = self.aggregator.as_ref().is_some_and(Aggregator::holds);
                if holds {
                    self.moderation.restart(now);
                } else {
                    self.moderation.polled(now, false);
                }
            } else {
                self.ring.push_back(frame);
                if self.moderation.on_frame(now) {
                    self.poll(now, reports);
                }
            }
        }
    }

    /// Does what is due at `now`.
    pub(crate) fn on_event(&mut self, now: Nanos, reports: &mut Vec<PacketReport>) {
        if self.moderation.due().is_some_and(|due| due <= now) {
            self.poll(now, reports);
        }
    }

    /// Time when the next packet reaches the stack or the next interrupt comes.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|&(at, ..)| at);
        self.moderation.due().into_iter().chain(ready).min()
    }

    /// The next packet that reaches the stack at or before `now`, and how long the processor was busy with it.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<(Packet, Nanos)> {
        match self.ready.front() {
            Some(&(at, busy, packet)) if at <= now => {
                self.ready.pop_front();
                Some((packet, busy))
            }
            _ => None,
        }
    }

    /// A polling pass: the host sees every frame, and aggregates end with it unless another follows.
    fn poll(&mut self, now: Nanos, reports: &mut Vec<PacketReport>) {
        if let Some(aggregator) = &mut self.aggregator {
            aggregator.set_tick(now / self.tick);
        }
        while let Some(frame) = self.ring.pop_front() {
            self.aggregate(now, frame, reports);
        }
        let mut aggregator = self.aggregator.take();
        let flush = self.moderation.polled(now, aggregator.as_ref().is_some_and(Aggregator::holds));
        if let Some(aggregator) = &mut aggregator {
            match flush {
                Flush::All => aggregator.flush(&mut |packet| self.pass_up(now, packet, reports)),
                Flush::Old => aggregator.flush_old(&mut |packet| self.pass_up(now, packet, reports)),
            }
        }
        self.aggregator = aggregator;
    }

    fn aggregate(&mut self, now: Nanos, frame: Packet, reports: &mut Vec<PacketReport>) {
        let mut aggregator = self.aggregator.take();
        match &mut aggregator {
            None => self.pass_up(now, frame, reports),
            Some(aggregator) => aggregator.push(frame, &mut |packet| self.pass_up(now, packet, reports)),
        }
        self.aggregator = aggregator;
    }

    /// A frame or a finished aggregate goes through the rules behind aggregation, then to the processor.
    fn pass_up(&mut self, now: Nanos, packet: Packet, reports: &mut Vec<PacketReport>) {
        let packets = match &mut self.after {
            None => [Some(packet), None],
            Some(stage) => stage.pass(now, packet, reports),
        };
        for packet in packets.into_iter().flatten() {
            let (at, busy) = self.processor.as_mut().map_or((now, 0), |processor| processor.serve(now));
            self.ready.push_back((at, busy, packet));
        }
    }
}

/// Impairments of the packets that match.
struct Stage {
    link: Link<Packet>,
    hop: u32,
    rule: scenario::IngressStage,
}

impl Stage {
    fn new(stage: &scenario::IngressStage, hop: u32, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Stage {
        let mut link = Link::new(&stage.path_config(), streams, Mode::Fused);
        link.next_query(Nanos::MAX);
        Stage { link, hop, rule: stage.clone() }
    }

    /// Passes a packet: none, one or two are left.
    fn pass(&mut self, now: Nanos, packet: Packet, reports: &mut Vec<PacketReport>) -> [Option<Packet>; 2] {
        let (sport, dport) = ports(packet.connection);
        let matches = self.rule.matches(sport, dport, packet.segment.len);
        if !matches {
            return [Some(packet), None];
        }
        let mut left = StageOutput { hop: self.hop, packets: [None, None], reports };
        self.link.arrive(now, packet, &mut left);
        left.packets
    }
}

struct StageOutput<'a> {
    hop: u32,
    packets: [Option<Packet>; 2],
    reports: &'a mut Vec<PacketReport>,
}

impl Output<Packet> for StageOutput<'_> {
    fn forward(&mut self, at: Nanos, mut packet: Packet, waited: Nanos, _sent: Nanos) {
        packet.queue_delay += waited;
        if packet.corrupt {
            self.reports.push(PacketReport::new(at, self.hop, &packet, Fate::Dropped(DropReason::Corrupt)));
            return;
        }
        let slot = usize::from(self.packets[0].is_some());
        self.packets[slot] = Some(packet);
    }

    fn dropped(&mut self, at: Nanos, packet: &Packet, why: DropReason) {
        self.reports.push(PacketReport::new(at, self.hop, packet, Fate::Dropped(why)));
    }

    fn marked(&mut self, at: Nanos, packet: &Packet) {
        self.reports.push(PacketReport::new(at, self.hop, packet, Fate::Marked));
    }
}

/// The way out through netem, for whole segments.
pub(crate) struct Egress {
    link: Link<Packet>,
    hop: u32,
    /// Whether netem delays, so that the stack no longer counts its segments as in the host (netem_enqueue's
    /// skb_orphan_partial).
    pub orphans: bool,
    /// Segments on their way to the NIC, in order of time.
    pipe: VecDeque<(Nanos, Packet)>,
}

impl Egress {
    /// The egress of a host, if it has one.
    pub(crate) fn new(host: &Host, hop: u32, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Option<Egress> {
        let egress = host.egress.as_ref()?;
        let orphans = egress.delay_ns > 0 || egress.jitter.is_some() || egress.rate_bps.is_some();
        Some(Egress {
            link: Link::new(&egress.path_config(), streams, Mode::Stepped),
            hop,
            orphans,
            pipe: VecDeque::new(),
        })
    }

    /// The stack hands over a segment.
    pub(crate) fn send(&mut self, now: Nanos, packet: Packet, reports: &mut Vec<PacketReport>) {
        let mut line = EgressOutput { hop: self.hop, pipe: &mut self.pipe, reports };
        self.link.arrive(now, packet, &mut line);
    }

    /// Time when a segment reaches the NIC next.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.pipe.front().map(|&(at, _)| at)
    }

    /// The next segment that reaches the NIC at or before `now`.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Packet> {
        match self.pipe.front() {
            Some(&(at, packet)) if at <= now => {
                self.pipe.pop_front();
                Some(packet)
            }
            _ => None,
        }
    }
}

struct EgressOutput<'a> {
    hop: u32,
    pipe: &'a mut VecDeque<(Nanos, Packet)>,
    reports: &'a mut Vec<PacketReport>,
}

impl Output<Packet> for EgressOutput<'_> {
    fn forward(&mut self, at: Nanos, mut packet: Packet, waited: Nanos, _sent: Nanos) {
        packet.queue_delay += waited;
        let place = self.pipe.partition_point(|&(other, _)| other <= at);
        self.pipe.insert(place, (at, packet));
    }

    fn dropped(&mut self, at: Nanos, packet: &Packet, why: DropReason) {
        self.reports.push(PacketReport::new(at, self.hop, packet, Fate::Dropped(why)));
    }

    fn marked(&mut self, at: Nanos, packet: &Packet) {
        self.reports.push(PacketReport::new(at, self.hop, packet, Fate::Marked));
    }
}
