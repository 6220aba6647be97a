//! FreeBSD 9.0 of January 2012: as 9.2, with a window update for every two segments read.

use super::freebsd::{self, Era, FreeBsd, Values};
use super::freebsd_9_2;

pub(super) fn profile() -> FreeBsd {
    FreeBsd {
        facts: freebsd::facts("freebsd-9.0", false),
        era: Era { updates_need_a_quarter: false, ..freebsd_9_2::ERA },
        values: Values { initcwnd_segments: 0, ..Values::common() },
        names: freebsd::common_names!["net.inet.tcp.recvbuf_inc", "net.inet.tcp.slowstart_flightsize"],
        maxsockbuf_fixed: false,
        rack: None,
    }
}
