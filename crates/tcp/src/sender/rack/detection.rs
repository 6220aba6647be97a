//! Measurements of the RACK stack from an ACK: round trips, reordering, and which transmissions are lost (RFC 8985
//! section 6.2).

use super::map::Entry;
use super::{DUPLICATE_THRESHOLD, RackSender, UNKNOWN_RTT_US};
use crate::cc::freebsd::RTT_SHIFT;
use crate::context::Context;
use crate::event::EventKind;
use crate::sender::{Ack, SendState};

/// Extra reordering time before any reordering was seen (net.inet.tcp.rack.pktdelay, and 1 ms more), us.
const PACKET_DELAY_US: u64 = 1000;
/// Time for which reordering is remembered (net.inet.tcp.rack.reorder_fade), in us.
const REORDERING_FADES_US: u64 = 60_000_000;
/// Recoveries over which a count of D-SACKs is kept (RFC 8985 section 6.2 step 4).
const DSACKS_PERSIST: u32 = 16;
/// Longer round trips count as this, us: the estimate has 31 bits.
const LONGEST_RTT_US: u64 = 60_000_000;
/// The path counts as deeply buffered when the longest RTT is more than this many times the shortest (whole division).
const DEEP_BUFFER: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub rtt: u64,
    /// RTT in microseconds, whatever the stack's clock.
    pub exact: u64,
    /// Whether no delayed ACK is in the sample.
    pub trusted: bool,
    /// Bytes in flight when what it measures was sent. None: that was sent more than once.
    pub flight: Option<u32>,
}

/// The RTTs by which a deeply buffered path is recognised, us.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathDelay {
    pub lowest: u64,
    pub highest: u64,
    pub smoothed: u64,
    pub deep: bool,
}

impl RackSender {
    /// Takes an ACK into the map; returns the bytes that PRR counts for it.
    pub(super) fn log_ack(&mut self, snd: &SendState, ack: &Ack<'_>, cx: &mut Context<'_>) -> u64 {
        let mut bytes = 0;
        let mut newest: Option<(Entry, bool)> = None;
        let mut once = None;
        if ack.ack > snd.una {
            let delivered = self.map.take_ack(ack.ack, snd.una);
            // What was SACKed before counts again.
            bytes = ack.ack - snd.una;
            newest = delivered.newest.map(|entry| (entry, false));
            once = delivered.once.map(|_| ack.ack);
            self.note_reordering(delivered.reordered);
        }
        let news = self.sack_filter.filter(ack.sack, ack.ack, snd.max, self.ccv.mss);
        if snd.sack && !news.is_empty() {
            let delivered = self.map.take_sack(&news);
            bytes += delivered.bytes;
            once = once.or(delivered.once);
            self.note_reordering(delivered.reordered);
            if let Some(entry) = delivered.newest
                && newest.is_none_or(|(newest, _)| newest.order < entry.order)
            {
                newest = Some((entry, true));
            }
        }
        if let Some((entry, sacked)) = newest {
            let echo = if sacked { None } else { ack.tsecr.filter(|echo| *echo != 0) };
            self.take_rtt_sample(snd, &entry, sacked, echo, cx);
        }
        if let Some(end) = once {
            self.goodput.on_arrival(end, self.now_us);
        }
        if ack.dsack.is_some() && snd.una >= self.dsack_round {
            // One a round trip (RFC 8985 section 6.2 step 4).
            self.dsack_round = snd.max;
            self.dsacks += 1;
            self.dsacks_persist = DSACKS_PERSIST;
        }
        if let Some((start, end)) = ack.dsack
            && !self.rack.undoes_recovery
        {
            self.note_needless(snd, end - start, cx);
        }
        bytes
    }

    /// Takes the RTT of what arrived; `echo` where it was acknowledged cumulatively with a timestamp. Of what was sent again
    /// only the echo of the last transmission gives a sample: one of another may have come sooner than any round trip
    /// (rack_update_rtt).
    fn take_rtt_sample(
        &mut self,
        snd: &SendState,
        entry: &Entry,
        sacked: bool,
        echo: Option<u32>,
        cx: &mut Context<'_>,
    ) {
        let rtt = self.elapsed_since(entry.at).max(if self.rack.milliseconds { 1000 } else { 1 });
        let resolved = if entry.count == 1 {
            self.min_rtt = if self.min_rtt == 0 { rtt } else { self.min_rtt.min(rtt) };
            let exact = self.now_us.saturating_sub(entry.at).max(1);
            let trusted = sacked || !(entry.last_of_flight || self.goodput.waits_for_arrival());
            self.sample = Some(Sample { rtt, exact, trusted, flight: Some(entry.flight) });
            true
        } else {
            self.rtt.shift = 0;
            let first = echo.is_some_and(|echo| echo == entry.first_stamp);
            let early = self.min_rtt > 0 && rtt < self.min_rtt;
            if first || (echo.is_none() && early) {
                self.on_spurious_retransmission(snd, entry, cx);
                false
            } else {
                if echo.is_some_and(|echo| echo == entry.last_stamp) {
                    self.sample = Some(Sample { rtt, exact: rtt, trusted: false, flight: None });
                }
                self.min_rtt > 0 && !early
            }
        };
        if resolved && entry.at > self.last_sent_at {
            self.last_sent_at = entry.at;
            self.last_rtt = rtt;
        }
    }

    /// D-SACKs for all that recovery sent again: it was not needed, and ssthresh becomes what it was. The window is left as
    /// it is (rack_note_dsack).
    fn note_needless(&mut self, snd: &SendState, bytes: u64, cx: &mut Context<'_>) {
        self.needless += bytes;
        let needless = self.resent_in_recovery > 0 && self.needless >= self.resent_in_recovery;
        if needless && !self.ccv.fast_recovery && self.map.sacked.is_empty() {
            (self.needless, self.resent_in_recovery) = (0, 0);
            self.ccv.ssthresh = self.ssthresh_before;
            cx.events.push(EventKind::Undo, snd.offset(snd.una), self.ccv.cwnd as i64);
        }
    }

    /// An earlier transmission of `entry` had arrived: there was reordering, and recovery was not needed.
    fn on_spurious_retransmission(&mut self, snd: &SendState, entry: &Entry, cx: &mut Context<'_>) {
        if entry.probe || !self.rack.undoes_recovery {
            return;
        }
        if let Some(before) = self.prior_windows
            && self.ccv.in_recovery()
            && before.start == entry.start
        {
            self.ccv.fast_recovery = false;
            self.ccv.cong_recovery = false;
            self.ccv.recover = snd.una;
            self.ccv.cwnd = self.ccv.cwnd.max(before.cwnd);
            self.ccv.ssthresh = self.ccv.ssthresh.max(before.ssthresh);
            cx.events.push(EventKind::Undo, snd.offset(snd.una), self.ccv.cwnd as i64);
        }
        if entry.resent_after_later_sack {
            self.reordered_at = Some(self.now_us);
        }
    }

    fn note_reordering(&mut self, seen: bool) {
        if seen {
            self.reordered_at = Some(self.now_us);
        }
    }

    /// The sample of the ACK at hand becomes part of the estimates.
    pub(super) fn commit_sample(&mut self) {
        let Some(sample) = self.sample.take() else { return };
        if self.rack.milliseconds {
            let ticks = sample.rtt * u64::from(self.ccv.hz) / 1_000_000;
            self.rtt.sample(ticks as u32 + 1);
            self.ccv.srtt = self.rtt.srtt as u32;
        } else {
            self.rtt.sample(sample.rtt.min(LONGEST_RTT_US) as u32 + 1);
            self.ccv.srtt = (self.rtt.srtt as u64 * u64::from(self.ccv.hz) / 1_000_000) as u32;
            self.ccv.srtt_us = (self.rtt.srtt >> RTT_SHIFT) as u64;
        }
        self.ccv.rtt_updates = self.rtt.updates;
        self.ccv.rxtshift = 0;
        if let Some(flight) = sample.flight {
            self.cc.rtt_sample(&mut self.ccv, sample.exact, u64::from(flight));
        }
        let path = &mut self.path;
        if path.smoothed == 0 {
            path.smoothed = sample.exact;
        } else if sample.trusted {
            path.smoothed = path.smoothed - path.smoothed / 8 + sample.exact / 8;
        }
        if sample.trusted {
            path.highest = path.highest.max(sample.exact);
            path.deep |= path.lowest > 0 && path.highest / path.lowest > DEEP_BUFFER;
        }
        if path.lowest == 0 || sample.exact < path.lowest {
            path.lowest = sample.exact;
        }
    }

    /// The RTT that the time of loss is counted with (RACK.rtt), us.
    fn rack_rtt(&self) -> u64 {
        if self.last_rtt > 0 {
            return self.last_rtt;
        }
        self.srtt_us().unwrap_or(UNKNOWN_RTT_US)
    }

    /// Time after its transmission at which a segment is lost, if a later one was delivered, in us.
    pub(super) fn loss_threshold(&mut self) -> u64 {
        let rtt = self.rack_rtt();
        if self.reordered_at.is_some_and(|at| self.now_us.saturating_sub(at) > REORDERING_FADES_US) {
            self.reordered_at = None;
        }
        let reordered = self.reordered_at.is_some();
        let threshold = if self.rack.threshold_by_packet_delay {
            rtt + PACKET_DELAY_US + if reordered { self.stack_time(rtt / 4) } else { 1000 }
        } else {
            let more = if reordered { u64::from(self.dsacks) * (rtt / 4) } else { 0 };
            (rtt + rtt / 4 + more).min(2 * rtt)
        };
        threshold.min(self.rto_us())
    }

    /// Whether something sent after `entry` has arrived.
    pub(super) fn later_delivered(&self, entry: &Entry) -> bool {
        entry.order < self.map.newest_sacked || entry.dupacks >= DUPLICATE_THRESHOLD
    }

    /// The next entry to send again, if one is lost by now.
    pub(super) fn lost_entry(&mut self, snd: &SendState) -> Option<usize> {
        if snd.max > snd.end {
            // The FIN is out: only a timeout sends it again.
            return None;
        }
        let index = self.map.oldest()?;
        let entry = *self.map.get(index);
        if entry.lost {
            return Some(index);
        }
        if !self.later_delivered(&entry) {
            return None;
        }
        let since = self.elapsed_since(entry.at);
        if since == 0 || since < self.loss_threshold() {
            return None;
        }
        self.map.mark_lost(index);
        Some(index)
    }

    /// Looks for losses after an ACK: recovery begins, or goes on with what the ACK delivered.
    pub(super) fn detect_losses(&mut self, snd: &SendState, una: u64, delivered: u64, cx: &mut Context<'_>) {
        let lost = self.lost_entry(snd);
        match lost {
            Some(index) if !self.ccv.in_recovery() => {
                self.enter_recovery(snd, index, cx);
                self.pacing_waived = true;
            }
            _ if self.ccv.in_recovery() => self.update_prr(snd, una, delivered),
            _ => {}
        }
    }
}
