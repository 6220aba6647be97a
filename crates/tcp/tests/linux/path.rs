//! Two endpoints over one drop-tail queue and a fixed delay.

use std::collections::BTreeMap;

use tcp::endpoint::Config;
use tcp::event::EventKind;
use tcp::stack::{EcnMode, Profile, SocketOptions};
use tcp::{Endpoint, HostClock, Listener, Nanos, SynOutcome};
use wire::{Ecn, Segment};

/// Second in nanoseconds.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// The path and what the hosts do.
pub(crate) struct Path<'a> {
    /// The sender's stack.
    pub sender: &'a dyn Profile,
    /// The receiver's stack.
    pub receiver: &'a dyn Profile,
    /// Congestion control of the sender.
    pub cc: &'a str,
    /// Congestion control of the receiver; empty: the sender's.
    pub accepts: &'a str,
    /// Bottleneck in bits per second of IP packets. None: a packet takes no time.
    pub rate: Option<u64>,
    /// Packets the queue holds besides the one in service.
    pub queue: usize,
    /// Packets waiting from which ECN-capable ones are marked.
    pub mark_at: usize,
    /// Delay of one way.
    pub delay: Nanos,
    /// Time to run after the first SYN.
    pub duration: Nanos,
    /// Buffers set by the applications.
    pub socket: SocketOptions,
    /// Whether the n-th data packet (from 0) with this stream offset is lost.
    pub lose: fn(u64, u64) -> bool,
    /// Bytes the application writes; then it closes.
    pub bytes: u64,
    /// ECN of both hosts.
    pub ecn: EcnMode,
    /// Lag of the receiver's clock behind the sender's.
    pub lag: Nanos,
    /// Segmentation offload at the sender: the path cuts bursts into packets.
    pub tso: bool,
}

impl<'a> Path<'a> {
    /// A path that loses nothing.
    pub(crate) fn new(profile: &'a dyn Profile) -> Path<'a> {
        Path {
            sender: profile,
            receiver: profile,
            cc: "cubic",
            accepts: "",
            rate: None,
            queue: usize::MAX,
            mark_at: usize::MAX,
            delay: 20_000_000,
            duration: 10 * SECOND,
            socket: SocketOptions::default(),
            lose: |_, _| false,
            bytes: u64::MAX,
            ecn: EcnMode::Accept,
            lag: 370_000,
            tso: false,
        }
    }
}

/// The sender after an input that changed something of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    /// Time since the first SYN.
    pub t: Nanos,
    /// Packets.
    pub cwnd: u32,
    /// Packets; u32::MAX: none yet.
    pub ssthresh: u32,
    /// Packets sent again so far.
    pub retransmits: u64,
    /// Phase of the sender.
    pub phase: tcp::cc::Phase,
}

/// Outcome of a run.
#[derive(Default)]
pub(crate) struct Run {
    /// The sender's changes.
    pub moments: Vec<Moment>,
    /// The sender's reports: when, what, sequence number, value.
    pub events: Vec<(Nanos, EventKind, u64, i64)>,
    /// Every segment of the sender, before it is cut into packets.
    pub sent: Vec<(Nanos, Segment)>,
    /// Every segment of the receiver.
    pub answers: Vec<(Nanos, Segment)>,
    /// Payload the receiving application has read.
    pub read: u64,
    /// Data packets lost.
    pub drops: u64,
    /// Whether each data packet was marked, in the order in which they arrive.
    pub marked: Vec<bool>,
    /// Data packets marked.
    pub marks: u64,
}

enum What {
    /// A packet leaves the queue.
    Leaves,
    /// The segment of this number arrives.
    AtReceiver(usize),
    AtSender(usize),
    Timers,
}

struct Lab<'a> {
    path: &'a Path<'a>,
    now: Nanos,
    /// Events by time, and at one time in the order in which they were decided.
    agenda: BTreeMap<(Nanos, u64), What>,
    order: u64,
    timer: Nanos,
    a: Endpoint,
    b: Option<Endpoint>,
    left: u64,
    segments: Vec<Segment>,
    free: Nanos,
    waiting: usize,
    counted: u64,
    out: Run,
}

/// Runs one flow.
pub(crate) fn run(path: &Path<'_>) -> Run {
    let a = Endpoint::connect(path.sender, &config(path, path.sender, 5 * SECOND, 1000), 0);
    let mut lab = Lab {
        path,
        now: 0,
        agenda: BTreeMap::new(),
        order: 0,
        timer: Nanos::MAX,
        a,
        b: None,
        left: path.bytes,
        segments: Vec::new(),
        free: 0,
        waiting: 0,
        counted: 0,
        out: Run::default(),
    };
    lab.settle();
    while let Some(((at, _), what)) = lab.agenda.pop_first() {
        if at > path.duration {
            break;
        }
        lab.now = at;
        lab.handle(what);
    }
    lab.out
}

fn config<'a>(path: &Path<'a>, profile: &dyn Profile, phase: Nanos, iss: u32) -> Config<'a> {
    Config {
        clock: HostClock::new(profile.spec().hz, phase, 0),
        ip_header: 20,
        known: Default::default(),
        mss: 1460,
        ecn: path.ecn,
        tso: path.tso,
        socket: path.socket,
        cc: path.cc,
        iss,
        veth: false,
        timestamp_offset: 0,
        random: 1,
    }
}

impl Lab<'_> {
    fn post(&mut self, at: Nanos, what: What) {
        self.order += 1;
        self.agenda.insert((at, self.order), what);
    }

    fn handle(&mut self, what: What) {
        match what {
            What::Leaves => {
                self.waiting -= 1;
                return;
            }
            What::AtReceiver(index) => {
                let segment = self.segments[index];
                if let Some(b) = &mut self.b {
                    b.on_segment(self.now, &segment);
                } else {
                    let path = self.path;
                    let mut config = config(path, path.receiver, 7 * SECOND + 1_000_000 - path.lag, 77);
                    if !path.accepts.is_empty() {
                        config.cc = path.accepts;
                    }
                    let outcome = Listener::new(path.receiver).on_segment(self.now, &segment, &config);
                    if let SynOutcome::Connection(b) = outcome {
                        self.b = Some(*b);
                    }
                }
            }
            What::AtSender(index) => {
                let segment = self.segments[index];
                self.a.on_segment(self.now, &segment);
            }
            // One that was overtaken.
            What::Timers if self.now != self.timer => return,
            What::Timers => {
                self.timer = Nanos::MAX;
                self.a.on_timer(self.now);
                if let Some(b) = &mut self.b {
                    b.on_timer(self.now);
                }
            }
        }
        self.settle();
    }

    /// Everything that follows from an input at once.
    fn settle(&mut self) {
        loop {
            let taken = if self.left > 0 { self.a.write(self.left) } else { 0 };
            self.left -= taken;
            if self.left == 0 && taken > 0 {
                self.a.shutdown(self.now);
            }
            let mut any = taken > 0;
            while let Some(segment) = self.a.poll_transmit(self.now) {
                any = true;
                self.a.on_tx_complete(self.now, segment.len);
                self.out.sent.push((self.now, segment));
                self.cut(segment);
            }
            if !any {
                break;
            }
        }
        self.answer();
        if let Some(b) = &mut self.b {
            self.out.read += b.read(self.now, u64::MAX);
        }
        self.answer();
        let b_next = self.b.as_ref().and_then(Endpoint::next_timer);
        if let Some(at) = [self.a.next_timer(), b_next].into_iter().flatten().min()
            && at < self.timer
        {
            self.timer = at.max(self.now);
            self.post(self.timer, What::Timers);
        }
        self.observe();
    }

    /// A burst becomes packets of the MSS.
    fn cut(&mut self, segment: Segment) {
        let mss = self.a.info(self.now).snd_mss;
        let mut rest = segment;
        while rest.len > mss {
            let mut packet = rest;
            packet.len = mss;
            packet.flags.0 &= !(wire::Flags::FIN.0 | wire::Flags::PSH.0);
            self.enqueue(packet);
            rest.len -= mss;
            rest.seq = rest.seq.wrapping_add(mss);
            rest.offset += u64::from(mss);
        }
        self.enqueue(rest);
    }

    fn enqueue(&mut self, mut segment: Segment) {
        if segment.len > 0 {
            self.counted += 1;
            if (self.path.lose)(self.counted - 1, segment.offset) || self.waiting > self.path.queue {
                self.out.drops += 1;
                return;
            }
        }
        if self.waiting >= self.path.mark_at && segment.ecn != Ecn::NotEct {
            segment.ecn = Ecn::Ce;
        }
        if segment.len > 0 {
            self.out.marked.push(segment.ecn == Ecn::Ce);
            self.out.marks += u64::from(segment.ecn == Ecn::Ce);
        }
        self.waiting += 1;
        let bits = u64::from(20 + segment.tcp_bytes()) * 8;
        self.free = self.free.max(self.now) + self.path.rate.map_or(0, |rate| bits * SECOND / rate);
        self.segments.push(segment);
        self.post(self.free, What::Leaves);
        self.post(self.free + self.path.delay, What::AtReceiver(self.segments.len() - 1));
    }

    fn answer(&mut self) {
        while let Some(segment) = self.b.as_mut().and_then(|b| b.poll_transmit(self.now)) {
            self.out.answers.push((self.now, segment));
            self.segments.push(segment);
            self.post(self.now + self.path.delay, What::AtSender(self.segments.len() - 1));
        }
    }

    fn observe(&mut self) {
        for event in self.a.events().drain() {
            self.out.events.push((self.now, event.kind, event.seq, event.value));
        }
        let info = self.a.info(self.now);
        let mss = u64::from(info.snd_mss);
        let moment = Moment {
            t: self.now,
            cwnd: (info.sender.cwnd / mss) as u32,
            ssthresh: info.sender.ssthresh.map_or(u32::MAX, |bytes| (bytes / mss) as u32),
            retransmits: info.retransmits,
            phase: info.sender.phase,
        };
        if self.out.moments.last().is_none_or(|last| Moment { t: self.now, ..*last } != moment) {
            self.out.moments.push(moment);
        }
    }
}

/// Runs one bulk flow for `seconds` over a 40 ms path with a drop-tail queue.
pub(crate) fn bulk(stack: &str, cc: &str, mbps: u64, queue: usize, seconds: u64) -> Run {
    let profile = tcp::profile::find(stack).expect("a stack");
    run(&Path {
        cc,
        rate: Some(mbps * 1_000_000),
        queue,
        duration: seconds * SECOND,
        ..Path::new(profile.as_ref())
    })
}

/// Times when cwnd begins to fall by more than 15 %: reductions. `windows` is (seconds, cwnd).
pub(crate) fn cuts(windows: &[(f64, u32)]) -> Vec<f64> {
    let mut cuts = Vec::new();
    let (mut top, mut falling) = ((0.0, 0u32), false);
    for &(t, cwnd) in windows {
        if cwnd >= top.1 {
            falling &= cwnd == top.1;
            top = (t, cwnd);
        } else if falling {
            top = (t, cwnd);
        } else if u64::from(cwnd) * 100 < u64::from(top.1) * 85 {
            cuts.push(top.0);
            falling = true;
            top = (t, cwnd);
        }
    }
    cuts
}

/// Mean time between reductions later than `from`, over whole pairs, since CUBIC's epochs alternate.
pub(crate) fn mean_period(cuts: &[f64], from: f64) -> f64 {
    let late: Vec<f64> = cuts.iter().copied().filter(|&t| t > from).collect();
    let intervals = (late.len() - 1) / 2 * 2;
    (late[intervals] - late[0]) / intervals as f64
}

/// Payload of a transfer over a link that marks.
pub(crate) const MARKED_BYTES: u64 = 3000 * 1448;

/// Runs a transfer of a congestion control over a link that marks from 12 waiting packets on.
pub(crate) fn marked(cc: &'static str, stack: &str, change: impl FnOnce(&mut Path<'_>)) -> Run {
    let profile = tcp::profile::find(stack).expect("a stack");
    let mut path =
        Path { cc, bytes: MARKED_BYTES, rate: Some(30_000_000), mark_at: 12, ..Path::new(profile.as_ref()) };
    change(&mut path);
    run(&path)
}
