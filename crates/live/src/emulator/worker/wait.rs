//! When a thread sleeps, until when, and what wakes it.

use std::os::fd::AsRawFd;

use path::Nanos;

use super::Worker;
use super::direction::{Direction, Hop};
use crate::sys::{self, Waker};

/// A thread that sleeps until a packet is due wakes so much earlier, ns, and then polls the clock: waking takes some time.
const SPIN_TIME: Nanos = 20_000;
/// Above so many packets a second the thread sleeps for at least [`BUSY_SLEEP`] between batches, to leave processors to the hosts.
/// A packet counts at each of its hops: 100 Mbps over three hops, data and ACKs, is some 40,000.
const BUSY_PPS: u64 = 55_000;
/// Shortest sleep above [`BUSY_PPS`], ns: at 1 Gbps eight packets of 1500 bytes leave together.
const BUSY_SLEEP: Nanos = 80_000;
/// A thread that has not slept for so long, ns, sleeps for [`FORCED_SLEEP`] even if packets are due. The kernel would otherwise take
/// the processor from a real-time thread that uses more than 95 % of a second (sched_rt_runtime_us), for the remaining 50 ms.
const MAX_AWAKE: Nanos = 1_000_000;
/// See [`MAX_AWAKE`], ns.
const FORCED_SLEEP: Nanos = 70_000;
/// Longest sleep, ns: then flags of other threads are read, and live metrics and the clock offset are brought up to date.
const MAX_SLEEP: Nanos = 50_000_000;
/// Packets for links with at least this delay, ns, need not wake the thread when they arrive.
const SLACK_DELAY: Nanos = 2_000_000;
/// Time that packets for links with such a delay may stay in the ring, in ns.
const ARRIVAL_SLACK: Nanos = 1_000_000;

impl Worker {
    /// Waits until something is due or comes in.
    pub(super) fn wait(&mut self) {
        let now = self.now();
        self.count_recent(now);
        let mut due = now + MAX_SLEEP;
        let (mut all_slack, mut active) = (true, false);
        for direction in &self.directions {
            if direction.input.head().is_some() {
                due = due.min(if direction.min_delay < SLACK_DELAY { now } else { now + ARRIVAL_SLACK });
            }
            all_slack &= direction.min_delay_ever >= SLACK_DELAY;
            active |= now < direction.last_arrival + MAX_SLEEP;
            let link = match &direction.hop {
                Hop::Link(link) => link.next_event().map(|at| at + direction.min_delay),
                _ => None,
            };
            let egress = direction.egress.as_ref().and_then(|(_, _, line)| line.next());
            let next = [direction.line.next(), link, egress.map(|at| at + direction.min_delay)];
            due = next.into_iter().flatten().fold(due, Nanos::min);
        }
        for run in &self.switches {
            let delays = run.outgoing.iter().map(|&index| self.directions[index].min_delay);
            let next =
                delays.enumerate().filter_map(|(port, delay)| Some(run.switch.next_event(port)? + delay));
            due = next.chain(run.switch.next_release()).fold(due, Nanos::min);
        }
        // A change may make packets due earlier.
        due = self.next_action().map_or(due, |at| due.min(at));
        if all_slack && active {
            due = due.min(now + ARRIVAL_SLACK);
        }
        if self.busy {
            due = due.max(now + BUSY_SLEEP);
        } else {
            due = due.saturating_sub(SPIN_TIME);
        }
        if now > self.last_sleep + MAX_AWAKE {
            due = due.max(now + FORCED_SLEEP);
        }
        if due > now {
            self.last_sleep = now;
            // A busy thread wakes soon anyway, and packets for links with slack need not wake it.
            let wait = due - now;
            if self.busy || (all_slack && active) { sleep(wait) } else { self.poll(wait) }
        }
    }

    /// Decides every millisecond whether the thread is busy.
    fn count_recent(&mut self, now: Nanos) {
        const MILLISECOND: Nanos = 1_000_000;
        let passed = now.saturating_sub(self.recent_since);
        if passed >= MILLISECOND {
            self.busy = self.recent * 1_000_000_000 > BUSY_PPS * passed;
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
            // Reading the error clears it; otherwise every wait would end at once.
            if entry.revents & libc::POLLERR != 0 && direction.input.failed() {
                self.stats.failures += 1;
            }
        }
    }
}

/// Descriptors that [`Worker::poll`] waits for: the waker first.
pub(in crate::emulator) fn polled(waker: &Waker, directions: &[Direction]) -> Vec<libc::pollfd> {
    let inputs = directions.iter().map(|direction| direction.input.as_raw_fd());
    let descriptors = std::iter::once(waker.as_raw_fd()).chain(inputs);
    descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect()
}

fn sleep(ns: Nanos) {
    let time = sys::timespec(ns);
    // SAFETY: the time lives through the call; what is left of it when a signal comes is not wanted.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const time, std::ptr::null_mut()) };
}
