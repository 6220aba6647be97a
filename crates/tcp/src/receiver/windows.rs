//! Windows 7's receiver: an ACK for every second segment or after 200 ms, autotuning by bytes read in a round trip.

use super::{Arrival, ReceiveState, Receiver};
use crate::clock::{MILLISECOND, Nanos};
use crate::context::Context;

/// Window in a SYN, bytes.
const SYN_WINDOW: u64 = 8192;

/// Settings of netsh and Set-NetTCPSetting.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Segments for an ACK (DelayedAckFrequency).
    pub ack_every: u32,
    /// Longest wait for the second one, ms (DelayedAckTimeout).
    pub delack_ms: u64,
    /// Window scale of the autotuning level: 8 is `normal`.
    pub scale: u8,
    /// Largest buffer that autotuning reaches, bytes.
    pub largest: u64,
}

/// The receiver of one connection.
pub struct WindowsReceiver {
    tuning: Tuning,
    delack: Option<Nanos>,
    /// Segments since the last ACK.
    pending: u32,
    /// Autotuning: bytes read since `round_from`; the round lasts until a window's worth has arrived.
    read: u64,
    round_until: u64,
}

impl WindowsReceiver {
    /// A receiver.
    pub fn new(tuning: Tuning) -> WindowsReceiver {
        WindowsReceiver { tuning, delack: None, pending: 0, read: 0, round_until: 0 }
    }

    /// The window after silly-window avoidance (RFC 9293 section 3.8.6.2.2).
    fn usable(&self, rcv: &ReceiveState) -> u64 {
        let free = rcv.free();
        if free < u64::from(rcv.payload).min(rcv.rcvbuf / 2) { 0 } else { free }
    }

    /// One window's worth takes a round trip to arrive, so a round ends with it. A reader that kept up with half of the
    /// buffer gets twice the buffer.
    fn autotune(&mut self, rcv: &mut ReceiveState) {
        if !rcv.rcvbuf_auto || rcv.nxt < self.round_until {
            return;
        }
        if 2 * self.read >= rcv.rcvbuf {
            rcv.rcvbuf = (2 * rcv.rcvbuf).min(self.tuning.largest);
        }
        self.read = 0;
        self.round_until = rcv.nxt + rcv.offered().max(u64::from(rcv.payload));
    }
}

impl Receiver for WindowsReceiver {
    fn syn_window(&self, rcv: &ReceiveState) -> (u64, u8) {
        (rcv.rcvbuf.min(SYN_WINDOW), self.tuning.scale)
    }

    fn on_established(&mut self, rcv: &mut ReceiveState, _cx: &mut Context<'_>) {
        self.round_until = rcv.nxt + rcv.offered();
        // The window of a SYN is small and unscaled: the passive side tells at once what it has.
        rcv.ack_now |= rcv.free() >> rcv.wscale > rcv.offered() >> rcv.wscale && rcv.offered() < SYN_WINDOW;
    }

    fn on_data(&mut self, rcv: &mut ReceiveState, arrival: &Arrival, cx: &mut Context<'_>) {
        if arrival.fin || !arrival.in_order || arrival.filled_hole || !rcv.out_of_order.is_empty() {
            rcv.ack_now = true;
            return;
        }
        self.pending += arrival.frames.max(1);
        if self.pending >= self.tuning.ack_every {
            rcv.ack_now = true;
        } else if self.delack.is_none() {
            let at = cx.now + self.tuning.delack_ms * MILLISECOND;
            self.delack = Some(cx.clock.time_of_tick(cx.clock.ticks(at)).max(cx.now + 1));
        }
    }

    fn on_read(&mut self, rcv: &mut ReceiveState, bytes: u64, _cx: &mut Context<'_>) {
        self.read += bytes;
        self.autotune(rcv);
        // A window update is worth an ACK when two segments or half of the buffer are new (RFC 9293 section 3.8.6.2.2).
        let grown = self.usable(rcv).saturating_sub(rcv.offered());
        if grown >> rcv.wscale > 0 && grown >= (2 * u64::from(rcv.payload)).min(rcv.rcvbuf / 2) {
            // While data keeps coming, its own ACKs carry the window.
            rcv.ack_now |= rcv.offered() < rcv.rcvbuf / 2 || self.pending == 0;
        }
    }

    fn on_timer(&mut self, rcv: &mut ReceiveState, cx: &mut Context<'_>) {
        if self.delack.is_some_and(|at| at <= cx.now) {
            self.delack = None;
            rcv.ack_now = true;
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.delack
    }

    fn window(&mut self, rcv: &ReceiveState, _cx: &mut Context<'_>) -> u64 {
        self.usable(rcv) >> rcv.wscale << rcv.wscale
    }

    fn on_ack_sent(&mut self, _r: &mut ReceiveState, _pure: bool, _cx: &mut Context<'_>) {
        self.delack = None;
        self.pending = 0;
    }

    fn sends_dsack(&self) -> bool {
        true
    }
}
