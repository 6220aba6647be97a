//! Congestion controls, by the family whose hooks and units they use.

pub mod freebsd;
pub mod linux;
pub mod windows;
