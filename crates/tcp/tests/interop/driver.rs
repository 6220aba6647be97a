//! Two endpoints over a path that loses, reorders, duplicates and resegments, with real payload: every byte is checked.

use std::collections::{BTreeMap, HashMap};

use tcp::endpoint::Config;
use tcp::event::EventKind;
use tcp::stack::{EcnMode, Profile, SocketOptions};
use tcp::{Endpoint, HostClock, Listener, Nanos, State, SynOutcome};
use wire::{Ecn, Flags, Segment, seq};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;

/// A packet that starts at the same sequence number is lost at most so often, and so many in a row in one direction: a
/// connection then needs at most five timeouts in a row, which no system takes for the end of it.
const LOST_AT_MOST: u8 = 2;

/// Retransmissions of one packet that a path may make necessary: what [`LOST_AT_MOST`] leaves of data and ACKs lost in turn.
const TIMEOUTS_AT_MOST: u32 = 5;

/// The first wait of a probe of a closed window, and so the shortest schedule worth telling from another (FreeBSD's
/// persist timer; the others begin at their RTO).
const PERSIST_MIN: Nanos = 5 * SECOND;

/// No system waits longer for a retransmission (Linux, TCP_RTO_MAX).
const RTO_MAX: Nanos = 120 * SECOND;

/// Delayed ACKs, applications that sleep and the path itself.
const SLACK: Nanos = 45 * SECOND;

/// The longest time without a byte or a state that the timers allow: so many timeouts in a row, doubling from `rto`, which is
/// what the slower side waits for at the last progress. Without timestamps a timer that has backed off stays so until
/// something sent once is acknowledged (RFC 6298 section 5), so it may be long from the start.
fn longest_stall(rto: Nanos) -> Nanos {
    let rto = rto.max(PERSIST_MIN);
    SLACK + (0..TIMEOUTS_AT_MOST).map(|times| (rto << times).min(RTO_MAX)).sum::<Nanos>()
}

/// Events at one instant above which the endpoints are said to spin.
const SPIN: u32 = 100_000;

/// Side of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// Index into [`tcp::profile::all`].
    pub stack: usize,
    /// Index into the stack's congestion controls, modulo their number.
    pub cc: usize,
    /// MSS announced.
    pub mss: u16,
    /// Initial sequence number.
    pub iss: u32,
    /// Number of bytes that the side's application writes before it closes.
    pub bytes: u64,
    /// Send buffer. None: autotuning.
    pub sndbuf: Option<u64>,
    /// Receive buffer. None: autotuning.
    pub rcvbuf: Option<u64>,
    /// Number of bytes that the application reads at a time.
    pub read: u64,
    /// Time that the application then sleeps; 0: it reads at once.
    pub pause: Nanos,
    /// Segmentation offload.
    pub tso: bool,
    /// Asks for ECN.
    pub ecn: bool,
}

/// Path between the sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Delay of one way.
    pub delay: Nanos,
    /// Up to this is added to the delay of some packets, which are then overtaken.
    pub jitter: Nanos,
    /// Share of packets that are delayed so, of 1000.
    pub jittered: u32,
    /// Share lost, of 1000.
    pub loss: u32,
    /// Share that arrives twice, of 1000.
    pub duplicate: u32,
    /// Share of data packets that a middlebox cuts, of 1000.
    pub cut: u32,
    /// Share of data packets that a middlebox joins with the one before, of 1000.
    pub join: u32,
    /// Share of ECN-capable packets that are marked, of 1000.
    pub mark: u32,
    /// Seeds all this.
    pub seed: u64,
}

/// A connection and its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The side that opens.
    pub a: Side,
    /// The side that listens.
    pub b: Side,
    /// Path between the sides.
    pub path: Path,
}

/// Record of what a case had in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Retransmission timeouts.
    pub rtos: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Data on both sides of sequence number 0.
    pub wrapped: bool,
    /// A window of 0 was offered.
    pub zero_window: bool,
    /// A data packet was overtaken by three later ones, or more.
    pub reordered: bool,
    /// Packets the middlebox cut or joined.
    pub resegmented: u64,
    /// Bytes delivered.
    pub bytes: u64,
}

#[derive(Clone)]
struct Packet {
    segment: Segment,
    payload: Vec<u8>,
    /// Place among the data packets of its direction.
    index: u64,
}

enum What {
    Arrival(usize, Box<Packet>),
    Timer(usize),
    /// The application wakes up.
    Reader(usize),
}

/// Side with its application.
struct Host {
    side: Side,
    endpoint: Option<Endpoint>,
    written: u64,
    read: u64,
    /// Bytes that have arrived of the peer's stream, by offset.
    arrived: Vec<Option<u8>>,
    timer: Nanos,
    asleep: bool,
    closed: bool,
    state: State,
    /// Right edge of the peer's window as this side has been told, as a stream offset plus one for the SYN.
    edge: u64,
    /// The peer's last window, and the sequence number of the segment that told of it.
    window: u64,
    window_from: Option<u32>,
    peer_scale: u8,
    /// Largest data packet index seen to arrive from the peer, and those above an index still missing.
    newest: u64,
    overtakers: HashMap<u64, u32>,
    sent: u64,
    lost: HashMap<u32, u8>,
    lost_in_a_row: u8,
}

impl Host {
    fn new(side: Side, peer: Side) -> Host {
        Host {
            side,
            endpoint: None,
            written: 0,
            read: 0,
            arrived: vec![None; peer.bytes as usize],
            timer: Nanos::MAX,
            asleep: false,
            closed: false,
            state: State::Closed,
            edge: 0,
            window: 0,
            window_from: None,
            peer_scale: 0,
            newest: 0,
            overtakers: HashMap::new(),
            sent: 0,
            lost: HashMap::new(),
            lost_in_a_row: 0,
        }
    }
}

struct World<'a> {
    case: &'a Case,
    profiles: [&'a dyn Profile; 2],
    hosts: [Host; 2],
    /// Events by time, and at one time in the order in which they were decided.
    agenda: BTreeMap<(Nanos, u64), What>,
    now: Nanos,
    order: u64,
    random: u64,
    /// Time when a byte was read or a state changed, and how long the timers of that moment allow until the next.
    progress: Nanos,
    patience: Nanos,
    seen: Seen,
    /// INTEROP_TRACE is set: every packet is printed.
    trace: bool,
}

/// Stacks that cases have: all but the kernels of Prague, which are Linux 7.3 but for congestion control, and that is drawn
/// apart.
pub(crate) fn stacks() -> Vec<Box<dyn Profile>> {
    let mut stacks = tcp::profile::all();
    stacks.retain(|stack| !stack.spec().name.starts_with("linux-prague"));
    stacks
}

/// Runs a case to the end of both sides.
///
/// # Errors
/// What went wrong, in words.
pub(crate) fn run(case: &Case) -> Result<Seen, String> {
    let stacks = stacks();
    let profile = |side: &Side| stacks[side.stack % stacks.len()].as_ref();
    let profiles = [profile(&case.a), profile(&case.b)];
    let mut world = World {
        case,
        profiles,
        hosts: [Host::new(case.a, case.b), Host::new(case.b, case.a)],
        agenda: BTreeMap::new(),
        now: 0,
        order: 0,
        random: case.path.seed | 1,
        progress: 0,
        patience: longest_stall(0),
        seen: Seen::default(),
        trace: std::env::var_os("INTEROP_TRACE").is_some(),
    };
    let names = profiles.map(|p| p.spec().name);
    world.go().map_err(|error| {
        let states = world.hosts.each_ref().map(|host| host.endpoint.as_ref().map(Endpoint::state));
        let read = world.hosts.each_ref().map(|host| host.read);
        let t = world.now as f64 / 1e9;
        format!("{names:?} at {t:.3} s, states {states:?}, read {read:?}: {error}")
    })?;
    Ok(world.seen)
}

/// The byte at `offset` of the stream of side `side`.
fn content(side: usize, offset: u64) -> u8 {
    let mut x = offset.wrapping_add((side as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    (x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8
}

impl World<'_> {
    fn go(&mut self) -> Result<(), String> {
        let config = self.config(0);
        self.hosts[0].endpoint = Some(Endpoint::connect(self.profiles[0], &config, 0));
        self.flush(0)?;
        let mut instant = (0, 0);
        while let Some(((at, _), what)) = self.agenda.pop_first() {
            if at > self.progress + self.patience {
                return Err(format!(
                    "stalled since {:.3} s, when the timers allowed {:.1} s",
                    self.progress as f64 / 1e9,
                    self.patience as f64 / 1e9
                ));
            }
            instant = if at == instant.0 { (at, instant.1 + 1) } else { (at, 0) };
            if instant.1 > SPIN {
                return Err("spins: time does not advance".into());
            }
            self.now = at;
            let side = match what {
                What::Arrival(side, packet) => {
                    self.arrive(side, &packet)?;
                    side
                }
                What::Timer(side) => {
                    // Overtaken by an earlier one.
                    if self.hosts[side].timer != self.now {
                        continue;
                    }
                    self.hosts[side].timer = Nanos::MAX;
                    let now = self.now;
                    if let Some(endpoint) = &mut self.hosts[side].endpoint {
                        endpoint.on_timer(now);
                    }
                    side
                }
                What::Reader(side) => {
                    self.hosts[side].asleep = false;
                    side
                }
            };
            self.flush(side)?;
            if self.progress == self.now {
                let now = self.now;
                let rto = |host: &mut Host| Some(host.endpoint.as_mut()?.info(now).sender.rto);
                self.patience = longest_stall(self.hosts.iter_mut().filter_map(rto).max().unwrap_or(0));
            }
        }
        self.finished()
    }

    fn finished(&mut self) -> Result<(), String> {
        for (side, host) in self.hosts.iter().enumerate() {
            let endpoint = host.endpoint.as_ref().ok_or("nobody listened")?;
            if let Some(failure) = endpoint.failure() {
                return Err(format!("side {side} failed: {failure:?}"));
            }
        }
        for side in 0..2 {
            let peer = self.hosts[1 - side].side.bytes;
            let host = &self.hosts[side];
            let endpoint = host.endpoint.as_ref().ok_or("nobody listened")?;
            if endpoint.state() != State::Closed {
                return Err(format!("side {side} stalled for ever in {:?}", endpoint.state()));
            }
            if host.read != peer {
                return Err(format!("side {side} read {} of {peer} bytes", host.read));
            }
        }
        Ok(())
    }

    fn config(&self, side: usize) -> Config<'static> {
        let s = self.hosts[side].side;
        let spec = self.profiles[side].spec();
        Config {
            clock: HostClock::new(spec.hz, self.case.path.seed % SECOND + 100 * SECOND, 0),
            ip_header: 20,
            known: Default::default(),
            mss: s.mss,
            ecn: if s.ecn { EcnMode::On } else { spec.ecn },
            tso: s.tso,
            socket: SocketOptions { sndbuf: s.sndbuf, rcvbuf: s.rcvbuf },
            cc: spec.cc[s.cc % spec.cc.len()],
            iss: s.iss,
            veth: false,
            timestamp_offset: s.iss.wrapping_mul(3),
            random: self.case.path.seed,
        }
    }

    /// A number below `n`.
    fn draw(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % n.max(1)
    }

    fn chance(&mut self, thousandths: u32) -> bool {
        self.draw(1000) < u64::from(thousandths)
    }

    fn at(&mut self, at: Nanos, what: What) {
        self.order += 1;
        self.agenda.insert((at, self.order), what);
    }

    /// A packet reaches `side`: its bytes go to their place, then the endpoint hears of it.
    fn arrive(&mut self, side: usize, packet: &Packet) -> Result<(), String> {
        let segment = &packet.segment;
        let peer = self.hosts[1 - side].side;
        self.count_overtaking(side, packet);
        let host = &mut self.hosts[side];
        if segment.flags.has(Flags::SYN) {
            host.peer_scale = if segment.options.has(wire::Options::WSCALE) { segment.wscale } else { 0 };
        }
        if segment.len > 0 {
            // As a driver does it that sees nothing but the wire: sequence numbers near the next one expected.
            let ready = host.read + host.endpoint.as_ref().map_or(0, Endpoint::readable);
            let next = seq::FIRST_LAP + u64::from(peer.iss) + 1 + ready;
            let first = seq::extend(next, segment.seq) - (seq::FIRST_LAP + u64::from(peer.iss) + 1);
            for (index, &byte) in packet.payload.iter().enumerate() {
                let slot = host.arrived.get_mut(first as usize + index).ok_or_else(|| {
                    format!("side {side} got byte {first} + {index}, beyond the peer's stream")
                })?;
                *slot = Some(byte);
            }
        }
        let now = self.now;
        if let Some(endpoint) = &mut self.hosts[side].endpoint {
            endpoint.on_segment(now, segment);
        } else {
            let config = self.config(side);
            let outcome = Listener::new(self.profiles[side]).on_segment(now, segment, &config);
            if let SynOutcome::Connection(endpoint) = outcome {
                self.hosts[side].endpoint = Some(*endpoint);
            }
        }
        let host = &mut self.hosts[side];
        if segment.flags.has(Flags::ACK) {
            let una = seq::FIRST_LAP + u64::from(host.side.iss) + 1 + host.written;
            let ack = seq::extend(una, segment.ack) - (seq::FIRST_LAP + u64::from(host.side.iss));
            let scale = if segment.flags.has(Flags::SYN) { 0 } else { host.peer_scale };
            // A segment sent again, older than the one that last told of the window, moves only what that is counted from
            // (RFC 9293 section 3.10.7.4).
            if host.window_from.is_none_or(|from| !seq::before(segment.seq, from)) {
                host.window_from = Some(segment.seq);
                host.window = u64::from(segment.window) << scale;
            }
            host.edge = host.edge.max(ack + host.window);
        }
        Ok(())
    }

    fn count_overtaking(&mut self, side: usize, packet: &Packet) {
        if packet.segment.len == 0 {
            return;
        }
        let host = &mut self.hosts[side];
        if packet.index < host.newest {
            if host.overtakers.remove(&packet.index).is_some_and(|count| count >= 3) {
                self.seen.reordered = true;
            }
        } else {
            for missing in host.newest + 1..packet.index {
                host.overtakers.insert(missing, 0);
            }
            host.newest = packet.index;
        }
        host.overtakers.values_mut().for_each(|count| *count += 1);
    }

    /// Lets the application and the endpoint of `side` do all they can now.
    fn flush(&mut self, side: usize) -> Result<(), String> {
        loop {
            let wrote = self.application(side)?;
            let mut burst: Vec<Packet> = Vec::new();
            let now = self.now;
            loop {
                let Some(endpoint) = &mut self.hosts[side].endpoint else { return Ok(()) };
                let Some(segment) = endpoint.poll_transmit(now) else { break };
                if burst.len() > 20_000 {
                    return Err("spins: sends without end".into());
                }
                let packet = self.packet(side, segment)?;
                self.join(&mut burst, packet);
            }
            let bytes: u32 = burst.iter().map(|packet| packet.segment.len).sum();
            let sent = !burst.is_empty();
            for packet in burst {
                self.carry(side, packet);
            }
            if let Some(endpoint) = &mut self.hosts[side].endpoint
                && bytes > 0
            {
                endpoint.on_tx_complete(now, bytes);
            }
            if !wrote && !sent {
                break;
            }
        }
        self.after(side);
        Ok(())
    }

    /// Reads and writes; true if something was done.
    fn application(&mut self, side: usize) -> Result<bool, String> {
        let now = self.now;
        let host = &mut self.hosts[side];
        let Some(endpoint) = &mut host.endpoint else { return Ok(false) };
        let mut done = false;
        if endpoint.readable() > 0 && !host.asleep {
            let taken = endpoint.read(now, if host.side.pause > 0 { host.side.read } else { u64::MAX });
            for offset in host.read..host.read + taken {
                match host.arrived.get(offset as usize).copied().flatten() {
                    Some(byte) if byte == content(1 - side, offset) => {}
                    Some(_) => return Err(format!("side {side} read a wrong byte at {offset}")),
                    None => return Err(format!("side {side} read byte {offset}, which never arrived")),
                }
            }
            host.read += taken;
            self.seen.bytes += taken;
            self.progress = now;
            done = taken > 0;
            if host.side.pause > 0 {
                host.asleep = true;
                let at = now + host.side.pause;
                self.at(at, What::Reader(side));
            }
        }
        let host = &mut self.hosts[side];
        let Some(endpoint) = &mut host.endpoint else { return Ok(done) };
        let open = matches!(endpoint.state(), State::Established | State::CloseWait);
        if open && host.written < host.side.bytes {
            let taken = endpoint.write(host.side.bytes - host.written);
            host.written += taken;
            done |= taken > 0;
        }
        if open && host.written == host.side.bytes && !host.closed {
            host.closed = true;
            endpoint.shutdown(now);
            done = true;
        }
        Ok(done)
    }

    /// Timer, reports and state after an input.
    fn after(&mut self, side: usize) {
        let now = self.now;
        let host = &mut self.hosts[side];
        let Some(endpoint) = &mut host.endpoint else { return };
        for event in endpoint.events().drain() {
            match event.kind {
                EventKind::Rto => self.seen.rtos += 1,
                EventKind::Tlp => self.seen.probes += 1,
                _ => {}
            }
        }
        if endpoint.state() != host.state {
            host.state = endpoint.state();
            self.progress = now;
        }
        let next = endpoint.next_timer().map(|at| at.max(now));
        if let Some(at) = next
            && at != host.timer
        {
            host.timer = at;
            self.at(at, What::Timer(side));
        }
    }

    /// Gives a segment its bytes, and checks what it says.
    fn packet(&mut self, side: usize, segment: Segment) -> Result<Packet, String> {
        let path = &self.case.path;
        let in_order = path.loss == 0 && (path.jittered == 0 || path.jitter == 0) && path.duplicate == 0;
        let host = &mut self.hosts[side];
        let len = u64::from(segment.len);
        if segment.window == 0 && !segment.flags.has(Flags::RST) {
            self.seen.zero_window = true;
        }
        let mut index = 0;
        if len > 0 {
            let first = segment.offset;
            if first + len > host.written {
                return Err(format!("side {side} sends {first} + {len}; {} were written", host.written));
            }
            let iss = host.side.iss;
            if segment.seq != iss.wrapping_add(1).wrapping_add(first as u32) {
                return Err(format!("side {side}: sequence number {} for offset {first}", segment.seq));
            }
            // One byte more is a probe of a closed window. An ACK on a segment older than the one that last told of the
            // window moves what it is counted from (RFC 9293 section 3.10.7.4), so this holds where segments keep their order.
            if in_order && first + 1 + len > host.edge + 1 {
                return Err(format!(
                    "side {side} sends up to {} of a window to {}",
                    first + 1 + len,
                    host.edge
                ));
            }
            self.seen.wrapped |=
                u64::from(iss) + 1 + first < 1 << 32 && u64::from(iss) + 1 + first + len > 1 << 32;
            host.sent += 1;
            index = host.sent;
        }
        let payload = (segment.offset..segment.offset + len).map(|offset| content(side, offset)).collect();
        Ok(Packet { segment, payload, index })
    }

    /// A middlebox that joins data packets which follow each other at once.
    fn join(&mut self, burst: &mut Vec<Packet>, packet: Packet) {
        let join = self.case.path.join;
        if let Some(last) = burst.last_mut()
            && last.segment.len > 0
            && packet.segment.len > 0
            && last.segment.seq.wrapping_add(last.segment.len) == packet.segment.seq
            && last.segment.flags.0 & !Flags::PSH.0 == packet.segment.flags.0 & !(Flags::PSH.0 | Flags::FIN.0)
            && last.segment.ecn == packet.segment.ecn
            && last.segment.len + packet.segment.len < 60_000
            && self.draw(1000) < u64::from(join)
        {
            let mut segment = packet.segment;
            segment.seq = last.segment.seq;
            segment.offset = last.segment.offset;
            segment.len += last.segment.len;
            segment.frames += last.segment.frames;
            last.segment = segment;
            last.payload.extend(packet.payload);
            self.seen.resegmented += 1;
        } else {
            burst.push(packet);
        }
    }

    /// Puts a packet on the path away from `side`.
    fn carry(&mut self, side: usize, mut packet: Packet) {
        if self.chance(self.case.path.cut) && packet.segment.len > 1 && !packet.segment.flags.has(Flags::SYN)
        {
            self.seen.resegmented += 1;
            let at = 1 + self.draw(u64::from(packet.segment.len) - 1) as u32;
            let mut front = packet.clone();
            front.segment.len = at;
            front.segment.flags.0 &= !(Flags::FIN.0 | Flags::PSH.0);
            front.segment.frames = 1;
            front.payload.truncate(at as usize);
            packet.segment.seq = packet.segment.seq.wrapping_add(at);
            packet.segment.offset += u64::from(at);
            packet.segment.len -= at;
            packet.segment.frames = 1;
            packet.payload.drain(..at as usize);
            self.send(side, front);
        }
        self.send(side, packet);
    }

    fn send(&mut self, side: usize, mut packet: Packet) {
        let path = self.case.path;
        if self.trace {
            eprintln!("{:.6} from {side}: {:?}", self.now as f64 / 1e9, packet.segment);
        }
        if self.chance(path.loss) && self.may_lose(side, &packet.segment) {
            return;
        }
        self.hosts[side].lost_in_a_row = 0;
        if packet.segment.ecn != Ecn::NotEct && self.chance(path.mark) {
            packet.segment.ecn = Ecn::Ce;
        }
        let copies = 1 + u32::from(self.chance(path.duplicate));
        for _ in 0..copies {
            let late = if self.chance(path.jittered) { self.draw(path.jitter + 1) } else { 0 };
            let at = self.now + path.delay + late;
            self.at(at, What::Arrival(1 - side, Box::new(packet.clone())));
        }
    }

    fn may_lose(&mut self, side: usize, segment: &Segment) -> bool {
        let host = &mut self.hosts[side];
        // Systems give up on a handshake sooner than on data.
        let most = if segment.flags.has(Flags::SYN) { 1 } else { LOST_AT_MOST };
        if host.lost_in_a_row >= LOST_AT_MOST {
            return false;
        }
        let count = host.lost.entry(segment.seq).or_default();
        if *count >= most {
            return false;
        }
        *count += 1;
        host.lost_in_a_row += 1;
        true
    }
}

/// Delays that a path is made of.
pub(crate) const DELAYS: [Nanos; 5] = [10_000, MS / 2, 5 * MS, 40 * MS, 150 * MS];
