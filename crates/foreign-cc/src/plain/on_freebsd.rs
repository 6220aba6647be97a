//! A controller without a kernel behind FreeBSD's hooks.

use std::sync::Arc;

use tcp::cc::Lifecycle;
use tcp::cc::freebsd::{
    AckKind, CcVar, CdgTuning, CongestionControl, CubicEra, Module, RTT_SHIFT, SSTHRESH_INFINITE, Signal,
};

use super::{Event, Flow, Running, Seat};

pub(super) struct OnHost(pub Arc<Seat>);

impl Lifecycle for OnHost {}

impl Module for OnHost {
    fn connect(&self, _era: CubicEra, _cdg: &CdgTuning, random: u64) -> Box<dyn CongestionControl> {
        Box::new(Connection { running: Running::new(&self.0, random), min_rtt: 0.0 })
    }
}

struct Connection {
    running: Running,
    /// The smallest smoothed RTT: the stack measures no other.
    min_rtt: f64,
}

impl Connection {
    fn tell(&mut self, event: Event, ccv: &CcVar) -> Option<Flow> {
        let srtt = f64::from(ccv.srtt >> RTT_SHIFT) / f64::from(ccv.hz);
        if srtt > 0.0 && (self.min_rtt == 0.0 || srtt < self.min_rtt) {
            self.min_rtt = srtt;
        }
        let known = ccv.ssthresh != SSTHRESH_INFINITE;
        let mut flow = Flow {
            cwnd: ccv.cwnd as f64,
            ssthresh: if known { ccv.ssthresh as f64 } else { f64::INFINITY },
            mss: ccv.mss.max(1) as f64,
            srtt,
            min_rtt: self.min_rtt,
            rtt: srtt,
            acked: ccv.bytes_this_ack as f64,
            in_flight: (ccv.max.max(ccv.una) - ccv.una) as f64,
            ..Flow::default()
        };
        self.running.tell(event, ccv.micros * 1000, &mut flow).then_some(flow)
    }

    /// The window after a reduction, in whole segments, at least two.
    fn reduced(&mut self, event: Event, ccv: &CcVar) -> u64 {
        let unit = ccv.loss_unit().max(1);
        let bytes = self.tell(event, ccv).map_or(ccv.cwnd / 2, |flow| flow.cwnd as u64);
        (bytes / unit).max(2) * unit
    }
}

impl CongestionControl for Connection {
    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        if kind != AckKind::New || ccv.in_recovery() || !ccv.cwnd_limited {
            return;
        }
        let before = ccv.ssthresh;
        if let Some(flow) = self.tell(Event::Ack, ccv) {
            ccv.cwnd = (flow.cwnd as u64).max(ccv.maxseg).min(ccv.largest_window());
            if flow.ssthresh.is_finite() && flow.ssthresh as u64 != before {
                ccv.ssthresh = flow.ssthresh as u64;
            }
        }
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        match signal {
            Signal::DuplicateAcks => {
                if !ccv.fast_recovery {
                    if !ccv.cong_recovery {
                        ccv.ssthresh = self.reduced(Event::Loss, ccv);
                    }
                    ccv.enter_recovery();
                }
            }
            Signal::Ecn => {
                if !ccv.cong_recovery {
                    ccv.ssthresh = self.reduced(Event::Ecn, ccv);
                    ccv.cwnd = ccv.ssthresh;
                    ccv.cong_recovery = true;
                }
            }
            Signal::Timeout => {
                // Of several in a row the first reduces.
                if ccv.rxtshift <= 1 {
                    ccv.ssthresh = self.reduced(Event::Timeout, ccv);
                }
                ccv.cwnd = ccv.mss;
            }
            Signal::TimeoutUndone => {}
        }
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        if ccv.fast_recovery {
            // Not more than a segment at once (RFC 6582 section 3.2 step 3).
            ccv.cwnd =
                if ccv.pipe < ccv.ssthresh { ccv.pipe.max(ccv.maxseg) + ccv.maxseg } else { ccv.ssthresh };
        }
    }
}
