//! Parameters of queue disciplines, applications and congestion controls: each stands once, with its unit, range, default and sentence.
//!
//! [`parameters!`] makes of such a table the structure that a Scenario holds, its check, and what the catalogue says of it;
//! from the catalogue Python makes the experiment file's schema, its errors and a page of the documentation.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

pub mod cc;
mod tables;

/// A parameter out of its range, or at odds with another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{param}: found {found}; expected {expected}")]
pub struct ParamError {
    /// Key of the parameter in a Scenario.
    pub param: String,
    /// Value that was found.
    pub found: String,
    /// Values that are allowed.
    pub expected: String,
}

impl ParamError {
    /// A parameter is something, and should be something else.
    pub fn new(param: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> ParamError {
        ParamError { param: param.into(), found: found.to_string(), expected: expected.into() }
    }
}

/// A queue discipline or an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Kind {
    /// Name of the kind.
    pub kind: &'static str,
    /// Description of the kind, in one sentence.
    pub about: &'static str,
    /// Parameters of the kind.
    pub params: &'static [Param],
}

/// A parameter of a queue discipline or an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Param {
    /// Name in the experiment file; of a queue discipline, that of `tc`.
    pub name: &'static str,
    /// Key in a Scenario; empty if the parameter has none.
    pub field: &'static str,
    /// Unit of the number.
    pub unit: Unit,
    /// Smallest value allowed.
    pub min: u64,
    /// Largest value allowed.
    pub max: u64,
    /// Default. Null: none, or it follows from others.
    pub default: Option<u64>,
    /// Words for what holds where nothing is given and there is no default.
    pub otherwise: &'static str,
    /// Whether an experiment file has to give the parameter.
    pub required: bool,
    /// The words of a `choice`, in the order of their numbers.
    pub choices: &'static [&'static str],
    /// Whether an experiment file may give the parameter in packets, in bytes, and as a multiple of the path's BDP.
    pub bdp: bool,
    /// Whether an experiment file may give bytes without a unit, as other tools do for a packet.
    pub bare: bool,
    /// Who carries the parameter out.
    pub carried: Carried,
    /// Reason of the range, where it is not plain.
    pub because: &'static str,
    /// Description of the parameter, in one sentence.
    pub about: &'static str,
}

/// Unit of a parameter's number, and how an experiment file writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Packets: `90p`.
    Packets,
    /// Bytes: `125KB`.
    Bytes,
    /// Nanoseconds: `40ms`.
    Ns,
    /// Bits per second: `10mbit`.
    Bps,
    /// Parts per billion: `1%`.
    Ppb,
    /// Billionths: `0.16`.
    Nano,
    /// Thousandths: `1.5`.
    Milli,
    /// A number of something.
    Count,
    /// 0 or 1: `true`.
    Bool,
    /// A place in `choices`, from 0.
    Choice,
    /// Bytes that are drawn: `exp(200B)`.
    BytesDrawn,
    /// Nanoseconds that are drawn: `exp(20ms)`.
    NsDrawn,
}

/// Who carries a parameter out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carried {
    /// The engine; it is in a Scenario.
    Engine,
    /// Live testbeds; to a model it says nothing.
    Live,
    /// The plan: other parameters follow from it.
    Plan,
    /// Nobody yet: it is refused.
    Nobody,
}

impl Kind {
    /// Returns what a Scenario says of the kind, as the experiment file makes it: by field what is `given`, else
    /// the default.
    pub fn values(&self, mut given: impl FnMut(&Param) -> Option<Json>) -> Map<String, Json> {
        let mut values = Map::from_iter([("kind".to_owned(), self.kind.into())]);
        for param in self.params.iter().filter(|param| !param.field.is_empty()) {
            let value = given(param).unwrap_or_else(|| match (param.unit, param.default) {
                (Unit::Bool, Some(default)) => (default == 1).into(),
                (Unit::Choice, Some(place)) => param.choices[place as usize].into(),
                (_, default) => default.into(),
            });
            values.insert(param.field.to_owned(), value);
        }
        values
    }
}

impl Unit {
    /// The range of a quantity that is not narrowed.
    const fn range(self) -> (u64, u64) {
        match self {
            Unit::Packets | Unit::Ppb => (0, 1_000_000_000),
            Unit::Bytes => (0, 1 << 50),
            Unit::Ns => (0, 10_000_000_000_000_000),
            Unit::Bps => (1, 10_000_000_000_000),
            Unit::Nano => (0, 1_000_000_000_000_000_000),
            Unit::Milli => (0, 1_000_000_000_000),
            Unit::Count => (0, u32::MAX as u64),
            Unit::Bool => (0, 1),
            Unit::Choice | Unit::BytesDrawn | Unit::NsDrawn => (0, 0),
        }
    }
}

impl Param {
    /// A parameter with the whole range of its unit, and no default.
    pub const fn new(name: &'static str, unit: Unit) -> Param {
        let (min, max) = unit.range();
        Param {
            name,
            field: "",
            unit,
            min,
            max,
            default: None,
            otherwise: "",
            required: false,
            choices: &[],
            bdp: false,
            bare: false,
            carried: Carried::Engine,
            because: "",
            about: "",
        }
    }

    /// A queue's limit in packets, which may be given in BDP.
    pub const fn limit_packets() -> Param {
        Param { bdp: true, ..Param::new("limit", Unit::Packets) }
    }

    /// A queue's limit in bytes, which may be given in BDP.
    pub const fn limit_bytes() -> Param {
        Param { bdp: true, ..Param::new("limit", Unit::Bytes) }
    }

    /// A size.
    pub const fn bytes(name: &'static str) -> Param {
        Param::new(name, Unit::Bytes)
    }

    /// Bytes of a packet, which may stand without a unit.
    pub const fn packet_bytes(name: &'static str, min: u64, max: u64) -> Param {
        Param { bare: true, ..Param::bytes(name).range(min, max) }
    }

    /// A length of time.
    pub const fn time(name: &'static str) -> Param {
        Param::new(name, Unit::Ns)
    }

    /// A rate.
    pub const fn rate(name: &'static str) -> Param {
        Param::new(name, Unit::Bps)
    }

    /// A whole number.
    pub const fn count(name: &'static str, min: u64, max: u64) -> Param {
        Param::new(name, Unit::Count).range(min, max)
    }

    /// Something that is on or off.
    pub const fn flag(name: &'static str) -> Param {
        Param::new(name, Unit::Bool)
    }

    /// Creates a parameter that is one of some words.
    pub const fn choice(name: &'static str, choices: &'static [&'static str]) -> Param {
        Param { choices, ..Param::new(name, Unit::Choice).range(0, choices.len() as u64 - 1) }
    }

    /// Sets another range.
    pub const fn range(self, min: u64, max: u64) -> Param {
        Param { min, max, ..self }
    }

    /// Refuses zero.
    pub const fn above_zero(self) -> Param {
        Param { min: 1, ..self }
    }

    /// Sets a default.
    pub const fn default(self, value: u64) -> Param {
        assert!(self.min <= value && value <= self.max, "a default within the range");
        Param { default: Some(value), ..self }
    }

    /// Without a default: what holds instead.
    pub const fn otherwise(self, what: &'static str) -> Param {
        Param { otherwise: what, ..self }
    }

    /// Demands that the experiment file gives the parameter.
    pub const fn required(self) -> Param {
        Param { required: true, ..self }
    }

    /// Sets the reason of the range.
    pub const fn because(self, why: &'static str) -> Param {
        Param { because: why, ..self }
    }

    /// Carried out by live testbeds only.
    pub const fn live(self) -> Param {
        Param { carried: Carried::Live, ..self }
    }

    /// Carried out by the plan, which derives other parameters from it.
    pub const fn derives(self) -> Param {
        Param { carried: Carried::Plan, ..self }
    }

    /// Known, and carried out by nobody yet.
    pub const fn nobody(self) -> Param {
        Param { carried: Carried::Nobody, ..self }
    }

    /// Sets what [`parameters!`] knows besides: the field of the structure, and its documentation.
    pub const fn of(self, field: &'static str, about: &'static str) -> Param {
        Param { field, about: about.trim_ascii(), ..self }
    }

    /// Checks a value, null where there is none.
    ///
    /// # Errors
    /// One line: the parameter, what was found, what is allowed.
    pub fn check(&self, value: Option<u64>) -> Result<(), ParamError> {
        let (min, max) = (self.min, self.max);
        match value {
            Some(found) if found < min || found > max => {
                let expected = match (min, max == self.unit.range().1) {
                    (1, true) if found == 0 => "above 0".to_owned(),
                    _ => format!("{min} to {max}"),
                };
                let why = if self.because.is_empty() { "" } else { ", " };
                Err(ParamError::new(self.field, found, format!("{expected}{why}{}", self.because)))
            }
            _ => Ok(()),
        }
    }
}

/// A structure that [`parameters!`] made.
pub trait Table {
    /// Entry of the structure in the catalogue.
    const KIND: Kind;

    /// Checks what parsing cannot: every parameter's range, and what holds between them.
    ///
    /// # Errors
    /// One line: the parameter, what was found, what is allowed.
    fn check(&self) -> Result<(), ParamError>;
}

/// The value of a parameter as a number.
pub trait Value {
    /// The number. None: the value is null.
    fn number(&self) -> Option<u64>;
}

impl Value for u32 {
    fn number(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl Value for u64 {
    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Value for bool {
    fn number(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl<T: Value> Value for Option<T> {
    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(Value::number)
    }
}
