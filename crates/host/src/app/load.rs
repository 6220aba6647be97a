//! The two kinds of connections of a loadlatency scenario: flows of data, whose gaps are watched, and the pinger.

use tcp::{Endpoint, Nanos};

use super::exchange::Exchange;
use super::{Application, Bulk, Figure, read_all};

/// A flow of data: writes as fast as the socket takes it, and watches at the other end when data arrives.
#[derive(Clone, Debug)]
pub struct Load {
    bulk: Bulk,
    stopping: bool,
    closed: bool,
    arrivals: Arrivals,
}

/// Length of the intervals in which arrivals are counted, ns.
pub const LOAD_BIN: Nanos = 100_000_000;

/// When data arrived at the receiving application of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// When the flow was opened: its first interval begins.
    opened: Nanos,
    /// When data was read first; None: never.
    first: Option<Nanos>,
    last: Nanos,
    /// Longest time between two readings.
    longest_between: Nanos,
    /// Bytes in each interval.
    bins: Vec<u64>,
}

impl Arrivals {
    /// So many bytes are read at `now`.
    #[inline]
    pub fn note(&mut self, now: Nanos, bytes: u64) {
        if self.first.is_none() {
            self.first = Some(now);
        } else {
            self.longest_between = self.longest_between.max(now - self.last);
        }
        self.last = now;
        let bin = (now.saturating_sub(self.opened) / LOAD_BIN) as usize;
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

    /// Bytes in each interval of [`LOAD_BIN`] since the flow was opened.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }
}

impl Load {
    /// A flow that is opened then and writes `write_bytes` at a time until it is told to stop.
    ///
    /// # Panics
    /// If `write_bytes` is 0.
    pub fn new(write_bytes: u64, opened: Nanos) -> Load {
        Load {
            bulk: Bulk::new(None, write_bytes),
            stopping: false,
            closed: false,
            arrivals: Arrivals { opened, ..Arrivals::default() },
        }
    }

    /// When data arrived.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }
}

impl Application for Load {
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        if self.stopping {
            if !self.closed {
                self.closed = true;
                self.bulk.stop(socket, now);
                return true;
            }
            return false;
        }
        socket.writable() && self.bulk.on_writable(socket, now) && socket.data_may_flow()
    }

    fn receiver(&mut self, socket: &mut Endpoint, now: Nanos, _figures: &mut Vec<Figure>) -> bool {
        let read = read_all(socket, now);
        if read > 0 {
            self.arrivals.note(now, read);
        }
        read > 0
    }

    fn due(&self) -> Option<Nanos> {
        None
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}

/// A request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// When the request was written.
    pub sent: Nanos,
    /// From then until the other end had read it, and wrote the answer.
    pub there: Nanos,
    /// From then until the last byte of the answer was read.
    pub took: Nanos,
}

/// Short requests, one at a time, at a steady interval or as soon as the last one is answered. The opening end asks.
#[derive(Clone, Debug)]
pub struct Pinger {
    exchange: Exchange,
    interval: Nanos,
    /// When the newest request was written.
    asked: Option<Nanos>,
    /// When the other end had read it.
    request_read: Nanos,
    pings: Vec<Ping>,
    stopping: bool,
    closed: bool,
}

impl Pinger {
    /// Requests and answers of `bytes` each, `interval` from one request to the next at least.
    ///
    /// # Panics
    /// If `bytes` is 0.
    pub fn new(bytes: u64, interval: Nanos) -> Pinger {
        Pinger {
            exchange: Exchange::new(bytes, bytes),
            interval,
            asked: None,
            request_read: 0,
            pings: Vec::new(),
            stopping: false,
            closed: false,
        }
    }

    /// All that were answered, in order.
    pub fn pings(&self) -> &[Ping] {
        &self.pings
    }

    /// When the request was written that waits for its answer.
    pub fn waiting_since(&self) -> Option<Nanos> {
        self.asked.filter(|_| self.exchange.is_waiting())
    }
}

impl Application for Pinger {
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        let (read, answer) = self.exchange.receive(socket, now);
        if let Some(took) = answer {
            let sent = now - took;
            self.pings.push(Ping { sent, there: self.request_read - sent, took });
        }
        if self.exchange.is_waiting() {
            return self.exchange.write_request(socket) || read;
        }
        if self.stopping {
            if !self.closed {
                self.closed = true;
                socket.shutdown(now);
                return true;
            }
        } else if self.asked.is_none_or(|asked| asked + self.interval <= now) {
            self.asked = Some(now);
            self.exchange.ask(now);
            return self.exchange.write_request(socket) || read;
        }
        read
    }

    fn receiver(&mut self, socket: &mut Endpoint, now: Nanos, _figures: &mut Vec<Figure>) -> bool {
        let before = self.exchange.answered();
        let wrote = self.exchange.answer(socket, now);
        if self.exchange.answered() > before {
            self.request_read = now;
        }
        wrote
    }

    fn due(&self) -> Option<Nanos> {
        if self.exchange.is_waiting() || self.stopping { None } else { self.asked.map(|a| a + self.interval) }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
