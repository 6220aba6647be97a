//! The way of a packet: from an input through a host's netem, its link and the far host's ingress rule to an output.

use std::cell::Cell;

use path::Nanos;

use super::Worker;
use super::direction::{Hop, Ingress};
use super::stats::Stats;
use crate::emulator::LATE;
use crate::emulator::frame::{self, Frame, Headers};
use crate::emulator::line::{Common, Exit};
use crate::emulator::port::BATCH;

impl Worker {
    /// Takes a packet from an input into the pool and on into its link.
    pub(super) fn receive(&mut self, index: usize, at: Nanos) {
        let direction = &mut self.directions[index];
        direction.last_arrival = at;
        // netem sees what the host's stack sends, before segmentation.
        let cuts = direction.egress.is_none();
        let mtu = direction.mtu;
        let (common, stats, scratch) = (&mut self.common, &mut self.stats, &mut self.scratch);
        let mut arrived = Arrived::None;
        let mut more = Vec::new();
        direction.input.take(|bytes| {
            let Some(bytes) = bytes else {
                stats.unintended_drops += 1;
                return;
            };
            let headers = Headers::read(bytes);
            let Some(headers) = headers else {
                stats.other_frames += 1;
                arrived = store(common, bytes, Headers::NONE).map_or(Arrived::None, Arrived::Other);
                return;
            };
            if cuts && headers.bytes > mtu && cut(bytes, &headers, scratch, common, stats, &mut more) {
                return;
            }
            match store(common, bytes, headers) {
                Some(frame) => arrived = Arrived::Packet(frame),
                None => stats.unintended_drops += 1,
            }
        });
        match arrived {
            Arrived::Packet(frame) => self.enter(index, at, frame),
            // Not for a link: it crosses at once.
            Arrived::Other(frame) => self.directions[index].line.push(at, frame),
            Arrived::None => (),
        }
        for frame in more {
            self.enter(index, at, frame);
        }
    }

    /// A packet leaves the stack of a host or router.
    #[inline]
    fn enter(&mut self, index: usize, at: Nanos, frame: Frame) {
        match &mut self.directions[index].egress {
            None => self.enter_link(index, at, frame),
            Some((hop, link, line)) => {
                let mut exit = Exit { line, common: &mut self.common, hop: *hop, bottleneck: None };
                link.arrive(at, frame, &mut exit);
            }
        }
    }

    /// A packet leaves a host's netem.
    pub(super) fn leave_egress(&mut self, index: usize, at: Nanos) {
        let Some((_, _, line)) = &mut self.directions[index].egress else { return };
        let Some((_, mut frame)) = line.take(at) else { return };
        if !self.own_bytes(&mut frame) {
            return;
        }
        if frame.headers.bytes > self.directions[index].mtu {
            let bytes = self.common.pool.bytes(frame.slot)[..frame.length as usize].to_vec();
            let (common, stats, mut more) = (&mut self.common, &mut self.stats, Vec::new());
            if cut(&bytes, &frame.headers, &mut self.scratch, common, stats, &mut more) {
                self.common.release(&frame);
                for (number, mut piece) in more.into_iter().enumerate() {
                    piece.queue_delay = frame.queue_delay;
                    // Only one bit of the super-packet is damaged.
                    piece.corrupt = frame.corrupt && number == 0;
                    self.enter_link(index, at, piece);
                }
                return;
            }
        }
        self.enter_link(index, at, frame);
    }

    #[inline]
    fn enter_link(&mut self, index: usize, at: Nanos, frame: Frame) {
        let zero = self.zero;
        let direction = &mut self.directions[index];
        if let Some(tap) = &mut direction.tap {
            let bytes = &self.common.pool.bytes(frame.slot)[frame::IP..][..frame.headers.bytes as usize];
            if let Some(t) = at.checked_sub(zero) {
                tap.packet(t, bytes);
            }
        }
        let (hop, mut exit) = direction.parts(&mut self.common);
        match hop {
            Hop::Wire => exit.line.push(at, frame),
            Hop::Link(link) => link.arrive(at, frame, &mut exit),
            &mut Hop::Port { switch, port } => {
                self.switches[switch].switch.arrive(port, at, frame, &mut exit);
                self.send_pauses(switch);
            }
        }
    }

    /// Sends what has reached the far end of its link.
    pub(super) fn deliver(&mut self) {
        let mut now = self.now();
        for index in 0..self.directions.len() {
            while let Some((at, frame)) = self.directions[index].line.take(now) {
                self.arrive(index, at, frame);
                if self.directions[index].output.len() >= BATCH - 1 {
                    now = self.flush(index);
                }
            }
            if self.directions[index].output.len() > 0 {
                now = self.flush(index);
            }
        }
    }

    /// A packet reaches the far end.
    #[inline]
    fn arrive(&mut self, index: usize, at: Nanos, frame: Frame) {
        let matches = self.directions[index].ingress.as_ref().is_some_and(|ingress| {
            let Headers { ports: (sport, dport), payload, bytes, .. } = frame.headers;
            bytes > 0 && ingress.rule.matches(sport, dport, payload)
        });
        if matches {
            self.apply_ingress(index, at, frame);
        } else {
            self.add_to_batch(index, at, frame, self.directions[index].link.unwrap_or(0));
        }
    }

    /// Applies the receiving host's ingress impairments to a packet.
    fn apply_ingress(&mut self, index: usize, at: Nanos, mut frame: Frame) {
        if !self.own_bytes(&mut frame) {
            return;
        }
        let Some(Ingress { hop, link, passed, .. }) = &mut self.directions[index].ingress else { return };
        let hop = *hop;
        link.arrive(at, frame, &mut Exit { line: passed, common: &mut self.common, hop, bottleneck: None });
        while let Some(ingress) = &mut self.directions[index].ingress
            && let Some((at, frame)) = ingress.passed.take(Nanos::MAX)
        {
            self.add_to_batch(index, at, frame, hop);
        }
    }

    /// Gives a packet bytes of its own, if it was duplicated; false, and it is gone, if there is no memory.
    fn own_bytes(&mut self, frame: &mut Frame) -> bool {
        let alone = !frame.shared.get() || self.common.unshare(frame);
        if !alone {
            self.stats.unintended_drops += 1;
            self.common.release(frame);
        }
        alone
    }

    /// Puts a packet into the batch.
    #[inline]
    fn add_to_batch(&mut self, index: usize, at: Nanos, mut frame: Frame, hop: u32) {
        if (frame.marked || frame.corrupt) && !self.rewrite(&mut frame, at, hop) {
            return;
        }
        let bytes = &self.common.pool.bytes(frame.slot)[..frame.length as usize];
        // SAFETY: slots do not move, and this one is given back by `flush`, behind the call of the same name.
        unsafe { self.directions[index].output.push(bytes) };
        self.batch.push((at, frame));
    }

    /// Writes marks and damage into a packet's bytes; false if the packet is lost.
    #[cold]
    fn rewrite(&mut self, frame: &mut Frame, at: Nanos, hop: u32) -> bool {
        if !self.own_bytes(frame) {
            return false;
        }
        let bytes = &mut self.common.pool.bytes(frame.slot)[..frame.length as usize];
        if frame.marked {
            frame::mark(bytes);
        }
        let mut left = true;
        if frame.corrupt {
            left = frame::damage(bytes, &frame.headers);
            self.common.records.damaged(at, hop, frame);
        }
        if !left {
            self.common.release(frame);
        }
        left
    }

    /// Sends the batch; returns what time it is then.
    fn flush(&mut self, index: usize) -> Nanos {
        self.stats.unintended_drops += self.directions[index].output.flush();
        let now = self.now();
        for (at, frame) in self.batch.drain(..) {
            if frame.headers.bytes > 0 {
                let late = now.saturating_sub(at);
                self.stats.late.add(late);
                self.stats.too_late += u64::from(late > LATE);
                self.stats.packets += 1;
                self.stats.bytes += u64::from(frame.headers.bytes);
                self.recent += 1;
            }
            self.common.release(&frame);
        }
        now
    }
}

/// Result of taking in a packet.
enum Arrived {
    /// No packet, or a super-packet that was cut.
    None,
    /// A packet for the link.
    Packet(Frame),
    /// A frame that crosses at once.
    Other(Frame),
}

/// Takes a packet into the pool; None if there is no memory.
#[inline]
fn store(common: &mut Common, bytes: &[u8], headers: Headers) -> Option<Frame> {
    let slot = common.pool.take(bytes.len())?;
    let stored = &mut common.pool.bytes(slot)[..bytes.len()];
    stored.copy_from_slice(bytes);
    frame::complete_checksum(stored);
    let (owner, offset) = common.flows.find(&headers, bytes);
    Some(Frame {
        slot,
        length: bytes.len() as u32,
        flow: owner.map(|owner| owner.flow),
        forward: owner.is_some_and(|owner| owner.forward),
        offset,
        marked: false,
        corrupt: false,
        shared: Cell::new(false),
        queue_delay: 0,
        headers,
    })
}

/// Cuts a super-packet and takes the resulting packets into the pool; false if it is no super-packet.
#[cold]
fn cut(
    bytes: &[u8],
    headers: &Headers,
    scratch: &mut [u8],
    common: &mut Common,
    stats: &mut Stats,
    packets: &mut Vec<Frame>,
) -> bool {
    frame::segment(bytes, headers, scratch, &mut |piece| match Headers::read(piece)
        .and_then(|headers| store(common, piece, headers))
    {
        Some(frame) => packets.push(frame),
        None => stats.unintended_drops += 1,
    })
}
