//! The place in the text, and what is read there character by character.

use super::{Parsed, Parser, Problem};

impl Parser<'_> {
    pub(super) fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    pub(super) fn sees(&self, c: char) -> bool {
        self.rest().starts_with(c)
    }

    pub(super) fn take(&mut self, c: char) -> bool {
        let found = self.sees(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    pub(super) fn need(&mut self, c: char) -> Parsed<()> {
        self.space()?;
        if self.take(c) { Ok(()) } else { Err(self.found(c)) }
    }

    /// Blanks and comments.
    pub(super) fn space(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").ok_or(Problem::Rule("a comment has no end"))? + 2
            } else {
                rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
            };
            if length == 0 {
                return Ok(());
            }
            self.line += rest[..length].matches('\n').count() as u32;
            self.at += length;
        }
    }

    /// Blanks on this line.
    pub(super) fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.find(|c: char| c != ' ' && c != '\t').unwrap_or(rest.len());
    }

    pub(super) fn word(&mut self) -> Parsed<String> {
        let length = word_length(self.rest());
        if length == 0 {
            return Err(self.found("a word"));
        }
        let word = self.rest()[..length].to_string();
        self.at += length;
        Ok(word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = &self.rest()[..word_length(self.rest())] == word;
        self.at += if found { word.len() } else { 0 };
        found
    }

    pub(super) fn need_word(&mut self, word: &str) -> Parsed<()> {
        self.space()?;
        if self.take_word(word) { Ok(()) } else { Err(self.found(word)) }
    }

    pub(super) fn number(&mut self, what: &'static str, max: u64) -> Parsed<u64> {
        self.space()?;
        let length = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return Err(self.found("a number"));
        }
        let number = self.rest()[..length].parse().ok().filter(|&number: &u64| number <= max);
        let number = number.ok_or(Problem::OutOfRange(what))?;
        self.at += length;
        Ok(number)
    }

    pub(super) fn quoted(&mut self, mark: char) -> Parsed<String> {
        let start = self.at + 1;
        let end = self.text[start..].find(mark).ok_or(Problem::NoEnd(mark))? + start;
        let text = self.text[start..end].to_string();
        self.line += text.matches('\n').count() as u32;
        self.at = end + 1;
        Ok(text)
    }

    /// Something else than `expected` comes next.
    pub(super) fn found(&self, expected: impl Into<String>) -> Problem {
        Problem::Found { found: self.glimpse(), expected: expected.into() }
    }

    /// The next few characters, for messages.
    pub(super) fn glimpse(&self) -> String {
        let line = self.rest().lines().next().unwrap_or("");
        if line.trim().is_empty() {
            return "the end of the line".into();
        }
        let word: String = line.chars().take_while(|c| !c.is_whitespace()).take(20).collect();
        word.escape_debug().to_string()
    }
}

pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && word_length(text) == text.len()
}

pub(super) fn word_length(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

pub(crate) fn int(word: &str) -> Option<i64> {
    match word.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}
