//! Constants of the built-in congestion controls that an experiment may change, though the real systems have no knobs for them.

use crate::{Param, Unit};

crate::kinds! {
    /// Constants of a built-in congestion control that an experiment changes.
    pub enum CcParams {
        /// CUBIC, of FreeBSD and of Linux.
        Cubic: "cubic" {
            /// Part of the window that a loss leaves; K, fast convergence and the Reno-friendly window follow it.
            beta: Option<u64> = beta(),
            /// C, which scales the cubic, in packets/s^3.
            c: Option<u64> = Param::new("c", Unit::Milli).range(1, 10_000).otherwise("the system's: 0.4"),
            /// Whether W_max shrinks after a loss below the last one.
            fast_convergence: Option<bool> = Param::flag("fast_convergence").otherwise("true"),
        }
        /// NewReno of FreeBSD.
        NewReno: "newreno" {
            /// Part of the window that a loss leaves, to a hundredth.
            beta: Option<u64> = beta(),
        }
        /// Reno of Linux.
        Reno: "reno" {
            /// Part of the window that a loss leaves.
            beta: Option<u64> = beta(),
        }
    }
}

const fn beta() -> Param {
    Param::new("beta", Unit::Milli).range(100, 990).otherwise("the system's")
}

impl CcParams {
    /// The congestion control that it is about.
    pub fn kind(&self) -> &'static str {
        match self {
            CcParams::Cubic { .. } => "cubic",
            CcParams::NewReno { .. } => "newreno",
            CcParams::Reno { .. } => "reno",
        }
    }
}
