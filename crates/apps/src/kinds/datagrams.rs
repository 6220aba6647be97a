//! Datagrams: UDP at a constant rate, a voice call, a probe that is echoed, and sizes and intervals that are drawn.

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Draws, EcnField, Nanos};

/// Length in bytes of the header of UDP (RFC 768), and of that of an ICMP echo (RFC 792).
pub const DATAGRAM_HEADER: u32 = 8;

/// Bytes of the datagram's number and the time when it was sent, with which a payload begins on live hosts.
pub const STAMP: usize = 16;

/// The source of a flow of datagrams, numbered from 0.
#[derive(Clone, Debug)]
pub struct Datagrams {
    /// Payload of each datagram, or of the largest where sizes are drawn, in bytes.
    payload: u32,
    ecn: EcnField,
    pace: Pace,
    echoed: bool,
    started: Option<Nanos>,
    sent: u64,
}

#[derive(Clone, Debug)]
enum Pace {
    /// Time between two, as a fraction of nanoseconds, so that the rate is exact.
    Steady(u128, u128),
    Drawn(Box<Drawn>),
}

/// Sizes and intervals that are drawn.
#[derive(Clone, Debug)]
pub struct Drawn {
    size: Draws,
    interval: Draws,
    /// Payload of the smallest, bytes.
    least: u32,
    sizes: Xoshiro256PlusPlus,
    intervals: Xoshiro256PlusPlus,
}

impl Drawn {
    /// Payloads of `size`, none below `least`, at such intervals; `streams` gives the random stream of a purpose.
    pub fn new(
        size: Draws,
        interval: Draws,
        least: u32,
        streams: &dyn Fn(&str) -> Xoshiro256PlusPlus,
    ) -> Drawn {
        Drawn { size, interval, least, sizes: streams("sizes"), intervals: streams("intervals") }
    }
}

/// A datagram that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Number of the datagram.
    pub number: u64,
    /// Payload of the datagram, in bytes.
    pub payload: u32,
    /// Time when the datagram after this one is due.
    pub next: Nanos,
}

impl Datagrams {
    /// Payload at a constant rate.
    ///
    /// # Panics
    /// If the rate or the payload is zero.
    pub fn at_rate(rate_bps: u64, payload: u32) -> Datagrams {
        assert!(rate_bps > 0 && payload > 0, "a rate and a size above zero");
        Datagrams::new(
            Pace::Steady(u128::from(payload) * 8_000_000_000, u128::from(rate_bps)),
            payload,
            false,
        )
    }

    /// A datagram every `interval`; with `echoed`, the receiver sends each one back.
    ///
    /// # Panics
    /// If the interval is zero.
    pub fn every(interval: Nanos, payload: u32, echoed: bool) -> Datagrams {
        assert!(interval > 0, "an interval above zero");
        Datagrams::new(Pace::Steady(u128::from(interval), 1), payload, echoed)
    }

    /// Sizes and intervals as they are drawn, with a payload of `most` at most.
    pub fn drawn(drawn: Drawn, most: u32) -> Datagrams {
        Datagrams::new(Pace::Drawn(Box::new(drawn)), most, false)
    }

    fn new(pace: Pace, payload: u32, echoed: bool) -> Datagrams {
        Datagrams { payload, ecn: EcnField::Off, pace, echoed, started: None, sent: 0 }
    }

    /// Sets the ECN field of the IP header.
    pub fn with_ecn(self, ecn: EcnField) -> Datagrams {
        Datagrams { ecn, ..self }
    }

    /// ECN field of the IP header.
    pub fn ecn(&self) -> EcnField {
        self.ecn
    }

    /// Payload of the largest, bytes.
    pub fn payload(&self) -> u32 {
        self.payload
    }

    /// Whether the receiver sends the datagrams back.
    pub fn is_echoed(&self) -> bool {
        self.echoed
    }

    /// Sends the next datagram at `now`.
    pub fn send(&mut self, now: Nanos) -> Sent {
        let started = *self.started.get_or_insert(now);
        let number = self.sent;
        self.sent += 1;
        match &mut self.pace {
            Pace::Steady(numerator, denominator) => {
                let next = started + (u128::from(self.sent) * *numerator).div_ceil(*denominator) as Nanos;
                Sent { number, payload: self.payload, next }
            }
            Pace::Drawn(drawn) => {
                let size =
                    drawn.size.draw(&mut drawn.sizes, number).clamp(drawn.least.into(), self.payload.into());
                let interval = drawn.interval.draw(&mut drawn.intervals, number).max(1);
                Sent { number, payload: size as u32, next: now.saturating_add(interval) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_exact_in_the_long_run() {
        // 1000 bytes at 3 Mbit/s: 2666666.67 ns apart.
        let mut source = Datagrams::at_rate(3_000_000, 1000);
        assert_eq!(source.send(100), Sent { number: 0, payload: 1000, next: 100 + 2_666_667 });
        assert_eq!(source.send(2_666_767).next, 100 + 5_333_334);
        assert_eq!(source.send(5_333_434), Sent { number: 2, payload: 1000, next: 100 + 8_000_000 });
    }

    #[test]
    fn a_voice_call_has_fifty_datagrams_a_second() {
        let mut source = Datagrams::every(20_000_000, 172, false);
        let mut now = 0;
        for _ in 0..50 {
            now = source.send(now).next;
        }
        assert_eq!(now, 1_000_000_000);
    }

    #[test]
    fn what_is_drawn_stays_within_its_bounds() {
        let streams = |purpose: &str| path::stream(1, 0, purpose, "f");
        let drawn = Drawn::new(
            Draws::Exponential { mean: 200 },
            Draws::List { values: vec![5, 0, 7] },
            100,
            &streams,
        );
        let mut source = Datagrams::drawn(drawn, 400);
        let mut now = 0;
        let sent: Vec<Sent> = (0..1000)
            .map(|_| {
                let sent = source.send(now);
                now = sent.next;
                sent
            })
            .collect();
        assert!(sent.iter().all(|sent| (100..=400).contains(&sent.payload)));
        assert!(sent.iter().any(|sent| sent.payload == 100) && sent.iter().any(|sent| sent.payload == 400));
        // An interval of nothing is a nanosecond.
        assert_eq!(sent[..4].iter().map(|sent| sent.next).collect::<Vec<_>>(), [5, 6, 13, 18]);
    }
}
