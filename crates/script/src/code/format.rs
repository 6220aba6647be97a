//! `'…' % (…)`: texts formatted as Python formats them.

use super::EvalError;
use super::error::MAX_TEXT;
use super::value::Value;

/// The pattern with its `%d`, `%s`, `%x`, `%f` and the like replaced by the value, or by those of a tuple one after the other.
pub(super) fn formatted(pattern: &str, value: Value) -> Result<String, EvalError> {
    let mut values = match value {
        Value::Tuple(members) => members,
        single => vec![single],
    }
    .into_iter();
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| c.is_ascii_alphabetic() || c == '%').ok_or(EvalError::Format)?;
        let (spec, kind) = (&rest[..end], rest.as_bytes()[end]);
        rest = &rest[end + 1..];
        if kind == b'%' {
            text.push('%');
            continue;
        }
        let value = values.next().ok_or(EvalError::Format)?;
        text.push_str(&one(spec, kind, &value)?);
        if text.len() > MAX_TEXT {
            return Err(EvalError::TextTooLong);
        }
    }
    text.push_str(rest);
    if values.next().is_some() {
        return Err(EvalError::Format);
    }
    if text.len() > MAX_TEXT { Err(EvalError::TextTooLong) } else { Ok(text) }
}

/// Formats one value; `spec` is what stands between `%` and the letter: flags, width, precision.
fn one(spec: &str, kind: u8, value: &Value) -> Result<String, EvalError> {
    let size = |digits: &str| match digits {
        "" => Ok(0),
        digits => digits.parse::<usize>().map_err(|_| EvalError::Format),
    };
    let flags = spec.len() - spec.trim_start_matches(['-', '0', '+', ' ']).len();
    let (flags, sizes) = spec.split_at(flags);
    let (width, precision) = match sizes.split_once('.') {
        Some((width, precision)) => (size(width)?, Some(size(precision)?)),
        None => (size(sizes)?, None),
    };
    if width > MAX_TEXT || precision.is_some_and(|digits| digits > MAX_TEXT) {
        return Err(EvalError::TextTooLong);
    }
    let whole = || match value.int() {
        Some(int) => Ok(int),
        None => value.number().map(|number| libm::trunc(number) as i128),
    };
    let text = match kind {
        b's' | b'r' => value.to_string(),
        b'd' | b'i' | b'u' => whole()?.to_string(),
        b'x' => format!("{:x}", whole()?),
        b'f' => format!("{:.*}", precision.unwrap_or(6), value.number()?),
        _ => return Err(EvalError::Format),
    };
    let text =
        if flags.contains('+') && kind != b's' && !text.starts_with('-') { format!("+{text}") } else { text };
    Ok(if flags.contains('-') {
        format!("{text:<width$}")
    } else if flags.contains('0') && kind != b's' {
        let (sign, digits) = text.split_at(usize::from(text.starts_with(['-', '+'])));
        format!("{sign}{digits:0>width$}", width = width.saturating_sub(sign.len()))
    } else {
        format!("{text:>width$}")
    })
}
