//! Flows of guests: their packets, their datagrams, whose bytes are kept beside the network, and their applications.

use apps::{DATAGRAM_HEADER, End as _, Socket as _};
use contract::ids::{ConnectionId, FlowId, HostId};
use contract::scenario::Scenario;
use guest::{End, Guest, GuestStack, Setup};
use path::Nanos;
use tcp::event::Event;
use tcp::stack::EcnMode;
use wire::Segment;
use wire::codec::{self, NotTcp, Payload};

use super::Simulation;
use super::changes::note_event;
use crate::capture::address;
use crate::event_queue::NEVER;
use crate::flow::FlowApp;
use crate::host_stack::HostStack;
use crate::packet::{Packet, ports};
use crate::socket::Talking;
use crate::transport::{Datagrams, GuestEnd, PacketLog, Sent, Transport};

/// Packets that a guest may send at one time.
const WITHOUT_END: u32 = 1 << 20;

impl Simulation {
    /// Begins the ends of a flow's connection that are guests. Both are there at once: a guest that accepts waits for packets.
    pub(super) fn open_guests(&mut self, flow: FlowId) {
        let run = &self.flows[flow.index()];
        for (connection, host) in [(flow.accepting(), run.to), (flow.opening(), run.from)] {
            if let HostStack::Guest(stack) = self.hosts[host.index()].stack {
                self.open_guest(stack, host, connection);
            }
        }
    }

    fn open_guest(&mut self, stack: &GuestStack, host: HostId, connection: ConnectionId) {
        let spec = &self.scenario.flows[connection.flow().index()];
        let machine = &mut self.hosts[host.index()];
        let [remote_port, local_port] = guest_ports(connection);
        let payload = machine.mtu() - machine.ip.header() - DATAGRAM_HEADER;
        let setup = Setup {
            number: connection.0,
            opening: connection.is_opening(),
            local: (address(host), local_port),
            remote: (
                address(self.flows[connection.flow().index()].ends[connection.side() as usize].dst),
                remote_port,
            ),
            cc: if stack.cc.contains(&spec.cc.as_str()) { &spec.cc } else { stack.cc[0] },
            seed: seed(&self.scenario, guest::purpose(connection.is_opening()), &spec.name),
            payload: payload.min(u32::from(u16::MAX)) as u16,
            send_buffer: spec.sndbuf.filter(|_| connection.is_opening()),
            receive_buffer: spec.rcvbuf.filter(|_| !connection.is_opening()),
            now: self.now,
        };
        let Some(opened) = machine.machine.as_mut().map(|machine| machine.open(&setup)) else { return };
        match opened {
            Ok(guest) => {
                let end = GuestEnd::new(guest, stack.kind, machine.ecn != EcnMode::Off);
                self.connections[connection.index()] = Transport::Guest(Box::new(end));
            }
            Err(why) => self.trouble.report(format!("flow {}: {}: {why}", spec.name, stack.name)),
        }
    }

    /// A packet reaches a guest.
    pub(super) fn take_guest_packet(&mut self, packet: &Packet) {
        let connection = packet.connection;
        let layout = self.hosts[packet.src.index()].stack.family().syn_layout();
        let Transport::Guest(end) = &mut self.connections[connection.index()] else { return };
        if let Sent::Packets(log) = &mut end.sent {
            log.note_received(&packet.segment);
            let [sport, dport] = guest_ports(connection);
            let ends = codec::Ends { src: address(packet.src), dst: address(packet.dst), sport, dport };
            let whole = Payload::Zeros { snaplen: u32::MAX };
            self.guest_packet.clear();
            codec::write(&mut self.guest_packet, &packet.segment, &ends, layout, 0, whole);
            end.own.guest.handle(self.now, &self.guest_packet, packet.segment.ecn);
        } else {
            let Some(bytes) = self.take_bytes(connection, packet.segment.offset) else { return };
            if let Transport::Guest(end) = &mut self.connections[connection.index()] {
                end.own.guest.handle(self.now, &bytes, packet.segment.ecn);
            }
            if let Some(datagrams) = self.datagrams_to(connection) {
                datagrams.give_back(bytes);
            }
        }
        self.service(connection);
        if connection.is_opening() && self.recording.per_ack {
            self.record_tcp(connection.flow());
        }
    }

    /// Datagrams that the guest at the other end than `receiver` has sent. None where there is no such guest.
    fn datagrams_to(&mut self, receiver: ConnectionId) -> Option<&mut Datagrams> {
        match &mut self.connections[receiver.peer().index()] {
            Transport::Guest(sender) => match &mut sender.sent {
                Sent::Datagrams(datagrams) => Some(datagrams),
                Sent::Packets(_) => None,
            },
            _ => None,
        }
    }

    /// Takes the bytes of the datagram of this number that was sent to `receiver`.
    fn take_bytes(&mut self, receiver: ConnectionId, number: u64) -> Option<Vec<u8>> {
        self.datagrams_to(receiver)?.take(number)
    }

    /// A datagram to `receiver` was lost on its way.
    pub(super) fn forget_bytes(&mut self, receiver: ConnectionId, number: u64) {
        if let Some(datagrams) = self.datagrams_to(receiver)
            && let Some(bytes) = datagrams.take(number)
        {
            datagrams.give_back(bytes);
        }
    }

    /// A guest's timer fires.
    pub(super) fn run_guest_timer(&mut self, connection: ConnectionId) {
        self.events.set_timer(connection, NEVER);
        if let Transport::Guest(end) = &mut self.connections[connection.index()] {
            end.own.guest.handle_timeout(self.now);
            self.service(connection);
        }
    }

    /// Lets a guest's application work and sends what the guest wants to send, until neither does any more; then sets its timer.
    /// Other connections of its machine that have something to do now follow.
    #[cold]
    pub(super) fn service_guest(&mut self, connection: ConnectionId) {
        let mut next = Some(connection);
        while let Some(connection) = next {
            self.service_guest_end(connection);
            next = match &mut self.connections[connection.index()] {
                Transport::Guest(end) => end.own.guest.poll_other().map(ConnectionId),
                _ => None,
            };
        }
    }

    fn service_guest_end(&mut self, connection: ConnectionId) {
        loop {
            let worked = self.run_guest_app(connection);
            if !self.send_guest_packets(connection) && !worked {
                break;
            }
        }
        let Transport::Guest(end) = &mut self.connections[connection.index()] else { return };
        // A guest that is called at its time has nothing left to do then.
        let due = end.own.guest.poll_timeout().map_or(NEVER, |at| at.max(self.now + 1));
        self.events.set_timer(connection, due);
        if connection.is_opening() {
            let seen = end.own.guest.observe();
            let (cwnd, srtt) = match end.own.guest.is_open() {
                // A window that is not told is there all the same.
                true => (seen.cwnd.unwrap_or(1), seen.srtt.unwrap_or(0)),
                false => (0, 0),
            };
            self.flows[connection.flow().index()].tally.state(self.now, cwnd, srtt);
        }
        self.report_guest_events(connection);
        if self.flows[connection.flow().index()].needs_report {
            self.report_app(connection.flow());
        }
    }

    /// Puts on the wire whatever a guest has to send; returns whether there was anything.
    fn send_guest_packets(&mut self, connection: ConnectionId) -> bool {
        let run = &self.flows[connection.flow().index()];
        let (ends, headers) = (run.ends[connection.side() as usize], run.datagram_bytes(0));
        if self.trouble.get().is_some() {
            // The run is lost, and ends at the next look.
            return false;
        }
        let mtu = self.hosts[ends.src.index()].mtu();
        let mut sent = 0;
        while let Transport::Guest(end) = &mut self.connections[connection.index()] {
            let polled = match &mut end.sent {
                Sent::Datagrams(datagrams) => poll_datagram(&mut end.own, datagrams, self.now)
                    .map(|segment| Ok((segment, headers + segment.len))),
                Sent::Packets(log) => poll_packet(&mut *end.own.guest, log, &mut self.guest_packet, self.now),
            };
            let wrong = match polled {
                None => break,
                Some(Ok((segment, bytes))) if bytes <= mtu && sent < WITHOUT_END => {
                    self.emit(ends.packet(self.now, &segment, bytes, 0));
                    sent += 1;
                    continue;
                }
                Some(Ok((_, bytes))) if bytes > mtu => {
                    format!("a packet of {bytes} bytes where the MTU is {mtu}")
                }
                Some(Ok(_)) => "packets without end".to_owned(),
                Some(Err(why)) => format!("something else than TCP over IPv4 ({why})"),
            };
            self.trouble.report(wrong_packet(&self.scenario, connection, self.now, &wrong));
            return false;
        }
        sent > 0
    }

    /// Turn of the application at one end; returns whether it did something that may let the guest send.
    fn run_guest_app(&mut self, connection: ConnectionId) -> bool {
        let Transport::Guest(end) = &mut self.connections[connection.index()] else { return false };
        end.own.now = self.now;
        let run = &mut self.flows[connection.flow().index()];
        let side = connection.side() as usize;
        let mut worked = false;
        if end.own.has_turns() {
            worked = match &mut run.app {
                FlowApp::Bulk(bulk) if side == 0 => bulk.turn(&mut &mut end.own, self.now, &mut run.metrics),
                FlowApp::Bulk(_) => (&mut end.own).read(u64::MAX) > 0,
                app => {
                    run.needs_report = true;
                    app.ends_mut().is_some_and(|(ends, talk)| {
                        let mut socket = Talking { plain: &mut end.own, talk, side };
                        ends[side].turn(&mut socket, self.now, &mut run.metrics)
                    })
                }
            };
        }
        if side == 1 && end.own.guest.is_at_end() && run.completed.is_none() {
            run.completed = Some(self.now);
            run.needs_report = true;
            end.own.guest.finish(self.now);
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
        while let Some(event) = end.own.guest.poll_event() {
            if !connection.is_opening() {
                continue;
            }
            let seq = end.own.guest.observe().written;
            let event = Event { kind: event.kind, seq, value: event.value as i64 };
            self.recording.endpoint_event(self.now, tally, (flow, rank), &event);
            if !self.waiting_changes.is_empty() {
                let Simulation { scenario, waiting_changes, due_changes, .. } = self;
                note_event(scenario, waiting_changes, due_changes, (flow, event.kind));
            }
        }
        if !self.due_changes.is_empty() {
            self.change_links_now();
        }
    }

    /// Stops the application of a flow of guests that is bulk transfer.
    pub(super) fn close_guest(&mut self, flow: FlowId) {
        let FlowApp::Bulk(bulk) = &mut self.flows[flow.index()].app else { return };
        if let Transport::Guest(end) = &mut self.connections[flow.opening().index()] {
            end.own.now = self.now;
            bulk.close(&mut &mut end.own);
        }
    }
}

/// The next datagram of a guest, whose bytes are kept in `datagrams`.
fn poll_datagram(end: &mut End, datagrams: &mut Datagrams, now: Nanos) -> Option<Segment> {
    let mut bytes = datagrams.buffer();
    let Some(ecn) = end.poll_datagram(now, &mut bytes) else {
        datagrams.give_back(bytes);
        return None;
    };
    let len = bytes.len() as u32;
    let offset = datagrams.send(bytes);
    Some(Segment { offset, len, frames: 1, ecn, ..Segment::default() })
}

/// The next packet of a guest, and its length.
fn poll_packet(
    guest: &mut dyn Guest,
    log: &mut PacketLog,
    buffer: &mut Vec<u8>,
    now: Nanos,
) -> Option<Result<(Segment, u32), NotTcp>> {
    buffer.clear();
    guest.poll_transmit(now, buffer)?;
    let packet = match codec::parse(buffer, buffer.len() as u32) {
        Ok(packet) => packet,
        Err(why) => return Some(Err(why)),
    };
    let offset = log.note_sent(&packet.segment);
    Some(Ok((Segment { offset, ..packet.segment }, packet.ip_bytes)))
}

/// Source and destination port of a packet for the connection `receiver`, as its guest has them. No two connections of a host share
/// one of their own, also where they accept.
fn guest_ports(receiver: ConnectionId) -> [u16; 2] {
    let (source, own) = ports(receiver);
    if receiver.is_opening() { [source, own] } else { [source, source] }
}

/// Seed of what a guest draws, of a host or of an end of a flow.
pub(super) fn seed(scenario: &Scenario, purpose: &str, name: &str) -> [u8; 32] {
    guest::seed(scenario.seed, scenario.repeat, purpose, name)
}

fn wrong_packet(scenario: &Scenario, connection: ConnectionId, now: Nanos, what: &str) -> String {
    let flow = &scenario.flows[connection.flow().index()];
    let host = if connection.is_opening() { &flow.from } else { &flow.to };
    format!("host {host}: flow {}: its guest sent {what}, at {:.6} s", flow.name, now as f64 / 1e9)
}
