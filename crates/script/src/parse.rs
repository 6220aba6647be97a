//! Reads a script: packetdrill's public language, as far as it speaks of TCP over IPv4.
//!
//! What the language has and this does not (other protocols, commands, epoll, messages with headers) is refused with
//! the line and the reason; nothing is skipped silently.

use std::collections::BTreeMap;

use tcp::Nanos;
use wire::{Ecn, Flags};

use crate::code::Code;
use crate::errno::Errno;
use crate::packet;
use crate::script::{
    Action, Call, CallEvent, EcnField, Event, O_NONBLOCK, O_RDWR, OptionValue, Options, POLL_BITS, Packet,
    PollFd, SOCKET_OPTIONS, Script, Setting, SocketOption, TcpOption, When,
};

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The script's name.
    pub name: String,
    /// The line.
    pub line: u32,
    /// What is wrong. One line.
    pub message: String,
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.name, self.line, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Reads `text`; `defines` are symbols with their values, besides those the script defines.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(text: &str, name: &str, defines: &[(String, String)]) -> Result<Script, SyntaxError> {
    let mut parser = Parser { text, at: 0, line: 1, defines: defines.iter().cloned().collect(), depth: 0 };
    parser.script(name).map_err(|message| SyntaxError {
        name: name.to_string(),
        line: parser.line,
        message: message.replace(['\n', '\r'], " "),
    })
}

/// Settings in a command that sets sysctls: `sysctl -q a.b=1`, several commands with `;`, `&&` or line ends between.
///
/// # Errors
/// What is no setting. Such a command is never run.
fn settings(command: &str, line: u32) -> Result<Vec<Setting>, String> {
    let mut found = Vec::new();
    let mut restores = false;
    let refused = |what: &str| {
        format!("`{what}`: only settings are read from a command (sysctl NAME=VALUE); commands are not run")
    };
    for part in command.replace("&&", ";").split([';', '\n']) {
        let part = part.split(" #").next().unwrap_or("").trim();
        if part.is_empty() || part.starts_with('#') {
            continue;
        }
        let words = words(part).ok_or_else(|| refused(part))?;
        let program = words[0].rsplit('/').next().unwrap_or("");
        if program == "defaults.sh" && words.len() == 1 {
            let usual = |(name, value): &(&str, &str)| Setting {
                line,
                name: (*name).into(),
                value: (*value).into(),
                optional: true,
            };
            found.extend(DEFAULTS.iter().map(usual));
            continue;
        }
        if program.starts_with("sysctl_restore_") && words.len() == 1 {
            // What a script has set ends with it.
            restores = true;
            continue;
        }
        if program != "sysctl" && program != "set_sysctls.py" {
            return Err(refused(part));
        }
        let before = found.len();
        for word in &words[1..] {
            if matches!(word.as_str(), "-q" | "-w" | "-e" | "-qw" | "-wq") {
                continue;
            }
            let Some((path, value)) = word.split_once('=') else { return Err(refused(part)) };
            let name = path.strip_prefix("/proc/sys/").unwrap_or(path).replace('/', ".");
            let name_ok = name.split('.').all(|piece| {
                !piece.is_empty()
                    && piece.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            });
            let value_ok = !value.trim().is_empty()
                && value.bytes().all(|b| b.is_ascii_alphanumeric() || b" \t_-.,".contains(&b));
            if !name.contains('.') || !name_ok || !value_ok {
                return Err(refused(part));
            }
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push(Setting { line, name, value, optional: false });
        }
        if found.len() == before {
            return Err(refused(part));
        }
    }
    if found.is_empty() && !restores { Err(refused(command.trim())) } else { Ok(found) }
}

/// What `defaults.sh` stands for: the settings with which the public collections of scripts for Linux begin.
const DEFAULTS: &[(&str, &str)] = &[
    ("net.ipv4.tcp_rmem", "4096 540000 15728640"),
    ("net.ipv4.tcp_wmem", "4096 262144 4194304"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_syn_retries", "5"),
    ("net.ipv4.tcp_synack_retries", "5"),
    ("net.ipv4.tcp_frto", "2"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_dsack", "1"),
    ("net.ipv4.tcp_fack", "0"),
    ("net.ipv4.tcp_reordering", "3"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_early_retrans", "4"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_tso_win_divisor", "3"),
    ("net.ipv4.tcp_ecn", "0"),
    ("net.ipv4.tcp_pacing_ss_ratio", "200"),
    ("net.ipv4.tcp_pacing_ca_ratio", "120"),
];

/// Words of a command; quotes hold blanks together. None: a quote without an end, or no word.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.take());
    (quote.is_none() && !words.is_empty()).then_some(words)
}

/// How deep lists and structures may nest.
const MAX_DEPTH: u32 = 16;
/// Bytes of options that a TCP header has room for (RFC 9293 section 3.1).
const MAX_OPTION_BYTES: usize = 40;
/// Bytes that one call may read or write: a live system takes memory for them.
const MAX_CALL_BYTES: i64 = 1 << 30;

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Argument {
    Any,
    Int(i64),
    Word(String),
    Text(String),
    Or(Vec<Argument>),
    List(Vec<Argument>),
    /// `{a=1, b=2}`; members without a name have an empty one.
    Struct(Vec<(String, Argument)>),
    /// `htons(8080)`
    Applied(String),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    defines: BTreeMap<String, String>,
    depth: u32,
}

type Parsed<T> = Result<T, String>;

/// The file's structure.
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
        while self.sees('`') {
            let line = self.line;
            let command = self.quoted('`')?;
            script.init.extend(settings(&command, line)?);
            self.space()?;
        }
        while self.at < self.text.len() {
            let line = self.line;
            let event = self.event().inspect_err(|_| self.line = line);
            script.events.push(event?);
            self.space()?;
        }
        if script.events.is_empty() {
            return Err("the script has no events".into());
        }
        Ok(script)
    }

    fn option(&mut self, options: &mut Options) -> Parsed<()> {
        let end = self.rest().find(char::is_whitespace).unwrap_or(self.rest().len());
        let mut word = self.rest()[..end].to_string();
        // A value may be quoted and hold blanks: --define=CMD=`sysctl -q a.b=1`.
        let quote = word.find(['`', '"']).map(|at| (at, word.as_bytes()[at] as char));
        if let Some((at, mark)) = quote {
            self.at += at;
            let inside = self.quoted(mark)?;
            word = format!("{}{mark}{inside}{mark}", &word[..at]);
        } else {
            self.at += end;
        }
        let (name, mut value) = match word[2..].split_once('=') {
            Some((name, value)) => (name.to_string(), value.to_string()),
            None => (word[2..].to_string(), String::new()),
        };
        if name == "define" && value.is_empty() {
            self.space()?;
            let end = self.rest().find(char::is_whitespace).unwrap_or(self.rest().len());
            value = self.rest()[..end].to_string();
            self.at += end;
        }
        let number = |max: u64| {
            value
                .parse::<u64>()
                .ok()
                .filter(|&n| n <= max)
                .ok_or_else(|| format!("--{name}: found `{value}`; expected a whole number up to {max}"))
        };
        match name.as_str() {
            "tolerance_usecs" => options.tolerance = number(600_000_000)? * 1000,
            "tolerance_percent" => {
                let percent = value.parse::<f64>().ok().filter(|p| (0.0..=1000.0).contains(p));
                let percent = percent.ok_or_else(|| {
                    format!("--{name}: found `{value}`; expected a percentage from 0 to 1000")
                })?;
                options.tolerance_permille = (percent * 10.0) as u64;
            }
            "tcp_ts_tick_usecs" => {
                options.timestamp_tick = Some(number(1_000_000)? * 1000).filter(|&tick| tick > 0);
            }
            "strict_segments" => options.strict_segments = value != "0",
            "mtu" => {
                let mtu = number(65_535)?;
                if mtu < 68 {
                    return Err(format!("--mtu: found {mtu}; expected 68 to 65535"));
                }
                options.mtu = mtu as u16;
            }
            "non_fatal" => {
                for kind in value.split(',').map(str::trim) {
                    match kind {
                        "packet" => options.packets_may_differ = true,
                        "syscall" => options.calls_may_differ = true,
                        _ => return Err(format!("--non_fatal: found `{kind}`; expected packet or syscall")),
                    }
                }
            }
            "define" => match value.split_once('=') {
                Some((symbol, value)) if is_word(symbol) => {
                    // What the caller defines comes before what the script defines.
                    self.defines.entry(symbol.to_string()).or_insert(value.to_string());
                }
                _ => return Err(format!("--define: found `{value}`; expected NAME=VALUE")),
            },
            "ip_version" if value == "ipv4" => {}
            "ip_version" => return Err(format!("--ip_version={value}: only ipv4 is supported")),
            "code_format" if value != "python" => {
                return Err(format!("--code_format={value}: only python is understood"));
            }
            // These say where the real tool's interface is and what it prints; nothing here depends on them.
            "bind_port" | "connect_port" | "remote_ip" | "local_ip" | "gateway_ip" | "netmask_ip"
            | "code_command" | "code_format" | "code_sockopt" | "debug" | "verbose" | "is_anyip"
            | "send_omit_free" | "dry_run" => {}
            "init_scripts" | "so_filename" | "so_flags" => {
                return Err(format!("--{name}: no other programs are run"));
            }
            "wire_client" | "wire_server" | "wire_server_ip" | "wire_server_at" | "wire_server_port"
            | "wire_client_dev" | "wire_server_dev" | "speed" | "mss" | "tcp_ts_ecr_scaled" => {
                return Err(format!("--{name} is not supported"));
            }
            _ => return Err(format!("--{name}: no such option")),
        }
        Ok(())
    }

    fn event(&mut self) -> Parsed<Event> {
        let line = self.line;
        let when = self.when()?;
        self.space()?;
        let next = self.rest().chars().next().unwrap_or(' ');
        let action = match next {
            '<' | '>' => {
                self.at += 1;
                let packet = self.packet(next == '<')?;
                if next == '<' { Action::Inject(packet) } else { Action::Expect(packet) }
            }
            '`' => Action::Set(settings(&self.quoted('`')?, line)?),
            '%' => Action::Code(self.code()?),
            _ if self.rest().starts_with("...") => {
                self.at += 3;
                let until = self.time()?;
                self.space()?;
                Action::Call(self.call(Some(until))?)
            }
            c if c.is_ascii_alphabetic() => match self.defined_command()? {
                Some(command) => Action::Set(settings(&command, line)?),
                None => Action::Call(self.call(None)?),
            },
            _ => return Err(format!("found `{}`; expected a packet, a call or code", self.glimpse())),
        };
        let outbound = matches!(action, Action::Expect(_));
        if !outbound && !matches!(when, When::At(_) | When::After(_)) {
            let form = if when == When::Any { "<star>" } else { "range" };
            return Err(format!("event time {form} can only be used with outbound packets"));
        }
        Ok(Event { line, when, action })
    }

    fn when(&mut self) -> Parsed<When> {
        if self.take('*') {
            return Ok(When::Any);
        }
        let relative = self.take('+');
        let start = self.time()?;
        if !self.take('~') {
            return Ok(if relative { When::After(start) } else { When::At(start) });
        }
        self.space()?;
        if relative && !self.take('+') {
            return Err("the end of a relative range begins with +".into());
        }
        let end = self.time()?;
        if end < start {
            return Err("time range is backwards".into());
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
            nanos = fraction.parse().map_err(|_| "a time has no digits")?;
            length += 1 + digits;
        }
        if length == 0 {
            return Err(format!("found `{}`; expected a time", self.glimpse()));
        }
        let seconds: u64 = if whole == 0 { 0 } else { rest[..whole].parse().unwrap_or(u64::MAX) };
        if seconds > 1_000_000 {
            return Err(format!("time {} is too large", &rest[..length]));
        }
        self.at += length;
        Ok(seconds * 1_000_000_000 + nanos)
    }

    fn code(&mut self) -> Parsed<Code> {
        if !self.rest().starts_with("%{") {
            return Err(format!("found `{}`; expected %{{", self.glimpse()));
        }
        let Some(end) = self.rest().find("}%") else { return Err("%{ has no }%".into()) };
        let text = &self.rest()[2..end];
        let code = Code::parse(text).map_err(|error| format!("code: {error}"))?;
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

/// Packets.
impl Parser<'_> {
    fn packet(&mut self, inbound: bool) -> Parsed<Packet> {
        self.space()?;
        let ecn = if self.sees('[') || self.sees('(') { Some(self.ip_info()?) } else { None };
        self.space()?;
        for protocol in ["icmp", "udp", "ipv4", "ipv6", "gre", "mpls", "GREv0"] {
            if self.rest().starts_with(protocol) {
                return Err(format!("{protocol}: only TCP packets over IPv4 are supported"));
            }
        }
        let flags = self.flags()?;
        self.space()?;
        let (seq, len) = self.sequence()?;
        let mut packet = Packet { ecn, flags, seq, len, ack: 0, window: None, options: Some(Vec::new()) };
        self.space()?;
        if self.take_word("ack") {
            packet.ack = self.number("TCP ack sequence number", u64::from(u32::MAX))? as u32;
            self.space()?;
        }
        if self.take_word("win") {
            packet.window = Some(self.number("TCP window value", 65_535)? as u16);
            self.space()?;
        }
        if self.take_word("urg") {
            return Err("urgent data is not supported".into());
        }
        if self.take('<') {
            packet.options = self.tcp_options()?;
        }
        if inbound && packet.window.is_none() && !flags.has(Flags::RST) {
            return Err("a packet that is sent to the system needs win N".into());
        }
        if inbound && packet.options.is_none() {
            return Err("<...> can only be used with outbound packets".into());
        }
        if inbound && packet::ip_length(&packet) > usize::from(u16::MAX) {
            return Err("a packet that is sent to the system has more than 65535 bytes".into());
        }
        Ok(packet)
    }

    fn ip_info(&mut self) -> Parsed<EcnField> {
        let close = if self.sees('[') { ']' } else { ')' };
        self.at += 1;
        self.space()?;
        let word = self.word()?;
        let field = match word.as_str() {
            "noecn" => EcnField::Is(Ecn::NotEct),
            "ect0" => EcnField::Is(Ecn::Ect0),
            "ect1" => EcnField::Is(Ecn::Ect1),
            "ce" => EcnField::Is(Ecn::Ce),
            "ect01" => EcnField::Capable,
            _ => return Err(format!("[{word}]: expected noecn, ect0, ect1, ect01 or ce")),
        };
        self.space()?;
        if !self.take(close) {
            return Err(format!("found `{}`; expected {close}", self.glimpse()));
        }
        Ok(field)
    }

    fn flags(&mut self) -> Parsed<Flags> {
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return Err("ports in packets are not supported".into());
        }
        if self.take('-') {
            return Ok(Flags(0));
        }
        let mut flags = Flags(0);
        let mut length = 0;
        for c in self.rest().chars() {
            flags |= match c {
                'F' => Flags::FIN,
                'S' => Flags::SYN,
                'R' => Flags::RST,
                'P' => Flags::PSH,
                '.' => Flags::ACK,
                'E' => Flags::ECE,
                'W' => Flags::CWR,
                'U' => return Err("urgent data is not supported".into()),
                'A' => return Err("accurate ECN is not supported".into()),
                c if c.is_whitespace() => break,
                _ => return Err(format!("bad TCP flags `{}`", self.glimpse())),
            };
            length += 1;
        }
        self.at += length;
        if length == 0 { Err("a packet has no flags".into()) } else { Ok(flags) }
    }

    /// `1:1001(1000)`
    fn sequence(&mut self) -> Parsed<(u32, u32)> {
        let start = self.number("TCP start sequence number", u64::from(u32::MAX))? as u32;
        self.need(':')?;
        let end = self.number("TCP end sequence number", u64::from(u32::MAX))? as u32;
        self.need('(')?;
        let len = self.number("TCP payload size", 65_535)? as u32;
        self.need(')')?;
        if start.wrapping_add(len) != end {
            return Err("inconsistent TCP sequence numbers and payload size".into());
        }
        Ok((start, len))
    }

    fn tcp_options(&mut self) -> Parsed<Option<Vec<TcpOption>>> {
        self.space()?;
        if self.rest().starts_with("...") {
            self.at += 3;
            self.space()?;
            self.need('>')?;
            return Ok(None);
        }
        let mut options = Vec::new();
        loop {
            options.push(self.tcp_option()?);
            self.space()?;
            if self.take('>') {
                break;
            }
            self.need(',')?;
        }
        if packet::option_length(&options) > MAX_OPTION_BYTES {
            return Err("TCP option list too long".into());
        }
        Ok(Some(options))
    }

    fn tcp_option(&mut self) -> Parsed<TcpOption> {
        self.space()?;
        let u32_max = u64::from(u32::MAX);
        let word = self.word()?;
        Ok(match word.as_str() {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::End,
            "mss" => TcpOption::Mss(self.number("mss value", 65_535)? as u16),
            "wscale" => TcpOption::WindowScale(self.number("window scale shift count", 255)? as u8),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => {
                let mut blocks = Vec::new();
                self.space()?;
                while self.rest().starts_with(|c: char| c.is_ascii_digit()) {
                    let left = self.number("TCP SACK left sequence number", u32_max)? as u32;
                    self.need(':')?;
                    blocks.push((left, self.number("TCP SACK right sequence number", u32_max)? as u32));
                    self.space()?;
                }
                if blocks.is_empty() {
                    return Err("sack needs blocks, such as 1:1001".into());
                }
                TcpOption::Sack(blocks)
            }
            "TS" => {
                self.need_word("val")?;
                let val = self.number("ts val", u32_max)? as u32;
                self.need_word("ecr")?;
                TcpOption::Timestamps { val, ecr: self.number("ecr val", u32_max)? as u32 }
            }
            "FO" | "FOEXP" | "md5" => return Err(format!("TCP option {word} is not supported")),
            _ => {
                return Err(format!("TCP option {word}: expected mss, nop, wscale, sackOK, sack, TS or eol"));
            }
        })
    }
}

/// Calls.
impl Parser<'_> {
    fn call(&mut self, until: Option<Nanos>) -> Parsed<CallEvent> {
        let name = self.word()?;
        self.space()?;
        self.need('(')?;
        let mut arguments = Vec::new();
        self.space()?;
        while !self.take(')') {
            arguments.push(self.argument()?);
            self.space()?;
            if !self.take(',') && !self.sees(')') {
                return Err(format!("found `{}`; expected , or )", self.glimpse()));
            }
            self.space()?;
        }
        let call = typed(&name, &arguments)?;
        self.space()?;
        self.need('=')?;
        let result = self.argument()?;
        let result = match &result {
            Argument::Any => None,
            _ => Some(number_of(&result).ok_or("the result of a call is a number")?),
        };
        // An error's name stands on the same line, as does the note in parentheses.
        self.blanks();
        let mut errno = None;
        if self.rest().starts_with(|c: char| c.is_ascii_uppercase()) {
            let word = self.word()?;
            errno = Some(Errno::named(&word).ok_or_else(|| format!("{word}: no such error"))?);
            self.blanks();
        }
        if self.sees('(') {
            let end = self.rest().find(')').ok_or("a note has no )")?;
            self.line += self.rest()[..end].matches('\n').count() as u32;
            self.at += end + 1;
        }
        if errno.is_some() && result != Some(-1) {
            return Err("an error goes with the result -1".into());
        }
        Ok(CallEvent { name, call, until, result, errno })
    }

    fn argument(&mut self) -> Parsed<Argument> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("arguments are nested too deeply".into());
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
            let number =
                int(&self.rest()[..length]).ok_or_else(|| format!("`{}` is no number", self.glimpse()))?;
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
                    let end = self.rest().find(')').ok_or("a ( has no )")?;
                    let inside = self.rest()[..end].trim_matches('"').to_string();
                    self.at += end + 1;
                    return Ok(Argument::Applied(inside));
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
                Argument::Applied(_) if self.take('=') => (String::new(), self.argument()?),
                value => (String::new(), value),
            };
            members.push(member);
            self.space()?;
            if !self.take(',') && !self.sees(close) {
                return Err(format!("found `{}`; expected , or {close}", self.glimpse()));
            }
            self.space()?;
        }
        Ok(members)
    }
}

/// Characters.
impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn sees(&self, c: char) -> bool {
        self.rest().starts_with(c)
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.sees(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn need(&mut self, c: char) -> Parsed<()> {
        self.space()?;
        if self.take(c) { Ok(()) } else { Err(format!("found `{}`; expected {c}", self.glimpse())) }
    }

    /// Blanks and comments.
    fn space(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").ok_or("a comment has no end")? + 2
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
    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.find(|c: char| c != ' ' && c != '\t').unwrap_or(rest.len());
    }

    fn word(&mut self) -> Parsed<String> {
        let length = word_length(self.rest());
        if length == 0 {
            return Err(format!("found `{}`; expected a word", self.glimpse()));
        }
        let word = self.rest()[..length].to_string();
        self.at += length;
        Ok(word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = &self.rest()[..word_length(self.rest())] == word;
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn need_word(&mut self, word: &str) -> Parsed<()> {
        self.space()?;
        if self.take_word(word) {
            Ok(())
        } else {
            Err(format!("found `{}`; expected {word}", self.glimpse()))
        }
    }

    fn number(&mut self, what: &str, max: u64) -> Parsed<u64> {
        self.space()?;
        let length = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return Err(format!("found `{}`; expected a number", self.glimpse()));
        }
        let number = self.rest()[..length].parse().ok().filter(|&number: &u64| number <= max);
        let number = number.ok_or_else(|| format!("{what} out of range"))?;
        self.at += length;
        Ok(number)
    }

    fn quoted(&mut self, mark: char) -> Parsed<String> {
        let start = self.at + 1;
        let end = self.text[start..].find(mark).ok_or_else(|| format!("a {mark} has no end"))? + start;
        let text = self.text[start..end].to_string();
        self.line += text.matches('\n').count() as u32;
        self.at = end + 1;
        Ok(text)
    }

    /// The next few characters, for messages.
    fn glimpse(&self) -> String {
        let line = self.rest().lines().next().unwrap_or("");
        if line.trim().is_empty() {
            return "the end of the line".into();
        }
        let word: String = line.chars().take_while(|c| !c.is_whitespace()).take(20).collect();
        word.escape_debug().to_string()
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && word_length(text) == text.len()
}

fn word_length(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

fn int(word: &str) -> Option<i64> {
    match word.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The call that `name` and its arguments mean.
fn typed(name: &str, arguments: &[Argument]) -> Parsed<Call> {
    let count = |expected: usize| {
        if arguments.len() == expected {
            Ok(())
        } else {
            Err(format!("{name}: found {} arguments; expected {expected}", arguments.len()))
        }
    };
    let int = |index: usize| {
        let found = arguments.get(index).and_then(number_of);
        found.ok_or_else(|| format!("{name}: argument {} is not a number", index + 1))
    };
    let small = |index: usize| {
        let found = int(index)?;
        i32::try_from(found).map_err(|_| format!("{name}: argument {}: {found} is too large", index + 1))
    };
    let fd = || small(0);
    let len = |index: usize| {
        let found = int(index)?;
        if found > MAX_CALL_BYTES {
            return Err(format!("{name}: found {found} bytes; expected at most {MAX_CALL_BYTES}"));
        }
        Ok(found.max(0) as u64)
    };
    let flags = |index: usize| {
        let mut found = SendFlags::default();
        for word in arguments.get(index).map(words_of).unwrap_or_default() {
            match word.as_str() {
                "MSG_DONTWAIT" => found.dont_wait = true,
                "MSG_MORE" => found.more = true,
                "MSG_NOSIGNAL" | "0" => {}
                _ => return Err(format!("{name}: {word} is not supported")),
            }
        }
        Ok(found)
    };
    let write = |flags: SendFlags| -> Parsed<Call> {
        Ok(Call::Write { fd: fd()?, len: len(2)?, dont_wait: flags.dont_wait, more: flags.more })
    };
    Ok(match name {
        "socket" => {
            count(3)?;
            let kind = words_of(&arguments[1]);
            let protocol = words_of(&arguments[2]);
            if !kind.iter().any(|word| word == "SOCK_STREAM")
                || !["IPPROTO_TCP", "0"].contains(&protocol[0].as_str())
            {
                return Err("socket: only SOCK_STREAM, IPPROTO_TCP is supported".into());
            }
            Call::Socket { nonblocking: kind.iter().any(|word| word == "SOCK_NONBLOCK") }
        }
        "bind" => {
            count(3)?;
            Call::Bind(fd()?)
        }
        "listen" => {
            count(2)?;
            Call::Listen(fd()?)
        }
        "accept" => {
            count(3)?;
            Call::Accept { fd: fd()?, nonblocking: false }
        }
        "accept4" => {
            count(4)?;
            let nonblocking = words_of(&arguments[3]).iter().any(|word| word == "SOCK_NONBLOCK");
            Call::Accept { fd: fd()?, nonblocking }
        }
        "connect" => {
            count(3)?;
            Call::Connect(fd()?)
        }
        "fcntl" => match arguments.get(1) {
            Some(Argument::Word(word)) if word == "F_GETFL" => Call::GetFlags(fd()?),
            Some(Argument::Word(word)) if word == "F_SETFL" && arguments.len() == 3 => {
                let words = words_of(&arguments[2]);
                Call::SetFlags { fd: fd()?, nonblocking: words.iter().any(|word| word == "O_NONBLOCK") }
            }
            _ => return Err("fcntl: only F_GETFL and F_SETFL are supported".into()),
        },
        "read" => {
            count(3)?;
            Call::Read { fd: fd()?, len: len(2)?, dont_wait: false }
        }
        "recv" | "recvfrom" => {
            count(if name == "recv" { 4 } else { 6 })?;
            Call::Read { fd: fd()?, len: len(2)?, dont_wait: flags(3)?.dont_wait }
        }
        "write" => {
            count(3)?;
            write(SendFlags::default())?
        }
        "send" | "sendto" => {
            count(if name == "send" { 4 } else { 6 })?;
            write(flags(3)?)?
        }
        "shutdown" => {
            count(2)?;
            let how = words_of(&arguments[1]).concat();
            let (read, write) = match how.as_str() {
                "SHUT_RD" | "0" => (true, false),
                "SHUT_WR" | "1" => (false, true),
                "SHUT_RDWR" | "2" => (true, true),
                _ => return Err(format!("shutdown: found {how}; expected SHUT_RD, SHUT_WR or SHUT_RDWR")),
            };
            Call::Shutdown { fd: fd()?, read, write }
        }
        "close" => {
            count(1)?;
            Call::Close(fd()?)
        }
        "setsockopt" | "getsockopt" => {
            count(5)?;
            let option = socket_option(name, &arguments[1], &arguments[2])?;
            let value = option_value(name, &arguments[3])?;
            match (name, value) {
                ("getsockopt", value) => Call::GetOption { fd: fd()?, option, value },
                (_, Some(value)) => Call::SetOption { fd: fd()?, option, value },
                _ => return Err("setsockopt needs a value".into()),
            }
        }
        "ioctl" => {
            let out = match arguments.get(1) {
                Some(Argument::Word(word)) if word == "SIOCINQ" || word == "FIONREAD" => false,
                Some(Argument::Word(word)) if word == "SIOCOUTQ" => true,
                _ => return Err("ioctl: only SIOCINQ and SIOCOUTQ are supported".into()),
            };
            Call::Queued { fd: fd()?, out, value: arguments.get(2).and_then(number_of) }
        }
        "poll" => {
            count(3)?;
            let Argument::List(entries) = &arguments[0] else {
                return Err("poll: expected [{fd=…, events=…}]".into());
            };
            let fds: Parsed<Vec<PollFd>> = entries.iter().map(poll_fd).collect();
            Call::Poll { fds: fds?, timeout_ms: small(2)? }
        }
        _ => return Err(format!("{name}: this call is not supported")),
    })
}

#[derive(Clone, Copy, Default)]
struct SendFlags {
    dont_wait: bool,
    more: bool,
}

fn socket_option(call: &str, level: &Argument, option: &Argument) -> Parsed<SocketOption> {
    let level = match words_of(level).concat().as_str() {
        "IPPROTO_TCP" => "SOL_TCP".to_string(),
        level => level.to_string(),
    };
    let name = words_of(option).concat();
    let found = SOCKET_OPTIONS.iter().find(|(l, n, _)| *l == level && *n == name);
    found.map(|&(_, _, option)| option).ok_or_else(|| format!("{call}: {level}, {name} is not supported"))
}

fn option_value(call: &str, argument: &Argument) -> Parsed<Option<OptionValue>> {
    Ok(Some(match argument {
        Argument::Any => return Ok(None),
        Argument::Text(text) => OptionValue::Text(text.clone()),
        Argument::Struct(members) => {
            let member = |names: &[&str]| {
                let found = members.iter().find(|(name, _)| names.contains(&name.as_str()));
                found.and_then(|(_, value)| number_of(value))
            };
            match (member(&["onoff", "l_onoff"]), member(&["linger", "l_linger"])) {
                (Some(on), Some(seconds)) => OptionValue::Linger(on != 0, seconds),
                _ => return Err(format!("{call}: expected {{onoff=…, linger=…}}")),
            }
        }
        Argument::List(list) if matches!(list.first(), Some(Argument::Any)) => return Ok(None),
        other => match number_of(other) {
            Some(number) => OptionValue::Number(number),
            None => return Err(format!("{call}: the value is neither a number nor a text")),
        },
    }))
}

fn poll_fd(entry: &Argument) -> Parsed<PollFd> {
    let Argument::Struct(members) = entry else { return Err("poll: expected {fd=…, events=…}".into()) };
    let mut found = PollFd { fd: -1, events: 0, revents: 0 };
    for (name, value) in members {
        let mut bits = 0;
        if name == "events" || name == "revents" {
            for word in words_of(value) {
                let bit = POLL_BITS.iter().find(|(name, _)| *name == word).map(|&(_, bit)| bit);
                let number = int(&word).and_then(|number| i16::try_from(number).ok());
                bits |= bit.or(number).ok_or_else(|| format!("poll: {word} is not supported"))?;
            }
        }
        match name.as_str() {
            "fd" => {
                let fd = number_of(value).and_then(|fd| i32::try_from(fd).ok());
                found.fd = fd.ok_or("poll: fd is no descriptor's number")?;
            }
            "events" => found.events = bits,
            "revents" => found.revents = bits,
            _ => return Err(format!("poll: {name} is not fd, events or revents")),
        }
    }
    Ok(found)
}

/// The number an argument is, alone or as the only one of a list.
fn number_of(argument: &Argument) -> Option<i64> {
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
        _ => int(word),
    }
}

/// The words of `A|B`; numbers as they stand.
fn words_of(argument: &Argument) -> Vec<String> {
    match argument {
        Argument::Or(all) => all.iter().flat_map(words_of).collect(),
        Argument::Word(word) | Argument::Applied(word) | Argument::Text(word) => vec![word.clone()],
        Argument::Int(number) => vec![number.to_string()],
        _ => vec![String::new()],
    }
}
