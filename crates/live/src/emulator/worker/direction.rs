//! One direction of a cable: its sockets, and what lies between them.

use contract::scenario::IngressStage;
use path::{Counters, Link, Nanos, Switch};

use super::tap::Tap;
use crate::emulator::frame::Frame;
use crate::emulator::line::{Common, Exit, Line};
use crate::emulator::port::{Input, Output};

/// Way through a cable.
pub(in crate::emulator) struct Direction {
    /// Interface where packets come in.
    pub(in crate::emulator) input: Input,
    /// Interface where packets go out.
    pub(in crate::emulator) output: Output,
    /// Hop between the two.
    pub(in crate::emulator) hop: Hop,
    /// The sending host's netem, before the link, with its packets.
    pub(in crate::emulator) egress: Option<(u32, Link<Frame>, Line)>,
    /// The receiving host's `ingress.before_gro`, behind the link.
    pub(in crate::emulator) ingress: Option<Ingress>,
    /// Packets between the link and the far end.
    pub(in crate::emulator) line: Line,
    /// Number of the link as a hop; None: packets cross at once.
    pub(in crate::emulator) link: Option<u32>,
    /// Whether the queue is sampled.
    pub(in crate::emulator) observe: bool,
    /// Overhead, of a bottleneck.
    pub(in crate::emulator) bottleneck: Option<u32>,
    /// The link's MTU, above which super-packets are cut.
    pub(in crate::emulator) mtu: u32,
    /// The least time that a packet takes to the far end, ns.
    pub(in crate::emulator) min_delay: Nanos,
    /// The least that it ever will be, changes of the schedule included.
    pub(in crate::emulator) min_delay_ever: Nanos,
    /// Counters of the link at the ends of the measurement window.
    pub(in crate::emulator) window: [Option<Counters>; 2],
    /// The loss of the link at the beginning, with which a new t = 0 starts again.
    pub(in crate::emulator) loss: Option<path::LossConfig>,
    /// File for packets that enter. None where none is written.
    pub(in crate::emulator) tap: Option<Tap>,
    /// Time when the last packet came in.
    pub(in crate::emulator) last_arrival: Nanos,
}

impl Direction {
    /// Returns the hop between the ends, and where it puts the packets that come out.
    #[inline]
    pub(super) fn parts<'a>(&'a mut self, common: &'a mut Common) -> (&'a mut Hop, Exit<'a>) {
        let (hop, bottleneck) = (self.link.unwrap_or(0), self.bottleneck);
        (&mut self.hop, Exit { line: &mut self.line, common, hop, bottleneck })
    }
}

/// Impairments of packets that match, behind a link.
pub(in crate::emulator) struct Ingress {
    pub(in crate::emulator) hop: u32,
    pub(in crate::emulator) link: Link<Frame>,
    pub(in crate::emulator) rule: IngressStage,
    /// Packets that have just passed.
    pub(in crate::emulator) passed: Line,
}

/// Hop between two ends.
pub(in crate::emulator) enum Hop {
    /// Cable without anything between.
    Wire,
    /// A link.
    Link(Box<Link<Frame>>),
    /// A port of a switch of the thread.
    Port {
        /// Number of the switch.
        switch: usize,
        /// Number of the port at the switch.
        port: usize,
    },
}

/// A switch, and the directions that are its ports.
pub(in crate::emulator) struct SwitchRun {
    pub(in crate::emulator) switch: Switch<Frame>,
    /// Directions, by outgoing port.
    pub(in crate::emulator) outgoing: Vec<usize>,
    /// Directions that lead to it, and how long a pause frame takes to their near ends.
    pub(in crate::emulator) incoming: Vec<(usize, Nanos)>,
}
