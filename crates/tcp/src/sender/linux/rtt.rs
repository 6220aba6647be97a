//! Linux's round-trip estimator and what it makes of the retransmission timeout; the windowed minimum RTT.

/// Smoothed RTT, its deviation and the timeout made of them. Counts in whatever unit it is fed: microseconds in
/// modern kernels, jiffies in 3.9.
#[derive(Clone, Debug)]
pub struct Estimator {
    /// Smallest deviation term, in the estimator's unit (200 ms).
    rto_min: u64,
    /// Eight times the smoothed RTT; 0 before the first sample.
    srtt8: u64,
    /// Four times the mean deviation.
    mdev4: u64,
    /// Largest of it in the current window of data, at least `rto_min`.
    mdev_max: u64,
    rttvar: u64,
    /// The window of data ends here.
    mark: u64,
}

impl Estimator {
    /// An estimator without a sample.
    pub fn new(rto_min: u64) -> Estimator {
        Estimator { rto_min, srtt8: 0, mdev4: 0, mdev_max: rto_min, rttvar: 0, mark: 0 }
    }

    /// Takes one sample. `una` and `nxt` tell windows of data apart.
    #[inline]
    pub fn sample(&mut self, rtt: u64, una: u64, nxt: u64) {
        if self.srtt8 == 0 {
            self.srtt8 = (rtt << 3).max(1);
            self.mdev4 = rtt << 1;
            self.rttvar = self.mdev4.max(self.rto_min);
            self.mdev_max = self.rttvar;
            self.mark = nxt;
            return;
        }
        let srtt = self.srtt8 >> 3;
        let quarter = (self.mdev4 >> 2) as i64;
        let error = rtt as i64 - srtt as i64;
        self.srtt8 = (self.srtt8 as i64 + error).max(1) as u64;
        let mut growth = error.abs() - quarter;
        if error < 0 && growth > 0 {
            growth >>= 3;
        }
        self.mdev4 = (self.mdev4 as i64 + growth) as u64;
        if self.mdev4 > self.mdev_max {
            self.mdev_max = self.mdev4;
            self.rttvar = self.rttvar.max(self.mdev_max);
        }
        if una > self.mark {
            if self.mdev_max < self.rttvar {
                self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
            }
            self.mark = nxt;
            self.mdev_max = self.rto_min;
        }
    }

    /// Smoothed RTT; 0 before the first sample.
    #[inline]
    pub fn srtt(&self) -> u64 {
        self.srtt8 >> 3
    }

    /// Eight times the smoothed RTT; 0 before the first sample.
    #[inline]
    pub fn srtt8(&self) -> u64 {
        self.srtt8
    }

    /// Mean deviation, as TCP_INFO's `rttvar` shows it.
    pub fn deviation(&self) -> u64 {
        self.mdev4 >> 2
    }

    /// srtt + rttvar.
    #[inline]
    pub fn timeout(&self) -> u64 {
        (self.srtt8 >> 3) + self.rttvar
    }
}

/// A windowed extreme kept in constant space, after Kathleen Nichols: the best value of the window and the best of
/// its later parts, so that a successor is at hand when the best grows old. Minimum or maximum by the caller's `better`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windowed {
    best: [(u64, u64); 3],
    filled: bool,
}

impl Windowed {
    /// The best value of the window (0 before the first).
    #[inline]
    pub fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Starts anew with one value.
    pub fn reset(&mut self, time: u64, value: u64) -> u64 {
        self.best = [(time, value); 3];
        self.filled = true;
        value
    }

    /// Adds `value` at `time`, for a window of length `window`; returns the best. `better(a, b)`: a is at least as
    /// good as b.
    pub fn update(&mut self, window: u64, time: u64, value: u64, better: impl Fn(u64, u64) -> bool) -> u64 {
        if !self.filled || better(value, self.best[0].1) || time - self.best[2].0 > window {
            return self.reset(time, value);
        }
        if better(value, self.best[1].1) {
            self.best[1] = (time, value);
            self.best[2] = (time, value);
        } else if better(value, self.best[2].1) {
            self.best[2] = (time, value);
        }
        let age = time - self.best[0].0;
        if age > window {
            self.best = [self.best[1], self.best[2], (time, value)];
            if time - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], (time, value)];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = (time, value);
            self.best[2] = (time, value);
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = (time, value);
        }
        self.best[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_timeout_is_three_times_the_rtt_or_200_ms_above_it() {
        let mut e = Estimator::new(200_000);
        e.sample(40_000, 0, 10);
        assert_eq!(e.timeout(), 240_000);
        let mut e = Estimator::new(200_000);
        e.sample(400_000, 0, 10);
        assert_eq!(e.timeout(), 1_200_000);
    }

    #[test]
    fn the_deviation_never_decays_below_200_ms() {
        let mut e = Estimator::new(200_000);
        e.sample(400_000, 0, 1);
        for i in 1..2000 {
            e.sample(40_000, i, i + 1);
        }
        // The deviation itself stops a few microseconds above zero, where its quarter is nothing.
        assert_eq!(e.srtt(), 40_000);
        assert!((240_000..240_010).contains(&e.timeout()), "{}", e.timeout());
    }

    #[test]
    fn a_windowed_minimum_forgets() {
        let mut min = Windowed::default();
        let better = |a, b| a <= b;
        assert_eq!(min.update(10, 0, 5, better), 5);
        assert_eq!(min.update(10, 4, 7, better), 5);
        assert_eq!(min.update(10, 8, 6, better), 5);
        assert_eq!(min.update(10, 11, 9, better), 6);
        assert_eq!(min.update(10, 30, 9, better), 9);
    }
}
