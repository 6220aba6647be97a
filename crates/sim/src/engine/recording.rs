//! Records of a run: samples of connections and queues, and what is counted in the measurement window.

use contract::ids::{FlowId, LinkId};
use contract::kinds::{event_of, sample};
use contract::record::Recorder;
use contract::scenario::Sampling;
use contract::tables::{EventRow, QueueRow, SampleRow, TcpRow};
use path::{Counters, Nanos};
use tcp::Endpoint;
use tcp::endpoint::State;
use tcp::event::{Event, EventKind, NO_VALUE};
use units::SECOND;

use super::Simulation;
use crate::capture::Captures;
use crate::event_queue::{NEVER, Source};
use crate::flow::{FlowApp, Snapshot, Tally};
use crate::limits::Path;
use crate::transport::Transport;

/// Records of a run, and how far they are.
pub(super) struct Recording {
    pub recorder: Recorder,
    pub captures: Captures,
    /// The links whose queues and counters are recorded.
    pub observed: Vec<LinkId>,
    /// A row of `tcp` for each acknowledgement.
    pub per_ack: bool,
    pub window: Window,
    /// Counters of the observed links where the measurement window begins and ends.
    pub links_before: Vec<Counters>,
    pub links_after: Vec<Counters>,
}

/// Position of the present time to the measurement window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Before,
    Inside,
    After,
}

impl Recording {
    /// Whether the measurement window is open: whether metrics count.
    #[inline(always)]
    pub(super) fn is_measuring(&self) -> bool {
        self.window == Window::Inside
    }

    /// Counts and records what an endpoint told of itself. `named` is the flow that its row names, and that flow's rank.
    pub(super) fn endpoint_event(
        &mut self,
        now: Nanos,
        tally: &mut Tally,
        named: (FlowId, u32),
        event: &Event,
    ) {
        // The first slow start ends by itself, or with the first congestion.
        if matches!(
            event.kind,
            EventKind::SlowStartExit | EventKind::RecoveryIn | EventKind::Rto | EventKind::Reduction
        ) {
            tally.slow_start_exit.get_or_insert(now);
        }
        if self.is_measuring() {
            match event.kind {
                EventKind::Rto => tally.rtos += 1,
                EventKind::RecoveryIn => tally.recoveries.push(now),
                _ => {}
            }
        }
        let (flow, rank) = named;
        let kind = event_of(event.kind);
        let row = EventRow {
            t: now,
            flow: Some(flow.0),
            hop: None,
            kind,
            seq: Some(event.seq),
            value: Some(event.value).filter(|&value| value != NO_VALUE),
        };
        self.recorder.event(rank, row);
    }
}

impl Simulation {
    /// Adds a row of `tcp`.
    pub(super) fn record_tcp(&mut self, flow: FlowId) {
        let delivered = self.read_by(flow);
        if self.flows[flow.index()].parent.is_some() {
            return;
        }
        let sender = &mut self.connections[flow.opening().index()];
        let is_open = match sender {
            Transport::Tcp(endpoint) => {
                !matches!(endpoint.state(), State::Closed | State::SynSent | State::SynReceived)
            }
            Transport::Guest(end) => end.own.guest.is_open(),
            _ => false,
        };
        if !is_open {
            return;
        }
        let Some(info) = sender.sender(self.now) else { return };
        let receiver = self.connections[flow.accepting().index()].tcp();
        let run = &self.flows[flow.index()];
        self.recording.recorder.tcp(&TcpRow {
            t: self.now,
            flow: flow.0,
            cwnd: info.cwnd,
            ssthresh: info.ssthresh,
            srtt: info.srtt,
            rtt: run.rtt,
            inflight: info.inflight,
            delivered,
            arrived: Some(run.wire),
            retransmits: info.retransmits,
            pacing_bps: info.pacing_bps,
            rto: info.rto,
            send_window: info.window,
            receive_window: receiver.map(Endpoint::receive_window),
            send_buffer: info.buffer,
            receive_buffer: receiver.map(Endpoint::receive_buffer),
            phase: info.phase,
        });
    }

    /// Payload that the receiving application of a flow has read.
    pub(crate) fn read_by(&self, flow: FlowId) -> u64 {
        self.connections[flow.accepting().index()].bytes_read()
    }

    /// All flows, also those for transfers of background traffic.
    fn flow_ids(&self) -> impl Iterator<Item = FlowId> + use<> {
        (0..self.flows.len() as u32).map(FlowId)
    }

    pub(super) fn sample_tcp(&mut self) {
        let Sampling::Interval { interval_ns } = self.scenario.record.tcp else { return };
        self.events.set_occasional(Source::SampleTcp, self.now + interval_ns);
        for flow in self.flow_ids() {
            self.record_tcp(flow);
        }
    }

    pub(super) fn sample_queue(&mut self) {
        let Sampling::Interval { interval_ns } = self.scenario.record.queue else { return };
        self.events.set_occasional(Source::SampleQueue, self.now + interval_ns);
        self.catch_up_links();
        for index in 0..self.recording.observed.len() {
            let link = self.recording.observed[index];
            let counters = self.network.counters(link, self.now);
            // The window's edges are asked for too.
            let mut next = self.now + interval_ns;
            for edge in [self.scenario.measure.from_ns, self.scenario.measure.to_ns] {
                if edge >= self.now {
                    next = next.min(edge);
                }
            }
            self.network.next_query(link, next);
            self.recording.recorder.queue(&QueueRow {
                t: self.now,
                hop: link.0,
                backlog_bytes: counters.backlog_bytes,
                backlog_packets: counters.backlog_packets,
                drops: counters.drops,
                ce_marks: counters.ce_marks,
            });
        }
    }

    /// A second is over: what was read and what arrived in it.
    pub(super) fn sample_second(&mut self) {
        self.events.set_occasional(Source::Second, self.now + SECOND);
        for flow in self.flow_ids() {
            let read = match self.flows[flow.index()].app {
                FlowApp::Datagrams | FlowApp::Media | FlowApp::Background(_) => self.totals(flow).read,
                _ if self.connections[flow.opening().index()].is_closed() => continue,
                _ if self.flows[flow.index()].parent.is_some() => continue,
                _ => self.read_by(flow),
            };
            let run = &mut self.flows[flow.index()];
            let value = (read - run.read_at_second) as i64;
            run.read_at_second = read;
            if run.seconds.is_empty() {
                run.seconds_from = self.now - SECOND;
            }
            run.seconds.push(value as u64);
            let row = |kind, value| SampleRow { t: self.now, flow: flow.0, kind, value };
            self.recording.recorder.sample(&row(sample::GOODPUT, value));
            // Of background traffic the transfers have the packets, and none of them lasts.
            if !matches!(run.app, FlowApp::Background(_)) {
                let value = (run.wire - run.wire_at_second) as i64;
                run.wire_at_second = run.wire;
                self.recording.recorder.sample(&row(sample::WIRE, value));
            }
        }
    }

    /// The measurement window begins or ends.
    pub(super) fn begin_or_end_window(&mut self) {
        self.catch_up_links();
        let snapshots: Vec<Snapshot> = self.flow_ids().map(|flow| self.totals(flow)).collect();
        let beginning = self.recording.window == Window::Before;
        for (run, snapshot) in self.flows.iter_mut().zip(snapshots) {
            if beginning {
                run.tally.begin(self.now, snapshot);
            } else {
                run.tally.end(self.now, snapshot);
            }
        }
        let measure = self.scenario.measure;
        let mut counters = Vec::new();
        for &link in &self.recording.observed {
            counters.push(self.network.counters(link, self.now));
            if matches!(self.scenario.record.queue, Sampling::Off | Sampling::PerAck) {
                self.network.next_query(link, if beginning { measure.to_ns } else { NEVER });
            }
        }
        if beginning {
            self.recording.links_before = counters;
            self.recording.window = Window::Inside;
            self.events.set_occasional(Source::Window, measure.to_ns);
        } else {
            self.recording.links_after = counters;
            self.recording.window = Window::After;
            self.events.set_occasional(Source::Window, NEVER);
        }
    }

    /// The run is over: so is the measurement window.
    pub(super) fn close_window(&mut self) {
        if self.recording.is_measuring() {
            self.begin_or_end_window();
        }
    }

    /// Totals of a flow's present connection.
    pub(super) fn snapshot(&mut self, flow: FlowId) -> Snapshot {
        let read = self.read_by(flow);
        match &self.connections[flow.opening().index()] {
            Transport::Source(source) => {
                return Snapshot { read, segments: source.sent, ..Snapshot::default() };
            }
            Transport::MediaSource(sender) => {
                return Snapshot { read, segments: sender.count(), ..Snapshot::default() };
            }
            Transport::Guest(end) => {
                let state = end.state();
                let (segments, retransmits) = (state.sent, state.retransmits);
                return Snapshot { read, segments, retransmits, ..Snapshot::default() };
            }
            _ => {}
        }
        self.end_round(flow);
        let sender = self.connections[flow.opening().index()].tcp_mut();
        let limited = self.flows[flow.index()].limits.divided;
        Snapshot::new(sender.map(|sender| sender.info(self.now)).as_ref(), read, limited)
    }

    /// Ends the present round of a flow, in which what limited it is found.
    pub(super) fn end_round(&mut self, flow: FlowId) {
        let Simulation { connections, flows, network, capacity, now, .. } = self;
        let Some(endpoint) = connections[flow.opening().index()].tcp_mut() else { return };
        let run = &mut flows[flow.index()];
        let path = Path { topology: &network.topology, capacity, src: run.from, dst: run.to };
        run.limits.end_round(*now, &endpoint.end_round(*now), &path);
    }

    /// Totals of a flow so far, transfers included.
    pub(super) fn totals(&mut self, flow: FlowId) -> Snapshot {
        let run = &self.flows[flow.index()];
        match &run.app {
            FlowApp::Background(background) => {
                let mut totals = background.finished;
                for transfer in background.transfers.clone() {
                    totals += self.snapshot(transfer);
                }
                totals
            }
            _ => self.snapshot(flow),
        }
    }

    /// The observed links, with their counters where the measurement window begins and ends.
    pub(crate) fn link_counters(&self) -> impl Iterator<Item = (LinkId, Counters, Counters)> + '_ {
        self.recording.observed.iter().enumerate().map(|(index, &link)| {
            let before = self.recording.links_before.get(index).copied().unwrap_or_default();
            let after = self.recording.links_after.get(index).copied().unwrap_or_default();
            (link, before, after)
        })
    }
}
