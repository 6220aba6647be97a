//! Reads a script: packetdrill's public language, as far as it speaks of TCP, its ICMP errors and TCP in UDP, over IPv4 and IPv6.
//!
//! Other protocols and commands are refused with the line and the reason;
//! nothing is skipped silently.

mod argument;
mod call;
mod conditional;
mod cursor;
mod icmp;
mod message;
mod option;
mod orders;
mod packet;
mod problem;

use std::collections::BTreeMap;

use tcp::Nanos;

use crate::code::Code;
use crate::script::{Action, Event, Options, Script, When};
pub(crate) use call::CALLS;
pub(crate) use cursor::int;
use cursor::word_length;
use orders::orders;
pub use problem::Problem;

/// Symbols that the runner of Google's collection defines for scripts of IPv4. The cookie is what hosts give with the key of
/// `defaults.sh`.
const USUAL_SYMBOLS: &[(&str, &str)] = &[
    ("TFO_COOKIE", "3021b9d889017eeb"),
    ("CODE", "host_unreachable"),
    ("CMSG_LEVEL_IP", "SOL_IP"),
    ("CMSG_TYPE_RECVERR", "IP_RECVERR"),
];

/// Problem of a script, and its place. One line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}:{line}: {}", one_line(.problem))]
pub struct SyntaxError {
    /// The script's name.
    pub name: String,
    /// The line.
    pub line: u32,
    /// Problem of the line.
    pub problem: Problem,
}

/// Puts the message into one line: what is shown of a script may hold line ends.
fn one_line(problem: &Problem) -> String {
    problem.to_string().replace(['\n', '\r'], " ")
}

/// Reads `text`; `defines` are symbols with their values, besides those the script defines.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(text: &str, name: &str, defines: &[(String, String)]) -> Result<Script, SyntaxError> {
    let mut defines: BTreeMap<String, String> = defines.iter().cloned().collect();
    let wrong = |line, problem| SyntaxError { name: name.to_string(), line, problem };
    let text = conditional::chosen(text, &defines).map_err(|(line, problem)| wrong(line, problem))?;
    for (name, value) in USUAL_SYMBOLS {
        defines.entry((*name).to_string()).or_insert_with(|| (*value).to_string());
    }
    let mut parser = Parser { text: &text, at: 0, line: 1, defines, depth: 0, ipv6: false };
    let read = parser.script(name);
    read.map_err(|problem| wrong(parser.line, problem))
}

struct Parser<'a> {
    text: &'a str,
    /// Place in the text, bytes, and the line it is in.
    at: usize,
    line: u32,
    /// Symbols with their values.
    defines: BTreeMap<String, String>,
    /// Depth of the argument that is read.
    depth: u32,
    /// Packets are of IPv6.
    ipv6: bool,
}

type Parsed<T> = Result<T, Problem>;

impl Parser<'_> {
    fn script(&mut self, name: &str) -> Parsed<Script> {
        let mut script = Script {
            name: name.to_string(),
            options: Options::default(),
            init: Vec::new(),
            events: Vec::new(),
        };
        self.space()?;
        while self.rest().starts_with("--") {
            self.option(&mut script.options)?;
            self.space()?;
        }
        self.ipv6 = script.options.ipv6;
        while self.sees('`') {
            let line = self.line;
            let command = self.quoted('`')?;
            script.init.extend(orders(&command, line)?);
            self.space()?;
        }
        while self.at < self.text.len() {
            let line = self.line;
            if self.sees('`') {
                // Tidying up behind the last event: each script runs on a system of its own.
                let command = self.quoted('`')?;
                orders(&command, line)?;
                self.space()?;
                continue;
            }
            let event = self.event().inspect_err(|_| self.line = line);
            script.events.push(event?);
            self.space()?;
        }
        if script.events.is_empty() {
            return Err(Problem::Rule("the script has no events"));
        }
        Ok(script)
    }

    fn event(&mut self) -> Parsed<Event> {
        let line = self.line;
        let when = self.when()?;
        self.space()?;
        let next = self.rest().chars().next().unwrap_or(' ');
        let action = match next {
            '<' | '>' => {
                self.at += 1;
                self.space()?;
                if next == '<' && self.take_word("icmp") {
                    Action::Icmp(self.icmp()?)
                } else {
                    let packet = self.packet(next == '<')?;
                    if next == '<' { Action::Inject(packet) } else { Action::Expect(packet) }
                }
            }
            '`' => Action::Orders(orders(&self.quoted('`')?, line)?),
            '%' => Action::Code(self.code()?),
            _ if self.rest().starts_with("...") => {
                self.at += 3;
                let until = self.time()?;
                self.space()?;
                Action::Call(self.call(Some(until))?)
            }
            c if c.is_ascii_alphabetic() => match self.defined_command()? {
                Some(command) => Action::Orders(orders(&command, line)?),
                None => Action::Call(self.call(None)?),
            },
            _ => return Err(self.found("a packet, a call or code")),
        };
        let outbound = matches!(action, Action::Expect(_));
        if !outbound && !matches!(when, When::At(_) | When::After(_)) {
            let form = if when == When::Any { "<star>" } else { "range" };
            return Err(Problem::EventTime(form));
        }
        Ok(Event { line, when, action })
    }

    fn when(&mut self) -> Parsed<When> {
        if self.take('*') {
            return Ok(When::Any);
        }
        let relative = self.take('+');
        let start = self.time()?;
        let end_of_start = self.at;
        self.blanks();
        if !self.take('~') {
            self.at = end_of_start;
            return Ok(if relative { When::After(start) } else { When::At(start) });
        }
        self.space()?;
        if relative && !self.take('+') {
            return Err(Problem::Rule("the end of a relative range begins with +"));
        }
        let end = self.time()?;
        if end < start {
            return Err(Problem::Rule("time range is backwards"));
        }
        Ok(if relative { When::AfterBetween(start, end) } else { When::Between(start, end) })
    }

    /// Seconds with up to nine decimals, as nanoseconds.
    fn time(&mut self) -> Parsed<Nanos> {
        self.space()?;
        let rest = self.rest();
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mut length = whole;
        let mut nanos = 0u64;
        if rest[whole..].starts_with('.') && rest[whole + 1..].starts_with(|c: char| c.is_ascii_digit()) {
            let digits = rest[whole + 1..].bytes().take_while(u8::is_ascii_digit).count();
            let fraction: String =
                rest[whole + 1..whole + 1 + digits].chars().chain("000000000".chars()).take(9).collect();
            nanos = fraction.parse().map_err(|_| Problem::Rule("a time has no digits"))?;
            length += 1 + digits;
        }
        if length == 0 {
            return Err(self.found("a time"));
        }
        let seconds: u64 = if whole == 0 { 0 } else { rest[..whole].parse().unwrap_or(u64::MAX) };
        if seconds > 1_000_000 {
            return Err(Problem::TimeTooLarge(rest[..length].to_string()));
        }
        self.at += length;
        Ok(seconds * 1_000_000_000 + nanos)
    }

    fn code(&mut self) -> Parsed<Code> {
        if !self.rest().starts_with("%{") {
            return Err(self.found("%{"));
        }
        let Some(end) = self.rest().find("}%") else { return Err(Problem::Rule("%{ has no }%")) };
        let text = &self.rest()[2..end];
        let code = Code::parse(text)?;
        self.line += text.matches('\n').count() as u32;
        self.at += end + 2;
        Ok(code)
    }

    /// A word that was defined as a command in backquotes.
    fn defined_command(&mut self) -> Parsed<Option<String>> {
        let length = word_length(self.rest());
        let command = self
            .defines
            .get(&self.rest()[..length])
            .and_then(|value| Some(value.strip_prefix('`')?.strip_suffix('`')?.to_string()));
        if command.is_some() {
            self.at += length;
        }
        Ok(command)
    }
}
