//! A video player that fetches chunks, and its server.

use tcp::{Endpoint, Nanos};

use super::exchange::Exchange;
use super::{Application, Figure};

/// A player (the receiving end) that fetches chunk after chunk until its buffer is full, and from then on one whenever
/// there is room for it. It begins to play with the first chunk and stalls while its buffer is empty.
#[derive(Clone, Debug)]
pub struct Video {
    exchange: Exchange,
    /// Play time of a chunk.
    chunk: Nanos,
    /// Play time held at most.
    buffer: Nanos,
    /// When everything fetched will have been played, were there no stall; None before the first chunk.
    played_out: Option<Nanos>,
    next: Option<Nanos>,
    stopping: bool,
}

impl Video {
    /// Chunks of play time `chunk` at `rate_bps`, asked for with `request` bytes; `buffer` is held at most, but at
    /// least one chunk.
    ///
    /// # Panics
    /// If a chunk or a request has no byte.
    pub fn new(rate_bps: u64, chunk: Nanos, buffer: Nanos, request: u64) -> Video {
        let bytes = u128::from(rate_bps) * u128::from(chunk) / 8_000_000_000;
        Video {
            exchange: Exchange::new(request, bytes as u64),
            chunk,
            buffer: buffer.max(chunk),
            played_out: None,
            next: None,
            stopping: false,
        }
    }
}

impl Application for Video {
    fn sender(&mut self, socket: &mut Endpoint, now: Nanos) -> bool {
        self.exchange.serve(socket, now, self.stopping, None)
    }

    fn receiver(&mut self, socket: &mut Endpoint, now: Nanos, figures: &mut Vec<Figure>) -> bool {
        let (read, response) = self.exchange.receive(socket, now);
        if let Some(took) = response {
            figures.push(Figure::Response(took));
            let empty_since = self.played_out.unwrap_or(now);
            if empty_since < now {
                figures.push(Figure::Stall(now - empty_since));
            }
            let played_out = empty_since.max(now) + self.chunk;
            self.played_out = Some(played_out);
            // There is room for a chunk when what is left to play and it fit the buffer.
            self.next = Some((played_out + self.chunk).saturating_sub(self.buffer).max(now));
        }
        let ready = !self.exchange.is_waiting() && self.next.is_none_or(|next| next <= now);
        if ready && !self.stopping {
            self.next = None;
            self.exchange.ask(now);
        }
        self.exchange.write_request(socket) || read
    }

    fn due(&self) -> Option<Nanos> {
        if self.exchange.is_waiting() || self.stopping { None } else { self.next }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
