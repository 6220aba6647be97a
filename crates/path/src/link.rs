//! A link: one direction of a cable. Loss, duplication, corruption, then queue, rate, delay and jitter.

mod fused;
mod impairments;
mod netem;
mod server;
mod shaper;
mod stepped;
mod wire;

use crate::packet::{DropReason, Nanos, Output, Packet};
use crate::queue::QueueConfig;
use crate::queue::configs::PfifoConfig;
use crate::{JitterConfig, LossConfig, ShaperConfig, Xoshiro256PlusPlus};
use fused::Fused;
use impairments::Impairments;
use netem::Netem;
use stepped::Stepped;

/// The configuration of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Rate, bits per second. None: a packet takes no time.
    pub rate_bps: Option<u64>,
    /// One-way propagation delay.
    pub delay_ns: Nanos,
    /// Queue discipline.
    pub queue: QueueConfig,
    /// Loss before the queue.
    pub loss: Option<LossConfig>,
    /// Probability that a packet is sent twice, parts per billion.
    pub duplicate_ppb: u32,
    /// Probability that a packet is damaged, parts per billion.
    pub corrupt_ppb: u32,
    /// Variation of the delay.
    pub jitter: Option<JitterConfig>,
    /// Limit of the link besides its rate.
    pub shaper: Option<ShaperConfig>,
    /// Bytes added to an IP packet where a rate or a byte limit counts it.
    pub overhead: u32,
    /// Largest IP packet, bytes. Disciplines refer to it; no packet is refused for it.
    pub mtu: u32,
    /// The delay lies before the queue, as where netem has the queue behind it: packets that come at one instant are all in the
    /// queue before the first of them leaves. Without a delay it says nothing.
    pub delay_first: bool,
    /// Call [`Output::queue_changed`]; such a link is stepped.
    pub report_changes: bool,
}

impl Default for LinkConfig {
    /// No rate, no delay, no impairment: an Ethernet without limits.
    fn default() -> Self {
        LinkConfig {
            rate_bps: None,
            delay_ns: 0,
            queue: QueueConfig::Pfifo(PfifoConfig { limit_packets: 1000 }),
            loss: None,
            duplicate_ppb: 0,
            corrupt_ppb: 0,
            jitter: None,
            shaper: None,
            overhead: 14,
            mtu: 1500,
            delay_first: false,
            report_changes: false,
        }
    }
}

/// Mode of a link's simulation. All modes give the same results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A packet's departure is computed when it arrives, and no event is needed. The link must be fed by one source
    /// (or by several whose packets come in order of time), must satisfy [`Link::can_fuse`], and cannot change.
    Fused,
    /// Packets wait for events, but arrivals may be handed in ahead of the driver's clock. The link must be fed as a
    /// fused one, and cannot change or pause.
    Early,
    /// Packets wait for events.
    Stepped,
}

/// A link's state as of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes waiting, with overhead, without the packet in service.
    pub backlog_bytes: u64,
    /// Packets waiting, without the one in service.
    pub backlog_packets: u32,
    /// Packets dropped so far, for any reason.
    pub drops: u64,
    /// Packets marked CE so far.
    pub ce_marks: u64,
    /// Packets whose transmission has started.
    pub packets: u64,
    /// Bytes of these packets, with overhead.
    pub bytes: u64,
    /// Time spent transmitting so far.
    pub busy_ns: Nanos,
}

/// A change of a running (stepped) link. None leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// New rate; the packet in service is finished at the old one.
    pub rate_bps: Option<u64>,
    /// New delay, for packets whose transmission starts from now on. They do not overtake earlier ones.
    pub delay_ns: Option<Nanos>,
    /// New loss before the queue.
    pub loss: Option<LossConfig>,
    /// New queue discipline, which takes over the packets that wait, as far as it admits them.
    pub queue: Option<QueueConfig>,
    /// Outage: packets entering while down are lost; those in the queue go on.
    pub down: Option<bool>,
}

/// One direction of a cable.
///
/// ```
/// use path::{Ecn, Link, LinkConfig, Mode, Packet};
///
/// # #[derive(Clone)]
/// # struct Plain(u32);
/// # impl Packet for Plain {
/// #     fn bytes(&self) -> u32 { self.0 }
/// #     fn payload(&self) -> u32 { self.0 - 40 }
/// #     fn flow_hash(&self) -> u32 { 0 }
/// #     fn ports(&self) -> (u16, u16) { (0, 0) }
/// #     fn src(&self) -> u16 { 0 }
/// #     fn dst(&self) -> u16 { 1 }
/// #     fn dscp(&self) -> u8 { 0 }
/// #     fn ecn(&self) -> Ecn { Ecn::NotEct }
/// #     fn set_ce(&mut self) {}
/// #     fn set_corrupt(&mut self) {}
/// # }
/// // 10 Mbit/s and 20 ms: a packet of 1250 bytes takes a millisecond to send, and the second one waits for that.
/// let config = LinkConfig { rate_bps: Some(10_000_000), delay_ns: 20_000_000, overhead: 0, ..Default::default() };
/// let streams = |purpose: &str| path::stream(1, 0, purpose, "bottleneck");
/// let mut link = Link::<Plain>::new(&config, &streams, Mode::Fused);
/// assert_eq!(link.pass(0, 1250), Some((21_000_000, 0)));
/// assert_eq!(link.pass(0, 1250), Some((22_000_000, 1_000_000)));
/// ```
pub struct Link<P> {
    impairments: Impairments,
    hop: Hop<P>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and spared an indirection per packet"
)]
enum Hop<P> {
    Fused(Fused),
    Stepped(Box<Stepped<P>>),
    Netem(Box<Netem>),
}

impl<P: Packet + Clone + 'static> Link<P> {
    /// A new, empty link. `streams` gives the random stream of a purpose: "loss", "duplicate", "corrupt", "jitter",
    /// "aqm".
    ///
    /// # Panics
    /// If `mode` is fused and [`Link::can_fuse`] says no, or if a value is out of its range, such as a rate of zero.
    pub fn new(config: &LinkConfig, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus, mode: Mode) -> Self {
        assert!(mode != Mode::Fused || Self::can_fuse(config), "this link needs events");
        let hop = match (&config.queue, mode) {
            (&QueueConfig::Netem { limit_packets }, _) => {
                assert!(config.shaper.is_none(), "netem has no shaper but its rate");
                Hop::Netem(Box::new(Netem::new(limit_packets, config, streams)))
            }
            (_, Mode::Fused) => Hop::Fused(Fused::new(config, streams)),
            (_, Mode::Early | Mode::Stepped) => {
                Hop::Stepped(Box::new(Stepped::new(config, streams, mode == Mode::Early)))
            }
        };
        Link { impairments: Impairments::new(config, streams), hop }
    }

    /// Whether a link fed by one source can be carried out without events: a drop-tail queue whose changes nobody
    /// follows, no shaper, no reordering. Whether it has one source, and no changes ahead, only the caller knows.
    pub fn can_fuse(config: &LinkConfig) -> bool {
        matches!(config.queue, QueueConfig::Pfifo(_) | QueueConfig::Bfifo(_))
            && config.shaper.is_none()
            && !Self::reorders(config)
            && !config.report_changes
            && !config.delay_first
    }

    /// Whether packets may reach the far end in another order than [`Output::forward`] reports them.
    pub fn reorders(config: &LinkConfig) -> bool {
        config.jitter.as_ref().is_some_and(|jitter| jitter.reorder)
    }

    /// A packet enters the link at `at`, which must not be earlier than the link's last arrival or event. On a fused or
    /// an early link it may lie ahead of the driver's clock; on a stepped link it is the driver's clock.
    #[inline(always)]
    pub fn arrive(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        if self.impairments.active {
            self.arrive_impaired(at, packet, out);
        } else {
            self.accept(at, packet, out);
        }
    }

    /// [`Link::arrive`] of a packet that its sender wants to leave no earlier than `due`, on a stepped link with FQ.
    pub fn arrive_due(&mut self, at: Nanos, due: Nanos, packet: P, out: &mut impl Output<P>) {
        if let Hop::Stepped(stepped) = &mut self.hop {
            stepped.set_due(due);
        }
        self.arrive(at, packet, out);
    }

    /// Whether [`Link::pass`] may stand for [`Link::arrive`]: a fused link without impairments.
    pub fn is_plain(&self) -> bool {
        matches!(self.hop, Hop::Fused(_)) && !self.impairments.active
    }

    /// [`Link::arrive`] without the packet itself, of which only the number of `bytes` is needed, on a link that
    /// [`Link::is_plain`]. Returns when it reaches the far end and how long it waited in the queue. None if the queue's limit
    /// drops it.
    ///
    /// # Panics
    /// On a stepped link.
    #[inline(always)]
    pub fn pass(&mut self, at: Nanos, bytes: u32) -> Option<(Nanos, Nanos)> {
        let Hop::Fused(fused) = &mut self.hop else { panic!("a stepped link keeps its packets") };
        fused.pass(at, bytes)
    }

    /// Time when the transmission of the last packet of [`Link::pass`] ends.
    ///
    /// # Panics
    /// On a stepped link.
    #[inline]
    pub fn sent(&self) -> Nanos {
        let Hop::Fused(fused) = &self.hop else { panic!("a stepped link tells of each packet") };
        fused.sent()
    }

    /// Time when the link next wants [`Link::on_event`]. A fused link never does.
    pub fn next_event(&self) -> Option<Nanos> {
        match &self.hop {
            Hop::Fused(_) => None,
            Hop::Stepped(stepped) => stepped.next_event(),
            Hop::Netem(netem) => netem.next_event(),
        }
    }

    /// Starts every transmission that is due at or before `now`. May be called early or late, or when none is due.
    pub fn on_event(&mut self, now: Nanos, out: &mut impl Output<P>) {
        match &mut self.hop {
            Hop::Fused(_) => (),
            Hop::Stepped(stepped) => stepped.advance(now, out),
            Hop::Netem(netem) => netem.advance(now, out),
        }
    }

    /// The state as of `t`, where everything that happens at `t` itself has happened. On a fused or an early link, `t`
    /// may be earlier than arrivals that were already handed in, but not than the last [`Link::next_query`]; on early
    /// and stepped links, all arrivals and events at or before `t` have been handed in.
    pub fn counters(&mut self, t: Nanos) -> Counters {
        match &mut self.hop {
            Hop::Fused(fused) => fused.counters(t),
            Hop::Stepped(stepped) => stepped.counters(t),
            Hop::Netem(netem) => netem.counters(t),
        }
    }

    /// Promises that [`Link::counters`] will not be asked for a time before `at` (at first, 0), which frees a fused or
    /// an early link from remembering what happened until then. A link that nobody asks any more is told `Nanos::MAX`.
    pub fn next_query(&mut self, at: Nanos) {
        match &mut self.hop {
            Hop::Fused(fused) => fused.next_query(at),
            Hop::Stepped(stepped) => stepped.next_query(at),
            Hop::Netem(_) => {}
        }
    }

    /// Lets no transmission start until the next call, or lets them start again, as a pause frame from the far end does. `now` is the
    /// time at which the frame arrives here. The packet in service is finished.
    ///
    /// # Panics
    /// On a fused link, or one with netem.
    pub fn pause(&mut self, now: Nanos, paused: bool, out: &mut impl Output<P>) {
        let Hop::Stepped(stepped) = &mut self.hop else { panic!("this link cannot pause") };
        stepped.advance(now, out);
        stepped.pause(now, paused);
        stepped.advance(now, out);
    }

    /// Counts and reports a packet that never gets to the queue.
    pub(crate) fn refuse(&mut self, at: Nanos, packet: &P, out: &mut impl Output<P>) {
        self.count_drop(at, out);
        out.dropped(at, packet, DropReason::Overlimit);
    }

    /// Changes the link at `now`, when everything at or before `now` has been handed in.
    ///
    /// # Panics
    /// On a fused link; on one with netem, if the queue is to change.
    pub fn change(
        &mut self,
        now: Nanos,
        change: &LinkChange,
        streams: &dyn Fn(&str) -> Xoshiro256PlusPlus,
        out: &mut impl Output<P>,
    ) {
        match &mut self.hop {
            Hop::Fused(_) => panic!("a fused link cannot change"),
            Hop::Stepped(stepped) => {
                stepped.advance(now, out);
                stepped.change(now, change, streams, out);
            }
            Hop::Netem(netem) => netem.change(change),
        }
        self.impairments.change(change, streams);
    }

    #[inline(never)]
    fn arrive_impaired(&mut self, at: Nanos, mut packet: P, out: &mut impl Output<P>) {
        let loss = if self.impairments.down() {
            Some(DropReason::Down)
        } else if self.impairments.loses(&packet) {
            Some(DropReason::Loss)
        } else {
            None
        };
        if let Some(why) = loss {
            self.count_drop(at, out);
            out.dropped(at, &packet, why);
            return;
        }
        if self.impairments.duplicates() {
            let mut copy = out.duplicate(&packet);
            if self.impairments.corrupts() {
                copy.set_corrupt();
            }
            self.accept(at, copy, out);
        }
        if self.impairments.corrupts() {
            packet.set_corrupt();
        }
        self.accept(at, packet, out);
    }

    fn count_drop(&mut self, at: Nanos, out: &mut impl Output<P>) {
        match &mut self.hop {
            Hop::Fused(fused) => fused.count_drop(at),
            Hop::Stepped(stepped) => {
                stepped.advance(at, out);
                stepped.count_drop(at);
            }
            Hop::Netem(netem) => netem.count_drop(),
        }
    }

    #[inline(always)]
    fn accept(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        if let Hop::Stepped(stepped) = &mut self.hop {
            stepped.accept(at, packet, out);
        } else {
            self.accept_slow(at, packet, out);
        }
    }

    #[inline(never)]
    fn accept_slow(&mut self, at: Nanos, packet: P, out: &mut impl Output<P>) {
        match &mut self.hop {
            Hop::Fused(fused) => fused.accept(at, packet, out),
            Hop::Stepped(stepped) => stepped.accept(at, packet, out),
            Hop::Netem(netem) => netem.accept(at, packet, out),
        }
    }
}
