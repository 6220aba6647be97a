//! A receiver that cheats: what leaves its host in the place of acknowledgements (Savage et al., "TCP congestion control with a misbehaving
//! receiver", CCR 29(5), 1999).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use contract::ids::ConnectionId;
use contract::scenario;
use path::Nanos;
use units::SECOND;
use wire::{Flags, Options, Segment, seq};

/// The cheat of a host.
pub(crate) struct Cheat {
    kind: scenario::Cheat,
    /// Ends at the host, by [`ConnectionId`].
    ends: Vec<End>,
    /// Times of optimistic acknowledgements to come.
    due: BinaryHeap<Reverse<(Nanos, ConnectionId)>>,
}

/// One end of a connection, as its cheating host sees it.
#[derive(Clone, Default)]
struct End {
    /// Acknowledgement number that the end sent last. None before the first.
    acknowledged: Option<u32>,
    /// Acknowledgement that optimistic ones are copies of. None before the first.
    model: Option<Segment>,
    /// Highest sequence number that came, and one more. None before any data.
    highest: Option<u32>,
    /// Sequence number behind the peer's FIN. None before that came.
    end: Option<u32>,
    /// Sequence number up to which arrival is claimed.
    claim: u32,
    /// Payload in bytes of the longest segment that came, which an optimistic acknowledgement is for.
    payload: u32,
    /// Whether an optimistic acknowledgement is in `due`.
    waits: bool,
}

impl Cheat {
    /// Cheat of a host in a run of so many connections.
    pub(crate) fn new(kind: scenario::Cheat, connections: usize) -> Cheat {
        Cheat { kind, ends: vec![End::default(); connections], due: BinaryHeap::new() }
    }

    /// A segment reaches the host from the network.
    pub(crate) fn take_arrival(&mut self, now: Nanos, connection: ConnectionId, segment: &Segment) {
        if !matches!(self.kind, scenario::Cheat::OptimisticAcks { .. }) || segment.len == 0 {
            return;
        }
        let end = &mut self.ends[connection.index()];
        let after = segment.seq.wrapping_add(segment.seq_len());
        end.payload = end.payload.max(segment.len);
        if segment.flags.has(Flags::FIN) {
            end.end = Some(after);
        }
        match end.highest {
            Some(highest) if !seq::before(highest, after) => {
                // The sender repeats what it has no acknowledgement of: claims were beyond what it had sent, or lost.
                end.claim = highest.wrapping_sub(end.payload);
            }
            None => (end.highest, end.claim) = (Some(after), segment.seq),
            Some(_) => end.highest = Some(after),
        }
        self.wait(now, connection);
    }

    /// The host's stack sends a segment that is more than an acknowledgement. One whose duplicates are to count offers no SACK, by which
    /// senders would see that they say nothing.
    pub(crate) fn note_sent(&mut self, connection: ConnectionId, segment: &mut Segment) {
        if matches!(self.kind, scenario::Cheat::DuplicateAcks { .. }) {
            segment.options.0 &= !Options::SACK_PERMITTED.0;
            segment.sack.clear();
        }
        let end = &mut self.ends[connection.index()];
        if segment.flags.has(Flags::SYN) {
            *end = End::default();
        }
        if let Some(model) = &mut end.model {
            model.seq = segment.seq.wrapping_add(segment.seq_len());
        }
        end.acknowledged = segment.flags.has(Flags::ACK).then_some(segment.ack);
    }

    /// The host's stack sends a segment without payload: calls `send` with what leaves in its place.
    pub(crate) fn replace(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        segment: &Segment,
        send: &mut impl FnMut(&Segment),
    ) {
        if segment.flags.0 & (Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0) != 0 {
            let mut segment = *segment;
            self.note_sent(connection, &mut segment);
            return send(&segment);
        }
        let end = &mut self.ends[connection.index()];
        match self.kind {
            scenario::Cheat::AckDivision { parts } => {
                let from = end.acknowledged.unwrap_or(segment.ack);
                let news = u64::from(segment.ack.wrapping_sub(from));
                let parts = if seq::before(from, segment.ack) { news.min(u64::from(parts)) } else { 1 };
                for part in 1..parts {
                    let mut divided =
                        Segment { ack: from.wrapping_add((news * part / parts) as u32), ..*segment };
                    divided.sack.clear();
                    send(&divided);
                }
                send(segment);
                end.acknowledged = Some(segment.ack);
            }
            scenario::Cheat::DuplicateAcks { copies } => {
                let mut ack = *segment;
                ack.sack.clear();
                (0..=copies).for_each(|_| send(&ack));
            }
            scenario::Cheat::OptimisticAcks { .. } => {
                let model = end.model.insert(*segment);
                model.sack.clear();
                self.wait(now, connection);
                if self.ends[connection.index()].highest.is_none() {
                    send(segment);
                }
            }
        }
    }

    /// Time of the next optimistic acknowledgement.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.due.peek().map(|&Reverse((at, _))| at)
    }

    /// The optimistic acknowledgement that is due at or before `now`, and its connection. `is_open` says whether a connection is there
    /// still.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        is_open: impl Fn(ConnectionId) -> bool,
    ) -> Option<(ConnectionId, Segment)> {
        while let Some(&Reverse((at, connection))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let end = &mut self.ends[connection.index()];
            end.waits = false;
            let (Some(model), true) = (end.model, is_open(connection)) else { continue };
            end.claim = end.claim.wrapping_add(end.payload);
            let last = end.end.filter(|&last| !seq::before(end.claim, last));
            end.claim = last.unwrap_or(end.claim);
            let ack = Segment { ack: end.claim, ..model };
            if last.is_none() {
                self.wait(now, connection);
            }
            return Some((connection, ack));
        }
        None
    }

    /// Sets when the next optimistic acknowledgement of an end leaves, if it has one to send and none is set.
    fn wait(&mut self, now: Nanos, connection: ConnectionId) {
        let end = &mut self.ends[connection.index()];
        let scenario::Cheat::OptimisticAcks { rate_bps } = self.kind else { return };
        if end.waits || end.model.is_none() || end.highest.is_none() {
            return;
        }
        end.waits = true;
        let pause = u128::from(end.payload) * 8 * u128::from(SECOND) / u128::from(rate_bps);
        let pause = u64::try_from(pause).unwrap_or(Nanos::MAX).max(1);
        self.due.push(Reverse((now.saturating_add(pause), connection)));
    }
}
