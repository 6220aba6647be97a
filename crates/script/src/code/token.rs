//! The words of the text: numbers, texts, names and signs.

use super::CodeError;
use super::error::MAX_TEXT;
use super::value::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(Value),
    Text(String),
    Name(String),
    Sign(&'static str),
}

/// Longest first.
const SIGNS: &[&str] = &[
    "//=", "+=", "-=", "*=", "/=", "//", "<<", ">>", "<=", ">=", "==", "!=", "**", "(", ")", ",", ";", "+",
    "-", "*", "/", "%", "<", ">", "&", "|", "^", "~", "=", "[", "]", ".", ":", "{", "}", "@", "!",
];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, CodeError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    // Inside parentheses a line end separates nothing.
    let mut open = 0i32;
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if first == '\n' {
            if open <= 0 {
                tokens.push(Token::Sign("\n"));
            }
            rest = &rest[1..];
        } else if first.is_whitespace() || (first == '\\' && rest[1..].starts_with('\n')) {
            rest = &rest[if first == '\\' { 2 } else { first.len_utf8() }..];
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
                .unwrap_or(rest.len());
            tokens.push(Token::Number(number(&rest[..end])?));
            rest = &rest[end..];
        } else if first == '"' || first == '\'' {
            let end = rest[1..].find(first).ok_or(CodeError::TextWithoutEnd)?;
            if end > MAX_TEXT {
                return Err(CodeError::TextTooLong);
            }
            tokens.push(Token::Text(rest[1..=end].to_string()));
            rest = &rest[end + 2..];
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..end].to_string()));
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            open += i32::from(*sign == "(") - i32::from(*sign == ")");
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            return Err(CodeError::Character(first));
        }
    }
    Ok(tokens)
}

fn number(word: &str) -> Result<Value, CodeError> {
    let plain = word.replace('_', "");
    let int = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => plain.parse().ok(),
    };
    match int {
        Some(int) if int <= i128::from(u64::MAX) => Ok(Value::Int(int)),
        Some(_) => Err(CodeError::NumberTooLarge(word.to_owned())),
        None => plain.parse().map(Value::Float).map_err(|_| CodeError::NoNumber(word.to_owned())),
    }
}

/// The words again, for messages.
pub(super) fn shown(tokens: &[Token]) -> String {
    let words: Vec<String> = tokens
        .iter()
        .map(|token| match token {
            Token::Number(value) => value.to_string(),
            Token::Text(text) => format!("'{text}'"),
            Token::Name(name) => name.clone(),
            Token::Sign(sign) => sign.escape_debug().to_string(),
        })
        .collect();
    words.join(" ")
}
