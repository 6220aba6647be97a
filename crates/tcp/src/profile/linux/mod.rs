//! Common parts of the Linux profiles: their sysctls by name and how a profile makes senders and receivers.

mod fast_open;
mod v3_9;
mod v6_12;
mod v6_18;
mod v6_8;
mod v7_3;

use crate::accecn::Settings;
use crate::cc::replay::{self, Replay};
use crate::cc::{Module, linux};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::linux_config::{Config, Detection, Shared};
use crate::profile::knob::{knob, knobs};
use crate::receiver::Receiver;
use crate::receiver::linux::LinuxReceiver;
use crate::sender::Sender;
use crate::sender::linux::LinuxSender;
use crate::stack::{
    Buffer, EcnMode, Family, KeepAlive, Profile, ProfileError, SocketOptions, StackSpec, StateRules, Sysctl,
    not_of_this_family,
};

/// Sysctl of a Linux.
type Knob = super::knob::Knob<LinuxProfile>;

/// A Linux of some year.
#[derive(Clone)]
pub struct LinuxProfile {
    spec: StackSpec,
    config: Shared,
    syn_retries: u32,
    synack_retries: u32,
    syn_linear_timeouts: u32,
    knobs: Vec<&'static Knob>,
    modules: linux::Registry,
}

impl LinuxProfile {
    /// A profile by name; `cc` lists its congestion controls, the default first.
    fn new(
        name: &'static str,
        config: Config,
        cc: &'static [&'static str],
        own: &'static [Knob],
    ) -> LinuxProfile {
        let mut profile = LinuxProfile {
            spec: StackSpec {
                name,
                family: Family::Linux,
                inferred: false,
                cc,
                cc_alias: &[("newreno", "reno")],
                hz: 1000,
                ecn: EcnMode::Accept,
                accecn: Settings::NONE,
                fast_open: crate::fast_open::Settings::NONE,
                syn_cookies: crate::syn_cookies::Settings::LINUX,
                sets_df: true,
                peers: crate::peers::Settings::LINUX,
                timestamps: true,
                window_scaling: true,
                sack: true,
                syn_timeouts: Vec::new(),
                synack_timeouts: Vec::new(),
                timer_wheel: config.timer_wheel,
                invalid_ratelimit: 0,
                syn_retry_ticks: None,
                unread_resets: true,
                rules: StateRules::LINUX,
                time_wait: 60 * SECOND,
                keep_alive: KeepAlive::COMMON,
            },
            config: config.into(),
            syn_retries: 6,
            synack_retries: 5,
            syn_linear_timeouts: 0,
            knobs: COMMON.iter().chain(own).collect(),
            modules: linux::built_in(cc),
        };
        profile.set_handshake_timeouts();
        profile
    }

    fn set_handshake_timeouts(&mut self) {
        let longest = self.config.rto_max_ms * MILLISECOND;
        let linear = (0..self.syn_linear_timeouts).map(|_| SECOND);
        self.spec.syn_timeouts = linear.chain(doubling(self.syn_retries, longest)).collect();
        crate::endpoint::end_by(&mut self.spec.syn_timeouts, doubling(self.syn_retries, longest).sum());
        self.spec.synack_timeouts = doubling(self.synack_retries, longest).collect();
    }
}

/// Every Linux. The newest that was recorded on a live kernel, which plain `linux` means, is last.
pub(super) fn all() -> Vec<LinuxProfile> {
    let [prague_2020, prague] = v7_3::l4s();
    vec![
        v3_9::profile(),
        v6_8::profile(),
        prague_2020,
        prague,
        v6_12::profile(),
        v7_3::profile(),
        v6_18::profile(),
    ]
}

/// Least receive buffer, bytes: the memory of a packet of 2 KiB with its metadata (SOCK_MIN_RCVBUF).
const MIN_RECEIVE_BUFFER: u64 = 2304;
/// Least send buffer, bytes: two such packets (SOCK_MIN_SNDBUF).
const MIN_SEND_BUFFER: u64 = 2 * MIN_RECEIVE_BUFFER;

/// Waits of one second, doubled each time up to the longest: one before each of the `retries`, and one after the last.
fn doubling(retries: u32, longest: Nanos) -> impl Iterator<Item = Nanos> {
    (0..=retries).map(move |shift| (SECOND << shift.min(7)).min(longest))
}

impl Profile for LinuxProfile {
    fn spec(&self) -> &StackSpec {
        &self.spec
    }

    fn sysctls(&self) -> Vec<Sysctl> {
        self.knobs.iter().map(|knob| knob.sysctl(self)).collect()
    }

    fn set(&mut self, name: &str, value: i64) {
        if let Some(knob) = self.knobs.iter().find(|knob| knob.name == name) {
            (knob.set)(self, value);
        }
    }

    fn leave_pacing_to_queue(&mut self) {
        self.config.paced_by_queue = self.config.detection == Detection::Rack;
    }

    fn buffers(&self, socket: &SocketOptions) -> ((u64, bool), (u64, bool)) {
        // Twice what was asked for: the other half is for metadata.
        let send = match socket.sndbuf {
            Some(bytes) => ((2 * bytes.min(self.config.wmem_max)).max(MIN_SEND_BUFFER), false),
            None => (self.config.wmem.default, true),
        };
        let receive = match socket.rcvbuf {
            Some(bytes) => ((2 * bytes.min(self.config.rmem_max)).max(MIN_RECEIVE_BUFFER), false),
            None => (self.config.rmem.default, self.config.moderate_rcvbuf),
        };
        (send, receive)
    }

    fn holds_buffer(&self, buffer: Buffer, socket: &SocketOptions, size: u64) -> Option<&'static str> {
        let config = &self.config;
        let (allowed, core, most, sysctl) = match buffer {
            Buffer::Send => (config.wmem_max, "net.core.wmem_max", config.wmem.max, "net.ipv4.tcp_wmem"),
            Buffer::Receive => (config.rmem_max, "net.core.rmem_max", config.rmem.max, "net.ipv4.tcp_rmem"),
        };
        match buffer.asked(socket) {
            Some(bytes) => Some(if bytes > allowed { core } else { buffer.option() }),
            None if buffer == Buffer::Receive && !config.moderate_rcvbuf => {
                Some("net.ipv4.tcp_moderate_rcvbuf")
            }
            None => (size >= most).then_some(sysctl),
        }
    }

    fn sender(&self, cc: &str, random: u64) -> Box<dyn Sender> {
        let module = self
            .modules
            .get(cc)
            .unwrap_or_else(|| panic!("congestion control {cc} is checked against the profile's list"));
        Box::new(LinuxSender::new(&self.config, module.connect(&self.config), random))
    }

    fn congestion_controls(&self) -> Vec<&str> {
        self.modules.names().collect()
    }

    fn register(&mut self, name: &str, module: &Module) -> Result<(), ProfileError> {
        match module {
            Module::Linux(module) => self.modules.register(name, module.clone()).map_err(ProfileError::from),
            Module::FreeBsd(_) => Err(not_of_this_family(name, &self.spec)),
        }
    }

    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(LinuxReceiver::new(&self.config))
    }

    fn references(&self) -> &'static [&'static str] {
        // Of the others, one owns its window and needs what only the sender itself measures, and one draws.
        &["cubic", "reno"]
    }

    fn reference(&self, cc: &str, mss: u32, told: bool) -> Option<Replay> {
        let known = self.references().contains(&cc);
        let module = known.then(|| self.modules.get(cc)).flatten()?;
        let driven = replay::Linux::new(|| module.connect(&self.config), mss, self.spec.hz);
        Some(Replay::new(Box::new(driven), mss, told))
    }
}

fn get_ecn(profile: &LinuxProfile) -> i64 {
    EcnMode::LINUX.iter().position(|&mode| mode == profile.spec.ecn).unwrap_or(0) as i64
}

fn set_ecn(profile: &mut LinuxProfile, value: i64) {
    profile.spec.ecn = EcnMode::LINUX[value as usize];
}

const SWITCH: (i64, i64) = (0, 1);
const BYTES: (i64, i64) = (1, 0x7fff_ffff);
const COUNT: (i64, i64) = (0, 0x7fff_ffff);
/// Times of keep-alive, s (MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL).
const KEEP_SECONDS: (i64, i64) = (1, 32_767);

/// Sysctls of every era.
static COMMON: [Knob; 28] = knobs! {
    "net.ipv4.tcp_rmem.min", BYTES, "receive buffer kept under memory pressure, which never arises here, bytes",
        (config.rmem.min: u64);
    "net.ipv4.tcp_rmem.default", BYTES, "initial receive buffer, bytes of memory", (config.rmem.default: u64);
    "net.ipv4.tcp_rmem.max", BYTES, "largest autotuned receive buffer, bytes of memory", (config.rmem.max: u64);
    "net.ipv4.tcp_wmem.min", BYTES, "send buffer kept under memory pressure, which never arises here, bytes",
        (config.wmem.min: u64);
    "net.ipv4.tcp_wmem.default", BYTES, "initial send buffer, bytes of memory", (config.wmem.default: u64);
    "net.ipv4.tcp_wmem.max", BYTES, "largest autotuned send buffer, bytes of memory", (config.wmem.max: u64);
    "net.core.rmem_max", BYTES, "largest SO_RCVBUF, bytes", (config.rmem_max: u64);
    "net.core.wmem_max", BYTES, "largest SO_SNDBUF, bytes", (config.wmem_max: u64);
    "net.ipv4.tcp_window_scaling", SWITCH, "offer window scaling", (spec.window_scaling: bool);
    "net.ipv4.tcp_moderate_rcvbuf", SWITCH, "autotune receive buffers", (config.moderate_rcvbuf: bool);
    "net.ipv4.tcp_dsack", SWITCH, "report duplicate arrivals with D-SACK", (config.dsack: bool);
    "net.ipv4.tcp_reordering", (1, 300), "duplicate threshold, packets", (config.reordering: u32);
    "net.ipv4.tcp_slow_start_after_idle", SWITCH, "restart from a smaller window after idleness",
        (config.slow_start_after_idle: bool);
    "net.ipv4.tcp_limit_output_bytes", BYTES, "small queues: memory in the host's queues, bytes",
        (config.limit_output_bytes: u64);
    "net.ipv4.tcp_tso_win_divisor", (0, 1024), "share of the window one burst may wait for",
        (config.tso_win_divisor: u32);
    "net.ipv4.tcp_retries2", (1, 255), "timeouts in a row before a connection fails", (config.retries2: u32);
    "net.ipv4.tcp_sack", SWITCH, "offer selective acknowledgements", (spec.sack: bool);
    "net.ipv4.tcp_timestamps", SWITCH, "offer timestamps", (spec.timestamps: bool);
    "net.ipv4.tcp_ecn", (0, 2), "ECN: 0 off, 1 ask and accept, 2 accept", (get_ecn, set_ecn);
    "net.ipv4.tcp_syn_retries", (1, 127), "repeats of a SYN",
        (|p| i64::from(p.syn_retries), |p, v| { p.syn_retries = v as u32; p.set_handshake_timeouts(); });
    "net.ipv4.tcp_synack_retries", (0, 255), "repeats of a SYN-ACK",
        (|p| i64::from(p.synack_retries), |p, v| { p.synack_retries = v as u32; p.set_handshake_timeouts(); });
    "net.ipv4.tcp_keepalive_time", KEEP_SECONDS, "silence before the first keep-alive probe, s",
        (spec.keep_alive.idle: SECOND * u64);
    "net.ipv4.tcp_keepalive_intvl", KEEP_SECONDS, "time between keep-alive probes, s",
        (spec.keep_alive.interval: SECOND * u64);
    "net.ipv4.tcp_keepalive_probes", (1, 127), "keep-alive probes without an answer that end a connection",
        (spec.keep_alive.count: u32);
    "net.ipv4.ip_no_pmtu_disc", (0, 3), "0 packets of IPv4 have DF, others they may be cut by routers",
        (|p| i64::from(!p.spec.sets_df), |p, v| p.spec.sets_df = v == 0);
    "net.ipv4.tcp_no_metrics_save", SWITCH,
        "nothing that a connection learns of the path is kept for later ones (Linux's own default: 0)",
        (|p| i64::from(!p.spec.peers.keeps), |p, v| p.spec.peers.keeps = v == 0);
    "net.ipv4.tcp_frto", COUNT, "F-RTO: 0 off, 2 with SACK", (config.frto: u32);
    "net.ipv4.tcp_early_retrans", (0, 4), "early retransmit (1 to 3, 3.9) or tail loss probe (3 and 4, modern)",
        (config.early_retrans: u32);
};
