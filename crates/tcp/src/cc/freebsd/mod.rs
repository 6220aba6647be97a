//! FreeBSD's congestion controls behind FreeBSD's hooks (cc(9), mod_cc(9)): all windows in bytes.

mod cdg;
mod chd;
mod cubic;
pub mod cubic_math;
mod dctcp;
mod hd;
mod htcp;
mod hystart;
mod newreno;
mod vegas;

pub use cdg::{Cdg, CdgTuning};
pub use chd::{Chd, ChdTuning};
pub use cubic::{Cubic, CubicEra};
pub use dctcp::{Dctcp, DctcpTuning, MAX_ALPHA};
pub use hd::{BackoffTuning, Hd};
pub use htcp::{Htcp, HtcpTuning};
pub use hystart::{HyStart, HyStartTuning};
pub use newreno::NewReno;
pub use vegas::{Vegas, VegasTuning};

use std::any::Any;
use std::sync::Arc;

use super::{Lifecycle, Phase};
use crate::context::{EcnAnswer, EcnSegment};

/// Initial slow-start threshold: the largest window a connection could have, 65535 << 14 (tcp(4)).
pub const SSTHRESH_INFINITE: u64 = 65_535 << 14;

/// Fractional bits of the smoothed RTT that congestion controls are given (TCP_RTT_SCALE = 32).
pub const RTT_SHIFT: u32 = 5;

/// Knobs that more than one algorithm reads, with the sysctl each belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CcTuning {
    /// Appropriate byte counting (net.inet.tcp.rfc3465).
    pub abc: bool,
    /// ABC's limit L in segments per ACK (net.inet.tcp.abc_l_var).
    pub abc_l_var: u64,
    /// The slow-start increment counts the ACKs that receive aggregation merged (FreeBSD 12 and later).
    pub abc_counts_merged_acks: bool,
    /// Window after an idle time.
    pub restart_window: InitialWindow,
    /// Whether ssthresh keeps at least 3/4 of the window after an idle time (RFC 7661; FreeBSD 12 and later).
    pub idle_keeps_ssthresh: bool,
    /// Exit from recovery leaves at least one more segment than is in flight (FreeBSD 12 and later).
    pub exit_keeps_a_segment: bool,
    /// Windows on loss are counted in full payloads ([`CcVar::mss`]) rather than in [`CcVar::maxseg`].
    pub loss_counts_payload: bool,
    /// The module itself reduces on a timeout (FreeBSD 12 and later); before, the stack did it for every module.
    pub module_handles_rto: bool,
    /// A timeout reduces ssthresh only when it is the first in a row, and from the pipe (FreeBSD 15).
    pub rto_from_pipe: bool,
    /// H-TCP takes the smoothed RTT in whole ticks, and scales as if it had [`RTT_SHIFT`] fractional bits still
    /// (FreeBSD 14 and later).
    pub rtt_in_whole_ticks: bool,
    /// Modules that call NewReno pass their own state, of which it takes a part for its percentages (FreeBSD 12 to 14).
    pub state_of_others_is_read: bool,
    /// Reduction on loss in percent (net.inet.tcp.cc.newreno.beta).
    pub newreno_beta: u64,
    /// Reduction on an ECN echo with ABE, in percent (net.inet.tcp.cc.newreno.beta_ecn; RFC 8511).
    pub newreno_beta_ecn: u64,
    /// Alternative backoff with ECN (net.inet.tcp.cc.abe).
    pub abe: bool,
    /// Whether a loss during the reaction to an ECN echo reduces further, with ABE
    /// (net.inet.tcp.cc.abe_frlossreduce).
    pub abe_loss_reduces: bool,
    /// HyStart++, where the stack allows it (FreeBSD 15's RACK).
    pub hystart: HyStartTuning,
    /// DCTCP answers a segment that says CWR at once, also while no ACK is being delayed (FreeBSD 12 and later).
    pub dctcp_answers_cwr: bool,
    /// DCTCP's.
    pub dctcp: DctcpTuning,
    /// H-TCP's.
    pub htcp: HtcpTuning,
    /// Vegas'.
    pub vegas: VegasTuning,
    /// HD's.
    pub hd: BackoffTuning,
    /// CHD's.
    pub chd: ChdTuning,
}

#[cfg(test)]
impl CcTuning {
    /// Tuning of FreeBSD 15 before anything is set, for tests.
    pub(crate) const FREEBSD_15: CcTuning = CcTuning {
        abc: true,
        abc_l_var: 2,
        abc_counts_merged_acks: true,
        restart_window: InitialWindow::Segments(10),
        idle_keeps_ssthresh: true,
        exit_keeps_a_segment: true,
        loss_counts_payload: true,
        module_handles_rto: true,
        rto_from_pipe: true,
        rtt_in_whole_ticks: true,
        state_of_others_is_read: false,
        newreno_beta: 50,
        newreno_beta_ecn: 80,
        abe: false,
        abe_loss_reduces: false,
        hystart: HyStartTuning {
            allowed: false,
            shrinks: false,
            conservative: false,
            min_threshold_us: 4000,
            max_threshold_us: 16_000,
            samples: 8,
            growth_divisor: 4,
            rounds: 5,
        },
        dctcp_answers_cwr: true,
        dctcp: DctcpTuning::DEFAULT,
        htcp: HtcpTuning { adaptive_backoff: false, rtt_scaling: false },
        vegas: VegasTuning::DEFAULT,
        hd: BackoffTuning::HD,
        chd: ChdTuning::DEFAULT,
    };
}

/// Rule by which an initial (or restart) window is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// `n` segments: min(n MSS, max(2 MSS, 1460 n)) (RFC 6928).
    Segments(u64),
    /// min(4 MSS, max(2 MSS, 4380 bytes)) (RFC 3390).
    Rfc3390,
    /// 2 to 4 segments by size (RFC 5681 section 3.1).
    Rfc5681,
    /// A plain count of segments (net.inet.tcp.slowstart_flightsize, 9.0).
    Flight(u64),
}

impl InitialWindow {
    /// The window in bytes for segments of `mss` bytes.
    pub fn bytes(self, mss: u64) -> u64 {
        match self {
            InitialWindow::Segments(n) => (n * mss).min((2 * mss).max(n * 1460)),
            InitialWindow::Rfc3390 => (4 * mss).min((2 * mss).max(4380)),
            InitialWindow::Rfc5681 if mss > 2190 => 2 * mss,
            InitialWindow::Rfc5681 if mss > 1095 => 3 * mss,
            InitialWindow::Rfc5681 => 4 * mss,
            InitialWindow::Flight(n) => n * mss,
        }
    }
}

/// RTTs of single packets so far, and what one measurement round has shown (h_ertt(4)): in ticks, 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketDelays {
    /// Smallest RTT of the connection.
    pub min_rtt: u32,
    /// Largest.
    pub max_rtt: u32,
    /// RTT of the packet that the last round was measured with.
    pub marked_rtt: u32,
    /// Number of bytes sent during the last round.
    pub marked_bytes: u64,
    /// Congestion window when the last round ended.
    pub marked_cwnd: u64,
}

/// View that an algorithm has of a connection, and what it sets (FreeBSD's `struct cc_var` and the parts of the
/// control block it points to).
#[derive(Clone, Debug)]
pub struct CcVar {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold.
    pub ssthresh: u64,
    /// The unit of window growth: the MSS as the control block holds it. Options are off it in FreeBSD 9.x only.
    pub maxseg: u64,
    /// Payload of a full segment.
    pub mss: u64,
    /// The peer's window.
    pub snd_wnd: u64,
    /// Shift of the peer's window field.
    pub snd_scale: u8,
    /// Bytes acknowledged since the window last grew (RFC 3465).
    pub bytes_acked: u64,
    /// Bytes this ACK newly acknowledges.
    pub bytes_this_ack: u64,
    /// ACKs that receive aggregation merged into this one.
    pub nsegs: u64,
    /// The window was what limited the sender (as FreeBSD judges it: cwnd <= peer's window).
    pub cwnd_limited: bool,
    /// A whole window has been acknowledged since the window last grew.
    pub abc_sent_a_window: bool,
    /// The segment at hand is marked (CCF_IPHDR_CE).
    pub ip_ce: bool,
    /// Whether the segment at hand says that the peer has reduced (CCF_TCPHDR_CWR).
    pub tcp_cwr: bool,
    /// ACKs echo a mark (TF2_ECN_SND_ECE).
    pub echoes_ce: bool,
    /// An ACK is being delayed (CCF_DELACK; up to 12).
    pub delayed_ack: bool,
    /// `ecnpkt_handler` wants an ACK at once (CCF_ACKNOW).
    pub ack_now: bool,
    /// Loss recovery is under way.
    pub fast_recovery: bool,
    /// A reaction to congestion is under way (always with `fast_recovery`; alone after ECN or a delay signal).
    pub cong_recovery: bool,
    /// Acknowledgement number of the ACK at hand.
    pub curack: u64,
    /// Oldest unacknowledged.
    pub una: u64,
    /// Next to send.
    pub nxt: u64,
    /// Highest sent plus one.
    pub max: u64,
    /// Recovery ends when this is acknowledged.
    pub recover: u64,
    /// Bytes in flight as the release estimates them, on a loss, an ECN echo or a timeout and at the end of recovery.
    pub pipe: u64,
    /// Timeouts in a row.
    pub rxtshift: u32,
    /// Smoothed RTT in ticks, with [`RTT_SHIFT`] fractional bits.
    pub srtt: u32,
    /// Smoothed RTT in microseconds, where the stack keeps it so (FreeBSD 15's RACK); else 0.
    pub srtt_us: u64,
    /// RTT samples so far.
    pub rtt_updates: u32,
    /// The host's tick counter.
    pub ticks: u64,
    /// The host's clock in microseconds.
    pub micros: u64,
    /// Ticks per second.
    pub hz: u32,
    /// Per-packet RTT for delay-based algorithms: the sample of this ACK in ticks, 0 if it has none.
    pub delay_rtt: u32,
    /// Whether this ACK ends a measurement round (one per RTT).
    pub new_measurement: bool,
    /// Other measurements for delay-based algorithms.
    pub delays: PacketDelays,
    /// ECN was agreed.
    pub ecn: bool,
    /// Knobs.
    pub tuning: CcTuning,
}

impl CcVar {
    /// A connection before its handshake ends.
    pub fn new(tuning: CcTuning) -> CcVar {
        CcVar {
            cwnd: 0,
            ssthresh: SSTHRESH_INFINITE,
            maxseg: 0,
            mss: 0,
            snd_wnd: 0,
            snd_scale: 0,
            bytes_acked: 0,
            bytes_this_ack: 0,
            nsegs: 1,
            cwnd_limited: false,
            abc_sent_a_window: false,
            ip_ce: false,
            tcp_cwr: false,
            echoes_ce: false,
            delayed_ack: false,
            ack_now: false,
            fast_recovery: false,
            cong_recovery: false,
            curack: 0,
            una: 0,
            nxt: 0,
            max: 0,
            recover: 0,
            pipe: 0,
            rxtshift: 0,
            srtt: 0,
            srtt_us: 0,
            rtt_updates: 0,
            ticks: 0,
            micros: 0,
            hz: 1000,
            delay_rtt: 0,
            new_measurement: false,
            delays: PacketDelays::default(),
            ecn: false,
            tuning,
        }
    }

    /// Whether either kind of recovery is under way.
    #[inline]
    pub fn in_recovery(&self) -> bool {
        self.fast_recovery || self.cong_recovery
    }

    /// Takes in what the ECN fields of a segment say, for `ecnpkt_handler`.
    pub(crate) fn note_ecn(&mut self, segment: EcnSegment) {
        if segment.capable {
            self.ip_ce = segment.ce;
        }
        self.tcp_cwr = segment.cwr;
        self.echoes_ce = segment.classic_echo();
        self.delayed_ack = segment.delayed_ack;
        self.ack_now = false;
    }

    /// Says what `ecnpkt_handler` wants of the answer.
    pub(crate) fn ecn_answer(&self) -> EcnAnswer {
        EcnAnswer { ack_now: self.ack_now, echoes_ce: self.echoes_ce, first: None }
    }

    /// The coarse state; `repairing`: what a timeout gave up is not all acknowledged yet.
    pub fn phase(&self, repairing: bool) -> Phase {
        if self.fast_recovery {
            Phase::Recovery
        } else if repairing {
            Phase::Loss
        } else if self.cong_recovery {
            Phase::Cwr
        } else if self.cwnd <= self.ssthresh {
            Phase::SlowStart
        } else {
            Phase::Avoidance
        }
    }

    /// ssthresh in bytes, once it has been set.
    pub fn known_ssthresh(&self) -> Option<u64> {
        (self.ssthresh != SSTHRESH_INFINITE).then_some(self.ssthresh)
    }

    /// Loss recovery begins.
    #[inline]
    pub fn enter_recovery(&mut self) {
        self.fast_recovery = true;
        self.cong_recovery = true;
    }

    /// The largest window the peer can ever offer.
    #[inline]
    pub fn largest_window(&self) -> u64 {
        65_535 << self.snd_scale
    }

    /// The unit in which windows are rounded on loss.
    #[inline]
    pub fn loss_unit(&self) -> u64 {
        if self.tuning.loss_counts_payload { self.mss } else { self.maxseg }
    }

    /// Notes whether the window limits, and counts bytes: precedes every module's ACK processing.
    #[inline]
    pub fn count_ack(&mut self, cap: Option<u64>) {
        self.cwnd_limited = self.cwnd <= self.snd_wnd;
        if self.cwnd > self.ssthresh {
            self.bytes_acked += cap.map_or(self.bytes_this_ack, |cap| self.bytes_this_ack.min(cap));
            if self.bytes_acked >= self.cwnd {
                self.bytes_acked -= self.cwnd;
                self.abc_sent_a_window = true;
            }
        } else {
            self.abc_sent_a_window = false;
            self.bytes_acked = 0;
        }
    }
}

/// Reason why [`CongestionControl::cong_signal`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The threshold of duplicate ACKs was reached.
    DuplicateAcks,
    /// An ECN echo.
    Ecn,
    /// A retransmission timeout.
    Timeout,
    /// The last timeout was spurious; cwnd and ssthresh are restored already.
    TimeoutUndone,
}

/// Kind of ACK that [`CongestionControl::ack_received`] is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// ACK of new data.
    New,
    /// A duplicate.
    Duplicate,
}

/// A congestion control with FreeBSD's hooks.
pub trait CongestionControl: Any + Send {
    /// A connection has been given this congestion control; there is no handshake yet.
    fn cb_init(&mut self, _v: &mut CcVar) {}

    /// The connection is gone.
    fn cb_destroy(&mut self, _v: &mut CcVar) {}

    /// The connection is established.
    fn conn_init(&mut self, _v: &mut CcVar) {}

    /// An ACK arrived; [`CcVar::count_ack`] has run.
    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind);

    /// Congestion.
    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal);

    /// Recovery is about to end. [`CcVar::pipe`] is set.
    fn post_recovery(&mut self, ccv: &mut CcVar);

    /// Transmission resumes after an idle time.
    fn after_idle(&mut self, ccv: &mut CcVar) {
        newreno::after_idle(ccv);
    }

    /// A segment came on a connection with ECN; [`CcVar::ip_ce`], [`CcVar::tcp_cwr`] and [`CcVar::delayed_ack`] are set. It
    /// asks for an ACK at once by [`CcVar::ack_now`], and says by [`CcVar::echoes_ce`] whether ACKs echo a mark from now on.
    fn ecnpkt_handler(&mut self, _v: &mut CcVar) {}

    /// A round trip has ended: what was sent last when it began is acknowledged. The RACK stack tells.
    fn new_round(&mut self, _v: &mut CcVar, _round: u32) {}

    /// The RTT in microseconds of a segment that was sent once, with `flight` bytes in flight. Likewise.
    fn rtt_sample(&mut self, _v: &mut CcVar, _rtt_us: u64, _flight: u64) {}

    /// Whether the sender must measure the RTT of single packets ([`CcVar::delay_rtt`]), which rules out
    /// segmentation offload.
    fn wants_packet_rtt(&self) -> bool {
        false
    }
}

/// A congestion control on one host: makes that of each connection.
pub trait Module: Lifecycle + Send + Sync {
    /// The algorithm of a new connection; `random` seeds what it draws.
    fn connect(&self, era: CubicEra, cdg: &CdgTuning, random: u64) -> Box<dyn CongestionControl>;
}

/// Module of FreeBSD's own.
struct BuiltIn(fn(CubicEra, &CdgTuning, u64) -> Box<dyn CongestionControl>);

impl Lifecycle for BuiltIn {}

impl Module for BuiltIn {
    fn connect(&self, era: CubicEra, cdg: &CdgTuning, random: u64) -> Box<dyn CongestionControl> {
        self.0(era, cdg, random)
    }
}

/// A host's congestion controls.
pub type Registry = super::Registry<dyn Module>;

/// A registry of FreeBSD's own, by its names for them.
///
/// # Panics
/// If there is none of some name.
pub fn built_in(names: &[&str]) -> Registry {
    let mut registry = Registry::default();
    for &name in names {
        let make: fn(CubicEra, &CdgTuning, u64) -> Box<dyn CongestionControl> = match name {
            "newreno" => |_, _, _| Box::new(NewReno::default()),
            "cubic" => |era, _, _| Box::new(Cubic::new(era)),
            "cdg" => |_, cdg, random| Box::new(Cdg::new(*cdg, random)),
            "dctcp" => |_, _, _| Box::new(Dctcp::default()),
            "htcp" => |_, _, _| Box::new(Htcp::default()),
            "vegas" => |_, _, _| Box::new(Vegas::default()),
            "hd" => |_, _, random| Box::new(Hd::new(random)),
            "chd" => |_, _, random| Box::new(Chd::new(random)),
            _ => panic!("FreeBSD has no congestion control {name}"),
        };
        registry.register(name, Arc::new(BuiltIn(make))).expect("a name of its own");
    }
    registry
}
