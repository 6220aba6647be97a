//! The wheel of the high-precision timer system where its timer ends on ticks of the host's clock, as recorded of 13.
//!
//! What waits lies in a slot of 10 us. The wheel looks for slots that have come, sleeps until the next one that is taken,
//! and looks again. How long it sleeps is rounded down to ticks, and the timer runs one tick after those. Something new
//! shortens a sleep only if it comes before what the sleep was for; a sleep that should be over by now is left as it is.

use crate::clock::{HostClock, MICROSECOND, Nanos};

/// A slot, us.
const SLOT_US: u64 = 10;
/// The longest sleep, slots: half the wheel.
const LONGEST_SLEEP: u64 = 51_200;
/// The shortest sleep, slots.
const SHORTEST_SLEEP: u64 = 25;

/// The wheel of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Wheel {
    /// Slot of the last look, None before the first use.
    looked: Option<u64>,
    /// Number of slots that the wheel meant to sleep at the last look.
    sleep: u64,
    /// Whether that was lengthened to the shortest sleep, which nothing shortens.
    shortest: bool,
    /// Tick of the next look.
    next_look: u64,
    /// Slot of what waits.
    due: Option<u64>,
    /// Whether what waited is being carried out.
    looking: bool,
}

impl Wheel {
    /// Whether something waits.
    pub(super) fn is_taken(&self) -> bool {
        self.due.is_some()
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self, clock: &HostClock, now: Nanos) {
        self.catch_up(clock, now);
        self.due = None;
    }

    /// Has something wait for so many slots.
    pub(super) fn insert(&mut self, slots: u64, clock: &HostClock, now: Nanos) {
        self.catch_up(clock, now);
        let slot = clock.micros(now) / SLOT_US;
        self.due = Some(slot + slots);
        if self.looking || self.shortest {
            return;
        }
        // No time since the last look counts as a whole turn of the wheel.
        let slept = self.looked.map(|at| slot.wrapping_sub(at)).filter(|&slept| slept > 0);
        if slept.is_some_and(|slept| slept.saturating_add(slots) < self.sleep) {
            self.sleep = slots;
            self.next_look = clock.ticks(now) + sleep_ticks(slots, clock);
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
            self.sleep_from(clock.micros(now) / SLOT_US, clock.ticks(now), clock);
        }
    }

    /// Time when what waits is carried out.
    pub(super) fn wake(&self, clock: &HostClock) -> Option<Nanos> {
        let due = self.due?;
        let mut wheel = self.clone();
        let period = sleep_ticks(LONGEST_SLEEP, clock);
        loop {
            let slot = slot_of(wheel.next_look, clock);
            if slot >= due {
                return Some(clock.time_of_tick(wheel.next_look));
            }
            // Of the longest sleeps all but the last two at once.
            let whole = ((due - slot) / slot_of(period, clock).max(1)).saturating_sub(2);
            wheel.next_look += whole * period;
            wheel.sleep_from(slot_of(wheel.next_look, clock), wheel.next_look, clock);
        }
    }

    /// Looks that found nothing since the last event.
    fn catch_up(&mut self, clock: &HostClock, now: Nanos) {
        let (slot, tick) = (clock.micros(now) / SLOT_US, clock.ticks(now));
        if self.looking {
            return;
        }
        if self.looked.is_none() {
            return self.sleep_from(slot.wrapping_sub(1), tick, clock);
        }
        if self.due.is_none() && tick > self.next_look {
            let period = sleep_ticks(LONGEST_SLEEP, clock);
            self.next_look += (tick - self.next_look) / period * period;
        }
        while self.next_look <= tick && self.due.is_none_or(|due| due > slot_of(self.next_look, clock)) {
            self.sleep_from(slot_of(self.next_look, clock), self.next_look, clock);
        }
    }

    /// The wheel goes to sleep in this slot of this tick.
    fn sleep_from(&mut self, slot: u64, tick: u64, clock: &HostClock) {
        self.looked = Some(slot);
        self.sleep = self.due.map_or(LONGEST_SLEEP, |due| due.saturating_sub(slot).clamp(1, LONGEST_SLEEP));
        self.shortest = self.sleep < SHORTEST_SLEEP;
        self.next_look = tick + sleep_ticks(self.sleep.max(SHORTEST_SLEEP), clock);
    }
}

/// Ticks until the timer runs that was set to so many slots.
fn sleep_ticks(slots: u64, clock: &HostClock) -> u64 {
    (slots * SLOT_US * MICROSECOND / clock.tick_ns()).max(1) + 1
}

/// The slot in which a tick begins.
fn slot_of(tick: u64, clock: &HostClock) -> u64 {
    tick * clock.tick_ns() / (SLOT_US * MICROSECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLISECOND;

    /// A wheel on which something began to wait at this time.
    fn waiting(slots: u64, now: Nanos) -> (HostClock, Wheel) {
        let (clock, mut wheel) = (HostClock::new(1000, 0, 0), Wheel::default());
        wheel.insert(slots, &clock, now);
        (clock, wheel)
    }

    fn looks(wheel: &mut Wheel, clock: &HostClock, then: u64) -> Nanos {
        let at = wheel.wake(clock).expect("something waits");
        wheel.catch_up(clock, at);
        wheel.begin_look();
        if then > 0 {
            wheel.insert(then, clock, at);
        }
        wheel.end_look(clock, at);
        at
    }

    #[test]
    fn sleeps_end_a_tick_after_their_whole_ticks() {
        // 3.4 ms from 10.2 ms on: the timer is set to 3 ticks and runs after 4.
        let (clock, mut wheel) = waiting(340, 10_200_000);
        assert_eq!(wheel.wake(&clock), Some(14 * MILLISECOND));
        // After a look at 14 ms the next one comes at 16 ms.
        assert_eq!(looks(&mut wheel, &clock, 100), 14 * MILLISECOND);
        assert_eq!(wheel.wake(&clock), Some(16 * MILLISECOND));
    }

    #[test]
    fn a_look_that_comes_too_early_is_followed_by_one_two_ticks_later() {
        let (clock, mut wheel) = waiting(100, 10_200_000);
        assert_eq!(looks(&mut wheel, &clock, 100), 12 * MILLISECOND);
        // At 13.5 ms something new begins to wait for 1 ms. The look at 14 ms finds it half a millisecond away.
        wheel.clear(&clock, 13_500_000);
        wheel.insert(100, &clock, 13_500_000);
        assert_eq!(wheel.wake(&clock), Some(16 * MILLISECOND));
    }

    #[test]
    fn a_sleep_that_should_be_over_is_not_shortened() {
        let (clock, mut wheel) = waiting(8000, 10_200_000);
        assert_eq!(looks(&mut wheel, &clock, 0), 91 * MILLISECOND, "80 ticks and one");
        assert_eq!(wheel.next_look, 91 + 513);
        // What the first sleep was shortened to is over at 93 ms, but its timer runs at 94 ms.
        wheel.insert(200, &clock, 91_100_000);
        assert_eq!(wheel.next_look, 94);
        wheel.clear(&clock, 93_500_000);
        wheel.insert(20, &clock, 93_500_000);
        assert_eq!(wheel.wake(&clock), Some(94 * MILLISECOND));
    }

    #[test]
    fn what_waits_for_hours_is_found_at_once() {
        let (clock, wheel) = waiting(10 * 3600 * 100_000, 10_200_000);
        let mut each = wheel.clone();
        let due = each.due.unwrap();
        while slot_of(each.next_look, &clock) < due {
            each.sleep_from(slot_of(each.next_look, &clock), each.next_look, &clock);
        }
        assert_eq!(wheel.wake(&clock), Some(each.next_look * MILLISECOND));
    }
}
