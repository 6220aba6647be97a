//! A listening socket: turns SYNs into endpoints.

use wire::{Flags, Segment};

use crate::clock::Nanos;
use crate::endpoint::{Config, Endpoint};
use crate::profile::Profile;

/// Listens on one address. It holds no state of half-open connections; each [`Endpoint`] it makes is in SYN-RECEIVED.
pub struct Listener<'a> {
    profile: &'a dyn Profile,
}

/// What a listener makes of a segment that belongs to no connection.
pub enum Answer {
    /// A connection that answers the SYN.
    Connection(Box<Endpoint>),
    /// A reset to send back (RFC 9293 section 3.10.7.2).
    Reset(Segment),
    /// Nothing.
    Silence,
}

impl<'a> Listener<'a> {
    /// Listens with `profile`.
    pub fn new(profile: &'a dyn Profile) -> Listener<'a> {
        Listener { profile }
    }

    /// Handles a segment that belongs to no connection; `config` is for the connection it may become.
    pub fn on_segment(&self, now: Nanos, segment: &Segment, config: &Config<'_>) -> Answer {
        if segment.flags.has(Flags::RST) {
            Answer::Silence
        } else if segment.flags.has(Flags::ACK) {
            let seq = segment.ack;
            Answer::Reset(Segment { seq, flags: Flags::RST, frames: 1, ..Segment::default() })
        } else if segment.flags.has(Flags::SYN) {
            Answer::Connection(Box::new(Endpoint::accept(self.profile, config, now, segment)))
        } else {
            Answer::Silence
        }
    }
}
