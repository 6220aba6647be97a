//! Planted bugs, for tests of the tests: compiled only with the feature `mutants`, and asleep until a test wakes one.
//!
//! Where the real code can be made wrong it asks [`mutant!`](crate::mutants), which is false without the feature.

/// Whether the planted bug of this name is awake on this thread.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::awake($crate::mutants::Mutant::$name)
    };
}

/// Without the feature there are no planted bugs.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

pub(crate) use mutant;

#[cfg(feature = "mutants")]
pub use planted::{Mutant, awake, wake};

#[cfg(feature = "mutants")]
mod planted {
    use std::cell::Cell;

    /// What is wrong while it is awake.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mutant {
        /// Reassembly takes a hole of one byte for none.
        HoleOfOneByte,
        /// Sequence numbers are extended as if they never wrapped.
        NoWrap,
        /// Nothing probes a closed window, and nothing is sent again into one.
        NoPersist,
        /// Data that arrives twice is handed to the application twice.
        DeliveredTwice,
    }

    thread_local! {
        static AWAKE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Wakes a planted bug on this thread, or with None puts the one that is awake to sleep.
    pub fn wake(mutant: Option<Mutant>) {
        AWAKE.set(mutant);
    }

    /// Whether it is awake on this thread.
    pub fn awake(mutant: Mutant) -> bool {
        AWAKE.get() == Some(mutant)
    }
}
