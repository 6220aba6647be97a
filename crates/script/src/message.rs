//! Messages of sockets: flags of what is sent, what comes with what is received, and events of epoll. Numbers are Linux's.

use tcp::Nanos;

/// How a call hands data to a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
    /// MSG_MORE.
    pub more: bool,
    /// MSG_FASTOPEN.
    pub fast_open: bool,
    /// MSG_EOR.
    pub end_of_record: bool,
    /// MSG_ZEROCOPY.
    pub zero_copy: bool,
    /// The buffer is NULL.
    pub no_buffer: bool,
    /// The address is of no family (AF_UNSPEC).
    pub no_family: bool,
}

/// How a call takes a message from a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveFlags {
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
    /// MSG_PEEK: what is read stays.
    pub peek: bool,
    /// MSG_ERRQUEUE: reports are read, and no data.
    pub errors: bool,
    /// The buffer is NULL.
    pub no_buffer: bool,
}

/// Flags and control messages that a call of recvmsg brings besides data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Flags: bits of [`MESSAGE_BITS`].
    pub flags: i64,
    /// Control messages, in order.
    pub control: Vec<Control>,
}

/// Bits of a message's flags that a script can name.
pub const MESSAGE_BITS: [(&str, i64); 3] =
    [("MSG_TRUNC", MSG_TRUNC), ("MSG_EOR", 0x80), ("MSG_ERRQUEUE", MSG_ERRQUEUE)];
/// The message was longer than the buffer.
pub const MSG_TRUNC: i64 = 0x20;
/// The message is a report.
pub const MSG_ERRQUEUE: i64 = 0x2000;

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// TCP_CM_INQ: bytes that wait to be read.
    Unread(i64),
    /// SCM_TIMESTAMPING: time since the script began, ns.
    Timestamp(Nanos),
    /// IP_RECVERR.
    Error(ErrorReport),
}

/// A report of the error queue (struct sock_extended_err).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the field of that name")]
pub struct ErrorReport {
    pub errno: i64,
    pub origin: i64,
    pub kind: i64,
    pub code: i64,
    pub info: i64,
    pub data: i64,
}

/// Constants of error queues and time stamps (linux/errqueue.h, linux/net_tstamp.h).
pub const CONSTANTS: &[(&str, i64)] = &[
    ("SO_EE_ORIGIN_ZEROCOPY", ORIGIN_ZEROCOPY),
    ("SO_EE_ORIGIN_TIMESTAMPING", ORIGIN_TIMESTAMPING),
    ("SO_EE_CODE_ZEROCOPY_COPIED", CODE_ZEROCOPY_COPIED),
    ("SCM_TSTAMP_SND", STAMP_SENT),
    ("SCM_TSTAMP_SCHED", STAMP_SCHEDULED),
    ("SCM_TSTAMP_ACK", STAMP_ACKNOWLEDGED),
    ("SOF_TIMESTAMPING_TX_SOFTWARE", TX_SOFTWARE),
    ("SOF_TIMESTAMPING_SOFTWARE", REPORTS_SOFTWARE),
    ("SOF_TIMESTAMPING_OPT_ID", OPT_ID),
    ("SOF_TIMESTAMPING_TX_SCHED", TX_SCHED),
    ("SOF_TIMESTAMPING_TX_ACK", TX_ACK),
    ("SOF_TIMESTAMPING_OPT_TSONLY", OPT_TSONLY),
];

pub(crate) const ORIGIN_TIMESTAMPING: i64 = 4;
pub(crate) const ORIGIN_ZEROCOPY: i64 = 5;
pub(crate) const CODE_ZEROCOPY_COPIED: i64 = 1;
pub(crate) const STAMP_SENT: i64 = 0;
pub(crate) const STAMP_SCHEDULED: i64 = 1;
pub(crate) const STAMP_ACKNOWLEDGED: i64 = 2;
pub(crate) const TX_SOFTWARE: i64 = 1 << 1;
pub(crate) const REPORTS_SOFTWARE: i64 = 1 << 4;
pub(crate) const OPT_ID: i64 = 1 << 7;
pub(crate) const TX_SCHED: i64 = 1 << 8;
pub(crate) const TX_ACK: i64 = 1 << 9;
pub(crate) const OPT_TSONLY: i64 = 1 << 11;

/// Operation of epoll_ctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the operation of that name")]
pub enum EpollOperation {
    Add,
    Modify,
    Delete,
}

/// Events of a descriptor, and what the script calls it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpollEvent {
    /// Bits of [`EPOLL_BITS`].
    pub events: u32,
    /// Datum that the script has given the descriptor.
    pub datum: i64,
}

/// Bits of epoll's events that a script can name.
pub const EPOLL_BITS: [(&str, u32); 8] = [
    ("EPOLLIN", 1),
    ("EPOLLOUT", 4),
    ("EPOLLERR", 8),
    ("EPOLLHUP", 16),
    ("EPOLLRDHUP", 0x2000),
    ("EPOLLEXCLUSIVE", EPOLLEXCLUSIVE),
    ("EPOLLONESHOT", EPOLLONESHOT),
    ("EPOLLET", EPOLLET),
];
/// One waiter is woken, not all.
pub(crate) const EPOLLEXCLUSIVE: u32 = 1 << 28;
/// One report, and then none until the descriptor is modified.
pub(crate) const EPOLLONESHOT: u32 = 1 << 30;
/// A report of what happens, and not of what lasts.
pub(crate) const EPOLLET: u32 = 1 << 31;
