//! `cwndlab_guest.h` in Rust, and what `c/guest/runtime.c` is called with.

use std::ffi::{c_char, c_void};

/// Kind of a guest that exchanges packets.
pub(super) const PACKETS: u32 = 2;
/// A time that does not come.
pub(super) const NEVER: u64 = u64::MAX;
/// A figure that a guest does not tell.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Functions, as the runtime numbers them.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Describe,
    Start,
    Stop,
    Handle,
    PollTransmit,
    PollTimeout,
    HandleTimeout,
    Open,
    Close,
    IsOpen,
    Write,
    IsWritable,
    Finish,
    Readable,
    Read,
    IsAtEnd,
    Failure,
    Observe,
    Events,
}

impl Function {
    /// The header's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Function::Describe => "cwndlab_guest",
            Function::Start => "start",
            Function::Stop => "stop",
            Function::Handle => "handle",
            Function::PollTransmit => "poll_transmit",
            Function::PollTimeout => "poll_timeout",
            Function::HandleTimeout => "handle_timeout",
            Function::Open => "open",
            Function::Close => "close",
            Function::IsOpen => "is_open",
            Function::Write => "write",
            Function::IsWritable => "is_writable",
            Function::Finish => "finish",
            Function::Readable => "readable",
            Function::Read => "read",
            Function::IsAtEnd => "is_at_end",
            Function::Failure => "failure",
            Function::Observe => "observe",
            Function::Events => "events",
        }
    }
}

/// A call: what goes in, and what comes out.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Call {
    pub(super) machine: *mut c_void,
    pub(super) connection: *mut c_void,
    pub(super) input: *const c_void,
    pub(super) output: *mut c_void,
    pub(super) bytes: u64,
    pub(super) now: u64,
    pub(super) result: u64,
    pub(super) ecn: u32,
    pub(super) reserved: u32,
}

/// Beginning of what a library exports: all that is read here.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Exported {
    pub(super) version: u32,
    pub(super) size: u32,
    pub(super) kind: u32,
    pub(super) min_mss: u32,
    pub(super) max_mss: u32,
    pub(super) reserved: u32,
    pub(super) name: *const c_char,
    pub(super) cc: *const *const c_char,
    pub(super) functions: [*const c_void; 17],
    pub(super) events: *const c_void,
}

/// A sysctl of a host.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Sysctl {
    pub(super) name: *const c_char,
    pub(super) value: *const c_char,
}

/// Settings of a machine.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) size: u32,
    pub(super) mtu: u32,
    pub(super) address: u32,
    pub(super) ecn: u32,
    pub(super) now: u64,
    pub(super) seed: [u8; 32],
    pub(super) send_buffer: u64,
    pub(super) receive_buffer: u64,
    pub(super) n_sysctls: usize,
    pub(super) sysctls: *const Sysctl,
}

/// Settings of a connection.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) size: u32,
    pub(super) opening: u32,
    pub(super) local_address: u32,
    pub(super) remote_address: u32,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    pub(super) mss: u32,
    pub(super) cc: *const c_char,
    pub(super) now: u64,
    pub(super) seed: [u8; 32],
}

/// State of a sender.
#[repr(C)]
#[derive(Debug)]
pub(super) struct State {
    pub(super) size: u32,
    pub(super) slow_start: u32,
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    pub(super) srtt: u64,
    pub(super) rto: u64,
    pub(super) in_flight: u64,
    pub(super) pacing: u64,
    pub(super) acknowledged: u64,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) window: u64,
    pub(super) buffer: u64,
    pub(super) written: u64,
}

/// Event of a window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    pub(super) kind: u32,
    pub(super) reserved: u32,
    pub(super) value: u64,
}
