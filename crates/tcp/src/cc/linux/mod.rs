//! Linux's congestion control modules: the hooks they implement, what they see of the connection, and their registry.
//!
//! Everything is counted in packets (MSS units), as in Linux; a module keeps its own state and reads and writes the
//! connection's through [`Core`].

mod bbr;
mod bbr3;
mod bbr_events;
mod bbr_model;
mod cdg;
pub(super) mod cubic;
mod dctcp;
mod htcp;
mod illinois;
mod prague;
pub(super) mod reno;
mod vegas;
mod westwood;

use std::any::Any;
use std::sync::Arc;

use super::Lifecycle;
use crate::clock::{HostClock, Nanos};
use crate::context::EcnAnswer;
use crate::event::EventKind;
use crate::linux_config::{Config, Shared};
use crate::random::split_mix;

/// "No threshold yet" (TCP_INFINITE_SSTHRESH).
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The initial window in packets, in every era modelled (RFC 6928).
pub const INIT_CWND: u32 = 10;

/// 3.9: so much of the window may be unused without growth ending, packets (tcp_max_tso_deferred_mss).
const DEFERRED_PACKETS: u32 = 3;

/// Linux's five congestion states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    /// Nothing unusual.
    Open,
    /// SACKs or duplicate ACKs seen, nothing judged lost.
    Disorder,
    /// Reducing because of ECN, a local drop or a repaired tail loss.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Loss recovery after a retransmission timeout.
    Loss,
}

/// Reason why a reduction is under way when a module is asked for its threshold. The kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// Loss, found by ACKs.
    #[default]
    Loss,
    /// A retransmission timeout.
    Timeout,
    /// An ECN echo, or a full queue of the host's own.
    Ecn,
}

/// Notices the core gives to a module (Linux's `enum tcp_ca_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CwndEvent {
    /// First transmission when nothing was in flight.
    TxStart,
    /// The window has shrunk after idleness.
    Restart,
    /// A reduction by CWR or Recovery is complete.
    CompleteCwr,
    /// A timeout that F-RTO doubts first (Linux 3.9).
    Frto,
    /// A timeout, believed.
    Loss,
    /// Data came without a mark of congestion, to a module that needs ECN.
    EcnNoCe,
    /// Data came with a mark of congestion, to a module that needs ECN.
    EcnIsCe,
    /// A tail loss probe repaired a loss (google/bbr).
    TlpRecovery,
    /// ACK at hand that only advances (Linux 3.9).
    FastAck,
    /// ACK at hand that does more than advance (Linux 3.9).
    SlowAck,
}

/// Flags of an ACK that `in_ack_event` hears of (Linux's `enum tcp_ca_ack_event_flags`), as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckEvent(pub u32);

impl AckEvent {
    /// ACK that does more than advance.
    pub const SLOWPATH: AckEvent = AckEvent(1);
    /// ACK that updates the window.
    pub const WIN_UPDATE: AckEvent = AckEvent(2);
    /// ACK that carries an ECN echo.
    pub const ECE: AckEvent = AckEvent(4);
}

/// Sample of an ACK that `pkts_acked` hears.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Number of packets that the ACK cumulatively acknowledges.
    pub packets: u32,
    /// Round trip of the newest packet it delivered, microseconds. None when only retransmissions were delivered.
    pub rtt_us: Option<u32>,
    /// RTT in microseconds where `rtt_us` is in whole jiffies (Linux 3.9: TCP_CONG_RTT_STAMP).
    pub stamped_rtt_us: Option<u32>,
    /// Number of bytes delivered since the newest of these packets was sent.
    pub in_flight: u32,
}

/// A delivery-rate sample (Linux's `struct rate_sample`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Packets delivered over the interval. None when the sample is void.
    pub delivered: Option<u32>,
    /// The longer of the send and the ACK interval, microseconds.
    pub interval_us: u64,
    /// `Core::delivered` when the acknowledged packet was sent.
    pub prior_delivered: u64,
    /// `Core::delivered_ce` then, its lower 20 bits.
    pub prior_delivered_ce: u32,
    /// Packets delivered since then by ACKs that echo a mark, modulo 2^20.
    pub delivered_ce: u32,
    /// Time when `prior_delivered` was reached, in local microseconds; 0: no packet gave a sample.
    pub prior_mstamp: u64,
    /// The packet's send interval, microseconds.
    pub send_interval_us: u64,
    /// End of the packet, to break ties between packets sent at once.
    pub last_end_seq: u64,
    /// Round trip in microseconds.
    pub rtt_us: Option<u32>,
    /// Packets newly marked lost by this ACK.
    pub losses: u32,
    /// Packets newly delivered by this ACK.
    pub acked_sacked: u32,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// The packet was sent while the application was the limit.
    pub is_app_limited: bool,
    /// The packet was a retransmission.
    pub is_retrans: bool,
    /// Whether this ACK was possibly held back by the receiver.
    pub is_ack_delayed: bool,
    /// Packets in flight when that packet left, it included; 0 where no module asks.
    pub tx_in_flight: u32,
    /// `Core::lost` then, its lower 32 bits.
    pub prior_lost: u32,
    /// Packets judged lost since then.
    pub lost: u32,
    /// Whether the ACK tells of marks.
    pub is_ece: bool,
    /// Packets of which Accurate ECN newly tells that they were marked.
    pub delta_ce: u32,
    /// Whether the ACK answers a tail loss probe that sent old data, or the original: nobody knows.
    pub acks_probe: bool,
}

/// A packet that was just judged lost, and the flight in which it left.
#[derive(Clone, Copy, Debug, Default)]
pub struct LostPacket {
    /// Packets in flight when it left, it included.
    pub tx_in_flight: u32,
    /// Packets judged lost since then, it included.
    pub lost: u32,
    /// The packet was sent while the application was the limit.
    pub is_app_limited: bool,
}

/// The receiving side, as a module that needs ECN sees it when data has come, and what the module wants of the answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiving {
    /// Next byte expected.
    pub nxt: u64,
    /// An ACK is being delayed.
    pub delays_ack: bool,
    /// Answer to the data.
    pub answer: EcnAnswer,
}

/// The part of a connection that congestion control sees and changes (Linux's `tcp_sock`).
#[derive(Clone, Debug)]
pub struct Core {
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Credit towards the next increment (snd_cwnd_cnt).
    pub cwnd_cnt: u32,
    /// Slow-start threshold, packets.
    pub ssthresh: u32,
    /// Window before the reduction under way.
    pub prior_cwnd: u32,
    /// Congestion state.
    pub state: CaState,
    /// Reason why ssthresh is asked for.
    pub cause: Cause,
    /// Packets sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// Packets out that are SACKed.
    pub sacked_out: u32,
    /// Packets out that are judged lost and not SACKed.
    pub lost_out: u32,
    /// Retransmissions in flight.
    pub retrans_out: u32,
    /// SND.UNA.
    pub una: u64,
    /// SND.NXT.
    pub nxt: u64,
    /// Payload of a full packet.
    pub mss: u32,
    /// Smoothed RTT in microseconds; 0 before the first sample.
    pub srtt_us: u64,
    /// Smoothed RTT with three fractional bits, as the system holds it.
    pub srtt8_us: u64,
    /// Retransmission timeout in jiffies, with what timeouts have doubled.
    pub rto: u64,
    /// Minimum RTT in microseconds (windowed); u32::MAX before the first sample.
    pub min_rtt_us: u32,
    /// Packets delivered so far.
    pub delivered: u64,
    /// Packets delivered that an ACK with an echo of a mark reported.
    pub delivered_ce: u64,
    /// Time when `delivered` last changed, in local microseconds.
    pub delivered_mstamp: u64,
    /// Send time of the newest packet delivered, local microseconds.
    pub first_tx_mstamp: u64,
    /// Packets judged lost so far.
    pub lost: u64,
    /// `delivered` when the application-limited bubble ends; 0: not application-limited.
    pub app_limited: u64,
    /// cwnd was the limit in the current window of data.
    pub cwnd_limited: bool,
    /// Most packets out in the current window of data.
    pub max_packets_out: u32,
    /// Packets in flight before the ACK under way (3.9's `in_flight`).
    pub prior_in_flight: u32,
    /// Local time, nanoseconds.
    pub now: Nanos,
    /// Jiffies.
    pub jiffies: u64,
    /// Jiffies at the last transmission of data.
    pub last_sent_jiffies: u64,
    /// Ticks per second.
    pub hz: u32,
    /// Bytes per second; kept up to date only while `pacing` is on.
    pub pacing_rate: u64,
    /// The module wants a reduction by CWR, for which its `ssthresh` will be asked.
    pub cwr_requested: bool,
    /// Transmissions are paced.
    pub pacing: bool,
    /// Segments of a burst, where the module says so; 0: sized by the pacing rate.
    pub tso_segs: u32,
    /// Segmentation offload is on.
    pub gso: bool,
    /// ECN was agreed.
    pub ecn: bool,
    /// The peer's window at the last ACK, bytes.
    pub peer_window: u64,
    /// Bytes that the application has written and that were not sent yet, when last looked.
    pub unsent: u64,
    /// Segments with payload sent before the last ACK, again or not.
    pub data_segments_out: u64,
    /// Timestamps of the last ACK: the peer's, and ours that it echoes, in ticks of TCP's clock. None without
    /// timestamps.
    pub timestamps: Option<(u32, u32)>,
    /// Local time of the last departure, or of the next one that pacing allows.
    pub departure: Nanos,
    /// Data that has come with a mark or without, while a module that needs ECN hears of it.
    pub receiving: Receiving,
    /// State of the connection's random generator (see [`Core::random_below`]).
    pub random: u64,
    /// Events of its own that a module tells, with their values, until the sender reports them. Empty almost always.
    pub told: Vec<(EventKind, i64)>,
    /// Local time, microseconds.
    now_us: u64,
    /// Local time at which the current jiffy ends.
    jiffy_end: Nanos,
}

impl Core {
    /// The state of a new connection.
    pub(crate) fn new(random: u64) -> Core {
        Core {
            cwnd: INIT_CWND,
            cwnd_cnt: 0,
            ssthresh: INFINITE_SSTHRESH,
            prior_cwnd: 0,
            state: CaState::Open,
            cause: Cause::Loss,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            una: 0,
            nxt: 0,
            mss: 0,
            srtt_us: 0,
            srtt8_us: 0,
            rto: 0,
            min_rtt_us: u32::MAX,
            delivered: 0,
            delivered_ce: 0,
            delivered_mstamp: 0,
            first_tx_mstamp: 0,
            lost: 0,
            app_limited: 0,
            cwnd_limited: false,
            max_packets_out: 0,
            prior_in_flight: 0,
            peer_window: 0,
            unsent: 0,
            data_segments_out: 0,
            timestamps: None,
            now: 0,
            jiffies: 0,
            last_sent_jiffies: 0,
            hz: 1000,
            pacing_rate: 0,
            cwr_requested: false,
            pacing: false,
            tso_segs: 0,
            gso: false,
            ecn: false,
            departure: 0,
            receiving: Receiving::default(),
            random,
            told: Vec::new(),
            now_us: 0,
            jiffy_end: 0,
        }
    }

    /// Takes the time from the host's clock; jiffies are computed only when a new one has begun.
    #[inline]
    pub(crate) fn set_time(&mut self, clock: &HostClock, now: Nanos) {
        let local = clock.local(now);
        if local == self.now {
            return;
        }
        self.now = local;
        self.now_us = self.now / 1000;
        if self.now >= self.jiffy_end {
            self.hz = clock.hz();
            self.jiffies = clock.ticks(now);
            self.jiffy_end = (self.jiffies + 1) * clock.tick_ns();
        }
    }

    /// Local time in microseconds.
    #[inline]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Jiffies of a time in microseconds, rounded up.
    #[inline]
    pub(crate) fn us_to_jiffies(&self, us: u64) -> u64 {
        (us * u64::from(self.hz)).div_ceil(1_000_000)
    }

    /// `packets` more have been delivered, by an ACK that echoes a mark or not (tcp_count_delivered).
    #[inline]
    pub(crate) fn count_delivered(&mut self, packets: u32, ece: bool) {
        self.delivered += u64::from(packets);
        if ece {
            self.delivered_ce += u64::from(packets);
        }
    }

    /// Packets believed in the network: sent, less SACKed and lost, plus retransmitted.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        (self.packets_out + self.retrans_out) - (self.sacked_out + self.lost_out)
    }

    /// SACKed or lost.
    #[inline]
    pub fn left_out(&self) -> u32 {
        self.sacked_out + self.lost_out
    }

    /// Whether cwnd is below the threshold, as modern Linux tests it.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// PRR governs the window.
    #[inline]
    pub fn in_cwnd_reduction(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
    }

    /// ssthresh to remember when restarting after idleness: three quarters of a window that was in use.
    #[inline]
    pub fn current_ssthresh(&self) -> u32 {
        if self.in_cwnd_reduction() {
            self.ssthresh
        } else {
            self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
        }
    }

    /// Growth is allowed: the window was the limit, or, in slow start, was more than half used (modern Linux).
    #[inline]
    pub fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited || (self.in_slow_start() && self.cwnd < 2 * self.max_packets_out)
    }

    /// 3.9's test: what was in flight before this ACK left little of the window unused.
    pub fn was_cwnd_limited(&self, config: &Config) -> bool {
        if self.prior_in_flight >= self.cwnd {
            return true;
        }
        let left = self.cwnd - self.prior_in_flight;
        (self.gso
            && left * config.tso_win_divisor < self.cwnd
            && u64::from(left) * u64::from(self.mss) < config.gso_max_size
            && left < config.gso_max_segs)
            || left <= DEFERRED_PACKETS
    }

    /// Grows the window by `acked` packets up to ssthresh; returns what is left for congestion avoidance.
    #[inline]
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// Modern growth for an ACK of `acked` packets, up to congestion avoidance: how many are left for that. None: it adds
    /// nothing.
    #[inline]
    pub fn left_for_avoidance(&mut self, acked: u32) -> Option<u32> {
        if !self.is_cwnd_limited() {
            return None;
        }
        if !self.in_slow_start() {
            return Some(acked);
        }
        let left = self.slow_start(acked);
        (left > 0).then_some(left)
    }

    /// Modern congestion avoidance: one more packet per `w` acknowledged.
    #[inline]
    pub fn avoid_packets(&mut self, w: u32, acked: u32) {
        if self.cwnd_cnt >= w {
            self.cwnd_cnt = 0;
            self.cwnd += 1;
        }
        self.cwnd_cnt += acked;
        if self.cwnd_cnt >= w {
            let delta = self.cwnd_cnt / w;
            self.cwnd_cnt -= delta * w;
            self.cwnd += delta;
        }
    }

    /// 3.9's congestion avoidance: one more packet per `w + 1` ACKs.
    #[inline]
    pub fn avoid_acks(&mut self, w: u32) {
        if self.cwnd_cnt >= w {
            self.cwnd += 1;
            self.cwnd_cnt = 0;
        } else {
            self.cwnd_cnt += 1;
        }
    }

    /// 3.9's slow start: one more packet per ACK, whatever it covers (limited slow start, RFC 3742, beyond
    /// `tcp_max_ssthresh`).
    #[inline]
    pub fn slow_start_acks(&mut self, max_ssthresh: u32) {
        let credit = if max_ssthresh > 0 && self.cwnd > max_ssthresh { max_ssthresh >> 1 } else { self.cwnd };
        self.cwnd_cnt += credit;
        // By the window that the ACK found.
        let window = self.cwnd;
        self.cwnd += self.cwnd_cnt / window;
        self.cwnd_cnt %= window;
    }

    /// Bytes per second that pacing would use: twice the window per round trip below half of ssthresh, 120 % above.
    pub fn usual_pacing_rate(&self, config: &Config) -> u64 {
        if self.srtt_us == 0 {
            return 0;
        }
        let ratio =
            if self.cwnd < self.ssthresh / 2 { config.pacing_ss_ratio } else { config.pacing_ca_ratio };
        let window = u64::from(self.mss) * u64::from(self.cwnd.max(self.packets_out));
        window * 10_000 * u64::from(ratio) / self.srtt_us
    }

    /// A random number below `bound`.
    pub fn random_below(&mut self, bound: u32) -> u32 {
        ((u128::from(split_mix(&mut self.random)) * u128::from(bound)) >> 64) as u32
    }
}

/// Congestion control module with Linux's hooks: `struct tcp_congestion_ops`.
pub trait CongestionControl: Any + Send {
    /// The connection is established.
    fn init(&mut self, _core: &mut Core) {}

    /// The connection, once established, is gone.
    fn release(&mut self, _core: &mut Core) {}

    /// The slow-start threshold after a loss or mark now, packets.
    fn ssthresh(&mut self, core: &mut Core) -> u32;

    /// Grows the window for an ACK up to `ack` that delivered `acked` packets (3.9's modules ignore `acked`).
    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32);

    /// Packets were acknowledged.
    fn pkts_acked(&mut self, _core: &mut Core, _sample: &AckSample) {}

    /// The congestion state is about to become `state`.
    fn set_state(&mut self, _core: &mut Core, _state: CaState) {}

    /// A notice.
    fn cwnd_event(&mut self, _core: &mut Core, _event: CwndEvent) {}

    /// An ACK arrived whose SACK blocks are taken in (Linux 4.7 and later; in Linux 6.18 also what it acknowledges).
    fn in_ack_event(&mut self, _core: &mut Core, _event: AckEvent) {}

    /// The window after a reduction turned out to be spurious.
    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        core.cwnd.max(core.prior_cwnd)
    }

    /// Whether [`CongestionControl::cong_control`] replaces PRR and growth.
    fn owns_window(&self) -> bool {
        false
    }

    /// Sets window and pacing rate after an ACK, for modules that own them.
    fn cong_control(&mut self, _core: &mut Core, _sample: &RateSample) {}

    /// The smallest number of segments of one transmission with segmentation offload. None: the sysctl.
    fn min_tso_segs(&self, _core: &Core) -> Option<u32> {
        None
    }

    /// Send buffer in multiples of the window, as autotuning asks for it.
    fn sndbuf_expand(&mut self, _core: &Core) -> u32 {
        2
    }

    /// Whether the module works with ECN only, and hears of marks on data that comes (TCP_CONG_NEEDS_ECN).
    fn needs_ecn(&self) -> bool {
        false
    }

    /// Whether the module reads one mark as one mark: its packets are ECT(1), and it works with Accurate ECN only
    /// (TCP_CONG_NEEDS_ACCECN).
    fn is_l4s(&self) -> bool {
        false
    }

    /// Whether the module's packets are ECT(1) where Accurate ECN was agreed.
    fn sends_ect1(&self) -> bool {
        self.is_l4s()
    }

    /// Whether the module hears of marks on data that comes, where ECN was agreed.
    fn hears_ecn(&self) -> bool {
        self.needs_ecn()
    }

    /// Whether the module looks at the loss of flights: [`CongestionControl::packet_lost`], and `tx_in_flight` and `lost` of samples.
    fn hears_losses(&self) -> bool {
        false
    }

    /// A packet was judged lost (skb_marked_lost of google/bbr).
    fn packet_lost(&mut self, _core: &mut Core, _packet: &LostPacket) {}

    /// Somebody asks for TCP_INFO.
    fn get_info(&self, _core: &Core) {}
}

/// A congestion control on one host: makes that of each connection.
pub trait Module: Lifecycle + Send + Sync {
    /// The algorithm of a new connection.
    fn connect(&self, config: &Shared) -> Box<dyn CongestionControl>;
}

/// Module of Linux's own.
struct BuiltIn(fn(&Shared) -> Box<dyn CongestionControl>);

impl Lifecycle for BuiltIn {}

impl Module for BuiltIn {
    fn connect(&self, config: &Shared) -> Box<dyn CongestionControl> {
        self.0(config)
    }
}

/// A host's congestion controls.
pub type Registry = super::Registry<dyn Module>;

/// A registry of Linux's own, by its names for them.
///
/// # Panics
/// If there is none of some name.
pub fn built_in(names: &[&str]) -> Registry {
    let mut registry = Registry::default();
    for &name in names {
        let make: fn(&Shared) -> Box<dyn CongestionControl> = match name {
            "reno" => |config| Box::new(reno::Reno::new(config)),
            "bbr" => |_| Box::new(bbr::Bbr::new()),
            "bbr2" => |config| Box::new(bbr3::Bbr3::version_2(config)),
            "bbr3" => |config| Box::new(bbr3::Bbr3::version_3(config)),
            "prague" => |config| Box::new(prague::Prague::new(config)),
            "dctcp" => |config| Box::new(dctcp::Dctcp::new(config)),
            "cdg" => |config| Box::new(cdg::Cdg::new(config)),
            "cubic" => |config| Box::new(cubic::Cubic::new(config)),
            "htcp" => |_| Box::new(htcp::Htcp::new()),
            "illinois" => |_| Box::new(illinois::Illinois::new()),
            "vegas" => |config| Box::new(vegas::Vegas::new(config)),
            "westwood" => |config| Box::new(westwood::Westwood::new(config)),
            _ => panic!("Linux has no congestion control {name}"),
        };
        registry.register(name, Arc::new(BuiltIn(make))).expect("a name of its own");
    }
    registry
}
