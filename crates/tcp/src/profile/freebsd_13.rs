//! FreeBSD 13.0 of April 2021: proportional rate reduction, CUBIC by RFC 8312, 40 ms delayed ACKs.

use super::freebsd::{self, Era, FreeBsd, Values};
use super::{EcnMode, Facts};
use crate::cc::freebsd::CubicEra;
use crate::clock::SECOND;
use crate::sender::freebsd::tuning::{DuplicateRule, Recovery};

pub(super) const ERA: Era = Era {
    maxseg_without_options: false,
    full_segment_with_options: false,
    abc_capped_in_avoidance: false,
    duplicates: DuplicateRule::NewSack,
    recovery: Recovery::Prr13,
    cubic: CubicEra::Rfc8312,
    modern: true,
    newest: false,
    restart_at_initial_window: true,
    updates_need_a_quarter: true,
    reassembly_limited: false,
};

pub(super) const VALUES: Values = Values { delacktime: 40, do_prr: 1, ..Values::common() };

pub(super) fn facts(name: &'static str, inferred: bool) -> Facts {
    Facts {
        ecn: EcnMode::Accept,
        syn_timeouts: freebsd::new_syn_timeouts(),
        synack_timeouts: freebsd::synack_timeouts(SECOND),
        ..freebsd::facts(name, inferred)
    }
}

pub(super) fn profile() -> FreeBsd {
    FreeBsd {
        facts: facts("freebsd-13", false),
        era: ERA,
        values: VALUES,
        names: freebsd::common_names![
            "net.inet.tcp.initcwnd_segments",
            "net.inet.tcp.do_prr",
            "net.inet.tcp.do_prr_conservative",
            "net.inet.tcp.rfc6675_pipe",
            "net.inet.tcp.newcwv",
            "net.inet.tcp.cc.abe",
            "net.inet.tcp.cc.abe_frlossreduce",
            "net.inet.tcp.cc.newreno.beta",
            "net.inet.tcp.cc.newreno.beta_ecn",
        ],
        maxsockbuf_fixed: false,
    }
}
