//! Packet sockets: a ring that an interface's packets come in by, and batches that go out of one (packet(7), the kernel's
//! Documentation/networking/packet_mmap.rst).

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use path::Nanos;

use crate::ring::Ring;
use crate::sys::{self, check, own, set_option};

/// Packets carry a virtio header in front in both directions.
pub(super) use crate::tun::VNET_HEADER as VNET;
/// Bytes of a place in the ring: a frame of usual size with its headers. Larger ones come through the socket.
const PLACE: usize = 2048;
/// Places in a ring: 50 ms of 1500-byte packets at 1 Gbps.
const PLACES: usize = 4096;
/// Bytes of packets that are too large for the ring.
const LARGE_BUFFER: libc::c_int = 32 << 20;
/// Packets sent by one call at most.
pub(super) const BATCH: usize = 64;
/// Number of times that a packet is offered again to an interface that takes no more just now.
const TRIES: u32 = 3;

/// Number of an interface of the calling thread's namespace.
///
/// # Errors
/// There is none of that name.
fn index(interface: &str) -> io::Result<libc::c_int> {
    let name = CString::new(interface).map_err(|_| io::Error::other("not a name"))?;
    // SAFETY: a string with its end, that lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(sys::about(&format!("interface {interface}"), &io::Error::last_os_error())),
        index => Ok(index as libc::c_int),
    }
}

fn open(interface: &str, protocol: libc::c_int) -> io::Result<OwnedFd> {
    let named = |error: io::Error| sys::about(&format!("packets of {interface}"), &error);
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain call; the descriptor is new. Without a protocol, nothing comes in until it is bound.
    let socket = unsafe { own(libc::socket(libc::AF_PACKET, kind, 0)) }.map_err(named)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).map_err(named)?;
    if protocol == 0 {
        // Straight to the interface. Nobody else waits there, and nobody listens.
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1).map_err(named)?;
        bind(&socket, interface, protocol)?;
    }
    Ok(socket)
}

fn bind(socket: &OwnedFd, interface: &str, protocol: libc::c_int) -> io::Result<()> {
    // SAFETY: a sockaddr_ll is plain data for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index(interface)?;
    let length = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call and has the length given.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
        .map(drop)
        .map_err(|error| sys::about(&format!("packets of {interface}"), &error))
}

/// Input of an interface.
pub(super) struct Input {
    ring: Ring,
    /// A packet that was too large for the ring.
    large: Vec<u8>,
}

impl Input {
    /// Starts to take in what reaches the interface.
    ///
    /// # Errors
    /// No such interface, or not enough rights; with its name.
    pub(super) fn open(interface: &str) -> io::Result<Input> {
        let socket = open(interface, libc::ETH_P_ALL)?;
        let named = |error: io::Error| sys::about(&format!("packets of {interface}"), &error);
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1).map_err(named)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &(PLACE as libc::c_int))
            .map_err(named)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &LARGE_BUFFER)
            .or_else(|_| set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &LARGE_BUFFER))
            .map_err(named)?;
        let input = Input { ring: Ring::new(socket, PLACE, PLACES).map_err(named)?, large: Vec::new() };
        bind(input.ring.socket(), interface, libc::ETH_P_ALL)?;
        Ok(input)
    }

    /// Time (CLOCK_REALTIME) when the kernel took in the next packet. None if there is none.
    #[inline]
    pub(super) fn head(&self) -> Option<Nanos> {
        self.ring.head()
    }

    /// Hands the next packet, virtio header first, to `work`, and its place back to the kernel. It must be there. None
    /// stands for one that was cut short.
    #[inline]
    pub(super) fn take<R>(&mut self, work: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let front = self.ring.front();
        let result = if front.copied {
            work(receive(self.ring.socket(), &mut self.large))
        } else {
            work((!front.cut).then_some(front.bytes))
        };
        self.ring.release();
        result
    }

    /// Whether something happened to the interface since the last call: it went down, or away.
    pub(super) fn failed(&self) -> bool {
        let mut error: libc::c_int = 0;
        let mut length = mem::size_of_val(&error) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into the number, which has that length.
        unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut length,
            );
        }
        error != 0
    }

    /// Packets that found no place since the last call.
    pub(super) fn drops(&self) -> u64 {
        self.ring.drops()
    }
}

impl AsRawFd for Input {
    fn as_raw_fd(&self) -> libc::c_int {
        self.ring.socket().as_raw_fd()
    }
}

/// The next packet in the socket's own queue, where those are that were too large for the ring.
#[cold]
fn receive<'a>(socket: &OwnedFd, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    /// A super-packet of IPv6 may be longer than 64 KiB; the emulator's interfaces allow none.
    const LARGEST: usize = (1 << 16) + 128;
    buffer.resize(LARGEST, 0);
    // SAFETY: the buffer has the length given.
    let length =
        unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC) };
    usize::try_from(length).ok().and_then(|length| buffer.get(..length))
}

/// Output of an interface.
pub(super) struct Output {
    socket: OwnedFd,
    vectors: Box<[libc::iovec; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
    filled: usize,
}

// SAFETY: the pointers lead into memory of the caller of `push` until `flush`, and into boxes of its own.
unsafe impl Send for Output {}

impl Output {
    /// A way out of the interface.
    ///
    /// # Errors
    /// No such interface, or not enough rights; with its name.
    pub(super) fn open(interface: &str) -> io::Result<Output> {
        let socket = open(interface, 0)?;
        // SAFETY: both are plain data for which zeros are valid.
        let (vectors, messages) = unsafe { (Box::new(mem::zeroed()), Box::new(mem::zeroed())) };
        Ok(Output { socket, vectors, messages, filled: 0 })
    }

    /// Packets that wait for [`Output::flush`].
    pub(super) fn len(&self) -> usize {
        self.filled
    }

    /// Puts a packet, virtio header first, into the batch, which must not be full.
    ///
    /// # Safety
    /// The bytes stay where they are until [`Output::flush`].
    pub(super) unsafe fn push(&mut self, bytes: &[u8]) {
        let place = self.filled;
        self.vectors[place] =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let header = &mut self.messages[place].msg_hdr;
        header.msg_iov = &raw mut self.vectors[place];
        header.msg_iovlen = 1;
        self.filled += 1;
    }

    /// Sends the batch; returns how many packets the interface did not take.
    pub(super) fn flush(&mut self) -> u64 {
        let (mut sent, mut failed, mut tries) = (0, 0, 0);
        while sent < self.filled {
            // SAFETY: the messages from `sent` on are filled and lead to bytes that `push` was promised are there.
            let result = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    self.messages[sent..].as_mut_ptr(),
                    (self.filled - sent) as libc::c_uint,
                    // Signed in glibc, unsigned in musl.
                    libc::MSG_DONTWAIT as _,
                )
            };
            match result {
                1.. => {
                    sent += result as usize;
                    tries = 0;
                }
                _ if tries < TRIES => tries += 1,
                _ => {
                    sent += 1;
                    failed += 1;
                    tries = 0;
                }
            }
        }
        self.filled = 0;
        failed
    }
}
