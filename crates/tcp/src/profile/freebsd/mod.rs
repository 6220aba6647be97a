//! FreeBSD's stacks as profiles: how the values of sysctls become senders and receivers.

mod fast_open;
mod host_cache;
mod sysctls;
mod v11;
mod v13;
mod v15;
mod v9_0;
mod v9_2;

use std::sync::{Arc, OnceLock};

use fast_open::FAST_OPEN;
use sysctls::{KNOBS, Release, Values};

use wire::segment::MAX_WINDOW;

use crate::cc::Module;
use crate::cc::freebsd::{CcTuning, CubicEra, HyStartTuning, InitialWindow, Registry};
use crate::cc::replay::{self, Replay};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::fast_open::Style;
use crate::profile::knob::Knob;
use crate::receiver::Receiver;
use crate::receiver::freebsd::{
    Autosize, FreeBsdReceiver, Reassembly, Tuning as ReceiverTuning, largest_buffer,
};
use crate::sender::Sender;
use crate::sender::freebsd::FreeBsdSender;
use crate::sender::freebsd::path_mtu::BlackHoleTuning;
use crate::sender::freebsd::tuning::{DuplicateRule, Recovery, Tuning as SenderTuning};
use crate::sender::rack::{RackSender, RackTuning, WheelTimers};
use crate::stack::{
    Buffer, EcnMode, Family, KeepAlive, Profile, ProfileError, SocketOptions, StackSpec, StateRules, Sysctl,
    not_of_this_family,
};

/// Differences of a release besides the values of its sysctls.
#[derive(Clone, Copy, Debug)]
struct Era {
    /// The control block's MSS is less options (FreeBSD 9.x).
    pub maxseg_without_options: bool,
    /// A closed window starts probes whenever data waits, even data to be sent again after a timeout (FreeBSD 10.3
    /// and later).
    pub persists_when_closed: bool,
    /// Silly-window avoidance and the rounding of buffers take the MSS, options included, for a full segment
    /// (FreeBSD 11).
    pub full_segment_with_options: bool,
    /// Byte counting in congestion avoidance is capped at L segments an ACK.
    pub abc_capped_in_avoidance: bool,
    /// Duplicate ACKs.
    pub duplicates: DuplicateRule,
    /// Fast recovery.
    pub recovery: Recovery,
    /// CUBIC's generation.
    pub cubic: CubicEra,
    /// Whether the release has what came with FreeBSD 12: module-owned timeouts, exit with a segment, merged ACKs
    /// counted, PRR after ECN, undo by timestamp, restart that keeps ssthresh, aggregates acknowledged at once,
    /// receive buffer by halves, D-SACK, a reassembly queue of merged runs, idle times that count sending.
    pub since_12: bool,
    /// Whether the release has what came by FreeBSD 15: pipe on timeouts, scoreboard kept by the first,
    /// post-recovery last.
    pub since_15: bool,
    /// Whether the window after an idle time is the initial one (else RFC 3390's).
    pub restart_at_initial_window: bool,
    /// Window updates need a quarter of the buffer (FreeBSD 9.2 and later).
    pub updates_need_a_quarter: bool,
    /// Reassembly queue limited by the buffer in segments (FreeBSD 9.x).
    pub reassembly_limited: bool,
}

/// A FreeBSD release with its sysctls.
#[derive(Clone)]
pub struct FreeBsd {
    spec: StackSpec,
    era: Era,
    values: Values,
    /// Release by which the sysctls are chosen.
    release: Release,
    maxsockbuf_fixed: bool,
    /// The RACK stack instead of the default one.
    rack: Option<RackTuning>,
    modules: Registry,
    /// Tuning that senders are made with, once there is one: shared, so that many connections find it in the
    /// caches.
    made_with: OnceLock<Arc<SenderTuning>>,
}

/// Every release, the newest last, with its RACK stack ahead of it.
pub(super) fn all() -> Vec<FreeBsd> {
    vec![
        v9_0::profile(),
        v9_2::profile(),
        v11::profile(),
        v13::rack(),
        v13::profile(),
        v15::d49540_rack(),
        v15::d46546_rack(),
        v15::current_rack(),
        v15::d49540(),
        v15::d46546(),
        v15::current(),
    ]
}

/// The release called `name`, such as `freebsd-9.2`.
pub fn release(name: &str) -> Option<FreeBsd> {
    all().into_iter().find(|release| release.spec.name == name)
}

/// Congestion controls of FreeBSD 9.
const BEFORE_DCTCP: &[&str] = &["newreno", "cubic", "cdg", "htcp", "vegas", "hd", "chd"];

/// Congestion controls where NewReno is the default.
const NEWRENO_FIRST: &[&str] = &["newreno", "cubic", "cdg", "htcp", "vegas", "hd", "chd", "dctcp"];

/// Congestion controls where CUBIC is the default (FreeBSD 14 and later).
const CUBIC_FIRST: &[&str] = &["cubic", "newreno", "cdg", "htcp", "vegas", "hd", "chd", "dctcp"];

/// SYN timeouts of FreeBSD 9.x to 11: 3 s, and what the backoff table makes of it; `slop` as measured on FreeBSD 11.
fn old_syn_timeouts() -> Vec<Nanos> {
    const BACKOFF: [u64; 12] = [1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 64, 64];
    let later = BACKOFF.iter().map(|b| (3 * b * SECOND + 200 * MILLISECOND).min(64 * SECOND));
    std::iter::once(3 * SECOND).chain(later).collect()
}

/// SYN timeouts of FreeBSD 12 and later: 1 s, doubled, with slop after the first.
fn new_syn_timeouts() -> Vec<Nanos> {
    let later = (1..12).map(|shift: u32| ((SECOND << shift) + 200 * MILLISECOND).min(64 * SECOND));
    std::iter::once(SECOND).chain(later).collect()
}

/// Keep-alive of every connection: 75 s for an attempt, probes after two hours, eight of them.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { always: true, count: 8, attempt: Some(75 * SECOND), ..KeepAlive::COMMON };

/// SYN-ACK timeouts: `first`, doubled for at most three retransmissions (net.inet.tcp.syncache.rexmtlimit).
fn synack_timeouts(first: Nanos) -> Vec<Nanos> {
    (0..4).map(|shift| first << shift).collect()
}

/// Time in TIME-WAIT: twice net.inet.tcp.msl.
const TIME_WAIT: Nanos = 60 * SECOND;

/// The specification every release begins with.
fn spec(name: &'static str, inferred: bool) -> StackSpec {
    StackSpec {
        name,
        family: Family::FreeBsd,
        inferred,
        cc: NEWRENO_FIRST,
        cc_alias: &[("reno", "newreno")],
        hz: 1000,
        ecn: EcnMode::Off,
        accecn: crate::accecn::Settings::NONE,
        fast_open: crate::fast_open::Settings::NONE,
        syn_cookies: crate::syn_cookies::Settings::FREEBSD,
        sets_df: true,
        peers: crate::peers::Settings::FREEBSD,
        timestamps: true,
        window_scaling: true,
        sack: true,
        syn_timeouts: old_syn_timeouts(),
        synack_timeouts: synack_timeouts(3 * SECOND),
        timer_wheel: false,
        invalid_ratelimit: 0,
        syn_retry_ticks: None,
        unread_resets: false,
        rules: StateRules::FREEBSD,
        time_wait: TIME_WAIT,
        keep_alive: KEEP_ALIVE,
    }
}

impl FreeBsd {
    fn knobs(&self) -> impl Iterator<Item = &'static Knob<FreeBsd>> + use<> {
        let release = self.release;
        let cache = &host_cache::SWITCHES[usize::from(!self.era.since_12)];
        let own = KNOBS.iter().filter(move |(_, (first, last))| (*first..=*last).contains(&release));
        let own = own.map(|(knob, _)| knob);
        let fast_open = self.spec.fast_open.style != Style::None;
        own.chain(FAST_OPEN.iter().filter(move |_| fast_open)).chain([cache]).chain(&host_cache::TIMES)
    }

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
            abc_counts_merged_acks: self.era.since_12,
            restart_window,
            idle_keeps_ssthresh: self.era.since_12,
            exit_keeps_a_segment: self.era.since_12,
            loss_counts_payload: self.era.since_12,
            module_handles_rto: self.era.since_12,
            rto_from_pipe: self.era.since_15,
            rtt_in_whole_ticks: self.era.since_15,
            state_of_others_is_read: self.era.since_12 && !self.era.since_15,
            newreno_beta: v.newreno_beta as u64,
            newreno_beta_ecn: v.newreno_beta_ecn as u64,
            abe: v.abe != 0,
            // 13 asks for it in a way that is never true.
            abe_loss_reduces: v.abe_frlossreduce != 0 && (self.era.since_15 || !self.era.since_12),
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
            dctcp_answers_cwr: self.era.since_12,
            dctcp: v.dctcp,
            htcp: v.htcp,
            vegas: v.vegas,
            hd: v.hd,
            chd: v.chd,
        }
    }

    /// The release with other timers under its RACK stack's wheel.
    #[must_use]
    pub fn with_wheel_timers(mut self, timers: WheelTimers) -> FreeBsd {
        if let Some(wheel) = self.rack.as_mut().and_then(|rack| rack.wheel.as_mut()) {
            *wheel = timers;
        }
        self
    }

    /// Makes the tuning of the sender.
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
            undo_by_timestamp: era.since_12,
            timeout_keeps_scoreboard: era.since_15,
            timeouts_reset_rtt: !era.since_15,
            idle_counts_sending: era.since_12,
            post_recovery_last: era.since_15,
            ecn_recovery_by_prr: era.since_12,
            rexmit_min_ms: v.rexmit_min as u32,
            rexmit_slop_ms: v.rexmit_slop as u32,
            tso: v.tso != 0,
            sendbuf_inc: v.sendbuf_inc as u64,
            sendbuf_max: v.sendbuf_max as u64,
            largest_buffer: largest_buffer(v.maxsockbuf as u64),
            black_hole: BlackHoleTuning {
                detection: v.blackhole_detection as u8,
                mss: [v.blackhole_mss as u32, v.v6_blackhole_mss as u32],
            },
            newcwv: v.newcwv != 0,
        }
    }

    /// Makes the tuning of the receiver.
    pub fn receiver_tuning(&self) -> ReceiverTuning {
        let (v, era) = (&self.values, &self.era);
        ReceiverTuning {
            delayed_ack: v.delayed_ack != 0,
            delack_ms: v.delacktime as u32,
            aggregates_acked_at_once: era.since_12,
            updates_need_a_quarter: era.updates_need_a_quarter,
            reassembly: match (era.reassembly_limited, era.since_12) {
                (true, _) => Reassembly::Segments,
                (_, true) => Reassembly::Runs(v.reass_maxqueuelen as u32),
                _ => Reassembly::Unlimited,
            },
            dsack: era.since_12,
            autosize: if era.since_12 {
                Autosize::ByHalf
            } else {
                Autosize::PerRoundTrip { inc: v.recvbuf_inc as u64 }
            },
            recvbuf_max: v.recvbuf_max as u64,
            maxsockbuf: v.maxsockbuf as u64,
            maxsockbuf_fixed: self.maxsockbuf_fixed,
            maxseg_without_options: era.maxseg_without_options,
            rfc1323: self.spec.timestamps,
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

/// The sysctls that switch autotuning of a buffer and bound it, and the one that bounds any buffer.
const SEND_SYSCTLS: [&str; 2] = ["net.inet.tcp.sendbuf_auto", "net.inet.tcp.sendbuf_max"];
const RECEIVE_SYSCTLS: [&str; 2] = ["net.inet.tcp.recvbuf_auto", "net.inet.tcp.recvbuf_max"];
const MAXSOCKBUF: &str = "kern.ipc.maxsockbuf";

impl FreeBsd {
    /// Largest value that a sysctl takes: those for Accurate ECN are main's.
    fn largest(&self, knob: &Knob<FreeBsd>) -> i64 {
        let accurate = knob.name == "net.inet.tcp.ecn.enable" && !self.spec.accecn.known;
        if accurate { 2 } else { knob.range.1 }
    }
}

impl Profile for FreeBsd {
    fn spec(&self) -> &StackSpec {
        &self.spec
    }

    fn sysctls(&self) -> Vec<Sysctl> {
        self.knobs().map(|knob| Sysctl { max: self.largest(knob), ..knob.sysctl(self) }).collect()
    }

    fn set(&mut self, name: &str, value: i64) {
        let knob = self.knobs().find(|knob| knob.name == name);
        if let Some(knob) = knob {
            self.made_with.take();
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

    /// A step of autotuning that ends beyond what kern.ipc.maxsockbuf allows is refused.
    fn holds_buffer(&self, buffer: Buffer, socket: &SocketOptions, size: u64) -> Option<&'static str> {
        let v = &self.values;
        let asked = buffer.asked(socket);
        if asked.is_some_and(|bytes| self.granted(Some(bytes), 0, 1) == (bytes, false)) {
            return Some(buffer.option());
        }
        if buffer == Buffer::Receive && !self.spec.window_scaling && size > MAX_WINDOW {
            return Some("net.inet.tcp.rfc1323");
        }
        let (automatic, most, step, names) = match buffer {
            Buffer::Send => (v.sendbuf_auto, v.sendbuf_max, v.sendbuf_inc as u64, SEND_SYSCTLS),
            Buffer::Receive if self.era.since_12 => {
                (v.recvbuf_auto, v.recvbuf_max, size / 2, RECEIVE_SYSCTLS)
            }
            Buffer::Receive => (v.recvbuf_auto, v.recvbuf_max, v.recvbuf_inc as u64, RECEIVE_SYSCTLS),
        };
        let most = most as u64;
        if automatic == 0 {
            Some(if asked.is_some() { MAXSOCKBUF } else { names[0] })
        } else if size >= most {
            Some(names[1])
        } else {
            ((size + step).min(most) > largest_buffer(v.maxsockbuf as u64)).then_some(MAXSOCKBUF)
        }
    }

    fn sender(&self, cc: &str, random: u64) -> Box<dyn Sender> {
        let tuning = self.made_with.get_or_init(|| Arc::new(self.sender_tuning())).clone();
        let module = self
            .modules
            .get(cc)
            .unwrap_or_else(|| panic!("congestion control {cc} is checked against the profile's list"));
        let cc = module.connect(tuning.cubic, &tuning.cdg, random);
        match self.rack {
            Some(rack) => Box::new(RackSender::new(tuning, rack, cc)),
            None => Box::new(FreeBsdSender::new(tuning, cc)),
        }
    }

    fn congestion_controls(&self) -> Vec<&str> {
        self.modules.names().collect()
    }

    fn register(&mut self, name: &str, module: &Module) -> Result<(), ProfileError> {
        match module {
            Module::FreeBsd(module) => {
                self.modules.register(name, module.clone()).map_err(ProfileError::from)
            }
            Module::Linux(_) => Err(not_of_this_family(name, &self.spec)),
        }
    }

    /// Those whose own module reacts to a timeout; the stack RACK does more than a module sees.
    fn references(&self) -> &'static [&'static str] {
        if self.era.since_12 && self.rack.is_none() { &["cubic", "newreno"] } else { &[] }
    }

    fn reference(&self, cc: &str, mss: u32, told: bool) -> Option<Replay> {
        let known = self.references().contains(&cc);
        let module = known.then(|| self.modules.get(cc)).flatten()?;
        let tuning = self.sender_tuning();
        let cc = module.connect(tuning.cubic, &tuning.cdg, 0);
        let driven = replay::FreeBsd::new(cc, tuning.cc, tuning.abc_capped_in_avoidance, mss, self.spec.hz);
        Some(Replay::new(Box::new(driven), mss, told))
    }

    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(FreeBsdReceiver::new(self.receiver_tuning()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rack_and_releases_whose_stack_reacts_to_timeouts_are_no_references() {
        for (name, known) in [
            ("freebsd-13", true),
            ("freebsd-15-current", true),
            ("freebsd-15-current/rack", false),
            ("freebsd-11", false),
            ("freebsd-9.2", false),
        ] {
            let release = super::release(name).expect("a release");
            for cc in ["cubic", "newreno"] {
                assert_eq!(release.reference(cc, 1448, false).is_some(), known, "{cc}@{name}");
            }
            assert!(release.reference("htcp", 1448, false).is_none());
        }
    }

    #[test]
    fn what_congestion_controls_are_tested_with_is_what_15_has() {
        for release in
            ["freebsd-15-current", "freebsd-15-d46546", "freebsd-15-d49540", "freebsd-15-current/rack"]
        {
            let release = super::release(release).expect("a release");
            assert_eq!(release.sender_tuning().cc, CcTuning::FREEBSD_15);
        }
    }
}
