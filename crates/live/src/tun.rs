//! TUN devices: IP packets of this host's kernel, read and written by a program (Linux's tuntap documentation).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::sys::{check, own};

/// Bytes of the header in front of every packet (struct virtio_net_hdr): offload wanted for it.
pub(crate) const VNET_HEADER: usize = 10;

/// Bytes of the largest packet, with that header.
const LARGEST: usize = (1 << 16) + VNET_HEADER;

/// A TUN device of the network namespace in which it was opened. It vanishes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Tun {
    /// Opens a device called `name`. With `offload` the kernel hands over TCP segments up to 64 KiB as it hands them
    /// to an interface with segmentation offload, with their checksums not filled in.
    ///
    /// # Errors
    /// No `/dev/net/tun`, not enough rights, or a name that is taken or too long.
    pub fn open(name: &str, offload: bool) -> io::Result<Tun> {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        let mut request = request(name)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes the ifreq it is given, which lives through the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) })?;
        if offload {
            let flags = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO_ECN;
            // SAFETY: TUNSETOFFLOAD takes its argument by value.
            check(unsafe {
                libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(flags))
            })?;
        }
        Ok(Tun { file, name: request.ifr_name })
    }

    /// Gives the device an address and an MTU in bytes, and starts it. The kernel then sends it what goes to the
    /// addresses that share the first `prefix` bits.
    ///
    /// # Errors
    /// Not enough rights, or values the kernel does not take.
    pub fn start(&self, address: Ipv4Addr, prefix: u32, mtu: u16) -> io::Result<()> {
        let socket = control()?;
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        self.set(&socket, libc::SIOCSIFADDR, |request| request.ifr_ifru.ifru_addr = internet(address))?;
        self.set(&socket, libc::SIOCSIFNETMASK, |request| {
            request.ifr_ifru.ifru_netmask = internet(Ipv4Addr::from(mask));
        })?;
        self.set(&socket, libc::SIOCSIFMTU, |request| request.ifr_ifru.ifru_mtu = libc::c_int::from(mtu))?;
        self.set(&socket, libc::SIOCSIFFLAGS, |request| {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        })
    }

    fn set(&self, socket: &OwnedFd, what: libc::c_ulong, fill: impl Fn(&mut libc::ifreq)) -> io::Result<()> {
        // SAFETY: an ifreq is plain data for which zeros are valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_name = self.name;
        fill(&mut request);
        // SAFETY: these requests read the ifreq they are given, which lives through the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &request) }).map(drop)
    }

    /// Reads one packet, from its IP header on, in place of what `buffer` holds; `WouldBlock` if there is none.
    ///
    /// # Errors
    /// As reading from the device.
    pub fn read(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.clear();
        buffer.reserve(LARGEST);
        let start = buffer.as_mut_ptr().cast();
        // SAFETY: the buffer has room for that many bytes, of which the call writes as many as it returns.
        let length = unsafe { libc::read(self.file.as_raw_fd(), start, LARGEST) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the call has written them.
        unsafe { buffer.set_len(length) };
        buffer.drain(..VNET_HEADER.min(length));
        Ok(())
    }

    /// Hands the kernel one packet.
    ///
    /// # Errors
    /// As writing to the device.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        let mut framed = vec![0; VNET_HEADER];
        framed.extend_from_slice(packet);
        (&self.file).write_all(&framed)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A socket for requests about interfaces of the calling thread's network namespace (netdevice(7)).
pub(crate) fn control() -> io::Result<OwnedFd> {
    // SAFETY: plain call; the descriptor is new.
    unsafe { own(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)) }
}

/// A request about the interface of that name.
pub(crate) fn request(name: &str) -> io::Result<libc::ifreq> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.bytes().all(allowed) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name for an interface"));
    }
    // SAFETY: an ifreq is plain data for which zeros are valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
    Ok(request)
}

/// An Internet address in the form that interface requests take.
fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    data[2..6].iter_mut().zip(address.octets()).for_each(|(to, from)| *to = from as libc::c_char);
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}
