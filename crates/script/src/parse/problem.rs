//! What can be wrong with a line of a script.

use thiserror::Error;

use crate::code::CodeError;

/// Problem of a line of a script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Something else stands where something is expected.
    #[error("found `{found}`; expected {expected}")]
    Found {
        /// Word that stands there.
        found: String,
        /// Words that may stand there.
        expected: String,
    },
    /// An option or a call is given a value it does not take.
    #[error("{what}: found {found}; expected {expected}")]
    Value {
        /// The option or call.
        what: String,
        /// The value.
        found: String,
        /// Values that it takes.
        expected: String,
    },
    /// A word cannot be used here.
    #[error("{what}: {why}")]
    Refused {
        /// The word.
        what: String,
        /// Reason of the refusal.
        why: &'static str,
    },
    /// packetdrill has it, and we do not.
    #[error("{0} is not supported")]
    NotSupported(String),
    /// A rule of the language is not kept.
    #[error("{0}")]
    Rule(&'static str),
    /// A time that only the system's packets may have.
    #[error("event time {0} can only be used with outbound packets")]
    EventTime(&'static str),
    /// A time beyond every script.
    #[error("time {0} is too large")]
    TimeTooLarge(String),
    /// A number beyond its field in the packet.
    #[error("{0} out of range")]
    OutOfRange(&'static str),
    /// A word that should be a number.
    #[error("`{0}` is no number")]
    NoNumber(String),
    /// An argument of a call.
    #[error("{call}: argument {number}{why}")]
    Argument {
        /// The call.
        call: String,
        /// Place of the argument, from 1.
        number: usize,
        /// Reason why the argument is refused.
        why: String,
    },
    /// A quotation without its end.
    #[error("a {0} has no end")]
    NoEnd(char),
    /// Letters that are no flags.
    #[error("bad TCP flags `{0}`")]
    Flags(String),
    /// A member that a call's structure does not have.
    #[error("poll: {0} is not fd, events or revents")]
    PollMember(String),
    /// A command that is more than a setting.
    #[error("`{0}`: only settings are read from a command (sysctl NAME=VALUE); commands are not run")]
    Command(String),
    /// Code between `%{` and `}%`.
    #[error("code: {0}")]
    Code(#[from] CodeError),
}

impl Problem {
    pub(super) fn refused(what: impl Into<String>, why: &'static str) -> Problem {
        Problem::Refused { what: what.into(), why }
    }

    pub(super) fn value(
        what: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Problem {
        Problem::Value { what: what.into(), found: found.into(), expected: expected.into() }
    }
}
