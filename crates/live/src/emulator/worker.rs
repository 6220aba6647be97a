//! A thread of the emulator: takes packets in, hands them to the links at their times, sends them on when they are due.
//!
//! Everything happens in the order of packets' times, whenever the thread gets to run: packets that came in meanwhile,
//! samples and changes of the schedule that were due meanwhile. Times are CLOCK_MONOTONIC less the start of the
//! emulator.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use path::{Counters, Link, LinkChange, Nanos, Switch, Xoshiro256PlusPlus};
use sim::histogram::Histogram;
use sim::scenario::IngressStage;
use wire::capture::LinkType;
use wire::pcap;

use super::frame::{self, Frame, Headers};
use super::line::{Common, Exit, Line};
use super::port::{BATCH, Input, Output};
use super::{LATE, Shared};
use crate::sys::{self, Waker};

/// Packets taken in before those that are due are sent.
const TAKEN: usize = 256;
/// A thread that waits for a packet to be due wakes so much earlier and looks at the clock until then: what waking takes.
const SPIN: Nanos = 20_000;
/// Above this many packets a second the thread sleeps at least [`NAP`] between batches, to leave processors to others.
/// A packet counts at each of its hops: 100 Mbps over three hops, data and ACKs, is some 40,000 and not yet too many.
const BUSY: u64 = 55_000;
/// See [`BUSY`]: at 1 Gbps eight packets of 1500 bytes leave together.
const NAP: Nanos = 80_000;
/// A thread that found no time to sleep for so long sleeps for [`BREATH`] all the same: the kernel takes the processor from
/// real-time threads that use more than 95 % of a second (sched_rt_runtime_us), for the 50 ms that are left of it.
const BREATHLESS: Nanos = 1_000_000;
/// See [`BREATHLESS`].
const BREATH: Nanos = 70_000;
/// Longest sleep: the flags of the other threads are looked at, live figures and clock offset kept fresh.
const IDLE: Nanos = 50_000_000;
/// Packets of a link with at least this delay need not wake the thread when they arrive.
const PATIENT: Nanos = 2_000_000;
/// How long they may stay in the ring.
const PATIENCE: Nanos = 1_000_000;
/// Between looks at the clocks' offset and the sockets' drops.
const HOUSEKEEPING: Nanos = 1_000_000_000;

/// One way through a cable.
pub(super) struct Direction {
    /// Where packets come in.
    pub(super) input: Input,
    /// Where they go out.
    pub(super) output: Output,
    /// What lies between.
    pub(super) hop: Hop,
    /// The sending host's netem, before the link, with its packets.
    pub(super) egress: Option<(u32, Link<Frame>, Line)>,
    /// What the receiving host's wire does to packets, behind the link.
    pub(super) gate: Option<Gate>,
    /// Packets between the link and the far end.
    pub(super) line: Line,
    /// Number of the link as a hop; None: packets cross at once.
    pub(super) link: Option<u32>,
    /// Its queue is sampled.
    pub(super) observe: bool,
    /// Overhead, of a bottleneck.
    pub(super) bottleneck: Option<u32>,
    /// Larger super-packets are cut.
    pub(super) mtu: u32,
    /// No packet takes less time to the far end.
    pub(super) least_delay: Nanos,
    /// No packet ever will.
    pub(super) ever_least_delay: Nanos,
    /// Counters of the link at the ends of the measurement window.
    pub(super) window: [Option<Counters>; 2],
    /// The loss of the link at the beginning, to begin again with.
    pub(super) loss: Option<path::LossConfig>,
    /// Where what enters is written.
    pub(super) tap: Option<Tap>,
    /// When the last packet came in.
    pub(super) last_arrival: Nanos,
}

impl Direction {
    /// What lies between the ends, and somewhere to put what comes out of it.
    #[inline]
    fn parts<'a>(&'a mut self, common: &'a mut Common) -> (&'a mut Hop, Exit<'a>) {
        let (hop, bottleneck) = (self.link.unwrap_or(0), self.bottleneck);
        (&mut self.hop, Exit { line: &mut self.line, common, hop, bottleneck })
    }
}

/// Impairments of packets that match, behind a link.
pub(super) struct Gate {
    pub(super) hop: u32,
    pub(super) link: Link<Frame>,
    pub(super) rule: IngressStage,
    /// What has just passed.
    pub(super) passed: Line,
}

/// The random stream of a purpose at a link, by its number.
type Streams = dyn Fn(u32, &str) -> Xoshiro256PlusPlus + Send;

/// What lies between two ends.
pub(super) enum Hop {
    /// Nothing.
    Wire,
    /// A link.
    Link(Box<Link<Frame>>),
    /// A port of a switch of the thread.
    Port {
        /// Which switch.
        switch: usize,
        /// Which of its ports.
        port: usize,
    },
}

/// A switch, and the directions that are its ports.
pub(super) struct SwitchRun {
    pub(super) switch: Switch<Frame>,
    /// By port: which direction.
    pub(super) outgoing: Vec<usize>,
    /// Directions that lead to it, and how long a pause frame takes to their near ends.
    pub(super) incoming: Vec<(usize, Nanos)>,
}

/// A capture: packets are put together here and written by another thread.
pub(super) struct Tap {
    pub(super) pcap: pcap::Writer<Vec<u8>>,
    pub(super) snaplen: u32,
    pub(super) file: Sender<Piece>,
}

/// What is to be done with the file of a capture.
pub(super) enum Piece {
    /// These bytes come next.
    Next(Vec<u8>),
    /// What was written is no more; it begins again.
    Restart,
}

impl Tap {
    /// Bytes handed to the other thread at a time.
    const PIECE: usize = 1 << 18;

    /// A new, empty capture.
    pub(super) fn new(snaplen: u32, file: Sender<Piece>) -> Tap {
        Tap { pcap: Self::writer(snaplen), snaplen, file }
    }

    fn writer(snaplen: u32) -> pcap::Writer<Vec<u8>> {
        pcap::Writer::new(Vec::new(), LinkType::RAW, snaplen).expect("a Vec takes everything")
    }

    /// t = 0 is elsewhere.
    fn restart(&mut self) {
        self.pcap = Self::writer(self.snaplen);
        let _ = self.file.send(Piece::Restart);
    }

    /// An IP packet, at a time since t = 0.
    fn packet(&mut self, t: Nanos, bytes: &[u8]) {
        // A Vec takes everything.
        let _ = self.pcap.packet(t, bytes.len() as u32, bytes);
        if self.pcap.get_mut().len() >= Self::PIECE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let next = Vec::with_capacity(Self::PIECE + (1 << 16));
        // If the file cannot be written, its thread has ended and says why.
        let _ = self.file.send(Piece::Next(std::mem::replace(self.pcap.get_mut(), next)));
    }
}

/// A change of the schedule, relative to t = 0.
pub(super) struct Change {
    pub(super) at: Nanos,
    pub(super) direction: usize,
    pub(super) change: LinkChange,
}

/// What a thread counted of itself.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) other_frames: u64,
    /// Lateness of each packet.
    pub(super) late: Histogram,
    /// Packets that left too late.
    pub(super) too_late: u64,
    pub(super) socket_drops: u64,
    pub(super) unintended_drops: u64,
    /// Times that an interface went down or away.
    pub(super) failures: u64,
}

impl Watch {
    /// Adds what another thread counted.
    pub(super) fn merge(&mut self, other: &Watch) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.other_frames += other.other_frames;
        self.late.merge(&other.late);
        self.too_late += other.too_late;
        self.socket_drops += other.socket_drops;
        self.unintended_drops += other.unintended_drops;
        self.failures += other.failures;
    }

    pub(super) fn new() -> Watch {
        Watch {
            packets: 0,
            bytes: 0,
            other_frames: 0,
            late: Histogram::new(6),
            too_late: 0,
            socket_drops: 0,
            unintended_drops: 0,
            failures: 0,
        }
    }
}

/// A thread's part of the emulator.
pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) waker: Arc<Waker>,
    pub(super) polled: Vec<libc::pollfd>,
    pub(super) directions: Vec<Direction>,
    pub(super) switches: Vec<SwitchRun>,
    pub(super) common: Common,
    pub(super) watch: Watch,
    /// Changes in order of time, and how many were made.
    pub(super) schedule: Vec<Change>,
    pub(super) changed: usize,
    /// Between samples of queues; None: none are taken.
    pub(super) sampling: Option<Nanos>,
    pub(super) next_sample: Nanos,
    /// The measurement window relative to t = 0, and how many of its ends are behind.
    pub(super) measure: [Nanos; 2],
    pub(super) measured: usize,
    /// t = 0; none happens before it is known.
    pub(super) zero: Nanos,
    /// The t = 0 that was asked for, if it is ahead.
    pub(super) next_zero: Option<Nanos>,
    /// Everything up to here has happened.
    pub(super) clock: Nanos,
    /// CLOCK_REALTIME less the time here.
    pub(super) offset: Nanos,
    pub(super) next_housekeeping: Nanos,
    /// Pause frames on their way, in order of time: to which direction.
    pub(super) pauses: VecDeque<(Nanos, usize, bool)>,
    /// Packets in the batch that is put together.
    pub(super) batch: Vec<(Nanos, Frame)>,
    pub(super) scratch: Vec<u8>,
    /// Since when `recent` packets have been sent.
    pub(super) recent_since: Nanos,
    /// When the thread last went to sleep.
    pub(super) rested: Nanos,
    pub(super) recent: u64,
    pub(super) busy: bool,
    pub(super) streams: Box<Streams>,
}

impl Worker {
    /// Works until told to stop.
    pub(super) fn run(mut self) -> Worker {
        while !self.shared.stop.load(Ordering::Acquire) {
            self.mark();
            let now = self.now();
            let horizon = self.take_arrivals(now);
            self.advance(horizon);
            self.deliver();
            if self.next_housekeeping <= now {
                self.keep_house(now);
            }
            self.show();
            self.rest();
        }
        let end = self.now();
        self.advance(end);
        if self.measured == 1 {
            // Stopped within the measurement window.
            self.measure_links(end);
        }
        self.count_socket_drops();
        self
    }

    /// Hands over what is left of captures, and their files with it.
    pub(super) fn close_captures(&mut self) {
        for direction in &mut self.directions {
            if let Some(mut tap) = direction.tap.take() {
                tap.flush();
            }
        }
    }

    fn now(&self) -> Nanos {
        sys::monotonic() - self.shared.base
    }

    /// A new t = 0 was asked for.
    fn mark(&mut self) {
        let asked = self.shared.zero.load(Ordering::Acquire);
        if asked != 0 && self.zero != asked {
            self.next_zero = Some(asked);
        }
    }

    /// Hands packets that came in to their links, in order of time; returns up to when all are.
    fn take_arrivals(&mut self, now: Nanos) -> Nanos {
        for _ in 0..TAKEN {
            match self.first_arrival(now) {
                None => return now,
                Some((at, Source::Input(index))) => {
                    // Stamped by another clock, and maybe before something that was done too early.
                    let latest = if at > now { self.now() } else { now };
                    let at = at.clamp(self.clock, latest.max(self.clock));
                    self.come_to(at);
                    self.receive(index, at);
                }
                Some((at, Source::Egress(index))) => {
                    self.come_to(at);
                    self.leave_egress(index, at);
                }
            }
        }
        self.first_arrival(now).map_or(now, |(at, _)| at.min(now))
    }

    /// The earliest packet that came in, or leaves a host's netem by `now`.
    #[inline]
    fn first_arrival(&self, now: Nanos) -> Option<(Nanos, Source)> {
        let mut first = None;
        for (index, direction) in self.directions.iter().enumerate() {
            let input =
                direction.input.head().map(|at| (at.saturating_sub(self.offset), Source::Input(index)));
            let line = direction.egress.as_ref().and_then(|(_, _, line)| line.next());
            let egress = line.filter(|&at| at <= now).map(|at| (at, Source::Egress(index)));
            for found in [input, egress].into_iter().flatten() {
                if first.is_none_or(|(at, _)| found.0 < at) {
                    first = Some(found);
                }
            }
        }
        first
    }

    /// Everything that is due at or before `t` happens: links, samples, changes.
    fn advance(&mut self, t: Nanos) {
        let t = t.max(self.clock);
        self.come_to(t);
        self.run_links(t);
    }

    /// Everything but links happens that is due at or before `t`, and links as far as that depends on them. From now on
    /// it is `t`.
    #[inline]
    fn come_to(&mut self, t: Nanos) {
        while let Some(at) = self.next_special().filter(|&at| at <= t) {
            self.special(at.max(self.clock));
        }
        for index in 0..self.switches.len() {
            self.run_switch(index, t);
        }
        self.clock = t;
    }

    /// When a sample, a change or the like is due.
    #[inline]
    fn next_special(&self) -> Option<Nanos> {
        let zero = self.next_zero;
        let sample = self.sampling.map(|_| self.next_sample);
        let change = self.schedule.get(self.changed).map(|change| self.zero.saturating_add(change.at));
        let window = self.measure.get(self.measured).map(|&at| self.zero.saturating_add(at));
        let pause = self.pauses.front().map(|&(at, ..)| at);
        [zero, sample, change, window, pause].into_iter().flatten().min()
    }

    #[cold]
    fn special(&mut self, at: Nanos) {
        self.run_links(at);
        self.clock = at;
        if let Some(zero) = self.next_zero.filter(|&zero| zero <= at) {
            self.begin(zero, at);
            return;
        }
        while let Some(&(_, direction, paused)) = self.pauses.front().filter(|&&(when, ..)| when <= at) {
            self.pauses.pop_front();
            let (hop, mut exit) = self.directions[direction].parts(&mut self.common);
            if let Hop::Link(link) = hop {
                link.pause(at, paused, &mut exit);
            }
        }
        while self.measure.get(self.measured).is_some_and(|&edge| self.zero.saturating_add(edge) <= at) {
            self.measure_links(at);
            self.measured += 1;
        }
        while self.schedule.get(self.changed).is_some_and(|change| self.zero.saturating_add(change.at) <= at)
        {
            self.change(at);
            self.changed += 1;
        }
        if let Some(interval) = self.sampling
            && self.next_sample <= at
        {
            let t = self.next_sample;
            self.next_sample += interval;
            for index in 0..self.directions.len() {
                if let (true, Some(hop)) = (self.directions[index].observe, self.directions[index].link)
                    && let Some(counters) = self.counters(index, t)
                {
                    self.common.records.queue(t, hop, counters.backlog_bytes, counters.backlog_packets);
                }
            }
        }
    }

    /// An end of the measurement window is reached.
    fn measure_links(&mut self, at: Nanos) {
        for index in 0..self.directions.len() {
            self.directions[index].window[self.measured] = self.counters(index, at);
        }
    }

    /// t = 0 is at `zero`, which is now or a little earlier.
    pub(super) fn begin(&mut self, zero: Nanos, now: Nanos) {
        self.next_zero = None;
        self.zero = zero;
        self.common.records.begin(zero);
        self.count_socket_drops();
        self.watch = Watch::new();
        self.changed = 0;
        self.measured = 0;
        self.next_sample = zero;
        for index in 0..self.directions.len() {
            self.directions[index].window = [None, None];
            if let Some(tap) = &mut self.directions[index].tap {
                tap.restart();
            }
            if let Some(loss) = self.directions[index].loss.clone() {
                let change = LinkChange { loss: Some(loss), ..LinkChange::default() };
                self.change_link(index, now, &change);
            }
        }
    }

    fn change(&mut self, at: Nanos) {
        let Change { direction, change, .. } = &self.schedule[self.changed];
        let (direction, change) = (*direction, change.clone());
        if let Some(delay) = change.delay_ns
            && self.directions[direction].least_delay > 0
        {
            self.directions[direction].least_delay = delay;
        }
        self.change_link(direction, at, &change);
    }

    fn change_link(&mut self, index: usize, at: Nanos, change: &LinkChange) {
        let Some(number) = self.directions[index].link else { return };
        let (hop, mut exit) = self.directions[index].parts(&mut self.common);
        if let Hop::Link(link) = hop {
            link.change(at, change, &|purpose| (self.streams)(number, purpose), &mut exit);
        }
    }

    fn counters(&mut self, index: usize, t: Nanos) -> Option<Counters> {
        match &mut self.directions[index].hop {
            Hop::Wire => None,
            Hop::Link(link) => Some(link.counters(t)),
            &mut Hop::Port { switch, port } => Some(self.switches[switch].switch.counters(port, t)),
        }
    }

    /// Transmissions start that are due at or before `t`.
    fn run_links(&mut self, t: Nanos) {
        for index in 0..self.directions.len() {
            let direction = &mut self.directions[index];
            if let Some((hop, link, line)) = &mut direction.egress {
                let mut exit = Exit { line, common: &mut self.common, hop: *hop, bottleneck: None };
                link.on_event(t, &mut exit);
            }
            let (hop, mut exit) = direction.parts(&mut self.common);
            if let Hop::Link(link) = hop
                && link.next_event().is_some_and(|at| at <= t)
            {
                link.on_event(t, &mut exit);
            }
        }
        for index in 0..self.switches.len() {
            self.run_switch(index, t);
        }
    }

    /// The same for a switch, whose ports take their turns in order of time.
    fn run_switch(&mut self, index: usize, t: Nanos) {
        loop {
            let run = &mut self.switches[index];
            let ports = 0..run.outgoing.len();
            let first = ports.filter_map(|port| Some((run.switch.next_event(port)?, port))).min();
            let release = run.switch.next_release().unwrap_or(Nanos::MAX);
            let (at, port) = first.unwrap_or((Nanos::MAX, 0));
            if at.min(release) > t {
                return;
            }
            let (_, mut exit) = self.directions[run.outgoing[port]].parts(&mut self.common);
            if at <= release {
                run.switch.on_event(port, at, &mut exit);
            }
            run.switch.update(at.min(release), &mut exit);
            self.send_pauses(index);
        }
    }

    /// Pause frames that a switch has sent set out.
    fn send_pauses(&mut self, switch: usize) {
        for (at, paused) in std::mem::take(&mut self.common.records.paused) {
            for &(direction, delay) in &self.switches[switch].incoming {
                let place = self.pauses.partition_point(|&(other, ..)| other <= at + delay);
                self.pauses.insert(place, (at + delay, direction, paused));
            }
        }
    }

    /// Takes a packet from an input into the pool and on into its link.
    fn receive(&mut self, index: usize, at: Nanos) {
        let direction = &mut self.directions[index];
        direction.last_arrival = at;
        // netem sees what the host's stack sends, before segmentation.
        let cuts = direction.egress.is_none();
        let mtu = direction.mtu;
        let (common, watch, scratch) = (&mut self.common, &mut self.watch, &mut self.scratch);
        let mut arrived = Arrived::None;
        let mut more = Vec::new();
        direction.input.take(|bytes| {
            let Some(bytes) = bytes else {
                watch.unintended_drops += 1;
                return;
            };
            let headers = Headers::read(bytes);
            let Some(headers) = headers else {
                watch.other_frames += 1;
                arrived = store(common, bytes, Headers::NONE).map_or(Arrived::None, Arrived::Other);
                return;
            };
            if cuts && headers.bytes > mtu && cut(bytes, &headers, scratch, common, watch, &mut more) {
                return;
            }
            match store(common, bytes, headers) {
                Some(frame) => arrived = Arrived::Packet(frame),
                None => watch.unintended_drops += 1,
            }
        });
        match arrived {
            Arrived::Packet(frame) => self.enter(index, at, frame),
            // Not for a link: it crosses as soon as it can, and is not waited for.
            Arrived::Other(frame) => self.directions[index].line.push(at, frame),
            Arrived::None => (),
        }
        for frame in more {
            self.enter(index, at, frame);
        }
    }

    /// A packet sets out at a host or router.
    #[inline]
    fn enter(&mut self, index: usize, at: Nanos, frame: Frame) {
        match &mut self.directions[index].egress {
            None => self.enter_link(index, at, frame),
            Some((hop, link, line)) => {
                let mut exit = Exit { line, common: &mut self.common, hop: *hop, bottleneck: None };
                link.arrive(at, frame, &mut exit);
            }
        }
    }

    /// A packet leaves a host's netem.
    fn leave_egress(&mut self, index: usize, at: Nanos) {
        let Some((_, _, line)) = &mut self.directions[index].egress else { return };
        let Some((_, mut frame)) = line.take(at) else { return };
        if !self.separate(&mut frame) {
            return;
        }
        if frame.headers.bytes > self.directions[index].mtu {
            let bytes = self.common.pool.bytes(frame.slot)[..frame.length as usize].to_vec();
            let (common, watch, mut more) = (&mut self.common, &mut self.watch, Vec::new());
            if cut(&bytes, &frame.headers, &mut self.scratch, common, watch, &mut more) {
                self.common.release(&frame);
                for (number, mut piece) in more.into_iter().enumerate() {
                    piece.queue_delay = frame.queue_delay;
                    // Damage is one bit of the whole.
                    piece.corrupt = frame.corrupt && number == 0;
                    self.enter_link(index, at, piece);
                }
                return;
            }
        }
        self.enter_link(index, at, frame);
    }

    #[inline]
    fn enter_link(&mut self, index: usize, at: Nanos, frame: Frame) {
        let zero = self.zero;
        let direction = &mut self.directions[index];
        if let Some(tap) = &mut direction.tap {
            let bytes = &self.common.pool.bytes(frame.slot)[frame::IP..][..frame.headers.bytes as usize];
            if let Some(t) = at.checked_sub(zero) {
                tap.packet(t, bytes);
            }
        }
        let (hop, mut exit) = direction.parts(&mut self.common);
        match hop {
            Hop::Wire => exit.line.push(at, frame),
            Hop::Link(link) => link.arrive(at, frame, &mut exit),
            &mut Hop::Port { switch, port } => {
                self.switches[switch].switch.arrive(port, at, frame, &mut exit);
                self.send_pauses(switch);
            }
        }
    }

    /// Sends what has reached the far end of its link.
    fn deliver(&mut self) {
        let mut now = self.now();
        for index in 0..self.directions.len() {
            while let Some((at, frame)) = self.directions[index].line.take(now) {
                self.arrive(index, at, frame);
                if self.directions[index].output.len() >= BATCH - 1 {
                    now = self.flush(index);
                }
            }
            if self.directions[index].output.len() > 0 {
                now = self.flush(index);
            }
        }
    }

    /// A packet reaches the far end.
    #[inline]
    fn arrive(&mut self, index: usize, at: Nanos, frame: Frame) {
        let matches = self.directions[index].gate.as_ref().is_some_and(|gate| {
            let Headers { ports: (sport, dport), payload, bytes, .. } = frame.headers;
            bytes > 0 && gate.rule.matches(sport, dport, payload)
        });
        if matches {
            self.pass_gate(index, at, frame);
        } else {
            self.put(index, at, frame, self.directions[index].link.unwrap_or(0));
        }
    }

    /// A packet meets the impairments of the receiving host's wire.
    fn pass_gate(&mut self, index: usize, at: Nanos, mut frame: Frame) {
        if !self.separate(&mut frame) {
            return;
        }
        let Some(Gate { hop, link, passed, .. }) = &mut self.directions[index].gate else { return };
        let hop = *hop;
        link.arrive(at, frame, &mut Exit { line: passed, common: &mut self.common, hop, bottleneck: None });
        while let Some(gate) = &mut self.directions[index].gate
            && let Some((at, frame)) = gate.passed.take(Nanos::MAX)
        {
            self.put(index, at, frame, hop);
        }
    }

    /// Gives a packet bytes of its own, if it was duplicated; false, and it is gone, if there is no memory.
    fn separate(&mut self, frame: &mut Frame) -> bool {
        let alone = !frame.shared.get() || self.common.unshare(frame);
        if !alone {
            self.watch.unintended_drops += 1;
            self.common.release(frame);
        }
        alone
    }

    /// Puts a packet into the batch.
    #[inline]
    fn put(&mut self, index: usize, at: Nanos, mut frame: Frame, hop: u32) {
        if (frame.marked || frame.corrupt) && !self.rewrite(&mut frame, at, hop) {
            return;
        }
        let bytes = &self.common.pool.bytes(frame.slot)[..frame.length as usize];
        // SAFETY: slots do not move, and this one is given back by `flush`, behind the call of the same name.
        unsafe { self.directions[index].output.push(bytes) };
        self.batch.push((at, frame));
    }

    /// Writes marks and damage into a packet's bytes; false if nothing is left of it.
    #[cold]
    fn rewrite(&mut self, frame: &mut Frame, at: Nanos, hop: u32) -> bool {
        if !self.separate(frame) {
            return false;
        }
        let bytes = &mut self.common.pool.bytes(frame.slot)[..frame.length as usize];
        if frame.marked {
            frame::mark(bytes);
        }
        let mut left = true;
        if frame.corrupt {
            left = frame::damage(bytes, &frame.headers);
            self.common.records.damaged(at, hop, frame);
        }
        if !left {
            self.common.release(frame);
        }
        left
    }

    /// Sends the batch; returns what time it is then.
    fn flush(&mut self, index: usize) -> Nanos {
        self.watch.unintended_drops += self.directions[index].output.flush();
        let now = self.now();
        for (at, frame) in self.batch.drain(..) {
            if frame.headers.bytes > 0 {
                let late = now.saturating_sub(at);
                self.watch.late.add(late);
                self.watch.too_late += u64::from(late > LATE);
                self.watch.packets += 1;
                self.watch.bytes += u64::from(frame.headers.bytes);
                self.recent += 1;
            }
            self.common.release(&frame);
        }
        now
    }

    /// Shows how it goes.
    fn show(&self) {
        let live = &self.shared.live[self.number];
        live.packets.store(self.watch.packets, Ordering::Relaxed);
        live.bytes.store(self.watch.bytes, Ordering::Relaxed);
        live.late_max.store(self.watch.late.max().unwrap_or(0), Ordering::Relaxed);
        live.socket_drops.store(self.watch.socket_drops, Ordering::Relaxed);
        live.unintended_drops.store(self.watch.unintended_drops, Ordering::Relaxed);
    }

    /// What has to be looked at now and then.
    #[cold]
    fn keep_house(&mut self, now: Nanos) {
        self.next_housekeeping = now + HOUSEKEEPING;
        self.offset = clock_offset(self.shared.base);
        self.count_socket_drops();
    }

    fn count_socket_drops(&mut self) {
        self.watch.socket_drops +=
            self.directions.iter().map(|direction| direction.input.drops()).sum::<u64>();
    }

    /// Waits until something is due or comes in.
    fn rest(&mut self) {
        let now = self.now();
        self.count_recent(now);
        let mut due = now + IDLE;
        let (mut patient, mut active) = (true, false);
        for direction in &self.directions {
            if direction.input.head().is_some() {
                due = due.min(if direction.least_delay < PATIENT { now } else { now + PATIENCE });
            }
            patient &= direction.ever_least_delay >= PATIENT;
            active |= now < direction.last_arrival + IDLE;
            let link = match &direction.hop {
                Hop::Link(link) => link.next_event().map(|at| at + direction.least_delay),
                _ => None,
            };
            let egress = direction.egress.as_ref().and_then(|(_, _, line)| line.next());
            let next = [direction.line.next(), link, egress.map(|at| at + direction.least_delay)];
            due = next.into_iter().flatten().fold(due, Nanos::min);
        }
        for run in &self.switches {
            let delays = run.outgoing.iter().map(|&index| self.directions[index].least_delay);
            let next =
                delays.enumerate().filter_map(|(port, delay)| Some(run.switch.next_event(port)? + delay));
            due = next.chain(run.switch.next_release()).fold(due, Nanos::min);
        }
        // A change may bring packets forward.
        due = self.next_special().map_or(due, |at| due.min(at));
        if patient && active {
            due = due.min(now + PATIENCE);
        }
        if self.busy {
            due = due.max(now + NAP);
        } else {
            due = due.saturating_sub(SPIN);
        }
        if now > self.rested + BREATHLESS {
            due = due.max(now + BREATH);
        }
        if due > now {
            self.rested = now;
            // While packets come anyway and none is urgent, they need not wake the thread.
            let wait = due - now;
            if self.busy || patient && active { sleep(wait) } else { self.poll(wait) }
        }
    }

    /// Judges every millisecond how many packets there are.
    fn count_recent(&mut self, now: Nanos) {
        const MILLISECOND: Nanos = 1_000_000;
        let passed = now.saturating_sub(self.recent_since);
        if passed >= MILLISECOND {
            self.busy = self.recent * 1_000_000_000 > BUSY * passed;
            self.recent = 0;
            self.recent_since = now;
        }
    }

    fn poll(&mut self, wait: Nanos) {
        let timeout = sys::timespec(wait);
        let count = self.polled.len() as libc::nfds_t;
        // SAFETY: so many entries and a timeout that live through the call; no signal mask.
        unsafe { libc::ppoll(self.polled.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
        if self.polled[0].revents != 0 {
            self.waker.clear();
        }
        for (entry, direction) in self.polled[1..].iter().zip(&self.directions) {
            // Asking takes the error away; it would end every wait at once.
            if entry.revents & libc::POLLERR != 0 && direction.input.failed() {
                self.watch.failures += 1;
            }
        }
    }
}

/// What [`Worker::poll`] waits for: the waker first.
pub(super) fn polled(waker: &Waker, directions: &[Direction]) -> Vec<libc::pollfd> {
    let inputs = directions.iter().map(|direction| direction.input.as_raw_fd());
    let descriptors = std::iter::once(waker.as_raw_fd()).chain(inputs);
    descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect()
}

/// Takes a packet into the pool; None if there is no memory.
#[inline]
fn store(common: &mut Common, bytes: &[u8], headers: Headers) -> Option<Frame> {
    let slot = common.pool.take(bytes.len())?;
    let stored = &mut common.pool.bytes(slot)[..bytes.len()];
    stored.copy_from_slice(bytes);
    frame::complete_checksum(stored);
    let (owner, offset) = common.flows.find(&headers, bytes);
    Some(Frame {
        slot,
        length: bytes.len() as u32,
        flow: owner.map(|owner| owner.flow),
        forward: owner.is_some_and(|owner| owner.forward),
        offset,
        marked: false,
        corrupt: false,
        shared: Cell::new(false),
        queue_delay: 0,
        headers,
    })
}

/// Takes the packets into the pool that a super-packet is cut into; false if it is none.
#[cold]
fn cut(
    bytes: &[u8],
    headers: &Headers,
    scratch: &mut [u8],
    common: &mut Common,
    watch: &mut Watch,
    packets: &mut Vec<Frame>,
) -> bool {
    frame::segment(bytes, headers, scratch, &mut |piece| match Headers::read(piece)
        .and_then(|headers| store(common, piece, headers))
    {
        Some(frame) => packets.push(frame),
        None => watch.unintended_drops += 1,
    })
}

/// Where a packet comes from.
#[derive(Clone, Copy)]
enum Source {
    /// The input of a direction.
    Input(usize),
    /// The sending host's netem.
    Egress(usize),
}

/// What was taken in.
enum Arrived {
    /// Nothing, or packets that were one.
    None,
    /// A packet for the link.
    Packet(Frame),
    /// A frame that crosses at once.
    Other(Frame),
}

/// What CLOCK_REALTIME is ahead of the time since `base` on CLOCK_MONOTONIC: of a few readings the one that took least.
pub(super) fn clock_offset(base: Nanos) -> Nanos {
    let reading = |_| {
        let before = sys::monotonic();
        let real = sys::realtime();
        let after = sys::monotonic();
        (after - before, real - (before + (after - before) / 2 - base))
    };
    (0..5).map(reading).min().map_or(0, |(_, offset)| offset)
}

fn sleep(ns: Nanos) {
    let time = sys::timespec(ns);
    // SAFETY: the time lives through the call; what is left of it when a signal comes is not wanted.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const time, std::ptr::null_mut()) };
}
