//! The serving end: accepts connections, proves and checks secrets, serves one client's session at a time.
//!
//! No length or number that a client sends decides how much memory is allocated, and bytes are only sent back over the connection
//! that asked. Threads are bounded: `MAX_PENDING` connections that are not authenticated yet, each for `GREETING_NS` at most, and
//! `MAX_FLOWS` flows.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use measure::{Direction, End};
use serde::Deserialize;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use crate::flow::{self, Flow};
use crate::link::{Link, TIMEOUT, read_before};
use crate::sys::{self, in_words, would_block};
use crate::wire::{
    self, FLOW, FlowReport, GREETING, MAX_REQUEST, NONCE, Opening, PORT, PROOF, Reply, Request, Role,
    SESSION, Status,
};
use crate::{OptionError, ServerError, auth, locked};

/// Most connections that are not authenticated yet; a further one takes the place of the oldest.
const MAX_PENDING: usize = 64;

/// The longest that a connection may take to authenticate, ns.
const GREETING_NS: u64 = 5_000_000_000;

/// Time that the threads of a server that ends have to end, in ns; a busy machine takes its time.
const LAST_WORDS_NS: u64 = 3_000_000_000;

/// Most flows of a session at a time: the largest scenario has 32.
const MAX_FLOWS: usize = 64;

/// Most flows of a session altogether; their numbers are kept, so that none is used twice.
const MAX_OPENED: usize = 65_536;

/// Lines that may be said at once, and the time in which one more may be, ns: 300 kB a day at most, whoever floods the server.
const MAX_LINES: u64 = 100;
const LINE_NS: u64 = 30_000_000_000;

/// Choices of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Addresses to listen on; none for the loopback addresses.
    pub bind: Vec<IpAddr>,
    /// Port; 0 for any that is free.
    pub port: u16,
    /// The secret that clients must know; empty for none.
    pub secret: String,
    /// Congestion control of downloads. None for the system's.
    pub cc: Option<String>,
    /// End after the first session.
    pub once: bool,
    /// End a session when nothing has come from its client for so long, s.
    pub idle_timeout_s: u64,
    /// End a session after so long, s.
    pub session_timeout_s: u64,
}

impl Default for Options {
    fn default() -> Options {
        // Nineteen scenarios of ten minutes are a little over three hours.
        Options {
            bind: Vec::new(),
            port: PORT,
            secret: String::new(),
            cc: None,
            once: false,
            idle_timeout_s: 60,
            session_timeout_s: 4 * 3600,
        }
    }
}

impl Options {
    /// Checks whether the options make sense here.
    ///
    /// # Errors
    /// The first option that makes none.
    pub fn check(&self) -> Result<(), OptionError> {
        self.cc.as_deref().map_or(Ok(()), crate::check_congestion_control)
    }
}

/// Serves until `cancel` is set, or the first session is over if only `once`; `say` is told what happens, a line each.
///
/// # Errors
/// An address cannot be listened on, or the congestion control is not known.
pub fn serve(options: &Options, cancel: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<(), ServerError> {
    options.check()?;
    let listeners = listen(options)?;
    let (lines, said) = mpsc::channel();
    let server = Arc::new(Server::new(options, lines));
    for listener in &listeners {
        let address = listener.local_addr()?;
        say(&format!("listening on {} port {}", address.ip(), address.port()));
    }
    if options.bind.is_empty() {
        say("only this machine can reach that; --bind 0.0.0.0 (or ::) lets others");
    }
    for listener in listeners {
        let server = Arc::clone(&server);
        thread::spawn(move || server.accept(&listener));
    }
    while !cancel.load(Ordering::Relaxed) && !server.over.load(Ordering::Relaxed) {
        if let Ok(line) = said.recv_timeout(Duration::from_millis(100)) {
            say(&line);
        }
    }
    server.end();
    drop(server);
    // The threads that carry out the session tell the client why it ends, and say so; with the last thread the lines are over.
    let deadline = sys::now_ns() + LAST_WORDS_NS;
    while let Ok(line) = said.recv_timeout(Duration::from_nanos(deadline.saturating_sub(sys::now_ns()))) {
        say(&line);
    }
    Ok(())
}

/// Opens the sockets of `options`.
fn listen(options: &Options) -> Result<Vec<TcpListener>, ServerError> {
    let own = || vec![IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let (addresses, chosen) =
        if options.bind.is_empty() { (own(), false) } else { (options.bind.clone(), true) };
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut port = options.port;
    for ip in addresses {
        let address = SocketAddr::new(ip, port);
        match open(address) {
            Ok(listener) => {
                port = listener.local_addr().map_or(port, |bound| bound.port());
                listeners.push(listener);
            }
            // A system may be without IPv6, or without IPv4.
            Err(error) if !chosen && error.raw_os_error().is_some_and(is_without) => {}
            Err(error) => return Err(ServerError::Listen { ip, port, error }),
        }
    }
    if listeners.is_empty() {
        return Err(ServerError::NoIp(port));
    }
    Ok(listeners)
}

/// Whether an error says that the system lacks a version of IP.
fn is_without(errno: i32) -> bool {
    [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL, libc::EPROTONOSUPPORT].contains(&errno)
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

struct Server {
    options: Options,
    session: Mutex<Option<Arc<Session>>>,
    /// Connections that are not authenticated yet, oldest first.
    pending: Mutex<VecDeque<(u64, TcpStream)>>,
    guesses: Mutex<auth::Guesses>,
    over: AtomicBool,
    counter: AtomicU64,
    spoken: Mutex<Spoken>,
    lines: Sender<String>,
}

/// Run of one client.
#[derive(Default)]
struct Session {
    name: [u8; SESSION],
    flows: Mutex<BTreeMap<u32, Arc<Served>>>,
    opened: Mutex<HashSet<u32>>,
    over: AtomicBool,
}

/// Reason why a session ends before its client says that it is done.
#[derive(Debug, Error)]
enum SessionEnd {
    #[error("{}", in_words(.0))]
    Io(#[from] io::Error),
    #[error("the server is stopping")]
    Stopping,
    #[error("it took longer than {0} s")]
    TooLong(u64),
    #[error("nothing was heard for {0} s")]
    Silent(u64),
    #[error("the client sent what is no request")]
    NoRequest,
}

/// A flow of a session.
struct Served {
    flow: Flow,
    direction: Direction,
    end: End,
}

impl Server {
    fn new(options: &Options, lines: Sender<String>) -> Server {
        Server {
            options: options.clone(),
            session: Mutex::default(),
            pending: Mutex::default(),
            guesses: Mutex::default(),
            over: AtomicBool::new(false),
            counter: AtomicU64::new(0),
            spoken: Mutex::default(),
            lines,
        }
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        while !self.over.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, peer)) => self.take(stream, peer),
                Err(error) if would_block(&error) => {
                    // An error here shows at the next accept.
                    let _ = sys::wait(listener, false, Duration::from_millis(100));
                }
                // The other end was gone already, or there are no descriptors left: the next connection may succeed.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn take(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Ok(clone) = stream.try_clone() else { return };
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut pending = locked(&self.pending);
        if pending.len() >= MAX_PENDING
            && let Some((_, oldest)) = pending.pop_front()
        {
            // Its thread will find it closed. An error means that it is closed already.
            let _ = oldest.shutdown(std::net::Shutdown::Both);
        }
        pending.push_back((number, clone));
        drop(pending);
        let server = Arc::clone(self);
        if thread::Builder::new().spawn(move || server.greet(stream, peer, number)).is_err() {
            // There are no more threads: this connection is dropped, and the others go on.
            self.remove_pending(number);
        }
    }

    fn remove_pending(&self, number: u64) {
        locked(&self.pending).retain(|(other, _)| *other != number);
    }

    /// Exchanges greetings and checks the proof.
    fn greet(&self, stream: TcpStream, peer: SocketAddr, number: u64) {
        let deadline = sys::now_ns() + GREETING_NS;
        let shown = || -> io::Result<Shown> {
            // On some systems an accepted socket inherits this.
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            match wire::read_greeting(&read_before::<GREETING>(&stream, deadline)?) {
                Ok(Role::Pinger) => self.greet_pinger(&stream, peer.ip(), deadline),
                Ok(Role::Flow) => self.greet_flow(&stream, deadline),
                Err(status) => Ok(Shown::Refused(status)),
            }
        }();
        self.remove_pending(number);
        match shown {
            // A connection without a greeting is not reported: the client opens such connections to time them.
            Err(_) => {}
            Ok(Shown::Refused(status)) => {
                // It may be gone.
                let _ = (&stream).write_all(&wire::answer(status));
                self.say(format!("refused {peer}: {}", refusal(status)));
            }
            Ok(Shown::Pinger(session)) => self.run(stream, peer, &session),
            Ok(Shown::Flow(session, id, served)) => serve_flow(&stream, &session, id, &served),
        }
    }

    fn greet_pinger(&self, stream: &TcpStream, from: IpAddr, deadline: u64) -> io::Result<Shown> {
        let theirs = read_before::<NONCE>(stream, deadline)?;
        if self.current().is_some() {
            return Ok(Shown::Refused(Status::Busy));
        }
        let ours = auth::unguessable::<NONCE>()?;
        (&mut &*stream).write_all(&[&wire::answer(Status::Fine)[..], &ours].concat())?;
        let proof = read_before::<PROOF>(stream, deadline)?;
        let admitted = locked(&self.guesses).admit(from, sys::now_ns());
        let Some(at_ns) = admitted else { return Ok(Shown::Refused(Status::Secret)) };
        thread::sleep(Duration::from_nanos(at_ns.saturating_sub(sys::now_ns())));
        if !self.is_proven("client", &[&theirs, &ours], &proof) {
            locked(&self.guesses).wrong(from, sys::now_ns());
            return Ok(Shown::Refused(Status::Secret));
        }
        locked(&self.guesses).right(from);
        let name = auth::unguessable::<SESSION>()?;
        let session = Arc::new(Session { name, ..Session::default() });
        let mut current = locked(&self.session);
        if current.is_some() {
            return Ok(Shown::Refused(Status::Busy));
        }
        *current = Some(Arc::clone(&session));
        drop(current);
        let mut welcome = wire::answer(Status::Fine).to_vec();
        welcome.extend(name);
        welcome.extend(auth::proof(&self.options.secret, "server", &[&theirs, &ours, &name]));
        wire::write_text(&mut welcome, &crate::about());
        // If it does not arrive, `run` finds the connection closed and ends the session.
        let _ = (&mut &*stream).write_all(&welcome);
        Ok(Shown::Pinger(session))
    }

    fn greet_flow(&self, stream: &TcpStream, deadline: u64) -> io::Result<Shown> {
        let bytes = read_before::<FLOW>(stream, deadline)?;
        let Some((opening, proof)) = bytes.split_first_chunk::<{ SESSION + 6 }>() else {
            return Ok(Shown::Refused(Status::Malformed));
        };
        let proof: [u8; PROOF] = proof.try_into().map_err(io::Error::other)?;
        let Some(opened) = Opening::read(opening) else { return Ok(Shown::Refused(Status::Malformed)) };
        let Some(session) = self.current().filter(|session| session.name == opened.session) else {
            return Ok(Shown::Refused(Status::NoSession));
        };
        if !self.is_proven("flow", &[opening], &proof) {
            return Ok(Shown::Refused(Status::Secret));
        }
        let cc = (opened.direction == Direction::Down).then_some(self.options.cc.as_deref()).flatten();
        flow::prepare(stream, opened.dscp, cc)?;
        let served = Served { flow: Flow::default(), direction: opened.direction, end: sys::end_of(stream) };
        let Some(served) = session.add(opened.id, served) else {
            return Ok(Shown::Refused(Status::NoSession));
        };
        if let Err(error) = (&mut &*stream).write_all(&wire::answer(Status::Fine)) {
            served.flow.kill(in_words(&error));
        }
        Ok(Shown::Flow(session, opened.id, served))
    }

    /// Whether a client has shown that it knows the secret; anyone has where there is none.
    fn is_proven(&self, role: &str, parts: &[&[u8]], proof: &[u8; PROOF]) -> bool {
        let secret = &self.options.secret;
        secret.is_empty() || auth::proves(secret, role, parts, proof)
    }

    /// Carries a session out from its beginning to its end. Its connection is closed after it, so that a client
    /// that has seen the end of the connection can be sure that the next client would be served.
    fn run(&self, stream: TcpStream, peer: SocketAddr, session: &Session) {
        self.say(format!("session of {peer} begins"));
        let mut link = Link::new(stream, MAX_REQUEST);
        let ended = match &mut link {
            Ok(link) => self.answer(link, session).map_err(|why| why.to_string()),
            Err(error) => Err(in_words(error)),
        };
        session.end();
        *locked(&self.session) = None;
        if let (Ok(link), Err(why)) = (&link, &ended) {
            // The client may still read it.
            let _ = link.send(&Reply::Ending(why.clone()).to_bytes());
        }
        drop(link);
        self.say(match ended {
            Ok(()) => format!("session of {peer} is over"),
            Err(why) => format!("session of {peer} ended: {why}"),
        });
        if self.options.once {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    /// Answers requests until the client says that it is done, or why the session has to end.
    fn answer(&self, link: &mut Link, session: &Session) -> Result<(), SessionEnd> {
        let began = sys::now_ns();
        let mut heard = began;
        let second = 1_000_000_000;
        loop {
            let next = link.next(Duration::from_millis(100))?;
            let now = sys::now_ns();
            if session.over.load(Ordering::Relaxed) {
                return Err(SessionEnd::Stopping);
            }
            if now - began > self.options.session_timeout_s * second {
                return Err(SessionEnd::TooLong(self.options.session_timeout_s));
            }
            if now - heard > self.options.idle_timeout_s * second {
                return Err(SessionEnd::Silent(self.options.idle_timeout_s));
            }
            let Some((kind, body)) = next else { continue };
            heard = now;
            let reply = match Request::read(kind, &body).ok_or(SessionEnd::NoRequest)? {
                Request::Ping(number) => Reply::Pong(number, now, sys::now_ns()),
                Request::Report => Reply::Report(now, session.report()),
                Request::Stop => {
                    session.stop(now);
                    Reply::Stopped
                }
                Request::Bye => return Ok(()),
            };
            link.send(&reply.to_bytes())?;
        }
    }

    fn current(&self) -> Option<Arc<Session>> {
        locked(&self.session).clone()
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(session) = self.current() {
            session.end();
        }
        for (_, stream) in locked(&self.pending).drain(..) {
            // An error means that it is closed already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Says a line, or counts it where too many were said: whoever floods the server does not fill the disk its lines go to.
    fn say(&self, line: String) {
        // Nobody listens any more once the server ends.
        if let Some(line) = locked(&self.spoken).allowed(line, sys::now_ns()) {
            let _ = self.lines.send(line);
        }
    }
}

/// Amount of text that was said of late: a bucket of `MAX_LINES` lines that is emptied by one every `LINE_NS`.
#[derive(Default)]
struct Spoken {
    /// Time when the bucket is empty, in ns.
    until_ns: u64,
    unsaid: u64,
}

impl Spoken {
    /// The line, with how many were left out before it, if it may be said.
    fn allowed(&mut self, line: String, now_ns: u64) -> Option<String> {
        let until_ns = self.until_ns.max(now_ns) + LINE_NS;
        if until_ns > now_ns + MAX_LINES * LINE_NS {
            self.unsaid += 1;
            return None;
        }
        self.until_ns = until_ns;
        let unsaid = std::mem::take(&mut self.unsaid);
        Some(if unsaid > 0 { format!("{line} (and {unsaid} lines before are left out)") } else { line })
    }
}

enum Shown {
    Pinger(Arc<Session>),
    Flow(Arc<Session>, u32, Arc<Served>),
    Refused(Status),
}

impl Session {
    /// None if there are too many, or the number was used, or the session is over.
    fn add(&self, id: u32, served: Served) -> Option<Arc<Served>> {
        let mut flows = locked(&self.flows);
        let mut opened = locked(&self.opened);
        let room = flows.len() < MAX_FLOWS && opened.len() < MAX_OPENED && !self.over.load(Ordering::Relaxed);
        if !room || !opened.insert(id) {
            return None;
        }
        let served = Arc::new(served);
        flows.insert(id, Arc::clone(&served));
        Some(served)
    }

    /// All flows; those whose end is told are forgotten.
    fn report(&self) -> Vec<FlowReport> {
        let mut flows = locked(&self.flows);
        let told = flows.iter().map(|(&id, served)| served.report(id)).collect();
        flows.retain(|_, served| served.flow.tally().end_ns == 0);
        told
    }

    fn stop(&self, now: u64) {
        for served in locked(&self.flows).values() {
            served.flow.close(now);
            served.flow.end();
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.stop(sys::now_ns());
    }
}

impl Served {
    fn report(&self, id: u32) -> FlowReport {
        let mut tally = self.flow.tally();
        let (bins_from, bins) = tally.take_bins();
        FlowReport {
            id,
            cc: self.end.cc.clone(),
            ecn: self.end.ecn,
            killed: tally.killed.clone(),
            bytes: tally.bytes,
            first_ns: tally.first_ns,
            last_ns: tally.last_ns,
            end_ns: tally.end_ns,
            gap_ns: tally.gap_ns,
            bins_from,
            bins,
        }
    }
}

fn serve_flow(stream: &TcpStream, session: &Session, id: u32, served: &Served) {
    match served.direction {
        Direction::Up => flow::receive(stream, &served.flow, false),
        Direction::Down => {
            if flow::await_start(stream, &served.flow) {
                flow::send(stream, &served.flow, false);
            }
        }
    }
    if session.over.load(Ordering::Relaxed) {
        locked(&session.flows).remove(&id);
    }
}

fn refusal(status: Status) -> &'static str {
    match status {
        Status::Fine => "accepted",
        Status::Busy => "another client is being served",
        Status::Version => "speaks another version of the protocol",
        Status::Secret => "does not know the secret",
        Status::Malformed => "does not speak the protocol",
        Status::NoSession => "a flow of no session, or one too many",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_flood_gets_some_lines_and_then_one_now_and_then() {
        let mut spoken = Spoken::default();
        // A million lines in a day: a flood, evenly spread.
        let day_ns = 24 * 3600 * 1_000_000_000;
        let said: Vec<String> = (0..1_000_000)
            .filter_map(|number| spoken.allowed(format!("line {number}"), number * (day_ns / 1_000_000)))
            .collect();
        assert_eq!(said.len() as u64, MAX_LINES + day_ns / LINE_NS - 1);
        assert_eq!(said[99], "line 99");
        // What is said counts what is not: nothing is lost from sight.
        let told: usize = said
            .iter()
            .filter_map(|line| line.split_once("(and ")?.1.split(' ').next()?.parse::<usize>().ok())
            .sum();
        assert!((999_000..=1_000_000).contains(&(told + said.len())), "{told} left out, {} said", said.len());
        // A server that few use says everything.
        let mut spoken = Spoken::default();
        assert!((0..10_000).all(|number| spoken.allowed(String::new(), number * LINE_NS).is_some()));
    }

    #[test]
    fn what_a_client_hears_last_it_hears_when_the_next_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        // A goodbye, which is answered by the end of the connection; no request, which by the reason.
        for (said, heard) in [(Request::Bye.to_bytes(), 0), (vec![99, 0, 0, 0, 0], 1)] {
            let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
            let (stream, peer) = listener.accept().expect("accepted");
            let (lines, _) = mpsc::channel();
            let server = Server::new(&Options::default(), lines);
            let session = Arc::new(Session::default());
            *locked(&server.session) = Some(Arc::clone(&session));
            thread::scope(|scope| {
                // The session cannot end before this is let go.
                let flows = locked(&session.flows);
                scope.spawn(|| server.run(stream, peer, &session));
                client.write_all(&said).expect("sent");
                client.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
                let early = client.read(&mut [0]).map_err(|error| would_block(&error));
                drop(flows);
                assert_eq!(early, Err(true), "told before the session is over");
                client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
                assert_eq!(client.read(&mut [0]).expect("told"), heard);
                assert!(server.current().is_none(), "the next would be served");
            });
        }
    }
}
