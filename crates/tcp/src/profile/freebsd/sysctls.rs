//! FreeBSD's sysctls: their values, and the table of their names, bounds, meanings and releases.

use super::FreeBsd;
use crate::cc::freebsd::{
    BackoffTuning, CdgTuning, ChdTuning, DctcpTuning, HtcpTuning, MAX_ALPHA, VegasTuning,
};
use crate::clock::MILLISECOND;
use crate::profile::knob::{Knob, knob};
use crate::stack::{EcnMode, IcmpRules};
use crate::syn_cookies::ALWAYS;
use Release::{Rack15, V9_0, V9_2, V11, V13, V15};

macro_rules! values {
    ($($field:ident = $common:literal),* $(,)?) => {
        /// Values of the sysctls; a release lacks some.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Values {
            $(pub $field: i64,)*
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
                    $($field: $common,)*
                    cdg: CdgTuning::DEFAULT,
                    dctcp: DctcpTuning::DEFAULT,
                    htcp: HtcpTuning { adaptive_backoff: false, rtt_scaling: false },
                    vegas: VegasTuning::DEFAULT,
                    hd: BackoffTuning::HD,
                    chd: ChdTuning::DEFAULT,
                }
            }
        }
    };
}

// `hystart` is the part of HyStart++ that RACK allows: 0 nothing, 1 all, 2 the window shrinks, 3 less so.
values! {
    rfc3465 = 1, abc_l_var = 2, initcwnd_segments = 10, rfc3390 = 1, slowstart_flightsize = 1, rfc3042 = 1,
    delayed_ack = 1, delacktime = 100, sendspace = 32_768, recvspace = 65_536, sendbuf_auto = 1, sendbuf_inc = 8192,
    sendbuf_max = 2_097_152, recvbuf_auto = 1, recvbuf_inc = 16_384, recvbuf_max = 2_097_152,
    maxsockbuf = 2_097_152, rexmit_min = 30, rexmit_slop = 200, tso = 1, sack_maxholes = 128,
    reass_maxqueuelen = 100, do_prr = 0, do_prr_conservative = 0, rfc6675_pipe = 0, lrd = 0, sack_tso = 0, newcwv = 0,
    blackhole_detection = 0, blackhole_mss = 1200, v6_blackhole_mss = 1220, abe = 0, abe_frlossreduce = 0,
    newreno_beta = 50, newreno_beta_ecn = 80, hystart = 0, hystart_minrtt_thresh = 4000,
    hystart_maxrtt_thresh = 16_000, hystart_n_rttsamples = 8, hystart_css_growth_div = 4,
    hystart_css_rounds = 5,
}

/// Releases that differ in their sysctls, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Release {
    V9_0,
    V9_2,
    V11,
    V13,
    V15,
    /// The RACK stack of FreeBSD 15.
    Rack15,
}

/// First and last release that has a sysctl.
type Releases = (Release, Release);

const ALL: Releases = since(V9_0);

const fn since(first: Release) -> Releases {
    (first, Rack15)
}

/// Bounds of times, ms.
const MILLISECONDS: (i64, i64) = (1, i32::MAX as i64);
/// The largest buffer that can be asked for, bytes.
const LARGEST_BUFFER: i64 = 1 << 30;

fn get_ecn(stack: &FreeBsd) -> i64 {
    match stack.spec.ecn {
        EcnMode::Off => 0,
        EcnMode::On => 1,
        EcnMode::Accurate => 3,
        EcnMode::AcceptAccurate => 4,
        EcnMode::Accept | EcnMode::OnAcceptAccurate => 2,
    }
}

fn set_ecn(stack: &mut FreeBsd, value: i64) {
    stack.spec.ecn = match value {
        0 => EcnMode::Off,
        1 => EcnMode::On,
        3 => EcnMode::Accurate,
        4 => EcnMode::AcceptAccurate,
        _ => EcnMode::Accept,
    };
}

macro_rules! knobs_of_releases {
    ($($name:literal, $range:expr, $about:literal, ($($how:tt)+), $releases:expr;)*) => {
        &[$((knob!($name, $range, $about, $($how)+), $releases)),*]
    };
}

/// Every sysctl of any release (tcp(4), cc_newreno(4), cc_cdg(4), tuning(7)), and the releases that have it.
pub(super) const KNOBS: &[(Knob<FreeBsd>, Releases)] = knobs_of_releases! {
    "net.inet.tcp.rfc1323", (0, 1), "window scaling and timestamps",
        (|p| p.spec.timestamps.into(), |p, v| (p.spec.timestamps, p.spec.window_scaling) = (v != 0, v != 0)), ALL;
    "net.inet.tcp.sack.enable", (0, 1), "selective acknowledgements", (spec.sack: bool), ALL;
    "net.inet.tcp.ecn.enable", (0, 4),
        "0 off, 1 asked for and accepted, 2 accepted only; main: 3 Accurate ECN asked for and accepted, 4 accepted",
        (get_ecn, set_ecn), ALL;
    "net.inet.tcp.icmp_may_rst", (0, 1), "ICMP errors that speak of a refusal end an attempt to connect",
        (|p| i64::from(p.spec.rules.icmp == IcmpRules::FreeBsd { may_reset: true }),
         |p, v| p.spec.rules.icmp = IcmpRules::FreeBsd { may_reset: v != 0 }), ALL;
    "net.inet.tcp.path_mtu_discovery", (0, 1), "packets of IPv4 have DF; without it they may be cut by routers",
        (spec.sets_df: bool), ALL;
    "net.inet.tcp.insecure_rst", (0, 1), "any reset in the window counts", (spec.rules.insecure_rst: bool), ALL;
    "net.inet.tcp.insecure_syn", (0, 1), "a SYN in the window resets the connection",
        (spec.rules.insecure_syn: bool), ALL;
    "net.inet.tcp.rexmit_drop_options", (0, 1), "the fourth SYN has no options but the MSS",
        (spec.rules.rexmit_drop_options: bool), ALL;
    "net.inet.tcp.ecn.maxretries", (0, 100), "SYNs sent again that still ask for ECN",
        (spec.rules.ecn_syn_retries: u8), ALL;
    "net.inet.tcp.drop_synfin", (0, 1), "a SYN with FIN is dropped", (spec.rules.drop_synfin: bool), ALL;
    "net.inet.tcp.always_keepalive", (0, 1), "keep-alive on every connection", (spec.keep_alive.always: bool), ALL;
    "net.inet.tcp.keepidle", MILLISECONDS, "silence before the first keep-alive probe, ms",
        (spec.keep_alive.idle: MILLISECOND * u64), ALL;
    "net.inet.tcp.keepintvl", MILLISECONDS, "time between keep-alive probes, ms",
        (spec.keep_alive.interval: MILLISECOND * u64), ALL;
    "net.inet.tcp.keepcnt", (1, 1000), "keep-alive probes without an answer that end a connection",
        (spec.keep_alive.count: u32), ALL;
    "net.inet.tcp.keepinit", MILLISECONDS, "longest duration of a connection attempt, ms",
        (|p| (p.spec.keep_alive.attempt.unwrap_or(0) / MILLISECOND) as i64,
         |p, v| p.spec.keep_alive.attempt = Some(v as u64 * MILLISECOND)), ALL;
    "net.inet.tcp.rfc3465", (0, 1), "appropriate byte counting", (values.rfc3465), ALL;
    "net.inet.tcp.abc_l_var", (1, 1000), "segments an ACK may add in slow start", (values.abc_l_var), ALL;
    "net.inet.tcp.initcwnd_segments", (0, 100), "initial window, segments; 0: by RFC 3390",
        (values.initcwnd_segments), since(V11);
    "net.inet.tcp.experimental.initcwnd10", (0, 1), "initial window of 10 segments",
        (|p| i64::from(p.values.initcwnd_segments == 10), |p, v| p.values.initcwnd_segments = 10 * v), (V9_2, V9_2);
    "net.inet.tcp.rfc3390", (0, 1), "initial window by RFC 3390", (values.rfc3390), ALL;
    "net.inet.tcp.slowstart_flightsize", (1, 100), "initial window without RFC 3390, segments",
        (values.slowstart_flightsize), (V9_0, V9_0);
    "net.inet.tcp.rfc3042", (0, 1), "limited transmit", (values.rfc3042), ALL;
    "net.inet.tcp.delayed_ack", (0, 1), "delayed ACKs", (values.delayed_ack), ALL;
    "net.inet.tcp.delacktime", (1, 2000), "delayed-ACK timer, ms", (values.delacktime), ALL;
    "net.inet.tcp.sendspace", (4096, LARGEST_BUFFER), "initial send buffer, bytes", (values.sendspace), ALL;
    "net.inet.tcp.recvspace", (4096, LARGEST_BUFFER), "initial receive buffer, bytes", (values.recvspace), ALL;
    "net.inet.tcp.sendbuf_auto", (0, 1), "send-buffer autotuning", (values.sendbuf_auto), ALL;
    "net.inet.tcp.sendbuf_inc", (1, LARGEST_BUFFER), "its step, bytes", (values.sendbuf_inc), ALL;
    "net.inet.tcp.sendbuf_max", (4096, LARGEST_BUFFER), "its limit, bytes", (values.sendbuf_max), ALL;
    "net.inet.tcp.recvbuf_auto", (0, 1), "receive-buffer autotuning", (values.recvbuf_auto), ALL;
    "net.inet.tcp.recvbuf_inc", (1, LARGEST_BUFFER), "its step, bytes", (values.recvbuf_inc), (V9_0, V11);
    "net.inet.tcp.recvbuf_max", (4096, LARGEST_BUFFER), "its limit, bytes", (values.recvbuf_max), ALL;
    "kern.ipc.maxsockbuf", (65_536, u32::MAX as i64), "largest socket buffer, bytes; decides the window scale",
        (|p| p.values.maxsockbuf, |p, v| { p.values.maxsockbuf = v; p.maxsockbuf_fixed = true; }), ALL;
    "net.inet.tcp.rexmit_min", (1, 10_000), "smallest retransmission timeout before slop, ms",
        (values.rexmit_min), ALL;
    "net.inet.tcp.rexmit_slop", (0, 10_000), "added to every retransmission timeout, ms", (values.rexmit_slop), ALL;
    "net.inet.tcp.tso", (0, 1), "segmentation offload where the interface has it", (values.tso), ALL;
    "net.inet.tcp.sack.maxholes", (1, 65_536), "holes remembered", (values.sack_maxholes), ALL;
    "net.inet.tcp.reass.maxqueuelen", (1, 65_536), "runs of segments kept out of order",
        (values.reass_maxqueuelen), since(V13);
    "net.inet.tcp.do_prr", (0, 1), "proportional rate reduction", (values.do_prr), since(V13);
    "net.inet.tcp.do_prr_conservative", (0, 1), "its conservative bound", (values.do_prr_conservative), since(V13);
    "net.inet.tcp.rfc6675_pipe", (0, 1), "flight counted by RFC 6675", (values.rfc6675_pipe), (V11, V13);
    "net.inet.tcp.sack.revised", (0, 1), "flight counted by RFC 6675, rescue retransmission",
        (values.rfc6675_pipe), since(V15);
    "net.inet.tcp.sack.lrd", (0, 1), "lost-retransmission detection", (values.lrd), since(V15);
    "net.inet.tcp.sack.tso", (0, 1), "holes filled with segmentation offload", (values.sack_tso), since(V15);
    "net.inet.tcp.newcwv", (0, 1), "cwnd grows only while the pipe is near it (RFC 7661)",
        (values.newcwv), since(V13);
    "net.inet.tcp.pmtud_blackhole_detection", (0, 3),
        "smaller packets after timeouts: 0 off, 1 on, 2 with IPv4, 3 with IPv6",
        (values.blackhole_detection), since(V13);
    "net.inet.tcp.pmtud_blackhole_mss", (256, 65_495), "MSS tried first after timeouts with IPv4, bytes",
        (values.blackhole_mss), since(V13);
    "net.inet.tcp.v6pmtud_blackhole_mss", (256, 65_495), "MSS tried first after timeouts with IPv6, bytes",
        (values.v6_blackhole_mss), since(V13);
    "net.inet.tcp.cc.abe", (0, 1), "alternative backoff with ECN (RFC 8511)", (values.abe), since(V13);
    "net.inet.tcp.cc.abe_frlossreduce", (0, 1), "with ABE, loss during an ECN reaction reduces further",
        (values.abe_frlossreduce), since(V13);
    "net.inet.tcp.cc.newreno.beta", (1, 100), "window kept on loss, percent", (values.newreno_beta), since(V13);
    "net.inet.tcp.cc.newreno.beta_ecn", (1, 100), "window kept on an ECN echo with ABE, percent",
        (values.newreno_beta_ecn), since(V13);
    "net.inet.tcp.rack.features.hystartplusplus", (0, 3),
        "HyStart++ (RFC 9406): 0 off, 1 on, 2 shrinking the window at its end, 3 to the mean",
        (values.hystart), since(Rack15);
    "net.inet.tcp.cc.hystartplusplus.minrtt_thresh", (1, 10_000_000),
        "smallest rise of the RTT that HyStart++ sees, us",
        (values.hystart_minrtt_thresh), since(V15);
    "net.inet.tcp.cc.hystartplusplus.maxrtt_thresh", (1, 10_000_000), "largest rise that it asks for, us",
        (values.hystart_maxrtt_thresh), since(V15);
    "net.inet.tcp.cc.hystartplusplus.n_rttsamples", (1, 10_000), "RTT samples of a round before it is judged",
        (values.hystart_n_rttsamples), since(V15);
    "net.inet.tcp.cc.hystartplusplus.css_growth_div", (1, 10_000), "divisor of growth in conservative slow start",
        (values.hystart_css_growth_div), since(V15);
    "net.inet.tcp.cc.hystartplusplus.css_rounds", (1, 10_000), "rounds of conservative slow start",
        (values.hystart_css_rounds), since(V15);
    "net.inet.tcp.cc.cdg.alpha_inc", (0, 1000), "RTTs between growths of the increment; 0: none",
        (values.cdg.alpha_inc: u32), ALL;
    "net.inet.tcp.cc.cdg.beta_delay", (1, 100), "window kept on a delay signal, percent",
        (values.cdg.beta_delay: u64), ALL;
    "net.inet.tcp.cc.cdg.beta_loss", (1, 100), "window kept on loss, percent", (values.cdg.beta_loss: u64), ALL;
    "net.inet.tcp.cc.cdg.exp_backoff_scale", (1, 1000), "scale of the backoff probability",
        (values.cdg.exp_backoff_scale: i64), ALL;
    "net.inet.tcp.cc.cdg.smoothing_factor", (0, 1000), "RTTs gradients are averaged over",
        (values.cdg.smoothing_factor: usize), ALL;
    "net.inet.tcp.cc.cdg.loss_compete_consec_cong", (0, 1000),
        "delay signals in a row that show a loss-based competitor",
        (values.cdg.loss_compete_consec_cong: u32), ALL;
    "net.inet.tcp.cc.cdg.loss_compete_hold_backoff", (0, 1000), "delay signals then ignored",
        (values.cdg.loss_compete_hold_backoff: u32), ALL;
    "net.inet.tcp.cc.dctcp.alpha", (0, MAX_ALPHA as i64),
        "part of the bytes that a new connection takes to be marked, in 1/1024",
        (values.dctcp.alpha: u32), since(V11);
    "net.inet.tcp.cc.dctcp.shift_g", (0, 10), "weight of a window's marks, as a power of 1/2",
        (values.dctcp.shift_g: u32), since(V11);
    "net.inet.tcp.cc.dctcp.slowstart", (0, 1), "the first echo halves the window",
        (values.dctcp.slowstart: bool), since(V11);
    "net.inet.tcp.cc.htcp.adaptive_backoff", (0, 1), "the decrease follows the RTTs",
        (values.htcp.adaptive_backoff: bool), ALL;
    "net.inet.tcp.cc.htcp.rtt_scaling", (0, 1), "the increase follows the RTT",
        (values.htcp.rtt_scaling: bool), ALL;
    "net.inet.tcp.cc.vegas.alpha", (1, 1000), "segments in the path below which it grows",
        (values.vegas.alpha: i64), ALL;
    "net.inet.tcp.cc.vegas.beta", (1, 1000), "segments in the path above which it shrinks",
        (values.vegas.beta: i64), ALL;
    "net.inet.tcp.cc.hd.queue_threshold", (1, 10_000), "likeliest queueing delay, ticks",
        (values.hd.threshold: u32), ALL;
    "net.inet.tcp.cc.hd.queue_min", (1, 10_000), "delay that is not reacted to, ticks", (values.hd.min: u32), ALL;
    "net.inet.tcp.cc.hd.pmax", (1, 100), "largest probability of backing off, percent",
        (values.hd.max_percent: u32), ALL;
    "net.inet.tcp.cc.chd.queue_threshold", (1, 10_000), "likeliest queueing delay, ticks",
        (values.chd.backoff.threshold: u32), ALL;
    "net.inet.tcp.cc.chd.queue_min", (0, 10_000), "delay that is not reacted to, ticks",
        (values.chd.backoff.min: u32), ALL;
    "net.inet.tcp.cc.chd.pmax", (1, 100), "largest probability of backing off, percent",
        (values.chd.backoff.max_percent: u32), ALL;
    "net.inet.tcp.cc.chd.loss_fair", (0, 1), "competes with flows that only losses hold back",
        (values.chd.loss_fair: bool), ALL;
    "net.inet.tcp.cc.chd.use_max", (0, 1), "a round's delay is its largest, not its last",
        (values.chd.use_max: bool), ALL;
    "net.inet.tcp.syncookies_only", (0, 1), "every SYN is answered with a cookie, and not kept",
        (|p| i64::from(p.spec.syn_cookies.answers().is_some()),
         |p, v| p.spec.syn_cookies.mode = if v != 0 { ALWAYS } else { 1 }), since(V11);
};
