//! The wheel of FreeBSD 13's high-precision timer system (tcp_hpts(4)).
//!
//! What waits lies in a slot of 10 us. The wheel looks for slots that have come, sleeps until the next one that is taken,
//! and looks again. Something new that comes before what the sleep was for shortens it. Where the sleep should be over by now, a
//! soft interrupt makes the wheel look at once.

use crate::clock::{HostClock, MICROSECOND, Nanos};

/// A slot, us.
const SLOT_US: u64 = 10;
/// A slot.
const SLOT: Nanos = SLOT_US * MICROSECOND;
/// The longest sleep, slots: half the wheel.
const LONGEST_SLEEP: u64 = 51_200;
/// The shortest sleep, slots (net.inet.tcp.hpts.minsleep).
const SHORTEST_SLEEP: u64 = 25;
/// Sleeps of so many ticks and more begin with the next tick (tick_sbt and sbt_tickthreshold of kern_clocksource.c).
const LONG_SLEEP_TICKS: u64 = 16;

/// Timers that the wheel sleeps by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WheelTimers {
    /// FreeBSD's: a sleep ends when it was asked for, and a long one up to a tick later.
    Exact,
    /// Those of the recordings in groundtruth/freebsd/stack, and of no FreeBSD: a sleep is cut to whole ticks and one more, and no
    /// soft interrupt ends it.
    WholeTicks,
}

/// The wheel of one connection. Times are the host's local ones.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    timers: WheelTimers,
    /// Slot of the last look, None before the first use.
    looked: Option<u64>,
    /// Number of slots that the wheel meant to sleep at the last look.
    sleep: u64,
    /// Whether that was lengthened to the shortest sleep, which nothing shortens.
    shortest: bool,
    /// Time of the next look.
    next_look: Nanos,
    /// Slot of what waits.
    due: Option<u64>,
    /// Whether what waited is being carried out.
    looking: bool,
}

impl Wheel {
    pub(super) fn new(timers: WheelTimers) -> Wheel {
        Wheel { timers, looked: None, sleep: 0, shortest: false, next_look: 0, due: None, looking: false }
    }

    /// Whether something waits.
    pub(super) fn is_taken(&self) -> bool {
        self.due.is_some()
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self, clock: &HostClock, now: Nanos) {
        if self.looked.is_some() {
            self.catch_up(clock, clock.local(now));
        }
        self.due = None;
    }

    /// Has something wait for so many slots.
    pub(super) fn insert(&mut self, slots: u64, clock: &HostClock, now: Nanos) {
        let now = clock.local(now);
        self.catch_up(clock, now);
        let slot = now / SLOT;
        self.due = Some(slot + slots);
        if self.looking || self.shortest {
            return;
        }
        // No time since the last look counts as a whole turn of the wheel.
        let slept = self.looked.map(|at| slot.wrapping_sub(at)).filter(|&slept| slept > 0);
        match slept.filter(|&slept| slept < self.sleep) {
            Some(slept) if slept.saturating_add(slots) < self.sleep => {
                self.sleep = slots;
                self.next_look = self.end_of_sleep(now, slots, clock);
            }
            None if self.timers == WheelTimers::Exact => self.sleep_from(now, clock),
            _ => {}
        }
    }

    /// Begins to carry out what waited and is due, until [`Wheel::end_look`].
    pub(super) fn begin_look(&mut self) {
        self.due = None;
        self.looking = true;
    }

    /// The look that is under way, if one is, is over.
    pub(super) fn end_look(&mut self, clock: &HostClock, now: Nanos) {
        if std::mem::take(&mut self.looking) {
            self.sleep_from(clock.local(now), clock);
        }
    }

    /// Time when what waits is carried out.
    pub(super) fn wake(&self, clock: &HostClock) -> Option<Nanos> {
        let due = self.due?;
        let mut wheel = self.clone();
        let period = longest_sleep(clock);
        loop {
            let slot = wheel.next_look / SLOT;
            if slot >= due {
                return Some(clock.time_of_local(wheel.next_look));
            }
            // Of the longest sleeps all but the last two at once.
            wheel.next_look += ((due - slot) * SLOT / period).saturating_sub(2) * period;
            wheel.sleep_from(wheel.next_look, clock);
        }
    }

    /// Looks that found nothing since the last event.
    fn catch_up(&mut self, clock: &HostClock, now: Nanos) {
        if self.looking {
            return;
        }
        if self.looked.is_none() {
            self.sleep_from(now, clock);
            self.looked = self.looked.map(|slot| slot.wrapping_sub(1));
            return;
        }
        if self.due.is_none() && now > self.next_look {
            let period = longest_sleep(clock);
            self.next_look += (now - self.next_look) / period * period;
        }
        while self.next_look <= now && self.due.is_none_or(|due| due > self.next_look / SLOT) {
            self.sleep_from(self.next_look, clock);
        }
    }

    /// The wheel goes to sleep.
    fn sleep_from(&mut self, now: Nanos, clock: &HostClock) {
        let slot = now / SLOT;
        self.looked = Some(slot);
        self.sleep = self.due.map_or(LONGEST_SLEEP, |due| due.saturating_sub(slot).clamp(1, LONGEST_SLEEP));
        self.shortest = self.sleep < SHORTEST_SLEEP;
        self.next_look = self.end_of_sleep(now, self.sleep.max(SHORTEST_SLEEP), clock);
    }

    /// Time when the timer runs that is set now to so many slots.
    fn end_of_sleep(&self, now: Nanos, slots: u64, clock: &HostClock) -> Nanos {
        let (sleep, tick) = (slots * SLOT, clock.tick_ns());
        let next_tick = (now / tick + 1) * tick;
        match self.timers {
            WheelTimers::WholeTicks => next_tick + (sleep / tick).max(1) * tick,
            WheelTimers::Exact if sleep < LONG_SLEEP_TICKS * tick => now + sleep,
            WheelTimers::Exact => next_tick + sleep,
        }
    }
}

/// Time between two looks that find nothing, where that is whole ticks.
fn longest_sleep(clock: &HostClock) -> Nanos {
    let tick = clock.tick_ns();
    (LONGEST_SLEEP * SLOT / tick).max(1) * tick + tick
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLISECOND;

    fn clock() -> HostClock {
        HostClock::new(1000, 0, 0)
    }

    /// A wheel on which something began to wait at this time.
    fn waiting(timers: WheelTimers, slots: u64, now: Nanos) -> Wheel {
        let mut wheel = Wheel::new(timers);
        wheel.insert(slots, &clock(), now);
        wheel
    }

    fn looks(wheel: &mut Wheel, then: u64) -> Nanos {
        let at = wheel.wake(&clock()).expect("something waits");
        wheel.catch_up(&clock(), at);
        wheel.begin_look();
        if then > 0 {
            wheel.insert(then, &clock(), at);
        }
        wheel.end_look(&clock(), at);
        at
    }

    #[test]
    fn sleeps_end_when_they_were_asked_for_and_long_ones_begin_with_a_tick() {
        let wake = |slots, now| waiting(WheelTimers::Exact, slots, now).wake(&clock());
        assert_eq!(wake(340, 10_203_000), Some(13_603_000), "3.4 ms");
        assert_eq!(wake(1599, 10_203_000), Some(26_193_000), "15.99 ms");
        assert_eq!(wake(1600, 10_203_000), Some(27 * MILLISECOND), "16 ms from the next tick on");
    }

    #[test]
    fn a_soft_interrupt_looks_where_a_sleep_should_be_over() {
        let mut wheel = waiting(WheelTimers::Exact, 600, 10_205_000);
        // Something new after 5 ms shortens the sleep to 0.5 ms, which the wheel counts from its last look on.
        wheel.clear(&clock(), 15_205_000);
        wheel.insert(50, &clock(), 15_205_000);
        assert_eq!(wheel.wake(&clock()), Some(15_705_000));
        // The next thing finds it over already: the wheel looks at once, and sleeps anew.
        wheel.clear(&clock(), 15_402_000);
        wheel.insert(40, &clock(), 15_402_000);
        assert_eq!(wheel.wake(&clock()), Some(15_802_000));
    }

    #[test]
    fn the_wheel_sleeps_a_quarter_of_a_millisecond_at_least() {
        let mut wheel = waiting(WheelTimers::Exact, 100, 10_205_000);
        assert_eq!(looks(&mut wheel, 1), 11_205_000);
        assert_eq!(wheel.wake(&clock()), Some(11_455_000));
        // Nothing shortens that.
        wheel.clear(&clock(), 11_300_000);
        wheel.insert(1, &clock(), 11_300_000);
        assert_eq!(wheel.wake(&clock()), Some(11_455_000));
    }

    #[test]
    fn whole_ticks_end_a_tick_later() {
        // 3.4 ms from 10.2 ms on: the timer is set to 3 ticks and runs after 4.
        let mut wheel = waiting(WheelTimers::WholeTicks, 340, 10_200_000);
        assert_eq!(wheel.wake(&clock()), Some(14 * MILLISECOND));
        // After a look at 14 ms the next one comes at 16 ms.
        assert_eq!(looks(&mut wheel, 100), 14 * MILLISECOND);
        assert_eq!(wheel.wake(&clock()), Some(16 * MILLISECOND));
    }

    #[test]
    fn whole_ticks_that_should_be_over_are_not_shortened() {
        let mut wheel = waiting(WheelTimers::WholeTicks, 8000, 10_200_000);
        assert_eq!(looks(&mut wheel, 0), 91 * MILLISECOND, "80 ticks and one");
        assert_eq!(wheel.next_look, (91 + 513) * MILLISECOND);
        // What the first sleep was shortened to is over at 93 ms, but its timer runs at 94 ms.
        wheel.insert(200, &clock(), 91_100_000);
        assert_eq!(wheel.next_look, 94 * MILLISECOND);
        wheel.clear(&clock(), 93_500_000);
        wheel.insert(20, &clock(), 93_500_000);
        assert_eq!(wheel.wake(&clock()), Some(94 * MILLISECOND));
    }

    #[test]
    fn what_waits_for_hours_is_found_at_once() {
        for timers in [WheelTimers::Exact, WheelTimers::WholeTicks] {
            let wheel = waiting(timers, 10 * 3600 * 100_000, 10_200_000);
            let mut each = wheel.clone();
            let due = each.due.unwrap();
            while each.next_look / SLOT < due {
                each.sleep_from(each.next_look, &clock());
            }
            assert_eq!(wheel.wake(&clock()), Some(each.next_look));
        }
    }
}
