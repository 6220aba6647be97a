//! This host's kernel as a system under test: scripts drive it through a TUN device in a network namespace of its own.
//!
//! The namespace belongs to the thread that runs the script and to the descriptors opened in it. It has no name and
//! no file, so nothing is left of it when the script ends, however it ends.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use script::errno::Errno;
use script::packet::{self, LOCAL, Seen};
use script::script::{Call, OptionValue, SocketOption, UdpPorts};
use script::system::{Output, Returned, System, SystemError};
use script::{Choices, Outcome, Script};
use tcp::endpoint::Icmp;
use wire::codec::Ends;

use crate::socket::{self, Socket};
use crate::sys::{self, check, run_before_others};
use crate::tcp_info::TcpInfo;
use crate::tun::Tun;

/// Time that a call may take that the script does not expect to block.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a packet that did not come in time is still looked for, in ns.
const PATIENCE: u64 = 2_000_000_000;
/// The sysctl that names the default congestion control.
const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
/// Bits of the address that the peer shares with this host: the device then leads to it without a route of its own.
const PREFIX: u32 = 1;

/// Runs the script `text`, called `name` in messages, against this host's kernel; as [`script::run_file`]. Needs the
/// rights to make network namespaces and TUN devices (root, or CAP_NET_ADMIN and CAP_SYS_ADMIN).
pub fn run_file(text: &str, name: &str, choices: &Choices) -> Outcome {
    let (text, name, choices) = (text.to_string(), name.to_string(), choices.clone());
    let run = move || {
        script::run_on(&text, &name, &choices, |script| {
            let kernel = Kernel::new(script).map_err(Unavailable)?;
            Ok::<_, Unavailable>(Box::new(kernel) as Box<dyn System>)
        })
    };
    let broken = |message: String| Outcome { exit_code: 2, message: Some(message), output: Vec::new() };
    // A thread of its own: the namespace is the thread's, and goes with it.
    match thread::Builder::new().name("script".into()).spawn(run) {
        Ok(thread) => {
            thread.join().unwrap_or_else(|_| broken("stack live: the script's thread panicked".into()))
        }
        Err(error) => broken(format!("stack live: {error}")),
    }
}

/// Reason why the kernel cannot be driven.
#[derive(Debug, thiserror::Error)]
#[error("stack live: {0}")]
struct Unavailable(io::Error);

/// The kernel, the device, and the sockets of one script.
struct Kernel {
    tun: Tun,
    began: Instant,
    sockets: BTreeMap<i32, Arc<Socket>>,
    /// The connection opened last, for TCP_INFO.
    connection: Option<Arc<Socket>>,
    sent: VecDeque<(u64, Seen)>,
    /// Set on every socket where the namespace may not have it as its default.
    congestion_control: Option<String>,
    caller: Caller,
    broken: Option<String>,
}

impl Kernel {
    fn new(script: &Script) -> io::Result<Kernel> {
        if script.options.ipv6 {
            return Err(io::Error::other("--ip_version=ipv6: found ipv6; a kernel is tried with ipv4 only"));
        }
        enter_namespace()?;
        run_before_others();
        // Or the kernel looks for IPv6 neighbours and routers on the device, among the packets that a script expects.
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").or_else(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }
        })?;
        let tun = Tun::open("tun0", true)?;
        tun.start(LOCAL, PREFIX, script.options.mtu)?;
        Ok(Kernel {
            tun,
            began: Instant::now(),
            sockets: BTreeMap::new(),
            connection: None,
            sent: VecDeque::new(),
            congestion_control: None,
            caller: Caller::new()?,
            broken: None,
        })
    }

    /// Waits for a packet on the device or for `until`.
    fn wait(&mut self, until: u64) {
        let timeout = sys::timespec(until.saturating_sub(self.now()));
        let mut entry = libc::pollfd { fd: self.tun.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry and a timeout that live through the call; no signal mask.
        unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) };
        self.read_packets();
    }

    /// Takes what the device has. All packets are timed before the first is decoded, which takes a while.
    fn read_packets(&mut self) {
        let mut waiting = Vec::new();
        loop {
            let mut bytes = Vec::new();
            match self.tun.read(&mut bytes) {
                Ok(()) => waiting.push((self.now(), bytes)),
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.broken = Some(format!("reading from the TUN device: {error}"));
                    }
                    break;
                }
            }
        }
        for (at, bytes) in waiting {
            let seen = packet::decode(&bytes, bytes.len() as u32);
            self.sent.extend(seen.filter(|seen| seen.ends.src == LOCAL).map(|seen| (at, seen)));
        }
    }

    fn socket(&self, fd: i32) -> Result<Arc<Socket>, Errno> {
        self.sockets.get(&fd).cloned().ok_or(Errno::EBADF)
    }

    fn add(&mut self, socket: Arc<Socket>) -> i64 {
        let fd = (3..).find(|fd| !self.sockets.contains_key(fd)).unwrap_or(3);
        self.sockets.insert(fd, socket);
        i64::from(fd)
    }

    /// Finishes a call in this thread, from its answer.
    fn finish(&mut self, answer: Answer) -> Returned {
        match answer {
            Answer::Plain(returned) => returned,
            Answer::Opened(socket) => {
                let socket = Arc::new(socket);
                self.connection = Some(socket.clone());
                Ok(self.add(socket)).into()
            }
        }
    }

    /// The call as something another thread can do.
    fn job(&mut self, call: &Call) -> Result<Job, Errno> {
        let plain = |result: socket::Result<i64>| Answer::Plain(result.into());
        let valued = |result: socket::Result<OptionValue>| {
            Answer::Plain(match result {
                Ok(value) => Returned { result: Ok(0), output: Output::Value(value) },
                Err(errno) => Err(errno).into(),
            })
        };
        Ok(match call.clone() {
            Call::Socket { nonblocking } => {
                let socket = Arc::new(Socket::open(nonblocking)?);
                if let Some(name) = &self.congestion_control {
                    socket.set(SocketOption::Congestion, &OptionValue::Text(name.clone()))?;
                }
                let fd = self.add(socket);
                Box::new(move || plain(Ok(fd)))
            }
            Call::Close(fd) => {
                let socket = self.sockets.remove(&fd).ok_or(Errno::EBADF)?;
                // The last one to hold it closes it.
                if self.connection.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, &socket)) {
                    self.connection = None;
                }
                Box::new(move || {
                    drop(socket);
                    plain(Ok(0))
                })
            }
            Call::Bind(fd) => self.on(fd, move |socket| plain(socket.bind()))?,
            Call::Listen(fd) => self.on(fd, move |socket| plain(socket.listen()))?,
            Call::Accept { fd, nonblocking } => {
                self.on(fd, move |socket| match socket.accept(nonblocking) {
                    Ok(socket) => Answer::Opened(socket),
                    Err(errno) => plain(Err(errno)),
                })?
            }
            Call::Connect(fd) => {
                self.connection = Some(self.socket(fd)?);
                self.on(fd, move |socket| plain(socket.connect()))?
            }
            Call::GetFlags(fd) => self.on(fd, move |socket| plain(socket.flags()))?,
            Call::SetFlags { fd, nonblocking } => {
                self.on(fd, move |socket| plain(socket.set_flags(nonblocking)))?
            }
            Call::Read { fd, len, flags } => self.on(fd, move |socket| plain(socket.read(len, flags)))?,
            Call::Write { fd, len, flags } => self.on(fd, move |socket| plain(socket.write(len, flags)))?,
            Call::SendTo { fd, len, flags } => {
                // Without a connection it opens one (MSG_FASTOPEN).
                self.connection = Some(self.socket(fd)?);
                self.on(fd, move |socket| plain(socket.send_to(len, flags)))?
            }
            // Scripts that need these are not run (`script::features`).
            Call::ReadMessage { .. }
            | Call::EpollCreate
            | Call::EpollControl { .. }
            | Call::EpollWait { .. } => return Err(Errno::ENOSYS),
            Call::Shutdown { fd, read, write } => {
                self.on(fd, move |socket| plain(socket.shutdown(read, write)))?
            }
            Call::SetOption { fd, option, value } => {
                self.on(fd, move |socket| plain(socket.set(option, &value)))?
            }
            Call::GetOption { fd, option, .. } => self.on(fd, move |socket| valued(socket.get(option)))?,
            Call::Queued { fd, out, .. } => {
                self.on(fd, move |socket| valued(socket.queued(out).map(OptionValue::Number)))?
            }
            Call::Poll { fds, timeout_ms } => {
                let sockets: Result<Vec<(Arc<Socket>, i16)>, Errno> =
                    fds.iter().map(|entry| Ok((self.socket(entry.fd)?, entry.events))).collect();
                let sockets = sockets?;
                Box::new(move || {
                    let entries: Vec<(&Socket, i16)> =
                        sockets.iter().map(|(socket, events)| (&**socket, *events)).collect();
                    let (result, events) = socket::poll(&entries, timeout_ms);
                    Answer::Plain(Returned { result, output: Output::Events(events) })
                })
            }
        })
    }

    fn on(&self, fd: i32, act: impl FnOnce(&Socket) -> Answer + Send + 'static) -> Result<Job, Errno> {
        let socket = self.socket(fd)?;
        Ok(Box::new(move || act(&socket)))
    }
}

impl System for Kernel {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn run_until(&mut self, until: u64) {
        self.read_packets();
        while self.now() < until && self.broken.is_none() {
            self.wait(until);
        }
    }

    fn next_packet(&mut self, until: u64) -> Option<(u64, Seen)> {
        self.read_packets();
        while self.sent.is_empty() && self.now() < until && self.broken.is_none() {
            self.wait(until);
        }
        self.sent.pop_front()
    }

    fn icmp(&mut self, ends: &Ends<Ipv4Addr>, message: &Icmp, udp: Option<UdpPorts>) {
        self.inject(&packet::encode_icmp(message, ends), udp);
    }

    fn inject(&mut self, bytes: &[u8], udp: Option<UdpPorts>) {
        // Linux has no TCP in UDP, and a script that asks for it is not run (`script::features`).
        if udp.is_some() {
            return;
        }
        if let Err(error) = self.tun.write(bytes) {
            self.broken = Some(format!("writing to the TUN device: {error}"));
        }
    }

    fn call(&mut self, call: &Call, may_block: bool) -> Option<Returned> {
        let job = match self.job(call) {
            Ok(job) => job,
            Err(errno) => return Some(Err(errno).into()),
        };
        self.caller.start(job);
        if may_block {
            return None;
        }
        let (_, answer) = self.caller.answer(CALL_TIMEOUT)?;
        Some(self.finish(answer))
    }

    fn returned(&mut self, until: u64) -> Option<(u64, Returned)> {
        loop {
            self.read_packets();
            // Packets are still timed while the call is awaited.
            if let Some((at, answer)) = self.caller.answer(Duration::from_micros(100)) {
                let at = at.duration_since(self.began).as_nanos() as u64;
                return Some((at, self.finish(answer)));
            }
            if self.now() >= until {
                return None;
            }
        }
    }

    fn info(&mut self) -> Result<Vec<(&'static str, i64)>, SystemError> {
        let connection = self.connection.as_ref().ok_or(SystemError::NoConnection)?;
        let bytes = connection.info().map_err(SystemError::Info)?;
        Ok(TcpInfo(&bytes).fields().map(|(name, value)| (name, value as i64)).collect())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SystemError> {
        if !name.starts_with("net.") {
            return Err(SystemError::Machine(name.to_string()));
        }
        // Words of letters, digits, `_` and `-` between dots, as the parser has checked: no way out of the directory.
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        match std::fs::write(path, value) {
            // The host's administrator allows others as a default than a program with rights may choose.
            Err(error) if name == CONGESTION_CONTROL && error.kind() == io::ErrorKind::PermissionDenied => {
                self.congestion_control = Some(value.to_string());
                Ok(())
            }
            result => result.map_err(|error| SystemError::Kernel { sysctl: name.to_string(), error }),
        }
    }

    /// The namespace is new: at the beginning there is nothing to forget.
    fn forget(&mut self) -> Result<(), SystemError> {
        if self.sockets.is_empty() { Ok(()) } else { Err(SystemError::Remembers) }
    }

    fn late_wait(&self) -> u64 {
        PATIENCE
    }

    fn broken(&self) -> Option<String> {
        self.broken.clone()
    }
}

impl Drop for Kernel {
    /// Wakes a call that still blocks, so that its thread can end.
    fn drop(&mut self) {
        let sockets = self.sockets.values().chain(&self.connection);
        sockets.for_each(|socket| {
            let _ = socket.shutdown(true, true);
        });
    }
}

/// Work that a call leaves to the script's thread.
enum Answer {
    Plain(Returned),
    Opened(Socket),
}

type Job = Box<dyn FnOnce() -> Answer + Send>;

/// A thread that makes the calls, one after the other, so that packets pass while one blocks.
struct Caller {
    jobs: Option<Sender<Job>>,
    answers: Receiver<(Instant, Answer)>,
    thread: Option<JoinHandle<()>>,
}

impl Caller {
    fn new() -> io::Result<Caller> {
        let (jobs, to_do) = mpsc::channel::<Job>();
        let (done, answers) = mpsc::channel();
        // It inherits the namespace of the thread that starts it.
        let thread = thread::Builder::new().name("calls".into()).spawn(move || {
            run_before_others();
            for job in to_do {
                let answer = job();
                if done.send((Instant::now(), answer)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Caller { jobs: Some(jobs), answers, thread: Some(thread) })
    }

    fn start(&self, job: Job) {
        // If the thread is gone, no answer comes, and that is reported.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }

    fn answer(&self, wait: Duration) -> Option<(Instant, Answer)> {
        self.answers.recv_timeout(wait).ok()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do: the kernel has woken it (see `Kernel`'s drop, which runs first).
            let _ = thread.join();
        }
    }
}

/// Moves the calling thread into a network namespace of its own.
fn enter_namespace() -> io::Result<()> {
    // SAFETY: plain call; it changes only the calling thread's namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}
