//! Two hosts in network namespaces with an emulator's namespace between them, for live tests.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use live::emulator::Emulator;
use serde_json::{Value, json};

/// Address of the host `a`; `b` is next.
pub(crate) const A: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
/// Address of the host `b`.
pub(crate) const B: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
/// Names of everything begin so, followed by the process's number.
const PREFIX: &str = "cwndlabtest";

/// Limit for what must come; a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Silence after which nothing more is taken to come: an emulator that is half a second late has not said its last.
const QUIET: Duration = Duration::from_millis(1000);

/// Lets one test run at a time: they share two processors.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `a` and `b` with one interface each, whose other ends `a0` and `b0` are in the namespace between.
pub(crate) struct Net {
    name: String,
}

impl Net {
    /// Makes the net, and removes what killed tests have left.
    pub(crate) fn new() -> Net {
        sweep();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let net = Net { name: format!("{PREFIX}-{}-{number}", std::process::id()) };
        let between = net.place("e");
        for place in ["a", "b", "e"] {
            let name = net.place(place);
            ip(&format!("netns add {name}"));
            net.inside(place, || {
                for which in ["all", "default"] {
                    // Where there is no IPv6, there is nothing to switch off.
                    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
                }
            });
        }
        for (place, address) in [("a", A), ("b", B)] {
            let name = net.place(place);
            ip(&format!("-n {name} link add eth0 type veth peer name {place}0 netns {between}"));
            ip(&format!("-n {name} addr add {address}/24 dev eth0"));
            ip(&format!("-n {name} link set eth0 up"));
            ip(&format!("-n {name} link set lo up"));
            ip(&format!("-n {between} link set {place}0 up"));
        }
        net.offloads(false);
        net
    }

    /// The namespace of a host, or of the emulator (`e`).
    pub(crate) fn place(&self, place: &str) -> String {
        format!("{}-{place}", self.name)
    }

    /// Removes an interface, and its other end with it.
    pub(crate) fn remove(&self, place: &str, interface: &str) {
        ip(&format!("-n {} link del {interface}", self.place(place)));
    }

    /// Switches the offloads of all interfaces.
    pub(crate) fn offloads(&self, on: bool) {
        for (place, interface) in [("a", "eth0"), ("b", "eth0"), ("e", "a0"), ("e", "b0")] {
            live::offload::set(Some(&self.place(place)), interface, on, on).expect("offloads");
        }
    }

    /// Does something in a thread of its own inside a namespace.
    pub(crate) fn inside<R: Send>(&self, place: &str, work: impl FnOnce() -> R + Send) -> R {
        let file = fs::File::open(format!("/run/netns/{}", self.place(place))).expect("the namespace");
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: plain call; it changes only this thread's namespace.
                assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0, "setns");
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A socket of `a` that sends to the one of `b`, and that one.
    pub(crate) fn datagrams(&self) -> (UdpSocket, UdpSocket) {
        let open = |place: &str, address: Ipv4Addr| {
            self.inside(place, || UdpSocket::bind(SocketAddrV4::new(address, 5201)).expect("a socket"))
        };
        let (a, b) = (open("a", A), open("b", B));
        a.connect(SocketAddrV4::new(B, 5201)).expect("connected");
        for socket in [&a, &b] {
            for (level, option) in
                [(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), (libc::IPPROTO_IP, libc::IP_RECVTOS)]
            {
                let on: libc::c_int = 1;
                // SAFETY: the value lives through the call and has the length given.
                let result =
                    unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), 4) };
                assert_eq!(result, 0, "{}", io::Error::last_os_error());
            }
        }
        let bytes: libc::c_int = 8 << 20;
        // SAFETY: the value lives through the call and has the length given.
        unsafe {
            let value = (&raw const bytes).cast();
            libc::setsockopt(b.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, 4);
        }
        (a, b)
    }

    /// The configuration of an emulator between the hosts.
    pub(crate) fn config(
        &self,
        change: impl FnOnce(&mut Value),
        configure: impl FnOnce(&mut Value),
    ) -> String {
        let mut scenario = scenario();
        change(&mut scenario);
        let mut config = json!({
            "run_id": 1,
            "netns": self.place("e"),
            "scenario": scenario,
            "cables": [{"a": "a0", "b": "b0", "forward": "there", "reverse": "back"}],
            "flows": [{"flow": "f1", "src": A, "dst": B, "sport": null, "dport": 5201}],
            "captures": [],
            "threads": 1,
            "real_time": true,
        });
        configure(&mut config);
        config.to_string()
    }

    /// Starts an emulator between the hosts. `change` makes its Scenario of one without any limits.
    pub(crate) fn emulator(&self, change: impl FnOnce(&mut Value)) -> Emulator {
        self.emulator_with(change, |_| ())
    }

    /// Starts an emulator between the hosts; `change` makes its Scenario, `configure` changes the rest.
    pub(crate) fn emulator_with(
        &self,
        change: impl FnOnce(&mut Value),
        configure: impl FnOnce(&mut Value),
    ) -> Emulator {
        let mut emulator = self.started(change, configure);
        emulator.mark_start(now()).expect("t = 0");
        thread::sleep(Duration::from_millis(20));
        emulator
    }

    /// Starts an emulator between the hosts; the run has not begun.
    pub(crate) fn started(
        &self,
        change: impl FnOnce(&mut Value),
        configure: impl FnOnce(&mut Value),
    ) -> Emulator {
        let config = self.config(change, configure);
        let mut emulator = Emulator::new(&config).expect("a good configuration");
        emulator.start().expect("an emulator");
        // Addresses are resolved before anything is counted.
        self.inside("a", || {
            let socket = UdpSocket::bind(SocketAddrV4::new(A, 0)).expect("a socket");
            socket.send_to(&[0], SocketAddrV4::new(B, 9)).expect("sent");
        });
        thread::sleep(Duration::from_millis(100));
        emulator
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for place in ["a", "b", "e"] {
            let _ = Command::new("ip").args(["netns", "del", &self.place(place)]).output();
        }
    }
}

/// Removes the namespaces of test processes that are no more.
fn sweep() {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        let mut parts = name.split('-');
        let owner = (parts.next() == Some(PREFIX)).then(|| parts.next()).flatten();
        if owner.is_some_and(|process| !fs::exists(format!("/proc/{process}")).unwrap_or(true)) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// CLOCK_MONOTONIC, nanoseconds.
pub(crate) fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    nanoseconds(time)
}

fn nanoseconds(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lateness that [`Received::at`] may have, in ns; it is never too early.
pub(crate) const CLOCKS: u64 = 5_000;

/// A time of the kernel's stamps (CLOCK_REALTIME) as one of [`now`].
fn monotonic(stamp: u64) -> u64 {
    loop {
        let (before, real, after) = (now(), clock(libc::CLOCK_REALTIME), now());
        // Not if we were held up between the two clocks.
        if after - before < CLOCKS {
            return stamp + after - real;
        }
    }
}

/// A Scenario of two hosts and a cable without limits, `there` and `back`; a minute long.
fn scenario() -> Value {
    let host = |name: &str| {
        json!({
            "name": name, "stack": "linux-6.18", "hz": 1000, "mss": 1460, "ecn": "accept", "sysctl": {},
            "nic": {"tx_queue": 1000, "full": "drop", "tso": false, "tso_max": null, "gro": false, "lro": false,
                    "coalesce": null},
            "ack_every": null, "noise": null, "egress": null, "ingress": {"before_gro": null, "after_gro": null},
        })
    };
    let link = |name: &str, from: &str, to: &str| {
        json!({
            "name": name, "from": from, "to": to, "rate_bps": null, "delay_ns": 0,
            "queue": {"kind": "pfifo", "limit_packets": 1000}, "loss": null, "duplicate_ppb": 0, "corrupt_ppb": 0,
            "jitter": null, "shaper": null, "mtu": 1500, "overhead": 14, "observe": true,
            "bottleneck": name == "there",
        })
    };
    json!({
        "version": 1, "experiment": "live", "seed": 1, "repeat": 0, "duration_ns": 60_000_000_000u64,
        "start_jitter_ns": 0, "measure": {"from_ns": 0, "to_ns": 60_000_000_000u64},
        "record": {"tcp": {"kind": "off"}, "queue": {"kind": "interval", "interval_ns": 10_000_000}, "pcap": []},
        "hosts": [host("a"), host("b")], "nodes": [],
        "links": [link("there", "a", "b"), link("back", "b", "a")],
        "flows": [{"name": "f1", "from": "a", "to": "b", "app": {"kind": "bulk", "bytes": null, "write_bytes": 1},
                   "start_ns": 0, "stop_ns": null, "cc": "cubic", "sndbuf": null, "rcvbuf": null}],
        "schedule": [],
    })
}

/// Sends so many datagrams, each with its number and the time in front, with a pause between.
pub(crate) fn send(socket: &UdpSocket, numbers: std::ops::Range<u64>, bytes: usize, pause: Duration) {
    let mut payload = vec![7; bytes];
    for number in numbers {
        payload[..8].copy_from_slice(&number.to_ne_bytes());
        payload[8..16].copy_from_slice(&now().to_ne_bytes());
        socket.send(&payload).expect("sent");
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
}

/// A datagram that came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Number of the datagram.
    pub number: u64,
    /// Time when the datagram was sent.
    pub sent: u64,
    /// Time when the kernel took the datagram in at the receiving host, whenever it was read (SO_TIMESTAMPNS).
    pub at: u64,
    /// Type of service.
    pub tos: u8,
}

/// Reads datagrams until at least so many have come, however late the machine, and then none for a while.
pub(crate) fn receive(socket: &UdpSocket, least: usize) -> Vec<Received> {
    let mut all = Vec::new();
    let mut wait = |limit| {
        socket.set_read_timeout(Some(limit)).expect("a time-out");
        while let Some(received) = receive_one(socket) {
            all.push(received);
            if limit == PATIENCE && all.len() >= least {
                break;
            }
        }
    };
    if least > 0 {
        wait(PATIENCE);
    }
    wait(QUIET);
    all
}

fn receive_one(socket: &UdpSocket) -> Option<Received> {
    let (mut bytes, mut control) = ([0u8; 2048], [0u64; 16]);
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: a msghdr is plain data for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = std::mem::size_of_val(&control) as _;
    // SAFETY: the message leads to buffers of the lengths given, which live through the call.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    if length < 16 {
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        return None;
    }
    let (mut at, mut tos) = (None, 0);
    // SAFETY: the kernel has filled in the message, whose parts are as long as their types say.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let stamp = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                    at = Some(monotonic(nanoseconds(stamp)));
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => tos = *libc::CMSG_DATA(header),
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    let at = at.expect("the kernel's stamp");
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Some(Received { number: word(0), sent: word(8), at, tos })
}
