//! Line of what a link puts out, on its way to the far end, and what becomes of packets that never get there.

use std::collections::{HashSet, VecDeque};

use contract::histogram::Histogram;
use contract::kinds::{EVENT_DROP, EVENT_MARK};
use contract::tables::{EventRow, QueueRow};
use path::{DropReason, Nanos, Output};

use super::flows::Flows;
use super::frame::Frame;
use super::pool::Pool;

/// Rows for which memory is taken at a time.
const CHUNK: usize = 4096;

/// Packets between the start of their transmission and the far end, in order of time.
#[derive(Default)]
pub(super) struct Line(VecDeque<(Nanos, Frame)>);

impl Line {
    /// A line with room for so many packets.
    pub(super) fn new(packets: usize) -> Line {
        Line(VecDeque::with_capacity(packets))
    }

    /// Time when the next packet reaches the far end.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.0.front().map(|&(at, _)| at)
    }

    /// The next packet, if it is due.
    #[inline]
    pub(super) fn take(&mut self, now: Nanos) -> Option<(Nanos, Frame)> {
        if self.next()? > now { None } else { self.0.pop_front() }
    }

    /// A packet that reaches the far end at `at`.
    #[inline]
    pub(super) fn push(&mut self, at: Nanos, frame: Frame) {
        if self.0.back().is_none_or(|&(last, _)| last <= at) {
            self.0.push_back((at, frame));
        } else {
            let place = self.0.partition_point(|&(other, _)| other <= at);
            self.0.insert(place, (at, frame));
        }
    }
}

/// State that all links of a thread share: memory, flows, and records.
pub(super) struct Common {
    pub(super) pool: Pool,
    pub(super) flows: Flows,
    pub(super) records: Records,
    /// Slots of duplicated packets of which one of the two has been released.
    half_released: HashSet<u32>,
}

impl Common {
    pub(super) fn new(pool: Pool, flows: Flows, records: Records) -> Common {
        Common { pool, flows, records, half_released: HashSet::new() }
    }

    /// A packet is gone.
    #[inline]
    pub(super) fn release(&mut self, frame: &Frame) {
        if frame.shared.get() {
            self.release_shared(frame.slot);
        } else {
            self.pool.give(frame.slot);
        }
    }

    #[cold]
    fn release_shared(&mut self, slot: u32) {
        if self.half_released.remove(&slot) {
            self.pool.give(slot);
        } else {
            self.half_released.insert(slot);
        }
    }

    /// Gives a duplicated packet bytes of its own; false if there is no memory left.
    #[cold]
    pub(super) fn unshare(&mut self, frame: &mut Frame) -> bool {
        let length = frame.length as usize;
        let Some(slot) = self.pool.take(length) else { return false };
        let bytes = self.pool.bytes(frame.slot)[..length].to_vec();
        self.pool.bytes(slot)[..length].copy_from_slice(&bytes);
        self.release(frame);
        frame.slot = slot;
        frame.shared.set(false);
        true
    }
}

/// Records since t = 0.
pub(super) struct Records {
    /// t = 0.
    zero: Nanos,
    /// The measurement window.
    window: (Nanos, Nanos),
    measure: (Nanos, Nanos),
    /// Rows of `queue`.
    pub(super) queue: Rows<QueueRow>,
    /// Rows of `events`.
    pub(super) events: Rows<EventRow>,
    /// Tally of each flow.
    pub(super) tallies: Vec<Tally>,
    /// Drops and marks since t = 0, by hop.
    counts: Vec<(u64, u64)>,
    /// Pause frames that a switch has sent: when, stop or go.
    pub(super) paused: Vec<(Nanos, bool)>,
}

/// Counts of a flow over the measurement window.
#[derive(Clone)]
pub(super) struct Tally {
    pub(super) drops: u64,
    pub(super) ce_marks: u64,
    /// Bytes from the flow's sender at bottleneck links.
    pub(super) wire_bytes: u64,
    /// Queue delays of the flow's data at bottleneck links.
    pub(super) queue_delay: Histogram,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { drops: 0, ce_marks: 0, wire_bytes: 0, queue_delay: Histogram::new(10) }
    }

    /// Adds what another thread counted.
    pub(super) fn merge(&mut self, other: &Tally) {
        self.drops += other.drops;
        self.ce_marks += other.ce_marks;
        self.wire_bytes += other.wire_bytes;
        self.queue_delay.merge(&other.queue_delay);
    }
}

impl Records {
    /// Records of a Scenario with so many hops and flows, with a measurement window relative to t = 0.
    pub(super) fn new(hops: usize, flows: usize, measure: (Nanos, Nanos)) -> Records {
        Records {
            zero: Nanos::MAX,
            window: (Nanos::MAX, Nanos::MAX),
            measure,
            queue: Rows::default(),
            events: Rows::default(),
            tallies: vec![Tally::new(); flows],
            counts: vec![(0, 0); hops],
            paused: Vec::new(),
        }
    }

    /// t = 0 is at `zero`; what was recorded is dropped.
    pub(super) fn begin(&mut self, zero: Nanos) {
        self.zero = zero;
        self.window = (zero + self.measure.0, zero.saturating_add(self.measure.1));
        self.queue.clear();
        self.events.clear();
        self.tallies.fill(Tally::new());
        self.counts.fill((0, 0));
    }

    /// A row of `queue`.
    pub(super) fn queue(&mut self, at: Nanos, hop: u32, backlog_bytes: u64, backlog_packets: u32) {
        let Some(t) = at.checked_sub(self.zero) else { return };
        let (drops, ce_marks) = self.counts[hop as usize];
        self.queue.push(QueueRow { t, hop, backlog_bytes, backlog_packets, drops, ce_marks });
    }

    /// A packet was dropped.
    fn dropped(&mut self, at: Nanos, hop: u32, frame: &Frame) {
        self.counts[hop as usize].0 += u64::from(at >= self.zero);
        self.event(at, hop, EVENT_DROP, frame);
    }

    /// A packet was marked CE.
    fn marked(&mut self, at: Nanos, hop: u32, frame: &Frame) {
        self.counts[hop as usize].1 += u64::from(at >= self.zero);
        self.event(at, hop, EVENT_MARK, frame);
    }

    /// A packet goes on damaged, so that its receiver drops it; the link's queue did not.
    pub(super) fn damaged(&mut self, at: Nanos, hop: u32, frame: &Frame) {
        self.event(at, hop, EVENT_DROP, frame);
    }

    fn event(&mut self, at: Nanos, hop: u32, kind: u32, frame: &Frame) {
        let Some(t) = at.checked_sub(self.zero) else { return };
        if let Some(flow) = frame.flow
            && self.measures(at)
        {
            let tally = &mut self.tallies[usize::from(flow)];
            *(if kind == EVENT_MARK { &mut tally.ce_marks } else { &mut tally.drops }) += 1;
        }
        self.events.push(EventRow {
            t,
            flow: frame.flow.map(u32::from),
            hop: Some(hop),
            kind,
            seq: frame.offset,
            value: Some(i64::from(frame.headers.payload)),
        });
    }

    /// Whether the measurement window has a time in it.
    #[inline]
    pub(super) fn measures(&self, at: Nanos) -> bool {
        self.window.0 <= at && at < self.window.1
    }
}

/// Rows in pieces, so that none is moved when there are more.
pub(super) struct Rows<T>(Vec<Vec<T>>);

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Rows(Vec::new())
    }
}

impl<T> Rows<T> {
    fn push(&mut self, row: T) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(row),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(row);
                self.0.push(chunk);
            }
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    /// All rows, in the order they came.
    pub(super) fn into_rows(self) -> impl Iterator<Item = T> {
        self.0.into_iter().flatten()
    }
}

/// Place where a link puts what comes out.
pub(super) struct Exit<'a> {
    pub(super) line: &'a mut Line,
    pub(super) common: &'a mut Common,
    /// Number of the link as a hop.
    pub(super) hop: u32,
    /// Bytes added to each packet, at a bottleneck; elsewhere, nothing is tallied.
    pub(super) bottleneck: Option<u32>,
}

impl Output<Frame> for Exit<'_> {
    #[inline]
    fn forward(&mut self, at: Nanos, mut frame: Frame, waited: Nanos, _sent: Nanos) {
        frame.queue_delay += waited;
        if let Some(overhead) = self.bottleneck
            && let Some(flow) = frame.flow
            && frame.forward
            && self.common.records.measures(at)
        {
            let tally = &mut self.common.records.tallies[usize::from(flow)];
            tally.wire_bytes += u64::from(frame.headers.bytes + overhead);
            if frame.headers.payload > 0 {
                tally.queue_delay.add(frame.queue_delay);
            }
        }
        self.line.push(at, frame);
    }

    fn dropped(&mut self, at: Nanos, frame: &Frame, _why: DropReason) {
        self.common.records.dropped(at, self.hop, frame);
        self.common.release(frame);
    }

    fn marked(&mut self, at: Nanos, frame: &Frame) {
        self.common.records.marked(at, self.hop, frame);
    }

    fn queue_changed(&mut self, at: Nanos, backlog_bytes: u64, backlog_packets: u32) {
        self.common.records.queue(at, self.hop, backlog_bytes, backlog_packets);
    }

    fn paused(&mut self, at: Nanos, paused: bool) {
        self.common.records.paused.push((at, paused));
    }
}
