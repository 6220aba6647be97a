//! The sampler: TCP_INFO of live sockets at an interval, in any number of network namespaces, on one clock.
//!
//! It asks the kernel through sock_diag (sock_diag(7)). Finding sockets means a walk through the kernel's whole table of
//! connections; a socket once found is asked for by its identity, which costs a microsecond. While a socket is still to
//! be found, walks take no more than a fiftieth of the time, so it is found within one interval where the table is small
//! (see the sysctl `net.ipv4.tcp_child_ehash_entries`), and within some tens of milliseconds where it is large. A walk
//! keeps a processor from everything else, the emulator too, so there are fewer when all were found.

mod counters;
mod diag;
mod table;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use contract::table::Batch;
use path::Nanos;
use serde::Deserialize;
use serde_json::json;

use crate::ConfigError;
use crate::sys::{self, Waker};
use counters::Counters;
use diag::{Diag, FETCHED, Found, Identity};
use table::Table;

/// Least time that a walk counts as, in ns: where processing takes no time, as in a guest in virtual time, walks
/// are rare all the same.
const LEAST_WALK: Nanos = 50_000;
/// Walks take at most one part in so many of the time, while a socket is to be found.
const SEARCHING: Nanos = 50;
/// Walks take at most one part in so many of the time, while there may be more sockets than were found.
const WATCHING: Nanos = 200;
/// Walks take at most one part in so many of the time, while all sockets were found that can be.
const CONTENT: Nanos = 2000;
/// Walks take at most one part in so many of the time, while all sockets were found that can be and the time is told: a walk takes
/// none of that, but much of the real machine's.
const CONTENT_IF_TOLD: Nanos = 20_000;

/// Configuration of the sampler, as JSON. Unknown fields are refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Identifier of the run in the records.
    pub run_id: u32,
    /// Between samples.
    pub interval_ns: Nanos,
    /// Names of flows, in the experiment's order.
    pub flows: Vec<String>,
    /// Keys by which sockets belong to flows; of several that match the first counts.
    pub sockets: Vec<SocketKey>,
    /// Tell entries to fast recovery, in namespaces with one connection of the flows: the kernel counts by namespace.
    pub recoveries: bool,
    /// Rows of a connection whose ports are given are made when an acknowledgement is told ([`Stepped::acknowledged`]), and not
    /// at the interval.
    #[serde(default)]
    pub per_ack: bool,
}

/// Sockets of a flow.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketKey {
    /// Name of the flow.
    pub flow: String,
    /// Network namespace: a name under /run/netns, or a path. Null: the caller's.
    pub netns: Option<String>,
    /// Port at this end. Null: any.
    pub local_port: Option<u16>,
    /// Port at the other end. Null: any.
    pub remote_port: Option<u16>,
}

impl Config {
    fn parse(json: &str) -> Result<Config, ConfigError> {
        let config: Config =
            serde_json::from_str(json).map_err(|error| ConfigError::Parse("sampler", error))?;
        if config.interval_ns == 0 {
            return Err(ConfigError::Interval);
        }
        if let Some(key) = config.sockets.iter().find(|key| !config.flows.contains(&key.flow)) {
            return Err(ConfigError::NoFlow("sampler", key.flow.clone()));
        }
        Ok(config)
    }

    /// Whether a key's rows are made at acknowledgements alone.
    fn is_per_ack(&self, key: usize) -> bool {
        self.per_ack && self.sockets[key].local_port.and(self.sockets[key].remote_port).is_some()
    }

    /// Whether what a namespace counts is one connection's.
    fn counts_recoveries(&self, netns: Option<&String>) -> bool {
        let mut there = self.sockets.iter().filter(|key| key.netns.as_ref() == netns);
        let only = there.next().is_some_and(|key| key.local_port.and(key.remote_port).is_some());
        self.recoveries && only && there.next().is_none()
    }
}

/// A sampler; dropping it stops it.
pub struct Sampler {
    config: Config,
    running: Option<Running>,
}

struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Worker>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// CLOCK_MONOTONIC of t = 0.
    zero: AtomicU64,
    waker: Waker,
}

impl Sampler {
    /// A sampler that was not started.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: &str) -> Result<Sampler, ConfigError> {
        Ok(Sampler { config: Config::parse(config)?, running: None })
    }

    /// Starts to sample; returns the CLOCK_MONOTONIC time that is t = 0.
    ///
    /// # Errors
    /// No such namespace, not enough rights, or it runs already.
    pub fn start(&mut self) -> io::Result<Nanos> {
        if self.running.is_some() {
            return Err(io::Error::other("the sampler runs already"));
        }
        let zero = sys::monotonic();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            zero: AtomicU64::new(zero),
            waker: Waker::new()?,
        });
        let worker = Worker::new(self.config.clone(), shared.clone())?;
        let thread = thread::Builder::new().name("sampler".into()).spawn(move || worker.run())?;
        self.running = Some(Running { shared, thread: Some(thread) });
        Ok(zero)
    }

    /// Moves t = 0 to this CLOCK_MONOTONIC time; rows before it are dropped.
    ///
    /// # Errors
    /// It does not run.
    pub fn mark_start(&mut self, zero: Nanos) -> io::Result<()> {
        let running = self.running.as_ref().ok_or_else(|| io::Error::other("the sampler does not run"))?;
        running.shared.zero.store(zero, Ordering::Release);
        Ok(())
    }

    /// Ends the sampler; returns the records (table, batch) and a report as JSON.
    ///
    /// # Errors
    /// It does not run, or its thread failed.
    pub fn stop(&mut self) -> io::Result<(Vec<(&'static str, Batch)>, String)> {
        let mut running = self.running.take().ok_or_else(|| io::Error::other("the sampler does not run"))?;
        let worker = running.end().ok_or_else(|| io::Error::other("the sampler failed"))?;
        Ok(worker.finish())
    }
}

impl Running {
    /// None if the thread failed, or has ended before.
    fn end(&mut self) -> Option<Worker> {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A sampler that is told when to look, and what time it is: for a kernel in virtual time, where looking takes none of it.
pub struct Stepped(Worker);

impl Stepped {
    /// A sampler that has not looked; t = 0 is this CLOCK_MONOTONIC time.
    ///
    /// # Errors
    /// What is wrong with the configuration, no such namespace, or not enough rights.
    pub fn new(config: &str, zero: Nanos) -> io::Result<Stepped> {
        let config = Config::parse(config).map_err(io::Error::other)?;
        let shared =
            Shared { stop: AtomicBool::new(false), zero: AtomicU64::new(zero), waker: Waker::new()? };
        let mut worker = Worker::new(config, Arc::new(shared))?;
        worker.told = Some(zero);
        Ok(Stepped(worker))
    }

    /// Time between samples, ns.
    pub fn interval(&self) -> Nanos {
        self.0.config.interval_ns
    }

    /// Writes one row for every socket there is, `t` ns after t = 0, with the newest round trip of each flow where
    /// it is known.
    pub fn sample(&mut self, t: Nanos, round_trips: &[Option<Nanos>]) {
        self.0.tell(t, round_trips);
        self.0.sample();
    }

    /// The senders of these flows had an acknowledgement `t` ns after t = 0, where nothing has happened since: writes a row for
    /// each, if that is wanted.
    pub fn acknowledged(&mut self, t: Nanos, flows: &[u32], round_trips: &[Option<Nanos>]) {
        self.0.tell(t, round_trips);
        for &flow in flows {
            self.0.acknowledged(flow);
        }
    }

    /// Records that are complete.
    pub fn take(&mut self) -> Vec<(&'static str, Batch)> {
        self.0.table.take()
    }

    /// The records (table, batch) and a report as JSON, as of [`Sampler::stop`].
    pub fn finish(self) -> (Vec<(&'static str, Batch)>, String) {
        self.0.finish()
    }
}

/// The sampling thread.
struct Worker {
    config: Config,
    shared: Arc<Shared>,
    places: Vec<Place>,
    table: Table,
    /// t = 0 of the rows in `table`.
    zero: Nanos,
    samples: u64,
    missed: u64,
    late_max: Nanos,
    errors: Vec<String>,
    /// The time, where that is told.
    told: Option<Nanos>,
    /// Newest round trip of each flow, where that is told.
    round_trips: Vec<Option<Nanos>>,
}

/// A network namespace.
struct Place {
    diag: Diag,
    counters: Option<Counters>,
    /// Sockets found there: whose, and by which of the keys.
    known: Vec<Known>,
    /// Time that a walk takes.
    walk: Nanos,
    /// Time when the last walk began.
    walked: Nanos,
    /// Rows whose sockets the kernel has noted and not told, in the order of its answers.
    noted: Vec<Noted>,
}

/// A row without what the kernel tells.
struct Noted {
    /// Time of the run; None before it.
    t: Option<Nanos>,
    identity: Identity,
    flow: u32,
    rtt: Option<Nanos>,
    recoveries: Option<u64>,
}

/// A socket that a walk has found.
#[derive(Clone, Copy)]
struct Known {
    identity: Identity,
    flow: u32,
    key: usize,
}

impl Place {
    /// Walks take one part in so many of the time; `told` says whether the time is told.
    fn share(&self, config: &Config, told: bool) -> Nanos {
        let keys =
            config.sockets.iter().enumerate().filter(|(_, key)| key.netns.as_ref() == self.diag.name());
        let found = |index: usize| self.known.iter().any(|known| known.key == index);
        let share = |(index, key): (usize, &SocketKey)| match key.local_port.and(key.remote_port) {
            _ if !found(index) => SEARCHING,
            None => WATCHING,
            Some(_) if told => CONTENT_IF_TOLD,
            Some(_) => CONTENT,
        };
        keys.map(share).min().unwrap_or(CONTENT)
    }
}

impl Worker {
    fn new(config: Config, shared: Arc<Shared>) -> io::Result<Worker> {
        let mut names: Vec<Option<String>> = Vec::new();
        for key in &config.sockets {
            if !names.contains(&key.netns) {
                names.push(key.netns.clone());
            }
        }
        let place = |name: Option<String>| -> io::Result<Place> {
            let counters = config.counts_recoveries(name.as_ref()).then(|| Counters::open(name.clone()));
            let counters = counters.transpose()?;
            Ok(Place {
                diag: Diag::open(name)?,
                counters,
                known: Vec::new(),
                walk: 0,
                walked: 0,
                noted: Vec::new(),
            })
        };
        Ok(Worker {
            places: names.into_iter().map(place).collect::<io::Result<_>>()?,
            table: Table::new(config.run_id, &config.flows),
            zero: shared.zero.load(Ordering::Acquire),
            config,
            shared,
            samples: 0,
            missed: 0,
            late_max: 0,
            errors: Vec::new(),
            told: None,
            round_trips: Vec::new(),
        })
    }

    fn run(mut self) -> Worker {
        sys::run_before_most();
        let interval = self.config.interval_ns;
        while !self.shared.stop.load(Ordering::Acquire) {
            let zero = self.shared.zero.load(Ordering::Acquire);
            if zero != self.zero {
                self.zero = zero;
                self.table = Table::new(self.config.run_id, &self.config.flows);
                (self.samples, self.missed, self.late_max) = (0, 0, 0);
            }
            let now = sys::monotonic();
            // Samples are at multiples of the interval after t = 0, and before it as well.
            let phase =
                if now >= zero { (now - zero) % interval } else { interval - (zero - now) % interval };
            self.late_max = self.late_max.max(if self.samples > 0 { phase } else { 0 });
            self.sample();
            let took = sys::monotonic() - now + phase;
            self.missed += took / interval;
            self.shared.waker.wait(interval - took % interval);
        }
        self
    }

    fn now(&self) -> Nanos {
        self.told.unwrap_or_else(sys::monotonic)
    }

    fn tell(&mut self, t: Nanos, round_trips: &[Option<Nanos>]) {
        self.told = Some(self.zero + t);
        self.round_trips.clear();
        self.round_trips.extend_from_slice(round_trips);
    }

    /// Writes one row for every socket there is.
    fn sample(&mut self) {
        self.samples += 1;
        for index in 0..self.places.len() {
            let before = self.now();
            let place = &mut self.places[index];
            let share = place.share(&self.config, self.told.is_some());
            let walks = before >= place.walked + place.walk * share;
            if self.told.is_some() && !walks {
                let known = self.known(index, |known, config| !config.is_per_ack(known.key));
                self.note(index, &known, before);
                continue;
            }
            self.look(index, walks, before, |known, config| !config.is_per_ack(known.key));
        }
    }

    /// Writes a row for a flow's connections, where acknowledgements make rows.
    fn acknowledged(&mut self, flow: u32) {
        let wanted = |known: &Known, config: &Config| known.flow == flow && config.is_per_ack(known.key);
        let config = &self.config;
        let of_flow = |key: &usize| {
            config.is_per_ack(*key) && config.flows.get(flow as usize) == Some(&config.sockets[*key].flow)
        };
        let key = (0..config.sockets.len()).find(of_flow);
        let at = |key: usize| {
            self.places.iter().position(|place| place.diag.name() == config.sockets[key].netns.as_ref())
        };
        let Some(index) = key.and_then(at) else { return };
        let (now, known) = (self.now(), self.known(index, wanted));
        self.samples += 1;
        if known.is_empty() {
            self.look(index, true, now, wanted);
        } else {
            self.note(index, &known, now);
        }
    }

    fn known(&self, index: usize, wanted: impl Fn(&Known, &Config) -> bool) -> Vec<Known> {
        self.places[index].known.iter().filter(|known| wanted(known, &self.config)).copied().collect()
    }

    /// Writes a row for every socket of a place that is wanted, of those that a walk finds or has found.
    fn look(&mut self, index: usize, walks: bool, before: Nanos, wanted: impl Fn(&Known, &Config) -> bool) {
        self.fetch();
        let place = &mut self.places[index];
        let result = if walks { walk(place, &self.config) } else { ask(place) };
        let found = match result {
            Ok(found) => found,
            Err(error) => return self.report(&error),
        };
        let recoveries = self.recoveries(index);
        let after = if walks { self.now() } else { before };
        let place = &mut self.places[index];
        if walks {
            place.walk = (after - before).max(LEAST_WALK);
            place.walked = before;
        }
        let Some(t) = before.checked_sub(self.zero) else { return };
        for (socket, known) in found.iter().filter(|(_, known)| wanted(known, &self.config)) {
            let rtt = self.round_trips.get(known.flow as usize).copied().flatten();
            self.table.push(t, known.flow, socket, rtt, recoveries);
        }
    }

    fn recoveries(&mut self, index: usize) -> Option<u64> {
        let counted = self.places[index].counters.as_mut().map_or(Ok(None), Counters::recoveries);
        counted.unwrap_or_else(|error| {
            self.report(&error);
            None
        })
    }

    /// Has the kernel note sockets of a place; what it tells of them is fetched later, for many samples at once.
    fn note(&mut self, index: usize, known: &[Known], now: Nanos) {
        for known in known.chunks(FETCHED) {
            if self.places[index].noted.len() + known.len() > FETCHED {
                self.fetch();
            }
            let identities: Vec<_> = known.iter().map(|known| known.identity).collect();
            if let Err(error) = self.places[index].diag.note(&identities) {
                self.report(&error);
                return;
            }
            let recoveries = self.recoveries(index);
            let t = now.checked_sub(self.zero);
            let noted = known.iter().map(|&Known { identity, flow, .. }| {
                let rtt = self.round_trips.get(flow as usize).copied().flatten();
                Noted { t, identity, flow, rtt, recoveries }
            });
            self.places[index].noted.extend(noted);
        }
    }

    /// Writes the rows of what was noted, those of all places.
    fn fetch(&mut self) {
        let mut found = Vec::new();
        for index in 0..self.places.len() {
            found.clear();
            let place = &mut self.places[index];
            let noted = std::mem::take(&mut place.noted);
            let fetched = place.diag.fetch(noted.len(), &mut found);
            for (noted, socket) in noted.iter().zip(&found) {
                match (noted.t, socket) {
                    (Some(t), Some(socket)) => {
                        self.table.push(t, noted.flow, socket, noted.rtt, noted.recoveries);
                    }
                    (None, Some(_)) => (),
                    (_, None) => place.known.retain(|known| known.identity != noted.identity),
                }
            }
            if let Err(error) = fetched {
                self.report(&error);
            }
        }
    }

    #[cold]
    fn report(&mut self, error: &io::Error) {
        let line = error.to_string();
        if !self.errors.contains(&line) {
            self.errors.push(line);
        }
    }

    fn finish(mut self) -> (Vec<(&'static str, Batch)>, String) {
        self.fetch();
        let report = json!({
            "samples": self.samples,
            "missed": self.missed,
            "late_max_ns": self.late_max,
            "walk_ns": self.places.iter().map(|place| place.walk).max(),
            "errors": self.errors,
        });
        (self.table.finish(), report.to_string())
    }
}

/// All sockets of a namespace that are some flow's.
fn walk(place: &mut Place, config: &Config) -> io::Result<Vec<(Found, Known)>> {
    let mut found = Vec::new();
    let name = place.diag.name().cloned();
    place.diag.walk(&mut |socket| {
        let port = |wanted: Option<u16>, port: u16| wanted.is_none_or(|wanted| wanted == port);
        let key = config.sockets.iter().position(|key| {
            key.netns == name
                && port(key.local_port, socket.identity.local_port())
                && port(key.remote_port, socket.identity.remote_port())
        });
        let Some(key) = key else { return };
        let flow = config.flows.iter().position(|flow| *flow == config.sockets[key].flow).unwrap_or(0) as u32;
        let known = Known { identity: socket.identity, flow, key };
        found.push((socket, known));
    })?;
    // The kernel's order is that of its table.
    found.sort_by_key(|(_, known)| (known.flow, known.identity.local_port(), known.identity.remote_port()));
    place.known = found.iter().map(|&(_, known)| known).collect();
    Ok(found)
}

/// The sockets that the last walk found.
fn ask(place: &mut Place) -> io::Result<Vec<(Found, Known)>> {
    let mut found = Vec::new();
    for known in std::mem::take(&mut place.known) {
        if let Some(socket) = place.diag.ask(&known.identity)? {
            found.push((socket, known));
        }
    }
    place.known = found.iter().map(|&(_, known)| known).collect();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use contract::table::ColumnData;

    use super::*;

    const MILLISECOND: Nanos = 1_000_000;

    fn column(batch: &Batch, name: &str) -> Vec<u64> {
        match &batch.columns.iter().find(|column| column.name == name).expect("a column").data {
            ColumnData::U64(values) => values.clone(),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn samples_that_are_fetched_together_tell_what_was_at_their_times() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let (mut far, _) = listener.accept().expect("the same");
        let ports = [near.local_addr(), near.peer_addr()].map(|address| address.expect("connected").port());
        let config = json!({
            "run_id": 7,
            "interval_ns": MILLISECOND,
            "flows": ["f"],
            "sockets": [{"flow": "f", "netns": null, "local_port": ports[0], "remote_port": ports[1]}],
            "recoveries": true,
        });
        let mut sampler = Stepped::new(&config.to_string(), 1000 * MILLISECOND).expect("a sampler");
        for time in 0..80 {
            sampler.sample(time * MILLISECOND, &[Some(time)]);
            if time == 20 {
                near.write_all(&[0; 100]).expect("room");
                far.read_exact(&mut [0; 100]).expect("what was written");
                thread::sleep(std::time::Duration::from_millis(100));
            }
        }
        // One walk, and of the 79 samples after it those that are not fetched yet.
        assert_eq!(sampler.0.places[0].noted.len(), 79 - FETCHED);
        let (batches, report) = sampler.finish();
        assert!(report.contains("\"errors\":[]"), "{report}");
        let (_, batch) = &batches[0];
        let times: Vec<u64> = (0..80).map(|time| time * MILLISECOND).collect();
        assert_eq!(column(batch, "t_ns"), times);
        assert_eq!(column(batch, "rtt_ns"), (0..80).collect::<Vec<u64>>());
        let delivered = column(batch, "delivered_bytes");
        assert_eq!(delivered[20] + 100, delivered[21], "{delivered:?}");
    }

    #[test]
    fn acknowledgements_make_the_rows_of_a_connection_and_the_interval_those_of_many() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let many = TcpStream::connect(listener.local_addr().expect("bound")).expect("another");
        let port = |stream: &TcpStream| stream.local_addr().expect("connected").port();
        let far = one.peer_addr().expect("connected").port();
        let config = json!({
            "run_id": 7,
            "interval_ns": 10 * MILLISECOND,
            "flows": ["one", "many"],
            "sockets": [
                {"flow": "one", "netns": null, "local_port": port(&one), "remote_port": far},
                {"flow": "many", "netns": null, "local_port": port(&many), "remote_port": null},
            ],
            "recoveries": false,
            "per_ack": true,
        });
        let mut sampler = Stepped::new(&config.to_string(), 1000 * MILLISECOND).expect("a sampler");
        // The first acknowledgement finds the socket, the others ask for it.
        sampler.acknowledged(3 * MILLISECOND, &[0, 1], &[Some(5), None]);
        sampler.sample(10 * MILLISECOND, &[]);
        sampler.acknowledged(14 * MILLISECOND, &[0], &[Some(6), None]);
        sampler.acknowledged(16 * MILLISECOND, &[1], &[Some(6), Some(7)]);
        sampler.sample(20 * MILLISECOND, &[]);
        let (batches, report) = sampler.finish();
        assert!(report.contains("\"errors\":[]"), "{report}");
        let (_, batch) = &batches[0];
        let times: Vec<u64> = column(batch, "t_ns").iter().map(|t| t / MILLISECOND).collect();
        let ColumnData::Dict { indices, .. } = &batch.columns[2].data else { panic!("flows") };
        let rows: Vec<_> = times.into_iter().zip(indices.iter().copied()).collect();
        assert_eq!(rows, [(3, 0), (10, 1), (14, 0), (20, 1)]);
    }

    #[test]
    fn a_sampler_that_is_told_the_time_walks_once_a_second_when_all_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let ports = [near.local_addr(), near.peer_addr()].map(|address| address.expect("connected").port());
        let config = json!({
            "run_id": 7,
            "interval_ns": 10 * MILLISECOND,
            "flows": ["f"],
            "sockets": [{"flow": "f", "netns": null, "local_port": ports[0], "remote_port": ports[1]}],
            "recoveries": false,
        });
        let mut sampler = Stepped::new(&config.to_string(), 1000 * MILLISECOND).expect("a sampler");
        let mut walked = Vec::new();
        for time in (0..2500).step_by(10) {
            sampler.sample(time * MILLISECOND, &[]);
            walked.push(sampler.0.places[0].walked / MILLISECOND);
        }
        walked.dedup();
        assert_eq!(walked, [1000, 2000, 3000]);
    }

    #[test]
    fn a_socket_that_is_gone_has_no_further_rows() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let port = near.local_addr().expect("connected").port();
        let config = json!({
            "run_id": 7,
            "interval_ns": MILLISECOND,
            "flows": ["f"],
            "sockets": [{"flow": "f", "netns": null, "local_port": port, "remote_port": null}],
            "recoveries": false,
        });
        let mut sampler = Stepped::new(&config.to_string(), 0).expect("a sampler");
        (0..3).for_each(|time| sampler.sample(time * MILLISECOND, &[]));
        // The kernel forgets a connection that is reset.
        drop(listener);
        drop(near);
        thread::sleep(std::time::Duration::from_millis(100));
        (3..6).for_each(|time| sampler.sample(time * MILLISECOND, &[]));
        let (batches, report) = sampler.finish();
        assert!(report.contains("\"errors\":[]"), "{report}");
        assert_eq!(batches[0].1.rows, 3);
    }
}
