//! What can be wrong with a capture, or with what is asked of it.

/// The most TCP packets of one capture: some 6 GB of columns.
pub const MAX_PACKETS: u64 = 1 << 26;

/// The most connections of one capture.
pub const MAX_CONNECTIONS: usize = 1 << 20;

/// The most steps of counted windows, 128 MiB of counters.
pub const MAX_STEPS: u64 = 1 << 24;

/// Reason why a capture cannot be held in memory, or is not counted in such windows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Capture that cannot be read, is none, or contradicts itself.
    #[error(transparent)]
    Read(#[from] wire::capture::Error),
    /// Capture that is too large.
    #[error("more than {MAX_PACKETS} packets or {MAX_CONNECTIONS} connections, which is all that is held")]
    TooLarge,
    /// Width or step that is 0, or a width that is not a multiple of the step.
    #[error("a window of {width_ns} ns is not a multiple of its step of {step_ns} ns")]
    Width {
        /// Width of a window.
        width_ns: u64,
        /// Time from a window's beginning to the next one's, in ns.
        step_ns: u64,
    },
    /// The steps are too short for so long a time.
    #[error("{count} steps of {step_ns} ns are more than {MAX_STEPS}; choose a longer step")]
    Steps {
        /// Number of steps that there would be.
        count: u64,
        /// Length of a step, in ns.
        step_ns: u64,
    },
}
