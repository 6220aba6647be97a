//! Segments out: data as the sender wants it, acknowledgements as the receiver wants them.

use wire::segment::MAX_WINDOW;
use wire::{Ecn, Flags, Options, Segment, seq};

use super::{Endpoint, Failure, State};
use crate::clock::{HostClock, Nanos};
use crate::context::Context;
use crate::reset;
use crate::sender::{Limit, Poll, Transmit};

/// The timestamp of segments that leave from `from` on, before `until`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TsvalCache {
    pub(super) tsval: u32,
    pub(super) from: Nanos,
    pub(super) until: Nanos,
}

impl TsvalCache {
    /// In place, as copying what has just been written would stall the processor.
    #[cold]
    pub(super) fn renew(&mut self, clock: &HostClock, now: Nanos, offset: u32) {
        let tick = clock.ticks(now);
        self.tsval = clock.timestamp_of_tick(tick).wrapping_add(offset);
        self.from = clock.time_of_tick(tick);
        self.until = clock.time_of_tick(tick + 1);
    }
}

impl Endpoint {
    pub(super) fn poll_outside_established(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if let Some((seq, ack)) = self.reset.take() {
            *segment = reset::reset(seq, ack);
            if matches!(self.failure, Some(Failure::Aborted | Failure::Timeout)) && ack.is_some() {
                self.put_timestamps_on_reset(now, segment);
            }
            return true;
        }
        self.hasten_syn_ack();
        if self.handshake.syn_due {
            *segment = self.syn_segment(now);
            return true;
        }
        if self.opened_early() {
            return self.poll_early(now, segment);
        }
        self.carries_data() && self.poll_data(now, segment) || self.poll_ack(now, segment)
    }

    /// Only on a reset of the application's, where the system does so.
    fn put_timestamps_on_reset(&self, now: Nanos, segment: &mut Segment) {
        segment.ecn = self.base_ecn;
        if self.snd.timestamps && self.rules.resets_carry_timestamps {
            segment.options = Options::TIMESTAMPS;
            segment.tsval = self.clock.timestamp_ms(now).wrapping_add(self.timestamp_offset);
            segment.tsecr = self.rcv.ts_recent;
        }
    }

    #[inline(always)]
    pub(super) fn poll_data(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if self.snd.limit() == self.snd.una {
            self.limits.switch_to(now, Limit::App);
            return false;
        }
        let answer = if self.snd.grant.edge > 0 {
            let limit = self.snd.grant.limit;
            self.snd.next_granted().map_or(Poll::Wait(limit), Poll::Send)
        } else {
            if self.snd.ecn {
                if self.rcv.reflected.is_some() {
                    return self.poll_reflected(now, segment);
                }
                self.size_segments(now);
            }
            self.snd.grant.last = 0;
            let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
            self.sender.poll(&mut self.snd, &mut cx)
        };
        match answer {
            Poll::Send(transmit) => {
                self.write_data(now, &transmit, segment);
                true
            }
            Poll::Wait(limit) => {
                self.limits.switch_to(now, limit);
                false
            }
        }
    }

    #[inline]
    fn write_data(&mut self, now: Nanos, t: &Transmit, segment: &mut Segment) {
        self.write_header(now, false, segment);
        segment.seq = seq::wire(t.seq);
        segment.offset = self.snd.offset(t.seq);
        segment.len = t.len;
        if t.push && t.len > 0 {
            segment.flags |= Flags::PSH;
        }
        if t.fin {
            segment.flags |= Flags::FIN;
        }
        if self.snd.ecn {
            if let Some(accecn) = &self.snd.accecn {
                if accecn.is_essential() && t.len > 0 && !t.retransmission {
                    segment.ecn = Ecn::Ect0;
                }
                self.write_accurate(now, segment, None);
            } else if t.len > 0 && !t.retransmission {
                segment.ecn = Ecn::Ect0;
                if t.cwr {
                    segment.flags |= Flags::CWR;
                }
            }
        }
        self.snd.last_sent = now;
        if !t.retransmission && t.len > 0 {
            self.snd.last_new_sent = now;
        }
        // As on the wire, where segmentation offload has cut it.
        self.data_segments_out += if t.len <= self.snd.payload {
            u64::from(t.len > 0)
        } else if t.seq == self.snd.probe {
            self.snd.probe = 0;
            segment.frames = 0;
            1
        } else {
            u64::from(t.len.div_ceil(self.snd.payload))
        };
    }

    #[inline]
    pub(super) fn poll_ack(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if !self.rcv.ack_now {
            return false;
        }
        if self.rcv.reflected.is_some() {
            return self.poll_reflected(now, segment);
        }
        self.write_header(now, true, segment);
        // Not SND.NXT, which goes back after a timeout: the peer would take the ACK for an old segment.
        segment.seq = seq::wire(self.snd.max);
        segment.offset = 0;
        segment.len = 0;
        let closing = matches!(self.state, State::FinWait1 | State::Closing | State::LastAck);
        if closing && self.rules.acks_repeat_fin && !self.challenges && self.snd.max > self.snd.end {
            segment.seq = seq::wire(self.snd.end);
            segment.flags |= Flags::FIN;
        }
        self.challenges = false;
        if self.keep_alive.is_some() {
            self.write_probe(segment);
        }
        let mut dsack = None;
        if self.rcv.sack && (!self.rcv.out_of_order.is_empty() || self.rcv.dsack.is_some()) {
            let room = if self.rcv.timestamps { 3 } else { 4 };
            self.rcv.sack_blocks(room, |left, right| segment.sack.push(seq::wire(left), seq::wire(right)));
            dsack = self.rcv.dsack.take();
            self.rcv.withheld = None;
        }
        if self.snd.ecn {
            self.write_accurate(now, segment, dsack.map(|(first, _)| first));
        }
        true
    }

    /// The ACK of [`crate::receiver::ReceiveState::reflected`], of which the receiver keeps no account: the ACK of the newest data
    /// follows.
    #[cold]
    #[inline(never)]
    fn poll_reflected(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        let Some((ack, feedback)) = self.rcv.reflected.take() else { return false };
        let window = self.offer_window(now);
        self.write_fields(now, window, segment);
        segment.seq = seq::wire(self.snd.max);
        segment.ack = seq::wire(ack);
        segment.flags = Flags::ACK | feedback;
        segment.offset = 0;
        segment.len = 0;
        if self.snd.accecn.is_some() {
            self.write_accurate(now, segment, None);
        }
        true
    }

    /// Writes everything but sequence number and length: acknowledgement, window, timestamps; tells the receiver that
    /// an ACK leaves.
    #[inline]
    fn write_header(&mut self, now: Nanos, pure: bool, segment: &mut Segment) {
        let window = match self.repeated_window {
            Some(window) if !pure && !self.rcv.ack_now => window,
            _ => self.acknowledge(now, pure),
        };
        self.write_fields(now, window, segment);
    }

    #[inline(always)]
    fn write_fields(&mut self, now: Nanos, window: u16, segment: &mut Segment) {
        segment.ack = seq::wire(self.rcv.nxt);
        segment.window = window;
        segment.flags = Flags::ACK | self.rcv.feedback;
        segment.frames = 1;
        segment.ecn = self.base_ecn;
        segment.mss = 0;
        segment.wscale = 0;
        segment.sack.clear();
        if self.snd.timestamps {
            segment.options = Options::TIMESTAMPS;
            if !(now < self.tsval_cache.until && now >= self.tsval_cache.from) {
                self.tsval_cache.renew(&self.clock, now, self.timestamp_offset);
                if self.snd.no_fast_path {
                    self.tsval_cache.until = 0;
                }
            }
            segment.tsval = self.tsval_cache.tsval;
            segment.tsecr = self.rcv.ts_recent;
        } else {
            segment.options = Options::default();
            segment.tsval = 0;
            segment.tsecr = 0;
        }
    }

    /// The window field of an ACK that leaves now.
    #[inline(always)]
    fn offer_window(&mut self, now: Nanos) -> u16 {
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        let wanted = self.receiver.window(&self.rcv, &mut cx);
        let scale = self.rcv.wscale;
        let offered = self.rcv.offered();
        let shrinks = wanted < offered && self.receiver.shrinks(&self.rcv);
        let kept = if shrinks { wanted } else { wanted.max(offered) }.min(MAX_WINDOW << scale);
        // The right edge does not move left otherwise: the field is rounded up, or the edge is kept though the field cannot say it.
        let (field, promised) = if self.rules.window_edge_unscaled {
            (kept >> scale, kept)
        } else {
            let field = kept.div_ceil(1 << scale).min(MAX_WINDOW);
            (field, field << scale)
        };
        let edge = self.rcv.nxt + promised;
        self.rcv.advertised = if shrinks { edge } else { self.rcv.advertised.max(edge) };
        self.rcv.last_ack = self.rcv.nxt;
        field as u16
    }

    /// An ACK leaves: chooses its window field and tells the receiver.
    #[inline(always)]
    fn acknowledge(&mut self, now: Nanos, pure: bool) -> u16 {
        let window = self.offer_window(now);
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        // With out-of-order data, the SACK blocks still owed go in a pure ACK of their own.
        let sack_owed = !pure && self.rcv.ack_now && !self.rcv.out_of_order.is_empty();
        self.receiver.on_ack_sent(&mut self.rcv, pure, &mut cx);
        self.rcv.ack_now = sack_owed;
        // After a pure ACK the receiver is still to be told of data that leaves.
        self.repeated_window = (!pure && !sack_owed && !self.snd.no_fast_path).then_some(window);
        window
    }
}
