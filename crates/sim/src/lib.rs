//! The event engine, topology and recorder.

pub mod scenario;
