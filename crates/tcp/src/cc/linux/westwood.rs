//! Westwood+ as Linux has it (tcp_westwood.c): Reno, whose window after a loss is that of the rate it has estimated.
//!
//! A. Dell'Aera, L. A. Grieco and S. Mascolo, "Linux 2.4 implementation of Westwood+ TCP with rate-halving", ICC 2004.

use super::reno::Reno;
use super::{AckEvent, AckSample, CongestionControl, Core, CwndEvent};
use crate::linux_config::Shared;

/// Shortest time of a sample of the rate, as a part of a second.
const SHORTEST: u32 = 20;
/// Round trip before the first is known, seconds.
const FIRST_RTT: u32 = 20;

/// The `westwood` module. Times are in jiffies, rates in bytes per jiffy.
#[derive(Debug)]
pub(super) struct Westwood {
    reno: Reno,
    once_smoothed: u32,
    rate: u32,
    /// Time when the sample under way began.
    begun: u32,
    /// Number of bytes of the sample under way.
    bytes: u32,
    una: u64,
    /// Number of bytes that duplicate ACKs told of, which later ones will acknowledge.
    accounted: u32,
    rtt: u32,
    min_rtt: u32,
    no_ack_yet: bool,
    resets_min_rtt: bool,
}

impl Westwood {
    pub(super) fn new(config: &Shared) -> Westwood {
        Westwood {
            reno: Reno::new(config),
            once_smoothed: 0,
            rate: 0,
            begun: 0,
            bytes: 0,
            una: 0,
            accounted: 0,
            rtt: 0,
            min_rtt: 0,
            no_ack_yet: true,
            resets_min_rtt: true,
        }
    }

    /// Ends a sample of the rate that is as long as a round trip.
    fn update_rate(&mut self, core: &Core) {
        if std::mem::take(&mut self.no_ack_yet) {
            self.una = core.una;
        }
        let now = core.jiffies as u32;
        let passed = now.wrapping_sub(self.begun);
        if self.rtt == 0 || passed <= self.rtt.max(core.hz / SHORTEST) {
            return;
        }
        let sample = self.bytes / passed;
        if self.once_smoothed == 0 && self.rate == 0 {
            self.once_smoothed = sample;
            self.rate = sample;
        } else {
            let smooth = |old: u32, new: u32| old.wrapping_mul(7).wrapping_add(new) >> 3;
            self.once_smoothed = smooth(self.once_smoothed, sample);
            self.rate = smooth(self.rate, self.once_smoothed);
        }
        self.bytes = 0;
        self.begun = now;
    }

    /// Number of bytes that an ACK which does more than advance tells of.
    fn told(&mut self, core: &Core) -> u32 {
        let mut told = (core.una - self.una) as u32;
        if told == 0 {
            self.accounted += core.mss;
            told = core.mss;
        }
        if told > core.mss {
            if self.accounted >= told {
                self.accounted -= told;
                told = core.mss;
            } else {
                told -= self.accounted;
                self.accounted = 0;
            }
        }
        told
    }

    /// Window that the estimated rate fills without a queue, packets.
    fn fitting(&self, core: &Core) -> u32 {
        (self.rate.wrapping_mul(self.min_rtt) / core.mss).max(2)
    }
}

impl CongestionControl for Westwood {
    fn init(&mut self, core: &mut Core) {
        self.rtt = FIRST_RTT * core.hz;
        self.min_rtt = self.rtt;
        self.begun = core.jiffies as u32;
        self.una = core.una;
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.reno.ssthresh(core)
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        self.reno.cong_avoid(core, ack, acked);
    }

    fn pkts_acked(&mut self, core: &mut Core, sample: &AckSample) {
        if let Some(rtt) = sample.rtt_us.filter(|&rtt| rtt > 0) {
            self.rtt = core.us_to_jiffies(u64::from(rtt)) as u32;
        }
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        match event {
            CwndEvent::CompleteCwr => {
                core.ssthresh = self.fitting(core);
                core.cwnd = core.ssthresh;
            }
            CwndEvent::Loss => {
                core.ssthresh = self.fitting(core);
                self.resets_min_rtt = true;
            }
            _ => {}
        }
    }

    fn in_ack_event(&mut self, core: &mut Core, event: AckEvent) {
        self.update_rate(core);
        let slow = event.0 & AckEvent::SLOWPATH.0 != 0;
        let told = if slow { self.told(core) } else { (core.una - self.una) as u32 };
        self.bytes = self.bytes.wrapping_add(told);
        self.una = core.una;
        self.min_rtt =
            if std::mem::take(&mut self.resets_min_rtt) { self.rtt } else { self.rtt.min(self.min_rtt) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_config::Config;

    fn westwood() -> (Westwood, Core) {
        let mut core = Core::new(1);
        (core.mss, core.jiffies) = (1000, 5000);
        let mut westwood = Westwood::new(&Config::linux_6_12().into());
        westwood.init(&mut core);
        (westwood, core)
    }

    /// ACKs of so many bytes each 51 ms, of a round trip of 49 ms.
    fn acks(westwood: &mut Westwood, core: &mut Core, number: u32, bytes: u64) {
        for _ in 0..number {
            core.jiffies += 51;
            core.una += bytes;
            let sample = AckSample { packets: 51, rtt_us: Some(48_500), stamped_rtt_us: None, in_flight: 0 };
            westwood.pkts_acked(core, &sample);
            westwood.in_ack_event(core, AckEvent::WIN_UPDATE);
        }
    }

    #[test]
    fn a_reduction_ends_at_what_fits_the_estimated_rate() {
        let (mut westwood, mut core) = westwood();
        acks(&mut westwood, &mut core, 10, 51_000);
        assert_eq!((westwood.rate, westwood.min_rtt), (1000, 49));
        // Twice the rate, smoothed once to 1,125 bytes a jiffy and again.
        acks(&mut westwood, &mut core, 2, 102_000);
        assert_eq!(westwood.rate, 1015);
        westwood.cwnd_event(&mut core, CwndEvent::CompleteCwr);
        assert_eq!((core.cwnd, core.ssthresh), (49, 49));
    }

    #[test]
    fn what_duplicates_told_of_is_not_counted_again() {
        let (mut westwood, mut core) = westwood();
        acks(&mut westwood, &mut core, 1, 51_000);
        let before = westwood.bytes;
        for _ in 0..3 {
            westwood.in_ack_event(&mut core, AckEvent::SLOWPATH);
        }
        core.una += 4000;
        westwood.in_ack_event(&mut core, AckEvent::SLOWPATH);
        assert_eq!(westwood.bytes - before, 4000);
    }
}
