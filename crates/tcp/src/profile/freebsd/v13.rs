//! FreeBSD 13.0 of April 2021: proportional rate reduction, CUBIC by RFC 8312, 40 ms delayed ACKs.

use super::{Era, FreeBsd, Release, Values};
use crate::cc::freebsd::{CubicEra, built_in};
use crate::clock::SECOND;
use crate::sender::freebsd::tuning::{DuplicateRule, Recovery};
use crate::sender::rack::{RackTuning, SackFilterKind, WheelTimers};
use crate::stack::{EcnMode, Family, StackSpec, StateRules};

pub(super) const ERA: Era = Era {
    maxseg_without_options: false,
    persists_when_closed: true,
    full_segment_with_options: false,
    abc_capped_in_avoidance: false,
    duplicates: DuplicateRule::NewSack,
    recovery: Recovery::Prr13,
    cubic: CubicEra::Rfc8312,
    since_12: true,
    since_15: false,
    restart_at_initial_window: true,
    updates_need_a_quarter: true,
    reassembly_limited: false,
};

pub(super) const VALUES: Values = Values { delacktime: 40, do_prr: 1, ..Values::common() };

pub(super) fn spec(name: &'static str, inferred: bool) -> StackSpec {
    StackSpec {
        ecn: EcnMode::Accept,
        fast_open: crate::fast_open::Settings::FREEBSD,
        syn_timeouts: super::new_syn_timeouts(),
        synack_timeouts: super::synack_timeouts(SECOND),
        rules: StateRules { window_edge_unscaled: false, ..StateRules::FREEBSD },
        ..super::spec(name, inferred)
    }
}

pub(super) fn profile() -> FreeBsd {
    FreeBsd {
        spec: spec("freebsd-13", false),
        era: ERA,
        values: VALUES,
        release: Release::V13,
        maxsockbuf_fixed: false,
        rack: None,
        modules: built_in(super::NEWRENO_FIRST),
        made_with: Default::default(),
    }
}

/// The RACK stack of FreeBSD 13.0.
pub(super) fn rack() -> FreeBsd {
    let base = profile();
    FreeBsd {
        spec: StackSpec { name: "freebsd-13/rack", family: Family::FreeBsdRack, ..base.spec },
        rack: Some(RackTuning {
            milliseconds: true,
            wheel: Some(WheelTimers::Exact),
            threshold_by_packet_delay: true,
            paces_when_measured: true,
            paces_after_retransmission: true,
            sack_filter: SackFilterKind::LastAck,
            timer_costs_credit: false,
            pipe_without_lost: false,
            exit_raises_window: false,
            timeout_spares_window: false,
            undoes_recovery: true,
            sacks_count_as_duplicates: true,
            credit_segments: None,
            spares_cwnd_at_low_delay: true,
            abc_capped: false,
            undoes_timeouts: false,
            needs_sack: true,
            recovery_hides_probes: true,
            burst_segments: 40,
            probe_delayed_ack_ms: 200,
            rto_max_ms: 4000,
        }),
        ..base
    }
}
