//! System calls that more than one part needs: namespaces, priority, the clock, a wake-up.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use path::Nanos;

/// Folder where `ip netns` keeps its namespaces.
const NAMESPACES: &str = "/run/netns";
/// Priority among real-time threads: enough to run before everything that is not one.
const PRIORITY: libc::c_int = 10;

/// The result of a call of the C library, as Rust has it.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The descriptor that a call made.
///
/// # Safety
/// `result` is what a call returned that makes a descriptor, which nobody else owns.
pub(crate) unsafe fn own(result: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of a socket.
pub(crate) fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value lives through the call and has the length given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const *value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Moves the calling thread into the network namespace of that name under /run/netns, or of that path; None: it stays.
///
/// # Errors
/// There is none, or not enough rights; with its name.
pub(crate) fn enter(namespace: Option<&str>) -> io::Result<()> {
    let Some(namespace) = namespace else { return Ok(()) };
    let path = if namespace.contains('/') {
        PathBuf::from(namespace)
    } else {
        PathBuf::from(NAMESPACES).join(namespace)
    };
    let named = |error: io::Error| about(&format!("network namespace {namespace}"), &error);
    let file = File::open(path).map_err(named)?;
    // SAFETY: plain call; it changes only the calling thread's namespace.
    check(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop).map_err(named)
}

/// An error that says what it is about.
pub(crate) fn about(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Lets the calling thread run before ordinary ones and wake without slack, where that is allowed: packets have to leave
/// in time. Whether it is.
pub(crate) fn run_before_others() -> bool {
    run_with(PRIORITY)
}

/// Lets the calling thread run before most, behind those that run before all others. Whether it does.
pub(crate) fn run_before_most() -> bool {
    run_with(PRIORITY / 2)
}

fn run_with(priority: libc::c_int) -> bool {
    // SAFETY: plain call that takes its arguments by value; timers of this thread may be late by 1 ns.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    // As the system call itself: musl has a function that always fails.
    // SAFETY: sched_param of the kernel is its priority, which outlives the call; 0 is the calling thread. Without the
    // right, nothing changes.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) == 0 }
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Nanos {
    clock(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME, by which the kernel stamps packets.
pub(crate) fn realtime() -> Nanos {
    clock(libc::CLOCK_REALTIME)
}

fn clock(which: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec. These clocks exist everywhere.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// A length of time as the kernel takes it.
pub(crate) fn timespec(ns: Nanos) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Wakes a thread that polls it.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        // SAFETY: plain call; the descriptor is new.
        unsafe { own(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }.map(Waker)
    }

    pub(crate) fn wake(&self) {
        // SAFETY: plain call. It fails only after 2^64 - 2 calls that nobody looked at.
        unsafe { libc::eventfd_write(self.0.as_raw_fd(), 1) };
    }

    /// Waits until it is woken, at most so long.
    pub(crate) fn wait(&self, ns: Nanos) {
        let mut entry = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = timespec(ns);
        // SAFETY: one entry and a timeout that live through the call; no signal mask.
        unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) };
    }

    pub(crate) fn clear(&self) {
        let mut count = 0;
        // SAFETY: the kernel writes one number; with nothing to read it fails, which does not matter.
        unsafe { libc::eventfd_read(self.0.as_raw_fd(), &raw mut count) };
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> libc::c_int {
        self.0.as_raw_fd()
    }
}
