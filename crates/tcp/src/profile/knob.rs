//! Sysctls as rows of a table: name, bounds, meaning, and what of a stack they read and write.

use crate::stack::Sysctl;

/// Sysctl of a stack of type `P`.
pub(super) struct Knob<P> {
    /// The real name.
    pub name: &'static str,
    /// Bounds.
    pub range: (i64, i64),
    /// Purpose and unit.
    pub about: &'static str,
    /// Reads the value.
    pub get: fn(&P) -> i64,
    /// Writes the value.
    pub set: fn(&mut P, i64),
}

impl<P> Knob<P> {
    /// The sysctl with the value that `profile` has.
    pub(super) fn sysctl(&self, profile: &P) -> Sysctl {
        let (name, (min, max), about) = (self.name, self.range, self.about);
        Sysctl { name, default: (self.get)(profile), min, max, about }
    }
}

/// A [`Knob`]: name, bounds and meaning, then a field with its type (and the unit it is kept in), or a reader and a writer.
macro_rules! knob {
    ($name:literal, $range:expr, $about:literal, $($field:ident).+) => {
        knob!($name, $range, $about, $($field).+: i64)
    };
    ($name:literal, $range:expr, $about:literal, $($field:ident).+: bool) => {
        knob!($name, $range, $about, |p| i64::from(p.$($field).+), |p, v| p.$($field).+ = v != 0)
    };
    ($name:literal, $range:expr, $about:literal, $($field:ident).+: $unit:ident * $type:ty) => {
        knob!($name, $range, $about, |p| (p.$($field).+ / $unit) as i64, |p, v| p.$($field).+ = v as $type * $unit)
    };
    ($name:literal, $range:expr, $about:literal, $($field:ident).+: $type:ty) => {
        knob!($name, $range, $about, |p| p.$($field).+ as i64, |p, v| p.$($field).+ = v as $type)
    };
    ($name:literal, $range:expr, $about:literal, $get:expr, $set:expr) => {
        Knob { name: $name, range: $range, about: $about, get: $get, set: $set }
    };
}
pub(super) use knob;

/// An array of [`Knob`]s, of rows that [`knob!`] takes, what is behind the meaning in parentheses.
macro_rules! knobs {
    ($($name:literal, $range:expr, $about:literal, ($($how:tt)+);)*) => {
        [$(knob!($name, $range, $about, $($how)+)),*]
    };
}
pub(super) use knobs;
