//! Time spent under each limit of sending.

use crate::clock::Nanos;
use crate::sender::Limit;

/// Time spent under each limit while the connection could carry data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitedTimes {
    /// Congestion window.
    pub cwnd: Nanos,
    /// Peer's window.
    pub rwnd: Nanos,
    /// Send buffer.
    pub sndbuf: Nanos,
    /// Application.
    pub app: Nanos,
}

/// Integrates the time under each limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitClock {
    pub(super) running: bool,
    pub(super) since: Nanos,
    pub(super) limit: Limit,
    pub(super) times: LimitedTimes,
}

impl LimitClock {
    #[inline]
    pub(super) fn switch_to(&mut self, now: Nanos, limit: Limit) {
        if limit != self.limit || !self.running {
            self.settle(now);
            self.running = true;
            self.limit = limit;
        }
    }

    pub(super) fn settle(&mut self, now: Nanos) {
        if self.running {
            let spent = now - self.since;
            match self.limit {
                Limit::App => self.times.app += spent,
                Limit::SendBuffer => self.times.sndbuf += spent,
                Limit::Cwnd => self.times.cwnd += spent,
                Limit::Rwnd => self.times.rwnd += spent,
            }
        }
        self.since = now;
    }
}
