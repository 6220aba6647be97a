//! Segments in, once a SYN has come: which are acceptable, and what their payload does (RFC 9293 section 3.10.7.4).

use wire::{Ecn, Flags, Options, Segment, seq};

use super::{Endpoint, Failure, State};
use crate::clock::Nanos;
use crate::context::{Context, EcnSegment};
use crate::receiver::{Arrival, Overshoot};

impl Endpoint {
    /// Header prediction: whether a segment of data is the usual one of a side that only receives. That is the next data,
    /// whole, and nothing else. [`Endpoint::take_predicted`] does the same for it as
    /// [`Endpoint::on_segment_synchronised`], with fewer questions.
    #[inline(always)]
    pub(super) fn is_predicted(&self, segment: &Segment) -> bool {
        segment.flags.0 & !Flags::PSH.0 == Flags::ACK.0
            && segment.options == Options::TIMESTAMPS
            && segment.ecn == self.usual_ecn
            && self.predicts_headers
            && self.is_next_of_receiver(segment)
    }

    /// The part of [`Endpoint::is_predicted`] that looks at sequence numbers and state, of a segment of data.
    #[inline(always)]
    pub(super) fn is_next_of_receiver(&self, segment: &Segment) -> bool {
        segment.seq == seq::wire(self.rcv.nxt)
            && segment.ack == seq::wire(self.snd.una)
            && self.state == State::Established
            && self.snd.max == self.snd.iss + 1
            && self.snd.limit() == self.snd.una
            && !seq::before(segment.tsval, self.rcv.ts_recent)
            && self.rcv.nxt + u64::from(segment.len) <= self.rcv.advertised
            && self.rcv.out_of_order.is_empty()
            && self.peer_fin.is_none()
            && self.snd_wl.0 < self.rcv.nxt
    }

    #[inline(always)]
    pub(super) fn take_predicted(&mut self, now: Nanos, segment: &Segment) {
        let first = self.rcv.nxt;
        if first == self.rcv.last_ack {
            self.rcv.ts_recent = segment.tsval;
        }
        self.rcv.tsecr = segment.tsecr.wrapping_sub(self.timestamp_offset);
        self.snd.last_received = now;
        self.snd.wnd = u64::from(segment.window) << self.snd.wscale;
        self.snd.max_wnd = self.snd.max_wnd.max(self.snd.wnd);
        self.snd_wl = (first, self.snd.una);
        self.take_next_data(now, segment, first);
    }

    /// All states after SYN-SENT (RFC 9293 section 3.10.7.4).
    #[inline(always)]
    pub(super) fn on_segment_synchronised(&mut self, now: Nanos, segment: &Segment) {
        let first = seq::extend(self.rcv.nxt, segment.seq);
        let ts_before = self.rcv.ts_recent;
        if self.snd.timestamps && segment.options.has(Options::TIMESTAMPS) {
            // PAWS (RFC 7323 section 5.3): an old timestamp means an old segment.
            if seq::before(segment.tsval, self.rcv.ts_recent) && !segment.flags.has(Flags::RST) {
                self.on_unacceptable(now, segment, first);
                return;
            }
            if self.is_timestamp_echoed(segment, first) {
                self.rcv.ts_recent = segment.tsval;
            }
            self.rcv.tsecr = segment.tsecr.wrapping_sub(self.timestamp_offset);
        }
        if !self.acceptable(first, segment.seq_len()) && !self.is_fin_into_closed_window(segment, first) {
            self.on_unacceptable(now, segment, first);
            let end = first + u64::from(segment.seq_len());
            if self.snd.accecn.is_some() && (self.rcv.last_ack..=self.rcv.nxt).contains(&end) {
                // Data that no ACK has told of (tcp_sequence).
                self.hear_accurate(segment, ts_before, false);
            }
            // Even with a closed window, valid acknowledgements count (RFC 9293 section 3.10.7.4, first).
            let ack = seq::extend(self.snd.una, segment.ack);
            let plain = segment.flags.0 & (Flags::RST.0 | Flags::SYN.0 | Flags::ACK.0) == Flags::ACK.0;
            if plain && self.carries_data() && ack <= self.snd.max {
                self.snd.last_received = now;
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
        let ack = seq::extend(self.snd.una, segment.ack);
        let opens = self.state == State::SynReceived;
        if opens {
            if ack <= self.snd.iss || ack > self.snd.max {
                self.answer_with_reset(segment);
                return;
            }
            self.snd.wnd = u64::from(segment.window) << self.snd.wscale;
            self.snd.max_wnd = self.snd.wnd;
            self.snd_wl = (first, ack);
            self.settle_carried(ack);
            self.take_third_ack(segment);
            self.establish(now);
        }
        self.snd.last_received = now;
        if ack > self.snd.max {
            // Acknowledges what was never sent (RFC 9293 section 3.10.7.4, fifth).
            self.rcv.ack_now |= self.may_send_challenge_ack(now);
            return;
        }
        if self.snd.ecn {
            self.hear_accurate(segment, ts_before, opens);
        }
        self.take_ack(now, segment, first, ack);
        if self.snd.ecn && !self.is_ecn_settled(segment) {
            self.take_ecn(now, segment, first);
        }
        let news = segment.len > 0 && first + u64::from(segment.len) > self.rcv.nxt;
        if self.closed_by_app && news && self.carries_data() {
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

    /// Whether ACKs from now on echo a segment's timestamp: that of a segment which the last ACK lies in, or ends
    /// (RFC 7323 section 4.3, with the end of the segment, which both tcp_input of FreeBSD and tcp_sequence of Linux
    /// look at). Old data that comes again is left of it.
    #[inline(always)]
    fn is_timestamp_echoed(&self, segment: &Segment, first: u64) -> bool {
        let last_ack = self.rcv.last_ack;
        let here = first <= last_ack && last_ack <= first + u64::from(segment.seq_len());
        here && (!self.rules.ack_before_timestamp || seq::extend(self.snd.una, segment.ack) <= self.snd.max)
    }

    /// The ECN fields of a segment: what the receiver tells the peer of marks from now on, as congestion control wants it.
    #[inline(never)]
    fn take_ecn(&mut self, now: Nanos, segment: &Segment, first: u64) {
        let sequenced = segment.len > 0 || segment.flags.has(Flags::FIN);
        let cwr = segment.flags.has(Flags::CWR);
        let seen = EcnSegment {
            capable: segment.ecn != Ecn::NotEct,
            ce: segment.ecn == Ecn::Ce,
            cwr,
            echoed: self.rcv.feedback.has(Flags::ECE) && !(cwr && sequenced),
            delayed_ack: self.receiver.delays_ack(),
            payload: segment.len,
            sequenced,
            next: if first <= self.rcv.nxt {
                self.rcv.nxt.max(first + u64::from(segment.len))
            } else {
                self.rcv.nxt
            },
        };
        if self.snd.accecn.is_some() {
            return self.take_accurate_ecn(now, &seen);
        }
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        let answer = self.sender.on_ecn_segment(&seen, &mut cx);
        self.receiver.on_ecn(&mut self.rcv, &seen, answer, &mut cx);
    }

    /// Whether any of the segment lies in the receive window (RFC 9293 section 3.4).
    #[inline(always)]
    pub(super) fn acceptable(&self, first: u64, len: u32) -> bool {
        // The usual acknowledgement, whatever the window.
        len == 0 && first == self.rcv.nxt || self.lies_in_window(first, len)
    }

    #[inline(never)]
    fn lies_in_window(&self, first: u64, len: u32) -> bool {
        let nxt = self.rcv.nxt;
        let window = self.accepted_window();
        let last = first + u64::from(len);
        if len == 0 {
            // One below is a probe or a keep-alive, which wants an answer.
            return first >= nxt && first <= nxt + window;
        }
        // Partly new data is trimmed later; a probe into a closed window is answered as unacceptable.
        let edge = nxt + window;
        first < edge
            && last > nxt
            && (last <= edge || self.receiver.overshoot(&self.rcv) != Overshoot::Dropped)
    }

    /// Whether a segment is a bare FIN, next in turn, that finds the window closed and is taken all the same.
    fn is_fin_into_closed_window(&self, segment: &Segment, first: u64) -> bool {
        let bare = segment.len == 0 && segment.flags.0 & (Flags::FIN.0 | Flags::SYN.0) == Flags::FIN.0;
        let closed = first == self.rcv.nxt && self.accepted_window() == 0;
        bare && closed && self.receiver.takes_fin_into_closed_window()
    }

    /// Outside the window: acknowledge and drop (RFC 9293 section 3.10.7.4, first); data that came twice is reported
    /// with D-SACK where the system does so.
    fn on_unacceptable(&mut self, now: Nanos, segment: &Segment, first: u64) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        // Data outside the window is nobody's answer to an ACK.
        self.rcv.ack_now |= segment.seq_len() > 0 || self.may_send_challenge_ack(now);
        self.challenges = segment.flags.has(Flags::SYN);
        if self.challenges {
            self.take_accurate_syn(segment);
        }
        if self.state == State::SynReceived && segment.flags.has(Flags::SYN) {
            self.handshake.syn_due = true;
            self.rcv.ack_now = false;
            return;
        }
        if self.state == State::TimeWait && segment.flags.has(Flags::FIN) {
            self.time_wait_until = Some(self.timer_expiry(now, self.time_wait));
        }
        let last = first + self.reported_len(segment);
        let reports = self.receiver.sends_dsack() && self.state != State::TimeWait;
        if last > first && last <= self.rcv.nxt && self.rcv.sack && reports {
            self.rcv.dsack = Some((first, last));
        }
        let end = first + u64::from(segment.seq_len());
        if let Some(accecn) = &mut self.snd.accecn
            && segment.len > 0
        {
            accecn.take_old_data(first);
        }
        let old = first < self.rcv.nxt || first == self.rcv.nxt + self.accepted_window();
        if segment.seq_len() > 0 && old && self.carries_data() {
            let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
            self.receiver.on_refused_data(&mut self.rcv, end, &mut cx);
        }
    }

    /// A reset counts only at exactly RCV.NXT; otherwise, and for any SYN, the peer is challenged (RFC 5961).
    fn on_reset_or_syn(&mut self, now: Nanos, segment: &Segment, first: u64) {
        let exact = first == self.rcv.nxt;
        let behind = first >= self.rcv.nxt + self.accepted_window();
        if self.rules.resets_lie_in_window && segment.flags.has(Flags::RST) && behind && !exact {
            return;
        }
        if segment.flags.has(Flags::RST) && (exact || self.rules.insecure_rst) {
            let told = self.rules.reset_of_closing_is_told;
            if self.state == State::TimeWait || matches!(self.state, State::Closing | State::LastAck) && !told
            {
                // Both have closed: nobody is left to be told (RFC 9293 section 3.10.7.4, second).
                self.time_wait_until = None;
                self.enter_state(State::Closed, now);
                return;
            }
            self.fail(now, Failure::Reset);
        } else if !segment.flags.has(Flags::RST) && self.rules.insecure_syn {
            self.reset = Some((seq::wire(self.snd.max), Some(seq::wire(self.rcv.nxt))));
            self.fail(now, Failure::Reset);
        } else {
            self.challenges = self.may_send_challenge_ack(now);
            self.rcv.ack_now |= self.challenges;
            if segment.flags.has(Flags::RST) && self.state == State::Established {
                self.note_out_of_order_end();
            }
            if segment.flags.has(Flags::SYN) {
                self.take_accurate_syn(segment);
            }
        }
    }

    /// Where segments are accepted. A connection that a listener is opening has no buffer yet, only what it offered.
    #[inline]
    pub(super) fn accepted_window(&self) -> u64 {
        if self.state == State::SynReceived && self.handshake.passive {
            self.rcv.offered()
        } else {
            self.receiver.accepted(&self.rcv)
        }
    }

    /// TIME-WAIT as FreeBSD has it (tcp_twcheck). See [`Endpoint::gives_way_to`] for SYNs that open a new connection.
    pub(super) fn on_segment_in_time_wait(&mut self, now: Nanos, segment: &Segment) {
        if segment.flags.has(Flags::RST) || !segment.flags.has(Flags::ACK) {
            return;
        }
        let first = seq::extend(self.rcv.nxt, segment.seq);
        let end = first + u64::from(segment.seq_len());
        if segment.flags.has(Flags::FIN) && end == self.rcv.nxt {
            self.time_wait_until = Some(self.timer_expiry(now, self.time_wait));
        }
        let same = first == self.rcv.nxt && seq::extend(self.snd.una, segment.ack) == self.snd.max;
        self.rcv.ack_now |= segment.flags.0 & !Flags::PSH.0 != Flags::ACK.0 || segment.len > 0 || !same;
    }

    /// Whether a SYN may take the place of this connection, which only waits for old segments to die out.
    #[must_use]
    pub fn gives_way_to(&self, segment: &Segment) -> bool {
        let opens = segment.flags.0 & (Flags::SYN.0 | Flags::ACK.0) == Flags::SYN.0;
        let waits = self.state == State::TimeWait && self.rules.time_wait_checks;
        // Of a connection that a cookie opens nothing is known yet.
        let unknown = self.state == State::SynReceived && self.handshake.cookie.is_some();
        opens && (unknown || waits && seq::extend(self.rcv.nxt, segment.seq) > self.rcv.nxt)
    }

    /// Whether a challenge ACK may leave. Some systems limit how often (RFC 5961 section 7).
    fn may_send_challenge_ack(&mut self, now: Nanos) -> bool {
        let limited = self.last_challenge.is_some_and(|at| now < at + self.invalid_ratelimit);
        if !limited {
            self.last_challenge = Some(now);
        }
        !limited
    }

    /// Whether a segment is the usual one of a receiver: the next data, whole, and nothing else.
    #[inline(always)]
    fn is_next_data(&self, segment: &Segment, first: u64) -> bool {
        first == self.rcv.nxt
            && segment.len > 0
            && segment.flags.0 & (Flags::SYN.0 | Flags::FIN.0 | Flags::CWR.0) == 0
            && segment.ecn != Ecn::Ce
            && self.state == State::Established
            && first + u64::from(segment.len) <= self.rcv.advertised
            && self.rcv.out_of_order.is_empty()
            && self.peer_fin.is_none()
            && !self.snd.no_fast_path
    }

    /// [`Endpoint::take_payload`] of a segment that [`Endpoint::is_next_data`].
    #[inline(always)]
    fn take_next_data(&mut self, now: Nanos, segment: &Segment, first: u64) {
        let end = first + u64::from(segment.len);
        self.repeated_window = None;
        self.rcv.nxt = end;
        self.rcv.readable += u64::from(segment.len);
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
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.receiver.on_data(&mut self.rcv, &arrival, &mut cx);
    }

    pub(super) fn take_payload(&mut self, now: Nanos, segment: &Segment, first: u64) {
        self.repeated_window = None;
        let first = first + u64::from(segment.flags.has(Flags::SYN));
        let last = first + u64::from(segment.len);
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            // The peer has closed already: only a retransmitted FIN can come.
            self.rcv.ack_now = true;
            return;
        }
        let previous_nxt = self.rcv.nxt;
        let mut right_edge = previous_nxt + self.accepted_window();
        if self.receiver.overshoot(&self.rcv) == Overshoot::Whole || last == previous_nxt {
            // Also a FIN that the closed window has let in.
            right_edge = right_edge.max(last);
        }
        let start = first.max(previous_nxt);
        let end = last.min(right_edge).max(start);
        let mut in_order = false;
        let mut filled_hole = false;
        let duplicate = segment.len > 0 && (start >= end);
        if self.receiver.sends_dsack() && self.rcv.sack {
            let last = first + self.reported_len(segment);
            self.rcv.dsack = self.first_duplicate(first, last).or(self.rcv.dsack);
        }
        let fin_waits = segment.flags.has(Flags::FIN) && last <= right_edge && self.receiver.reports_fin();
        let reach = end + u64::from(fin_waits);
        if start < reach {
            if start == previous_nxt {
                in_order = start < end;
                filled_hole = in_order && !self.rcv.out_of_order.is_empty();
                self.advance(end);
            } else if self.receiver.accepts_out_of_order(&self.rcv, start, (end - start) as u32) {
                let added = self.rcv.out_of_order.insert(start, reach, |_, _| {});
                self.rcv.out_of_order_segments += u32::from(added > 0);
                self.rcv.note_recent(start);
            }
        }
        if segment.flags.has(Flags::FIN) && last <= right_edge {
            self.peer_fin = Some(last);
            if last > self.rcv.nxt {
                self.note_out_of_order_end();
            }
        }
        let was_open = self.state == State::Established;
        let mut fin = false;
        if self.peer_fin == Some(self.rcv.nxt) {
            self.peer_fin = None;
            self.rcv.nxt += 1;
            fin = true;
            if self.receiver.reports_fin() {
                // Nothing waits for it any more (tcp_fin).
                self.rcv.dsack = None;
            }
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
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.receiver.on_data(&mut self.rcv, &arrival, &mut cx);
        let with_fin = fin || segment.flags.has(Flags::FIN);
        let waits = was_open && self.receiver.delays_ack_of_fin();
        if duplicate || with_fin && !waits {
            self.rcv.ack_now = true;
        }
    }

    /// Sequence numbers that SACK and D-SACK report of a segment.
    fn reported_len(&self, segment: &Segment) -> u64 {
        let fin = segment.flags.has(Flags::FIN) && self.receiver.reports_fin();
        u64::from(segment.len) + u64::from(fin)
    }

    /// The first run of bytes of a segment that had come before: what a D-SACK reports (RFC 2883 sections 4.1 to 4.3).
    fn first_duplicate(&self, first: u64, last: u64) -> Option<(u64, u64)> {
        let nxt = self.rcv.nxt;
        if first >= last {
            None
        } else if first < nxt {
            Some((first, last.min(nxt)))
        } else {
            let overlap = self.rcv.out_of_order.overlapping(first, last);
            overlap.map(|(from, to)| (from.max(first), to.min(last)))
        }
    }

    /// In-order data up to `end` has arrived: moves RCV.NXT over it and over what waited behind it.
    #[inline]
    pub(super) fn advance(&mut self, end: u64) {
        let mut nxt = end;
        // What arrived may reach over several ranges that waited.
        while let Some((start, reach)) = self.rcv.out_of_order.first()
            && start <= nxt
        {
            nxt = nxt.max(reach);
            self.rcv.out_of_order.remove_below(nxt);
            if self.rcv.out_of_order.is_empty() {
                self.rcv.out_of_order_segments = 0;
            }
        }
        // A FIN that waited is no data.
        nxt = nxt.min(self.peer_fin.unwrap_or(nxt));
        self.rcv.readable += nxt - self.rcv.nxt;
        self.rcv.nxt = nxt;
    }
}
