//! An application that sends for a while and rests for a while.

use path::exponential;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Bulk, End, Metric, Nanos, Paced, Socket};

/// Lengths of the times in which an application sends and rests, in turns.
#[derive(Clone, Debug)]
pub struct Lengths {
    on: Nanos,
    off: Nanos,
    /// Draws both from exponential distributions.
    random: Option<Xoshiro256PlusPlus>,
    sending: bool,
}

impl Lengths {
    /// `on`, `off`, `on` and so on; with a random stream, both are means of exponential distributions.
    ///
    /// # Panics
    /// If a length is zero.
    pub fn new(on: Nanos, off: Nanos, random: Option<Xoshiro256PlusPlus>) -> Lengths {
        assert!(on > 0 && off > 0, "lengths above zero");
        Lengths { on, off, random, sending: false }
    }

    /// The next length: of sending the first time, then of resting, and so on.
    pub fn turn(&mut self) -> Nanos {
        self.sending = !self.sending;
        let mean = if self.sending { self.on } else { self.off };
        self.random.as_mut().map_or(mean, |random| exponential(random, mean).max(1))
    }

    /// Whether the length drawn last is one of sending.
    pub fn is_sending(&self) -> bool {
        self.sending
    }
}

/// Sends and rests in turns. Silence begins with the end of writing: what is in the socket by then is still sent.
#[derive(Clone, Debug)]
pub struct OnOff {
    lengths: Lengths,
    source: Source,
    /// Time when sending or resting ends. None before the first turn.
    until: Option<Nanos>,
    stopping: bool,
    closed: bool,
}

#[derive(Clone, Debug)]
enum Source {
    Greedy(Bulk),
    Paced(Paced),
}

impl OnOff {
    /// Sends and rests for such `lengths`, at `rate_bps` (None: as fast as the socket takes it) and `write_bytes` at a
    /// time, up to `ends`.
    ///
    /// # Panics
    /// If the rate or the size is zero.
    pub fn new(lengths: Lengths, rate_bps: Option<u64>, write_bytes: u64, ends: Nanos) -> OnOff {
        let source = match rate_bps {
            None => Source::Greedy(Bulk::new(None, write_bytes)),
            Some(rate) => Source::Paced(Paced::new(rate, write_bytes, ends)),
        };
        OnOff { lengths, source, until: None, stopping: false, closed: false }
    }

    fn turn(&mut self, at: Nanos) {
        let until = at.saturating_add(self.lengths.turn());
        self.until = Some(until);
        if self.lengths.is_sending()
            && let Source::Paced(paced) = &mut self.source
        {
            paced.begin(at, until);
        }
    }
}

impl End for OnOff {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, _metrics: &mut Vec<Metric>) -> bool {
        if self.closed {
            return false;
        }
        if self.stopping {
            self.closed = true;
            self.until = None;
            socket.close();
            return true;
        }
        if self.until.is_none() {
            self.turn(now);
        }
        while let Some(until) = self.until
            && until <= now
        {
            self.turn(until);
            // Nobody waits for room any more.
            socket.write(0);
        }
        match &mut self.source {
            _ if !self.lengths.is_sending() => false,
            Source::Greedy(bulk) => bulk.on_writable(socket),
            Source::Paced(paced) => paced.write(socket, now),
        }
    }

    fn due(&self) -> Option<Nanos> {
        match &self.source {
            Source::Paced(paced) if self.lengths.is_sending() => {
                paced.due().into_iter().chain(self.until).min()
            }
            _ => self.until,
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
