//! FreeBSD main of spring 2025 on both sides of the change of CUBIC to RFC 9438.

use super::v13;
use super::{Era, FreeBsd, Release, Values};
use crate::accecn::Settings;
use crate::cc::freebsd::{CubicEra, built_in};
use crate::peers;
use crate::sender::freebsd::tuning::{DuplicateRule, Recovery};
use crate::sender::rack::{RackTuning, SackFilterKind};
use crate::stack::{Family, StackSpec, StateRules};

const ERA: Era = Era {
    duplicates: DuplicateRule::NewSackOrBytes,
    recovery: Recovery::Prr15,
    cubic: CubicEra::Rfc8312Micros,
    since_15: true,
    ..v13::ERA
};

fn with(name: &'static str, inferred: bool, era: Era) -> FreeBsd {
    FreeBsd {
        spec: {
            let spec = v13::spec(name, inferred);
            let rules = StateRules { udp_encapsulation: true, ..spec.rules };
            let peers = peers::Settings { style: peers::Style::FreeBsdAfterTimeWait, ..spec.peers };
            StackSpec { cc: super::CUBIC_FIRST, accecn: Settings::FREEBSD, rules, peers, ..spec }
        },
        era,
        values: Values { rfc6675_pipe: 1, lrd: 1, sack_tso: 1, ..v13::VALUES },
        release: Release::V15,
        maxsockbuf_fixed: false,
        rack: None,
        modules: built_in(super::CUBIC_FIRST),
        made_with: Default::default(),
    }
}

/// FreeBSD main of 21 March 2025, before CUBIC changed to RFC 9438, but with the CUBIC of before review D46546: the
/// last one recorded.
pub(super) fn current() -> FreeBsd {
    with("freebsd-15-current", false, ERA)
}

/// FreeBSD main of 21 March 2025 with CUBIC as of review D46546. Main of that day had it by its date, but the
/// recordings were made without it.
pub(super) fn d46546() -> FreeBsd {
    with("freebsd-15-d46546", true, Era { cubic: CubicEra::Rfc8312Reno, ..ERA })
}

/// FreeBSD main of 21 March 2025 with CUBIC as of review D49540.
pub(super) fn d49540() -> FreeBsd {
    with("freebsd-15-d49540", true, Era { cubic: CubicEra::Rfc9438, ..ERA })
}

/// The RACK stack beside the default stack of `current`.
pub(super) fn current_rack() -> FreeBsd {
    rack("freebsd-15-current/rack", current())
}

/// The RACK stack beside CUBIC as of review D46546.
pub(super) fn d46546_rack() -> FreeBsd {
    rack("freebsd-15-d46546/rack", d46546())
}

/// The RACK stack after the change.
pub(super) fn d49540_rack() -> FreeBsd {
    rack("freebsd-15-d49540/rack", d49540())
}

fn rack(name: &'static str, base: FreeBsd) -> FreeBsd {
    FreeBsd {
        spec: StackSpec { name, family: Family::FreeBsdRack, ..base.spec },
        release: Release::Rack15,
        rack: Some(RackTuning {
            milliseconds: false,
            wheel: None,
            threshold_by_packet_delay: false,
            paces_when_measured: false,
            paces_after_retransmission: false,
            sack_filter: SackFilterKind::Islands,
            timer_costs_credit: true,
            pipe_without_lost: true,
            exit_raises_window: true,
            timeout_spares_window: true,
            undoes_recovery: false,
            sacks_count_as_duplicates: false,
            credit_segments: Some(2),
            spares_cwnd_at_low_delay: false,
            abc_capped: true,
            undoes_timeouts: true,
            needs_sack: false,
            recovery_hides_probes: false,
            burst_segments: 40,
            probe_delayed_ack_ms: 40,
            rto_max_ms: 4000,
        }),
        ..base
    }
}
