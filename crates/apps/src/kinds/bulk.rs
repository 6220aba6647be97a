//! Bulk transfer, limited or not.

use crate::{End, Metric, Nanos, Socket};

/// Writes as fast as the socket takes it, up to a number of bytes or until told to stop, then closes.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Bytes still to write. None: no limit.
    left: Option<u64>,
    /// Size of one write call.
    write_bytes: u64,
    /// Rest of the write call that blocks.
    pending: u64,
    stopping: bool,
    closed: bool,
}

impl Bulk {
    /// An application that writes `bytes` in all (None: until stopped), `write_bytes` at a time.
    ///
    /// # Panics
    /// If `write_bytes` is 0.
    pub fn new(bytes: Option<u64>, write_bytes: u64) -> Bulk {
        assert!(write_bytes > 0, "a write has at least one byte");
        Bulk { left: bytes, write_bytes, pending: 0, stopping: false, closed: false }
    }

    /// The socket may have room: writes until it blocks. Call when connected and whenever the socket is writable.
    /// Returns whether anything was written or closed.
    #[inline(always)]
    pub fn on_writable<S: Socket + ?Sized>(&mut self, socket: &mut S) -> bool {
        if self.closed {
            return false;
        }
        let mut wrote = false;
        loop {
            if self.pending == 0 {
                self.pending = self.left.map_or(self.write_bytes, |left| left.min(self.write_bytes));
                if self.pending == 0 {
                    self.close(socket);
                    return true;
                }
            }
            let taken = socket.write(self.pending);
            wrote |= taken > 0;
            self.pending -= taken;
            if let Some(left) = &mut self.left {
                *left -= taken;
            }
            if self.pending > 0 {
                return wrote;
            }
        }
    }

    /// Whether the end may still write: the connection is not being closed.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.closed
    }

    /// Stops writing: what is in the socket is still sent, then the connection closes.
    pub fn close<S: Socket + ?Sized>(&mut self, socket: &mut S) {
        self.closed = true;
        socket.close();
    }
}

impl End for Bulk {
    fn turn(&mut self, socket: &mut dyn Socket, _now: Nanos, _metrics: &mut Vec<Metric>) -> bool {
        if self.stopping && !self.closed {
            self.close(socket);
            return true;
        }
        socket.writable() && self.on_writable(socket)
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}
