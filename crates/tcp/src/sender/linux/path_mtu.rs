//! Reaction of Linux's sender to a path that takes only smaller packets: told by a router, or found out by itself (RFC 4821).
//!
//! Sizes are those of the MSS, options included; the kernel's are packets, larger by the same headers.

use wire::segment::{IPV4_HEADER, IPV6_HEADER, TCP_HEADER};

use super::LinuxSender;
use super::scoreboard::{FIN, Id};
use crate::cc::linux::CaState;
use crate::context::Context;
use crate::sender::{Limit, Poll, SendState};

/// Least payload of a segment (TCP_MIN_SND_MSS, which here is net.ipv4.tcp_min_snd_mss).
const MIN_PAYLOAD: u32 = 48;
/// Window from which on packets are sent only to find out whether they arrive.
const LEAST_WINDOW: u32 = 11;

/// A packet that is larger than those before, to find out whether it arrives.
#[derive(Clone, Copy, Debug)]
struct Probe {
    start: u64,
    end: u64,
    mss: u32,
}

/// The search for the path's MTU (icsk_mtup).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    /// The search is on: from the start, or since a black hole was suspected.
    on: bool,
    /// The MSS by all that the peer and routers have said.
    told: u32,
    /// Sizes that are known to arrive, and that may.
    low: u32,
    high: u32,
    probe: Option<Probe>,
}

impl LinuxSender {
    /// The connection is open (tcp_mtup_init). Only the side that opened it sends small segments at once; the other does once
    /// something else has them sized anew.
    pub(super) fn begin_search(&mut self, snd: &mut SendState, passive: bool) {
        let options = snd.mss - snd.payload;
        let low = self.config.base_mss + options;
        self.search =
            Search { on: self.config.mtu_probing > 1, told: snd.mss, low, high: snd.mss, probe: None };
        if !passive {
            self.sync_mss(snd);
        }
        self.core.mss = snd.payload;
    }

    /// tcp_sync_mss.
    fn sync_mss(&mut self, snd: &mut SendState) {
        let search = &self.search;
        let mss = if search.on { search.told.min(search.low) } else { search.told };
        if mss != snd.mss {
            snd.set_mss(mss);
        }
        self.core.mss = snd.payload;
    }

    /// A router has said what the path takes: what is larger and under way is lost, and no sign of congestion
    /// (tcp_v4_mtu_reduced, tcp_simple_retransmit).
    pub(super) fn restart_below_path_mtu(&mut self, snd: &mut SendState, cx: &mut Context<'_>) {
        self.core.set_time(cx.clock, cx.now);
        self.search.told = snd.mss;
        self.search.high = self.search.high.min(snd.mss);
        self.sync_mss(snd);
        self.resend_longer(snd);
    }

    /// Sends again what is longer than a segment may be now (tcp_simple_retransmit).
    fn resend_longer(&mut self, snd: &SendState) {
        for id in self.board.head()..self.board.tail() {
            let packet = self.board.get(id);
            if packet.len - u32::from(packet.has(FIN)) > snd.payload {
                self.remove_from_send_order(id);
                self.mark_lost(id);
            }
        }
        self.cut_longer(snd);
        if self.core.lost_out == 0 {
            return;
        }
        if !self.sack_ok {
            let most = self.core.packets_out.saturating_sub(self.core.lost_out.max(1));
            self.core.sacked_out = self.core.sacked_out.min(most);
        }
        self.enter_loss_without_congestion();
    }

    /// Cuts what is under way into segments as long as they may be now: a super-packet as one (tcp_fragment).
    fn cut_longer(&mut self, snd: &SendState) {
        let mut names: [&mut Id; 2] = [&mut self.fack, &mut self.classic.lost_cursor];
        self.board.cut(&mut self.core, snd.payload, self.sack_ok, &mut names);
        self.classic.sacked_below = self.classic.sacked_below.min(self.core.sacked_out);
        self.rack.forget_edge();
        self.output.restart_forward_retransmit();
        self.output.burst = Default::default();
    }

    /// A timeout, three seconds or more after the first retransmission of the same data: packets may be too big for a router that
    /// does not say so (tcp_mtu_probing). Three retransmissions by the model of retransmits_timed_out last so long.
    pub(super) fn suspect_black_hole(&mut self, snd: &mut SendState, cx: &Context<'_>) {
        let Some(first) = self.retrans_stamp.filter(|_| self.retransmits > 0) else { return };
        let elapsed = u64::from(cx.clock.timestamp_ms(cx.now).wrapping_sub(first));
        let patience = ((2 << self.config.retries1) - 1) * RTO_MIN_MS;
        if self.config.mtu_probing == 0 || elapsed < patience {
            return;
        }
        let options = snd.mss - snd.payload;
        if self.search.on {
            let half = (self.search.low - options) >> 1;
            let least = self.config.mtu_probe_floor.max(MIN_PAYLOAD);
            self.search.low = half.min(self.config.base_mss).max(least) + options;
        }
        self.search.on = true;
        self.sync_mss(snd);
        self.cut_longer(snd);
    }

    /// A packet that is larger than the present ones, if one is to be sent now (tcp_mtu_probe). Some: output sends that, or waits.
    #[cold]
    pub(super) fn probe_path(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Option<Poll> {
        let Search { low, high, probe, .. } = self.search;
        let steady = self.core.state == CaState::Open && self.core.cwnd >= LEAST_WINDOW;
        if probe.is_some() || !steady || self.output.burst.packets > 0 {
            return None;
        }
        let (mss, payload) = ((high + low) / 2, snd.payload);
        let size = mss - (snd.mss - payload);
        let needed = u64::from(size) + u64::from(self.reordering + 1) * u64::from(payload);
        if high - low < self.config.mtu_probe_threshold || snd.unsent() < needed || snd.wnd < needed {
            return None;
        }
        if snd.max + needed > snd.una + snd.wnd {
            return Some(Poll::Wait(Limit::Rwnd));
        }
        let in_flight = self.core.in_flight();
        if in_flight + 2 > self.core.cwnd {
            return (in_flight > 0).then_some(Poll::Wait(Limit::Cwnd));
        }
        let start = snd.max;
        // One packet, though it is longer than a segment.
        snd.payload = size;
        let transmit = self.transmit_new(u64::from(size), snd, cx);
        snd.payload = payload;
        let transmit = self.end_burst(transmit, self.board.tail() - 1);
        snd.probe = start;
        self.core.cwnd -= 1;
        self.search.probe = Some(Probe { start, end: snd.max, mss });
        Some(Poll::Send(transmit))
    }

    /// Something is about to be sent again: what becomes of the probe says nothing any more, and it leaves in segments
    /// (__tcp_retransmit_skb).
    #[cold]
    pub(super) fn abandon_probe(&mut self, snd: &SendState) {
        if self.search.probe.take().is_some() {
            self.cut_longer(snd);
        }
    }

    /// Whether the search may have something to send or to learn.
    #[inline(always)]
    pub(super) fn searches(&self) -> bool {
        self.search.on
    }

    /// An ACK has come: if the probe has arrived, segments are as large from now on (tcp_mtup_probe_success).
    #[cold]
    pub(super) fn on_probe_acked(&mut self, snd: &mut SendState) {
        let Some(probe) = self.search.probe.filter(|probe| probe.end <= self.core.una) else { return };
        let headers = TCP_HEADER + if snd.ipv6 { IPV6_HEADER } else { IPV4_HEADER };
        let packet = |mss: u32| u64::from(mss + headers);
        let window = u64::from(self.core.cwnd) * packet(snd.mss) / packet(probe.mss);
        self.core.cwnd = window.max(1) as u32;
        self.core.cwnd_cnt = 0;
        self.cwnd_stamp = self.core.jiffies;
        self.core.ssthresh = self.core.current_ssthresh();
        self.search.low = probe.mss;
        self.search.probe = None;
        self.sync_mss(snd);
    }

    /// Something is lost: if that is the probe alone, it says nothing of congestion, and is sent again in segments
    /// (tcp_mtup_probe_failed).
    #[cold]
    pub(super) fn probe_is_lost(&mut self, snd: &SendState) -> bool {
        let alone = self.core.state < CaState::Cwr;
        let Some(probe) = self.search.probe.filter(|probe| alone && probe.start == self.core.una) else {
            return false;
        };
        self.search.high = probe.mss - 1;
        self.search.probe = None;
        self.core.cwnd += 1;
        self.resend_longer(snd);
        true
    }
}

/// Shortest timeout by which three retransmissions are reckoned, ms (TCP_RTO_MIN).
const RTO_MIN_MS: u64 = 200;
