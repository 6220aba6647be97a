//! Segments in, once a SYN has come: which are acceptable, and what their payload does (RFC 9293 section 3.10.7.4).

use wire::{Ecn, Flags, Options, Segment, seq};

use super::{Endpoint, Failure, State};
use crate::clock::Nanos;
use crate::context::Context;
use crate::mutants::mutant;
use crate::receiver::Arrival;

impl Endpoint {
    /// Header prediction: whether a segment is the usual one of a side that only receives, the next data, whole, and
    /// nothing else. What follows for one, [`Endpoint::take_predicted`] does as [`Endpoint::on_segment_synchronised`].
    #[inline(always)]
    pub(super) fn is_predicted(&self, segment: &Segment) -> bool {
        segment.seq == seq::wire(self.r.nxt)
            && segment.len > 0
            && segment.ack == seq::wire(self.s.una)
            && segment.flags.0 & !Flags::PSH.0 == Flags::ACK.0
            && segment.options == Options::TIMESTAMPS
            && segment.ecn != Ecn::Ce
            && self.state == State::Established
            && self.predicts_headers
            && self.s.max == self.s.iss + 1
            && self.s.limit() == self.s.una
            && !seq::before(segment.tsval, self.r.ts_recent)
            && self.r.nxt + u64::from(segment.len) <= self.r.advertised
            && self.r.out_of_order.is_empty()
            && self.peer_fin.is_none()
            && self.snd_wl.0 < self.r.nxt
    }

    #[inline(always)]
    pub(super) fn take_predicted(&mut self, now: Nanos, segment: &Segment) {
        let first = self.r.nxt;
        if first == self.r.last_ack {
            self.r.ts_recent = segment.tsval;
        }
        self.r.tsecr = segment.tsecr.wrapping_sub(self.timestamp_offset);
        self.s.last_received = now;
        self.s.wnd = u64::from(segment.window) << self.s.wscale;
        self.s.max_wnd = self.s.max_wnd.max(self.s.wnd);
        self.snd_wl = (first, self.s.una);
        self.take_next_data(now, segment, first);
    }

    /// All states after SYN-SENT (RFC 9293 section 3.10.7.4).
    #[inline(always)]
    pub(super) fn on_segment_synchronised(&mut self, now: Nanos, segment: &Segment) {
        let mut first = seq::extend(self.r.nxt, segment.seq);
        if mutant!(NoWrap) {
            first = seq::FIRST_LAP + u64::from(segment.seq);
        }
        if self.s.timestamps && segment.options.has(Options::TIMESTAMPS) {
            // PAWS (RFC 7323 section 5.3): an old timestamp means an old segment.
            if seq::before(segment.tsval, self.r.ts_recent) && !segment.flags.has(Flags::RST) {
                self.on_unacceptable(now, segment, first);
                return;
            }
            if first <= self.r.last_ack {
                self.r.ts_recent = segment.tsval;
            }
            self.r.tsecr = segment.tsecr.wrapping_sub(self.timestamp_offset);
        }
        if !self.acceptable(first, segment.seq_len()) {
            self.on_unacceptable(now, segment, first);
            // Even with a closed window, valid acknowledgements count (RFC 9293 section 3.10.7.4, first).
            let ack = seq::extend(self.s.una, segment.ack);
            let plain = segment.flags.0 & (Flags::RST.0 | Flags::SYN.0 | Flags::ACK.0) == Flags::ACK.0;
            if plain && self.carries_data() && ack <= self.s.max {
                self.s.last_received = now;
                self.take_ack(now, segment, first, ack);
            }
            return;
        }
        if segment.flags.0 & (Flags::RST.0 | Flags::SYN.0) != 0 {
            self.on_reset_or_syn(now, segment, first);
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let ack = seq::extend(self.s.una, segment.ack);
        if self.state == State::SynReceived {
            if ack <= self.s.iss || ack > self.s.max {
                self.answer_with_reset(segment);
                return;
            }
            self.s.wnd = u64::from(segment.window) << self.s.wscale;
            self.s.max_wnd = self.s.wnd;
            self.snd_wl = (first, ack);
            self.s.una = self.s.iss + 1;
            self.establish(now);
        }
        self.s.last_received = now;
        if ack > self.s.max {
            // Acknowledges what was never sent (RFC 9293 section 3.10.7.4, fifth).
            self.r.ack_now |= self.may_send_challenge_ack(now);
            return;
        }
        self.take_ack(now, segment, first, ack);
        let news = segment.len > 0 && first + u64::from(segment.len) > self.r.nxt;
        if self.closed_by_app && news && self.carries_data() && !mutant!(DataAfterClose) {
            self.answer_with_reset(segment);
            self.fail(now, Failure::Aborted);
            return;
        }
        if self.is_next_data(segment, first) {
            self.take_next_data(now, segment, first);
        } else if segment.len > 0 || segment.flags.has(Flags::FIN) {
            self.take_payload(now, segment, first);
        }
    }

    /// Whether any of the segment lies in the receive window (RFC 9293 section 3.4).
    #[inline]
    pub(super) fn acceptable(&self, first: u64, len: u32) -> bool {
        let nxt = self.r.nxt;
        let window = self.r.offered();
        let last = first + u64::from(len);
        if len == 0 {
            // One below is a probe or a keep-alive, which wants an answer.
            return first >= nxt && first <= nxt + window;
        }
        // Partly new data is trimmed later; a probe into a closed window is answered as unacceptable.
        first < nxt + window && last > nxt
    }

    /// Outside the window: acknowledge and drop (RFC 9293 section 3.10.7.4, first); data that came twice is reported
    /// with D-SACK where the system does so.
    fn on_unacceptable(&mut self, now: Nanos, segment: &Segment, first: u64) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        // Data outside the window is nobody's answer to an ACK.
        self.r.ack_now |= segment.seq_len() > 0 || self.may_send_challenge_ack(now);
        if self.state == State::SynReceived && segment.flags.has(Flags::SYN) {
            self.handshake.syn_due = true;
            self.r.ack_now = false;
            return;
        }
        if self.state == State::TimeWait && mutant!(TimeWaitSilent) {
            self.r.ack_now = false;
        }
        if self.state == State::TimeWait && segment.flags.has(Flags::FIN) {
            self.time_wait_until = Some(self.timer_expiry(now, self.time_wait));
        }
        let last = first + u64::from(segment.len);
        let reports = self.receiver.sends_dsack() && !mutant!(NoDsack);
        if segment.len > 0 && last <= self.r.nxt && self.r.sack && reports {
            self.r.dsack = Some((first, last));
        }
    }

    /// A reset counts only at exactly RCV.NXT; otherwise, and for any SYN, the peer is challenged (RFC 5961).
    fn on_reset_or_syn(&mut self, now: Nanos, segment: &Segment, first: u64) {
        let exact = first == self.r.nxt || mutant!(AnyResetCounts);
        if mutant!(ResetIgnored) {
            return;
        }
        if segment.flags.has(Flags::RST) && exact {
            if matches!(self.state, State::Closing | State::LastAck | State::TimeWait) {
                // Both have closed: nobody is left to be told (RFC 9293 section 3.10.7.4, second).
                self.time_wait_until = None;
                self.enter_state(State::Closed, now);
                return;
            }
            self.fail(now, Failure::Reset);
        } else {
            self.r.ack_now |= self.may_send_challenge_ack(now);
        }
    }

    /// Whether an ACK may answer what is invalid, at most one in so much time where the system limits them.
    fn may_send_challenge_ack(&mut self, now: Nanos) -> bool {
        let limited = self.last_challenge.is_some_and(|at| now < at + self.invalid_ratelimit);
        if !limited {
            self.last_challenge = Some(now);
        }
        !limited || mutant!(ChallengesWithoutEnd)
    }

    /// Whether a segment is the usual one of a receiver: the next data, whole, and nothing else.
    #[inline(always)]
    fn is_next_data(&self, segment: &Segment, first: u64) -> bool {
        first == self.r.nxt
            && segment.len > 0
            && segment.flags.0 & (Flags::SYN.0 | Flags::FIN.0 | Flags::CWR.0) == 0
            && segment.ecn != Ecn::Ce
            && self.state == State::Established
            && first + u64::from(segment.len) <= self.r.advertised
            && self.r.out_of_order.is_empty()
            && self.peer_fin.is_none()
            && !self.s.no_fast_path
    }

    /// [`Endpoint::take_payload`] of a segment that [`Endpoint::is_next_data`].
    #[inline(always)]
    fn take_next_data(&mut self, now: Nanos, segment: &Segment, first: u64) {
        let end = first + u64::from(segment.len);
        self.repeated_window = None;
        self.r.nxt = end;
        self.r.readable += u64::from(segment.len);
        let arrival = Arrival {
            seq: first,
            end,
            payload: segment.len,
            previous_nxt: first,
            in_order: true,
            filled_hole: false,
            duplicate: false,
            frames: u32::from(segment.frames.max(1)),
            push: segment.flags.has(Flags::PSH),
            fin: false,
            ce: false,
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.receiver.on_data(&mut self.r, &arrival, &mut cx);
        self.r.ack_now |= mutant!(NoDelayedAck);
    }

    pub(super) fn take_payload(&mut self, now: Nanos, segment: &Segment, first: u64) {
        self.repeated_window = None;
        let first = first + u64::from(segment.flags.has(Flags::SYN));
        let last = first + u64::from(segment.len);
        let ce = segment.ecn == Ecn::Ce;
        if self.s.ecn {
            if segment.flags.has(Flags::CWR) {
                self.echoes_ce = false;
            }
            if ce && !mutant!(NoEcnEcho) {
                self.echoes_ce = true;
            }
        }
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            // The peer has closed already: only a retransmitted FIN can come.
            self.r.ack_now = true;
            return;
        }
        let previous_nxt = self.r.nxt;
        let right_edge = self.r.advertised.max(previous_nxt);
        let start = first.max(previous_nxt);
        let end = last.min(right_edge).max(start);
        let mut in_order = false;
        let mut filled_hole = false;
        let duplicate = segment.len > 0 && (start >= end);
        if duplicate {
            if self.receiver.sends_dsack() && self.r.sack && last <= previous_nxt {
                self.r.dsack = Some((first, last));
            }
        } else if start < end {
            if start == previous_nxt {
                in_order = true;
                filled_hole = !self.r.out_of_order.is_empty();
                self.advance(end);
            } else if self.receiver.accepts_out_of_order(&self.r, start, (end - start) as u32) {
                let added = self.r.out_of_order.insert(start, end, |_, _| {});
                if added > 0 {
                    self.r.out_of_order_segments += 1;
                    self.r.note_recent(start);
                } else if self.receiver.sends_dsack() && self.r.sack {
                    self.r.dsack = Some((first, last));
                }
            }
        }
        if segment.flags.has(Flags::FIN) && last <= right_edge {
            self.peer_fin = Some(last);
        }
        let mut fin = false;
        if self.peer_fin == Some(self.r.nxt) {
            self.peer_fin = None;
            self.r.nxt += 1;
            fin = true;
            self.on_peer_fin(now);
        }
        let arrival = Arrival {
            seq: start,
            end,
            payload: segment.len,
            previous_nxt,
            in_order,
            filled_hole,
            duplicate,
            frames: u32::from(segment.frames.max(1)),
            push: segment.flags.has(Flags::PSH),
            fin,
            ce,
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.receiver.on_data(&mut self.r, &arrival, &mut cx);
        if fin || duplicate || segment.flags.has(Flags::FIN) || mutant!(NoDelayedAck) {
            self.r.ack_now = true;
        }
        if mutant!(OutOfOrderWaits) && !in_order {
            self.r.ack_now = false;
        }
    }

    /// In-order data up to `end` has arrived: moves RCV.NXT over it and over what waited behind it.
    #[inline]
    fn advance(&mut self, end: u64) {
        let mut nxt = end;
        // What arrived may reach over several ranges that waited.
        while let Some((start, reach)) = self.r.out_of_order.first()
            && start <= nxt + u64::from(mutant!(HoleOfOneByte))
        {
            nxt = nxt.max(reach);
            self.r.out_of_order.remove_below(nxt);
            if self.r.out_of_order.is_empty() {
                self.r.out_of_order_segments = 0;
            }
        }
        self.r.readable += nxt - self.r.nxt;
        if mutant!(DeliveredTwice) && !self.r.out_of_order.is_empty() {
            self.r.readable += 1;
        }
        self.r.nxt = nxt;
    }
}
