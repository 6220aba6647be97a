//! Calls of the systems beyond std: readiness of a socket, what the kernel says of a connection, errors, signals,
//! clocks.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use measure::End;

/// ns of a clock that only goes forward; its zero is the first call.
pub fn now_ns() -> u64 {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    // Never 0, which stands for "not yet" on the wire.
    u64::try_from(ZERO.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

/// ns of CLOCK_MONOTONIC, by which processes of one machine can tell when something was.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec that outlives the call. It cannot fail: the clock is one that every system has (POSIX.1-2001).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Connects within `timeout`, from a certain port unless it is None.
///
/// # Errors
/// As the system says.
pub fn connect(to: SocketAddr, from_port: Option<u16>, timeout: Duration) -> io::Result<TcpStream> {
    let Some(port) = from_port else { return TcpStream::connect_timeout(&to, timeout) };
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&SocketAddr::new(any, port).into())?;
    socket.connect_timeout(&to.into(), timeout)?;
    Ok(socket.into())
}

/// Readiness of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Data, the other end's close, or an error can be read.
    pub read: bool,
    /// Data can be written, or an error be had by trying.
    pub write: bool,
}

/// Waits until a socket can be read (or written, if `write`), at most so long.
///
/// # Errors
/// As poll(2), but an interrupted call is not one.
pub fn wait(socket: &impl AsRawFd, write: bool, timeout: Duration) -> io::Result<Ready> {
    let events = if write { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // Rounded up: a wait of less than a millisecond must not become a spin.
    let timeout_ms = i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    // SAFETY: one pollfd, which outlives the call, of a socket that `socket` keeps open.
    let count = unsafe { libc::poll(&raw mut polled, 1, timeout_ms) };
    if count < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(Ready { read: false, write: false });
    }
    let trouble = polled.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
    Ok(Ready {
        read: trouble || polled.revents & libc::POLLIN != 0,
        write: trouble || polled.revents & libc::POLLOUT != 0,
    })
}

/// Whether a call has to be made again later. ETIMEDOUT is not such an error: it ends the connection.
pub fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Error for a read of nothing.
pub fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the other end")
}

/// An error without its number.
pub fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Describes the system's end of a connection.
pub fn end_of(socket: &impl AsRawFd) -> End {
    End { cc: congestion_control(socket), ecn: ecn_negotiated(socket) }
}

/// Chooses the congestion control of a connection.
///
/// # Errors
/// When the system does not know it, or has no such choice.
pub fn set_congestion_control(socket: SockRef<'_>, name: &str) -> io::Result<()> {
    per_system::set_congestion_control(&socket, name)
        .map_err(|error| io::Error::new(error.kind(), format!("congestion control {name:?}: {error}")))
}

/// Limits the unsent data in the kernel, so that a probe in the stream does not wait long in this host. Errors are ignored.
pub fn keep_unsent_below(socket: SockRef<'_>, bytes: u32) {
    per_system::keep_unsent_below(&socket, bytes);
}

/// Marks what a socket sends with a code point. It is left out of the JSON where the system refuses it.
///
/// # Errors
/// As the system says.
pub fn set_dscp(socket: SockRef<'_>, dscp: u8, ipv6: bool) -> io::Result<()> {
    let byte = u32::from(dscp) << 2;
    if ipv6 { socket.set_tclass_v6(byte) } else { socket.set_tos_v4(byte) }
}

fn congestion_control<S: AsRawFd>(socket: &S) -> Option<String> {
    // SAFETY: the descriptor is open as long as `socket` is borrowed.
    let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(socket.as_raw_fd()) };
    let name = per_system::congestion_control(&SockRef::from(&socket))?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Some(crate::wire::printable(&name[..end]))
}

/// Bit of `tcpi_options` for ECN: equal in Linux (include/uapi/linux/tcp.h) and FreeBSD (sys/netinet/tcp.h).
const TCPI_OPT_ECN: u8 = 8;

/// Place of `tcpi_options` in struct tcp_info, equal in both.
const TCPI_OPTIONS: usize = 5;

fn ecn_negotiated(socket: &impl AsRawFd) -> Option<bool> {
    let option = per_system::TCP_INFO?;
    let mut info = [0_u8; 8];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: a buffer of `length` bytes that outlives the call; both systems cut what they have to tell to it.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (failed == 0 && length as usize > TCPI_OPTIONS).then_some(info[TCPI_OPTIONS] & TCPI_OPT_ECN != 0)
}

/// Linux and FreeBSD.
#[cfg(not(target_vendor = "apple"))]
mod per_system {
    use std::io;

    use socket2::SockRef;

    pub(super) const TCP_INFO: Option<libc::c_int> = Some(libc::TCP_INFO);

    pub(super) fn congestion_control(socket: &SockRef<'_>) -> Option<Vec<u8>> {
        socket.tcp_congestion().ok()
    }

    pub(super) fn set_congestion_control(socket: &SockRef<'_>, name: &str) -> io::Result<()> {
        socket.set_tcp_congestion(name.as_bytes())
    }

    /// FreeBSD has no such option.
    #[cfg(target_os = "freebsd")]
    pub(super) fn keep_unsent_below(_: &SockRef<'_>, _: u32) {}

    #[cfg(not(target_os = "freebsd"))]
    pub(super) fn keep_unsent_below(socket: &SockRef<'_>, bytes: u32) {
        // It changes the delay of probes in the stream, nothing else.
        let _ = socket.set_tcp_notsent_lowat(bytes);
    }
}

/// Calls of macOS, which tells neither through the same options.
#[cfg(target_vendor = "apple")]
mod per_system {
    use std::io;

    use socket2::SockRef;

    pub const TCP_INFO: Option<libc::c_int> = None;

    pub fn congestion_control(_: &SockRef<'_>) -> Option<Vec<u8>> {
        None
    }

    pub fn set_congestion_control(_: &SockRef<'_>, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn keep_unsent_below(_: &SockRef<'_>, _: u32) {}
}

/// Set by SIGINT and SIGTERM once `watch_signals` was called.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Lets SIGINT and SIGTERM set `INTERRUPTED`; the second one ends the process.
pub fn watch_signals() {
    extern "C" fn note(_: libc::c_int) {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            // SAFETY: may be called in a signal handler.
            unsafe { libc::_exit(130) };
        }
    }
    let handler = note as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does only what is allowed in one.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_tells_of_itself_where_the_system_does() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let end = end_of(&socket);
        assert_eq!(end.cc.is_some(), per_system::TCP_INFO.is_some(), "{end:?}");
        assert_eq!(end.ecn.is_some(), per_system::TCP_INFO.is_some());
        assert!(set_congestion_control(SockRef::from(&socket), "no such thing").is_err());
        set_dscp(SockRef::from(&socket), 46, false).expect("a code point");
        let ready = wait(&socket, true, Duration::from_secs(1)).expect("polled");
        assert_eq!(ready, Ready { read: false, write: true });
    }
}
