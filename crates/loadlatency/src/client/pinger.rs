//! The pinger: one round trip at a time over a connection of its own, which also carries the commands.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::Ping;
use thiserror::Error;

use crate::link::{Link, TIMEOUT};
use crate::sys::{self, in_words};
use crate::wire::{FlowReport, Reply, Request};

/// Time from one ping to the next, ns, if the first is answered by then: 4 to 6 KB/s of small packets each way.
const EVERY_NS: u64 = 20_000_000;

/// Reason why there is no server any more.
#[derive(Debug, Error)]
pub(super) enum Lost {
    #[error("the connection to the server was lost: {}", in_words(.0))]
    Connection(#[from] io::Error),
    #[error("the server sent what is no reply")]
    NoReply,
    /// Silence of the server for this number of seconds.
    #[error("the server has not answered for {0} s")]
    Silent(u64),
    #[error("the server does not answer commands")]
    NoAnswer,
    /// End of the session, in the server's words.
    #[error("the server ended the run: {0}")]
    Ended(String),
}

/// A report: the server's time, and its flows.
pub(super) type Report = (u64, Vec<FlowReport>);

/// The client's end of the pinger's connection. Times are absolute until `take` and `peek` make them relative.
pub(super) struct Pinger {
    link: Link,
    idle_timeout_ns: u64,
    number: u32,
    /// Number and time of the ping that is not answered.
    under_way: Option<(u32, u64)>,
    due_ns: u64,
    /// Time of the last answer, or of a question asked while nothing was unanswered, in ns.
    heard_ns: u64,
    /// Requests that are not answered.
    unanswered: u32,
    pings: Vec<Ping>,
    stopped: bool,
    reports: VecDeque<Report>,
}

impl Pinger {
    /// Creates a pinger over a connection whose greetings are exchanged.
    pub(super) fn new(link: Link, idle_timeout_s: u64) -> Pinger {
        Pinger {
            link,
            idle_timeout_ns: idle_timeout_s * 1_000_000_000,
            number: 0,
            under_way: None,
            due_ns: 0,
            heard_ns: sys::now_ns(),
            unanswered: 0,
            pings: Vec::new(),
            stopped: false,
            reports: VecDeque::new(),
        }
    }

    /// Sends a ping, if one is due and `pinging`, and takes what comes within `wait`; a report is handed out.
    pub(super) fn turn(&mut self, wait: Duration, pinging: bool) -> Result<Option<Report>, Lost> {
        let now = sys::now_ns();
        let mut wait = wait.min(Duration::from_millis(100));
        if pinging && self.under_way.is_none() {
            if now >= self.due_ns {
                self.number = self.number.wrapping_add(1);
                self.under_way = Some((self.number, now));
                self.due_ns = now + EVERY_NS;
                self.ask(Request::Ping(self.number))?;
            } else {
                wait = wait.min(Duration::from_nanos(self.due_ns - now));
            }
        }
        if let Some((kind, body)) = self.link.next(wait)? {
            self.take_reply(Reply::read(kind, &body).ok_or(Lost::NoReply)?)?;
        } else if self.unanswered > 0 && sys::now_ns() - self.heard_ns > self.idle_timeout_ns {
            return Err(Lost::Silent(self.idle_timeout_ns / 1_000_000_000));
        }
        Ok(self.reports.pop_front())
    }

    fn take_reply(&mut self, reply: Reply) -> Result<(), Lost> {
        let now = sys::now_ns();
        self.heard_ns = now;
        self.unanswered = self.unanswered.saturating_sub(1);
        match reply {
            Reply::Pong(number, came, sent) => {
                if let Some((_, t_ns)) = self.under_way.take_if(|(awaited, _)| *awaited == number) {
                    self.pings.push(Ping {
                        t_ns,
                        rtt_ns: now - t_ns,
                        up_ns: Some(difference(came, t_ns)),
                        down_ns: Some(difference(now, sent)),
                        answered: true,
                    });
                }
            }
            Reply::Report(server_ns, flows) => self.reports.push_back((server_ns, flows)),
            Reply::Stopped => self.stopped = true,
            Reply::Ending(why) => return Err(Lost::Ended(why)),
        }
        Ok(())
    }

    fn ask(&mut self, request: Request) -> Result<(), Lost> {
        if self.unanswered == 0 {
            self.heard_ns = sys::now_ns();
        }
        self.unanswered += 1;
        Ok(self.link.send(&request.to_bytes())?)
    }

    /// Asks for a report, which a `turn` will hand out.
    pub(super) fn ask_report(&mut self) -> Result<(), Lost> {
        self.ask(Request::Report)
    }

    /// Asks for a report and waits for it; one that was still under way comes with it.
    pub(super) fn report(&mut self, patience_ns: u64) -> Result<Vec<Report>, Lost> {
        self.ask(Request::Report)?;
        let deadline = sys::now_ns() + patience_ns;
        let mut reports = Vec::new();
        while self.unanswered > 0 {
            reports.extend(self.turn(Duration::from_millis(100), false)?);
            too_late(deadline)?;
        }
        reports.extend(self.reports.drain(..));
        Ok(reports)
    }

    /// Has all flows ended and waits until they are; a ping that is under way is answered before that, and so is a report,
    /// which is handed out.
    pub(super) fn stop(&mut self, patience_ns: u64) -> Result<Vec<Report>, Lost> {
        self.stopped = false;
        self.ask(Request::Stop)?;
        let deadline = sys::now_ns() + patience_ns;
        let mut reports = Vec::new();
        while !self.stopped {
            reports.extend(self.turn(Duration::from_millis(100), false)?);
            too_late(deadline)?;
        }
        Ok(reports)
    }

    /// Tells the server that the run is over, and waits until it closes the connection, which it does when it would serve the next
    /// client; but no longer than `TIMEOUT`.
    pub(super) fn bye(&mut self) {
        let deadline = sys::now_ns() + TIMEOUT.as_nanos() as u64;
        if self.link.send(&Request::Bye.to_bytes()).is_ok() {
            while sys::now_ns() < deadline && self.link.next(Duration::from_millis(100)).is_ok() {}
        }
    }

    /// Sends at least `count` pings over the idle link, and more until it is idle: the last three took no longer
    /// than twice `min_rtt_ns` and 10 ms, or `most_ns` have passed. Returns the last of them, with times counted
    /// from the first.
    pub(super) fn idle(
        &mut self,
        count: usize,
        most_ns: u64,
        min_rtt_ns: u64,
        cancel: &AtomicBool,
    ) -> Result<Vec<Ping>, Lost> {
        self.pings.clear();
        let began = sys::now_ns();
        loop {
            self.turn(Duration::from_millis(100), true)?;
            let settled = |p: &Ping| p.rtt_ns <= 2 * min_rtt_ns + 10_000_000;
            let last = &self.pings[self.pings.len().saturating_sub(count)..];
            let quiet = min_rtt_ns == 0 || last.iter().rev().take(3).all(settled);
            let late = sys::now_ns() - began > most_ns;
            if (last.len() >= count && (quiet || late))
                || (cancel.load(Ordering::Relaxed) && !last.is_empty())
            {
                let zero = last[0].t_ns;
                return Ok(last.iter().map(|p| Ping { t_ns: p.t_ns - zero, ..*p }).collect());
            }
        }
    }

    /// Removes the pings so far.
    pub(super) fn clear(&mut self) {
        self.pings.clear();
    }

    /// The pings so far, times counted from `go`, those before it left out; one without an answer at its age `now`.
    fn since(&self, go: u64, now: u64) -> Vec<Ping> {
        let waiting = self.under_way.map(|(_, t_ns)| Ping::unanswered(t_ns, now.saturating_sub(t_ns)));
        let all = self.pings.iter().copied().chain(waiting);
        all.filter(|p| p.t_ns >= go).map(|p| Ping { t_ns: p.t_ns - go, ..p }).collect()
    }

    /// Returns what `take` would give now.
    pub(super) fn peek(&self, go: u64) -> Vec<Ping> {
        self.since(go, sys::now_ns())
    }

    /// Takes the pings since `go`.
    pub(super) fn take(&mut self, go: u64, now: u64) -> Vec<Ping> {
        let pings = self.since(go, now);
        self.pings.clear();
        pings
    }
}

fn difference(later: u64, earlier: u64) -> i64 {
    later.wrapping_sub(earlier).cast_signed()
}

fn too_late(deadline_ns: u64) -> Result<(), Lost> {
    if sys::now_ns() < deadline_ns { Ok(()) } else { Err(Lost::NoAnswer) }
}
