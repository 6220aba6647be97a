//! Hops between hosts: links, shapers, queue disciplines, impairments, switches.
//!
//! Nothing here knows TCP, nor a clock other than the `now` that is handed in (nanoseconds). Everything is generic over [`Packet`].

mod config;
mod link;
mod packet;
mod prefetch;
pub mod queue;
pub mod random;
mod switch;

pub use config::{ConfigError, JitterConfig, JitterKind, LossConfig, PeakConfig, ShaperConfig};
pub use link::{Counters, Link, LinkChange, LinkConfig, Mode};
pub use packet::{DropReason, Ecn, Nanos, Output, Packet};
pub use params::{Carried, Kind, Param, Unit};
pub use prefetch::prefetch;
pub use queue::configs::*;
pub use queue::{FlowMode, QueueConfig, catalogue};
pub use rand_xoshiro::Xoshiro256PlusPlus;
pub use random::{exponential, pareto, stream, uniform};
pub use switch::{PauseConfig, Switch, SwitchConfig};
