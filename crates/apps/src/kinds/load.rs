//! The two kinds of connections of a loadlatency scenario: flows of data, whose gaps are watched, and the pinger.

use measure::BIN_NS;

use crate::exchange::Asker;
use crate::{End, Message, Metric, Nanos, Socket};

/// Record of when data arrived at the receiving application of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Time when the flow was opened: the first interval begins.
    opened: Nanos,
    /// Time when data was read first. None if it never was.
    first: Option<Nanos>,
    last: Nanos,
    /// Longest time between two readings.
    longest_between: Nanos,
    /// Bytes in each interval.
    bins: Vec<u64>,
}

impl Arrivals {
    /// Creates the record of a flow that is opened then.
    pub fn new(opened: Nanos) -> Arrivals {
        Arrivals { opened, ..Arrivals::default() }
    }

    /// Notes that `bytes` are read at `now`.
    #[inline]
    pub fn note(&mut self, now: Nanos, bytes: u64) {
        if self.first.is_none() {
            self.first = Some(now);
        } else {
            self.longest_between = self.longest_between.max(now - self.last);
        }
        self.last = now;
        let bin = (now.saturating_sub(self.opened) / BIN_NS) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += bytes;
    }

    /// Longest time without data from `start` to `end`, between which all of it lies.
    pub fn longest_gap(&self, start: Nanos, end: Nanos) -> Nanos {
        match self.first {
            None => end - start,
            Some(first) => {
                self.longest_between.max(first.saturating_sub(start)).max(end.saturating_sub(self.last))
            }
        }
    }

    /// Bytes in each interval of [`BIN_NS`] since the flow was opened.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }
}

impl End for Arrivals {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, _metrics: &mut Vec<Metric>) -> bool {
        let read = socket.read(u64::MAX);
        if read > 0 {
            self.note(now, read);
        }
        read > 0
    }
}

/// A request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Time when the request was written.
    pub sent: Nanos,
    /// Time from then until the other end had read the request, and wrote the answer.
    pub there: Nanos,
    /// Time from then until the last byte of the answer was read.
    pub took: Nanos,
}

/// Short requests, one at a time, at a steady interval or as soon as the last one is answered. The opening end asks; the
/// other, a [`crate::Server`] with stamps, says in its answer when it had read the request.
#[derive(Clone, Debug)]
pub struct Pinger {
    asker: Asker,
    interval: Nanos,
    /// Time when the newest request was written.
    asked: Option<Nanos>,
    /// Time when the other end had read the request. None before the answer begins.
    request_read: Option<Nanos>,
    pings: Vec<Ping>,
    stopping: bool,
}

impl Pinger {
    /// Requests and answers of `bytes` each, `interval` from one request to the next at least.
    ///
    /// # Panics
    /// If `bytes` is 0.
    pub fn new(bytes: u64, interval: Nanos) -> Pinger {
        Pinger {
            asker: Asker::new(bytes, bytes),
            interval,
            asked: None,
            request_read: None,
            pings: Vec::new(),
            stopping: false,
        }
    }

    /// Pings that were answered, in order.
    pub fn pings(&self) -> &[Ping] {
        &self.pings
    }

    /// Time when the request was written that waits for its answer.
    pub fn waiting_since(&self) -> Option<Nanos> {
        self.asked.filter(|_| self.asker.is_waiting())
    }
}

impl End for Pinger {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, _metrics: &mut Vec<Metric>) -> bool {
        if self.asker.is_waiting() && self.request_read.is_none() {
            if let Some(Message::Answer { read_at }) = socket.heard() {
                self.request_read = Some(read_at);
            } else {
                return self.asker.write_request(socket);
            }
        }
        let (read, answer) = self.asker.receive(socket, now);
        if let Some(took) = answer {
            let sent = now - took;
            let there = self.request_read.take().map_or(0, |read_at| read_at.saturating_sub(sent));
            self.pings.push(Ping { sent, there, took });
        }
        if self.asker.is_waiting() {
            return self.asker.write_request(socket) || read;
        }
        if self.stopping {
            return self.asker.close(socket) || read;
        }
        if self.asked.is_none_or(|asked| asked + self.interval <= now) {
            self.asked = Some(now);
            self.asker.ask(socket, now, false);
            return self.asker.write_request(socket) || read;
        }
        read
    }

    fn due(&self) -> Option<Nanos> {
        if self.asker.is_waiting() || self.stopping { None } else { self.asked.map(|a| a + self.interval) }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
