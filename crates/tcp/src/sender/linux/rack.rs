//! RACK (RFC 8985) as Linux has it: a packet is lost when one sent sufficiently later has been delivered.

use std::ops::Range;

use super::LinuxSender;
use super::scoreboard::{EVER_RETRANS, Id, NONE, Packet, RETRANS};
use super::timer::TimerKind;
use crate::cc::linux::CaState;
use crate::clock::Nanos;

/// `tcp_recovery`: the reordering window does not adapt.
const STATIC_REO_WND: u32 = 2;
/// `tcp_recovery`: no immediate detection at the duplicate threshold.
const NO_DUPTHRESH: u32 = 4;
/// Recoveries without D-SACK after which the reordering window shrinks again (TCP_RACK_RECOVERY_THRESH).
const RECOVERIES: u32 = 16;

/// RACK's state.
#[derive(Debug)]
pub(super) struct Rack {
    /// Send time of the newest packet delivered.
    sent: Nanos,
    end_seq: u64,
    rtt_us: u64,
    /// It has advanced since losses were last looked for.
    pub(super) advanced: bool,
    /// The last packet of the order of transmission that was sent before it.
    edge: Id,
    steps: u64,
    pub(super) persist: u32,
    pub(super) dsack_seen: bool,
    last_delivered: u64,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            sent: 0,
            end_seq: 0,
            rtt_us: 0,
            advanced: false,
            edge: NONE,
            steps: 1,
            persist: 0,
            dsack_seen: false,
            last_delivered: 0,
        }
    }
}

impl Rack {
    /// Packets have other names.
    pub(super) fn forget_edge(&mut self) {
        self.edge = NONE;
    }

    /// Packets that came first in the order of transmission are gone from it.
    #[inline]
    pub(super) fn forget(&mut self, ids: Range<Id>) {
        if ids.contains(&self.edge) {
            self.edge = NONE;
        }
    }

    /// Whether the delivered packet was sent after one sent at `sent` that ends at `end`.
    #[inline]
    fn after(&self, sent: Nanos, end: u64) -> bool {
        self.sent > sent || (self.sent == sent && self.end_seq > end)
    }
}

impl LinuxSender {
    /// Takes a packet out of the order of transmission.
    #[inline]
    pub(super) fn remove_from_send_order(&mut self, id: Id) {
        if self.rack.edge == id {
            self.rack.edge = self.board.sent_before(id);
        }
        self.board.remove_from_send_order(id);
    }

    /// `packet` has been delivered.
    #[inline]
    pub(super) fn rack_advance(&mut self, packet: &Packet) {
        // A paced retransmission may be stamped with a time to come (tcp_stamp_us_delta is never negative).
        let rtt_us = self.core.now_us().saturating_sub(packet.sent / 1000);
        if packet.has(RETRANS | EVER_RETRANS) && rtt_us < u64::from(self.core.min_rtt_us) {
            // The ACK answers the original: the retransmission cannot have been so fast.
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt_us = rtt_us;
        if packet.sent > self.rack.sent || (packet.sent == self.rack.sent && packet.end() > self.rack.end_seq)
        {
            self.rack.sent = packet.sent;
            self.rack.end_seq = packet.end();
        }
    }

    pub(super) fn rack_adapt(&mut self, prior_delivered: u64) {
        if self.config.recovery & STATIC_REO_WND != 0 || prior_delivered == 0 {
            return;
        }
        let rack = &mut self.rack;
        // At most one step per round trip.
        if prior_delivered < rack.last_delivered {
            rack.dsack_seen = false;
        }
        if rack.dsack_seen {
            rack.steps = (rack.steps + 1).min(255);
            rack.dsack_seen = false;
            rack.last_delivered = self.core.delivered;
            rack.persist = RECOVERIES;
        } else if rack.persist == 0 {
            rack.steps = 1;
        }
    }

    fn reo_wnd_us(&self) -> u64 {
        if self.reord_seen == 0 {
            if self.core.state >= CaState::Recovery {
                return 0;
            }
            if self.core.sacked_out >= self.reordering && self.config.recovery & NO_DUPTHRESH == 0 {
                return 0;
            }
        }
        ((u64::from(self.core.min_rtt_us) >> 2) * self.rack.steps).min(self.rtt.srtt())
    }

    /// How long a packet sent at `sent` has until it counts as lost, microseconds; 0 or less: lost.
    fn remaining_us(&self, sent: Nanos, reo_wnd: u64) -> i64 {
        (self.rack.rtt_us + reo_wnd) as i64 - self.core.now_us().saturating_sub(sent / 1000) as i64
    }

    /// Whether a timeout spares a packet: it was sent so recently that its ACK may still come.
    pub(super) fn rack_spares(&self) -> impl Fn(&Packet) -> bool + use<> {
        // No reordering window is added (tcp_timeout_mark_lost).
        let rtt = self.rack.rtt_us;
        let now = self.core.now_us();
        move |packet: &Packet| rtt > now.saturating_sub(packet.sent / 1000)
    }

    /// Marks what is lost, in the order of transmission; returns the time until the last undecided packet is, if any.
    pub(super) fn rack_detect(&mut self) -> Option<u64> {
        let reo_wnd = self.reo_wnd_us();
        loop {
            let id = self.board.first_sent();
            if id == NONE {
                return None;
            }
            let packet = *self.board.get(id);
            if !self.rack.after(packet.sent, packet.end()) {
                return None;
            }
            if self.remaining_us(packet.sent, reo_wnd) > 0 {
                break;
            }
            self.remove_from_send_order(id);
            self.mark_lost(id);
        }
        // Every packet from the first to the edge is undecided; the one sent last decides last.
        loop {
            let edge = self.rack.edge;
            let next = if edge == NONE { self.board.first_sent() } else { self.board.sent_after(edge) };
            if next == NONE {
                break;
            }
            let packet = *self.board.get(next);
            if !self.rack.after(packet.sent, packet.end()) {
                break;
            }
            self.rack.edge = next;
        }
        let sent = self.board.get(self.rack.edge).sent;
        Some(self.remaining_us(sent, reo_wnd).max(1) as u64)
    }

    /// Looks for losses after RACK advanced. True if a timer was set to look again.
    pub(super) fn rack_mark_lost(&mut self, now: Nanos) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        match self.rack_detect() {
            Some(us) => {
                self.arm_us(TimerKind::Reordering, us + super::timers::TIMEOUT_MIN_US, now);
                true
            }
            None => false,
        }
    }
}
