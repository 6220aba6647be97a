//! TCP Fast Open (RFC 7413) of one connection: data on the SYN and the SYN-ACK, and a connection that is open to its application
//! before the handshake is over.

use wire::segment::DEFAULT_MSS;
use wire::{Options, Segment};

use super::{Config, Endpoint, State};
use crate::clock::{MILLISECOND, Nanos};
use crate::context::Context;
use crate::fast_open::{Answer, Attempt, News, Style, Welcome};
use crate::sender::Opening;
use crate::stack::Profile;

/// Room that Linux keeps for options on a SYN with data (MAX_TCP_OPTION_SPACE).
const LINUX_OPTION_SPACE: u32 = 40;
/// Time for which FreeBSD's SYN-ACK waits for data of the application to take along (TCPTV_DELACK).
const SYN_ACK_DELAY: Nanos = 40 * MILLISECOND;
/// Timeouts in a row at which Linux takes the path for a black hole.
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// Fast Open of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastOpen {
    style: Style,
    /// Attempt of a client.
    attempt: Option<Attempt>,
    /// Verdict of a server on the SYN.
    welcome: Welcome,
    /// Payload that the SYN or SYN-ACK carried.
    pub(super) carried: u32,
    /// The sender of a connection in SYN-RECEIVED has begun.
    begun: bool,
    /// Data of a SYN was taken: of ours by the peer, of the peer's by us.
    taken: bool,
    news: Option<News>,
}

impl FastOpen {
    pub(super) fn none(style: Style) -> FastOpen {
        FastOpen {
            style,
            attempt: None,
            welcome: Welcome::Plain(None),
            carried: 0,
            begun: false,
            taken: false,
            news: None,
        }
    }

    /// Whether the connection is open to its application before the handshake is over.
    pub(super) fn opens_early(&self) -> bool {
        matches!(self.welcome, Welcome::Open(_))
    }
}

/// Leaves out the transmissions of a SYN that would leave `limit` after the first, or later.
///
/// Linux gives up by time as well as by number: by the time that doubling gaps take without those that are alike
/// (retransmits_timed_out, tcp_model_timeout).
pub(crate) fn end_by(timeouts: &mut Vec<Nanos>, limit: Nanos) {
    let mut passed = 0;
    let before = |gap: &&Nanos| {
        let leaves = passed < limit;
        passed += **gap;
        leaves
    };
    let kept = timeouts.iter().take_while(before).count();
    timeouts.truncate(kept);
}

impl Endpoint {
    /// Opens a connection with Fast Open: what is written before the next [`Endpoint::poll_transmit`] leaves with the SYN, up
    /// to [`Endpoint::room_on_syn`]. What comes of it stands in [`Endpoint::fast_open_news`].
    pub fn connect_fast_open(
        profile: &dyn Profile,
        config: &Config<'_>,
        now: Nanos,
        attempt: Attempt,
    ) -> Endpoint {
        let mut endpoint = Endpoint::connect(profile, config, now);
        endpoint.handshake.fast_open.attempt = Some(attempt);
        endpoint
    }

    /// Payload that the SYN can carry; 0 once it has left.
    pub fn room_on_syn(&self) -> u32 {
        let h = &self.handshake;
        let Some(attempt) = h.fast_open.attempt.filter(|attempt| attempt.data && h.sent == 0) else {
            return 0;
        };
        let mss = if attempt.mss > 0 { h.mss.min(attempt.mss) } else { h.mss };
        let options = match h.fast_open.style {
            Style::FreeBsd => {
                let plain = 8 + u32::from(h.timestamps) * 12;
                (plain + attempt.option.map_or(0, |cookie| cookie.option_bytes()) + 3) & !3
            }
            _ => LINUX_OPTION_SPACE,
        };
        u32::from(mss).saturating_sub(options)
    }

    /// News for the host since the last call.
    pub fn fast_open_news(&mut self) -> Option<News> {
        self.handshake.fast_open.news.take()
    }

    /// Data of a SYN was taken: of ours by the peer, of the peer's by us (Linux's TCPI_OPT_SYN_DATA).
    pub fn syn_data_taken(&self) -> bool {
        self.handshake.fast_open.taken
    }

    /// Whether the connection is open to its application though its SYN-ACK is not acknowledged.
    pub fn opened_early(&self) -> bool {
        self.state == State::SynReceived && self.handshake.fast_open.opens_early()
    }

    /// Whether data may be written before the handshake is over: it leaves with the SYN, or behind a SYN-ACK.
    pub fn takes_early_data(&self) -> bool {
        self.room_on_syn() > 0 || self.opened_early()
    }

    /// [`Endpoint::shutdown`] of an application that has written before the connection is open: the FIN waits until it is.
    pub fn shutdown_when_open(&mut self, now: Nanos) {
        if self.state == State::SynSent && self.handshake.fast_open.attempt.is_some() {
            self.snd.fin = true;
            self.snd.app_blocked = false;
        } else {
            self.shutdown(now);
        }
    }

    /// The SYN is sent again so often (TCP_SYNCNT), besides those of Linux that follow each other at the first distance.
    pub fn set_syn_retries(&mut self, retries: usize) {
        let timeouts = &mut self.handshake.timeouts;
        let alike = timeouts.iter().take_while(|gap| Some(*gap) == timeouts.first()).count();
        timeouts.truncate(alike + retries);
        let doubling: Nanos = timeouts.iter().skip(alike.saturating_sub(1)).sum();
        end_by(timeouts, doubling);
    }

    /// The application waits in a call that writes: the ACK of a SYN-ACK waits for its data (tcp_rcv_synsent_state_process).
    pub fn set_write_pending(&mut self, pending: bool) {
        self.snd.app_blocked = pending;
    }

    /// A SYN for which the host has this welcome: takes its data where that opens the connection.
    pub(super) fn take_welcome(&mut self, now: Nanos, syn: &Segment, welcome: Welcome) {
        let fast_open = &mut self.handshake.fast_open;
        fast_open.welcome = welcome;
        if !fast_open.opens_early() {
            return;
        }
        fast_open.taken = syn.len > 0;
        let waits = fast_open.style == Style::FreeBsd;
        self.rcv.nxt += u64::from(syn.len);
        self.rcv.readable += u64::from(syn.len);
        self.snd.una = self.snd.iss + 1;
        self.snd.nxt = self.snd.una;
        self.snd.max = self.snd.una;
        let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
        self.receiver.on_established(&mut self.rcv, &mut cx);
        if waits {
            self.handshake.syn_due = false;
            self.handshake.deadline = Some(now + SYN_ACK_DELAY);
        }
    }

    /// A SYN-ACK that waits leaves as soon as there is data for it.
    pub(super) fn hasten_syn_ack(&mut self) {
        let waits = self.handshake.sent == 0 && self.opened_early();
        if waits && self.snd.limit() != self.snd.una {
            self.handshake.syn_due = true;
        }
    }

    /// Puts option and data on the first SYN or SYN-ACK; one that is sent again has neither, as either may be what was lost.
    pub(super) fn write_fast_open(&mut self, segment: &mut Segment, room: u32) {
        let early = self.opened_early();
        let fast_open = &mut self.handshake.fast_open;
        let (option, room) = match (fast_open.attempt, fast_open.welcome) {
            (Some(attempt), _) => (attempt.option, room),
            (None, Welcome::Plain(answer)) => (answer, 0),
            // Linux's data follows in segments of its own.
            (None, Welcome::Open(answer)) if fast_open.style == Style::FreeBsd && early => {
                (answer, self.snd.mss)
            }
            (None, Welcome::Open(answer)) => (answer, 0),
        };
        if let Some(cookie) = option {
            segment.set_cookie(cookie);
            if segment.option_bytes() > LINUX_OPTION_SPACE {
                segment.clear_cookie();
                return;
            }
        }
        // FreeBSD's data leaves room for just the options there are; a client's is reckoned before.
        let room = if early { room.saturating_sub(segment.option_bytes()) } else { room };
        segment.len = u64::from(room).min(self.snd.end - self.snd.iss - 1) as u32;
        fast_open.carried = segment.len;
        self.data_segments_out += u64::from(segment.len > 0);
    }

    /// Payload that a SYN carried and is not acknowledged with it is to be sent again, at once. To Linux's sender it is under
    /// way, and lost; to others it counts as not sent.
    pub(super) fn settle_carried(&mut self, ack: u64) {
        let (snd, fast_open) = (&mut self.snd, &mut self.handshake.fast_open);
        if fast_open.carried == 0 {
            snd.una = snd.una.max(snd.iss + 1);
            return;
        }
        let end = snd.iss + 1 + u64::from(fast_open.carried);
        snd.una = ack.min(end);
        if fast_open.attempt.is_some() {
            fast_open.taken = snd.una == end;
        }
        let counts = fast_open.style == Style::Linux;
        (snd.nxt, snd.max) = if counts { (end, end) } else { (snd.una, snd.una) };
        snd.retransmits += u64::from(!counts && snd.una < end);
    }

    /// Whether the ACK of the SYN-ACK need not leave by itself: data follows at once.
    pub(super) fn ack_waits_for_data(&self) -> bool {
        self.snd.app_blocked && self.snd.wnd > 0 && self.handshake.fast_open.style == Style::Linux
    }

    /// The SYN-ACK of a client.
    pub(super) fn note_answer(&mut self, syn_ack: &Segment) {
        // What the peer takes, whatever the application has asked for (tcp_rcv_fastopen_synack).
        let told = syn_ack.options.has(Options::MSS) && syn_ack.mss > 0;
        let mss = if told { syn_ack.mss } else { DEFAULT_MSS };
        let h = &mut self.handshake;
        let Some(attempt) = h.fast_open.attempt else { return };
        h.fast_open.news = Some(News::Answered(Answer {
            cookie: syn_ack.cookie(),
            mss,
            attempt,
            sent_data: h.fast_open.carried > 0,
            acknowledged: h.fast_open.taken,
            repeated: h.sent > 1,
        }));
    }

    /// Data of a connection in SYN-RECEIVED that is open to its application; FreeBSD's waits for the handshake.
    pub(super) fn poll_early(&mut self, now: Nanos, segment: &mut Segment) -> bool {
        if self.handshake.fast_open.style == Style::FreeBsd {
            return false;
        }
        if self.snd.limit() != self.snd.una && !self.handshake.fast_open.begun {
            self.handshake.fast_open.begun = true;
            let known = self.handshake.known;
            let opening = Opening { rcv_nxt: self.rcv.nxt, passive: true, known, ..Opening::default() };
            let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
            self.sender.on_established(&mut self.snd, opening, &mut cx);
        }
        self.handshake.fast_open.begun && self.poll_data(now, segment) || self.poll_ack(now, segment)
    }

    /// Room in the buffer of a connection that takes data before its sender has begun, which counts it.
    pub(super) fn space_early(&self) -> Option<u64> {
        let opening = matches!(self.state, State::SynSent | State::SynReceived);
        let fast_open = &self.handshake.fast_open;
        let early = opening && !fast_open.begun && (fast_open.attempt.is_some() || fast_open.opens_early());
        early.then(|| self.snd.sndbuf.saturating_sub(self.snd.end - self.snd.iss - 1))
    }

    /// Whether the sender has begun before the handshake was over, so that it must not begin again.
    pub(super) fn begun_early(&self) -> bool {
        self.handshake.fast_open.begun
    }

    /// A timeout of the handshake, or of data, and how many there were in a row with it.
    pub(super) fn note_timeouts(&mut self, in_a_row: u32, gives_up: bool) {
        if in_a_row == BLACK_HOLE_TIMEOUTS || in_a_row < BLACK_HOLE_TIMEOUTS && gives_up {
            self.note_black_hole();
        }
    }

    /// A reset or a FIN came out of order where no data had come (tcp_validate_incoming, tcp_fastopen_active_disable_ofo_check).
    pub(super) fn note_out_of_order_end(&mut self) {
        if self.rcv.nxt == self.rcv.irs + 1 {
            self.note_black_hole();
        }
    }

    fn note_black_hole(&mut self) {
        let fast_open = &mut self.handshake.fast_open;
        if fast_open.attempt.is_some() && fast_open.style == Style::Linux {
            fast_open.news = Some(News::BlackHole);
        }
    }
}
