//! The sending side of a connection: what every TCP has ([`SendState`]) and what each family of systems does with
//! it ([`Sender`]): one ACK-processing pipeline per family, in that system's own order and units.
//!
//! All sequence numbers here are extended (see [`wire::seq`]): 64 bits that do not wrap. Sizes are bytes.

pub mod freebsd;
pub mod linux;
pub mod rack;
pub mod windows;

use std::any::Any;

use wire::Flags;

use crate::accecn::AccEcn;
use crate::cc::Phase;
use crate::clock::Nanos;
use crate::context::{Context, EcnAnswer, EcnSegment};
use crate::peers::{Known, Lesson};

/// The facts of the sending side that are TCP itself (RFC 9293 section 3.3.1), kept by the endpoint and read by the
/// sender. A sender changes `nxt` and `max` when it transmits and `sndbuf` when it autotunes; the endpoint does the rest.
#[derive(Clone, Debug)]
pub struct SendState {
    /// Initial sequence number: that of the SYN. The first payload byte is `iss + 1`.
    pub iss: u64,
    /// Oldest unacknowledged (SND.UNA).
    pub una: u64,
    /// Next to send (SND.NXT). Goes back to `una` after a timeout where the family does so.
    pub nxt: u64,
    /// Highest sent plus one (FreeBSD's snd_max).
    pub max: u64,
    /// Number one past the last payload byte the application has written. The FIN, once asked for, has this number.
    pub end: u64,
    /// The application has shut down its sending side: a FIN follows the last byte.
    pub fin: bool,
    /// Short segments leave at once (TCP_NODELAY: Nagle's algorithm off).
    pub no_delay: bool,
    /// Reasons of Linux to hold short segments back, or to let them go, besides Nagle's algorithm.
    pub cork: Cork,
    /// The application wants to write more than the buffer takes (it is blocked in write).
    pub app_blocked: bool,
    /// Whether the application is blocked in a call of which the buffer took a part.
    pub blocked_midway: bool,
    /// The peer's window in bytes (SND.WND), scaled.
    pub wnd: u64,
    /// Largest window the peer ever offered.
    pub max_wnd: u64,
    /// Shift of the peer's window field.
    pub wscale: u8,
    /// The MSS agreed in the handshake: the smaller of the two options (1460 on Ethernet).
    pub mss: u32,
    /// Payload of a full segment that leaves now: `mss` less its options (1448 with timestamps).
    pub payload: u32,
    /// First byte of a probe of the path's MTU, which leaves as one packet, though it is longer than a segment; 0: none.
    pub probe: u64,
    /// Packets are of IPv6.
    pub ipv6: bool,
    /// Timestamps agreed.
    pub timestamps: bool,
    /// SACK agreed.
    pub sack: bool,
    /// ECN agreed.
    pub ecn: bool,
    /// Counters of Accurate ECN, where that was agreed.
    pub accecn: Option<Box<AccEcn>>,
    /// Segmentation offload: a transmission may be up to [`SendState::tso_max`] bytes long.
    pub tso: bool,
    /// Largest payload of one transmission with segmentation offload.
    pub tso_max: u32,
    /// Packets leave the host as they are sent, as through a veth, unless a queue there paces them.
    pub unqueued: bool,
    /// Send buffer: how much may lie between `una` and `end`. Systems that count memory, not payload, keep their own figure beside it.
    pub sndbuf: u64,
    /// The sender may grow `sndbuf` (no SO_SNDBUF was set).
    pub sndbuf_auto: bool,
    /// Segments sent again, so far.
    pub retransmits: u64,
    /// True time when the peer last sent us anything.
    pub last_received: Nanos,
    /// True time of the last transmission of data.
    pub last_sent: Nanos,
    /// True time of the last transmission of data that was never sent before.
    pub last_new_sent: Nanos,
    /// The sender waits for [`Sender::on_tx_complete`] before it sends more.
    pub throttled: bool,
    /// Time before which the host's queue is to keep the payload that was sent last.
    pub departure: Nanos,
    /// Segments that the sender has allowed ahead.
    pub grant: SendGrant,
    /// No fast path is taken: see [`crate::Endpoint::disable_fast_paths`].
    pub no_fast_path: bool,
}

/// Short segments that wait for more data, or do not wait (tcp_nagle_check of Linux).
#[derive(Clone, Copy, Debug, Default)]
pub struct Cork {
    /// TCP_CORK.
    pub on: bool,
    /// The last call has said that more follows (MSG_MORE); until an ACK comes.
    pub more: bool,
    /// End of what was written when TCP_NODELAY was set, or the cork was drawn: so far nothing is held back.
    pub pushed: u64,
}

impl Cork {
    /// Whether short segments wait for more data.
    #[inline]
    pub fn holds(self) -> bool {
        self.on || self.more
    }
}

/// Full segments of new data that may leave one after the other without [`Sender::poll`], until the sender is told
/// something. The sender that grants them would have sent each of them, had it been asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendGrant {
    /// Sequence number after which no granted segment ends; 0: nothing is granted.
    pub edge: u64,
    /// Limit that keeps the sender from sending more after the last granted segment.
    pub limit: Limit,
    /// First byte of the last granted segment that left; 0: the sender has been asked since.
    pub last: u64,
}

impl SendState {
    /// Number one past everything there is to send, the FIN included.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.end + u64::from(self.fin)
    }

    /// Sent and not cumulatively acknowledged.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.max - self.una
    }

    /// Written by the application and not sent yet.
    #[inline]
    pub fn unsent(&self) -> u64 {
        self.limit().saturating_sub(self.max)
    }

    /// Limit of a sender whose windows have room for all that waits: a writer that the full buffer holds, or one
    /// that has no more. Less than a segment may wait for either.
    #[inline]
    pub(crate) fn limit_without_data(&self) -> Limit {
        if self.app_blocked { Limit::SendBuffer } else { Limit::App }
    }

    /// Payload bytes since the start of the stream, for events.
    #[inline]
    pub fn offset(&self, seq: u64) -> u64 {
        seq.saturating_sub(self.iss + 1)
    }

    /// The next granted segment, accounted for as sent. None: the grant is used up, and nothing else is to be sent.
    #[inline(always)]
    pub(crate) fn next_granted(&mut self) -> Option<Transmit> {
        let seq = self.nxt;
        let end = seq + u64::from(self.payload);
        if end > self.grant.edge {
            self.grant.edge = 0;
            return None;
        }
        self.nxt = end;
        self.max = end;
        self.grant.last = seq;
        Some(Transmit { seq, len: self.payload, push: end == self.end, ..Transmit::default() })
    }

    /// The sender has other segments leave from now on, of so many bytes with options.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.payload = mss - (self.mss - self.payload);
        self.mss = mss;
        self.grant.edge = 0;
        self.tso_max = (self.tso_max / self.payload).max(1) * self.payload;
    }

    /// Room for the application to write, by payload bytes.
    #[inline]
    pub fn space(&self) -> u64 {
        (self.una + self.sndbuf).saturating_sub(self.end)
    }
}

/// An acceptable segment's acknowledgement, as the endpoint hands it to the sender. The endpoint has checked that
/// `ack <= max`; an old segment's may be below `una`. `SendState::wnd` is already the new one; `una` is still the old
/// one and is moved to `ack` by the sender.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Cumulative acknowledgement.
    pub ack: u64,
    /// SACK blocks above `ack`, in the order received (most recent first), each clipped to what was sent.
    pub sack: &'a [(u64, u64)],
    /// A duplicate report (RFC 2883): the first block, where it lay at or below `ack` or inside the second block.
    pub dsack: Option<(u64, u64)>,
    /// The peer's window before this segment, for "window unchanged" tests.
    pub previous_wnd: u64,
    /// Payload bytes the segment carried.
    pub payload: u32,
    /// Timestamp echo reply, where timestamps are on.
    pub tsecr: Option<u32>,
    /// The peer's timestamp, where timestamps are on.
    pub tsval: u32,
    /// Segments with payload that were sent so far, again or not.
    pub data_segments_out: u64,
    /// Flags in which the receiver tells of marks; none where ECN is off.
    pub feedback: Flags,
    /// The segment carried a FIN.
    pub fin: bool,
    /// Number of frames that receive aggregation merged into the ACK (1 = none).
    pub frames: u32,
}

impl Ack<'_> {
    /// Whether the receiver echoes a mark (RFC 3168 section 6.1.3).
    #[inline]
    pub fn ece(&self) -> bool {
        self.feedback.has(Flags::ECE)
    }
}

/// How the handshake went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// Time between our SYN (or SYN-ACK) and its acknowledgement, if it was sent once.
    pub rtt: Option<Nanos>,
    /// Number of times that the SYN (or SYN-ACK) was sent again.
    pub repeats: u32,
    /// Whether it was sent again without need: the timestamp that came back is that of the first.
    pub original_answered: bool,
    /// Next byte expected of the peer.
    pub rcv_nxt: u64,
    /// The peer has opened the connection.
    pub passive: bool,
    /// Knowledge of the peer from other connections.
    pub known: Known,
}

/// Transmission that the sender wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    /// First sequence number.
    pub seq: u64,
    /// Payload bytes; more than a segment's payload only with segmentation offload. May be 0 for a bare FIN, or a bare ACK that the
    /// sender wants to leave.
    pub len: u32,
    /// Whether a FIN ends the transmission.
    pub fin: bool,
    /// Push flag.
    pub push: bool,
    /// Whether some of the transmission was sent before.
    pub retransmission: bool,
    /// Set the CWR flag (RFC 3168 section 6.1.2).
    pub cwr: bool,
}

/// Limit that keeps a sender from sending more at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// No segment waits, and the application has no more.
    #[default]
    App,
    /// No segment waits: the send buffer is full of unacknowledged data, so that the application cannot write more.
    SendBuffer,
    /// A segment waits for the congestion window (or recovery, a queue on the host: whatever the sender imposes on itself).
    Cwnd,
    /// A segment waits for the peer's window.
    Rwnd,
    /// A segment for which both windows have room waits for its time at the pacing rate.
    Pacing,
}

/// The answer to [`Sender::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Send this, then ask again.
    Send(Transmit),
    /// Nothing can be sent now, because of this.
    Wait(Limit),
}

/// A sender's figures at a moment, for samples and TCP_INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Congestion window as the system's own tools show it, in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes. None while it has never been set.
    pub ssthresh: Option<u64>,
    /// Smoothed RTT as the system holds it. None before the first sample.
    pub srtt: Option<Nanos>,
    /// RTT variation as the system holds it.
    pub rttvar: Option<Nanos>,
    /// Retransmission timeout.
    pub rto: Nanos,
    /// Bytes the sender believes in flight (its own estimate: pipe, packets_in_flight).
    pub inflight: u64,
    /// Pacing rate, bits per second. None when not pacing.
    pub pacing_bps: Option<u64>,
    /// Coarse state.
    pub phase: Phase,
    /// Timeouts so far.
    pub timeouts: u64,
    /// Entries into fast recovery so far.
    pub recoveries: u64,
}

/// Segments by what has become of them, as Linux's tcp_info counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Sent and not acknowledged, whatever became of them.
    pub out: u32,
    /// SACKed (without SACK: duplicate ACKs).
    pub sacked: u32,
    /// Deemed lost.
    pub lost: u32,
    /// Sent again and not acknowledged.
    pub retransmitted: u32,
    /// Delivered so far.
    pub delivered: u64,
    /// Packets delivered with a mark.
    pub delivered_ce: u64,
    /// The reordering that is reckoned with.
    pub reordering: u32,
    /// Doublings of the timeout.
    pub backoff: u32,
}

/// Sending side of one family. Every method that may allow transmissions is followed by [`Sender::poll`] until it
/// waits.
pub trait Sender: Send {
    /// Memory outside the sender's own that the next acknowledgement reads, such as the entries of the oldest packets in
    /// flight. The simulator prefetches it; only the sender knows where it is.
    fn prefetch_targets(&self) -> [Option<&dyn Any>; 3] {
        [None; 3]
    }

    /// Counts of segments by what has become of them, for systems that tell it.
    fn segment_counts(&self) -> Option<SegmentCounts> {
        None
    }

    /// The application sets the send buffer of an open connection, bytes as the system counts them.
    fn set_send_buffer(&mut self, snd: &mut SendState, bytes: u64) {
        snd.sndbuf = bytes;
        snd.sndbuf_auto = false;
    }

    /// The handshake is over.
    fn on_established(&mut self, snd: &mut SendState, opening: Opening, cx: &mut Context<'_>);

    /// An acceptable ACK. If it advances, the sender sets `snd.una = ack.ack`, at the place where its system does so.
    fn on_ack(&mut self, snd: &mut SendState, ack: &Ack<'_>, cx: &mut Context<'_>);

    /// A time named by [`Sender::next_timer`] may have come (drivers may call early).
    fn on_timer(&mut self, snd: &mut SendState, cx: &mut Context<'_>);

    /// Time to call [`Sender::on_timer`]: retransmission, persist, probe, pacing, whichever is first. None: never.
    /// May be early.
    fn next_timer(&self) -> Option<Nanos>;

    /// The next transmission. The sender does its own bookkeeping (nxt, max, retransmits, timers) as if it were sent.
    fn poll(&mut self, snd: &mut SendState, cx: &mut Context<'_>) -> Poll;

    /// `bytes` of payload have left the host (its NIC has sent them): Linux's TSQ.
    fn on_tx_complete(&mut self, _s: &mut SendState, _bytes: u32, _cx: &mut Context<'_>) {}

    /// The host's own queue refused the last transmission: Linux enters CWR, FreeBSD gets ENOBUFS.
    fn on_tx_dropped(&mut self, _s: &mut SendState, _cx: &mut Context<'_>) {}

    /// A segment came on a connection with ECN, after its acknowledgement was taken in and before its payload is: what congestion
    /// control wants of the answer.
    fn on_ecn_segment(&mut self, segment: &EcnSegment, _cx: &mut Context<'_>) -> EcnAnswer {
        EcnAnswer { ack_now: false, echoes_ce: segment.classic_echo(), first: None }
    }

    /// The path takes only smaller packets: `payload` and `mss` of `snd` are less than they were, and what is under way and
    /// larger is lost.
    fn on_path_mtu(&mut self, _s: &mut SendState, _cx: &mut Context<'_>) {}

    /// Whether congestion control works with ECN only: it asks for ECN whatever the host does, and marks every packet as capable
    /// (Linux's TCP_CONG_NEEDS_ECN).
    fn needs_ecn(&self) -> bool {
        false
    }

    /// Whether congestion control needs Accurate ECN and sends ECT(1) (RFC 9331).
    fn is_l4s(&self) -> bool {
        false
    }

    /// Whether packets are ECT(1) where Accurate ECN was agreed.
    fn sends_ect1(&self) -> bool {
        self.is_l4s()
    }

    /// Whether congestion control hears of every segment on a connection with ECN, not only of those that change something.
    fn hears_ecn(&self) -> bool {
        self.needs_ecn()
    }

    /// Lesson for later connections to the peer, as the connection ends. None: it was too short for one.
    fn lesson(&self, _s: &SendState) -> Option<Lesson> {
        None
    }

    /// The connection is gone.
    fn on_closed(&mut self) {}

    /// A call of the writer begins.
    fn on_write_begin(&mut self, _s: &SendState) {}

    /// A call of the writer has handed over all it had.
    fn on_write_end(&mut self, _s: &SendState) {}

    /// Ends a record with the data written so far: nothing more goes into its last buffer (MSG_EOR).
    fn end_record(&mut self, _s: &SendState) {}

    /// Unsent payload from which on a writer waits (TCP_NOTSENT_LOWAT), bytes; 0: what the host says.
    fn set_notsent_lowat(&mut self, _bytes: u32) {}

    /// Time for which data may wait for an answer (TCP_USER_TIMEOUT); 0: as long as retransmissions go on.
    fn set_user_timeout(&mut self, _limit: Nanos) {}

    /// Payload that the send buffer takes now, bytes; at least what is `wanted` if there is room.
    fn space(&self, snd: &SendState, _wanted: u64) -> u64 {
        snd.space()
    }

    /// The send buffer, bytes as the system counts it.
    fn send_buffer(&self, snd: &SendState) -> u64 {
        snd.sndbuf
    }

    /// Whether a blocked writer is woken: enough of the send buffer is free.
    fn writable(&self, snd: &SendState) -> bool {
        snd.space() >= u64::from(snd.payload)
    }

    /// The connection failed: too many timeouts. The endpoint then aborts it.
    fn gave_up(&self) -> bool {
        false
    }

    /// Congestion window as the system's own tools show it, in bytes: [`Metrics::cwnd`] alone, asked for on every ACK.
    fn cwnd(&self, snd: &SendState) -> u64 {
        self.metrics(snd).cwnd
    }

    /// Figures for samples.
    fn metrics(&self, snd: &SendState) -> Metrics;

    /// Smoothed RTT of [`Metrics`], asked for on every ACK; no congestion control learns that it is asked for.
    fn srtt(&self, snd: &SendState) -> Option<Nanos>;
}
