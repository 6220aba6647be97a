//! Flows of guests: their datagrams, whose bytes are kept beside the network, and their applications.

use apps::{End, HEADERS, Socket as _};
use contract::ids::{ConnectionId, FlowId};
use contract::kinds::event_of;
use contract::scenario::Ecn;
use contract::tables::EventRow;
use guest::{EventKind, GuestStack, Setup};
use rand_core::RngCore;
use wire::Segment;

use super::Simulation;
use crate::event_queue::NEVER;
use crate::flow::FlowApp;
use crate::packet::Packet;
use crate::socket::Talking;
use crate::transport::{GuestEnd, Transport};

/// Headers of IPv4 and TCP, bytes: what a host's MSS is below the MTU of its link.
const TCP_HEADERS: u32 = 40;

impl Simulation {
    /// Opens a flow's connection between two guests. Both ends are there at once: a guest that accepts waits for datagrams.
    pub(super) fn connect_guests(&mut self, flow: FlowId, stack: &GuestStack) {
        let spec = &self.scenario.flows[flow.index()];
        let run = &self.flows[flow.index()];
        for (connection, host, purpose) in
            [(flow.opening(), run.from, "open"), (flow.accepting(), run.to, "accept")]
        {
            let machine = &self.hosts[host.index()];
            let mut seed = [0; 32];
            path::stream(self.scenario.seed, self.scenario.repeat, purpose, &spec.name).fill_bytes(&mut seed);
            let payload = u32::from(machine.mss) + TCP_HEADERS - HEADERS;
            let guest = (stack.make)(&Setup {
                opening: connection.is_opening(),
                cc: &spec.cc,
                seed,
                payload: payload.min(u32::from(u16::MAX)) as u16,
                now: self.now,
            });
            let marks = self.scenario.hosts[host.index()].ecn != Ecn::Off;
            self.connections[connection.index()] = Transport::Guest(Box::new(GuestEnd::new(guest, marks)));
        }
    }

    /// A datagram reaches the host of a guest.
    pub(super) fn take_guest_datagram(&mut self, packet: &Packet) {
        let connection = packet.connection;
        let Some(bytes) = self.take_bytes(connection, packet.segment.offset) else { return };
        if let Transport::Guest(end) = &mut self.connections[connection.index()] {
            end.guest.handle(self.now, &bytes, packet.segment.ecn);
        }
        if let Transport::Guest(end) = &mut self.connections[connection.peer().index()] {
            end.datagrams.give_back(bytes);
        }
        self.service(connection);
        if connection.is_opening() && self.recording.per_ack {
            self.record_tcp(connection.flow());
        }
    }

    /// Takes the bytes of the datagram of this number that was sent to `receiver`. None where its sender is no guest.
    fn take_bytes(&mut self, receiver: ConnectionId, number: u64) -> Option<Vec<u8>> {
        match &mut self.connections[receiver.peer().index()] {
            Transport::Guest(sender) => sender.datagrams.take(number),
            _ => None,
        }
    }

    /// A datagram to `receiver` was lost on its way.
    pub(super) fn forget_bytes(&mut self, receiver: ConnectionId, number: u64) {
        if let Transport::Guest(sender) = &mut self.connections[receiver.peer().index()]
            && let Some(bytes) = sender.datagrams.take(number)
        {
            sender.datagrams.give_back(bytes);
        }
    }

    /// A guest's timer fires.
    pub(super) fn run_guest_timer(&mut self, connection: ConnectionId) {
        self.events.set_timer(connection, NEVER);
        if let Transport::Guest(end) = &mut self.connections[connection.index()] {
            end.guest.handle_timeout(self.now);
            self.service(connection);
        }
    }

    /// Lets a guest's application work and sends what the guest wants to send, until neither does any more; then sets its timer.
    #[cold]
    pub(super) fn service_guest(&mut self, connection: ConnectionId) {
        loop {
            let worked = self.run_guest_app(connection);
            if !self.send_guest_datagrams(connection) && !worked {
                break;
            }
        }
        let Transport::Guest(end) = &mut self.connections[connection.index()] else { return };
        // A guest that is called at its time has nothing left to do then.
        let due = end.guest.poll_timeout().map_or(NEVER, |at| at.max(self.now + 1));
        self.events.set_timer(connection, due);
        if connection.is_opening() {
            let seen = end.guest.observe();
            let (cwnd, srtt) = if end.guest.is_open() { (seen.cwnd, seen.srtt.unwrap_or(0)) } else { (0, 0) };
            self.flows[connection.flow().index()].tally.state(self.now, cwnd, srtt);
        }
        self.report_guest_events(connection);
        if self.flows[connection.flow().index()].needs_report {
            self.report_app(connection.flow());
        }
    }

    /// Puts on the wire whatever a guest has to send; returns whether there was anything.
    fn send_guest_datagrams(&mut self, connection: ConnectionId) -> bool {
        let ends = self.flows[connection.flow().index()].ends[connection.side() as usize];
        let mut has_sent = false;
        while let Transport::Guest(end) = &mut self.connections[connection.index()] {
            let mut bytes = end.datagrams.buffer();
            let Some(ecn) = end.guest.poll_transmit(self.now, &mut bytes) else {
                end.datagrams.give_back(bytes);
                break;
            };
            let len = bytes.len() as u32;
            let number = end.datagrams.send(bytes);
            let ecn = if end.marks { ecn } else { wire::Ecn::NotEct };
            let segment = Segment { offset: number, len, frames: 1, ecn, ..Segment::default() };
            self.emit(ends.packet(self.now, &segment, HEADERS + len, 0));
            has_sent = true;
        }
        has_sent
    }

    /// Turn of the application at one end; returns whether it did something that may let the guest send.
    fn run_guest_app(&mut self, connection: ConnectionId) -> bool {
        let Transport::Guest(end) = &mut self.connections[connection.index()] else { return false };
        let run = &mut self.flows[connection.flow().index()];
        let side = connection.side() as usize;
        let mut worked = false;
        if end.guest.is_open() || end.guest.readable() > 0 {
            worked = match &mut run.app {
                FlowApp::Bulk(bulk) if side == 0 => bulk.turn(&mut &mut **end, self.now, &mut run.metrics),
                FlowApp::Bulk(_) => (&mut **end).read(u64::MAX) > 0,
                app => {
                    run.needs_report = true;
                    app.ends_mut().is_some_and(|(ends, talk)| {
                        let mut socket = Talking { plain: &mut **end, talk, side };
                        ends[side].turn(&mut socket, self.now, &mut run.metrics)
                    })
                }
            };
        }
        if side == 1 && end.guest.is_at_end() && run.completed.is_none() {
            run.completed = Some(self.now);
            run.needs_report = true;
            end.guest.finish();
            worked = true;
        }
        worked
    }

    /// Reports what happened to a guest's congestion window.
    fn report_guest_events(&mut self, connection: ConnectionId) {
        let flow = connection.flow();
        let rank = self.rank(flow);
        let Transport::Guest(end) = &mut self.connections[connection.index()] else { return };
        let tally = &mut self.flows[flow.index()].tally;
        let seq = end.guest.observe().written;
        while let Some(event) = end.guest.poll_event() {
            if !connection.is_opening() {
                continue;
            }
            tally.slow_start_exit.get_or_insert(self.now);
            if self.recording.is_measuring() && event.kind == EventKind::RecoveryIn {
                tally.recoveries.push(self.now);
            }
            let row = EventRow {
                t: self.now,
                flow: Some(flow.0),
                hop: None,
                kind: event_of(event.kind),
                seq: Some(seq),
                value: Some(event.value as i64),
            };
            self.recording.recorder.event(rank, row);
        }
    }

    /// Stops the application of a flow of guests that is bulk transfer.
    pub(super) fn close_guest(&mut self, flow: FlowId) {
        let FlowApp::Bulk(bulk) = &mut self.flows[flow.index()].app else { return };
        if let Transport::Guest(end) = &mut self.connections[flow.opening().index()] {
            bulk.close(&mut &mut **end);
        }
    }
}
