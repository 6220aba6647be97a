//! Both kinds of ends at one host, as they are ordered.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contract::scenario::{App, LoadPart};
use loadlatency::sys::monotonic_ns;

use crate::clock::Clock;
use crate::error::{self, Error, Result};
use crate::flows::{self, Work};
use crate::load::Session;
use crate::metrics::{Metrics, Seen};
use crate::order::{Answer, Order, Prepare, Report, Task};
use crate::samples::{Links, Samplers};
use crate::tool::Program;
use crate::{echo, sys};

/// Time that tools have to write their reports when they are told to end.
const END: Duration = Duration::from_secs(3);

/// The ends of a run at this host.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    clock: Arc<Clock>,
    metrics: Vec<Metrics>,
    programs: Vec<Program>,
    sessions: Vec<Session>,
    samplers: Samplers,
    links: Links,
    /// Whether the agent runs in a guest in virtual time, where system calls are what costs.
    is_guest: bool,
}

impl Agent {
    /// The agent of a host in a guest in virtual time.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_guest() -> Agent {
        Agent { is_guest: true, ..Agent::default() }
    }

    /// The run begins when CLOCK_MONOTONIC says so.
    ///
    /// # Errors
    /// A sampler or the emulator does not run.
    pub(crate) fn begin(&mut self, zero_ns: u64) -> Result<()> {
        self.clock.begin(zero_ns);
        self.samplers.mark_start(zero_ns).and_then(|()| self.links.mark_start(zero_ns))
    }

    /// Carries out an order.
    pub(crate) fn obey(&mut self, order: Order) -> Answer {
        let answer = match order {
            Order::Prepare(order) => self.prepare(&order).map(|()| Answer::Ready { ready: true }),
            Order::Ping { to, count, interval_ns } => {
                let trips = to.into_iter().map(|to| Ok((to, echo::ping(to, count, interval_ns)?)));
                trips
                    .collect::<std::io::Result<BTreeMap<_, _>>>()
                    .map(|ping| Answer::Ping { ping })
                    .map_err(|error| Error::from(error).at("ping"))
            }
            Order::Start { zero_ns } => self.begin(zero_ns).map(|()| Answer::Started { started: true }),
            Order::Clock {} => Ok(clocks()),
            Order::Sample { name, config } => {
                self.samplers.start(name, &config).map(|()| Answer::Ready { ready: true })
            }
            Order::Samples { name, file } => {
                self.samplers.stop(&name, &file).map(|report| Answer::Sampled { report })
            }
            Order::Emulate { config } => self.links.start(&config).map(|()| Answer::Ready { ready: true }),
            Order::Emulated { file } => self.links.stop(&file).map(|report| Answer::Sampled { report }),
            Order::End {} => {
                self.end();
                let (flows, reports) = self.seen();
                Ok(Answer::Ended { flows, reports })
            }
        };
        answer.unwrap_or_else(|error| Answer::Error { error: one_line(&error.to_string()) })
    }

    /// Ends all programs at once.
    pub(crate) fn kill(&self) {
        self.programs.iter().for_each(Program::kill);
    }

    /// Takes the flows that begin and end here; what accepts connections listens when this returns.
    ///
    /// # Errors
    /// This host cannot carry one of them out.
    pub(crate) fn prepare(&mut self, order: &Prepare) -> Result<()> {
        let named = |task: &Task, why: Error| why.at(format!("flow {}", task.flow));
        for task in order.sends.iter().chain(&order.receives) {
            flows::check(&task.app, task.guest.is_some()).map_err(|why| named(task, why.into()))?;
        }
        let mut incasts: BTreeMap<&str, Vec<(Task, Metrics)>> = BTreeMap::new();
        for task in &order.receives {
            let begun = match (&task.tool, &task.app) {
                (Some(tool), _) => {
                    self.programs.push(Program::new(task, tool, "to"));
                    Ok(())
                }
                (None, App::Loadlatency { .. }) => self.serve(task),
                (None, App::Incast { group, .. }) => {
                    let metrics = self.note(order, task, "to");
                    incasts.entry(group).or_default().push((task.clone(), metrics));
                    Ok(())
                }
                (None, _) => {
                    let metrics = self.note(order, task, "to");
                    flows::receive(task, &metrics, self.is_guest).and_then(|work| begin(work, vec![metrics]))
                }
            };
            begun.map_err(|why| named(task, why))?;
        }
        for (group, tasks) in incasts {
            let everyone = tasks.iter().map(|(_, metrics)| metrics.clone()).collect();
            let begun = flows::gather(&tasks).and_then(|work| begin(work, everyone));
            begun.map_err(|why| why.at(format!("incast {group}")))?;
        }
        for program in &self.programs {
            program.start()?;
        }
        for program in &self.programs {
            program.wait_until_it_listens()?;
        }
        for task in &order.sends {
            self.begin_sender(order, task).map_err(|why| named(task, why))?;
        }
        Ok(())
    }

    fn begin_sender(&mut self, order: &Prepare, task: &Task) -> Result<()> {
        match (&task.tool, &task.app) {
            (Some(tool), _) => {
                let (program, clock) = (Program::new(task, tool, "from"), Arc::clone(&self.clock));
                self.programs.push(program.clone());
                begin(Box::new(move || program.carry_out(&clock)), Vec::new())
            }
            (None, App::Loadlatency { part, .. }) => {
                // The tool carries out all of a scenario's flows: their tasks are the pinger's.
                if let (LoadPart::Pinger, Some(load)) = (part, &task.load) {
                    self.sessions.push(Session::run(task, load, &self.clock)?);
                }
                Ok(())
            }
            (None, _) => {
                let metrics = self.note(order, task, "from");
                flows::send(task, &metrics, self.is_guest).and_then(|work| begin(work, vec![metrics]))
            }
        }
    }

    fn serve(&mut self, task: &Task) -> Result<()> {
        if let (App::Loadlatency { part: LoadPart::Pinger, .. }, Some(load)) = (&task.app, &task.load) {
            self.sessions.push(Session::serve(task, load)?);
        }
        Ok(())
    }

    fn note(&mut self, order: &Prepare, task: &Task, role: &'static str) -> Metrics {
        let metrics = Metrics::new(&task.flow, role, order.measure, order.duration_ns, &self.clock);
        self.metrics.push(metrics.clone());
        metrics
    }

    /// Has programs end.
    fn end(&self) {
        let deadline = Instant::now() + END;
        for role in ["from", "to"] {
            let side = || self.programs.iter().filter(|program| program.role == role);
            side().for_each(Program::interrupt);
            side().for_each(|program| program.wait(deadline));
        }
    }

    /// Returns the samples of each end of a flow, and the reports of tools.
    pub(crate) fn seen(&self) -> (Vec<Seen>, Vec<Report>) {
        let sessions: Vec<_> = self.sessions.iter().map(Session::report).collect();
        let reports = self.programs.iter().filter_map(Program::report).chain(sessions).collect();
        (self.metrics.iter().map(Metrics::seen).collect(), reports)
    }
}

/// Lets an end work in a thread of its own; what befalls it is noted in its metrics.
fn begin(work: Work, metrics: Vec<Metrics>) -> Result<()> {
    let guarded = move || {
        let done = panic::catch_unwind(AssertUnwindSafe(work));
        if let Err(why) = done.unwrap_or(Err(Error::Panicked)) {
            metrics.iter().for_each(|one| one.failed(one_line(&why.to_string())));
        }
    };
    error::at("a thread", thread::Builder::new().spawn(guarded).map(drop))
}

/// Reads both clocks, one right after the other.
fn clocks() -> Answer {
    let realtime = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Answer::Clock { monotonic_ns: monotonic_ns(), realtime_ns: u64::try_from(realtime).unwrap_or(u64::MAX) }
}

/// Words of a text that may have several lines.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ends this process after so many seconds, with all that was started: programs end when it does.
pub(crate) fn limit(seconds: f64) {
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    thread::spawn(move || {
        thread::sleep(limit);
        eprintln!("error: the time limit of {seconds} s is over");
        sys::exit(LIMIT_REACHED);
    });
}

/// Exit code at the time limit.
const LIMIT_REACHED: i32 = 3;
