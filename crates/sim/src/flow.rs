//! One flow of a run: its application, and its figures over the measurement window.

use host::app::Bulk;
use path::Nanos;
use tcp::TcpInfo;
use tcp::endpoint::LimitedTimes;

use crate::histogram::Histogram;
use crate::packet::Ends;
use crate::scenario::{App, Flow};

/// A flow while it runs.
pub struct FlowRun {
    /// Sending host.
    pub from: u16,
    /// Receiving host.
    pub to: u16,
    /// When the connection is opened, jitter included.
    pub start: Nanos,
    /// When it is told to stop.
    pub stop: Option<Nanos>,
    /// The sending application.
    pub app: Bulk,
    /// How many bytes it is to send, if limited.
    pub bytes: Option<u64>,
    /// When the receiver had read everything up to the end of the stream.
    pub completed: Option<Nanos>,
    /// One-way delay of the newest data packet that reached the receiver.
    pub data_delay: Nanos,
    /// Newest packet-pair round trip.
    pub rtt: Option<Nanos>,
    /// Payload read by the receiver at the last whole second.
    pub read_at_second: u64,
    /// Figures.
    pub tally: Tally,
}

/// What is counted over the measurement window.
pub struct Tally {
    /// Round trips of packet pairs.
    pub rtt: Histogram,
    /// Time data packets spent in queues.
    pub queue_delay: Histogram,
    /// Bytes of data packets that arrived, with the bottleneck's overhead.
    pub wire_bytes: u64,
    /// Packets lost on the way, data and acknowledgements.
    pub drops: u64,
    /// Packets marked.
    pub ce_marks: u64,
    /// Timeouts.
    pub rtos: u64,
    /// Entries into fast recovery.
    pub recoveries: Vec<Nanos>,
    /// Integral of cwnd over time, byte nanoseconds.
    cwnd_area: u128,
    cwnd_since: Nanos,
    cwnd: u64,
    /// Largest cwnd.
    pub cwnd_max: u64,
    /// Time over which cwnd was defined.
    pub active: Nanos,
    /// Figures at the start of the window.
    pub before: Option<Snapshot>,
    /// Figures at its end.
    pub after: Option<Snapshot>,
}

/// Running totals at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Payload read by the receiving application.
    pub read: u64,
    /// Data segments sent.
    pub segments: u64,
    /// Of those, sent again.
    pub retransmits: u64,
    /// Time under each limit.
    pub limited: LimitedTimes,
}

impl Snapshot {
    /// Totals of a connection: the sender's figures and the receiver's.
    pub fn new(sender: Option<&TcpInfo>, read: u64) -> Snapshot {
        Snapshot {
            read,
            segments: sender.map_or(0, |i| i.data_segments_out),
            retransmits: sender.map_or(0, |i| i.retransmits),
            limited: sender.map_or(LimitedTimes::default(), |i| i.limited),
        }
    }
}

impl FlowRun {
    /// A flow that has not started. `offset` is its share of the start jitter.
    pub fn new(flow: &Flow, from: u16, to: u16, offset: Nanos, mantissa_bits: u32) -> FlowRun {
        let App::Bulk { bytes, write_bytes } = flow.app;
        FlowRun {
            from,
            to,
            start: flow.start_ns + offset,
            stop: flow.stop_ns,
            app: Bulk::new(bytes, write_bytes),
            bytes,
            completed: None,
            data_delay: 0,
            rtt: None,
            read_at_second: 0,
            tally: Tally {
                rtt: Histogram::new(mantissa_bits),
                queue_delay: Histogram::new(mantissa_bits),
                wire_bytes: 0,
                drops: 0,
                ce_marks: 0,
                rtos: 0,
                recoveries: Vec::new(),
                cwnd_area: 0,
                cwnd_since: 0,
                cwnd: 0,
                cwnd_max: 0,
                active: 0,
                before: None,
                after: None,
            },
        }
    }
}

impl FlowRun {
    /// Where packets of one of its two connections come from and go to.
    #[inline]
    pub fn ends(&self, connection: usize) -> Ends {
        let peer = connection as u32 ^ 1;
        if connection & 1 == 0 {
            Ends { src: self.from, dst: self.to, peer, echo_delay: 0 }
        } else {
            Ends { src: self.to, dst: self.from, peer, echo_delay: self.data_delay }
        }
    }
}

impl Tally {
    /// cwnd is `cwnd` from `now` on (0: no connection).
    #[inline]
    pub fn cwnd(&mut self, now: Nanos, cwnd: u64) {
        if cwnd != self.cwnd {
            self.settle_cwnd(now);
            self.cwnd = cwnd;
            self.cwnd_max = self.cwnd_max.max(cwnd);
        }
    }

    /// The window begins at `now`.
    pub fn begin(&mut self, now: Nanos, snapshot: Snapshot) {
        self.cwnd_area = 0;
        self.active = 0;
        self.cwnd_since = now;
        self.cwnd_max = self.cwnd;
        self.before = Some(snapshot);
    }

    /// The window ends at `now`.
    pub fn end(&mut self, now: Nanos, snapshot: Snapshot) {
        self.settle_cwnd(now);
        self.after = Some(snapshot);
    }

    /// Mean of cwnd over the time it was defined, bytes; None if it never was.
    pub fn cwnd_mean(&self) -> Option<u64> {
        (self.active > 0).then(|| (self.cwnd_area / u128::from(self.active)) as u64)
    }

    fn settle_cwnd(&mut self, now: Nanos) {
        if self.after.is_some() {
            return;
        }
        if self.cwnd > 0 {
            let spent = now - self.cwnd_since;
            self.cwnd_area += u128::from(self.cwnd) * u128::from(spent);
            self.active += spent;
        }
        self.cwnd_since = now;
    }
}
