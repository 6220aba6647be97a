//! A flow and a ping for tests of the metrics that are made of them.

use super::observed::{Direction, End, Ping, Transfer};

/// Ten seconds of 1 MiB a second without a gap, over a connection that tells nothing of itself.
pub fn transfer(direction: Direction) -> Transfer {
    Transfer {
        name: "f".to_owned(),
        direction,
        dscp: 0,
        start_ns: 0,
        end_ns: 10_000_000_000,
        bytes: 10 << 20,
        longest_gap_ns: 1,
        killed: None,
        bins: Vec::new(),
        sender: End::default(),
        receiver: End::default(),
    }
}

/// An answered ping to a server whose clock is not known.
pub fn ping(t_ns: u64, rtt_ns: u64) -> Ping {
    Ping { answered: true, ..Ping::unanswered(t_ns, rtt_ns) }
}
