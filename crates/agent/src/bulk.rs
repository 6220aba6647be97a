//! Bulk transfer with few system calls: both ends wait in the kernel, which moves as much as there is.
//!
//! In a guest in virtual time (`guest`) a system call is what costs, some ten times what a packet does. The kernel does the
//! same for these ends as for ends that read and write at once whatever there is: they take no time in between.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use units::SECOND;

use crate::error::Result;
use crate::metrics::Metrics;
use crate::order::Task;
use crate::socket::{Listener, connect};
use crate::sys;

/// The most bytes of one write.
const LONGEST_WRITE: usize = 4 << 20;
/// The most that one read waits for, which none reaches.
const READ: usize = 1 << 30;

/// Sends `bytes` (None: without an end) from the flow's time on until it is told to stop, `write` bytes at once; then waits for the
/// other end.
///
/// # Errors
/// Any failure of the connection.
pub(crate) fn send(task: &Task, bytes: Option<u64>, write: u64, metrics: &Metrics) -> Result<()> {
    metrics.clock.sleep_until(task.start_ns as i64);
    let stream = Arc::new(connect(task, true, metrics)?);
    let stopped = Arc::new(AtomicBool::new(false));
    if task.stop_ns < metrics.duration() {
        let (stream, stopped) = (Arc::clone(&stream), Arc::clone(&stopped));
        let (clock, stop) = (Arc::clone(&metrics.clock), task.stop_ns);
        thread::Builder::new().spawn(move || {
            clock.sleep_until(stop as i64);
            stopped.store(true, Ordering::Release);
            // It may be closed already.
            let _ = stream.shutdown(std::net::Shutdown::Write);
        })?;
    }
    let longest = usize::try_from(write).unwrap_or(LONGEST_WRITE).min(LONGEST_WRITE);
    let filler = vec![0; longest];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 && !stopped.load(Ordering::Acquire) {
        let piece = usize::try_from(left).unwrap_or(longest).min(longest);
        match sys::send(&stream, &filler[..piece]) {
            Ok(count) => left -= if bytes.is_some() { count as u64 } else { 0 },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && stopped.load(Ordering::Acquire) => {
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !stopped.load(Ordering::Acquire) {
        stream.shutdown(std::net::Shutdown::Write)?;
    }
    while sys::discard(&stream, READ)? > 0 {}
    Ok(())
}

/// Receives until the other end has closed, and notes how much came in each second and in the measurement window.
///
/// # Errors
/// Any failure of the connection.
pub(crate) fn receive(listener: &Listener, metrics: &Metrics) -> Result<()> {
    let stream = Arc::new(listener.accept()?);
    let counted = Arc::new(Counted::default());
    let (watched, watching, seen) = (Arc::clone(&stream), Arc::clone(&counted), metrics.clone());
    thread::Builder::new().spawn(move || watch(&watched, &watching, &seen))?;
    let mut total = 0;
    loop {
        let count = sys::discard(&stream, READ)?;
        total += count as u64;
        if count < READ {
            let now = metrics.clock.now_ns();
            counted.over.store(true, Ordering::Release);
            counted.up_to(now, total, metrics);
            metrics.ended(now, now);
            return Ok(());
        }
    }
}

/// Counts up to now.
#[derive(Debug, Default)]
struct Counted {
    bytes: AtomicU64,
    over: AtomicBool,
}

impl Counted {
    /// Counts a total of bytes that were read before a time.
    fn up_to(&self, time: u64, total: u64, metrics: &Metrics) {
        let before = self.bytes.fetch_max(total, Ordering::AcqRel);
        metrics.took_before(time, total.saturating_sub(before));
    }
}

/// Counts at the end of each second and at both edges of the window; the kernel knows what was received.
fn watch(stream: &TcpStream, counted: &Counted, metrics: &Metrics) {
    let mut edges = metrics.window().to_vec();
    edges.push(metrics.duration());
    loop {
        let now = metrics.clock.now_ns();
        let second = (now / SECOND + 1) * SECOND;
        let next = edges.iter().copied().filter(|edge| *edge > now).min();
        let Some(next) = next.map(|edge| edge.min(second)) else { return };
        metrics.clock.sleep_until(next as i64);
        let Ok(received) = sys::bytes_received(stream.as_raw_fd()) else { return };
        if counted.over.load(Ordering::Acquire) {
            return;
        }
        counted.up_to(next, received, metrics);
    }
}
