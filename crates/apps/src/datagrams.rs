//! Datagrams at a steady pace: UDP at a constant rate, a voice call, a probe that is echoed.

use crate::Nanos;

/// Headers of IPv4 and UDP (RFC 791, RFC 768), or of IPv4 and an ICMP echo (RFC 792), bytes.
pub const HEADERS: u32 = 28;

/// The source of a flow of datagrams, all of one size, numbered from 0.
#[derive(Clone, Debug)]
pub struct Datagrams {
    payload: u32,
    /// Time between two, as a fraction of nanoseconds, so that the rate is exact.
    interval: (u128, u128),
    echoed: bool,
    started: Option<Nanos>,
    sent: u64,
}

impl Datagrams {
    /// Payload at a constant rate.
    ///
    /// # Panics
    /// If the rate or the payload is zero.
    pub fn at_rate(rate_bps: u64, payload: u32) -> Datagrams {
        assert!(rate_bps > 0 && payload > 0, "a rate and a size above zero");
        let interval = (u128::from(payload) * 8_000_000_000, u128::from(rate_bps));
        Datagrams { payload, interval, echoed: false, started: None, sent: 0 }
    }

    /// A datagram every `interval`; with `echoed`, the receiver sends each one back.
    ///
    /// # Panics
    /// If the interval is zero.
    pub fn every(interval: Nanos, payload: u32, echoed: bool) -> Datagrams {
        assert!(interval > 0, "an interval above zero");
        Datagrams { payload, interval: (u128::from(interval), 1), echoed, started: None, sent: 0 }
    }

    /// Payload of each, bytes.
    pub fn payload(&self) -> u32 {
        self.payload
    }

    /// Whether the receiver sends them back.
    pub fn is_echoed(&self) -> bool {
        self.echoed
    }

    /// Sends the next datagram at `now`: its number, and when the one after it is due.
    pub fn send(&mut self, now: Nanos) -> (u64, Nanos) {
        let started = *self.started.get_or_insert(now);
        let number = self.sent;
        self.sent += 1;
        let (numerator, denominator) = self.interval;
        (number, started + (u128::from(self.sent) * numerator).div_ceil(denominator) as Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_exact_in_the_long_run() {
        // 1000 bytes at 3 Mbit/s: 2666666.67 ns apart.
        let mut source = Datagrams::at_rate(3_000_000, 1000);
        assert_eq!(source.send(100), (0, 100 + 2_666_667));
        assert_eq!(source.send(2_666_767), (1, 100 + 5_333_334));
        assert_eq!(source.send(5_333_434), (2, 100 + 8_000_000));
    }

    #[test]
    fn a_voice_call_has_fifty_datagrams_a_second() {
        let mut source = Datagrams::every(20_000_000, 172, false);
        let mut now = 0;
        for _ in 0..50 {
            (_, now) = source.send(now);
        }
        assert_eq!(now, 1_000_000_000);
    }
}
