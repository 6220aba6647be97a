//! The path emulator: the links of a Scenario in real time, between network interfaces of this host.
//!
//! Every cable of the experiment is two veth pairs' near ends, `a` and `b`, in one network namespace that holds nothing
//! else; their far ends are the hosts' and routers' interfaces. What comes in at `a` goes through the link `forward` of
//! the Scenario and out of `b`, what comes in at `b` through `reverse` and out of `a`. The links are those of the
//! `path` crate, the very code that the simulator runs, handed the time at which the kernel took each packet in; so a
//! packet's departure is computed exactly, and what real time adds is only how late it is sent, which is measured for
//! every packet.
//!
//! Only IP goes through links. Frames that keep a network together (ARP, IPv6 neighbour and multicast listener
//! discovery) cross a cable at once, and neither rates nor loss rules count them.
//!
//! The namespace needs no address and no route: give its interfaces no IPv6 (`disable_ipv6`), set them up, and leave
//! forwarding off. No kernel state is made but sockets and the scheduling policy of its own threads, so nothing is left
//! when the process dies.
//!
//! # Order of calls
//!
//! [`Emulator::new`] checks a [`Config`]; [`Emulator::start`] opens the sockets and lets packets through, and gives the
//! time (CLOCK_MONOTONIC) that is t = 0. [`Emulator::mark_start`] moves t = 0, so that a run can begin once all is set
//! up: records before it are dropped, counters and loss rules start again, and changes of the schedule come at their
//! times after it. Before, however long that takes, none of them comes. [`Emulator::stop`] gives the records and a report.

mod build;
mod config;
pub(crate) mod flows;
pub(crate) mod frame;
mod line;
mod pool;
mod port;
mod report;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use contract::table::Batch;
use path::Nanos;
use serde_json::json;

pub use config::{Cable, Capture, Config, FlowKey};

use crate::ConfigError;
use crate::sys::{self, Waker};
use build::Captures;
use report::Machine;
use worker::Worker;

/// A packet that leaves later than this after its time makes a run unreliable.
const LATE: Nanos = 1_000_000;
/// The time before the start that packets may seem to come from, by the clocks' differences.
const BEFORE: Nanos = 1_000_000_000;

/// State that the threads share with whoever started them.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// CLOCK_MONOTONIC of the threads' time 0.
    base: Nanos,
    /// t = 0, as the threads count; 0: not known yet.
    zero: AtomicU64,
    /// The run's own t = 0 is known, from which the schedule counts.
    marked: AtomicBool,
    /// State of each thread.
    live: Vec<Live>,
}

/// Live metrics of a thread, since t = 0.
#[derive(Debug, Default)]
struct Live {
    packets: AtomicU64,
    bytes: AtomicU64,
    late_max: AtomicU64,
    socket_drops: AtomicU64,
    unintended_drops: AtomicU64,
    /// Whether the thread runs before others.
    real_time: AtomicBool,
}

/// An emulator; dropping it stops it.
pub struct Emulator {
    config: Arc<Config>,
    running: Option<Running>,
    started: bool,
}

struct Running {
    shared: Arc<Shared>,
    threads: Vec<(Arc<Waker>, JoinHandle<Worker>)>,
    captures: Captures,
    /// Counters of the machine at the start.
    machine: Machine,
}

impl Emulator {
    /// An emulator that was not started.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: &str) -> Result<Emulator, ConfigError> {
        Ok(Emulator { config: Arc::new(Config::parse(config)?), running: None, started: false })
    }

    /// Opens the sockets and lets packets through; returns the CLOCK_MONOTONIC time that is t = 0.
    ///
    /// # Errors
    /// What is missing: an interface, a namespace, rights; with its name. Or it was started before.
    pub fn start(&mut self) -> io::Result<Nanos> {
        if self.started {
            return Err(io::Error::other("the emulator was started before"));
        }
        let captures = Captures::open(&self.config)?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            base: sys::monotonic().saturating_sub(BEFORE),
            zero: AtomicU64::new(0),
            marked: AtomicBool::new(false),
            live: (0..build::threads(&self.config)).map(|_| Live::default()).collect(),
        });
        // Sockets stay in the namespace in which they were opened; the thread that enters it is for that only.
        let (config, files, its_shared) = (self.config.clone(), captures.files(), shared.clone());
        let building = thread::Builder::new().name("emulator".into()).spawn(move || {
            sys::enter(config.netns.as_deref())?;
            build::workers(&config, &its_shared, &files)
        })?;
        let workers = building.join().unwrap_or_else(|_| Err(io::Error::other("setting up panicked")))?;
        let mut running = Running { shared, threads: Vec::new(), captures, machine: Machine::now() };
        for (number, worker) in workers.into_iter().enumerate() {
            let waker = worker.waker.clone();
            let (real_time, shared) = (self.config.real_time, running.shared.clone());
            let work = move || {
                let first = real_time && sys::run_before_others();
                shared.live[number].real_time.store(first, Ordering::Relaxed);
                worker.run()
            };
            // What was started so far is stopped when `running` is dropped.
            let thread = thread::Builder::new().name(format!("emulator {number}")).spawn(work)?;
            running.threads.push((waker, thread));
        }
        self.started = true;
        let zero = sys::monotonic();
        running.mark(zero);
        self.running = Some(running);
        Ok(zero)
    }

    /// Moves t = 0 to this CLOCK_MONOTONIC time, a little ahead or just past.
    ///
    /// # Errors
    /// It does not run, or the time is before its start.
    pub fn mark_start(&mut self, zero: Nanos) -> io::Result<()> {
        let running = self.running.as_ref().ok_or_else(|| io::Error::other("the emulator does not run"))?;
        if zero <= running.shared.base {
            return Err(io::Error::other("t = 0 would be before the emulator's start"));
        }
        running.shared.marked.store(true, Ordering::Release);
        running.mark(zero);
        Ok(())
    }

    /// Live metrics as JSON.
    ///
    /// # Errors
    /// It does not run.
    pub fn stats(&self) -> io::Result<String> {
        let running = self.running.as_ref().ok_or_else(|| io::Error::other("the emulator does not run"))?;
        let shared = &running.shared;
        let sum = |metric: fn(&Live) -> &AtomicU64| -> u64 {
            shared.live.iter().map(|live| metric(live).load(Ordering::Relaxed)).sum()
        };
        let now = sys::monotonic() - shared.base;
        let zero = shared.zero.load(Ordering::Acquire);
        let late_max = shared.live.iter().map(|live| live.late_max.load(Ordering::Relaxed)).max();
        Ok(json!({
            "t_ns": i128::from(now) - i128::from(zero),
            "packets": sum(|live| &live.packets),
            "bytes": sum(|live| &live.bytes),
            "late_max_ns": late_max,
            "socket_drops": sum(|live| &live.socket_drops),
            "unintended_drops": sum(|live| &live.unintended_drops),
        })
        .to_string())
    }

    /// Ends it; returns the records (table, batch) and a report as JSON.
    ///
    /// # Errors
    /// It does not run, a thread of its failed, or a capture could not be written.
    pub fn stop(&mut self) -> io::Result<(Vec<(&'static str, Batch)>, String)> {
        let mut running = self.running.take().ok_or_else(|| io::Error::other("the emulator does not run"))?;
        let mut workers = Vec::new();
        for thread in running.end() {
            workers.push(thread.join().map_err(|_| io::Error::other("a thread of the emulator failed"))?);
        }
        workers.iter_mut().for_each(Worker::close_captures);
        running.captures.finish()?;
        Ok(report::finish(&self.config, &running.shared, workers, running.machine.since()))
    }
}

impl Running {
    fn mark(&self, zero: Nanos) {
        self.shared.zero.store(zero - self.shared.base, Ordering::Release);
        self.threads.iter().for_each(|(waker, _)| waker.wake());
    }

    /// Tells the threads to end.
    fn end(&mut self) -> impl Iterator<Item = JoinHandle<Worker>> + use<> {
        self.shared.stop.store(true, Ordering::Release);
        self.threads.iter().for_each(|(waker, _)| waker.wake());
        std::mem::take(&mut self.threads).into_iter().map(|(_, thread)| thread)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for thread in self.end() {
            // One that failed has nothing more to say.
            let _ = thread.join();
        }
    }
}
