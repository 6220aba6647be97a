//! Applications in a run: what each flow is set up with, datagrams, rounds of an incast, background transfers, and the
//! figures they all give.

use std::collections::VecDeque;

use host::app::{
    Application, Bulk, Datagrams, Figure, HEADERS, Incast, Load, OnOff, Paced, Pinger, RequestResponse,
    Rounds, Video,
};
use path::Nanos;
use tcp::endpoint::State;
use wire::Segment;

use crate::agenda::{NEVER, Source};
use crate::draws::{self, Transfers};
use crate::engine::Simulation;
use crate::flow::{Background, Snapshot, Work};
use crate::packet::Packet;
use crate::record::{EVENT_APP, EventRow, SampleRow, sample};
use crate::scenario::{App, EcnField, Flow, LoadPart, Scenario};

/// Size of one write of a background transfer.
const WRITE: u64 = 131_072;

/// An incast: the flows that are asked together.
pub struct Group {
    name: String,
    rounds: Rounds,
    /// The flows.
    members: Vec<u32>,
    /// When the present round began.
    began: Nanos,
    /// Answers in the present round.
    answers: usize,
}

/// Adds a flow for each connection that background traffic may have at a time; returns, for every flow, the one that
/// it is a transfer of.
pub fn expand(scenario: &mut Scenario) -> Vec<Option<u32>> {
    let mut parents = vec![None; scenario.flows.len()];
    for parent in 0..scenario.flows.len() {
        let flow = scenario.flows[parent].clone();
        let App::Background { connections, .. } = flow.app else { continue };
        for number in 1..=connections {
            let name = format!("{}#{number}", flow.name);
            let app = App::Bulk { bytes: Some(1), write_bytes: WRITE };
            scenario.flows.push(Flow { name, app, ..flow.clone() });
            parents.push(Some(parent as u32));
        }
    }
    parents
}

/// The groups of incasts of a scenario.
pub fn groups(scenario: &Scenario) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, flow) in (0u32..).zip(&scenario.flows) {
        let App::Incast { group, rounds, think_ns, .. } = &flow.app else { continue };
        let known = groups.iter().position(|g| g.name == *group).unwrap_or_else(|| {
            let rounds = Rounds::new(0, *rounds, *think_ns);
            groups.push(Group { name: group.clone(), rounds, members: Vec::new(), began: 0, answers: 0 });
            groups.len() - 1
        });
        groups[known].members.push(number);
    }
    for group in &mut groups {
        let App::Incast { rounds, think_ns, .. } = &scenario.flows[group.members[0] as usize].app else {
            continue;
        };
        group.rounds = Rounds::new(group.members.len() as u32, *rounds, *think_ns);
    }
    groups
}

/// What flow `number`, which is opened at `start`, does, and whether it ends by itself.
pub fn build(
    scenario: &Scenario,
    number: usize,
    start: Nanos,
    parents: &[Option<u32>],
    groups: &[Group],
) -> (Work, bool) {
    let flow = &scenario.flows[number];
    let streams = |purpose: &str| path::stream(scenario.seed, scenario.repeat, purpose, &flow.name);
    let ends = flow.stop_ns.unwrap_or(Nanos::MAX).min(scenario.duration_ns);
    let modelled = |app: Box<dyn Application>| {
        let limited = app.is_limited();
        (Work::Modelled(app), limited)
    };
    match flow.app {
        App::Bulk { bytes, write_bytes } => (Work::Bulk(Bulk::new(bytes, write_bytes)), bytes.is_some()),
        App::Fixed { size_bytes, write_bytes } => {
            (Work::Bulk(Bulk::new(Some(size_bytes), write_bytes)), true)
        }
        App::RateLimited { rate_bps, write_bytes } => {
            modelled(Box::new(Paced::new(rate_bps, write_bytes, ends)))
        }
        App::OnOff { on_ns, off_ns, rate_bps, write_bytes, distribution } => {
            let lengths = draws::lengths(on_ns, off_ns, distribution, &streams);
            modelled(Box::new(OnOff::new(lengths, rate_bps, write_bytes, ends)))
        }
        App::RequestResponse { requests, request_bytes, response_bytes, think_ns } => {
            modelled(Box::new(RequestResponse::new(requests, request_bytes, response_bytes, think_ns)))
        }
        App::Incast { size_bytes, request_bytes, rounds, .. } => {
            let group = groups.iter().position(|g| g.members.contains(&(number as u32))).unwrap_or(0);
            (Work::Incast(Incast::new(rounds, request_bytes, size_bytes), group as u32), rounds.is_some())
        }
        App::Video { rate_bps, chunk_ns, buffer_ns, request_bytes } => {
            modelled(Box::new(Video::new(rate_bps, chunk_ns, buffer_ns, request_bytes)))
        }
        App::UdpCbr { rate_bps, payload_bytes, .. } => {
            (Work::Datagrams(Datagrams::at_rate(rate_bps, payload_bytes)), false)
        }
        App::Voip { frame_ns, payload_bytes, .. } => {
            (Work::Datagrams(Datagrams::every(frame_ns, payload_bytes, false)), false)
        }
        App::Ping { interval_ns, payload_bytes } => {
            (Work::Datagrams(Datagrams::every(interval_ns, payload_bytes, true)), false)
        }
        App::Loadlatency { part: LoadPart::Pinger, ping_bytes, interval_ns, .. } => {
            (Work::Pinger(Box::new(Pinger::new(ping_bytes, interval_ns))), false)
        }
        App::Loadlatency { write_bytes, .. } => (Work::Load(Load::new(write_bytes, start)), false),
        App::Background { load_bps, size_bytes, shape_milli, .. } => {
            let mut free: Vec<u32> =
                (0u32..).zip(parents).filter(|(_, p)| **p == Some(number as u32)).map(|(i, _)| i).collect();
            // The first is used first.
            free.reverse();
            let background = Background {
                draws: Transfers::new(load_bps, size_bytes, shape_milli, &streams),
                next: None,
                transfers: free.clone(),
                free,
                waiting: VecDeque::new(),
                finished: Snapshot::default(),
            };
            (Work::Background(Box::new(background)), false)
        }
    }
}

impl Simulation {
    /// An event of a flow's application.
    pub(crate) fn app(&mut self, flow: usize) {
        let run = &mut self.flows[flow];
        let over = run.stop.is_some_and(|stop| stop <= self.now);
        match run.app {
            Work::Datagrams(_) if over => self.agenda.set_rare(Source::App(flow as u32), NEVER),
            Work::Datagrams(_) => self.send_datagram(flow),
            Work::Background(_) => self.background(flow, over),
            _ if run.opening => self.open(flow),
            _ => self.app_turn(flow, over),
        }
    }

    /// The flow's start: opens its connection.
    pub(crate) fn open(&mut self, flow: usize) {
        let run = &mut self.flows[flow];
        run.opening = false;
        let stop = run.stop.filter(|&stop| stop > self.now && run.parent.is_none()).unwrap_or(NEVER);
        self.agenda.set_rare(Source::App(flow as u32), stop);
        self.connect(flow);
        self.service(2 * flow);
    }

    /// It stops, or wants a turn at both ends.
    fn app_turn(&mut self, flow: usize, over: bool) {
        self.agenda.set_rare(Source::App(flow as u32), NEVER);
        let run = &self.flows[flow];
        let (from, to) = (run.from, run.to);
        self.depart(from);
        self.depart(to);
        let run = &mut self.flows[flow];
        if over && !run.stopped {
            run.stopped = true;
            match &mut run.app {
                Work::Bulk(bulk) => {
                    if let Some(endpoint) = &mut self.connections[2 * flow] {
                        bulk.stop(endpoint, self.now);
                    }
                }
                work => {
                    if let Some(app) = work.modelled() {
                        app.stop();
                    }
                }
            }
        }
        self.service(2 * flow);
        if !matches!(self.flows[flow].app, Work::Bulk(_)) {
            self.service(2 * flow + 1);
        }
    }

    /// A modelled application's turn at one end; true if it did something that may let the endpoint send.
    #[cold]
    pub(crate) fn model_works(&mut self, connection: usize) -> bool {
        let flow = connection / 2;
        let Some(endpoint) = &mut self.connections[connection] else { return false };
        let run = &mut self.flows[flow];
        let state = endpoint.state();
        // A flow of data has nothing to report until it ends, and is asked for every segment.
        run.attention |= !matches!(run.app, Work::Load(_));
        let Some(app) = run.app.modelled() else { return false };
        if connection & 1 == 0 {
            return matches!(state, State::Established | State::CloseWait) && app.sender(endpoint, self.now);
        }
        if matches!(state, State::Established | State::CloseWait)
            && app.receiver(endpoint, self.now, &mut run.figures)
        {
            return true;
        }
        if state == State::CloseWait {
            run.completed = Some(self.now);
            run.attention = true;
            endpoint.shutdown(self.now);
            return true;
        }
        false
    }

    /// Reports what has happened to a flow's application, and asks when it wants its next turn.
    #[cold]
    pub(crate) fn attend(&mut self, flow: usize) {
        let now = self.now;
        let run = &mut self.flows[flow];
        run.attention = false;
        let named = run.parent.unwrap_or(flow as u32);
        let inside = self.window_is_open();
        let run = &mut self.flows[flow];
        if let Some(completed) = run.completed
            && !run.completion_told
        {
            run.completion_told = true;
            let took = completed - run.start;
            if inside {
                run.tally.completion.add(took);
            }
            self.recorder.sample(&SampleRow {
                t: now,
                flow: named,
                kind: sample::COMPLETION,
                value: took as i64,
            });
            self.report_milestone(flow, took);
        }
        self.hear_pings(flow);
        for figure in std::mem::take(&mut self.flows[flow].figures) {
            self.report_figure(flow, figure, inside);
        }
        if let Work::Incast(_, group) = self.flows[flow].app {
            self.attend_group(flow, group as usize);
        }
        let run = &self.flows[flow];
        if run.parent.is_some() {
            self.recycle(flow);
        } else if let Some(app) = timed(&run.app) {
            let stop = run.stop.filter(|_| !run.stopped);
            let due = app.due().into_iter().chain(stop).min().unwrap_or(NEVER);
            self.agenda.set_rare(Source::App(flow as u32), due.max(now));
        }
    }

    /// Round trips that a pinger has completed since it was last asked.
    fn hear_pings(&mut self, flow: usize) {
        let run = &mut self.flows[flow];
        if let Work::Pinger(pinger) = &run.app {
            let known = run.pings_told;
            run.pings_told = pinger.pings().len();
            run.figures.extend(pinger.pings()[known..].iter().map(|ping| Figure::Response(ping.took)));
        }
    }

    /// The application of a flow has finished something that took so long: a transfer or a request.
    fn report_milestone(&mut self, flow: usize, took: Nanos) {
        self.recorder.event(EventRow {
            t: self.now,
            rank: self.rank(flow),
            flow: Some(self.flows[flow].parent.unwrap_or(flow as u32)),
            hop: None,
            kind: EVENT_APP,
            seq: Some(self.read_by(flow)),
            value: Some(took as i64),
        });
    }

    fn report_figure(&mut self, flow: usize, figure: Figure, inside: bool) {
        let tally = &mut self.flows[flow].tally;
        let (kind, value) = match figure {
            Figure::Response(took) => {
                if inside {
                    tally.response.add(took);
                }
                (sample::RESPONSE, took)
            }
            Figure::Stall(lasted) => {
                if inside {
                    tally.stalls += 1;
                    tally.stalled += lasted;
                }
                (sample::STALL, lasted)
            }
        };
        self.recorder.sample(&SampleRow { t: self.now, flow: flow as u32, kind, value: value as i64 });
        if matches!(figure, Figure::Response(_)) {
            self.report_milestone(flow, value);
        }
        if let (Work::Incast(_, group), Figure::Response(_)) = (&self.flows[flow].app, figure) {
            let group = *group as usize;
            self.answered(flow, group, inside);
        }
    }
}

/// An application that may want turns of its own accord.
fn timed(work: &Work) -> Option<&dyn Application> {
    match work {
        Work::Modelled(app) => Some(&**app),
        Work::Pinger(pinger) => Some(&**pinger),
        _ => None,
    }
}

/// Incast.
impl Simulation {
    /// A server has answered in full.
    fn answered(&mut self, flow: usize, number: usize, inside: bool) {
        let group = &mut self.groups[number];
        group.rounds.on_answer(self.now);
        group.answers += 1;
        if group.answers == group.members.len() {
            let took = self.now - group.began;
            if inside {
                self.flows[flow].tally.round.add(took);
            }
            let value = took as i64;
            self.recorder.sample(&SampleRow { t: self.now, flow: flow as u32, kind: sample::ROUND, value });
        }
        let due = self.groups[number].rounds.due().unwrap_or(NEVER);
        self.agenda.set_rare(Source::Round(number as u32), due);
    }

    fn attend_group(&mut self, flow: usize, number: usize) {
        let run = &mut self.flows[flow];
        let open = self.connections[2 * flow + 1].as_ref().is_some_and(|e| e.state() == State::Established);
        if open && !run.opened {
            run.opened = true;
            self.groups[number].rounds.on_open(self.now);
            let due = self.groups[number].rounds.due().unwrap_or(NEVER);
            self.agenda.set_rare(Source::Round(number as u32), due);
        }
    }

    /// A round begins: everybody is asked.
    pub(crate) fn begin_round(&mut self, number: usize) {
        self.agenda.set_rare(Source::Round(number as u32), NEVER);
        let group = &mut self.groups[number];
        group.rounds.begin();
        group.began = self.now;
        group.answers = 0;
        for index in 0..self.groups[number].members.len() {
            let flow = self.groups[number].members[index] as usize;
            if let Work::Incast(incast, _) = &mut self.flows[flow].app {
                incast.release();
            }
            self.depart(self.flows[flow].to);
            self.service(2 * flow + 1);
        }
    }
}

/// Datagrams.
impl Simulation {
    fn send_datagram(&mut self, flow: usize) {
        let ecn = match self.scenario().flows[flow].app {
            App::UdpCbr { ecn, .. } | App::Voip { ecn, .. } => match ecn {
                EcnField::Off => wire::Ecn::NotEct,
                EcnField::Ect0 => wire::Ecn::Ect0,
                EcnField::Ect1 => wire::Ecn::Ect1,
            },
            _ => wire::Ecn::NotEct,
        };
        let run = &mut self.flows[flow];
        let Work::Datagrams(source) = &mut run.app else { return };
        let (number, next) = source.send(self.now);
        let payload = source.payload();
        run.datagrams_sent += 1;
        let packet = Packet {
            segment: Segment { offset: number, len: payload, frames: 1, ecn, ..Segment::default() },
            sent_at: self.now,
            bytes: HEADERS + payload,
            connection: 2 * flow as u32 + 1,
            src: run.from,
            dst: run.to,
            ..Packet::default()
        };
        self.agenda.set_rare(Source::App(flow as u32), next);
        self.emit(packet);
    }

    /// A packet for a connection that does not exist: a datagram, or none.
    pub(crate) fn take_datagram(&mut self, packet: &Packet) -> bool {
        let flow = (packet.connection / 2) as usize;
        let inside = self.window_is_open();
        let run = &mut self.flows[flow];
        let Work::Datagrams(source) = &run.app else { return false };
        let delay = self.now - packet.sent_at;
        let (kind, value) = if packet.connection & 1 == 0 {
            (sample::PROBE_RTT, packet.echo_delay + delay)
        } else {
            run.datagram_bytes += u64::from(packet.segment.len);
            if inside {
                run.tally.one_way.add(delay);
            }
            if source.is_echoed() {
                let echo = Packet {
                    sent_at: self.now,
                    echo_delay: delay.max(1),
                    queue_delay: 0,
                    connection: packet.connection ^ 1,
                    src: packet.dst,
                    dst: packet.src,
                    ..*packet
                };
                self.emit(echo);
            }
            (sample::ONE_WAY_DELAY, delay)
        };
        self.recorder.sample(&SampleRow { t: self.now, flow: flow as u32, kind, value: value as i64 });
        true
    }
}

/// Background traffic.
impl Simulation {
    /// A transfer arrives (the first time: the flow begins).
    fn background(&mut self, flow: usize, over: bool) {
        let now = self.now;
        let Work::Background(background) = &mut self.flows[flow].app else { return };
        if over {
            self.agenda.set_rare(Source::App(flow as u32), NEVER);
            return;
        }
        let (after, size) = background.draws.draw();
        if let Some(size) = background.next.replace(size) {
            background.waiting.push_back((now, size));
        }
        self.agenda.set_rare(Source::App(flow as u32), now.saturating_add(after));
        self.start_transfers(flow);
    }

    /// As many waiting transfers as there are free connections.
    fn start_transfers(&mut self, flow: usize) {
        while let Work::Background(background) = &mut self.flows[flow].app
            && let Some(&transfer) = background.free.last()
            && let Some((arrived, size)) = background.waiting.pop_front()
        {
            background.free.pop();
            let run = &mut self.flows[transfer as usize];
            run.app = Work::Bulk(Bulk::new(Some(size), WRITE));
            run.start = arrived;
            run.completed = None;
            run.completion_told = false;
            run.ends[1].echo_delay = 0;
            run.uses += 1;
            self.open(transfer as usize);
        }
    }

    /// A transfer that is over at both ends makes room for the next.
    fn recycle(&mut self, transfer: usize) {
        let (a, b) = (2 * transfer, 2 * transfer + 1);
        let Some(sender) = &self.connections[a] else { return };
        let failed = sender.failure().is_some();
        let closed = self.connections[b].as_ref().is_none_or(|e| e.state() == State::Closed);
        if !(failed || closed && matches!(sender.state(), State::Closed | State::TimeWait)) {
            return;
        }
        let totals = self.snapshot(transfer);
        self.connections[a] = None;
        self.connections[b] = None;
        self.agenda.set_timer(a, NEVER);
        self.agenda.set_timer(b, NEVER);
        let Some(parent) = self.flows[transfer].parent else { return };
        if let Work::Background(background) = &mut self.flows[parent as usize].app {
            background.finished += totals;
            background.free.push(transfer as u32);
        }
        self.start_transfers(parent as usize);
    }

    /// Totals of a flow so far, transfers included.
    pub(crate) fn totals(&mut self, flow: usize) -> Snapshot {
        let run = &self.flows[flow];
        match &run.app {
            Work::Datagrams(_) => {
                Snapshot { read: run.datagram_bytes, segments: run.datagrams_sent, ..Snapshot::default() }
            }
            Work::Background(background) => {
                let mut totals = background.finished;
                for transfer in background.transfers.clone() {
                    totals += self.snapshot(transfer as usize);
                }
                totals
            }
            _ => self.snapshot(flow),
        }
    }
}
