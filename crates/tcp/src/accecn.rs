//! Accurate ECN (RFC 9768) of one connection as Linux has it: counters of both directions, the option that carries them, and what
//! mangled feedback turns off; and the essential part of it, as FreeBSD has it (tcp_ecn.c).

mod figures;

use wire::{AccEcnCounters, Ecn, Flags, SackBlocks};

use crate::clock::Nanos;

/// Value of the ACE field when nothing was marked (RFC 9768 section 3.2.1).
const FIRST_ACE: u32 = 5;
/// Largest value of the ACE field.
const ACE_MASK: u32 = 7;
/// So many marks since the last ACK, and the peer could take them for fewer (section 3.2.2.5.1).
const MANY_PENDING: u32 = 6;
/// Bytes that the peer may have got before its first option, above which its counters could have wrapped.
const UNSEEN_MAX: u64 = (1 << 23) - 1;
/// A byte counter is told of at least once as it grows by so much.
const WRAP_MASK: u32 = !0 << 22;
/// Room for options in a header, bytes.
const OPTION_SPACE: u32 = 40;
/// Bytes of an option with all three counters, padded.
pub(crate) const OPTION_BYTES: u32 = 12;

/// Settings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the system has Accurate ECN at all.
    pub known: bool,
    /// net.ipv4.tcp_ecn_option: 0 no option, 1 when needed, 2 with every packet, 3 also if the path seems to drop it.
    pub option: u8,
    /// net.ipv4.tcp_ecn_option_beacon: options per round trip at least.
    pub beacon: u32,
    /// net.ipv4.tcp_ecn_fallback: ECN is given up where the path seems to mangle it.
    pub fallback: bool,
    /// Only what RFC 9768 calls essential: no option, nothing is looked for that the path has mangled, and only new data can be marked
    /// (FreeBSD).
    pub essential: bool,
}

impl Settings {
    /// Those of a system without Accurate ECN.
    pub const NONE: Settings =
        Settings { known: false, option: 0, beacon: 0, fallback: true, essential: false };
    /// Those of FreeBSD.
    pub const FREEBSD: Settings = Settings { known: true, essential: true, ..Settings::NONE };
}

/// Newest state of the peer's option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// None has come.
    #[default]
    Nothing,
    /// One without counters has come.
    Empty,
    /// Counters have come.
    Counters,
    /// The path has zeroed counters, or they come too late.
    Failed,
}

/// Ways in which the path was found to mangle feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// The flags that we send do not arrive.
    pub ace_sent: bool,
    /// The flags that come are not those that were sent.
    pub ace_received: bool,
    /// Our option does not arrive.
    pub option_sent: bool,
    /// The option that comes is not what was sent.
    pub option_received: bool,
}

/// Feedback of a segment that is to be taken in.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// There is some.
    told: bool,
    ace: u32,
    counters: Option<AccEcnCounters>,
    newer_timestamp: bool,
    /// It was found to tell nothing new.
    known: bool,
}

/// Outcome of an ACK for the data sender.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Packets that the ACK delivers.
    pub packets: u32,
    /// Bytes that it acknowledges, or newly reports.
    pub bytes: u64,
    /// It delivers something.
    pub forward: bool,
    /// It does more than advance.
    pub slow: bool,
    /// Losses are found by SACK, or nothing is being recovered: `packets` is exact.
    pub exact: bool,
    /// Payload of a full packet.
    pub mss: u32,
    /// Bytes sent so far.
    pub sent: u64,
}

/// Counters of Accurate ECN of a connection.
#[derive(Clone, Debug)]
pub struct AccEcn {
    settings: Settings,
    /// ECN field of the peer's SYN or SYN-ACK, and of ours.
    syn_received: Ecn,
    syn_sent: Ecn,
    /// The next ACK without data tells of [`AccEcn::syn_received`], not of the counter.
    reflects_syn: bool,
    failures: Failures,
    seen: Seen,

    /// Marked packets received, and those that no ACK has told of.
    received_ce: u32,
    pending_ce: u32,
    /// Payload received by its ECN field less one.
    received_bytes: [u32; 3],
    previous: Ecn,
    /// Counters that an option has to hold, so that all that has changed is told of.
    least: usize,
    /// Options that have to be sent.
    demand: u8,
    option_sent: Nanos,
    /// The last ACK had an option and a D-SACK.
    told_with_dsack: bool,
    /// Beginning of the last D-SACK.
    last_dsack: Option<u64>,
    /// An ACK is wanted with the next data.
    hurries: bool,

    /// Marked packets of ours that the peer has told of.
    delivered_ce: u32,
    delivered_bytes: [u32; 3],
    /// ECN field by which bytes are counted that an ACK without an option acknowledges.
    estimate: Option<Ecn>,
    /// Packets that an ACK delivers on average, in 1/64; 0 before the first.
    packets_per_ack: u32,
    heard: Heard,
}

/// The flags AE, CWR and ECE for the lowest three bits of a number.
fn flags_of(ace: u32) -> Flags {
    Flags(((ace & ACE_MASK) << 6) as u16)
}

/// Number in the flags AE, CWR and ECE (the ACE field).
pub fn ace(flags: Flags) -> u32 {
    u32::from(flags.0 & Flags::FEEDBACK.0) >> 6
}

/// Whether the flags of a SYN ask for Accurate ECN (RFC 9768 section 3.1.2): neither none of the three nor the two of RFC 3168. What
/// later versions may ask for is taken for the same (section 3.1.3).
pub fn asked_by(flags: Flags) -> bool {
    !matches!(ace(flags), 0 | 3)
}

/// Flags by which a SYN-ACK and the third ACK tell of the ECN field of the SYN or SYN-ACK (tables 2 and 3).
fn reflection(field: Ecn) -> Flags {
    flags_of(match field {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    })
}

/// ECN field that [`reflection`] stands for.
fn reflected(ace: u32) -> Ecn {
    match ace {
        0b010 => Ecn::NotEct,
        0b000 | 0b100 => Ecn::Ect0,
        0b110 => Ecn::Ce,
        _ => Ecn::Ect1,
    }
}

/// Whether a network that obeys RFC 3168 can turn one field into the other.
fn valid(sent: Ecn, received: Ecn) -> bool {
    sent == received || sent != Ecn::NotEct && received != Ecn::NotEct && sent != Ecn::Ce
}

/// First value of a byte counter (section 3.2.1): a path that zeroes counters shows.
fn first_count(field: Ecn) -> u32 {
    u32::from(matches!(field, Ecn::Ect0 | Ecn::Ect1))
}

/// Place of a counter in the option that begins with ECT(1), from 1.
fn place(field: Ecn) -> usize {
    match field {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ce => 2,
        Ecn::Ect0 => 3,
    }
}

/// State of an option that is the first of its connection.
fn seen_in(option: &AccEcnCounters) -> Seen {
    // The first and the third counter never are 0 at first.
    let zeroed = option.iter().step_by(2).any(|(_, count)| count == 0);
    if option.is_empty() {
        Seen::Empty
    } else if zeroed {
        Seen::Failed
    } else {
        Seen::Counters
    }
}

/// The handshake.
impl AccEcn {
    /// A connection whose peer's SYN or SYN-ACK came with `field`, and whose own had `sent`.
    pub fn new(settings: Settings, field: Ecn, sent: Ecn) -> AccEcn {
        AccEcn {
            settings,
            syn_received: field,
            syn_sent: sent,
            reflects_syn: false,
            failures: Failures::default(),
            seen: Seen::Nothing,
            received_ce: u32::from(settings.essential && field == Ecn::Ce),
            pending_ce: 0,
            received_bytes: [0; 3],
            previous: Ecn::NotEct,
            least: 0,
            demand: 0,
            option_sent: 0,
            told_with_dsack: false,
            last_dsack: None,
            hurries: false,
            delivered_ce: 0,
            delivered_bytes: [0; 3],
            estimate: None,
            packets_per_ack: 0,
            heard: Heard::default(),
        }
    }

    /// Settings of the host have changed.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// A SYN-ACK has come that agrees; the third ACK tells of its ECN field.
    pub fn take_syn_ack(&mut self, flags: Flags, option: Option<&AccEcnCounters>) {
        self.reflects_syn = true;
        if let Some(option) = option {
            self.note_option(option);
            self.demand = 2;
        }
        let unmangled = ace(flags) == 0b101 || self.syn_received != Ecn::Ce || self.believes(ace(flags));
        if self.settings.essential {
            self.delivered_ce = u32::from(reflected(ace(flags)) == Ecn::Ce);
        } else if self.syn_received == Ecn::Ce && unmangled {
            self.received_ce += 1;
            self.pending_ce += 1;
        }
        // The SYN counts as a packet delivered.
        self.packets_per_ack = 1 << 6;
    }

    /// A SYN has come again to a listener.
    pub fn take_repeated_syn(&mut self, field: Ecn, flags: Flags) {
        self.syn_received = field;
        self.failures.ace_received |= ace(flags) == 0;
    }

    /// The SYN-ACK has been repeated so often.
    pub fn note_syn_ack_repeats(&mut self, repeats: usize) {
        self.failures.ace_sent |= repeats > 1 && !self.settings.essential;
    }

    /// A SYN-ACK or SYN has come to an open connection: the ACK that answers tells of it.
    pub fn take_late_syn(&mut self, field: Ecn, option: Option<&AccEcnCounters>) {
        self.syn_received = field;
        self.reflects_syn = true;
        if let Some(option) = option.filter(|_| self.seen < Seen::Counters) {
            self.note_option(option);
            self.demand = self.demand.max(1);
        }
    }

    /// The segment that opens the connection of a listener (table 4). `bare`: it has no payload. `sacks`: it reports SACK blocks.
    pub fn take_third_ack(
        &mut self,
        flags: Flags,
        option: Option<&AccEcnCounters>,
        bare: bool,
        sacks: bool,
        listened: bool,
    ) {
        match ace(flags) {
            0 if self.settings.essential => {}
            0 if !sacks => {
                self.failures.ace_received = true;
                self.failures.option_received = true;
            }
            0 | 1 | 5 | 7 => {}
            told => {
                if bare
                    && !sacks
                    && self.believes(told)
                    && reflected(told) == Ecn::Ce
                    && self.delivered_ce == 0
                {
                    self.delivered_ce = 1;
                }
            }
        }
        if listened {
            self.previous = self.syn_received;
            self.demand = 1;
            self.seen = option.map_or(Seen::Nothing, seen_in);
        }
    }

    fn note_option(&mut self, option: &AccEcnCounters) {
        if self.seen < Seen::Counters {
            self.seen = seen_in(option);
            self.failures.option_received |= self.seen == Seen::Failed;
        }
    }

    /// Whether the path can have made what the peer tells of our SYN of what we sent.
    fn believes(&mut self, told: u32) -> bool {
        let believed =
            !self.settings.fallback || self.settings.essential || valid(self.syn_sent, reflected(told));
        self.failures.ace_received |= !believed;
        believed
    }

    /// Flags of our SYN-ACK.
    pub fn syn_ack_flags(&self) -> Flags {
        reflection(self.syn_received)
    }

    /// Option of our SYN-ACK.
    pub fn syn_ack_option(&self) -> Option<AccEcnCounters> {
        (self.settings.option > 0).then(|| counters([0; 3], 3))
    }

    /// ECN field of all that leaves.
    pub fn field(&self) -> Ecn {
        if self.failures.ace_sent || self.failures.ace_received { Ecn::NotEct } else { Ecn::Ect0 }
    }
}

/// An option with the first `count` counters: ECT(1), CE, ECT(0).
#[inline]
fn counters(bytes: [u32; 3], count: usize) -> AccEcnCounters {
    let all = [Ecn::Ect1, Ecn::Ce, Ecn::Ect0]
        .map(|field| bytes[field as usize - 1].wrapping_add(first_count(field)));
    if count == all.len() {
        return AccEcnCounters::complete(all);
    }
    let mut option = AccEcnCounters::new(AccEcnCounters::ORDER_1);
    all.into_iter().take(count).for_each(|counter| option.push(counter));
    option
}

/// The data receiver.
impl AccEcn {
    /// A segment of `frames` packets with `payload` has come, and is acceptable (tcp_ecn_received_counters).
    pub fn receive(&mut self, field: Ecn, frames: u32, payload: u32) {
        let ce = field == Ecn::Ce;
        if ce {
            self.received_ce = self.received_ce.wrapping_add(frames);
            self.pending_ce += frames;
        }
        if field != Ecn::NotEct && payload > 0 {
            self.count_bytes(field, payload);
        }
        let change = field != self.previous;
        if change || ce {
            self.previous = field;
            self.hurries |= change;
            self.demand = 2;
        }
    }

    #[inline]
    fn count_bytes(&mut self, field: Ecn, payload: u32) {
        let bytes = &mut self.received_bytes[field as usize - 1];
        let before = *bytes;
        *bytes = before.wrapping_add(payload);
        let wraps = (before ^ *bytes) & WRAP_MASK != 0;
        self.least = self.least.max(place(field));
        self.demand = self.demand.max(u8::from(wraps));
    }

    /// Whether an ACK is wanted with the next data.
    #[inline]
    pub fn hurries(&self) -> bool {
        self.hurries
    }

    /// Whether what came since the last call wants an ACK with the next data.
    pub fn take_hurry(&mut self) -> bool {
        std::mem::take(&mut self.hurries) && !self.settings.essential
    }

    /// Data that begins at `first` has come which was there: whether our options are lost where the peer sends again what a D-SACK
    /// has told of (tcp_rcv_spurious_retrans).
    pub fn take_old_data(&mut self, first: u64) {
        self.failures.option_sent |= self.told_with_dsack && self.last_dsack == Some(first);
    }

    /// Flags of all that leaves, once the handshake is over.
    pub fn flags(&self) -> Flags {
        flags_of(self.received_ce.wrapping_add(FIRST_ACE))
    }

    /// Flags of the ACK that leaves now, without data or not.
    pub fn flags_of_ack(&mut self, bare: bool) -> Flags {
        if std::mem::take(&mut self.reflects_syn) && (bare || self.settings.essential) {
            return reflection(self.syn_received);
        }
        self.pending_ce = 0;
        self.flags()
    }

    /// Whether every segment has an option, if there is room.
    #[inline]
    pub fn tells_always(&self) -> bool {
        let option = self.settings.option;
        option >= 2 && self.seen > Seen::Nothing && (option >= 3 || !self.failures.option_sent)
    }

    /// Whether the round trip decides how often options are sent (tcp_ecn_option_beacon).
    pub fn has_beacon(&self) -> bool {
        self.settings.option == 1 && self.settings.beacon > 0
    }

    /// Whether a segment that left now would have an option, if there is room. `srtt`: of the connection, if it
    /// [has a beacon](AccEcn::has_beacon).
    pub fn wants_option(&self, now: Nanos, srtt: Nanos) -> bool {
        let Settings { option, beacon, .. } = self.settings;
        let due = || beacon > 0 && (now - self.option_sent) * u64::from(beacon) >= srtt;
        option > 0
            && self.seen > Seen::Nothing
            && (option >= 3 || !self.failures.option_sent)
            && (option >= 2 || self.demand > 0 || due())
    }

    /// Option of a segment that leaves now beside other options of `taken` bytes and the SACK blocks, of which those go that it has
    /// to stand in the place of. `dsack`: beginning of a D-SACK among them.
    pub fn option(
        &mut self,
        now: Nanos,
        srtt: Nanos,
        taken: u32,
        sack: &mut SackBlocks,
        dsack: Option<u64>,
    ) -> Option<AccEcnCounters> {
        self.last_dsack = dsack.or(self.last_dsack);
        self.told_with_dsack = false;
        if !self.wants_option(now, srtt) {
            return None;
        }
        let room = OPTION_SPACE - taken;
        let mut count = 3;
        if !sack.is_empty() || room < OPTION_BYTES {
            let blocks;
            (count, blocks) = fit(room, self.least, sack.len())?;
            sack.truncate(blocks);
        }
        self.note_option_sent(now, dsack.is_some());
        Some(counters(self.received_bytes, count))
    }

    /// Option of a segment without SACK blocks, as long as [every one has one](AccEcn::tells_always).
    #[inline]
    pub fn whole_option(&mut self, now: Nanos) -> AccEcnCounters {
        self.note_option_sent(now, false);
        counters(self.received_bytes, 3)
    }

    #[inline]
    fn note_option_sent(&mut self, now: Nanos, with_dsack: bool) {
        self.least = 0;
        self.option_sent = now;
        self.told_with_dsack = with_dsack;
        self.demand = self.demand.saturating_sub(1);
    }
}

/// How many counters, `least` or more, and how many of `blocks` SACK blocks fit into `room` bytes (tcp_options_fit_accecn): as many
/// counters as can be without a block less; if those are too few, one block after the other goes but for two.
fn fit(room: u32, least: usize, blocks: usize) -> Option<(usize, usize)> {
    let fewest_blocks = if least > 0 { blocks.min(2) } else { blocks };
    (fewest_blocks..=blocks).rev().find_map(|kept| {
        let taken = if kept > 0 { 4 + 8 * kept as u32 } else { 0 };
        let left = room.checked_sub(taken)?;
        // Up to two bytes stand in the padding of SACK blocks.
        let spare = if kept > 0 { 2 } else { 0 };
        let size = |count: usize| {
            let bytes = 2 + 3 * count as u32;
            if bytes % 4 <= spare { bytes & !3 } else { bytes.next_multiple_of(4) }
        };
        (least..=3).rev().find(|&count| size(count) <= left).map(|count| (count, kept))
    })
}

/// The data sender.
impl AccEcn {
    /// Feedback that an acknowledgement brings, for [`AccEcn::deliver`].
    ///
    /// `newer_timestamp`: its timestamp is newer than all before.
    pub fn hear(&mut self, flags: Flags, counters: Option<AccEcnCounters>, newer_timestamp: bool) {
        self.heard = Heard { told: true, ace: ace(flags), counters, newer_timestamp, known: false };
    }

    /// Whether a segment of data repeats the feedback at hand, which told nothing new, and is marked as the last one was: not at all.
    #[inline]
    pub fn predicts(&self, flags: Flags, counters: &AccEcnCounters, field: Ecn) -> bool {
        self.heard.known
            && self.heard.ace == ace(flags)
            && self.heard.counters == Some(*counters)
            && field == self.previous
            && matches!(field, Ecn::Ect0 | Ecn::Ect1)
            && !self.hurries
    }

    /// [`AccEcn::receive`] and [`AccEcn::hear`] of a segment that [`AccEcn::predicts`].
    #[inline]
    pub fn take_predicted(&mut self, field: Ecn, payload: u32, newer_timestamp: bool) {
        self.heard.newer_timestamp = newer_timestamp;
        self.count_bytes(field, payload);
    }

    /// Whether the feedback at hand is more than the same number in the flags.
    pub fn news(&self) -> bool {
        self.heard.counters.is_some()
            || self.heard.ace != self.delivered_ce.wrapping_add(FIRST_ACE) & ACE_MASK
    }

    /// Whether the feedback at hand tells a side that has sent no data what it knows, so that [`AccEcn::deliver`] changes nothing.
    pub fn hears_nothing_new(&mut self) -> bool {
        let known = |(field, count): (Ecn, u32)| {
            let bytes = self.delivered_bytes[field as usize - 1];
            count.wrapping_sub(first_count(field)).wrapping_sub(bytes) << 8 == 0
        };
        let counters = self.heard.counters.as_ref();
        self.heard.known = self.heard.ace == self.delivered_ce.wrapping_add(FIRST_ACE) & ACE_MASK
            && self.pending_ce < MANY_PENDING
            && counters.is_none_or(|option| self.seen >= Seen::Counters && option.iter().all(known));
        self.heard.known
    }

    /// Takes in the feedback of an ACK: how many more packets of ours were marked (tcp_accecn_process).
    pub fn deliver(&mut self, delivery: &Delivery) -> u32 {
        let heard = std::mem::take(&mut self.heard);
        if !delivery.forward && !heard.newer_timestamp {
            return 0;
        }
        let ce_before = self.delivered_bytes[Ecn::Ce as usize - 1];
        let valid = self.take_counters(&heard, delivery);
        let packets = delivery.packets;
        if packets > 0 {
            let average = match self.packets_per_ack {
                0 => packets << 6,
                average => ((average << 6) - average + (packets << 6)) >> 6,
            };
            self.packets_per_ack = average.min(0xffff);
        }
        if !delivery.slow && packets <= ACE_MASK {
            return 0;
        }
        self.hurries |= self.pending_ce >= MANY_PENDING;
        let told = heard.ace.wrapping_sub(FIRST_ACE);
        let least = told.wrapping_sub(self.delivered_ce) & ACE_MASK;
        let ce_bytes = self.delivered_bytes[Ecn::Ce as usize - 1].wrapping_sub(ce_before);
        let marks = if packets <= ACE_MASK {
            least
        } else {
            self.marks_of_many(least, valid.then_some(ce_bytes), delivery)
        };
        self.delivered_ce = self.delivered_ce.wrapping_add(marks);
        marks
    }

    /// Takes in the number in the flags of an ACK for so many packets: how many more of ours were marked. As many as the number can
    /// stand for, where it could have wrapped (FreeBSD: tcp_ecn_input_segment).
    pub fn deliver_by_flags(&mut self, packets: u32) -> u32 {
        let heard = std::mem::take(&mut self.heard);
        if !heard.told {
            return 0;
        }
        let told = heard.ace.wrapping_sub(FIRST_ACE);
        let mut marks = told.wrapping_sub(self.delivered_ce) & ACE_MASK;
        if marks < packets {
            marks = packets - ((packets - marks) & ACE_MASK);
        }
        self.delivered_ce = self.delivered_ce.wrapping_add(marks);
        marks
    }

    /// Whether this is the essential part alone: see [`Settings::essential`].
    pub fn is_essential(&self) -> bool {
        self.settings.essential
    }

    /// Marks where an ACK delivers so many packets that the number in the flags could have wrapped (section 3.2.2.5.2): `least`, or as
    /// many more as can be, by the bytes that are known to be marked, or by how many packets an ACK usually delivers.
    fn marks_of_many(&self, least: u32, ce_bytes: Option<u32>, delivery: &Delivery) -> u32 {
        let packets = delivery.packets;
        let most = packets - (packets.wrapping_sub(least) & ACE_MASK);
        let Some(ce_bytes) = ce_bytes else {
            // Long ACKs are usual.
            return if self.packets_per_ack > 4 << 6 { least } else { most };
        };
        if ce_bytes == 0 {
            return least;
        }
        if packets > 2 * ACE_MASK + 1 && delivery.exact {
            if delivery.bytes <= u64::from(ce_bytes) {
                return most;
            }
            let share = (u64::from(ce_bytes) * u64::from(packets)).div_ceil(delivery.bytes) as u32;
            return most.min(least + (share & !ACE_MASK));
        }
        if ce_bytes > least * delivery.mss {
            most
        } else if ce_bytes < (most * delivery.mss) >> 1 {
            least
        } else {
            most
        }
    }

    /// Takes in the counters of bytes. Returns whether they tell how many bytes were marked (tcp_accecn_process_option).
    fn take_counters(&mut self, heard: &Heard, delivery: &Delivery) -> bool {
        if self.failures.option_received {
            return false;
        }
        let Some(option) = &heard.counters else {
            if self.seen == Seen::Nothing {
                if delivery.sent >= UNSEEN_MAX {
                    self.seen = Seen::Failed;
                    self.failures.option_received = true;
                }
                return false;
            }
            let Some(field) = self.estimate else { return false };
            let bytes = &mut self.delivered_bytes[field as usize - 1];
            *bytes = bytes.wrapping_add(delivery.bytes as u32);
            return true;
        };
        self.note_option(option);
        let before = self.estimate;
        let (mut valid, mut ambiguous, mut changed) = (before.is_some(), false, false);
        for (field, count) in option.iter() {
            let bytes = &mut self.delivered_bytes[field as usize - 1];
            let more = count.wrapping_sub(first_count(field)).wrapping_sub(*bytes);
            // 24 bits with a sign.
            let more = ((more << 8) as i32) >> 8;
            *bytes = bytes.wrapping_add_signed(more);
            if more < 0 || more != 0 && Some(field) != before && changed {
                (valid, ambiguous) = (false, true);
            }
            if more != 0 && Some(field) != before && !changed {
                (self.estimate, changed) = (Some(field), true);
            }
        }
        if ambiguous {
            self.estimate = None;
        }
        valid
    }
}

#[cfg(test)]
mod tests;
