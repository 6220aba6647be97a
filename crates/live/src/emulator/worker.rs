//! A thread of the emulator: takes packets in, hands them to the links at their times, sends them on when they are due.
//!
//! Everything happens in the order of packets' times, whenever the thread gets to run: packets that came in meanwhile,
//! samples and changes of the schedule that were due meanwhile. Times are CLOCK_MONOTONIC less the start of the
//! emulator.

mod direction;
mod forward;
mod stats;
mod tap;
mod wait;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use path::{Counters, LinkChange, Nanos, Xoshiro256PlusPlus};

use super::Shared;
use super::frame::Frame;
use super::line::{Common, Exit};
use crate::sys::{self, Waker};

pub(super) use direction::{Direction, Hop, Ingress, SwitchRun};
pub(super) use stats::Stats;
pub(super) use tap::{Piece, Tap};
pub(super) use wait::polled;

/// Most packets taken in before those that are due are sent.
const MAX_ARRIVALS: usize = 256;
/// Time between two readings of the clocks' offset and of the sockets' drops.
const HOUSEKEEPING: Nanos = 1_000_000_000;

/// The random stream of a purpose at a link, by its number.
type Streams = dyn Fn(u32, &str) -> Xoshiro256PlusPlus + Send;

/// A change of the schedule, relative to t = 0.
pub(super) struct Change {
    pub(super) at: Nanos,
    pub(super) direction: usize,
    pub(super) change: LinkChange,
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
    pub(super) stats: Stats,
    /// Changes in order of time, and how many were made.
    pub(super) schedule: Vec<Change>,
    pub(super) changed: usize,
    /// Between samples of queues; None: none are taken.
    pub(super) sampling: Option<Nanos>,
    pub(super) next_sample: Nanos,
    /// The measurement window relative to t = 0, and how many of its two ends have been reached.
    pub(super) measure: [Nanos; 2],
    pub(super) measured: usize,
    /// t = 0; none happens before it is known.
    pub(super) zero: Nanos,
    /// A new t = 0 that was asked for and has not been reached.
    pub(super) next_zero: Option<Nanos>,
    /// Everything up to this time has happened.
    pub(super) clock: Nanos,
    /// CLOCK_REALTIME less the time here.
    pub(super) offset: Nanos,
    pub(super) next_housekeeping: Nanos,
    /// Pause frames on their way, in order of time: to which direction.
    pub(super) pauses: VecDeque<(Nanos, usize, bool)>,
    /// The packets of the batch that will be sent next.
    pub(super) batch: Vec<(Nanos, Frame)>,
    pub(super) scratch: Vec<u8>,
    /// `recent` packets have been sent since this time.
    pub(super) recent_since: Nanos,
    /// Time when the thread last went to sleep.
    pub(super) last_sleep: Nanos,
    pub(super) recent: u64,
    pub(super) busy: bool,
    pub(super) streams: Box<Streams>,
}

impl Worker {
    /// Works until told to stop.
    pub(super) fn run(mut self) -> Worker {
        while !self.shared.stop.load(Ordering::Acquire) {
            self.check_start();
            let now = self.now();
            let horizon = self.take_arrivals(now);
            self.advance(horizon);
            self.deliver();
            if self.next_housekeeping <= now {
                self.housekeeping(now);
            }
            self.publish_stats();
            self.wait();
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

    /// Sees whether a new t = 0 was asked for.
    fn check_start(&mut self) {
        let asked = self.shared.zero.load(Ordering::Acquire);
        if asked != 0 && self.zero != asked {
            self.next_zero = Some(asked);
        }
    }

    /// Hands packets that came in to their links, in order of time; returns up to when all are.
    fn take_arrivals(&mut self, now: Nanos) -> Nanos {
        for _ in 0..MAX_ARRIVALS {
            match self.first_arrival(now) {
                None => return now,
                Some((at, Source::Input(index))) => {
                    // The kernel stamps by another clock, and the stamp may be before something that has already happened here.
                    let latest = if at > now { self.now() } else { now };
                    let at = at.clamp(self.clock, latest.max(self.clock));
                    self.advance_actions(at);
                    self.receive(index, at);
                }
                Some((at, Source::Egress(index))) => {
                    self.advance_actions(at);
                    self.leave_egress(index, at);
                }
            }
        }
        self.first_arrival(now).map_or(now, |(at, _)| at.min(now))
    }

    /// The earliest packet that came in or that leaves a host's netem by `now`.
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

    /// Carries out everything that is due at or before `t`: transmissions, samples, changes.
    fn advance(&mut self, t: Nanos) {
        let t = t.max(self.clock);
        self.advance_actions(t);
        self.run_links(t);
    }

    /// Carries out everything that is due at or before `t` except transmissions of links, which are only carried out up to the last
    /// of these actions. The clock is at `t` then.
    #[inline]
    fn advance_actions(&mut self, t: Nanos) {
        while let Some(at) = self.next_action().filter(|&at| at <= t) {
            self.run_actions(at.max(self.clock));
        }
        for index in 0..self.switches.len() {
            self.run_switch(index, t);
        }
        self.clock = t;
    }

    /// Time when the next action is due: a new t = 0, a sample, a change, an end of the measurement window, a pause
    /// frame.
    #[inline]
    fn next_action(&self) -> Option<Nanos> {
        let zero = self.next_zero;
        let sample = self.sampling.map(|_| self.next_sample);
        let change = self.schedule.get(self.changed).map(|change| self.zero.saturating_add(change.at));
        let window = self.measure.get(self.measured).map(|&at| self.zero.saturating_add(at));
        let pause = self.pauses.front().map(|&(at, ..)| at);
        [zero, sample, change, window, pause].into_iter().flatten().min()
    }

    #[cold]
    fn run_actions(&mut self, at: Nanos) {
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
        self.stats = Stats::new();
        self.changed = if self.shared.marked.load(Ordering::Acquire) { 0 } else { self.schedule.len() };
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
            && self.directions[direction].min_delay > 0
        {
            self.directions[direction].min_delay = delay;
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

    /// Starts the transmissions of links that are due at or before `t`.
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

    /// Starts the transmissions of a switch that are due at or before `t`, those of all ports in order of time.
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

    /// Puts the pause frames that a switch has sent on their way.
    fn send_pauses(&mut self, switch: usize) {
        for (at, paused) in std::mem::take(&mut self.common.records.paused) {
            for &(direction, delay) in &self.switches[switch].incoming {
                let place = self.pauses.partition_point(|&(other, ..)| other <= at + delay);
                self.pauses.insert(place, (at + delay, direction, paused));
            }
        }
    }

    /// Publishes the live metrics.
    fn publish_stats(&self) {
        let live = &self.shared.live[self.number];
        live.packets.store(self.stats.packets, Ordering::Relaxed);
        live.bytes.store(self.stats.bytes, Ordering::Relaxed);
        live.late_max.store(self.stats.late.max().unwrap_or(0), Ordering::Relaxed);
        live.socket_drops.store(self.stats.socket_drops, Ordering::Relaxed);
        live.unintended_drops.store(self.stats.unintended_drops, Ordering::Relaxed);
    }

    /// Reads the clocks' offset and the sockets' drops.
    #[cold]
    fn housekeeping(&mut self, now: Nanos) {
        self.next_housekeeping = now + HOUSEKEEPING;
        self.offset = clock_offset(self.shared.base);
        self.count_socket_drops();
    }

    fn count_socket_drops(&mut self) {
        self.stats.socket_drops +=
            self.directions.iter().map(|direction| direction.input.drops()).sum::<u64>();
    }
}

/// Source of a packet.
#[derive(Clone, Copy)]
enum Source {
    /// The input of a direction.
    Input(usize),
    /// The sending host's netem.
    Egress(usize),
}

/// Lead of CLOCK_REALTIME over the time since `base` on CLOCK_MONOTONIC, by the quickest of a few readings.
pub(super) fn clock_offset(base: Nanos) -> Nanos {
    let reading = |_| {
        let before = sys::monotonic();
        let real = sys::realtime();
        let after = sys::monotonic();
        (after - before, real - (before + (after - before) / 2 - base))
    };
    (0..5).map(reading).min().map_or(0, |(_, offset)| offset)
}
