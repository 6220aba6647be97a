//! Congestion controls of Windows: the delay-based part of Compound TCP.

mod compound;

pub use compound::Compound;
