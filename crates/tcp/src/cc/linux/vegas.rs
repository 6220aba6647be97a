//! Vegas as Linux has it (tcp_vegas.c): once a round trip the window follows what waits in the queue.
//!
//! L. S. Brakmo and L. L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC 13(8), 1995.

use super::reno::Reno;
use super::{AckSample, CaState, CongestionControl, Core, CwndEvent};
use crate::linux_config::Shared;

/// Packets in the queue below which the window grows (`alpha`).
const ALPHA: u32 = 2;
/// Packets in the queue above which it shrinks (`beta`).
const BETA: u32 = 4;
/// Packets in the queue above which slow start ends (`gamma`).
const GAMMA: u32 = 1;
/// Round-trip samples of a window of data, up to which it may be that all are of delayed ACKs.
const FEW_SAMPLES: u32 = 2;
/// No round trip yet.
const NO_RTT: u32 = 0x7fff_ffff;

/// The `vegas` module.
#[derive(Debug)]
pub(super) struct Vegas {
    reno: Reno,
    /// Delays are looked at: not while losses are repaired.
    looks: bool,
    /// SND.NXT when this window of data began.
    begun: u64,
    /// Number of round-trip samples of this window of data.
    samples: u32,
    /// Lowest round trip of this window of data, microseconds plus one.
    lowest: u32,
    /// Lowest round trip of all, microseconds plus one.
    base: u32,
}

impl Vegas {
    pub(super) fn new(config: &Shared) -> Vegas {
        Vegas { reno: Reno::new(config), looks: false, begun: 0, samples: 0, lowest: NO_RTT, base: NO_RTT }
    }

    fn look(&mut self, core: &Core) {
        self.looks = true;
        self.begin(core);
    }

    fn begin(&mut self, core: &Core) {
        self.begun = core.nxt;
        self.samples = 0;
        self.lowest = NO_RTT;
    }

    /// Sets the window by the delays of a window of data.
    fn judge(&self, core: &mut Core, acked: u32) {
        let queued = core.cwnd.wrapping_mul(self.lowest - self.base) / self.base;
        if core.in_slow_start() {
            if queued > GAMMA {
                let fitting = (u64::from(core.cwnd) * u64::from(self.base) / u64::from(self.lowest)) as u32;
                core.cwnd = core.cwnd.min(fitting + 1);
                core.ssthresh = core.ssthresh.min(core.cwnd);
            } else {
                core.slow_start(acked);
            }
        } else if queued > BETA {
            core.cwnd -= 1;
            core.ssthresh = core.ssthresh.min(core.cwnd);
        } else if queued < ALPHA {
            core.cwnd += 1;
        }
        core.cwnd = core.cwnd.max(2);
        core.ssthresh = core.current_ssthresh();
    }
}

impl CongestionControl for Vegas {
    fn init(&mut self, core: &mut Core) {
        self.base = NO_RTT;
        self.look(core);
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.reno.ssthresh(core)
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        if !self.looks {
            self.reno.cong_avoid(core, ack, acked);
        } else if ack > self.begun {
            if self.samples <= FEW_SAMPLES {
                self.reno.cong_avoid(core, ack, acked);
            } else {
                self.judge(core, acked);
            }
            self.begin(core);
        } else if core.in_slow_start() {
            core.slow_start(acked);
        }
    }

    fn pkts_acked(&mut self, _core: &mut Core, sample: &AckSample) {
        let Some(rtt) = sample.rtt_us else { return };
        let rtt = rtt + 1;
        self.base = self.base.min(rtt);
        self.lowest = self.lowest.min(rtt);
        self.samples += 1;
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        if state == CaState::Open {
            self.look(core);
        } else {
            self.looks = false;
        }
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        if matches!(event, CwndEvent::Restart | CwndEvent::TxStart) {
            self.init(core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_config::Config;

    /// Window after a window of data of `cwnd` packets whose lowest round trip is `rtt_us`, after one of 10 ms.
    fn after(cwnd: u32, ssthresh: u32, rtt_us: u32) -> (u32, u32) {
        let mut vegas = Vegas::new(&Config::linux_6_12().into());
        let mut core = Core::new(1);
        (core.cwnd, core.ssthresh, core.cwnd_limited) = (cwnd, ssthresh, true);
        vegas.init(&mut core);
        for rtt_us in [9_999, rtt_us, rtt_us, rtt_us] {
            let sample = AckSample { packets: 1, rtt_us: Some(rtt_us), stamped_rtt_us: None, in_flight: 0 };
            vegas.pkts_acked(&mut core, &sample);
            if rtt_us == 9_999 {
                vegas.begin(&core);
            }
        }
        vegas.cong_avoid(&mut core, 1, 1);
        (core.cwnd, core.ssthresh)
    }

    #[test]
    fn two_to_four_packets_are_kept_in_the_queue() {
        assert_eq!(after(20, 10, 10_499), (21, 15));
        assert_eq!(after(20, 10, 11_499), (20, 15));
        assert_eq!(after(20, 10, 12_999), (19, 13));
    }

    #[test]
    fn slow_start_ends_with_the_window_that_fits() {
        assert_eq!(after(20, 100, 10_499), (21, 100));
        assert_eq!(after(20, 100, 12_499), (17, 17));
    }
}
