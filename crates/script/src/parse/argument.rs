//! Arguments of calls as they are written, before it is known what they mean.

use super::cursor::{int, word_length};
use super::{Parsed, Parser, Problem};
use crate::errno::Errno;
use crate::message;
use crate::script::{O_NONBLOCK, O_RDWR};

/// Greatest depth of nested lists and structures.
const MAX_DEPTH: u32 = 16;

/// An argument of a call as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// `...`
    Any,
    Int(i64),
    Word(String),
    Text(String),
    /// `A|B`
    Or(Vec<Argument>),
    /// `[a, b]`
    List(Vec<Argument>),
    /// `{a=1, b=2}`; members without a name have an empty one.
    Struct(Vec<(String, Argument)>),
    /// `htons(8080)`: the word, and what is in the parentheses.
    Applied(String, String),
}

impl Parser<'_> {
    pub(super) fn argument(&mut self) -> Parsed<Argument> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Problem::Rule("arguments are nested too deeply"));
        }
        let first = self.simple_argument()?;
        self.space()?;
        let argument = if self.sees('|') {
            let mut all = vec![first];
            while self.take('|') {
                all.push(self.simple_argument()?);
                self.space()?;
            }
            Argument::Or(all)
        } else {
            first
        };
        self.depth -= 1;
        Ok(argument)
    }

    fn simple_argument(&mut self) -> Parsed<Argument> {
        self.space()?;
        let rest = self.rest();
        let next = rest.chars().next().unwrap_or(' ');
        if rest.starts_with("...") {
            self.at += 3;
            return Ok(Argument::Any);
        }
        if next.is_ascii_digit() || next == '-' {
            let sign = if self.take('-') { -1 } else { 1 };
            let length = word_length(self.rest());
            let number = int(&self.rest()[..length]).ok_or_else(|| Problem::NoNumber(self.glimpse()))?;
            self.at += length;
            return Ok(Argument::Int(sign * number));
        }
        match next {
            '"' => {
                let mut text = self.quoted('"')?;
                self.space()?;
                while self.sees('"') {
                    text.push_str(&self.quoted('"')?);
                    self.space()?;
                }
                if self.rest().starts_with("...") {
                    self.at += 3;
                }
                Ok(Argument::Text(text))
            }
            '[' => {
                self.at += 1;
                Ok(Argument::List(self.members(']')?.into_iter().map(|(_, value)| value).collect()))
            }
            '{' => {
                self.at += 1;
                Ok(Argument::Struct(self.members('}')?))
            }
            _ => {
                let word = self.word()?;
                if let Some(value) = self.defines.get(&word) {
                    let text = value.trim_matches('"');
                    return Ok(int(value).map_or_else(
                        || {
                            if text.len() < value.len() {
                                Argument::Text(text.to_string())
                            } else {
                                Argument::Word(value.clone())
                            }
                        },
                        Argument::Int,
                    ));
                }
                if self.take('(') {
                    let end = self.rest().find(')').ok_or(Problem::Rule("a ( has no )"))?;
                    let inside = self.rest()[..end].trim_matches('"').to_string();
                    self.at += end + 1;
                    return Ok(Argument::Applied(word, inside));
                }
                Ok(Argument::Word(word))
            }
        }
    }

    fn members(&mut self, close: char) -> Parsed<Vec<(String, Argument)>> {
        let mut members = Vec::new();
        self.space()?;
        while !self.take(close) {
            let first = self.argument()?;
            self.space()?;
            let member = match first {
                Argument::Word(name) if self.take('=') => (name, self.argument()?),
                Argument::Applied(name, _) if self.take('=') => (name, self.argument()?),
                value => (String::new(), value),
            };
            members.push(member);
            self.space()?;
            if !self.take(',') && !self.sees(close) {
                return Err(self.found(format!(", or {close}")));
            }
            self.space()?;
        }
        Ok(members)
    }
}

/// The number an argument is, alone or as the only one of a list.
pub(super) fn number_of(argument: &Argument) -> Option<i64> {
    match argument {
        Argument::Int(value) => Some(*value),
        Argument::List(list) if list.len() == 1 => number_of(&list[0]),
        Argument::Or(_) | Argument::Word(_) => {
            words_of(argument).iter().try_fold(0, |sum, word| Some(sum | constant(word)?))
        }
        _ => None,
    }
}

/// Constants that may stand where a number is expected, as on Linux.
fn constant(word: &str) -> Option<i64> {
    match word {
        "O_RDWR" => Some(O_RDWR),
        "O_NONBLOCK" => Some(O_NONBLOCK),
        // linux/in.h, the values of IP_MTU_DISCOVER.
        "IP_PMTUDISC_DONT" => Some(0),
        "IP_PMTUDISC_WANT" => Some(1),
        "IP_PMTUDISC_DO" => Some(2),
        _ => {
            let known = message::CONSTANTS.iter().find(|(name, _)| *name == word);
            known.map(|&(_, value)| value).or_else(|| named(word))
        }
    }
}

/// The number of an error, or one that is written as such.
fn named(word: &str) -> Option<i64> {
    Errno::named(word).map(|errno| i64::from(errno.0)).or_else(|| int(word))
}

/// The words of `A|B`; numbers as they stand.
pub(super) fn words_of(argument: &Argument) -> Vec<String> {
    match argument {
        Argument::Or(all) => all.iter().flat_map(words_of).collect(),
        Argument::Word(word) | Argument::Applied(_, word) | Argument::Text(word) => vec![word.clone()],
        Argument::Int(number) => vec![number.to_string()],
        _ => vec![String::new()],
    }
}
