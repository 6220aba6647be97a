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
    /// A receiver of whatever kind that merges so many segments of data in sequence, of whatever length (as FreeBSD's LRO,
    /// which knows no shorter last segment and takes no notice of PSH).
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
    /// The host's clock tick.
    tick: u64,
}

#[derive(Clone, Debug)]
struct Held<F> {
    frame: F,
    /// Payload of the first segment.
    size: u32,
    frames: u16,
    /// The tick in which the first came.
    tick: u64,
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
        Aggregator { rules, held: Vec::with_capacity(HELD_FLOWS), tick: 0 }
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

    /// The host's clock ticks: what begins from now on is of tick `tick`.
    pub fn set_tick(&mut self, tick: u64) {
        self.tick = tick;
    }

    /// The end of a polling pass that another follows: what began in an earlier tick goes to `up` (Linux, napi_gro_flush
    /// with flush_old).
    pub fn flush_old(&mut self, up: &mut impl FnMut(F)) {
        while self.held.first().is_some_and(|held| held.tick != self.tick) {
            self.release(0, up);
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
        self.held.push(Held { size: segment.len, frames: 1, tick: self.tick, frame });
    }

    fn fate(&self, held: &Held<F>, next: &Segment) -> Fate {
        match self.rules {
            Rules::Gro => gro(held.frame.segment(), held.size, next),
            Rules::Lro { .. } => lro(held.frame.segment(), next),
            Rules::Every { segments } => {
                let first = held.frame.segment();
                if !data_alone(next) || next.len == 0 || !in_sequence(first, next) {
                    return Fate::Restart;
                }
                Fate::Merge { complete: held.frames + 1 >= segments }
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

/// When a host looks at what its network interface has received: at an interrupt, which comes when so many frames wait or
/// the first has waited so long, and then, on Linux, again by a timer as long as it finds something.
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
    /// Passes that may still put off switching interrupts on.
    deferrals: u32,
}

/// Polling by a timer after an interrupt: `gro_flush_timeout` and `napi_defer_hard_irqs` of a Linux interface (net/core/dev.c,
/// napi_complete_done).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polling {
    /// Time from one pass to the next, and the longest an idle aggregate is held; 0: an aggregate ends with its pass.
    pub timeout: Nanos,
    /// Passes in a row without a frame before interrupts are switched on again; 0: at once.
    pub defer: u32,
}

/// Which aggregates end with a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All.
    All,
    /// Those of an earlier clock tick: another pass follows.
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

    /// The next interrupt comes `time` from now: a wait that begins anew with each frame, as that of a network interface's
    /// packet timer does (Intel's RDTR), and so ends when the line has been quiet so long.
    pub fn restart(&mut self, now: Nanos) {
        self.interrupt = Some(now + self.time);
    }

    /// When the next pass comes if no further frame does.
    pub fn due(&self) -> Option<Nanos> {
        self.interrupt.into_iter().chain(self.timer).min()
    }

    /// The host has seen every frame; `holds` says whether an aggregate is in the making. Returns which of them end.
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
