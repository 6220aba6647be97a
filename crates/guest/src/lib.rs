//! Guests: transport protocols of other people, carried out in virtual time beside the models of kernels' TCP.
//!
//! A guest is an endpoint without I/O. The engine hands it datagrams and the time, and asks it what it sends and when it wants to
//! be woken. Random bytes come from the run's streams, so that a run is a function of its Scenario.
//!
//! ```
//! // Two ends, and a wire that takes 20 ms: a transfer of 100 kB.
//! use guest::{Ecn, Guest, Host, STACKS, Setup};
//!
//! # let Some(stack) = STACKS.first() else { return Ok(()) };
//! let mut machine = stack.boot.boot(&Host::default())?;
//! let mut make = |opening| machine.open(&Setup { opening, cc: stack.cc[0], seed: [1; 32], ..Setup::default() });
//! let mut ends: [Box<dyn Guest>; 2] = [make(true)?, make(false)?];
//! let (mut now, mut wire, mut left, mut read) = (0, Vec::<(u64, usize, Vec<u8>, Ecn)>::new(), 100_000, 0);
//! while !ends[1].is_at_end() {
//!     if ends[0].is_open() {
//!         left -= ends[0].write(now, left);
//!         if left == 0 {
//!             ends[0].finish(now);
//!         }
//!     }
//!     for side in 0..2 {
//!         let mut datagram = Vec::new();
//!         while let Some(ecn) = ends[side].poll_transmit(now, &mut datagram) {
//!             wire.push((now + 20_000_000, 1 - side, std::mem::take(&mut datagram), ecn));
//!         }
//!     }
//!     let timers = ends.iter_mut().filter_map(|end| end.poll_timeout());
//!     now = wire.iter().map(|sent| sent.0).chain(timers).min().expect("something is under way").max(now);
//!     for end in &mut ends {
//!         if end.poll_timeout().is_some_and(|at| at <= now) {
//!             end.handle_timeout(now);
//!         }
//!     }
//!     let (arrived, under_way) = wire.into_iter().partition(|sent| sent.0 <= now);
//!     wire = under_way;
//!     for (_, side, datagram, ecn) in arrived {
//!         ends[side].handle(now, &datagram, ecn);
//!     }
//!     read += ends[1].read(now, u64::MAX);
//! }
//! assert_eq!(read, 100_000);
//! # Ok::<(), String>(())
//! ```

mod end;
#[cfg(all(feature = "quinn", not(target_family = "wasm")))]
pub mod quinn;
#[cfg(all(feature = "smoltcp", not(target_family = "wasm")))]
pub mod smoltcp;

use std::net::Ipv4Addr;
use std::sync::Arc;

pub use end::{End, purpose, seed};
pub use units::{EventKind, Nanos};
pub use wire::Ecn;

/// Stack of a guest, as the catalogue has it.
pub struct GuestStack {
    /// Name of the stack, with its version.
    pub name: &'static str,
    /// Name that stands for the newest version.
    pub family: &'static str,
    /// Congestion controls; the first is the default.
    pub cc: &'static [&'static str],
    /// Kind of what the ends exchange.
    pub kind: Kind,
    /// Smallest and largest payload that the stack can be held to, of a datagram or of a TCP segment, bytes.
    pub payload: [u16; 2],
    /// Whether hosts with it have ECN. What datagrams say of it is the guest's affair.
    pub ecn: bool,
    /// Whether its hosts have sysctls, whose names and values it judges itself.
    pub sysctls: bool,
    /// Whether its sockets have buffers of a size that can be set.
    pub buffers: bool,
    /// Begins on a host.
    pub boot: &'static (dyn Boot + Sync),
}

/// Kind of what a guest's ends exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Datagrams, which only guests of the same stack understand.
    Datagrams,
    /// IPv4 packets with TCP, which every TCP understands.
    Packets,
}

/// Guests that come built in.
pub const STACKS: &[GuestStack] = &[
    #[cfg(all(feature = "quinn", not(target_family = "wasm")))]
    quinn::STACK,
    #[cfg(all(feature = "smoltcp", not(target_family = "wasm")))]
    smoltcp::STACK,
];

/// The built-in guest of this name.
pub fn find(name: &str) -> Option<&'static GuestStack> {
    STACKS.iter().find(|stack| stack.name == name)
}

/// Begin of a guest on a host.
pub trait Boot {
    /// A machine, on which connections can be opened.
    ///
    /// # Errors
    /// Why the guest refuses, in one line.
    fn boot(&self, host: &Host<'_>) -> Result<Box<dyn Machine>, String>;
}

/// A guest on a host.
pub trait Machine: Send {
    /// Makes one end of a connection.
    ///
    /// # Errors
    /// Why the guest refuses, in one line.
    fn open(&mut self, setup: &Setup<'_>) -> Result<Box<dyn Guest>, String>;
}

/// Guest whose connections have nothing in common.
pub struct Apart(pub fn(&Setup<'_>) -> Box<dyn Guest>);

impl Boot for Apart {
    fn boot(&self, _host: &Host<'_>) -> Result<Box<dyn Machine>, String> {
        Ok(Box::new(Apart(self.0)))
    }
}

impl Machine for Apart {
    fn open(&mut self, setup: &Setup<'_>) -> Result<Box<dyn Guest>, String> {
        Ok((self.0)(setup))
    }
}

/// Agreement of a host on ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// None.
    #[default]
    Off,
    /// Asks for it.
    On,
    /// Only answers.
    Accept,
}

/// Settings of a host.
pub struct Host<'a> {
    /// Own address.
    pub address: Ipv4Addr,
    /// Largest IP packet that the host's interface carries, bytes.
    pub mtu: u16,
    /// Agreement on ECN.
    pub ecn: EcnMode,
    /// Seed of what the host draws.
    pub seed: [u8; 32],
    /// Buffers of its sockets, bytes: those of the first of its flows that it sends, or receives. None: the stack's own.
    pub send_buffer: Option<u64>,
    /// See `send_buffer`.
    pub receive_buffer: Option<u64>,
    /// Sysctls that are set.
    pub sysctls: &'a [(String, i64)],
    /// Present time.
    pub now: Nanos,
    /// Called with one line where the guest's code fails, which ends the run.
    pub fail: Fail,
}

/// Taker of the line that says how a guest's code failed.
pub type Fail = Arc<dyn Fn(String) + Send + Sync>;

impl Default for Host<'_> {
    fn default() -> Self {
        Host {
            address: Ipv4Addr::new(10, 0, 0, 1),
            mtu: 1500,
            ecn: EcnMode::default(),
            seed: [0; 32],
            send_buffer: None,
            receive_buffer: None,
            sysctls: &[],
            now: 0,
            fail: Arc::new(|_| {}),
        }
    }
}

/// Settings of a new end of a connection.
pub struct Setup<'a> {
    /// Number by which [`Guest::poll_other`] names the end.
    pub number: u32,
    /// Whether the end opens the connection.
    pub opening: bool,
    /// Own address and port.
    pub local: (Ipv4Addr, u16),
    /// The other end's.
    pub remote: (Ipv4Addr, u16),
    /// Name of the congestion control.
    pub cc: &'a str,
    /// Seed of all random numbers of the end.
    pub seed: [u8; 32],
    /// Largest payload of a datagram that the host's interface carries, bytes; of a TCP segment without options, that less the 12
    /// bytes by which its headers are longer.
    pub payload: u16,
    /// Buffers of the socket, bytes. None: the stack's own.
    pub send_buffer: Option<u64>,
    /// See `send_buffer`.
    pub receive_buffer: Option<u64>,
    /// Present time.
    pub now: Nanos,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        let ends = [1, 2].map(|host| Ipv4Addr::new(10, 0, host, 1));
        Setup {
            number: 0,
            opening: true,
            local: (ends[0], 10_000),
            remote: (ends[1], 5201),
            cc: "",
            seed: [0; 32],
            payload: 1472,
            send_buffer: None,
            receive_buffer: None,
            now: 0,
        }
    }
}

/// Headers of IPv4 and TCP less those of IPv4 and UDP, bytes.
pub const LONGER_HEADERS: u16 = 12;

impl Setup<'_> {
    /// Payload of a full TCP segment without options, bytes.
    pub fn mss(&self) -> u16 {
        self.payload - LONGER_HEADERS
    }
}

/// One end of a connection of a guest, with one stream in each direction.
pub trait Guest: Send {
    /// A datagram, or an IPv4 packet, has arrived with this ECN field. A packet's payload is zeros.
    fn handle(&mut self, now: Nanos, datagram: &[u8], ecn: Ecn);

    /// The time of [`Guest::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Nanos);

    /// Time when the guest next wants [`Guest::handle_timeout`]. None: only when something arrives.
    fn poll_timeout(&mut self) -> Option<Nanos>;

    /// Writes the next datagram or packet to be sent into `buffer`, which is empty, and returns its ECN field. None: nothing is to be
    /// sent. Of a packet the payload counts only by its length.
    fn poll_transmit(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn>;

    /// Whether the connection is open, so that an application may use it.
    fn is_open(&self) -> bool;

    /// Takes payload of the application, whose content is zeros; returns how many bytes were taken.
    fn write(&mut self, now: Nanos, bytes: u64) -> u64;

    /// Whether a write might take something.
    fn is_writable(&self) -> bool;

    /// Ends the stream that this end writes.
    fn finish(&mut self, now: Nanos);

    /// Payload that has arrived in order and was not read, bytes.
    fn readable(&self) -> u64;

    /// Takes payload that has arrived, at most so many bytes; returns how many there were.
    fn read(&mut self, now: Nanos, most: u64) -> u64;

    /// Whether the other end has ended its stream, and everything was read.
    fn is_at_end(&self) -> bool;

    /// Reason why the connection broke. None if it did not.
    fn failure(&self) -> Option<&str>;

    /// State of the sender.
    fn observe(&self) -> Observed;

    /// Next of what happened to the congestion window since the last call.
    fn poll_event(&mut self) -> Option<GuestEvent>;

    /// Number of another end on the same machine that has something to do since this one was called.
    fn poll_other(&mut self) -> Option<u32> {
        None
    }

    /// Whether [`Guest::poll_event`] has all timeouts.
    fn tells_timeouts(&self) -> bool {
        false
    }
}

/// State of a guest's sender. None: the guest does not tell, or does not have it yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Congestion window, bytes.
    pub cwnd: Option<u64>,
    /// Slow-start threshold, bytes. None while infinite.
    pub ssthresh: Option<u64>,
    /// Whether the window grows exponentially, below the threshold.
    pub in_slow_start: Option<bool>,
    /// Smoothed RTT.
    pub srtt: Option<Nanos>,
    /// Retransmission timeout.
    pub rto: Option<Nanos>,
    /// Bytes in flight.
    pub in_flight: Option<u64>,
    /// Pacing rate, bits per second.
    pub pacing_bps: Option<u64>,
    /// Payload acknowledged, bytes.
    pub acknowledged: Option<u64>,
    /// Number of packets with payload sent.
    pub sent: Option<u64>,
    /// Number of packets judged lost, or sent again.
    pub lost: Option<u64>,
    /// The peer's window, bytes.
    pub window: Option<u64>,
    /// Send buffer, bytes.
    pub buffer: Option<u64>,
    /// Payload taken from the application, bytes.
    pub written: u64,
}

/// Change of a guest's congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestEvent {
    /// Kind of the event: [`EventKind::RecoveryIn`] for a loss, [`EventKind::Reduction`] for an ECN echo, [`EventKind::Rto`],
    /// [`EventKind::RecoveryOut`].
    pub kind: EventKind,
    /// Value, which means what the kind says.
    pub value: u64,
}
