//! A congestion control of Linux as a reference.

use super::{Arrival, Driven};
use crate::cc::linux::{AckSample, CaState, Cause, CongestionControl, Core, CwndEvent, INFINITE_SSTHRESH};
use crate::clock::{HostClock, Nanos};

/// Module of Linux, and what it sees of the connection.
pub(crate) struct Linux {
    core: Core,
    cc: Box<dyn CongestionControl>,
    clock: HostClock,
    /// Bytes acknowledged that make no whole packet.
    rest: u64,
    /// Packets that the last ACK acknowledged.
    acked: u32,
}

impl Linux {
    /// A connection with packets of `mss` bytes, above 0, at a host with `hz` jiffies a second.
    pub(crate) fn new(cc: Box<dyn CongestionControl>, mss: u32, hz: u32) -> Linux {
        let mut core = Core::new(1);
        core.mss = mss;
        Linux { core, cc, clock: HostClock::new(hz, 0, 0), rest: 0, acked: 0 }
    }

    fn packets(&self, bytes: u64) -> u32 {
        let mss = u64::from(self.core.mss);
        ((bytes + mss / 2) / mss).clamp(1, u64::from(INFINITE_SSTHRESH)) as u32
    }

    fn bytes(&self, packets: u32) -> u64 {
        u64::from(packets) * u64::from(self.core.mss)
    }

    fn reduce(&mut self, cwnd: u64, cause: Cause) {
        self.core.cwnd = self.packets(cwnd);
        self.core.prior_cwnd = self.core.cwnd;
        self.core.cwnd_cnt = 0;
        self.core.cause = cause;
        self.core.ssthresh = self.cc.ssthresh(&mut self.core);
        self.core.cause = Cause::Loss;
    }

    fn enter(&mut self, state: CaState) {
        self.cc.set_state(&mut self.core, state);
        self.core.state = state;
    }
}

impl Driven for Linux {
    fn init(&mut self) {
        self.cc.init(&mut self.core);
    }

    fn set_time(&mut self, now: Nanos) {
        self.core.set_time(&self.clock, now);
    }

    fn follow(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.core.cwnd = self.packets(cwnd);
        self.core.cwnd_cnt = 0;
        self.core.ssthresh = ssthresh.map_or(INFINITE_SSTHRESH, |bytes| self.packets(bytes));
    }

    fn window(&self) -> u64 {
        self.bytes(self.core.cwnd)
    }

    fn threshold(&self) -> Option<u64> {
        (self.core.ssthresh != INFINITE_SSTHRESH).then(|| self.bytes(self.core.ssthresh))
    }

    fn is_slow_start(&self, cwnd: u64) -> bool {
        self.packets(cwnd) < self.core.ssthresh
    }

    fn arrived(&mut self, ack: &Arrival) {
        let mss = u64::from(self.core.mss);
        let counted = self.rest + ack.bytes;
        self.acked = (counted / mss) as u32;
        self.rest = counted % mss;
        self.core.una = 1 + ack.una;
        self.core.nxt = 1 + ack.nxt;
        self.core.prior_in_flight = self.packets(ack.flight);
        self.core.packets_out = self.packets(ack.flight.saturating_sub(ack.bytes));
        self.core.delivered += u64::from(self.acked);
        self.core.cwnd_limited = ack.limited;
        if ack.filled || !ack.limited {
            self.core.max_packets_out = self.packets(ack.flight);
        }
    }

    fn grow(&mut self, rtt: Option<Nanos>, _srtt: Option<Nanos>) {
        if self.acked == 0 {
            return;
        }
        let rtt_us = rtt.map(|rtt| (rtt / 1000).clamp(1, u64::from(u32::MAX)) as u32);
        if let Some(rtt_us) = rtt_us {
            self.core.srtt_us = u64::from(rtt_us);
            self.core.min_rtt_us = self.core.min_rtt_us.min(rtt_us);
        }
        let in_flight = (self.core.nxt - self.core.una) as u32;
        let threshold = self.core.ssthresh;
        let sample = AckSample { packets: self.acked, rtt_us, stamped_rtt_us: None, in_flight };
        self.cc.pkts_acked(&mut self.core, &sample);
        self.core.ssthresh = threshold;
        let una = self.core.una;
        self.cc.cong_avoid(&mut self.core, una, self.acked);
        self.core.cwr_requested = false;
    }

    fn react(&mut self, cwnd: u64, _flight: u64, ecn: bool) {
        self.reduce(cwnd, if ecn { Cause::Ecn } else { Cause::Loss });
        self.enter(if ecn { CaState::Cwr } else { CaState::Recovery });
    }

    fn recovered(&mut self) -> u64 {
        self.core.cwnd = self.core.ssthresh;
        self.cc.cwnd_event(&mut self.core, CwndEvent::CompleteCwr);
        self.enter(CaState::Open);
        self.bytes(self.core.ssthresh)
    }

    fn timeout(&mut self, cwnd: u64, _flight: u64, first: bool, reduced: bool) {
        // What was reduced for a loss of the same window, or for a timeout after which nothing arrived, is not reduced again.
        if first && !reduced {
            self.reduce(cwnd, Cause::Timeout);
        }
        self.core.cwnd = 1;
        self.cc.set_state(&mut self.core, CaState::Loss);
        self.core.state = CaState::Open;
    }

    fn restart(&mut self) {
        self.cc.cwnd_event(&mut self.core, CwndEvent::TxStart);
    }

    fn undo(&mut self) {
        self.core.state = CaState::Open;
    }
}
