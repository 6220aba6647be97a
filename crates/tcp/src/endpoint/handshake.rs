//! Opening: SYN and SYN-ACK, what they negotiate, and what happens when they get no answer (RFC 9293 section 3.5).

use wire::segment::{DEFAULT_MSS, MAX_WINDOW_SHIFT, TCP_HEADER, TIMESTAMPS_BYTES};
use wire::{Ecn, Flags, Options, Segment, seq};

use super::fast_open::FastOpen;
use super::{Config, Endpoint, Failure, MAX_PACKET, State};
use crate::accecn;
use crate::clock::{MILLISECOND, Nanos};
use crate::context::Context;
use crate::event::EventKind;
use crate::peers::{self, Known, Lesson};
use crate::sender::{Limit, Opening};
use crate::stack::{EcnMode, StackSpec};
use crate::syn_cookies;

/// The smallest MSS that a peer is believed, options included (Linux's TCP_MIN_SND_MSS).
const MIN_MSS: u16 = 48;

/// So many SYNs offer all options where later ones do not.
const SYNS_WITH_OPTIONS: usize = 3;

/// State of the opening of a connection.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) mss: u16,
    /// See [`Config::ip_header`].
    pub(super) ip_header: u32,
    /// Knowledge of the peer: see [`Config::known`].
    pub(super) known: Known,
    /// Rules by which the host keeps what the connection learns.
    pub(super) keeping: peers::Settings,
    /// See [`Endpoint::lesson`].
    pub(super) lesson: Option<(Nanos, Lesson)>,
    pub(super) ecn: EcnMode,
    /// See [`StackSpec::accecn`].
    pub(super) accecn: accecn::Settings,
    pub(super) timestamps: bool,
    pub(super) sack: bool,
    pub(super) wscale: u8,
    /// Window scaling is offered and accepted.
    pub(super) scales: bool,
    /// The peer's SYN offered window scaling.
    pub(super) peer_scales: bool,
    /// See [`crate::receiver::Receiver::syn_window`].
    pub(super) syn_window: u64,
    /// We were asked: a SYN came first.
    pub(super) passive: bool,
    /// Rules by which nothing but a cookie is kept of the SYN.
    pub(super) cookie: Option<syn_cookies::Style>,
    /// See [`Endpoint::limit_tso`].
    pub(super) tso_limit: u32,
    pub(super) timeouts: Vec<Nanos>,
    /// See [`crate::stack::KeepAlive::attempt`].
    pub(super) attempt: Option<Nanos>,
    /// See [`crate::stack::StackSpec::syn_retry_ticks`].
    pub(super) syn_retry_ticks: Option<u64>,
    pub(super) sent: usize,
    /// Those repeated because nothing came.
    pub(super) timed_out: u8,
    pub(super) first_sent: Nanos,
    /// A SYN or SYN-ACK must leave.
    pub(super) syn_due: bool,
    pub(super) deadline: Option<Nanos>,
    /// See [`Endpoint::set_user_timeout`].
    pub(super) user_timeout: Option<Nanos>,
    /// See [`Endpoint::note_accepted`].
    pub(super) accepted: bool,
    pub(super) fast_open: FastOpen,
}

impl Handshake {
    /// One that has sent nothing; `window` and its scale are what the receiver offers in a SYN.
    pub(super) fn new(
        spec: &StackSpec,
        config: &Config<'_>,
        (syn_window, wscale): (u64, u8),
        timeouts: Vec<Nanos>,
    ) -> Handshake {
        Handshake {
            mss: config.mss,
            ip_header: config.ip_header,
            known: config.known,
            keeping: spec.peers,
            lesson: None,
            ecn: config.ecn,
            accecn: spec.accecn,
            timestamps: spec.timestamps,
            sack: spec.sack,
            wscale,
            scales: spec.window_scaling,
            peer_scales: false,
            syn_window,
            passive: false,
            cookie: None,
            tso_limit: u32::MAX,
            timeouts,
            attempt: spec.keep_alive.attempt,
            syn_retry_ticks: spec.syn_retry_ticks,
            sent: 0,
            timed_out: 0,
            first_sent: 0,
            syn_due: false,
            deadline: None,
            user_timeout: None,
            accepted: false,
            fast_open: FastOpen::none(spec.fast_open.style),
        }
    }

    /// Notes what the path takes; it does not grow.
    pub(super) fn learn_path_mtu(&mut self, mtu: u32) {
        self.known.path_mtu = Some(self.known.path_mtu.map_or(mtu, |known| known.min(mtu)));
    }

    /// The MSS that a SYN offers: the interface's, or where the system notes a path's MTU, what that leaves (tcp_mssopt of FreeBSD).
    fn offered_mss(&self) -> u16 {
        let path = self.known.path_mtu.map(|mtu| mtu - self.ip_header - TCP_HEADER);
        path.map_or(self.mss, |mss| self.mss.min(mss as u16))
    }
}

impl Endpoint {
    pub(super) fn syn_segment(&mut self, now: Nanos) -> Segment {
        let gap = self.handshake.timeouts.get(self.handshake.sent);
        let deadline = gap.map(|&gap| self.timer_expiry(now, gap));
        let sent = self.handshake.sent;
        let room = self.room_on_syn();
        let h = &mut self.handshake;
        h.syn_due = false;
        if h.sent == 0 {
            h.first_sent = now;
        }
        let passive = self.state == State::SynReceived;
        let repeated = h.user_timeout.filter(|_| h.sent > 0);
        let end = h.attempt.or(repeated).filter(|_| !passive).map(|longest| h.first_sent + longest);
        h.deadline = deadline.map(|at| at.min(end.unwrap_or(at)));
        h.sent += 1;
        if self.rules.rexmit_drop_options && !passive && h.sent > SYNS_WITH_OPTIONS {
            (h.timestamps, h.sack, h.scales) = (false, false, false);
        }
        let mut segment = Segment {
            seq: seq::wire(self.snd.iss),
            window: h.syn_window.min(u16::MAX.into()) as u16,
            mss: h.offered_mss(),
            flags: Flags::SYN,
            options: Options::MSS,
            frames: 1,
            ..Segment::default()
        };
        // A SYN-ACK offers only what the SYN did (RFC 7323 section 1.3, RFC 2018 section 2).
        if h.timestamps && (!passive || self.snd.timestamps) {
            segment.options |= Options::TIMESTAMPS;
            segment.tsval = self.clock.timestamp_ms(now).wrapping_add(self.timestamp_offset);
            segment.tsecr = self.rcv.ts_recent;
        }
        if h.sack && (!passive || self.snd.sack) {
            segment.options |= Options::SACK_PERMITTED;
        }
        if h.scales && (!passive || h.peer_scales) {
            segment.options |= Options::WSCALE;
            segment.wscale = h.wscale;
        }
        if let Some(cookie) = h.cookie.filter(|_| segment.options.has(Options::TIMESTAMPS)) {
            let stamp = cookie.timestamp(self.clock.timestamp_ms(now), &segment, self.snd.ecn);
            segment.tsval = stamp.wrapping_add(self.timestamp_offset);
        }
        if passive {
            segment.flags |= Flags::ACK;
            segment.ack = seq::wire(self.rcv.nxt);
            self.write_syn_ack(&mut segment, sent);
        } else {
            segment.flags |= self.syn_flags(sent);
        }
        if self.sender.needs_ecn() && (!passive || self.snd.ecn) {
            segment.ecn = self.syn_field();
        }
        if sent == 0 {
            self.write_fast_open(&mut segment, room);
        }
        self.snd.nxt = self.snd.iss + 1 + u64::from(segment.len);
        self.snd.max = self.snd.max.max(self.snd.nxt);
        self.rcv.advertised = self.rcv.nxt + self.handshake.syn_window;
        self.rcv.last_ack = self.rcv.nxt;
        segment
    }

    /// Whether our SYN asks for ECN.
    pub(super) fn asks_for_ecn(&self) -> bool {
        self.handshake.ecn.asks() || self.sender.needs_ecn()
    }

    /// Whether a SYN gets ECN. One that could be marked itself is not of RFC 3168: Linux grants it only for a congestion control that
    /// needs ECN (tcp_ecn_create_request).
    pub(super) fn grants_ecn(&self, syn: &Segment) -> bool {
        let plain = syn.ecn == Ecn::NotEct || syn.flags.has(Flags::AE) || !self.rules.ect_syn_gets_no_ecn;
        let may = plain && self.handshake.ecn != EcnMode::Off || self.sender.needs_ecn();
        may && syn.flags.has(Flags::ECE | Flags::CWR)
    }

    /// SYN-SENT (RFC 9293 section 3.10.7.3).
    pub(super) fn on_segment_in_syn_sent(&mut self, now: Nanos, segment: &Segment) {
        let acked = segment.flags.has(Flags::ACK);
        let ack = seq::extend(self.snd.max, segment.ack);
        let carried = u64::from(self.handshake.fast_open.carried);
        let acceptable = acked && ack > self.snd.iss && ack <= self.snd.iss + 1 + carried;
        if acked && !acceptable {
            self.answer_with_reset(segment);
            self.retry_syn_soon(now);
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
            self.handshake.syn_due = true;
            self.receiver.on_syn(&mut self.rcv);
            self.agree_with_syn(segment);
            if segment.len > 0 && self.rules.syn_data_waits {
                let first = self.rcv.nxt;
                self.rcv.out_of_order.insert(first, first + u64::from(segment.len), |_, _| {});
            }
            self.enter_state(State::SynReceived, now);
            return;
        }
        self.agree_with_syn_ack(segment);
        // The window of a SYN-ACK is not scaled (RFC 7323 section 2.2).
        self.snd.wnd = u64::from(segment.window);
        self.snd.max_wnd = self.snd.wnd;
        self.snd_wl = (self.rcv.irs, self.snd.iss + 1);
        self.settle_carried(ack);
        self.note_answer(segment);
        self.establish(now);
        if self.ack_waits_for_data() {
            self.receiver.on_write_pending();
        } else {
            self.rcv.ack_now = true;
        }
        self.take_payload(now, segment, self.rcv.irs);
    }

    pub(super) fn take_syn(&mut self, now: Nanos, syn: &Segment) {
        let h = &self.handshake;
        let irs = seq::FIRST_LAP + u64::from(syn.seq);
        self.rcv.irs = irs;
        self.rcv.nxt = irs + 1;
        // A SYN that has left has promised its window.
        let promised = if h.sent > 0 { h.syn_window } else { 0 };
        self.rcv.advertised = irs + 1 + promised;
        self.rcv.last_ack = irs + 1;
        self.snd.timestamps = h.timestamps && syn.options.has(Options::TIMESTAMPS);
        let kept = h.cookie.is_none_or(|cookie| cookie.keeps_options(self.snd.timestamps));
        self.snd.sack = h.sack && syn.options.has(Options::SACK_PERMITTED) && kept;
        if self.snd.timestamps {
            self.rcv.ts_recent = syn.tsval;
        }
        // Scaling works only if both sides offer it (RFC 7323 section 2.2).
        self.handshake.peer_scales = self.handshake.scales && syn.options.has(Options::WSCALE) && kept;
        let h = &self.handshake;
        if h.peer_scales {
            let scale = syn.wscale.min(MAX_WINDOW_SHIFT);
            self.snd.wscale = h.cookie.map_or(scale, |cookie| cookie.scale(scale));
            self.rcv.wscale = h.wscale;
        } else {
            self.snd.wscale = 0;
            self.rcv.wscale = 0;
        }
        let peer_mss = match syn.mss {
            mss if mss > 0 && syn.options.has(Options::MSS) => mss.max(MIN_MSS),
            _ => DEFAULT_MSS,
        };
        let peer_mss = h.cookie.map_or(peer_mss, |cookie| cookie.mss(syn, peer_mss, self.snd.ipv6));
        self.snd.mss = u32::from(h.offered_mss().min(peer_mss));
        let options = self.option_bytes();
        self.snd.payload = self.snd.mss - options;
        self.rcv.payload = u32::from(self.handshake.mss) - options;
        self.size_super_packets();
        self.rcv.sack = self.snd.sack;
        self.rcv.timestamps = self.snd.timestamps;
        self.snd.last_received = now;
        self.snd.wnd = u64::from(syn.window);
        self.snd.max_wnd = self.snd.wnd;
    }

    pub(super) fn establish(&mut self, now: Nanos) {
        let first_sent = self.handshake.first_sent;
        let cookie = self.handshake.cookie;
        let repeats = if cookie.is_some() { 0 } else { self.handshake.sent.saturating_sub(1) as u32 };
        if let Some(cookie) = cookie {
            self.forget_ecn(cookie == syn_cookies::Style::FreeBsd);
        }
        let rtt = if cookie == Some(syn_cookies::Style::Linux) {
            // Nobody knows when the SYN-ACK left, but for its timestamp (tcp_ack_update_rtt).
            let passed = self.clock.timestamp_ms(now).wrapping_sub(self.rcv.tsecr);
            self.snd.timestamps.then(|| u64::from(passed) * MILLISECOND)
        } else {
            (repeats == 0).then(|| now - first_sent)
        };
        let opening = Opening {
            rtt,
            repeats,
            original_answered: self.snd.timestamps && self.rcv.tsecr == self.clock.timestamp_ms(first_sent),
            rcv_nxt: self.rcv.nxt,
            passive: self.handshake.passive,
            known: self.handshake.known,
        };
        self.handshake.deadline = None;
        self.handshake.syn_due = false;
        self.enter_state(if self.snd.fin { State::FinWait1 } else { State::Established }, now);
        self.predicts_headers = self.snd.timestamps && !self.snd.no_fast_path;
        let opened_early = self.handshake.fast_open.opens_early();
        let begun = self.begun_early();
        self.begin_keep_alive(now);
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        if !begun {
            self.sender.on_established(&mut self.snd, opening, &mut cx);
        }
        if !opened_early {
            self.receiver.on_established(&mut self.rcv, &mut cx);
        }
        if self.snd.ecn {
            self.usual_ecn = Ecn::Ect0;
            self.predicts_headers &= !self.sender.hears_ecn();
            if self.sender.needs_ecn() {
                self.base_ecn = Ecn::Ect0;
            }
            self.establish_accurate(now);
        }
        if self.rcv.out_of_order.first().is_some_and(|(start, _)| start == self.rcv.nxt) {
            self.advance(self.rcv.nxt);
        }
        self.limits.switch_to(now, Limit::App);
    }

    /// The peer acknowledged something else, perhaps of an old connection, which our reset has ended. Some systems
    /// send the first SYN again soon.
    fn retry_syn_soon(&mut self, now: Nanos) {
        let h = &mut self.handshake;
        if let Some(ticks) = h.syn_retry_ticks
            && h.sent == 1
        {
            h.deadline = Some(self.clock.linux_timer(now, ticks * self.clock.tick_ns()));
        }
    }

    pub(super) fn on_handshake_timeout(&mut self, now: Nanos) {
        let h = &self.handshake;
        let passive = self.state == State::SynReceived;
        let repeated = h.user_timeout.filter(|_| h.sent > 1);
        let longest = h.attempt.or(repeated);
        let over = longest.is_some_and(|longest| !passive && now >= h.first_sent + longest);
        let gives_up = over || h.sent >= h.timeouts.len();
        self.note_timeouts(self.handshake.sent as u32, gives_up);
        if gives_up {
            self.fail(now, Failure::HandshakeTimeout);
        } else {
            self.handshake.deadline = None;
            self.handshake.syn_due = true;
            self.handshake.timed_out = self.handshake.timed_out.saturating_add(1);
            if !passive {
                // The timer of retransmissions is the SYN's too: Linux counts it in tcpi_total_rto, FreeBSD in tcps_rexmttimeo.
                self.events.push(EventKind::Rto, 0, i64::from(self.handshake.timed_out));
            }
        }
    }

    /// No ECN was agreed on after all, if so.
    pub(super) fn forget_ecn(&mut self, so: bool) {
        if so {
            self.snd.ecn = false;
            self.snd.accecn = None;
        }
    }

    /// Sets the largest transmission: whole segments, as many as an IP packet holds and the interface takes, at least
    /// one.
    pub(super) fn size_super_packets(&mut self) {
        let payload = self.snd.payload;
        let most = (MAX_PACKET - self.handshake.ip_header - TCP_HEADER - self.option_bytes())
            .min(self.handshake.tso_limit)
            .max(payload);
        self.snd.tso_max = most / payload * payload;
    }

    /// Bytes of the options that every segment carries all the time.
    pub(super) fn option_bytes(&self) -> u32 {
        if self.snd.timestamps { TIMESTAMPS_BYTES } else { 0 }
    }
}
