//! A listening socket: turns SYNs into endpoints.

use wire::{Flags, Segment};

use crate::clock::Nanos;
use crate::endpoint::{Config, Endpoint};
use crate::fast_open::Welcome;
use crate::reset::{reset, reset_for};
use crate::stack::Profile;

/// Listens on one address. It holds no state of half-open connections; each [`Endpoint`] it makes is in SYN-RECEIVED.
pub struct Listener<'a> {
    profile: &'a dyn Profile,
}

/// Outcome of a segment for a listener that belongs to no connection.
pub enum SynOutcome {
    /// A connection that answers the SYN.
    Connection(Box<Endpoint>),
    /// A reset to send back (RFC 9293 sections 3.10.7.1 and 3.10.7.2).
    Reset(Segment),
    /// No answer.
    Silence,
}

impl<'a> Listener<'a> {
    /// Listens with `profile`.
    pub fn new(profile: &'a dyn Profile) -> Listener<'a> {
        Listener { profile }
    }

    /// Handles a segment that belongs to no connection; `config` is for the connection it may become.
    pub fn on_segment(&self, now: Nanos, segment: &Segment, config: &Config<'_>) -> SynOutcome {
        self.on_segment_with(now, segment, config, Welcome::Plain(None))
    }

    /// [`Listener::on_segment`] of a listener that takes Fast Open, whose host has this welcome for a SYN.
    pub fn on_segment_with(
        &self,
        now: Nanos,
        segment: &Segment,
        config: &Config<'_>,
        welcome: Welcome,
    ) -> SynOutcome {
        let Segment { flags, .. } = segment;
        let rules = self.profile.spec().rules;
        let bogus = rules.listener_drops_syn_ack && flags.has(Flags::SYN) && flags.has(Flags::ACK);
        if bogus || rules.drop_synfin && flags.has(Flags::SYN) && flags.has(Flags::FIN) {
            return SynOutcome::Silence;
        }
        if flags.has(Flags::RST) || flags.has(Flags::ACK) {
            refusal(segment)
        } else if flags.has(Flags::SYN) {
            SynOutcome::Connection(Box::new(Endpoint::accept(self.profile, config, now, segment, welcome)))
        } else {
            SynOutcome::Silence
        }
    }
}

/// Answers a segment for which the host has neither a connection nor a listener (RFC 9293 section 3.10.7.1).
pub fn refusal(segment: &Segment) -> SynOutcome {
    match reset_for(segment) {
        None => SynOutcome::Silence,
        Some((seq, ack)) => SynOutcome::Reset(reset(seq, ack)),
    }
}
