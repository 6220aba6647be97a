//! Hops between hosts: links, shapers, queue disciplines, impairments, switches.
//!
//! Knows no TCP, and no clock but the `now` it is handed (nanoseconds). Everything is generic over [`Packet`].

mod config;
mod link;
pub mod near;
mod packet;
pub mod queue;
pub mod random;
mod switch;

pub use config::{JitterConfig, JitterKind, LossConfig, ShaperConfig};
pub use link::{Counters, Link, LinkChange, LinkConfig, Mode};
pub use packet::{DropReason, Ecn, Nanos, Output, Packet};
pub use queue::{CakeConfig, Dualpi2Config, FlowMode, FqCodelConfig, FqPieConfig, PieConfig, RedConfig};
pub use queue::{Param, QueueConfig, QueueKind, catalogue};
pub use rand_xoshiro::Xoshiro256PlusPlus;
pub use random::stream;
pub use switch::{PauseConfig, Switch, SwitchConfig};
