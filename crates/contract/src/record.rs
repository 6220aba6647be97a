//! The recorder: what a run leaves behind, as record batches in order of time.

use std::sync::Arc;

use path::Nanos;
use tcp::cc::Phase;
use tcp::event::EventKind;

use crate::table::{Batch, Dict, MAX_ROWS, Names, Values};

/// A row of the `tcp` table.
#[derive(Clone, Copy, Debug)]
pub struct TcpRow {
    /// When.
    pub t: Nanos,
    /// Flow number.
    pub flow: u32,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; None while infinite.
    pub ssthresh: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Option<Nanos>,
    /// Newest packet-pair RTT.
    pub rtt: Option<Nanos>,
    /// In flight by the sender's own estimate, bytes.
    pub inflight: u64,
    /// Payload read by the receiving application, bytes.
    pub delivered: u64,
    /// Data packets that reached the receiving host, bytes with the bottleneck's overhead.
    pub arrived: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Pacing rate.
    pub pacing_bps: Option<u64>,
    /// Retransmission timeout.
    pub rto: Nanos,
    /// The peer's window as the sender knows it, bytes.
    pub send_window: u64,
    /// The window that the receiving host offered last, bytes; None where it has no connection.
    pub receive_window: Option<u64>,
    /// The sending host's buffer, bytes.
    pub send_buffer: u64,
    /// The receiving host's buffer, bytes; None as above.
    pub receive_buffer: Option<u64>,
    /// Coarse state.
    pub phase: Phase,
}

/// A row of the `queue` table.
#[derive(Clone, Copy, Debug)]
pub struct QueueRow {
    /// When.
    pub t: Nanos,
    /// Link number.
    pub hop: u32,
    /// Bytes waiting, with overhead.
    pub backlog_bytes: u64,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Drops so far.
    pub drops: u64,
    /// Marks so far.
    pub ce_marks: u64,
}

/// A row of the `events` table.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    /// When; may lie ahead of the clock when a fused hop reports a drop.
    pub t: Nanos,
    /// Place among simultaneous rows: links in order, then flows in order.
    pub rank: u32,
    /// Flow number.
    pub flow: Option<u32>,
    /// Link number.
    pub hop: Option<u32>,
    /// Index into [`EVENT_KINDS`].
    pub kind: u32,
    /// Payload bytes since the start of the stream.
    pub seq: Option<u64>,
    /// As the kind says.
    pub value: Option<i64>,
}

/// A row of the `samples` table.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow {
    /// When.
    pub t: Nanos,
    /// Flow number.
    pub flow: u32,
    /// Index into [`SAMPLE_KINDS`].
    pub kind: u32,
    /// As the kind says.
    pub value: i64,
}

/// The words of the `kind` column of `events`: what hops report, what endpoints do, what applications do.
pub const EVENT_KINDS: [&str; 11] = [
    "drop",
    "mark",
    EventKind::RecoveryIn.as_str(),
    EventKind::RecoveryOut.as_str(),
    EventKind::Rto.as_str(),
    EventKind::Tlp.as_str(),
    EventKind::Undo.as_str(),
    EventKind::SlowStartExit.as_str(),
    EventKind::Reduction.as_str(),
    EventKind::State.as_str(),
    "app",
];
/// A packet was dropped, as an index into [`EVENT_KINDS`].
pub const EVENT_DROP: u32 = 0;
/// A packet was marked, likewise.
pub const EVENT_MARK: u32 = 1;
/// The application has finished something, likewise.
pub const EVENT_APP: u32 = EVENT_KINDS.len() as u32 - 1;

/// What an endpoint reports, likewise: in the order in which the kinds are defined.
pub const fn event_of(kind: EventKind) -> u32 {
    EVENT_MARK + 1 + kind as u32
}

/// The words of the `kind` column of `samples`.
pub const SAMPLE_KINDS: [&str; 8] =
    ["goodput", "completion", "response", "round", "stall", "one-way-delay", "probe-rtt", "wire"];
const PHASES: [Phase; 6] =
    [Phase::SlowStart, Phase::Avoidance, Phase::Recovery, Phase::Loss, Phase::Cwr, Phase::Disorder];

/// Kinds of samples, as indices into [`SAMPLE_KINDS`].
pub mod sample {
    /// Payload bytes read in the second before.
    pub const GOODPUT: u32 = 0;
    /// From opening to the last byte read.
    pub const COMPLETION: u32 = 1;
    /// From a request to the last byte of its response.
    pub const RESPONSE: u32 = 2;
    /// From the first request of a round to the last response.
    pub const ROUND: u32 = 3;
    /// How long a player had nothing to show.
    pub const STALL: u32 = 4;
    /// From sending a datagram to its arrival.
    pub const ONE_WAY_DELAY: u32 = 5;
    /// From sending a probe to the arrival of its echo.
    pub const PROBE_RTT: u32 = 6;
    /// Bytes of data packets that reached the receiving host in the second before, with the bottleneck's overhead.
    pub const WIRE: u32 = 7;
}

/// Collects rows and cuts them into batches.
pub struct Recorder {
    run_id: u32,
    tcp: TcpTable,
    queue: QueueTable,
    events: EventTable,
    samples: SampleTable,
    /// Rows of `events` that a fused hop reported ahead of the clock, or that are not yet in order.
    pending: Vec<EventRow>,
    done: Vec<(&'static str, Batch)>,
}

struct TcpTable {
    t: Values<u64>,
    flow: Dict,
    cwnd: Values<u64>,
    ssthresh: Values<u64>,
    srtt: Values<u64>,
    rtt: Values<u64>,
    inflight: Values<u64>,
    delivered: Values<u64>,
    arrived: Values<u64>,
    retransmits: Values<u64>,
    pacing: Values<u64>,
    rto: Values<u64>,
    send_window: Values<u64>,
    receive_window: Values<u64>,
    send_buffer: Values<u64>,
    receive_buffer: Values<u64>,
    state: Dict,
}

struct QueueTable {
    t: Values<u64>,
    hop: Dict,
    backlog_bytes: Values<u64>,
    backlog_packets: Values<u32>,
    drops: Values<u64>,
    ce_marks: Values<u64>,
}

struct EventTable {
    t: Values<u64>,
    flow: Dict,
    hop: Dict,
    kind: Dict,
    seq: Values<u64>,
    value: Values<i64>,
}

struct SampleTable {
    t: Values<u64>,
    flow: Dict,
    kind: Dict,
    value: Values<i64>,
}

fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> Arc<Vec<String>> {
    let mut names = Names::default();
    for name in all {
        names.intern(name);
    }
    names.finish()
}

impl Recorder {
    /// A recorder for a run over the given flows and links.
    pub fn new<'a>(
        run_id: u32,
        flows: impl IntoIterator<Item = &'a str>,
        links: impl IntoIterator<Item = &'a str>,
    ) -> Recorder {
        let flows = names(flows);
        let links = names(links);
        let kinds = names(EVENT_KINDS);
        let sample_kinds = names(SAMPLE_KINDS);
        let states = names(PHASES.map(Phase::as_str));
        Recorder {
            run_id,
            tcp: TcpTable {
                t: Values::new(),
                flow: Dict::new(flows.clone()),
                cwnd: Values::new(),
                ssthresh: Values::new(),
                srtt: Values::new(),
                rtt: Values::new(),
                inflight: Values::new(),
                delivered: Values::new(),
                arrived: Values::new(),
                retransmits: Values::new(),
                pacing: Values::new(),
                rto: Values::new(),
                send_window: Values::new(),
                receive_window: Values::new(),
                send_buffer: Values::new(),
                receive_buffer: Values::new(),
                state: Dict::new(states),
            },
            queue: QueueTable {
                t: Values::new(),
                hop: Dict::new(links.clone()),
                backlog_bytes: Values::new(),
                backlog_packets: Values::new(),
                drops: Values::new(),
                ce_marks: Values::new(),
            },
            events: EventTable {
                t: Values::new(),
                flow: Dict::new(flows.clone()),
                hop: Dict::new(links),
                kind: Dict::new(kinds),
                seq: Values::new(),
                value: Values::new(),
            },
            samples: SampleTable {
                t: Values::new(),
                flow: Dict::new(flows),
                kind: Dict::new(sample_kinds),
                value: Values::new(),
            },
            pending: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Adds a row of `tcp`; rows come in order.
    pub fn tcp(&mut self, row: &TcpRow) {
        let table = &mut self.tcp;
        table.t.push(row.t);
        table.flow.push(row.flow);
        table.cwnd.push(row.cwnd);
        table.ssthresh.push_option(row.ssthresh);
        table.srtt.push_option(row.srtt);
        table.rtt.push_option(row.rtt);
        table.inflight.push(row.inflight);
        table.delivered.push(row.delivered);
        table.arrived.push(row.arrived);
        table.retransmits.push(row.retransmits);
        table.pacing.push_option(row.pacing_bps);
        table.rto.push(row.rto);
        table.send_window.push(row.send_window);
        table.receive_window.push_option(row.receive_window);
        table.send_buffer.push(row.send_buffer);
        table.receive_buffer.push_option(row.receive_buffer);
        table
            .state
            .push(PHASES.iter().position(|&p| p == row.phase).expect("every phase has its word") as u32);
        if table.t.len() >= MAX_ROWS {
            self.finish_tcp();
        }
    }

    /// Adds a row of `queue`; rows come in order.
    pub fn queue(&mut self, row: &QueueRow) {
        let table = &mut self.queue;
        table.t.push(row.t);
        table.hop.push(row.hop);
        table.backlog_bytes.push(row.backlog_bytes);
        table.backlog_packets.push(row.backlog_packets);
        table.drops.push(row.drops);
        table.ce_marks.push(row.ce_marks);
        if table.t.len() >= MAX_ROWS {
            self.finish_queue();
        }
    }

    /// Adds a row of `events`. Rows of one rank come in order of time; others may lie ahead.
    pub fn event(&mut self, row: EventRow) {
        self.pending.push(row);
    }

    /// Adds a row of `samples`; rows come in order.
    pub fn sample(&mut self, row: &SampleRow) {
        let table = &mut self.samples;
        table.t.push(row.t);
        table.flow.push(row.flow);
        table.kind.push(row.kind);
        table.value.push(row.value);
        if table.t.len() >= MAX_ROWS {
            self.finish_samples();
        }
    }

    /// Whether so many events wait that [`Recorder::settle`] is due.
    #[inline]
    pub fn wants_settling(&self) -> bool {
        self.pending.len() >= MAX_ROWS
    }

    /// Everything before `now` has been reported: puts those events in order and writes them.
    pub fn settle(&mut self, now: Nanos) {
        self.pending.sort_by_key(|row| (row.t, row.rank));
        let ready = self.pending.partition_point(|row| row.t < now);
        for index in 0..ready {
            let row = self.pending[index];
            let table = &mut self.events;
            table.t.push(row.t);
            table.flow.push_option(row.flow);
            table.hop.push_option(row.hop);
            table.kind.push(row.kind);
            table.seq.push_option(row.seq);
            table.value.push_option(row.value);
            if table.t.len() >= MAX_ROWS {
                self.finish_events();
            }
        }
        self.pending.drain(..ready);
    }

    /// The run is over at `end`: later rows are dropped, the rest becomes batches.
    pub fn finish(&mut self, end: Nanos) {
        self.settle(end + 1);
        self.pending.clear();
        self.finish_tcp();
        self.finish_queue();
        self.finish_events();
        self.finish_samples();
    }

    /// Batches finished since the last call.
    pub fn take(&mut self) -> Vec<(&'static str, Batch)> {
        std::mem::take(&mut self.done)
    }

    fn finish_tcp(&mut self) {
        let rows = self.tcp.t.len();
        let t = &mut self.tcp;
        let columns = vec![
            run_id(self.run_id, rows),
            t.t.finish("t_ns"),
            t.flow.finish("flow"),
            t.cwnd.finish("cwnd_bytes"),
            t.ssthresh.finish("ssthresh_bytes"),
            t.srtt.finish("srtt_ns"),
            t.rtt.finish("rtt_ns"),
            t.inflight.finish("inflight_bytes"),
            t.delivered.finish("delivered_bytes"),
            t.arrived.finish("arrived_bytes"),
            t.retransmits.finish("retransmits"),
            t.pacing.finish("pacing_bps"),
            t.rto.finish("rto_ns"),
            t.send_window.finish("send_window_bytes"),
            t.receive_window.finish("receive_window_bytes"),
            t.send_buffer.finish("send_buffer_bytes"),
            t.receive_buffer.finish("receive_buffer_bytes"),
            t.state.finish("state"),
        ];
        self.push("tcp", rows, columns);
    }

    fn finish_queue(&mut self) {
        let rows = self.queue.t.len();
        let t = &mut self.queue;
        let columns = vec![
            run_id(self.run_id, rows),
            t.t.finish("t_ns"),
            t.hop.finish("hop"),
            t.backlog_bytes.finish("backlog_bytes"),
            t.backlog_packets.finish("backlog_packets"),
            t.drops.finish("drops"),
            t.ce_marks.finish("ce_marks"),
        ];
        self.push("queue", rows, columns);
    }

    fn finish_events(&mut self) {
        let rows = self.events.t.len();
        let t = &mut self.events;
        let columns = vec![
            run_id(self.run_id, rows),
            t.t.finish("t_ns"),
            t.flow.finish("flow"),
            t.hop.finish("hop"),
            t.kind.finish("kind"),
            t.seq.finish("seq"),
            t.value.finish("value"),
        ];
        self.push("events", rows, columns);
    }

    fn finish_samples(&mut self) {
        let rows = self.samples.t.len();
        let t = &mut self.samples;
        let columns = vec![
            run_id(self.run_id, rows),
            t.t.finish("t_ns"),
            t.flow.finish("flow"),
            t.kind.finish("kind"),
            t.value.finish("value"),
        ];
        self.push("samples", rows, columns);
    }

    fn push(&mut self, table: &'static str, rows: usize, columns: Vec<crate::table::Column>) {
        if rows > 0 {
            self.done.push((table, Batch { rows, columns }));
        }
    }
}

fn run_id(id: u32, rows: usize) -> crate::table::Column {
    crate::table::Column {
        name: "run_id",
        data: crate::table::ColumnData::U32(vec![id; rows]),
        validity: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_an_endpoint_has_its_word() {
        let kinds = [
            EventKind::RecoveryIn,
            EventKind::RecoveryOut,
            EventKind::Rto,
            EventKind::Tlp,
            EventKind::Undo,
            EventKind::SlowStartExit,
            EventKind::Reduction,
            EventKind::State,
        ];
        for (at, kind) in (EVENT_MARK + 1..EVENT_APP).zip(kinds) {
            assert_eq!((event_of(kind), EVENT_KINDS[at as usize]), (at, kind.as_str()));
        }
    }
}
