//! Offloads of network interfaces, switched as ethtool does it (linux/ethtool.h).

use std::io;
use std::os::fd::AsRawFd;
use std::thread;

use crate::sys::{self, check};
use crate::tun;

/// Commands of SIOCETHTOOL that set one offload each: ETHTOOL_STXCSUM, ETHTOOL_SRXCSUM, ETHTOOL_SSG, ETHTOOL_STSO,
/// ETHTOOL_SGSO, ETHTOOL_SGRO. Scattered buffers need checksums, and segmentation needs both: that is their order.
const COMMANDS: [u32; 6] = [0x17, 0x15, 0x19, 0x1f, 0x24, 0x2c];

/// struct ethtool_value.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Switches segmentation, aggregation and checksum offloads of an interface of a network namespace (a name under
/// /run/netns or a path; None: the caller's) on or off. Those that the interface does not have stay as they are.
///
/// # Errors
/// No such namespace or interface, or not enough rights; with its name.
pub fn set(namespace: Option<&str>, interface: &str, on: bool) -> io::Result<()> {
    let (namespace, name) = (namespace.map(str::to_string), interface.to_string());
    // The thread that enters the namespace is for that only.
    let work = move || {
        sys::enter(namespace.as_deref())?;
        switch(&name, on).map_err(|error| sys::about(&format!("offloads of interface {name}"), &error))
    };
    let thread = thread::Builder::new().name("offloads".into()).spawn(work)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("switching offloads panicked")))
}

fn switch(interface: &str, on: bool) -> io::Result<()> {
    let socket = tun::control()?;
    // Off in the opposite order, so that none is switched that another needs.
    let commands = COMMANDS.iter().copied();
    let commands: Vec<u32> = if on { commands.collect() } else { commands.rev().collect() };
    for command in commands {
        let mut value = Value { command, data: u32::from(on) };
        let mut request = tun::request(interface)?;
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: these commands read the struct that the request leads to; both live through the call.
        let result = check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &request) });
        match result {
            Err(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => return Err(error),
            _ => (),
        }
    }
    Ok(())
}
