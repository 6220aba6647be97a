//! A store-and-forward switch whose output ports draw on one buffer, with pause frames if wanted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Xoshiro256PlusPlus;
use crate::link::{Counters, Link, LinkConfig, Mode};
use crate::packet::{DropReason, Nanos, Output, Packet};

/// The memory of a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Bytes for the packets of all ports, with each port's overhead. A packet holds its place from its arrival, which
    /// is when its last bit is in, until its last bit has left.
    pub buffer_bytes: u64,
    /// Ask the neighbours to pause. Null: packets that find no place are dropped.
    pub pause: Option<PauseConfig>,
}

/// Thresholds at which a switch asks its neighbours to pause (IEEE 802.3 annex 31B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseConfig {
    /// Bytes in the buffer from which neighbours are to stop. What is on its way must find room above.
    pub stop_bytes: u64,
    /// Bytes in the buffer down to which they go on, at most `stop_bytes`.
    pub go_bytes: u64,
}

/// A switch: stepped links that share a buffer.
///
/// Each port has its own events; at any time, those of all ports up to that time must have been handed in.
pub struct Switch<P> {
    ports: Vec<Port<P>>,
    buffer: Buffer,
    pause: Option<PauseConfig>,
    paused: bool,
}

struct Port<P> {
    link: Link<P>,
    delay: Nanos,
    overhead: u32,
}

impl<P: Packet + Clone + 'static> Switch<P> {
    /// A new switch. `streams` gives the random stream of a purpose at a port.
    ///
    /// # Panics
    /// If a port duplicates packets or has jitter, which belong to a cable; as [`Link::new`] does.
    pub fn new(
        config: &SwitchConfig,
        ports: &[LinkConfig],
        streams: &dyn Fn(usize, &str) -> Xoshiro256PlusPlus,
    ) -> Self {
        let port = |(index, config): (usize, &LinkConfig)| {
            assert!(config.duplicate_ppb == 0 && config.jitter.is_none(), "a port is not a cable");
            // The switch adds the delay, so that it learns when a packet has left.
            let inner = LinkConfig { delay_ns: 0, ..config.clone() };
            Port {
                link: Link::new(&inner, &|purpose| streams(index, purpose), Mode::Stepped),
                delay: config.delay_ns,
                overhead: config.overhead,
            }
        };
        Switch {
            ports: ports.iter().enumerate().map(port).collect(),
            buffer: Buffer { capacity: config.buffer_bytes, used: 0, leaving: BinaryHeap::new() },
            pause: config.pause,
            paused: false,
        }
    }

    /// A packet for `port` is in at `at`. As for any link, times must not decrease.
    pub fn arrive(&mut self, port: usize, at: Nanos, packet: P, out: &mut impl Output<P>) {
        self.on_event(port, at, out);
        let Port { link, delay, overhead } = &mut self.ports[port];
        if self.buffer.admit(at, packet.bytes() + *overhead) {
            let mut port_out =
                PortOutput { out, buffer: &mut self.buffer, delay: *delay, overhead: *overhead };
            link.arrive(at, packet, &mut port_out);
        } else {
            link.refuse(at, &packet, out);
        }
        self.update(at, out);
    }

    /// Time when `port` next wants [`Switch::on_event`].
    pub fn next_event(&self, port: usize) -> Option<Nanos> {
        self.ports[port].link.next_event()
    }

    /// Starts every transmission of `port` that is due at or before `now`.
    pub fn on_event(&mut self, port: usize, now: Nanos, out: &mut impl Output<P>) {
        let Port { link, delay, overhead } = &mut self.ports[port];
        link.on_event(
            now,
            &mut PortOutput { out, buffer: &mut self.buffer, delay: *delay, overhead: *overhead },
        );
        self.update(now, out);
    }

    /// Time when the next packet will have left, at which [`Switch::update`] may let the neighbours go on. None
    /// unless they pause.
    pub fn next_release(&self) -> Option<Nanos> {
        if self.paused { self.buffer.leaving.peek().map(|&Reverse((at, _))| at) } else { None }
    }

    /// Tells the neighbours to pause or to go on, if the buffer asks for a change.
    pub fn update(&mut self, now: Nanos, out: &mut impl Output<P>) {
        let Some(PauseConfig { stop_bytes, go_bytes }) = self.pause else { return };
        let used = self.buffer.used(now);
        let paused = if self.paused { used > go_bytes } else { used >= stop_bytes };
        if paused != self.paused {
            self.paused = paused;
            out.paused(now, paused);
        }
    }

    /// Pauses a port or lets it go on, as [`Link::pause`], when a pause frame has come from its far end. Packets that cannot leave stay
    /// in the buffer, so that the neighbours of this switch may have to pause too.
    pub fn pause(&mut self, port: usize, now: Nanos, paused: bool, out: &mut impl Output<P>) {
        let Port { link, delay, overhead } = &mut self.ports[port];
        let port_out = &mut PortOutput { out, buffer: &mut self.buffer, delay: *delay, overhead: *overhead };
        link.pause(now, paused, port_out);
        self.update(now, out);
    }

    /// The state of a port, as [`Link::counters`].
    pub fn counters(&mut self, port: usize, t: Nanos) -> Counters {
        self.ports[port].link.counters(t)
    }

    /// Bytes in the buffer as of `now`.
    pub fn used(&mut self, now: Nanos) -> u64 {
        self.buffer.used(now)
    }
}

struct Buffer {
    capacity: u64,
    used: u64,
    /// Departures of packets that are being sent, with their bytes.
    leaving: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Buffer {
    fn used(&mut self, now: Nanos) -> u64 {
        while let Some(&Reverse((at, len))) = self.leaving.peek()
            && at <= now
        {
            self.leaving.pop();
            self.used -= u64::from(len);
        }
        self.used
    }

    fn admit(&mut self, now: Nanos, len: u32) -> bool {
        let fits = self.used(now) + u64::from(len) <= self.capacity;
        if fits {
            self.used += u64::from(len);
        }
        fits
    }
}

/// Passes what a port reports on to the driver, and frees the buffer of packets that are sent or dropped.
struct PortOutput<'a, O> {
    out: &'a mut O,
    buffer: &'a mut Buffer,
    delay: Nanos,
    overhead: u32,
}

impl<P: Packet, O: Output<P>> Output<P> for PortOutput<'_, O> {
    fn forward(&mut self, at: Nanos, packet: P, waited: Nanos, sent: Nanos) {
        self.buffer.leaving.push(Reverse((at, packet.bytes() + self.overhead)));
        self.out.forward(at + self.delay, packet, waited, sent);
    }

    fn dropped(&mut self, at: Nanos, packet: &P, why: DropReason) {
        self.buffer.used -= u64::from(packet.bytes() + self.overhead);
        self.out.dropped(at, packet, why);
    }

    fn marked(&mut self, at: Nanos, packet: &P) {
        self.out.marked(at, packet);
    }

    fn duplicate(&mut self, packet: &P) -> P
    where
        P: Clone,
    {
        self.out.duplicate(packet)
    }

    fn queue_changed(&mut self, at: Nanos, backlog_bytes: u64, backlog_packets: u32) {
        self.out.queue_changed(at, backlog_bytes, backlog_packets);
    }
}
