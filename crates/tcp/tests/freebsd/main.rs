//! FreeBSD's model against recordings of FreeBSD: the congestion-control modules alone, and whole stacks.

mod drawn;
mod groundtruth;
mod hooks;
mod hosts;
mod lab;
mod losses;
mod recordings;
mod replay;
mod signatures;
mod summary;
mod transfers;
mod vectors;
