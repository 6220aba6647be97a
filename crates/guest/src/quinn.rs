//! quinn-proto as a guest: unmodified, with a cryptography that takes no time and leaves every length as it is.

mod null_crypto;
mod watched;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir,
    EcnCodepoint, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig, ServerConfig, StreamEvent, StreamId,
    Transmit, TransportConfig,
};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Apart, Ecn, Guest, GuestEvent, GuestStack, Kind, Nanos, Observed, Setup};
use null_crypto::{NullKey, NullTls};
use watched::{Seen, Watched};

/// Version of quinn-proto that is built in.
pub const VERSION: &str = "0.11.19";

/// quinn in the catalogue.
pub const STACK: GuestStack = GuestStack {
    name: "quinn-0.11.19",
    family: "quinn",
    cc: &["cubic", "newreno", "bbr"],
    // RFC 9000 section 14: 1200 bytes at least. quinn's own default is the upper bound.
    payload: [1200, 1472],
    kind: Kind::Datagrams,
    ecn: true,
    sysctls: false,
    buffers: false,
    boot: &Apart(|setup| Box::new(Quinn::new(setup))),
};

/// Content of what applications write.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// One end of a connection of quinn.
struct Quinn {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Time 0 of the run. quinn's times are of the standard library, which makes none but from a clock: this one is read once, and
    /// only distances from it count.
    epoch: Instant,
    /// Datagrams that no connection sends: refusals.
    answers: Vec<(Vec<u8>, Ecn)>,
    /// Memory for those.
    scratch: Vec<u8>,
    seen: Arc<Seen>,
    opening: bool,
    is_open: bool,
    /// Stream that this end writes, and whether it is over.
    sending: Option<StreamId>,
    is_blocked: bool,
    is_finishing: bool,
    is_finished: bool,
    /// Stream that the other end writes.
    receiving: Option<StreamId>,
    waiting: u64,
    has_ended: bool,
    written: u64,
    is_closing: bool,
    failure: Option<String>,
}

/// Address of the other end, which nothing depends on: the engine knows where datagrams go.
fn remote() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443)
}

impl Quinn {
    #[allow(clippy::disallowed_methods)]
    fn new(setup: &Setup<'_>) -> Quinn {
        let mut random = Xoshiro256PlusPlus::from_seed(setup.seed);
        let mut draw = || {
            let mut seed = [0; 32];
            random.fill_bytes(&mut seed);
            seed
        };
        let (ids, first_id, seed) = (draw(), draw(), draw());
        let largest = setup.payload.min(STACK.payload[1]);
        let mut config = EndpointConfig::new(Arc::new(NullKey));
        config.rng_seed(Some(seed));
        config.cid_generator(move || Box::new(Ids(Xoshiro256PlusPlus::from_seed(ids))));
        // Within what the catalogue has, or what quinn has by itself.
        let _ = config.max_udp_payload_size(largest);
        let seen = Arc::new(Seen::default());
        let transport = Arc::new(transport(setup.cc, largest, &seen));
        let tls = Arc::new(NullTls);
        let server = (!setup.opening).then(|| {
            let mut server = ServerConfig::new(tls.clone(), Arc::new(NullKey));
            server.transport_config(transport.clone());
            Arc::new(server)
        });
        let epoch = Instant::now();
        // Datagrams are not fragmented: quinn may look for the largest.
        let mut endpoint = Endpoint::new(Arc::new(config), server, true, None);
        let mut failure = None;
        let connection = if setup.opening {
            let mut client = ClientConfig::new(tls);
            client.transport_config(transport);
            let ids = Mutex::new(Ids(Xoshiro256PlusPlus::from_seed(first_id)));
            client.initial_dst_cid_provider(Arc::new(move || {
                ids.lock().unwrap_or_else(PoisonError::into_inner).generate_cid()
            }));
            let now = epoch + Duration::from_nanos(setup.now);
            let opened = endpoint.connect(now, client, remote(), "cwndlab");
            opened.map_err(|why| failure = Some(why.to_string())).ok()
        } else {
            None
        };
        Quinn {
            endpoint,
            connection,
            epoch,
            answers: Vec::new(),
            scratch: Vec::new(),
            seen,
            opening: setup.opening,
            is_open: false,
            sending: None,
            is_blocked: false,
            is_finishing: false,
            is_finished: false,
            receiving: None,
            waiting: 0,
            has_ended: false,
            written: 0,
            is_closing: false,
            failure,
        }
    }

    fn instant(&self, now: Nanos) -> Instant {
        self.epoch + Duration::from_nanos(now)
    }

    /// Keeps a datagram that the endpoint answers with by itself.
    fn answer(&mut self, transmit: &Transmit) {
        self.answers.push((self.scratch[..transmit.size].to_vec(), ecn_of(transmit)));
    }

    /// Carries out what follows from an input: events between endpoint and connection, and those for the application.
    fn settle(&mut self, now: Nanos) {
        let instant = self.instant(now);
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.is_open = true,
                Event::ConnectionLost { reason } => {
                    self.is_open = false;
                    // The opening end closes a connection on which everything was said.
                    let is_regular = matches!(reason, quinn_proto::ConnectionError::ApplicationClosed(_));
                    if !is_regular {
                        self.failure.get_or_insert(reason.to_string());
                    }
                }
                Event::Stream(StreamEvent::Opened { .. }) => {
                    self.receiving = self.receiving.or_else(|| connection.streams().accept(Dir::Uni));
                }
                Event::Stream(StreamEvent::Writable { .. }) => self.is_blocked = false,
                Event::Stream(StreamEvent::Finished { .. }) => self.is_finished = true,
                _ => {}
            }
        }
        if let Some(id) = self.receiving
            && !self.has_ended
        {
            let mut stream = connection.recv_stream(id);
            if let Ok(mut chunks) = stream.read(true) {
                loop {
                    match chunks.next(usize::MAX) {
                        Ok(Some(chunk)) => self.waiting += chunk.bytes.len() as u64,
                        Ok(None) => {
                            self.has_ended = true;
                            break;
                        }
                        Err(_) => break,
                    }
                }
                // Whether there is credit to be announced, poll_transmit finds by itself.
                let _ = chunks.finalize();
            }
        }
        // All that this end wrote has arrived, and the other end has ended what it wrote, if anything.
        if self.opening
            && self.is_finished
            && (self.receiving.is_none() || self.has_ended)
            && !self.is_closing
        {
            self.is_closing = true;
            connection.close(instant, 0u32.into(), Bytes::new());
        }
    }
}

impl Guest for Quinn {
    fn handle(&mut self, now: Nanos, datagram: &[u8], ecn: Ecn) {
        let instant = self.instant(now);
        let ecn = match ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        self.scratch.clear();
        let data = BytesMut::from(datagram);
        match self.endpoint.handle(instant, remote(), None, ecn, data, &mut self.scratch) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                match self.endpoint.accept(incoming, instant, &mut self.scratch, None) {
                    Ok(accepted) => self.connection = Some(accepted),
                    Err(refused) => {
                        self.failure.get_or_insert(refused.cause.to_string());
                        if let Some(transmit) = refused.response {
                            self.answer(&transmit);
                        }
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit),
            None => {}
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Nanos) {
        let instant = self.instant(now);
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(instant);
        }
        self.settle(now);
    }

    fn poll_timeout(&mut self) -> Option<Nanos> {
        let at = self.connection.as_mut()?.1.poll_timeout()?;
        Some(at.saturating_duration_since(self.epoch).as_nanos() as Nanos)
    }

    fn poll_transmit(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        if let Some((bytes, ecn)) = self.answers.pop() {
            *buffer = bytes;
            return Some(ecn);
        }
        let instant = self.instant(now);
        let transmit = self.connection.as_mut()?.1.poll_transmit(instant, 1, buffer);
        if transmit.is_none() {
            self.settle(now);
        }
        transmit.as_ref().map(ecn_of)
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn write(&mut self, _now: Nanos, bytes: u64) -> u64 {
        let Some((_, connection)) = self.connection.as_mut().filter(|_| self.is_open && !self.is_finishing)
        else {
            return 0;
        };
        if self.sending.is_none() {
            self.sending = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.sending else { return 0 };
        let mut left = bytes;
        while left > 0 && !self.is_blocked {
            let most = left.min(ZEROS.len() as u64) as usize;
            match connection.send_stream(id).write_chunks(&mut [Bytes::from_static(&ZEROS[..most])]) {
                Ok(taken) => left -= taken.bytes as u64,
                Err(_) => self.is_blocked = true,
            }
        }
        self.written += bytes - left;
        bytes - left
    }

    fn is_writable(&self) -> bool {
        self.is_open && !self.is_blocked && !self.is_finishing
    }

    fn finish(&mut self, _now: Nanos) {
        let Some((_, connection)) = &mut self.connection else { return };
        if std::mem::replace(&mut self.is_finishing, true) {
            return;
        }
        match self.sending {
            Some(id) => self.is_finished |= connection.send_stream(id).finish().is_err(),
            // Nothing was written: there is nothing to be acknowledged.
            None => self.is_finished = true,
        }
    }

    fn readable(&self) -> u64 {
        self.waiting
    }

    fn read(&mut self, _now: Nanos, most: u64) -> u64 {
        let taken = self.waiting.min(most);
        self.waiting -= taken;
        taken
    }

    fn is_at_end(&self) -> bool {
        self.has_ended && self.waiting == 0
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn observe(&self) -> Observed {
        let Some((_, connection)) = &self.connection else { return Observed::default() };
        let stats = connection.stats();
        let metrics = connection.congestion_state().metrics();
        let srtt = stats.path.rtt.as_nanos() as Nanos;
        Observed {
            cwnd: Some(stats.path.cwnd),
            ssthresh: metrics.ssthresh.filter(|&ssthresh| ssthresh < u64::MAX),
            in_slow_start: Some(metrics.ssthresh.is_some_and(|ssthresh| stats.path.cwnd < ssthresh)),
            // Before the first sample quinn holds the initial RTT of its configuration.
            srtt: (self.seen.has_rtt()).then_some(srtt),
            in_flight: Some(self.seen.in_flight()),
            // quinn paces by its window and smoothed RTT, whatever rate a congestion control names; that of BBR depends on random
            // numbers of the operating system, which reach nothing else.
            pacing_bps: None,
            lost: Some(stats.path.lost_packets),
            written: self.written,
            ..Observed::default()
        }
    }

    fn poll_event(&mut self) -> Option<GuestEvent> {
        self.seen.take()
    }
}

fn ecn_of(transmit: &Transmit) -> Ecn {
    match transmit.ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

/// quinn's own defaults, with a congestion control and no larger datagrams than the interface carries.
fn transport(cc: &str, largest: u16, seen: &Arc<Seen>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // quinn's default upper bound, which leaves room for tunnels (MtuDiscoveryConfig::upper_bound).
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(largest.min(1452));
    transport.mtu_discovery_config(Some(discovery));
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match cc {
        "newreno" => Arc::new(Watched::new(Arc::new(NewRenoConfig::default()), seen)),
        "bbr" => Arc::new(Watched::new(Arc::new(BbrConfig::default()), seen)),
        _ => Arc::new(Watched::new(Arc::new(CubicConfig::default()), seen)),
    };
    transport.congestion_controller_factory(factory);
    transport
}

/// Identifiers of connections, of eight bytes as quinn's own.
struct Ids(Xoshiro256PlusPlus);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_le_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests;
