//! The recorder: what a run leaves behind, as record batches in order of time.

use units::Nanos;

use crate::table::{Batch, MAX_ROWS};
use crate::tables::{
    EventRow, EventTable, QueueRow, QueueTable, RunNames, SampleRow, SampleTable, TcpRow, TcpTable,
};

/// Collects rows and cuts them into batches.
pub struct Recorder {
    run_id: u32,
    tcp: TcpTable,
    queue: QueueTable,
    events: EventTable,
    samples: SampleTable,
    /// Rows of `events` that a fused hop reported ahead of the clock, or that are not yet in order. Each has its place
    /// among simultaneous ones: links in order, then flows in order.
    pending: Vec<(u32, EventRow)>,
    done: Vec<(&'static str, Batch)>,
}

/// Makes a batch of a table's rows, if there are any.
macro_rules! cut {
    ($recorder:ident.$table:ident: $type:ident) => {{
        let batch = $recorder.$table.finish($recorder.run_id);
        if batch.rows > 0 {
            $recorder.done.push(($type::NAME, batch));
        }
    }};
}

impl Recorder {
    /// A recorder for a run over the given flows and links.
    pub fn new<'a>(
        run_id: u32,
        flows: impl IntoIterator<Item = &'a str>,
        links: impl IntoIterator<Item = &'a str>,
    ) -> Recorder {
        let names = RunNames::new(flows, links);
        Recorder {
            run_id,
            tcp: TcpTable::new(&names),
            queue: QueueTable::new(&names),
            events: EventTable::new(&names),
            samples: SampleTable::new(&names),
            pending: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Adds a row of `tcp`; rows come in order.
    pub fn tcp(&mut self, row: &TcpRow) {
        if self.tcp.push(row) >= MAX_ROWS {
            cut!(self.tcp: TcpTable);
        }
    }

    /// Adds a row of `queue`; rows come in order.
    pub fn queue(&mut self, row: &QueueRow) {
        if self.queue.push(row) >= MAX_ROWS {
            cut!(self.queue: QueueTable);
        }
    }

    /// Adds a row of `events`, which has the place `rank` among simultaneous ones: links in order, then flows in order.
    /// Rows of one rank come in order of time; others may lie ahead.
    pub fn event(&mut self, rank: u32, row: EventRow) {
        self.pending.push((rank, row));
    }

    /// Adds a row of `samples`; rows come in order.
    pub fn sample(&mut self, row: &SampleRow) {
        if self.samples.push(row) >= MAX_ROWS {
            cut!(self.samples: SampleTable);
        }
    }

    /// Whether so many events wait that [`Recorder::settle`] is due.
    #[inline]
    pub fn wants_settling(&self) -> bool {
        self.pending.len() >= MAX_ROWS
    }

    /// Everything before `now` has been reported: puts those events in order and writes them.
    pub fn settle(&mut self, now: Nanos) {
        self.pending.sort_by_key(|(rank, row)| (row.t, *rank));
        let ready = self.pending.partition_point(|(_, row)| row.t < now);
        for (_, row) in self.pending.drain(..ready) {
            if self.events.push(&row) >= MAX_ROWS {
                cut!(self.events: EventTable);
            }
        }
    }

    /// The run is over at `end`: later rows are dropped, the rest becomes batches.
    pub fn finish(&mut self, end: Nanos) {
        self.settle(end + 1);
        self.pending.clear();
        self.cut();
    }

    /// Makes batches of the rows that are written, however few.
    pub fn cut(&mut self) {
        cut!(self.tcp: TcpTable);
        cut!(self.queue: QueueTable);
        cut!(self.events: EventTable);
        cut!(self.samples: SampleTable);
    }

    /// Batches finished since the last call.
    pub fn take(&mut self) -> Vec<(&'static str, Batch)> {
        std::mem::take(&mut self.done)
    }
}
