//! Linux's stacks from outside: two endpoints over a path, beside recordings, published figures and measurements.

mod bbr;
mod hooks;
mod path;
mod recordings;
mod signatures;
mod sockets;
