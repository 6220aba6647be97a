//! Reno as Linux has it: tcp_cong.c's default hooks, counting ACKs in 3.9 and packets since.

use super::{CongestionControl, Core};
use crate::linux_config::{Counting, Shared};

/// The `reno` module.
#[derive(Debug)]
pub(in crate::cc) struct Reno {
    config: Shared,
    /// Part of the window that a loss leaves, in thousandths.
    beta: u64,
}

impl Reno {
    pub(super) fn new(config: &Shared) -> Reno {
        Reno::with(config, 500)
    }

    pub(in crate::cc) fn with(config: &Shared, beta: u64) -> Reno {
        Reno { config: config.clone(), beta }
    }
}

impl CongestionControl for Reno {
    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        ((u64::from(core.cwnd) * self.beta / 1000) as u32).max(2)
    }

    fn cong_avoid(&mut self, core: &mut Core, _ack: u64, acked: u32) {
        match self.config.counting {
            Counting::Acks => {
                if !core.was_cwnd_limited(&self.config) {
                    return;
                }
                if core.cwnd <= core.ssthresh {
                    core.slow_start_acks(self.config.max_ssthresh);
                } else {
                    core.avoid_acks(core.cwnd);
                }
            }
            Counting::Packets => {
                if let Some(left) = core.left_for_avoidance(acked) {
                    core.avoid_packets(core.cwnd, left);
                }
            }
        }
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        match self.config.counting {
            Counting::Acks => core.cwnd.max(core.ssthresh << 1),
            Counting::Packets => core.cwnd.max(core.prior_cwnd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_config::Config;

    fn core(cwnd: u32, ssthresh: u32) -> Core {
        let mut core = Core::new(1);
        core.cwnd = cwnd;
        core.ssthresh = ssthresh;
        core.cwnd_limited = true;
        core.prior_in_flight = cwnd;
        core
    }

    #[test]
    fn modern_reno_counts_packets_and_carries_slow_start_over() {
        let mut reno = Reno::new(&Config::linux_6_8().into());
        let mut core = core(18, 20);
        reno.cong_avoid(&mut core, 0, 12);
        assert_eq!((core.cwnd, core.cwnd_cnt), (20, 10));
        reno.cong_avoid(&mut core, 0, 10);
        assert_eq!((core.cwnd, core.cwnd_cnt), (21, 0));
    }

    #[test]
    fn reno_of_3_9_needs_one_ack_more_than_the_window() {
        let mut reno = Reno::new(&Config::linux_3_9().into());
        let mut core = core(20, 10);
        let mut acks = 0;
        while core.cwnd == 20 {
            reno.cong_avoid(&mut core, 0, 2);
            acks += 1;
        }
        assert_eq!(acks, 21);
    }

    #[test]
    fn reno_of_3_9_slow_starts_at_the_threshold_itself() {
        let mut reno = Reno::new(&Config::linux_3_9().into());
        let mut core = core(10, 10);
        reno.cong_avoid(&mut core, 0, 2);
        assert_eq!(core.cwnd, 11);
    }

    #[test]
    fn slow_start_of_3_9_counts_credit_by_the_window_that_an_ack_found() {
        let mut reno = Reno::new(&Config::linux_3_9().into());
        let mut core = core(10, 20);
        core.cwnd_cnt = 25;
        reno.cong_avoid(&mut core, 0, 2);
        assert_eq!((core.cwnd, core.cwnd_cnt), (13, 5));
    }

    #[test]
    fn growth_of_3_9_allows_three_packets_unused_whatever_the_reordering() {
        let mut config = Config::linux_3_9();
        config.reordering = 10;
        let mut reno = Reno::new(&config.into());
        for (unused, grown) in [(3, 11), (4, 10)] {
            let mut core = core(10, 20);
            core.prior_in_flight = 10 - unused;
            reno.cong_avoid(&mut core, 0, 2);
            assert_eq!(core.cwnd, grown, "{unused} unused");
        }
    }

    #[test]
    fn a_window_not_in_use_does_not_grow() {
        let mut reno = Reno::new(&Config::linux_6_8().into());
        let mut core = core(20, 10);
        core.cwnd_limited = false;
        core.max_packets_out = 19;
        reno.cong_avoid(&mut core, 0, 40);
        assert_eq!(core.cwnd, 20);
    }
}
