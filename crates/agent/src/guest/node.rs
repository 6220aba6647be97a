//! A host or router: a network namespace, and a thread that works there. Threads that it begins are there as well.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::error::{self, Result};

/// File descriptor of the first node's namespace; the plan's messages name them.
pub(crate) const FIRST_NODE: RawFd = 100;

type Work = Box<dyn FnOnce() + Send>;

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Node {
    work: Sender<Work>,
    _namespace: OwnedFd,
}

impl Node {
    /// Makes one, whose descriptor has this number.
    ///
    /// # Errors
    /// Errors of the system call.
    pub(crate) fn new(descriptor: RawFd) -> Result<Node> {
        let (work, todo) = channel::<Work>();
        let (made, namespace) = channel();
        let body = move || {
            let opened = make(descriptor);
            let failed = opened.is_err();
            // Whoever asked waits for it.
            let _ = made.send(opened);
            if !failed {
                todo.iter().for_each(|work| work());
            }
        };
        error::at("a thread", thread::Builder::new().spawn(body).map(drop))?;
        let namespace = namespace.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")));
        Ok(Node { work, _namespace: error::at("a network namespace", namespace)? })
    }

    /// Carries out `work` in the node, and returns its result.
    pub(crate) fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let sent = self.work.send(Box::new(move || {
            // Whoever asked waits for it.
            let _ = done.send(work());
        }));
        sent.ok().and_then(|()| result.recv().ok()).expect("a node's thread lives as long as the node")
    }
}

fn make(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain call; it changes only the calling thread's namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let file = File::open("/proc/thread-self/ns/net")?;
    // SAFETY: plain call; the descriptor is new, and nobody else's: the numbers from FIRST_NODE on are for nodes.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, descriptor) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made.
    let owned = unsafe { OwnedFd::from_raw_fd(copy) };
    if copy == descriptor { Ok(owned) } else { Err(io::Error::other("its descriptor is in use")) }
}

/// A path by which others enter the namespace of a node.
pub(crate) fn path(node: usize) -> String {
    format!("/proc/self/fd/{}", FIRST_NODE as usize + node)
}

/// Moves the calling thread to a node.
///
/// # Errors
/// Errors of the system call.
pub(crate) fn enter(node: usize) -> io::Result<()> {
    // SAFETY: plain call; it changes only the calling thread's namespace.
    match unsafe { libc::setns(FIRST_NODE + node as RawFd, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
