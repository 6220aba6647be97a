//! Between a host's network interface and its stack: transmit queues that stacks watch, ingress and egress.

use contract::ids::{ConnectionId, HostId};
use host::nic;
use tcp::Endpoint;

use super::Simulation;
use crate::event_queue::NEVER;
use crate::packet::Packet;

/// Transmit queues of hosts whose stack watches them (Linux TSQ).
impl Simulation {
    /// A packet has left the interface of a host some of whose connections wait for that.
    pub(super) fn run_departure(&mut self, host: HostId) {
        self.events.set_departure(host, NEVER);
        self.complete_departures(host);
        let mut waiting = std::mem::take(&mut self.hosts[host.index()].waiting);
        waiting.sort_unstable();
        for &connection in &waiting {
            self.service(connection);
        }
        // The memory is kept for the next time; service may have added to the list meanwhile.
        let added = std::mem::take(&mut self.hosts[host.index()].waiting);
        waiting.clear();
        waiting.extend(added);
        self.hosts[host.index()].waiting = waiting;
    }

    /// A connection waits for its packets to leave the interface.
    #[cold]
    pub(super) fn await_departure(&mut self, connection: ConnectionId) {
        let host = self.host_of(connection);
        let machine = &mut self.hosts[host.index()];
        if !machine.waiting.contains(&connection) {
            machine.waiting.push(connection);
        }
        let Some(ring) = &mut self.network.rings[host.index()] else { return };
        match ring.next_departure() {
            Some(at) => self.events.set_departure(host, at.max(self.now).min(self.events.departure(host))),
            None => ring.awaited = true,
        }
    }
}

/// Ingress and egress.
impl Simulation {
    /// Hands the packet in `arrived` to what stands before the host's stack; false if nothing does.
    pub(super) fn enter_ingress(&mut self, host: HostId) -> bool {
        if self.hosts[host.index()].cheat.is_some() {
            self.show_to_cheat(host);
        }
        let Some(ingress) = &mut self.hosts[host.index()].ingress else { return false };
        ingress.receive(self.now, &self.arrived, &mut self.network.reports.packets);
        self.run_ingress(host);
        true
    }

    /// Carries out what is due at a host's ingress.
    pub(super) fn run_ingress(&mut self, host: HostId) {
        self.complete_departures(host);
        if let Some(ingress) = &mut self.hosts[host.index()].ingress {
            ingress.on_event(self.now, &mut self.network.reports.packets);
        }
        self.report_network(None);
        while let Some(ingress) = &mut self.hosts[host.index()].ingress
            && let Some((packet, busy)) = ingress.take(self.now)
        {
            let flow = &mut self.flows[packet.connection.flow().index()];
            flow.limits.processing[packet.connection.side() as usize] += busy;
            self.arrived = packet;
            self.deliver();
        }
        if let Some(ingress) = &self.hosts[host.index()].ingress {
            self.events.set_ingress(host, ingress.next_event().unwrap_or(NEVER));
        }
    }

    /// Segments reach a host's interface from its egress, or acknowledgements that no stack sends.
    pub(super) fn leave_egress(&mut self, host: HostId) {
        while let Some(egress) = &mut self.hosts[host.index()].egress
            && let Some(packet) = egress.take(self.now)
        {
            let sender = &self.connections[packet.connection.peer().index()];
            let payload = sender.tcp().map_or(u32::MAX, Endpoint::payload);
            let headers = packet.bytes - packet.segment.len;
            nic::segment(&packet.segment, payload, |part| {
                self.transmit(Packet { segment: *part, bytes: headers + part.len, ..packet });
            });
            self.report_network(None);
        }
        while let Some(cheat) = &mut self.hosts[host.index()].cheat
            && let Some((connection, ack)) =
                cheat.take(self.now, |connection| self.connections[connection.index()].tcp().is_some())
        {
            self.transmit_alone(connection, &ack);
        }
        self.events.set_egress(host, self.hosts[host.index()].next_departure());
    }
}

/// Receivers that cheat.
impl Simulation {
    /// Shows the packet in `arrived` to what cheats at its host.
    #[cold]
    fn show_to_cheat(&mut self, host: HostId) {
        let connection = self.arrived.connection;
        if let Some(cheat) = &mut self.hosts[host.index()].cheat
            && self.connections[connection.index()].tcp().is_some()
        {
            cheat.take_arrival(self.now, connection, &self.arrived.segment);
            self.events.set_egress(host, self.hosts[host.index()].next_departure());
        }
    }

    /// Sends what the cheating host has instead of the segment in `scratch`, which has no payload.
    #[cold]
    pub(super) fn cheat(&mut self, connection: ConnectionId, host: HostId) {
        let Some(mut cheat) = self.hosts[host.index()].cheat.take() else { return };
        let (now, segment) = (self.now, self.scratch);
        cheat.replace(now, connection, &segment, &mut |ack| self.transmit_alone(connection, ack));
        self.hosts[host.index()].cheat = Some(cheat);
        self.events.set_egress(host, self.hosts[host.index()].next_departure());
    }
}
