//! Questions to the kernel about TCP sockets (sock_diag(7), include/uapi/linux/inet_diag.h).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

use crate::datagrams::Datagrams;
use crate::sys::{self, check, own};

/// SOCK_DIAG_BY_FAMILY.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Attributes of an answer: INET_DIAG_INFO, INET_DIAG_SKMEMINFO, INET_DIAG_BBRINFO.
const INFO: u16 = 2;
const MEMORY: u16 = 7;
const BBR_INFO: u16 = 16;
/// Extensions that are asked for: a bit each for INET_DIAG_INFO, for INET_DIAG_SKMEMINFO and for
/// INET_DIAG_VEGASINFO, which stands for whatever the congestion control tells.
const EXTENSIONS: u8 = 1 << (INFO - 1) | 1 << (MEMORY - 1) | 1 << 2;
/// Offsets of sk_rcvbuf and sk_sndbuf in INET_DIAG_SKMEMINFO (SK_MEMINFO_RCVBUF, SK_MEMINFO_SNDBUF).
const RECEIVE_BUFFER: usize = 4;
const SEND_BUFFER: usize = 12;
/// All states of a connection but TIME_WAIT (6), CLOSE (7), LISTEN (10) and NEW_SYN_RECV (12), which tell nothing.
const STATES: u32 = 0xfff & !(1 << 0 | 1 << 6 | 1 << 7 | 1 << 10);
/// Bytes of struct nlmsghdr, struct inet_diag_req_v2 and struct inet_diag_msg.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const ANSWER: usize = 72;
/// Answers that are fetched together, and bytes of one at most.
pub(super) const FETCHED: usize = 64;
const LONGEST: usize = 1 << 12;
/// Bytes of struct inet_diag_sockid.
const IDENTITY: usize = 48;

/// Identity of a socket: the bytes of its struct inet_diag_sockid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    family: u8,
    bytes: [u8; IDENTITY],
}

impl Identity {
    pub(super) fn local_port(&self) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]])
    }

    pub(super) fn remote_port(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }
}

/// A socket and what the kernel tells of it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) identity: Identity,
    /// struct tcp_info, as far as the kernel has it.
    pub(super) info: Vec<u8>,
    /// struct tcp_bbr_info, if BBR controls the connection.
    pub(super) bbr: Option<Vec<u8>>,
    /// Send and receive buffer, bytes of memory.
    pub(super) buffers: Option<(u64, u64)>,
}

#[cfg(test)]
impl Found {
    /// A socket without anything.
    pub(super) fn nobody() -> Found {
        let identity = Identity { family: 0, bytes: [0; IDENTITY] };
        Found { identity, info: Vec::new(), bbr: None, buffers: None }
    }
}

/// Asks about the sockets of one network namespace.
pub(super) struct Diag {
    name: Option<String>,
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Room for answers to `note`.
    noted: Option<Datagrams>,
}

impl Diag {
    /// Opens the way to a namespace: a name under /run/netns, or a path. None: the caller's.
    ///
    /// # Errors
    /// None such, or not enough rights; with its name.
    pub(super) fn open(name: Option<String>) -> io::Result<Diag> {
        let namespace = name.clone();
        // The socket stays in the namespace in which it was opened; the thread that enters it is for that only.
        let work = move || {
            sys::enter(namespace.as_deref())?;
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            // SAFETY: plain call; the descriptor is new.
            unsafe { own(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG)) }
                .map_err(|error| sys::about("sock_diag", &error))
        };
        let thread = thread::Builder::new().name("sampler".into()).spawn(work)?;
        let socket = thread.join().unwrap_or_else(|_| Err(io::Error::other("opening sock_diag panicked")))?;
        Ok(Diag { name, socket, buffer: vec![0; 1 << 16], noted: None })
    }

    pub(super) fn name(&self) -> Option<&String> {
        self.name.as_ref()
    }

    /// Every connection there is.
    pub(super) fn walk(&mut self, each: &mut dyn FnMut(Found)) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let nothing = Identity { family: family as u8, bytes: [0; IDENTITY] };
            self.send(&nothing, libc::NLM_F_DUMP)?;
            while self.receive(each)? {}
        }
        Ok(())
    }

    /// Asks for one connection. None if it is no more.
    pub(super) fn ask(&mut self, identity: &Identity) -> io::Result<Option<Found>> {
        self.send(identity, 0)?;
        let mut found = None;
        match self.receive(&mut |socket| found = Some(socket)) {
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
            Ok(_) => Ok(found),
        }
    }

    /// Has the kernel note now what there is to tell of connections, at most [`FETCHED`] that are not fetched yet.
    pub(super) fn note(&self, identities: &[Identity]) -> io::Result<()> {
        let requests: Vec<_> = identities.iter().map(|identity| request(identity, 0)).collect();
        self.write(requests.as_flattened())
    }

    /// Fetches so many answers to [`Diag::note`], in its order, into `found`: None for a connection that was no more.
    pub(super) fn fetch(&mut self, count: usize, found: &mut Vec<Option<Found>>) -> io::Result<()> {
        let came = self.noted.get_or_insert_with(|| Datagrams::new(FETCHED, LONGEST));
        let end = found.len() + count;
        while found.len() < end {
            came.receive(&self.socket, end - found.len(), 0)?;
            for datagram in came.iter() {
                found.push(None);
                let place = found.len() - 1;
                match read(datagram, &mut |socket| found[place] = Some(socket)) {
                    Err(error) if !is_gone(&error) => return Err(error),
                    _ => (),
                }
            }
        }
        Ok(())
    }

    fn send(&self, identity: &Identity, flags: libc::c_int) -> io::Result<()> {
        self.write(&request(identity, flags))
    }

    fn write(&self, requests: &[u8]) -> io::Result<()> {
        // SAFETY: the requests have the length given.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), requests.as_ptr().cast(), requests.len(), 0) };
        check(sent as libc::c_int).map(drop)
    }

    /// Receives one piece of an answer; whether more will come.
    fn receive(&mut self, each: &mut dyn FnMut(Found)) -> io::Result<bool> {
        // SAFETY: the buffer has the length given.
        let length = unsafe {
            libc::recv(self.socket.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0)
        };
        let length = check(length as libc::c_int)? as usize;
        read(&self.buffer[..length], each)
    }
}

fn request(identity: &Identity, flags: libc::c_int) -> [u8; HEADER + REQUEST] {
    let mut request = [0; HEADER + REQUEST];
    request[0..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    let body = &mut request[HEADER..];
    body[0] = identity.family;
    body[1] = libc::IPPROTO_TCP as u8;
    body[2] = EXTENSIONS;
    body[4..8].copy_from_slice(&STATES.to_ne_bytes());
    body[8..].copy_from_slice(&identity.bytes);
    request
}

/// Whether there is no such connection, or another with its addresses.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESTALE))
}

/// Reads one piece of an answer; whether more will come.
fn read(mut rest: &[u8], each: &mut dyn FnMut(Found)) -> io::Result<bool> {
    let mut more = false;
    while rest.len() >= HEADER {
        let size = u32_at(rest, 0) as usize;
        if size < HEADER || size > rest.len() {
            return Err(io::Error::other("sock_diag: an answer that is cut short"));
        }
        let (kind, flags, body) = (u16_at(rest, 4), u16_at(rest, 6), &rest[HEADER..size]);
        more = libc::c_int::from(flags) & libc::NLM_F_MULTI != 0;
        match libc::c_int::from(kind) {
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR if body.len() >= 4 => {
                let error = u32_at(body, 0) as i32;
                return Err(io::Error::from_raw_os_error(-error));
            }
            _ if kind == SOCK_DIAG_BY_FAMILY => {
                if let Some(found) = parse(body) {
                    each(found);
                }
            }
            _ => (),
        }
        rest = &rest[aligned(size).min(rest.len())..];
    }
    Ok(more)
}

/// A socket from the body of an answer. None if the kernel tells nothing of it.
fn parse(body: &[u8]) -> Option<Found> {
    let mut identity = Identity { family: *body.first()?, bytes: [0; IDENTITY] };
    identity.bytes.copy_from_slice(body.get(4..4 + IDENTITY)?);
    let (mut info, mut bbr, mut buffers) = (None, None, None);
    let mut rest = body.get(ANSWER..)?;
    while rest.len() >= 4 {
        let size = usize::from(u16_at(rest, 0));
        let value = rest.get(4..size)?.to_vec();
        match u16_at(rest, 2) {
            INFO => info = Some(value),
            BBR_INFO => bbr = Some(value),
            MEMORY if value.len() >= SEND_BUFFER + 4 => {
                let word = |at| u64::from(u32_at(&value, at));
                buffers = Some((word(SEND_BUFFER), word(RECEIVE_BUFFER)));
            }
            _ => (),
        }
        rest = &rest[aligned(size).min(rest.len())..];
    }
    Some(Found { identity, info: info?, bbr, buffers })
}

/// Attributes and messages begin at multiples of four bytes.
fn aligned(size: usize) -> usize {
    size.next_multiple_of(mem::size_of::<u32>())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
