//! Two endpoints over the recordings' path: interfaces of 1 Gb/s, a drop-tail bottleneck and a fixed delay each way.

use std::collections::{BTreeMap, VecDeque};

use tcp::endpoint::Config;
use tcp::event::EventKind;
use tcp::stack::{EcnMode, Profile, SocketOptions};
use tcp::{Endpoint, HostClock, Listener, Nanos, SynOutcome, TcpInfo};
use wire::{Ecn, Segment};

/// Bytes of Ethernet header that rates count.
const ETHERNET: u64 = 14;

/// Rate of both hosts' interfaces.
const NIC: u64 = 1_000_000_000;

/// Bytes that the receiving application reads at most at a time.
const READ: u64 = 65_536;

/// Time without a packet after which the receiver's interface hands on what it has merged, ns.
const GAP: Nanos = 50_000;

/// Loss besides the queue's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    /// None.
    Never,
    /// The first of every n data packets, at the receiver's input.
    Every(u64),
    /// Each data packet with this probability, after the bottleneck.
    Random(f64),
    /// Every data packet from this time after ESTABLISHED on.
    From(Nanos),
}

/// The path and the hosts' settings.
pub(crate) struct Setup<'a> {
    /// The sender's stack.
    pub sender: &'a dyn Profile,
    /// The receiver's stack.
    pub receiver: &'a dyn Profile,
    /// Congestion control.
    pub cc: &'a str,
    /// Bottleneck rate in bits per second.
    pub rate: u64,
    /// Delay there and back.
    pub rtt: Nanos,
    /// Packets the bottleneck's queue holds besides the one in service.
    pub buffer: usize,
    /// Queue length in packets at which ECN-capable packets are marked.
    pub mark_at: Option<usize>,
    /// Loss besides the queue's.
    pub loss: Loss,
    /// Bytes to send, and then a FIN. None: without end.
    pub bytes: Option<u64>,
    /// Socket buffers in bytes. None: autotuning.
    pub buffers: Option<u64>,
    /// Time to run after ESTABLISHED.
    pub duration: Nanos,
    /// ECN of both hosts.
    pub ecn: EcnMode,
    /// Seeds what the congestion control draws.
    pub random: u64,
    /// Local time of the sender's clock at true time 0.
    pub phase: Nanos,
    /// Lag of the receiver's clock behind the sender's.
    pub lag: Nanos,
    /// Segments that the receiver's interface merges at most, of those that follow each other within [`GAP`].
    pub aggregate: u16,
}

/// Moment at which something of the sender changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Time since ESTABLISHED.
    pub t: Nanos,
    /// The sender's figures.
    pub info: TcpInfo,
}

/// Outcome of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The sender after every change of cwnd, ssthresh, phase or the peer's window.
    pub moments: Vec<Moment>,
    /// Times when bottleneck packets were dropped, and their stream offsets.
    pub drops: Vec<(Nanos, u64)>,
    /// Payload the receiver has read.
    pub delivered: u64,
    /// Reports of the sender.
    pub events: Vec<(Nanos, EventKind, u64, i64)>,
    /// Segments of the sender: when, and what.
    pub sent: Vec<(Nanos, Segment)>,
    /// Packets dropped at the receiver's input.
    pub input_drops: u64,
    /// The receiver saw the end of the stream.
    pub complete: bool,
    /// Sender's figures at the end.
    pub end: Option<TcpInfo>,
}

/// Event of a run. Segments wait in a queue of their own for each kind, as none overtakes another.
enum What {
    /// The interface has sent a packet.
    AtQueue,
    /// The bottleneck has sent a packet.
    Served,
    ToReceiver,
    /// The receiver's interface has waited for more to merge since the packet of this number.
    Merged(u64),
    ToSender,
    SenderTimer,
    ReceiverTimer,
}

struct Lab<'a> {
    setup: &'a Setup<'a>,
    now: Nanos,
    /// Events by time, and at one time in the order in which they were decided.
    agenda: BTreeMap<(Nanos, u64), What>,
    order: u64,
    a: Endpoint,
    b: Option<Endpoint>,
    nic_free: Nanos,
    from_nic: VecDeque<Segment>,
    queue: VecDeque<Segment>,
    to_receiver: VecDeque<Segment>,
    to_sender: VecDeque<Segment>,
    merged: Option<Segment>,
    arrivals: u64,
    serving: bool,
    receiver_nic_free: Nanos,
    reverse_free: Nanos,
    established: Option<Nanos>,
    counted: u64,
    written: u64,
    timers: [Nanos; 2],
    out: Outcome,
}

/// Runs one bulk flow.
pub(crate) fn run(setup: &Setup<'_>) -> Outcome {
    let clock = HostClock::new(setup.sender.spec().hz, setup.phase, 0);
    let config = config(setup, clock, 1000);
    let a = Endpoint::connect(setup.sender, &config, 0);
    let mut lab = Lab {
        setup,
        now: 0,
        agenda: BTreeMap::new(),
        order: 0,
        a,
        b: None,
        nic_free: 0,
        from_nic: VecDeque::new(),
        queue: VecDeque::new(),
        to_receiver: VecDeque::new(),
        to_sender: VecDeque::new(),
        merged: None,
        arrivals: 0,
        serving: false,
        receiver_nic_free: 0,
        reverse_free: 0,
        established: None,
        counted: if matches!(setup.loss, Loss::Random(_)) { setup.random << 32 } else { 0 },
        written: 0,
        timers: [Nanos::MAX; 2],
        out: Outcome::default(),
    };
    lab.flush_sender();
    lab.go();
    let now = lab.now;
    lab.out.complete = lab.b.as_ref().is_some_and(Endpoint::at_eof);
    lab.out.end = Some(lab.a.info(now));
    lab.out
}

fn config<'a>(setup: &Setup<'a>, clock: HostClock, iss: u32) -> Config<'a> {
    let buffers = setup.buffers;
    Config {
        clock,
        ip_header: 20,
        known: Default::default(),
        mss: 1460,
        ecn: setup.ecn,
        tso: false,
        socket: SocketOptions { sndbuf: buffers, rcvbuf: buffers },
        cc: setup.cc,
        iss,
        veth: false,
        timestamp_offset: 0,
        random: setup.random,
    }
}

/// Time on the wire at `rate`.
fn wire_time(segment: &Segment, rate: u64) -> Nanos {
    (u64::from(20 + segment.tcp_bytes()) + ETHERNET) * 8 * 1_000_000_000 / rate
}

impl Lab<'_> {
    fn go(&mut self) {
        while let Some(((at, _), what)) = self.agenda.pop_first() {
            if self.established.is_some_and(|t| at > t + self.setup.duration) {
                break;
            }
            self.now = at;
            match what {
                What::AtQueue => {
                    let segment = self.from_nic.pop_front().expect("one a packet");
                    self.enqueue(segment);
                }
                What::Served => self.served(),
                What::ToReceiver => {
                    let segment = self.to_receiver.pop_front().expect("one a packet");
                    self.merge(segment);
                }
                What::Merged(arrival) => {
                    if arrival == self.arrivals
                        && let Some(segment) = self.merged.take()
                    {
                        self.receive(segment);
                    }
                }
                What::ToSender => {
                    let segment = self.to_sender.pop_front().expect("one a packet");
                    self.acknowledge(segment);
                }
                What::SenderTimer => {
                    self.timers[0] = Nanos::MAX;
                    self.a.on_timer(self.now);
                    self.flush_sender();
                }
                What::ReceiverTimer => {
                    self.timers[1] = Nanos::MAX;
                    if let Some(b) = &mut self.b {
                        b.on_timer(self.now);
                    }
                    self.flush_receiver();
                }
            }
        }
    }

    fn at(&mut self, at: Nanos, what: What) {
        self.order += 1;
        self.agenda.insert((at, self.order), what);
    }

    fn enqueue(&mut self, mut segment: Segment) {
        if self.queue.len() >= self.setup.buffer {
            let t = self.now - self.established.unwrap_or(self.now);
            self.out.drops.push((t, segment.offset));
            return;
        }
        let length = self.queue.len() + usize::from(self.serving);
        if self.setup.mark_at.is_some_and(|limit| length >= limit) && segment.ecn != Ecn::NotEct {
            segment.ecn = Ecn::Ce;
        }
        self.queue.push_back(segment);
        if !self.serving {
            self.serve();
        }
    }

    fn serve(&mut self) {
        let Some(segment) = self.queue.pop_front() else { return };
        self.serving = true;
        let done = self.now + wire_time(&segment, self.setup.rate);
        self.at(done, What::Served);
        self.to_receiver.push_back(segment);
        self.at(done + self.setup.rtt / 2, What::ToReceiver);
    }

    fn served(&mut self) {
        self.serving = false;
        self.serve();
    }

    /// Receive aggregation: what follows in sequence becomes one segment.
    fn merge(&mut self, segment: Segment) {
        if self.setup.aggregate <= 1 || segment.len == 0 {
            return self.receive(segment);
        }
        self.arrivals += 1;
        match &mut self.merged {
            Some(held)
                if held.seq.wrapping_add(held.len) == segment.seq && held.frames < self.setup.aggregate =>
            {
                held.len += segment.len;
                held.frames += 1;
                held.flags = segment.flags;
            }
            _ => {
                if let Some(held) = self.merged.replace(segment) {
                    self.receive(held);
                }
            }
        }
        self.at(self.now + GAP, What::Merged(self.arrivals));
    }

    fn receive(&mut self, segment: Segment) {
        if 20 + segment.tcp_bytes() > 80 && self.loses() {
            self.out.input_drops += 1;
            return;
        }
        if let Some(b) = &mut self.b {
            b.on_segment(self.now, &segment);
        } else {
            let clock = HostClock::new(
                self.setup.receiver.spec().hz,
                self.setup.phase + 1_000_000 - self.setup.lag,
                0,
            );
            let config = config(self.setup, clock, 77);
            let listener = Listener::new(self.setup.receiver);
            if let SynOutcome::Connection(b) = listener.on_segment(self.now, &segment, &config) {
                self.b = Some(*b);
            }
        }
        self.flush_receiver();
        while let Some(b) = &mut self.b
            && b.readable() > 0
        {
            self.out.delivered += b.read(self.now, READ);
            self.flush_receiver();
        }
    }

    fn loses(&mut self) -> bool {
        match self.setup.loss {
            Loss::Never => false,
            Loss::From(time) => self.established.is_some_and(|established| self.now >= established + time),
            Loss::Every(n) => {
                self.counted += 1;
                self.counted % n == 1
            }
            Loss::Random(share) => {
                // SplitMix64.
                self.counted = self.counted.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.counted;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 <= share
            }
        }
    }

    fn flush_receiver(&mut self) {
        loop {
            let now = self.now;
            let Some(b) = &mut self.b else { return };
            let Some(segment) = b.poll_transmit(now) else { break };
            self.receiver_nic_free = self.receiver_nic_free.max(now) + wire_time(&segment, NIC);
            self.reverse_free =
                self.reverse_free.max(self.receiver_nic_free) + wire_time(&segment, self.setup.rate);
            let at = self.reverse_free + self.setup.rtt / 2;
            self.to_sender.push_back(segment);
            self.at(at, What::ToSender);
        }
        let next = self.b.as_ref().and_then(Endpoint::next_timer);
        if let Some(at) = next
            && at < self.timers[1]
        {
            self.timers[1] = at;
            self.at(at, What::ReceiverTimer);
        }
    }

    fn acknowledge(&mut self, segment: Segment) {
        self.a.on_segment(self.now, &segment);
        if self.established.is_none() && self.a.state() == tcp::State::Established {
            self.established = Some(self.now);
        }
        self.flush_sender();
    }

    fn flush_sender(&mut self) {
        self.transmit();
        if self.a.state() == tcp::State::Established {
            let wanted = self.setup.bytes.map_or(u64::MAX, |bytes| bytes - self.written);
            let taken = self.a.write(wanted);
            self.written += taken;
            if self.setup.bytes == Some(self.written) {
                self.a.shutdown(self.now);
            }
            if taken > 0 {
                self.transmit();
            }
        }
        let now = self.now;
        let t = now - self.established.unwrap_or(now);
        for event in self.a.events().drain() {
            self.out.events.push((t, event.kind, event.seq, event.value));
        }
        if self.established.is_some() {
            let info = self.a.info(now);
            let changed = self.out.moments.last().is_none_or(|last| {
                let (x, y) = (&last.info.sender, &info.sender);
                (x.cwnd, x.ssthresh, x.phase) != (y.cwnd, y.ssthresh, y.phase)
                    || last.info.snd_wnd != info.snd_wnd
            });
            if changed {
                self.out.moments.push(Moment { t, info });
            }
        }
        if let Some(at) = self.a.next_timer()
            && at < self.timers[0]
        {
            self.timers[0] = at;
            self.at(at, What::SenderTimer);
        }
    }

    fn transmit(&mut self) {
        while let Some(segment) = self.a.poll_transmit(self.now) {
            self.a.on_tx_complete(self.now, segment.len);
            if let Some(established) = self.established {
                self.out.sent.push((self.now - established, segment));
            }
            self.nic_free = self.nic_free.max(self.now) + wire_time(&segment, NIC);
            let at = self.nic_free;
            self.from_nic.push_back(segment);
            self.at(at, What::AtQueue);
        }
    }
}
