//! The event engine, topology and recorder.

pub mod scenario;
pub mod table;
