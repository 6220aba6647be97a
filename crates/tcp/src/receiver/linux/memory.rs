//! Memory of Linux's receiver: what packets take of the buffer, the window that is left, how window and buffer grow.

use wire::RangeSet;
use wire::segment::MAX_WINDOW_SHIFT;

use super::LinuxReceiver;
use crate::clock::Nanos;
use crate::context::Context;
use crate::linux_config::Drs;
use crate::receiver::{Arrival, ReceiveState, Receiver as _};

/// Memory of a received full packet, bytes: payload and headers in 2 KiB, and the metadata.
const TRUESIZE: u64 = 2304;
/// Packets from this payload on fill a buffer of their own, bytes.
const LARGE: u64 = 1024;
/// Memory of a received small packet, bytes; it is never merged.
const SMALL_TRUESIZE: u64 = 1280;
/// Memory of a packet beside its buffer, bytes (struct sk_buff, with SKB_DATA_ALIGN).
const METADATA: u64 = TRUESIZE - MERGED_TRUESIZE;
/// A page, bytes.
const PAGE: u64 = 4096;
/// Memory that a further packet adds to the one it is merged with: its metadata is given back (skb_gro_receive,
/// skb_try_coalesce).
const MERGED_TRUESIZE: u64 = 2048;
/// Memory of a packet beside its payload where it stays in the buffer of its sender, as through a veth: the metadata of one
/// clonable buffer and the room for headers. Payload fills pages, and a further packet adds but those to the one it is merged with.
const LENT_OVERHEAD: u64 = 832;
/// Most packets that are merged into one while they wait: as many as fragments fit (MAX_SKB_FRAGS), and one in the buffer of the
/// first where that is the driver's.
const MERGED: u64 = 17;
/// Payload share of memory in 1/256 before a packet has been seen.
pub(super) const DEFAULT_SCALING: u64 = 128;
/// Fraction bits of memory per payload.
const FACTOR_BITS: u32 = 20;
/// Memory per payload before a packet has been seen.
pub(super) const DEFAULT_FACTOR: u64 = (256 << FACTOR_BITS) / DEFAULT_SCALING;
/// Packets of the initial window offered by 3.9 (TCP_DEFAULT_INIT_RCVWND).
const INIT_RCVWND: u64 = 10;

/// Data that the application copied in the present round trip.
#[derive(Debug, Default)]
pub(super) struct CopySpace {
    space: u64,
    /// Bytes copied so far, at its start.
    copied_at: u64,
    pub(super) copied: u64,
    since: Nanos,
}

/// Packets that data behind holes are merged into, as of the packet that came last.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Number of runs of data, and of bytes in all of them.
    runs: usize,
    covered: u64,
    /// Most bytes that are merged into one packet.
    most: u64,
    packets: u64,
}

/// Packets that a run of so many bytes is merged into.
fn merged(bytes: u64, most: u64) -> u64 {
    if bytes <= most { u64::from(bytes > 0) } else { bytes.div_ceil(most) }
}

/// Memory of full packets merged into one that has `payload` bytes in all. What does not fit half a page each is in whole
/// pages.
fn truesize(rcv: &ReceiveState, frames: u32, payload: u64) -> u64 {
    if rcv.lent {
        return payload + LENT_OVERHEAD;
    }
    let usual = TRUESIZE + u64::from(frames.saturating_sub(1)) * MERGED_TRUESIZE;
    if payload <= usual - METADATA {
        return usual;
    }
    payload.next_multiple_of(PAGE) + METADATA
}

/// Packets that the runs of a queue are merged into.
fn count_merged(queue: &RangeSet, most: u64) -> u64 {
    queue.iter().map(|(start, end)| merged(end - start, most)).sum()
}

impl LinuxReceiver {
    /// The window of a SYN and its scale.
    pub(super) fn first_window(&self, rcv: &ReceiveState) -> (u64, u8) {
        let mss = u64::from(rcv.payload);
        let full = self.window_from(rcv.rcvbuf);
        let mut window = if full > mss { full / mss * mss } else { full };
        if !self.config.scaling_ratio {
            window = window.min(INIT_RCVWND * mss);
        }
        // The scale must reach whatever autotuning may reach; a fixed buffer needs only its own.
        let most =
            if rcv.rcvbuf_auto { full.max(self.config.rmem.max).max(self.config.rmem_max) } else { full };
        let bits = 64 - most.leading_zeros();
        (window, bits.saturating_sub(16).min(MAX_WINDOW_SHIFT.into()) as u8)
    }

    /// The connection is open: buffer, clamp and the first round trip of autotuning (tcp_init_buffer_space).
    pub(super) fn init_buffer(&mut self, rcv: &mut ReceiveState, cx: &Context<'_>) {
        self.set_held_factor(rcv, self.advmss);
        if !self.config.scaling_ratio && rcv.rcvbuf_auto {
            // Room for the initial window four times over.
            let least = 2 * INIT_RCVWND * TRUESIZE * if self.config.moderate_rcvbuf { 4 } else { 1 };
            rcv.rcvbuf = rcv.rcvbuf.max(least.min(self.config.rmem.max));
        }
        let full = self.full_space(rcv);
        self.window_clamp = full;
        if full > 3 * self.advmss {
            // One segment stays in reserve.
            self.window_clamp = full - self.advmss;
        }
        self.rcv_wnd = rcv.offered();
        self.rcv_ssthresh = self.rcv_wnd.min(self.window_clamp);
        self.space = CopySpace {
            space: match self.config.drs {
                Drs::Doubling => self.rcv_wnd,
                _ => self.rcv_ssthresh.min(self.rcv_wnd).min(10 * self.advmss),
            },
            since: cx.now,
            ..CopySpace::default()
        };
    }

    /// Window that `memory` bytes of buffer can hold.
    fn window_from(&self, memory: u64) -> u64 {
        if self.config.scaling_ratio {
            (memory * self.scaling) >> 8
        } else if self.config.adv_win_scale <= 0 {
            memory >> (-self.config.adv_win_scale).min(31)
        } else {
            memory - (memory >> self.config.adv_win_scale.min(31))
        }
    }

    /// Memory of `payload` bytes received in full packets.
    #[inline]
    fn memory_of(&self, payload: u64) -> u64 {
        (payload * self.memory_factor) >> FACTOR_BITS
    }

    /// Memory of data that waits, in order or out of it. Of each run, packets that follow on one another are merged
    /// (tcp_try_coalesce), so that the first of some [`MERGED`] alone keeps its metadata.
    #[inline(always)]
    fn held(&self, rcv: &ReceiveState) -> u64 {
        if rcv.out_of_order.is_empty() && rcv.readable <= self.rcv_mss {
            // Nothing waits but what has just come: most often so.
            if rcv.readable == 0 {
                return 0;
            }
            let metadata = if rcv.lent { LENT_OVERHEAD } else { METADATA };
            return ((rcv.readable * self.held_factor) >> FACTOR_BITS) + metadata;
        }
        self.held_in_runs(rcv)
    }

    #[cold]
    #[inline(never)]
    fn held_in_runs(&self, rcv: &ReceiveState) -> u64 {
        let metadata = if rcv.lent { LENT_OVERHEAD } else { METADATA };
        let payload = rcv.readable + rcv.out_of_order.covered();
        let (queue, most, counted) = (&rcv.out_of_order, self.most_merged(rcv), &self.merged);
        let known = counted.most == most && counted.runs == queue.len() && counted.covered == queue.covered();
        let waiting = if known { counted.packets } else { count_merged(queue, most) };
        debug_assert_eq!(waiting, count_merged(queue, most));
        ((payload * self.held_factor) >> FACTOR_BITS) + (waiting + merged(rcv.readable, most)) * metadata
    }

    /// Most bytes that are merged into one packet while they wait.
    fn most_merged(&self, rcv: &ReceiveState) -> u64 {
        self.rcv_mss * if rcv.lent { MERGED } else { MERGED + 1 }
    }

    /// A packet that begins at `seq` has changed what waits behind holes, or could have. One run has begun, grown or left, most
    /// often; else all are counted.
    #[inline(never)]
    pub(super) fn count_behind_holes(&mut self, rcv: &ReceiveState, seq: u64) {
        let (queue, most) = (&rcv.out_of_order, self.most_merged(rcv));
        let before = std::mem::replace(
            &mut self.merged,
            Merged { runs: queue.len(), covered: queue.covered(), most, packets: 0 },
        );
        let more = queue.covered().checked_sub(before.covered);
        self.merged.packets = match (queue.len().wrapping_sub(before.runs) as isize, more) {
            _ if before.most != most => count_merged(queue, most),
            (0, Some(0)) => before.packets,
            (1, Some(more)) => before.packets + merged(more, most),
            (0, Some(more)) => match queue.containing(seq) {
                Some((start, end)) => {
                    before.packets + merged(end - start, most) - merged(end - start - more, most)
                }
                None => count_merged(queue, most),
            },
            (-1, None) => before.packets - merged(before.covered - queue.covered(), most),
            _ => count_merged(queue, most),
        };
    }

    fn set_held_factor(&mut self, rcv: &ReceiveState, payload: u64) {
        let memory = match payload >= LARGE {
            _ if rcv.lent => payload,
            true => truesize(rcv, 1, payload) - METADATA,
            false => SMALL_TRUESIZE,
        };
        self.held_factor = (memory << FACTOR_BITS).div_ceil(payload.max(1));
    }

    fn full_space(&self, rcv: &ReceiveState) -> u64 {
        self.window_from(rcv.rcvbuf)
    }

    #[inline(always)]
    fn free_space(&self, rcv: &ReceiveState) -> u64 {
        self.window_from(rcv.rcvbuf.saturating_sub(self.held(rcv)))
    }

    /// The window to offer. Where an ACK leaves because of a segment, it was found when that came.
    #[inline]
    pub(super) fn window_to_offer(&mut self, rcv: &ReceiveState) -> u64 {
        match self.selected.take() {
            Some((window, rcvbuf)) if rcvbuf == rcv.rcvbuf => window,
            _ => self.select_again(rcv),
        }
    }

    #[inline(never)]
    pub(super) fn select_again(&mut self, rcv: &ReceiveState) -> u64 {
        self.select_window(rcv)
    }

    /// The window to offer (RFC 9293 section 3.8.6.2.2 in Linux's form).
    #[inline(always)]
    pub(super) fn select_window(&mut self, rcv: &ReceiveState) -> u64 {
        let full = self.full_space(rcv);
        let clamped = full.min(self.window_clamp);
        let mss = self.rcv_mss.min(clamped);
        let unit = 1u64 << rcv.wscale;
        let shrinks = self.shrinks(rcv);
        let mut free = self.free_space(rcv);
        if shrinks || free < clamped >> 1 {
            free = free >> rcv.wscale << rcv.wscale;
        }
        if free < clamped >> 1 {
            self.quick = 0;
            if free < full >> 4 || free < mss || shrinks && free < unit {
                return 0;
            }
        }
        let free = free.min(self.rcv_ssthresh);
        if rcv.wscale > 0 {
            return free.div_ceil(unit) * unit;
        }
        let window = self.rcv_wnd;
        if window + mss <= free || window > free { free / mss.max(1) * mss } else { window }
    }

    /// A packet of another size than those before: what it takes of the buffer, and what share of that is payload.
    #[cold]
    pub(super) fn measure_memory(&mut self, rcv: &ReceiveState, arrival: &Arrival, len: u64) {
        self.set_held_factor(rcv, len);
        if !self.config.scaling_ratio {
            return;
        }
        self.scaling = if rcv.lent || len >= LARGE {
            (u64::from(arrival.payload) << 8) / truesize(rcv, arrival.frames, u64::from(arrival.payload))
        } else {
            (len << 8) / SMALL_TRUESIZE
        };
        self.memory_factor = (256u64 << FACTOR_BITS).div_ceil(self.scaling.max(1));
        self.set_window_clamp(self.window_from(rcv.rcvbuf));
    }

    fn set_window_clamp(&mut self, clamp: u64) {
        if self.config.clamp_moves_window {
            self.rcv_ssthresh = if clamp < self.window_clamp {
                self.rcv_ssthresh.min(clamp)
            } else {
                self.rcv_ssthresh.max(self.rcv_wnd.min(clamp))
            };
        }
        self.window_clamp = clamp;
    }

    /// The window's slow start: two packets per full packet accepted, and the next one is acknowledged alone.
    #[inline(always)]
    pub(super) fn grow_window(&mut self, rcv: &ReceiveState, arrival: &Arrival) {
        if self.rcv_ssthresh < self.window_clamp {
            self.grow_towards(self.free_space(rcv), rcv, arrival);
        }
    }

    /// [`LinuxReceiver::grow_window`] by a packet out of order.
    #[inline(never)]
    pub(super) fn grow_window_out_of_order(&mut self, rcv: &ReceiveState, arrival: &Arrival) {
        if self.rcv_ssthresh >= self.window_clamp {
            return;
        }
        // A packet behind a hole with which a run begins is counted after this; what is merged with one that waits, before.
        let begins = rcv.out_of_order.containing(arrival.seq).is_some_and(|(start, _)| start == arrival.seq);
        let own = if begins { truesize(rcv, arrival.frames, u64::from(arrival.payload)) } else { 0 };
        let free = self.window_from(rcv.rcvbuf.saturating_sub(self.held(rcv).saturating_sub(own)));
        self.grow_towards(free, rcv, arrival);
    }

    #[inline(always)]
    fn grow_towards(&mut self, free: u64, rcv: &ReceiveState, arrival: &Arrival) {
        let limit = self.window_clamp.min(free);
        if self.rcv_ssthresh < limit {
            self.grow_within(limit - self.rcv_ssthresh, rcv, arrival);
        }
    }

    #[inline(never)]
    fn grow_within(&mut self, room: u64, rcv: &ReceiveState, arrival: &Arrival) {
        let memory = if self.config.scaling_ratio {
            self.memory_of(u64::from(arrival.payload))
        } else {
            truesize(rcv, arrival.frames, u64::from(arrival.payload))
        };
        let increment = if self.window_from(memory) <= u64::from(arrival.payload) {
            2 * self.advmss
        } else {
            self.grow_by_small_packet(rcv, memory, u64::from(arrival.payload))
        };
        if increment > 0 {
            self.rcv_ssthresh += room.min(increment.max(2 * u64::from(arrival.payload)));
            self.quick |= 1;
        }
    }

    /// A packet with much overhead lets the window grow while it is far below what the buffer could offer.
    fn grow_by_small_packet(&self, rcv: &ReceiveState, memory: u64, payload: u64) -> u64 {
        let mut truesize = self.window_from(memory) >> 1;
        let mut window = self.window_from(rcv.rcvbuf.max(self.config.rmem.max)) >> 1;
        while self.rcv_ssthresh <= window {
            if truesize <= payload {
                return 2 * self.rcv_mss;
            }
            truesize >>= 1;
            window >>= 1;
        }
        0
    }

    /// Dynamic right-sizing: once per round trip, room for what the application took in it, and more.
    pub(super) fn adjust_space(&mut self, rcv: &mut ReceiveState, cx: &Context<'_>) {
        let elapsed_us = (cx.now - self.space.since) / 1000;
        if self.rtt.rtt8 == 0 || elapsed_us < self.rtt.rtt8 >> 3 {
            return;
        }
        let mut copied = self.space.copied - self.space.copied_at;
        let automatic = self.config.moderate_rcvbuf && rcv.rcvbuf_auto;
        match self.config.drs {
            Drs::Doubling => {
                let space = (2 * copied).max(self.space.space);
                if space != self.space.space {
                    self.space.space = space;
                    if automatic {
                        self.grow_for_doubling(rcv, space);
                    }
                }
            }
            Drs::Growth | Drs::GrowthRead => {
                if self.config.drs == Drs::GrowthRead {
                    copied = copied.saturating_sub(rcv.readable);
                }
                if copied > self.space.space {
                    if automatic {
                        let window = self.grown(2 * copied + 16 * self.advmss, copied);
                        self.grow_buffer(rcv, window);
                    }
                    self.space.space = copied;
                }
            }
            Drs::GrowthOutOfOrder => {
                copied = copied.saturating_sub(rcv.readable);
                if copied > self.space.space {
                    if automatic {
                        let window = self.grown(2 * copied, copied) + out_of_order_span(rcv);
                        self.grow_buffer(rcv, window);
                    }
                    self.space.space = copied;
                }
            }
        }
        self.space.copied_at = self.space.copied;
        self.space.since = cx.now;
    }

    /// Out-of-order data opens the buffer too, where the version does so.
    pub(super) fn adjust_out_of_order(&mut self, rcv: &mut ReceiveState) {
        if self.config.drs == Drs::GrowthOutOfOrder && self.config.moderate_rcvbuf && rcv.rcvbuf_auto {
            let window = self.grown(2 * self.space.space, self.space.space) + out_of_order_span(rcv);
            self.grow_buffer(rcv, window);
        }
    }

    /// `window` plus twice its share of the growth since the last round trip. Where round trips are short, plus a part as large as
    /// they are of what is called low (tcp_rcvbuf_grow).
    fn grown(&self, window: u64, copied: u64) -> u64 {
        let (rtt, low) = (self.rtt.rtt8 >> 3, self.config.rcvbuf_low_rtt_us);
        if rtt < low {
            return window + window.saturating_mul(rtt) / low;
        }
        let previous = self.space.space.max(1);
        let growth = u128::from(window) * u128::from(copied - self.space.space) / u128::from(previous);
        window.saturating_add(2 * growth.min(u128::from(u32::MAX)) as u64)
    }

    fn grow_buffer(&mut self, rcv: &mut ReceiveState, window: u64) {
        let memory = self.memory_of(window).min(self.config.rmem.max);
        if memory > rcv.rcvbuf {
            rcv.rcvbuf = memory;
            self.window_clamp = self.window_from(memory);
        }
    }

    fn grow_for_doubling(&mut self, rcv: &mut ReceiveState, space: u64) {
        let mut per_packet = TRUESIZE;
        while self.window_from(per_packet) < self.advmss {
            per_packet += 128;
        }
        let memory = ((space / self.advmss).max(1) * per_packet).min(self.config.rmem.max);
        if memory > rcv.rcvbuf {
            rcv.rcvbuf = memory;
            self.window_clamp = space;
        }
    }
}

/// From RCV.NXT to the end of the newest out-of-order data.
fn out_of_order_span(rcv: &ReceiveState) -> u64 {
    rcv.out_of_order.last().map_or(0, |(_, end)| end - rcv.nxt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_config::Config;

    fn receiver(payload: u32) -> (LinuxReceiver, ReceiveState) {
        let mut receiver = LinuxReceiver::new(&Config::linux_6_12().into());
        let mut rcv = ReceiveState::new(200_000, false);
        rcv.payload = payload;
        receiver.advmss = u64::from(payload);
        receiver.rcv_mss = u64::from(payload);
        receiver.measure_memory(&rcv, &arrival(payload), u64::from(payload));
        (receiver, rcv)
    }

    fn arrival(payload: u32) -> Arrival {
        Arrival {
            seq: 0,
            end: u64::from(payload),
            payload,
            previous_nxt: 0,
            in_order: true,
            filled_hole: false,
            duplicate: false,
            frames: 1,
            push: false,
            fin: false,
        }
    }

    /// 40 packets behind one hole are three packets and 37 buffers; one behind another hole keeps its metadata, as does one in order.
    #[test]
    fn packets_of_a_run_share_their_metadata() {
        let (receiver, mut rcv) = receiver(1448);
        rcv.out_of_order.insert(10_000, 10_000 + 40 * 1448, |_, _| {});
        let close = |found: u64, wanted: u64| assert!(found.abs_diff(wanted) <= 1, "{found} for {wanted}");
        close(receiver.held(&rcv), 3 * TRUESIZE + 37 * MERGED_TRUESIZE);
        rcv.out_of_order.insert(100_000, 100_000 + 1448, |_, _| {});
        close(receiver.held(&rcv), 4 * TRUESIZE + 37 * MERGED_TRUESIZE);
        rcv.readable = 1448;
        close(receiver.held(&rcv), 5 * TRUESIZE + 37 * MERGED_TRUESIZE);
    }

    /// Through a veth a packet is its payload and the metadata of the sender's buffer, and a further one behind it its payload alone:
    /// more of the same buffer is window.
    #[test]
    fn lent_packets_count_what_their_senders_took() {
        let (mut receiver, mut rcv) = receiver(1448);
        let own = receiver.full_space(&rcv);
        rcv.lent = true;
        receiver.measure_memory(&rcv, &arrival(1448), 1448);
        assert_eq!(receiver.scaling, (1448 << 8) / (1448 + LENT_OVERHEAD));
        assert!(receiver.full_space(&rcv) > own);
        rcv.readable = 3 * 1448;
        assert!(receiver.held(&rcv).abs_diff(3 * 1448 + LENT_OVERHEAD) <= 1);
        rcv.out_of_order.insert(100_000, 100_000 + 2 * 1448, |_, _| {});
        assert!(receiver.held(&rcv).abs_diff(5 * 1448 + 2 * LENT_OVERHEAD) <= 1);
    }

    /// A first packet behind a hole is not yet counted when the window grows by it, so that one at its limit grows, and the packet is
    /// acknowledged alone. The next is.
    #[test]
    fn the_first_packet_behind_a_hole_lets_the_window_grow() {
        let (mut receiver, mut rcv) = receiver(1448);
        receiver.window_clamp = receiver.full_space(&rcv);
        rcv.readable = 1448;
        receiver.rcv_ssthresh = receiver.free_space(&rcv);
        rcv.readable = 0;
        for (seq, quick) in [(10_000, 1), (11_448, 0)] {
            receiver.quick = 0;
            rcv.out_of_order.insert(seq, seq + 1448, |_, _| {});
            receiver.grow_window_out_of_order(
                &rcv,
                &Arrival { seq, end: seq + 1448, in_order: false, ..arrival(1448) },
            );
            assert_eq!(receiver.quick, quick, "{seq}");
        }
    }

    /// However large its packets, a buffer never lets in more payload than it has memory.
    #[test]
    fn the_window_is_never_above_the_buffer() {
        for payload in [1, 88, 536, 1023, 1024, 1448, 2048, 2049, 4096, 8948, 46_000, 65_495] {
            let (receiver, rcv) = receiver(payload);
            let window = receiver.full_space(&rcv);
            assert!(window < rcv.rcvbuf, "{payload}: {window} of {}", rcv.rcvbuf);
        }
    }

    /// Below a millisecond the window grows by what the round trip is of one, above by how much more came.
    #[test]
    fn short_round_trips_let_the_window_grow_less() {
        let grows = |config: Config, rtt_us: u64| {
            let mut receiver = LinuxReceiver::new(&config.into());
            receiver.rtt.rtt8 = 8 * rtt_us;
            receiver.space.space = 10_000;
            receiver.grown(40_000, 20_000)
        };
        assert_eq!(grows(Config::linux_7_3(), 250), 40_000 + 10_000);
        assert_eq!(grows(Config::linux_7_3(), 1000), 40_000 + 80_000);
        assert_eq!(grows(Config::linux_6_18(), 250), 40_000 + 80_000);
    }
}
