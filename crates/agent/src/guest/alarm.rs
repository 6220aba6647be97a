//! Waiting for a time or for descriptors, without a look at the clock, which takes virtual time.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// A timer, and descriptors that are waited for besides.
pub(super) struct Alarm {
    timer: OwnedFd,
    polled: Vec<libc::pollfd>,
}

impl Alarm {
    /// An alarm that can be read descriptors wake as well.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn new(descriptors: &[RawFd]) -> io::Result<Alarm> {
        // SAFETY: plain call; the descriptor is new.
        let made =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made.
        let timer = unsafe { OwnedFd::from_raw_fd(made) };
        let all = [made].into_iter().chain(descriptors.iter().copied());
        let polled = all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        Ok(Alarm { timer, polled })
    }

    /// Sets the time (CLOCK_MONOTONIC) in place of the last one.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn set(&self, ns: u64) -> io::Result<()> {
        let at = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let told = libc::itimerspec { it_interval: never, it_value: at };
        // SAFETY: a time that outlives the call; the old one is not asked for.
        let failed = unsafe {
            libc::timerfd_settime(
                self.timer.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const told,
                std::ptr::null_mut(),
            )
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until the time has come or a descriptor can be read; returns whether the time has come, and whether the first of the
    /// descriptors can be read.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn wait(&mut self) -> io::Result<(bool, bool)> {
        // SAFETY: an array of that length, which outlives the call.
        let ready = unsafe { libc::poll(self.polled.as_mut_ptr(), self.polled.len() as libc::nfds_t, -1) };
        if ready < 0 {
            return Err(io::Error::last_os_error());
        }
        let is_ready = |place: usize| self.polled.get(place).is_some_and(|polled| polled.revents != 0);
        Ok((is_ready(0), is_ready(1)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use loadlatency::sys::monotonic_ns;

    use super::*;

    #[test]
    fn a_time_or_a_descriptor_ends_the_wait() {
        let (near, mut far) = io::pipe().expect("a pipe");
        let mut alarm = Alarm::new(&[near.as_raw_fd()]).expect("a timer");
        let at = monotonic_ns() + 20_000_000;
        alarm.set(at).expect("a time");
        assert_eq!(alarm.wait().expect("polled"), (true, false));
        assert!(monotonic_ns() >= at);
        alarm.set(at + 3_600_000_000_000).expect("a later time");
        far.write_all(b"x").expect("room");
        assert_eq!(alarm.wait().expect("polled"), (false, true));
    }
}
