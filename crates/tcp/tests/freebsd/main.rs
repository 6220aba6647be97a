//! FreeBSD's model against recordings of FreeBSD: the congestion-control modules alone, and whole stacks.

mod groundtruth;
mod lab;
mod recordings;
mod summary;
mod vectors;
