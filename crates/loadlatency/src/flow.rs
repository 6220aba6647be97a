//! The two ends of one flow: a sender of random blocks and a receiver that counts them, the same code in client and server.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use measure::{BIN_NS, MAX_NS, Probe};
use socket2::SockRef;

use crate::locked;
use crate::payload::Payload;
use crate::sys::{self, closed, in_words, would_block};
use crate::wire::{BLOCK, Block, NOTE, Note};

/// Bytes read at a time at most.
const READ: usize = 256 << 10;

/// Time between two looks of a flow whether it has been told to end.
const LOOK: Duration = Duration::from_millis(50);

/// Time between probes within a flow, ns; there is one on its way at most.
const PROBE_NS: u64 = 100_000_000;

/// Time between adaptations of the length of blocks, ns.
const ADAPT_NS: u64 = 100_000_000;

/// Duration of a block at the rate of the flow, in ns: a probe waits for a block before it is sent.
const BLOCK_NS: u64 = 10_000_000;

/// Bounds of the payload of a block. The lower keeps headers below 1 % of a stream, the upper system calls rare.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=256 << 10;

/// Bounds of what the kernel may hold back unsent, twice a block.
const UNSENT_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=1 << 20;

/// The longest a flow lives, ns: no scenario lasts longer, with time to end it.
pub(crate) const MAX_FLOW_NS: u64 = MAX_NS + 60_000_000_000;

/// A flow as seen by those who start it, watch it and end it.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    ended: AtomicBool,
    tally: Mutex<Tally>,
}

/// Counts of a flow at this end. Times are of this end's clock; 0 is "not yet".
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Bytes of the stream that were read.
    pub bytes: u64,
    /// Time when the first bytes were counted, in ns.
    pub first_ns: u64,
    /// Time when the last bytes were counted, in ns.
    pub last_ns: u64,
    /// Time when the flow was closed, in ns: nothing counts any more.
    pub end_ns: u64,
    /// Longest time between two arrivals.
    pub gap_ns: u64,
    /// Bytes in each `BIN_NS` from the first arrival, from place `bins_from` on.
    pub bins: Vec<u64>,
    /// Number of intervals that have been removed.
    pub bins_from: u32,
    /// Reason why the connection ended before the flow was closed.
    pub killed: Option<String>,
    /// Round trips of probes in the stream, if this end sent any.
    pub in_band: Vec<Probe>,
}

impl Flow {
    /// Stops counting; the connection goes on until `end`.
    pub(crate) fn close(&self, now_ns: u64) {
        self.tally().close(now_ns);
    }

    /// Tells the threads of the flow's connection to end.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether the flow has been told to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The counters.
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        locked(&self.tally)
    }

    /// Stops counting because the connection ended by itself.
    pub(crate) fn kill(&self, why: String) {
        let mut tally = self.tally();
        if tally.end_ns == 0 {
            tally.killed = Some(why);
            tally.close(sys::now_ns());
        }
    }
}

impl Tally {
    fn arrive(&mut self, now_ns: u64, bytes: u64) {
        if self.end_ns != 0 {
            return;
        }
        if self.first_ns == 0 {
            self.first_ns = now_ns;
        } else {
            self.gap_ns = self.gap_ns.max(now_ns - self.last_ns);
        }
        self.last_ns = now_ns;
        self.bytes += bytes;
        let bin = ((now_ns - self.first_ns) / BIN_NS) as usize - self.bins_from as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += bytes;
    }

    fn close(&mut self, now_ns: u64) {
        if self.end_ns == 0 {
            self.end_ns = now_ns;
        }
    }

    /// Removes the intervals that are over, all of them once the flow is closed, and returns them with the place of the first.
    pub(crate) fn take_bins(&mut self) -> (u32, Vec<u64>) {
        let over = if self.end_ns == 0 { self.bins.len().saturating_sub(1) } else { self.bins.len() };
        let from = self.bins_from;
        self.bins_from += over as u32;
        (from, self.bins.drain(..over).collect())
    }
}

/// Sets the options that every flow's connection has.
///
/// # Errors
/// As the system says.
pub(crate) fn prepare(stream: &TcpStream, dscp: u8, cc: Option<&str>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    // Closing resets the connection: data that is still queued is not needed, and would delay the next scenario.
    socket.set_linger(Some(Duration::ZERO))?;
    if dscp != 0 {
        sys::set_dscp(socket, dscp, stream.local_addr()?.is_ipv6())?;
    }
    cc.map_or(Ok(()), |name| sys::set_congestion_control(SockRef::from(stream), name))
}

/// Sends until the flow is ended or its connection is; `probing` puts probes into the stream, else it answers notes'.
pub(crate) fn send(stream: &TcpStream, flow: &Flow, probing: bool) {
    if let Err(error) = stream.set_nonblocking(true).and_then(|()| Sender::new(stream, flow, probing).run()) {
        flow.kill(in_words(&error));
    }
}

/// Receives until the flow is ended or its connection is; `probing` sends notes with probes, else it answers blocks'.
pub(crate) fn receive(stream: &TcpStream, flow: &Flow, probing: bool) {
    if let Err(error) = stream.set_nonblocking(true).and_then(|()| Receiver::new(stream, flow, probing).run())
    {
        flow.kill(in_words(&error));
    }
}

/// Waits for the note that asks a download to begin; false if the flow is ended, or the other end goes away, before.
pub(crate) fn await_start(stream: &TcpStream, flow: &Flow) -> bool {
    let read = || -> io::Result<bool> {
        let mut note = [0; NOTE];
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        let mut have = 0;
        while have < NOTE {
            if flow.has_ended() {
                return Ok(false);
            }
            match (&mut &*stream).read(&mut note[have..]) {
                Ok(0) => return Err(closed()),
                Ok(count) => have += count,
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    };
    match read() {
        Ok(started) => started,
        Err(error) => {
            flow.kill(in_words(&error));
            false
        }
    }
}

struct Sender<'a> {
    stream: &'a TcpStream,
    flow: &'a Flow,
    payload: Payload,
    notes: Notes,
    probes: Probes,
    /// Echo to put into the next block.
    echo: u64,
    header: [u8; BLOCK],
    block: &'static [u8],
    /// Bytes of header and block that are written.
    written: usize,
    pace: Pace<'a>,
}

impl<'a> Sender<'a> {
    fn new(stream: &'a TcpStream, flow: &'a Flow, probing: bool) -> Sender<'a> {
        Sender {
            stream,
            flow,
            payload: Payload::begin_anywhere(),
            notes: Notes { bytes: [0; NOTE * 16], have: 0 },
            probes: Probes::new(probing),
            echo: 0,
            header: [0; BLOCK],
            block: &[],
            written: BLOCK,
            pace: Pace::new(stream),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let since = sys::now_ns();
        while !self.flow.has_ended() {
            let ready = sys::wait(self.stream, true, LOOK)?;
            let now = sys::now_ns();
            if ready.read {
                self.read_notes(now)?;
            }
            if ready.write {
                self.write(now)?;
            }
            too_long(since, now)?;
        }
        Ok(())
    }

    fn read_notes(&mut self, now: u64) -> io::Result<()> {
        for note in self.notes.read(self.stream)? {
            self.echo = if note.probe == 0 { self.echo } else { note.probe };
            self.probes.answered(note.echo, now, self.flow);
        }
        Ok(())
    }

    fn write(&mut self, now: u64) -> io::Result<()> {
        if self.written == BLOCK + self.block.len() {
            self.block = self.payload.block(self.pace.block_bytes(now));
            let length = self.block.len() as u32;
            self.header = Block { length, probe: self.probes.next(now), echo: self.echo }.to_bytes();
            self.echo = 0;
            self.written = 0;
        }
        let header = &self.header[self.written.min(BLOCK)..];
        let block = &self.block[self.written.saturating_sub(BLOCK)..];
        match (&mut &*self.stream).write_vectored(&[io::IoSlice::new(header), io::IoSlice::new(block)]) {
            Ok(count) => {
                self.written += count;
                self.pace.written += count as u64;
                Ok(())
            }
            Err(error) if would_block(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Adapts the length of blocks, and of the unsent data in the kernel, to the rate.
struct Pace<'a> {
    stream: &'a TcpStream,
    since: u64,
    /// Bytes that the kernel took since `since`.
    written: u64,
    block: u64,
}

impl<'a> Pace<'a> {
    fn new(stream: &'a TcpStream) -> Pace<'a> {
        Pace { stream, since: sys::now_ns(), written: 0, block: *BLOCK_BYTES.start() }
    }

    /// Payload of the next block.
    fn block_bytes(&mut self, now: u64) -> usize {
        let elapsed = now - self.since;
        if elapsed >= ADAPT_NS {
            let block = self.written * BLOCK_NS / elapsed;
            self.block = block.clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
            let unsent = (2 * block).clamp(*UNSENT_BYTES.start(), *UNSENT_BYTES.end());
            sys::keep_unsent_below(SockRef::from(self.stream), unsent as u32);
            (self.since, self.written) = (now, 0);
        }
        self.block as usize
    }
}

struct Receiver<'a> {
    stream: &'a TcpStream,
    flow: &'a Flow,
    parser: Parser,
    probes: Probes,
    /// A note on its way out, and how much of it is.
    note: [u8; NOTE],
    noted: usize,
    echo: u64,
}

impl<'a> Receiver<'a> {
    fn new(stream: &'a TcpStream, flow: &'a Flow, probing: bool) -> Receiver<'a> {
        let parser = Parser::default();
        Receiver { stream, flow, parser, probes: Probes::new(probing), note: [0; NOTE], noted: NOTE, echo: 0 }
    }

    fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; READ];
        let since = sys::now_ns();
        while !self.flow.has_ended() {
            let ready = sys::wait(self.stream, false, LOOK)?;
            if ready.read {
                let count = match (&mut &*self.stream).read(&mut buffer) {
                    Ok(0) => return Err(closed()),
                    Ok(count) => count,
                    Err(error) if would_block(&error) => 0,
                    Err(error) => return Err(error),
                };
                let now = sys::now_ns();
                if count > 0 {
                    self.flow.tally().arrive(now, count as u64);
                }
                self.parse(&buffer[..count], now)?;
            }
            let now = sys::now_ns();
            self.write_note(now)?;
            too_long(since, now)?;
        }
        Ok(())
    }

    fn parse(&mut self, mut bytes: &[u8], now: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            if let Some(block) = self.parser.next(&mut bytes)? {
                self.echo = if block.probe == 0 { self.echo } else { block.probe };
                self.probes.answered(block.echo, now, self.flow);
            }
        }
        Ok(())
    }

    fn write_note(&mut self, now: u64) -> io::Result<()> {
        if self.noted == NOTE {
            let note = Note { probe: self.probes.next(now), echo: self.echo };
            if note == Note::default() {
                return Ok(());
            }
            self.echo = 0;
            self.note = note.to_bytes();
            self.noted = 0;
        }
        match (&mut &*self.stream).write(&self.note[self.noted..]) {
            Ok(count) => {
                self.noted += count;
                Ok(())
            }
            // A sender that does not read notes gets no more of them.
            Err(error) if would_block(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The stream of blocks, cut anywhere.
#[derive(Default)]
struct Parser {
    header: [u8; BLOCK],
    have: usize,
    /// Payload bytes of the block that are still to come.
    left: usize,
}

impl Parser {
    /// Takes from `bytes` what is left of a block's payload, or of the header of the next; Some when that is whole.
    fn next(&mut self, bytes: &mut &[u8]) -> io::Result<Option<Block>> {
        if self.left > 0 {
            let count = self.left.min(bytes.len());
            self.left -= count;
            *bytes = &bytes[count..];
            return Ok(None);
        }
        let count = (BLOCK - self.have).min(bytes.len());
        self.header[self.have..self.have + count].copy_from_slice(&bytes[..count]);
        self.have += count;
        *bytes = &bytes[count..];
        if self.have < BLOCK {
            return Ok(None);
        }
        self.have = 0;
        let block = Block::read(&self.header).ok_or_else(malformed)?;
        self.left = block.length as usize;
        Ok(Some(block))
    }
}

/// The notes that a sender reads, cut anywhere.
struct Notes {
    bytes: [u8; NOTE * 16],
    have: usize,
}

impl Notes {
    /// The notes that are whole now, at most sixteen.
    fn read(&mut self, stream: &TcpStream) -> io::Result<impl Iterator<Item = Note>> {
        match (&mut &*stream).read(&mut self.bytes[self.have..]) {
            Ok(0) => return Err(closed()),
            Ok(count) => self.have += count,
            Err(error) if would_block(&error) => {}
            Err(error) => return Err(error),
        }
        let whole = self.have / NOTE * NOTE;
        let notes: [u8; NOTE * 16] = self.bytes;
        self.bytes.copy_within(whole..self.have, 0);
        self.have -= whole;
        Ok((0..whole / NOTE).map(move |k| Note::read(&std::array::from_fn(|byte| notes[k * NOTE + byte]))))
    }
}

/// Probes in the stream: when the next is due, and which is on its way.
struct Probes {
    probing: bool,
    due_ns: u64,
    under_way: u64,
}

impl Probes {
    fn new(probing: bool) -> Probes {
        Probes { probing, due_ns: 0, under_way: 0 }
    }

    /// The probe to send now, which is the current time; 0 for none.
    fn next(&mut self, now: u64) -> u64 {
        if !self.probing || self.under_way != 0 || now < self.due_ns {
            return 0;
        }
        self.under_way = now;
        self.due_ns = now + PROBE_NS;
        now
    }

    fn answered(&mut self, echo: u64, now: u64, flow: &Flow) {
        if echo == 0 || echo != self.under_way {
            return;
        }
        self.under_way = 0;
        let mut tally = flow.tally();
        if tally.end_ns == 0 {
            tally.in_band.push(Probe { t_ns: echo, took_ns: now - echo });
        }
    }
}

fn too_long(since: u64, now: u64) -> io::Result<()> {
    if now - since < MAX_FLOW_NS {
        return Ok(());
    }
    Err(io::Error::other(format!("flow longer than {} minutes", MAX_FLOW_NS / 60_000_000_000)))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other end sent what is no block")
}
