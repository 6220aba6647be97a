//! Calls: made, awaited, and compared with what the script says.

use tcp::Nanos;

use super::{Blocked, Kind, Runner, Wrong, seconds};
use crate::errno::Errno;
use crate::message::{Control, EPOLL_BITS, MESSAGE_BITS, Message};
use crate::script::{Call, CallEvent, OptionValue, POLL_BITS};
use crate::system::{Output, Returned};

impl<'a> Runner<'a> {
    pub(super) fn call(
        &mut self,
        line: u32,
        event: &'a CallEvent,
        until: Option<Nanos>,
    ) -> Result<(), Wrong> {
        self.unblock()?;
        self.listens |= matches!(event.call, Call::Listen(_));
        self.calls_out |= matches!(event.call, Call::Connect(_) | Call::SendTo { .. });
        let call = self.with_own_descriptors(&event.call);
        match (self.system.call(&call, until.is_some()), until) {
            (Some(returned), _) => self.check(event, returned),
            (None, Some(until)) => {
                self.blocked = Some(Blocked { line, event, until });
                Ok(())
            }
            (None, None) => {
                Err(call_error(event, "it blocks, and the script gives no time at which it returns"))
            }
        }
    }

    /// Waits for the call that blocks, if there is one.
    pub(super) fn unblock(&mut self) -> Result<(), Wrong> {
        let Some(Blocked { event, until, .. }) = self.blocked.take() else { return Ok(()) };
        let tolerance = self.tolerance(until);
        let deadline = until.saturating_add(tolerance);
        match self.system.returned(deadline.max(self.system.now())) {
            Some((at, returned)) => {
                self.check(event, returned)?;
                if at.saturating_add(tolerance) < until || at > deadline {
                    let (expected, found) = (seconds(until), seconds(at));
                    let timing = format!(
                        "timing error: expected system call return at {expected} sec but happened at {found} sec; tolerance {} sec",
                        seconds(tolerance)
                    );
                    return Err(call_error(event, &timing));
                }
                Ok(())
            }
            None => Err(call_error(
                event,
                &format!("timing error: it has not returned at {} sec", seconds(deadline)),
            )),
        }
    }

    /// The call with the system's numbers in place of the script's, which are labels: a script may call a socket 7.
    fn with_own_descriptors(&self, call: &Call) -> Call {
        let mut call = call.clone();
        for fd in call.descriptors() {
            *fd = self.descriptors.get(fd).copied().unwrap_or(*fd);
        }
        call
    }

    /// Compares what a call returned with what the script says, and learns which descriptor a label is for.
    fn check(&mut self, event: &CallEvent, mut returned: Returned) -> Result<(), Wrong> {
        if event.call.opens()
            && let (Some(label), Ok(own)) = (event.result.filter(|&label| label >= 0), returned.result)
        {
            self.descriptors.insert(label as i32, own as i32);
            returned.result = Ok(label);
        }
        if let (Call::Close(fd), Ok(_)) = (&event.call, returned.result) {
            self.descriptors.remove(fd);
        }
        compare(event, &returned, self.tolerance(self.last))
    }
}

fn call_error(event: &CallEvent, what: &str) -> Wrong {
    Wrong {
        message: format!("runtime error in {} call: {what}", event.name),
        packets: Vec::new(),
        kind: Kind::Call,
    }
}

/// Compares what a call returned with what the script says.
fn compare(event: &CallEvent, returned: &Returned, tolerance: Nanos) -> Result<(), Wrong> {
    let found = match returned.result {
        Ok(value) => (value, None),
        Err(errno) => (-1, Some(errno)),
    };
    let with_errno = |value: i64, errno: Option<Errno>| match errno {
        Some(errno) => format!("{value} with errno {} ({})", errno.0, errno.text()),
        None => value.to_string(),
    };
    if let Some(expected) = event.result
        && (expected != found.0 || (event.errno.is_some() && event.errno != found.1))
    {
        let text = format!(
            "Expected result {} but got {}",
            with_errno(expected, event.errno),
            with_errno(found.0, found.1)
        );
        return Err(call_error(event, &text));
    }
    match (&event.call, &returned.output) {
        (Call::GetOption { value: Some(expected), .. }, Output::Value(found)) if expected != found => {
            Err(call_error(
                event,
                &format!("Bad getsockopt value: expected: {} actual: {}", shown(expected), shown(found)),
            ))
        }
        (Call::Queued { value: Some(expected), .. }, Output::Value(OptionValue::Number(found)))
            if expected != found =>
        {
            Err(call_error(event, &format!("Expected value {expected} but got {found}")))
        }
        (Call::ReadMessage { message, .. }, Output::Message(found)) => {
            compare_messages(message, found, tolerance).map_err(|text| call_error(event, &text))
        }
        (Call::EpollWait { event: expected, .. }, Output::Epoll(events)) => match events.first() {
            Some(found) if found != expected => {
                let text = format!(
                    "Expected events {} of {} but got {} of {}",
                    names(expected.events, &EPOLL_BITS),
                    expected.datum,
                    names(found.events, &EPOLL_BITS),
                    found.datum
                );
                Err(call_error(event, &text))
            }
            _ => Ok(()),
        },
        (Call::Poll { fds, .. }, Output::Events(events)) => {
            for (entry, &found) in fds.iter().zip(events) {
                if entry.revents != found {
                    let text = format!(
                        "Expected revents of {}: {} but got {}",
                        entry.fd,
                        bits(entry.revents),
                        bits(found)
                    );
                    return Err(call_error(event, &text));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn shown(value: &OptionValue) -> String {
    match value {
        OptionValue::Number(number) => number.to_string(),
        OptionValue::Text(text) => format!("{text:?}"),
        OptionValue::Linger(on, linger) => format!("{{onoff={}, linger={linger}}}", u8::from(*on)),
    }
}

/// Compares what came with a message.
fn compare_messages(expected: &Message, found: &Message, tolerance: Nanos) -> Result<(), String> {
    if expected.flags != found.flags {
        return Err(format!(
            "Expected msg_flags {} but got {}",
            names(expected.flags, &MESSAGE_BITS),
            names(found.flags, &MESSAGE_BITS)
        ));
    }
    let alike = |pair: (&Control, &Control)| match pair {
        (Control::Timestamp(expected), Control::Timestamp(found)) => expected.abs_diff(*found) <= tolerance,
        (expected, found) => expected == found,
    };
    let (wanted, control) = (&expected.control, &found.control);
    if wanted.len() == control.len() && wanted.iter().zip(control).all(alike) {
        return Ok(());
    }
    Err(format!("Expected msg_control {} but got {}", listed(wanted), listed(control)))
}

fn listed(control: &[Control]) -> String {
    let shown = |message: &Control| match message {
        Control::Unread(bytes) => format!("TCP_CM_INQ {bytes}"),
        Control::Timestamp(at) => format!("SCM_TIMESTAMPING {}", seconds(*at)),
        Control::Error(error) => format!(
            "IP_RECVERR {{ee_errno={}, ee_origin={}, ee_type={}, ee_code={}, ee_info={}, ee_data={}}}",
            error.errno, error.origin, error.kind, error.code, error.info, error.data
        ),
    };
    format!("[{}]", control.iter().map(shown).collect::<Vec<_>>().join(", "))
}

fn bits(events: i16) -> String {
    names(events, &POLL_BITS)
}

/// Names of the bits of `value`.
fn names<T: Copy + Into<i64>>(value: T, known: &[(&str, T)]) -> String {
    let found: Vec<&str> =
        known.iter().filter(|(_, bit)| value.into() & (*bit).into() != 0).map(|&(name, _)| name).collect();
    if found.is_empty() { "0".into() } else { found.join("|") }
}
