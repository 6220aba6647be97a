//! Two endpoints over one drop-tail queue and a fixed delay, for tests of Linux.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tcp::endpoint::Config;
use tcp::event::EventKind;
use tcp::profile::{EcnMode, Profile, SocketOptions};
use tcp::{Answer, Endpoint, HostClock, Listener, Nanos};
use wire::Segment;

/// The path and what the hosts do.
pub struct Path<'a> {
    /// The sender's stack.
    pub sender: &'a dyn Profile,
    /// The receiver's stack.
    pub receiver: &'a dyn Profile,
    /// Congestion control.
    pub cc: &'a str,
    /// Bottleneck in bits per second of IP packets; None: a packet takes no time.
    pub rate: Option<u64>,
    /// Packets the queue holds besides the one in service.
    pub queue: usize,
    /// One way.
    pub delay: Nanos,
    /// From the first SYN.
    pub duration: Nanos,
    /// Buffers set by the applications.
    pub socket: SocketOptions,
    /// Whether the n-th data packet (from 0) with this stream offset is lost.
    pub lose: fn(u64, u64) -> bool,
    /// Bytes the application writes; then it closes.
    pub bytes: u64,
    /// ECN of both hosts.
    pub ecn: EcnMode,
}

impl<'a> Path<'a> {
    /// A path that loses nothing.
    pub fn new(profile: &'a dyn Profile) -> Path<'a> {
        Path {
            sender: profile,
            receiver: profile,
            cc: "cubic",
            rate: None,
            queue: usize::MAX,
            delay: 20_000_000,
            duration: 10_000_000_000,
            socket: SocketOptions::default(),
            lose: |_, _| false,
            bytes: u64::MAX,
            ecn: EcnMode::Accept,
        }
    }
}

/// The sender after an input that changed something of it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub t: Nanos,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub retransmits: u64,
    pub phase: tcp::sender::Phase,
}

/// What happened.
#[derive(Default)]
pub struct Run {
    pub moments: Vec<Moment>,
    pub events: Vec<(Nanos, EventKind, u64, i64)>,
    /// Data segments: when, offset, length.
    pub sent: Vec<(Nanos, u64, u32)>,
    /// ACKs the receiver sent: when, and how many bytes each newly acknowledged.
    pub acks: Vec<(Nanos, u32)>,
    pub read: u64,
    pub drops: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Leaves(usize),
    ToReceiver(usize),
    ToSender(usize),
    Timers,
}

/// Runs one flow.
pub fn run(path: &Path<'_>) -> Run {
    let mut out = Run::default();
    let clock = |profile: &dyn Profile, phase| HostClock::new(profile.facts().hz, phase, 0);
    let config = |clock, iss| Config {
        clock,
        mss: 1460,
        ecn: path.ecn,
        tso: false,
        socket: path.socket,
        cc: path.cc,
        iss,
        timestamp_offset: 0,
        random: 1,
    };
    let mut a = Endpoint::connect(path.sender, &config(clock(path.sender, 5_000_000_000), 1000), 0);
    let mut b: Option<Endpoint> = None;
    let mut segments: Vec<Segment> = Vec::new();
    let mut agenda: BinaryHeap<Reverse<(Nanos, u64, What)>> = BinaryHeap::new();
    let mut order = 0;
    let (mut free, mut waiting, mut data, mut acked) = (0u64, 0usize, 0u64, 0u32);
    let mut left = path.bytes;
    let mut timer = 0;
    agenda.push(Reverse((0, 0, What::Timers)));
    while let Some(Reverse((now, _, what))) = agenda.pop() {
        if now > path.duration {
            break;
        }
        match what {
            What::Leaves(_) => waiting -= 1,
            What::ToReceiver(index) => {
                let segment = segments[index];
                match &mut b {
                    Some(b) => b.on_segment(now, &segment),
                    None => {
                        let listener = Listener::new(path.receiver);
                        let config = config(clock(path.receiver, 7_000_370_000), 77);
                        if let Answer::Connection(made) = listener.on_segment(now, &segment, &config) {
                            b = Some(*made);
                        }
                    }
                }
            }
            What::ToSender(index) => {
                let segment = segments[index];
                a.on_segment(now, &segment);
            }
            // Overtaken by an earlier one.
            What::Timers if now != timer => continue,
            What::Timers => {
                timer = Nanos::MAX;
                a.on_timer(now);
                if let Some(b) = &mut b {
                    b.on_timer(now);
                }
            }
        }
        let mut post = |at, what| {
            order += 1;
            agenda.push(Reverse((at, order, what)));
        };
        loop {
            let taken = if left > 0 { a.write(left) } else { 0 };
            left -= taken;
            if left == 0 && taken > 0 {
                a.shutdown(now);
            }
            let mut any = taken > 0;
            while let Some(segment) = a.poll_transmit(now) {
                any = true;
                segments.push(segment);
                let index = segments.len() - 1;
                if segment.len > 0 {
                    data += 1;
                    out.sent.push((now, segment.offset, segment.len));
                    if (path.lose)(data - 1, segment.offset) || waiting > path.queue {
                        out.drops += 1;
                        continue;
                    }
                }
                waiting += 1;
                let time = path.rate.map_or(0, |rate| u64::from(segment.ip_bytes()) * 8_000_000_000 / rate);
                free = free.max(now) + time;
                post(free, What::Leaves(index));
                post(free + path.delay, What::ToReceiver(index));
            }
            a.on_tx_complete(now, u32::MAX);
            if let Some(b) = &mut b {
                let mut drain = |b: &mut Endpoint| {
                    while let Some(segment) = b.poll_transmit(now) {
                        let newly = segment.ack.wrapping_sub(acked);
                        acked = segment.ack;
                        out.acks.push((now, newly));
                        segments.push(segment);
                        post(now + path.delay, What::ToSender(segments.len() - 1));
                    }
                };
                drain(b);
                out.read += b.read(now, u64::MAX);
                drain(b);
            }
            if !any {
                break;
            }
        }
        let b_next = b.as_ref().and_then(Endpoint::next_timer);
        if let Some(at) = [a.next_timer(), b_next].into_iter().flatten().min()
            && at < timer
        {
            timer = at.max(now);
            post(timer, What::Timers);
        }
        for event in a.events().drain() {
            out.events.push((now, event.kind, event.seq, event.value));
        }
        let info = a.info(now);
        let mss = u64::from(info.snd_mss);
        let moment = Moment {
            t: now,
            cwnd: (info.sender.cwnd / mss) as u32,
            ssthresh: info.sender.ssthresh.map_or(u32::MAX, |bytes| (bytes / mss) as u32),
            retransmits: info.retransmits,
            phase: info.sender.phase,
        };
        let same = |m: &Moment| {
            (m.cwnd, m.ssthresh, m.retransmits, m.phase)
                == (moment.cwnd, moment.ssthresh, moment.retransmits, moment.phase)
        };
        if !out.moments.last().is_some_and(same) {
            out.moments.push(moment);
        }
    }
    out
}

/// When cwnd begins to fall by more than 15 %: a reduction. `windows` is (seconds, cwnd).
pub fn cuts(windows: &[(f64, u32)]) -> Vec<f64> {
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
pub fn mean_period(cuts: &[f64], from: f64) -> f64 {
    let late: Vec<f64> = cuts.iter().copied().filter(|&t| t > from).collect();
    let intervals = (late.len() - 1) / 2 * 2;
    (late[intervals] - late[0]) / intervals as f64
}
