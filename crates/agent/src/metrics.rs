//! Record of what one end of a flow saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Serialize;
use units::SECOND;

use crate::clock::{Clock, locked};

/// The most datagrams that may be missing at a time: who says more is somebody else.
const MISSING: u64 = 1 << 20;

/// Record of what one end of a flow saw, shared with who asks; all of them have the run's clock.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// The run's clock.
    pub clock: Arc<Clock>,
    measure: [u64; 2],
    duration: u64,
    /// Whether this is one of many connections, whose end is not the flow's.
    is_part: bool,
    seen: Arc<Mutex<Seen>>,
}

/// The metrics as they are told; times in ns of the run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Seen {
    flow: String,
    /// `from` or `to`.
    role: &'static str,
    /// Time when the connection was asked for, at the end `from`.
    opened_ns: Option<u64>,
    /// Time when everything up to the end of the stream had been read, at the end `to`.
    ended_ns: Option<u64>,
    error: Option<String>,
    /// Payload bytes.
    read: u64,
    read_in_window: u64,
    /// Datagrams or echoes.
    sent_in_window: u64,
    /// Number of datagrams or echoes found missing in the window, as a later one came instead.
    missing_in_window: usize,
    /// Samples: the time, the name, the value, and the payload read by then.
    samples: Vec<(u64, &'static str, u64, u64)>,
    /// Payload bytes read in each second.
    #[serde(serialize_with = "in_order")]
    seconds: BTreeMap<u64, u64>,
    /// State of a guest at this end. None where the kernel tells of its own.
    guest: Option<SeenGuest>,
    #[serde(skip)]
    missing: BTreeSet<u64>,
    /// The number of the next one.
    #[serde(skip)]
    expected: u64,
}

/// Record of a guest at one end of a flow.
#[derive(Clone, Debug, Default, Serialize)]
struct SeenGuest {
    rows: Vec<Row>,
    /// Changes of the congestion window: the time, the kind, the payload written by then, the value.
    events: Vec<(u64, &'static str, u64, u64)>,
}

/// A look at a guest, by the columns of the `tcp` table.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub t_ns: u64,
    pub cwnd_bytes: Option<u64>,
    pub ssthresh_bytes: Option<u64>,
    pub srtt_ns: Option<u64>,
    pub inflight_bytes: u64,
    /// Payload that the application at this end has read.
    pub delivered_bytes: u64,
    pub retransmits: u64,
    pub pacing_bps: Option<u64>,
    pub rto_ns: Option<u64>,
    pub send_window_bytes: Option<u64>,
    pub send_buffer_bytes: Option<u64>,
    pub state: Option<&'static str>,
    /// Number of packets with payload, as table `tcp_info` has it.
    pub sent_segments: u64,
}

/// Pairs of a key and its value.
fn in_order<S: serde::Serializer>(map: &BTreeMap<u64, u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map)
}

impl Metrics {
    /// Creates an empty record of a flow at its end `role`, counted in the window `measure` of a run of such a
    /// length.
    pub(crate) fn new(
        flow: &str,
        role: &'static str,
        measure: [u64; 2],
        duration: u64,
        clock: &Arc<Clock>,
    ) -> Metrics {
        let seen = Seen { flow: flow.to_owned(), role, ..Seen::default() };
        Metrics {
            clock: Arc::clone(clock),
            measure,
            duration,
            is_part: false,
            seen: Arc::new(Mutex::new(seen)),
        }
    }

    /// Returns what was seen up to now.
    pub(crate) fn seen(&self) -> Seen {
        let mut seen = self.held().clone();
        seen.missing_in_window = seen.missing.len();
        seen
    }

    /// Samples of one kind.
    pub(crate) fn values(&self, kind: &str) -> Vec<u64> {
        self.held().samples.iter().filter(|sample| sample.1 == kind).map(|sample| sample.2).collect()
    }

    /// The first connection is asked for.
    pub(crate) fn opens(&self) {
        let now = self.clock.now_ns();
        self.held().opened_ns.get_or_insert(now);
    }

    /// Returns these metrics for one of many connections of a flow, whose end is not the flow's.
    pub(crate) fn unended(&self) -> Metrics {
        Metrics { is_part: true, ..self.clone() }
    }

    /// Everything up to the end of the stream was read by then, the last of it at `at`. After the run that says nothing.
    pub(crate) fn ended(&self, at: u64, now: u64) {
        if !self.is_part && now < self.duration {
            self.held().ended_ns = Some(at);
        }
    }

    /// Notes that this end gave up.
    pub(crate) fn failed(&self, why: String) {
        self.held().error.get_or_insert(why);
    }

    /// Counts payload that was read; returns when.
    pub(crate) fn took(&self, count: u64) -> u64 {
        let now = self.clock.now_ns();
        let inside = self.measures(now);
        let mut seen = self.held();
        seen.read += count;
        if inside {
            seen.read_in_window += count;
        }
        *seen.seconds.entry(now / SECOND).or_default() += count;
        now
    }

    /// Counts payload that was read before a time, since that which was counted last.
    #[cfg(target_os = "linux")]
    pub(crate) fn took_before(&self, time: u64, count: u64) {
        let last = time.saturating_sub(1);
        let inside = self.measures(last);
        let mut seen = self.held();
        seen.read += count;
        if inside {
            seen.read_in_window += count;
        }
        *seen.seconds.entry(last / SECOND).or_default() += count;
    }

    /// The measurement window, ns of the run.
    #[cfg(target_os = "linux")]
    pub(crate) fn window(&self) -> [u64; 2] {
        self.measure
    }

    /// The run's length, ns.
    #[cfg(target_os = "linux")]
    pub(crate) fn duration(&self) -> u64 {
        self.duration
    }

    /// Counts a datagram or echo that was sent.
    pub(crate) fn sent(&self) {
        if self.measures(self.clock.now_ns()) {
            self.held().sent_in_window += 1;
        }
    }

    /// A datagram or echo came: notes which are missing before it. One that comes late is missing no more, and one that
    /// comes twice changes nothing. False if its number cannot be one of the flow's.
    pub(crate) fn arrived(&self, number: u64) -> bool {
        self.arrived_at(self.clock.now_ns(), number)
    }

    fn arrived_at(&self, now: u64, number: u64) -> bool {
        let inside = self.measures(now);
        let mut seen = self.held();
        if number.saturating_sub(seen.expected) > MISSING {
            return false;
        }
        let from = seen.expected;
        if inside {
            seen.missing.extend(from..number);
        }
        seen.missing.remove(&number);
        seen.expected = from.max(number + 1);
        true
    }

    /// Notes a row for the `samples` table.
    pub(crate) fn sample(&self, at: u64, kind: &'static str, value: u64) {
        let mut seen = self.held();
        let read = seen.read;
        seen.samples.push((at, kind, value, read));
    }

    /// Notes what a guest says of itself.
    #[cfg(all(feature = "quinn", target_os = "linux"))]
    pub(crate) fn looked(&self, row: Row) {
        self.held().guest.get_or_insert_default().rows.push(row);
    }

    /// Notes what happened to a guest's congestion window.
    #[cfg(all(feature = "quinn", target_os = "linux"))]
    pub(crate) fn happened(&self, at: u64, kind: &'static str, written: u64, value: u64) {
        self.held().guest.get_or_insert_default().events.push((at, kind, written, value));
    }

    fn measures(&self, now: u64) -> bool {
        (self.measure[0]..self.measure[1]).contains(&now)
    }

    fn held(&self) -> MutexGuard<'_, Seen> {
        locked(&self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(arrivals: &[(u64, u64)]) -> usize {
        let metrics = Metrics::new("f", "to", [10, 20], 30, &Arc::default());
        for &(now, number) in arrivals {
            metrics.arrived_at(now, number);
        }
        metrics.seen().missing_in_window
    }

    #[test]
    fn what_is_missing_comes_before_what_came() {
        // The last two may still be on their way.
        assert_eq!(missing(&[(10, 0), (11, 1), (12, 4), (13, 5)]), 2);
        // One late, one twice, one not at all.
        assert_eq!(missing(&[(10, 0), (11, 2), (12, 1), (13, 4), (14, 4)]), 1);
        // What is missed before the window is not of it.
        assert_eq!(missing(&[(9, 3), (10, 5)]), 1);
    }

    #[test]
    fn a_number_that_cannot_be_is_not_believed() {
        let metrics = Metrics::new("f", "to", [0, 20], 30, &Arc::default());
        assert!(!metrics.arrived_at(1, u64::MAX));
        assert!(metrics.arrived_at(1, MISSING));
        assert_eq!(metrics.seen().missing_in_window as u64, MISSING);
    }
}
