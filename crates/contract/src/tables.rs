//! The tables of a run's series: of each its columns, the row that a testbed hands in, and the builder of its batches, all
//! from one declaration. Python's schemas are made of the same (`make contract`).

use std::sync::Arc;

use serde::Serialize;
use units::{Nanos, Phase};

use crate::kinds::{EVENT_KINDS, SAMPLE_KINDS};
use crate::table::{Batch, Column, ColumnData, Dict, Names, Values};

/// Kind of a stored column: whole numbers of so many bits, or names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Unsigned, 16 bits; batches have 32.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Names, each an index into those of the run.
    Name,
}

/// The names that tables of a run have in common.
pub struct RunNames {
    flows: Arc<Vec<String>>,
    links: Arc<Vec<String>>,
    events: Arc<Vec<String>>,
    samples: Arc<Vec<String>>,
    states: Arc<Vec<String>>,
}

impl RunNames {
    /// The names of a run with such flows and links.
    pub fn new<'a>(
        flows: impl IntoIterator<Item = &'a str>,
        links: impl IntoIterator<Item = &'a str>,
    ) -> RunNames {
        RunNames {
            flows: interned(flows),
            links: interned(links),
            events: interned(EVENT_KINDS),
            samples: interned(SAMPLE_KINDS),
            states: interned(Phase::ALL.iter().map(|phase| phase.as_str())),
        }
    }
}

fn interned<'a>(all: impl IntoIterator<Item = &'a str>) -> Arc<Vec<String>> {
    let mut names = Names::default();
    for name in all {
        names.intern(name);
    }
    names.finish()
}

/// A builder of a column, to which a field of a row is appended.
trait Append<T> {
    fn append(&mut self, value: T);
}

impl<T: Copy + Default> Append<T> for Values<T> {
    #[inline]
    fn append(&mut self, value: T) {
        self.push(value);
    }
}

impl<T: Copy + Default> Append<Option<T>> for Values<T> {
    #[inline]
    fn append(&mut self, value: Option<T>) {
        self.push_option(value);
    }
}

impl Append<u32> for Dict {
    #[inline]
    fn append(&mut self, value: u32) {
        self.push(value);
    }
}

impl Append<Option<u32>> for Dict {
    #[inline]
    fn append(&mut self, value: Option<u32>) {
        self.push_option(value);
    }
}

impl Append<Option<Phase>> for Dict {
    #[inline]
    fn append(&mut self, value: Option<Phase>) {
        self.push_option(value.map(|phase| phase as u32));
    }
}

/// The type of a column's builder, how it begins, and its kind, by the word in a declaration.
macro_rules! column {
    (type u16) => { Values<u32> };
    (type u32) => { Values<u32> };
    (type u64) => { Values<u64> };
    (type i64) => { Values<i64> };
    (type $names:ident) => { Dict };
    (new u16 $run:ident) => { Values::new() };
    (new u32 $run:ident) => { Values::new() };
    (new u64 $run:ident) => { Values::new() };
    (new i64 $run:ident) => { Values::new() };
    (new $names:ident $run:ident) => { Dict::new(Arc::clone(&$run.$names)) };
    (kind u16) => { Kind::U16 };
    (kind u32) => { Kind::U32 };
    (kind u64) => { Kind::U64 };
    (kind i64) => { Kind::I64 };
    (kind $names:ident) => { Kind::Name };
}

/// Declares tables: `Row Builder "name" { field: type = "column" word, ... }`, where the word is a kind of number, or which
/// names of the run it is.
macro_rules! tables {
    ($($(#[$doc:meta])* $row:ident $builder:ident $table:literal {
        $($(#[$about:meta])* $field:ident: $type:ty = $column:literal $word:ident,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $row {
                $($(#[$about])* pub $field: $type,)*
            }

            #[doc = concat!("Rows of the `", $table, "` table on their way to a batch.")]
            pub struct $builder {
                $($field: column!(type $word),)*
            }

            impl $builder {
                /// The name of the table.
                pub const NAME: &'static str = $table;
                /// Columns of the table behind the number of the run.
                pub const COLUMNS: &'static [(&'static str, Kind)] = &[$(($column, column!(kind $word)),)*];

                /// A table without rows.
                pub fn new(run: &RunNames) -> $builder {
                    $builder { $($field: column!(new $word run),)* }
                }

                /// Appends a row; returns how many there are.
                #[inline]
                pub fn push(&mut self, row: &$row) -> usize {
                    $(self.$field.append(row.$field);)*
                    self.t.len()
                }

                /// The rows so far as a batch; the table is empty again.
                pub fn finish(&mut self, run_id: u32) -> Batch {
                    let rows = self.t.len();
                    let columns = vec![
                        Column { name: "run_id", data: ColumnData::U32(vec![run_id; rows]), validity: None },
                        $(self.$field.finish($column),)*
                    ];
                    Batch { rows, columns }
                }
            }
        )*

        /// Every table, in the order in which they are documented: its name, and its columns behind the number of the run.
        pub const TABLES: &[(&str, &[(&str, Kind)])] = &[$(($table, $builder::COLUMNS),)*];
    };
}

tables! {
    /// A row of the `tcp` table. What a testbed cannot know is None.
    TcpRow TcpTable "tcp" {
        /// Time of the row.
        t: Nanos = "t_ns" u64,
        /// Flow number.
        flow: u32 = "flow" flows,
        /// Congestion window, bytes.
        cwnd: Option<u64> = "cwnd_bytes" u64,
        /// Slow-start threshold, bytes. None while infinite.
        ssthresh: Option<u64> = "ssthresh_bytes" u64,
        /// Smoothed RTT.
        srtt: Option<Nanos> = "srtt_ns" u64,
        /// Newest packet-pair RTT.
        rtt: Option<Nanos> = "rtt_ns" u64,
        /// Bytes in flight by the sender's own estimate.
        inflight: u64 = "inflight_bytes" u64,
        /// Payload read by the receiving application, bytes.
        delivered: u64 = "delivered_bytes" u64,
        /// Data packets that reached the receiving host, bytes with the bottleneck's overhead.
        arrived: Option<u64> = "arrived_bytes" u64,
        /// Segments sent again.
        retransmits: u64 = "retransmits" u64,
        /// Pacing rate.
        pacing_bps: Option<u64> = "pacing_bps" u64,
        /// Retransmission timeout.
        rto: Option<Nanos> = "rto_ns" u64,
        /// The peer's window as the sender knows it, bytes.
        send_window: Option<u64> = "send_window_bytes" u64,
        /// The window that the receiving host offered last, bytes. None where it has no connection.
        receive_window: Option<u64> = "receive_window_bytes" u64,
        /// The sending host's buffer, bytes.
        send_buffer: Option<u64> = "send_buffer_bytes" u64,
        /// The receiving host's buffer, bytes. None where it has no connection.
        receive_buffer: Option<u64> = "receive_buffer_bytes" u64,
        /// Coarse state.
        phase: Option<Phase> = "state" states,
    }

    /// A row of the `tcp_info` table: what else Linux's TCP_INFO tells of a socket. None: this kernel does not tell.
    TcpInfoRow TcpInfoTable "tcp_info" {
        /// Time of the row.
        t: Nanos = "t_ns" u64,
        /// Flow number.
        flow: u32 = "flow" flows,
        /// Port at this end.
        local_port: u32 = "local_port" u16,
        /// Port at the other end.
        remote_port: u32 = "remote_port" u16,
        /// Largest segment, bytes.
        mss: u32 = "mss_bytes" u32,
        /// Variation of the RTT.
        rttvar: Option<Nanos> = "rttvar_ns" u64,
        /// Least RTT. None before the first.
        min_rtt: Option<Nanos> = "min_rtt_ns" u64,
        /// Rate of delivery.
        delivery_bps: Option<u64> = "delivery_bps" u64,
        /// Time with something to send.
        busy: Option<Nanos> = "busy_ns" u64,
        /// Time in which the peer's window was the limit.
        rwnd_limited: Option<Nanos> = "rwnd_limited_ns" u64,
        /// Time in which the own buffer was the limit.
        sndbuf_limited: Option<Nanos> = "sndbuf_limited_ns" u64,
        /// Segments taken for lost now.
        lost: Option<u32> = "lost_packets" u32,
        /// Reordering seen, segments.
        reordering: Option<u32> = "reordering_packets" u32,
        /// Payload sent, with what was sent again, bytes.
        sent: Option<u64> = "sent_bytes" u64,
        /// Segments with payload sent.
        sent_segments: Option<u64> = "sent_segments" u64,
        /// Payload sent again, bytes.
        retransmitted: Option<u64> = "retransmitted_bytes" u64,
        /// Payload in the buffer that was never sent, bytes.
        notsent: Option<u64> = "notsent_bytes" u64,
        /// Payload received, bytes.
        received: Option<u64> = "received_bytes" u64,
        /// Segments with payload received.
        received_segments: Option<u64> = "received_segments" u64,
        /// Packets delivered with a mark.
        delivered_ce: Option<u32> = "delivered_ce_packets" u32,
        /// BBR's estimate of the bandwidth.
        bbr_bandwidth_bps: Option<u64> = "bbr_bandwidth_bps" u64,
        /// BBR's estimate of the least RTT.
        bbr_min_rtt: Option<Nanos> = "bbr_min_rtt_ns" u64,
        /// Number of times that the host's namespace has entered fast recovery.
        recoveries: Option<u64> = "recoveries" u64,
        /// Retransmission timeouts so far, backed off ones too.
        timeouts: Option<u32> = "timeouts" u32,
    }

    /// A row of the `queue` table.
    QueueRow QueueTable "queue" {
        /// Time of the row.
        t: Nanos = "t_ns" u64,
        /// Link number.
        hop: u32 = "hop" links,
        /// Bytes waiting, with overhead.
        backlog_bytes: u64 = "backlog_bytes" u64,
        /// Packets waiting.
        backlog_packets: u32 = "backlog_packets" u32,
        /// Drops so far.
        drops: u64 = "drops" u64,
        /// Marks so far.
        ce_marks: u64 = "ce_marks" u64,
    }

    /// A row of the `events` table.
    EventRow EventTable "events" {
        /// Time of the event; may lie ahead of the clock when a fused hop reports a drop.
        t: Nanos = "t_ns" u64,
        /// Flow number.
        flow: Option<u32> = "flow" flows,
        /// Link number.
        hop: Option<u32> = "hop" links,
        /// Index into [`EVENT_KINDS`].
        kind: u32 = "kind" events,
        /// Payload bytes since the start of the stream.
        seq: Option<u64> = "seq" u64,
        /// Value, which means what the kind says.
        value: Option<i64> = "value" i64,
    }

    /// A row of the `samples` table.
    SampleRow SampleTable "samples" {
        /// Time of the sample.
        t: Nanos = "t_ns" u64,
        /// Flow number.
        flow: u32 = "flow" flows,
        /// Index into [`SAMPLE_KINDS`].
        kind: u32 = "kind" samples,
        /// Value, which means what the kind says.
        value: i64 = "value" i64,
    }
}
