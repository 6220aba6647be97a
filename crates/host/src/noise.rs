//! Processing-time and stall noise: how long a host takes for what it receives.

use path::{exponential, uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use tcp::Nanos;

/// A draw of the normal distribution, nanoseconds; below zero counts as zero (Box and Muller 1958).
fn normal(random: &mut Xoshiro256PlusPlus, mean: Nanos, sd: Nanos) -> Nanos {
    let radius = libm::sqrt(-2.0 * libm::log(uniform(random)));
    let angle = 2.0 * std::f64::consts::PI * uniform(random);
    libm::round((mean as f64 + sd as f64 * radius * libm::cos(angle)).max(0.0)) as Nanos
}

/// Number of stalls that may interrupt the work on a packet, on average.
pub const STALLS_IN_WORK: u64 = 1000;

/// Number of mean periods after which it no longer matters whether a host stood still before. The two rates of the process
/// add up to at least four a period, so that the influence is below exp(-4 x 16).
const FORGOTTEN: u64 = 16;

/// Time for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processing {
    /// Mean.
    pub mean: Nanos,
    /// Standard deviation of the normal distribution that is cut at zero.
    pub sd: Nanos,
}

/// Stalls, in which the host processes nothing: a Poisson process of exponential lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// Mean time from the end of one to the start of the next, above zero.
    pub every: Nanos,
    /// Mean length.
    pub length: Nanos,
}

/// The processor of a host that takes time: packets are processed one after the other.
#[derive(Clone, Debug)]
pub struct Processor {
    processing: Option<(Processing, Xoshiro256PlusPlus)>,
    stalls: Option<(Stalls, Xoshiro256PlusPlus)>,
    free_at: Nanos,
    /// The present or next stall.
    stall: (Nanos, Nanos),
}

impl Processor {
    /// A processor with a random stream for each kind of noise; None: no noise of that kind.
    pub fn new(
        processing: Option<(Processing, Xoshiro256PlusPlus)>,
        stalls: Option<(Stalls, Xoshiro256PlusPlus)>,
    ) -> Processor {
        let mut processor = Processor { processing, stalls, free_at: 0, stall: (Nanos::MAX, Nanos::MAX) };
        processor.next_stall(0);
        processor
    }

    /// Time when the stack gets a packet that arrived at `now`. `now` must not decrease from call to call; neither
    /// does the result.
    pub fn process(&mut self, now: Nanos) -> Nanos {
        self.serve(now).0
    }

    /// [`Processor::process`], and how long the processor was busy with this packet, stalls included.
    pub fn serve(&mut self, now: Nanos) -> (Nanos, Nanos) {
        let from = self.free_at.max(now);
        let mut at = self.after_stalls(from);
        if let Some((Processing { mean, sd }, random)) = &mut self.processing {
            let mut work = normal(random, *mean, *sd);
            // A stall in the middle interrupts the work.
            while at.saturating_add(work) > self.stall.0 {
                work -= self.stall.0 - at;
                at = self.stall.1;
                self.next_stall(at);
            }
            at = at.saturating_add(work);
        }
        self.free_at = at;
        (at, at - from)
    }

    fn after_stalls(&mut self, mut at: Nanos) -> Nanos {
        self.skip_stalls(at);
        // The last nanosecond that can be counted is never left.
        while at >= self.stall.0 && at < Nanos::MAX {
            at = at.max(self.stall.1);
            self.next_stall(self.stall.1);
        }
        at
    }

    fn next_stall(&mut self, after: Nanos) {
        if let Some((Stalls { every, length }, random)) = &mut self.stalls {
            let start = after.saturating_add(exponential(random, *every));
            self.stall = (start, start.saturating_add(exponential(random, *length)));
        }
    }

    /// Draws, after an idle time of many stalls, whether the host stands still at `at`, and for how long. Neither
    /// state remembers how long it has lasted, so the stalls in between need not be drawn.
    fn skip_stalls(&mut self, at: Nanos) {
        let Some((Stalls { every, length }, random)) = &mut self.stalls else { return };
        let period = every.saturating_add(*length);
        if at.saturating_sub(self.stall.1) / FORGOTTEN < period {
            return;
        }
        if uniform(random) * (period as f64) <= *length as f64 {
            self.stall = (at, at.saturating_add(exponential(random, *length)));
        } else {
            self.next_stall(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(7)
    }

    #[test]
    fn no_noise_takes_no_time() {
        let mut processor = Processor::new(None, None);
        assert_eq!([5, 5, 90].map(|now| processor.process(now)), [5, 5, 90]);
    }

    #[test]
    fn packets_are_processed_one_after_the_other() {
        let processing = Processing { mean: 1000, sd: 0 };
        let mut processor = Processor::new(Some((processing, random())), None);
        assert_eq!([0, 10, 5000].map(|now| processor.process(now)), [1000, 2000, 6000]);
    }

    #[test]
    fn a_stall_delays_what_comes_in_it() {
        let mut processor =
            Processor::new(None, Some((Stalls { every: 1_000_000, length: 200_000 }, random())));
        let (start, end) = processor.stall;
        assert_eq!(processor.process(start - 1), start - 1);
        assert_eq!(processor.process(start), end);
        // A sixth of the time is stalled, so that a packet waits 1/6 of 200 us on average; the standard deviation of
        // the mean over the 8300 stalls of these 10 s is 2.7 %.
        let waited: u64 =
            (1..100_000u64).map(|i| processor.process(end + i * 100_000) - (end + i * 100_000)).sum();
        assert!((waited / 100_000).abs_diff(33_333) < 3600, "{waited}");
    }

    #[test]
    fn a_stall_is_as_likely_after_an_idle_time_of_very_many() {
        let stalls = Stalls { every: 1000, length: 200 };
        let mut processor = Processor::new(None, Some((stalls, random())));
        // A sixth of 100,000 packets, each an hour after the last, come in a stall; the standard deviation is 118.
        let late =
            (1..=100_000u64).filter(|i| processor.process(i * 3_600_000_000_000) > i * 3_600_000_000_000);
        assert!(late.count().abs_diff(16_667) < 4 * 118);
    }

    #[test]
    fn a_stall_without_end_ends_at_the_last_nanosecond() {
        let stalls = Stalls { every: 1, length: Nanos::MAX };
        let mut processor = Processor::new(None, Some((stalls, random())));
        assert_eq!(
            [1 << 60, Nanos::MAX, Nanos::MAX].map(|now| processor.process(now)).last(),
            Some(&Nanos::MAX)
        );
    }

    #[test]
    fn normal_draws_have_their_mean() {
        let mut random = random();
        let normals: u64 = (0..200_000).map(|_| normal(&mut random, 1000, 100)).sum();
        assert!((normals / 200_000).abs_diff(1000) < 3, "{normals}");
    }
}
