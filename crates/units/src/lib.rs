//! Vocabulary that all crates share: time, phases of congestion control, kinds of events. It depends on nothing.

/// True time, nanoseconds since the start of the run.
pub type Nanos = u64;

/// Second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;
/// Millisecond in nanoseconds.
pub const MILLISECOND: Nanos = 1_000_000;
/// Microsecond in nanoseconds.
pub const MICROSECOND: Nanos = 1_000;

/// The tick in which Linux (4.8 and later) runs a timer that was set in tick `now` to `wait` ticks from then.
///
/// Timers wait in slots of a wheel, 64 on each of its levels, and a level's slots are eight times as long as those of the
/// level below. A timer goes to the lowest level that reaches so far, and into the slot behind its own, as the tick in which
/// it is set is partly over (kernel/time/timer.c, calc_wheel_index). So it runs one tick late, of waits from 63 ticks on up
/// to 8, from 504 up to 64, and so on.
#[inline]
pub const fn linux_wheel(now: u64, wait: u64) -> u64 {
    let mut slot = 0;
    while wait >= 63 << slot && slot < WHEEL_TOP {
        slot += 3;
    }
    (((now + wait) >> slot) + 1) << slot
}

/// Ticks in a slot of the wheel's highest level, as a power of two.
const WHEEL_TOP: u32 = 24;

/// Declares an enum whose variants are words of a table's column, and the list of them in their order.
macro_rules! words {
    ($(#[$about:meta])* $name:ident in $column:literal { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All of them; the place of each is its number (`as`).
            pub const ALL: &[$name] = &[$($name::$variant),*];

            #[doc = concat!("The word in the ", $column, ".")]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}

words! {
    /// Phase of congestion control, told alike for all families of systems.
    Phase in "`state` column of the `tcp` table" {
        /// cwnd grows exponentially.
        SlowStart = "slow-start",
        /// Congestion avoidance.
        Avoidance = "avoidance",
        /// Fast recovery.
        Recovery = "recovery",
        /// Loss recovery after a timeout, until repaired.
        Loss = "loss",
        /// Reducing without loss (ECN, local drop).
        Cwr = "cwr",
        /// Duplicate ACKs or SACKs seen, nothing judged lost (Linux).
        Disorder = "disorder",
    }
}

words! {
    /// Kind of an event that an endpoint reports; its `seq` is payload bytes since the start of the stream.
    EventKind in "`kind` column of the `events` table" {
        /// Fast recovery (or Linux's Recovery state) begins; value = cwnd in bytes before it.
        RecoveryIn = "recovery-in",
        /// Recovery ends; value = cwnd in bytes after it.
        RecoveryOut = "recovery-out",
        /// A retransmission timeout; value = its backoff shift, 1 for the first.
        Rto = "rto",
        /// A tail loss probe was sent.
        Tlp = "tlp",
        /// A congestion reduction was undone; value = restored cwnd in bytes.
        Undo = "undo",
        /// Slow start ended without a loss (HyStart, delay gradient); value = cwnd in bytes.
        SlowStartExit = "slow-start-exit",
        /// A reduction because of an ECN echo or a local drop; value = cwnd in bytes after it.
        Reduction = "reduction",
        /// The connection's state changed; value = number of the state (`tcp::State`).
        State = "state",
        /// BBR begins, or goes back to, STARTUP; value = cwnd in bytes, as of each phase.
        BbrStartup = "bbr-startup",
        /// BBR begins DRAIN.
        BbrDrain = "bbr-drain",
        /// BBR begins, or goes back to, PROBE_BW, whose first phase follows.
        BbrProbeBw = "bbr-probe-bw",
        /// BBR begins PROBE_DOWN; version 1: the gain of 3/4.
        BbrDown = "bbr-down",
        /// BBR begins PROBE_CRUISE; version 1: the gain of 1.
        BbrCruise = "bbr-cruise",
        /// BBR begins PROBE_REFILL.
        BbrRefill = "bbr-refill",
        /// BBR begins PROBE_UP; version 1: the gain of 5/4.
        BbrUp = "bbr-up",
        /// BBR begins PROBE_RTT.
        BbrProbeRtt = "bbr-probe-rtt",
        /// BBR's largest bandwidth has changed since the last of these; value = payload in bit/s.
        BbrBwHi = "bbr-bw-hi",
        /// BBR's lower bound of bandwidth, of version 1 a policer's rate, likewise; value = payload in bit/s, or none.
        BbrBwLo = "bbr-bw-lo",
        /// BBR's upper bound of what is in flight likewise; value = bytes, or none.
        BbrInflightHi = "bbr-inflight-hi",
        /// BBR's lower bound of what is in flight likewise; value = bytes, or none.
        BbrInflightLo = "bbr-inflight-lo",
        /// BBR's least round trip likewise; value = ns.
        BbrMinRtt = "bbr-min-rtt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LVL_START and LVL_GRAN of kernel/time/timer.c: 63 and 8 ticks, 504 and 64, 4032 and 512.
    #[test]
    fn a_linux_timer_runs_in_the_slot_behind_its_own() {
        for (now, wait, runs) in [
            (1000, 1, 1002),
            (1000, 62, 1063),
            (1000, 63, 1064),
            (1000, 64, 1072),
            (1001, 200, 1208),
            (1007, 503, 1512),
            (1000, 504, 1536),
            (1000, 4031, 5056),
            (1000, 4032, 5120),
        ] {
            assert_eq!(linux_wheel(now, wait), runs, "{wait} from {now}");
        }
        let most = (1 << 32) - 1;
        assert!(linux_wheel(0, most) > most);
    }
}
