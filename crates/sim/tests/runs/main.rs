//! Whole runs of the engine: the same however hops are carried out, the same as yesterday, and recorded truly; and what
//! is no run.

mod anything;
mod bbr3;
mod captures;
mod cheats;
mod fast_open;
mod fast_paths;
mod fragments;
mod fused_equals_stepped;
mod golden;
#[cfg(feature = "quinn")]
mod guests;
mod host_fq;
mod ip_versions;
mod kinds;
mod media;
mod milestones;
#[cfg(feature = "smoltcp")]
mod packet_guests;
mod peers;
mod refusals;
mod rows;
mod stepping;
mod support;
mod syn_cookies;
