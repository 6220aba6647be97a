//! Exchange between the engine and a compiled module: `cwndlab/exchange.h` in Rust.

use std::ffi::{c_char, c_int, c_void};

/// Raised with every change of the header.
pub const ABI: u32 = 7;

/// State of a host and its clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    pub now_ns: u64,
    pub ticks: u64,
    pub random: u64,
    pub hz: u32,
    pub abe: u32,
}

/// Linux: the connection, in packets and microseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux {
    pub host: Host,
    pub pacing_rate: u64,
    pub delivered_mstamp: u64,
    pub first_tx_mstamp: u64,
    pub departure_ns: u64,
    pub cwnd: u32,
    pub cwnd_cnt: u32,
    pub ssthresh: u32,
    pub prior_cwnd: u32,
    pub ca_state: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub una: u32,
    pub nxt: u32,
    pub mss: u32,
    pub srtt8_us: u32,
    pub min_rtt_us: u32,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub lost: u32,
    pub app_limited: u32,
    pub cwnd_limited: u32,
    pub max_packets_out: u32,
    pub last_sent_jiffies: u32,
    pub ecn: u32,
    pub pacing: u32,
    pub cwr_requested: u32,
    pub gso_max_size: u32,
    pub gso_max_segs: u32,
    pub min_tso_segs: u32,
    pub rcv_nxt: u32,
    pub acked: u32,
    pub in_flight: u32,
    pub rtt_us: i32,
    pub sample_delivered: i32,
    pub interval_us: i64,
    pub prior_mstamp: u64,
    pub prior_delivered: u32,
    pub losses: u32,
    pub acked_sacked: u32,
    pub prior_in_flight: u32,
    pub is_app_limited: u32,
    pub is_retrans: u32,
    pub is_ack_delayed: u32,
    pub stamped_rtt_us: i32,
    pub gso: u32,
    pub tso_win_divisor: u32,
    pub max_ssthresh: u32,
    pub snd_wnd: u32,
    pub data_segs_out: u32,
    pub stamped: u32,
    pub rcv_tsval: u32,
    pub rcv_tsecr: u32,
    pub snd_interval_us: u32,
    pub rcv_interval_us: u32,
    pub last_end_seq: u32,
    pub unsent: u32,
    pub prior_delivered_ce: u32,
    pub sample_delivered_ce: u32,
    pub delays_ack: u32,
    pub echoes_ce: u32,
    pub ack_now: u32,
    pub sent_ack: u32,
    pub sent_ack_nxt: u32,
    pub sent_ack_echoes: u32,
    pub rto_jiffies: u32,
    pub slow_start_after_idle: u32,
}

/// Hooks of `struct tcp_congestion_ops`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxHook {
    Init,
    Release,
    Ssthresh,
    CongAvoid,
    CongControl,
    SetState,
    CwndEvent,
    InAckEvent,
    PktsAcked,
    UndoCwnd,
    SndbufExpand,
    MinTsoSegs,
    GetInfo,
}

impl LinuxHook {
    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            LinuxHook::Init => "init",
            LinuxHook::Release => "release",
            LinuxHook::Ssthresh => "ssthresh",
            LinuxHook::CongAvoid => "cong_avoid",
            LinuxHook::CongControl => "cong_control",
            LinuxHook::SetState => "set_state",
            LinuxHook::CwndEvent => "cwnd_event",
            LinuxHook::InAckEvent => "in_ack_event",
            LinuxHook::PktsAcked => "pkts_acked",
            LinuxHook::UndoCwnd => "undo_cwnd",
            LinuxHook::SndbufExpand => "sndbuf_expand",
            LinuxHook::MinTsoSegs => "min_tso_segs",
            LinuxHook::GetInfo => "get_info",
        }
    }
}

/// Events that `cwnd_event` hears of, of all interfaces.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxEvent {
    TxStart,
    Restart,
    CompleteCwr,
    Loss,
    EcnNoCe,
    EcnIsCe,
    Frto,
    FastAck,
    SlowAck,
}

/// The bit of a connection's hooks that says that it needs ECN.
pub const NEEDS_ECN: u32 = 1 << 31;

/// A knob, as `knob` tells it.
#[repr(C)]
#[derive(Debug)]
pub struct Knob {
    pub name: *const c_char,
    pub value: i64,
    pub min: i64,
    pub max: i64,
    pub writable: u32,
    pub reserved: u32,
}

/// Guard of a thread inside a hook; shared by all modules of a process.
#[repr(C)]
#[derive(Debug)]
pub struct Guard {
    pub jump: *mut c_void,
    pub thread: u64,
    pub installed: u32,
    pub quanta: u32,
    pub stacked: u64,
    pub address: *const c_char,
}

/// Ends of a call, besides the numbers of signals.
pub mod end {
    pub const DONE: i32 = 0;
    pub const TOO_LONG: i32 = 1000;
    pub const BUG: i32 = 1001;
    pub const REFUSED: i32 = 1002;
}

/// Exports of a compiled module.
#[repr(C)]
pub struct Module {
    pub abi: u32,
    pub exchange: u32,
    pub family: *const c_char,
    pub attach: unsafe extern "C" fn(*mut Guard),
    pub reset: unsafe extern "C" fn(),
    pub knob: unsafe extern "C" fn(u32, *mut Knob) -> c_int,
    pub set_knob: unsafe extern "C" fn(u32, i64) -> c_int,
    pub start: unsafe extern "C" fn(*const Host) -> c_int,
    pub stop: unsafe extern "C" fn() -> c_int,
    pub size: unsafe extern "C" fn() -> u64,
    pub hooks: unsafe extern "C" fn(*mut c_void) -> u32,
    pub call: unsafe extern "C" fn(*mut c_void, *mut c_void, u32, *const i64, *mut i64) -> c_int,
    pub complaint: unsafe extern "C" fn() -> *const c_char,
}
