//! A capture of what enters a link.

use std::sync::mpsc::Sender;

use path::Nanos;
use wire::capture::LinkType;
use wire::pcap;

/// A capture: packets are put together here and written by another thread.
pub(in crate::emulator) struct Tap {
    pub(in crate::emulator) pcap: pcap::Writer<Vec<u8>>,
    pub(in crate::emulator) snaplen: u32,
    pub(in crate::emulator) file: Sender<Piece>,
}

/// Order to the thread that writes the file.
pub(in crate::emulator) enum Piece {
    /// Bytes that come next.
    Next(Vec<u8>),
    /// Order to drop what was written so far.
    Restart,
}

impl Tap {
    /// Bytes handed to the other thread at a time.
    const PIECE: usize = 1 << 18;

    /// A new, empty capture.
    pub(in crate::emulator) fn new(snaplen: u32, file: Sender<Piece>) -> Tap {
        Tap { pcap: Self::writer(snaplen), snaplen, file }
    }

    fn writer(snaplen: u32) -> pcap::Writer<Vec<u8>> {
        pcap::Writer::new(Vec::new(), LinkType::RAW, snaplen).expect("a Vec takes everything")
    }

    /// Begins again, for a new t = 0.
    pub(super) fn restart(&mut self) {
        self.pcap = Self::writer(self.snaplen);
        let _ = self.file.send(Piece::Restart);
    }

    /// An IP packet, at a time since t = 0.
    pub(super) fn packet(&mut self, t: Nanos, bytes: &[u8]) {
        // Writing to a Vec cannot fail.
        let _ = self.pcap.packet(t, bytes.len() as u32, bytes);
        if self.pcap.get_mut().len() >= Self::PIECE {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        let next = Vec::with_capacity(Self::PIECE + (1 << 16));
        // If the file cannot be written, its thread has ended and says why.
        let _ = self.file.send(Piece::Next(std::mem::replace(self.pcap.get_mut(), next)));
    }
}
