//! The sender of media: frames become packets, which wait until the controller lets them go.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;

use super::encoder::Encoder;
use super::gcc::Gcc;
use super::receiver::Report;
use super::scream::Scream;
use super::{Acked, Control, Controller, Feedback, Media, STALE};
use crate::{EcnField, Nanos};

/// Time without a report after which a packet leaves now and then although the controller's window is full: feedback may be lost, and
/// without packets there is none. RFC 8298 has such a rate and names no time; it is ours.
const SILENCE: Nanos = 500_000_000;
/// Rate of these packets, bit/s: RATE_PACE_MIN of RFC 8298 section 4.1.1.1.
const PROBE_BPS: u64 = 50_000;

/// A packet that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Number of the packet, from 0.
    pub number: u64,
    /// Payload, bytes.
    pub payload: u32,
}

/// News that a sender has of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Target rate from now on, bit/s.
    pub target_bps: u64,
    /// Round trip of the newest packet, without the time that it waited for its report. None: the report has nothing new.
    pub rtt: Option<Nanos>,
    /// Queueing delay as the controller sees it.
    pub queue_delay: Nanos,
    /// Packets that have waited for too long since the last report, and were left out.
    pub left_out: u64,
    /// Packets taken for lost now, of so many whose fate is new, parts per million. None of no packet.
    pub lost_ppm: Option<u64>,
}

/// The sending end of a flow of media.
pub struct MediaSender {
    control: Box<dyn Control>,
    encoder: Encoder,
    payload: u32,
    ecn: EcnField,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    next_frame: Nanos,
    /// No packet leaves earlier.
    next_packet: Nanos,
    /// Packets sent whose fate is not known for good.
    sent: VecDeque<Sent>,
    /// Number of the first of them.
    first: u64,
    /// Number behind the highest that came.
    beyond: u64,
    flight: u64,
    /// How long after a later one a packet may still come.
    reordering: Nanos,
    heard: Nanos,
    /// Packets left out since the last report.
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    bytes: u32,
    made: Nanos,
    ends_frame: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    bytes: u32,
    ends_frame: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Flying,
    /// A later one came, of which the sender heard at this time.
    Missing(Nanos),
    Lost(Nanos),
    Arrived,
}

impl MediaSender {
    /// The sending end of such a flow, which begins at `start`.
    pub fn new(media: &Media, start: Nanos, random: Xoshiro256PlusPlus) -> MediaSender {
        let control: Box<dyn Control> = match media.controller {
            Controller::Scream => Box::new(Scream::new(media)),
            Controller::Gcc => Box::new(Gcc::new(media)),
        };
        MediaSender {
            control,
            encoder: Encoder::new(media, random),
            payload: media.payload,
            ecn: media.ecn,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            next_frame: start,
            next_packet: start,
            sent: VecDeque::new(),
            first: 0,
            beyond: 0,
            flight: 0,
            reordering: 0,
            heard: start,
            left_out: 0,
        }
    }

    /// ECN field of the packets.
    pub fn ecn(&self) -> EcnField {
        self.ecn
    }

    /// Number of packets sent.
    pub fn count(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Whether a packet that was sent is the last one of its frame. Of one whose fate is known, nobody asks.
    pub fn ends_frame(&self, number: u64) -> bool {
        let place = number.checked_sub(self.first);
        place.and_then(|place| self.sent.get(place as usize)).is_some_and(|sent| sent.ends_frame)
    }

    /// The next packet that leaves at `now`. None: none does, until [`MediaSender::due`] or a report.
    pub fn send(&mut self, now: Nanos) -> Option<Outgoing> {
        while self.next_frame <= now {
            self.make_frame();
        }
        self.control.on_time(now, self.waiting_bytes);
        self.leave_out(now);
        let next = *self.waiting.front()?;
        if now < self.earliest(next.bytes) {
            return None;
        }
        self.waiting.pop_front();
        self.waiting_bytes -= u64::from(next.bytes);
        let number = self.count();
        let Waiting { bytes, ends_frame, .. } = next;
        self.sent.push_back(Sent { at: now, bytes, ends_frame, fate: Fate::Flying });
        let blocked = !self.control.admits(next.bytes, self.flight);
        self.flight += u64::from(next.bytes);
        self.control.on_sent(now, next.bytes, self.flight);
        let pause = self.control.pace(now, next.bytes);
        let probing = u64::from(next.bytes) * 8_000_000_000 / PROBE_BPS;
        self.next_packet = now + if blocked { pause.max(probing) } else { pause };
        Some(Outgoing { number, payload: bytes })
    }

    /// Time when the sender next wants [`MediaSender::send`].
    pub fn due(&self) -> Nanos {
        let packet = self.waiting.front().map_or(Nanos::MAX, |next| self.earliest(next.bytes));
        self.next_frame.min(packet)
    }

    /// When a packet of so many bytes may leave, as things are.
    fn earliest(&self, bytes: u32) -> Nanos {
        if self.control.admits(bytes, self.flight) {
            self.next_packet
        } else {
            self.next_packet.max(self.heard + SILENCE)
        }
    }

    fn make_frame(&mut self) {
        let made = self.next_frame;
        let (frame, next) = self.encoder.frame(made, self.control.target_bps());
        self.next_frame = next;
        self.control.on_frame(made, frame);
        self.next_packet = self.next_packet.max(made);
        // Packets of a frame are of the same size, within a byte.
        let count = frame.div_ceil(self.payload);
        for place in 0..count {
            let bytes = frame / count + u32::from(place < frame % count);
            self.waiting.push_back(Waiting { bytes, made, ends_frame: place + 1 == count });
            self.waiting_bytes += u64::from(bytes);
        }
    }

    fn leave_out(&mut self, now: Nanos) {
        while let Some(oldest) = self.waiting.front()
            && oldest.made + STALE <= now
        {
            self.waiting_bytes -= u64::from(oldest.bytes);
            self.left_out += 1;
            self.waiting.pop_front();
        }
    }

    /// A report comes.
    pub fn on_report(&mut self, now: Nanos, report: &Report) -> Seen {
        self.heard = now;
        let beyond = report.begin + report.packets.len() as u64;
        let newly = self.pass(beyond);
        let mut acked = Vec::new();
        let (mut lost, mut marked, mut newest) = (0, false, None);
        for (number, arrival) in (report.begin..).zip(&report.packets) {
            let Some(sent) = number.checked_sub(self.first).and_then(|at| self.sent.get_mut(at as usize))
            else {
                continue;
            };
            let Some(arrival) = arrival else {
                lost += u64::from(sent.is_missing(now, self.reordering));
                continue;
            };
            if let Fate::Missing(since) | Fate::Lost(since) = sent.fate {
                self.reordering = self.reordering.max(now - since);
            }
            if sent.fate != Fate::Arrived {
                sent.fate = Fate::Arrived;
                marked |= arrival.ce;
                acked.push(Acked { number, sent: sent.at, arrived: arrival.at, bytes: sent.bytes });
                newest = Some(now.saturating_sub(sent.at).saturating_sub(report.made - arrival.at));
            }
        }
        self.forget(report.begin);
        let known = acked.len() as u64 + lost;
        let feedback = Feedback { acked: &acked, lost, marked, newly, flight: self.flight, rtt: newest };
        self.control.on_feedback(now, &feedback, self.waiting_bytes);
        Seen {
            target_bps: self.control.target_bps(),
            rtt: newest,
            queue_delay: self.control.queue_delay(),
            left_out: std::mem::take(&mut self.left_out),
            lost_ppm: (known > 0).then(|| lost * 1_000_000 / known),
        }
    }

    #[cfg(test)]
    pub(super) fn reordering(&self) -> Nanos {
        self.reordering
    }

    /// Takes the packets below `beyond` out of flight; returns their bytes.
    fn pass(&mut self, beyond: u64) -> u64 {
        let mut bytes = 0;
        while self.beyond < beyond {
            let sent = self.beyond.checked_sub(self.first).and_then(|at| self.sent.get(at as usize));
            bytes += sent.map_or(0, |sent| u64::from(sent.bytes));
            self.beyond += 1;
        }
        self.flight -= bytes;
        bytes
    }

    /// Forgets packets that no report will tell of any more.
    fn forget(&mut self, begin: u64) {
        while self.first < begin && self.sent.pop_front().is_some() {
            self.first += 1;
        }
    }
}

impl Sent {
    /// A report that reaches beyond the packet says that it has not come; whether it is taken for lost at that.
    fn is_missing(&mut self, now: Nanos, reordering: Nanos) -> bool {
        let since = match self.fate {
            Fate::Flying => now,
            Fate::Missing(since) => since,
            Fate::Lost(_) | Fate::Arrived => return false,
        };
        let is_lost = now - since >= reordering;
        self.fate = if is_lost { Fate::Lost(since) } else { Fate::Missing(since) };
        is_lost
    }
}
