//! Calls with messages and their control data, flags of calls that send and receive, and epoll.

use super::argument::{Argument, number_of, words_of};
use super::call::Arguments;
use super::{Parsed, Problem};
use crate::message::{
    Control, EPOLL_BITS, EpollEvent, EpollOperation, ErrorReport, MESSAGE_BITS, Message, ReceiveFlags,
    SendFlags,
};
use crate::script::Call;

/// MSG_FASTOPEN as Linux has it, which some scripts write as a number.
const MSG_FASTOPEN: &str = "536870912";

impl Arguments<'_> {
    /// The flags of a call that sends, in the argument at `index`; calls without that argument have none.
    pub(super) fn send_flags(self, index: usize) -> Parsed<SendFlags> {
        let mut found = SendFlags { no_buffer: self.has_no_buffer(), ..SendFlags::default() };
        for word in self.list.get(index).map(words_of).unwrap_or_default() {
            match word.as_str() {
                "MSG_DONTWAIT" => found.dont_wait = true,
                "MSG_MORE" => found.more = true,
                "MSG_EOR" => found.end_of_record = true,
                "MSG_ZEROCOPY" => found.zero_copy = true,
                "MSG_FASTOPEN" | MSG_FASTOPEN => found.fast_open = true,
                "MSG_NOSIGNAL" | "0" | "0x0" => {}
                _ => return Err(Problem::NotSupported(format!("{}: {word}", self.name))),
            }
        }
        Ok(found)
    }

    /// The flags of a call that receives, likewise.
    pub(super) fn receive_flags(self, index: usize) -> Parsed<ReceiveFlags> {
        let mut found = ReceiveFlags { no_buffer: self.has_no_buffer(), ..ReceiveFlags::default() };
        for word in self.list.get(index).map(words_of).unwrap_or_default() {
            match word.as_str() {
                "MSG_DONTWAIT" => found.dont_wait = true,
                "MSG_PEEK" => found.peek = true,
                "MSG_ERRQUEUE" => found.errors = true,
                "MSG_NOSIGNAL" | "0" | "0x0" => {}
                _ => return Err(Problem::NotSupported(format!("{}: {word}", self.name))),
            }
        }
        Ok(found)
    }

    fn has_no_buffer(self) -> bool {
        matches!(self.list.get(1), Some(Argument::Word(word)) if word == "NULL")
    }

    /// `sendmsg(4, {msg_name(...)=..., msg_iov(2)=[{..., 40}, {..., 20}], msg_flags=0}, MSG_MORE)`
    pub(super) fn send_message(self) -> Parsed<Call> {
        self.count(3)?;
        let (fd, len, flags) = (self.fd()?, self.iov_len()?, self.send_flags(2)?);
        Ok(if flags.fast_open { Call::SendTo { fd, len, flags } } else { Call::Write { fd, len, flags } })
    }

    /// `recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 40}], msg_flags=0, msg_control=[…]}, 0)`
    pub(super) fn receive_message(self) -> Parsed<Call> {
        self.count(3)?;
        let flags = self.receive_flags(2)?;
        let mut message = Message::default();
        for (name, value) in self.members()? {
            match name.as_str() {
                "msg_flags" => message.flags = bits_of("msg_flags", value, &MESSAGE_BITS)?,
                "msg_control" => message.control = self.control(value)?,
                _ => {}
            }
        }
        Ok(Call::ReadMessage { fd: self.fd()?, len: self.iov_len()?, flags, message })
    }

    fn members(&self) -> Parsed<&[(String, Argument)]> {
        match self.list.get(1) {
            Some(Argument::Struct(members)) => Ok(members),
            _ => {
                Err(self
                    .wrong(1, ": expected {msg_name(...)=..., msg_iov(1)=[{..., N}], msg_flags=0}".into()))
            }
        }
    }

    /// Bytes of all parts of a message.
    fn iov_len(self) -> Parsed<u64> {
        let wrong = || self.wrong(1, ": msg_iov is no list of {..., LENGTH}".into());
        let iov = self.members()?.iter().find(|(name, _)| name == "msg_iov");
        let Some((_, Argument::List(parts))) = iov else { return Err(wrong()) };
        let len = |part: &Argument| match part {
            Argument::Struct(members) => {
                number_of(&members.get(1)?.1).and_then(|len| u64::try_from(len).ok())
            }
            _ => None,
        };
        let lengths: Option<Vec<u64>> = parts.iter().map(len).collect();
        self.checked_len(lengths.ok_or_else(wrong)?.iter().fold(0, |sum: u64, len| sum.saturating_add(*len)))
    }

    fn control(self, list: &Argument) -> Parsed<Vec<Control>> {
        let Argument::List(list) = list else {
            return Err(self.wrong(1, ": msg_control is no list".into()));
        };
        list.iter().map(control).collect()
    }

    /// `epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLOUT|EPOLLET, fd=4})`
    pub(super) fn epoll_control(self) -> Parsed<Call> {
        self.count(4)?;
        let operation = match words_of(&self.list[1]).concat().as_str() {
            "EPOLL_CTL_ADD" => EpollOperation::Add,
            "EPOLL_CTL_MOD" => EpollOperation::Modify,
            "EPOLL_CTL_DEL" => EpollOperation::Delete,
            other => {
                return Err(Problem::value(
                    "epoll_ctl",
                    other,
                    "EPOLL_CTL_ADD, EPOLL_CTL_MOD or EPOLL_CTL_DEL",
                ));
            }
        };
        let event = match &self.list[3] {
            Argument::Word(word) if word == "NULL" => EpollEvent::default(),
            event => epoll_event(self.name, event)?,
        };
        Ok(Call::EpollControl { epoll: self.fd()?, operation, fd: self.small(2)?, event })
    }

    /// `epoll_wait(5, {events=EPOLLOUT, fd=4}, 1, 0)`
    pub(super) fn epoll_wait(self) -> Parsed<Call> {
        self.count(4)?;
        let event = epoll_event(self.name, &self.list[1])?;
        Ok(Call::EpollWait { epoll: self.fd()?, event, most: self.small(2)?, timeout_ms: self.small(3)? })
    }
}

/// The sum of the bits that words stand for.
fn bits_of<T: Copy + Into<i64>>(what: &str, value: &Argument, known: &[(&str, T)]) -> Parsed<i64> {
    let bit = |word: String| {
        let found = known.iter().find(|(name, _)| *name == word).map(|&(_, bit)| bit.into());
        let zero = (word == "0").then_some(0);
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        found.or(zero).ok_or_else(|| Problem::value(what, word, format!("0 or some of {}", names.join("|"))))
    };
    words_of(value).into_iter().map(bit).try_fold(0, |sum, bit| Ok(sum | bit?))
}

fn epoll_event(call: &str, argument: &Argument) -> Parsed<EpollEvent> {
    let Argument::Struct(members) = argument else {
        return Err(Problem::refused(call, "expected {events=…, fd=…}"));
    };
    let mut event = EpollEvent::default();
    for (name, value) in members {
        match name.as_str() {
            "events" => event.events = bits_of(call, value, &EPOLL_BITS)? as u32,
            "fd" | "ptr" | "u32" | "u64" => {
                let datum = number_of(value);
                event.datum =
                    datum.ok_or_else(|| Problem::refused(call, "the datum of an event is a number"))?;
            }
            _ => return Err(Problem::value(call, format!("`{name}`"), "events, fd, ptr, u32 or u64")),
        }
    }
    Ok(event)
}

/// `{cmsg_level=SOL_TCP, cmsg_type=TCP_CM_INQ, cmsg_data=9000}`
fn control(argument: &Argument) -> Parsed<Control> {
    let known = "TCP_CM_INQ, SCM_TIMESTAMPING or IP_RECVERR with its data";
    let wrong = |found: &str| Problem::value("msg_control", format!("`{found}`"), known);
    let Argument::Struct(members) = argument else { return Err(wrong("")) };
    let member = |name: &str| members.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let kind = member("cmsg_type").map(words_of).unwrap_or_default().concat();
    let data = member("cmsg_data").ok_or_else(|| wrong(&kind))?;
    let field = |name: &str| match data {
        Argument::Struct(fields) => {
            fields.iter().find(|(known, _)| known == name).and_then(|(_, v)| number_of(v))
        }
        _ => None,
    };
    let all = |names: &[&str]| names.iter().map(|name| field(name)).collect::<Option<Vec<i64>>>();
    let found = match kind.as_str() {
        "TCP_CM_INQ" => number_of(data).map(Control::Unread),
        "SCM_TIMESTAMPING" => all(&["scm_sec", "scm_nsec"]).and_then(|parts| {
            let nanos = parts[0].checked_mul(1_000_000_000)?.checked_add(parts[1])?;
            u64::try_from(nanos).ok().map(Control::Timestamp)
        }),
        "IP_RECVERR" | "IPV6_RECVERR" => {
            all(&["ee_errno", "ee_origin", "ee_type", "ee_code", "ee_info", "ee_data"]).map(|parts| {
                Control::Error(ErrorReport {
                    errno: parts[0],
                    origin: parts[1],
                    kind: parts[2],
                    code: parts[3],
                    info: parts[4],
                    data: parts[5],
                })
            })
        }
        _ => None,
    };
    found.ok_or_else(|| wrong(&kind))
}
