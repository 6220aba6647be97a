//! Receive aggregation: consecutive segments of a flow handed to the stack as one (Linux GRO, FreeBSD LRO).

use tcp::Nanos;
use wire::{Flags, Options, Segment};

/// Flows of which something is held; for a ninth, the oldest is let go (Linux MAX_GRO_SKBS; FreeBSD LRO_ENTRIES).
const HELD_FLOWS: usize = 8;
/// An aggregate of Linux stays below this, IP header included (GRO_LEGACY_MAX_SIZE): 45 segments of 1448 bytes.
const GRO_BYTES: u32 = 65_536;
/// An aggregate of FreeBSD holds at most this, IP header included, the largest value of the field: 45 segments as well.
const LRO_BYTES: u32 = 65_535;

/// A received frame.
pub trait Frame {
    /// The connection it is for.
    fn connection(&self) -> u32;
    /// Its segment.
    fn segment(&self) -> &Segment;
    /// The same, to be made larger.
    fn segment_mut(&mut self) -> &mut Segment;
}

/// What may be merged, and when an aggregate is complete.
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
    /// A receiver of whatever kind that merges so many segments of data in sequence; a shorter one completes it.
    Every {
        /// Segments of an aggregate, at least 1.
        segments: u16,
    },
}

/// Aggregates in the making, of one host.
#[derive(Clone, Debug)]
pub struct Aggregator<F> {
    rules: Rules,
    /// Oldest first.
    held: Vec<Held<F>>,
}

#[derive(Clone, Debug)]
struct Held<F> {
    frame: F,
    /// Payload of the first segment.
    size: u32,
    frames: u16,
}

/// What to do with a frame of whose flow something is held.
enum Fate {
    /// It becomes part of it.
    Merge {
        /// Which is then complete.
        complete: bool,
    },
    /// What is held goes on, and the frame starts afresh.
    Restart,
    /// What is held goes on, and the frame behind it.
    Pass,
}

impl<F: Frame> Aggregator<F> {
    /// An aggregator that holds nothing.
    pub fn new(rules: Rules) -> Aggregator<F> {
        Aggregator { rules, held: Vec::with_capacity(HELD_FLOWS) }
    }

    /// Takes a frame; whatever is complete goes to `up`, in order of each flow.
    pub fn push(&mut self, frame: F, up: &mut impl FnMut(F)) {
        let connection = frame.connection();
        let Some(index) = self.held.iter().position(|held| held.frame.connection() == connection) else {
            self.start(frame, up);
            return;
        };
        match self.fate(&self.held[index], frame.segment()) {
            Fate::Merge { complete } => {
                self.merge(index, frame.segment());
                if complete {
                    self.release(index, up);
                }
            }
            Fate::Restart => {
                self.release(index, up);
                self.start(frame, up);
            }
            Fate::Pass => {
                self.release(index, up);
                up(frame);
            }
        }
    }

    /// The end of a polling pass: everything goes to `up`.
    pub fn flush(&mut self, up: &mut impl FnMut(F)) {
        for held in std::mem::take(&mut self.held) {
            up(self.finished(held));
        }
    }

    /// Whether anything is held.
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
            // Anything that would complete an aggregate, and pure ACKs.
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
        if self.held.len() == HELD_FLOWS {
            self.release(0, up);
        }
        self.held.push(Held { size: segment.len, frames: 1, frame });
    }

    fn fate(&self, held: &Held<F>, next: &Segment) -> Fate {
        match self.rules {
            Rules::Gro => gro(held.frame.segment(), held.size, next),
            Rules::Lro { .. } => lro(held.frame.segment(), next),
            Rules::Every { segments } => {
                let first = held.frame.segment();
                if !data_alone(next) || next.len == 0 || !in_sequence(first, next) || next.len > held.size {
                    return Fate::Restart;
                }
                Fate::Merge { complete: held.frames + 1 >= segments || next.len < held.size }
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

fn gro(held: &Segment, size: u32, next: &Segment) -> Fate {
    let different = Flags(!(Flags::CWR.0 | Flags::FIN.0 | Flags::PSH.0) & (held.flags.0 ^ next.flags.0));
    let same = next.ack == held.ack
        && different.0 == 0
        && !next.flags.has(Flags::CWR)
        && next.ecn == held.ecn
        && next.options == held.options
        && (next.tsval, next.tsecr) == (held.tsval, held.tsecr)
        && next.sack == held.sack;
    if same
        && in_sequence(held, next)
        && (1..=size).contains(&next.len)
        && held.ip_bytes() + next.len < GRO_BYTES
    {
        let complete = next.len < size || next.flags.0 & (Flags::PSH.0 | Flags::FIN.0) != 0;
        return Fate::Merge { complete };
    }
    Fate::Restart
}

fn lro(held: &Segment, next: &Segment) -> Fate {
    if !plain(next) {
        return Fate::Pass;
    }
    let ahead = next.ack.wrapping_sub(held.ack) as i32;
    if next.len == 0 && (ahead < 0 || ahead == 0 && next.window == held.window) {
        // A duplicate ACK means something by itself.
        return Fate::Pass;
    }
    let merges = in_sequence(held, next)
        && ahead >= 0
        && next.ecn == held.ecn
        && next.options == held.options
        && next.tsval.wrapping_sub(held.tsval) as i32 >= 0
        && held.ip_bytes() + next.len <= LRO_BYTES;
    if merges { Fate::Merge { complete: false } } else { Fate::Restart }
}

/// What FreeBSD's LRO takes at all.
fn plain(segment: &Segment) -> bool {
    data_alone(segment) && segment.options.0 & !Options::TIMESTAMPS.0 == 0 && segment.sack.is_empty()
}

/// No flags but ACK and PSH.
fn data_alone(segment: &Segment) -> bool {
    segment.flags.0 & !Flags::PSH.0 == Flags::ACK.0
}

/// When a network interface interrupts its host: so many frames have come, or the first has waited so long.
#[derive(Clone, Copy, Debug)]
pub struct Moderation {
    time: Nanos,
    frames: u32,
    waiting: u32,
    due: Option<Nanos>,
}

impl Moderation {
    /// An interrupt at the latest `time` after a frame, or when `frames` wait (0: no such limit). With a time of 0
    /// every frame interrupts.
    pub fn new(time: Nanos, frames: u32) -> Moderation {
        Moderation { time, frames, waiting: 0, due: None }
    }

    /// A frame has come; true if the interrupt follows at once.
    pub fn on_frame(&mut self, now: Nanos) -> bool {
        self.waiting += 1;
        if self.time == 0 || self.waiting == self.frames {
            return true;
        }
        self.due.get_or_insert(now + self.time);
        false
    }

    /// When the interrupt comes if no further frame does.
    pub fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// The host has seen every frame.
    pub fn polled(&mut self) {
        self.waiting = 0;
        self.due = None;
    }
}

#[cfg(test)]
mod tests;
