//! The errors a system call can fail with: their names, numbers and texts, as Linux has them.

/// The errors a script can name: (name, number, text).
const ERRORS: &[(&str, i32, &str)] = &[
    ("EPERM", 1, "Operation not permitted"),
    ("ENOENT", 2, "No such file or directory"),
    ("EINTR", 4, "Interrupted system call"),
    ("EBADF", 9, "Bad file descriptor"),
    ("EAGAIN", 11, "Resource temporarily unavailable"),
    ("ENOMEM", 12, "Cannot allocate memory"),
    ("EACCES", 13, "Permission denied"),
    ("EFAULT", 14, "Bad address"),
    ("EEXIST", 17, "File exists"),
    ("EINVAL", 22, "Invalid argument"),
    ("EPIPE", 32, "Broken pipe"),
    ("ENOSYS", 38, "Function not implemented"),
    ("ENOMSG", 42, "No message of desired type"),
    ("ENONET", 64, "Machine is not on the network"),
    ("EPROTO", 71, "Protocol error"),
    ("EMSGSIZE", 90, "Message too long"),
    ("ENOPROTOOPT", 92, "Protocol not available"),
    ("EOPNOTSUPP", 95, "Operation not supported"),
    ("EADDRINUSE", 98, "Address already in use"),
    ("ENETUNREACH", 101, "Network is unreachable"),
    ("ECONNABORTED", 103, "Software caused connection abort"),
    ("ECONNRESET", 104, "Connection reset by peer"),
    ("ENOBUFS", 105, "No buffer space available"),
    ("EISCONN", 106, "Transport endpoint is already connected"),
    ("ENOTCONN", 107, "Transport endpoint is not connected"),
    ("ETIMEDOUT", 110, "Connection timed out"),
    ("ECONNREFUSED", 111, "Connection refused"),
    ("EHOSTDOWN", 112, "Host is down"),
    ("EHOSTUNREACH", 113, "No route to host"),
    ("EALREADY", 114, "Operation already in progress"),
    ("EINPROGRESS", 115, "Operation now in progress"),
];

/// An error number, as Linux counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// No such file.
    pub const ENOENT: Errno = Errno(2);
    /// Not permitted.
    pub const EPERM: Errno = Errno(1);
    /// Not supported by this system, or switched off.
    pub const EOPNOTSUPP: Errno = Errno(95);
    /// Socket option that the system does not have.
    pub const ENOPROTOOPT: Errno = Errno(92);
    /// A descriptor is watched already.
    pub const EEXIST: Errno = Errno(17);
    /// A pointer to no memory.
    pub const EFAULT: Errno = Errno(14);
    /// A call that is not carried out here.
    pub const ENOSYS: Errno = Errno(38);
    /// Not an error: what the queue of errors tells is none.
    pub const ENOMSG: Errno = Errno(42);
    /// Bad file descriptor.
    pub const EBADF: Errno = Errno(9);
    /// The network forbids it.
    pub const EACCES: Errno = Errno(13);
    /// The host is not there.
    pub const EHOSTDOWN: Errno = Errno(112);
    /// No route to the host.
    pub const EHOSTUNREACH: Errno = Errno(113);
    /// A packet was too big.
    pub const EMSGSIZE: Errno = Errno(90);
    /// No route to the network.
    pub const ENETUNREACH: Errno = Errno(101);
    /// No such network.
    pub const ENONET: Errno = Errno(64);
    /// A header was wrong.
    pub const EPROTO: Errno = Errno(71);
    /// Would block.
    pub const EAGAIN: Errno = Errno(11);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// The connection cannot carry what is written.
    pub const EPIPE: Errno = Errno(32);
    /// The address is taken.
    pub const EADDRINUSE: Errno = Errno(98);
    /// The peer has reset the connection.
    pub const ECONNRESET: Errno = Errno(104);
    /// Already connected.
    pub const EISCONN: Errno = Errno(106);
    /// Socket without a connection.
    pub const ENOTCONN: Errno = Errno(107);
    /// The peer did not answer.
    pub const ETIMEDOUT: Errno = Errno(110);
    /// The peer refused.
    pub const ECONNREFUSED: Errno = Errno(111);
    /// An attempt is under way.
    pub const EALREADY: Errno = Errno(114);
    /// An attempt has begun.
    pub const EINPROGRESS: Errno = Errno(115);

    /// The error called `name`.
    pub fn named(name: &str) -> Option<Errno> {
        let name = if name == "EWOULDBLOCK" { "EAGAIN" } else { name };
        ERRORS.iter().find(|error| error.0 == name).map(|error| Errno(error.1))
    }

    /// Text of the error, such as `Broken pipe`.
    pub fn text(self) -> &'static str {
        ERRORS.iter().find(|error| error.1 == self.0).map_or("another error", |error| error.2)
    }
}
