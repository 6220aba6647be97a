//! Every hook of `struct tcp_congestion_ops` is called, where the kernel calls it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::path::{Path, Run, SECOND, run};
use tcp::cc::foreign::Failure;
use tcp::cc::linux::{
    AckEvent, AckSample, CaState, CongestionControl, Core, CwndEvent, Module, RateSample, built_in,
};
use tcp::cc::{self, Lifecycle};
use tcp::linux_config::Shared;
use tcp::profile;
use tcp::stack::{EcnMode, Profile};
use wire::Flags;

type Log = Arc<Mutex<Vec<String>>>;

/// Reno that writes down which hooks are called. One that owns the window leaves it as it is.
struct Recorder {
    log: Log,
    reno: Box<dyn CongestionControl>,
    owns: bool,
}

impl Recorder {
    fn note(&self, what: String) {
        self.log.lock().expect("one thread").push(what);
    }
}

impl CongestionControl for Recorder {
    fn init(&mut self, core: &mut Core) {
        self.note("init".into());
        self.reno.init(core);
    }
    fn release(&mut self, _: &mut Core) {
        self.note("release".into());
    }
    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.note("ssthresh".into());
        self.reno.ssthresh(core)
    }
    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        self.note("cong_avoid".into());
        self.reno.cong_avoid(core, ack, acked);
    }
    fn pkts_acked(&mut self, core: &mut Core, sample: &AckSample) {
        self.note(format!("pkts_acked {}", sample.packets));
        self.reno.pkts_acked(core, sample);
    }
    fn set_state(&mut self, _: &mut Core, state: CaState) {
        self.note(format!("set_state {state:?}"));
    }
    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        self.note(format!("cwnd_event {event:?}"));
        self.reno.cwnd_event(core, event);
    }
    fn in_ack_event(&mut self, _: &mut Core, event: AckEvent) {
        self.note(format!("in_ack_event {}", event.0));
    }
    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        self.note("undo_cwnd".into());
        self.reno.undo_cwnd(core)
    }
    fn owns_window(&self) -> bool {
        self.owns
    }
    fn cong_control(&mut self, _: &mut Core, _: &RateSample) {
        self.note("cong_control".into());
    }
    fn min_tso_segs(&self, _: &Core) -> Option<u32> {
        self.note("min_tso_segs".into());
        None
    }
    fn sndbuf_expand(&mut self, _: &Core) -> u32 {
        self.note("sndbuf_expand".into());
        2
    }
    fn needs_ecn(&self) -> bool {
        true
    }
    fn get_info(&self, _: &Core) {
        self.note("get_info".into());
    }
}

struct Recorders(Log, bool);

impl Lifecycle for Recorders {
    fn mod_init(&self) -> Result<(), Failure> {
        self.0.lock().expect("one thread").push("register".into());
        Ok(())
    }
    fn mod_destroy(&self) {
        self.0.lock().expect("one thread").push("unregister".into());
    }
}

impl Module for Recorders {
    fn connect(&self, config: &Shared) -> Box<dyn CongestionControl> {
        let reno = built_in(&["reno"]).get("reno").expect("Linux has it").connect(config);
        Box::new(Recorder { log: self.0.clone(), reno, owns: self.1 })
    }
}

/// A stack with the recorder, and what that writes.
fn host(stack: &str, owns: bool) -> (Box<dyn Profile>, Log) {
    let log = Log::default();
    let mut profile = profile::find(stack).expect("a stack");
    let module = cc::Module::Linux(Arc::new(Recorders(log.clone(), owns)));
    profile.register("recorder", &module).expect("a name of its own");
    (profile, log)
}

/// The hooks of a transfer on `stack`, at the sender and at the receiver, and what happened.
fn both(stack: &str, owns: bool, change: impl FnOnce(&mut Path<'_>)) -> ([Vec<String>; 2], Run) {
    let (sender, sent) = host(stack, owns);
    let (receiver, received) = host(stack, owns);
    let mut path = Path { receiver: receiver.as_ref(), ..Path::new(sender.as_ref()) };
    path = Path { cc: "recorder", bytes: 40 * 1448, duration: 15 * SECOND, ..path };
    change(&mut path);
    let run = run(&path);
    drop((sender, receiver));
    ([sent, received].map(|log| log.lock().expect("one thread").clone()), run)
}

/// The hooks of a transfer at the sender, and what happened.
fn hooks(stack: &str, owns: bool, change: impl FnOnce(&mut Path<'_>)) -> (Vec<String>, Run) {
    let ([sent, _], run) = both(stack, owns, change);
    (sent, run)
}

/// The calls without those that a driver's question or each transmission brings.
fn of_acks(calls: &[String]) -> Vec<&str> {
    let asked = ["min_tso_segs", "sndbuf_expand", "get_info"];
    calls.iter().map(String::as_str).filter(|call| !asked.contains(call)).collect()
}

fn position(calls: &[&str], what: &str) -> usize {
    calls.iter().position(|call| *call == what).unwrap_or_else(|| panic!("no {what} in {calls:?}"))
}

#[test]
fn a_transfer_without_loss() {
    for stack in ["linux-6.8", "linux-6.12", "linux-6.18"] {
        let (calls, _) = hooks(stack, false, |_| ());
        for asked in ["min_tso_segs", "sndbuf_expand", "get_info"] {
            assert!(calls.iter().any(|call| call == asked), "{stack}: {asked}");
        }
        let calls = of_acks(&calls);
        assert_eq!(calls[..3], ["register", "init", "cwnd_event TxStart"], "{stack}");
        // Told of before what it acknowledges until 6.16 (and 6.12.31), behind it since. The first opens the window: not only an advance.
        let ack = if stack == "linux-6.8" {
            ["in_ack_event 3", "pkts_acked 1", "cong_avoid"]
        } else {
            ["pkts_acked 1", "in_ack_event 3", "cong_avoid"]
        };
        assert_eq!(calls[3..6], ack, "{stack}");
        // CA_ACK_WIN_UPDATE alone: only an advance.
        assert!(calls.contains(&"in_ack_event 2"), "{stack}");
        // The receiver never closes: the connection stays.
        assert!(!calls.contains(&"release") && calls[calls.len() - 1] == "unregister", "{stack}");
    }
}

#[test]
fn a_transfer_of_3_9() {
    let (calls, _) = hooks("linux-3.9", false, |_| ());
    let calls = of_acks(&calls);
    assert_eq!(calls[..3], ["register", "init", "cwnd_event TxStart"]);
    assert_eq!(calls[3..6], ["cwnd_event SlowAck", "pkts_acked 1", "cong_avoid"]);
    assert!(calls.contains(&"cwnd_event FastAck"));
    assert!(!calls.iter().any(|call| call.starts_with("in_ack_event")));
}

#[test]
fn a_loss_found_by_sack() {
    for stack in ["linux-3.9", "linux-6.8", "linux-6.18"] {
        let (calls, run) = hooks(stack, false, |path| path.lose = |n, offset| n < 20 && offset == 12 * 1448);
        assert_eq!(run.read, 40 * 1448, "{stack}");
        let calls = of_acks(&calls);
        let reduced = position(&calls, "ssthresh");
        assert_eq!(calls[reduced + 1], "set_state Recovery", "{stack}");
        assert!(position(&calls, "set_state Disorder") < reduced, "{stack}");
        let opened = reduced + position(&calls[reduced..], "set_state Open");
        // tcp_try_undo_recovery sets the state, then tcp_end_cwnd_reduction tells.
        assert_eq!(calls[opened + 1], "cwnd_event CompleteCwr", "{stack}: {:?}", &calls[opened..]);
    }
}

#[test]
fn a_timeout() {
    for (stack, first) in [
        ("linux-3.9", "cwnd_event Frto"),
        ("linux-6.8", "cwnd_event Loss"),
        ("linux-6.18", "cwnd_event Loss"),
    ] {
        // All that follows the initial window, and its probes. The FIN does not leave before, to be SACKed.
        let (calls, run) = hooks(stack, false, |path| path.lose = |n, offset| n < 32 && offset >= 10 * 1448);
        assert_eq!(run.read, 40 * 1448, "{stack}");
        let calls = of_acks(&calls);
        let reduced = position(&calls, "ssthresh");
        let state = if stack == "linux-3.9" { "set_state Disorder" } else { "set_state Loss" };
        assert_eq!(calls[reduced + 1..reduced + 3], [first, state], "{stack}");
    }
}

#[test]
fn a_connection_that_gives_up() {
    let (calls, _) = hooks("linux-6.18", false, |path| {
        path.lose = |_, offset| offset >= 20 * 1448;
        path.duration = 1500 * SECOND;
    });
    let calls = of_acks(&calls);
    assert_eq!(calls[calls.len() - 3..], ["set_state Loss", "release", "unregister"]);
}

#[test]
fn an_owner_of_the_window() {
    let (calls, _) = hooks("linux-6.18", true, |path| path.lose = |n, offset| n < 20 && offset == 6 * 1448);
    let calls = of_acks(&calls);
    let first = position(&calls, "cong_control");
    assert_eq!(calls[first - 2..=first], ["pkts_acked 1", "in_ack_event 3", "cong_control"]);
    assert!(!calls.contains(&"cong_avoid") && !calls.contains(&"cwnd_event CompleteCwr"));
    assert!(calls.contains(&"ssthresh"), "tcp_init_cwnd_reduction asks all the same");
}

#[test]
fn echoes_and_marks() {
    let ([sent, received], _) = both("linux-6.18", false, |path| {
        path.ecn = EcnMode::On;
        path.rate = Some(10_000_000);
        path.mark_at = 5;
    });
    let marked = position(&of_acks(&received), "cwnd_event EcnIsCe");
    assert!(position(&of_acks(&received), "cwnd_event EcnNoCe") < marked);
    let calls = of_acks(&sent);
    let echo = calls.iter().position(|call| *call == "in_ack_event 5" || *call == "in_ack_event 7");
    let reduced = position(&calls, "ssthresh");
    assert!(echo.expect("an echo") < reduced);
    assert_eq!(calls[reduced + 1], "set_state Cwr");
}

/// Deliveries at an ACK: packets delivered, and of them those that an echo delivered, as `in_ack_event` and
/// `cong_control` see them; both when the newest packet of the sample was sent, and since.
#[derive(Clone, Copy, Default)]
struct Delivered {
    in_ack_event: (u64, u64),
    cong_control: (u64, u64),
    prior: (u64, u32),
    sample: (u32, u32),
}

/// Doubles a window of its own in each round trip until an echo halves it, and writes down what is delivered.
struct Counter(Arc<Mutex<Vec<Delivered>>>);

impl CongestionControl for Counter {
    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        core.cwnd / 2
    }
    fn cong_avoid(&mut self, _: &mut Core, _: u64, _: u32) {}
    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        core.cwnd
    }
    fn in_ack_event(&mut self, core: &mut Core, _: AckEvent) {
        let now = Delivered { in_ack_event: (core.delivered, core.delivered_ce), ..Delivered::default() };
        self.0.lock().expect("one thread").push(now);
    }
    fn owns_window(&self) -> bool {
        true
    }
    fn cong_control(&mut self, core: &mut Core, sample: &RateSample) {
        let mut acks = self.0.lock().expect("one thread");
        let ack = acks.last_mut().expect("in_ack_event comes first");
        ack.cong_control = (core.delivered, core.delivered_ce);
        ack.prior = (sample.prior_delivered, sample.prior_delivered_ce);
        ack.sample = (sample.delivered.unwrap_or(0), sample.delivered_ce);
        core.cwnd = if core.state == CaState::Cwr { core.ssthresh } else { core.cwnd + sample.acked_sacked };
    }
}

struct Counters(Arc<Mutex<Vec<Delivered>>>);

impl Lifecycle for Counters {}

impl Module for Counters {
    fn connect(&self, _: &Shared) -> Box<dyn CongestionControl> {
        Box::new(Counter(self.0.clone()))
    }
}

#[test]
fn what_echoes_deliver_is_counted() {
    let acks = Arc::new(Mutex::new(Vec::new()));
    let mut profile = profile::find("linux-6.18").expect("a stack");
    let module = cc::Module::Linux(Arc::new(Counters(acks.clone())));
    profile.register("counter", &module).expect("a name of its own");
    let path = Path { cc: "counter", bytes: 400 * 1448, ecn: EcnMode::On, ..Path::new(profile.as_ref()) };
    let run = run(&Path { rate: Some(10_000_000), mark_at: 5, ..path });
    assert_eq!((run.read, run.drops), (400 * 1448, 0));

    // From the segments themselves, nothing being lost: packets that ACKs with and without an echo newly cover.
    let (mut first, mut covered, mut echoed) = (None, 0, 0);
    for (_, answer) in &run.answers {
        let first = *first.get_or_insert(answer.ack);
        let now = u64::from(answer.ack.wrapping_sub(first)).div_ceil(1448).min(400);
        if answer.flags.has(Flags::ECE) && !answer.flags.has(Flags::SYN) {
            echoed += now - covered;
        }
        covered = now;
    }
    let acks = acks.lock().expect("one thread");
    let end = acks.iter().map(|ack| ack.cong_control).max().expect("ACKs");
    assert_eq!(end.1, echoed);
    assert!(echoed > 40 && echoed < 360, "{echoed} of 400 by echoes: both kinds of ACKs are tried");

    // What was counted when a packet was sent is what an ACK before it left, or the SYN.
    let left: BTreeMap<u64, u64> =
        acks.iter().map(|ack| ack.cong_control).chain([(acks[0].prior.0, 0)]).collect();
    let mut since = BTreeSet::new();
    for ack in acks.iter().filter(|ack| ack.sample.0 > 0) {
        assert_eq!(ack.in_ack_event, ack.cong_control);
        assert_eq!(u64::from(ack.prior.1), left[&ack.prior.0]);
        assert_eq!(u64::from(ack.prior.1 + ack.sample.1), ack.cong_control.1);
        assert_eq!(ack.prior.0 + u64::from(ack.sample.0), ack.cong_control.0);
        since.insert(ack.sample.1);
    }
    assert!(since.len() > 3, "{since:?}");
}

#[test]
fn a_module_of_another_family_is_refused() {
    let module = cc::Module::Linux(Arc::new(Recorders(Log::default(), false)));
    let mut freebsd = profile::find("freebsd-13").expect("a stack");
    let error = freebsd.register("recorder", &module).expect_err("another family");
    assert_eq!(error.to_string(), "congestion control recorder is not made for freebsd");
    let mut linux = profile::find("linux-6.8").expect("a stack");
    let error = linux.register("cubic", &module).expect_err("a name in use");
    assert_eq!(error.to_string(), "congestion control cubic is there already");
}
