//! A guest in Rust as the shared library that `--guest` takes: whatever implements cwndlab's trait `Guest`, by `cwndlab_guest.h`.
//!
//! Here it is the first stack of the crate `cwndlab-guest`, quinn. That makes another version of it a guest of its own: in a second
//! checkout of cwndlab, change the version in `crates/guest/Cargo.toml` and in `crates/guest/src/quinn.rs`, and build this crate
//! there. With `default-features = false, features = ["smoltcp"]` in this crate's `Cargo.toml` it is smoltcp.
//!
//!     cargo build --release
//!     cwndlab run experiment.yaml --guest old=target/release/libguest_in_rust.so

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use guest::{Ecn, EcnMode, EventKind, Guest, GuestStack, Host, Kind, LONGER_HEADERS, Machine, STACKS, Setup};

/// The stack that is the guest.
static STACK: &GuestStack = &STACKS[0];
/// Version of the header.
const VERSION: u32 = 1;
/// A time that does not come, and a figure that is not told.
const NEVER: u64 = u64::MAX;

/// `struct cwndlab_guest_machine`, up to what is read here.
#[repr(C)]
struct MachineSettings {
    size: u32,
    mtu: u32,
    address: u32,
    ecn: u32,
    now: u64,
    seed: [u8; 32],
    send_buffer: u64,
    receive_buffer: u64,
    n_sysctls: usize,
    sysctls: *const c_void,
}

/// `struct cwndlab_guest_connection`.
#[repr(C)]
struct ConnectionSettings {
    size: u32,
    opening: u32,
    local_address: u32,
    remote_address: u32,
    local_port: u16,
    remote_port: u16,
    mss: u32,
    cc: *const c_char,
    now: u64,
    seed: [u8; 32],
}

/// `struct cwndlab_guest_state`.
#[repr(C)]
struct State {
    size: u32,
    slow_start: u32,
    cwnd: u64,
    ssthresh: u64,
    srtt: u64,
    rto: u64,
    in_flight: u64,
    pacing: u64,
    acknowledged: u64,
    sent: u64,
    lost: u64,
    window: u64,
    buffer: u64,
    written: u64,
}

/// `struct cwndlab_guest_event`.
#[repr(C)]
struct Event {
    kind: u32,
    reserved: u32,
    value: u64,
}

/// `struct cwndlab_guest`.
#[repr(C)]
pub struct Exported {
    version: u32,
    size: u32,
    kind: u32,
    min_mss: u32,
    max_mss: u32,
    reserved: u32,
    name: *const c_char,
    cc: *const *const c_char,
    start: unsafe extern "C" fn(*const MachineSettings, *mut c_char, usize) -> *mut c_void,
    stop: unsafe extern "C" fn(*mut c_void),
    handle: unsafe extern "C" fn(*mut c_void, *mut c_void, *const u8, usize, u32, u64),
    poll_transmit:
        unsafe extern "C" fn(*mut c_void, *mut u8, usize, *mut *mut c_void, *mut u32, u64) -> usize,
    poll_timeout: unsafe extern "C" fn(*mut c_void) -> u64,
    handle_timeout: unsafe extern "C" fn(*mut c_void, u64),
    open: unsafe extern "C" fn(*mut c_void, *const ConnectionSettings, *mut c_char, usize) -> *mut c_void,
    close: unsafe extern "C" fn(*mut c_void, *mut c_void),
    is_open: unsafe extern "C" fn(*mut c_void) -> c_int,
    write: unsafe extern "C" fn(*mut c_void, u64, u64) -> u64,
    is_writable: unsafe extern "C" fn(*mut c_void) -> c_int,
    finish: unsafe extern "C" fn(*mut c_void, u64),
    readable: unsafe extern "C" fn(*mut c_void) -> u64,
    read: unsafe extern "C" fn(*mut c_void, u64, u64) -> u64,
    is_at_end: unsafe extern "C" fn(*mut c_void) -> c_int,
    failure: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    observe: unsafe extern "C" fn(*mut c_void, *mut State),
    events: unsafe extern "C" fn(*mut c_void, *mut Event) -> c_int,
}

// SAFETY: what the pointers point to never changes.
unsafe impl Sync for Exported {}
// SAFETY: as above.
unsafe impl Send for Exported {}

/// A machine, and its connections by their ports.
struct OwnMachine {
    machine: Box<dyn Machine>,
    connections: BTreeMap<u16, *mut Connection>,
    opened: u32,
}

struct Connection {
    guest: Box<dyn Guest>,
    port: u16,
    failure: Option<CString>,
}

/// A line for who called.
///
/// # Safety
/// `why` has room for `capacity` bytes.
unsafe fn refuse(text: &str, why: *mut c_char, capacity: usize) -> *mut c_void {
    let length = text.len().min(capacity.saturating_sub(1));
    // SAFETY: as the caller promises.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), why, length);
        why.add(length).write(0);
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn start(
    settings: *const MachineSettings,
    why: *mut c_char,
    capacity: usize,
) -> *mut c_void {
    // SAFETY: the engine's settings.
    let settings = unsafe { &*settings };
    if settings.n_sysctls > 0 {
        // SAFETY: the engine's room for a line.
        return unsafe { refuse("sysctl: there is none", why, capacity) };
    }
    let size = |bytes| (bytes > 0).then_some(bytes);
    let host = Host {
        address: Ipv4Addr::from_bits(settings.address),
        mtu: settings.mtu as u16,
        ecn: [EcnMode::Off, EcnMode::On, EcnMode::Accept][settings.ecn as usize % 3],
        seed: settings.seed,
        send_buffer: size(settings.send_buffer),
        receive_buffer: size(settings.receive_buffer),
        sysctls: &[],
        now: settings.now,
        fail: Arc::new(|_| {}),
    };
    match STACK.boot.boot(&host) {
        Ok(machine) => {
            let own = OwnMachine { machine, connections: BTreeMap::new(), opened: 0 };
            Box::into_raw(Box::new(own)).cast()
        }
        // SAFETY: the engine's room for a line.
        Err(text) => unsafe { refuse(&text, why, capacity) },
    }
}

/// What a pointer that the engine was given points to.
///
/// # Safety
/// It was given to the engine as this type, and nobody else uses it.
unsafe fn own<'a, T>(pointer: *mut c_void) -> &'a mut T {
    // SAFETY: as the caller promises.
    unsafe { &mut *pointer.cast::<T>() }
}

unsafe extern "C" fn stop(machine: *mut c_void) {
    // SAFETY: made by `start`.
    let machine = unsafe { Box::from_raw(machine.cast::<OwnMachine>()) };
    for connection in machine.connections.into_values() {
        // SAFETY: made by `open`, and not closed.
        drop(unsafe { Box::from_raw(connection) });
    }
}

unsafe extern "C" fn open(
    machine: *mut c_void,
    settings: *const ConnectionSettings,
    why: *mut c_char,
    capacity: usize,
) -> *mut c_void {
    // SAFETY: the engine's settings, and a machine of `start`.
    let (machine, settings) = unsafe { (own::<OwnMachine>(machine), &*settings) };
    // SAFETY: a C string.
    let cc = unsafe { CStr::from_ptr(settings.cc) }.to_str().unwrap_or_default();
    machine.opened += 1;
    let opened = machine.machine.open(&Setup {
        number: machine.opened,
        opening: settings.opening != 0,
        local: (Ipv4Addr::from_bits(settings.local_address), settings.local_port),
        remote: (Ipv4Addr::from_bits(settings.remote_address), settings.remote_port),
        cc,
        seed: settings.seed,
        payload: settings.mss as u16 + LONGER_HEADERS,
        send_buffer: None,
        receive_buffer: None,
        now: settings.now,
    });
    match opened {
        Ok(guest) => {
            let port = settings.local_port;
            let connection = Box::into_raw(Box::new(Connection { guest, port, failure: None }));
            machine.connections.insert(port, connection);
            connection.cast()
        }
        // SAFETY: the engine's room for a line.
        Err(text) => unsafe { refuse(&text, why, capacity) },
    }
}

unsafe extern "C" fn close(machine: *mut c_void, connection: *mut c_void) {
    // SAFETY: a machine of `start`, and a connection of `open`.
    unsafe {
        let connection = Box::from_raw(connection.cast::<Connection>());
        own::<OwnMachine>(machine).connections.remove(&connection.port);
    }
}

unsafe extern "C" fn handle(
    machine: *mut c_void,
    connection: *mut c_void,
    bytes: *const u8,
    length: usize,
    ecn: u32,
    now: u64,
) {
    // SAFETY: what has arrived, at a machine of `start`.
    let (machine, bytes) = unsafe { (own::<OwnMachine>(machine), std::slice::from_raw_parts(bytes, length)) };
    let connection = if connection.is_null() {
        // A packet, whose port of destination stands behind its IP header.
        let at = usize::from(bytes[0] & 15) * 4 + 2;
        let port = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let Some(&connection) = machine.connections.get(&port) else { return };
        connection
    } else {
        connection.cast()
    };
    let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][ecn as usize % 4];
    // SAFETY: made by `open`.
    unsafe { &mut *connection }.guest.handle(now, bytes, ecn);
}

unsafe extern "C" fn poll_transmit(
    machine: *mut c_void,
    buffer: *mut u8,
    capacity: usize,
    whose: *mut *mut c_void,
    ecn: *mut u32,
    now: u64,
) -> usize {
    let mut datagram = Vec::with_capacity(capacity);
    // SAFETY: a machine of `start`, whose connections were made by `open`; the engine's buffer.
    unsafe {
        for &connection in own::<OwnMachine>(machine).connections.values() {
            if let Some(field) = (*connection).guest.poll_transmit(now, &mut datagram) {
                *whose = connection.cast();
                *ecn = match field {
                    Ecn::NotEct => 0,
                    Ecn::Ect1 => 1,
                    Ecn::Ect0 => 2,
                    Ecn::Ce => 3,
                };
                std::ptr::copy_nonoverlapping(datagram.as_ptr(), buffer, datagram.len().min(capacity));
                return datagram.len();
            }
        }
    }
    0
}

unsafe extern "C" fn poll_timeout(machine: *mut c_void) -> u64 {
    // SAFETY: a machine of `start`, whose connections were made by `open`.
    unsafe {
        let connections = own::<OwnMachine>(machine).connections.values();
        connections.filter_map(|&connection| (*connection).guest.poll_timeout()).min().unwrap_or(NEVER)
    }
}

unsafe extern "C" fn handle_timeout(machine: *mut c_void, now: u64) {
    // SAFETY: a machine of `start`, whose connections were made by `open`.
    unsafe {
        for &connection in own::<OwnMachine>(machine).connections.values() {
            let guest = &mut (*connection).guest;
            if guest.poll_timeout().is_some_and(|at| at <= now) {
                guest.handle_timeout(now);
            }
        }
    }
}

/// The guest of a connection.
///
/// # Safety
/// The connection was made by `open`.
unsafe fn of<'a>(connection: *mut c_void) -> &'a mut dyn Guest {
    // SAFETY: as the caller promises.
    unsafe { &mut *own::<Connection>(connection).guest }
}

unsafe extern "C" fn is_open(connection: *mut c_void) -> c_int {
    // SAFETY: made by `open`.
    unsafe { of(connection) }.is_open().into()
}

unsafe extern "C" fn write(connection: *mut c_void, bytes: u64, now: u64) -> u64 {
    // SAFETY: made by `open`.
    unsafe { of(connection) }.write(now, bytes)
}

unsafe extern "C" fn is_writable(connection: *mut c_void) -> c_int {
    // SAFETY: made by `open`.
    unsafe { of(connection) }.is_writable().into()
}

unsafe extern "C" fn finish(connection: *mut c_void, now: u64) {
    // SAFETY: made by `open`.
    unsafe { of(connection) }.finish(now);
}

unsafe extern "C" fn readable(connection: *mut c_void) -> u64 {
    // SAFETY: made by `open`.
    unsafe { of(connection) }.readable()
}

unsafe extern "C" fn read(connection: *mut c_void, most: u64, now: u64) -> u64 {
    // SAFETY: made by `open`.
    unsafe { of(connection) }.read(now, most)
}

unsafe extern "C" fn is_at_end(connection: *mut c_void) -> c_int {
    // SAFETY: made by `open`.
    unsafe { of(connection) }.is_at_end().into()
}

unsafe extern "C" fn failure(connection: *mut c_void) -> *const c_char {
    // SAFETY: made by `open`.
    let connection = unsafe { own::<Connection>(connection) };
    let Some(text) = connection.guest.failure() else { return std::ptr::null() };
    connection.failure.insert(CString::new(text).unwrap_or_default()).as_ptr()
}

unsafe extern "C" fn observe(connection: *mut c_void, state: *mut State) {
    // SAFETY: made by `open`; the engine's room for a state.
    let (seen, state) = unsafe { (of(connection).observe(), &mut *state) };
    let told = |figure: Option<u64>| figure.unwrap_or(NEVER);
    state.slow_start = seen.in_slow_start.map_or(u32::MAX, u32::from);
    state.cwnd = told(seen.cwnd);
    state.ssthresh = told(seen.ssthresh);
    state.srtt = told(seen.srtt);
    state.rto = told(seen.rto);
    state.in_flight = told(seen.in_flight);
    state.pacing = told(seen.pacing_bps);
    state.acknowledged = told(seen.acknowledged);
    state.sent = told(seen.sent);
    state.lost = told(seen.lost);
    state.window = told(seen.window);
    state.buffer = told(seen.buffer);
    state.written = seen.written;
}

unsafe extern "C" fn events(connection: *mut c_void, event: *mut Event) -> c_int {
    // SAFETY: made by `open`; the engine's room for an event.
    let (next, event) = unsafe { (of(connection).poll_event(), &mut *event) };
    let Some(next) = next else { return 0 };
    event.kind = match next.kind {
        EventKind::Reduction => 2,
        EventKind::Rto => 3,
        EventKind::RecoveryOut => 4,
        _ => 1,
    };
    event.value = next.value;
    1
}

/// What the library exports.
#[unsafe(no_mangle)]
pub extern "C" fn cwndlab_guest() -> *const Exported {
    static EXPORTED: OnceLock<Exported> = OnceLock::new();
    let text = |text: &str| CString::new(text).unwrap_or_default().into_raw().cast_const();
    EXPORTED.get_or_init(|| {
        let cc: Vec<*const c_char> =
            STACK.cc.iter().map(|name| text(name)).chain([std::ptr::null()]).collect();
        let longer = if STACK.kind == Kind::Datagrams { LONGER_HEADERS } else { 0 };
        Exported {
            version: VERSION,
            size: size_of::<Exported>() as u32,
            kind: if STACK.kind == Kind::Datagrams { 1 } else { 2 },
            min_mss: (STACK.payload[0] - longer).into(),
            max_mss: (STACK.payload[1] - longer).into(),
            reserved: 0,
            name: text(STACK.name),
            cc: Vec::leak(cc).as_ptr(),
            start,
            stop,
            handle,
            poll_transmit,
            poll_timeout,
            handle_timeout,
            open,
            close,
            is_open,
            write,
            is_writable,
            finish,
            readable,
            read,
            is_at_end,
            failure,
            observe,
            events,
        }
    })
}
