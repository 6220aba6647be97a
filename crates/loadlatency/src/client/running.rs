//! The flows of a scenario while they run, and what both ends counted of them.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use measure::{BIN_NS, Direction, End, Flows, Ping, Probe, Scenario, Transfer};
use socket2::SockRef;
use thiserror::Error;

use super::pinger::Report;
use super::{Server, expect_fine};
use crate::auth;
use crate::flow::{self, Flow, MAX_FLOW_NS};
use crate::link::TIMEOUT;
use crate::sys::{self, in_words};
use crate::wire::{self, FlowReport, Note, Opening, Role};
use crate::{GreetingError, locked};

/// Time from one connection that is opened to time it to the next.
const CONNECT_EVERY: Duration = Duration::from_millis(250);

/// Time before the loss of the server, in ns, within which a flow's end may have the same reason.
const SAME_LOSS_NS: u64 = 2_000_000_000;

/// Most intervals of a flow.
const MAX_BINS: usize = (MAX_FLOW_NS / BIN_NS) as usize;

/// A flow to be run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    name: String,
    direction: Direction,
    dscp: u8,
    /// Time from the start of the scenario to that of the flow.
    after_ns: u64,
}

impl Plan {
    /// The flow `number` of a direction, from 1.
    pub(super) fn new(direction: Direction, number: u32, dscp: u8, after_ns: u64) -> Plan {
        let word = match direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        Plan { name: format!("{word}{number}"), direction, dscp, after_ns }
    }
}

/// The flows of a scenario.
pub(super) struct Running {
    members: Vec<Member>,
    start: Arc<StartSignal>,
    connects: Arc<Connects>,
    /// The server's clock less the client's.
    ahead_ns: i64,
    /// Reports of the server, by flow.
    told: BTreeMap<u32, Told>,
}

struct Member {
    plan: Plan,
    id: u32,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// State that a flow's thread and its watcher share.
#[derive(Default)]
struct Shared {
    flow: Flow,
    connected: AtomicBool,
    started_ns: AtomicU64,
    end: Mutex<End>,
}

#[derive(Default)]
struct Told {
    report: FlowReport,
    /// All intervals reported so far, from the first arrival.
    bins: Vec<u64>,
    /// The server's time of the newest report.
    at_ns: u64,
}

impl Running {
    /// Begins to connect the flows; `idle` are pings from which the offset of the clocks is told.
    pub(super) fn open(server: &Server, plans: &[Plan], next: &mut u32, idle: &[Ping]) -> Running {
        let start = Arc::new(StartSignal::default());
        let members = plans.iter().map(|plan| {
            *next += 1;
            let shared = Arc::new(Shared::default());
            let work = Work { server: server.clone(), plan: plan.clone(), id: *next };
            let (for_thread, start) = (Arc::clone(&shared), Arc::clone(&start));
            let thread = thread::spawn(move || work.carry_out(&for_thread, &start));
            Member { plan: plan.clone(), id: *next, shared, thread }
        });
        let members = members.collect();
        let connects = Arc::new(Connects::default());
        let (timing, address, opened) = (Arc::clone(&connects), server.address, Arc::clone(&start));
        // Not joined: a connection may take longer to be opened than anyone wants to wait at the end.
        thread::spawn(move || timing.carry_out(address, &opened));
        Running { members, start, connects, ahead_ns: offset(idle), told: BTreeMap::new() }
    }

    /// Whether every flow is connected or has ended.
    pub(super) fn is_connected(&self) -> bool {
        self.members.iter().all(|m| m.shared.connected.load(Ordering::Acquire) || m.has_ended())
    }

    /// Whether no flow is left.
    pub(super) fn have_all_ended(&self) -> bool {
        self.members.iter().all(Member::has_ended)
    }

    /// Lets the flows begin, and says when that was.
    pub(super) fn go(&self) -> u64 {
        let now = sys::now_ns();
        *locked(&self.start.go) = Some(now);
        self.start.opened.notify_all();
        now
    }

    /// Takes a report of the server.
    pub(super) fn take(&mut self, (at_ns, flows): Report) {
        for mut report in flows {
            if !self.members.iter().any(|m| m.id == report.id) {
                continue;
            }
            let told = self.told.entry(report.id).or_default();
            let bins = std::mem::take(&mut report.bins);
            // Reports come in order; a place is only checked, not followed. No scenario has more intervals.
            if report.bins_from as usize == told.bins.len() && told.bins.len() + bins.len() <= MAX_BINS {
                told.bins.extend(bins);
            }
            told.at_ns = at_ns;
            told.report = report;
        }
    }

    /// Stops counting at this end; the connections go on.
    pub(super) fn close(&self, now: u64) {
        self.members.iter().for_each(|m| m.shared.flow.close(now));
    }

    /// Flows that ended because the server was lost at `now` are not counted as killed.
    pub(super) fn clear_killed_by_loss(&mut self, now: u64) {
        for member in &self.members {
            let mut tally = member.shared.flow.tally();
            if tally.end_ns + SAME_LOSS_NS >= now {
                tally.killed = None;
            }
        }
        for told in self.told.values_mut() {
            let ended = plus(told.report.end_ns, -self.ahead_ns);
            if ended.saturating_add(SAME_LOSS_NS) >= now {
                told.report.killed = None;
            }
        }
    }

    /// Tells the flows' threads to end.
    pub(super) fn end(&self) {
        self.connects.over.store(true, Ordering::Relaxed);
        self.members.iter().for_each(|m| m.shared.flow.end());
        self.start.opened.notify_all();
    }

    /// The scenario as it would be if it ended now.
    pub(super) fn so_far(&self, go: u64, pings: Vec<Ping>) -> Scenario {
        let now = sys::now_ns();
        Scenario {
            flows: self.flows(),
            duration_ns: now - go,
            transfers: self.members.iter().map(|m| self.transfer(m, go, now)).collect(),
            pings,
            ..Scenario::default()
        }
    }

    /// The scenario, which ended at `stopped`.
    pub(super) fn finish(
        mut self,
        number: u32,
        go: u64,
        stopped: u64,
        began: u64,
        idle_pings: Vec<Ping>,
        pings: Vec<Ping>,
    ) -> Scenario {
        self.end();
        let inside = |probe: &Probe| (go..=stopped).contains(&probe.t_ns);
        let relative = |probe: &Probe| Probe { t_ns: probe.t_ns - go, ..*probe };
        let connects = locked(&self.connects.took).iter().filter(|p| inside(p)).map(relative).collect();
        let tallies = self.members.iter().map(|m| m.shared.flow.tally().in_band.clone());
        let mut in_band: Vec<Probe> = tallies.flatten().filter(inside).map(|p| relative(&p)).collect();
        in_band.sort_unstable_by_key(|p| p.t_ns);
        let scenario = Scenario {
            number,
            start_ns: go.saturating_sub(began),
            duration_ns: stopped - go,
            idle_pings,
            connects,
            in_band,
            ..self.so_far(go, pings)
        };
        for member in self.members.drain(..) {
            // A thread that is still connecting ends by its own time-out.
            if member.shared.connected.load(Ordering::Acquire) {
                let _ = member.thread.join();
            }
        }
        scenario
    }

    fn flows(&self) -> Flows {
        let count = |direction| self.members.iter().filter(|m| m.plan.direction == direction).count() as u32;
        Flows { uploads: count(Direction::Up), downloads: count(Direction::Down) }
    }

    /// A flow in the client's time, from `go`.
    fn transfer(&self, member: &Member, go: u64, now: u64) -> Transfer {
        let tally = member.shared.flow.tally().clone();
        let told = self.told.get(&member.id);
        let ours = locked(&member.shared.end).clone();
        let theirs = told.map(|t| End { cc: t.report.cc.clone(), ecn: t.report.ecn }).unwrap_or_default();
        let killed = tally.killed.clone().or_else(|| told.and_then(|t| t.report.killed.clone()));
        let start = match member.shared.started_ns.load(Ordering::Acquire) {
            0 => go + member.plan.after_ns,
            started => started,
        };
        let (sender, receiver, counted) = match member.plan.direction {
            Direction::Down => (theirs, ours, Counted::here(&tally, now)),
            Direction::Up => {
                (ours, theirs, Counted::there(told, self.ahead_ns).unwrap_or(Counted::nothing(&tally, now)))
            }
        };
        let end = counted.end.max(start);
        let longest_gap_ns = match counted.first {
            0 => end - start,
            first => counted.gap.max(first.saturating_sub(start)).max(end.saturating_sub(counted.last)),
        };
        let before = (counted.first.saturating_sub(start) / BIN_NS).min(MAX_BINS as u64) as usize;
        let bins =
            std::iter::repeat_n(0, if counted.bins.is_empty() { 0 } else { before }).chain(counted.bins);
        Transfer {
            name: member.plan.name.clone(),
            direction: member.plan.direction,
            dscp: member.plan.dscp,
            start_ns: start.saturating_sub(go),
            end_ns: end.saturating_sub(go),
            bytes: counted.bytes,
            longest_gap_ns,
            killed,
            bins: bins.collect(),
            sender,
            receiver,
        }
    }
}

/// Flows that were never finished, as the server was lost before they began, leave no threads either.
impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Counts of the receiving end, in the client's time; `first` and `last` are 0 before any arrival.
struct Counted {
    first: u64,
    last: u64,
    end: u64,
    gap: u64,
    bytes: u64,
    bins: Vec<u64>,
}

impl Counted {
    fn here(tally: &flow::Tally, now: u64) -> Counted {
        Counted {
            first: tally.first_ns,
            last: tally.last_ns,
            end: if tally.end_ns == 0 { now } else { tally.end_ns },
            gap: tally.gap_ns,
            bytes: tally.bytes,
            bins: tally.bins.clone(),
        }
    }

    /// None before the first report.
    fn there(told: Option<&Told>, ahead_ns: i64) -> Option<Counted> {
        let told = told?;
        let local = |ns: u64| if ns == 0 { 0 } else { plus(ns, -ahead_ns) };
        let report = &told.report;
        Some(Counted {
            first: local(report.first_ns),
            last: local(report.last_ns),
            end: local(if report.end_ns == 0 { told.at_ns } else { report.end_ns }),
            gap: report.gap_ns,
            bytes: report.bytes,
            bins: told.bins.clone(),
        })
    }

    fn nothing(tally: &flow::Tally, now: u64) -> Counted {
        let end = if tally.end_ns == 0 { now } else { tally.end_ns };
        Counted { first: 0, last: 0, end, gap: 0, bytes: 0, bins: Vec::new() }
    }
}

impl Member {
    fn has_ended(&self) -> bool {
        self.shared.flow.tally().end_ns != 0
    }
}

/// Task of a flow's thread.
struct Work {
    server: Server,
    plan: Plan,
    id: u32,
}

/// Reason why a flow has no connection.
#[derive(Debug, Error)]
enum OpenError {
    #[error("{}", in_words(.0))]
    Io(#[from] io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetingError),
}

impl Work {
    fn carry_out(&self, shared: &Shared, start: &StartSignal) {
        let stream = match self.open() {
            Ok(stream) => stream,
            Err(why) => return shared.flow.kill(why.to_string()),
        };
        *locked(&shared.end) = sys::end_of(&stream);
        shared.connected.store(true, Ordering::Release);
        if !start.wait(&shared.flow, self.plan.after_ns) {
            return;
        }
        shared.started_ns.store(sys::now_ns(), Ordering::Release);
        match self.plan.direction {
            Direction::Up => flow::send(&stream, &shared.flow, true),
            Direction::Down => match (&mut &stream).write_all(&Note::default().to_bytes()) {
                Ok(()) => flow::receive(&stream, &shared.flow, true),
                Err(error) => shared.flow.kill(in_words(&error)),
            },
        }
    }

    fn open(&self) -> Result<TcpStream, OpenError> {
        let Work { server, plan, id } = self;
        let port = server.local_port.map(|first| first.wrapping_add(*id as u16));
        let stream = sys::connect(server.address, port, TIMEOUT)?;
        let cc = (plan.direction == Direction::Up).then_some(server.cc.as_deref()).flatten();
        flow::prepare(&stream, plan.dscp, cc)?;
        let opening =
            Opening { session: server.session, id: *id, direction: plan.direction, dscp: plan.dscp }
                .to_bytes();
        let proof = auth::proof(&server.secret, "flow", &[&opening]);
        let hello = [&wire::greeting(Role::Flow)[..], &opening, &proof].concat();
        (&mut &stream).write_all(&hello)?;
        expect_fine(&stream, sys::now_ns() + TIMEOUT.as_nanos() as u64)?;
        Ok(stream)
    }
}

/// Makes flows wait until all are connected.
#[derive(Default)]
struct StartSignal {
    go: Mutex<Option<u64>>,
    opened: Condvar,
}

impl StartSignal {
    /// Waits until so long after the start; false if the flow is ended before.
    fn wait(&self, flow: &Flow, after_ns: u64) -> bool {
        let mut go = locked(&self.go);
        loop {
            if flow.has_ended() {
                return false;
            }
            let left = match *go {
                Some(at) => Duration::from_nanos((at + after_ns).saturating_sub(sys::now_ns())),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return true;
            }
            let wait = left.min(Duration::from_millis(100));
            go = self.opened.wait_timeout(go, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Connections opened only to time that, as `tcp_f` of the responsiveness draft.
#[derive(Default)]
struct Connects {
    over: AtomicBool,
    took: Mutex<Vec<Probe>>,
}

impl Connects {
    fn carry_out(&self, address: SocketAddr, start: &StartSignal) {
        while !self.over.load(Ordering::Relaxed) {
            if locked(&start.go).is_none() {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
            let t_ns = sys::now_ns();
            // One that fails is not counted; the cause shows in the flows and the pinger.
            if let Ok(stream) = TcpStream::connect_timeout(&address, TIMEOUT) {
                locked(&self.took).push(Probe { t_ns, took_ns: sys::now_ns() - t_ns });
                // Closed by a reset, so that no connection remains in TIME-WAIT.
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            }
            thread::sleep(CONNECT_EVERY);
        }
    }
}

/// The server's clock less the client's, by the shortest of some pings, if both ways take equally long.
fn offset(idle: &[Ping]) -> i64 {
    let known = idle.iter().filter_map(|p| Some((p.rtt_ns, p.up_ns?)));
    known.min().map_or(0, |(rtt_ns, up_ns)| up_ns.saturating_sub((rtt_ns / 2).cast_signed()))
}

fn plus(ns: u64, change: i64) -> u64 {
    ns.saturating_add_signed(change)
}
