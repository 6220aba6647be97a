//! FreeBSD's receiver, 9.0 to 15: delayed ACKs on the tick grid, window updates, buffer autotuning.

use wire::segment::TIMESTAMPS_BYTES;

use wire::segment::{DEFAULT_MSS, MAX_WINDOW, MAX_WINDOW_SHIFT};

use super::{Arrival, ReceiveState, Receiver};
use crate::clock::Nanos;
use crate::context::Context;

/// Memory a cluster of 2048 bytes takes with its mbuf: what a socket buffer may hold is this much less than
/// kern.ipc.maxsockbuf.
const CLUSTER_AND_MBUF: u64 = 2304;
/// A cluster.
const CLUSTER: u64 = 2048;

/// The largest buffer that a socket is granted, bytes: kern.ipc.maxsockbuf counts the memory of mbufs too. A step of
/// autotuning beyond it is refused, and that buffer's autotuning ends.
pub fn largest_buffer(maxsockbuf: u64) -> u64 {
    maxsockbuf * CLUSTER / CLUSTER_AND_MBUF
}

/// How the receive buffer grows by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autosize {
    /// Once per echoed timestamp: by `inc` bytes when more than 7/8 of the buffer came (9.0 to 11).
    PerRoundTrip {
        /// net.inet.tcp.recvbuf_inc.
        inc: u64,
    },
    /// Every half smoothed RTT: by half when more than 3/8 of the buffer came (12 and later).
    ByHalf,
}

/// Limit of the reassembly queue; the segment that fills the first gap always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassembly {
    /// Everything (11).
    Unlimited,
    /// As many segments as the buffer holds, and one (9.x).
    Segments,
    /// As many runs of segments that touch, and at most so many (net.inet.tcp.reass.maxqueuelen; since the queue merges
    /// neighbours, in 12). A segment that touches a run always fits.
    Runs(u32),
}

/// Sysctls and choices of one release.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Delayed ACKs (net.inet.tcp.delayed_ack).
    pub delayed_ack: bool,
    /// Their timer, ms (net.inet.tcp.delacktime).
    pub delack_ms: u32,
    /// A segment of more than an MSS (receive aggregation) is acknowledged at once (12 and later).
    pub aggregates_acked_at_once: bool,
    /// A window update needs a quarter of the buffer besides two segments (9.2 and later).
    pub updates_need_a_quarter: bool,
    /// Limit of the reassembly queue.
    pub reassembly: Reassembly,
    /// Duplicate arrivals are reported (RFC 2883; 12.1 and later).
    pub dsack: bool,
    /// Receive-buffer autotuning.
    pub autosize: Autosize,
    /// Limit of the automatic growth of the receive buffer, in bytes (net.inet.tcp.recvbuf_max).
    pub recvbuf_max: u64,
    /// Largest socket buffer, bytes (kern.ipc.maxsockbuf).
    pub maxsockbuf: u64,
    /// `maxsockbuf` was set, so it does not give way to what the application asks for.
    pub maxsockbuf_fixed: bool,
    /// The control block's MSS is less options (9.x).
    pub maxseg_without_options: bool,
    /// Window scaling and timestamps (net.inet.tcp.rfc1323).
    pub rfc1323: bool,
}

/// The receiver of one connection.
pub struct FreeBsdReceiver {
    tuning: Tuning,
    /// Delayed-ACK timer: true time.
    delack: Option<Nanos>,
    /// When it is set to fire in the present tick.
    delayed: Delayed,
    advertised_zero: bool,
    /// The MSS as the control block holds it (t_maxseg), bytes.
    maxseg: u64,
    /// Autotuning: bytes since, and millisecond time of the ACK that began the interval (0: none).
    counted: u64,
    interval_from: u32,
    /// Smoothed RTT in milliseconds as the handshake measured it.
    srtt_ms: u32,
    peer_closed: bool,
}

/// The tick from `from` on, before `until`: an ACK delayed in it is due `at`.
#[derive(Clone, Copy, Debug, Default)]
struct Delayed {
    from: Nanos,
    until: Nanos,
    at: Nanos,
}

impl FreeBsdReceiver {
    /// A receiver for a release.
    pub fn new(tuning: Tuning) -> FreeBsdReceiver {
        FreeBsdReceiver {
            tuning,
            delack: None,
            delayed: Delayed::default(),
            advertised_zero: false,
            maxseg: u64::from(DEFAULT_MSS),
            counted: 0,
            interval_from: 0,
            srtt_ms: 0,
            peer_closed: false,
        }
    }

    /// The peer's MSS is known: the buffer is a multiple of it, as the control block has it (tcp_mss).
    fn round_buffer(&mut self, rcv: &mut ReceiveState) {
        let options = rcv.timestamps && !self.tuning.maxseg_without_options;
        let options = if options { u64::from(TIMESTAMPS_BYTES) } else { 0 };
        self.maxseg = u64::from(rcv.payload) + options;
        rcv.rcvbuf = rcv.rcvbuf.next_multiple_of(self.maxseg);
    }

    /// Space the window field can offer now.
    #[inline]
    fn space(&self, rcv: &ReceiveState) -> u64 {
        rcv.free().min(MAX_WINDOW << rcv.wscale)
    }

    /// The window after silly-window avoidance (RFC 9293 section 3.8.6.2.2).
    #[inline]
    fn usable(&self, rcv: &ReceiveState) -> u64 {
        let space = self.space(rcv);
        if space < rcv.rcvbuf / 4 && space < self.maxseg { 0 } else { space }
    }

    /// Whether the window has grown enough for an ACK that says only this.
    #[inline(always)]
    fn update_due(&self, rcv: &ReceiveState) -> bool {
        let space = self.space(rcv);
        let offered = rcv.offered();
        let growth = space.saturating_sub(offered);
        let buffer = rcv.rcvbuf;
        // The usual case, of which all that follows would say the same.
        let little = if self.tuning.updates_need_a_quarter {
            growth < buffer / 4 && space > buffer / 8 && buffer > 8 * self.maxseg
        } else {
            growth < 2 * self.maxseg && 2 * growth < buffer
        };
        if little && !rcv.no_fast_path {
            return false;
        }
        if space <= offered || offered >> rcv.wscale >= space >> rcv.wscale || self.peer_closed {
            return false;
        }
        let large = growth >= 2 * self.maxseg;
        if self.tuning.updates_need_a_quarter {
            large && (growth >= buffer / 4 || space <= buffer / 8 || buffer <= 8 * self.maxseg)
                || 2 * growth >= buffer
        } else {
            large || 2 * growth >= buffer
        }
    }

    /// Works out until when an ACK that is delayed in the present tick waits.
    #[cold]
    fn find_delack_time(&mut self, cx: &Context<'_>) {
        let wait = (u64::from(self.tuning.delack_ms) * u64::from(cx.clock.hz()) / 1000).max(1);
        let tick = cx.clock.ticks(cx.now);
        self.delayed = Delayed {
            from: cx.clock.time_of_tick(tick),
            until: cx.clock.time_of_tick(tick + 1),
            at: cx.clock.time_of_tick(tick + wait + 1),
        };
    }

    /// Counts in-order data and grows the buffer when an interval is over.
    #[inline(never)]
    fn autosize(&mut self, rcv: &mut ReceiveState, payload: u32, cx: &Context<'_>) {
        let over = match self.tuning.autosize {
            Autosize::PerRoundTrip { .. } => {
                let since = rcv.tsecr.wrapping_sub(self.interval_from);
                self.interval_from != 0 && since > 0 && since < 1000
            }
            Autosize::ByHalf => {
                let now = cx.clock.timestamp_ms(cx.now);
                self.srtt_ms != 0
                    && self.interval_from != 0
                    && now.wrapping_sub(self.interval_from) > self.srtt_ms / 2
            }
        };
        if !over {
            self.counted += u64::from(payload);
            return;
        }
        let grown = match self.tuning.autosize {
            Autosize::PerRoundTrip { inc } if self.counted > rcv.rcvbuf / 8 * 7 => rcv.rcvbuf + inc,
            Autosize::ByHalf if self.counted > rcv.rcvbuf / 2 / 4 * 3 => rcv.rcvbuf + rcv.rcvbuf / 2,
            _ => rcv.rcvbuf,
        };
        let wanted = grown.min(self.tuning.recvbuf_max).max(rcv.rcvbuf);
        if wanted == rcv.rcvbuf || wanted <= largest_buffer(self.tuning.maxsockbuf) {
            rcv.rcvbuf = wanted;
        } else {
            rcv.rcvbuf_auto = false;
        }
        self.counted = 0;
        self.interval_from = 0;
    }
}

impl Receiver for FreeBsdReceiver {
    fn syn_window(&self, rcv: &ReceiveState) -> (u64, u8) {
        let asked = if self.tuning.maxsockbuf_fixed { 0 } else { rcv.rcvbuf * CLUSTER_AND_MBUF / CLUSTER };
        let largest =
            if rcv.rcvbuf_auto { self.tuning.maxsockbuf } else { self.tuning.maxsockbuf.max(asked) };
        let mut scale = 0;
        while self.tuning.rfc1323 && scale < MAX_WINDOW_SHIFT && MAX_WINDOW << scale < largest {
            scale += 1;
        }
        (rcv.rcvbuf.min(MAX_WINDOW), scale)
    }

    fn on_syn(&mut self, rcv: &mut ReceiveState) {
        self.round_buffer(rcv);
    }

    /// The socket's whole space, also what the window field could not say.
    fn accepted(&self, rcv: &ReceiveState) -> u64 {
        rcv.free().max(rcv.offered())
    }

    fn on_established(&mut self, rcv: &mut ReceiveState, cx: &mut Context<'_>) {
        self.round_buffer(rcv);
        if rcv.timestamps && rcv.tsecr != 0 {
            self.srtt_ms = cx.clock.timestamp_ms(cx.now).wrapping_sub(rcv.tsecr) + 1;
        }
        // The window of the SYN-ACK was unscaled: the passive side tells at once what it really has.
        rcv.ack_now |= self.update_due(rcv);
    }

    fn on_data(&mut self, rcv: &mut ReceiveState, arrival: &Arrival, cx: &mut Context<'_>) {
        self.peer_closed |= arrival.fin;
        if arrival.fin || !arrival.in_order || arrival.filled_hole || rcv.dsack.is_some() {
            rcv.ack_now = true;
            return;
        }
        if rcv.rcvbuf_auto {
            self.autosize(rcv, arrival.payload, cx);
        }
        let aggregate = self.tuning.aggregates_acked_at_once && u64::from(arrival.payload) > self.maxseg;
        if self.delack.is_some() || self.advertised_zero || !self.tuning.delayed_ack || aggregate {
            rcv.ack_now = true;
        } else {
            if !(cx.now < self.delayed.until && cx.now >= self.delayed.from) {
                self.find_delack_time(cx);
            }
            self.delack = Some(self.delayed.at);
        }
    }

    fn accepts_out_of_order(&self, rcv: &ReceiveState, seq: u64, len: u32) -> bool {
        let buffer = rcv.rcvbuf / self.maxseg + 1;
        match self.tuning.reassembly {
            Reassembly::Unlimited => true,
            Reassembly::Segments => u64::from(rcv.out_of_order_segments) <= buffer,
            Reassembly::Runs(most) => {
                let end = seq + u64::from(len);
                (rcv.out_of_order.len() as u64) < buffer.min(u64::from(most))
                    || rcv.out_of_order.iter().any(|(from, to)| from <= end && to >= seq)
            }
        }
    }

    fn on_read(&mut self, rcv: &mut ReceiveState, _bytes: u64, _cx: &mut Context<'_>) {
        rcv.ack_now |= self.update_due(rcv);
    }

    fn on_timer(&mut self, rcv: &mut ReceiveState, cx: &mut Context<'_>) {
        if self.delack.is_some_and(|at| at <= cx.now) {
            self.delack = None;
            rcv.ack_now = true;
        }
    }

    #[inline]
    fn next_timer(&self) -> Option<Nanos> {
        self.delack
    }

    #[inline]
    fn window(&mut self, rcv: &ReceiveState, _cx: &mut Context<'_>) -> u64 {
        self.usable(rcv)
    }

    #[inline]
    fn on_ack_sent(&mut self, rcv: &mut ReceiveState, _pure: bool, cx: &mut Context<'_>) {
        self.delack = None;
        self.advertised_zero = rcv.offered() >> rcv.wscale == 0;
        if self.interval_from == 0 && rcv.rcvbuf_auto {
            self.interval_from = cx.clock.timestamp_ms(cx.now);
        }
    }

    fn sends_dsack(&self) -> bool {
        self.tuning.dsack
    }
}
