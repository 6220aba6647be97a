//! What a loss, an ACK and a timeout do to the windows of the RACK stack: recovery, proportional rate reduction, undo.

use super::RackSender;
use crate::cc::freebsd::{AckKind, Signal};
use crate::context::Context;
use crate::event::EventKind;
use crate::mutants::mutant;
use crate::sender::freebsd::rtt::MAX_SHIFT;
use crate::sender::{Ack, SendState};

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
        if !self.v.in_recovery() {
            let start = self.map.get(index).start;
            self.prior_windows = Some(PriorWindows { start, cwnd: self.v.cwnd, ssthresh: self.v.ssthresh });
        }
        if self.v.fast_recovery {
            return;
        }
        self.recoveries += 1;
        cx.events.push(EventKind::RecoveryIn, snd.offset(snd.una), self.v.cwnd as i64);
        self.v.recover = snd.max;
        self.cwr |= snd.ecn;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.prr_credit = self.v.mss;
        self.recover_fs = snd.max - snd.una;
        let path = self.path;
        self.cwnd_spared =
            self.rack.spares_cwnd_at_low_delay && path.deep && path.smoothed <= path.lowest + path.lowest / 4;
        if self.cwnd_spared {
            self.v.enter_recovery();
            return;
        }
        // The window stays as it was; only ssthresh is taken.
        let cwnd = self.v.cwnd;
        self.cc.cong_signal(&mut self.v, Signal::DuplicateAcks);
        if !mutant!(RackReducesAtOnce) {
            self.v.cwnd = cwnd;
        } else {
            self.v.cwnd = self.v.ssthresh;
        }
    }

    /// Proportional rate reduction for new data (RFC 6937 section 3). `una` is what is acknowledged by now.
    pub(super) fn update_prr(&mut self, snd: &SendState, una: u64, delivered: u64) {
        self.prr_delivered += delivered;
        let pipe = self.pipe(snd, una);
        let ssthresh = self.v.ssthresh;
        self.prr_credit = if pipe > ssthresh {
            let product = self.prr_delivered * ssthresh;
            let product = if self.rack.prr_wraps { u64::from(product as u32) } else { product };
            (product.checked_div(self.recover_fs).unwrap_or(0) + 1).saturating_sub(self.prr_out)
        } else {
            let limit = self.prr_delivered.saturating_sub(self.prr_out).max(delivered) + self.v.mss;
            (ssthresh - pipe).min(limit)
        };
    }

    pub(super) fn leave_recovery(&mut self, snd: &SendState, ack: u64, cx: &mut Context<'_>) {
        let was_loss = self.v.fast_recovery;
        if !self.cwnd_spared {
            self.v.pipe = snd.max - if self.tuning.rfc6675_pipe { snd.una } else { ack };
            if was_loss {
                self.cc.post_recovery(&mut self.v);
            }
            self.v.cwnd = if self.rack.exits_before_growth {
                self.v.cwnd.min(self.v.ssthresh)
            } else {
                // RFC 6582 section 3.2 step 3, option 2.
                self.v.cwnd.max(self.v.ssthresh)
            };
        }
        let most = self.rack.credit_segments.map_or(u64::MAX, |segments| segments * self.v.maxseg);
        if (was_loss || self.rack.exits_before_growth) && !mutant!(RackCreditLost) {
            self.v.cwnd += self.prr_credit.min(most);
            self.prr_credit = 0;
        }
        self.v.fast_recovery = false;
        self.v.cong_recovery = false;
        self.cwnd_spared = false;
        self.v.recover = snd.una;
        self.prior_windows = None;
        if self.dsacks_persist > 0 {
            self.dsacks_persist -= 1;
            if self.dsacks_persist == 0 {
                self.dsacks = 0;
            }
        }
        if was_loss {
            cx.events.push(EventKind::RecoveryOut, snd.offset(ack), self.v.cwnd as i64);
        }
    }

    pub(super) fn ack_received(&mut self) {
        let used = self.cwnd_used;
        self.v.cwnd_limited = used <= self.v.snd_wnd;
        if used > self.v.ssthresh {
            let cap = self.v.nsegs * self.tuning.cc.abc_l_var * self.v.mss;
            self.v.bytes_acked +=
                if self.rack.abc_capped { self.v.bytes_this_ack.min(cap) } else { self.v.bytes_this_ack };
            if self.v.bytes_acked >= used {
                self.v.bytes_acked -= used;
                self.v.abc_sent_a_window = true;
            }
        } else {
            self.v.abc_sent_a_window = false;
            self.v.bytes_acked = 0;
        }
        self.cc.ack_received(&mut self.v, AckKind::New);
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
        if self.v.fast_recovery {
            cx.events.push(EventKind::RecoveryOut, snd.offset(snd.una), self.v.mss as i64);
        }
        let timestamp = cx.clock.timestamp_ms(cx.now);
        self.undo = (self.rtt.shift == 1 && self.rack.undoes_timeouts).then_some(Undo {
            cwnd: self.v.cwnd,
            ssthresh: self.v.ssthresh,
            timestamp,
        });
        self.rtt.back_off();
        self.v.rxtshift = self.rtt.shift;
        self.v.snd_wnd = snd.wnd;
        self.v.pipe = self.pipe(snd, snd.una);
        self.v.bytes_acked = 0;
        self.v.fast_recovery = false;
        self.v.cong_recovery = false;
        self.cwnd_spared = false;
        self.prior_windows = None;
        self.v.recover = snd.max;
        self.prr_credit = 0;
        self.timers_from = self.now_us;
        self.pacing_waived = true;
        self.cwr = snd.ecn;
        if self.rack.timeout_loses_all {
            self.map.mark_all_lost();
            self.lost_until = snd.max;
        } else {
            // The stack reduces before the module does, which then reduces the one segment that is left.
            let segments = snd.wnd.min(self.cwnd_used) / 2 / self.v.mss;
            self.v.ssthresh = segments.max(2) * self.v.mss;
            self.v.cwnd = self.v.mss;
            self.map.forget_sacks();
            self.resend = self.map.oldest();
        }
        self.cc.cong_signal(&mut self.v, Signal::Timeout);
    }

    /// A timeout was spurious if what it sent again had arrived before: the echo is older.
    pub(super) fn undo_timeout(&mut self, snd: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) {
        if let (Some(undo), Some(echo)) = (self.undo, ack.tsecr)
            && self.rtt.shift == 1
            && echo != 0
            && wire::seq::before(echo, undo.timestamp)
        {
            self.undo = None;
            self.v.cwnd = undo.cwnd;
            self.v.ssthresh = undo.ssthresh;
            self.lost_until = 0;
            self.map.clear_lost();
            self.cc.cong_signal(&mut self.v, Signal::TimeoutUndone);
            cx.events.push(EventKind::Undo, snd.offset(snd.una), self.v.cwnd as i64);
        }
    }
}
