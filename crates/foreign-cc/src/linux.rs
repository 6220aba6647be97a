//! A module with Linux's hooks, as a congestion control of the engine.

use std::cell::{Cell, RefCell};
use std::fmt::Display;

use tcp::cc::linux::{AckEvent, AckSample, CaState, CongestionControl, Core, CwndEvent, Module, RateSample};
use tcp::context::EcnAnswer;
use tcp::linux_config::Shared;

use crate::exchange::{self, LinuxEvent, LinuxHook as Hook, NEEDS_ECN};
use crate::kernel::OnHost;

/// No window is as large (TCP_INFINITE_SSTHRESH is the largest threshold).
const TOO_LARGE: i64 = 1 << 31;

impl Module for OnHost {
    fn connect(&self, config: &Shared) -> Box<dyn CongestionControl> {
        Box::new(Connection {
            host: self.clone(),
            config: config.clone(),
            memory: RefCell::new(self.memory()),
            hooks: self.hooks(),
            failed: Cell::new(false),
        })
    }
}

/// A connection.
struct Connection {
    host: OnHost,
    config: Shared,
    /// The kernel's structures, which the module alone reads.
    memory: RefCell<Box<[u64]>>,
    /// Bits of the hooks that it has.
    hooks: u32,
    /// A hook has failed: the run has, and no further one is called.
    failed: Cell<bool>,
}

impl Connection {
    fn has(&self, hook: Hook) -> bool {
        !self.failed.get() && self.hooks & (1 << hook as u32) != 0
    }

    fn fail(&self, core: &Core, hook: Hook, what: &dyn Display) {
        self.failed.set(true);
        self.host.fail(core.now, hook.name(), what);
    }

    /// Calls a hook with what `tell` adds to what it sees; its value and what it sees then, unless it fails.
    fn ask(
        &self,
        core: &Core,
        hook: Hook,
        arguments: [i64; 2],
        tell: impl FnOnce(&mut exchange::Linux),
    ) -> Option<(i64, exchange::Linux)> {
        if !self.has(hook) {
            return None;
        }
        let mut seen = self.seen(core);
        tell(&mut seen);
        let number = (hook as u32, hook.name());
        // SAFETY: the memory is the connection's, and so are hooks and exchange those of Linux.
        let called =
            unsafe { self.host.call(core.now, number, &mut self.memory.borrow_mut(), &mut seen, arguments) };
        let value = match called {
            Ok(value) => value,
            Err(why) => {
                self.fail(core, hook, &why);
                return None;
            }
        };
        for (what, packets) in [("window", seen.cwnd), ("slow-start threshold", seen.ssthresh)] {
            if packets == 0 || i64::from(packets) >= TOO_LARGE {
                self.fail(core, hook, &format!("left a {what} of {packets} packets"));
                return None;
            }
        }
        Some((value, seen))
    }

    /// Calls a hook as [`Connection::ask`] does, and takes over what the hook changed.
    fn call(
        &self,
        core: &mut Core,
        hook: Hook,
        arguments: [i64; 2],
        tell: impl FnOnce(&mut exchange::Linux),
    ) -> Option<i64> {
        let (value, seen) = self.ask(core, hook, arguments, tell)?;
        core.cwnd = seen.cwnd;
        core.cwnd_cnt = seen.cwnd_cnt;
        core.ssthresh = seen.ssthresh;
        core.random = seen.host.random;
        core.cwr_requested |= seen.cwr_requested != 0;
        core.pacing = seen.pacing != 0;
        core.pacing_rate = seen.pacing_rate;
        let receiving = &mut core.receiving;
        let behind = i64::from((receiving.nxt as u32).wrapping_sub(seen.sent_ack_nxt) as i32);
        let sent = receiving.nxt.saturating_add_signed(-behind);
        let first = (seen.sent_ack != 0).then_some((sent, seen.sent_ack_echoes != 0));
        receiving.answer = EcnAnswer { ack_now: seen.ack_now != 0, echoes_ce: seen.echoes_ce != 0, first };
        if u64::from(seen.app_limited) != core.app_limited & u64::from(u32::MAX) {
            core.app_limited = u64::from(seen.app_limited);
        }
        Some(value)
    }

    /// Calls a hook as [`Connection::call`] does, for a number of packets.
    fn packets(&self, core: &mut Core, hook: Hook) -> Option<u32> {
        let value = self.call(core, hook, [0; 2], |_| ())?;
        if value <= 0 || value >= TOO_LARGE {
            self.fail(core, hook, &format!("returned {value} packets"));
            return None;
        }
        Some(value as u32)
    }

    fn seen(&self, core: &Core) -> exchange::Linux {
        exchange::Linux {
            host: exchange::Host {
                now_ns: core.now,
                ticks: core.jiffies,
                random: core.random,
                hz: core.hz,
                abe: 0,
            },
            pacing_rate: if core.pacing { core.pacing_rate } else { core.usual_pacing_rate(&self.config) },
            delivered_mstamp: core.delivered_mstamp,
            first_tx_mstamp: core.first_tx_mstamp,
            departure_ns: core.departure,
            cwnd: core.cwnd,
            cwnd_cnt: core.cwnd_cnt,
            ssthresh: core.ssthresh,
            prior_cwnd: core.prior_cwnd,
            ca_state: core.state as u32,
            packets_out: core.packets_out,
            sacked_out: core.sacked_out,
            lost_out: core.lost_out,
            retrans_out: core.retrans_out,
            una: core.una as u32,
            nxt: core.nxt as u32,
            mss: core.mss,
            srtt8_us: core.srtt8_us as u32,
            rto_jiffies: core.rto as u32,
            slow_start_after_idle: u32::from(self.config.slow_start_after_idle),
            min_rtt_us: core.min_rtt_us,
            delivered: core.delivered as u32,
            delivered_ce: core.delivered_ce as u32,
            lost: core.lost as u32,
            app_limited: core.app_limited as u32,
            cwnd_limited: u32::from(core.cwnd_limited),
            max_packets_out: core.max_packets_out,
            last_sent_jiffies: core.last_sent_jiffies as u32,
            ecn: u32::from(core.ecn),
            pacing: u32::from(core.pacing),
            gso_max_size: self.config.gso_max_size as u32,
            gso_max_segs: self.config.gso_max_segs,
            min_tso_segs: self.config.min_tso_segs,
            prior_in_flight: core.prior_in_flight,
            rtt_us: -1,
            stamped_rtt_us: -1,
            gso: u32::from(core.gso),
            tso_win_divisor: self.config.tso_win_divisor,
            max_ssthresh: self.config.max_ssthresh,
            snd_wnd: core.peer_window.min(u64::from(u32::MAX)) as u32,
            data_segs_out: core.data_segments_out as u32,
            unsent: core.unsent.min(u64::from(u32::MAX)) as u32,
            stamped: u32::from(core.timestamps.is_some()),
            rcv_tsval: core.timestamps.map_or(0, |(tsval, _)| tsval),
            rcv_tsecr: core.timestamps.map_or(0, |(_, tsecr)| tsecr),
            rcv_nxt: core.receiving.nxt as u32,
            delays_ack: u32::from(core.receiving.delays_ack),
            echoes_ce: u32::from(core.receiving.answer.echoes_ce),
            ..exchange::Linux::default()
        }
    }
}

/// An event as the module's interface is told of it; what that has no event for calls no hook.
fn number(event: CwndEvent) -> Option<LinuxEvent> {
    Some(match event {
        CwndEvent::TxStart => LinuxEvent::TxStart,
        CwndEvent::Restart => LinuxEvent::Restart,
        CwndEvent::CompleteCwr => LinuxEvent::CompleteCwr,
        CwndEvent::Loss => LinuxEvent::Loss,
        CwndEvent::EcnNoCe => LinuxEvent::EcnNoCe,
        CwndEvent::EcnIsCe => LinuxEvent::EcnIsCe,
        CwndEvent::Frto => LinuxEvent::Frto,
        CwndEvent::FastAck => LinuxEvent::FastAck,
        CwndEvent::SlowAck => LinuxEvent::SlowAck,
        CwndEvent::TlpRecovery => return None,
    })
}

fn sample_rtt(rtt_us: Option<u32>) -> i32 {
    rtt_us.map_or(-1, |us| us.min(i32::MAX as u32) as i32)
}

impl CongestionControl for Connection {
    fn init(&mut self, core: &mut Core) {
        // Called whether the module has a hook of its own or not: the connection gets its operations.
        self.hooks |= 1 << Hook::Init as u32;
        self.call(core, Hook::Init, [0; 2], |_| ());
        self.hooks = self.host.hooks_of(self.memory.get_mut());
    }

    fn release(&mut self, core: &mut Core) {
        self.call(core, Hook::Release, [0; 2], |_| ());
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        self.packets(core, Hook::Ssthresh).unwrap_or_else(|| (core.cwnd / 2).max(2))
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        let arguments = [i64::from(ack as u32), i64::from(acked)];
        self.call(core, Hook::CongAvoid, arguments, |_| ());
    }

    fn pkts_acked(&mut self, core: &mut Core, sample: &AckSample) {
        self.call(core, Hook::PktsAcked, [0; 2], |seen| {
            seen.acked = sample.packets;
            seen.in_flight = sample.in_flight;
            seen.rtt_us = sample_rtt(sample.rtt_us);
            seen.stamped_rtt_us = sample_rtt(sample.stamped_rtt_us);
        });
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        self.call(core, Hook::SetState, [state as i64, 0], |_| ());
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        if let Some(number) = number(event) {
            self.call(core, Hook::CwndEvent, [number as i64, 0], |_| ());
        }
    }

    fn in_ack_event(&mut self, core: &mut Core, event: AckEvent) {
        self.call(core, Hook::InAckEvent, [i64::from(event.0), 0], |_| ());
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        self.packets(core, Hook::UndoCwnd).unwrap_or(core.cwnd)
    }

    fn owns_window(&self) -> bool {
        self.hooks & (1 << Hook::CongControl as u32) != 0
    }

    fn cong_control(&mut self, core: &mut Core, sample: &RateSample) {
        let ack = i64::from(core.una as u32);
        let core_us = core.now / 1000;
        self.call(core, Hook::CongControl, [ack, 0], |seen| {
            seen.rtt_us = sample_rtt(sample.rtt_us);
            seen.sample_delivered = sample.delivered.map_or(-1, |packets| packets as i32);
            seen.interval_us = sample.delivered.map_or(-1, |_| sample.interval_us as i64);
            seen.prior_mstamp = sample.prior_mstamp;
            seen.snd_interval_us = sample.send_interval_us as u32;
            seen.rcv_interval_us =
                if sample.prior_mstamp == 0 { 0 } else { (core_us - sample.prior_mstamp) as u32 };
            seen.last_end_seq = sample.last_end_seq as u32;
            seen.prior_delivered = sample.prior_delivered as u32;
            seen.prior_delivered_ce = sample.prior_delivered_ce;
            seen.sample_delivered_ce = sample.delivered_ce;
            seen.losses = sample.losses;
            seen.acked_sacked = sample.acked_sacked;
            seen.prior_in_flight = sample.prior_in_flight;
            seen.is_app_limited = u32::from(sample.is_app_limited);
            seen.is_retrans = u32::from(sample.is_retrans);
            seen.is_ack_delayed = u32::from(sample.is_ack_delayed);
        });
    }

    fn min_tso_segs(&self, core: &Core) -> Option<u32> {
        let (segments, _) = self.ask(core, Hook::MinTsoSegs, [0; 2], |_| ())?;
        if !(0..=65_535).contains(&segments) {
            self.fail(core, Hook::MinTsoSegs, &format!("returned {segments} segments"));
            return None;
        }
        Some(segments as u32)
    }

    fn sndbuf_expand(&mut self, core: &Core) -> u32 {
        let Some((factor, _)) = self.ask(core, Hook::SndbufExpand, [0; 2], |_| ()) else { return 2 };
        if !(1..=1000).contains(&factor) {
            self.fail(core, Hook::SndbufExpand, &format!("returned {factor}"));
            return 2;
        }
        factor as u32
    }

    fn needs_ecn(&self) -> bool {
        self.hooks & NEEDS_ECN != 0
    }

    fn get_info(&self, core: &Core) {
        self.ask(core, Hook::GetInfo, [0; 2], |_| ());
    }
}
