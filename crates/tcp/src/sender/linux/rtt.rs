//! Linux's round-trip estimator and what it makes of the retransmission timeout.

/// Smoothed RTT, its deviation and the timeout made of them. Counts in whatever unit it is fed: microseconds in
/// modern kernels, jiffies in 3.9.
#[derive(Clone, Debug)]
pub(crate) struct Estimator {
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
    pub(crate) fn new(rto_min: u64) -> Estimator {
        Estimator { rto_min, srtt8: 0, mdev4: 0, mdev_max: rto_min, rttvar: 0, mark: 0 }
    }

    /// Takes one sample. `una` and `nxt` tell windows of data apart.
    #[inline]
    pub(crate) fn sample(&mut self, rtt: u64, una: u64, nxt: u64) {
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

    /// Raises what a first sample has made to what is known of the path: eight times its RTT and four times its deviation. The
    /// window of data ends at `nxt`.
    pub(crate) fn raise(&mut self, srtt8: u64, mdev4: u64, nxt: u64) {
        if srtt8 > self.srtt8 {
            self.srtt8 = srtt8;
            self.mark = nxt;
        }
        if mdev4 > self.mdev4 {
            self.mdev4 = mdev4;
            self.rttvar = mdev4.max(self.rto_min);
            self.mdev_max = self.rttvar;
        }
    }

    /// Four times the mean deviation.
    pub(crate) fn mdev4(&self) -> u64 {
        self.mdev4
    }

    /// Smoothed RTT; 0 before the first sample.
    #[inline]
    pub(crate) fn srtt(&self) -> u64 {
        self.srtt8 >> 3
    }

    /// Eight times the smoothed RTT; 0 before the first sample.
    #[inline]
    pub(crate) fn srtt8(&self) -> u64 {
        self.srtt8
    }

    /// Mean deviation, as TCP_INFO's `rttvar` shows it.
    pub(crate) fn deviation(&self) -> u64 {
        self.mdev4 >> 2
    }

    /// srtt + rttvar.
    #[inline]
    pub(crate) fn timeout(&self) -> u64 {
        (self.srtt8 >> 3) + self.rttvar
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
}
