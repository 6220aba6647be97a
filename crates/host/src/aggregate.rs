//! Receive aggregation: consecutive segments of a flow handed to the stack as one (Linux GRO, FreeBSD LRO).

use tcp::Nanos;
use wire::{Flags, Options, Segment};

/// Most flows with an incomplete aggregate; for one more, the oldest aggregate goes up (Linux MAX_GRO_SKBS; FreeBSD LRO_ENTRIES).
const MAX_HELD_FLOWS: usize = 8;
/// An aggregate of Linux stays below this, IP header included (GRO_LEGACY_MAX_SIZE): 45 segments of 1448 bytes.
const GRO_BYTES: u32 = 65_536;
/// Largest value of the length field of an IP header, which bounds an aggregate of FreeBSD: 45 segments as well.
const LRO_BYTES: u32 = 65_535;
/// Length in bytes of the header of IPv6, which its length field does not count.
const UNCOUNTED: u32 = 40;

/// A received frame.
pub trait Frame {
    /// The connection it is for.
    fn connection(&self) -> u32;
    /// Segment of the frame.
    fn segment(&self) -> &Segment;
    /// Segment of the frame, to which others are merged.
    fn segment_mut(&mut self) -> &mut Segment;
}

/// Rules for what may be merged, and when an aggregate is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Linux (net/ipv4/tcp_offload.c): data in sequence with the same ACK number, flags but for PSH and FIN, options
    /// and ECN field, none longer than the first. PSH, FIN or a shorter segment complete it. ACKs are not merged.
    Gro,
    /// FreeBSD (sys/netinet/tcp_lro.c): data and ACKs in sequence whose only flags are ACK and PSH and whose only
    /// option is a timestamp that does not go back; the newest ACK number, window and timestamp count.
    Lro {
        /// The stack learns how many frames were merged (12 and later).
        counts: bool,
    },
    /// Any receiver that merges up to so many segments of data in sequence, whatever their length. As with FreeBSD's LRO, neither a
    /// shorter segment nor PSH ends an aggregate.
    Every {
        /// Segments of an aggregate, at least 1.
        segments: u16,
    },
}

/// The incomplete aggregates of a host.
#[derive(Clone, Debug)]
pub struct Aggregator<F> {
    rules: Rules,
    /// Bytes that limits count besides the TCP segment.
    header: u32,
    /// Oldest first.
    held: Vec<Held<F>>,
    /// The host's clock tick.
    tick: u64,
}

#[derive(Clone, Debug)]
struct Held<F> {
    frame: F,
    /// Payload of the first segment.
    size: u32,
    frames: u16,
    /// The clock tick in which the first segment came.
    tick: u64,
}

/// Action for a frame whose flow has an incomplete aggregate.
enum Action {
    /// Merges the frame.
    Merge {
        /// Whether the aggregate is complete then.
        complete: bool,
    },
    /// The aggregate goes up, and the frame starts a new one.
    Restart,
    /// The aggregate goes up, and the frame behind it.
    Pass,
}

impl<F: Frame> Aggregator<F> {
    /// An aggregator that holds nothing, of packets with IP headers of `ip_header` bytes.
    pub fn new(rules: Rules, ip_header: u32) -> Aggregator<F> {
        let header = match rules {
            Rules::Lro { .. } if ip_header == UNCOUNTED => 0,
            _ => ip_header,
        };
        Aggregator { rules, header, held: Vec::with_capacity(MAX_HELD_FLOWS), tick: 0 }
    }

    /// Takes a frame. What is complete goes to `up`; the order of a flow is kept.
    pub fn push(&mut self, frame: F, up: &mut impl FnMut(F)) {
        let connection = frame.connection();
        let Some(index) = self.held.iter().position(|held| held.frame.connection() == connection) else {
            self.start(frame, up);
            return;
        };
        match self.action(&self.held[index], frame.segment()) {
            Action::Merge { complete } => {
                self.merge(index, frame.segment());
                if complete {
                    self.release(index, up);
                }
            }
            Action::Restart => {
                self.release(index, up);
                self.start(frame, up);
            }
            Action::Pass => {
                self.release(index, up);
                up(frame);
            }
        }
    }

    /// Sets the host's clock tick, of which aggregates are that begin from now on.
    pub fn set_tick(&mut self, tick: u64) {
        self.tick = tick;
    }

    /// Ends a polling pass that another follows: aggregates that began in an earlier tick go to `up` (Linux, napi_gro_flush
    /// with flush_old).
    pub fn flush_old(&mut self, up: &mut impl FnMut(F)) {
        while self.held.first().is_some_and(|held| held.tick != self.tick) {
            self.release(0, up);
        }
    }

    /// Ends a polling pass: all aggregates go to `up`.
    pub fn flush(&mut self, up: &mut impl FnMut(F)) {
        for held in std::mem::take(&mut self.held) {
            up(self.finished(held));
        }
    }

    /// Whether there is an incomplete aggregate.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    fn release(&mut self, index: usize, up: &mut impl FnMut(F)) {
        let held = self.held.remove(index);
        up(self.finished(held));
    }

    fn finished(&self, mut held: Held<F>) -> F {
        let told = !matches!(self.rules, Rules::Lro { counts: false });
        held.frame.segment_mut().frames = if told { held.frames } else { 1 };
        held.frame
    }

    fn start(&mut self, frame: F, up: &mut impl FnMut(F)) {
        let segment = frame.segment();
        let alone = match self.rules {
            // A frame that would complete an aggregate, and a pure ACK.
            Rules::Gro => {
                segment.len == 0
                    || !segment.flags.has(Flags::ACK)
                    || segment.flags.0
                        & (Flags::PSH.0 | Flags::FIN.0 | Flags::SYN.0 | Flags::RST.0 | Flags::URG.0)
                        != 0
            }
            Rules::Lro { .. } => !plain(segment),
            Rules::Every { segments } => segments < 2 || segment.len == 0 || !data_alone(segment),
        };
        if alone {
            up(frame);
            return;
        }
        if self.held.len() == MAX_HELD_FLOWS {
            self.release(0, up);
        }
        self.held.push(Held { size: segment.len, frames: 1, tick: self.tick, frame });
    }

    fn action(&self, held: &Held<F>, next: &Segment) -> Action {
        match self.rules {
            Rules::Gro => gro(held.frame.segment(), self.header, held.size, next),
            Rules::Lro { .. } => lro(held.frame.segment(), self.header, next),
            Rules::Every { segments } => {
                let first = held.frame.segment();
                if !data_alone(next) || next.len == 0 || !in_sequence(first, next) {
                    return Action::Restart;
                }
                Action::Merge { complete: held.frames + 1 >= segments }
            }
        }
    }

    fn merge(&mut self, index: usize, next: &Segment) {
        let held = &mut self.held[index];
        held.frames = held.frames.saturating_add(1);
        let segment = held.frame.segment_mut();
        segment.len += next.len;
        segment.flags.0 |= next.flags.0 & (Flags::PSH.0 | Flags::FIN.0);
        // GRO keeps the first header; its ACK number and options are the same, its window may not be.
        if self.rules != Rules::Gro {
            segment.ack = next.ack;
            segment.window = next.window;
            segment.tsval = next.tsval;
            segment.tsecr = next.tsecr;
        }
    }
}

fn in_sequence(held: &Segment, next: &Segment) -> bool {
    next.seq == held.seq.wrapping_add(held.len)
}

fn gro(held: &Segment, header: u32, size: u32, next: &Segment) -> Action {
    // CWR stands on the first packet of a burst, unless it is a part of a counter.
    let cwr = if next.options.has(Options::ACE) { 0 } else { Flags::CWR.0 };
    let different = Flags(!(cwr | Flags::FIN.0 | Flags::PSH.0) & (held.flags.0 ^ next.flags.0));
    let same = next.ack == held.ack
        && different.0 == 0
        && next.flags.0 & cwr == 0
        && next.ecn == held.ecn
        && next.options == held.options
        && (!next.options.has(Options::ACCECN) || next.accecn == held.accecn)
        && (next.tsval, next.tsecr) == (held.tsval, held.tsecr)
        && next.sack == held.sack;
    if same
        && in_sequence(held, next)
        && (1..=size).contains(&next.len)
        && header + held.tcp_bytes() + next.len < GRO_BYTES
    {
        let complete = next.len < size || next.flags.0 & (Flags::PSH.0 | Flags::FIN.0) != 0;
        return Action::Merge { complete };
    }
    Action::Restart
}

fn lro(held: &Segment, header: u32, next: &Segment) -> Action {
    if !plain(next) {
        return Action::Pass;
    }
    let ahead = next.ack.wrapping_sub(held.ack) as i32;
    if next.len == 0 && (ahead < 0 || ahead == 0 && next.window == held.window) {
        // A duplicate ACK tells the sender something by itself, and is not merged.
        return Action::Pass;
    }
    let merges = in_sequence(held, next)
        && ahead >= 0
        && next.ecn == held.ecn
        && next.options == held.options
        && next.tsval.wrapping_sub(held.tsval) as i32 >= 0
        && header + held.tcp_bytes() + next.len <= LRO_BYTES;
    if merges { Action::Merge { complete: false } } else { Action::Restart }
}

/// Whether FreeBSD's LRO takes a segment at all.
fn plain(segment: &Segment) -> bool {
    data_alone(segment) && segment.options.0 & !Options::TIMESTAMPS.0 == 0 && segment.sack.is_empty()
}

/// No flags but ACK and PSH.
fn data_alone(segment: &Segment) -> bool {
    segment.flags.0 & !Flags::PSH.0 == Flags::ACK.0
}

/// Times when a host polls its network interface: at an interrupt, which comes when so many frames wait or the
/// first has waited so long. Linux then polls again by a timer as long as frames are found.
#[derive(Clone, Copy, Debug)]
pub struct Moderation {
    time: Nanos,
    frames: u32,
    polling: Polling,
    waiting: u32,
    interrupt: Option<Nanos>,
    timer: Option<Nanos>,
    /// Interrupts are off until the timer fires.
    quiet: bool,
    /// Passes without a frame after which interrupts are still not switched on.
    deferrals: u32,
}

/// Polling by a timer after an interrupt: `gro_flush_timeout` and `napi_defer_hard_irqs` of a Linux interface (net/core/dev.c,
/// napi_complete_done).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polling {
    /// Time from one pass to the next, and the longest an idle aggregate is held; 0: an aggregate ends with its pass.
    pub timeout: Nanos,
    /// Passes in a row without a frame after which interrupts are switched on again; 0: at once.
    pub defer: u32,
}

/// Aggregates that end with a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All aggregates.
    All,
    /// Aggregates of an earlier clock tick: another pass follows.
    Old,
}

impl Moderation {
    /// An interrupt at the latest `time` after a frame, or when `frames` wait (0: no such limit). With a time of 0
    /// every frame interrupts.
    pub fn new(time: Nanos, frames: u32, polling: Polling) -> Moderation {
        Moderation {
            time,
            frames,
            polling,
            waiting: 0,
            interrupt: None,
            timer: None,
            quiet: false,
            deferrals: 0,
        }
    }

    /// A frame has come; true if the interrupt follows at once.
    pub fn on_frame(&mut self, now: Nanos) -> bool {
        self.waiting += 1;
        if self.quiet {
            return false;
        }
        if self.time == 0 || self.waiting == self.frames {
            return true;
        }
        self.interrupt.get_or_insert(now + self.time);
        false
    }

    /// Restarts the wait for the interrupt, which then comes `time` from now. A network interface with a packet timer (Intel's RDTR)
    /// does so at each frame: the interrupt comes when no frame has come for so long.
    pub fn restart(&mut self, now: Nanos) {
        self.interrupt = Some(now + self.time);
    }

    /// Time when the next pass comes if no further frame does.
    pub fn due(&self) -> Option<Nanos> {
        self.interrupt.into_iter().chain(self.timer).min()
    }

    /// Ends a pass, when the host has seen every frame. `holds` says whether there is an incomplete aggregate.
    /// Returns which aggregates end.
    pub fn polled(&mut self, now: Nanos, holds: bool) -> Flush {
        let worked = self.waiting > 0;
        self.waiting = 0;
        self.interrupt = None;
        self.timer = None;
        self.quiet = false;
        let Polling { timeout, defer } = self.polling;
        if timeout == 0 {
            return Flush::All;
        }
        if worked {
            self.deferrals = defer;
        }
        let mut again = worked && holds;
        if self.deferrals > 0 {
            self.deferrals -= 1;
            self.quiet = true;
            again = true;
        }
        if !again {
            return Flush::All;
        }
        self.timer = Some(now + timeout);
        Flush::Old
    }
}

#[cfg(test)]
mod tests;
