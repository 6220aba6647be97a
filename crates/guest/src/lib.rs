//! Guests: transport protocols of other people, carried out in virtual time beside the models of kernels' TCP.
//!
//! A guest is an endpoint without I/O. The engine hands it datagrams and the time, and asks it what it sends and when it wants to
//! be woken. Random bytes come from the run's streams, so that a run is a function of its Scenario.
//!
//! ```
//! // Two ends, and a wire that takes 20 ms: a transfer of 100 kB.
//! use guest::{Ecn, Guest, Setup, STACKS};
//!
//! # let Some(stack) = STACKS.first() else { return };
//! let make = |opening| (stack.make)(&Setup { opening, cc: stack.cc[0], seed: [1; 32], payload: 1472, now: 0 });
//! let mut ends: [Box<dyn Guest>; 2] = [make(true), make(false)];
//! let (mut now, mut wire, mut left, mut read) = (0, Vec::<(u64, usize, Vec<u8>, Ecn)>::new(), 100_000, 0);
//! while !ends[1].is_at_end() {
//!     if ends[0].is_open() {
//!         left -= ends[0].write(left);
//!         if left == 0 {
//!             ends[0].finish();
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
//!     read += ends[1].read(u64::MAX);
//! }
//! assert_eq!(read, 100_000);
//! ```

#[cfg(all(feature = "quinn", not(target_family = "wasm")))]
pub mod quinn;

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
    /// Smallest and largest payload of a datagram that the stack can be held to, bytes.
    pub payload: [u16; 2],
    /// Makes one end of a connection.
    pub make: fn(&Setup<'_>) -> Box<dyn Guest>,
}

/// Guests that come built in.
pub const STACKS: &[GuestStack] = &[
    #[cfg(all(feature = "quinn", not(target_family = "wasm")))]
    quinn::STACK,
];

/// The built-in guest of this name.
pub fn find(name: &str) -> Option<&'static GuestStack> {
    STACKS.iter().find(|stack| stack.name == name)
}

/// Settings of a new end of a connection.
pub struct Setup<'a> {
    /// Whether the end opens the connection.
    pub opening: bool,
    /// Name of the congestion control.
    pub cc: &'a str,
    /// Seed of all random numbers of the end.
    pub seed: [u8; 32],
    /// Largest payload of a datagram that the host's interface carries, bytes.
    pub payload: u16,
    /// Present time.
    pub now: Nanos,
}

/// One end of a connection of a guest, with one stream in each direction.
pub trait Guest: Send {
    /// A datagram has arrived with this ECN field.
    fn handle(&mut self, now: Nanos, datagram: &[u8], ecn: Ecn);

    /// The time of [`Guest::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Nanos);

    /// Time when the guest next wants [`Guest::handle_timeout`]. None: only when something arrives.
    fn poll_timeout(&mut self) -> Option<Nanos>;

    /// Writes the next datagram to be sent into `buffer`, which is empty, and returns its ECN field. None: nothing is to be sent.
    fn poll_transmit(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn>;

    /// Whether the connection is open, so that an application may use it.
    fn is_open(&self) -> bool;

    /// Takes payload of the application, whose content is zeros; returns how many bytes were taken.
    fn write(&mut self, bytes: u64) -> u64;

    /// Whether a write might take something.
    fn is_writable(&self) -> bool;

    /// Ends the stream that this end writes.
    fn finish(&mut self);

    /// Payload that has arrived in order and was not read, bytes.
    fn readable(&self) -> u64;

    /// Takes payload that has arrived, at most so many bytes; returns how many there were.
    fn read(&mut self, most: u64) -> u64;

    /// Whether the other end has ended its stream, and everything was read.
    fn is_at_end(&self) -> bool;

    /// Reason why the connection broke. None if it did not.
    fn failure(&self) -> Option<&str>;

    /// State of the sender.
    fn observe(&self) -> Observed;

    /// Next of what happened to the congestion window since the last call.
    fn poll_event(&mut self) -> Option<GuestEvent>;
}

/// State of a guest's sender. None: the guest does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes. None while infinite.
    pub ssthresh: Option<u64>,
    /// Whether the window grows exponentially, below the threshold.
    pub in_slow_start: bool,
    /// Smoothed RTT. None before the first sample.
    pub srtt: Option<Nanos>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Pacing rate, bits per second.
    pub pacing_bps: Option<u64>,
    /// Number of packets judged lost.
    pub lost: u64,
    /// Payload taken from the application, bytes.
    pub written: u64,
}

/// Change of a guest's congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestEvent {
    /// Kind of the event: [`EventKind::RecoveryIn`] for a loss, [`EventKind::Reduction`] for an ECN echo.
    pub kind: EventKind,
    /// Value, which means what the kind says.
    pub value: u64,
}
