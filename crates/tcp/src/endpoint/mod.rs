//! One TCP connection without I/O: states, handshake, options, windows and close (RFC 9293), around a family's sender
//! and receiver.
//!
//! A driver (the simulator, a TUN device, a script) calls [`Endpoint::on_segment`] and [`Endpoint::on_timer`], the
//! application's side calls [`Endpoint::write`], [`Endpoint::read`] and the closing calls, and after every such input
//! the driver calls [`Endpoint::poll_transmit`] until it returns None.

mod accurate;
mod ack;
mod close;
mod fast_open;
mod handshake;
mod icmp;
mod input;
mod keep_alive;
mod limits;
mod output;
mod socket;

pub(crate) use fast_open::end_by;
use handshake::Handshake;
pub use icmp::{Icmp, NetworkError};
use limits::{LimitClock, MIN_ROUND};
pub use limits::{LimitedTimes, Round};
use output::TsvalCache;

use wire::segment::{IPV6_HEADER, TCP_HEADER, TIMESTAMPS_BYTES};
use wire::{Ecn, Flags, Segment, seq};

use crate::accecn;
use crate::clock::{HostClock, Nanos, earliest};
use crate::context::Context;
use crate::event::Events;
use crate::fast_open::Welcome;
use crate::peers::Known;
use crate::receiver::{ReceiveState, Receiver};
use crate::sender::{Cork, Limit, Metrics, SegmentCounts, SendGrant, SendState, Sender};
use crate::stack::{EcnMode, Profile, SocketOptions, StackSpec, StateRules};
use crate::syn_cookies;

/// Largest super-packet, in bytes from the IP header on: what an interface takes by default (IP_MAXPACKET of FreeBSD).
const MAX_PACKET: u32 = 65_535;

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
    /// An ICMP error.
    Network(NetworkError),
}

/// How to make an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// The host's clock.
    pub clock: HostClock,
    /// Length in bytes of the IP header of its packets.
    pub ip_header: u32,
    /// MSS option to announce.
    pub mss: u16,
    /// Knowledge of the peer from other connections.
    pub known: Known,
    /// ECN of the host.
    pub ecn: EcnMode,
    /// Segmentation offload.
    pub tso: bool,
    /// Packets arrive in the buffers of their senders, as through a veth.
    pub veth: bool,
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

/// A connection's figures, in the spirit of TCP_INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Connection state.
    pub state: State,
    /// The sender's figures.
    pub sender: Metrics,
    /// Numbers of segments by what became of them. None for systems that do not tell.
    pub segments: Option<SegmentCounts>,
    /// The MSS we announced.
    pub announced_mss: u32,
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
    /// Segments sent again so far, counted likewise.
    pub retransmits: u64,
    /// Number of times that the SYN or SYN-ACK was sent again, which Linux's tcpi_total_retrans counts too (__tcp_retransmit_skb,
    /// tcp_create_openreq_child).
    pub syn_repeats: usize,
    /// Time under each limit up to the last transmission opportunity.
    pub limited: LimitedTimes,
    /// Timestamps were agreed.
    pub timestamps: bool,
    /// SACK was agreed.
    pub sack: bool,
    /// ECN was agreed.
    pub ecn: bool,
    /// Counters of Accurate ECN, where that was agreed.
    pub accecn: Option<AccEcnInfo>,
}

/// Figures of Accurate ECN. Bytes are those with ECT(1), ECT(0) and CE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccEcnInfo {
    /// Marked packets that have come.
    pub received_ce: u32,
    /// Payload that has come.
    pub received_bytes: [u32; 3],
    /// Payload of ours that arrived, as the peer tells.
    pub delivered_bytes: [u32; 3],
    /// Ways in which the path was found to mangle feedback.
    pub failures: accecn::Failures,
    /// State of the peer's option.
    pub seen: accecn::Seen,
}

/// A connection.
///
/// ```
/// use tcp::stack::{EcnMode, SocketOptions};
/// use tcp::{Config, Endpoint, HostClock, Listener, State, SynOutcome, profile};
///
/// let stack = profile::find("linux").expect("a stack of the catalogue");
/// let config = Config {
///     clock: HostClock::new(1000, 0, 0),
///     ip_header: 20,
///     mss: 1460,
///     known: Default::default(),
///     ecn: EcnMode::Off,
///     tso: false,
///     veth: false,
///     socket: SocketOptions { sndbuf: None, rcvbuf: None },
///     cc: "cubic",
///     iss: 1,
///     timestamp_offset: 0,
///     random: 1,
/// };
/// let mut client = Endpoint::connect(&*stack, &config, 0);
/// let syn = client.poll_transmit(0).expect("a SYN");
/// let SynOutcome::Connection(mut server) = Listener::new(&*stack).on_segment(10_000_000, &syn, &config) else {
///     panic!("it listens")
/// };
/// let syn_ack = server.poll_transmit(10_000_000).expect("a SYN-ACK");
/// client.on_segment(20_000_000, &syn_ack);
/// assert_eq!(client.state(), State::Established);
/// ```
// Begins with a cache line: from the middle of one it would reach into one more.
#[repr(align(64))]
pub struct Endpoint {
    state: State,
    failure: Option<Failure>,
    clock: HostClock,
    snd: SendState,
    rcv: ReceiveState,
    sender: Box<dyn Sender>,
    receiver: Box<dyn Receiver>,
    events: Events,
    handshake: Box<Handshake>,
    /// Sequence number and acknowledgement of the segment that last updated the window (SND.WL1, SND.WL2).
    snd_wl: (u64, u64),
    /// The peer's FIN, once seen, until its turn comes.
    peer_fin: Option<u64>,
    timestamp_offset: u32,
    /// ECN field of all that leaves, unless it is new data.
    base_ecn: Ecn,
    /// ECN field of the peer's new data, unless it is marked.
    usual_ecn: Ecn,
    /// Keep-alive is off and fast paths may be taken, so that an open connection has no timers but those of sender and receiver.
    usual_timers: bool,
    /// Header prediction may be tried: see [`Endpoint::is_predicted`].
    predicts_headers: bool,
    /// It may be tried with Accurate ECN: see [`Endpoint::is_predicted_accurate`].
    predicts_accurate: bool,
    /// See [`Endpoint::is_ecn_settled`].
    ecn_settled: bool,
    invalid_ratelimit: Nanos,
    /// When something invalid was last answered.
    last_challenge: Option<Nanos>,
    unread_resets: bool,
    rules: StateRules,
    /// The next ACK is a challenge, which stands for itself (RFC 5961).
    challenges: bool,
    /// The application has closed, and reads no more.
    closed_by_app: bool,
    /// See [`crate::stack::StackSpec::timer_wheel`].
    timer_wheel: bool,
    time_wait: Nanos,
    time_wait_until: Option<Nanos>,
    /// The last ICMP error that has not ended the connection.
    soft_error: Option<NetworkError>,
    /// Keep-alive, where it is on.
    keep_alive: Option<Box<keep_alive::Watch>>,
    /// A reset to send: (sequence number, acknowledgement).
    reset: Option<(u32, Option<u32>)>,
    /// The window field of the last ACK that rode on data, until something happens on the receiving side. Data that
    /// leaves until then carries the same acknowledgement.
    repeated_window: Option<u16>,
    limits: LimitClock,
    tsval_cache: TsvalCache,
    bytes_read: u64,
    data_segments_out: u64,
}

impl Endpoint {
    /// Opens a connection: the SYN leaves at the next [`Endpoint::poll_transmit`].
    pub fn connect(profile: &dyn Profile, config: &Config<'_>, now: Nanos) -> Endpoint {
        let mut endpoint = Endpoint::new(profile, config, profile.spec().syn_timeouts.clone());
        endpoint.handshake.syn_due = true;
        endpoint.enter_state(State::SynSent, now);
        endpoint
    }

    /// Answers `syn`: the SYN-ACK leaves at the next [`Endpoint::poll_transmit`]. See [`crate::listener::Listener`].
    pub(crate) fn accept(
        profile: &dyn Profile,
        config: &Config<'_>,
        now: Nanos,
        syn: &Segment,
        welcome: Welcome,
    ) -> Endpoint {
        let spec = profile.spec();
        // FreeBSD looks at Fast Open first.
        let opens =
            matches!(welcome, Welcome::Open(_)) && spec.syn_cookies.style == syn_cookies::Style::FreeBsd;
        let cookie = spec.syn_cookies.answers().filter(|_| !opens);
        let timeouts = if cookie.is_some() { Vec::new() } else { spec.synack_timeouts.clone() };
        let mut endpoint = Endpoint::new(profile, config, timeouts);
        endpoint.handshake.syn_due = true;
        endpoint.handshake.passive = true;
        endpoint.handshake.cookie = cookie;
        endpoint.take_syn(now, syn);
        // The window of a SYN-ACK knows the payload of a segment; that of a SYN does not.
        (endpoint.handshake.syn_window, _) = endpoint.receiver.syn_window(&endpoint.rcv);
        endpoint.agree_with_syn(syn);
        let linux = cookie == Some(syn_cookies::Style::Linux);
        endpoint.forget_ecn(linux && !endpoint.snd.timestamps);
        endpoint.enter_state(State::SynReceived, now);
        if !linux {
            endpoint.take_welcome(now, syn, welcome);
        }
        endpoint
    }

    fn new(profile: &dyn Profile, config: &Config<'_>, timeouts: Vec<Nanos>) -> Endpoint {
        let spec: &StackSpec = profile.spec();
        let ((sndbuf, sndbuf_auto), (rcvbuf, rcvbuf_auto)) = profile.buffers(&config.socket);
        let receiver = profile.receiver();
        let mut rcv = ReceiveState::new(rcvbuf, rcvbuf_auto);
        rcv.payload = u32::from(config.mss);
        rcv.lent = config.veth;
        let window = receiver.syn_window(&rcv);
        let iss = seq::FIRST_LAP + u64::from(config.iss);
        Endpoint {
            state: State::Closed,
            failure: None,
            clock: config.clock,
            snd: SendState {
                iss,
                una: iss,
                nxt: iss,
                max: iss,
                end: iss + 1,
                fin: false,
                no_delay: false,
                cork: Cork::default(),
                app_blocked: false,
                blocked_midway: false,
                wnd: 0,
                max_wnd: 0,
                wscale: 0,
                mss: u32::from(config.mss),
                payload: u32::from(config.mss),
                probe: 0,
                ipv6: config.ip_header == IPV6_HEADER,
                timestamps: false,
                sack: false,
                ecn: false,
                accecn: None,
                tso: config.tso,
                tso_max: MAX_PACKET - config.ip_header - TCP_HEADER,
                unqueued: config.veth,
                sndbuf,
                sndbuf_auto,
                retransmits: 0,
                last_received: 0,
                last_sent: 0,
                last_new_sent: 0,
                throttled: false,
                departure: 0,
                grant: SendGrant::default(),
                no_fast_path: false,
            },
            rcv,
            sender: profile.sender(config.cc, config.random),
            receiver,
            events: Events::default(),
            handshake: Box::new(Handshake::new(spec, config, window, timeouts)),
            snd_wl: (0, 0),
            peer_fin: None,
            timestamp_offset: config.timestamp_offset,
            base_ecn: Ecn::NotEct,
            usual_ecn: Ecn::NotEct,
            usual_timers: true,
            predicts_headers: false,
            predicts_accurate: false,
            ecn_settled: false,
            invalid_ratelimit: spec.invalid_ratelimit,
            last_challenge: None,
            unread_resets: spec.unread_resets,
            rules: spec.rules,
            challenges: false,
            closed_by_app: false,
            timer_wheel: spec.timer_wheel,
            time_wait: spec.time_wait,
            time_wait_until: None,
            soft_error: None,
            keep_alive: None,
            reset: None,
            repeated_window: None,
            limits: LimitClock::default(),
            tsval_cache: TsvalCache::default(),
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
        if segment.len > 0 {
            if self.is_predicted(segment) {
                self.take_predicted(now, segment);
                return;
            }
            if self.is_predicted_accurate(segment) {
                self.take_predicted_accurate(now, segment);
                return;
            }
        }
        match self.state {
            _ if self.rules.drop_synfin && segment.flags.has(Flags::SYN) && segment.flags.has(Flags::FIN) => {
            }
            State::Closed => self.answer_with_reset(segment),
            State::SynSent => self.on_segment_in_syn_sent(now, segment),
            State::TimeWait if self.rules.time_wait_checks => self.on_segment_in_time_wait(now, segment),
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
            self.enter_state(State::Closed, now);
        }
        if self.next_keep_alive().is_some_and(|at| at <= now) {
            self.on_keep_alive_timer(now);
        }
        if self.carries_data() {
            if self.state != State::SynReceived && self.sender.next_timer().is_some_and(|at| at <= now) {
                let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
                self.sender.on_timer(&mut self.snd, &mut cx);
                let gives_up = self.sender.gave_up();
                if self.handshake.fast_open.carried > 0 {
                    let in_a_row = self.sender.segment_counts().map_or(0, |counts| counts.backoff);
                    self.note_timeouts(in_a_row, gives_up);
                }
                if gives_up {
                    self.fail(now, Failure::Timeout);
                    return;
                }
            }
            if self.receiver.next_timer().is_some_and(|at| at <= now) {
                self.repeated_window = None;
                let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
                self.receiver.on_timer(&mut self.rcv, &mut cx);
            }
        }
    }

    /// When to call [`Endpoint::on_timer`]; may be early, so ask again after the call. None: never.
    #[inline(always)]
    pub fn next_timer(&self) -> Option<Nanos> {
        if self.state == State::Established && self.usual_timers {
            let receiver = self.receiver.next_timer();
            // A sender with nothing to send and nothing outstanding waits for nothing.
            return if self.snd.limit() == self.snd.una {
                receiver
            } else {
                earliest(self.sender.next_timer(), receiver)
            };
        }
        let mut at = earliest(self.handshake.deadline, self.time_wait_until);
        if self.carries_data() {
            at = earliest(at, self.receiver.next_timer());
            // Until its SYN-ACK is acknowledged, only that is sent again.
            if self.state != State::SynReceived {
                at = earliest(at, self.sender.next_timer());
            }
        }
        earliest(at, self.next_keep_alive())
    }

    /// The next segment to put on the wire. Call until None after every input.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Segment> {
        let mut segment = Segment::default();
        self.poll_transmit_into(now, &mut segment).then_some(segment)
    }

    /// The sending side, to be prefetched.
    #[inline]
    pub fn sender(&self) -> &dyn Sender {
        &*self.sender
    }

    /// The receiving side, to be prefetched.
    #[inline]
    pub fn receiver(&self) -> &dyn Receiver {
        &*self.receiver
    }

    /// The highest data that came out of order, to be prefetched.
    #[inline]
    pub fn newest_out_of_order(&self) -> Option<&(u64, u64)> {
        self.rcv.out_of_order.highest()
    }

    /// Whether polling could give a segment, or end the time under a limit. A quick test for drivers; a false alarm costs a
    /// poll.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.rcv.ack_now
            || self.snd.limit() != self.snd.una
            || self.limits.limit != Limit::App
            || self.state != State::Established
            || self.snd.no_fast_path
    }

    /// Whether data that is written now could be sent: not behind data for which the sender waits for a window.
    #[inline]
    pub fn data_may_flow(&self) -> bool {
        // A sender that grows its own buffer does so when it is polled.
        self.snd.sndbuf_auto
            || self.snd.limit() <= self.snd.max
            || !matches!(self.limits.limit, Limit::Cwnd | Limit::Rwnd)
            || self.state != State::Established
    }

    /// Takes no fast path from now on: slower, and equal in every result, which tests compare. To be called before the
    /// connection is open. [`Endpoint::data_may_flow`] is the driver's and stays.
    pub fn disable_fast_paths(&mut self) {
        self.usual_timers = false;
        self.snd.no_fast_path = true;
        self.rcv.no_fast_path = true;
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

    /// `bytes` of payload have left the host: its NIC has sent them. A driver without a queue of its own calls this
    /// as soon as it has the segment. Without these calls a stack that limits what waits in its host stops sending
    /// (Linux TSQ).
    pub fn on_tx_complete(&mut self, now: Nanos, bytes: u32) {
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.sender.on_tx_complete(&mut self.snd, bytes, &mut cx);
    }

    /// The host's own transmit queue refused the last segment (FreeBSD sees ENOBUFS, Linux a local congestion notice).
    pub fn on_tx_dropped(&mut self, now: Nanos) {
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.sender.on_tx_dropped(&mut self.snd, &mut cx);
    }

    /// The interface takes segments of at most `payload` bytes, or of one MSS where that is more.
    pub fn limit_tso(&mut self, payload: u32) {
        self.handshake.tso_limit = payload;
        self.size_super_packets();
    }

    /// Whether [`Endpoint::on_tx_complete`] is awaited before more can be sent.
    #[inline]
    pub fn wants_tx_complete(&self) -> bool {
        self.snd.throttled
    }

    /// Time before which the host's queue is to keep `segment`, which was just made; 0: it may leave at once.
    #[inline]
    pub fn due(&self, segment: &Segment) -> Nanos {
        if segment.seq_len() > 0 { self.snd.departure } else { 0 }
    }

    /// Reports since the last call.
    pub fn events(&mut self) -> &mut Events {
        &mut self.events
    }

    /// The connection's figures at `now`.
    pub fn info(&mut self, now: Nanos) -> TcpInfo {
        self.limits.settle(now);
        let segments = self.sender.segment_counts();
        TcpInfo {
            state: self.state,
            sender: self.sender.metrics(&self.snd),
            segments,
            announced_mss: u32::from(self.handshake.mss),
            snd_mss: self.snd.mss - self.option_bytes(),
            snd_wnd: self.snd.wnd,
            send_buffer: self.send_buffer(),
            outstanding: self.snd.outstanding(),
            bytes_acked: self.bytes_acked(),
            bytes_read: self.bytes_read,
            data_segments_out: self.data_segments_out,
            retransmits: self.snd.retransmits,
            syn_repeats: self.handshake.sent.saturating_sub(1),
            limited: self.limits.times,
            timestamps: self.snd.timestamps,
            sack: self.snd.sack,
            ecn: self.snd.ecn,
            accecn: self.snd.accecn.as_ref().map(|accecn| AccEcnInfo {
                received_ce: accecn.received_ce(),
                received_bytes: accecn.received_bytes(),
                delivered_bytes: accecn.delivered_bytes(),
                failures: accecn.failures(),
                seen: accecn.seen(),
            }),
        }
    }

    /// Whether everything is acknowledged that was sent when the present round began, and enough of it.
    #[inline(always)]
    pub fn round_is_over(&self) -> bool {
        self.snd.una >= self.limits.round_end
    }

    /// Ends the present round, at any time, and begins the next.
    pub fn end_round(&mut self, now: Nanos) -> Round {
        self.limits.settle(now);
        let snd = &self.snd;
        self.limits.round_end = snd.max.max(snd.una + MIN_ROUND * u64::from(snd.payload));
        Round {
            acked: self.bytes_acked(),
            header: self.handshake.ip_header + TCP_HEADER + if snd.timestamps { TIMESTAMPS_BYTES } else { 0 },
            payload: snd.payload,
            limited: self.limits.times,
        }
    }

    fn bytes_acked(&self) -> u64 {
        let snd = &self.snd;
        snd.una.saturating_sub(snd.iss + 1).min(snd.end - snd.iss - 1)
    }

    /// Congestion window, bytes.
    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.sender.cwnd(&self.snd)
    }

    /// Smoothed RTT as the system holds it, in ns; 0 before the first sample.
    pub fn srtt(&self) -> Nanos {
        self.sender.srtt(&self.snd).unwrap_or(0)
    }

    /// Whether both sides scale their windows.
    pub fn scales_windows(&self) -> bool {
        self.handshake.peer_scales
    }

    /// Payload of a full segment, bytes.
    #[inline]
    pub fn payload(&self) -> u32 {
        self.snd.payload
    }

    /// Payload read by our application so far, bytes.
    #[inline]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The window that the last acknowledgement offered, bytes.
    pub fn receive_window(&self) -> u64 {
        self.rcv.advertised.saturating_sub(self.rcv.last_ack)
    }

    /// Send buffer, bytes as the system counts it: payload, on Linux memory.
    pub fn send_buffer(&self) -> u64 {
        self.sender.send_buffer(&self.snd)
    }

    /// Receive buffer, bytes as the system counts it: payload, on Linux memory.
    pub fn receive_buffer(&self) -> u64 {
        self.rcv.rcvbuf
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
