//! A controller without a kernel behind Linux's hooks.

use std::sync::Arc;

use tcp::cc::Lifecycle;
use tcp::cc::linux::{AckSample, Cause, CongestionControl, Core, INFINITE_SSTHRESH, Module};
use tcp::linux_config::Shared;

use super::{Event, Flow, Running, Seat};

pub(super) struct OnHost(pub Arc<Seat>);

impl Lifecycle for OnHost {}

impl Module for OnHost {
    fn connect(&self, config: &Shared) -> Box<dyn CongestionControl> {
        let random = 0;
        Box::new(Connection { running: Running::new(&self.0, random), config: config.clone(), rtt_us: 0 })
    }
}

struct Connection {
    running: Running,
    config: Shared,
    /// Newest round trip; 0: none yet.
    rtt_us: u32,
}

impl Connection {
    fn flow(&self, core: &Core, acked: u32) -> Flow {
        let mss = f64::from(core.mss.max(1));
        let ssthresh =
            if core.ssthresh == INFINITE_SSTHRESH { f64::INFINITY } else { f64::from(core.ssthresh) * mss };
        Flow {
            cwnd: f64::from(core.cwnd) * mss,
            ssthresh,
            mss,
            srtt: core.srtt8_us as f64 / 8e6,
            min_rtt: if core.min_rtt_us == u32::MAX { 0.0 } else { f64::from(core.min_rtt_us) / 1e6 },
            rtt: f64::from(self.rtt_us) / 1e6,
            acked: f64::from(acked) * mss,
            in_flight: f64::from(core.in_flight()) * mss,
            ..Flow::default()
        }
    }
}

/// Whole segments, at least one.
fn packets(bytes: f64, mss: f64) -> u32 {
    ((bytes / mss) as u32).max(1)
}

impl CongestionControl for Connection {
    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        let event = match core.cause {
            Cause::Loss => Event::Loss,
            Cause::Timeout => Event::Timeout,
            Cause::Ecn => Event::Ecn,
        };
        let mut flow = self.flow(core, 0);
        if self.running.tell(event, core.now, &mut flow) {
            return packets(flow.cwnd, flow.mss).max(2);
        }
        (core.cwnd / 2).max(2)
    }

    fn cong_avoid(&mut self, core: &mut Core, _ack: u64, acked: u32) {
        if !core.is_cwnd_limited() && !core.was_cwnd_limited(&self.config) {
            return;
        }
        let mut flow = self.flow(core, acked);
        let before = flow.ssthresh;
        if self.running.tell(Event::Ack, core.now, &mut flow) {
            core.cwnd = packets(flow.cwnd, flow.mss);
            if flow.ssthresh != before {
                core.ssthresh = packets(flow.ssthresh, flow.mss).min(INFINITE_SSTHRESH);
            }
        }
    }

    fn pkts_acked(&mut self, _core: &mut Core, sample: &AckSample) {
        if let Some(rtt_us) = sample.rtt_us {
            self.rtt_us = rtt_us;
        }
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        core.cwnd.max(core.prior_cwnd)
    }
}
