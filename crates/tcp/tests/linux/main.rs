//! Linux's stacks from outside: two endpoints over a path, beside recordings, published figures and measurements.

mod accecn;
mod bbr;
mod dctcp;
mod freebsd_accecn;
mod hooks;
mod path;
mod prague;
mod signatures;
mod sockets;
