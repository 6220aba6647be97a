//! A video player that fetches chunks.

use crate::exchange::Asker;
use crate::{End, Metric, Nanos, Socket};

/// Bytes of a chunk of such a play time.
pub fn chunk_bytes(rate_bps: u64, chunk: Nanos) -> u64 {
    (u128::from(rate_bps) * u128::from(chunk) / 8_000_000_000) as u64
}

/// A player that fetches chunk after chunk until its buffer is full, and from then on one whenever there is room for it. It
/// begins to play with the first chunk and stalls while its buffer is empty. A [`crate::Server`] is at the other end.
#[derive(Clone, Debug)]
pub struct Player {
    asker: Asker,
    /// Play time of a chunk.
    chunk: Nanos,
    /// Play time held at most.
    buffer: Nanos,
    /// Time when everything fetched will have been played, were there no stall. None before the first chunk.
    played_out: Option<Nanos>,
    next: Option<Nanos>,
    stopping: bool,
}

impl Player {
    /// Chunks of play time `chunk` at `rate_bps`, asked for with `request` bytes; `buffer` is held at most, but at
    /// least one chunk.
    ///
    /// # Panics
    /// If a chunk or a request has no byte.
    pub fn new(rate_bps: u64, chunk: Nanos, buffer: Nanos, request: u64) -> Player {
        Player {
            asker: Asker::new(request, chunk_bytes(rate_bps, chunk)),
            chunk,
            buffer: buffer.max(chunk),
            played_out: None,
            next: None,
            stopping: false,
        }
    }
}

impl End for Player {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, metrics: &mut Vec<Metric>) -> bool {
        let (read, response) = self.asker.receive(socket, now);
        if let Some(took) = response {
            metrics.push(Metric::Response(took));
            let empty_since = self.played_out.unwrap_or(now);
            if empty_since < now {
                metrics.push(Metric::Stall(now - empty_since));
            }
            let played_out = empty_since.max(now) + self.chunk;
            self.played_out = Some(played_out);
            // There is room for a chunk when what is left to play and it fit the buffer.
            self.next = Some((played_out + self.chunk).saturating_sub(self.buffer).max(now));
        }
        if self.stopping && self.asker.close(socket) {
            return true;
        }
        let ready = !self.asker.is_waiting() && self.next.is_none_or(|next| next <= now);
        if ready && !self.stopping {
            self.next = None;
            self.asker.ask(socket, now, false);
        }
        self.asker.write_request(socket) || read
    }

    fn due(&self) -> Option<Nanos> {
        if self.asker.is_waiting() || self.stopping { None } else { self.next }
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
