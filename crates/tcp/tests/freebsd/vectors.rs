//! FreeBSD's congestion-control modules against every event recorded from FreeBSD's own.

use std::fmt::Write as _;

use crate::groundtruth;
use serde_json::Value;
use tcp::cc::freebsd::{AckKind, CcVar, Cdg, CongestionControl, Cubic, NewReno, SSTHRESH_INFINITE, Signal};
use tcp::profile::Profile;
use tcp::profile::freebsd::release;

const FILES: [(&str, &str, &str); 10] = [
    ("freebsd9.1-newreno", "freebsd-9.2", "newreno"),
    ("freebsd9.1-cubic", "freebsd-9.2", "cubic"),
    ("freebsd11-newreno", "freebsd-11", "newreno"),
    ("freebsd11-cubic", "freebsd-11", "cubic"),
    ("freebsd11-cdg", "freebsd-11", "cdg"),
    ("freebsd13-newreno", "freebsd-13", "newreno"),
    ("freebsd13-cubic", "freebsd-13", "cubic"),
    ("freebsd13-cdg", "freebsd-13", "cdg"),
    ("freebsd15-newreno", "freebsd-15-current", "newreno"),
    ("freebsd15-cubic", "freebsd-15-current", "cubic"),
];

#[test]
fn modules_agree_with_the_recorded_ones() {
    let mut table =
        String::from("file                  events   equal      %  worst cwnd  worst ssthresh (bytes)\n");
    let mut failures = Vec::new();
    for (file, stack, cc) in FILES {
        let score = replay(file, stack, cc);
        let percent = 100.0 * score.equal as f64 / score.events as f64;
        let _ = writeln!(
            table,
            "{file:20} {:7} {:7} {percent:6.2} {:11} {:15}",
            score.events, score.equal, score.worst_cwnd, score.worst_ssthresh
        );
        for line in &score.first {
            let _ = writeln!(table, "    {line}");
        }
        if percent < 99.0 || score.worst_cwnd > 1460 || score.worst_ssthresh > 1460 {
            failures.push(file);
        }
    }
    println!("{table}");
    assert!(failures.is_empty(), "{failures:?} differ\n{table}");
}

#[derive(Default)]
struct Score {
    events: usize,
    equal: usize,
    worst_cwnd: u64,
    worst_ssthresh: u64,
    first: Vec<String>,
}

fn replay(file: &str, stack: &str, cc: &str) -> Score {
    let text = groundtruth::read_gz(&format!("freebsd/cc-vectors/{file}.jsonl.gz"));
    let mut score = Score::default();
    let mut shim: Option<Shim> = None;
    let mut diverged = String::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).expect("a JSON line");
        if event["ev"] == "init" {
            shim = Some(Shim::new(&event, stack, cc));
        }
        let shim = shim.as_mut().expect("init comes first");
        shim.take(&event);
        let (cwnd, ssthresh) = (number(&event, "cwnd"), number(&event, "ssthresh"));
        score.events += 1;
        if shim.v.cwnd == cwnd && shim.v.ssthresh == ssthresh {
            score.equal += 1;
        } else {
            score.worst_cwnd = score.worst_cwnd.max(shim.v.cwnd.abs_diff(cwnd));
            score.worst_ssthresh = score.worst_ssthresh.max(shim.v.ssthresh.abs_diff(ssthresh));
            let scenario = event["scn"].as_str().expect("a name");
            if diverged != scenario && score.first.len() < 12 {
                diverged = scenario.to_owned();
                let (i, ev) = (&event["i"], &event["ev"]);
                let (ours, s) = (shim.v.cwnd, shim.v.ssthresh);
                score.first.push(format!(
                    "{scenario} {i} {ev}: cwnd {ours} for {cwnd}, ssthresh {s} for {ssthresh}"
                ));
            }
        }
    }
    score
}

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("{key} in {event}"))
}

/// The recording's harness, as its description says.
struct Shim {
    cc: Box<dyn CongestionControl>,
    v: CcVar,
    /// Byte counting's cap.
    cap: Option<u64>,
    /// Recovery point of an ECN echo lies one above what was sent (12 and later).
    beyond: u64,
    /// The last train: start, RTT in microseconds, bytes per ACK, ACKs merged.
    train: Option<(u64, u64, u64, u64)>,
    delay_ticks: u32,
    marks_rounds: bool,
}

impl Shim {
    fn new(event: &Value, stack: &str, cc: &str) -> Shim {
        let mut release = release(stack).expect("a release");
        release.set("net.inet.tcp.abc_l_var", number(event, "abc_l_var") as i64);
        let tuning = release.sender_tuning();
        let scenario = event["scn"].as_str().expect("a name");
        let cc: Box<dyn CongestionControl> = match cc {
            "newreno" => Box::new(NewReno),
            "cubic" => Box::new(Cubic::new(tuning.cubic)),
            _ => Box::new(Cdg::with_random(tuning.cdg, random(scenario))),
        };
        let mut v = CcVar::new(tuning.cc);
        v.mss = number(event, "mss");
        v.maxseg = number(event, "t_maxseg");
        v.hz = number(event, "hz") as u32;
        v.snd_scale = 14;
        v.cwnd = 10 * 1448;
        v.snd_wnd = u64::from(u32::MAX);
        v.una = 1 << 32;
        v.max = v.una + v.cwnd;
        v.nxt = v.max;
        let beyond = u64::from(tuning.ecn_recovery_by_prr);
        let cap = tuning.abc_capped_in_avoidance.then_some(tuning.cc.abc_l_var * v.mss);
        let mut shim = Shim { cc, v, cap, beyond, train: None, delay_ticks: 0, marks_rounds: false };
        shim.at(0, number(event, "srtt_us"));
        shim.cc.conn_init(&mut shim.v);
        shim
    }

    fn at(&mut self, t_us: u64, srtt_us: u64) {
        self.v.ticks = 1000 + t_us / 1000;
        self.v.micros = 1_000_000 + t_us / 1000 * 1000;
        self.v.srtt = (srtt_us * 32 / 1000) as u32;
    }

    fn take(&mut self, event: &Value) {
        let t = number(event, "t_us");
        match event["ev"].as_str().expect("an event") {
            "init" => {}
            "ack" => {
                self.at(t, number(event, "srtt_us"));
                self.v.snd_wnd =
                    if number(event, "limited") == 1 { u64::from(u32::MAX) } else { self.v.cwnd - 1 };
                self.delay_ticks =
                    event["ertt_ms"].as_u64().unwrap_or(number(event, "srtt_us") / 1000) as u32;
                self.ack(number(event, "bytes"), number(event, "nsegs"));
                self.train = None;
            }
            "train" => self.trains_up_to(event),
            // Happens inside the trains.
            "post_recovery_exit_cr" => {}
            "force_cwnd" => {
                self.v.cwnd = number(event, "cwnd");
                self.v.rtt_updates = 100;
            }
            "ndupack" => {
                self.at(t, u64::from(self.v.srtt) * 1000 / 32);
                self.signal(event);
                self.v.recover = self.v.max;
                self.cc.cong_signal(&mut self.v, Signal::DuplicateAcks);
            }
            "ecn" => {
                self.at(t, u64::from(self.v.srtt) * 1000 / 32);
                self.signal(event);
                self.v.recover = self.v.max + self.beyond;
                self.cc.cong_signal(&mut self.v, Signal::Ecn);
            }
            "post_recovery" => {
                self.at(t, u64::from(self.v.srtt) * 1000 / 32);
                self.v.pipe = number(event, "pipe");
                self.end_recovery();
                // The next train starts at once; not every one is recorded.
                let rtt = u64::from(self.v.srtt) * 1000 / 32;
                self.train = Some((t - rtt, rtt, 0, 0));
            }
            "after_idle" => {
                self.at(t, u64::from(self.v.srtt) * 1000 / 32);
                if self.v.ssthresh == SSTHRESH_INFINITE {
                    // Not in the record: the harness had a threshold of half the window there.
                    self.v.ssthresh = self.v.cwnd / 2;
                }
                self.cc.after_idle(&mut self.v);
                self.train = None;
            }
            other => panic!("unknown event {other}"),
        }
    }

    fn signal(&mut self, event: &Value) {
        self.v.rxtshift = number(event, "rxtshift") as u32;
        self.v.max = self.v.una + number(event, "flight");
        self.v.nxt = self.v.max;
        self.train = None;
    }

    fn end_recovery(&mut self) {
        self.cc.post_recovery(&mut self.v);
        self.v.bytes_acked = 0;
        self.v.fast_recovery = false;
        self.v.cong_recovery = false;
    }

    fn ack(&mut self, bytes: u64, nsegs: u64) {
        self.v.rtt_updates += 1;
        self.v.bytes_this_ack = bytes;
        self.v.nsegs = nsegs;
        self.v.delay_rtt = self.delay_ticks;
        self.v.curack = self.v.una + bytes;
        self.v.count_ack(self.cap);
        self.cc.ack_received(&mut self.v, AckKind::New);
        self.v.una += bytes;
        self.v.max = self.v.max.max(self.v.una + self.v.cwnd);
        self.v.nxt = self.v.max;
        if self.v.cong_recovery && !self.v.fast_recovery && self.v.una >= self.v.recover {
            self.end_recovery();
        }
    }

    /// Runs trains that were not recorded, then the recorded one.
    fn trains_up_to(&mut self, event: &Value) {
        let (start, bytes, nsegs) = (number(event, "t0_us"), number(event, "bytes"), number(event, "nsegs"));
        let rtt =
            event["srtt_us"].as_u64().or(event["ertt_ms"].as_u64().map(|ms| ms * 1000)).expect("an RTT");
        self.delay_ticks = event["ertt_ms"].as_u64().unwrap_or(rtt / 1000) as u32;
        self.marks_rounds = event["new_meas_on_last"] == 1;
        if let Some((last, last_rtt, _, _)) = self.train {
            let mut at = last + last_rtt;
            while at + rtt <= start {
                self.run_train(at, rtt, bytes, nsegs, None);
                at += rtt;
            }
        }
        self.run_train(start, rtt, bytes, nsegs, event["n"].as_u64());
        self.train = Some((start, rtt, bytes, nsegs));
    }

    fn run_train(&mut self, start: u64, rtt: u64, bytes: u64, nsegs: u64, n: Option<u64>) {
        let n = n.unwrap_or_else(|| (self.v.cwnd / bytes).max(1));
        self.v.snd_wnd = u64::from(u32::MAX);
        for k in 0..n {
            self.at(start + k * (rtt / n), rtt);
            self.v.new_measurement = self.marks_rounds && k == n - 1;
            self.ack(bytes, nsegs);
        }
    }
}

/// What the recording drew from, by the scenario's name.
fn random(scenario: &str) -> Box<dyn FnMut() -> u32 + Send> {
    if scenario.ends_with("rand0") {
        return Box::new(|| 0);
    }
    if scenario.ends_with("randmax") {
        return Box::new(|| i32::MAX as u32);
    }
    let mut s = 12_345u64;
    Box::new(move || {
        s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((s >> 33) & 0x7fff_ffff) as u32
    })
}

#[test]
fn window_functions_agree_with_the_recorded_ones() {
    use tcp::cc::freebsd::cubic_math as math;
    let mut table = String::from("file                   values\n");
    for (file, beta) in
        [("fn-cubic-freebsd9.1", 205), ("fn-cubic-freebsd13", 179), ("fn-cubic-freebsd15", 179)]
    {
        let text = groundtruth::read_gz(&format!("freebsd/cc-vectors/{file}.jsonl.gz"));
        let mut values = 0;
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).expect("a JSON line");
            let wmax = number(&event, "wmax_segs");
            let k = number(&event, "K") as i64;
            assert_eq!(math::k(wmax, beta), k, "{file} {line}");
            values += 1;
            if event["fn"] != "cubic_cwnd" {
                continue;
            }
            let (mss, t) = (number(&event, "smss"), number(&event, "t_ms"));
            let bytes = wmax * mss;
            let old = beta == 205;
            let window = if old {
                math::window_9(t as i64, bytes, mss, k, 1000)
            } else {
                math::window_13(t as i64, bytes, mss, k, 1000) as i64
            };
            assert_eq!(Some(window), event["cwnd"].as_i64(), "{file} {line}");
            for rtt in [10, 20, 40, 80] {
                let friendly = if old {
                    math::friendly_9(t as u32, rtt, bytes, mss as u32)
                } else {
                    math::friendly_13(t, u64::from(rtt), bytes, mss)
                };
                assert_eq!(Some(friendly), event[format!("tf_rtt{rtt}")].as_u64(), "{file} {line}");
            }
            values += 5;
        }
        let _ = writeln!(table, "{file:20} {values:8}");
    }
    let text = groundtruth::read_gz("freebsd/cc-vectors/fn-cubic-rfc9438hdr.jsonl.gz");
    let mut values = 0;
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).expect("a JSON line");
        let (wmax, k) = (number(&event, "wmax_segs"), number(&event, "K") as i64);
        if event["fn"] == "cubic_k" {
            let epoch = number(&event, "cwnd_epoch_segs");
            assert_eq!(math::k_of_epoch(wmax, epoch), k, "{line}");
        } else {
            let (mss, t) = (number(&event, "smss"), number(&event, "t_ms"));
            let window = math::window_13((t * 1000) as i64, wmax * mss, mss, k, 1_000_000);
            assert_eq!(Some(window), event["cwnd"].as_u64(), "{line}");
        }
        values += 1;
    }
    let _ = writeln!(table, "fn-cubic-rfc9438hdr  {values:8}");
    println!("{table}");
}
