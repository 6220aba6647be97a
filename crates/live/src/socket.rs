//! The system calls of scripts on this host's kernel: each a thin face over the C library.

use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use script::errno::Errno;
use script::message::{ReceiveFlags, SendFlags};
use script::packet::{LOCAL, PORT, REMOTE};
use script::script::{OptionValue, SocketOption, bytes_of};

use crate::sys;

/// Result of a call: a number or an error number.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Bytes of TCP_INFO asked for: more than any kernel has, which then returns less.
const TCP_INFO_BYTES: usize = 512;
/// Bytes of any other option asked for: the name of a congestion control takes the most (TCP_CA_NAME_MAX).
const OPTION_BYTES: usize = 16;
/// Socket option that the C library has no name for (linux/tcp.h).
const TCP_FASTOPEN_KEY: libc::c_int = 33;
/// Connections that may wait to be accepted: more than a script opens.
const BACKLOG: libc::c_int = 16;

/// A TCP socket of the calling thread's network namespace.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

fn errno(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(0))
}

fn number(result: isize) -> Result<i64> {
    if result < 0 { Err(errno(&io::Error::last_os_error())) } else { Ok(result as i64) }
}

fn address(ip: Ipv4Addr) -> libc::sockaddr_in {
    // SAFETY: a sockaddr_in is plain data for which zeros are valid.
    let mut address: libc::sockaddr_in = unsafe { mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_port = PORT.to_be();
    address.sin_addr.s_addr = u32::from(ip).to_be();
    address
}

fn place_of(buffer: &[u8], flags: SendFlags) -> *const libc::c_void {
    if flags.no_buffer { std::ptr::null() } else { buffer.as_ptr().cast() }
}

fn bits_of(flags: SendFlags) -> libc::c_int {
    let asked = [
        (flags.dont_wait, libc::MSG_DONTWAIT),
        (flags.more, libc::MSG_MORE),
        (flags.end_of_record, libc::MSG_EOR),
        (flags.fast_open, libc::MSG_FASTOPEN),
    ];
    asked.iter().filter(|(on, _)| *on).fold(libc::MSG_NOSIGNAL, |bits, (_, bit)| bits | bit)
}

const ADDRESS_LENGTH: libc::socklen_t = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;

impl Socket {
    /// socket(2).
    pub(crate) fn open(nonblocking: bool) -> Result<Socket> {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        // SAFETY: plain call; the descriptor it returns is owned by nobody else.
        unsafe { Self::own(libc::socket(libc::AF_INET, kind, 0)) }
    }

    /// # Safety
    /// `result` is what a call returned that makes a descriptor, which nobody else owns.
    unsafe fn own(result: libc::c_int) -> Result<Socket> {
        // SAFETY: the caller's promise.
        unsafe { sys::own(result) }.map(Socket).map_err(|error| errno(&error))
    }

    fn fd(&self) -> libc::c_int {
        self.0.as_raw_fd()
    }

    /// bind(2) to the script's local address.
    pub(crate) fn bind(&self) -> Result<i64> {
        let local = address(LOCAL);
        // SAFETY: the address lives through the call and has the length given.
        number(unsafe { libc::bind(self.fd(), (&raw const local).cast(), ADDRESS_LENGTH) } as isize)
    }

    /// listen(2).
    pub(crate) fn listen(&self) -> Result<i64> {
        // SAFETY: plain call.
        number(unsafe { libc::listen(self.fd(), BACKLOG) } as isize)
    }

    /// accept4(2).
    pub(crate) fn accept(&self, nonblocking: bool) -> Result<Socket> {
        let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        // SAFETY: null pointers say that the address is not wanted; the descriptor is new.
        unsafe { Self::own(libc::accept4(self.fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags)) }
    }

    /// connect(2) to the script's remote address.
    pub(crate) fn connect(&self) -> Result<i64> {
        let remote = address(REMOTE);
        // SAFETY: the address lives through the call and has the length given.
        number(unsafe { libc::connect(self.fd(), (&raw const remote).cast(), ADDRESS_LENGTH) } as isize)
    }

    /// fcntl(2) with F_GETFL.
    pub(crate) fn flags(&self) -> Result<i64> {
        // SAFETY: plain call.
        number(unsafe { libc::fcntl(self.fd(), libc::F_GETFL) } as isize)
    }

    /// fcntl(2) with F_SETFL.
    pub(crate) fn set_flags(&self, nonblocking: bool) -> Result<i64> {
        let flags = libc::O_RDWR | if nonblocking { libc::O_NONBLOCK } else { 0 };
        // SAFETY: plain call.
        number(unsafe { libc::fcntl(self.fd(), libc::F_SETFL, flags) } as isize)
    }

    /// recv(2).
    pub(crate) fn read(&self, len: u64, asked: ReceiveFlags) -> Result<i64> {
        let mut buffer = vec![0u8; len as usize];
        let flags = if asked.dont_wait { libc::MSG_DONTWAIT } else { 0 }
            | if asked.peek { libc::MSG_PEEK } else { 0 };
        let place = if asked.no_buffer { std::ptr::null_mut() } else { buffer.as_mut_ptr() };
        // SAFETY: the buffer has the length given; the kernel refuses to write to NULL.
        number(unsafe { libc::recv(self.fd(), place.cast(), buffer.len(), flags) })
    }

    /// send(2), without a signal for a broken pipe.
    pub(crate) fn write(&self, len: u64, flags: SendFlags) -> Result<i64> {
        let buffer = vec![0u8; len as usize];
        let place = place_of(&buffer, flags);
        // SAFETY: the buffer has the length given; the kernel refuses to read from NULL.
        number(unsafe { libc::send(self.fd(), place, buffer.len(), bits_of(flags)) })
    }

    /// sendto(2) to the script's remote address, likewise.
    pub(crate) fn send_to(&self, len: u64, flags: SendFlags) -> Result<i64> {
        let buffer = vec![0u8; len as usize];
        let place = place_of(&buffer, flags);
        let mut remote = address(REMOTE);
        if flags.no_family {
            remote.sin_family = libc::AF_UNSPEC as libc::sa_family_t;
        }
        // SAFETY: buffer and address live through the call and have the lengths given; the kernel refuses to read from NULL.
        number(unsafe {
            let remote = (&raw const remote).cast();
            libc::sendto(self.fd(), place, buffer.len(), bits_of(flags), remote, ADDRESS_LENGTH)
        })
    }

    /// shutdown(2).
    pub(crate) fn shutdown(&self, read: bool, write: bool) -> Result<i64> {
        let how = match (read, write) {
            (true, true) => libc::SHUT_RDWR,
            (true, false) => libc::SHUT_RD,
            _ => libc::SHUT_WR,
        };
        // SAFETY: plain call.
        number(unsafe { libc::shutdown(self.fd(), how) } as isize)
    }

    /// ioctl(2) with SIOCINQ (FIONREAD) or SIOCOUTQ (TIOCOUTQ).
    pub(crate) fn queued(&self, out: bool) -> Result<i64> {
        let mut bytes: libc::c_int = 0;
        let request = if out { libc::TIOCOUTQ } else { libc::FIONREAD };
        // SAFETY: both requests write one int.
        number(unsafe { libc::ioctl(self.fd(), request as _, &raw mut bytes) } as isize)?;
        Ok(i64::from(bytes))
    }

    /// setsockopt(2).
    pub(crate) fn set(&self, option: SocketOption, value: &OptionValue) -> Result<i64> {
        let (level, name) = numbers(option);
        let bytes = match value {
            OptionValue::Number(number) => (*number as libc::c_int).to_ne_bytes().to_vec(),
            OptionValue::Text(text) => bytes_of(text),
            OptionValue::Linger(on, seconds) => {
                [libc::c_int::from(*on).to_ne_bytes(), (*seconds as libc::c_int).to_ne_bytes()].concat()
            }
        };
        // SAFETY: the value lives through the call and has the length given.
        number(unsafe {
            libc::setsockopt(self.fd(), level, name, bytes.as_ptr().cast(), bytes.len() as libc::socklen_t)
        } as isize)
    }

    /// getsockopt(2).
    pub(crate) fn get(&self, option: SocketOption) -> Result<OptionValue> {
        let bytes = self.get_bytes(option, OPTION_BYTES)?;
        let int = |at: usize| {
            let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 4]);
            i64::from(libc::c_int::from_ne_bytes(bytes))
        };
        Ok(match option {
            SocketOption::Linger => OptionValue::Linger(int(0) != 0, int(4)),
            SocketOption::Congestion => {
                let text: Vec<u8> = bytes.iter().copied().take_while(|&byte| byte != 0).collect();
                OptionValue::Text(String::from_utf8_lossy(&text).into_owned())
            }
            _ => OptionValue::Number(int(0)),
        })
    }

    /// TCP_INFO as the kernel has it.
    pub(crate) fn info(&self) -> Result<Vec<u8>> {
        self.get_bytes(SocketOption::Info, TCP_INFO_BYTES)
    }

    fn get_bytes(&self, option: SocketOption, most: usize) -> Result<Vec<u8>> {
        let (level, name) = numbers(option);
        let mut bytes = vec![0u8; most];
        let mut length = most as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into the buffer, which has that length.
        number(
            unsafe { libc::getsockopt(self.fd(), level, name, bytes.as_mut_ptr().cast(), &raw mut length) }
                as isize,
        )?;
        bytes.truncate(length as usize);
        Ok(bytes)
    }
}

/// poll(2): (socket, events asked for) to (result, events returned).
pub(crate) fn poll(sockets: &[(&Socket, i16)], timeout_ms: i32) -> (Result<i64>, Vec<i16>) {
    let mut entries: Vec<libc::pollfd> = sockets
        .iter()
        .map(|(socket, events)| libc::pollfd { fd: socket.fd(), events: *events, revents: 0 })
        .collect();
    // SAFETY: the entries live through the call and their number is given.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout_ms) };
    (number(result as isize), entries.iter().map(|entry| entry.revents).collect())
}

/// Level and name of an option in the C library.
fn numbers(option: SocketOption) -> (libc::c_int, libc::c_int) {
    let socket = |name| (libc::SOL_SOCKET, name);
    let tcp = |name| (libc::IPPROTO_TCP, name);
    match option {
        SocketOption::ReuseAddr => socket(libc::SO_REUSEADDR),
        SocketOption::ReusePort => socket(libc::SO_REUSEPORT),
        SocketOption::KeepAlive => socket(libc::SO_KEEPALIVE),
        SocketOption::SendBuffer => socket(libc::SO_SNDBUF),
        SocketOption::ReceiveBuffer => socket(libc::SO_RCVBUF),
        SocketOption::Linger => socket(libc::SO_LINGER),
        SocketOption::Error => socket(libc::SO_ERROR),
        SocketOption::NoDelay => tcp(libc::TCP_NODELAY),
        SocketOption::Cork => tcp(libc::TCP_CORK),
        SocketOption::QuickAck => tcp(libc::TCP_QUICKACK),
        SocketOption::MaxSegment => tcp(libc::TCP_MAXSEG),
        SocketOption::Congestion => tcp(libc::TCP_CONGESTION),
        SocketOption::UserTimeout => tcp(libc::TCP_USER_TIMEOUT),
        SocketOption::Linger2 => tcp(libc::TCP_LINGER2),
        SocketOption::WindowClamp => tcp(libc::TCP_WINDOW_CLAMP),
        SocketOption::NotSentLowWater => tcp(libc::TCP_NOTSENT_LOWAT),
        SocketOption::KeepIdle => tcp(libc::TCP_KEEPIDLE),
        SocketOption::KeepInterval => tcp(libc::TCP_KEEPINTVL),
        SocketOption::KeepCount => tcp(libc::TCP_KEEPCNT),
        // Linux answers ENOPROTOOPT.
        SocketOption::KeepInit | SocketOption::RemoteUdpPort | SocketOption::FunctionBlock => {
            tcp(libc::c_int::MAX)
        }
        SocketOption::UseMinMtu => (libc::IPPROTO_IPV6, libc::c_int::MAX),
        SocketOption::SynCount => tcp(libc::TCP_SYNCNT),
        SocketOption::FastOpen => tcp(libc::TCP_FASTOPEN),
        SocketOption::FastOpenConnect => tcp(libc::TCP_FASTOPEN_CONNECT),
        SocketOption::FastOpenKey => tcp(TCP_FASTOPEN_KEY),
        SocketOption::MtuDiscovery => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
        SocketOption::TypeOfService => (libc::IPPROTO_IP, libc::IP_TOS),
        SocketOption::ZeroCopy => socket(libc::SO_ZEROCOPY),
        SocketOption::Mark => socket(libc::SO_MARK),
        SocketOption::Timestamping => socket(libc::SO_TIMESTAMPING),
        SocketOption::Unread => tcp(libc::TCP_INQ),
        SocketOption::Info => tcp(libc::TCP_INFO),
    }
}
