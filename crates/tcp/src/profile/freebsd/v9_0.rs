//! FreeBSD 9.0 of January 2012: as 9.2, with a window update for every two segments read.

use super::v9_2;
use super::{Era, FreeBsd, Release, Values};
use crate::cc::freebsd::built_in;

pub(super) fn profile() -> FreeBsd {
    FreeBsd {
        spec: v9_2::spec("freebsd-9.0"),
        era: Era { updates_need_a_quarter: false, ..v9_2::ERA },
        values: Values { initcwnd_segments: 0, ..Values::common() },
        release: Release::V9_0,
        maxsockbuf_fixed: false,
        rack: None,
        modules: built_in(super::BEFORE_DCTCP),
        made_with: Default::default(),
    }
}
