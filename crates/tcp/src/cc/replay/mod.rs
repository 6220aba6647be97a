//! A congestion control fed with what another sender saw, beside the windows that the other one had.
//!
//! The reference takes over the other's window after each reaction to congestion, so that one difference is told once
//! and not again in all that follows: in slow start after each round trip, too, in congestion avoidance not, as what
//! CUBIC does there hangs on the time since the reduction.

mod freebsd;
mod linux;

pub(crate) use freebsd::FreeBsd;
pub(crate) use linux::Linux;

use crate::clock::Nanos;

/// Packets by which what is in flight may be below the window that limits it: a burst that is held back.
const SLACK_PACKETS: u64 = 3;

/// Packets of a window up to which it may be that of a connection's beginning: ten (RFC 6928), and those of the first ACK.
const INITIAL_PACKETS: u64 = 12;

/// Packets acknowledged since a recovery whose end was counted, up to which a loss may still belong to it: three that make a gap a
/// loss (RFC 9002 section 6.1.1), and the two of an ACK. Those three were counted in place of the packets that were lost.
const BELATED_PACKETS: u64 = 5;

/// Part of a window by which it falls at least when it is reduced: a twentieth.
const REDUCED: u64 = 19;

/// Round trips after a timeout in which a window may stay: until something sent later is acknowledged.
const QUIET_ROUNDS: u32 = 3;

/// Packets of a slow start without growth to speak of that are its end.
const STALLED_PACKETS: u64 = 4;

/// Notice of the other sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Data were acknowledged.
    Ack,
    /// Data were acknowledged, and how much is not known well: the window is followed, and not judged.
    Followed,
    /// An ACK came, and it is not known whether it acknowledged data.
    Unclear,
    /// Loss, found by ACKs.
    Loss,
    /// A retransmission timeout.
    Timeout,
    /// An ECN echo.
    Ecn,
    /// End of a recovery.
    Recovered,
    /// It took a reduction back.
    Undo,
    /// It left slow start without congestion.
    Exit,
    /// Sending is limited by the application, until as much is in flight as the window allows.
    AppLimited,
}

/// A notice, and what the other sender held. Amounts are bytes.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Time.
    pub now: Nanos,
    /// Notice.
    pub notice: Notice,
    /// Amount newly acknowledged, or lost.
    pub bytes: u64,
    /// Round trip of the newest data acknowledged. None: not known.
    pub rtt: Option<Nanos>,
    /// Smoothed round trip of the sender afterwards. None: not known.
    pub srtt: Option<Nanos>,
    /// Amount in flight before this, or the least that it may have been. None: not known.
    pub flight: Option<u64>,
    /// The most that it may have been. None: not known.
    pub most: Option<u64>,
    /// Amount in flight afterwards. None: not known.
    pub left: Option<u64>,
    /// Window afterwards.
    pub cwnd: u64,
    /// Slow-start threshold afterwards. None: not known.
    pub ssthresh: Option<u64>,
}

#[cfg(test)]
impl Seen {
    /// A notice of which the round trip is known, and the window afterwards.
    fn with_window(now: Nanos, notice: Notice, bytes: u64, rtt: Nanos, cwnd: u64) -> Seen {
        Seen {
            now,
            notice,
            bytes,
            rtt: Some(rtt),
            srtt: None,
            flight: None,
            most: None,
            left: None,
            cwnd,
            ssthresh: None,
        }
    }
}

/// Comparison that a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Growth in a round trip of slow start.
    SlowStart,
    /// Growth in congestion avoidance since the last reduction, after one more round trip.
    Avoidance,
    /// Window after a reaction to loss.
    Loss,
    /// Window after a reaction to an ECN echo.
    Ecn,
    /// Window after a timeout.
    Timeout,
    /// Slow-start threshold after a timeout; where it is not told, the window at which the slow start that follows is left.
    Threshold,
    /// Slow start that the other sender left without congestion: nothing is compared.
    Exit,
}

/// The two windows at the end of something, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Time of the end.
    pub now: Nanos,
    /// Time of the beginning.
    pub since: Nanos,
    /// Comparison.
    pub compared: Compared,
    /// The window both began with.
    pub before: u64,
    /// Window of the other sender.
    pub found: u64,
    /// Window of the reference.
    pub expected: u64,
    /// Amount acknowledged in between.
    pub acked: u64,
    /// Slow-start threshold that the reference went by. None: there was none.
    pub threshold: Option<u64>,
    /// Whether the reference took the window for one that was never used up in between.
    pub unused: bool,
}

/// Reaction to congestion under way.
struct Episode {
    compared: Compared,
    since: Nanos,
    before: u64,
    /// Whether the window before is known: after a rest it may have begun anew, which no row shows.
    known: bool,
    acked: u64,
    /// Amount that has to be acknowledged or lost before it is over. None: the other sender says when.
    left: Option<u64>,
}

/// Timeout after which the other sender's threshold is awaited.
struct Fallen {
    since: Nanos,
    before: u64,
    /// The reference's threshold.
    expected: u64,
    /// Window left by the timeout, and the round trips in which it has stayed so.
    window: u64,
    quiet: u32,
}

/// Last ACK of a slow start at which the window grew as a slow start's does.
#[derive(Clone, Copy, Default)]
struct Fast {
    cwnd: u64,
    /// Amount acknowledged since.
    since: u64,
}

/// ACK, and what follows from it whoever the reference is. Amounts are bytes.
pub(crate) struct Arrival {
    /// Amount newly acknowledged.
    bytes: u64,
    /// Whether it may have acknowledged data that are counted elsewhere.
    unclear: bool,
    /// Least and most that may have been in flight before it.
    flight: u64,
    most: u64,
    /// The other sender's window before it.
    window: u64,
    /// Oldest unacknowledged, and next to send, after it.
    una: u64,
    nxt: u64,
    /// Whether the other sender says that its application limits it.
    app_limited: bool,
}

/// The congestion control of a system, driven by the hooks of that system. Windows are bytes.
pub(crate) trait Driven: Send {
    /// Begins the connection.
    fn init(&mut self);

    fn set_time(&mut self, now: Nanos);

    /// Takes over a window and a threshold; None: none is known.
    fn follow(&mut self, cwnd: u64, ssthresh: Option<u64>);

    /// Window; where it hangs on what the rows do not tell, the one next to what was `found`.
    fn window(&self, found: u64) -> u64;

    /// Slow-start threshold. None: not set yet.
    fn threshold(&self) -> Option<u64>;

    /// Whether a window is one of slow start.
    fn is_slow_start(&self, cwnd: u64) -> bool;

    /// Notes an ACK.
    fn arrived(&mut self, ack: &Arrival);

    /// Grows the window by the ACK just noted. The threshold stays: when slow start ends by delay is each sender's own choice.
    fn grow(&mut self, rtt: Option<Nanos>, srtt: Option<Nanos>);

    /// Takes the round trips of the ACK just noted in, during a reaction to congestion.
    fn measure(&mut self, _rtt: Option<Nanos>, _srtt: Option<Nanos>) {}

    /// Begins the reaction of a window, with so much in flight, to an ECN echo or else to a loss.
    fn react(&mut self, cwnd: u64, flight: u64, ecn: bool);

    /// Ends that reaction; returns the window that it leaves.
    fn recovered(&mut self) -> u64;

    /// Whether a reaction with such a threshold, and so much in flight at its end, leaves such another window than the threshold.
    fn leads_to(&self, _ssthresh: u64, _cwnd: u64, _flight: u64) -> bool {
        false
    }

    /// Reacts to a timeout, the `first` in a row or not, of a window with so much in flight that was `reduced` already or not.
    fn timeout(&mut self, cwnd: u64, flight: u64, first: bool, reduced: bool);

    /// Whether the window was never used up since it was taken over, so that it may not grow.
    fn unused(&self) -> bool {
        false
    }

    /// Leaves slow start during a reaction, as the other sender does, with such a threshold.
    fn leave(&mut self, _ssthresh: u64) {}

    /// Begins to send again, at `began`, after nothing was in flight; the last was sent at `sent`, not later.
    fn resume(&mut self, _sent: Nanos, _began: Nanos) {}

    /// Takes the window for one that begins anew after a rest; it follows.
    fn restart(&mut self) {}

    /// Takes a reaction back; the window follows.
    fn undo(&mut self);
}

/// The reference.
pub struct Replay {
    driven: Box<dyn Driven>,
    mss: u64,
    /// Bytes acknowledged, and sent, so far.
    una: u64,
    nxt: u64,
    /// Whether the other sender says when a recovery is over.
    told: bool,
    /// The other sender's window.
    window: u64,
    episode: Option<Episode>,
    /// Whether the last recovery was over by counting, and nothing was compared since.
    counted: bool,
    /// Loss that belongs to the last recovery unless the window is reduced for it: its time.
    belated: Option<Nanos>,
    fallen: Option<Fallen>,
    /// Whether nothing was acknowledged since a timeout.
    backing_off: bool,
    /// Time at which the other sender said that a recovery was over.
    ended: Option<Nanos>,
    fast: Fast,
    /// The stretch that is compared next: its beginning, the window then, and what was acknowledged.
    since: Nanos,
    before: u64,
    acked: u64,
    round_end: u64,
    /// Last time at which the window was used up.
    used_at: Nanos,
    app_limited: bool,
    /// Time at which the last was sent of what was acknowledged when nothing was in flight any more.
    drained: Option<Nanos>,
    /// Whether something was compared.
    compared: bool,
    begun: bool,
}

impl Replay {
    /// Puts a congestion control with packets of `mss` bytes beside another sender. `told`: that one says when a recovery is over.
    pub(crate) fn new(driven: Box<dyn Driven>, mss: u32, told: bool) -> Replay {
        Replay {
            driven,
            mss: u64::from(mss),
            una: 0,
            nxt: 0,
            told,
            window: 0,
            episode: None,
            counted: false,
            belated: None,
            fallen: None,
            backing_off: false,
            ended: None,
            fast: Fast::default(),
            since: 0,
            before: 0,
            acked: 0,
            round_end: 0,
            used_at: 0,
            app_limited: false,
            drained: None,
            compared: false,
            begun: false,
        }
    }

    /// Takes in a notice; says what has come to an end, if something has.
    pub fn step(&mut self, seen: &Seen) -> Option<Verdict> {
        self.driven.set_time(seen.now);
        if !self.begun {
            self.begin(seen);
            return None;
        }
        let verdict = match seen.notice {
            Notice::Ack | Notice::Followed | Notice::Unclear => self.ack(seen),
            Notice::Loss => self.congestion(seen, Compared::Loss),
            Notice::Ecn => self.congestion(seen, Compared::Ecn),
            Notice::Timeout => Some(self.timeout(seen)),
            Notice::Recovered => {
                self.ended = self.episode.is_some().then_some(seen.now);
                self.recovered(seen)
            }
            Notice::Undo => {
                self.episode = None;
                self.fallen = None;
                self.driven.undo();
                self.follow(seen, seen.ssthresh);
                None
            }
            Notice::Exit if self.episode.is_some() => {
                // A window on its way up to the threshold may leave slow start, too.
                if let Some(threshold) = seen.ssthresh {
                    self.driven.leave(threshold);
                }
                None
            }
            Notice::Exit => {
                let slow = self.driven.is_slow_start(self.driven.window(self.window));
                slow.then(|| self.exit(seen))
            }
            Notice::AppLimited => {
                self.app_limited = true;
                None
            }
        };
        self.window = seen.cwnd;
        self.compared |= verdict.is_some();
        verdict
    }

    fn begin(&mut self, seen: &Seen) {
        self.begun = true;
        self.driven.follow(seen.cwnd, seen.ssthresh);
        self.driven.init();
        self.window = seen.cwnd;
        self.follow(seen, seen.ssthresh);
    }

    fn bytes(&self, packets: u64) -> u64 {
        packets * self.mss
    }

    /// Takes over the other sender's window; what is compared next begins here.
    fn follow(&mut self, seen: &Seen, ssthresh: Option<u64>) {
        self.driven.follow(seen.cwnd, ssthresh);
        self.since = seen.now;
        self.before = seen.cwnd;
        self.acked = 0;
        self.counted = false;
        self.belated = None;
        self.fast = Fast { cwnd: seen.cwnd, since: 0 };
        self.round_end = self.una + seen.cwnd;
    }

    fn ack(&mut self, seen: &Seen) -> Option<Verdict> {
        if let Some(since) = self.belated
            && self.acked <= self.bytes(BELATED_PACKETS)
            && seen.cwnd + seen.cwnd / REDUCED < self.window
        {
            self.react(since, seen, Compared::Loss);
        }
        let resumed = self.noted(seen);
        self.backing_off &= seen.bytes == 0;
        if let Some(episode) = &mut self.episode {
            self.driven.measure(seen.rtt, seen.srtt);
            episode.acked += seen.bytes;
            let left = episode.left.as_mut()?;
            *left = left.saturating_sub(seen.bytes);
            if *left > 0 {
                return None;
            }
            let verdict = self.recovered(seen);
            self.counted = true;
            return verdict;
        }
        if self.ended == Some(seen.now) {
            // The ACK that ends a recovery covers what had arrived in it.
            self.follow(seen, seen.ssthresh.or(self.driven.threshold()));
            return None;
        }
        if seen.cwnd < self.window && self.fallen.is_none() && (resumed || self.lies_idle(seen)) {
            // Nothing was in flight, so nothing was lost: RFC 5681 section 4.1 restarts.
            if resumed {
                self.driven.restart();
            }
            self.follow(seen, seen.ssthresh.or(self.driven.threshold()));
            return None;
        }
        self.acked += seen.bytes;
        self.fast.since += seen.bytes;
        if 2 * seen.cwnd.saturating_sub(self.window) >= seen.bytes.max(1) {
            self.fast = Fast { cwnd: seen.cwnd, since: 0 };
        }
        self.driven.grow(seen.rtt, seen.srtt);
        if self.fallen.is_some()
            && seen.bytes > 0
            && let Some(threshold) = seen.ssthresh
        {
            return self.threshold(seen, threshold);
        }
        if seen.notice == Notice::Followed {
            self.follow(seen, seen.ssthresh.or(self.driven.threshold()));
            return None;
        }
        self.round(seen)
    }

    /// Compares the thresholds after a timeout.
    fn threshold(&mut self, seen: &Seen, found: u64) -> Option<Verdict> {
        let fallen = self.fallen.take()?;
        let acked = self.acked;
        self.follow(seen, Some(found));
        Some(Verdict {
            now: seen.now,
            since: fallen.since,
            compared: Compared::Threshold,
            before: fallen.before,
            found,
            expected: fallen.expected,
            acked,
            threshold: None,
            unused: false,
        })
    }

    /// Whether a window may fall as it is not used (RFC 2861): for a round trip, or down to what is in flight, so that no burst is sent.
    fn lies_idle(&self, seen: &Seen) -> bool {
        let long = seen.now - self.used_at >= seen.rtt.or(seen.srtt).unwrap_or(Nanos::MAX);
        let (Some(flight), Some(left)) = (seen.flight, seen.left) else { return long };
        long || (flight + self.bytes(SLACK_PACKETS) < self.window && left <= seen.cwnd)
    }

    /// Notes an ACK; returns whether sending began again before it, after nothing was in flight.
    fn noted(&mut self, seen: &Seen) -> bool {
        let (bytes, flight) = (seen.bytes, seen.flight.unwrap_or(self.window));
        let most = seen.most.unwrap_or(flight);
        let sent = seen.now.saturating_sub(seen.rtt.unwrap_or(0));
        let empty = seen.left.or(seen.flight.map(|flight| flight.saturating_sub(bytes))) == Some(0);
        let nothing = empty && bytes == 0;
        let drained = self.drained.take_if(|_| !nothing);
        if let Some(last) = drained {
            self.driven.resume(last, sent.max(last));
        }
        if empty {
            self.drained.get_or_insert(sent);
        }
        self.una += bytes;
        self.nxt = self.una + flight.saturating_sub(bytes);
        if flight + self.mss > self.window {
            self.used_at = seen.now;
        }
        self.app_limited &= flight + self.bytes(SLACK_PACKETS) < self.window;
        let (una, nxt, window, app_limited) = (self.una, self.nxt, self.window, self.app_limited);
        let unclear = seen.notice == Notice::Unclear;
        self.driven.arrived(&Arrival { bytes, unclear, flight, most, window, una, nxt, app_limited });
        drained.is_some()
    }

    /// Compares the windows once a window's worth was acknowledged.
    fn round(&mut self, seen: &Seen) -> Option<Verdict> {
        if self.una < self.round_end {
            return None;
        }
        self.round_end = self.una + seen.cwnd;
        let began_below = self.driven.is_slow_start(self.before);
        let compared = if began_below { Compared::SlowStart } else { Compared::Avoidance };
        let verdict = self.verdict(seen, compared);
        if !began_below {
            return Some(verdict);
        }
        let (grown, wanted) =
            (seen.cwnd.saturating_sub(self.before), verdict.expected.saturating_sub(self.before));
        let asleep = self.fallen.as_mut().filter(|fallen| seen.cwnd <= fallen.window);
        if let Some(fallen) = asleep
            && fallen.quiet < QUIET_ROUNDS
        {
            fallen.quiet += 1;
            self.follow(seen, None);
            return None;
        }
        let stalled = grown < wanted && self.fast.since >= self.bytes(STALLED_PACKETS);
        if self.driven.threshold().is_none() && (stalled || 2 * grown < wanted) {
            if self.fallen.is_some() {
                return self.threshold(seen, self.fast.cwnd);
            }
            if self.compared || self.before > self.bytes(INITIAL_PACKETS) || 2 * grown >= wanted {
                return Some(self.exit(seen));
            }
            // A connection's first round trip has no other whose delay would be a reason to leave: this is no slow start.
            self.follow(seen, Some(seen.cwnd));
            return Some(verdict);
        }
        self.follow(seen, self.driven.threshold());
        Some(verdict)
    }

    fn exit(&mut self, seen: &Seen) -> Verdict {
        let verdict = self.verdict(seen, Compared::Exit);
        self.follow(seen, Some(seen.cwnd));
        verdict
    }

    fn verdict(&self, seen: &Seen, compared: Compared) -> Verdict {
        Verdict {
            now: seen.now,
            since: self.since,
            compared,
            before: self.before,
            found: seen.cwnd,
            expected: self.driven.window(seen.cwnd),
            acked: self.acked,
            threshold: self.driven.threshold(),
            unused: self.driven.unused(),
        }
    }

    fn congestion(&mut self, seen: &Seen, compared: Compared) -> Option<Verdict> {
        if let Some(episode) = &mut self.episode {
            if let Some(left) = &mut episode.left {
                *left = left.saturating_sub(seen.bytes);
            }
            return None;
        }
        let belated = self.counted && self.acked <= self.bytes(BELATED_PACKETS);
        if compared == Compared::Loss && belated && seen.cwnd >= self.window {
            self.belated = self.belated.or(Some(seen.now));
            return None;
        }
        self.react(seen.now, seen, compared);
        None
    }

    /// Begins the reaction to congestion that was found at `since`.
    fn react(&mut self, since: Nanos, seen: &Seen, compared: Compared) {
        self.fallen = None;
        self.belated = None;
        let flight = seen.flight.unwrap_or(self.window);
        let left = (!self.told).then(|| flight.max(1));
        let known = self.drained.is_none();
        self.episode = Some(Episode { compared, since, before: self.window, known, acked: 0, left });
        self.driven.react(self.window, flight, compared == Compared::Ecn);
    }

    fn recovered(&mut self, seen: &Seen) -> Option<Verdict> {
        let episode = self.episode.take()?;
        let (mut found, mut expected) = (seen.cwnd, self.driven.recovered());
        let left = seen.left.or(seen.flight.map(|flight| flight.saturating_sub(seen.bytes)));
        if let (Some(left), Some(told), Some(threshold)) = (left, seen.ssthresh, self.driven.threshold())
            && self.driven.leads_to(told, found, left)
        {
            // The window is on its way to the threshold, which is what the reaction left.
            (found, expected) = (told, threshold);
        }
        // Slow start goes on only where the other sender says so.
        self.follow(seen, Some(seen.ssthresh.unwrap_or(seen.cwnd)));
        episode.known.then_some(Verdict {
            now: seen.now,
            since: episode.since,
            compared: episode.compared,
            before: episode.before,
            found,
            expected,
            acked: episode.acked,
            threshold: None,
            unused: false,
        })
    }

    fn timeout(&mut self, seen: &Seen) -> Verdict {
        let (since, before) = (seen.now, self.window);
        // What was reduced for a loss of the same window, or for a timeout after which nothing arrived, is not reduced again.
        let began = self.episode.take().map(|episode| episode.before);
        let first = !self.backing_off;
        let flight = seen.flight.unwrap_or(before);
        self.driven.timeout(before, flight, first, began.is_some());
        if first {
            let expected = self.driven.threshold().unwrap_or(before);
            self.fallen = Some(Fallen {
                since,
                before: began.unwrap_or(before),
                expected,
                window: seen.cwnd,
                quiet: 0,
            });
        } else if let (Some(fallen), Some(again)) = (&mut self.fallen, self.driven.threshold()) {
            // FreeBSD 13 reduces for each timeout in a row.
            fallen.expected = again;
        }
        self.backing_off = true;
        let expected = self.driven.window(seen.cwnd);
        // The slow start that follows shows the other sender's threshold, where nothing tells it.
        self.follow(seen, None);
        Verdict {
            now: seen.now,
            since,
            compared: Compared::Timeout,
            before,
            found: seen.cwnd,
            expected,
            acked: 0,
            threshold: None,
            unused: false,
        }
    }
}

#[cfg(test)]
mod tests;
