//! The receiving side of a connection: what every TCP has ([`ReceiveState`]) and each family's ACK policy, window and
//! buffer autotuning ([`Receiver`]).
//!
//! All sequence numbers are extended (see [`wire::seq`]); sizes are bytes.

pub mod freebsd;
pub mod linux;
pub mod windows;

use wire::segment::DEFAULT_MSS;
use wire::{Flags, RangeSet};

use crate::clock::Nanos;
use crate::context::{Context, EcnAnswer, EcnSegment};

/// How many recent out-of-order arrivals are remembered for the order of SACK blocks.
const RECENT: usize = 8;

/// The facts of the receiving side that are TCP itself, kept by the endpoint.
#[derive(Clone, Debug)]
pub struct ReceiveState {
    /// The peer's initial sequence number.
    pub irs: u64,
    /// Next expected (RCV.NXT).
    pub nxt: u64,
    /// Right edge of the window advertised so far; moves left only where the system allows it.
    pub advertised: u64,
    /// RCV.NXT in the last ACK that left.
    pub last_ack: u64,
    /// Out-of-order data.
    pub out_of_order: RangeSet,
    /// Segments waiting in the reassembly queue (systems that limit their number).
    pub out_of_order_segments: u32,
    /// In-order payload the application has not read.
    pub readable: u64,
    /// Receive buffer in bytes.
    pub rcvbuf: u64,
    /// The receiver may grow `rcvbuf` (no SO_RCVBUF was set).
    pub rcvbuf_auto: bool,
    /// Packets arrive in the buffers of their senders, as through a veth, and count the memory of those.
    pub lent: bool,
    /// Shift of our window field.
    pub wscale: u8,
    /// MSS of the segments we expect: payload of a full segment.
    pub payload: u32,
    /// SACK agreed.
    pub sack: bool,
    /// Timestamps agreed.
    pub timestamps: bool,
    /// The peer's newest timestamp by RFC 7323's rule (TS.Recent).
    pub ts_recent: u32,
    /// The last timestamp echo reply seen: receivers measure round trips with it.
    pub tsecr: u32,
    /// A duplicate arrival to report first (RFC 2883), until an ACK carries it.
    pub dsack: Option<(u64, u64)>,
    /// Out-of-order data that the next ACK does not report: it answers what came before.
    pub withheld: Option<(u64, u64)>,
    /// Starts of the blocks that newest out-of-order data belongs to, newest first (RFC 2018 section 4).
    recent: [u64; RECENT],
    recent_len: u8,
    /// Flags of every segment with an ACK that tell the peer of marks.
    pub feedback: Flags,
    /// ACK that leaves before any other, of what had come before the newest data: what it acknowledges, and its flags that tell of
    /// marks.
    pub reflected: Option<(u64, Flags)>,
    /// The family wants an ACK to leave now.
    pub ack_now: bool,
    /// No fast path is taken: see [`crate::Endpoint::disable_fast_paths`].
    pub no_fast_path: bool,
}

impl ReceiveState {
    /// The state before anything arrived.
    pub fn new(rcvbuf: u64, rcvbuf_auto: bool) -> ReceiveState {
        ReceiveState {
            irs: 0,
            nxt: 0,
            advertised: 0,
            last_ack: 0,
            out_of_order: RangeSet::new(),
            out_of_order_segments: 0,
            readable: 0,
            rcvbuf,
            rcvbuf_auto,
            lent: false,
            wscale: 0,
            payload: u32::from(DEFAULT_MSS),
            sack: false,
            timestamps: false,
            ts_recent: 0,
            tsecr: 0,
            dsack: None,
            withheld: None,
            recent: [0; RECENT],
            recent_len: 0,
            feedback: Flags::default(),
            reflected: None,
            ack_now: false,
            no_fast_path: false,
        }
    }

    /// Free space in the receive buffer by payload bytes.
    #[inline]
    pub fn free(&self) -> u64 {
        self.rcvbuf.saturating_sub(self.readable)
    }

    /// Returns the rest of the window that the peer was told about, in bytes.
    #[inline]
    pub fn offered(&self) -> u64 {
        self.advertised.saturating_sub(self.nxt)
    }

    /// Notes that out-of-order data beginning at `seq` has arrived.
    pub(crate) fn note_recent(&mut self, seq: u64) {
        let count = (self.recent_len as usize).min(RECENT - 1);
        self.recent.copy_within(0..count, 1);
        self.recent[0] = seq;
        self.recent_len = count as u8 + 1;
    }

    /// The blocks to report, newest first, at most `max`: the D-SACK, then the range of each recent arrival, then
    /// the remaining ranges from the highest down.
    pub(crate) fn sack_blocks(&self, max: usize, mut block: impl FnMut(u64, u64)) {
        let mut given = [(0u64, 0u64); wire::SackBlocks::MAX];
        let mut count = 0;
        if let Some((left, right)) = self.dsack {
            // The block it lies in follows, even if it is the same (RFC 2883 section 4).
            block(left, right);
            count = 1;
        }
        let newest = usize::from(self.withheld.is_some());
        let recent = self.recent[newest..self.recent_len as usize]
            .iter()
            .filter_map(|&seq| self.out_of_order.containing(seq));
        for range in recent.chain(self.out_of_order.iter().rev()).filter_map(|range| self.reported(range)) {
            if count >= max {
                break;
            }
            if !given[..count].contains(&range) {
                block(range.0, range.1);
                given[count] = range;
                count += 1;
            }
        }
        debug_assert!(count <= wire::SackBlocks::MAX);
    }

    /// Returns the part of a range that is reported.
    fn reported(&self, range: (u64, u64)) -> Option<(u64, u64)> {
        match self.withheld {
            Some(withheld) if withheld == range => None,
            Some((from, to)) if to == range.1 && range.0 < from => Some((range.0, from)),
            Some((from, to)) if from == range.0 && to < range.1 => Some((to, range.1)),
            _ => Some(range),
        }
    }

    /// How many blocks were newer than the one that this data has joined, before it came; of data that joined none, how
    /// many there were. 0 if it is not the newest that waits.
    pub(crate) fn rank_of_newest(&self, seq: u64, end: u64) -> usize {
        if self.recent_len == 0 || self.recent[0] != seq {
            return 0;
        }
        let own = self.out_of_order.containing(seq);
        let mut newer = [(0, 0); RECENT];
        let mut count = 0;
        for &earlier in &self.recent[1..self.recent_len as usize] {
            let Some(range) = self.out_of_order.containing(earlier) else { continue };
            if Some(range) == own {
                return count;
            }
            if !newer[..count].contains(&range) {
                newer[count] = range;
                count += 1;
            }
        }
        if own == Some((seq, end)) { count.max(self.out_of_order.len() - 1) } else { count }
    }
}

/// Payload that arrived, after the endpoint has put it in its place.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// First new byte, after trimming to the window.
    pub seq: u64,
    /// One past the last byte, after trimming.
    pub end: u64,
    /// Payload bytes the segment carried.
    pub payload: u32,
    /// RCV.NXT before it.
    pub previous_nxt: u64,
    /// It was the next expected byte (RCV.NXT has advanced).
    pub in_order: bool,
    /// It was in order while out-of-order data waited: it filled (part of) a hole.
    pub filled_hole: bool,
    /// It brought nothing new: wholly received before or outside the window.
    pub duplicate: bool,
    /// Frames merged into it by receive aggregation.
    pub frames: u32,
    /// Push flag.
    pub push: bool,
    /// FIN flag.
    pub fin: bool,
}

/// Fate of a segment that begins in the window and ends beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overshoot {
    /// The part beyond is cut off.
    Trimmed,
    /// All of it is taken.
    Whole,
    /// Nothing is taken.
    Dropped,
}

/// One family's receiving side.
pub trait Receiver: Send {
    /// The window behind our SYN or SYN-ACK, bytes, and its scale, from the buffer and the sysctls. It may be more than
    /// the field says, which is not scaled and ends at 65535.
    fn syn_window(&self, rcv: &ReceiveState) -> (u64, u8);

    /// Both sides have sent a SYN at once, and the peer's has come: the connection is not open yet.
    fn on_syn(&mut self, _rcv: &mut ReceiveState) {}

    /// The window in which segments are accepted, bytes from `rcv.nxt`: what was offered, or more.
    fn accepted(&self, rcv: &ReceiveState) -> u64 {
        rcv.offered()
    }

    /// The handshake is over, and its last ACK rides on data that the application waits to send.
    fn on_write_pending(&mut self) {}

    /// The handshake is over; `rcv.payload`, `rcv.wscale`, `rcv.sack`, `rcv.timestamps` are final.
    fn on_established(&mut self, rcv: &mut ReceiveState, cx: &mut Context<'_>);

    /// Data, a FIN, or a segment that must be answered arrived: decide when to acknowledge (`rcv.ack_now`, or a timer)
    /// and grow the buffer where the system does so on arrival.
    fn on_data(&mut self, rcv: &mut ReceiveState, arrival: &Arrival, cx: &mut Context<'_>);

    /// A segment came on a connection with ECN, and congestion control has said what it wants: what ACKs tell of marks from now on
    /// (`rcv.feedback`), and whether one leaves at once.
    fn on_ecn(
        &mut self,
        rcv: &mut ReceiveState,
        _segment: &EcnSegment,
        answer: EcnAnswer,
        _cx: &mut Context<'_>,
    ) {
        rcv.feedback = if answer.echoes_ce { Flags::ECE } else { Flags::default() };
        rcv.ack_now |= answer.ack_now;
    }

    /// A segment came on a connection with Accurate ECN, whose ACKs have counters of their own: whether one leaves at once. `hurries`:
    /// the ECN field has changed, or an ACK is overdue.
    fn on_accurate_ecn(
        &mut self,
        rcv: &mut ReceiveState,
        _segment: &EcnSegment,
        answer: EcnAnswer,
        hurries: bool,
    ) {
        rcv.ack_now |= answer.ack_now || hurries;
    }

    /// Tells the fate of a segment that ends beyond the window.
    fn overshoot(&self, _rcv: &ReceiveState) -> Overshoot {
        Overshoot::Trimmed
    }

    /// Data up to `end` arrived of which nothing is new, or which found the window closed; it is answered at once.
    fn on_refused_data(&mut self, _rcv: &mut ReceiveState, _end: u64, _cx: &mut Context<'_>) {}

    /// Whether a FIN without data is taken though the window is closed.
    fn takes_fin_into_closed_window(&self) -> bool {
        false
    }

    /// Whether the receiver decides when the FIN of a peer that closes first is acknowledged; else it is at once.
    fn delays_ack_of_fin(&self) -> bool {
        false
    }

    /// Whether the reassembly queue takes this out-of-order data.
    fn accepts_out_of_order(&self, _r: &ReceiveState, _seq: u64, _len: u32) -> bool {
        true
    }

    /// The application has read `bytes`: window updates, buffer autotuning by copied bytes.
    fn on_read(&mut self, rcv: &mut ReceiveState, bytes: u64, cx: &mut Context<'_>);

    /// A time named by [`Receiver::next_timer`] may have come.
    fn on_timer(&mut self, rcv: &mut ReceiveState, cx: &mut Context<'_>);

    /// When the delayed ACK is due. None: no ACK waits. May be early.
    fn next_timer(&self) -> Option<Nanos>;

    /// Whether an ACK is being delayed.
    fn delays_ack(&self) -> bool {
        self.next_timer().is_some()
    }

    /// The window to advertise now, in bytes from `rcv.nxt`, before rounding to the scale. The endpoint moves the right
    /// edge left only for a receiver that [`Receiver::shrinks`].
    fn window(&mut self, rcv: &ReceiveState, cx: &mut Context<'_>) -> u64;

    /// Whether the right edge may move left.
    fn shrinks(&self, _rcv: &ReceiveState) -> bool {
        false
    }

    /// A segment with an ACK leaves, pure or with data: nothing is owed any more.
    fn on_ack_sent(&mut self, rcv: &mut ReceiveState, pure: bool, cx: &mut Context<'_>);

    /// Whether a duplicate arrival is reported with D-SACK (RFC 2883).
    fn sends_dsack(&self) -> bool;

    /// Whether SACK and D-SACK take in the sequence number of a FIN.
    fn reports_fin(&self) -> bool {
        false
    }
}
