//! A module with FreeBSD's hooks, as a congestion control of the engine.

use std::fmt::Display;

use tcp::cc::freebsd::{
    AckKind, CcVar, CdgTuning, CongestionControl, CubicEra, InitialWindow, Module, Signal,
};

use crate::exchange;
use crate::kernel::OnHost;

/// No window is as large: the largest that fields of 16 bits with a shift of 14 can express is half of it.
const TOO_LARGE: u32 = 1 << 31;

/// `struct cwndlab_freebsd`: the connection, in bytes and ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Exchange {
    host: exchange::Host,
    micros: u64,
    is: u32,
    cwnd: u32,
    ssthresh: u32,
    maxseg: u32,
    mss: u32,
    snd_wnd: u32,
    snd_scale: u32,
    bytes_acked: u32,
    bytes_this_ack: u32,
    nsegs: u32,
    curack: u32,
    una: u32,
    nxt: u32,
    max: u32,
    recover: u32,
    pipe: u32,
    rxtshift: u32,
    srtt: u32,
    rttupdates: u32,
    abc_l_var: u32,
    restart_segments: u32,
    beta: u32,
    beta_ecn: u32,
    hystart_min_us: u32,
    hystart_max_us: u32,
    hystart_samples: u32,
    hystart_divisor: u32,
    hystart_rounds: u32,
    rtt: u32,
    min_rtt: u32,
    max_rtt: u32,
    marked_rtt: u32,
    marked_bytes: u32,
    marked_cwnd: u32,
    reserved: u32,
}

/// Bits of [`Exchange::is`].
mod is {
    pub(super) const WINDOW_ACKED: u32 = 1 << 0;
    pub(super) const LIMITED: u32 = 1 << 1;
    pub(super) const CE: u32 = 1 << 2;
    pub(super) const CWR: u32 = 1 << 3;
    pub(super) const DELAYED_ACK: u32 = 1 << 4;
    pub(super) const ACK_NOW: u32 = 1 << 5;
    pub(super) const FAST_RECOVERY: u32 = 1 << 6;
    pub(super) const CONG_RECOVERY: u32 = 1 << 7;
    pub(super) const ECN: u32 = 1 << 8;
    pub(super) const ABC: u32 = 1 << 9;
    pub(super) const ABE: u32 = 1 << 10;
    pub(super) const ABE_LOSS: u32 = 1 << 11;
    pub(super) const HYSTART: u32 = 1 << 12;
    pub(super) const HYSTART_SHRINK: u32 = 1 << 13;
    pub(super) const HYSTART_SAFE: u32 = 1 << 14;
    pub(super) const NEW_ROUND: u32 = 1 << 15;
    pub(super) const ECHOES_CE: u32 = 1 << 16;
}

/// Hooks of `struct cc_algo`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    CbInit,
    CbDestroy,
    ConnInit,
    AckReceived,
    CongSignal,
    PostRecovery,
    AfterIdle,
    EcnpktHandler,
    Newround,
    Rttsample,
}

/// The bit of a module's hooks that says that it wants RTTs of single packets.
const WANTS_ERTT: u32 = 1 << 30;

impl Hook {
    fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The kernel's name.
    fn name(self) -> &'static str {
        match self {
            Hook::CbInit => "cb_init",
            Hook::CbDestroy => "cb_destroy",
            Hook::ConnInit => "conn_init",
            Hook::AckReceived => "ack_received",
            Hook::CongSignal => "cong_signal",
            Hook::PostRecovery => "post_recovery",
            Hook::AfterIdle => "after_idle",
            Hook::EcnpktHandler => "ecnpkt_handler",
            Hook::Newround => "newround",
            Hook::Rttsample => "rttsample",
        }
    }
}

impl Module for OnHost {
    fn connect(&self, _: CubicEra, _: &CdgTuning, random: u64) -> Box<dyn CongestionControl> {
        Box::new(Connection {
            host: self.clone(),
            memory: self.memory(),
            hooks: self.hooks(),
            random,
            begun: false,
            failed: false,
        })
    }
}

/// A connection.
struct Connection {
    host: OnHost,
    /// The kernel's structures, which the module alone reads.
    memory: Box<[u64]>,
    /// Bits of the hooks that the module has.
    hooks: u32,
    /// State of the stream that the module draws from.
    random: u64,
    /// `cb_init` has been called.
    begun: bool,
    /// A hook has failed: the run has, and no further one is called.
    failed: bool,
}

impl Connection {
    fn fail(&mut self, ccv: &CcVar, hook: Hook, what: &dyn Display) {
        self.failed = true;
        self.host.fail(ccv.micros * 1000, hook.name(), what);
    }

    /// Calls a hook, if the module has it, and takes over what it changed.
    fn call(&mut self, ccv: &mut CcVar, hook: Hook, arguments: [i64; 2]) {
        if !self.begun {
            self.begun = true;
            self.enter(ccv, Hook::CbInit, [0; 2]);
        }
        self.enter(ccv, hook, arguments);
    }

    fn enter(&mut self, ccv: &mut CcVar, hook: Hook, arguments: [i64; 2]) {
        if self.failed || self.hooks & hook.bit() == 0 {
            return;
        }
        let before = seen(ccv, self.random);
        let mut after = before;
        let (now, number) = (ccv.micros * 1000, (hook as u32, hook.name()));
        // SAFETY: the memory is the connection's, and hooks and exchange are those of FreeBSD.
        match unsafe { self.host.call(now, number, &mut self.memory, &mut after, arguments) } {
            Ok(0) => {}
            Ok(value) => return self.fail(ccv, hook, &format!("returned {value}")),
            Err(why) => return self.fail(ccv, hook, &why),
        }
        if after.cwnd != before.cwnd && (after.cwnd == 0 || after.cwnd >= TOO_LARGE) {
            return self.fail(ccv, hook, &format!("left a window of {} bytes", after.cwnd));
        }
        // Kernels' own modules leave larger thresholds than windows can be, after timeouts.
        if after.ssthresh != before.ssthresh && after.ssthresh == 0 {
            return self.fail(ccv, hook, &"left a slow-start threshold of 0 bytes");
        }
        self.random = after.host.random;
        take_over(ccv, &before, &after);
    }
}

/// Makes the exchange that a module sees.
fn seen(ccv: &CcVar, random: u64) -> Exchange {
    let t = &ccv.tuning;
    let bits = [
        (ccv.abc_sent_a_window, is::WINDOW_ACKED),
        (ccv.cwnd_limited, is::LIMITED),
        (ccv.ip_ce, is::CE),
        (ccv.tcp_cwr, is::CWR),
        (ccv.delayed_ack, is::DELAYED_ACK),
        (ccv.ack_now, is::ACK_NOW),
        (ccv.fast_recovery, is::FAST_RECOVERY),
        (ccv.cong_recovery, is::CONG_RECOVERY),
        (ccv.ecn, is::ECN),
        (t.abc, is::ABC),
        (t.abe, is::ABE),
        (t.abe_loss_reduces, is::ABE_LOSS),
        (t.hystart.allowed, is::HYSTART),
        (t.hystart.shrinks, is::HYSTART_SHRINK),
        (t.hystart.conservative, is::HYSTART_SAFE),
        (ccv.new_measurement, is::NEW_ROUND),
        (ccv.echoes_ce, is::ECHOES_CE),
    ];
    Exchange {
        host: exchange::Host {
            now_ns: ccv.micros * 1000,
            ticks: ccv.ticks,
            random,
            hz: ccv.hz,
            abe: u32::from(t.abe),
        },
        micros: ccv.micros,
        is: bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
        cwnd: narrow(ccv.cwnd),
        ssthresh: narrow(ccv.ssthresh),
        maxseg: narrow(ccv.maxseg),
        mss: narrow(ccv.mss),
        snd_wnd: narrow(ccv.snd_wnd),
        snd_scale: u32::from(ccv.snd_scale),
        bytes_acked: narrow(ccv.bytes_acked),
        bytes_this_ack: narrow(ccv.bytes_this_ack),
        nsegs: narrow(ccv.nsegs),
        curack: ccv.curack as u32,
        una: ccv.una as u32,
        nxt: ccv.nxt as u32,
        max: ccv.max as u32,
        recover: ccv.recover as u32,
        pipe: narrow(ccv.pipe),
        rxtshift: ccv.rxtshift,
        srtt: ccv.srtt,
        rttupdates: ccv.rtt_updates,
        abc_l_var: narrow(t.abc_l_var),
        restart_segments: match t.restart_window {
            InitialWindow::Segments(n) | InitialWindow::Flight(n) => narrow(n),
            InitialWindow::Rfc3390 | InitialWindow::Rfc5681 => 0,
        },
        beta: narrow(t.newreno_beta),
        beta_ecn: narrow(t.newreno_beta_ecn),
        hystart_min_us: t.hystart.min_threshold_us,
        hystart_max_us: t.hystart.max_threshold_us,
        hystart_samples: t.hystart.samples,
        hystart_divisor: narrow(t.hystart.growth_divisor),
        hystart_rounds: t.hystart.rounds,
        rtt: ccv.delay_rtt,
        min_rtt: ccv.delays.min_rtt,
        max_rtt: ccv.delays.max_rtt,
        marked_rtt: ccv.delays.marked_rtt,
        marked_bytes: ccv.delays.marked_bytes as u32,
        marked_cwnd: narrow(ccv.delays.marked_cwnd),
        reserved: 0,
    }
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Takes over what the module changed.
fn take_over(ccv: &mut CcVar, before: &Exchange, after: &Exchange) {
    ccv.cwnd = u64::from(after.cwnd);
    if after.ssthresh != before.ssthresh {
        ccv.ssthresh = u64::from(after.ssthresh);
    }
    if after.recover != before.recover {
        // As near to what is outstanding as its 32 bits say.
        let ahead = after.recover.wrapping_sub(before.una) as i32;
        ccv.recover = ccv.una.wrapping_add_signed(i64::from(ahead));
    }
    ccv.bytes_acked = u64::from(after.bytes_acked);
    ccv.abc_sent_a_window = after.is & is::WINDOW_ACKED != 0;
    ccv.cwnd_limited = after.is & is::LIMITED != 0;
    ccv.fast_recovery = after.is & is::FAST_RECOVERY != 0;
    ccv.cong_recovery = after.is & is::CONG_RECOVERY != 0;
    ccv.ack_now = after.is & is::ACK_NOW != 0;
    ccv.echoes_ce = after.is & is::ECHOES_CE != 0;
    ccv.new_measurement = after.is & is::NEW_ROUND != 0;
}

impl CongestionControl for Connection {
    fn cb_destroy(&mut self, ccv: &mut CcVar) {
        if self.begun {
            self.enter(ccv, Hook::CbDestroy, [0; 2]);
        }
    }

    fn conn_init(&mut self, ccv: &mut CcVar) {
        self.call(ccv, Hook::ConnInit, [0; 2]);
    }

    fn ack_received(&mut self, ccv: &mut CcVar, kind: AckKind) {
        self.call(ccv, Hook::AckReceived, [i64::from(kind == AckKind::Duplicate), 0]);
    }

    fn cong_signal(&mut self, ccv: &mut CcVar, signal: Signal) {
        self.call(ccv, Hook::CongSignal, [signal as i64, 0]);
    }

    fn post_recovery(&mut self, ccv: &mut CcVar) {
        self.call(ccv, Hook::PostRecovery, [0; 2]);
    }

    fn after_idle(&mut self, ccv: &mut CcVar) {
        self.call(ccv, Hook::AfterIdle, [0; 2]);
    }

    fn ecnpkt_handler(&mut self, ccv: &mut CcVar) {
        self.call(ccv, Hook::EcnpktHandler, [0; 2]);
    }

    fn new_round(&mut self, ccv: &mut CcVar, round: u32) {
        self.call(ccv, Hook::Newround, [i64::from(round), 0]);
    }

    fn rtt_sample(&mut self, ccv: &mut CcVar, rtt_us: u64, flight: u64) {
        self.call(ccv, Hook::Rttsample, [rtt_us as i64, flight as i64]);
    }

    fn wants_packet_rtt(&self) -> bool {
        self.hooks & WANTS_ERTT != 0
    }
}
