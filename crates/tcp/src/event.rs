//! Reports of an endpoint while it works: entries into recovery, timeouts, changes of state.

pub use units::EventKind;

/// Report of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Payload bytes since the start of the stream that the event concerns (snd_una, the lost byte …).
    pub seq: u64,
    /// Value, which means what the kind says.
    pub value: i64,
}

/// Value of an event that has none.
pub const NO_VALUE: i64 = i64::MIN;

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
