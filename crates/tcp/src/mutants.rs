//! Planted bugs, for tests of the tests. They are compiled only with the feature `mutants`, and asleep until a test wakes
//! one.
//!
//! Code that can be made wrong asks [`mutant!`](crate::mutants), which is false without the feature.

/// Whether the planted bug of this name is awake on this thread.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::awake($crate::mutants::Mutant::$name)
    };
}

/// Without the feature there are no planted bugs.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

pub(crate) use mutant;

#[cfg(feature = "mutants")]
pub use planted::{Mutant, awake, wake};

#[cfg(feature = "mutants")]
mod planted {
    use std::cell::Cell;

    /// Fault that is there while the mutant is awake.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mutant {
        /// Reassembly takes a hole of one byte for none.
        HoleOfOneByte,
        /// Sequence numbers are extended as if they never wrapped.
        NoWrap,
        /// Closed windows are not probed, and nothing is sent again into one.
        NoPersist,
        /// Data that arrives twice is handed to the application twice.
        DeliveredTwice,
        /// Slow start of modern Linux adds one packet per ACK, whatever it covers.
        SlowStartCountsAcks,
        /// cwnd of modern Linux grows although it is not used.
        GrowsUnused,
        /// The window is kept over an idle time.
        NoIdleRestart,
        /// Linux sends short segments at once.
        NoNagle,
        /// The window of a recovery is not spread over its ACKs.
        NoPrr,
        /// Linux does not look at the echoed timestamp after a timeout.
        NoTimestampUndo,
        /// RACK waits for no reordering.
        NoReorderingWindow,
        /// Four SACKed packets, not three, are needed to see a loss.
        FourDuplicates,
        /// RACK does not look at retransmissions.
        LostRetransmissionStays,
        /// Tails are not probed.
        NoTailLossProbe,
        /// The timeout of Linux and Windows does not double.
        NoBackoff,
        /// A timeout is never found spurious by what is acknowledged next.
        NoFrto,
        /// A partial ACK without SACK tells of no loss.
        NoPartialAck,
        /// CUBIC of Linux halves the window.
        CubicHalves,
        /// CUBIC of Linux grows as if it stood at its plateau.
        CubicWithoutK,
        /// HyStart never ends slow start.
        NoHyStart,
        /// An ECN echo changes nothing.
        EchoIgnored,
        /// A mark is not echoed.
        NoEcnEcho,
        /// The peer is not told that the window was reduced.
        NoCwr,
        /// The peer's window is not kept to.
        WindowIgnored,
        /// Every segment is acknowledged at once.
        NoDelayedAck,
        /// Out-of-order data is not acknowledged at once.
        OutOfOrderWaits,
        /// Reading announces no window.
        NoWindowUpdate,
        /// A reset anywhere in the window ends the connection.
        AnyResetCounts,
        /// Neither a reset nor a SYN in the window does anything.
        ResetIgnored,
        /// Data below the window is not reported as coming twice.
        NoDsack,
        /// A D-SACK counts as one of a retransmission, whoever made the duplicate.
        DsackAlwaysBelieved,
        /// Old data that comes again changes the timestamp that ACKs echo.
        OldTimestampsEchoed,
        /// Closing with unread data resets where it should not, and does not where it should.
        UnreadMistaken,
        /// Data is taken although the application has closed.
        DataAfterClose,
        /// An ACK of something else does not bring the SYN again.
        SynNotHastened,
        /// Everything outside the window is answered.
        ChallengesWithoutEnd,
        /// TIME-WAIT does not acknowledge a FIN that comes again.
        TimeWaitSilent,
        /// A FIN in FIN-WAIT-1 ends the connection at once.
        NoClosing,
        /// A SYN is not repeated.
        SynSentOnce,
        /// A SYN-ACK offers SACK to a peer that did not.
        OffersAll,
        /// Slow start of FreeBSD and Windows has no limit per ACK.
        StretchAcksCount,
        /// cwnd of FreeBSD 9.x does not fall to one segment in recovery.
        NoDip,
        /// The backed-off timeout of FreeBSD has nothing added.
        NoSlop,
        /// The first duplicate ACKs of FreeBSD and Windows release nothing.
        NoLimitedTransmit,
        /// FreeBSD never undoes a timeout.
        NoTimeoutUndo,
        /// Linux delays ACKs from the first segment on.
        NoQuickAck,
        /// FreeBSD's RACK waits for no reordering.
        RackWithoutWindow,
        /// FreeBSD's RACK does not look at retransmissions.
        RackForgetsRetransmissions,
        /// FreeBSD's RACK never takes a recovery back.
        RackNeverUndoes,
        /// FreeBSD's RACK reduces its window when recovery begins.
        RackReducesAtOnce,
        /// FreeBSD's RACK forgets what proportional rate reduction has left when recovery ends.
        RackCreditLost,
        /// FreeBSD's RACK probes no tail.
        RackNeverProbes,
        /// FreeBSD's RACK sends on at once whatever it has sent.
        RackNeverWaits,
        /// FreeBSD's RACK sends a window of any size at once.
        RackBurstsFreely,
        /// HyStart++ of FreeBSD slows nothing down.
        NoHyStartPlusPlus,
    }

    thread_local! {
        static AWAKE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Wakes a planted bug on this thread, or with None puts the one that is awake to sleep.
    pub fn wake(mutant: Option<Mutant>) {
        AWAKE.set(mutant);
    }

    /// Whether the mutant is awake on this thread.
    pub fn awake(mutant: Mutant) -> bool {
        AWAKE.get() == Some(mutant)
    }
}
