//! Looks at queues, sockets and packets during a run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use live::sampler::Stepped;
use live::taps::{self, Taps};

use crate::clock;
use crate::error::{self, Error, Result};
use crate::samples::Rows;
use crate::sys;

use super::alarm::Alarm;
use super::dropped::Drops;
use super::node::{self, Node};
use super::plan::Plan;
use super::queues::{self, Found, Queues};

/// File of the rows that packets make.
const PACKETS: &str = "/samples-packets";
/// Longest time between two looks at packets, in ns: so many fit into a ring.
const TAPS_NS: u64 = 10_000_000;

/// A sampler of sockets, with its name and the file of its rows.
pub(super) struct Sampled {
    pub(super) name: String,
    pub(super) sampler: Stepped,
    pub(super) rows: Rows,
}

/// Record of a run: looks at queues, at sockets, and at packets.
pub(super) struct Seen {
    pub(super) queue: Vec<Found>,
    pub(super) sampled: Vec<Sampled>,
    pub(super) taps: Option<(Taps, Rows)>,
}

/// Looks at queues, sockets and packets at their intervals, in one thread: every system call costs.
pub(super) struct Looks {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen>>,
}

/// Thread that looks, and the ways by which it asks.
struct Look {
    zero: u64,
    end: u64,
    /// Ways to ask about recorded links, with the time between two looks.
    queues: Vec<Queues>,
    interval: u64,
    packets: Option<Drops>,
    /// Where acknowledgements make rows: wakes when a packet of a sender has passed.
    alarm: Option<Alarm>,
    seen: Seen,
}

impl Looks {
    pub(super) fn begin(plan: &Plan, nodes: &[Node], zero: u64) -> Result<Looks> {
        let mut sampled = Vec::new();
        for (name, config) in &plan.samplers {
            let sampler = Stepped::new(&config.to_string(), zero).map_err(Error::Sampler)?;
            let rows = error::at(name, Rows::create(Path::new(&format!("/samples-{name}"))))?;
            sampled.push(Sampled { name: name.clone(), sampler, rows });
        }
        let any = plan.queue_interval_ns > 0 && plan.links.iter().any(|link| link.observe);
        let (taps, packets) = match &plan.taps {
            Some(told) => {
                let drops = error::at("dropped packets", Drops::begin())?;
                (
                    Some((listen(told, zero)?, error::at(PACKETS, Rows::create(Path::new(PACKETS)))?)),
                    Some(drops),
                )
            }
            None => (None, None),
        };
        let alarm = match (&taps, &packets) {
            (Some((taps, _)), Some(drops)) if plan.per_ack => {
                let descriptors = [vec![drops.descriptor()], taps.descriptors()].concat();
                Some(error::at("a timer", Alarm::new(&descriptors))?)
            }
            _ => None,
        };
        let over = Arc::new(AtomicBool::new(false));
        let look = Look {
            zero,
            end: plan.duration_ns,
            queues: if any { queues::open(plan, nodes, |link| link.observe)? } else { Vec::new() },
            interval: if any { plan.queue_interval_ns } else { u64::MAX },
            packets,
            alarm,
            seen: Seen { queue: Vec::new(), sampled, taps },
        };
        let told = Arc::clone(&over);
        Ok(Looks {
            over,
            thread: error::at("a thread", thread::Builder::new().spawn(move || look.until(&told)))?,
        })
    }

    pub(super) fn end(self) -> Result<Seen> {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap_or(Err(Error::Panicked))
    }
}

/// Listens to packets, from a thread of its own, which stays at the node that it was at last.
fn listen(told: &taps::Config, zero: u64) -> Result<Taps> {
    let (told, real) = (told.clone(), clock::real_time_of(zero));
    let open = thread::spawn(move || Taps::begin(&told, real, &node::enter));
    error::at("packets", open.join().map_err(|_| Error::Panicked)?)
}

impl Look {
    /// Looks until the run ends, or is said to be over.
    fn until(mut self, over: &AtomicBool) -> Result<Seen> {
        let taps_ns = if self.packets.is_some() { TAPS_NS } else { u64::MAX };
        let mut at = 0;
        while at < self.end && !over.load(Ordering::Acquire) {
            self.wait_until(at)?;
            self.at(at)?;
            let intervals = self.seen.sampled.iter().map(|sampled| sampled.sampler.interval());
            at = intervals
                .chain([self.interval, taps_ns])
                .map(|interval| (at / interval).saturating_add(1).saturating_mul(interval))
                .min()
                .unwrap_or(self.end);
        }
        self.wait_until(self.end)?;
        self.packets(true)?;
        for queues in self.queues {
            self.seen.queue.extend(error::at("queue disciplines", queues.finish())?);
        }
        self.seen.queue.sort_by_key(|&(at, link, _)| (at, link));
        Ok(self.seen)
    }

    /// Lets time pass, with a look at sockets whenever acknowledgements have come, where that is wanted.
    fn wait_until(&mut self, at: u64) -> Result<()> {
        let Some(mut alarm) = self.alarm.take() else {
            sys::sleep_until(self.zero + at);
            return Ok(());
        };
        error::at("a timer", alarm.set(self.zero + at))?;
        loop {
            let (over, dropped) = error::at("a timer", alarm.wait())?;
            self.packets(dropped)?;
            self.acknowledged();
            if over {
                break;
            }
        }
        self.alarm = Some(alarm);
        Ok(())
    }

    /// Has a row made for each flow whose sender had an acknowledgement.
    fn acknowledged(&mut self) {
        let Some((taps, _)) = &self.seen.taps else { return };
        let Some(&(t, _)) = taps.acknowledged().last() else { return };
        let mut flows: Vec<u32> = taps.acknowledged().iter().map(|&(_, flow)| flow).collect();
        flows.sort_unstable();
        flows.dedup();
        for sampled in &mut self.seen.sampled {
            sampled.sampler.acknowledged(t, &flows, taps.round_trips());
        }
    }

    fn at(&mut self, at: u64) -> Result<()> {
        self.packets(true)?;
        let taps = self.seen.taps.as_ref();
        let round_trips = taps.map(|(taps, _)| taps.round_trips()).unwrap_or_default();
        for Sampled { name, sampler, rows } in &mut self.seen.sampled {
            if at.is_multiple_of(sampler.interval()) {
                sampler.sample(at, round_trips);
                error::at(name, rows.append(&sampler.take()))?;
            }
        }
        if at.is_multiple_of(self.interval) {
            for queues in &mut self.queues {
                error::at("queue disciplines", queues.note(at))?;
            }
        }
        Ok(())
    }

    /// Takes in the packets that have passed, and those of which the kernel tells that it dropped them, where it does.
    fn packets(&mut self, dropped: bool) -> Result<()> {
        let Some(((taps, rows), drops)) = self.seen.taps.as_mut().zip(self.packets.as_mut()) else {
            return Ok(());
        };
        let told = if dropped { error::at("packets", drops.take())? } else { &[] };
        let seen = taps.look(told).and_then(|batches| rows.append(&batches));
        error::at("packets", seen)
    }
}
