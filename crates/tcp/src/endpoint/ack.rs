//! Acknowledgements in: the peer's window, SACK blocks, and what the sender is told.

use wire::{Flags, Options, Segment, seq};

use super::Endpoint;
use crate::clock::Nanos;
use crate::context::Context;
use crate::sender::Ack;

impl Endpoint {
    #[inline(always)]
    pub(super) fn take_ack(&mut self, now: Nanos, segment: &Segment, first: u64, ack: u64) {
        let previous_wnd = self.snd.wnd;
        if ack >= self.snd.una {
            let window = u64::from(segment.window) << self.snd.wscale;
            let (from_seq, from_ack) = self.snd_wl;
            if from_seq < first
                || (from_seq == first && (from_ack < ack || (from_ack == ack && window > self.snd.wnd)))
            {
                self.snd.wnd = window;
                self.snd.max_wnd = self.snd.max_wnd.max(window);
                self.snd_wl = (first, ack);
            }
        }
        // The sender of a side that has sent nothing and has nothing to send sees none of the rest: in the systems modelled, data whose
        // ACK is old do not get so far (tcp_rcv_established, tcp_do_segment).
        let never_sent = self.snd.max == self.snd.iss + 1
            && self.snd.limit() == self.snd.una
            && segment.len > 0
            && !segment.flags.has(Flags::FIN);
        if never_sent && self.needs_no_ack(segment) {
            return;
        }
        self.inform_sender(now, segment, ack, previous_wnd);
    }

    /// Whether an ACK tells the sender of a side that has sent nothing nothing that it does not know.
    #[inline(always)]
    fn needs_no_ack(&mut self, segment: &Segment) -> bool {
        match &self.snd.accecn {
            None => !segment.flags.has(Flags::ECE),
            Some(_) => self.needs_no_accurate_ack(),
        }
    }

    #[inline(always)]
    fn inform_sender(&mut self, now: Nanos, segment: &Segment, ack: u64, previous_wnd: u64) {
        if segment.sack.is_empty() {
            self.inform_sender_of(now, segment, ack, previous_wnd, &[], None);
        } else {
            self.inform_sender_of_blocks(now, segment, ack, previous_wnd);
        }
    }

    #[inline(never)]
    fn inform_sender_of_blocks(&mut self, now: Nanos, segment: &Segment, ack: u64, previous_wnd: u64) {
        let mut blocks = [(0, 0); wire::SackBlocks::MAX];
        let (count, dsack) = self.read_sack(segment, ack, &mut blocks);
        self.inform_sender_of(now, segment, ack, previous_wnd, &blocks[..count], dsack);
    }

    #[inline(always)]
    fn inform_sender_of(
        &mut self,
        now: Nanos,
        segment: &Segment,
        ack: u64,
        previous_wnd: u64,
        sack: &[(u64, u64)],
        dsack: Option<(u64, u64)>,
    ) {
        let tsecr = if self.snd.timestamps && segment.options.has(Options::TIMESTAMPS) {
            Some(segment.tsecr.wrapping_sub(self.timestamp_offset))
        } else {
            None
        };
        let fin = segment.flags.has(Flags::FIN);
        let feedback = match self.snd.accecn {
            None if self.snd.ecn => segment.flags & Flags::FEEDBACK,
            None => Flags::default(),
            Some(ref accecn) if accecn.is_essential() => self.accurate_echo(ack),
            Some(_) => Flags::default(),
        };
        let ack = Ack {
            ack,
            sack,
            dsack,
            previous_wnd,
            payload: segment.len,
            tsecr,
            tsval: segment.tsval,
            data_segments_out: self.data_segments_out,
            feedback,
            fin,
            frames: u32::from(segment.frames.max(1)),
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.sender.on_ack(&mut self.snd, &ack, &mut cx);
        debug_assert!(self.snd.una >= ack.ack, "the sender moves una");
        if self.snd.fin && self.snd.una > self.snd.end {
            self.on_fin_acked(now);
        }
    }

    /// Reads SACK blocks into `blocks`: those above `ack`, clipped; and the D-SACK, if the first block is one
    /// (RFC 2883 section 4).
    fn read_sack(
        &self,
        segment: &Segment,
        ack: u64,
        blocks: &mut [(u64, u64)],
    ) -> (usize, Option<(u64, u64)>) {
        let mut count = 0;
        let mut dsack = None;
        let wire_blocks = segment.sack.as_slice();
        for (index, &(left, right)) in wire_blocks.iter().enumerate() {
            let left = seq::extend(self.snd.una, left);
            let right = seq::extend(self.snd.una, right);
            if left >= right || right > self.snd.max {
                continue;
            }
            if index == 0 {
                let inside_second = wire_blocks.get(1).is_some_and(|&(l, r)| {
                    seq::extend(self.snd.una, l) <= left && right <= seq::extend(self.snd.una, r)
                });
                if right <= ack || inside_second {
                    dsack = Some((left, right));
                    continue;
                }
            }
            let left = left.max(ack);
            if left < right {
                blocks[count] = (left, right);
                count += 1;
            }
        }
        (count, dsack)
    }
}
