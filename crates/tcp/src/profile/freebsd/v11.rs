//! FreeBSD 11.0 of October 2016: initial window of ten segments, windows in units of the MSS without options taken off.

use super::v9_2;
use super::{Era, FreeBsd, Release, Values};
use crate::cc::freebsd::{DctcpTuning, built_in};
use crate::sender::freebsd::tuning::DuplicateRule;
use crate::stack::{EcnMode, StackSpec};

pub(super) fn profile() -> FreeBsd {
    FreeBsd {
        spec: StackSpec { ecn: EcnMode::Accept, ..super::spec("freebsd-11", false) },
        era: Era {
            maxseg_without_options: false,
            persists_when_closed: true,
            full_segment_with_options: true,
            duplicates: DuplicateRule::NewSack,
            restart_at_initial_window: false,
            reassembly_limited: false,
            ..v9_2::ERA
        },
        values: Values { dctcp: DctcpTuning { alpha: 0, ..DctcpTuning::DEFAULT }, ..Values::common() },
        release: Release::V11,
        maxsockbuf_fixed: false,
        rack: None,
        modules: built_in(super::NEWRENO_FIRST),
        made_with: Default::default(),
    }
}
