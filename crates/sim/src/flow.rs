//! Flow of a run: its application, and its metrics over the measurement window.

use std::collections::VecDeque;

use apps::{Arrivals, Bulk, DATAGRAM_HEADER, End, Incast, Metric, Pinger, Server, Transfers};
use contract::histogram::Histogram;
use contract::ids::{FlowId, HostId};
use contract::scenario::Flow;
use path::Nanos;
use tcp::TcpInfo;
use wire::Segment;

use crate::limits::{Divided, Limits};
use crate::packet::{Ends, Packet};
use crate::socket::Talk;

/// A flow while it runs.
// With many flows memory is what a packet waits for. So what a packet touches comes first, in this order: the first cache line up
// to `needs_report`, then the first three of `tally`.
#[repr(C, align(64))]
pub(crate) struct FlowRun {
    /// Sources and destinations of packets of the flow's two sides: the opening side's, the accepting side's.
    pub ends: [Ends; 2],
    /// Newest packet-pair round trip.
    pub rtt: Option<Nanos>,
    /// Bytes of data packets that have reached the receiving host, with the bottleneck's overhead.
    pub wire: u64,
    /// Per-packet overhead of the link whose capacity `wire_bytes` is compared with.
    pub overhead: u32,
    /// Something has happened to its application that is to be reported.
    pub needs_report: bool,
    /// Length in bytes of the IP header of its packets.
    pub ip_header: u8,
    /// Metrics.
    pub tally: Tally,
    /// Application of the flow.
    pub app: FlowApp,
    /// Limits of the flow.
    pub limits: Limits,
    /// Sending host.
    pub from: HostId,
    /// Receiving host.
    pub to: HostId,
    /// Time when the connection is opened, jitter included.
    pub start: Nanos,
    /// Time when the flow is told to stop.
    pub stop: Option<Nanos>,
    /// Whether the flow ends by itself.
    pub limited: bool,
    /// Whether the flow has been told to stop.
    pub stopped: bool,
    /// Whether the flow's connection is to be opened.
    pub opening: bool,
    /// Whether the flow's completion has been recorded.
    pub completion_told: bool,
    /// Whether the flow's accepting side has been open.
    pub opened: bool,
    /// Metrics that the flow's application has reported since it was last asked.
    pub metrics: Vec<Metric>,
    /// Number of a pinger's round trips that were reported.
    pub pings_told: usize,
    /// The flow in the experiment that this one is a transfer of.
    pub parent: Option<FlowId>,
    /// Transfers it has carried out before.
    pub uses: u32,
    /// Time when the receiver had read everything up to the end of the stream.
    pub completed: Option<Nanos>,
    /// `wire` at the last whole second.
    pub wire_at_second: u64,
    /// Payload read by the receiver at the last whole second.
    pub read_at_second: u64,
    /// Beginning of the first whole second whose goodput was sampled.
    pub seconds_from: Nanos,
    /// Payload read in each second from then on, as long as it is connected.
    pub seconds: Vec<u64>,
}

#[cfg(target_pointer_width = "64")]
const _: () =
    assert!(std::mem::offset_of!(FlowRun, tally) == 64 && std::mem::offset_of!(Tally, ended) < 4 * 64);

impl FlowRun {
    /// Length in bytes of the packet that carries `segment`.
    #[inline(always)]
    pub(crate) fn packet_bytes(&self, segment: &Segment) -> u32 {
        u32::from(self.ip_header) + segment.tcp_bytes()
    }

    /// Length in bytes of the packet that carries a datagram.
    pub(crate) fn datagram_bytes(&self, payload: u32) -> u32 {
        u32::from(self.ip_header) + DATAGRAM_HEADER + payload
    }
}

/// The application of a flow.
pub(crate) enum FlowApp {
    /// Bulk transfer, limited or not.
    Bulk(Bulk),
    /// Another application over one connection.
    Modelled(Pair<Box<dyn End>, Box<dyn End>>),
    /// Server of an incast, and the number of the group it belongs to.
    Incast(Box<Pair<Server, Incast>>, u32),
    /// A flow of data of a loadlatency scenario.
    Load(Box<Pair<Bulk, Arrivals>>),
    /// The pinger of one.
    Pinger(Box<Pair<Pinger, Server>>),
    /// None: the flow's transport sends datagrams by itself.
    Datagrams,
    /// None: both ends of the flow send datagrams by themselves.
    Media,
    /// Transfers over connections of their own.
    Background(Box<Background>),
}

/// The two ends of a connection, and what they say to each other.
pub(crate) struct Pair<O, A> {
    /// Application at the end that opens the connection.
    pub opening: O,
    /// Application at the end that accepts the connection.
    pub accepting: A,
    talk: Talk,
}

impl<O, A> Pair<O, A> {
    /// Two ends that have said nothing.
    pub(crate) fn new(opening: O, accepting: A) -> Pair<O, A> {
        Pair { opening, accepting, talk: Talk::default() }
    }
}

impl FlowApp {
    /// Ends of the flow's one connection, if it is not bulk transfer, which is called directly: the opening one,
    /// the accepting one.
    pub(crate) fn ends(&self) -> Option<[&dyn End; 2]> {
        match self {
            FlowApp::Modelled(Pair { opening, accepting, .. }) => Some([&**opening, &**accepting]),
            FlowApp::Incast(pair, _) => Some([&pair.opening, &pair.accepting]),
            FlowApp::Load(pair) => Some([&pair.opening, &pair.accepting]),
            FlowApp::Pinger(pair) => Some([&pair.opening, &pair.accepting]),
            FlowApp::Bulk(_) | FlowApp::Datagrams | FlowApp::Media | FlowApp::Background(_) => None,
        }
    }

    /// Ends of the flow's one connection, to be given their turns, and what they say.
    pub(crate) fn ends_mut(&mut self) -> Option<([&mut dyn End; 2], &mut Talk)> {
        match self {
            FlowApp::Modelled(Pair { opening, accepting, talk }) => {
                Some(([&mut **opening, &mut **accepting], talk))
            }
            FlowApp::Incast(pair, _) => Some(pair.ends()),
            FlowApp::Load(pair) => Some(pair.ends()),
            FlowApp::Pinger(pair) => Some(pair.ends()),
            FlowApp::Bulk(_) | FlowApp::Datagrams | FlowApp::Media | FlowApp::Background(_) => None,
        }
    }
}

impl<O: End, A: End> Pair<O, A> {
    fn ends(&mut self) -> ([&mut dyn End; 2], &mut Talk) {
        ([&mut self.opening, &mut self.accepting], &mut self.talk)
    }
}

/// Poisson arrivals of transfers.
pub(crate) struct Background {
    /// Draws of transfers.
    pub draws: Transfers,
    /// Size of the one whose arrival is the next event. None before the flow begins.
    pub next: Option<u64>,
    /// Flows for its transfers.
    pub transfers: Vec<FlowId>,
    /// Flows without a transfer.
    pub free: Vec<FlowId>,
    /// Transfers that wait for one: (arrival, size).
    pub waiting: VecDeque<(Nanos, u64)>,
    /// Totals of finished transfers.
    pub finished: Snapshot,
}

/// Mean over time of a metric that changes now and then; 0 while it is not defined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeMean {
    value: u64,
    since: Nanos,
    area: u128,
    /// Time over which the metric was defined.
    pub time: Nanos,
}

impl TimeMean {
    /// The metric is `value` from `now` on; true if it was another before.
    #[inline]
    fn set(&mut self, now: Nanos, value: u64) -> bool {
        if value == self.value {
            return false;
        }
        self.settle(now);
        self.value = value;
        true
    }

    fn settle(&mut self, now: Nanos) {
        if self.value > 0 {
            let spent = now - self.since;
            self.area += u128::from(self.value) * u128::from(spent);
            self.time += spent;
        }
        self.since = now;
    }

    /// Forgets the time before `now`.
    fn begin(&mut self, now: Nanos) {
        (self.area, self.time, self.since) = (0, 0, now);
    }

    /// None if the metric never was defined.
    pub(crate) fn mean(&self) -> Option<u64> {
        (self.time > 0).then(|| (self.area / u128::from(self.time)) as u64)
    }
}

/// Counts over the measurement window. What packets raise comes first; see [`FlowRun`].
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Tally {
    /// Time data packets spent in queues.
    pub queue_delay: Histogram,
    /// Round trips of packet pairs.
    pub rtt: Histogram,
    /// Bytes of data packets that arrived, with the bottleneck's overhead.
    pub wire_bytes: u64,
    /// Largest cwnd.
    pub cwnd_max: u64,
    /// Congestion window in bytes.
    pub cwnd: TimeMean,
    /// Smoothed RTT of the sender's TCP, in ns.
    pub srtt: TimeMean,
    /// The window is over.
    ended: bool,
    /// Times from the start of a transfer to its end.
    pub completion: Histogram,
    /// Times from request to response.
    pub response: Histogram,
    /// Rounds of an incast, counted at the flow that answers last.
    pub round: Histogram,
    /// One-way delays of datagrams.
    pub one_way: Histogram,
    /// Times in which a player had nothing to show.
    pub stalls: u64,
    /// Sum of these times.
    pub stalled: Nanos,
    /// Packets lost on the way, data and acknowledgements.
    pub drops: u64,
    /// Packets marked.
    pub ce_marks: u64,
    /// Timeouts.
    pub rtos: u64,
    /// Entries into fast recovery.
    pub recoveries: Vec<Nanos>,
    /// Time when slow start first ended, whether inside the window or not.
    pub slow_start_exit: Option<Nanos>,
    /// Metrics at the start of the window.
    pub before: Option<Snapshot>,
    /// Metrics at the end of the window.
    pub after: Option<Snapshot>,
}

/// Running totals at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    /// Payload read by the receiving application.
    pub read: u64,
    /// Data segments sent, as the wire has them.
    pub segments: u64,
    /// Data segments that were sent again.
    pub retransmits: u64,
    /// Time under each limit.
    pub limited: Divided,
}

impl Snapshot {
    /// Totals of a connection: the sender's metrics and the receiver's, and what limited it.
    pub(crate) fn new(sender: Option<&TcpInfo>, read: u64, limited: Divided) -> Snapshot {
        Snapshot {
            read,
            segments: sender.map_or(0, |i| i.data_segments_out),
            retransmits: sender.map_or(0, |i| i.retransmits),
            limited,
        }
    }
}

impl std::ops::AddAssign for Snapshot {
    fn add_assign(&mut self, other: Snapshot) {
        self.read += other.read;
        self.segments += other.segments;
        self.retransmits += other.retransmits;
        self.limited += other.limited;
    }
}

impl FlowRun {
    /// The flow `id`, which will start at `start`.
    pub(crate) fn new(
        id: FlowId,
        flow: &Flow,
        app: FlowApp,
        [from, to]: [HostId; 2],
        start: Nanos,
        ip_header: u8,
        mantissa_bits: u32,
    ) -> FlowRun {
        FlowRun {
            from,
            to,
            start,
            stop: flow.stop_ns,
            app,
            limits: Limits::default(),
            limited: flow.app.is_limited(),
            stopped: false,
            opening: true,
            completion_told: false,
            opened: false,
            needs_report: false,
            ip_header,
            metrics: Vec::new(),
            pings_told: 0,
            parent: None,
            uses: 0,
            completed: None,
            ends: [
                Ends { src: from, dst: to, peer: id.accepting(), echo_delay: 0 },
                Ends { src: to, dst: from, peer: id.opening(), echo_delay: 0 },
            ],
            overhead: 0,
            rtt: None,
            wire: 0,
            wire_at_second: 0,
            read_at_second: 0,
            seconds_from: 0,
            seconds: Vec::new(),
            tally: Tally {
                completion: Histogram::new(mantissa_bits),
                response: Histogram::new(mantissa_bits),
                round: Histogram::new(mantissa_bits),
                one_way: Histogram::new(mantissa_bits),
                stalls: 0,
                stalled: 0,
                rtt: Histogram::new(mantissa_bits),
                queue_delay: Histogram::new(mantissa_bits),
                wire_bytes: 0,
                drops: 0,
                ce_marks: 0,
                rtos: 0,
                recoveries: Vec::new(),
                slow_start_exit: None,
                cwnd: TimeMean::default(),
                srtt: TimeMean::default(),
                cwnd_max: 0,
                ended: false,
                before: None,
                after: None,
            },
        }
    }
}

impl FlowRun {
    /// A packet of the flow reaches its host at `now`; `measured`: inside the measurement window.
    #[inline(always)]
    pub(crate) fn note_arrival(&mut self, packet: &Packet, now: Nanos, measured: bool) {
        let delay = now - packet.sent_at;
        if !packet.connection.is_opening() {
            if packet.segment.len > 0 {
                self.ends[1].echo_delay = delay;
                let wire = u64::from(packet.bytes + self.overhead);
                self.wire += wire;
                if measured {
                    self.tally.wire_bytes += wire;
                    self.tally.queue_delay.add(packet.queue_delay);
                }
            }
        } else if packet.echo_delay > 0 {
            let rtt = packet.echo_delay + delay;
            self.rtt = Some(rtt);
            if measured {
                self.tally.rtt.add(rtt);
            }
        }
    }
}

impl Tally {
    /// Congestion window and smoothed RTT from `now` on (0: no connection, no sample so far).
    #[inline]
    pub(crate) fn state(&mut self, now: Nanos, cwnd: u64, srtt: Nanos) {
        if self.ended {
            return;
        }
        if self.cwnd.set(now, cwnd) {
            self.cwnd_max = self.cwnd_max.max(cwnd);
        }
        self.srtt.set(now, srtt);
    }

    /// The window begins at `now`.
    pub(crate) fn begin(&mut self, now: Nanos, snapshot: Snapshot) {
        self.cwnd.begin(now);
        self.srtt.begin(now);
        self.cwnd_max = self.cwnd.value;
        self.before = Some(snapshot);
    }

    /// The window ends at `now`.
    pub(crate) fn end(&mut self, now: Nanos, snapshot: Snapshot) {
        self.cwnd.settle(now);
        self.srtt.settle(now);
        self.ended = true;
        self.after = Some(snapshot);
    }

    /// Adds what was counted of a transfer of this flow.
    pub(crate) fn merge(&mut self, other: &Tally) {
        for (all, more) in [
            (&mut self.rtt, &other.rtt),
            (&mut self.queue_delay, &other.queue_delay),
            (&mut self.completion, &other.completion),
        ] {
            all.merge(more);
        }
        self.wire_bytes += other.wire_bytes;
        self.drops += other.drops;
        self.ce_marks += other.ce_marks;
        self.rtos += other.rtos;
        self.recoveries.extend(&other.recoveries);
        self.srtt.area += other.srtt.area;
        self.srtt.time += other.srtt.time;
    }
}
