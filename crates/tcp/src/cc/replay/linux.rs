//! A congestion control of Linux as a reference.

use super::{Arrival, Driven};
use crate::cc::linux::{AckSample, CaState, Cause, CongestionControl, Core, CwndEvent, INFINITE_SSTHRESH};
use crate::clock::{HostClock, Nanos};

/// Part of a window that is held back at most to make a longer burst (`tcp_tso_win_divisor`).
const HELD_BACK: u64 = 3;

/// Packets in flight beyond which a window is not left when a recovery ends (`tcp_max_burst` of 3.9).
const BURST: u64 = 3;

/// Module of Linux twice, as a window grows only where it is used up, and the rows do not always tell: once with the least that may have
/// been in flight, once with the most, and with each ACK that may have acknowledged something.
pub(crate) struct Linux {
    sides: [Side; 2],
    clock: HostClock,
    /// Bytes acknowledged that make no whole packet.
    rest: u64,
    /// Packets that the last ACK acknowledged.
    acked: u32,
    /// Whether it may have acknowledged some that are counted elsewhere.
    unclear: bool,
}

/// Module, and what it sees of the connection.
struct Side {
    core: Core,
    cc: Box<dyn CongestionControl>,
    /// Whether a window is taken for used up where it may have been.
    most: bool,
    /// End of what was sent.
    nxt: u64,
    /// End of what was sent when a window was last used up, or when the one before was acknowledged (`cwnd_usage_seq`).
    usage_end: u64,
    /// Whether an ACK found the window used up since the other sender's was taken over.
    used: bool,
}

impl Linux {
    /// A connection with packets of `mss` bytes, above 0, at a host with `hz` jiffies a second; `connect` makes a module.
    pub(crate) fn new(connect: impl Fn() -> Box<dyn CongestionControl>, mss: u32, hz: u32) -> Linux {
        let side = |most| {
            let mut core = Core::new(1);
            (core.mss, core.gso) = (mss, most);
            Side { core, cc: connect(), most, nxt: 0, usage_end: 0, used: false }
        };
        let clock = HostClock::new(hz, 0, 0);
        Linux { sides: [side(false), side(true)], clock, rest: 0, acked: 0, unclear: false }
    }

    fn each(&mut self, act: impl Fn(&mut Side)) {
        self.sides.iter_mut().for_each(act);
    }

    /// The core that goes by the least; both have the same thresholds.
    fn core(&self) -> &Core {
        &self.sides[0].core
    }
}

fn packets(core: &Core, bytes: u64) -> u32 {
    let mss = u64::from(core.mss);
    ((bytes + mss / 2) / mss).clamp(1, u64::from(INFINITE_SSTHRESH)) as u32
}

fn bytes(core: &Core, packets: u32) -> u64 {
    u64::from(packets) * u64::from(core.mss)
}

impl Side {
    fn reduce(&mut self, cwnd: u64, cause: Cause) {
        self.core.cwnd = packets(&self.core, cwnd);
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

    fn arrived(&mut self, ack: &Arrival, acked: u32) {
        let core = &mut self.core;
        let flight = if self.most { ack.most } else { ack.flight };
        (core.una, core.nxt) = (1 + ack.una, 1 + ack.nxt);
        core.prior_in_flight = packets(core, flight);
        core.packets_out = packets(core, flight.saturating_sub(ack.bytes));
        core.delivered += u64::from(acked);
        self.validate(ack, flight);
    }

    /// Takes in what was sent since the ACK before (`tcp_cwnd_validate`).
    fn validate(&mut self, ack: &Arrival, flight: u64) {
        let una = ack.una - ack.bytes;
        let sent = una + flight > self.nxt;
        self.nxt = una + flight;
        self.usage_end = self.usage_end.min(self.nxt);
        let held_back = if self.most && sent { ack.window / HELD_BACK } else { 0 };
        let full = !ack.app_limited
            && flight + held_back >= ack.window - ack.window.min(u64::from(self.core.mss) - 1);
        if !sent && !full {
            return;
        }
        let core = &mut self.core;
        let out = packets(core, flight);
        if una >= self.usage_end || full || (!core.cwnd_limited && out > core.max_packets_out) {
            (core.cwnd_limited, core.max_packets_out) = (full, out);
            self.usage_end = self.nxt;
        }
    }

    fn grow(&mut self, rtt_us: Option<u32>, acked: u32) {
        if let Some(rtt_us) = rtt_us {
            self.core.srtt_us = u64::from(rtt_us);
            self.core.min_rtt_us = self.core.min_rtt_us.min(rtt_us);
        }
        let in_flight = (self.core.nxt - self.core.una) as u32;
        let threshold = self.core.ssthresh;
        let sample = AckSample { packets: acked, rtt_us, stamped_rtt_us: None, in_flight };
        self.cc.pkts_acked(&mut self.core, &sample);
        self.core.ssthresh = threshold;
        self.used |= self.core.is_cwnd_limited();
        let una = self.core.una;
        self.cc.cong_avoid(&mut self.core, una, acked);
        self.core.cwr_requested = false;
    }
}

impl Driven for Linux {
    fn init(&mut self) {
        self.each(|side| side.cc.init(&mut side.core));
    }

    fn set_time(&mut self, now: Nanos) {
        for side in &mut self.sides {
            side.core.set_time(&self.clock, now);
        }
    }

    fn follow(&mut self, cwnd: u64, ssthresh: Option<u64>) {
        self.each(|side| {
            let core = &mut side.core;
            core.cwnd = packets(core, cwnd);
            core.cwnd_cnt = 0;
            core.ssthresh = ssthresh.map_or(INFINITE_SSTHRESH, |bytes| packets(core, bytes));
            side.used = false;
        });
    }

    fn window(&self, found: u64) -> u64 {
        let [least, most] = self.sides.each_ref().map(|side| bytes(&side.core, side.core.cwnd));
        found.clamp(least.min(most), least.max(most))
    }

    fn threshold(&self) -> Option<u64> {
        let ssthresh = self.core().ssthresh;
        (ssthresh != INFINITE_SSTHRESH).then(|| bytes(self.core(), ssthresh))
    }

    fn is_slow_start(&self, cwnd: u64) -> bool {
        packets(self.core(), cwnd) < self.core().ssthresh
    }

    fn arrived(&mut self, ack: &Arrival) {
        let mss = u64::from(self.core().mss);
        let counted = self.rest + ack.bytes;
        (self.acked, self.rest) = ((counted / mss) as u32, counted % mss);
        self.unclear = ack.unclear;
        let acked = self.acked;
        self.each(|side| side.arrived(ack, acked));
    }

    fn grow(&mut self, rtt: Option<Nanos>, _srtt: Option<Nanos>) {
        let (acked, unclear) = (self.acked, self.unclear);
        let rtt_us = rtt.map(|rtt| (rtt / 1000).clamp(1, u64::from(u32::MAX)) as u32);
        self.each(|side| {
            // Linux 3.9 counts ACKs.
            if acked > 0 || unclear && side.most {
                side.grow(rtt_us, acked);
            }
        });
    }

    fn leave(&mut self, ssthresh: u64) {
        self.each(|side| side.core.ssthresh = side.core.ssthresh.min(packets(&side.core, ssthresh)));
    }

    fn unused(&self) -> bool {
        !self.sides.iter().any(|side| side.used)
    }

    fn react(&mut self, cwnd: u64, _flight: u64, ecn: bool) {
        let (cause, state) = if ecn { (Cause::Ecn, CaState::Cwr) } else { (Cause::Loss, CaState::Recovery) };
        self.each(|side| {
            side.reduce(cwnd, cause);
            side.enter(state);
        });
    }

    fn recovered(&mut self) -> u64 {
        self.each(|side| {
            side.core.cwnd = side.core.ssthresh;
            side.cc.cwnd_event(&mut side.core, CwndEvent::CompleteCwr);
            side.enter(CaState::Open);
        });
        bytes(self.core(), self.core().ssthresh)
    }

    fn leads_to(&self, ssthresh: u64, cwnd: u64, flight: u64) -> bool {
        cwnd < ssthresh && cwnd <= flight + BURST * u64::from(self.core().mss)
    }

    fn timeout(&mut self, cwnd: u64, _flight: u64, first: bool, reduced: bool) {
        self.each(|side| {
            // What was reduced for a loss of the same window, or for a timeout after which nothing arrived, is not reduced again.
            if first && !reduced {
                side.reduce(cwnd, Cause::Timeout);
            }
            side.core.cwnd = 1;
            side.cc.set_state(&mut side.core, CaState::Loss);
            side.core.state = CaState::Open;
        });
    }

    fn resume(&mut self, sent: Nanos, began: Nanos) {
        let idle = self.clock.ticks(began) - self.clock.ticks(sent);
        self.each(|side| {
            side.core.last_sent_jiffies = side.core.jiffies - idle.min(side.core.jiffies);
            side.cc.cwnd_event(&mut side.core, CwndEvent::TxStart);
        });
    }

    fn undo(&mut self) {
        self.each(|side| side.core.state = CaState::Open);
    }
}
