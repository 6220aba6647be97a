//! TCP_USER_TIMEOUT (tcp_write_timeout, tcp_probe_timer): how long data may wait for an answer, whatever the number of
//! retransmissions.

use super::LinuxSender;
use crate::clock::{MILLISECOND, Nanos};
use crate::context::Context;

/// Limit of a socket with the option, and since when a closed window is probed.
#[derive(Debug)]
pub(super) struct UserTimeout {
    limit: Nanos,
    /// Time of the first probe of a closed window that got no answer (icsk_probes_tstamp).
    probing_since: Option<Nanos>,
}

impl UserTimeout {
    pub(super) fn new(limit: Nanos) -> Option<Box<UserTimeout>> {
        (limit > 0).then(|| Box::new(UserTimeout { limit, probing_since: None }))
    }
}

impl LinuxSender {
    /// Whether retransmissions have gone on for too long: by time where the socket has said so, else by number.
    pub(super) fn gives_up_retransmitting(&self, cx: &Context<'_>) -> bool {
        match &self.user_timeout {
            Some(_) => self.retransmits > 0 && self.left_of_user_timeout(cx) == Some(0),
            None => self.retransmits >= self.config.retries2,
        }
    }

    /// The next timeout, jiffies: not beyond what the socket has asked for (tcp_clamp_rto_to_user_timeout).
    pub(super) fn next_rto(&self, cx: &Context<'_>) -> u64 {
        let rto = self.current_rto();
        self.left_of_user_timeout(cx).map_or(rto, |left| rto.min(left.div_ceil(self.tick)).max(1))
    }

    /// Time left of the limit since the first retransmission.
    fn left_of_user_timeout(&self, cx: &Context<'_>) -> Option<Nanos> {
        let limit = self.user_timeout.as_ref()?.limit;
        let Some(began) = self.retrans_stamp else { return Some(limit) };
        let passed = Nanos::from(cx.clock.timestamp_ms(cx.now).wrapping_sub(began)) * MILLISECOND;
        Some(limit.saturating_sub(passed))
    }

    /// A closed window is about to be probed: whether that has gone on for too long.
    pub(super) fn gives_up_probing(&mut self, now: Nanos) -> bool {
        let first = self.backoff == 0;
        let Some(timeout) = &mut self.user_timeout else { return false };
        match timeout.probing_since.filter(|_| !first) {
            Some(since) => now >= since + timeout.limit,
            None => {
                timeout.probing_since = Some(now);
                false
            }
        }
    }

    /// The time until the next probe, jiffies, likewise (tcp_clamp_probe0_to_user_timeout).
    pub(super) fn next_probe(&self, now: Nanos) -> u64 {
        let interval = self.window_probe_interval();
        let left = self.user_timeout.as_ref().and_then(|timeout| {
            Some((timeout.probing_since? + timeout.limit).saturating_sub(now).div_ceil(self.tick))
        });
        left.map_or(interval, |left| interval.min(left.max(1)))
    }
}
