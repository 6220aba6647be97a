//! An application that sends for a while and rests for a while.

use rand_xoshiro::Xoshiro256PlusPlus;
use tcp::{Endpoint, Nanos};

use super::{Application, Bulk, Paced};
use crate::noise::exponential;

/// Sends and rests in turns. Silence begins with the end of writing: what is in the socket by then is still sent.
#[derive(Clone, Debug)]
pub struct OnOff {
    on: Nanos,
    off: Nanos,
    /// Draws both lengths from exponential distributions.
    random: Option<Xoshiro256PlusPlus>,
    source: Source,
    sending: bool,
    /// When that changes; None before the first turn.
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
    /// Sends for `on` and rests for `off`, at `rate_bps` (None: as fast as the socket takes it) and `write_bytes` at a
    /// time. With a random stream, both lengths are means of exponential distributions.
    ///
    /// # Panics
    /// If a length, the rate or the size is zero.
    pub fn new(
        on: Nanos,
        off: Nanos,
        rate_bps: Option<u64>,
        write_bytes: u64,
        random: Option<Xoshiro256PlusPlus>,
    ) -> OnOff {
        assert!(on > 0 && off > 0, "lengths above zero");
        let source = match rate_bps {
            None => Source::Greedy(Bulk::new(None, write_bytes)),
            Some(rate) => Source::Paced(Paced::new(rate, write_bytes)),
        };
        OnOff { on, off, random, source, sending: false, until: None, stopping: false, closed: false }
    }

    fn turn(&mut self, at: Nanos) {
        self.sending = !self.sending;
        let mean = if self.sending { self.on } else { self.off };
        let length = self.random.as_mut().map_or(mean, |random| exponential(random, mean).max(1));
        self.until = Some(at + length);
        if let Source::Paced(paced) = &mut self.source {
            paced.restart();
        }
    }
}

impl Application for OnOff {
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        if self.closed {
            return false;
        }
        if self.stopping {
            self.closed = true;
            self.until = None;
            socket.shutdown(now);
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
            _ if !self.sending => false,
            Source::Greedy(bulk) => bulk.on_writable(socket, now),
            Source::Paced(paced) => paced.write(socket, now),
        }
    }

    fn due(&self) -> Option<Nanos> {
        match &self.source {
            Source::Paced(paced) if self.sending => paced.due().into_iter().chain(self.until).min(),
            _ => self.until,
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
