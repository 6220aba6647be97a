//! FreeBSD 9.2 of September 2013: initial window by RFC 3390, 100 ms delayed ACKs, recovery from one segment.

use super::{Era, FreeBsd, Release, Values};
use crate::cc::freebsd::{CubicEra, built_in};
use crate::sender::freebsd::tuning::{DuplicateRule, Recovery};
use crate::stack::{StackSpec, StateRules};

pub(super) const ERA: Era = Era {
    maxseg_without_options: true,
    persists_when_closed: false,
    full_segment_with_options: false,
    abc_capped_in_avoidance: true,
    duplicates: DuplicateRule::SameWindow,
    recovery: Recovery::FromOneSegment,
    cubic: CubicEra::Draft02,
    since_12: false,
    since_15: false,
    restart_at_initial_window: true,
    updates_need_a_quarter: true,
    reassembly_limited: true,
};

/// net.inet.tcp.rexmit_drop_options is 1, as TEACUP's hosts list it.
pub(super) fn spec(name: &'static str) -> StackSpec {
    StackSpec {
        cc: super::BEFORE_DCTCP,
        rules: StateRules { rexmit_drop_options: true, ..StateRules::FREEBSD },
        ..super::spec(name, false)
    }
}

pub(super) fn profile() -> FreeBsd {
    FreeBsd {
        spec: spec("freebsd-9.2"),
        era: ERA,
        values: Values { initcwnd_segments: 0, ..Values::common() },
        release: Release::V9_2,
        maxsockbuf_fixed: false,
        rack: None,
        modules: built_in(super::BEFORE_DCTCP),
        made_with: Default::default(),
    }
}
