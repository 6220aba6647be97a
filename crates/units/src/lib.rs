//! Vocabulary that all crates share: time, phases of congestion control, kinds of events. It depends on nothing.

/// True time, nanoseconds since the start of the run.
pub type Nanos = u64;

/// Second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;
/// Millisecond in nanoseconds.
pub const MILLISECOND: Nanos = 1_000_000;
/// Microsecond in nanoseconds.
pub const MICROSECOND: Nanos = 1_000;

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
    }
}
