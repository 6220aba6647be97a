//! Guests of a shared library that exports `cwndlab_guest` (`cwndlab_guest.h`), called through `c/guest/runtime.c`.

#[allow(missing_docs)] // the header documents it
mod exchange;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::{CStr, CString, c_void};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use guest::{
    Boot, Ecn, EcnMode, EventKind, Fail, Guest, GuestEvent, GuestStack, Host, Kind, Machine, Nanos, Observed,
    Setup,
};
use serde::{Deserialize, Serialize};
use tcp::cc::foreign::Failure;

use crate::library::{Library, text};
use crate::{Description, witness};
use exchange::{Call, Function};

/// Room for a packet.
const PACKET: usize = 1 << 16;
/// Room for a line that says why a guest refuses.
const LINE: usize = 240;
/// Packets to nobody, one after the other, that a machine may send at a time.
const STRAYS: u32 = 1000;
/// Headers of IPv4 and TCP, bytes.
const HEADERS: u16 = 40;

/// Description of a guest by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestDescription {
    /// Name of what it is, with its version.
    pub name: String,
    /// Whether it exchanges packets.
    pub packets: bool,
    /// Congestion controls.
    pub cc: Vec<String>,
    /// Smallest and largest payload of a packet.
    pub payload: [u16; 2],
    /// Whether it tells events.
    pub events: bool,
}

/// The stacks of a JSON list of [`Description`]s that are guests.
///
/// # Errors
/// It is no such list.
pub fn guests(list: &str) -> serde_json::Result<Vec<&'static GuestStack>> {
    let list: Vec<Description> = serde_json::from_str(list)?;
    Ok(list.into_iter().filter_map(|described| Some(stack(&described.clone(), described.guest?))).collect())
}

/// The stack of a guest, made once in a process: runs name stacks for as long as they like.
fn stack(described: &Description, guest: GuestDescription) -> &'static GuestStack {
    static KNOWN: Mutex<Option<HashMap<(String, PathBuf), &'static GuestStack>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (described.name.clone(), described.file.clone());
    known.get_or_insert_default().entry(key).or_insert_with(|| {
        let name: &'static str = described.name.clone().leak();
        let cc: Vec<&'static str> = guest.cc.into_iter().map(|cc| &*cc.leak()).collect();
        let loaded = Loaded {
            name,
            file: described.file.clone(),
            sha256: described.sha256.clone(),
            packets: guest.packets,
            events: guest.events,
        };
        Box::leak(Box::new(GuestStack {
            name,
            family: name,
            cc: cc.leak(),
            kind: if guest.packets { Kind::Packets } else { Kind::Datagrams },
            payload: guest.payload,
            ecn: true,
            sysctls: true,
            buffers: true,
            boot: Box::leak(Box::new(loaded)),
        }))
    })
}

/// Description that a loaded library gives of itself.
pub(crate) fn described(library: &Library) -> Result<GuestDescription, Failure> {
    let mut call = call(ptr::null_mut());
    enter(library, Function::Describe, &mut call)?;
    // SAFETY: the runtime has looked at the structure, which is never unloaded here; its texts are C strings.
    let (exported, name) = unsafe {
        let exported = &*call.output.cast::<exchange::Exported>();
        (exported, text(exported.name).unwrap_or_default())
    };
    let cc = (0..).map_while(|at| {
        // SAFETY: the list ends with NULL, and nothing behind that is read.
        unsafe { text(*exported.cc.add(at)) }
    });
    let packets = exported.kind == exchange::PACKETS;
    let mss = |given: u32, otherwise: u16| match given {
        0 => otherwise,
        given => u16::try_from(given).unwrap_or(u16::MAX),
    };
    let [least, most] = [mss(exported.min_mss, 88), mss(exported.max_mss, u16::MAX - HEADERS)];
    let wider = if packets { 0 } else { guest::LONGER_HEADERS };
    Ok(GuestDescription {
        name,
        packets,
        cc: cc.collect(),
        payload: [least.saturating_add(wider), most.saturating_add(wider)],
        events: !exported.events.is_null(),
    })
}

fn call(machine: *mut c_void) -> Call {
    Call {
        machine,
        connection: ptr::null_mut(),
        input: ptr::null(),
        output: ptr::null_mut(),
        bytes: 0,
        now: 0,
        result: 0,
        ecn: 0,
        reserved: 0,
    }
}

fn enter(library: &Library, function: Function, call: &mut Call) -> Result<(), Failure> {
    let (arguments, mut value) = ([0; 2], 0);
    let call = ptr::from_mut(call).cast::<c_void>();
    // SAFETY: the call is of the type that the runtime takes.
    library.enter(|module| unsafe {
        (module.call)(ptr::null_mut(), call, function as u32, arguments.as_ptr(), &raw mut value)
    })
}

/// A library that a stack is made of.
struct Loaded {
    name: &'static str,
    file: PathBuf,
    sha256: String,
    packets: bool,
    events: bool,
}

impl Boot for Loaded {
    fn boot(&self, host: &Host<'_>) -> Result<Box<dyn Machine>, String> {
        let open = || {
            let library = Library::open(&self.file, &self.sha256)?;
            let clock = crate::exchange::Host { now_ns: host.now, ..crate::exchange::Host::default() };
            // SAFETY: the pointer is valid during the call.
            library.enter(|module| unsafe { (module.start)(&raw const clock) })?;
            Ok(library)
        };
        let library =
            witness::during(self.name, "its library", witness::NEVER, open).map_err(|why| why.to_string())?;
        let mut shared = Shared {
            name: self.name,
            packets: self.packets,
            events: self.events,
            code: library,
            machine: ptr::null_mut(),
            ends: Vec::new(),
            busy: BTreeSet::new(),
            has_failed: false,
            buffer: vec![0; PACKET],
            now: host.now,
            fail: host.fail.clone(),
        };
        shared.start(host)?;
        let buffers = [host.send_buffer, host.receive_buffer];
        Ok(Box::new(OnHost { shared: Arc::new(Mutex::new(shared)), buffers }))
    }
}

/// A guest on a host.
struct OnHost {
    shared: Arc<Mutex<Shared>>,
    /// Buffers of its sockets: the library is told once for a host.
    buffers: [Option<u64>; 2],
}

impl Machine for OnHost {
    fn open(&mut self, setup: &Setup<'_>) -> Result<Box<dyn Guest>, String> {
        let asked =
            if setup.opening { ("sndbuf", setup.send_buffer) } else { ("rcvbuf", setup.receive_buffer) };
        if asked.1 != self.buffers[usize::from(!setup.opening)] {
            return Err(format!("its flows differ in {}, which a host of this guest has once", asked.0));
        }
        let place = locked(&self.shared).open(setup)?;
        Ok(Box::new(End { shared: self.shared.clone(), place, failure: None }))
    }
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine, and what its connections have in common.
struct Shared {
    name: &'static str,
    packets: bool,
    events: bool,
    /// Library of the machine.
    code: Library,
    /// Pointer that `start` returned, which the library alone follows.
    machine: *mut c_void,
    ends: Vec<Place>,
    /// Places of ends that have something to do.
    busy: BTreeSet<usize>,
    /// The run is lost: nothing is called any more.
    has_failed: bool,
    buffer: Vec<u8>,
    now: Nanos,
    fail: Fail,
}

// SAFETY: the pointers are the library's, which is called by one thread at a time.
unsafe impl Send for Shared {}

/// One end of a connection, as its machine knows it.
struct Place {
    number: u32,
    port: u16,
    /// Pointer that `open` returned.
    connection: *mut c_void,
    /// Packets that came out while another end was asked.
    leaving: VecDeque<(Vec<u8>, Ecn)>,
}

fn address(address: Ipv4Addr) -> u32 {
    u32::from(address)
}

fn ecn(field: u32) -> Ecn {
    match field & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

fn known(figure: u64) -> Option<u64> {
    (figure != exchange::UNKNOWN).then_some(figure)
}

impl Shared {
    fn start(&mut self, host: &Host<'_>) -> Result<(), String> {
        let words = |words: &str| CString::new(words).map_err(|error| error.to_string());
        let sysctls = host
            .sysctls
            .iter()
            .map(|(name, value)| Ok((words(name)?, words(&value.to_string())?)))
            .collect::<Result<Vec<_>, String>>()?;
        let sysctls: Vec<exchange::Sysctl> = sysctls
            .iter()
            .map(|(name, value)| exchange::Sysctl { name: name.as_ptr(), value: value.as_ptr() })
            .collect();
        let settings = exchange::Machine {
            size: size_of::<exchange::Machine>() as u32,
            mtu: host.mtu.into(),
            address: address(host.address),
            ecn: match host.ecn {
                EcnMode::Off => 0,
                EcnMode::On => 1,
                EcnMode::Accept => 2,
            },
            now: host.now,
            seed: host.seed,
            send_buffer: host.send_buffer.unwrap_or(0),
            receive_buffer: host.receive_buffer.unwrap_or(0),
            n_sysctls: sysctls.len(),
            sysctls: sysctls.as_ptr(),
        };
        let made = self.made(Function::Start, (&raw const settings).cast())?;
        self.machine = made.machine;
        if self.machine.is_null() { Err("refused, and did not say why".into()) } else { Ok(()) }
    }

    /// Calls what makes something, and may say why it refuses.
    fn made(&mut self, function: Function, settings: *const c_void) -> Result<Call, String> {
        let mut line = [0u8; LINE];
        let mut call = Call {
            input: settings,
            output: line.as_mut_ptr().cast(),
            bytes: LINE as u64 - 1,
            ..call(self.machine)
        };
        let entered =
            witness::during(self.name, function.name(), self.now, || enter(&self.code, function, &mut call));
        if let Err(why) = entered {
            self.has_failed = true;
            return Err(format!("{} {why}", function.name()));
        }
        let made = if matches!(function, Function::Start) { call.machine } else { call.connection };
        // The last byte is zero.
        let said = CStr::from_bytes_until_nul(&line).map(|line| line.to_string_lossy().into_owned());
        let said = said.unwrap_or_default();
        let said = said.lines().next().unwrap_or("refused, and did not say why");
        if made.is_null() { Err(said.to_owned()) } else { Ok(call) }
    }

    fn open(&mut self, setup: &Setup<'_>) -> Result<usize, String> {
        if self.has_failed {
            return Err("has failed before".into());
        }
        self.now = setup.now;
        let cc = CString::new(setup.cc).map_err(|error| error.to_string())?;
        let settings = exchange::Connection {
            size: size_of::<exchange::Connection>() as u32,
            opening: setup.opening.into(),
            local_address: address(setup.local.0),
            remote_address: address(setup.remote.0),
            local_port: setup.local.1,
            remote_port: setup.remote.1,
            mss: setup.mss().into(),
            cc: cc.as_ptr(),
            now: setup.now,
            seed: setup.seed,
        };
        let made = self.made(Function::Open, (&raw const settings).cast())?;
        self.ends.push(Place {
            number: setup.number,
            port: setup.local.1,
            connection: made.connection,
            leaving: VecDeque::new(),
        });
        Ok(self.ends.len() - 1)
    }

    /// Calls a function; where that fails the run does, and what follows is not called.
    fn enter(&mut self, function: Function, call: &mut Call) {
        if self.has_failed {
            return;
        }
        let Shared { name, code, now, .. } = self;
        if let Err(why) = witness::during(name, function.name(), *now, || enter(code, function, call)) {
            self.has_failed = true;
            (self.fail)(format!("{} {why}, at {}", function.name(), crate::seconds(self.now)));
        }
    }

    /// Asks something of one end.
    fn ask(&mut self, place: usize, function: Function, bytes: u64) -> u64 {
        let mut call =
            Call { connection: self.ends[place].connection, bytes, now: self.now, ..call(self.machine) };
        self.enter(function, &mut call);
        call.result
    }

    fn handle(&mut self, place: usize, bytes: &[u8], ecn: Ecn) {
        let connection = if self.packets { ptr::null_mut() } else { self.ends[place].connection };
        let mut call = Call {
            connection,
            input: bytes.as_ptr().cast(),
            bytes: bytes.len() as u64,
            ecn: ecn as u32,
            now: self.now,
            ..call(self.machine)
        };
        self.enter(Function::Handle, &mut call);
    }

    fn handle_timeout(&mut self, place: usize) {
        if self.timeout().is_none_or(|at| at > self.now) {
            return;
        }
        let mut call = Call { now: self.now, ..call(self.machine) };
        self.enter(Function::HandleTimeout, &mut call);
        // Whose timer it was is not said.
        self.busy.extend((0..self.ends.len()).filter(|&other| other != place));
    }

    fn timeout(&mut self) -> Option<Nanos> {
        if self.has_failed {
            return None;
        }
        let mut call = call(self.machine);
        self.enter(Function::PollTimeout, &mut call);
        (call.result != exchange::NEVER && !self.has_failed).then_some(call.result)
    }

    /// The next packet of an end; those of others on the way to it are kept for them.
    fn poll_transmit(&mut self, place: usize, buffer: &mut Vec<u8>) -> Option<Ecn> {
        let mut strays = 0;
        while self.ends[place].leaving.is_empty() {
            if self.has_failed {
                return None;
            }
            let mut call = Call {
                output: self.buffer.as_mut_ptr().cast(),
                bytes: self.buffer.len() as u64,
                now: self.now,
                ..call(self.machine)
            };
            self.enter(Function::PollTransmit, &mut call);
            let length = call.result as usize;
            if length == 0 || self.has_failed {
                return None;
            }
            let Some(whose) = self.whose(place, &self.buffer[..length], call.connection) else {
                // A packet to nobody: an answer to what was for a connection that is gone.
                strays += 1;
                if strays > STRAYS {
                    self.has_failed = true;
                    (self.fail)(format!(
                        "poll_transmit sends to nobody without end, at {}",
                        crate::seconds(self.now)
                    ));
                }
                continue;
            };
            let field = if self.packets { u32::from(self.buffer[1]) } else { call.ecn };
            if whose == place {
                buffer.extend_from_slice(&self.buffer[..length]);
                return Some(ecn(field));
            }
            self.ends[whose].leaving.push_back((self.buffer[..length].to_vec(), ecn(field)));
            self.busy.insert(whose);
        }
        let (bytes, ecn) = self.ends[place].leaving.pop_front()?;
        *buffer = bytes;
        Some(ecn)
    }

    /// The end that sends a packet, which `place` is asked for. What is no packet is the engine's to refuse, and anybody's.
    fn whose(&self, place: usize, packet: &[u8], connection: *mut c_void) -> Option<usize> {
        if !self.packets {
            return self.ends.iter().position(|end| end.connection == connection);
        }
        let header = usize::from(packet[0] & 15) * 4;
        let port = packet.get(header..header + 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
        match port {
            Some(port) if packet[0] >> 4 == 4 => self.ends.iter().position(|end| end.port == port),
            _ => Some(place),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.has_failed || self.machine.is_null() {
            return;
        }
        let mut call = call(self.machine);
        // The run is over: whatever becomes of it changes no result.
        let _ = witness::during(self.name, Function::Stop.name(), witness::NEVER, || {
            for end in &self.ends {
                call.connection = end.connection;
                enter(&self.code, Function::Close, &mut call)?;
            }
            enter(&self.code, Function::Stop, &mut call)
        });
    }
}

/// One end of a connection, as the engine has it.
struct End {
    shared: Arc<Mutex<Shared>>,
    place: usize,
    failure: Option<String>,
}

impl End {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        locked(&self.shared)
    }

    /// The machine, at this time.
    fn at(&self, now: Nanos) -> MutexGuard<'_, Shared> {
        let mut shared = self.shared();
        shared.now = now;
        shared
    }

    fn ask(&self, function: Function) -> u64 {
        self.shared().ask(self.place, function, 0)
    }

    /// Keeps in mind why the connection broke.
    fn note_failure(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let mut shared = locked(&self.shared);
        let mut call = Call { connection: shared.ends[self.place].connection, ..call(shared.machine) };
        shared.enter(Function::Failure, &mut call);
        // SAFETY: a C string of the library's own, or null.
        self.failure = unsafe { text(call.input.cast()) };
    }
}

impl Guest for End {
    fn handle(&mut self, now: Nanos, datagram: &[u8], ecn: Ecn) {
        self.at(now).handle(self.place, datagram, ecn);
        self.note_failure();
    }

    fn handle_timeout(&mut self, now: Nanos) {
        self.at(now).handle_timeout(self.place);
        self.note_failure();
    }

    fn poll_timeout(&mut self) -> Option<Nanos> {
        self.shared().timeout()
    }

    fn poll_transmit(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        self.at(now).poll_transmit(self.place, buffer)
    }

    fn is_open(&self) -> bool {
        self.ask(Function::IsOpen) != 0
    }

    fn write(&mut self, now: Nanos, bytes: u64) -> u64 {
        self.at(now).ask(self.place, Function::Write, bytes)
    }

    fn is_writable(&self) -> bool {
        self.ask(Function::IsWritable) != 0
    }

    fn finish(&mut self, now: Nanos) {
        self.at(now).ask(self.place, Function::Finish, 0);
    }

    fn readable(&self) -> u64 {
        self.ask(Function::Readable)
    }

    fn read(&mut self, now: Nanos, most: u64) -> u64 {
        self.at(now).ask(self.place, Function::Read, most)
    }

    fn is_at_end(&self) -> bool {
        self.ask(Function::IsAtEnd) != 0
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn observe(&self) -> Observed {
        const UNKNOWN: u64 = exchange::UNKNOWN;
        let mut state = exchange::State {
            size: size_of::<exchange::State>() as u32,
            slow_start: u32::MAX,
            cwnd: UNKNOWN,
            ssthresh: UNKNOWN,
            srtt: UNKNOWN,
            rto: UNKNOWN,
            in_flight: UNKNOWN,
            pacing: UNKNOWN,
            acknowledged: UNKNOWN,
            sent: UNKNOWN,
            lost: UNKNOWN,
            window: UNKNOWN,
            buffer: UNKNOWN,
            written: UNKNOWN,
        };
        let mut shared = self.shared();
        let mut call = Call {
            connection: shared.ends[self.place].connection,
            output: (&raw mut state).cast(),
            ..call(shared.machine)
        };
        shared.enter(Function::Observe, &mut call);
        Observed {
            cwnd: known(state.cwnd),
            ssthresh: known(state.ssthresh),
            in_slow_start: match state.slow_start {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
            srtt: known(state.srtt),
            rto: known(state.rto),
            in_flight: known(state.in_flight),
            pacing_bps: known(state.pacing),
            acknowledged: known(state.acknowledged),
            sent: known(state.sent),
            lost: known(state.lost),
            window: known(state.window),
            buffer: known(state.buffer),
            written: known(state.written).unwrap_or(0),
        }
    }

    fn poll_event(&mut self) -> Option<GuestEvent> {
        let mut event = exchange::Event::default();
        let mut shared = self.shared();
        if !shared.events {
            return None;
        }
        let mut call = Call {
            connection: shared.ends[self.place].connection,
            output: (&raw mut event).cast(),
            ..call(shared.machine)
        };
        shared.enter(Function::Events, &mut call);
        if call.result == 0 || shared.has_failed {
            return None;
        }
        let kind = match event.kind {
            1 => EventKind::RecoveryIn,
            2 => EventKind::Reduction,
            3 => EventKind::Rto,
            4 => EventKind::RecoveryOut,
            other => {
                shared.has_failed = true;
                (shared.fail)(format!(
                    "events told of an event of kind {other}, which is not in cwndlab_guest.h"
                ));
                return None;
            }
        };
        Some(GuestEvent { kind, value: event.value })
    }

    fn poll_other(&mut self) -> Option<u32> {
        let mut shared = locked(&self.shared);
        let next = shared.busy.pop_first()?;
        Some(shared.ends[next].number)
    }

    fn tells_timeouts(&self) -> bool {
        self.shared().events
    }
}
