//! Recordings of FreeBSD's congestion-control modules, event by event, played to ours: how many events agree.
//!
//! The recordings are JSON Lines: one line for each scripted event (an ACK, a train of ACKs, a loss …) with cwnd and
//! ssthresh after it. The tests of this crate and its example `replay` play them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;
use tcp::cc::freebsd::{
    AckKind, CcVar, Cdg, CongestionControl, Cubic, NewReno, SSTHRESH_INFINITE, Signal, cubic_math as math,
};
use tcp::profile::freebsd::release;
use tcp::stack::Profile;
use thiserror::Error;

/// A file of recorded events or values, below `freebsd/cc-vectors` of the recordings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors {
    /// Name of the file, without `.jsonl.gz`.
    pub file: &'static str,
    /// Release of FreeBSD that the model is asked as.
    pub stack: &'static str,
    /// Congestion control.
    pub cc: &'static str,
    /// Header of CUBIC's window functions whose values the file holds; `None` for events of a module.
    pub header: Option<&'static str>,
}

const fn module(file: &'static str, stack: &'static str, cc: &'static str) -> Vectors {
    Vectors { file, stack, cc, header: None }
}

const fn functions(file: &'static str, stack: &'static str, header: &'static str) -> Vectors {
    Vectors { file, stack, cc: "cubic", header: Some(header) }
}

/// All files of recorded events and values.
pub(crate) const VECTORS: [Vectors; 14] = [
    module("freebsd9.1-newreno", "freebsd-9.2", "newreno"),
    module("freebsd9.1-cubic", "freebsd-9.2", "cubic"),
    module("freebsd11-newreno", "freebsd-11", "newreno"),
    module("freebsd11-cubic", "freebsd-11", "cubic"),
    module("freebsd11-cdg", "freebsd-11", "cdg"),
    module("freebsd13-newreno", "freebsd-13", "newreno"),
    module("freebsd13-cubic", "freebsd-13", "cubic"),
    module("freebsd13-cdg", "freebsd-13", "cdg"),
    module("freebsd15-newreno", "freebsd-15-current", "newreno"),
    module("freebsd15-cubic", "freebsd-15-current", "cubic"),
    functions("fn-cubic-freebsd9.1", "freebsd-9.2", "freebsd9.1"),
    functions("fn-cubic-freebsd13", "freebsd-13", "freebsd13"),
    functions("fn-cubic-freebsd15", "freebsd-15-current", "freebsd15"),
    functions("fn-cubic-rfc9438hdr", "freebsd-15-d49540", "rfc9438hdr"),
];

impl Vectors {
    /// Plays the file below `recordings` to the model.
    ///
    /// # Errors
    /// One line, when the file cannot be read or one of its lines is not an event.
    pub(crate) fn play(&self, recordings: &Path) -> Result<Score, ReplayError> {
        let path = recordings.join(format!("freebsd/cc-vectors/{}.jsonl.gz", self.file));
        let mut text = String::new();
        GzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
        match self.header {
            Some(header) => replay_functions(&text, header),
            None => replay(&text, self.stack, self.cc),
        }
    }
}

/// Score of a module over one recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    /// Events recorded.
    pub events: usize,
    /// Events after which cwnd and ssthresh are what was recorded, to the byte.
    pub equal: usize,
    /// Largest difference of cwnd, bytes.
    pub worst_cwnd: u64,
    /// Largest difference of ssthresh, bytes.
    pub worst_ssthresh: u64,
    /// The first difference of each of the first scenarios that have one, in words.
    pub first: Vec<String>,
}

/// Number of first differences that are told at most.
const MAX_DIFFERENCES_TOLD: usize = 12;

/// Reason why a text is no recording that can be played.
#[derive(Debug, Error)]
pub(crate) enum ReplayError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// Name that no header of CUBIC's functions has.
    #[error("no header is called {0}")]
    Header(String),
    /// A line, counted from 1.
    #[error("line {line}: {why}")]
    Line {
        /// Number of the line.
        line: usize,
        /// Fault of the line.
        why: EventError,
    },
}

/// Reason why a line is no event that can be played.
#[derive(Debug, Error)]
pub(crate) enum EventError {
    /// Line that is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Event before anything was set up.
    #[error("an event before init")]
    BeforeInit,
    /// An event of this name is not known.
    #[error("no event is called {0}")]
    Unknown(String),
    /// FreeBSD has no such release, or we do not model it.
    #[error("no FreeBSD release is called {0}")]
    Release(String),
    /// Key without a number.
    #[error("no number {0}")]
    NoNumber(&'static str),
    /// Key without a word.
    #[error("no word {0}")]
    NoWord(&'static str),
    /// Key without an integer, which may be below zero.
    #[error("no {0}")]
    NoInteger(&'static str),
    /// A number is 0, by which something is divided.
    #[error("{0} is 0")]
    Zero(&'static str),
    /// A number is no recording's.
    #[error("{key} is {found}; expected at most {LARGEST}")]
    TooLarge {
        /// Key of the number.
        key: &'static str,
        /// The number.
        found: u64,
    },
    /// Too many trains between two that were recorded.
    #[error("more than {MAX_TRAINS} trains before t0_us = {0}")]
    Trains(u64),
    /// A train has too many ACKs.
    #[error("a train of more than {LONGEST_TRAIN} ACKs")]
    LongTrain,
}

/// Plays the events of `text` to the module `cc` as the stack `stack` sets it up.
///
/// # Errors
/// One line, when a line of `text` is not an event.
pub(crate) fn replay(text: &str, stack: &str, cc: &str) -> Result<Score, ReplayError> {
    let mut score = Score::default();
    let mut shim: Option<Shim> = None;
    let mut diverged = String::new();
    for (index, line) in text.lines().enumerate() {
        let place = |why: EventError| ReplayError::Line { line: index + 1, why };
        let event: Value = serde_json::from_str(line).map_err(|error| place(error.into()))?;
        if event["ev"] == "init" {
            shim = Some(Shim::new(&event, stack, cc).map_err(place)?);
        }
        let shim = shim.as_mut().ok_or_else(|| place(EventError::BeforeInit))?;
        shim.take(&event).map_err(place)?;
        let cwnd = number(&event, "cwnd").map_err(place)?;
        let ssthresh = number(&event, "ssthresh").map_err(place)?;
        score.events += 1;
        if shim.ccv.cwnd == cwnd && shim.ccv.ssthresh == ssthresh {
            score.equal += 1;
            continue;
        }
        score.worst_cwnd = score.worst_cwnd.max(shim.ccv.cwnd.abs_diff(cwnd));
        score.worst_ssthresh = score.worst_ssthresh.max(shim.ccv.ssthresh.abs_diff(ssthresh));
        let scenario = word(&event, "scn").map_err(place)?;
        if diverged != scenario && score.first.len() < MAX_DIFFERENCES_TOLD {
            diverged = scenario.to_owned();
            let (i, ev) = (&event["i"], &event["ev"]);
            let (ours, s) = (shim.ccv.cwnd, shim.ccv.ssthresh);
            score
                .first
                .push(format!("{scenario} {i} {ev}: cwnd {ours} for {cwnd}, ssthresh {s} for {ssthresh}"));
        }
    }
    Ok(score)
}

/// Compares CUBIC's window functions with the values in `text`: those of the header called `header` (`freebsd9.1`,
/// `freebsd13`, `freebsd15`, `rfc9438hdr`). A line counts as an event, the difference of a window as one of cwnd.
///
/// # Errors
/// One line, when a line of `text` holds no such value or the header is not known.
pub(crate) fn replay_functions(text: &str, header: &str) -> Result<Score, ReplayError> {
    let beta = match header {
        "freebsd9.1" => 205,
        "freebsd13" | "freebsd15" | "rfc9438hdr" => 179,
        _ => return Err(ReplayError::Header(header.to_owned())),
    };
    let mut score = Score::default();
    for (index, line) in text.lines().enumerate() {
        let place = |why: EventError| ReplayError::Line { line: index + 1, why };
        let event: Value = serde_json::from_str(line).map_err(|error| place(error.into()))?;
        let (equal, off) = function(&event, header, beta).map_err(place)?;
        score.events += 1;
        score.equal += usize::from(equal);
        score.worst_cwnd = score.worst_cwnd.max(off);
        if !equal && score.first.len() < MAX_DIFFERENCES_TOLD {
            score.first.push(line.to_owned());
        }
    }
    Ok(score)
}

/// Whether every value of a line agrees, and by how much its window differs.
fn function(event: &Value, header: &str, beta: u64) -> Result<(bool, u64), EventError> {
    let wmax = number(event, "wmax_segs")?;
    let k = event["K"].as_i64().ok_or(EventError::NoInteger("K"))?;
    let curve = if beta == 205 { math::Curve::DRAFT_02 } else { math::Curve::RFC };
    let ours = match event["cwnd_epoch_segs"].as_u64() {
        Some(epoch) => math::k_of_epoch(wmax, epoch, &curve),
        None if header == "rfc9438hdr" => k,
        None => math::k(wmax, &curve),
    };
    if event["fn"] != "cubic_cwnd" {
        return Ok((ours == k, 0));
    }
    let (mss, t) = (number(event, "smss")?, number(event, "t_ms")?);
    let recorded = event["cwnd"].as_i64().ok_or(EventError::NoInteger("cwnd"))?;
    let (bytes, old) = (wmax * mss, beta == 205);
    let window = match header {
        _ if old => math::window_9(t as i64, bytes, mss, k, 1000, &curve),
        "rfc9438hdr" => math::window_13((t * 1000) as i64, bytes, mss, k, 1_000_000, &curve) as i64,
        _ => math::window_13(t as i64, bytes, mss, k, 1000, &curve) as i64,
    };
    let friendly = |rtt: u64| match event[format!("tf_rtt{rtt}")].as_u64() {
        None => true,
        Some(value) if old => value == math::friendly_9(t as u32, rtt as u32, bytes, mss as u32, &curve),
        Some(value) => value == math::friendly_13(t, rtt, bytes, mss, &curve),
    };
    let equal = ours == k && window == recorded && [10, 20, 40, 80].into_iter().all(friendly);
    Ok((equal, window.abs_diff(recorded)))
}

/// Beyond this a number of bytes, microseconds or the like is no recording's, and sums of some could overflow.
const LARGEST: u64 = 1 << 40;
/// The most ACKs of one train.
const LONGEST_TRAIN: u64 = 1 << 20;
/// The most trains between two that were recorded.
const MAX_TRAINS: u64 = 1 << 16;

fn number(event: &Value, key: &'static str) -> Result<u64, EventError> {
    let found = event[key].as_u64().ok_or(EventError::NoNumber(key))?;
    if found <= LARGEST { Ok(found) } else { Err(EventError::TooLarge { key, found }) }
}

/// A number that is not 0.
fn positive(event: &Value, key: &'static str) -> Result<u64, EventError> {
    match number(event, key)? {
        0 => Err(EventError::Zero(key)),
        number => Ok(number),
    }
}

fn word<'a>(event: &'a Value, key: &'static str) -> Result<&'a str, EventError> {
    event[key].as_str().ok_or(EventError::NoWord(key))
}

/// The recording's harness, as its description says.
struct Shim {
    cc: Box<dyn CongestionControl>,
    ccv: CcVar,
    /// Byte counting's cap.
    cap: Option<u64>,
    /// Recovery point of an ECN echo lies one above what was sent (FreeBSD 12 and later).
    beyond: u64,
    /// The last train: start, RTT in microseconds, bytes per ACK, ACKs merged.
    train: Option<(u64, u64, u64, u64)>,
    delay_ticks: u32,
    marks_rounds: bool,
}

impl Shim {
    fn new(event: &Value, stack: &str, cc: &str) -> Result<Shim, EventError> {
        let mut release = release(stack).ok_or_else(|| EventError::Release(stack.to_owned()))?;
        release.set("net.inet.tcp.abc_l_var", number(event, "abc_l_var")? as i64);
        let tuning = release.sender_tuning();
        let scenario = word(event, "scn")?;
        let cc: Box<dyn CongestionControl> = match cc {
            "newreno" => Box::new(NewReno::default()),
            "cubic" => Box::new(Cubic::new(tuning.cubic)),
            _ => Box::new(Cdg::with_random(tuning.cdg, random(scenario))),
        };
        let mut ccv = CcVar::new(tuning.cc);
        ccv.mss = positive(event, "mss")?;
        ccv.maxseg = positive(event, "t_maxseg")?;
        ccv.hz = positive(event, "hz")?.min(1_000_000) as u32;
        ccv.snd_scale = 14;
        ccv.cwnd = 10 * 1448;
        ccv.snd_wnd = u64::from(u32::MAX);
        ccv.una = 1 << 32;
        ccv.max = ccv.una + ccv.cwnd;
        ccv.nxt = ccv.max;
        let beyond = u64::from(tuning.ecn_recovery_by_prr);
        let cap = tuning.abc_capped_in_avoidance.then_some(tuning.cc.abc_l_var * ccv.mss);
        let mut shim = Shim { cc, ccv, cap, beyond, train: None, delay_ticks: 0, marks_rounds: false };
        shim.at(0, number(event, "srtt_us")?);
        shim.cc.conn_init(&mut shim.ccv);
        Ok(shim)
    }

    fn at(&mut self, t_us: u64, srtt_us: u64) {
        self.ccv.ticks = 1000 + t_us / 1000;
        self.ccv.micros = 1_000_000 + t_us / 1000 * 1000;
        self.ccv.srtt = (srtt_us * 32 / 1000) as u32;
    }

    fn take(&mut self, event: &Value) -> Result<(), EventError> {
        let t = number(event, "t_us")?;
        match word(event, "ev")? {
            "init" => {}
            "ack" => {
                self.at(t, number(event, "srtt_us")?);
                self.ccv.snd_wnd = if number(event, "limited")? == 1 {
                    u64::from(u32::MAX)
                } else {
                    self.ccv.cwnd.saturating_sub(1)
                };
                self.delay_ticks =
                    event["ertt_ms"].as_u64().unwrap_or(number(event, "srtt_us")? / 1000) as u32;
                self.ack(number(event, "bytes")?, number(event, "nsegs")?);
                self.train = None;
            }
            "train" => self.trains_up_to(event)?,
            // Happens inside the trains.
            "post_recovery_exit_cr" => {}
            "force_cwnd" => {
                self.ccv.cwnd = positive(event, "cwnd")?;
                self.ccv.rtt_updates = 100;
            }
            "ndupack" => {
                self.at(t, u64::from(self.ccv.srtt) * 1000 / 32);
                self.signal(event)?;
                self.ccv.recover = self.ccv.max;
                self.cc.cong_signal(&mut self.ccv, Signal::DuplicateAcks);
            }
            "ecn" => {
                self.at(t, u64::from(self.ccv.srtt) * 1000 / 32);
                self.signal(event)?;
                self.ccv.recover = self.ccv.max + self.beyond;
                self.cc.cong_signal(&mut self.ccv, Signal::Ecn);
            }
            "post_recovery" => {
                self.at(t, u64::from(self.ccv.srtt) * 1000 / 32);
                self.ccv.pipe = number(event, "pipe")?;
                self.end_recovery();
                // The next train starts at once; not every one is recorded.
                let rtt = u64::from(self.ccv.srtt) * 1000 / 32;
                self.train = Some((t.saturating_sub(rtt), rtt, 0, 0));
            }
            "after_idle" => {
                self.at(t, u64::from(self.ccv.srtt) * 1000 / 32);
                if self.ccv.ssthresh == SSTHRESH_INFINITE {
                    // Not in the record: the harness had a threshold of half the window there.
                    self.ccv.ssthresh = self.ccv.cwnd / 2;
                }
                self.cc.after_idle(&mut self.ccv);
                self.train = None;
            }
            other => return Err(EventError::Unknown(other.to_owned())),
        }
        Ok(())
    }

    fn signal(&mut self, event: &Value) -> Result<(), EventError> {
        self.ccv.rxtshift = number(event, "rxtshift")? as u32;
        self.ccv.max = self.ccv.una + number(event, "flight")?;
        self.ccv.nxt = self.ccv.max;
        self.train = None;
        Ok(())
    }

    fn end_recovery(&mut self) {
        self.cc.post_recovery(&mut self.ccv);
        self.ccv.bytes_acked = 0;
        self.ccv.fast_recovery = false;
        self.ccv.cong_recovery = false;
    }

    fn ack(&mut self, bytes: u64, nsegs: u64) {
        self.ccv.rtt_updates += 1;
        self.ccv.bytes_this_ack = bytes;
        self.ccv.nsegs = nsegs;
        self.ccv.delay_rtt = self.delay_ticks;
        self.ccv.curack = self.ccv.una + bytes;
        self.ccv.count_ack(self.cap);
        self.cc.ack_received(&mut self.ccv, AckKind::New);
        self.ccv.una += bytes;
        self.ccv.max = self.ccv.max.max(self.ccv.una + self.ccv.cwnd);
        self.ccv.nxt = self.ccv.max;
        if self.ccv.cong_recovery && !self.ccv.fast_recovery && self.ccv.una >= self.ccv.recover {
            self.end_recovery();
        }
    }

    /// Runs trains that were not recorded, then the recorded one.
    fn trains_up_to(&mut self, event: &Value) -> Result<(), EventError> {
        let (start, bytes, nsegs) =
            (number(event, "t0_us")?, positive(event, "bytes")?, number(event, "nsegs")?);
        let rtt = match &event["srtt_us"] {
            Value::Null => positive(event, "ertt_ms")? * 1000,
            _ => positive(event, "srtt_us")?,
        };
        self.delay_ticks = event["ertt_ms"].as_u64().unwrap_or(rtt / 1000) as u32;
        self.marks_rounds = event["new_meas_on_last"] == 1;
        if let Some((last, last_rtt, _, _)) = self.train {
            let mut at = last + last_rtt;
            if start.saturating_sub(at) / rtt > MAX_TRAINS {
                return Err(EventError::Trains(start));
            }
            while at + rtt <= start {
                self.run_train(at, rtt, bytes, nsegs, None)?;
                at += rtt;
            }
        }
        self.run_train(start, rtt, bytes, nsegs, event["n"].as_u64())?;
        self.train = Some((start, rtt, bytes, nsegs));
        Ok(())
    }

    /// A train of `n` ACKs, or of as many as the window holds.
    fn run_train(
        &mut self,
        start: u64,
        rtt: u64,
        bytes: u64,
        nsegs: u64,
        n: Option<u64>,
    ) -> Result<(), EventError> {
        let n = n.unwrap_or_else(|| (self.ccv.cwnd / bytes).max(1));
        if n > LONGEST_TRAIN {
            return Err(EventError::LongTrain);
        }
        self.ccv.snd_wnd = u64::from(u32::MAX);
        for k in 0..n {
            self.at(start + k * (rtt / n), rtt);
            self.ccv.new_measurement = self.marks_rounds && k == n - 1;
            self.ack(bytes, nsegs);
        }
        Ok(())
    }
}

/// Draws what the recording drew, by the scenario's name.
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

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = r#"{"ev": "init", "scn": "x", "i": 0, "t_us": 0, "mss": 1448, "t_maxseg": 1460, "hz": 1000,
        "abc_l_var": 2, "srtt_us": 40000, "cwnd": 14480, "ssthresh": 1073725440}"#;

    fn replay_error(text: &str) -> String {
        replay(text, "freebsd-13", "newreno").unwrap_err().to_string()
    }

    fn refusal(event: &str) -> String {
        replay_error(&format!("{}\n{event}", INIT.replace('\n', " ")))
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        assert_eq!(replay_error("{}"), "line 1: an event before init");
        assert!(replay_error("[").starts_with("line 1: "));
        assert!(replay(&INIT.replace('\n', " "), "freebsd-13", "newreno").is_ok());
        let still = INIT.replace('\n', " ").replace("\"hz\": 1000", "\"hz\": 0");
        assert_eq!(replay_error(&still), "line 1: hz is 0");
        let train =
            |rest: &str| refusal(&format!(r#"{{"ev": "train", "t_us": 1, "t0_us": 9000000, {rest}}}"#));
        assert_eq!(train(r#""bytes": 0, "nsegs": 1, "srtt_us": 1"#), "line 2: bytes is 0");
        assert_eq!(train(r#""bytes": 1, "nsegs": 1, "srtt_us": 0"#), "line 2: srtt_us is 0");
        assert_eq!(train(r#""bytes": 1, "nsegs": 1"#), "line 2: no number ertt_ms");
        assert!(train(r#""bytes": 1, "nsegs": 1, "srtt_us": 1, "n": 999999999"#).contains("ACKs"));
        assert!(train(r#""bytes": 1, "nsegs": 99999999999999, "srtt_us": 1"#).contains("at most"));
        // The trains between two that were recorded are bounded as well.
        let huge = 1_u64 << 40;
        let event = |rest: &str| {
            format!(r#"{{"scn": "x", "i": 1, "t_us": 1, "cwnd": {huge}, "ssthresh": 1073725440, {rest}}}"#)
        };
        let train = |t0: u32| {
            event(&format!(
                r#""ev": "train", "t0_us": {t0}, "bytes": 1, "nsegs": 1, "srtt_us": 1000, "n": 1"#
            ))
        };
        let events = [event(r#""ev": "force_cwnd""#), train(0), train(10_000)].join("\n");
        assert_eq!(refusal(&events), "line 4: a train of more than 1048576 ACKs");
        assert_eq!(refusal(r#"{"ev": "what", "t_us": 1}"#), "line 2: no event is called what");
    }
}
