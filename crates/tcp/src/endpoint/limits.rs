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
    /// Pacing.
    pub pacing: Nanos,
}

impl std::ops::AddAssign for LimitedTimes {
    fn add_assign(&mut self, other: LimitedTimes) {
        self.cwnd += other.cwnd;
        self.rwnd += other.rwnd;
        self.sndbuf += other.sndbuf;
        self.app += other.app;
        self.pacing += other.pacing;
    }
}

impl std::ops::Sub for LimitedTimes {
    type Output = LimitedTimes;

    fn sub(self, other: LimitedTimes) -> LimitedTimes {
        LimitedTimes {
            cwnd: self.cwnd - other.cwnd,
            rwnd: self.rwnd - other.rwnd,
            sndbuf: self.sndbuf - other.sndbuf,
            app: self.app - other.app,
            pacing: self.pacing - other.pacing,
        }
    }
}

/// How far a connection had got where a round ended: a window of data, or ten segments, sent and acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Payload acknowledged so far, bytes.
    pub acked: u64,
    /// Bytes of IP and TCP headers of a segment.
    pub header: u32,
    /// Payload of a full segment, bytes.
    pub payload: u32,
    /// Time under each limit so far.
    pub limited: LimitedTimes,
}

/// Segments that a round has at least: fewer say little, and cost much.
pub(super) const MIN_ROUND: u64 = 10;

/// Integrates the time under each limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitClock {
    pub(super) running: bool,
    pub(super) since: Nanos,
    pub(super) limit: Limit,
    /// The sequence number whose acknowledgement ends the present round.
    pub(super) round_end: u64,
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
                Limit::Pacing => self.times.pacing += spent,
            }
        }
        self.since = now;
    }
}
