//! Interface of the modelled host: infinitely fast, with a queue that may keep packets until they are due (fq of Linux).

use std::collections::BTreeMap;

use tcp::Nanos;
use tcp::stack::Family;
use wire::Segment;

use super::{Connection, Model, UPTIME};
use crate::system::SystemError;

/// State of the interface.
#[derive(Debug, Default)]
pub(super) struct Interface {
    /// Packets leave when they are due.
    pub(super) paces: bool,
    /// Segments are of one packet.
    pub(super) cuts: bool,
    /// Packets that wait, with their connections, by the time when they are due and in the order in which they came.
    held: BTreeMap<(Nanos, u64), (usize, Segment)>,
    number: u64,
}

impl Interface {
    pub(super) fn hold(&mut self, due: Nanos, connection: usize, segment: Segment) {
        self.number += 1;
        self.held.insert((due, self.number), (connection, segment));
    }

    /// Time when the next packet is due.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.held.first_key_value().map(|((due, _), _)| *due)
    }
}

impl Model {
    pub(super) fn set_queue(&mut self, paces: bool) -> Result<(), SystemError> {
        if self.profile.spec().family != Family::Linux || !self.connections.is_empty() {
            return Err(SystemError::Interface);
        }
        if paces {
            self.profile.leave_pacing_to_queue();
        }
        self.interface.paces |= paces;
        Ok(())
    }

    /// Lets packets leave that are due.
    pub(super) fn release(&mut self) {
        while self.interface.next().is_some_and(|due| due <= self.now)
            && let Some((_, (index, segment))) = self.interface.held.pop_first()
        {
            self.leave(index, &segment);
        }
    }

    /// A packet leaves the host.
    pub(super) fn leave(&mut self, index: usize, segment: &Segment) {
        let Connection { ends, settings, reports, .. } = &mut self.connections[index];
        reports.note_sent(self.now - UPTIME, segment.offset, segment.offset + u64::from(segment.len));
        let (ends, udp) = (*ends, self.tunnel.ports(settings.udp_port));
        self.send(&ends, udp, segment);
        if segment.len > 0 {
            self.connections[index].endpoint.on_tx_complete(self.now, segment.len);
        }
    }
}
