//! After any input of a connection: it sends what it wants to send, and its application works.

use apps::Socket as _;
use contract::ids::ConnectionId;
use host::nic;
use path::Nanos;
use tcp::Endpoint;
use tcp::endpoint::State;
use wire::Segment;

use super::Simulation;
use crate::event_queue::{EventQueue, NEVER};
use crate::flow::{FlowApp, FlowRun};
use crate::packet::{Ends, Packet};
use crate::socket::Plain;

/// Reason why [`Simulation::send_and_run_app`] ended.
enum Stop {
    /// Nothing more is to be done.
    Idle,
    /// The connection is not TCP, or there is none.
    NoTcp,
    /// Nothing more is to be done but for [`Simulation::report_endpoint`].
    Report,
    /// Something that was just sent was lost at once.
    Lost,
    /// The segment in `scratch` is to be handed over; it does not just go out as one packet.
    Segment,
    /// Turn of an application that is not bulk transfer.
    Model,
}

impl Simulation {
    /// Sends what a connection wants to send after any input, lets its application work, sends again.
    #[inline(never)]
    pub(super) fn service(&mut self, connection: ConnectionId) {
        let mut polling = false;
        self.network.set_process(false);
        loop {
            match self.send_and_run_app(connection, polling) {
                Stop::Idle => return,
                Stop::NoTcp => return self.service_guest(connection),
                Stop::Report => return self.report_endpoint(connection),
                Stop::Lost => {
                    polling = false;
                    self.report_network(Some(connection));
                }
                Stop::Segment => {
                    polling = self.send_scratch_segment(connection);
                    if !polling {
                        self.report_network(Some(connection));
                    }
                }
                Stop::Model if self.run_app_model(connection) => {
                    self.network.set_process(true);
                    polling = false;
                }
                Stop::Model => break,
            }
        }
        let Simulation { connections, events, flows, now, .. } = self;
        let Some(endpoint) = connections[connection.index()].tcp_mut() else { return };
        let flow = &mut flows[connection.flow().index()];
        if Self::end_service(endpoint, flow, connection, *now, events) {
            self.report_endpoint(connection);
        }
    }

    /// Everything is sent and written: sets the timer and counts cwnd. True if [`Simulation::report_endpoint`] has work to
    /// do.
    #[inline(always)]
    pub(super) fn end_service(
        endpoint: &mut Endpoint,
        flow: &mut FlowRun,
        connection: ConnectionId,
        now: Nanos,
        events: &mut EventQueue,
    ) -> bool {
        let due = endpoint.next_timer().unwrap_or(NEVER);
        // A timer that moved away is left to fire early: endpoints do nothing then, and it moves rarely.
        if due < events.timer(connection) {
            events.set_timer(connection, due.max(now));
        }
        let mut reports = flow.needs_report;
        if connection.is_opening() {
            let closed = endpoint.state() == State::Closed;
            let (cwnd, srtt) = if closed { (0, 0) } else { (endpoint.cwnd(), endpoint.srtt()) };
            flow.tally.state(now, cwnd, srtt);
            reports |= endpoint.round_is_over();
        }
        reports | !endpoint.events().is_empty() || endpoint.wants_tx_complete()
    }

    /// Reports what few services have to: a wait for the interface, events of the endpoint, the end of a round or
    /// of a transfer.
    #[inline(never)]
    pub(super) fn report_endpoint(&mut self, connection: ConnectionId) {
        let Some(endpoint) = self.connections[connection.index()].tcp_mut() else { return };
        let reports = !endpoint.events().is_empty();
        let round_is_over = connection.is_opening() && endpoint.round_is_over();
        if endpoint.wants_tx_complete() {
            self.await_departure(connection);
        }
        if round_is_over {
            self.end_round(connection.flow());
        }
        if reports {
            self.report_events(connection);
        }
        if self.flows[connection.flow().index()].needs_report {
            self.report_app(connection.flow());
        }
    }

    /// Puts on the wire whatever the endpoint has to send, and lets its application work, until neither does any more.
    /// `polling`: the endpoint has just sent something.
    #[inline(always)]
    fn send_and_run_app(&mut self, connection: ConnectionId, mut polling: bool) -> Stop {
        let Simulation {
            connections,
            network,
            events,
            flows,
            scratch,
            packet_count,
            now,
            intercepted,
            app_waits,
            ..
        } = self;
        let now = *now;
        let Some(endpoint) = connections[connection.index()].tcp_mut() else { return Stop::NoTcp };
        let flow = &mut flows[connection.flow().index()];
        loop {
            if polling || endpoint.may_transmit() {
                let ends = &flow.ends[connection.side() as usize];
                let after_plain = network.after_plain(ends);
                loop {
                    let draft = network.draft(after_plain);
                    if !endpoint.poll_transmit_into(now, draft) {
                        break;
                    }
                    if *intercepted || draft.len > endpoint.payload() {
                        *scratch = *draft;
                        return Stop::Segment;
                    }
                    *packet_count += 1;
                    let size = (flow.packet_bytes(draft), draft.len);
                    network.send_draft(now, ends, size, endpoint, events);
                    if !network.reports.packets.is_empty() {
                        return Stop::Lost;
                    }
                    if !endpoint.may_transmit() {
                        break;
                    }
                }
            }
            if !*app_waits && !matches!(flow.app, FlowApp::Bulk(_)) {
                return Stop::Model;
            }
            if *app_waits || !Self::run_bulk_app(endpoint, flow, connection, now) {
                let reports = Self::end_service(endpoint, flow, connection, now, events);
                return if reports { Stop::Report } else { Stop::Idle };
            }
            network.set_process(true);
            polling = false;
        }
    }

    /// The segment in `scratch` leaves through whatever is between stack and interface, or as several packets. False if
    /// something was lost at once, or a capture wants to see it.
    #[inline(never)]
    fn send_scratch_segment(&mut self, connection: ConnectionId) -> bool {
        let Simulation { connections, network, events, flows, scratch, now, .. } = self;
        let now = *now;
        let Some(endpoint) = connections[connection.index()].tcp_mut() else { return true };
        let flow = &flows[connection.flow().index()];
        let ends = flow.ends[connection.side() as usize];
        if let Some(cheat) = &mut self.hosts[ends.src.index()].cheat {
            if scratch.len == 0 {
                self.cheat(connection, ends.src);
                return true;
            }
            cheat.note_sent(connection, scratch);
        }
        if let Some(egress) = &mut self.hosts[ends.src.index()].egress {
            let packet = ends.packet(now, scratch, flow.packet_bytes(scratch), 0);
            egress.send(now, packet, &mut network.reports.packets);
            if egress.orphans {
                endpoint.on_tx_complete(now, scratch.len);
            }
            events.set_egress(ends.src, self.hosts[ends.src.index()].next_departure());
            return network.reports.packets.is_empty();
        }
        // A probe of the path's MTU is one packet, whatever its length.
        let payload = if scratch.frames == 0 { scratch.len } else { endpoint.payload() };
        let mut sent = 0;
        let after_plain = network.after_plain(&ends);
        loop {
            let part = network.draft(after_plain);
            nic::cut(scratch, payload, sent, part);
            sent += part.len;
            self.packet_count += 1;
            self.recording.captures.sent(now, &ends, part);
            let size = (flow.packet_bytes(part), part.len);
            network.send_draft(now, &ends, size, endpoint, events);
            if sent == scratch.len {
                break;
            }
        }
        network.reports.packets.is_empty() && network.reports.captured.is_empty()
    }

    /// The turn of a bulk transfer at one end; true if it did something that may let the endpoint send.
    #[inline(always)]
    pub(super) fn run_bulk_app(
        endpoint: &mut Endpoint,
        flow: &mut FlowRun,
        connection: ConnectionId,
        now: Nanos,
    ) -> bool {
        if connection.is_opening() {
            let FlowApp::Bulk(bulk) = &mut flow.app else { return false };
            let state = endpoint.state();
            flow.needs_report |= state == State::Closed;
            if !(matches!(state, State::Established | State::CloseWait) || endpoint.takes_early_data())
                || !endpoint.writable()
            {
                return false;
            }
            let flows = endpoint.data_may_flow();
            return bulk.on_writable(&mut Plain { endpoint, now }) && flows;
        }
        let read = Plain { endpoint, now }.read(u64::MAX);
        if read > 0 {
            return endpoint.may_transmit();
        }
        match endpoint.state() {
            State::CloseWait => {
                flow.completed = Some(now);
                flow.needs_report = true;
                endpoint.shutdown(now);
                true
            }
            State::Closed => {
                flow.needs_report = true;
                false
            }
            _ => false,
        }
    }

    /// Puts one packet on the wire that no endpoint sends.
    pub(super) fn transmit_alone(&mut self, connection: ConnectionId, segment: &Segment) {
        let flow = &self.flows[connection.flow().index()];
        let ends = &flow.ends[connection.side() as usize];
        self.emit(ends.packet(self.now, segment, flow.packet_bytes(segment), 0));
    }

    /// A host sends a packet that is made already.
    pub(super) fn emit(&mut self, packet: Packet) {
        let host = packet.src;
        if let Some(egress) = &mut self.hosts[host.index()].egress {
            egress.send(self.now, packet, &mut self.network.reports.packets);
            self.events.set_egress(host, self.hosts[host.index()].next_departure());
        } else {
            self.transmit(packet);
        }
        self.report_network(None);
    }

    /// A packet reaches a host's interface on its way out.
    pub(super) fn transmit(&mut self, packet: Packet) {
        self.packet_count += 1;
        let Packet { src, dst, connection, echo_delay, .. } = packet;
        self.recording.captures.sent(
            self.now,
            &Ends { src, dst, peer: connection, echo_delay },
            &packet.segment,
        );
        self.network.send(self.now, packet, &mut self.events);
    }
}
