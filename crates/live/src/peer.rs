//! A modelled endpoint as a real host: over a TUN device it talks with this host's kernel, by a real clock.
//!
//! The endpoint is the one that simulations drive. What they do without is here: payload, which lies in rings indexed by
//! stream offset, and checksums.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use tcp::stack::Profile;
use tcp::{Config, Endpoint, Listener, Nanos, State, SynOutcome};
use wire::codec::{self, Ends, Payload, SynLayout};
use wire::{Flags, Segment, seq};

use crate::sys::{self, check};
use crate::tun::Tun;

/// Bytes of the peer's stream that can wait for the application: above every window a profile offers.
const RING: usize = 1 << 25;
/// Bytes of ours that wait to be written or acknowledged.
const AHEAD: usize = 1 << 23;
/// Packets read in a row before the endpoint may send.
const BATCH: usize = 64;
/// Longest sleep, ns: the patience is looked at then.
const LONGEST_SLEEP: Nanos = 100_000_000;

/// Set-up of one connection.
pub struct Setup<'a> {
    /// The stack.
    pub profile: &'a dyn Profile,
    /// The endpoint's settings.
    pub config: Config<'a>,
    /// Addresses and ports, ours as the source.
    pub ends: Ends<Ipv4Addr>,
    /// Connect, or wait for the kernel to.
    pub connect: bool,
    /// Share of packets lost in each direction, of 1000.
    pub loss: u64,
    /// Seeds the loss.
    pub seed: u64,
    /// Time after which the peer gives up.
    pub patience: Duration,
}

/// Report of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Payload bytes of ours the kernel has acknowledged.
    pub sent: u64,
    /// Payload bytes received and handed on.
    pub received: u64,
    /// Packets lost on purpose.
    pub lost: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// Runs one connection: sends all of `source`, closes, and hands what comes to `sink` until the kernel has closed too.
///
/// # Errors
/// The device or an application's stream failed, the connection failed, a packet's checksum was wrong, or the patience
/// ran out.
pub fn run(tun: &Tun, setup: &Setup<'_>, source: &mut dyn Read, sink: &mut dyn Write) -> io::Result<Report> {
    let mut peer = Peer::new(tun, setup);
    if setup.connect {
        peer.endpoint = Some(Endpoint::connect(setup.profile, &setup.config, 0));
    }
    let result = peer.go(source, sink);
    if let Some(endpoint) = &mut peer.endpoint {
        let info = endpoint.info(peer.started.elapsed().as_nanos() as Nanos);
        peer.report.sent = info.bytes_acked;
        peer.report.received = info.bytes_read;
        peer.report.retransmits = info.retransmits;
        peer.report.timeouts = info.sender.timeouts;
    }
    result.map(|()| peer.report)
}

struct Peer<'a> {
    tun: &'a Tun,
    setup: &'a Setup<'a>,
    endpoint: Option<Endpoint>,
    /// Addresses and ports, with the port of whoever has connected.
    ends: Ends<Ipv4Addr>,
    layout: SynLayout,
    started: Instant,
    /// Our stream from `ahead_from` on: written and not acknowledged, then not yet written.
    ahead: VecDeque<u8>,
    ahead_from: u64,
    written: u64,
    at_end: bool,
    /// The peer's stream, each byte at its offset modulo the length.
    ring: Vec<u8>,
    /// The first byte of the peer's stream has this extended sequence number.
    peer_first: u64,
    random: u64,
    buffer: Vec<u8>,
    report: Report,
}

impl<'a> Peer<'a> {
    fn new(tun: &'a Tun, setup: &'a Setup<'a>) -> Peer<'a> {
        Peer {
            tun,
            setup,
            endpoint: None,
            ends: setup.ends,
            layout: setup.profile.spec().family.syn_layout(),
            started: Instant::now(),
            ahead: VecDeque::new(),
            ahead_from: 0,
            written: 0,
            at_end: false,
            ring: vec![0; RING],
            peer_first: 0,
            random: setup.seed | 1,
            buffer: Vec::new(),
            report: Report::default(),
        }
    }

    fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos
    }

    fn go(&mut self, source: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()> {
        while !self.over()? {
            if self.started.elapsed() > self.setup.patience {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the connection did not end in time"));
            }
            let mut busy = self.receive()?;
            let now = self.now();
            if let Some(endpoint) = &mut self.endpoint
                && endpoint.next_timer().is_some_and(|at| at <= now)
            {
                endpoint.on_timer(now);
            }
            busy |= self.application(source, sink)?;
            busy |= self.transmit()?;
            if !busy {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Whether both sides have closed. Waiting for old segments to die is left out.
    fn over(&self) -> io::Result<bool> {
        let Some(endpoint) = &self.endpoint else { return Ok(false) };
        if let Some(failure) = endpoint.failure() {
            return Err(io::Error::other(format!("the connection failed: {failure:?}")));
        }
        Ok(matches!(endpoint.state(), State::Closed | State::TimeWait) && endpoint.readable() == 0)
    }

    fn lose(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let lost = (self.random >> 11) % 1000 < self.setup.loss;
        self.report.lost += u64::from(lost);
        lost
    }

    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut any = false;
        for _ in 0..BATCH {
            match self.tun.read(&mut buffer) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            any = true;
            let Ok(packet) = codec::parse(&buffer, buffer.len() as u32) else { continue };
            let known = self.setup.connect || self.endpoint.is_some();
            let ours = packet.ends.dst == IpAddr::V4(self.ends.src) && packet.ends.dport == self.ends.sport;
            if !ours || (known && packet.ends.sport != self.ends.dport) {
                continue;
            }
            if packet.checksum_ok() != Some(true) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet's checksum is wrong"));
            }
            if self.lose() {
                continue;
            }
            let segment = packet.segment;
            self.keep(&segment, packet.payload);
            self.deliver(&segment, packet.ends.sport);
        }
        self.buffer = buffer;
        Ok(any)
    }

    /// Puts payload in its place. Whether it counts is for the endpoint to say.
    fn keep(&mut self, segment: &Segment, payload: &[u8]) {
        if segment.flags.has(Flags::SYN) {
            self.peer_first = seq::FIRST_LAP + u64::from(segment.seq) + 1;
        }
        let Some(endpoint) = &self.endpoint else { return };
        let read = endpoint.bytes_read();
        let first = seq::extend(self.peer_first + read + endpoint.readable(), segment.seq);
        for (index, &byte) in payload.iter().enumerate() {
            let Some(offset) = (first + index as u64).checked_sub(self.peer_first) else { continue };
            // Read already, or beyond every window: neither is taken by the endpoint.
            if offset >= read && offset < read + RING as u64 {
                self.ring[offset as usize % RING] = byte;
            }
        }
    }

    fn deliver(&mut self, segment: &Segment, port: u16) {
        let now = self.now();
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.on_segment(now, segment);
            return;
        }
        let listener = Listener::new(self.setup.profile);
        if let SynOutcome::Connection(endpoint) = listener.on_segment(now, segment, &self.setup.config) {
            self.endpoint = Some(*endpoint);
            self.ends.dport = port;
        }
    }

    fn application(&mut self, source: &mut dyn Read, sink: &mut dyn Write) -> io::Result<bool> {
        let now = self.now();
        let Some(endpoint) = &mut self.endpoint else { return Ok(false) };
        let mut busy = false;
        let ready = endpoint.readable();
        if ready > 0 {
            let from = endpoint.bytes_read();
            endpoint.read(now, ready);
            for part in parts(from, ready) {
                sink.write_all(&self.ring[part])?;
            }
            busy = true;
        }
        if !matches!(endpoint.state(), State::Established | State::CloseWait) {
            return Ok(busy);
        }
        // What is acknowledged is not needed any more.
        let acked = endpoint.info(now).bytes_acked;
        self.ahead.drain(..(acked - self.ahead_from) as usize);
        self.ahead_from = acked;
        while !self.at_end && self.ahead.len() < AHEAD / 2 {
            let mut chunk = vec![0; AHEAD / 2];
            let count = source.read(&mut chunk)?;
            self.at_end = count == 0;
            self.ahead.extend(&chunk[..count]);
        }
        let unwritten = self.ahead_from + self.ahead.len() as u64 - self.written;
        if unwritten > 0 {
            let taken = endpoint.write(unwritten);
            self.written += taken;
            busy |= taken > 0;
        } else if self.at_end {
            endpoint.shutdown(now);
            busy = true;
        }
        Ok(busy)
    }

    fn transmit(&mut self) -> io::Result<bool> {
        let now = self.now();
        let mut out = Vec::new();
        let mut bytes = 0;
        loop {
            let Some(endpoint) = &mut self.endpoint else { return Ok(false) };
            let Some(segment) = endpoint.poll_transmit(now) else { break };
            bytes += segment.len;
            if self.lose() {
                out.push(Vec::new());
                continue;
            }
            let end = segment.offset + u64::from(segment.len);
            if segment.len > 0 && (segment.offset < self.ahead_from || end > self.written) {
                let what = format!("the endpoint sends {} to {end} of {}", segment.offset, self.written);
                return Err(io::Error::other(what));
            }
            // An ACK's place may lie behind the FIN.
            let from = if segment.len > 0 { (segment.offset - self.ahead_from) as usize } else { 0 };
            let payload: Vec<u8> = self.ahead.range(from..from + segment.len as usize).copied().collect();
            let mut packet = Vec::with_capacity(1500);
            let content = Payload::Bytes(&payload);
            codec::write(&mut packet, &segment, &self.ends, self.layout, 0, content);
            out.push(packet);
        }
        for packet in out.iter().filter(|packet| !packet.is_empty()) {
            self.tun.write(packet)?;
        }
        if bytes > 0
            && let Some(endpoint) = &mut self.endpoint
        {
            endpoint.on_tx_complete(now, bytes);
        }
        Ok(!out.is_empty())
    }

    /// Sleeps until a packet comes or a timer is due.
    fn wait(&self) -> io::Result<()> {
        let now = self.now();
        let next = self.endpoint.as_ref().and_then(Endpoint::next_timer);
        let wait = next.map_or(LONGEST_SLEEP, |at| at.saturating_sub(now).min(LONGEST_SLEEP));
        let mut interest =
            libc::pollfd { fd: self.tun.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = sys::timespec(wait);
        // SAFETY: one pollfd and a timespec, which live through the call; no signal mask.
        check(unsafe { libc::ppoll(&raw mut interest, 1, &raw const time, std::ptr::null()) }).map(drop)
    }
}

/// Pieces of the ring, one or two, that hold `count` bytes from offset `from` on.
fn parts(from: u64, count: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
    let start = from as usize % RING;
    let first = (count as usize).min(RING - start);
    [start..start + first, 0..count as usize - first].into_iter().filter(|part| !part.is_empty())
}
