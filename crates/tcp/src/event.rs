//! Reports of an endpoint while it works: entries into recovery, timeouts, changes of state.

/// Kind of an event. `seq` of the [`Event`] is payload bytes since the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Fast recovery (or Linux's Recovery state) begins; value = cwnd in bytes before it.
    RecoveryIn,
    /// Recovery ends; value = cwnd in bytes after it.
    RecoveryOut,
    /// A retransmission timeout; value = its backoff shift, 1 for the first.
    Rto,
    /// A tail loss probe was sent.
    Tlp,
    /// A congestion reduction was undone; value = restored cwnd in bytes.
    Undo,
    /// Slow start ended without a loss (HyStart, delay gradient); value = cwnd in bytes.
    SlowStartExit,
    /// A reduction because of an ECN echo or a local drop; value = cwnd in bytes after it.
    Reduction,
    /// The connection's state changed; value = [`crate::endpoint::State`] as a number.
    State,
}

impl EventKind {
    /// The word in the `kind` column of the `events` table.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::RecoveryIn => "recovery-in",
            EventKind::RecoveryOut => "recovery-out",
            EventKind::Rto => "rto",
            EventKind::Tlp => "tlp",
            EventKind::Undo => "undo",
            EventKind::SlowStartExit => "slow-start-exit",
            EventKind::Reduction => "reduction",
            EventKind::State => "state",
        }
    }
}

/// Report of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Payload bytes since the start of the stream that it concerns (snd_una, the lost byte …).
    pub seq: u64,
    /// Value, which means what the kind says.
    pub value: i64,
}

/// Reports since the driver last took them. Empty almost always, so that a push is the only cost.
#[derive(Clone, Debug, Default)]
pub struct Events {
    list: Vec<Event>,
}

impl Events {
    /// Adds a report.
    #[inline]
    pub fn push(&mut self, kind: EventKind, seq: u64, value: i64) {
        self.list.push(Event { kind, seq, value });
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all reports in order, keeping the memory.
    pub fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.list.drain(..)
    }
}
