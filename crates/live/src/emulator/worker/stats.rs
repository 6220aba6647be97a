//! What a thread counts of its own work.

use contract::histogram::Histogram;

/// Counters of a thread's own work since t = 0.
#[derive(Debug)]
pub(in crate::emulator) struct Stats {
    pub(in crate::emulator) packets: u64,
    pub(in crate::emulator) bytes: u64,
    pub(in crate::emulator) other_frames: u64,
    /// Lateness of each packet.
    pub(in crate::emulator) late: Histogram,
    /// Packets that left later than [`crate::emulator::LATE`].
    pub(in crate::emulator) too_late: u64,
    pub(in crate::emulator) socket_drops: u64,
    pub(in crate::emulator) unintended_drops: u64,
    /// Times that an interface went down or away.
    pub(in crate::emulator) failures: u64,
}

impl Stats {
    /// Adds what another thread counted.
    pub(in crate::emulator) fn merge(&mut self, other: &Stats) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.other_frames += other.other_frames;
        self.late.merge(&other.late);
        self.too_late += other.too_late;
        self.socket_drops += other.socket_drops;
        self.unintended_drops += other.unintended_drops;
        self.failures += other.failures;
    }

    pub(in crate::emulator) fn new() -> Stats {
        Stats {
            packets: 0,
            bytes: 0,
            other_frames: 0,
            late: Histogram::new(6),
            too_late: 0,
            socket_drops: 0,
            unintended_drops: 0,
            failures: 0,
        }
    }
}
