//! Shapers beside the link's own rate: token buckets, slots and recorded delivery opportunities.

use crate::packet::Nanos;

/// One bucket, or two of which a packet needs tokens at the same time.
pub(super) struct Buckets {
    first: Bucket,
    second: Option<Bucket>,
    /// A packet leaves as long as no bucket is overdrawn, and may overdraw it.
    overdraws: bool,
}

/// A bucket in exact integers: a byte takes 8 * 10^9 tokens, and `rate_bps` of them are added each nanosecond.
struct Bucket {
    rate_bps: u64,
    /// Most tokens in the bucket.
    capacity: i128,
    /// Below zero: overdrawn.
    tokens: i128,
    /// The time of which `tokens` is the number.
    at: Nanos,
}

/// A time that no run reaches, to which a delay can be added.
const NEVER: Nanos = Nanos::MAX / 2;

/// Tokens for so many bytes.
fn tokens(bytes: u32) -> i128 {
    i128::from(bytes) * 8_000_000_000
}

impl Buckets {
    /// A full bucket.
    pub(super) fn new(rate_bps: u64, burst_bytes: u32) -> Self {
        Buckets { first: Bucket::new(rate_bps, burst_bytes), second: None, overdraws: false }
    }

    /// Returns them with a second bucket.
    pub(super) fn and(self, rate_bps: u64, burst_bytes: u32) -> Self {
        Buckets { second: Some(Bucket::new(rate_bps, burst_bytes)), ..self }
    }

    /// Returns them so that packets may overdraw them.
    pub(super) fn overdrawn(self) -> Self {
        Buckets { overdraws: true, ..self }
    }

    /// Whether the size of a packet decides when it can leave.
    pub(super) fn weighs(&self) -> bool {
        !self.overdraws
    }

    /// Whether a packet of so many bytes can ever pass.
    pub(super) fn fits(&self, len: u32) -> bool {
        self.overdraws || self.all().all(|bucket| tokens(len) <= bucket.capacity)
    }

    /// Time when a packet of `len` bytes that [`Buckets::fits`] can leave, not before `now`.
    pub(super) fn ready(&self, now: Nanos, len: u32) -> Nanos {
        let wanted = if self.overdraws { 0 } else { tokens(len) };
        self.all().map(|bucket| bucket.ready(now, wanted)).fold(now, Nanos::max)
    }

    /// Takes the tokens of `len` bytes, if the packet can leave.
    pub(super) fn take(&mut self, now: Nanos, len: u32) -> bool {
        let leaves = self.ready(now, len) <= now;
        if leaves {
            self.first.take(now, tokens(len));
            self.second.iter_mut().for_each(|bucket| bucket.take(now, tokens(len)));
        }
        leaves
    }

    fn all(&self) -> impl Iterator<Item = &Bucket> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

impl Bucket {
    fn new(rate_bps: u64, burst_bytes: u32) -> Self {
        let capacity = tokens(burst_bytes);
        Bucket { rate_bps, capacity, tokens: capacity, at: 0 }
    }

    /// Time when it has so many tokens, not before `now`.
    fn ready(&self, now: Nanos, wanted: i128) -> Nanos {
        let missing = (wanted - self.tokens_at(now)).max(0).unsigned_abs();
        let time = missing.div_ceil(u128::from(self.rate_bps));
        now.saturating_add(Nanos::try_from(time).unwrap_or(Nanos::MAX))
    }

    fn take(&mut self, now: Nanos, taken: i128) {
        self.tokens = self.tokens_at(now) - taken;
        self.at = now;
    }

    fn tokens_at(&self, now: Nanos) -> i128 {
        let fresh = u128::from(now - self.at) * u128::from(self.rate_bps);
        let fresh = i128::try_from(fresh).unwrap_or(i128::MAX);
        self.tokens.saturating_add(fresh).min(self.capacity)
    }
}

/// Slots at equal intervals, in which packets leave that waited when one opened.
pub(super) struct Slots {
    interval: Nanos,
    most_packets: u32,
    /// Bytes of a slot; None: no limit.
    most_bytes: Option<i64>,
    /// Time when the last slot opened that packets used. None before the first.
    opened: Option<Nanos>,
    /// Packets that may still leave in it; 0: it is over.
    packets_left: u32,
    /// Bytes that may still leave in it; below zero: what the last packet took of those behind it.
    bytes_left: i64,
}

impl Slots {
    pub(super) fn new(interval: Nanos, packets: Option<u32>, bytes: Option<u32>) -> Self {
        Slots {
            interval,
            most_packets: packets.unwrap_or(u32::MAX),
            most_bytes: bytes.map(i64::from),
            opened: None,
            packets_left: 0,
            bytes_left: 0,
        }
    }

    fn is_open(&self) -> bool {
        self.packets_left > 0 && (self.most_bytes.is_none() || self.bytes_left > 0)
    }

    /// The first time at or after `from` at which a packet may leave: at once in a slot that is open, else when the next one opens.
    pub(super) fn ready(&self, from: Nanos) -> Nanos {
        if self.is_open() {
            return from;
        }
        let mut slot = from.div_ceil(self.interval);
        if let Some(opened) = self.opened {
            let owed = self.most_bytes.map_or(0, |most| self.bytes_left.min(0) / -most);
            slot = slot.max((opened / self.interval).saturating_add(1 + owed as u64));
        }
        slot.saturating_mul(self.interval).min(NEVER).max(from)
    }

    /// Opens the slot at `now`, which [`Slots::ready`] gave, for `waiting` packets, unless one is open.
    pub(super) fn open(&mut self, now: Nanos, waiting: u32) {
        if self.is_open() {
            return;
        }
        if let Some(most) = self.most_bytes {
            let passed = self.opened.map_or(1, |opened| (now - opened) / self.interval);
            let earned = most.saturating_mul(i64::try_from(passed).unwrap_or(i64::MAX));
            self.bytes_left = self.bytes_left.min(0).saturating_add(earned).min(most);
        }
        self.opened = Some(now);
        self.packets_left = waiting.min(self.most_packets);
    }

    /// A packet of `len` bytes leaves in the open slot.
    pub(super) fn take(&mut self, len: u32) {
        self.packets_left -= 1;
        self.bytes_left -= i64::from(len);
    }

    /// The slot is over: nobody waits.
    pub(super) fn close(&mut self) {
        self.packets_left = 0;
    }
}

/// Delivery opportunities, as a mahimahi trace lists them. At each of them, up to `bytes` leave, of one packet or of several; the
/// rest of a packet that does not fit leaves at the next. What an opportunity does not use is lost. The trace repeats.
pub(super) struct Trace {
    /// Ascending, not above the period.
    times: Vec<Nanos>,
    period: Nanos,
    bytes: u32,
    /// The current opportunity, the time at which its lap began, and what is left of it.
    index: usize,
    lap: Nanos,
    left: u32,
}

impl Trace {
    pub(super) fn new(times: &[Nanos], period: Nanos, bytes: u32) -> Self {
        Trace { times: times.to_vec(), period, bytes, index: 0, lap: 0, left: bytes }
    }

    /// The first time at or after `from` at which bytes can leave.
    pub(super) fn ready(&mut self, from: Nanos) -> Nanos {
        let laps = from.saturating_sub(self.time()) / self.period;
        if laps > 0 {
            self.lap = self.lap.saturating_add(laps.saturating_mul(self.period));
            self.left = self.bytes;
        }
        while (self.left == 0 || self.time() < from) && self.time() < NEVER {
            self.next();
        }
        self.time().max(from)
    }

    /// Takes `len` bytes that start at the current opportunity, at `start`; returns when the last of them leaves.
    pub(super) fn take(&mut self, start: Nanos, mut len: u32) -> Nanos {
        while len > self.left && self.time() < NEVER {
            len -= self.left;
            self.next();
        }
        self.left = self.left.saturating_sub(len);
        self.time().max(start)
    }

    fn time(&self) -> Nanos {
        self.lap.saturating_add(self.times[self.index]).min(NEVER)
    }

    fn next(&mut self) {
        self.left = self.bytes;
        self.index += 1;
        if self.index == self.times.len() {
            self.index = 0;
            self.lap = self.lap.saturating_add(self.period);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_a_burst_pass_and_then_its_rate() {
        // 8 Mbit/s: a byte takes a microsecond.
        let mut bucket = Buckets::new(8_000_000, 3000);
        assert!(bucket.take(0, 1500) && bucket.take(0, 1500) && !bucket.take(0, 1));
        assert_eq!(bucket.ready(0, 1500), 1_500_000);
        assert!(!bucket.take(1_499_999, 1500) && bucket.take(1_500_000, 1500));
        // However long it is left alone, it holds no more than its burst.
        assert_eq!(bucket.ready(1 << 60, 3000), 1 << 60);
        assert!(bucket.fits(3000) && !bucket.fits(3001));
    }

    #[test]
    fn a_packet_needs_tokens_of_both_buckets() {
        // 8 and 16 Mbit/s: at the peak a byte takes half a microsecond.
        let mut buckets = Buckets::new(8_000_000, 3000).and(16_000_000, 1500);
        assert!(buckets.take(0, 1500) && !buckets.take(0, 1500));
        assert_eq!(buckets.ready(0, 1500), 750_000);
        assert!(buckets.take(750_000, 1500));
        assert_eq!(buckets.ready(750_000, 1500), 1_500_000);
        assert!(!buckets.fits(1501));
    }

    #[test]
    fn buckets_that_are_overdrawn_let_any_packet_pass_that_finds_tokens() {
        let mut buckets = Buckets::new(8_000_000, 1000).and(16_000_000, 100).overdrawn();
        assert!(buckets.fits(u32::MAX) && buckets.take(0, 1500));
        // 500 bytes are owed at the rate, 1400 at the ceiling's.
        assert_eq!(buckets.ready(0, 9000), 700_000);
        assert!(!buckets.take(699_999, 1) && buckets.take(700_000, 1500));
        // 1300 bytes are owed at the rate, 1500 at the ceiling's.
        assert_eq!(buckets.ready(700_000, 1), 2_000_000);
    }

    #[test]
    fn a_slot_takes_what_waited_for_it() {
        let mut slots = Slots::new(10, Some(2), None);
        assert_eq!((slots.ready(0), slots.ready(1), slots.ready(20)), (0, 10, 20));
        slots.open(10, 3);
        slots.take(1500);
        // Its second packet leaves when the first one has.
        assert_eq!(slots.ready(14), 14);
        slots.take(1500);
        assert_eq!((slots.ready(14), slots.ready(20)), (20, 20));
        slots.open(20, 1);
        slots.take(1500);
        assert_eq!(slots.ready(20), 30, "what comes while a slot is open waits for the next one");
        slots.open(30, 2);
        slots.close();
        assert_eq!(slots.ready(30), 40);
        assert_eq!(slots.ready(Nanos::MAX), Nanos::MAX);
    }

    #[test]
    fn slots_carry_their_bytes_in_the_long_run() {
        let mut slots = Slots::new(10, None, Some(1000));
        slots.open(0, 9);
        slots.take(1500);
        // The next has 500 bytes, which a packet exceeds by 1000: there is nothing in the one behind it.
        assert_eq!(slots.ready(0), 10);
        slots.open(10, 8);
        slots.take(1500);
        assert_eq!(slots.ready(10), 30);
        slots.open(30, 7);
        assert_eq!(slots.bytes_left, 1000);
        slots.take(400);
        assert_eq!(slots.ready(31), 31);
        slots.close();
        slots.open(90, 7);
        assert_eq!(slots.bytes_left, 1000, "what slots do not use is lost");
    }

    #[test]
    fn a_trace_delivers_at_its_opportunities() {
        let ms = 1_000_000;
        let mut trace = Trace::new(&[ms, ms, 4 * ms], 5 * ms, 1500);
        assert_eq!(trace.ready(0), ms);
        assert_eq!(trace.take(ms, 1000), ms);
        // The rest of the opportunity, then the next, both at 1 ms.
        assert_eq!(trace.take(ms, 1500), ms);
        assert_eq!(trace.take(ms, 1500), 4 * ms);
        // 500 bytes were left at 4 ms, but that has passed; then the trace starts again at 5 ms.
        assert_eq!(trace.ready(4 * ms + 1), 6 * ms);
        assert_eq!(trace.take(6 * ms, 4000), 9 * ms);
        // A packet that needs more laps than time has.
        let mut slow = Trace::new(&[ms], u64::MAX / 100, 1);
        assert_eq!(slow.take(0, 1500), NEVER);
        assert_eq!(slow.ready(NEVER), NEVER);
        // What comes later than time is counted passes at once.
        assert_eq!(slow.ready(NEVER + 1), NEVER + 1);
        assert_eq!(slow.take(NEVER + 1, 1500), NEVER + 1);
        // Many laps later.
        assert_eq!(trace.ready(5_000_002 * ms), 5_000_004 * ms);
    }
}
