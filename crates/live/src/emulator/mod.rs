//! The path emulator: the links of a Scenario in real time, between network interfaces of this host.
//!
//! Every cable of the experiment is two veth pairs' near ends, `a` and `b`, in one network namespace that holds nothing
//! else; their far ends are the hosts' and routers' interfaces. What comes in at `a` goes through the link `forward` of
//! the Scenario and out of `b`, what comes in at `b` through `reverse` and out of `a`. The links are those of the
//! `path` crate, the very code that the simulator runs, handed the time at which the kernel took each packet in; so a
//! packet's departure is computed exactly, and what real time adds is only how late it is sent, which is measured for
//! every packet (its report).
//!
//! Only IP goes through links. Frames that keep a network together (ARP, IPv6 neighbour and multicast listener
//! discovery) cross a cable at once, and neither rates nor loss rules count them.
//!
//! The namespace needs no address and no route: give its interfaces no IPv6 (`disable_ipv6`), set them up, and leave
//! forwarding off. No kernel state is made but sockets and one timer's worth of scheduling policy of its own threads, so
//! nothing is left when the process dies.
//!
//! # Order of calls
//!
//! `Emulator::new` checks a `Config`; `Emulator::start` opens the sockets and lets packets through, and gives the
//! time (CLOCK_MONOTONIC) that is t = 0. `Emulator::mark_start` moves t = 0, so that a run can begin once all is set
//! up: records before it are dropped, counters and loss rules start again, and changes of the schedule come at their
//! times after it. `Emulator::stop` gives the records and a report.

mod config;

pub use config::{Cable, Capture, Config, FlowKey};
