//! TCP segments, options, checksums, sequence arithmetic, range sets; pcap and pcapng files.

pub mod capture;
pub mod checksum;
pub mod codec;
pub mod datagram;
pub mod fast_open;
mod ranges;
pub mod segment;
pub mod seq;

pub use capture::{pcap, pcapng};
pub use fast_open::Cookie;
pub use ranges::RangeSet;
pub use segment::{AccEcnCounters, Ecn, Flags, Options, SackBlocks, Segment};
