//! Accurate ECN (RFC 9768) at an endpoint: who agrees on it, what of each segment is counted, and what leaves with each.

use wire::segment::TIMESTAMPS_BYTES;
use wire::{AccEcnCounters, Ecn, Flags, Options, Segment, seq};

use super::{Endpoint, State};
use crate::accecn::{self, AccEcn, OPTION_BYTES};
use crate::clock::Nanos;
use crate::context::{Context, EcnSegment};
use crate::stack::EcnMode;

/// The counters that a segment carries.
fn counters(segment: &Segment) -> Option<&AccEcnCounters> {
    segment.options.has(Options::ACCECN).then_some(&segment.accecn)
}

impl Endpoint {
    /// ECN field of our SYN or SYN-ACK where ECN is asked for or agreed.
    pub(super) fn syn_field(&self) -> Ecn {
        if self.sender.needs_ecn() { self.capable_field() } else { Ecn::NotEct }
    }

    /// ECN field of packets that can be marked.
    fn capable_field(&self) -> Ecn {
        if self.sender.sends_ect1() { Ecn::Ect1 } else { Ecn::Ect0 }
    }

    /// Whether our SYN asks for Accurate ECN, as the host or congestion control wants it.
    fn asks_accurate(&self) -> bool {
        self.handshake.ecn == EcnMode::Accurate || self.sender.is_l4s()
    }

    /// Flags by which our SYN, sent so often before, asks for ECN (RFC 9768 section 3.1.4.1; RFC 3168 section 6.1.1.1).
    pub(super) fn syn_flags(&self, sent: usize) -> Flags {
        let accurate = self.asks_accurate() && self.handshake.accecn.known;
        let retries = match self.handshake.accecn.fallback {
            true => {
                let more = accurate && !self.handshake.accecn.essential;
                usize::from(self.rules.ecn_syn_retries) + usize::from(more)
            }
            false => usize::MAX,
        };
        if !self.asks_for_ecn() || sent > retries {
            Flags::default()
        } else if accurate {
            Flags::AE | Flags::CWR | Flags::ECE
        } else {
            Flags::CWR | Flags::ECE
        }
    }

    /// Agrees on what a SYN asks for, as a listener, or where both have sent a SYN.
    pub(super) fn agree_with_syn(&mut self, syn: &Segment) {
        let h = &self.handshake;
        let accepts = h.ecn.accepts_accurate() || self.sender.is_l4s();
        let may = if h.passive { accepts } else { self.asks_accurate() };
        if may && h.accecn.known && accecn::asked_by(syn.flags) {
            self.snd.ecn = true;
            self.snd.accecn = Some(Box::new(AccEcn::new(h.accecn, syn.ecn, self.syn_field())));
        } else {
            self.snd.ecn = !self.sender.is_l4s() && self.grants_ecn(syn);
        }
    }

    /// Agrees on what a SYN-ACK answers to a SYN that has asked (table 2 of RFC 9768).
    pub(super) fn agree_with_syn_ack(&mut self, answer: &Segment) {
        let h = &self.handshake;
        let asked = self.asks_for_ecn();
        let accurate = self.asks_accurate();
        self.snd.ecn = asked
            && match accecn::ace(answer.flags) {
                ace if h.accecn.essential && accurate => matches!(ace, 1 | 2 | 3 | 4 | 6),
                _ if !h.accecn.known || h.accecn.essential => {
                    answer.flags.has(Flags::ECE) && !answer.flags.has(Flags::CWR)
                }
                0 | 7 => false,
                _ => true,
            };
        let essential = h.accecn.essential;
        let classic = |ace| ace == 1 || !accurate && (essential || ace == 5);
        // L4S does without the ECN of RFC 3168.
        self.snd.ecn &= !(self.sender.is_l4s() && classic(accecn::ace(answer.flags)));
        if self.snd.ecn && h.accecn.known && !classic(accecn::ace(answer.flags)) {
            let mut accecn = AccEcn::new(h.accecn, answer.ecn, self.syn_field());
            accecn.take_syn_ack(answer.flags, counters(answer));
            self.snd.accecn = Some(Box::new(accecn));
        }
    }

    /// Writes what our SYN-ACK agrees on. `repeats`: so often it was sent before.
    pub(super) fn write_syn_ack(&mut self, segment: &mut Segment, repeats: usize) {
        let (timeouts, passive) = (self.handshake.timed_out, self.handshake.passive);
        let answers = timeouts <= self.rules.ecn_syn_ack_timeouts;
        let Some(accecn) = &mut self.snd.accecn else {
            if self.snd.ecn && answers {
                segment.flags |= Flags::ECE;
            }
            return;
        };
        accecn.note_syn_ack_repeats(repeats);
        if answers {
            segment.flags |= accecn.syn_ack_flags();
        }
        let first = if passive { repeats == 0 } else { timeouts < 2 };
        if let Some(option) = accecn.syn_ack_option().filter(|_| first) {
            segment.options |= Options::ACCECN;
            segment.accecn = option;
        }
    }

    /// A SYN has come to a connection that has one already.
    #[cold]
    pub(super) fn take_accurate_syn(&mut self, segment: &Segment) {
        let waits = self.state == State::SynReceived;
        let Some(accecn) = &mut self.snd.accecn else { return };
        if waits {
            accecn.take_repeated_syn(segment.ecn, segment.flags);
        } else {
            accecn.take_late_syn(segment.ecn, counters(segment));
        }
    }

    /// The segment has come that opens the connection of a side that has sent a SYN-ACK.
    pub(super) fn take_third_ack(&mut self, segment: &Segment) {
        let passive = self.handshake.passive;
        if let Some(accecn) = &mut self.snd.accecn {
            let (bare, sacks) = (segment.seq_len() == 0, !segment.sack.is_empty());
            accecn.take_third_ack(segment.flags, counters(segment), bare, sacks, passive);
        }
    }

    /// The connection is open.
    pub(super) fn establish_accurate(&mut self, now: Nanos) {
        if let Some(accecn) = &self.snd.accecn {
            self.base_ecn = match accecn.field() {
                _ if accecn.is_essential() => Ecn::NotEct,
                Ecn::Ect0 => self.capable_field(),
                field => field,
            };
            self.rcv.feedback = accecn.flags();
            self.predicts_accurate = self.predicts_headers && self.sender.is_l4s();
            self.predicts_headers = false;
            self.size_segments(now);
        }
    }

    /// An acceptable segment has come: counts it, and keeps what it tells until the sender knows what it delivers. `opens`: it is the
    /// first of its connection. `ts_before`: the newest timestamp before.
    #[cold]
    #[inline(never)]
    pub(super) fn hear_accurate(&mut self, segment: &Segment, ts_before: u32, opens: bool) {
        let counts = self.state == State::Established && (!opens || self.handshake.passive);
        let Some(accecn) = &mut self.snd.accecn else { return };
        let newer = !opens && seq::before(ts_before, self.rcv.ts_recent);
        if counts {
            accecn.receive(segment.ecn, u32::from(segment.frames.max(1)), segment.len);
            self.rcv.feedback = accecn.flags();
        }
        // The number in the flags of the third ACK is no counter yet.
        if !(opens && accecn.is_essential()) {
            accecn.hear(segment.flags, counters(segment).copied(), newer);
        }
    }

    /// The echo that an acknowledgement up to `ack` brings to a sender that knows no counters, with the essential part alone: it tells
    /// of marks.
    #[cold]
    pub(super) fn accurate_echo(&mut self, ack: u64) -> Flags {
        let packets = ack.saturating_sub(self.snd.una).div_ceil(u64::from(self.snd.payload)) as u32;
        let Some(accecn) = &mut self.snd.accecn else { return Flags::default() };
        if accecn.deliver_by_flags(packets) > 0 { Flags::ECE } else { Flags::default() }
    }

    /// Whether the ACK at hand tells the sender of a side that has sent nothing nothing that it does not know. Controls that live on
    /// Accurate ECN look at no ACK by itself.
    #[cold]
    #[inline(never)]
    pub(super) fn needs_no_accurate_ack(&mut self) -> bool {
        self.predicts_accurate && self.snd.accecn.as_mut().is_some_and(|accecn| accecn.hears_nothing_new())
    }

    /// Whether a segment of data is the usual one of a side that only receives, as [`Endpoint::is_predicted`] has it, of a control that lives on
    /// Accurate ECN: it repeats the counters of the last one.
    #[inline]
    pub(super) fn is_predicted_accurate(&self, segment: &Segment) -> bool {
        self.predicts_accurate
            && segment.options == (Options::TIMESTAMPS | Options::ACE | Options::ACCECN)
            && segment.flags.0 & !(Flags::PSH.0 | Flags::AE.0 | Flags::ECE.0) == Flags::ACK.0
            && self
                .snd
                .accecn
                .as_ref()
                .is_some_and(|accecn| accecn.predicts(segment.flags, &segment.accecn, segment.ecn))
            && self.is_next_of_receiver(segment)
    }

    /// [`Endpoint::take_predicted`] of a segment that [`Endpoint::is_predicted_accurate`].
    #[inline(never)]
    pub(super) fn take_predicted_accurate(&mut self, now: Nanos, segment: &Segment) {
        let echoed = self.rcv.nxt == self.rcv.last_ack;
        let newer = echoed && seq::before(self.rcv.ts_recent, segment.tsval);
        if let Some(accecn) = &mut self.snd.accecn {
            accecn.take_predicted(segment.ecn, segment.len, newer);
        }
        self.take_predicted(now, segment);
    }

    /// Whether [`Endpoint::take_ecn`] would find nothing to do: the receiver has seen such a field, and no ACK is overdue. Controls that
    /// live on Accurate ECN do not look at marks one by one.
    #[inline]
    pub(super) fn is_ecn_settled(&self, segment: &Segment) -> bool {
        self.ecn_settled
            && segment.ecn != Ecn::NotEct
            && self.snd.accecn.as_ref().is_some_and(|accecn| !accecn.hurries())
    }

    /// Tells congestion control and the receiver of the ECN field of a segment.
    #[cold]
    pub(super) fn take_accurate_ecn(&mut self, now: Nanos, seen: &EcnSegment) {
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        let answer = self.sender.on_ecn_segment(seen, &mut cx);
        let hurries = self.snd.accecn.as_mut().is_some_and(|accecn| accecn.take_hurry());
        self.receiver.on_accurate_ecn(&mut self.rcv, seen, answer, hurries);
        self.ecn_settled = seen.capable && self.predicts_accurate;
    }

    /// Smoothed round trip, where options hang on it.
    #[inline]
    fn srtt_of_beacon(&self) -> Nanos {
        let asked = self.snd.accecn.as_ref().is_some_and(|accecn| accecn.has_beacon());
        if asked { self.srtt() } else { 0 }
    }

    /// Completes a segment that is about to leave. `dsack`: beginning of the D-SACK that it carries.
    #[cold]
    #[inline(never)]
    pub(super) fn write_accurate(&mut self, now: Nanos, segment: &mut Segment, dsack: Option<u64>) {
        let Some(accecn) = &mut self.snd.accecn else { return };
        segment.flags.0 &= !Flags::FEEDBACK.0;
        // Linux keeps less of a connection that its application has closed and that waits for the peer.
        let minimal = match self.state {
            State::TimeWait => true,
            State::FinWait2 => self.closed_by_app,
            _ => false,
        };
        if minimal {
            return;
        }
        let taken = if self.snd.timestamps { TIMESTAMPS_BYTES } else { 0 };
        let room = self.snd.mss - taken;
        let bare = segment.len == 0 && !segment.flags.has(Flags::FIN);
        segment.flags |= accecn.flags_of_ack(bare);
        segment.options |= Options::ACE;
        // A packet that was cut before options were known to come fills the frame.
        let fills = segment.len <= room && segment.len + OPTION_BYTES > room;
        if fills {
            return;
        }
        if accecn.tells_always() && segment.sack.is_empty() && dsack.is_none() {
            segment.options |= Options::ACCECN;
            segment.accecn = accecn.whole_option(now);
        } else {
            self.write_option(now, segment, taken, dsack);
        }
    }

    /// Writes the counters where there is room for them, or what waits wants them.
    #[cold]
    #[inline(never)]
    fn write_option(&mut self, now: Nanos, segment: &mut Segment, taken: u32, dsack: Option<u64>) {
        let srtt = self.srtt_of_beacon();
        let Some(accecn) = &mut self.snd.accecn else { return };
        if let Some(option) = accecn.option(now, srtt, taken, &mut segment.sack, dsack) {
            segment.options |= Options::ACCECN;
            segment.accecn = option;
        }
    }

    /// Leaves room for the counters in every segment while they are sent (tcp_current_mss).
    #[inline]
    pub(super) fn size_segments(&mut self, now: Nanos) {
        let Some(accecn) = &self.snd.accecn else { return };
        let with_option = self.snd.payload + self.option_bytes() + OPTION_BYTES;
        if with_option != self.snd.mss || !accecn.tells_always() {
            self.resize_segments(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn resize_segments(&mut self, now: Nanos) {
        let Some(accecn) = self.snd.accecn.as_ref().filter(|accecn| !accecn.is_essential()) else { return };
        let srtt = self.srtt_of_beacon();
        let option = if accecn.wants_option(now, srtt) { OPTION_BYTES } else { 0 };
        let payload = self.snd.mss - self.option_bytes() - option;
        if payload != self.snd.payload {
            self.snd.payload = payload;
            self.size_super_packets();
        }
    }
}
