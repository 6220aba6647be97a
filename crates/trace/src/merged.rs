//! Packets of several captures in the order of their times: captures that each hold one direction show a connection
//! together.

use std::io::Read;

use wire::capture::{Error, LinkType, Reader, Record};

/// Source of packets.
pub(crate) trait Records {
    /// The next packet; None at the end.
    fn next(&mut self) -> Result<Option<Record<'_>>, Error>;
}

impl<R: Read> Records for Reader<R> {
    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        self.next_record()
    }
}

/// Two captures by one clock.
pub(crate) struct Merged<R> {
    sides: [Side<R>; 2],
    /// Whose packet was handed out last, and must be replaced.
    taken: Option<usize>,
}

/// A capture and a copy of its next packet.
struct Side<R> {
    reader: Reader<R>,
    there: bool,
    t_ns: u64,
    wire_length: u32,
    link: LinkType,
    bytes: Vec<u8>,
}

impl<R: Read> Side<R> {
    fn new(source: R) -> Result<Side<R>, Error> {
        let reader = Reader::new(source)?;
        let mut side =
            Side { reader, there: false, t_ns: 0, wire_length: 0, link: LinkType::RAW, bytes: Vec::new() };
        side.advance()?;
        Ok(side)
    }

    /// Copies the next packet; a capture that is cut short ends there.
    fn advance(&mut self) -> Result<(), Error> {
        let record = match self.reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) | Err(Error::CutShort { .. }) => {
                self.there = false;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        (self.there, self.t_ns, self.wire_length, self.link) =
            (true, record.t_ns, record.wire_length, record.link);
        self.bytes.clear();
        self.bytes.extend_from_slice(record.bytes);
        Ok(())
    }
}

impl<R: Read> Merged<R> {
    /// Merges two files.
    pub(crate) fn new(one: R, other: R) -> Result<Merged<R>, Error> {
        Ok(Merged { sides: [Side::new(one)?, Side::new(other)?], taken: None })
    }
}

impl<R: Read> Records for Merged<R> {
    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        if let Some(taken) = self.taken.take() {
            self.sides[taken].advance()?;
        }
        // Equal times keep the order of the files.
        let first = (0..2).filter(|&side| self.sides[side].there).min_by_key(|&side| self.sides[side].t_ns);
        self.taken = first;
        Ok(first.map(|side| {
            let Side { t_ns, wire_length, link, ref bytes, .. } = self.sides[side];
            Record { t_ns, wire_length, link, bytes }
        }))
    }
}
