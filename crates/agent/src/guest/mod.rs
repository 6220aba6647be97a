//! The agent as the first process of a Linux kernel that runs as an ordinary process in virtual time (User Mode Linux): it
//! carries out one run, whose hosts are network namespaces of that kernel, and switches the machine off.
//!
//! The kernel's root is a folder of the real machine (hostfs). There it finds `plan.json` ([`plan::Plan`]) and leaves what it
//! saw: `report.json` ([`plan::Report`]), the rows of samplers (`samples`), `progress`, or `error`, one line.
//!
//! `plan` has what is told and answered, `course` the run from beginning to end, `node` a host's or router's namespace and the
//! thread that works in it, `looks` what is looked at meanwhile, `alarm` how that waits, `netlink` what crosses to the kernel as
//! messages, `queues` looks at queue disciplines, `dropped` hears of packets that are dropped, `inventory` says what the kernel has.

mod alarm;
mod course;
mod dropped;
mod inventory;
mod looks;
mod netlink;
mod node;
mod plan;
mod queues;

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;

/// The argument by which the agent knows that it is the first process of a guest.
pub(crate) const ARGUMENT: &str = "--guest";

/// File systems to mount, and where.
const MOUNTS: [(&CStr, &CStr); 3] = [(c"proc", c"/proc"), (c"sysfs", c"/sys"), (c"tmpfs", c"/dev")];
/// Number of the device /dev/console, to which the kernel writes as well.
const CONSOLE: (u32, u32) = (5, 1);

/// Carries out the run of `plan.json`, and switches the machine off.
pub(crate) fn run() -> ! {
    if let Err(why) = mount().map_err(crate::error::Error::from).and_then(|()| course::carry_out()) {
        let line = crate::agent::one_line(&why.to_string());
        eprintln!("error: {line}");
        // If that fails, too, there is no report, which is what counts.
        let _ = fs::write("/error", line);
    }
    // SAFETY: plain call; files are written through to the real machine, so that nothing waits to be written.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    crate::sys::exit(1)
}

fn mount() -> io::Result<()> {
    for (kind, place) in MOUNTS {
        // SAFETY: strings that outlive the call; no data.
        let failed =
            unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    open_console()?;
    // Timers of this process, and of all its threads, are as exact as the kernel's clock.
    // SAFETY: plain call.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    Ok(())
}

/// Has what this process says go where the kernel's messages go.
fn open_console() -> io::Result<()> {
    let path = c"/dev/console";
    // SAFETY: a string that outlives the call.
    if unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(CONSOLE.0, CONSOLE.1)) } != 0
    {
        return Err(io::Error::last_os_error());
    }
    let console = fs::OpenOptions::new().write(true).open("/dev/console")?;
    for descriptor in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: plain call, with a descriptor that is open.
        if unsafe { libc::dup2(console.as_raw_fd(), descriptor) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
