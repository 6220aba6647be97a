//! A packet, a log of what happened to packets, drivers that feed a link as a simulator would, and planted bugs.

use std::fmt::Debug;

use path::{Counters, DropReason, Ecn, Link, LinkConfig, Mode, Output, Packet, stream};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// A packet with everything a queue discipline may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pkt {
    pub id: u32,
    pub bytes: u32,
    pub payload: u32,
    pub flow: u32,
    pub src: u16,
    pub dst: u16,
    pub ecn: Ecn,
    pub corrupt: bool,
    /// Time in the queue, as the link added it up.
    pub waited: u64,
    /// End of its transmission, as the link told it.
    pub sent: u64,
}

impl Pkt {
    pub fn new(id: u32, bytes: u32) -> Self {
        let payload = bytes.saturating_sub(40);
        Pkt {
            id,
            bytes,
            payload,
            flow: 0,
            src: 0,
            dst: 1,
            ecn: Ecn::NotEct,
            corrupt: false,
            waited: 0,
            sent: 0,
        }
    }
}

impl Packet for Pkt {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn payload(&self) -> u32 {
        self.payload
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    /// The halves of the flow's number.
    fn ports(&self) -> (u16, u16) {
        (self.flow as u16, (self.flow >> 16) as u16)
    }
    fn src(&self) -> u16 {
        self.src
    }
    fn dst(&self) -> u16 {
        self.dst
    }
    fn dscp(&self) -> u8 {
        0
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn set_corrupt(&mut self) {
        self.corrupt = true;
    }
}

/// Everything a link reported, each kind in the order of the reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub forwarded: Vec<(u64, Pkt)>,
    pub dropped: Vec<(u64, u32, DropReason)>,
    pub marked: Vec<(u64, u32)>,
    pub changes: Vec<(u64, u64, u32)>,
    /// Answers to the questions of a [`Feed`].
    pub samples: Vec<(u64, Counters)>,
}

impl Output<Pkt> for Log {
    fn forward(&mut self, at: u64, packet: Pkt, waited: u64, sent: u64) {
        let packet = Pkt { waited, sent, ..packet };
        self.forwarded.push((at, packet));
    }
    fn dropped(&mut self, at: u64, packet: &Pkt, why: DropReason) {
        self.dropped.push((at, packet.id, why));
    }
    fn marked(&mut self, at: u64, packet: &Pkt) {
        self.marked.push((at, packet.id));
    }
    fn queue_changed(&mut self, at: u64, bytes: u64, packets: u32) {
        self.changes.push((at, bytes, packets));
    }
}

/// Packets that enter a link, and times when its counters are read: both in order of time.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    pub arrivals: Vec<(u64, Pkt)>,
    pub questions: Vec<u64>,
}

pub(crate) fn link(config: &LinkConfig, mode: Mode) -> Link<Pkt> {
    Link::new(config, &|purpose| stream(7, 0, purpose, "link"), mode)
}

/// Runs a stepped link event by event, and drains it.
pub(crate) fn run_stepped(config: &LinkConfig, feed: &Feed) -> Log {
    let mut link = link(config, Mode::Stepped);
    let mut log = Log::default();
    let mut arrivals = feed.arrivals.iter().peekable();
    for &question in &feed.questions {
        while let Some((at, packet)) = arrivals.next_if(|(at, _)| *at <= question) {
            catch_up(&mut link, *at, &mut log);
            link.arrive(*at, packet.clone(), &mut log);
        }
        catch_up(&mut link, question, &mut log);
        log.samples.push((question, link.counters(question)));
    }
    for (at, packet) in arrivals {
        catch_up(&mut link, *at, &mut log);
        link.arrive(*at, packet.clone(), &mut log);
    }
    catch_up(&mut link, u64::MAX, &mut log);
    log
}

/// Runs a fused link that is `ahead` nanoseconds further than whoever asks for its counters.
pub(crate) fn run_fused(config: &LinkConfig, feed: &Feed, ahead: u64, promise: bool) -> Log {
    let mut link = link(config, Mode::Fused);
    let mut log = Log::default();
    let mut arrivals = feed.arrivals.iter().peekable();
    for &question in &feed.questions {
        if promise {
            link.next_query(question);
        }
        while let Some((at, packet)) = arrivals.next_if(|(at, _)| *at <= question + ahead) {
            link.arrive(*at, packet.clone(), &mut log);
        }
        log.samples.push((question, link.counters(question)));
    }
    if promise {
        link.next_query(u64::MAX);
    }
    for (at, packet) in arrivals {
        link.arrive(*at, packet.clone(), &mut log);
    }
    assert_eq!(link.next_event(), None);
    log
}

/// Runs an early link whose arrivals are `ahead` nanoseconds further than its events and whoever asks for its counters.
pub(crate) fn run_early(config: &LinkConfig, feed: &Feed, ahead: u64, promise: bool) -> Log {
    let mut link = link(config, Mode::Early);
    let mut log = Log::default();
    let mut arrivals = feed.arrivals.iter().peekable();
    for &question in &feed.questions {
        if promise {
            link.next_query(question);
        }
        while let Some((at, packet)) = arrivals.next_if(|(at, _)| *at <= question.saturating_add(ahead)) {
            link.arrive(*at, packet.clone(), &mut log);
        }
        catch_up(&mut link, question, &mut log);
        log.samples.push((question, link.counters(question)));
    }
    for (at, packet) in arrivals {
        link.arrive(*at, packet.clone(), &mut log);
    }
    catch_up(&mut link, u64::MAX, &mut log);
    log
}

/// Runs a fused link whose packets stay where they are, asked at no time or after everything. None if it cannot.
pub(crate) fn run_passing(config: &LinkConfig, feed: &Feed, asked: bool) -> Option<Log> {
    let mut link = link(config, Mode::Fused);
    if !link.is_plain() {
        return None;
    }
    if !asked {
        link.next_query(u64::MAX);
    }
    let mut log = Log::default();
    for (at, packet) in &feed.arrivals {
        match link.pass(*at, packet.bytes) {
            Some((arrival, waited)) => {
                log.forwarded.push((arrival, Pkt { waited, sent: link.sent(), ..packet.clone() }));
            }
            None => log.dropped.push((*at, packet.id, DropReason::Overlimit)),
        }
    }
    Some(log)
}

pub(crate) fn catch_up(link: &mut Link<Pkt>, until: u64, log: &mut Log) {
    while let Some(at) = link.next_event()
        && at <= until
    {
        link.on_event(at, log);
    }
}

/// Something wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bug {
    None,
    /// Link that loses a packet.
    Swallow,
    /// Two packets change places.
    Overtake,
    /// A packet leaves a nanosecond too early.
    Hasty,
    /// Queue that has room for one packet more.
    Roomy,
    /// Queue that has room for one packet less.
    Narrow,
    /// Simultaneous arrivals come before the departure of the same time.
    LateTie,
    /// Counters are those of a nanosecond ago.
    Stale,
    /// A mark is not reported.
    Forget,
    /// The fraction of a nanosecond is not carried on.
    Drift,
    /// The waiting packets may take more memory.
    Hoard,
    /// A shaper is too fast.
    Fast,
    /// A shaper is too slow.
    Slow,
}

/// Cases at most until a bug must be found, where one is rare.
const SEEKING: u32 = 2_000;

/// Cases in which a property must hold.
const CASES: u32 = 500;

/// Checks a property of random cases, and that it does not hold with any of the bugs that it should catch.
pub(crate) fn check<S: Strategy>(
    name: &str,
    cases: impl Fn() -> S,
    property: impl Fn(&S::Value, Bug) -> Result<(), String>,
    catches: &[Bug],
) {
    check_some(name, CASES, cases, property, catches);
}

/// [`check`] with so many cases.
pub(crate) fn check_some<S: Strategy>(
    name: &str,
    number: u32,
    cases: impl Fn() -> S,
    property: impl Fn(&S::Value, Bug) -> Result<(), String>,
    catches: &[Bug],
) {
    let run = |bug| {
        let config = Config { failure_persistence: None, cases: number, ..Config::default() };
        let mut runner = match bug {
            Bug::None => TestRunner::new(config),
            // Whether a bug is found must not depend on luck, and its smallest case is of no interest.
            _ => TestRunner::new_with_rng(
                Config { cases: SEEKING, max_shrink_iters: 0, ..config },
                TestRng::deterministic_rng(RngAlgorithm::ChaCha),
            ),
        };
        let result = runner.run(&cases(), |case| property(&case, bug).map_err(TestCaseError::fail));
        result.map_err(Box::new)
    };
    if let Err(failure) = run(Bug::None) {
        panic!("{name}: {failure}");
    }
    for &bug in catches {
        let caught = run(bug).is_err_and(|failure| matches!(*failure, TestError::Fail(..)));
        assert!(caught, "{name} does not catch {bug:?}");
    }
}

/// Compares element by element, and says where the first difference is.
pub(crate) fn equal<T: PartialEq + Debug>(what: &str, a: &[T], b: &[T]) -> Result<(), String> {
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((a, b)) => Err(format!("{what}: {a:?} and {b:?}")),
        None if a.len() != b.len() => Err(format!("{what}: {} and {}", a.len(), b.len())),
        None => Ok(()),
    }
}
