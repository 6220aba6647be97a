//! A ring that the kernel puts the packets of a packet socket into (packet(7), the kernel's
//! Documentation/networking/packet_mmap.rst).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use path::Nanos;

use crate::sys::set_option;
use crate::tun::VNET_HEADER;

/// Bytes of what the kernel takes a ring's memory in.
const BLOCK: usize = 1 << 16;

/// A ring of places, each for one packet with a virtio header in front.
pub(crate) struct Ring {
    socket: OwnedFd,
    memory: *mut u8,
    /// Bytes of a place, and number of them.
    place: usize,
    places: usize,
    next: usize,
}

// SAFETY: the ring's memory belongs to it alone; it is shared with the kernel only, by the rules in `head` and `front`.
unsafe impl Send for Ring {}

/// A packet in a ring.
pub(crate) struct Front<'a> {
    /// Bytes of the packet as far as they fit, virtio header first.
    pub(crate) bytes: &'a [u8],
    /// Whether they are not all.
    pub(crate) cut: bool,
    /// Whether all of it waits at the socket as well (PACKET_COPY_THRESH).
    pub(crate) copied: bool,
    /// Number of the interface at which it was seen.
    pub(crate) interface: i32,
    /// Whether it left there.
    pub(crate) leaving: bool,
}

impl Ring {
    /// Has the kernel make a ring for a socket that has PACKET_VNET_HDR and is not bound yet: `places` of `place` bytes each,
    /// which is a power of two of at most 64 KiB. Packets are there at once, with nanoseconds (TPACKET_V2).
    ///
    /// # Errors
    /// Errors of the system calls.
    pub(crate) fn new(socket: OwnedFd, place: usize, places: usize) -> io::Result<Ring> {
        const TPACKET_V2: libc::c_int = 1;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as libc::c_uint,
            tp_block_nr: (places * place / BLOCK) as libc::c_uint,
            tp_frame_size: place as libc::c_uint,
            tp_frame_nr: places as libc::c_uint,
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: the socket's ring, of the size just asked for.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                places * place,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { socket, memory: memory.cast(), place, places, next: 0 })
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Time (CLOCK_REALTIME) when the kernel saw the next packet. None if there is none.
    #[inline]
    pub(crate) fn head(&self) -> Option<Nanos> {
        let header = self.header();
        // SAFETY: a place's header is within the ring and aligned; its status is shared with the kernel and read as such.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*header).tp_status) }.load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has handed the place over, and does not touch it until it is given back.
        let header = unsafe { &*header };
        Some(Nanos::from(header.tp_sec) * 1_000_000_000 + Nanos::from(header.tp_nsec))
    }

    /// The next packet, which must be there.
    #[inline]
    pub(crate) fn front(&self) -> Front<'_> {
        let header = self.header();
        // SAFETY: as in `head`, which has found it there; `tp_mac` and `tp_snaplen` lie within the place, and so does the
        // address behind the header.
        unsafe {
            let found = &*header;
            let start = usize::from(found.tp_mac) - VNET_HEADER;
            let length = found.tp_snaplen as usize + VNET_HEADER;
            let address = header.cast::<u8>().add(mem::size_of::<libc::tpacket2_hdr>().next_multiple_of(16));
            let address = &*address.cast::<libc::sockaddr_ll>();
            Front {
                bytes: std::slice::from_raw_parts(header.cast::<u8>().add(start), length),
                cut: found.tp_snaplen < found.tp_len,
                copied: found.tp_status & libc::TP_STATUS_COPY != 0,
                interface: address.sll_ifindex,
                leaving: address.sll_pkttype == libc::PACKET_OUTGOING,
            }
        }
    }

    /// Hands the place of the next packet back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        // SAFETY: as in `head`; nothing of the place is used any more.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).tp_status) }
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.places;
    }

    /// Packets that found no place since the last call.
    pub(crate) fn drops(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = mem::size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into the struct, which has that length.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if result == 0 { u64::from(stats.tp_drops) } else { 0 }
    }

    fn header(&self) -> *mut libc::tpacket2_hdr {
        // SAFETY: the place is within the ring; places begin at multiples of their size, so the header is aligned.
        unsafe { self.memory.add(self.next * self.place) }.cast()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nobody borrows any more.
        unsafe { libc::munmap(self.memory.cast(), self.places * self.place) };
    }
}
