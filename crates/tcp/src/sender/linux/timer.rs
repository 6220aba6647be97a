//! A Linux socket's one retransmission timer (icsk_retransmit_timer), in jiffies.

use crate::clock::Nanos;

/// Purpose of the timer (icsk_pending).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKind {
    /// Retransmission timeout.
    Retransmission,
    /// Tail loss probe.
    LossProbe,
    /// RACK looks again.
    Reordering,
    /// Zero-window probe.
    WindowProbe,
    /// 3.9's delayed early retransmit.
    EarlyRetransmit,
}

/// A timer in jiffies. The jiffy and its true time are worked out only when the timer may be due.
#[derive(Debug, Default)]
pub(super) struct Timer {
    pub(super) armed: Option<(TimerKind, Wait)>,
    /// Jiffies when it was set.
    pub(super) start: u64,
    /// True time, not later than the jiffy.
    pub(super) at: Nanos,
}

/// How long a timer runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Jiffies(u64),
    /// Rounded up to jiffies.
    Micros(u64),
}

impl Timer {
    #[inline]
    pub(super) fn at(&self) -> Option<Nanos> {
        self.armed.map(|_| self.at)
    }

    #[inline]
    pub(super) fn kind(&self) -> Option<TimerKind> {
        self.armed.map(|(kind, _)| kind)
    }

    pub(super) fn clear(&mut self) {
        self.armed = None;
    }
}
