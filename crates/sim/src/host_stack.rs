//! Stack of a host: the TCP of a kernel, or a guest, which sends datagrams.

use guest::GuestStack;
use tcp::stack::{Family, Profile};

/// Stack of a host.
pub(crate) enum HostStack {
    /// TCP as a kernel has it.
    Kernel(Box<dyn Profile>),
    /// Transport protocol of somebody else, in user space.
    Guest(&'static GuestStack),
}

impl HostStack {
    /// The TCP. None for a guest.
    pub(crate) fn kernel(&self) -> Option<&dyn Profile> {
        if let HostStack::Kernel(profile) = self { Some(&**profile) } else { None }
    }

    /// The TCP, to be set up. None for a guest.
    pub(crate) fn kernel_mut(&mut self) -> Option<&mut Box<dyn Profile>> {
        if let HostStack::Kernel(profile) = self { Some(profile) } else { None }
    }

    /// Family of the system whose interfaces and captures the host has: of a guest, Linux.
    pub(crate) fn family(&self) -> Family {
        self.kernel().map_or(Family::Linux, |profile| profile.spec().family)
    }

    /// Whether the stack watches what leaves its interface (Linux TSQ).
    pub(crate) fn watches_interface(&self) -> bool {
        self.kernel().is_some_and(|profile| profile.spec().family == Family::Linux)
    }
}
