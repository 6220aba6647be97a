//! FreeBSD's stacks as profiles: one table of sysctls, and how values become senders and receivers.

use super::{EcnMode, Facts, Family, Profile, SocketOptions, Sysctl};
use crate::cc::freebsd::{CcTuning, CdgTuning, CubicEra, HyStartTuning, InitialWindow};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::receiver::Receiver;
use crate::receiver::freebsd::{Autosize, FreeBsdReceiver, Tuning as ReceiverTuning, largest_buffer};
use crate::sender::Sender;
use crate::sender::freebsd::FreeBsdSender;
use crate::sender::freebsd::tuning::{DuplicateRule, Recovery, Tuning as SenderTuning};
use crate::sender::rack::{RackSender, RackTuning};

/// What distinguishes a release besides the values of its sysctls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Era {
    /// The control block's MSS is less options (9.x).
    pub maxseg_without_options: bool,
    /// Data before a closed window starts its probes whatever is next, as the retransmission after a timeout (10.3 and later).
    pub persists_when_closed: bool,
    /// A full segment is one of the MSS with its options, to silly-window avoidance and where buffers are rounded (11).
    pub full_segment_with_options: bool,
    /// Byte counting in congestion avoidance is capped at L segments an ACK.
    pub abc_capped_in_avoidance: bool,
    /// Duplicate ACKs.
    pub duplicates: DuplicateRule,
    /// Fast recovery.
    pub recovery: Recovery,
    /// CUBIC's generation.
    pub cubic: CubicEra,
    /// What came with 12: module-owned timeouts, exit with a segment, merged ACKs counted, PRR after ECN, undo by
    /// timestamp, restart that keeps ssthresh, aggregates acknowledged at once, receive buffer by halves, D-SACK.
    pub modern: bool,
    /// What came by 15: pipe on timeouts, scoreboard kept by the first, post-recovery last, idle counts sending.
    pub newest: bool,
    /// After an idle time the window is the initial one (else RFC 3390's).
    pub restart_at_initial_window: bool,
    /// Window updates need a quarter of the buffer (9.2 and later).
    pub updates_need_a_quarter: bool,
    /// Reassembly queue limited by the buffer (9.x).
    pub reassembly_limited: bool,
}

/// Values of the sysctls; a release lacks some.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub rfc3465: i64,
    pub abc_l_var: i64,
    pub initcwnd_segments: i64,
    pub rfc3390: i64,
    pub slowstart_flightsize: i64,
    pub rfc3042: i64,
    pub delayed_ack: i64,
    pub delacktime: i64,
    pub sendspace: i64,
    pub recvspace: i64,
    pub sendbuf_auto: i64,
    pub sendbuf_inc: i64,
    pub sendbuf_max: i64,
    pub recvbuf_auto: i64,
    pub recvbuf_inc: i64,
    pub recvbuf_max: i64,
    pub maxsockbuf: i64,
    pub rexmit_min: i64,
    pub rexmit_slop: i64,
    pub tso: i64,
    pub sack_maxholes: i64,
    pub do_prr: i64,
    pub do_prr_conservative: i64,
    pub rfc6675_pipe: i64,
    pub lrd: i64,
    pub sack_tso: i64,
    pub newcwv: i64,
    pub abe: i64,
    pub abe_frlossreduce: i64,
    pub newreno_beta: i64,
    pub newreno_beta_ecn: i64,
    /// What RACK allows of HyStart++: 0 nothing, 1 all, 2 the window shrinks, 3 less so.
    pub hystart: i64,
    pub hystart_minrtt_thresh: i64,
    pub hystart_maxrtt_thresh: i64,
    pub hystart_n_rttsamples: i64,
    pub hystart_css_growth_div: i64,
    pub hystart_css_rounds: i64,
    pub cdg: CdgTuning,
}

impl Values {
    /// What every release begins with.
    pub(super) const fn common() -> Values {
        Values {
            rfc3465: 1,
            abc_l_var: 2,
            initcwnd_segments: 10,
            rfc3390: 1,
            slowstart_flightsize: 1,
            rfc3042: 1,
            delayed_ack: 1,
            delacktime: 100,
            sendspace: 32_768,
            recvspace: 65_536,
            sendbuf_auto: 1,
            sendbuf_inc: 8192,
            sendbuf_max: 2_097_152,
            recvbuf_auto: 1,
            recvbuf_inc: 16_384,
            recvbuf_max: 2_097_152,
            maxsockbuf: 2_097_152,
            rexmit_min: 30,
            rexmit_slop: 200,
            tso: 1,
            sack_maxholes: 128,
            do_prr: 0,
            do_prr_conservative: 0,
            rfc6675_pipe: 0,
            lrd: 0,
            sack_tso: 0,
            newcwv: 0,
            abe: 0,
            abe_frlossreduce: 0,
            newreno_beta: 50,
            newreno_beta_ecn: 80,
            hystart: 0,
            hystart_minrtt_thresh: 4000,
            hystart_maxrtt_thresh: 16_000,
            hystart_n_rttsamples: 8,
            hystart_css_growth_div: 4,
            hystart_css_rounds: 5,
            cdg: CdgTuning::DEFAULT,
        }
    }
}

/// A FreeBSD release with its sysctls.
#[derive(Clone, Debug)]
pub struct FreeBsd {
    pub(super) facts: Facts,
    pub(super) era: Era,
    pub(super) values: Values,
    /// Names of the sysctls this release has, of those in the table.
    pub(super) names: &'static [&'static str],
    pub(super) maxsockbuf_fixed: bool,
    /// The RACK stack instead of the default one.
    pub(super) rack: Option<RackTuning>,
}

/// The release called `name`, such as `freebsd-9.2`.
pub fn release(name: &str) -> Option<FreeBsd> {
    let releases = [
        super::freebsd_9_0::profile(),
        super::freebsd_9_2::profile(),
        super::freebsd_11::profile(),
        super::freebsd_13::profile(),
        super::freebsd_15::d49540(),
        super::freebsd_15::d46546(),
        super::freebsd_15::current(),
        super::freebsd_13::rack(),
        super::freebsd_15::d49540_rack(),
        super::freebsd_15::d46546_rack(),
        super::freebsd_15::current_rack(),
    ];
    releases.into_iter().find(|release| release.facts.name == name)
}

/// One sysctl of the table.
struct Knob {
    name: &'static str,
    min: i64,
    max: i64,
    about: &'static str,
    get: fn(&FreeBsd) -> i64,
    set: fn(&mut FreeBsd, i64),
}

/// A knob that is a field of [`Values`].
macro_rules! value {
    ($name:literal, $field:ident, $min:expr, $max:expr, $about:literal) => {
        Knob {
            name: $name,
            min: $min,
            max: $max,
            about: $about,
            get: |p| p.values.$field,
            set: |p, value| p.values.$field = value,
        }
    };
}

/// A knob that is a field of [`CdgTuning`].
macro_rules! cdg {
    ($name:literal, $field:ident, $type:ty, $min:expr, $max:expr, $about:literal) => {
        Knob {
            name: $name,
            min: $min,
            max: $max,
            about: $about,
            get: |p| p.values.cdg.$field as i64,
            set: |p, value| p.values.cdg.$field = value as $type,
        }
    };
}

/// The largest buffer that can be asked for, bytes.
const LARGEST_BUFFER: i64 = 1 << 30;

/// Every sysctl of any release (tcp(4), cc_newreno(4), cc_cdg(4), tuning(7)).
const KNOBS: &[Knob] = &[
    Knob {
        name: "net.inet.tcp.rfc1323",
        min: 0,
        max: 1,
        about: "window scaling and timestamps",
        get: |p| i64::from(p.facts.timestamps),
        set: |p, value| {
            p.facts.timestamps = value != 0;
            p.facts.window_scaling = value != 0;
        },
    },
    Knob {
        name: "net.inet.tcp.sack.enable",
        min: 0,
        max: 1,
        about: "selective acknowledgements",
        get: |p| i64::from(p.facts.sack),
        set: |p, value| p.facts.sack = value != 0,
    },
    Knob {
        name: "net.inet.tcp.ecn.enable",
        min: 0,
        max: 2,
        about: "0 off, 1 asked for and accepted, 2 accepted only",
        get: |p| match p.facts.ecn {
            EcnMode::Off => 0,
            EcnMode::On => 1,
            EcnMode::Accept => 2,
        },
        set: |p, value| {
            p.facts.ecn = match value {
                0 => EcnMode::Off,
                1 => EcnMode::On,
                _ => EcnMode::Accept,
            };
        },
    },
    value!("net.inet.tcp.rfc3465", rfc3465, 0, 1, "appropriate byte counting"),
    value!("net.inet.tcp.abc_l_var", abc_l_var, 1, 1000, "segments an ACK may add in slow start"),
    value!(
        "net.inet.tcp.initcwnd_segments",
        initcwnd_segments,
        0,
        100,
        "initial window, segments; 0: by RFC 3390"
    ),
    Knob {
        name: "net.inet.tcp.experimental.initcwnd10",
        min: 0,
        max: 1,
        about: "initial window of 10 segments",
        get: |p| i64::from(p.values.initcwnd_segments == 10),
        set: |p, value| p.values.initcwnd_segments = 10 * value,
    },
    value!("net.inet.tcp.rfc3390", rfc3390, 0, 1, "initial window by RFC 3390"),
    value!(
        "net.inet.tcp.slowstart_flightsize",
        slowstart_flightsize,
        1,
        100,
        "initial window without RFC 3390, segments"
    ),
    value!("net.inet.tcp.rfc3042", rfc3042, 0, 1, "limited transmit"),
    value!("net.inet.tcp.delayed_ack", delayed_ack, 0, 1, "delayed ACKs"),
    value!("net.inet.tcp.delacktime", delacktime, 1, 2000, "delayed-ACK timer, ms"),
    value!("net.inet.tcp.sendspace", sendspace, 4096, LARGEST_BUFFER, "initial send buffer, bytes"),
    value!("net.inet.tcp.recvspace", recvspace, 4096, LARGEST_BUFFER, "initial receive buffer, bytes"),
    value!("net.inet.tcp.sendbuf_auto", sendbuf_auto, 0, 1, "send-buffer autotuning"),
    value!("net.inet.tcp.sendbuf_inc", sendbuf_inc, 1, LARGEST_BUFFER, "its step, bytes"),
    value!("net.inet.tcp.sendbuf_max", sendbuf_max, 4096, LARGEST_BUFFER, "its limit, bytes"),
    value!("net.inet.tcp.recvbuf_auto", recvbuf_auto, 0, 1, "receive-buffer autotuning"),
    value!("net.inet.tcp.recvbuf_inc", recvbuf_inc, 1, LARGEST_BUFFER, "its step, bytes"),
    value!("net.inet.tcp.recvbuf_max", recvbuf_max, 4096, LARGEST_BUFFER, "its limit, bytes"),
    Knob {
        name: "kern.ipc.maxsockbuf",
        min: 65_536,
        max: LARGEST_BUFFER,
        about: "largest socket buffer, bytes; decides the window scale",
        get: |p| p.values.maxsockbuf,
        set: |p, value| {
            p.values.maxsockbuf = value;
            p.maxsockbuf_fixed = true;
        },
    },
    value!(
        "net.inet.tcp.rexmit_min",
        rexmit_min,
        1,
        10_000,
        "smallest retransmission timeout before slop, ms"
    ),
    value!("net.inet.tcp.rexmit_slop", rexmit_slop, 0, 10_000, "added to every retransmission timeout, ms"),
    value!("net.inet.tcp.tso", tso, 0, 1, "segmentation offload where the interface has it"),
    value!("net.inet.tcp.sack.maxholes", sack_maxholes, 1, 65_536, "holes remembered"),
    value!("net.inet.tcp.do_prr", do_prr, 0, 1, "proportional rate reduction"),
    value!("net.inet.tcp.do_prr_conservative", do_prr_conservative, 0, 1, "its conservative bound"),
    value!("net.inet.tcp.rfc6675_pipe", rfc6675_pipe, 0, 1, "flight counted by RFC 6675"),
    value!(
        "net.inet.tcp.sack.revised",
        rfc6675_pipe,
        0,
        1,
        "flight counted by RFC 6675, rescue retransmission"
    ),
    value!("net.inet.tcp.do_lrd", lrd, 0, 1, "lost-retransmission detection"),
    value!("net.inet.tcp.sack.lrd", lrd, 0, 1, "lost-retransmission detection"),
    value!("net.inet.tcp.sack.tso", sack_tso, 0, 1, "holes filled with segmentation offload"),
    value!("net.inet.tcp.newcwv", newcwv, 0, 1, "cwnd grows only while the pipe is near it (RFC 7661)"),
    value!("net.inet.tcp.cc.abe", abe, 0, 1, "alternative backoff with ECN (RFC 8511)"),
    value!(
        "net.inet.tcp.cc.abe_frlossreduce",
        abe_frlossreduce,
        0,
        1,
        "with ABE, loss during an ECN reaction reduces further"
    ),
    value!("net.inet.tcp.cc.newreno.beta", newreno_beta, 1, 100, "window kept on loss, percent"),
    value!(
        "net.inet.tcp.cc.newreno.beta_ecn",
        newreno_beta_ecn,
        1,
        100,
        "window kept on an ECN echo with ABE, percent"
    ),
    value!(
        "net.inet.tcp.rack.features.hystartplusplus",
        hystart,
        0,
        3,
        "HyStart++ (RFC 9406): 0 off, 1 on, 2 shrinking the window at its end, 3 to the mean"
    ),
    value!(
        "net.inet.tcp.cc.hystartplusplus.minrtt_thresh",
        hystart_minrtt_thresh,
        1,
        10_000_000,
        "smallest rise of the RTT that HyStart++ sees, us"
    ),
    value!(
        "net.inet.tcp.cc.hystartplusplus.maxrtt_thresh",
        hystart_maxrtt_thresh,
        1,
        10_000_000,
        "largest rise that it asks for, us"
    ),
    value!(
        "net.inet.tcp.cc.hystartplusplus.n_rttsamples",
        hystart_n_rttsamples,
        1,
        10_000,
        "RTT samples of a round before it is judged"
    ),
    value!(
        "net.inet.tcp.cc.hystartplusplus.css_growth_div",
        hystart_css_growth_div,
        1,
        10_000,
        "divisor of growth in conservative slow start"
    ),
    value!(
        "net.inet.tcp.cc.hystartplusplus.css_rounds",
        hystart_css_rounds,
        1,
        10_000,
        "rounds of conservative slow start"
    ),
    cdg!(
        "net.inet.tcp.cc.cdg.alpha_inc",
        alpha_inc,
        u32,
        0,
        1000,
        "RTTs between growths of the increment; 0: none"
    ),
    cdg!("net.inet.tcp.cc.cdg.beta_delay", beta_delay, u64, 1, 100, "window kept on a delay signal, percent"),
    cdg!("net.inet.tcp.cc.cdg.beta_loss", beta_loss, u64, 1, 100, "window kept on loss, percent"),
    cdg!(
        "net.inet.tcp.cc.cdg.exp_backoff_scale",
        exp_backoff_scale,
        i64,
        1,
        1000,
        "scale of the backoff probability"
    ),
    cdg!(
        "net.inet.tcp.cc.cdg.smoothing_factor",
        smoothing_factor,
        usize,
        0,
        1000,
        "RTTs gradients are averaged over"
    ),
    cdg!(
        "net.inet.tcp.cc.cdg.loss_compete_consec_cong",
        loss_compete_consec_cong,
        u32,
        0,
        1000,
        "delay signals in a row that show a loss-based competitor"
    ),
    cdg!(
        "net.inet.tcp.cc.cdg.loss_compete_hold_backoff",
        loss_compete_hold_backoff,
        u32,
        0,
        1000,
        "delay signals then ignored"
    ),
];

/// The sysctls every release has.
macro_rules! common_names {
    ($($more:literal),* $(,)?) => {
        &[
            "net.inet.tcp.rfc1323",
            "net.inet.tcp.sack.enable",
            "net.inet.tcp.ecn.enable",
            "net.inet.tcp.rfc3465",
            "net.inet.tcp.abc_l_var",
            "net.inet.tcp.rfc3390",
            "net.inet.tcp.rfc3042",
            "net.inet.tcp.delayed_ack",
            "net.inet.tcp.delacktime",
            "net.inet.tcp.sendspace",
            "net.inet.tcp.recvspace",
            "net.inet.tcp.sendbuf_auto",
            "net.inet.tcp.sendbuf_inc",
            "net.inet.tcp.sendbuf_max",
            "net.inet.tcp.recvbuf_auto",
            "net.inet.tcp.recvbuf_max",
            "kern.ipc.maxsockbuf",
            "net.inet.tcp.rexmit_min",
            "net.inet.tcp.rexmit_slop",
            "net.inet.tcp.tso",
            "net.inet.tcp.sack.maxholes",
            "net.inet.tcp.cc.cdg.alpha_inc",
            "net.inet.tcp.cc.cdg.beta_delay",
            "net.inet.tcp.cc.cdg.beta_loss",
            "net.inet.tcp.cc.cdg.exp_backoff_scale",
            "net.inet.tcp.cc.cdg.smoothing_factor",
            "net.inet.tcp.cc.cdg.loss_compete_consec_cong",
            "net.inet.tcp.cc.cdg.loss_compete_hold_backoff",
            $($more),*
        ]
    };
}
pub(super) use common_names;

/// Congestion controls where NewReno is the default.
pub(super) const NEWRENO_FIRST: &[&str] = &["newreno", "cubic", "cdg"];
/// Congestion controls where CUBIC is the default (14 and later).
pub(super) const CUBIC_FIRST: &[&str] = &["cubic", "newreno", "cdg"];

/// SYN timeouts of 9.x to 11: 3 s, and what the backoff table makes of it; `slop` as measured on 11.
pub(super) fn old_syn_timeouts() -> Vec<Nanos> {
    const BACKOFF: [u64; 12] = [1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 64, 64];
    let later = BACKOFF.iter().map(|b| (3 * b * SECOND + 200 * MILLISECOND).min(64 * SECOND));
    within_keepinit(std::iter::once(3 * SECOND).chain(later))
}

/// SYN timeouts of 12 and later: 1 s, doubled, with slop after the first.
pub(super) fn new_syn_timeouts() -> Vec<Nanos> {
    let later = (1..12).map(|shift: u32| ((SECOND << shift) + 200 * MILLISECOND).min(64 * SECOND));
    within_keepinit(std::iter::once(SECOND).chain(later))
}

/// How long a connection attempt lasts at most (net.inet.tcp.keepinit).
const KEEPINIT: Nanos = 75 * SECOND;

fn within_keepinit(gaps: impl Iterator<Item = Nanos>) -> Vec<Nanos> {
    let mut at = 0;
    let mut kept = Vec::new();
    for gap in gaps {
        let gap = gap.min(KEEPINIT - at);
        kept.push(gap);
        at += gap;
        if at == KEEPINIT {
            break;
        }
    }
    kept
}

/// SYN-ACK timeouts: `first`, doubled for at most three retransmissions (net.inet.tcp.syncache.rexmtlimit).
pub(super) fn synack_timeouts(first: Nanos) -> Vec<Nanos> {
    (0..4).map(|shift| first << shift).collect()
}

/// Time in TIME-WAIT: twice net.inet.tcp.msl.
pub(super) const TIME_WAIT: Nanos = 60 * SECOND;

/// Facts common to every release.
pub(super) fn facts(name: &'static str, inferred: bool) -> Facts {
    Facts {
        name,
        family: Family::FreeBsd,
        inferred,
        cc: NEWRENO_FIRST,
        cc_alias: &[("reno", "newreno")],
        hz: 1000,
        ecn: EcnMode::Off,
        timestamps: true,
        window_scaling: true,
        sack: true,
        syn_timeouts: old_syn_timeouts(),
        synack_timeouts: synack_timeouts(3 * SECOND),
        timer_wheel: false,
        invalid_ratelimit: 0,
        syn_hastened: None,
        unread_resets: false,
        time_wait: TIME_WAIT,
    }
}

impl FreeBsd {
    fn initial_window(&self) -> InitialWindow {
        let v = &self.values;
        if v.initcwnd_segments > 0 {
            InitialWindow::Segments(v.initcwnd_segments as u64)
        } else if v.rfc3390 != 0 {
            InitialWindow::Rfc3390
        } else if self.era.maxseg_without_options {
            InitialWindow::Flight(v.slowstart_flightsize as u64)
        } else {
            InitialWindow::Rfc5681
        }
    }

    fn cc_tuning(&self) -> CcTuning {
        let v = &self.values;
        let restart_window = match self.initial_window() {
            InitialWindow::Segments(_) if !self.era.restart_at_initial_window => {
                if v.rfc3390 != 0 {
                    InitialWindow::Rfc3390
                } else {
                    InitialWindow::Flight(2)
                }
            }
            window => window,
        };
        CcTuning {
            abc: v.rfc3465 != 0,
            abc_l_var: v.abc_l_var as u64,
            abc_counts_merged_acks: self.era.modern,
            restart_window,
            idle_keeps_ssthresh: self.era.modern,
            exit_keeps_a_segment: self.era.modern,
            loss_counts_payload: self.era.modern,
            module_handles_rto: self.era.modern,
            rto_from_pipe: self.era.newest,
            cdg_lends_its_state: self.era.modern && !self.era.newest,
            newreno_beta: v.newreno_beta as u64,
            newreno_beta_ecn: v.newreno_beta_ecn as u64,
            abe: v.abe != 0,
            abe_loss_reduces: v.abe_frlossreduce != 0,
            hystart: HyStartTuning {
                allowed: v.hystart > 0,
                shrinks: v.hystart > 1,
                conservative: v.hystart > 2,
                min_threshold_us: v.hystart_minrtt_thresh as u32,
                max_threshold_us: v.hystart_maxrtt_thresh as u32,
                samples: v.hystart_n_rttsamples as u32,
                growth_divisor: v.hystart_css_growth_div as u64,
                rounds: v.hystart_css_rounds as u32,
            },
        }
    }

    /// What the sender is made with.
    pub fn sender_tuning(&self) -> SenderTuning {
        let (v, era) = (&self.values, &self.era);
        SenderTuning {
            cc: self.cc_tuning(),
            cubic: era.cubic,
            cdg: v.cdg,
            initial_window: self.initial_window(),
            maxseg_without_options: era.maxseg_without_options,
            persists_when_closed: era.persists_when_closed,
            silly_window_counts_options: era.full_segment_with_options,
            abc_capped_in_avoidance: era.abc_capped_in_avoidance,
            rfc3042: v.rfc3042 != 0,
            duplicates: era.duplicates,
            recovery: era.recovery,
            do_prr: v.do_prr != 0,
            prr_conservative: v.do_prr_conservative != 0,
            rfc6675_pipe: v.rfc6675_pipe != 0,
            lost_retransmission_detection: v.lrd != 0,
            sack_maxholes: v.sack_maxholes as usize,
            sack_tso: v.sack_tso != 0,
            undo_by_timestamp: era.modern,
            timeout_keeps_scoreboard: era.newest,
            timeouts_reset_rtt: !era.newest,
            idle_counts_sending: era.newest,
            post_recovery_last: era.newest,
            ecn_recovery_by_prr: era.modern,
            rexmit_min_ms: v.rexmit_min as u32,
            rexmit_slop_ms: v.rexmit_slop as u32,
            tso: v.tso != 0,
            sendbuf_inc: v.sendbuf_inc as u64,
            sendbuf_max: v.sendbuf_max as u64,
            largest_buffer: largest_buffer(v.maxsockbuf as u64),
            newcwv: v.newcwv != 0,
        }
    }

    /// What the receiver is made with.
    pub fn receiver_tuning(&self) -> ReceiverTuning {
        let (v, era) = (&self.values, &self.era);
        ReceiverTuning {
            delayed_ack: v.delayed_ack != 0,
            delack_ms: v.delacktime as u32,
            aggregates_acked_at_once: era.modern,
            updates_need_a_quarter: era.updates_need_a_quarter,
            reassembly_limited: era.reassembly_limited,
            dsack: era.modern,
            autosize: if era.modern {
                Autosize::ByHalf
            } else {
                Autosize::PerRoundTrip { inc: v.recvbuf_inc as u64 }
            },
            recvbuf_max: v.recvbuf_max as u64,
            maxsockbuf: v.maxsockbuf as u64,
            maxsockbuf_fixed: self.maxsockbuf_fixed,
            rounds_to_mss_with_options: era.full_segment_with_options,
            maxseg_without_options: era.maxseg_without_options,
            rfc1323: self.facts.timestamps,
        }
    }

    /// The buffer an application gets that asks for `asked`: refused (and so as before) when the host forbids it.
    fn granted(&self, asked: Option<u64>, default: i64, auto: i64) -> (u64, bool) {
        let allowed = largest_buffer(self.values.maxsockbuf as u64);
        match asked {
            Some(bytes) if !self.maxsockbuf_fixed || bytes <= allowed => (bytes, false),
            _ => (default as u64, auto != 0),
        }
    }
}

impl Profile for FreeBsd {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn sysctls(&self) -> Vec<Sysctl> {
        KNOBS
            .iter()
            .filter(|knob| self.names.contains(&knob.name))
            .map(|knob| Sysctl {
                name: knob.name,
                default: (knob.get)(self),
                min: knob.min,
                max: knob.max,
                about: knob.about,
            })
            .collect()
    }

    fn set(&mut self, name: &str, value: i64) {
        if let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) {
            (knob.set)(self, value);
        }
    }

    fn buffers(&self, socket: &SocketOptions) -> ((u64, bool), (u64, bool)) {
        let v = &self.values;
        (
            self.granted(socket.sndbuf, v.sendspace, v.sendbuf_auto),
            self.granted(socket.rcvbuf, v.recvspace, v.recvbuf_auto),
        )
    }

    fn sender(&self, cc: &str, random: u64) -> Box<dyn Sender> {
        match self.rack {
            Some(rack) => Box::new(RackSender::new(self.sender_tuning(), rack, cc, random)),
            None => Box::new(FreeBsdSender::new(self.sender_tuning(), cc, random)),
        }
    }

    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(FreeBsdReceiver::new(self.receiver_tuning()))
    }
}
