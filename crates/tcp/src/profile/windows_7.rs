//! Windows 7 and Server 2008 R2, as Microsoft documents them: no recording stands behind this profile.

use crate::clock::{Nanos, SECOND};
use crate::receiver::Receiver;
use crate::receiver::windows::{Tuning as ReceiverTuning, WindowsReceiver};
use crate::sender::Sender;
use crate::sender::windows::{Tuning as SenderTuning, WindowsSender};
use crate::stack::{
    Buffer, EcnMode, Family, IcmpRules, KeepAlive, Profile, SocketOptions, StackSpec, StateRules, Sysctl,
};

/// Send buffer where the application sets none: Windows follows the connection's ideal backlog; a megabyte covers it.
const SEND_BUFFER: u64 = 1 << 20;
/// First receive buffer of autotuning, bytes.
const RECEIVE_BUFFER: u64 = 64 << 10;
/// Largest receive buffer at autotuning level `normal`, bytes.
const LARGEST_RECEIVE_BUFFER: u64 = 16 << 20;
/// Window scale at level `normal`.
const SCALE: u8 = 8;
/// TIME-WAIT: TcpTimedWaitDelay of Vista and later.
const TIME_WAIT: Nanos = 120 * SECOND;

/// A setting: name in Set-NetTCPSetting or the registry, default, range, what it does.
const SETTINGS: [Sysctl; 9] = [
    Sysctl {
        name: "InitialCongestionWindowMss",
        default: 2,
        min: 1,
        max: 16,
        about: "initial window, segments",
    },
    Sysctl {
        name: "MinRtoMs",
        default: 300,
        min: 20,
        max: 300,
        about: "smallest retransmission timeout, ms",
    },
    Sysctl {
        name: "InitialRtoMs",
        default: 3000,
        min: 300,
        max: 3000,
        about: "retransmission timeout before a measurement, ms",
    },
    Sysctl {
        name: "TcpMaxDataRetransmissions",
        default: 5,
        min: 1,
        max: 255,
        about: "timeouts of a segment before the connection is given up",
    },
    Sysctl { name: "CwndRestart", default: 1, min: 0, max: 1, about: "the window restarts after idle" },
    Sysctl { name: "DelayedAckFrequency", default: 2, min: 1, max: 255, about: "segments for an ACK" },
    Sysctl {
        name: "DelayedAckTimeout",
        default: 200,
        min: 10,
        max: 600,
        about: "longest wait of an ACK, ms",
    },
    Sysctl { name: "SackOpts", default: 1, min: 0, max: 1, about: "selective acknowledgement" },
    Sysctl {
        name: "Timestamps",
        default: 0,
        min: 0,
        max: 1,
        about: "timestamps (RFC 7323); round trips are timed without them",
    },
];

/// Windows 7.
pub(super) struct Windows {
    spec: StackSpec,
    values: [i64; SETTINGS.len()],
}

/// The profile `windows-7`.
pub(super) fn profile() -> Windows {
    // Three transmissions; the attempt has failed after 21 s.
    let handshake = vec![3 * SECOND, 6 * SECOND, 12 * SECOND];
    Windows {
        spec: StackSpec {
            name: "windows-7",
            family: Family::Windows,
            inferred: true,
            cc: &["newreno", "ctcp"],
            cc_alias: &[("reno", "newreno"), ("compound", "ctcp")],
            // A tick of 15.625 ms.
            hz: 64,
            ecn: EcnMode::Off,
            accecn: crate::accecn::Settings::NONE,
            fast_open: crate::fast_open::Settings::NONE,
            syn_cookies: crate::syn_cookies::Settings::NONE,
            sets_df: true,
            peers: crate::peers::Settings::NONE,
            timestamps: false,
            sack: true,
            window_scaling: true,
            syn_timeouts: handshake.clone(),
            synack_timeouts: handshake,
            timer_wheel: false,
            invalid_ratelimit: 0,
            syn_retry_ticks: None,
            unread_resets: true,
            rules: StateRules { icmp: IcmpRules::Linux, ..StateRules::default() },
            time_wait: TIME_WAIT,
            // KeepAliveInterval; Vista and later ask ten times.
            keep_alive: KeepAlive { interval: SECOND, count: 10, ..KeepAlive::COMMON },
        },
        values: SETTINGS.each_ref().map(|setting| setting.default),
    }
}

impl Windows {
    fn value(&self, name: &str) -> i64 {
        SETTINGS.iter().position(|setting| setting.name == name).map_or(0, |index| self.values[index])
    }
}

impl Profile for Windows {
    fn spec(&self) -> &StackSpec {
        &self.spec
    }

    fn sysctls(&self) -> Vec<Sysctl> {
        SETTINGS.to_vec()
    }

    fn set(&mut self, name: &str, value: i64) {
        if let Some(index) = SETTINGS.iter().position(|setting| setting.name == name) {
            self.values[index] = value;
        }
        match name {
            "SackOpts" => self.spec.sack = value != 0,
            "Timestamps" => self.spec.timestamps = value != 0,
            "InitialRtoMs" => {
                let first = value as u64 * 1_000_000;
                self.spec.syn_timeouts = vec![first, 2 * first, 4 * first];
            }
            _ => {}
        }
    }

    fn buffers(&self, socket: &SocketOptions) -> ((u64, bool), (u64, bool)) {
        (
            (socket.sndbuf.unwrap_or(SEND_BUFFER), socket.sndbuf.is_none()),
            (socket.rcvbuf.unwrap_or(RECEIVE_BUFFER), socket.rcvbuf.is_none()),
        )
    }

    fn holds_buffer(&self, buffer: Buffer, socket: &SocketOptions, size: u64) -> Option<&'static str> {
        let autotuned = buffer == Buffer::Receive && size >= LARGEST_RECEIVE_BUFFER;
        buffer.asked(socket).map(|_| buffer.option()).or(autotuned.then_some("autotuninglevel"))
    }

    fn sender(&self, cc: &str, _random: u64) -> Box<dyn Sender> {
        let tuning = SenderTuning {
            initial_window: self.value("InitialCongestionWindowMss") as u64,
            min_rto_ms: self.value("MinRtoMs") as u64,
            initial_rto_ms: self.value("InitialRtoMs") as u64,
            max_retransmissions: self.value("TcpMaxDataRetransmissions") as u32,
            restart: self.value("CwndRestart") != 0,
        };
        Box::new(WindowsSender::new(tuning, cc == "ctcp"))
    }

    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(WindowsReceiver::new(ReceiverTuning {
            ack_every: self.value("DelayedAckFrequency") as u32,
            delack_ms: self.value("DelayedAckTimeout") as u64,
            scale: SCALE,
            largest: LARGEST_RECEIVE_BUFFER,
        }))
    }
}
