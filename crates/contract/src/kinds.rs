//! The kinds of events and samples: of each its word and its number.

use units::EventKind;

/// The words of the `kind` column of `events`: what hops report, what endpoints do, what applications do.
pub const EVENT_KINDS: [&str; EventKind::ALL.len() + 4] = {
    let mut words = ["app"; EventKind::ALL.len() + 4];
    [words[EVENT_DROP as usize], words[EVENT_MARK as usize]] = ["drop", "mark"];
    words[EVENT_CHANGE as usize] = "change";
    let mut at = 0;
    while at < EventKind::ALL.len() {
        words[event_of(EventKind::ALL[at]) as usize] = EventKind::ALL[at].as_str();
        at += 1;
    }
    words
};
/// A packet was dropped, as an index into [`EVENT_KINDS`].
pub const EVENT_DROP: u32 = 0;
/// A packet was marked, as an index into [`EVENT_KINDS`].
pub const EVENT_MARK: u32 = 1;
/// The schedule has changed a link, as an index into [`EVENT_KINDS`].
pub const EVENT_CHANGE: u32 = 2;
/// The application has finished something, as an index into [`EVENT_KINDS`].
pub const EVENT_APP: u32 = EVENT_KINDS.len() as u32 - 1;

/// Index into [`EVENT_KINDS`] of what an endpoint reports, in the order in which the kinds are defined.
pub const fn event_of(kind: EventKind) -> u32 {
    EVENT_CHANGE + 1 + kind as u32
}

/// The kind of an endpoint's event of this word.
pub fn event_named(word: &str) -> Option<EventKind> {
    EventKind::ALL.iter().copied().find(|kind| kind.as_str() == word)
}

/// The words of the `kind` column of `samples`.
pub const SAMPLE_KINDS: [&str; 13] = [
    "goodput",
    "completion",
    "response",
    "round",
    "stall",
    "one-way-delay",
    "probe-rtt",
    "wire",
    "target-rate",
    "queue-delay",
    "feedback-rtt",
    "feedback-loss",
    "left-out",
];
/// Kinds of samples, as indices into [`SAMPLE_KINDS`].
pub mod sample {
    /// Payload bytes read in the second before.
    pub const GOODPUT: u32 = 0;
    /// Time from opening to the last byte read.
    pub const COMPLETION: u32 = 1;
    /// Time from a request to the last byte of its response.
    pub const RESPONSE: u32 = 2;
    /// Time from the first request of a round to the last response.
    pub const ROUND: u32 = 3;
    /// Time in which a player had nothing to show.
    pub const STALL: u32 = 4;
    /// Time from sending a datagram to its arrival.
    pub const ONE_WAY_DELAY: u32 = 5;
    /// Time from sending a probe to the arrival of its echo.
    pub const PROBE_RTT: u32 = 6;
    /// Bytes of data packets that reached the receiving host in the second before, with the bottleneck's overhead.
    pub const WIRE: u32 = 7;
    /// Target rate of media as of a report, bit/s.
    pub const TARGET_RATE: u32 = 8;
    /// Queueing delay as the congestion control of media sees it.
    pub const QUEUE_DELAY: u32 = 9;
    /// Round trip of a packet of media and its report, without the time that it waited for that.
    pub const FEEDBACK_RTT: u32 = 10;
    /// Packets of media that a report has the sender take for lost, of so many whose fate is new, parts per million.
    pub const FEEDBACK_LOSS: u32 = 11;
    /// Packets of media that have waited for too long since the report before, and were not sent.
    pub const LEFT_OUT: u32 = 12;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_an_endpoint_has_its_word() {
        for (at, &kind) in (EVENT_CHANGE + 1..EVENT_APP).zip(EventKind::ALL) {
            assert_eq!((event_of(kind), EVENT_KINDS[at as usize]), (at, kind.as_str()));
        }
        let ours = [EVENT_DROP, EVENT_MARK, EVENT_CHANGE, EVENT_APP].map(|at| EVENT_KINDS[at as usize]);
        assert_eq!(ours, ["drop", "mark", "change", "app"]);
        assert_eq!(event_named("bbr-up"), Some(EventKind::BbrUp));
        assert_eq!(event_named("drop"), None);
    }
}
