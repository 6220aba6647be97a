//! Reactions of the RACK stack's windows to a loss, an ACK and a timeout: recovery, proportional rate reduction,
//! undo.

use super::RackSender;
use crate::cc::freebsd::{AckKind, Signal};
use crate::context::Context;
use crate::event::EventKind;
use crate::sender::freebsd::rtt::MAX_SHIFT;
use crate::sender::{Ack, SendState};

/// Timeouts in a row that keep what was SACKed, where they spare the window (rack_rxt_scoreboard_clear_thresh).
const TIMEOUTS_THAT_KEEP_SACKS: u32 = 2;

/// Windows before recovery, to which a retransmission that was not needed returns.
#[derive(Clone, Copy, Debug)]
pub(super) struct PriorWindows {
    pub start: u64,
    pub cwnd: u64,
    pub ssthresh: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub cwnd: u64,
    pub ssthresh: u64,
    pub timestamp: u32,
}

impl RackSender {
    /// Begins recovery on a loss that an ACK, a timer or output has found. A loss inside recovery changes nothing.
    pub(super) fn enter_recovery(&mut self, snd: &SendState, index: usize, cx: &mut Context<'_>) {
        if !self.ccv.in_recovery() {
            let start = self.map.get(index).start;
            self.prior_windows =
                Some(PriorWindows { start, cwnd: self.ccv.cwnd, ssthresh: self.ccv.ssthresh });
            self.ssthresh_before = self.ccv.ssthresh;
            (self.resent_in_recovery, self.needless) = (0, 0);
        }
        if self.ccv.fast_recovery {
            return;
        }
        self.recoveries += 1;
        cx.events.push(EventKind::RecoveryIn, snd.offset(snd.una), self.ccv.cwnd as i64);
        self.ccv.recover = snd.max;
        self.cwr |= snd.ecn;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.prr_credit = self.ccv.mss;
        self.recover_fs = snd.max - snd.una;
        let path = self.path;
        self.cwnd_spared =
            self.rack.spares_cwnd_at_low_delay && path.deep && path.smoothed <= path.lowest + path.lowest / 4;
        if self.cwnd_spared {
            self.ccv.enter_recovery();
            return;
        }
        // The window stays as it was; only ssthresh is taken.
        let cwnd = self.ccv.cwnd;
        self.ccv.pipe = self.pipe(snd, snd.una);
        self.cc.cong_signal(&mut self.ccv, Signal::DuplicateAcks);
        self.ccv.cwnd = cwnd;
    }

    /// Proportional rate reduction for new data (RFC 6937 section 3). `una` is what is acknowledged by now.
    pub(super) fn update_prr(&mut self, snd: &SendState, una: u64, delivered: u64) {
        self.prr_delivered += delivered;
        let pipe = self.pipe(snd, una);
        let ssthresh = self.ccv.ssthresh;
        self.prr_credit = if pipe > ssthresh {
            // The product has 32 bits. Where it wraps no new data leaves until the pipe is down to ssthresh.
            let product = u64::from((self.prr_delivered * ssthresh) as u32);
            (product.checked_div(self.recover_fs).unwrap_or(0) + 1).saturating_sub(self.prr_out)
        } else {
            let limit = self.prr_delivered.saturating_sub(self.prr_out).max(delivered) + self.ccv.mss;
            (ssthresh - pipe).min(limit)
        };
    }

    pub(super) fn leave_recovery(&mut self, snd: &SendState, ack: u64, cx: &mut Context<'_>) {
        let was_loss = self.ccv.fast_recovery;
        if !self.cwnd_spared {
            self.ccv.pipe = snd.max - if self.tuning.rfc6675_pipe { snd.una } else { ack };
            if was_loss {
                self.cc.post_recovery(&mut self.ccv);
            }
            self.ccv.cwnd = if self.rack.exit_raises_window {
                self.ccv.cwnd.max(self.ccv.ssthresh)
            } else {
                self.ccv.cwnd.min(self.ccv.ssthresh)
            };
        }
        let most = self.rack.credit_segments.map_or(u64::MAX, |segments| segments * self.ccv.mss);
        self.ccv.cwnd += self.prr_credit.min(most);
        self.prr_credit = 0;
        if let Some(ssthresh) = self.ssthresh_at_timeout.take() {
            self.ccv.ssthresh = self.ccv.ssthresh.max(ssthresh);
        }
        self.ccv.fast_recovery = false;
        self.ccv.cong_recovery = false;
        self.cwnd_spared = false;
        self.ccv.recover = snd.una;
        self.prior_windows = None;
        if self.dsacks_persist > 0 {
            self.dsacks_persist -= 1;
            if self.dsacks_persist == 0 {
                self.dsacks = 0;
            }
        }
        if was_loss {
            cx.events.push(EventKind::RecoveryOut, snd.offset(ack), self.ccv.cwnd as i64);
        }
    }

    pub(super) fn ack_received(&mut self) {
        let used = self.cwnd_used;
        self.ccv.cwnd_limited = used <= self.ccv.snd_wnd;
        if used > self.ccv.ssthresh {
            let cap = self.ccv.nsegs * self.tuning.cc.abc_l_var * self.ccv.mss;
            self.ccv.bytes_acked +=
                if self.rack.abc_capped { self.ccv.bytes_this_ack.min(cap) } else { self.ccv.bytes_this_ack };
            if self.ccv.bytes_acked >= used {
                self.ccv.bytes_acked -= used;
                self.ccv.abc_sent_a_window = true;
            }
        } else {
            self.ccv.abc_sent_a_window = false;
            self.ccv.bytes_acked = 0;
        }
        self.cc.ack_received(&mut self.ccv, AckKind::New);
        self.largest_cwnd = self.largest_cwnd.max(used);
    }

    pub(super) fn on_timeout(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.rtt.shift += 1;
        if self.rtt.shift > MAX_SHIFT {
            self.gave_up = true;
            return;
        }
        self.timeouts += 1;
        cx.events.push(EventKind::Rto, snd.offset(snd.una), i64::from(self.rtt.shift));
        if self.ccv.fast_recovery {
            cx.events.push(EventKind::RecoveryOut, snd.offset(snd.una), self.ccv.mss as i64);
        }
        let timestamp = cx.clock.timestamp_ms(cx.now);
        self.undo = (self.rtt.shift == 1 && self.rack.undoes_timeouts).then_some(Undo {
            cwnd: self.ccv.cwnd,
            ssthresh: self.ccv.ssthresh,
            timestamp,
        });
        if self.rack.timeout_spares_window && self.ccv.in_recovery() {
            self.ssthresh_at_timeout.get_or_insert(self.ccv.ssthresh);
        }
        self.rtt.back_off();
        self.ccv.rxtshift = self.rtt.shift;
        self.ccv.snd_wnd = snd.wnd;
        self.ccv.pipe = self.pipe(snd, snd.una);
        self.ccv.bytes_acked = 0;
        self.ccv.fast_recovery = false;
        self.ccv.cong_recovery = false;
        self.cwnd_spared = false;
        self.prior_windows = None;
        (self.resent_in_recovery, self.needless) = (0, 0);
        self.ccv.recover = snd.max;
        self.sack_filter.clear();
        self.timers_from = self.now_us;
        self.pacing_waived = true;
        self.cwr = snd.ecn;
        let spares = self.rack.timeout_spares_window;
        if !spares {
            // The stack reduces before the module does, which then reduces the one segment that is left.
            let segments = snd.wnd.min(self.cwnd_used) / 2 / self.ccv.mss;
            self.ccv.ssthresh = segments.max(2) * self.ccv.mss;
            self.ccv.cwnd = self.ccv.mss;
        }
        if !spares || self.rtt.shift > TIMEOUTS_THAT_KEEP_SACKS {
            self.prr_credit = 0;
            self.map.forget_sacks();
        }
        self.resend = self.map.oldest();
        self.awaits_ack = spares;
        if !spares {
            self.cc.cong_signal(&mut self.ccv, Signal::Timeout);
        }
    }

    /// A timeout was spurious if what it sent again had arrived before: the echo is older.
    pub(super) fn undo_timeout(&mut self, snd: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        if let (Some(undo), Some(echo)) = (self.undo, ack.tsecr)
            && self.rtt.shift == 1
            && echo != 0
            && wire::seq::before(echo, undo.timestamp)
        {
            self.undo = None;
            self.ccv.cwnd = undo.cwnd;
            self.ccv.ssthresh = undo.ssthresh;
            if !self.rack.timeout_spares_window {
                self.cc.cong_signal(&mut self.ccv, Signal::TimeoutUndone);
            }
            cx.events.push(EventKind::Undo, snd.offset(snd.una), self.ccv.cwnd as i64);
        }
    }
}
