//! Calls: from what is written to the call that is meant.

use tcp::Nanos;

use super::argument::{Argument, number_of, words_of};
use super::cursor::int;
use super::{Parsed, Parser, Problem};
use crate::errno::Errno;
use crate::message::SendFlags;
use crate::script::{Call, CallEvent, OptionValue, POLL_BITS, PollFd, SOCKET_OPTIONS, SocketOption};

/// Calls that the language has.
pub(crate) const CALLS: &[&str] = &[
    "socket",
    "bind",
    "listen",
    "accept",
    "accept4",
    "connect",
    "fcntl",
    "read",
    "recv",
    "recvfrom",
    "write",
    "send",
    "sendto",
    "shutdown",
    "close",
    "setsockopt",
    "getsockopt",
    "ioctl",
    "poll",
    "sendmsg",
    "recvmsg",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
];

/// Bytes that one call may read or write: a live system takes memory for them.
const MAX_CALL_BYTES: u64 = 1 << 30;

impl Parser<'_> {
    pub(super) fn call(&mut self, until: Option<Nanos>) -> Parsed<CallEvent> {
        let name = self.word()?;
        self.space()?;
        self.need('(')?;
        let mut arguments = Vec::new();
        self.space()?;
        while !self.take(')') {
            arguments.push(self.argument()?);
            self.space()?;
            if !self.take(',') && !self.sees(')') {
                return Err(self.found(", or )"));
            }
            self.space()?;
        }
        let call = Arguments { name: &name, list: &arguments }.call()?;
        self.space()?;
        self.need('=')?;
        let result = self.argument()?;
        let result = match &result {
            Argument::Any => None,
            _ => Some(number_of(&result).ok_or(Problem::Rule("the result of a call is a number"))?),
        };
        // An error's name stands on the same line, as does the note in parentheses.
        self.blanks();
        let mut errno = None;
        if self.rest().starts_with(|c: char| c.is_ascii_uppercase()) {
            let word = self.word()?;
            errno = Some(Errno::named(&word).ok_or_else(|| Problem::refused(word, "no such error"))?);
            self.blanks();
        }
        if self.sees('(') {
            let end = self.rest().find(')').ok_or(Problem::Rule("a note has no )"))?;
            self.line += self.rest()[..end].matches('\n').count() as u32;
            self.at += end + 1;
        }
        if errno.is_some() && result != Some(-1) {
            return Err(Problem::Rule("an error goes with the result -1"));
        }
        Ok(CallEvent { name, call, until, result, errno })
    }
}

/// The name of a call and its arguments as they are written.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    pub(super) name: &'a str,
    pub(super) list: &'a [Argument],
}

impl Arguments<'_> {
    /// The call that is meant.
    fn call(self) -> Parsed<Call> {
        match self.name {
            "socket" => self.socket(),
            "bind" => self.count(3).and_then(|()| Ok(Call::Bind(self.fd()?))),
            "listen" => self.count(2).and_then(|()| Ok(Call::Listen(self.fd()?))),
            "accept" | "accept4" => self.accept(),
            "connect" => self.count(3).and_then(|()| Ok(Call::Connect(self.fd()?))),
            "fcntl" => self.fcntl(),
            "read" | "recv" | "recvfrom" => self.read(),
            "write" | "send" => self.write(),
            "sendto" => self.send_to(),
            "shutdown" => self.shutdown(),
            "close" => self.count(1).and_then(|()| Ok(Call::Close(self.fd()?))),
            "setsockopt" | "getsockopt" => self.option(),
            "ioctl" => self.ioctl(),
            "poll" => self.poll(),
            "sendmsg" => self.send_message(),
            "recvmsg" => self.receive_message(),
            "epoll_create" | "epoll_create1" => self.count(1).map(|()| Call::EpollCreate),
            "epoll_ctl" => self.epoll_control(),
            "epoll_wait" => self.epoll_wait(),
            name => Err(Problem::refused(name, "this call is not supported")),
        }
    }

    fn socket(self) -> Parsed<Call> {
        self.count(3)?;
        let kind = words_of(&self.list[1]);
        let protocol = words_of(&self.list[2]);
        if !kind.iter().any(|word| word == "SOCK_STREAM")
            || !["IPPROTO_TCP", "0"].contains(&protocol[0].as_str())
        {
            return Err(Problem::Rule("socket: only SOCK_STREAM, IPPROTO_TCP is supported"));
        }
        Ok(Call::Socket { nonblocking: kind.iter().any(|word| word == "SOCK_NONBLOCK") })
    }

    fn accept(self) -> Parsed<Call> {
        let flags = if self.name == "accept4" { 1 } else { 0 };
        self.count(3 + flags)?;
        let nonblocking = self.list[3..].iter().flat_map(words_of).any(|word| word == "SOCK_NONBLOCK");
        Ok(Call::Accept { fd: self.fd()?, nonblocking })
    }

    fn fcntl(self) -> Parsed<Call> {
        match self.list.get(1) {
            Some(Argument::Word(word)) if word == "F_GETFL" => Ok(Call::GetFlags(self.fd()?)),
            Some(Argument::Word(word)) if word == "F_SETFL" && self.list.len() == 3 => {
                let words = words_of(&self.list[2]);
                Ok(Call::SetFlags {
                    fd: self.fd()?,
                    nonblocking: words.iter().any(|word| word == "O_NONBLOCK"),
                })
            }
            _ => Err(Problem::Rule("fcntl: only F_GETFL and F_SETFL are supported")),
        }
    }

    fn read(self) -> Parsed<Call> {
        self.count(match self.name {
            "read" => 3,
            "recv" => 4,
            _ => 6,
        })?;
        Ok(Call::Read { fd: self.fd()?, len: self.len()?, flags: self.receive_flags(3)? })
    }

    fn write(self) -> Parsed<Call> {
        self.count(if self.name == "write" { 3 } else { 4 })?;
        let flags = self.send_flags(3)?;
        if flags.fast_open {
            return Err(Problem::Rule("MSG_FASTOPEN needs an address: sendto"));
        }
        Ok(Call::Write { fd: self.fd()?, len: self.len()?, flags })
    }

    fn send_to(self) -> Parsed<Call> {
        self.count(6)?;
        let no_family = words_of(&self.list[4]).concat() == "AF_UNSPEC";
        let flags = SendFlags { no_family, ..self.send_flags(3)? };
        Ok(Call::SendTo { fd: self.fd()?, len: self.len()?, flags })
    }

    fn shutdown(self) -> Parsed<Call> {
        self.count(2)?;
        let how = words_of(&self.list[1]).concat();
        let (read, write) = match how.as_str() {
            "SHUT_RD" | "0" => (true, false),
            "SHUT_WR" | "1" => (false, true),
            "SHUT_RDWR" | "2" => (true, true),
            _ => return Err(Problem::value("shutdown", how, "SHUT_RD, SHUT_WR or SHUT_RDWR")),
        };
        Ok(Call::Shutdown { fd: self.fd()?, read, write })
    }

    fn option(self) -> Parsed<Call> {
        self.count(5)?;
        let option = socket_option(self.name, &self.list[1], &self.list[2])?;
        let value = option_value(self.name, &self.list[3])?;
        match (self.name, value) {
            ("getsockopt", value) => Ok(Call::GetOption { fd: self.fd()?, option, value }),
            (_, Some(value)) => Ok(Call::SetOption { fd: self.fd()?, option, value }),
            _ => Err(Problem::Rule("setsockopt needs a value")),
        }
    }

    fn ioctl(self) -> Parsed<Call> {
        let out = match self.list.get(1) {
            Some(Argument::Word(word)) if word == "SIOCINQ" || word == "FIONREAD" => false,
            Some(Argument::Word(word)) if word == "SIOCOUTQ" => true,
            _ => return Err(Problem::Rule("ioctl: only SIOCINQ and SIOCOUTQ are supported")),
        };
        Ok(Call::Queued { fd: self.fd()?, out, value: self.list.get(2).and_then(number_of) })
    }

    fn poll(self) -> Parsed<Call> {
        self.count(3)?;
        let Argument::List(entries) = &self.list[0] else {
            return Err(Problem::Rule("poll: expected [{fd=…, events=…}]"));
        };
        let fds: Parsed<Vec<PollFd>> = entries.iter().map(poll_fd).collect();
        Ok(Call::Poll { fds: fds?, timeout_ms: self.small(2)? })
    }

    pub(super) fn count(self, expected: usize) -> Parsed<()> {
        let Arguments { name, list } = self;
        if list.len() == expected {
            Ok(())
        } else {
            Err(Problem::value(name, format!("{} arguments", list.len()), expected.to_string()))
        }
    }

    pub(super) fn wrong(self, index: usize, why: String) -> Problem {
        Problem::Argument { call: self.name.to_string(), number: index + 1, why }
    }

    fn int(self, index: usize) -> Parsed<i64> {
        let found = self.list.get(index).and_then(number_of);
        found.ok_or_else(|| self.wrong(index, " is not a number".into()))
    }

    pub(super) fn small(self, index: usize) -> Parsed<i32> {
        let found = self.int(index)?;
        let too_large = |_| self.wrong(index, format!(": {found} is too large"));
        i32::try_from(found).map_err(too_large)
    }

    pub(super) fn fd(self) -> Parsed<i32> {
        self.small(0)
    }

    /// The number of bytes to read or write.
    fn len(self) -> Parsed<u64> {
        self.checked_len(self.int(2)?.max(0) as u64)
    }

    /// A number of bytes, if a call may have so many.
    pub(super) fn checked_len(self, found: u64) -> Parsed<u64> {
        if found > MAX_CALL_BYTES {
            let most = format!("at most {MAX_CALL_BYTES}");
            return Err(Problem::value(self.name, format!("{found} bytes"), most));
        }
        Ok(found)
    }
}

fn socket_option(call: &str, level: &Argument, option: &Argument) -> Parsed<SocketOption> {
    let level = match words_of(level).concat().as_str() {
        "IPPROTO_TCP" => "SOL_TCP".to_string(),
        "IPPROTO_IP" => "SOL_IP".to_string(),
        level => level.to_string(),
    };
    let name = words_of(option).concat();
    let found = SOCKET_OPTIONS.iter().find(|(l, n, _)| *l == level && *n == name);
    found
        .map(|&(_, _, option)| option)
        .ok_or_else(|| Problem::NotSupported(format!("{call}: {level}, {name}")))
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
            if let Some((_, Argument::Text(name))) =
                members.iter().find(|(name, _)| name == "function_set_name")
            {
                return Ok(Some(OptionValue::Text(name.clone())));
            }
            match (member(&["onoff", "l_onoff"]), member(&["linger", "l_linger"])) {
                (Some(on), Some(seconds)) => OptionValue::Linger(on != 0, seconds),
                _ => return Err(Problem::refused(call, "expected {onoff=…, linger=…}")),
            }
        }
        Argument::List(list) if matches!(list.first(), Some(Argument::Any)) => return Ok(None),
        other => match number_of(other) {
            Some(number) => OptionValue::Number(number),
            None => return Err(Problem::refused(call, "the value is neither a number nor a text")),
        },
    }))
}

fn poll_fd(entry: &Argument) -> Parsed<PollFd> {
    let Argument::Struct(members) = entry else {
        return Err(Problem::Rule("poll: expected {fd=…, events=…}"));
    };
    let mut found = PollFd { fd: -1, events: 0, revents: 0 };
    for (name, value) in members {
        let mut bits = 0;
        if name == "events" || name == "revents" {
            for word in words_of(value) {
                let bit = POLL_BITS.iter().find(|(name, _)| *name == word).map(|&(_, bit)| bit);
                let number = int(&word).and_then(|number| i16::try_from(number).ok());
                bits |= bit.or(number).ok_or_else(|| Problem::NotSupported(format!("poll: {word}")))?;
            }
        }
        match name.as_str() {
            "fd" => {
                let fd = number_of(value).and_then(|fd| i32::try_from(fd).ok());
                found.fd = fd.ok_or(Problem::Rule("poll: fd is no descriptor's number"))?;
            }
            "events" => found.events = bits,
            "revents" => found.revents = bits,
            _ => return Err(Problem::PollMember(name.clone())),
        }
    }
    Ok(found)
}
