//! A TCP endpoint without I/O: time is handed in, segments go in and come out.

pub mod clock;
pub mod event;
pub mod profile;
pub mod receiver;
pub mod sender;
