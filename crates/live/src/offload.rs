//! Offloads of network interfaces, switched as ethtool does it (linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::thread;

use crate::sys::{self, check};
use crate::tun;

/// Commands of SIOCETHTOOL for what a sender leaves to the interface: ETHTOOL_STXCSUM, ETHTOOL_SSG, ETHTOOL_STSO,
/// ETHTOOL_SGSO. Scattered buffers need checksums, and segmentation needs both: that is their order.
const SENDING: [u32; 4] = [0x17, 0x19, TSO, GSO];
const TSO: u32 = 0x1f;
const GSO: u32 = 0x24;

/// Commands that switch off offloads of incoming packets: ETHTOOL_SRXCSUM, ETHTOOL_SGRO.
const RECEIVING: [u32; 2] = [0x15, 0x2c];

/// struct ethtool_value.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Switches offloads of an interface of a network namespace (a name under /run/netns or a path; None: the caller's) on
/// or off: `tso` segmentation, with the checksums and scattered buffers it needs, `gro` receive aggregation, with the
/// checking of checksums. Those that the interface does not have stay as they are.
///
/// # Errors
/// No such namespace or interface, or not enough rights; with its name.
pub fn set(namespace: Option<&str>, interface: &str, tso: bool, gro: bool) -> io::Result<()> {
    let (namespace, name) = (namespace.map(str::to_string), interface.to_string());
    // The thread that enters the namespace is for that only.
    let work = move || {
        sys::enter(namespace.as_deref())?;
        switch(&name, tso, gro).map_err(|error| sys::about(&format!("offloads of interface {name}"), &error))
    };
    let thread = thread::Builder::new().name("offloads".into()).spawn(work)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("switching offloads panicked")))
}

/// Has the kernel cut what TCP hands down into packets before they leave by an interface of the calling thread's network
/// namespace, not behind it; `gso`: whether TCP hands down more than a packet at a time.
///
/// # Errors
/// No such interface, or not enough rights.
pub fn cut(interface: &str, gso: bool) -> io::Result<()> {
    let socket = tun::control()?;
    set_one(socket.as_raw_fd(), interface, TSO, false)?;
    set_one(socket.as_raw_fd(), interface, GSO, gso)
}

fn switch(interface: &str, tso: bool, gro: bool) -> io::Result<()> {
    let socket = tun::control()?;
    for (commands, on) in [(&SENDING[..], tso), (&RECEIVING[..], gro)] {
        for place in 0..commands.len() {
            // Off in the opposite order, so that none is switched that another needs.
            let command = commands[if on { place } else { commands.len() - 1 - place }];
            set_one(socket.as_raw_fd(), interface, command, on)?;
        }
    }
    Ok(())
}

/// An offload that the interface does not have stays as it is.
fn set_one(socket: RawFd, interface: &str, command: u32, on: bool) -> io::Result<()> {
    let mut value = Value { command, data: u32::from(on) };
    let mut request = tun::request(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: these commands read the struct that the request leads to; both live through the call.
    match check(unsafe { libc::ioctl(socket, libc::SIOCETHTOOL as _, &request) }) {
        Err(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => Err(error),
        _ => Ok(()),
    }
}
