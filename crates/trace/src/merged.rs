//! Packets of several captures in the order of their times: captures that each hold one direction show a connection
//! together.

use std::io::Read;

use wire::capture::{Error, LinkType, Reader, Record};

/// Source of packets.
pub(crate) trait Records {
    /// The next packet. None at the end.
    fn next(&mut self) -> Result<Option<Record<'_>>, Error>;
}

impl<R: Read> Records for Reader<R> {
    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        self.next_record()
    }
}

/// Captures by one clock.
pub(crate) struct Merged<R> {
    sides: Vec<Side<R>>,
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
    /// Merges files.
    pub(crate) fn new(files: Vec<R>) -> Result<Merged<R>, Error> {
        Ok(Merged { sides: files.into_iter().map(Side::new).collect::<Result<_, _>>()?, taken: None })
    }

    /// The next packet, and the number of its file. None at the end.
    pub(crate) fn next_of(&mut self) -> Result<Option<(usize, Record<'_>)>, Error> {
        if let Some(taken) = self.taken.take() {
            self.sides[taken].advance()?;
        }
        // Equal times keep the order of the files.
        let there = self.sides.iter().enumerate().filter(|(_, side)| side.there);
        self.taken = there.min_by_key(|(_, side)| side.t_ns).map(|(index, _)| index);
        Ok(self.taken.map(|index| {
            let Side { t_ns, wire_length, link, ref bytes, .. } = self.sides[index];
            (index, Record { t_ns, wire_length, link, bytes })
        }))
    }
}

impl<R: Read> Records for Merged<R> {
    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        Ok(self.next_of()?.map(|(_, record)| record))
    }
}
