//! Messages to the kernel's network (netlink(7), rtnetlink(7)), which come ready-made.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use live::datagrams::Datagrams;

use crate::error::{Error, Result};

use super::plan::Message;

/// Bytes of struct nlmsghdr.
pub(super) const HEADER: usize = 16;
/// SOL_NETLINK, and its options that have errors explained in words.
const SOL_NETLINK: libc::c_int = 270;
const EXPLAINED: [libc::c_int; 2] = [10, 11];
/// Answers that are taken in by one system call, and bytes of one at most.
pub(super) const TAKEN: usize = 32;
const LONGEST: usize = 1 << 13;
/// NLMSGERR_ATTR_MSG.
const WORDS: u16 = 1;
/// Flags of an answer: the request is not repeated, and attributes follow (NLM_F_CAPPED, NLM_F_ACK_TLVS).
const CAPPED: u16 = 0x100;
const ATTRIBUTES: u16 = 0x200;

/// A socket of the calling thread's namespace.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    came: Datagrams,
}

impl Netlink {
    /// Opens one.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn open() -> io::Result<Netlink> {
        Netlink::of(libc::NETLINK_ROUTE)
    }

    /// Opens one of another protocol (netlink(7)).
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn of(protocol: libc::c_int) -> io::Result<Netlink> {
        // SAFETY: plain call; the descriptor is new.
        let made = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made.
        let socket = unsafe { OwnedFd::from_raw_fd(made) };
        let made = Netlink { socket, came: Datagrams::new(TAKEN, LONGEST) };
        for option in EXPLAINED {
            // An old kernel does not explain.
            let _ = made.set(SOL_NETLINK, option, 1);
        }
        Ok(made)
    }

    /// Descriptor that can be read while an answer waits.
    pub(super) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Carries a message of the plan out.
    ///
    /// # Errors
    /// Errors that the kernel answers.
    pub(super) fn obey(&mut self, message: &Message) -> Result<()> {
        let bytes =
            bytes(&message.message).ok_or_else(|| Error::from(io::Error::other("no hexadecimal digits")));
        let done = bytes.and_then(|bytes| Ok(self.ask(&bytes, 1, &mut |_| ())?));
        done.map_err(|why: Error| why.at(&message.what))
    }

    /// Sends one message or several, and waits for so many answers; `each` is given the body of those that are no
    /// acknowledgement.
    ///
    /// # Errors
    /// Errors that the kernel answers.
    pub(super) fn ask(
        &mut self,
        message: &[u8],
        answers: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        self.send(message)?;
        self.answered(answers, each)
    }

    /// Sends one message or several, whose answers wait until they are fetched.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        // SAFETY: the message has the length given.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits for so many answers, as [`Netlink::ask`] does.
    ///
    /// # Errors
    /// Errors that the kernel answers.
    pub(super) fn answered(&mut self, answers: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut left = answers;
        while left > 0 {
            left = left.saturating_sub(self.receive(left, 0, each)?.0);
        }
        Ok(())
    }

    /// Hands the body of every message that has come to `each`; waits for none.
    ///
    /// # Errors
    /// Errors of the kernel, also that messages found no room.
    pub(super) fn arrived(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        loop {
            match self.receive(TAKEN, libc::MSG_DONTWAIT, each) {
                Ok((_, true)) => (),
                Ok((_, false)) => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) => return Err(why),
            }
        }
    }

    /// Hears what is told to a group.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn join(&self, group: libc::c_int) -> io::Result<()> {
        /// NETLINK_ADD_MEMBERSHIP.
        const ADD: libc::c_int = 1;
        self.set(SOL_NETLINK, ADD, group)
    }

    /// Has so many bytes wait.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(super) fn set_room(&self, bytes: libc::c_int) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: an integer that outlives the call.
        let failed = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Hands on the messages of so many answers at most; returns the number of messages, and whether more may have come.
    fn receive(
        &mut self,
        most: usize,
        flags: libc::c_int,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<(usize, bool)> {
        let more = self.came.receive(&self.socket, most, flags)?;
        let mut count = 0;
        for mut rest in self.came.iter() {
            while rest.len() >= HEADER {
                let size = u32_at(rest, 0) as usize;
                if size < HEADER || size > rest.len() {
                    return Err(io::Error::other("an answer of the kernel that is cut short"));
                }
                let (kind, flags, body) = (u16_at(rest, 4), u16_at(rest, 6), &rest[HEADER..size]);
                match libc::c_int::from(kind) {
                    libc::NLMSG_ERROR if body.len() >= 4 => acknowledged(flags, body)?,
                    _ => each(body),
                }
                count += 1;
                rest = &rest[size.next_multiple_of(4).min(rest.len())..];
            }
        }
        Ok((count, more))
    }
}

/// Reads an acknowledgement: done, or why not.
fn acknowledged(flags: u16, body: &[u8]) -> io::Result<()> {
    let code = u32_at(body, 0) as i32;
    if code == 0 {
        return Ok(());
    }
    let repeated = if flags & CAPPED == 0 { u32_at(body, 4) as usize } else { HEADER };
    let told = body.get(4 + repeated..).filter(|_| flags & ATTRIBUTES != 0).unwrap_or_default();
    let words = attributes(told).find(|(kind, _)| *kind == WORDS);
    let error = io::Error::from_raw_os_error(-code);
    match words {
        Some((_, text)) => {
            let text = String::from_utf8_lossy(text);
            Err(io::Error::other(format!("{} ({error})", text.trim_end_matches('\0'))))
        }
        None => Err(error),
    }
}

/// Attributes of a message: kind and value of each.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let size = usize::from(u16_at(rest.get(..4)?, 0));
        let (kind, value) = (u16_at(rest, 2) & 0x3fff, rest.get(4..size)?);
        rest = &rest[size.next_multiple_of(4).min(rest.len())..];
        Some((kind, value))
    })
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The bytes that hexadecimal digits stand for.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_hexadecimal() {
        assert_eq!(bytes("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(bytes("0"), None);
        assert_eq!(bytes("zz"), None);
    }

    #[test]
    fn attributes_end_with_what_is_cut_short() {
        let whole = [5, 0, 7, 0, 1, 0, 0, 0, 4, 0, 8, 0, 9, 0, 1, 0, 2];
        let found: Vec<_> = attributes(&whole).collect();
        assert_eq!(found, [(7, &[1][..]), (8, &[][..])]);
    }

    #[test]
    fn this_kernel_refuses_in_words() {
        let mut netlink = Netlink::open().expect("a socket");
        // RTM_GETLINK (18) of an interface that is not there, with NLM_F_REQUEST.
        let mut message = vec![0; HEADER + 16];
        message[0..4].copy_from_slice(&((HEADER + 16) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&18u16.to_ne_bytes());
        message[6..8].copy_from_slice(&1u16.to_ne_bytes());
        message[HEADER + 4..HEADER + 8].copy_from_slice(&0x7fff_fff0u32.to_ne_bytes());
        let refused = netlink.ask(&message, 1, &mut |_| ()).expect_err("no such interface");
        assert!(refused.to_string().contains("No such device"), "{refused}");
    }
}
