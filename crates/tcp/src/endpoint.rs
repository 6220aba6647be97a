//! One TCP connection without I/O: states, handshake, options, windows and close (RFC 9293), around a family's sender
//! and receiver.
//!
//! A driver (the simulator, a TUN device, a script) calls [`Endpoint::on_segment`] and [`Endpoint::on_timer`], the
//! application's side calls [`Endpoint::write`], [`Endpoint::read`] and the closing calls, and after every such input
//! the driver calls [`Endpoint::poll_transmit`] until it returns None.

use wire::segment::{IP_HEADER, TCP_HEADER, TIMESTAMPS_BYTES};
use wire::{Ecn, Flags, Options, Segment, seq};

use crate::clock::{HostClock, Nanos, earliest};
use crate::event::{EventKind, Events};
use crate::listener;
use crate::mutants::mutant;
use crate::profile::{EcnMode, Facts, Profile, SocketOptions};
use crate::receiver::{Arrival, ReceiveState, Receiver};
use crate::sender::{Ack, Context, Limit, Metrics, Poll, Run, SendState, Sender, Transmit};

/// The MSS of a peer that announces none (RFC 9293 section 3.7.1), or 0, which Linux and FreeBSD take for none.
pub(crate) const DEFAULT_MSS: u16 = 536;
/// The smallest MSS that a peer is believed, options included (Linux's TCP_MIN_SND_MSS).
const MIN_MSS: u16 = 48;
/// The largest shift of a window field (RFC 7323 section 2.3).
pub(crate) const LARGEST_SCALE: u8 = 14;
/// The largest value of a window field.
pub(crate) const LARGEST_FIELD: u64 = 65_535;
/// The largest payload of an IPv4 packet without options.
const MAX_PAYLOAD: u32 = 65_535 - IP_HEADER - TCP_HEADER;

/// Connection states (RFC 9293 section 3.3.2). LISTEN belongs to [`crate::listener::Listener`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// No connection.
    Closed = 0,
    /// SYN sent.
    SynSent = 2,
    /// SYN received, SYN-ACK sent.
    SynReceived = 3,
    /// Open in both directions.
    Established = 4,
    /// The peer has closed.
    CloseWait = 5,
    /// We have closed; our FIN is not acknowledged.
    FinWait1 = 6,
    /// Both have closed at once.
    Closing = 7,
    /// The peer closed first, our FIN is not acknowledged.
    LastAck = 8,
    /// Our FIN is acknowledged, the peer has not closed.
    FinWait2 = 9,
    /// Waiting for old segments to die.
    TimeWait = 10,
}

/// Why a connection ended before both sides had closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer sent a reset.
    Reset,
    /// The handshake got no answer.
    HandshakeTimeout,
    /// Retransmissions got no answer.
    Timeout,
    /// Our own application aborted.
    Aborted,
}

/// How to make an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// The host's clock.
    pub clock: HostClock,
    /// MSS option to announce.
    pub mss: u16,
    /// ECN of the host.
    pub ecn: EcnMode,
    /// Segmentation offload.
    pub tso: bool,
    /// Buffers set by the application.
    pub socket: SocketOptions,
    /// Congestion control, by the system's own name.
    pub cc: &'a str,
    /// Initial sequence number.
    pub iss: u32,
    /// Added to the millisecond clock in timestamps.
    pub timestamp_offset: u32,
    /// Seeds whatever the congestion control draws.
    pub random: u64,
}

/// Time spent under each limit while the connection could carry data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitedTimes {
    /// Congestion window.
    pub cwnd: Nanos,
    /// Peer's window.
    pub rwnd: Nanos,
    /// Send buffer.
    pub sndbuf: Nanos,
    /// Application.
    pub app: Nanos,
}

/// A connection's figures, in the spirit of TCP_INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Connection state.
    pub state: State,
    /// The sender's figures.
    pub sender: Metrics,
    /// Payload of a full segment, bytes.
    pub snd_mss: u32,
    /// Peer's window, bytes.
    pub snd_wnd: u64,
    /// Send buffer, bytes as the system counts it: payload, on Linux memory.
    pub send_buffer: u64,
    /// Sent and not cumulatively acknowledged, bytes.
    pub outstanding: u64,
    /// Payload acknowledged so far, bytes.
    pub bytes_acked: u64,
    /// Payload read by our application so far, bytes.
    pub bytes_read: u64,
    /// Segments with payload sent so far, again or not, counted as the wire has them: a super-packet for segmentation
    /// offload is as many as it is cut into (Linux's tcpi_data_segs_out).
    pub data_segments_out: u64,
    /// Segments sent again so far, counted likewise (Linux's tcpi_total_retrans).
    pub retransmits: u64,
    /// Time under each limit up to the last transmission opportunity.
    pub limited: LimitedTimes,
    /// ECN was agreed.
    pub ecn: bool,
}

/// A connection.
// Begins with a cache line: from the middle of one it would reach into one more.
#[repr(align(64))]
pub struct Endpoint {
    state: State,
    failure: Option<Failure>,
    clock: HostClock,
    s: SendState,
    r: ReceiveState,
    sender: Box<dyn Sender>,
    receiver: Box<dyn Receiver>,
    events: Events,
    handshake: Box<Handshake>,
    /// A mark arrived that the peer has not reacted to: ACKs echo it (RFC 3168 section 6.1.3).
    echoes_ce: bool,
    /// Sequence number and acknowledgement of the segment that last updated the window (SND.WL1, SND.WL2).
    window_from: (u64, u64),
    /// The peer's FIN, once seen, until its turn comes.
    peer_fin: Option<u64>,
    timestamp_offset: u32,
    /// Header prediction may be tried: see [`Endpoint::expects`].
    predicts: bool,
    invalid_ratelimit: Nanos,
    /// When something invalid was last answered.
    challenged: Option<Nanos>,
    unread_resets: bool,
    /// The application has closed, and reads no more.
    gone: bool,
    /// See [`crate::profile::Facts::timer_wheel`].
    timer_wheel: bool,
    time_wait: Nanos,
    time_wait_until: Option<Nanos>,
    /// A reset to send: (sequence number, acknowledgement).
    reset: Option<(u32, Option<u32>)>,
    /// The window field of the last ACK that rode on data, while nothing has happened on the receiving side since: data
    /// that leaves carries the same acknowledgement again.
    repeated_window: Option<u16>,
    limits: LimitClock,
    stamp: Stamp,
    bytes_read: u64,
    data_segments_out: u64,
}

/// The timestamp of segments that leave from `from` on, before `until`.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    tsval: u32,
    from: Nanos,
    until: Nanos,
}

impl Stamp {
    /// In place: a copy of what has just been written has to wait for it.
    #[cold]
    fn renew(&mut self, clock: &HostClock, now: Nanos, offset: u32) {
        let tick = clock.ticks(now);
        self.tsval = clock.timestamp_ms(now).wrapping_add(offset);
        self.from = clock.time_of_tick(tick);
        self.until = clock.time_of_tick(tick + 1);
    }
}

/// What is being done to open the connection.
#[derive(Debug)]
struct Handshake {
    mss: u16,
    ecn: EcnMode,
    timestamps: bool,
    sack: bool,
    wscale: u8,
    /// Window scaling is offered and accepted.
    scales: bool,
    /// The peer's SYN offered window scaling.
    peer_scales: bool,
    syn_window: u16,
    /// See [`Endpoint::limit_tso`].
    tso_limit: u32,
    timeouts: Vec<Nanos>,
    /// See [`crate::profile::Facts::syn_hastened`].
    hastened: Option<u64>,
    sent: usize,
    first_sent: Nanos,
    /// A SYN or SYN-ACK must leave.
    due: bool,
    deadline: Option<Nanos>,
}

/// Integrates the time under each limit.
#[derive(Clone, Copy, Debug, Default)]
struct LimitClock {
    running: bool,
    since: Nanos,
    limit: Limit,
    times: LimitedTimes,
}

impl LimitClock {
    #[inline]
    fn turn(&mut self, now: Nanos, limit: Limit) {
        if limit != self.limit || !self.running {
            self.settle(now);
            self.running = true;
            self.limit = limit;
        }
    }

    fn settle(&mut self, now: Nanos) {
        if self.running {
            let spent = now - self.since;
            match self.limit {
                Limit::App => self.times.app += spent,
                Limit::SendBuffer => self.times.sndbuf += spent,
                Limit::Cwnd => self.times.cwnd += spent,
                Limit::Rwnd => self.times.rwnd += spent,
            }
        }
        self.since = now;
    }
}

impl Endpoint {
    /// Opens a connection: the SYN leaves at the next [`Endpoint::poll_transmit`].
    pub fn connect(profile: &dyn Profile, config: &Config<'_>, now: Nanos) -> Endpoint {
        let mut endpoint = Endpoint::new(profile, config, profile.facts().syn_timeouts.clone());
        endpoint.handshake.due = true;
        endpoint.enter(State::SynSent, now);
        endpoint
    }

    /// Answers `syn`: the SYN-ACK leaves at the next [`Endpoint::poll_transmit`]. See [`crate::listener::Listener`].
    pub(crate) fn accept(profile: &dyn Profile, config: &Config<'_>, now: Nanos, syn: &Segment) -> Endpoint {
        let mut endpoint = Endpoint::new(profile, config, profile.facts().synack_timeouts.clone());
        endpoint.handshake.due = true;
        endpoint.take_syn(now, syn);
        // The window of a SYN-ACK knows the payload of a segment; that of a SYN does not.
        (endpoint.handshake.syn_window, _) = endpoint.receiver.syn_window(&endpoint.r);
        let asks = syn.flags.has(Flags::ECE | Flags::CWR);
        endpoint.s.ecn = asks && endpoint.handshake.ecn != EcnMode::Off;
        endpoint.enter(State::SynReceived, now);
        endpoint
    }

    fn new(profile: &dyn Profile, config: &Config<'_>, timeouts: Vec<Nanos>) -> Endpoint {
        let facts: &Facts = profile.facts();
        let ((sndbuf, sndbuf_auto), (rcvbuf, rcvbuf_auto)) = profile.buffers(&config.socket);
        let receiver = profile.receiver();
        let mut r = ReceiveState::new(rcvbuf, rcvbuf_auto);
        r.payload = u32::from(config.mss);
        let (syn_window, wscale) = receiver.syn_window(&r);
        let iss = seq::FIRST_LAP + u64::from(config.iss);
        Endpoint {
            state: State::Closed,
            failure: None,
            clock: config.clock,
            s: SendState {
                iss,
                una: iss,
                nxt: iss,
                max: iss,
                end: iss + 1,
                fin: false,
                no_delay: false,
                app_blocked: false,
                blocked_midway: false,
                wnd: 0,
                max_wnd: 0,
                wscale: 0,
                mss: u32::from(config.mss),
                payload: u32::from(config.mss),
                timestamps: false,
                sack: false,
                ecn: false,
                tso: config.tso,
                tso_max: MAX_PAYLOAD,
                sndbuf,
                sndbuf_auto,
                retransmits: 0,
                last_received: 0,
                last_sent: 0,
                throttled: false,
                run: Run::default(),
                long_way: false,
            },
            r,
            sender: profile.sender(config.cc, config.random),
            receiver,
            events: Events::default(),
            handshake: Box::new(Handshake {
                mss: config.mss,
                ecn: config.ecn,
                timestamps: facts.timestamps,
                sack: facts.sack,
                wscale,
                scales: facts.window_scaling,
                peer_scales: false,
                syn_window,
                tso_limit: u32::MAX,
                timeouts,
                hastened: facts.syn_hastened,
                sent: 0,
                first_sent: 0,
                due: false,
                deadline: None,
            }),
            echoes_ce: false,
            window_from: (0, 0),
            peer_fin: None,
            timestamp_offset: config.timestamp_offset,
            predicts: false,
            invalid_ratelimit: facts.invalid_ratelimit,
            challenged: None,
            unread_resets: facts.unread_resets,
            gone: false,
            timer_wheel: facts.timer_wheel,
            time_wait: facts.time_wait,
            time_wait_until: None,
            reset: None,
            repeated_window: None,
            limits: LimitClock::default(),
            stamp: Stamp::default(),
            bytes_read: 0,
            data_segments_out: 0,
        }
    }
}

/// The driver's side.
impl Endpoint {
    /// A segment for this connection has arrived.
    #[inline(always)]
    pub fn on_segment(&mut self, now: Nanos, segment: &Segment) {
        if self.expects(segment) {
            self.take_expected(now, segment);
            return;
        }
        match self.state {
            State::Closed => self.answer_with_reset(segment),
            State::SynSent => self.on_segment_in_syn_sent(now, segment),
            _ => self.on_segment_synchronised(now, segment),
        }
    }

    /// A time named by [`Endpoint::next_timer`] may have come; being called early does nothing.
    pub fn on_timer(&mut self, now: Nanos) {
        if self.handshake.deadline.is_some_and(|at| at <= now) {
            self.on_handshake_timeout(now);
        }
        if self.time_wait_until.is_some_and(|at| at <= now) {
            self.time_wait_until = None;
            self.enter(State::Closed, now);
        }
        if self.carries_data() {
            let persists = !mutant!(NoPersist) || self.s.wnd > 0;
            if persists && self.sender.next_timer().is_some_and(|at| at <= now) {
                let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
                self.sender.on_timer(&mut self.s, &mut cx);
                if self.sender.gave_up() {
                    self.fail(now, Failure::Timeout);
                    return;
                }
            }
            if self.receiver.next_timer().is_some_and(|at| at <= now) {
                self.repeated_window = None;
                let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
                self.receiver.on_timer(&mut self.r, &mut cx);
            }
        }
    }

    /// When to call [`Endpoint::on_timer`]; may be early, so ask again after the call. None: never.
    #[inline(always)]
    pub fn next_timer(&self) -> Option<Nanos> {
        if self.state == State::Established && !self.s.long_way {
            let receiver = self.receiver.next_timer();
            // A sender with nothing to send and nothing outstanding waits for nothing.
            return if self.s.limit() == self.s.una {
                receiver
            } else {
                earliest(self.sender.next_timer(), receiver)
            };
        }
        let mut at = earliest(self.handshake.deadline, self.time_wait_until);
        if self.carries_data() {
            at = earliest(at, earliest(self.sender.next_timer(), self.receiver.next_timer()));
        }
        at
    }

    /// The next segment to put on the wire. Call until None after every input.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Segment> {
        let mut segment = Segment::default();
        self.poll_transmit_into(now, &mut segment).then_some(segment)
    }

    /// The sending side, which lies elsewhere in memory.
    #[inline]
    pub fn sender(&self) -> &dyn Sender {
        &*self.sender
    }

    /// The receiving side, which lies elsewhere in memory.
    #[inline]
    pub fn receiver(&self) -> &dyn Receiver {
        &*self.receiver
    }

    /// Whether polling could give a segment, or end the time under a limit. A quick test for drivers; a false alarm costs a
    /// poll.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.r.ack_now
            || self.s.limit() != self.s.una
            || self.limits.limit != Limit::App
            || self.state != State::Established
            || self.s.long_way
    }

    /// Whether data just written could be sent: not while a window is what the sender waits for.
    #[inline]
    pub fn data_may_flow(&self) -> bool {
        // A sender that grows its own buffer does so when it is polled.
        self.s.sndbuf_auto
            || !matches!(self.limits.limit, Limit::Cwnd | Limit::Rwnd)
            || self.state != State::Established
    }

    /// Leaves out every short way that usual segments take: slower, and equal in every result, which is what tests
    /// compare. To be called before the connection is open. [`Endpoint::data_may_flow`] is the driver's and stays.
    pub fn force_long_way(&mut self) {
        self.s.long_way = true;
        self.r.long_way = true;
    }

    /// As [`Endpoint::poll_transmit`], into memory of the caller's; true if there is a segment. What `segment` held
    /// before does not matter.
    #[inline(always)]
    pub fn poll_transmit_into(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if self.state == State::Established {
            return self.poll_data(now, segment) || self.poll_ack(now, segment);
        }
        self.poll_outside_established(now, segment)
    }

    fn poll_outside_established(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if let Some((seq, ack)) = self.reset.take() {
            *segment = listener::reset(seq, ack);
            return true;
        }
        if self.handshake.due {
            *segment = self.syn(now);
            return true;
        }
        self.carries_data() && self.poll_data(now, segment) || self.poll_ack(now, segment)
    }

    /// `bytes` of payload have left the host: its NIC has sent them. A driver without a queue of its own calls this as
    /// soon as it has the segment; one that never does starves stacks that limit what waits in their host (Linux TSQ).
    pub fn on_tx_complete(&mut self, now: Nanos, bytes: u32) {
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.sender.on_tx_complete(&mut self.s, bytes, &mut cx);
    }

    /// The host's own transmit queue refused the last segment (FreeBSD sees ENOBUFS, Linux a local congestion notice).
    pub fn on_tx_dropped(&mut self, now: Nanos) {
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.sender.on_tx_dropped(&mut self.s, &mut cx);
    }

    /// The interface takes segments of at most `payload` bytes, or of one MSS where that is more.
    pub fn limit_tso(&mut self, payload: u32) {
        self.handshake.tso_limit = payload;
        self.size_super_packets();
    }

    /// Whether [`Endpoint::on_tx_complete`] is awaited before more can be sent.
    #[inline]
    pub fn wants_tx_complete(&self) -> bool {
        self.s.throttled
    }

    /// Reports since the last call.
    pub fn events(&mut self) -> &mut Events {
        &mut self.events
    }

    /// The connection's figures at `now`.
    pub fn info(&mut self, now: Nanos) -> TcpInfo {
        self.limits.settle(now);
        TcpInfo {
            state: self.state,
            sender: self.sender.metrics(&self.s),
            snd_mss: self.s.payload,
            snd_wnd: self.s.wnd,
            send_buffer: self.sender.send_buffer(&self.s),
            outstanding: self.s.outstanding(),
            bytes_acked: self.s.una.saturating_sub(self.s.iss + 1).min(self.s.end - self.s.iss - 1),
            bytes_read: self.bytes_read,
            data_segments_out: self.data_segments_out,
            retransmits: self.s.retransmits,
            limited: self.limits.times,
            ecn: self.s.ecn,
        }
    }

    /// Congestion window, bytes.
    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.sender.cwnd(&self.s)
    }

    /// Payload of a full segment, bytes.
    #[inline]
    pub fn payload(&self) -> u32 {
        self.s.payload
    }

    /// Payload read by our application so far, bytes.
    #[inline]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The window that the last acknowledgement offered, bytes.
    pub fn receive_window(&self) -> u64 {
        self.r.advertised.saturating_sub(self.r.last_ack)
    }

    /// Receive buffer, bytes as the system counts it: payload, on Linux memory.
    pub fn receive_buffer(&self) -> u64 {
        self.r.rcvbuf
    }

    /// Connection state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Why the connection failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }
}

/// The application's side.
impl Endpoint {
    /// Hands `bytes` to the socket; returns how many it took. Fewer: the caller is blocked until [`Endpoint::writable`].
    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.s.fin || self.failure.is_some() || self.state == State::Closed {
            return 0;
        }
        let taken = bytes.min(self.sender.space(&self.s));
        self.s.end += taken;
        self.s.app_blocked = taken < bytes;
        self.s.blocked_midway = taken > 0 && taken < bytes;
        taken
    }

    /// Whether a blocked writer would be woken.
    #[inline]
    pub fn writable(&self) -> bool {
        !self.s.fin && self.sender.writable(&self.s)
    }

    /// In-order payload waiting to be read, bytes.
    #[inline]
    pub fn readable(&self) -> u64 {
        self.r.readable
    }

    /// The application takes up to `bytes`; returns how many there were.
    #[inline(always)]
    pub fn read(&mut self, now: Nanos, bytes: u64) -> u64 {
        let taken = bytes.min(self.r.readable);
        if taken > 0 {
            self.repeated_window = None;
            self.r.readable -= taken;
            self.bytes_read += taken;
            let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
            let owed = self.r.ack_now;
            if !mutant!(NoWindowUpdate) {
                self.receiver.on_read(&mut self.r, taken, &mut cx);
            }
            // A peer that has closed needs no window.
            if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
                self.r.ack_now = owed;
            }
        }
        taken
    }

    /// The peer has closed and everything was read.
    pub fn at_eof(&self) -> bool {
        self.r.readable == 0 && self.peer_closed()
    }

    /// The peer has closed, and all it sent before has arrived.
    pub fn peer_closed(&self) -> bool {
        matches!(self.state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait)
    }

    /// The handshake was completed, whatever came after it.
    pub fn established(&self) -> bool {
        self.s.una > self.s.iss
    }

    /// ECN was negotiated (RFC 3168 section 6.1.1).
    pub fn uses_ecn(&self) -> bool {
        self.s.ecn
    }

    /// Payload written and not cumulatively acknowledged, bytes.
    pub fn unacknowledged(&self) -> u64 {
        self.s.end.saturating_sub(self.s.una.max(self.s.iss + 1))
    }

    /// Short segments leave at once (TCP_NODELAY: Nagle's algorithm off).
    pub fn set_no_delay(&mut self, on: bool) {
        self.s.no_delay = on;
    }

    /// Sets the send buffer of an open connection, bytes as [`Profile::buffers`] has them, and ends its autotuning.
    pub fn set_send_buffer(&mut self, bytes: u64) {
        self.s.sndbuf = bytes;
        self.s.sndbuf_auto = false;
    }

    /// No more writes: a FIN follows the data (SHUT_WR).
    pub fn shutdown(&mut self, now: Nanos) {
        match self.state {
            State::Established => self.enter(State::FinWait1, now),
            // The FIN waits for the handshake.
            State::SynReceived => {}
            State::CloseWait => self.enter(State::LastAck, now),
            State::SynSent => {
                self.handshake.deadline = None;
                self.handshake.due = false;
                self.enter(State::Closed, now);
                return;
            }
            _ => return,
        }
        self.s.fin = true;
        self.s.app_blocked = false;
        self.s.blocked_midway = false;
    }

    /// Closes both directions. Unread data means a reset (RFC 9293 section 3.10.4, RFC 2525 section 2.17) or is forgotten,
    /// by system; new data that arrives afterwards is answered with a reset (RFC 1122 section 4.2.2.13).
    pub fn close(&mut self, now: Nanos) {
        self.gone = true;
        let unread = self.r.readable > 0 && self.carries_data();
        // The planted bug turns the rule round on every system.
        let turned = mutant!(UnreadMistaken);
        if unread && self.unread_resets != turned {
            self.abort(now);
            return;
        }
        self.shutdown(now);
        if unread {
            // The FIN tells of the room.
            self.read(now, u64::MAX);
            self.r.ack_now = false;
        }
    }

    /// Resets the connection at once.
    pub fn abort(&mut self, now: Nanos) {
        if self.carries_data() {
            self.reset = Some((seq::wire(self.s.max), Some(seq::wire(self.r.nxt))));
        }
        self.fail(now, Failure::Aborted);
    }
}

/// Segments out.
impl Endpoint {
    fn syn(&mut self, now: Nanos) -> Segment {
        let gap = self.handshake.timeouts.get(self.handshake.sent);
        let deadline = gap.map(|&gap| self.timer_runs(now, gap));
        let h = &mut self.handshake;
        h.due = false;
        if h.sent == 0 {
            h.first_sent = now;
        }
        h.deadline = deadline;
        h.sent += 1;
        let passive = self.state == State::SynReceived;
        let mut segment = Segment {
            seq: seq::wire(self.s.iss),
            window: h.syn_window,
            mss: h.mss,
            flags: Flags::SYN,
            options: Options::MSS,
            frames: 1,
            ..Segment::default()
        };
        // A SYN-ACK offers only what the SYN did (RFC 7323 section 1.3, RFC 2018 section 2).
        if h.timestamps && (!passive || self.s.timestamps) {
            segment.options |= Options::TIMESTAMPS;
            segment.tsval = self.clock.timestamp_ms(now).wrapping_add(self.timestamp_offset);
            segment.tsecr = self.r.ts_recent;
        }
        if h.sack && (!passive || self.s.sack || mutant!(OffersAll)) {
            segment.options |= Options::SACK_PERMITTED;
        }
        if h.scales && (!passive || h.peer_scales) {
            segment.options |= Options::WSCALE;
            segment.wscale = h.wscale;
        }
        if passive {
            segment.flags |= Flags::ACK;
            segment.ack = seq::wire(self.r.nxt);
            if self.s.ecn {
                segment.flags |= Flags::ECE;
            }
        } else if h.ecn == EcnMode::On && h.sent == 1 {
            segment.flags |= Flags::ECE | Flags::CWR;
        }
        self.s.nxt = self.s.iss + 1;
        self.s.max = self.s.max.max(self.s.iss + 1);
        self.r.advertised = self.r.nxt + u64::from(h.syn_window);
        self.r.last_ack = self.r.nxt;
        segment
    }

    #[inline(always)]
    fn poll_data(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if self.s.limit() == self.s.una {
            self.limits.turn(now, Limit::App);
            return false;
        }
        let answer = if self.s.run.edge > 0 {
            let limit = self.s.run.limit;
            self.s.next_of_run().map_or(Poll::Wait(limit), Poll::Send)
        } else {
            self.s.run.last = 0;
            let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
            self.sender.poll(&mut self.s, &mut cx)
        };
        match answer {
            Poll::Send(transmit) => {
                self.data(now, &transmit, segment);
                true
            }
            Poll::Wait(limit) => {
                self.limits.turn(now, limit);
                false
            }
        }
    }

    #[inline]
    fn data(&mut self, now: Nanos, t: &Transmit, segment: &mut Segment) {
        self.header(now, false, segment);
        segment.seq = seq::wire(t.seq);
        segment.offset = self.s.offset(t.seq);
        segment.len = t.len;
        if t.push && t.len > 0 {
            segment.flags |= Flags::PSH;
        }
        if t.fin {
            segment.flags |= Flags::FIN;
        }
        if self.s.ecn && t.len > 0 && !t.retransmission {
            segment.ecn = Ecn::Ect0;
            if t.cwr && !mutant!(NoCwr) {
                segment.flags |= Flags::CWR;
            }
        }
        self.s.last_sent = now;
        // As on the wire, where segmentation offload has cut it.
        self.data_segments_out += if t.len <= self.s.payload {
            u64::from(t.len > 0)
        } else {
            u64::from(t.len.div_ceil(self.s.payload))
        };
    }

    #[inline]
    fn poll_ack(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if !self.r.ack_now {
            return false;
        }
        self.header(now, true, segment);
        // Not SND.NXT, which goes back after a timeout: the peer would take the ACK for an old segment.
        segment.seq = seq::wire(self.s.max);
        segment.offset = 0;
        segment.len = 0;
        if self.r.sack && (!self.r.out_of_order.is_empty() || self.r.dsack.is_some()) {
            let room = if self.r.timestamps { 3 } else { 4 };
            self.r.sack_blocks(room, |left, right| segment.sack.push(seq::wire(left), seq::wire(right)));
            self.r.dsack = None;
            self.r.withheld = None;
        }
        true
    }

    /// Writes everything but sequence number and length: acknowledgement, window, timestamps; tells the receiver that
    /// an ACK leaves.
    #[inline]
    fn header(&mut self, now: Nanos, pure: bool, segment: &mut Segment) {
        let window = match self.repeated_window {
            Some(window) if !pure && !self.r.ack_now => window,
            _ => self.acknowledge(now, pure),
        };
        segment.ack = seq::wire(self.r.nxt);
        segment.window = window;
        segment.flags = if self.echoes_ce { Flags::ACK | Flags::ECE } else { Flags::ACK };
        segment.frames = 1;
        segment.ecn = Ecn::NotEct;
        segment.mss = 0;
        segment.wscale = 0;
        segment.sack.clear();
        if self.s.timestamps {
            segment.options = Options::TIMESTAMPS;
            if !(now < self.stamp.until && now >= self.stamp.from) {
                self.stamp.renew(&self.clock, now, self.timestamp_offset);
                if self.s.long_way {
                    self.stamp.until = 0;
                }
            }
            segment.tsval = self.stamp.tsval;
            segment.tsecr = self.r.ts_recent;
        } else {
            segment.options = Options::default();
            segment.tsval = 0;
            segment.tsecr = 0;
        }
    }

    /// An ACK leaves: chooses its window field and tells the receiver.
    fn acknowledge(&mut self, now: Nanos, pure: bool) -> u16 {
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        let wanted = self.receiver.window(&self.r, &mut cx);
        // The right edge never moves left, and what the field cannot say is not promised.
        let scale = self.r.wscale;
        let field = (wanted.max(self.r.offered()) >> scale).min(LARGEST_FIELD);
        let field = if field << scale < self.r.offered() { field + 1 } else { field }.min(LARGEST_FIELD);
        self.r.advertised = self.r.advertised.max(self.r.nxt + (field << scale));
        self.r.last_ack = self.r.nxt;
        // With out-of-order data, the SACK blocks still owed go in a pure ACK of their own.
        let sack_owed = !pure && self.r.ack_now && !self.r.out_of_order.is_empty();
        self.receiver.on_ack_sent(&mut self.r, pure, &mut cx);
        self.r.ack_now = sack_owed;
        let window = field as u16;
        // After a pure ACK the receiver is still to be told of data that leaves.
        self.repeated_window = (!pure && !sack_owed && !self.s.long_way).then_some(window);
        window
    }

    fn answer_with_reset(&mut self, segment: &Segment) {
        self.reset = listener::reset_for(segment).or(self.reset);
    }
}

/// Segments in.
impl Endpoint {
    /// SYN-SENT (RFC 9293 section 3.10.7.3).
    fn on_segment_in_syn_sent(&mut self, now: Nanos, segment: &Segment) {
        let acked = segment.flags.has(Flags::ACK);
        let acceptable = acked && seq::extend(self.s.max, segment.ack) == self.s.iss + 1;
        if acked && !acceptable {
            self.answer_with_reset(segment);
            self.hasten_syn(now);
            return;
        }
        if segment.flags.has(Flags::RST) {
            if acceptable {
                self.fail(now, Failure::Reset);
            }
            return;
        }
        if !segment.flags.has(Flags::SYN) {
            return;
        }
        self.take_syn(now, segment);
        if !acceptable {
            // Simultaneous open: answer the SYN with a SYN-ACK.
            self.handshake.due = true;
            self.enter(State::SynReceived, now);
            return;
        }
        self.s.ecn = self.handshake.ecn == EcnMode::On
            && segment.flags.has(Flags::ECE)
            && !segment.flags.has(Flags::CWR);
        // The window of a SYN-ACK is not scaled (RFC 7323 section 2.2).
        self.s.wnd = u64::from(segment.window);
        self.s.max_wnd = self.s.wnd;
        self.window_from = (self.r.irs, self.s.iss + 1);
        self.s.una = self.s.iss + 1;
        self.establish(now);
        self.r.ack_now = true;
        self.take_payload(now, segment, self.r.nxt);
    }

    /// When a timer runs that is set to so long from now.
    fn timer_runs(&self, now: Nanos, wait: Nanos) -> Nanos {
        if self.timer_wheel { self.clock.linux_timer(now, wait) } else { now + wait }
    }

    /// The ACK of something else may have been for an old connection that the reset has ended: the first SYN is tried again
    /// soon, where the system does so.
    fn hasten_syn(&mut self, now: Nanos) {
        let h = &mut self.handshake;
        if let Some(ticks) = h.hastened
            && h.sent == 1
            && !mutant!(SynNotHastened)
        {
            h.deadline = Some(self.clock.linux_timer(now, ticks * self.clock.tick_ns()));
        }
    }

    /// All states after SYN-SENT (RFC 9293 section 3.10.7.4).
    #[inline(always)]
    fn on_segment_synchronised(&mut self, now: Nanos, segment: &Segment) {
        let mut first = seq::extend(self.r.nxt, segment.seq);
        if mutant!(NoWrap) {
            first = seq::FIRST_LAP + u64::from(segment.seq);
        }
        if self.s.timestamps && segment.options.has(Options::TIMESTAMPS) {
            // PAWS (RFC 7323 section 5.3): an old timestamp means an old segment.
            if seq::before(segment.tsval, self.r.ts_recent) && !segment.flags.has(Flags::RST) {
                self.on_unacceptable(now, segment, first);
                return;
            }
            if first <= self.r.last_ack {
                self.r.ts_recent = segment.tsval;
            }
            self.r.tsecr = segment.tsecr.wrapping_sub(self.timestamp_offset);
        }
        if !self.acceptable(first, segment.seq_len()) {
            self.on_unacceptable(now, segment, first);
            // Even with a closed window, valid acknowledgements count (RFC 9293 section 3.10.7.4, first).
            let ack = seq::extend(self.s.una, segment.ack);
            let plain = segment.flags.0 & (Flags::RST.0 | Flags::SYN.0 | Flags::ACK.0) == Flags::ACK.0;
            if plain && self.carries_data() && ack <= self.s.max {
                self.s.last_received = now;
                self.take_ack(now, segment, first, ack);
            }
            return;
        }
        if segment.flags.0 & (Flags::RST.0 | Flags::SYN.0) != 0 {
            self.on_reset_or_syn(now, segment, first);
            return;
        }
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let ack = seq::extend(self.s.una, segment.ack);
        if self.state == State::SynReceived {
            if ack <= self.s.iss || ack > self.s.max {
                self.answer_with_reset(segment);
                return;
            }
            self.s.wnd = u64::from(segment.window) << self.s.wscale;
            self.s.max_wnd = self.s.wnd;
            self.window_from = (first, ack);
            self.s.una = self.s.iss + 1;
            self.establish(now);
        }
        self.s.last_received = now;
        if ack > self.s.max {
            // Acknowledges what was never sent (RFC 9293 section 3.10.7.4, fifth).
            self.r.ack_now |= self.may_challenge(now);
            return;
        }
        self.take_ack(now, segment, first, ack);
        let news = segment.len > 0 && first + u64::from(segment.len) > self.r.nxt;
        if self.gone && news && self.carries_data() && !mutant!(DataAfterClose) {
            self.answer_with_reset(segment);
            self.fail(now, Failure::Aborted);
            return;
        }
        if self.is_plainly_next(segment, first) {
            self.take_next(now, segment, first);
        } else if segment.len > 0 || segment.flags.has(Flags::FIN) {
            self.take_payload(now, segment, first);
        }
    }

    #[inline(always)]
    fn take_ack(&mut self, now: Nanos, segment: &Segment, first: u64, ack: u64) {
        let previous_wnd = self.s.wnd;
        if ack >= self.s.una {
            let window = u64::from(segment.window) << self.s.wscale;
            let window = if mutant!(WindowIgnored) { 1 << 30 } else { window };
            let (from_seq, from_ack) = self.window_from;
            if from_seq < first
                || (from_seq == first && (from_ack < ack || (from_ack == ack && window > self.s.wnd)))
            {
                self.s.wnd = window;
                self.s.max_wnd = self.s.max_wnd.max(window);
                self.window_from = (first, ack);
            }
        }
        // Data that reaches a side with nothing sent and nothing to send tells its sender nothing else.
        let never_sent = self.s.max == self.s.iss + 1 && self.s.limit() == self.s.una && !self.s.long_way;
        if never_sent && segment.len > 0 && segment.flags.0 & (Flags::ECE.0 | Flags::FIN.0) == 0 {
            return;
        }
        self.inform_sender(now, segment, ack, previous_wnd);
    }

    #[inline(always)]
    fn inform_sender(&mut self, now: Nanos, segment: &Segment, ack: u64, previous_wnd: u64) {
        if segment.sack.is_empty() {
            self.inform_sender_of(now, segment, ack, previous_wnd, &[], None);
        } else {
            self.inform_sender_of_blocks(now, segment, ack, previous_wnd);
        }
    }

    #[inline(never)]
    fn inform_sender_of_blocks(&mut self, now: Nanos, segment: &Segment, ack: u64, previous_wnd: u64) {
        let mut blocks = [(0, 0); wire::SackBlocks::MAX];
        let (count, dsack) = self.read_sack(segment, ack, &mut blocks);
        self.inform_sender_of(now, segment, ack, previous_wnd, &blocks[..count], dsack);
    }

    #[inline(always)]
    fn inform_sender_of(
        &mut self,
        now: Nanos,
        segment: &Segment,
        ack: u64,
        previous_wnd: u64,
        sack: &[(u64, u64)],
        dsack: Option<(u64, u64)>,
    ) {
        let tsecr = if self.s.timestamps && segment.options.has(Options::TIMESTAMPS) {
            Some(segment.tsecr.wrapping_sub(self.timestamp_offset))
        } else {
            None
        };
        let fin = segment.flags.has(Flags::FIN);
        let ack = Ack {
            ack,
            sack,
            dsack,
            previous_wnd,
            payload: segment.len,
            tsecr,
            ece: self.s.ecn && !mutant!(EchoIgnored) && segment.flags.has(Flags::ECE),
            fin,
            frames: u32::from(segment.frames.max(1)),
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.sender.on_ack(&mut self.s, &ack, &mut cx);
        debug_assert!(self.s.una >= ack.ack, "the sender moves una");
        if self.s.fin && self.s.una > self.s.end {
            self.on_fin_acked(now);
        }
    }

    /// Reads SACK blocks into `blocks`: those above `ack`, clipped; and the D-SACK, if the first block is one
    /// (RFC 2883 section 4).
    fn read_sack(
        &self,
        segment: &Segment,
        ack: u64,
        blocks: &mut [(u64, u64)],
    ) -> (usize, Option<(u64, u64)>) {
        let mut count = 0;
        let mut dsack = None;
        let wire_blocks = segment.sack.as_slice();
        for (index, &(left, right)) in wire_blocks.iter().enumerate() {
            let left = seq::extend(self.s.una, left);
            let right = seq::extend(self.s.una, right);
            if left >= right || right > self.s.max {
                continue;
            }
            if index == 0 {
                let inside_second = wire_blocks.get(1).is_some_and(|&(l, r)| {
                    seq::extend(self.s.una, l) <= left && right <= seq::extend(self.s.una, r)
                });
                if right <= ack || inside_second {
                    dsack = Some((left, right));
                    continue;
                }
            }
            let left = left.max(ack);
            if left < right {
                blocks[count] = (left, right);
                count += 1;
            }
        }
        (count, dsack)
    }

    /// Whether a segment is the usual one of a receiver: the next data, whole, and nothing else.
    #[inline(always)]
    fn is_plainly_next(&self, segment: &Segment, first: u64) -> bool {
        first == self.r.nxt
            && segment.len > 0
            && segment.flags.0 & (Flags::SYN.0 | Flags::FIN.0 | Flags::CWR.0) == 0
            && segment.ecn != Ecn::Ce
            && self.state == State::Established
            && first + u64::from(segment.len) <= self.r.advertised
            && self.r.out_of_order.is_empty()
            && self.peer_fin.is_none()
            && !self.s.long_way
    }

    /// Header prediction: whether a segment is the usual one of a side that only receives, the next data, whole, and
    /// nothing else. What follows for one, [`Endpoint::take_expected`] does as [`Endpoint::on_segment_synchronised`].
    #[inline(always)]
    fn expects(&self, segment: &Segment) -> bool {
        segment.seq == seq::wire(self.r.nxt)
            && segment.len > 0
            && segment.ack == seq::wire(self.s.una)
            && segment.flags.0 & !Flags::PSH.0 == Flags::ACK.0
            && segment.options == Options::TIMESTAMPS
            && segment.ecn != Ecn::Ce
            && self.state == State::Established
            && self.predicts
            && self.s.max == self.s.iss + 1
            && self.s.limit() == self.s.una
            && !seq::before(segment.tsval, self.r.ts_recent)
            && self.r.nxt + u64::from(segment.len) <= self.r.advertised
            && self.r.out_of_order.is_empty()
            && self.peer_fin.is_none()
            && self.window_from.0 < self.r.nxt
    }

    #[inline(always)]
    fn take_expected(&mut self, now: Nanos, segment: &Segment) {
        let first = self.r.nxt;
        if first == self.r.last_ack {
            self.r.ts_recent = segment.tsval;
        }
        self.r.tsecr = segment.tsecr.wrapping_sub(self.timestamp_offset);
        self.s.last_received = now;
        self.s.wnd = u64::from(segment.window) << self.s.wscale;
        self.s.max_wnd = self.s.max_wnd.max(self.s.wnd);
        self.window_from = (first, self.s.una);
        self.take_next(now, segment, first);
    }

    /// [`Endpoint::take_payload`] of a segment that [`Endpoint::is_plainly_next`].
    #[inline(always)]
    fn take_next(&mut self, now: Nanos, segment: &Segment, first: u64) {
        let end = first + u64::from(segment.len);
        self.repeated_window = None;
        self.r.nxt = end;
        self.r.readable += u64::from(segment.len);
        let arrival = Arrival {
            seq: first,
            end,
            payload: segment.len,
            previous_nxt: first,
            in_order: true,
            filled_hole: false,
            duplicate: false,
            frames: u32::from(segment.frames.max(1)),
            push: segment.flags.has(Flags::PSH),
            fin: false,
            ce: false,
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.receiver.on_data(&mut self.r, &arrival, &mut cx);
        self.r.ack_now |= mutant!(NoDelayedAck);
    }

    fn take_payload(&mut self, now: Nanos, segment: &Segment, first: u64) {
        self.repeated_window = None;
        let first = first + u64::from(segment.flags.has(Flags::SYN));
        let last = first + u64::from(segment.len);
        let ce = segment.ecn == Ecn::Ce;
        if self.s.ecn {
            if segment.flags.has(Flags::CWR) {
                self.echoes_ce = false;
            }
            if ce && !mutant!(NoEcnEcho) {
                self.echoes_ce = true;
            }
        }
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            // The peer has closed already: only a retransmitted FIN can come.
            self.r.ack_now = true;
            return;
        }
        let previous_nxt = self.r.nxt;
        let right_edge = self.r.advertised.max(previous_nxt);
        let start = first.max(previous_nxt);
        let end = last.min(right_edge).max(start);
        let mut in_order = false;
        let mut filled_hole = false;
        let duplicate = segment.len > 0 && (start >= end);
        if duplicate {
            if self.receiver.sends_dsack() && self.r.sack && last <= previous_nxt {
                self.r.dsack = Some((first, last));
            }
        } else if start < end {
            if start == previous_nxt {
                in_order = true;
                filled_hole = !self.r.out_of_order.is_empty();
                self.advance(end);
            } else if self.receiver.accepts_out_of_order(&self.r, start, (end - start) as u32) {
                let added = self.r.out_of_order.insert(start, end, |_, _| {});
                if added > 0 {
                    self.r.out_of_order_segments += 1;
                    self.r.note_recent(start);
                } else if self.receiver.sends_dsack() && self.r.sack {
                    self.r.dsack = Some((first, last));
                }
            }
        }
        if segment.flags.has(Flags::FIN) && last <= right_edge {
            self.peer_fin = Some(last);
        }
        let mut fin = false;
        if self.peer_fin == Some(self.r.nxt) {
            self.peer_fin = None;
            self.r.nxt += 1;
            fin = true;
            self.on_peer_fin(now);
        }
        let arrival = Arrival {
            seq: start,
            end,
            payload: segment.len,
            previous_nxt,
            in_order,
            filled_hole,
            duplicate,
            frames: u32::from(segment.frames.max(1)),
            push: segment.flags.has(Flags::PSH),
            fin,
            ce,
        };
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.receiver.on_data(&mut self.r, &arrival, &mut cx);
        if fin || duplicate || segment.flags.has(Flags::FIN) || mutant!(NoDelayedAck) {
            self.r.ack_now = true;
        }
        if mutant!(OutOfOrderWaits) && !in_order {
            self.r.ack_now = false;
        }
    }

    /// In-order data up to `end` has arrived: moves RCV.NXT over it and over what waited behind it.
    #[inline]
    fn advance(&mut self, end: u64) {
        let mut nxt = end;
        // What arrived may reach over several ranges that waited.
        while let Some((start, reach)) = self.r.out_of_order.first()
            && start <= nxt + u64::from(mutant!(HoleOfOneByte))
        {
            nxt = nxt.max(reach);
            self.r.out_of_order.remove_below(nxt);
            if self.r.out_of_order.is_empty() {
                self.r.out_of_order_segments = 0;
            }
        }
        self.r.readable += nxt - self.r.nxt;
        if mutant!(DeliveredTwice) && !self.r.out_of_order.is_empty() {
            self.r.readable += 1;
        }
        self.r.nxt = nxt;
    }

    /// Whether any of the segment lies in the receive window (RFC 9293 section 3.4).
    #[inline]
    fn acceptable(&self, first: u64, len: u32) -> bool {
        let nxt = self.r.nxt;
        let window = self.r.offered();
        let last = first + u64::from(len);
        if len == 0 {
            // One below is a probe or a keep-alive, which wants an answer.
            return first >= nxt && first <= nxt + window;
        }
        // Partly new data is trimmed later; a probe into a closed window is answered as unacceptable.
        first < nxt + window && last > nxt
    }

    /// Outside the window: acknowledge and drop (RFC 9293 section 3.10.7.4, first); data that came twice is reported
    /// with D-SACK where the system does so.
    fn on_unacceptable(&mut self, now: Nanos, segment: &Segment, first: u64) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        // Data outside the window is nobody's answer to an ACK.
        self.r.ack_now |= segment.seq_len() > 0 || self.may_challenge(now);
        if self.state == State::SynReceived && segment.flags.has(Flags::SYN) {
            self.handshake.due = true;
            self.r.ack_now = false;
            return;
        }
        if self.state == State::TimeWait && mutant!(TimeWaitSilent) {
            self.r.ack_now = false;
        }
        if self.state == State::TimeWait && segment.flags.has(Flags::FIN) {
            self.time_wait_until = Some(self.timer_runs(now, self.time_wait));
        }
        let last = first + u64::from(segment.len);
        let reports = self.receiver.sends_dsack() && !mutant!(NoDsack);
        if segment.len > 0 && last <= self.r.nxt && self.r.sack && reports {
            self.r.dsack = Some((first, last));
        }
    }

    /// A reset counts only at exactly RCV.NXT; otherwise, and for any SYN, the peer is challenged (RFC 5961).
    fn on_reset_or_syn(&mut self, now: Nanos, segment: &Segment, first: u64) {
        let exact = first == self.r.nxt || mutant!(AnyResetCounts);
        if mutant!(ResetIgnored) {
            return;
        }
        if segment.flags.has(Flags::RST) && exact {
            if matches!(self.state, State::Closing | State::LastAck | State::TimeWait) {
                // Both have closed: nobody is left to be told (RFC 9293 section 3.10.7.4, second).
                self.time_wait_until = None;
                self.enter(State::Closed, now);
                return;
            }
            self.fail(now, Failure::Reset);
        } else {
            self.r.ack_now |= self.may_challenge(now);
        }
    }

    /// Whether an ACK may answer what is invalid, at most one in so much time where the system limits them.
    fn may_challenge(&mut self, now: Nanos) -> bool {
        let limited = self.challenged.is_some_and(|at| now < at + self.invalid_ratelimit);
        if !limited {
            self.challenged = Some(now);
        }
        !limited || mutant!(ChallengesWithoutEnd)
    }

    fn take_syn(&mut self, now: Nanos, syn: &Segment) {
        let h = &self.handshake;
        let irs = seq::FIRST_LAP + u64::from(syn.seq);
        self.r.irs = irs;
        self.r.nxt = irs + 1;
        // A SYN that has left has promised its window.
        let promised = if h.sent > 0 { u64::from(h.syn_window) } else { 0 };
        self.r.advertised = irs + 1 + promised;
        self.r.last_ack = irs + 1;
        self.s.timestamps = h.timestamps && syn.options.has(Options::TIMESTAMPS);
        self.s.sack = h.sack && syn.options.has(Options::SACK_PERMITTED);
        if self.s.timestamps {
            self.r.ts_recent = syn.tsval;
        }
        // Scaling works only if both sides offer it (RFC 7323 section 2.2).
        self.handshake.peer_scales = self.handshake.scales && syn.options.has(Options::WSCALE);
        let h = &self.handshake;
        if h.peer_scales {
            self.s.wscale = syn.wscale.min(LARGEST_SCALE);
            self.r.wscale = h.wscale;
        } else {
            self.s.wscale = 0;
            self.r.wscale = 0;
        }
        let peer_mss = match syn.mss {
            mss if mss > 0 && syn.options.has(Options::MSS) => mss.max(MIN_MSS),
            _ => DEFAULT_MSS,
        };
        self.s.mss = u32::from(h.mss.min(peer_mss));
        let options = self.option_bytes();
        self.s.payload = self.s.mss - options;
        self.r.payload = u32::from(self.handshake.mss) - options;
        self.size_super_packets();
        self.r.sack = self.s.sack;
        self.r.timestamps = self.s.timestamps;
        self.s.last_received = now;
        self.s.wnd = u64::from(syn.window);
        self.s.max_wnd = self.s.wnd;
    }

    /// Whole segments, as many as an IP packet holds and the interface takes, but at least one.
    fn size_super_packets(&mut self) {
        let payload = self.s.payload;
        let most = (MAX_PAYLOAD - self.option_bytes()).min(self.handshake.tso_limit).max(payload);
        self.s.tso_max = most / payload * payload;
    }

    /// Bytes of the options that every segment carries.
    fn option_bytes(&self) -> u32 {
        if self.s.timestamps { TIMESTAMPS_BYTES } else { 0 }
    }
}

/// Changes of state.
impl Endpoint {
    fn establish(&mut self, now: Nanos) {
        let resent = self.handshake.sent > 1;
        let rtt = (!resent).then(|| now - self.handshake.first_sent);
        self.handshake.deadline = None;
        self.handshake.due = false;
        self.enter(if self.s.fin { State::FinWait1 } else { State::Established }, now);
        // Planted bugs lie on the long way.
        self.predicts = self.s.timestamps && !self.s.long_way && !cfg!(feature = "mutants");
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.sender.on_established(&mut self.s, rtt, resent, &mut cx);
        self.receiver.on_established(&mut self.r, &mut cx);
        self.limits.turn(now, Limit::App);
    }

    fn on_handshake_timeout(&mut self, now: Nanos) {
        if self.handshake.sent >= self.handshake.timeouts.len() || mutant!(SynSentOnce) {
            self.fail(now, Failure::HandshakeTimeout);
        } else {
            self.handshake.deadline = None;
            self.handshake.due = true;
        }
    }

    fn on_fin_acked(&mut self, now: Nanos) {
        match self.state {
            State::FinWait1 => self.enter(State::FinWait2, now),
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.enter(State::Closed, now),
            _ => {}
        }
    }

    fn on_peer_fin(&mut self, now: Nanos) {
        match self.state {
            State::Established => self.enter(State::CloseWait, now),
            State::FinWait1 if mutant!(NoClosing) => self.enter(State::Closed, now),
            State::FinWait1 => self.enter(State::Closing, now),
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Nanos) {
        self.time_wait_until = Some(self.timer_runs(now, self.time_wait));
        self.enter(State::TimeWait, now);
    }

    fn fail(&mut self, now: Nanos, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.handshake.deadline = None;
        self.handshake.due = false;
        self.r.ack_now = false;
        self.enter(State::Closed, now);
    }

    fn enter(&mut self, state: State, now: Nanos) {
        if state == State::Closed || state == State::TimeWait {
            self.limits.settle(now);
            self.limits.running = false;
        }
        self.state = state;
        self.events.push(EventKind::State, 0, state as i64);
    }

    /// Whether data, FINs and ACKs of them can still pass.
    #[inline]
    fn carries_data(&self) -> bool {
        matches!(
            self.state,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::FinWait2
                | State::Closing
                | State::LastAck
        )
    }
}
