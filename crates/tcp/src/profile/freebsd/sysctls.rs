//! FreeBSD's sysctls: their values, and the table of their names, bounds and meanings.

use super::FreeBsd;
use crate::cc::freebsd::{
    BackoffTuning, CdgTuning, ChdTuning, DctcpTuning, HtcpTuning, MAX_ALPHA, VegasTuning,
};
use crate::clock::MILLISECOND;
use crate::stack::{EcnMode, IcmpRules};
use crate::syn_cookies::ALWAYS;

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
    pub reass_maxqueuelen: i64,
    pub do_prr: i64,
    pub do_prr_conservative: i64,
    pub rfc6675_pipe: i64,
    pub lrd: i64,
    pub sack_tso: i64,
    pub newcwv: i64,
    pub blackhole_detection: i64,
    pub blackhole_mss: i64,
    pub v6_blackhole_mss: i64,
    pub abe: i64,
    pub abe_frlossreduce: i64,
    pub newreno_beta: i64,
    pub newreno_beta_ecn: i64,
    /// Part of HyStart++ that RACK allows: 0 nothing, 1 all, 2 the window shrinks, 3 less so.
    pub hystart: i64,
    pub hystart_minrtt_thresh: i64,
    pub hystart_maxrtt_thresh: i64,
    pub hystart_n_rttsamples: i64,
    pub hystart_css_growth_div: i64,
    pub hystart_css_rounds: i64,
    pub cdg: CdgTuning,
    pub dctcp: DctcpTuning,
    pub htcp: HtcpTuning,
    pub vegas: VegasTuning,
    pub hd: BackoffTuning,
    pub chd: ChdTuning,
}

impl Values {
    /// Values that every release begins with.
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
            reass_maxqueuelen: 100,
            do_prr: 0,
            do_prr_conservative: 0,
            rfc6675_pipe: 0,
            lrd: 0,
            sack_tso: 0,
            newcwv: 0,
            blackhole_detection: 0,
            blackhole_mss: 1200,
            v6_blackhole_mss: 1220,
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
            dctcp: DctcpTuning::DEFAULT,
            htcp: HtcpTuning { adaptive_backoff: false, rtt_scaling: false },
            vegas: VegasTuning::DEFAULT,
            hd: BackoffTuning::HD,
            chd: ChdTuning::DEFAULT,
        }
    }
}

/// Sysctl of the table.
pub(super) struct Knob {
    pub name: &'static str,
    pub min: i64,
    pub max: i64,
    pub about: &'static str,
    pub get: fn(&FreeBsd) -> i64,
    pub set: fn(&mut FreeBsd, i64),
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

/// A switch, by the path to its field of the stack's description.
macro_rules! switch {
    ($name:literal, $($field:ident).+, $about:literal) => {
        Knob {
            name: $name,
            min: 0,
            max: 1,
            about: $about,
            get: |p| i64::from(p.spec.$($field).+),
            set: |p, value| p.spec.$($field).+ = value != 0,
        }
    };
}
pub(super) use switch;

/// A knob of one congestion control, by the path to its field.
macro_rules! own {
    ($name:literal, $($field:ident).+, $type:ty, $min:expr, $max:expr, $about:literal) => {
        Knob {
            name: $name,
            min: $min,
            max: $max,
            about: $about,
            get: |p| p.values.$($field).+ as i64,
            set: |p, value| p.values.$($field).+ = value as $type,
        }
    };
}

/// A switch of one congestion control.
macro_rules! flag {
    ($name:literal, $($field:ident).+, $about:literal) => {
        Knob {
            name: $name,
            min: 0,
            max: 1,
            about: $about,
            get: |p| i64::from(p.values.$($field).+),
            set: |p, value| p.values.$($field).+ = value != 0,
        }
    };
}

/// A time of keep-alive.
macro_rules! milliseconds {
    ($name:literal, $field:ident, $about:literal) => {
        Knob {
            name: $name,
            min: 1,
            max: MAX_MILLISECONDS,
            about: $about,
            get: |p| (p.spec.keep_alive.$field / MILLISECOND) as i64,
            set: |p, value| p.spec.keep_alive.$field = value as u64 * MILLISECOND,
        }
    };
}

/// The longest time that can be asked for, ms.
const MAX_MILLISECONDS: i64 = i32::MAX as i64;
/// The largest buffer that can be asked for, bytes.
const LARGEST_BUFFER: i64 = 1 << 30;

/// Every sysctl of any release (tcp(4), cc_newreno(4), cc_cdg(4), tuning(7)).
pub(super) const KNOBS: &[Knob] = &[
    Knob {
        name: "net.inet.tcp.rfc1323",
        min: 0,
        max: 1,
        about: "window scaling and timestamps",
        get: |p| i64::from(p.spec.timestamps),
        set: |p, value| {
            p.spec.timestamps = value != 0;
            p.spec.window_scaling = value != 0;
        },
    },
    Knob {
        name: "net.inet.tcp.sack.enable",
        min: 0,
        max: 1,
        about: "selective acknowledgements",
        get: |p| i64::from(p.spec.sack),
        set: |p, value| p.spec.sack = value != 0,
    },
    Knob {
        name: "net.inet.tcp.ecn.enable",
        min: 0,
        max: 4,
        about: "0 off, 1 asked for and accepted, 2 accepted only; main: 3 Accurate ECN asked for and accepted, 4 accepted",
        get: |p| match p.spec.ecn {
            EcnMode::Off => 0,
            EcnMode::On => 1,
            EcnMode::Accurate => 3,
            EcnMode::AcceptAccurate => 4,
            EcnMode::Accept | EcnMode::OnAcceptAccurate => 2,
        },
        set: |p, value| {
            p.spec.ecn = match value {
                0 => EcnMode::Off,
                1 => EcnMode::On,
                3 => EcnMode::Accurate,
                4 => EcnMode::AcceptAccurate,
                _ => EcnMode::Accept,
            };
        },
    },
    Knob {
        name: "net.inet.tcp.icmp_may_rst",
        min: 0,
        max: 1,
        about: "ICMP errors that speak of a refusal end an attempt to connect",
        get: |p| i64::from(p.spec.rules.icmp == IcmpRules::FreeBsd { may_reset: true }),
        set: |p, value| p.spec.rules.icmp = IcmpRules::FreeBsd { may_reset: value != 0 },
    },
    switch!(
        "net.inet.tcp.path_mtu_discovery",
        sets_df,
        "packets of IPv4 have DF; without it they may be cut by routers"
    ),
    switch!("net.inet.tcp.insecure_rst", rules.insecure_rst, "any reset in the window counts"),
    switch!("net.inet.tcp.insecure_syn", rules.insecure_syn, "a SYN in the window resets the connection"),
    switch!(
        "net.inet.tcp.rexmit_drop_options",
        rules.rexmit_drop_options,
        "the fourth SYN has no options but the MSS"
    ),
    Knob {
        name: "net.inet.tcp.ecn.maxretries",
        min: 0,
        max: 100,
        about: "SYNs sent again that still ask for ECN",
        get: |p| i64::from(p.spec.rules.ecn_syn_retries),
        set: |p, value| p.spec.rules.ecn_syn_retries = value as u8,
    },
    switch!("net.inet.tcp.drop_synfin", rules.drop_synfin, "a SYN with FIN is dropped"),
    Knob {
        name: "net.inet.tcp.always_keepalive",
        min: 0,
        max: 1,
        about: "keep-alive on every connection",
        get: |p| i64::from(p.spec.keep_alive.always),
        set: |p, value| p.spec.keep_alive.always = value != 0,
    },
    milliseconds!("net.inet.tcp.keepidle", idle, "silence before the first keep-alive probe, ms"),
    milliseconds!("net.inet.tcp.keepintvl", interval, "time between keep-alive probes, ms"),
    Knob {
        name: "net.inet.tcp.keepcnt",
        min: 1,
        max: 1000,
        about: "keep-alive probes without an answer that end a connection",
        get: |p| i64::from(p.spec.keep_alive.count),
        set: |p, value| p.spec.keep_alive.count = value as u32,
    },
    Knob {
        name: "net.inet.tcp.keepinit",
        min: 1,
        max: MAX_MILLISECONDS,
        about: "longest duration of a connection attempt, ms",
        get: |p| (p.spec.keep_alive.attempt.unwrap_or(0) / MILLISECOND) as i64,
        set: |p, value| p.spec.keep_alive.attempt = Some(value as u64 * MILLISECOND),
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
        max: u32::MAX as i64,
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
    value!(
        "net.inet.tcp.reass.maxqueuelen",
        reass_maxqueuelen,
        1,
        65_536,
        "runs of segments kept out of order"
    ),
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
    value!(
        "net.inet.tcp.pmtud_blackhole_detection",
        blackhole_detection,
        0,
        3,
        "smaller packets after timeouts: 0 off, 1 on, 2 with IPv4, 3 with IPv6"
    ),
    value!(
        "net.inet.tcp.pmtud_blackhole_mss",
        blackhole_mss,
        256,
        65_495,
        "MSS tried first after timeouts with IPv4, bytes"
    ),
    value!(
        "net.inet.tcp.v6pmtud_blackhole_mss",
        v6_blackhole_mss,
        256,
        65_495,
        "MSS tried first after timeouts with IPv6, bytes"
    ),
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
    own!(
        "net.inet.tcp.cc.cdg.alpha_inc",
        cdg.alpha_inc,
        u32,
        0,
        1000,
        "RTTs between growths of the increment; 0: none"
    ),
    own!(
        "net.inet.tcp.cc.cdg.beta_delay",
        cdg.beta_delay,
        u64,
        1,
        100,
        "window kept on a delay signal, percent"
    ),
    own!("net.inet.tcp.cc.cdg.beta_loss", cdg.beta_loss, u64, 1, 100, "window kept on loss, percent"),
    own!(
        "net.inet.tcp.cc.cdg.exp_backoff_scale",
        cdg.exp_backoff_scale,
        i64,
        1,
        1000,
        "scale of the backoff probability"
    ),
    own!(
        "net.inet.tcp.cc.cdg.smoothing_factor",
        cdg.smoothing_factor,
        usize,
        0,
        1000,
        "RTTs gradients are averaged over"
    ),
    own!(
        "net.inet.tcp.cc.cdg.loss_compete_consec_cong",
        cdg.loss_compete_consec_cong,
        u32,
        0,
        1000,
        "delay signals in a row that show a loss-based competitor"
    ),
    own!(
        "net.inet.tcp.cc.cdg.loss_compete_hold_backoff",
        cdg.loss_compete_hold_backoff,
        u32,
        0,
        1000,
        "delay signals then ignored"
    ),
    own!(
        "net.inet.tcp.cc.dctcp.alpha",
        dctcp.alpha,
        u32,
        0,
        MAX_ALPHA as i64,
        "part of the bytes that a new connection takes to be marked, in 1/1024"
    ),
    own!(
        "net.inet.tcp.cc.dctcp.shift_g",
        dctcp.shift_g,
        u32,
        0,
        10,
        "weight of a window's marks, as a power of 1/2"
    ),
    flag!("net.inet.tcp.cc.dctcp.slowstart", dctcp.slowstart, "the first echo halves the window"),
    flag!("net.inet.tcp.cc.htcp.adaptive_backoff", htcp.adaptive_backoff, "the decrease follows the RTTs"),
    flag!("net.inet.tcp.cc.htcp.rtt_scaling", htcp.rtt_scaling, "the increase follows the RTT"),
    own!(
        "net.inet.tcp.cc.vegas.alpha",
        vegas.alpha,
        i64,
        1,
        1000,
        "segments in the path below which it grows"
    ),
    own!(
        "net.inet.tcp.cc.vegas.beta",
        vegas.beta,
        i64,
        1,
        1000,
        "segments in the path above which it shrinks"
    ),
    own!(
        "net.inet.tcp.cc.hd.queue_threshold",
        hd.threshold,
        u32,
        1,
        10_000,
        "likeliest queueing delay, ticks"
    ),
    own!("net.inet.tcp.cc.hd.queue_min", hd.min, u32, 1, 10_000, "delay that is not reacted to, ticks"),
    own!(
        "net.inet.tcp.cc.hd.pmax",
        hd.max_percent,
        u32,
        1,
        100,
        "largest probability of backing off, percent"
    ),
    own!(
        "net.inet.tcp.cc.chd.queue_threshold",
        chd.backoff.threshold,
        u32,
        1,
        10_000,
        "likeliest queueing delay, ticks"
    ),
    own!(
        "net.inet.tcp.cc.chd.queue_min",
        chd.backoff.min,
        u32,
        0,
        10_000,
        "delay that is not reacted to, ticks"
    ),
    own!(
        "net.inet.tcp.cc.chd.pmax",
        chd.backoff.max_percent,
        u32,
        1,
        100,
        "largest probability of backing off, percent"
    ),
    flag!("net.inet.tcp.cc.chd.loss_fair", chd.loss_fair, "competes with flows that only losses hold back"),
    flag!("net.inet.tcp.cc.chd.use_max", chd.use_max, "a round's delay is its largest, not its last"),
    Knob {
        name: "net.inet.tcp.syncookies_only",
        min: 0,
        max: 1,
        about: "every SYN is answered with a cookie, and not kept",
        get: |p| i64::from(p.spec.syn_cookies.answers().is_some()),
        set: |p, value| p.spec.syn_cookies.mode = if value != 0 { ALWAYS } else { 1 },
    },
];

/// The sysctls every release has.
macro_rules! common_names {
    ($($more:literal),* $(,)?) => {
        &[
            "net.inet.tcp.rfc1323",
            "net.inet.tcp.sack.enable",
            "net.inet.tcp.ecn.enable",
            "net.inet.tcp.icmp_may_rst",
            "net.inet.tcp.path_mtu_discovery",
            "net.inet.tcp.insecure_rst",
            "net.inet.tcp.insecure_syn",
            "net.inet.tcp.drop_synfin",
            "net.inet.tcp.rexmit_drop_options",
            "net.inet.tcp.ecn.maxretries",
            "net.inet.tcp.always_keepalive",
            "net.inet.tcp.keepidle",
            "net.inet.tcp.keepintvl",
            "net.inet.tcp.keepcnt",
            "net.inet.tcp.keepinit",
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
            "net.inet.tcp.cc.htcp.adaptive_backoff",
            "net.inet.tcp.cc.htcp.rtt_scaling",
            "net.inet.tcp.cc.vegas.alpha",
            "net.inet.tcp.cc.vegas.beta",
            "net.inet.tcp.cc.hd.queue_threshold",
            "net.inet.tcp.cc.hd.queue_min",
            "net.inet.tcp.cc.hd.pmax",
            "net.inet.tcp.cc.chd.queue_threshold",
            "net.inet.tcp.cc.chd.queue_min",
            "net.inet.tcp.cc.chd.pmax",
            "net.inet.tcp.cc.chd.loss_fair",
            "net.inet.tcp.cc.chd.use_max",
            $($more),*
        ]
    };
}
pub(super) use common_names;
