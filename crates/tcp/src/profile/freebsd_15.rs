//! FreeBSD main of spring 2025 on both sides of the change of CUBIC to RFC 9438.

use super::freebsd::{self, Era, FreeBsd, Values};
use super::{Facts, freebsd_13};
use crate::cc::freebsd::CubicEra;
use crate::sender::freebsd::tuning::{DuplicateRule, Recovery};

const ERA: Era = Era {
    duplicates: DuplicateRule::NewSackOrBytes,
    recovery: Recovery::Prr15,
    cubic: CubicEra::Rfc8312Micros,
    newest: true,
    ..freebsd_13::ERA
};

fn with(name: &'static str, inferred: bool, era: Era) -> FreeBsd {
    FreeBsd {
        facts: Facts { cc: freebsd::CUBIC_FIRST, ..freebsd_13::facts(name, inferred) },
        era,
        values: Values { rfc6675_pipe: 1, lrd: 1, sack_tso: 1, ..freebsd_13::VALUES },
        names: freebsd::common_names![
            "net.inet.tcp.initcwnd_segments",
            "net.inet.tcp.do_prr",
            "net.inet.tcp.do_prr_conservative",
            "net.inet.tcp.sack.revised",
            "net.inet.tcp.sack.lrd",
            "net.inet.tcp.sack.tso",
            "net.inet.tcp.newcwv",
            "net.inet.tcp.cc.abe",
            "net.inet.tcp.cc.abe_frlossreduce",
            "net.inet.tcp.cc.newreno.beta",
            "net.inet.tcp.cc.newreno.beta_ecn",
        ],
        maxsockbuf_fixed: false,
    }
}

/// Main of 21 March 2025, before the change.
pub(super) fn current() -> FreeBsd {
    with("freebsd-15-current", false, ERA)
}

/// After it (review D49540).
pub(super) fn d49540() -> FreeBsd {
    with("freebsd-15-d49540", true, Era { cubic: CubicEra::Rfc9438, ..ERA })
}
