//! Events that the versions of BBR tell of themselves: each phase as it begins, and what of their model has changed by then.

use super::Core;
use super::bbr_model::BW_SCALE;
use crate::event::{EventKind, NO_VALUE};

/// Model of the path as it is told. None: there is no such bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    /// Bandwidths in packets per microsecond times 2^24.
    pub bw_hi: Option<u64>,
    pub bw_lo: Option<u64>,
    /// Packets.
    pub inflight_hi: Option<u32>,
    pub inflight_lo: Option<u32>,
    /// Microseconds.
    pub min_rtt: Option<u32>,
}

/// Model that was told last.
#[derive(Debug, Default)]
pub(super) struct Teller {
    told: Model,
}

impl Teller {
    /// Tells that a phase begins, and the model with it.
    #[cold]
    pub(super) fn phase(&mut self, core: &mut Core, phase: EventKind, model: Model) {
        core.told.push((phase, i64::from(core.cwnd) * i64::from(core.mss)));
        self.model(core, model);
    }

    /// Tells what has changed of the model.
    #[cold]
    pub(super) fn model(&mut self, core: &mut Core, model: Model) {
        let before = std::mem::replace(&mut self.told, model);
        let mss = u64::from(core.mss);
        let bytes = |packets: Option<u32>| packets.map(|packets| u64::from(packets) * mss);
        let rate = |bw: Option<u64>| {
            bw.map(|bw| ((u128::from(bw) * u128::from(mss) * 8_000_000) >> BW_SCALE) as u64)
        };
        let ns = |us: Option<u32>| us.map(|us| u64::from(us) * 1000);
        for (kind, before, now) in [
            (EventKind::BbrBwHi, rate(before.bw_hi), rate(model.bw_hi)),
            (EventKind::BbrBwLo, rate(before.bw_lo), rate(model.bw_lo)),
            (EventKind::BbrInflightHi, bytes(before.inflight_hi), bytes(model.inflight_hi)),
            (EventKind::BbrInflightLo, bytes(before.inflight_lo), bytes(model.inflight_lo)),
            (EventKind::BbrMinRtt, ns(before.min_rtt), ns(model.min_rtt)),
        ] {
            if now != before {
                core.told.push((kind, now.map_or(NO_VALUE, |value| value as i64)));
            }
        }
    }
}
