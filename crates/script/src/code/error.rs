//! What can be wrong with code, read or evaluated.

use thiserror::Error;

/// Operators of one statement. Each may make the tree that is evaluated one level deeper: `1 + 1 + 1 …`.
pub(super) const MAX_OPERATORS: u32 = 256;

/// Bytes of a text, written or put together: one that doubles in every statement would take all memory.
pub(super) const MAX_TEXT: usize = 1024;

/// Reason why code is not understood, or not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodeError {
    /// Something else stands where something is expected.
    #[error("found `{found}` where {expected}")]
    Found {
        /// Word that stands there.
        found: String,
        /// Words that may stand there.
        expected: String,
    },
    /// No statement begins so.
    #[error("found `{0}`; only `assert`, `print` and NAME = … are allowed")]
    NoStatement(String),
    /// A statement ends too early.
    #[error("a value is missing at the end")]
    ValueMissing,
    /// A function of this name may not be called.
    #[error("{0}(): only abs, min and max may be called")]
    Function(String),
    /// An expression within too many others.
    #[error("an expression is nested too deeply")]
    TooDeep,
    /// A statement that is too long.
    #[error("a statement has more than {MAX_OPERATORS} operators")]
    TooManyOperators,
    /// A text without its second quote.
    #[error("a text has no end")]
    TextWithoutEnd,
    /// A text that is too long.
    #[error("a text is longer than {MAX_TEXT} bytes")]
    TextTooLong,
    /// A number of more than 64 bits.
    #[error("the number {0} is too large")]
    NumberTooLarge(String),
    /// Digits that are none.
    #[error("`{0}` is no number")]
    NoNumber(String),
    /// A character that no word begins with.
    #[error("`{0}` has no meaning here")]
    Character(char),
}

/// Reason why code cannot be evaluated, or the assertion that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvalError {
    /// An assertion does not hold.
    #[error("assertion failed: {text}{message}{names}")]
    Assertion {
        /// Assertion as it is written.
        text: String,
        /// The message of the script, behind a colon; or nothing.
        message: String,
        /// The names in it with their values, in parentheses; or nothing.
        names: String,
    },
    /// Name that nothing has given a value.
    #[error("name '{0}' is not known here")]
    UnknownName(String),
    /// A text stands where a number is needed.
    #[error("'{0}' is not a number")]
    NoNumber(String),
    /// An integer of more than 128 bits.
    #[error("a number became too large")]
    TooLarge,
    /// A text that was put together and is too long.
    #[error("a text is longer than {MAX_TEXT} bytes")]
    TextTooLong,
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// `~` of something else than an integer.
    #[error("~ needs an integer")]
    Invert,
    /// A bit operation on something else than integers.
    #[error("bit operations need integers")]
    Bits,
    /// A text compared with a number.
    #[error("a text and a number cannot be ordered")]
    Order,
    /// A text that is formatted with something else than its `%` ask for.
    #[error("a format and its values do not fit")]
    Format,
    /// `abs` of none or several.
    #[error("abs takes one number")]
    Abs,
    /// `min` or `max` of none.
    #[error("min and max take numbers")]
    MinMax,
}
