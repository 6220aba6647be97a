//! Every hook of mod_cc(9) is called, where FreeBSD calls it, by both stacks.

use std::sync::{Arc, Mutex};

use crate::hosts;
use crate::lab::{self, Loss, Setup};
use tcp::cc::foreign::Failure;
use tcp::cc::freebsd::{AckKind, CcVar, CdgTuning, CongestionControl, CubicEra, Module, Signal, built_in};
use tcp::cc::{self, Lifecycle};
use tcp::profile;
use tcp::stack::{EcnMode, Profile};

type Log = Arc<Mutex<Vec<String>>>;

/// NewReno that writes down which hooks are called.
struct Recorder(Log, Box<dyn CongestionControl>);

impl Recorder {
    fn note(&self, what: String) {
        self.0.lock().expect("one thread").push(what);
    }
}

impl CongestionControl for Recorder {
    fn cb_init(&mut self, ccv: &mut CcVar) {
        self.note("cb_init".into());
        self.1.cb_init(ccv);
    }
    fn cb_destroy(&mut self, _: &mut CcVar) {
        self.note("cb_destroy".into());
    }
    fn conn_init(&mut self, ccv: &mut CcVar) {
        self.note("conn_init".into());
        self.1.conn_init(ccv);
    }
    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        let limited = if ccv.cwnd_limited { " limited" } else { "" };
        self.note(format!("ack_received {kind:?}{limited}"));
        self.1.ack_received(ccv, kind);
    }
    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        self.note(format!("cong_signal {signal:?}"));
        self.1.cong_signal(ccv, signal);
    }
    fn post_recovery(&mut self, ccv: &mut CcVar) {
        self.note("post_recovery".into());
        self.1.post_recovery(ccv);
    }
    fn after_idle(&mut self, ccv: &mut CcVar) {
        self.note("after_idle".into());
        self.1.after_idle(ccv);
    }
    fn ecnpkt_handler(&mut self, ccv: &mut CcVar) {
        let marked = if ccv.ip_ce { " CE" } else { "" };
        self.note(format!("ecnpkt_handler{marked}"));
    }
    fn new_round(&mut self, ccv: &mut CcVar, round: u32) {
        self.note(format!("newround {round}"));
        self.1.new_round(ccv, round);
    }
    fn rtt_sample(&mut self, ccv: &mut CcVar, rtt_us: u64, flight: u64) {
        self.note("rttsample".into());
        self.1.rtt_sample(ccv, rtt_us, flight);
    }
}

struct Recorders(Log);

impl Lifecycle for Recorders {
    fn mod_init(&self) -> Result<(), Failure> {
        self.0.lock().expect("one thread").push("mod_init".into());
        Ok(())
    }
    fn mod_destroy(&self) {
        self.0.lock().expect("one thread").push("mod_destroy".into());
    }
}

impl Module for Recorders {
    fn connect(&self, era: CubicEra, cdg: &CdgTuning, random: u64) -> Box<dyn CongestionControl> {
        let newreno =
            built_in(&["newreno"]).get("newreno").expect("FreeBSD has it").connect(era, cdg, random);
        Box::new(Recorder(self.0.clone(), newreno))
    }
}

fn host(stack: &str) -> (Box<dyn Profile>, Log) {
    let log = Log::default();
    let mut profile = profile::find(stack).expect("a stack");
    let module = cc::Module::FreeBsd(Arc::new(Recorders(log.clone())));
    profile.register("recorder", &module).expect("a name of its own");
    (profile, log)
}

/// The hooks of a transfer of 100 segments at the sender and at the receiver.
fn hooks(stack: &str, change: impl FnOnce(&mut Setup<'_>)) -> [Vec<String>; 2] {
    let (sender, sent) = host(stack);
    let (receiver, received) = host(stack);
    let mut setup = Setup {
        sender: sender.as_ref(),
        receiver: receiver.as_ref(),
        cc: "recorder",
        rate: 100_000_000,
        rtt: 40_000_000,
        buffer: 1000,
        mark_at: None,
        loss: Loss::Never,
        bytes: Some(100 * 1448),
        buffers: Some(1 << 20),
        duration: 20_000_000_000,
        ecn: EcnMode::Off,
        random: 1,
        phase: hosts::PHASE,
        lag: hosts::LAG,
        aggregate: 1,
    };
    change(&mut setup);
    lab::run(&setup);
    drop((sender, receiver));
    [sent, received].map(|log| log.lock().expect("one thread").clone())
}

fn position(calls: &[String], what: &str) -> usize {
    calls.iter().position(|call| call == what).unwrap_or_else(|| panic!("no {what} in {calls:?}"))
}

const STACKS: [&str; 5] =
    ["freebsd-9.2", "freebsd-11", "freebsd-13", "freebsd-15-current", "freebsd-15-current/rack"];

#[test]
fn a_transfer_without_loss() {
    for stack in STACKS {
        let [calls, _] = hooks(stack, |_| ());
        assert_eq!(calls[..2], ["mod_init", "cb_init"], "{stack}");
        // The RACK stack takes the handshake for a sample, as the default stack does, but tells only of data.
        assert_eq!(calls[2], "conn_init", "{stack}");
        let rounds = calls.iter().filter(|call| call.starts_with("newround")).count();
        let samples = calls.iter().filter(|call| *call == "rttsample").count();
        if stack.ends_with("/rack") {
            assert_eq!(calls[3..5], ["newround 1", "ack_received New limited"], "{stack}");
            assert!(rounds > 2 && samples > 10, "{stack}: {rounds} rounds, {samples} samples");
        } else {
            assert_eq!(calls[3], "ack_received New limited", "{stack}");
            assert_eq!((rounds, samples), (0, 0), "{stack}");
        }
        // The receiver never closes: the connection stays.
        assert!(!calls.contains(&"cb_destroy".to_owned()), "{stack}");
        assert_eq!(calls[calls.len() - 1], "mod_destroy", "{stack}");
    }
}

#[test]
fn a_loss() {
    for stack in STACKS {
        let [calls, _] = hooks(stack, |setup| setup.loss = Loss::Every(60));
        let reduced = position(&calls, "cong_signal DuplicateAcks");
        if !stack.ends_with("/rack") {
            assert_eq!(calls[reduced - 1], "ack_received Duplicate limited", "{stack}");
        }
        let left = position(&calls, "post_recovery");
        assert!(left > reduced, "{stack}");
        // The ACK that ends recovery grows the window behind post_recovery where the release leaves first.
        assert!(calls[left - 1..].iter().any(|call| call.starts_with("ack_received New")), "{stack}");
    }
}

#[test]
fn a_timeout() {
    for stack in STACKS {
        let [calls, _] = hooks(stack, |setup| {
            setup.loss = Loss::From(60_000_000);
            setup.duration = 1000 * 1_000_000_000;
        });
        let rack = stack.ends_with("/rack");
        assert_eq!(calls.iter().any(|call| call == "cong_signal Timeout"), !rack, "{stack}");
        // Until the stack gives up.
        let last = [if rack { "rttsample" } else { "cong_signal Timeout" }, "cb_destroy", "mod_destroy"];
        assert_eq!(calls[calls.len() - 3..], last, "{stack}");
    }
}

#[test]
fn echoes_and_marks() {
    for stack in &STACKS[2..] {
        let [sent, received] = hooks(stack, |setup| {
            setup.ecn = EcnMode::On;
            setup.mark_at = Some(5);
            setup.rate = 10_000_000;
        });
        position(&sent, "cong_signal Ecn");
        let marked = position(&received, "ecnpkt_handler CE");
        assert!(position(&received, "ecnpkt_handler") < marked, "{stack}");
    }
}
