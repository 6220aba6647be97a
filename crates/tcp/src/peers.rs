//! Memory of a host between connections: the MTU of the path to each peer and, where they are kept, round trips and slow-start
//! thresholds (Linux's tcp_metrics.c, FreeBSD's tcp_hostcache.c).
//!
//! A driver keeps a [`Memory`] for each host. A connection begins with what that knows of the peer ([`Memory::recall`]); what
//! it has learnt by its end ([`crate::Endpoint::lesson`]) goes back there ([`Memory::learn`]). Times are those of the host's own
//! clock, since its start.

use std::collections::{BTreeMap, VecDeque};

use crate::clock::{Nanos, SECOND};

/// System whose rules a host follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Nothing is kept but the path's MTU.
    None,
    /// Linux's: a connection teaches that enters TIME-WAIT, or whose FIN is acknowledged last of all.
    Linux,
    /// FreeBSD's up to 13: every connection teaches that had four round trips, when it ends or enters TIME-WAIT.
    FreeBsd,
    /// FreeBSD's from 14 on: TIME-WAIT has to be over.
    FreeBsdAfterTimeWait,
}

/// Settings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The system's rules.
    pub style: Style,
    /// Lessons are kept.
    pub keeps: bool,
    /// Linux: thresholds are kept too.
    pub keeps_ssthresh: bool,
    /// FreeBSD: time without use after which an entry is old (net.inet.tcp.hostcache.expire).
    pub expire: Nanos,
    /// FreeBSD: time between two searches for old entries (net.inet.tcp.hostcache.prune).
    pub prune: Nanos,
}

impl Settings {
    /// A system that keeps nothing.
    pub const NONE: Settings = Settings {
        style: Style::None,
        keeps: false,
        keeps_ssthresh: false,
        expire: 3600 * SECOND,
        prune: 300 * SECOND,
    };
    /// Linux before 5.6, switched off.
    pub const LINUX: Settings = Settings { style: Style::Linux, keeps_ssthresh: true, ..Settings::NONE };
    /// FreeBSD up to 13, switched off.
    pub const FREEBSD: Settings = Settings { style: Style::FreeBsd, ..Settings::NONE };
}

/// Knowledge of a peer with which a connection begins. Numbers are in the units of the system; 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Largest packet that the path is known to take, bytes with the IP header.
    pub path_mtu: Option<u32>,
    /// Smoothed round trip: Linux's srtt_us (3.9: srtt), FreeBSD's t_srtt.
    pub rtt: u64,
    /// Variation of round trips: Linux's mdev_us (3.9: mdev), FreeBSD's t_rttvar.
    pub rttvar: u64,
    /// Slow-start threshold: packets on Linux, bytes on FreeBSD.
    pub ssthresh: u64,
    /// Degree of reordering, packets (Linux).
    pub reordering: u32,
}

/// Lesson of a connection that has ended, in the units of [`Known`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lesson {
    /// Smoothed round trip; 0: none was measured that counts.
    pub rtt: u64,
    /// Variation of round trips.
    pub rttvar: u64,
    /// Slow-start threshold. Linux: that or half the window, by its state.
    pub ssthresh: u64,
    /// Linux: the threshold replaces a smaller one only, instead of any and none.
    pub raises_ssthresh: bool,
    /// Degree of reordering; 0: none that was learnt.
    pub reordering: u32,
}

/// Entry of a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    known: Known,
    /// Last lesson (Linux), last use (FreeBSD).
    used: Nanos,
}

/// Time after its last lesson when Linux forgets an entry (TCP_METRICS_TIMEOUT).
const LINUX_FORGETS: Nanos = 3600 * SECOND;

/// Memory of a host. Peers are known by numbers that the driver gives.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    mtus: BTreeMap<u64, u32>,
    entries: BTreeMap<u64, Entry>,
    /// Lessons to come, with the times when they do and the peers, in order of time.
    coming: VecDeque<(Nanos, u64, Lesson)>,
}

impl Memory {
    /// Notes what the path to a peer takes, bytes with the IP header.
    pub fn learn_mtu(&mut self, peer: u64, mtu: u32) {
        self.mtus.insert(peer, mtu);
    }

    /// Forgets everything (net.inet.tcp.hostcache.purgenow).
    pub fn forget(&mut self) {
        *self = Memory::default();
    }

    /// Forgets everything but MTUs (`ip tcp_metrics flush`).
    pub fn forget_lessons(&mut self) {
        *self = Memory { mtus: std::mem::take(&mut self.mtus), ..Memory::default() };
    }

    /// Knowledge of a peer at `now`.
    pub fn recall(&mut self, settings: &Settings, peer: u64, now: Nanos) -> Known {
        self.settle(settings, now);
        let known = self.entry(settings, peer, now).map_or_else(Known::default, |entry| {
            if settings.style != Style::Linux {
                entry.used = now;
            }
            entry.known
        });
        Known { path_mtu: self.mtus.get(&peer).copied(), ..known }
    }

    /// Takes the lesson of a connection to a peer, which counts from `from` on.
    pub fn learn(&mut self, settings: &Settings, peer: u64, now: Nanos, (from, lesson): (Nanos, Lesson)) {
        self.settle(settings, now);
        if from > now {
            self.coming.push_back((from, peer, lesson));
        } else {
            self.take(settings, peer, now, &lesson);
        }
    }

    /// Takes the lessons whose time has come.
    fn settle(&mut self, settings: &Settings, now: Nanos) {
        while let Some(&(from, peer, lesson)) = self.coming.front()
            && from <= now
        {
            self.coming.pop_front();
            self.take(settings, peer, from, &lesson);
        }
    }

    /// Entry of a peer that is not too old.
    fn entry(&mut self, settings: &Settings, peer: u64, now: Nanos) -> Option<&mut Entry> {
        let old = |used| match settings.style {
            Style::None => true,
            Style::Linux => now > used + LINUX_FORGETS,
            Style::FreeBsd | Style::FreeBsdAfterTimeWait => now >= purged_at(settings, used),
        };
        if self.entries.get(&peer).is_some_and(|entry| old(entry.used)) {
            self.entries.remove(&peer);
        }
        self.entries.get_mut(&peer)
    }

    fn take(&mut self, settings: &Settings, peer: u64, now: Nanos, lesson: &Lesson) {
        // One that is too old is gone before the new one comes.
        self.entry(settings, peer, now);
        if settings.style == Style::Linux {
            self.take_as_linux(settings, peer, now, lesson);
            return;
        }
        let Entry { known, used } = self.entries.entry(peer).or_default();
        *used = now;
        for (old, new) in [
            (&mut known.rtt, lesson.rtt),
            (&mut known.rttvar, lesson.rttvar),
            (&mut known.ssthresh, lesson.ssthresh),
        ] {
            if new > 0 {
                *old = if *old == 0 { new } else { (*old + new) / 2 };
            }
        }
    }

    /// tcp_update_metrics.
    fn take_as_linux(&mut self, settings: &Settings, peer: u64, now: Nanos, lesson: &Lesson) {
        if lesson.rtt == 0 {
            if let Some(entry) = self.entries.get_mut(&peer) {
                entry.known.rtt = 0;
            }
            return;
        }
        let Entry { known, used } = self.entries.entry(peer).or_default();
        *used = now;
        let change = known.rtt.abs_diff(lesson.rtt);
        // Longer ones count at once, shorter ones by an eighth.
        known.rtt = if known.rtt <= lesson.rtt { lesson.rtt } else { known.rtt - (change >> 3) };
        let deviation = (change >> 1).max(lesson.rttvar);
        known.rttvar = if deviation >= known.rttvar {
            deviation
        } else {
            known.rttvar - ((known.rttvar - deviation) >> 2)
        };
        let replaces =
            if lesson.raises_ssthresh { (1..lesson.ssthresh).contains(&known.ssthresh) } else { true };
        if settings.keeps_ssthresh && replaces {
            known.ssthresh = lesson.ssthresh;
        }
        known.reordering = known.reordering.max(lesson.reordering);
    }
}

/// Time when FreeBSD removes an entry that was used last at `used`. Each search takes the time between searches off what is left
/// of its life, and removes it if nothing is left (tcp_hc_purge).
fn purged_at(settings: &Settings, used: Nanos) -> Nanos {
    let searches = settings.expire.div_ceil(settings.prune) + 1;
    (used / settings.prune + searches) * settings.prune
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX: Settings = Settings { keeps: true, ..Settings::LINUX };
    const FREEBSD: Settings = Settings { keeps: true, ..Settings::FREEBSD };

    /// Teaches and recalls at once.
    fn after(memory: &mut Memory, settings: &Settings, now: Nanos, lesson: Lesson) -> Known {
        memory.learn(settings, 1, now, (now, lesson));
        memory.recall(settings, 1, now)
    }

    /// In the units of tcp_metrics.c: 8 times the round trip and 4 times the deviation, in microseconds.
    #[test]
    fn linux_takes_a_longer_round_trip_at_once_and_a_shorter_one_by_an_eighth() {
        let mut memory = Memory::default();
        let of = |rtt, rttvar| Lesson { rtt, rttvar, raises_ssthresh: true, ..Lesson::default() };
        let mut learn = |lesson| {
            let known = after(&mut memory, &LINUX, 0, lesson);
            (known.rtt, known.rttvar)
        };
        // 100 ms: nothing was known, half of the difference is more than the deviation.
        assert_eq!(learn(of(800_000, 40_000)), (800_000, 400_000));
        // 60 ms: 800,000 - 320,000 / 8; the deviation falls by a quarter of 400,000 - 160,000.
        assert_eq!(learn(of(480_000, 40_000)), (760_000, 340_000));
        // 120 ms, with a deviation of 100 ms.
        assert_eq!(learn(of(960_000, 400_000)), (960_000, 400_000));
        // Nothing was measured, or a timeout was under way.
        assert_eq!(learn(of(0, 0)), (0, 400_000));
    }

    /// Round trip and deviation at the end of each of four transfers of a live kernel 6.18, and what `ip tcp_metrics` showed then,
    /// in whole microseconds.
    #[test]
    fn linux_keeps_what_a_live_kernel_kept() {
        let mut memory = Memory::default();
        for ([rtt, rttvar], kept) in [
            ([39_080, 5_913], [39_080, 39_080]),
            ([43_005, 7_620], [43_005, 31_215]),
            ([50_922, 7_838], [50_922, 25_390]),
            ([46_771, 21_721], [50_403, 24_473]),
        ] {
            let lesson = Lesson { rtt: 8 * rtt, rttvar: 4 * rttvar, ..Lesson::default() };
            let known = after(&mut memory, &LINUX, 0, lesson);
            let off = [known.rtt / 8, known.rttvar / 4].map(|found| found as i64);
            assert!(off[0].abs_diff(kept[0]) <= 1 && off[1].abs_diff(kept[1]) <= 1, "{off:?}, not {kept:?}");
        }
    }

    #[test]
    fn linux_takes_a_threshold_from_avoidance_and_else_a_larger_one_alone() {
        let mut memory = Memory::default();
        let of =
            |ssthresh, raises_ssthresh| Lesson { rtt: 8, ssthresh, raises_ssthresh, ..Lesson::default() };
        let mut learn = |lesson| after(&mut memory, &LINUX, 0, lesson).ssthresh;
        assert_eq!(
            [(40, true), (20, false), (15, true), (30, true), (10, false)].map(|(s, r)| learn(of(s, r))),
            [0, 20, 20, 30, 10]
        );
        let without = Settings { keeps_ssthresh: false, ..LINUX };
        assert_eq!(after(&mut Memory::default(), &without, 0, of(20, false)).ssthresh, 0);
    }

    #[test]
    fn linux_keeps_the_most_reordering_and_forgets_all_after_an_hour() {
        let mut memory = Memory::default();
        for (reordering, kept) in [(0, 0), (9, 9), (5, 9)] {
            let lesson = Lesson { rtt: 8, reordering, ..Lesson::default() };
            assert_eq!(after(&mut memory, &LINUX, SECOND, lesson).reordering, kept);
        }
        memory.learn_mtu(1, 1400);
        assert_eq!(memory.recall(&LINUX, 1, 3601 * SECOND).reordering, 9);
        let later = memory.recall(&LINUX, 1, 3601 * SECOND + 1);
        assert_eq!(later, Known { path_mtu: Some(1400), ..Known::default() });
    }

    #[test]
    fn freebsd_takes_the_mean_with_what_it_knew() {
        let mut memory = Memory::default();
        let of = |rtt, rttvar, ssthresh| Lesson { rtt, rttvar, ssthresh, ..Lesson::default() };
        let mut learn = |lesson| {
            let known = after(&mut memory, &FREEBSD, 0, lesson);
            (known.rtt, known.rttvar, known.ssthresh)
        };
        assert_eq!(learn(of(3200, 800, 0)), (3200, 800, 0));
        assert_eq!(learn(of(1600, 0, 30_000)), (2400, 800, 30_000));
        assert_eq!(learn(of(2400, 401, 15_000)), (2400, 600, 22_500));
    }

    /// Searches come at whole multiples of 300 s; one takes an hour off in twelve, and the thirteenth removes what is left.
    #[test]
    fn freebsd_removes_what_was_not_used_for_an_hour_when_it_looks() {
        let lesson = Lesson { rtt: 32, ..Lesson::default() };
        let is_known = |memory: &Memory, seconds| {
            memory.clone().recall(&FREEBSD, 1, seconds * SECOND) != Known::default()
        };
        let mut memory = Memory::default();
        memory.learn(&FREEBSD, 1, 100 * SECOND, (100 * SECOND, lesson));
        assert!(is_known(&memory, 13 * 300 - 1) && !is_known(&memory, 13 * 300));
        // A use is a new beginning.
        memory.recall(&FREEBSD, 1, 310 * SECOND);
        assert!(is_known(&memory, 14 * 300 - 1) && !is_known(&memory, 14 * 300));
        // TEACUP's hosts: an entry of a second lives until the second search, of one every five seconds.
        let short = Settings { expire: SECOND, prune: 5 * SECOND, ..FREEBSD };
        let mut memory = Memory::default();
        memory.learn(&short, 1, 11 * SECOND, (11 * SECOND, lesson));
        assert_ne!(memory.clone().recall(&short, 1, 20 * SECOND - 1), Known::default());
        assert_eq!(memory.recall(&short, 1, 20 * SECOND), Known::default());
    }

    #[test]
    fn a_lesson_counts_from_its_time_on() {
        let mut memory = Memory::default();
        memory.learn(&FREEBSD, 1, SECOND, (61 * SECOND, Lesson { rtt: 3200, ..Lesson::default() }));
        memory.learn(&FREEBSD, 1, 2 * SECOND, (2 * SECOND, Lesson { rtt: 1600, ..Lesson::default() }));
        let rtt = |memory: &mut Memory, seconds| memory.recall(&FREEBSD, 1, seconds * SECOND).rtt;
        assert_eq!([2, 60, 61].map(|seconds| rtt(&mut memory, seconds)), [1600, 1600, 2400]);
    }
}
