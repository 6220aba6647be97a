//! Capacity, responsiveness and smoothness of a link under load, as Jonathan Morton's loadlatency defined them in 2011
//! (bloat-devel, 21 March 2011): the mixes of flows, the figures of each, and what they come to.
//!
//! The two ends that carry out the flows are not here yet; see docs/limitations.md.

pub mod classic;
pub mod measure;

pub use measure::{Flows, Measured, Overall, SCENARIOS};
