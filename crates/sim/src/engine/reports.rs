//! Reports of what happened to packets, queues and endpoints: counted, recorded, and told to the stacks concerned.

use contract::ids::{ConnectionId, FlowId, LinkId};
use contract::kinds::{EVENT_DROP, EVENT_MARK};
use contract::scenario::{PLACES, WhenFull};
use contract::tables::{EventRow, QueueRow};
use path::DropReason;
use tcp::endpoint::State;

use super::Simulation;
use super::changes::note_event;
use crate::network::{Fate, PacketReport};

impl Simulation {
    /// The place of a flow's events among those of one time: behind those of hops.
    pub(super) fn rank(&self, flow: FlowId) -> u32 {
        (self.scenario.links.len() + PLACES.len() * self.hosts.len() + flow.index()) as u32
    }

    /// The flow of the experiment that a flow is, or is a transfer of.
    pub(super) fn named(&self, flow: FlowId) -> FlowId {
        self.flows[flow.index()].parent.unwrap_or(flow)
    }

    /// Reports what an endpoint tells: losses found, timeouts, changes of state.
    #[cold]
    pub(super) fn report_events(&mut self, connection: ConnectionId) {
        let flow = connection.flow();
        let (rank, named) = (self.rank(flow), self.named(flow));
        let Some(endpoint) = self.connections[connection.index()].tcp_mut() else { return };
        let opening = endpoint.state() == State::SynSent;
        let tally = &mut self.flows[flow.index()].tally;
        let slow_start_exit = tally.slow_start_exit;
        for event in endpoint.events().drain() {
            if !connection.is_opening() {
                continue;
            }
            self.recording.endpoint_event(self.now, tally, (named, rank), &event);
            if !self.waiting_changes.is_empty() {
                let Simulation { scenario, waiting_changes, due_changes, .. } = self;
                note_event(scenario, waiting_changes, due_changes, (named, event.kind));
            }
        }
        if opening {
            // Slow start is yet to come where a SYN is lost.
            tally.slow_start_exit = slow_start_exit;
        }
        if connection.is_opening() {
            self.learn_fast_open(connection);
        }
        self.learn_of_peer(connection);
        if !self.due_changes.is_empty() {
            self.change_links_now();
        }
    }

    /// Reports what happened in the network. `sender` is the connection that was just transmitting, whose own interface may
    /// have refused its packets.
    #[inline]
    pub(super) fn report_network(&mut self, sender: Option<ConnectionId>) {
        if !self.network.reports.captured.is_empty() {
            for (at, link, packet) in self.network.reports.captured.drain(..) {
                self.recording.captures.entered(at, link, &packet);
            }
        }
        if !self.network.reports.queues.is_empty() {
            self.report_queues();
        }
        if !self.network.reports.packets.is_empty() {
            self.report_packets(sender);
        }
    }

    #[cold]
    fn report_packets(&mut self, sender: Option<ConnectionId>) {
        let mut reports = std::mem::take(&mut self.network.reports.packets);
        for report in reports.drain(..) {
            self.record_fate(&report);
            if let Fate::Dropped(why) = report.fate
                && report.payload > 0
            {
                self.tell_sender(&report, why, sender);
                self.forget_bytes(report.connection, report.offset);
            }
        }
        self.network.reports.packets = reports;
    }

    /// A stack learns what becomes of its data in its own host.
    fn tell_sender(&mut self, report: &PacketReport, why: DropReason, sender: Option<ConnectionId>) {
        let connection = report.connection.peer();
        let ends = self.flows[connection.flow().index()].ends[connection.side() as usize];
        let egress = self.scenario.place_hop(ends.src, 0);
        let interface = self.network.topology.first_link(ends.src, ends.dst);
        let Some(endpoint) = self.connections[connection.index()].tcp_mut() else { return };
        if report.hop != interface.0 && report.hop != egress {
            return;
        }
        let told = report.hop == egress || self.hosts[ends.src.index()].full == WhenFull::Enobufs;
        if sender == Some(connection) && why == DropReason::Overlimit && told {
            endpoint.on_tx_dropped(self.now);
        }
        endpoint.on_tx_complete(self.now, report.payload);
    }

    /// Counts and records a drop or a mark.
    fn record_fate(&mut self, report: &PacketReport) {
        let flow = report.connection.flow();
        let measure = self.scenario.measure;
        if report.at >= measure.from_ns && report.at < measure.to_ns {
            let tally = &mut self.flows[flow.index()].tally;
            match report.fate {
                Fate::Marked => tally.ce_marks += 1,
                Fate::Dropped(_) => tally.drops += 1,
            }
        }
        let row = EventRow {
            t: report.at,
            flow: Some(self.named(flow).0),
            hop: Some(report.hop),
            kind: if report.fate == Fate::Marked { EVENT_MARK } else { EVENT_DROP },
            seq: (report.payload > 0).then_some(report.offset),
            value: Some(i64::from(report.payload)),
        };
        self.recording.recorder.event(report.hop, row);
    }

    /// The packet in `arrived` was damaged on the way.
    #[cold]
    pub(super) fn report_corrupt(&mut self, link: LinkId) {
        let fate = Fate::Dropped(DropReason::Corrupt);
        let report = PacketReport::new(self.now, link.0, &self.arrived, fate);
        self.record_fate(&report);
        self.forget_bytes(report.connection, report.offset);
    }

    fn report_queues(&mut self) {
        let mut changes = std::mem::take(&mut self.network.reports.queues);
        for change in changes.drain(..) {
            let counters = self.network.counters(change.link, change.at);
            self.recording.recorder.queue(&QueueRow {
                t: change.at,
                hop: change.link.0,
                backlog_bytes: change.backlog_bytes,
                backlog_packets: change.backlog_packets,
                drops: counters.drops,
                ce_marks: counters.ce_marks,
            });
        }
        self.network.reports.queues = changes;
    }
}
