//! Arrivals at a host from the network, up to its stack; and timers.

use contract::ids::{ConnectionId, FlowId, HostId, LinkId};
use host::nic::TransmitRing;
use path::Nanos;
use tcp::stack::{Profile, SocketOptions};
use tcp::{Config, Endpoint, Listener, SynOutcome};
use wire::Segment;

use super::{Simulation, setup};
use crate::flow::FlowApp;
use crate::network::Network;
use crate::transport::Transport;

/// Whether a further sound packet of a connection, which is `next` over a link, arrives at the same instant. The application works once the
/// stack has taken in all of them, as it does where one interrupt is for several packets.
#[inline(always)]
fn another_follows(
    network: &mut Network,
    next: Nanos,
    link: LinkId,
    connection: ConnectionId,
    now: Nanos,
) -> bool {
    next == now && front_is_for(network, link, connection)
}

#[inline(never)]
fn front_is_for(network: &mut Network, link: LinkId, connection: ConnectionId) -> bool {
    network
        .front_at_host(link)
        .is_some_and(|(packet, _)| packet.connection == connection && packet.is_whole())
}

impl Simulation {
    /// The next packet reaches the far end of `link`.
    #[inline(always)]
    pub(super) fn arrive(&mut self, link: LinkId) {
        if self.intercepted || !self.arrive_in_place(link) {
            self.arrive_with_copy(link);
        }
    }

    /// The usual case: a sound packet for a connection, read where it lies. False, and nothing done, in any other.
    #[inline(always)]
    fn arrive_in_place(&mut self, link: LinkId) -> bool {
        let Simulation { network, connections, flows, events, now, recording, prefetcher, app_waits, .. } =
            self;
        prefetcher.on_arrival(network, connections, flows, link);
        let Some((packet, ring)) = network.front_at_host(link) else { return false };
        let connection = packet.connection;
        if !packet.is_whole() {
            return false;
        }
        let Some(mut endpoint) = connections[connection.index()].tcp_mut() else { return false };
        let flow = &mut flows[connection.flow().index()];
        flow.note_arrival(packet, *now, recording.is_measuring());
        if let Some(ring) = ring {
            complete_departures(ring, connections, *now);
            let Some(again) = connections[connection.index()].tcp_mut() else { return false };
            endpoint = again;
        }
        endpoint.on_segment(*now, &packet.segment);
        let next = network.drop_front(link, events);
        *app_waits = another_follows(network, next, link, connection, *now);
        if connection.is_opening() {
            self.service_after_segment(connection);
        } else if endpoint.may_transmit()
            || !matches!(flow.app, FlowApp::Bulk(_))
            || !*app_waits && Self::run_bulk_app(endpoint, flow, connection, *now)
        {
            self.service(connection);
        } else if Self::end_service(endpoint, flow, connection, *now, events) {
            self.report_endpoint(connection);
        }
        self.app_waits = false;
        true
    }

    /// Takes a message of ICMP, or a fragment; false where a packet is left, a damaged one or one that is whole now.
    #[cold]
    fn take_apart(&mut self) -> bool {
        if self.arrived.corrupt {
            return self.take_icmp();
        }
        let host = self.arrived.dst;
        !self.hosts[host.index()].fragments.take(self.now, &mut self.arrived)
    }

    #[inline(never)]
    fn arrive_with_copy(&mut self, link: LinkId) {
        if !self.network.arrive(link, &mut self.arrived, &mut self.events) {
            self.report_network(None);
            return;
        }
        if !self.arrived.is_whole() && self.take_apart() {
            return;
        }
        let host = self.arrived.dst;
        if self.intercepted {
            self.recording.captures.received(self.now, &self.arrived);
        }
        if self.arrived.corrupt {
            self.report_corrupt(link);
            return;
        }
        let flow = self.arrived.connection.flow();
        self.flows[flow.index()].note_arrival(&self.arrived, self.now, self.recording.is_measuring());
        self.complete_departures(host);
        if self.intercepted && self.enter_ingress(host) {
            return;
        }
        let connection = self.arrived.connection;
        self.app_waits = self.hosts[host.index()].ingress.is_none()
            && self.connections[connection.index()].tcp().is_some()
            && another_follows(&mut self.network, self.events.arrival(link), link, connection, self.now);
        self.deliver();
        self.app_waits = false;
    }

    /// Gives the stack the router's message in `arrived`; false if it is a segment.
    #[cold]
    fn take_icmp(&mut self) -> bool {
        let (host, peer, connection) = (self.arrived.dst, self.arrived.src, self.arrived.connection);
        let machine = &mut self.hosts[host.index()];
        let Some(icmp) = self.arrived.icmp(machine.ip.header()) else { return false };
        let Some(endpoint) = self.connections[connection.index()].tcp_mut() else { return true };
        endpoint.on_icmp(self.now, &icmp);
        // Other connections to the same host begin with it.
        if let Some(mtu) = endpoint.path_mtu() {
            machine.peers.learn_mtu(u64::from(peer.0), mtu);
        }
        self.service(connection);
        true
    }

    /// The stack gets the packet in `arrived`.
    #[inline]
    pub(super) fn deliver(&mut self) {
        let connection = self.arrived.connection;
        if let Some(endpoint) = self.connections[connection.index()].tcp_mut() {
            endpoint.on_segment(self.now, &self.arrived.segment);
            self.service_after_segment(connection);
        } else {
            self.deliver_other(connection);
        }
    }

    #[inline]
    fn service_after_segment(&mut self, connection: ConnectionId) {
        self.service(connection);
        if connection.is_opening() && self.recording.per_ack {
            self.record_tcp(connection.flow());
        }
    }

    /// A datagram, or a segment for a socket that listens.
    #[cold]
    fn deliver_other(&mut self, connection: ConnectionId) {
        let packet = self.arrived;
        match &self.connections[connection.index()] {
            Transport::Closed if connection.is_opening() => {}
            Transport::Closed => self.listen(connection, packet.dst, &packet.segment),
            Transport::Guest(_) => self.take_guest_packet(&packet),
            Transport::MediaSource(_) | Transport::MediaSink(_) => self.take_media(&packet),
            _ => self.take_datagram(&packet),
        }
    }

    #[cold]
    fn listen(&mut self, connection: ConnectionId, host: HostId, segment: &Segment) {
        let flow = connection.flow().index();
        let options = SocketOptions { sndbuf: None, rcvbuf: self.scenario.flows[flow].rcvbuf };
        let cc = self.accepting_cc(connection.flow(), host);
        let welcome = self.welcome(connection.flow(), segment);
        let answer = self.with_config(host, connection, options, cc.as_deref(), |profile, config, now| {
            Listener::new(profile).on_segment_with(now, segment, config, welcome)
        });
        let Some(answer) = answer else { return };
        match answer {
            SynOutcome::Connection(endpoint) => {
                self.add_connection(host, connection, *endpoint);
                self.service(connection);
            }
            SynOutcome::Reset(reset) => self.transmit_alone(connection, &reset),
            SynOutcome::Silence => {}
        }
    }

    /// Congestion control with which a host accepts a flow's connection: the flow's where that needs ECN, as the host then has to tell
    /// of marks in its way. None: the host's own.
    fn accepting_cc(&self, flow: FlowId, host: HostId) -> Option<String> {
        let cc = super::setup::registered(&self.scenario.flows[flow.index()]);
        let opener = self.hosts[self.flows[flow.index()].from.index()].stack.kernel()?;
        let here = self.hosts[host.index()].stack.kernel()?;
        let opening = opener.sender(&cc, 0);
        let tells = opening.needs_ecn() || opening.hears_ecn();
        let both = tells && here.congestion_controls().contains(&cc.as_str());
        both.then_some(cc)
    }

    /// Opens a flow's connection.
    pub(super) fn connect(&mut self, flow: FlowId) {
        let host = self.flows[flow.index()].from;
        self.open_guests(flow);
        if self.hosts[host.index()].stack.kernel().is_none() {
            return;
        }
        let spec = &self.scenario.flows[flow.index()];
        let socket = SocketOptions { sndbuf: spec.sndbuf, rcvbuf: None };
        let cc = super::setup::registered(spec);
        let connection = flow.opening();
        let attempt = self.fast_open_attempt(flow);
        let endpoint =
            self.with_config(host, connection, socket, Some(&cc), |profile, config, now| match attempt {
                Some(attempt) => Endpoint::connect_fast_open(profile, config, now, attempt),
                None => Endpoint::connect(profile, config, now),
            });
        if let Some(endpoint) = endpoint {
            self.add_connection(host, connection, endpoint);
        }
        if attempt.is_some_and(|attempt| attempt.data) {
            self.write_with_syn(connection);
        }
    }

    fn add_connection(&mut self, host: HostId, connection: ConnectionId, mut endpoint: Endpoint) {
        if let Some(most) = self.hosts[host.index()].tso_max {
            endpoint.limit_tso(most);
        }
        if self.no_fast_path {
            endpoint.disable_fast_paths();
        }
        // No application asks for it; and a run that is shorter than the silence it waits for never sees it.
        let keep_alive = self.hosts[host.index()].stack.kernel().map(|profile| profile.spec().keep_alive);
        if let Some(times) = keep_alive
            && times.always
            && times.idle < self.scenario.duration_ns
        {
            endpoint.set_keep_alive(self.now, times, true);
        }
        endpoint.set_no_delay(matches!(self.flows[connection.flow().index()].app, FlowApp::Pinger(_)));
        self.connections[connection.index()] = Transport::Tcp(endpoint);
    }

    /// Calls `work` with what a new connection of `host` needs to know. None: the host has no TCP.
    fn with_config<T>(
        &mut self,
        host: HostId,
        connection: ConnectionId,
        socket: SocketOptions,
        cc: Option<&str>,
        work: impl FnOnce(&dyn Profile, &Config<'_>, Nanos) -> T,
    ) -> Option<T> {
        let known = self.recall(host, connection);
        let machine = &self.hosts[host.index()];
        let flow = connection.flow().index();
        let side = if connection.is_opening() { "open" } else { "accept" };
        let name = &self.scenario.flows[flow].name;
        let name = match self.flows[flow].uses {
            0 => name.clone(),
            uses => format!("{name}/{uses}"),
        };
        let mut random = path::stream(self.scenario.seed, self.scenario.repeat, side, &name);
        let profile = machine.stack.kernel()?;
        let config = Config {
            clock: machine.clock,
            ip_header: machine.ip.header(),
            known,
            mss: machine.mss,
            ecn: machine.ecn,
            tso: machine.tso,
            veth: machine.veth,
            socket,
            cc: cc.unwrap_or(profile.spec().cc[0]),
            iss: setup::draw(&mut random) as u32,
            timestamp_offset: machine.timestamp_offset,
            random: setup::draw(&mut random),
        };
        Some(work(profile, &config, self.now))
    }

    /// The host at the other end of a connection.
    pub(super) fn peer_of(&self, connection: ConnectionId) -> HostId {
        let flow = &self.flows[connection.flow().index()];
        flow.ends[connection.side() as usize].dst
    }

    /// A connection's timer fires.
    pub(super) fn run_timer(&mut self, connection: ConnectionId) {
        let host = self.host_of(connection);
        self.complete_departures(host);
        if let Some(endpoint) = self.connections[connection.index()].tcp_mut() {
            endpoint.on_timer(self.now);
            // The source has fired; service sets it to what is next.
            self.events.fire_timer(connection);
            self.service(connection);
            self.events.settle_timer(connection);
        } else {
            self.run_guest_timer(connection);
        }
        self.prefetcher.on_timer(&self.events, &self.connections);
    }

    /// Tells the host's connections what has left its interface by now, where its stack watches that (Linux TSQ). A
    /// connection that waits for it is serviced by its own event, which is due at the same time.
    #[inline]
    pub(super) fn complete_departures(&mut self, host: HostId) {
        if let Some(ring) = &mut self.network.rings[host.index()] {
            complete_departures(ring, &mut self.connections, self.now);
        }
    }
}

/// Tells endpoints what has left their interface by `now`.
#[inline]
fn complete_departures(ring: &mut TransmitRing, connections: &mut [Transport], now: Nanos) {
    while let Some((connection, bytes)) = ring.pop_departed(now) {
        // Of acknowledgements nothing is kept.
        if bytes > 0
            && let Some(endpoint) = connections[connection as usize].tcp_mut()
        {
            endpoint.on_tx_complete(now, bytes);
        }
    }
}
