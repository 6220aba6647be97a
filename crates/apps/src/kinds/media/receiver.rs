//! The receiver of media: reports of what came, in the manner of RFC 8888.

use std::collections::VecDeque;

use super::window::Recent;
use super::{Arrival, Controller, Media};
use crate::Nanos;

/// Bytes of a report besides those of its packets: headers of RTCP and of its one source, and the time it was made (RFC 8888 section
/// 3.1). Each packet takes two more, and the block of them is filled up to four.
const REPORT_BYTES: u32 = 20;
/// Time over which the rate is measured that decides how often SCReAM's receiver reports.
const RATE_TIME: Nanos = 1_000_000_000;

/// A report of the packets from `begin` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Time when it was made.
    pub made: Nanos,
    /// Number of the first packet it tells of.
    pub begin: u64,
    /// Arrival of each packet from then on. None: it has not come.
    pub packets: Vec<Option<Arrival>>,
}

impl Report {
    /// Payload of the datagram that carries it, bytes.
    pub fn payload(&self) -> u32 {
        REPORT_BYTES + (2 * self.packets.len() as u32).next_multiple_of(4)
    }
}

/// The receiving end of a flow of media. Each packet is told of in two reports, so that one of them may be lost.
#[derive(Clone, Debug)]
pub struct MediaReceiver {
    interval: Interval,
    /// Packets that the next report tells of: those of the last report, and those after it.
    known: VecDeque<Option<Arrival>>,
    begin: u64,
    /// Number of packets that the last report told of for the first time, in `known`.
    told: usize,
    due: Option<Nanos>,
    reported: Option<Nanos>,
    began: Option<Nanos>,
    received: Recent,
    bytes: u64,
}

/// Rule of the time from one report to the next.
#[derive(Clone, Copy, Debug)]
enum Interval {
    /// So long.
    Fixed(Nanos),
    /// With the last packet of a frame, or so long after another (draft-ietf-rmcat-gcc-02 section 3: once per frame).
    Frame(Nanos),
    /// By the media's rate (RFC 8298 section 4.2.1), which is `start_bps` until a second is over.
    Rate { start_bps: u64 },
}

impl MediaReceiver {
    /// The receiving end of such a flow.
    pub fn new(media: &Media) -> MediaReceiver {
        let interval = match (media.feedback, media.controller) {
            (Some(interval), _) => Interval::Fixed(interval),
            (None, Controller::Gcc) => Interval::Frame(1_000_000_000 / u64::from(media.fps)),
            (None, Controller::Scream) => Interval::Rate { start_bps: media.start_bps },
        };
        MediaReceiver {
            interval,
            known: VecDeque::new(),
            begin: 0,
            told: 0,
            due: None,
            reported: None,
            began: None,
            received: Recent::new(RATE_TIME),
            bytes: 0,
        }
    }

    /// Payload received, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time when a report is due. None while there is nothing new to tell.
    pub fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// A packet of the flow comes, for the first or another time.
    pub fn take(&mut self, now: Nanos, number: u64, payload: u32, ce: bool, ends_frame: bool) {
        let began = *self.began.get_or_insert(now);
        self.bytes += u64::from(payload);
        self.received.add(now, payload.into());
        let Some(place) = number.checked_sub(self.begin) else { return };
        let place = place as usize;
        if place >= self.known.len() {
            self.known.resize(place + 1, None);
        }
        if self.known[place].is_none() {
            self.known[place] = Some(Arrival { at: now, ce });
        }
        let next = match self.interval {
            Interval::Frame(_) if ends_frame => now,
            Interval::Frame(interval) => now + interval,
            Interval::Fixed(interval) => self.after(now, interval),
            Interval::Rate { start_bps } => {
                let bps = if now - began < RATE_TIME { start_bps as f64 } else { self.received.bps() };
                let rate = (bps / 10_000.0).clamp(2.5, 50.0);
                self.after(now, (1e9 / rate) as Nanos)
            }
        };
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
    }

    fn after(&self, now: Nanos, interval: Nanos) -> Nanos {
        self.reported.map_or(now, |reported| (reported + interval).max(now))
    }

    /// The report that is due.
    pub fn report(&mut self, now: Nanos) -> Report {
        let report = Report { made: now, begin: self.begin, packets: self.known.iter().copied().collect() };
        let again = self.known.len() - self.told;
        self.known.drain(..self.told);
        self.begin += self.told as u64;
        self.told = again;
        self.due = None;
        self.reported = Some(now);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::media;
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_packet_is_told_of_twice() {
        let mut receiver = MediaReceiver::new(&Media { feedback: Some(100 * MS), ..media() });
        assert_eq!(receiver.due(), None);
        receiver.take(10 * MS, 0, 1000, false, false);
        assert_eq!(receiver.due(), Some(10 * MS));
        let first = receiver.report(10 * MS);
        assert_eq!((first.begin, first.packets.len(), first.payload()), (0, 1, 24));
        // Of 1, 2 and 3 the second is lost; a copy of the third changes nothing.
        receiver.take(20 * MS, 1, 1000, false, false);
        receiver.take(30 * MS, 3, 1000, true, true);
        receiver.take(40 * MS, 3, 1000, false, true);
        assert_eq!(receiver.due(), Some(110 * MS));
        let second = receiver.report(110 * MS);
        let arrival = |at, ce| Some(Arrival { at: at * MS, ce });
        let told = vec![arrival(10, false), arrival(20, false), None, arrival(30, true)];
        assert_eq!(second, Report { made: 110 * MS, begin: 0, packets: told });
        assert_eq!((second.payload(), receiver.due(), receiver.bytes()), (28, None, 4000));
        receiver.take(300 * MS, 2, 1000, false, true);
        assert_eq!(receiver.due(), Some(300 * MS));
        let third = receiver.report(300 * MS);
        assert_eq!((third.begin, third.packets[1]), (1, arrival(300, false)));
        receiver.take(310 * MS, 0, 1000, false, true);
        assert_eq!(receiver.due(), None, "what two reports told of is over");
    }

    #[test]
    fn how_often_it_reports_is_the_document_s() {
        let mut gcc = MediaReceiver::new(&Media { controller: Controller::Gcc, fps: 25, ..media() });
        gcc.take(10 * MS, 0, 1000, false, false);
        assert_eq!(gcc.due(), Some(50 * MS));
        gcc.take(12 * MS, 1, 1000, false, true);
        assert_eq!(gcc.due(), Some(12 * MS));
        // RFC 8298 section 4.2.1: 150 kbit/s, 15 reports a second; below 25 kbit/s 2.5, above 500 kbit/s 50 of them.
        for (start_bps, interval) in [(150_000, 1_000_000_000 / 15), (1000, 400 * MS), (10_000_000, 20 * MS)]
        {
            let mut scream = MediaReceiver::new(&Media { start_bps, ..media() });
            scream.take(MS, 0, 1000, false, true);
            scream.report(MS);
            scream.take(2 * MS, 1, 1000, false, true);
            assert_eq!(scream.due(), Some(MS + interval));
        }
    }
}
