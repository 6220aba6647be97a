//! Values and the operators on them, which mean what they mean in Python.

use std::fmt;

use super::EvalError;
use super::error::MAX_TEXT;

#[derive(Clone, Copy, Debug)]
pub(super) enum Unary {
    Minus,
    Plus,
    Invert,
    Not,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Abs,
    Min,
    Max,
}

/// A number, truth value or text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    Tuple(Vec<Value>),
}

impl Value {
    pub(super) fn truth(&self) -> bool {
        match self {
            Value::Int(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Bool(value) => *value,
            Value::Text(text) => !text.is_empty(),
            Value::Tuple(members) => !members.is_empty(),
        }
    }

    /// Integer of the value, if it is one (Python's truth values are).
    pub(super) fn int(&self) -> Option<i128> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Result<f64, EvalError> {
        match self {
            Value::Float(value) => Ok(*value),
            Value::Text(text) => Err(EvalError::NoNumber(text.clone())),
            Value::Tuple(_) => Err(EvalError::NoNumber(self.to_string())),
            other => Ok(other.int().unwrap_or(0) as f64),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Text(text) => f.write_str(text),
            Value::Tuple(members) => {
                f.write_str("(")?;
                for (index, member) in members.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    match member {
                        Value::Text(text) => write!(f, "'{text}'")?,
                        other => write!(f, "{other}")?,
                    }
                }
                f.write_str(if members.len() == 1 { ",)" } else { ")" })
            }
        }
    }
}

pub(super) fn unary(op: Unary, value: Value) -> Result<Value, EvalError> {
    Ok(match (op, value.int()) {
        (Unary::Not, _) => Value::Bool(!value.truth()),
        (Unary::Minus, Some(int)) => Value::Int(int.checked_neg().ok_or(EvalError::TooLarge)?),
        (Unary::Plus, Some(int)) => Value::Int(int),
        (Unary::Invert, Some(int)) => Value::Int(!int),
        (Unary::Minus, None) => Value::Float(-value.number()?),
        (Unary::Plus, None) => Value::Float(value.number()?),
        (Unary::Invert, None) => return Err(EvalError::Invert),
    })
}

pub(super) fn binary(op: Binary, a: Value, b: Value) -> Result<Value, EvalError> {
    if let (Some(x), Some(y)) = (a.int(), b.int()) {
        return integers(op, x, y);
    }
    if let (Value::Text(x), Value::Text(y), Binary::Add) = (&a, &b, op) {
        if x.len() + y.len() > MAX_TEXT {
            return Err(EvalError::TextTooLong);
        }
        return Ok(Value::Text(format!("{x}{y}")));
    }
    let (x, y) = (a.number()?, b.number()?);
    if y == 0.0 && matches!(op, Binary::Divide | Binary::FloorDivide | Binary::Remainder) {
        return Err(EvalError::DivisionByZero);
    }
    Ok(Value::Float(match op {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide => x / y,
        Binary::FloorDivide => libm::floor(x / y),
        Binary::Remainder => x - y * libm::floor(x / y),
        _ => return Err(EvalError::Bits),
    }))
}

fn integers(op: Binary, x: i128, y: i128) -> Result<Value, EvalError> {
    if y == 0 && matches!(op, Binary::Divide | Binary::FloorDivide | Binary::Remainder) {
        return Err(EvalError::DivisionByZero);
    }
    let shift = u32::try_from(y).ok().filter(|&bits| bits < 64);
    let result = match op {
        Binary::Add => x.checked_add(y),
        Binary::Subtract => x.checked_sub(y),
        Binary::Multiply => x.checked_mul(y),
        Binary::Divide => return Ok(Value::Float(x as f64 / y as f64)),
        // Python rounds down, also below zero.
        Binary::FloorDivide => x.checked_div_euclid(y).map(|q| if y < 0 && x % y != 0 { q - 1 } else { q }),
        Binary::Remainder => x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r }),
        Binary::ShiftLeft => shift.and_then(|bits| x.checked_mul(1 << bits)),
        Binary::ShiftRight => shift.map(|bits| x >> bits),
        Binary::And => Some(x & y),
        Binary::Or => Some(x | y),
        Binary::Xor => Some(x ^ y),
    };
    result.map(Value::Int).ok_or(EvalError::TooLarge)
}

pub(super) fn compare(op: Comparison, a: &Value, b: &Value) -> Result<bool, EvalError> {
    let order = match (a, b) {
        (Value::Text(x), Value::Text(y)) => Some(x.cmp(y)),
        (Value::Text(_) | Value::Tuple(_), _) | (_, Value::Text(_) | Value::Tuple(_)) => match op {
            Comparison::Equal => return Ok(a == b),
            Comparison::NotEqual => return Ok(a != b),
            _ => return Err(EvalError::Order),
        },
        _ => match (a.int(), b.int()) {
            (Some(x), Some(y)) => Some(x.cmp(&y)),
            _ => a.number()?.partial_cmp(&b.number()?),
        },
    };
    let Some(order) = order else { return Ok(matches!(op, Comparison::NotEqual)) };
    Ok(match op {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterEqual => order.is_ge(),
    })
}

pub(super) fn call(function: Function, mut values: Vec<Value>) -> Result<Value, EvalError> {
    let better = match function {
        Function::Abs => {
            return match (values.len(), values.pop()) {
                (1, Some(value)) if compare(Comparison::Less, &value, &Value::Int(0))? => {
                    unary(Unary::Minus, value)
                }
                (1, Some(value)) => Ok(value),
                _ => Err(EvalError::Abs),
            };
        }
        Function::Min => Comparison::Less,
        Function::Max => Comparison::Greater,
    };
    let mut values = values.into_iter();
    let mut best = values.next().ok_or(EvalError::MinMax)?;
    for value in values {
        if compare(better, &value, &best)? {
            best = value;
        }
    }
    Ok(best)
}
