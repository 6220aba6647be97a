//! The run's time: CLOCK_MONOTONIC, from a zero that is told a little ahead.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::{SystemTime, UNIX_EPOCH};

use loadlatency::sys::monotonic_ns;

/// A time of the run, ns; below zero before it begins.
pub(crate) type RunTime = i64;

/// The run's clock.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    zero: OnceLock<u64>,
    told: (Mutex<()>, Condvar),
}

impl Clock {
    /// The run begins when CLOCK_MONOTONIC says so. Only the first telling counts.
    pub(crate) fn begin(&self, zero_ns: u64) {
        let held = locked(&self.told.0);
        // A second zero would be another run.
        let _ = self.zero.set(zero_ns);
        drop(held);
        self.told.1.notify_all();
    }

    /// ns since the start of the run.
    pub(crate) fn now(&self) -> RunTime {
        let zero = self.zero.get().copied().unwrap_or(u64::MAX);
        i64::try_from(i128::from(monotonic_ns()) - i128::from(zero)).unwrap_or(i64::MIN)
    }

    /// Time of the run, in ns. Zero before the run begins.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.now()).unwrap_or(0)
    }

    /// Waits for a time of the run, once its beginning is known.
    pub(crate) fn sleep_until(&self, at: RunTime) {
        let mut held = locked(&self.told.0);
        while self.zero.get().is_none() {
            held = self.told.1.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        drop(held);
        while let Ok(left @ 1..) = u64::try_from(at.saturating_sub(self.now())) {
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

/// CLOCK_REALTIME when CLOCK_MONOTONIC says so, in ns; asked by the process of a guest alone.
#[cfg(target_os = "linux")]
pub(crate) fn real_time_of(monotonic: u64) -> u64 {
    let (before, real, after) = (monotonic_ns(), SystemTime::now(), monotonic_ns());
    let real = real.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    (real + monotonic).saturating_sub(before.midpoint(after))
}

/// Locks what threads share. What one that panicked left is still good: numbers and lists whose entries are whole.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
