//! The application's side of a connection.

use super::{Endpoint, State};
use crate::accecn;
use crate::clock::Nanos;
use crate::context::Context;

impl Endpoint {
    /// Hands `bytes` to the socket; returns how many it took. Fewer: the caller is blocked until [`Endpoint::writable`].
    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.snd.fin || self.failure.is_some() || self.state == State::Closed {
            return 0;
        }
        self.sender.on_write_begin(&self.snd);
        let space = self.space_early().unwrap_or_else(|| self.sender.space(&self.snd, bytes));
        let taken = bytes.min(space);
        self.snd.end += taken;
        self.snd.app_blocked = taken < bytes;
        self.snd.blocked_midway = taken > 0 && taken < bytes;
        if taken == bytes {
            self.sender.on_write_end(&self.snd);
        }
        taken
    }

    /// [`Endpoint::write`] of a call that says what follows: `more` is to come (MSG_MORE), or what it writes ends a `record`
    /// (MSG_EOR). Linux alone heeds either.
    pub fn write_with(&mut self, bytes: u64, more: bool, record: bool) -> u64 {
        let taken = self.write(bytes);
        if taken > 0 {
            self.snd.cork.more = more;
        }
        if record && taken == bytes {
            self.sender.end_record(&self.snd);
        }
        taken
    }

    /// Payload written so far, bytes.
    pub fn written(&self) -> u64 {
        self.snd.end - self.snd.iss - 1
    }

    /// Short segments wait until the cork is drawn, 200 ms or more at most (TCP_CORK of Linux).
    pub fn set_cork(&mut self, on: bool) {
        if self.snd.cork.on && !on && self.snd.no_delay {
            self.push_now();
        }
        self.snd.cork.on = on;
    }

    /// Lets written data leave without waiting for more, cork or not (TCP_NODELAY of Linux, each time it is set).
    pub fn push_now(&mut self) {
        self.snd.cork.pushed = self.snd.end;
    }

    /// Sets from how much unsent payload on a writer waits (TCP_NOTSENT_LOWAT), bytes; 0: what the host says.
    pub fn set_notsent_lowat(&mut self, bytes: u32) {
        self.sender.set_notsent_lowat(bytes);
    }

    /// Sets for how long what is sent may wait for an answer (TCP_USER_TIMEOUT); 0: as long as the system tries.
    pub fn set_user_timeout(&mut self, limit: Nanos) {
        self.handshake.user_timeout = Some(limit).filter(|&limit| limit > 0);
        self.sender.set_user_timeout(limit);
    }

    /// The application has taken the connection from its listener.
    pub fn note_accepted(&mut self) {
        self.handshake.accepted = true;
    }

    /// Whether a blocked writer would be woken.
    #[inline]
    pub fn writable(&self) -> bool {
        !self.snd.fin && self.sender.writable(&self.snd)
    }

    /// In-order payload waiting to be read, bytes.
    #[inline]
    pub fn readable(&self) -> u64 {
        self.rcv.readable
    }

    /// The application takes up to `bytes`; returns how many there were.
    #[inline(always)]
    pub fn read(&mut self, now: Nanos, bytes: u64) -> u64 {
        let taken = bytes.min(self.rcv.readable);
        if taken > 0 {
            self.repeated_window = None;
            self.rcv.readable -= taken;
            self.bytes_read += taken;
            let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
            let owed = self.rcv.ack_now;
            self.receiver.on_read(&mut self.rcv, taken, &mut cx);
            // A peer that has closed needs no window.
            if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
                self.rcv.ack_now = owed;
            }
        }
        taken
    }

    /// The peer has closed and everything was read.
    pub fn at_eof(&self) -> bool {
        self.rcv.readable == 0 && self.peer_closed()
    }

    /// The peer has closed, and all it sent before has arrived.
    pub fn peer_closed(&self) -> bool {
        matches!(self.state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait)
    }

    /// The handshake was completed, whatever came after it.
    pub fn established(&self) -> bool {
        self.snd.una > self.snd.iss
    }

    /// The host's settings of Accurate ECN have changed, which open connections follow (its sysctls are read for each packet).
    pub fn set_accecn(&mut self, settings: accecn::Settings) {
        self.handshake.accecn = settings;
        if let Some(accecn) = &mut self.snd.accecn {
            accecn.set(settings);
        }
    }

    /// ECN was negotiated (RFC 3168 section 6.1.1).
    pub fn uses_ecn(&self) -> bool {
        self.snd.ecn
    }

    /// Payload written and not cumulatively acknowledged, bytes.
    pub fn unacknowledged(&self) -> u64 {
        self.snd.end.saturating_sub(self.snd.una.max(self.snd.iss + 1))
    }

    /// Short segments leave at once (TCP_NODELAY: Nagle's algorithm off).
    pub fn set_no_delay(&mut self, on: bool) {
        self.snd.no_delay = on;
    }

    /// Sets the send buffer of an open connection, bytes as [`crate::stack::Profile::buffers`] has them, and ends its autotuning.
    pub fn set_send_buffer(&mut self, bytes: u64) {
        self.sender.set_send_buffer(&mut self.snd, bytes);
    }

    /// Sets the receive buffer of an open connection likewise. What was offered stays offered.
    pub fn set_receive_buffer(&mut self, bytes: u64) {
        self.rcv.rcvbuf = bytes;
        self.rcv.rcvbuf_auto = false;
    }
}
