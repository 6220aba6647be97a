//! The measuring end: one scenario after the other, with what was observed of each.

mod pinger;
mod running;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use measure::{
    Conditions, Direction, Document, Flows, Observed, SCENARIOS, Scenario, Stability, classic, document,
    measured,
};
use serde::Deserialize;

use crate::error::MAX_S;
use crate::link::{Link, TIMEOUT, fill_before, read_before};
use crate::sys;
use crate::wire::{self, GREETING, MAX_REPLY, NONCE, PORT, PROOF, Role, SESSION, Status};
use crate::{ClientError, GreetingError, OptionError, auth};
use pinger::{Lost, Pinger};
use running::{Plan, Running};

/// Code points of the staircase, in the order in which they join: best effort, background (CS1), video (CS5), voice (EF):
/// the four classes of Flent's test "rrul".
const CLASSES: [u8; 4] = [0, 8, 40, 46];

/// Steps of the staircase; each adds an upload and a download.
const STEPS: u32 = 8;

/// Duration of a step of the staircase unless `duration_s` says it, in s.
const STEP_S: f64 = 5.0;

/// Pings of the idle link before the first scenario.
const FIRST_PINGS: usize = 25;

/// Pings before each scenario, at least.
const PINGS_BEFORE: usize = 10;

/// Time that a link may take to become idle again after a scenario, in ns.
const SETTLE_NS: u64 = 5_000_000_000;

/// Longest time that flows may take to be connected, and the server to say that they have ended, in ns. Commands
/// wait in the same queues as pings do.
const COMMAND_NS: u64 = 30_000_000_000;

/// Choices of a measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// The secret that the server asks for; empty for none.
    pub secret: String,
    /// Scenarios by number, from 1, in this order. None for all nineteen, or for none with `staircase`.
    pub scenarios: Option<Vec<u32>>,
    /// Length of each scenario, s. None until the metrics are stable.
    pub duration_s: Option<f64>,
    /// End a scenario that does not become stable after so long, s.
    pub at_most_s: f64,
    /// Measure a rising staircase of flows too.
    pub staircase: bool,
    /// Congestion control of uploads. None for the system's.
    pub cc: Option<String>,
    /// 4 or 6: only addresses of this version of IP.
    pub ip: Option<u8>,
    /// Give up when the server has not answered for so long, s.
    pub idle_timeout_s: u64,
    /// The client's port of the pinger's connection, and the one before those of the flows, in their order. None for any
    /// that are free. Who watches the connections from outside has to know them.
    pub local_port: Option<u16>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            host: String::new(),
            port: PORT,
            secret: String::new(),
            scenarios: None,
            duration_s: None,
            at_most_s: MAX_S,
            staircase: false,
            cc: None,
            ip: None,
            idle_timeout_s: 60,
            local_port: None,
        }
    }
}

impl Options {
    /// Checks whether the options make sense.
    ///
    /// # Errors
    /// The first option that makes none.
    pub fn check(&self) -> Result<(), OptionError> {
        let most = SCENARIOS.len() as u32;
        if let Some(wrong) = self.scenarios.iter().flatten().find(|number| !(1..=most).contains(*number)) {
            return Err(OptionError::Scenario(*wrong));
        }
        let longest_s = MAX_S / if self.staircase { f64::from(STEPS) } else { 1.0 };
        if let Some(found) = self.duration_s.filter(|s| !(0.5..=longest_s).contains(s)) {
            return Err(OptionError::Duration { found, longest_s });
        }
        if !(1.0..=MAX_S).contains(&self.at_most_s) {
            return Err(OptionError::AtMost(self.at_most_s));
        }
        if let Some(wrong) = self.ip.filter(|ip| ![4, 6].contains(ip)) {
            return Err(OptionError::Ip(wrong));
        }
        self.cc.as_deref().map_or(Ok(()), crate::check_congestion_control)
    }

    /// The numbers of the scenarios to measure.
    fn numbers(&self) -> Vec<u32> {
        let all = if self.staircase { 0 } else { SCENARIOS.len() as u32 };
        self.scenarios.clone().unwrap_or_else(|| (1..=all).collect())
    }
}

/// Scenarios by number, such as `1,3-5`.
///
/// # Errors
/// What was found. Whether the numbers exist is for `Options::check` to say; here they only have to be so
/// small that no range of them is long.
pub fn scenario_list(text: &str) -> Result<Vec<u32>, OptionError> {
    let wrong = || OptionError::ScenarioList(text.to_owned());
    let number =
        |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number <= 99).ok_or_else(wrong);
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        found.extend(first..=last);
    }
    Ok(found)
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Everything that was measured; of a run that was cut short, so far.
    pub document: Document,
    /// Reason why the measurement was cut short, in one line. None if it was complete.
    pub error: Option<String>,
}

/// Measures. `print` gets the classic output piece by piece; `cancel` ends the run early.
///
/// # Errors
/// The server cannot be reached, or refuses, or the options make no sense.
pub fn run(
    options: &Options,
    cancel: &AtomicBool,
    print: &mut dyn FnMut(&str),
) -> Result<Outcome, ClientError> {
    options.check()?;
    let mut run = Run::connect(options)?;
    let mut observed = Observed::default();
    let ended = run.measure(&mut observed, cancel, print);
    let interrupted = cancel.load(Ordering::Relaxed);
    if ended.is_ok() {
        run.pinger.bye();
    }
    let error = match ended {
        Ok(()) => interrupted.then(|| "interrupted".to_owned()),
        Err(lost) => Some(lost.to_string()),
    };
    let status = match &error {
        _ if interrupted => "interrupted",
        Some(_) => "failed",
        None => "complete",
    };
    let conditions = Conditions {
        status: status.to_owned(),
        message: error.clone(),
        started_unix_s: Some(run.started_unix_s),
        facts: run.facts,
    };
    let document = document(observed, conditions);
    if let Some(place) = document.classic.find("OVERALL:") {
        print("\n");
        print(&document.classic[place..]);
    }
    Ok(Outcome { document, error })
}

struct Run<'a> {
    options: &'a Options,
    pinger: Pinger,
    server: Server,
    started_unix_s: u64,
    facts: std::collections::BTreeMap<String, String>,
    /// Time when the first ping was sent, in ns.
    began_ns: u64,
    min_rtt_ns: u64,
    next_flow: u32,
}

/// Server, as flows need to know it.
#[derive(Clone, Debug)]
struct Server {
    address: SocketAddr,
    session: [u8; SESSION],
    secret: String,
    cc: Option<String>,
    local_port: Option<u16>,
}

/// Limit of a scenario's duration.
enum Limit {
    /// End once the metrics are stable, at the latest after this time in ns.
    Stable(u64),
    /// End after this time, in ns.
    After(u64),
}

impl<'a> Run<'a> {
    fn connect(options: &'a Options) -> Result<Run<'a>, ClientError> {
        let (stream, address) = reach(options)?;
        let trouble = |error| ClientError::Connection { address, error };
        let (session, about) =
            greet(&stream, &options.secret).map_err(|why| ClientError::Greeting { address, why })?;
        let client = stream.local_addr().map_err(trouble)?;
        let facts = [
            ("server", address.to_string()),
            ("client", client.to_string()),
            ("server_is", about),
            ("client_is", crate::about()),
        ];
        let link = Link::new(stream, MAX_REPLY).map_err(trouble)?;
        Ok(Run {
            options,
            pinger: Pinger::new(link, options.idle_timeout_s),
            server: Server {
                address,
                session,
                secret: options.secret.clone(),
                cc: options.cc.clone(),
                local_port: options.local_port,
            },
            started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            facts: facts.map(|(key, value)| (key.to_owned(), value)).into(),
            began_ns: sys::now_ns(),
            min_rtt_ns: 0,
            next_flow: 0,
        })
    }

    fn measure(
        &mut self,
        observed: &mut Observed,
        cancel: &AtomicBool,
        print: &mut dyn FnMut(&str),
    ) -> Result<(), Lost> {
        self.began_ns = sys::now_ns();
        self.facts.insert("began_monotonic_ns".to_owned(), sys::monotonic_ns().to_string());
        observed.idle_pings = self.pinger.idle(FIRST_PINGS, u64::MAX, 0, cancel)?;
        self.min_rtt_ns = observed.idle_pings.iter().map(|p| p.rtt_ns).min().unwrap_or(0);
        print(&classic::min_rtt(self.min_rtt_ns));
        for number in self.options.numbers() {
            if cancel.load(Ordering::Relaxed) {
                return Ok(());
            }
            let flows = SCENARIOS[number as usize - 1];
            print(&classic::line_head(number as usize, flows));
            let limit = match self.options.duration_s {
                Some(s) => Limit::After(seconds(s)),
                None => Limit::Stable(seconds(self.options.at_most_s)),
            };
            let (scenario, ended) =
                self.carry_out(number, &mix(flows), &limit, cancel).inspect_err(|_| print("\n"))?;
            print(&classic::line_tail(&measured(&scenario)));
            print("\n");
            observed.scenarios.push(scenario);
            ended?;
        }
        if self.options.staircase && !cancel.load(Ordering::Relaxed) {
            let step = seconds(self.options.duration_s.unwrap_or(STEP_S));
            print(&format!("Staircase: {STEPS} steps of an upload and a download each..."));
            let limit = Limit::After(u64::from(STEPS) * step);
            let (scenario, ended) =
                self.carry_out(0, &stairs(step), &limit, cancel).inspect_err(|_| print("\n"))?;
            print(" done\n");
            observed.scenarios.push(scenario);
            ended?;
        }
        Ok(())
    }

    /// Carries out one mix of flows. Err if the server was lost before the mix began; if later, what was observed
    /// until then and the loss.
    fn carry_out(
        &mut self,
        number: u32,
        plans: &[Plan],
        limit: &Limit,
        cancel: &AtomicBool,
    ) -> Result<(Scenario, Result<(), Lost>), Lost> {
        let idle = self.pinger.idle(PINGS_BEFORE, SETTLE_NS, self.min_rtt_ns, cancel)?;
        let mut running = Running::open(&self.server, plans, &mut self.next_flow, &idle);
        let deadline = sys::now_ns() + COMMAND_NS;
        while !running.is_connected() && !cancel.load(Ordering::Relaxed) && sys::now_ns() < deadline {
            self.pinger.turn(Duration::from_millis(5), true)?;
        }
        self.pinger.clear();
        let go = running.go();
        let watched = self.watch(&mut running, go, limit, cancel);
        let stopped = sys::now_ns();
        // Downloads count until now, uploads until the server is told; both go on until it answers.
        running.close(stopped);
        let forced = matches!(watched, Ok(true));
        let ended = match watched {
            Ok(_) => self.stop(&mut running, cancel),
            Err(lost) => {
                running.clear_killed_by_loss(stopped);
                Err(lost)
            }
        };
        let pings = self.pinger.take(go, stopped);
        let scenario = running.finish(number, go, stopped, self.began_ns, idle, pings);
        let interrupted = ended.is_err() || cancel.load(Ordering::Relaxed);
        Ok((Scenario { forced, interrupted, ..scenario }, ended))
    }

    /// Lets the flows run until it is time to stop them; whether they had to be, before they were stable.
    fn watch(
        &mut self,
        running: &mut Running,
        go: u64,
        limit: &Limit,
        cancel: &AtomicBool,
    ) -> Result<bool, Lost> {
        let mut stability = Stability::default();
        let mut next_report = go + 1_000_000_000;
        loop {
            let now = sys::now_ns();
            let (Limit::Stable(after) | Limit::After(after)) = *limit;
            if now >= go + after {
                return Ok(matches!(limit, Limit::Stable(_)));
            }
            if cancel.load(Ordering::Relaxed) || running.have_all_ended() {
                return Ok(false);
            }
            if now >= next_report {
                self.pinger.ask_report()?;
                next_report += 1_000_000_000;
            }
            let wait = Duration::from_nanos((go + after).min(next_report) - now);
            if let Some(report) = self.pinger.turn(wait, true)? {
                running.take(report);
                let so_far = running.so_far(go, self.pinger.peek(go));
                if matches!(limit, Limit::Stable(_)) && stability.push(measured(&so_far)) {
                    return Ok(false);
                }
            }
        }
    }

    /// Ends the flows at both ends, and takes what the server counted of them.
    fn stop(&mut self, running: &mut Running, cancel: &AtomicBool) -> Result<(), Lost> {
        let patience = if cancel.load(Ordering::Relaxed) { COMMAND_NS / 10 } else { COMMAND_NS };
        self.pinger.stop(patience)?.into_iter().for_each(|report| running.take(report));
        running.end();
        self.pinger.report(patience)?.into_iter().for_each(|report| running.take(report));
        Ok(())
    }
}

/// The flows of a scenario: up1, down1, up2 and so on, all at once.
fn mix(flows: Flows) -> Vec<Plan> {
    let plans = (1..=flows.uploads.max(flows.downloads)).flat_map(|number| {
        let ways = [(Direction::Up, flows.uploads), (Direction::Down, flows.downloads)];
        let wanted = ways.into_iter().filter(move |(_, count)| number <= *count);
        wanted.map(move |(direction, _)| Plan::new(direction, number, 0, 0))
    });
    plans.collect()
}

/// The flows of the staircase, whose steps take `step` ns.
fn stairs(step: u64) -> Vec<Plan> {
    let plans = (0..STEPS).flat_map(|k| {
        let dscp = CLASSES[k as usize % CLASSES.len()];
        [Direction::Up, Direction::Down].map(|way| Plan::new(way, k + 1, dscp, u64::from(k) * step))
    });
    plans.collect()
}

/// ns of s.
fn seconds(s: f64) -> u64 {
    (s * 1e9) as u64
}

/// Connects to the first address of the server that answers.
fn reach(options: &Options) -> Result<(TcpStream, SocketAddr), ClientError> {
    let Options { host, port, ip, .. } = options;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let wanted = |address: &SocketAddr| match ip {
        Some(4) => address.is_ipv4(),
        Some(_) => address.is_ipv6(),
        None => true,
    };
    let found: Vec<SocketAddr> = match bare.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, *port)],
        Err(_) => {
            let resolved = (bare, *port).to_socket_addrs();
            resolved.map_err(|error| ClientError::Resolve { host: host.clone(), error })?.collect()
        }
    };
    let mut why = ClientError::NoAddress(host.clone());
    for address in found.into_iter().filter(wanted) {
        match sys::connect(address, options.local_port, TIMEOUT) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => why = ClientError::Unreachable { address, error },
        }
    }
    Err(why)
}

/// Exchanges greetings and proofs; the session's name, and what the server says of itself.
fn greet(stream: &TcpStream, secret: &str) -> Result<([u8; SESSION], String), GreetingError> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let deadline = sys::now_ns() + TIMEOUT.as_nanos() as u64;
    let ours = auth::unguessable::<NONCE>()?;
    (&mut &*stream).write_all(&[&wire::greeting(Role::Pinger)[..], &ours].concat())?;
    expect_fine(stream, deadline)?;
    let theirs = read_before::<NONCE>(stream, deadline)?;
    (&mut &*stream).write_all(&auth::proof(secret, "client", &[&ours, &theirs]))?;
    expect_fine(stream, deadline)?;
    let name = read_before::<SESSION>(stream, deadline)?;
    let proof = read_before::<PROOF>(stream, deadline)?;
    if !secret.is_empty() && !auth::proves(secret, "server", &[&ours, &theirs, &name], &proof) {
        return Err(GreetingError::Secret);
    }
    let [length] = read_before::<1>(stream, deadline)?;
    let mut about = vec![0; usize::from(length)];
    fill_before(stream, &mut about, deadline)?;
    Ok((name, wire::printable(&about)))
}

/// Reads a server's answer; one that is not `Fine` is an error.
fn expect_fine(stream: &TcpStream, deadline_ns: u64) -> Result<(), GreetingError> {
    match wire::read_answer(&read_before::<GREETING>(stream, deadline_ns)?) {
        Some(Status::Fine) => Ok(()),
        Some(status) => Err(GreetingError::Refused(status)),
        None => Err(GreetingError::NoServer),
    }
}
