//! Calls of the systems beyond std: a clock, priority, waiting for a socket, buffers, and children that end with
//! us.

use std::io;
use std::os::fd::RawFd;
use std::process::Command;

use socket2::Socket;

/// Among real-time processes (sched(7)): behind an emulator and loggers of the same machine.
const PRIORITY: libc::c_int = 1;

/// A socket and what is waited for there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Descriptor of the socket.
    pub socket: RawFd,
    /// Whether to wait until the socket can be read.
    pub read: bool,
    /// Whether to wait until the socket can be written.
    pub write: bool,
}

/// Readiness of a socket; errors are both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Whether the socket can be read.
    pub read: bool,
    /// Whether the socket can be written.
    pub write: bool,
}

/// Waits until one of the sockets is ready, at most so many ns (None: as long as it takes).
///
/// # Errors
/// As poll(2); an interrupted call finds nothing ready.
pub(crate) fn wait(waits: &[Wait], timeout_ns: Option<u64>) -> io::Result<Vec<Ready>> {
    let asked = |wait: &Wait| {
        let events = if wait.read { libc::POLLIN } else { 0 } | if wait.write { libc::POLLOUT } else { 0 };
        libc::pollfd { fd: wait.socket, events, revents: 0 }
    };
    let mut polled: Vec<libc::pollfd> = waits.iter().map(asked).collect();
    if poll(&mut polled, timeout_ns) < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![Ready::default(); waits.len()]);
    }
    let trouble = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    let ready = |found: &libc::pollfd| Ready {
        read: found.revents & (libc::POLLIN | trouble) != 0,
        write: found.revents & (libc::POLLOUT | trouble) != 0,
    };
    Ok(polled.iter().map(ready).collect())
}

/// ppoll(2), whose time is as exact as the clock.
#[cfg(not(target_vendor = "apple"))]
fn poll(polled: &mut [libc::pollfd], timeout_ns: Option<u64>) -> libc::c_int {
    let limit = timeout_ns.map(|ns| libc::timespec {
        tv_sec: libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: an array of that length and a time, which outlive the call; no signal mask.
    unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit, std::ptr::null()) }
}

/// macOS has poll(2) only: whole milliseconds, rounded up.
#[cfg(target_vendor = "apple")]
fn poll(polled: &mut [libc::pollfd], timeout_ns: Option<u64>) -> libc::c_int {
    let limit = timeout_ns.map_or(-1, |ns| i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: an array of that length, which outlives the call.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit) }
}

/// Has this process, with all that it starts, run before ordinary ones, where that is allowed.
///
/// A sender that something else interrupts in the middle of a system call keeps its socket locked. ACKs wait in the socket's
/// backlog meanwhile, and are answered all at once, in a burst that overruns short queues.
pub(crate) fn run_before_ordinary_processes() {
    #[cfg(target_os = "linux")]
    {
        // As the system call itself: musl has a function that always fails.
        let priority = PRIORITY;
        // SAFETY: sched_param of the kernel is its priority, which outlives the call.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_RR, &raw const priority) };
    }
    #[cfg(target_os = "freebsd")]
    {
        let parameters = libc::sched_param { sched_priority: PRIORITY };
        // SAFETY: parameters that outlive the call, for this process.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
    }
    #[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
    let _ = PRIORITY;
}

/// Has a child killed when this process ends, however that is, where the system can.
pub(crate) fn end_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt as _;
        // SAFETY: between fork and exec, a system call without memory of ours.
        unsafe {
            command.pre_exec(|| {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 {
                    return Ok(());
                }
                Err(io::Error::last_os_error())
            });
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Lets a child be interrupted though we ignore it, as what a shell leaves in the background does: it would inherit that.
pub(crate) fn can_be_interrupted(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between fork and exec, a system call without memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
}

/// Ends this process at once, threads that wait for a peer included.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: it does not return, and runs nothing of ours.
    unsafe { libc::_exit(code) }
}

/// Sets the send buffer, beyond the system's maximum where we may (Linux, socket(7)).
///
/// # Errors
/// Error of setsockopt(2).
pub(crate) fn set_send_buffer(socket: &Socket, bytes: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if force(socket, libc::SO_SNDBUFFORCE, bytes) {
        return Ok(());
    }
    socket.set_send_buffer_size(bytes)
}

/// Sets the receive buffer, beyond the system's maximum where we may (Linux, socket(7)).
///
/// # Errors
/// Error of setsockopt(2).
pub(crate) fn set_receive_buffer(socket: &Socket, bytes: usize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if force(socket, libc::SO_RCVBUFFORCE, bytes) {
        return Ok(());
    }
    socket.set_recv_buffer_size(bytes)
}

#[cfg(target_os = "linux")]
fn force(socket: &Socket, option: libc::c_int, bytes: usize) -> bool {
    set(socket, libc::SOL_SOCKET, option, libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX)).is_ok()
}

/// Sets an option that is an integer.
#[cfg(target_os = "linux")]
fn set(socket: &Socket, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: an integer that outlives the call, of a socket that is open.
    let failed =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the socket's SYN leave with what is written first, where a cookie is known (tcp(7), TCP_FASTOPEN_CONNECT).
///
/// # Errors
/// Error of setsockopt(2).
pub(crate) fn open_fast(socket: &Socket) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    set(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// Has a listener take connections with their SYN, so many at a time (tcp(7), TCP_FASTOPEN).
///
/// # Errors
/// Error of setsockopt(2).
pub(crate) fn accept_fast(socket: &Socket, most: i32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    set(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, most)?;
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, most);
    Ok(())
}

/// Whether a connection waits for the answer to a SYN, or for something to send with one.
pub(crate) fn is_opening(stream: &std::net::TcpStream) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        /// State of a connection whose SYN is not answered (TCP_SYN_SENT of the kernel).
        const SYN_SENT: u8 = 2;
        // The first byte of tcp_info is the state.
        let (mut state, mut length) = (0u8, 1);
        let to = (&raw mut state).cast();
        // SAFETY: a byte and its length, which outlive the call, of a socket that is open.
        let failed = unsafe {
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length)
        };
        failed == 0 && state == SYN_SENT
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        false
    }
}

/// Writes nothing, which has a SYN leave that waits for data. An error shows with the next call.
pub(crate) fn send_nothing(stream: &std::net::TcpStream) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: no data, to a socket that is open.
    unsafe { libc::send(stream.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
}

/// Has datagrams go whole, whatever the kernel believes of the path (ip(7), IP_PMTUDISC_PROBE).
///
/// # Errors
/// Error of setsockopt(2).
#[cfg(all(feature = "quinn", target_os = "linux"))]
pub(crate) fn never_fragment(socket: &Socket, is_ipv4: bool) -> io::Result<()> {
    let [level, option, value] = match is_ipv4 {
        true => [libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE],
        false => [libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE],
    };
    set(socket, level, option, value)
}

/// Receives a datagram, if one is there, with the byte of its IP header that has the ECN field, for which the socket asks.
///
/// # Errors
/// Error of recvmsg(2).
#[cfg(all(feature = "quinn", target_os = "linux"))]
pub(crate) fn receive_datagram(
    socket: &std::net::UdpSocket,
    data: &mut [u8],
) -> io::Result<Option<(usize, u8)>> {
    use std::os::fd::AsRawFd as _;
    // Room for one message, aligned as headers of such are.
    let mut control = [0u64; 8];
    let mut piece = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all zeros are a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: a message whose parts outlive the call.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let Ok(count) = usize::try_from(count) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    };
    let mut class = 0;
    // SAFETY: the kernel has written the control messages that these macros walk through (cmsg(3)).
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(found) = header.as_ref() {
            let value = libc::CMSG_DATA(header);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => class = value.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    class = value.cast::<libc::c_int>().read_unaligned() as u8;
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(Some((count, class)))
}

/// Sleeps until CLOCK_MONOTONIC says so, in one system call.
#[cfg(target_os = "linux")]
pub(crate) fn sleep_until(ns: u64) {
    // SAFETY: all zeros are a time.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    (time.tv_sec, time.tv_nsec) = ((ns / 1_000_000_000) as _, (ns % 1_000_000_000) as _);
    // SAFETY: a time that outlives the call. An interrupted sleep goes on.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Hands bytes to the kernel; waits for room.
///
/// # Errors
/// As send(2).
#[cfg(target_os = "linux")]
pub(crate) fn send(stream: &std::net::TcpStream, bytes: &[u8]) -> io::Result<usize> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: bytes that outlive the call.
    let taken =
        unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// Receives so many bytes, or what comes before the other end closes, without taking them from the kernel (tcp(7), MSG_TRUNC).
///
/// # Errors
/// As recv(2).
#[cfg(target_os = "linux")]
pub(crate) fn discard(stream: &std::net::TcpStream, bytes: usize) -> io::Result<usize> {
    use std::os::fd::AsRawFd as _;
    let flags = libc::MSG_WAITALL | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC nothing is written for TCP, so that no memory of such a length is needed.
    let came = unsafe { libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), bytes, flags) };
    usize::try_from(came).map_err(|_| io::Error::last_os_error())
}

/// Payload bytes that a connection has received in order (struct tcp_info, tcpi_bytes_received).
///
/// # Errors
/// As getsockopt(2).
#[cfg(target_os = "linux")]
pub(crate) fn bytes_received(socket: RawFd) -> io::Result<u64> {
    const RECEIVED: usize = 128;
    let mut info = [0u8; RECEIVED + 8];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: a buffer of that length, which outlives the call.
    let failed = unsafe {
        libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut count = [0; 8];
    count.copy_from_slice(&info[RECEIVED..]);
    Ok(u64::from_ne_bytes(count))
}

/// Whether a socket of this host listens on a port. None where the system has no simple way to tell.
pub(crate) fn is_listening(port: u16) -> Option<bool> {
    #[cfg(target_os = "linux")]
    {
        // State 0A is TCP_LISTEN (proc(5)). A socket of IPv6 may take connections of IPv4 as well (ipv6(7)).
        let tables =
            ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/thread-self/net/{table}")));
        tables[0].as_ref().ok()?;
        Some(tables.iter().flatten().flat_map(|table| table.lines().skip(1)).any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().and_then(|local| local.rsplit_once(':'));
            let state = words.nth(1);
            state == Some("0A") && local.is_some_and(|(_, at)| u16::from_str_radix(at, 16) == Ok(port))
        }))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = port;
        None
    }
}
