//! This kernel's tbf, htb, pfifo and bfifo beside the models: the same train of datagrams through both. Needs root,
//! /dev/net/tun, `tc`, sch_tbf and sch_htb.
//!
//! Each kernel queue stands on a TUN device in a network namespace that has no name and belongs to the thread that made
//! it: nothing is left of it, however the test ends. Rates are so low that a datagram takes 80 ms, and datagrams are sent
//! halfway between two departures, so that which of them find room does not depend on a few milliseconds.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use live::tun::Tun;
use path::{
    BfifoConfig, Counters, DropReason, Ecn, Link, LinkConfig, Mode, Output, Packet, PfifoConfig, QueueConfig,
    ShaperConfig, stream,
};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
/// Bytes of the headers of IPv4 and UDP.
const HEADERS: usize = 28;
/// Bytes of an IP packet, unless a case says otherwise; at [`RATE`] it takes 80 ms.
const BYTES: u32 = 1000;
/// Rate of every shaper, in bits per second.
const RATE: u64 = 100_000;
const MS: u64 = 1_000_000;
/// Lateness of a datagram, when it is sent and when it leaves, from which on the whole train is tried again. The
/// lateness of the burst that sets the pace, of a later burst, and of the kernel's own timer add up, and have to stay
/// below half the time of a datagram.
const PUNCTUAL: u64 = 10 * MS;
/// Time of a datagram of [`BYTES`], within which the backlog is to be read, or the whole train is tried again.
const DEPARTURE: Duration = Duration::from_millis(80);
/// A machine with other things to do may be late that often.
const ATTEMPTS: usize = 10;
/// No shaper lets a packet go earlier than its model, but for the ticks of 64 ns that `tc` counts in.
const EARLY: u64 = MS;
/// Half of the departures are at most so late: the kernel's timer and the reader of the device have to wake up.
const LATE: u64 = 20 * MS;

/// A queue of the kernel's and its model.
struct Case {
    name: &'static str,
    /// Arguments of `tc`.
    setup: &'static [&'static str],
    /// The qdisc whose drops and backlog are read.
    handle: &'static str,
    model: LinkConfig,
    /// Pause before a datagram, and the bytes of its IP packet.
    train: Vec<(u64, u32)>,
}

/// Fate of a train.
struct Fate {
    /// Times when each datagram was sent, in ns.
    sent: Vec<u64>,
    /// Times when each datagram that passed left, and its number.
    passed: Vec<(u64, u32)>,
    /// Drops at the end, and packets waiting when the last datagram had been sent.
    drops: u64,
    backlog: u64,
    /// Every datagram was sent, and the backlog read, when it should be.
    punctual: bool,
}

/// Four bursts of which most find no room, 3.5, 1 and 6.5 departures apart.
fn bursts(sizes: &[u32]) -> Vec<(u64, u32)> {
    let mut train = Vec::new();
    for departures in [0.0, 3.5, 1.0, 6.5] {
        let pause = (departures * 80.0) as u64 * MS;
        train.extend((0..20).map(|i| (if i == 0 { pause } else { 0 }, sizes[i % sizes.len()])));
    }
    train
}

fn token_bucket(burst_bytes: u32, queue: QueueConfig) -> LinkConfig {
    let shaper = Some(ShaperConfig::TokenBucket { rate_bps: RATE, burst_bytes, peak: None });
    // A TUN device has no header of its own.
    LinkConfig { shaper, queue, overhead: 0, ..LinkConfig::default() }
}

fn cases() -> Vec<Case> {
    let pfifo = || QueueConfig::Pfifo(PfifoConfig { limit_packets: 7 });
    let bfifo = || QueueConfig::Bfifo(BfifoConfig { limit_bytes: 6500 });
    vec![
        Case {
            name: "tbf with pfifo",
            setup: &[
                "qdisc add dev tun0 root handle 1: tbf rate 100kbit burst 2000 limit 1000000",
                "qdisc add dev tun0 parent 1: handle 10: pfifo limit 7",
            ],
            handle: "10:",
            model: token_bucket(2000, pfifo()),
            train: bursts(&[BYTES]),
        },
        Case {
            name: "tbf with bfifo",
            setup: &["qdisc add dev tun0 root handle 1: tbf rate 100kbit burst 2000 limit 6500"],
            handle: "1:",
            model: token_bucket(2000, bfifo()),
            train: bursts(&[BYTES, BYTES, 600, 1400]),
        },
        // htb lets a class send while it has not overdrawn its bucket, and overdraws it by what it sends: with packets of
        // one size, a token bucket that is a packet larger (net/sched/sch_htb.c, htb_class_mode and htb_charge_class).
        Case {
            name: "htb with pfifo",
            setup: &[
                "qdisc add dev tun0 root handle 1: htb default 1",
                "class add dev tun0 parent 1: classid 1:1 htb rate 100kbit ceil 100kbit burst 2000 cburst 2000 quantum 1500",
                "qdisc add dev tun0 parent 1:1 handle 10: pfifo limit 7",
            ],
            handle: "10:",
            model: token_bucket(2000 + BYTES, pfifo()),
            train: bursts(&[BYTES]),
        },
        Case {
            name: "htb with bfifo",
            setup: &[
                "qdisc add dev tun0 root handle 1: htb default 1",
                "class add dev tun0 parent 1: classid 1:1 htb rate 100kbit ceil 100kbit burst 2000 cburst 2000 quantum 1500",
                "qdisc add dev tun0 parent 1:1 handle 10: bfifo limit 6500",
            ],
            handle: "10:",
            model: token_bucket(2000 + BYTES, bfifo()),
            train: bursts(&[BYTES]),
        },
    ]
}

#[test]
#[ignore = "needs root, /dev/net/tun, tc, sch_tbf and sch_htb"]
fn queues_of_the_kernel_do_as_their_models() {
    let compared: Vec<_> = cases().into_iter().map(|case| thread::spawn(move || compare(&case))).collect();
    for case in compared {
        case.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

fn compare(case: &Case) {
    let name = case.name;
    let fate = (0..ATTEMPTS).map(|_| through_kernel(case)).find(|fate| in_time(case, fate));
    let fate = fate.unwrap_or_else(|| panic!("{name}: never sent in time in {ATTEMPTS} attempts"));
    let late = agree(case, &case.model, &fate).unwrap_or_else(|difference| panic!("{name}: {difference}"));
    assert!(fate.drops > 50 && fate.passed.len() >= 18, "{name}: {} drops say little", fate.drops);
    for (what, wrong) in wrong(&case.model) {
        assert!(agree(case, &wrong, &fate).is_err(), "{name}: a model with {what} would do as well");
    }
    let (passed, sent) = (fate.passed.len(), fate.sent.len());
    println!(
        "{name}: {passed} of {sent} pass, {} drops, half leave at most {} us late",
        fate.drops,
        late / 1000
    );
}

/// Whether every datagram was sent when it should be, and left within [`PUNCTUAL`] of its model up to the first that
/// differs: one that leaves late keeps a place in the queue from the next burst.
fn in_time(case: &Case, kernel: &Fate) -> bool {
    let model = through_model(case, &case.model, &kernel.sent);
    let mut alike = kernel.passed.iter().zip(&model.passed).take_while(|(left, model)| left.1 == model.1);
    kernel.punctual && alike.all(|(left, model)| left.0 < model.0 + PUNCTUAL)
}

/// Returns the median lateness of the departures, or how the kernel and the model differ.
fn agree(case: &Case, model: &LinkConfig, kernel: &Fate) -> Result<u64, String> {
    let model = through_model(case, model, &kernel.sent);
    let ids = |fate: &Fate| fate.passed.iter().map(|&(_, id)| id).collect::<Vec<_>>();
    if ids(kernel) != ids(&model) {
        return Err(format!("{:?} pass, of the model {:?}", ids(kernel), ids(&model)));
    }
    if kernel.drops != model.drops {
        return Err(format!("{} drops, of the model {}", kernel.drops, model.drops));
    }
    // The last burst has just found the queue full; at most a departure lies between sending and reading.
    if kernel.backlog.abs_diff(model.backlog) > 1 {
        return Err(format!("{} wait, of the model {}", kernel.backlog, model.backlog));
    }
    let mut late = Vec::new();
    for (&(at, id), &(model, _)) in kernel.passed.iter().zip(&model.passed) {
        if at + EARLY < model {
            return Err(format!("datagram {id} left at {at} ns, its model at {model} ns"));
        }
        late.push(at.saturating_sub(model));
    }
    late.sort_unstable();
    match late[late.len() / 2] {
        median if median < LATE => Ok(median),
        median => Err(format!("half of the departures are {median} ns late and more")),
    }
}

/// Models that must not agree with the kernel, or the comparison shows nothing.
fn wrong(model: &LinkConfig) -> Vec<(&'static str, LinkConfig)> {
    let with_limit = |more: bool| {
        let mut wrong = model.clone();
        let step = |limit: u64, step: u64| if more { limit + step } else { limit - step };
        match &mut wrong.queue {
            QueueConfig::Pfifo(PfifoConfig { limit_packets }) => {
                *limit_packets = step(u64::from(*limit_packets), 1) as u32;
            }
            QueueConfig::Bfifo(BfifoConfig { limit_bytes }) => {
                *limit_bytes = step(*limit_bytes, u64::from(BYTES))
            }
            other => panic!("no limit of {other:?}"),
        }
        wrong
    };
    let with_shaper = |rate_bps: u64, more_burst: u32| {
        let Some(ShaperConfig::TokenBucket { burst_bytes, .. }) = model.shaper else {
            panic!("every model has a token bucket")
        };
        let shaper =
            Some(ShaperConfig::TokenBucket { rate_bps, burst_bytes: burst_bytes + more_burst, peak: None });
        LinkConfig { shaper, ..model.clone() }
    };
    vec![
        ("room for more", with_limit(true)),
        ("room for less", with_limit(false)),
        ("a lower rate", with_shaper(RATE * 9 / 10, 0)),
        ("a larger burst", with_shaper(RATE, BYTES)),
    ]
}

/// A TUN device with a case's queue, in a namespace of the calling thread's own.
struct Device {
    tun: Tun,
}

impl Device {
    fn new(case: &Case) -> Result<Device, String> {
        // SAFETY: plain call; it changes only this thread's namespace.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(format!("no network namespace: {}", std::io::Error::last_os_error()));
        }
        // Nobody else sends anything.
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let tun = Tun::open("tun0", false).map_err(|error| format!("no TUN device: {error}"))?;
        tun.start(KERNEL, 24, 1500).map_err(|error| format!("the device does not start: {error}"))?;
        for words in case.setup {
            tc(words)?;
        }
        Ok(Device { tun })
    }

    /// Drops so far and packets waiting, of the qdisc `handle`.
    fn state(handle: &str) -> (u64, u64) {
        let text = tc("-s qdisc show dev tun0").expect("tc shows what it has set up");
        let of_handle = text.split("qdisc ").find(|part| part.split(' ').nth(1) == Some(handle));
        let of_handle = of_handle.unwrap_or_else(|| panic!("no qdisc {handle} in {text}"));
        let number = |before: &str, end: char| {
            let rest = of_handle.split(before).nth(1).and_then(|rest| rest.split(end).next());
            rest.and_then(|word| word.rsplit(' ').next()?.parse().ok())
                .unwrap_or_else(|| panic!("no {before} in {of_handle}"))
        };
        (number("(dropped ", ','), number("backlog ", 'p'))
    }
}

fn tc(words: &str) -> Result<String, String> {
    // A program started by this thread is in its namespace.
    let done = Command::new("tc").args(words.split(' ')).output().map_err(|error| format!("tc: {error}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(format!("tc {words}: {}", String::from_utf8_lossy(&done.stderr).trim()))
    }
}

/// Runs before whatever is not a real-time thread, as far as that is allowed.
fn hurry() {
    let parameters = libc::sched_param { sched_priority: 10 };
    // SAFETY: it reads the parameters, which live through the call. Without the right to it, the test is just later.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}

fn through_kernel(case: &Case) -> Fate {
    thread::scope(|scope| scope.spawn(|| send(case)).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn send(case: &Case) -> Fate {
    let device = Device::new(case).expect("what was possible before");
    hurry();
    let socket = UdpSocket::bind((KERNEL, 0)).expect("a socket");
    socket.connect((FAR, 9)).expect("an address");
    let began = Instant::now();
    let over = Arc::new(AtomicBool::new(false));
    let mut fate = Fate { sent: Vec::new(), passed: Vec::new(), drops: 0, backlog: 0, punctual: true };
    thread::scope(|scope| {
        let (tun, done) = (&device.tun, over.clone());
        let reader = scope.spawn(move || receive(tun, began, &done));
        let mut due = began.elapsed();
        for (number, &(pause, bytes)) in (0u32..).zip(&case.train) {
            due += Duration::from_nanos(pause);
            thread::sleep(due.saturating_sub(began.elapsed()));
            let mut datagram = vec![0; bytes as usize - HEADERS];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            let now = began.elapsed();
            fate.sent.push(now.as_nanos() as u64);
            // A full queue is no error to a UDP socket that does not ask for errors.
            socket.send(&datagram).expect("the kernel takes it");
            fate.punctual &= (now - due).as_nanos() as u64 <= PUNCTUAL;
        }
        let asked = began.elapsed();
        let (_, backlog) = Device::state(case.handle);
        fate.backlog = backlog;
        fate.punctual &= began.elapsed() - asked < DEPARTURE;
        // Until everything has left, and a little longer.
        while Device::state(case.handle).1 > 0 {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(200));
        fate.drops = Device::state(case.handle).0;
        over.store(true, Ordering::Relaxed);
        fate.passed = reader.join().expect("the reader ends");
    });
    fate
}

/// Reads datagrams that come out of the device until told that it is over; their times and numbers.
fn receive(tun: &Tun, began: Instant, over: &AtomicBool) -> Vec<(u64, u32)> {
    hurry();
    let mut packet = Vec::new();
    let mut found = Vec::new();
    while !over.load(Ordering::Relaxed) {
        match tun.read(&mut packet) {
            Ok(()) => {
                let number = packet[HEADERS..HEADERS + 4].try_into().expect("four bytes");
                found.push((began.elapsed().as_nanos() as u64, u32::from_be_bytes(number)));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_micros(500)),
            Err(error) => panic!("the TUN device: {error}"),
        }
    }
    found
}

/// Sends datagrams at these times through a model.
fn through_model(case: &Case, model: &LinkConfig, sent: &[u64]) -> Fate {
    let mut link: Link<Datagram> = Link::new(model, &|purpose| stream(1, 0, purpose, "link"), Mode::Stepped);
    let mut log = Log::default();
    let mut waiting = Counters::default();
    for (number, (&at, &(_, bytes))) in (0u32..).zip(sent.iter().zip(&case.train)) {
        link.on_event(at, &mut log);
        link.arrive(at, Datagram { number, bytes }, &mut log);
        waiting = link.counters(at);
    }
    link.on_event(u64::MAX >> 1, &mut log);
    Fate {
        sent: sent.to_vec(),
        passed: log.passed,
        drops: log.drops,
        backlog: u64::from(waiting.backlog_packets),
        punctual: true,
    }
}

#[derive(Clone)]
struct Datagram {
    number: u32,
    bytes: u32,
}

impl Packet for Datagram {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn payload(&self) -> u32 {
        self.bytes - HEADERS as u32
    }
    fn flow_hash(&self) -> u32 {
        0
    }
    fn ports(&self) -> (u16, u16) {
        (0, 0)
    }
    fn src(&self) -> u16 {
        0
    }
    fn dst(&self) -> u16 {
        1
    }
    fn dscp(&self) -> u8 {
        0
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ce(&mut self) {}
    fn set_corrupt(&mut self) {}
}

#[derive(Default)]
struct Log {
    passed: Vec<(u64, u32)>,
    drops: u64,
}

impl Output<Datagram> for Log {
    fn forward(&mut self, at: u64, packet: Datagram, _waited: u64, _sent: u64) {
        self.passed.push((at, packet.number));
    }
    fn dropped(&mut self, _at: u64, _packet: &Datagram, _why: DropReason) {
        self.drops += 1;
    }
    fn marked(&mut self, _at: u64, _packet: &Datagram) {}
}
