//! Common parts of pcap and pcapng files: records, link types, errors, and a reader that tells the formats apart.

mod layers;
pub mod pcap;
pub mod pcapng;

use std::io::{self, Read};

use crate::codec::{NotTcp, PROTOCOL_TCP};

/// Captured packet, valid until the next one is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time when the packet was captured, in ns since 1970 (or since whatever the capturing clock counts from).
    pub t_ns: u64,
    /// Length on the wire in bytes, with the link-layer header.
    pub wire_length: u32,
    /// Link layer with which the bytes begin.
    pub link: LinkType,
    /// The bytes present.
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The innermost IP packet: the bytes present, and its length on the wire (with any padding behind it, which
    /// [`crate::codec::parse`] ignores). Link layers, tags, labels and tunnels before it are passed over.
    ///
    /// # Errors
    ///
    /// What there is instead.
    #[inline]
    pub fn ip(&self) -> Result<(&'a [u8], u32), NotTcp> {
        const HEADER: usize = 14;
        // What nearly every packet is: TCP in IPv4 in Ethernet.
        if self.link == LinkType::ETHERNET
            && self.wire_length >= HEADER as u32
            && self.bytes.get(12..HEADER) == Some(&[0x08, 0x00])
            && self.bytes.get(HEADER + 9) == Some(&PROTOCOL_TCP)
        {
            return Ok((&self.bytes[HEADER..], self.wire_length - HEADER as u32));
        }
        layers::innermost(self.link, self.bytes, self.wire_length)
    }
}

/// The link layer of a capture (the registry at tcpdump.org/linktypes.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: four bytes of address family.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, with address and control or without.
    pub const PPP: LinkType = LinkType(9);
    /// IP packets, as some BSDs number them in files.
    pub const RAW_BSD: LinkType = LinkType(12);
    /// IP packets, as OpenBSD numbers them.
    pub const RAW_OPENBSD: LinkType = LinkType(14);
    /// PPP in frames as of HDLC, or Cisco HDLC.
    pub const PPP_SERIAL: LinkType = LinkType(50);
    /// A session of PPPoE.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// IP packets without a link layer.
    pub const RAW: LinkType = LinkType(101);
    /// Cisco HDLC.
    pub const C_HDLC: LinkType = LinkType(104);
    /// OpenBSD loopback: as NULL, in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked", version 1 (`tcpdump -i any`).
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// PPP as Linux's pppd records it, with the direction.
    pub const PPP_PPPD: LinkType = LinkType(166);
    /// IPv4 packets.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 packets.
    pub const IPV6: LinkType = LinkType(229);
    /// Records of Linux's NFLOG target.
    pub const NFLOG: LinkType = LinkType(239);
    /// Linux "cooked", version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
    /// No link layer, but a mark of this reader: the packet's time is none that can be counted.
    pub const UNTIMED: LinkType = LinkType(u16::MAX);
}

/// Reason why a capture file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// File that begins like neither pcap nor pcapng.
    #[error("neither a pcap nor a pcapng file")]
    UnknownFormat,
    /// File that ends in the middle of a record, as when the capturing program was killed; all records before are
    /// good.
    #[error("the file ends in the middle of the record at byte {offset}")]
    CutShort {
        /// Offset of the record, in bytes from the start of the file.
        offset: u64,
    },
    /// A field makes no sense.
    #[error("at byte {offset}: {what}")]
    Malformed {
        /// Offset of the record or block, in bytes from the start of the file.
        offset: u64,
        /// Fault of the record or block.
        what: &'static str,
    },
}

/// Reads pcap and pcapng files, told apart by their first bytes.
pub enum Reader<R> {
    /// A pcap file.
    Pcap(pcap::Reader<R>),
    /// A pcapng file.
    Pcapng(pcapng::Reader<R>),
}

impl<R: Read> Reader<R> {
    /// Reads the beginning of `source`, which needs no buffering of its own.
    pub fn new(source: R) -> Result<Reader<R>, Error> {
        let mut input = Input::new(source);
        let magic = match input.get(4) {
            Ok(Some(bytes)) => [bytes[0], bytes[1], bytes[2], bytes[3]],
            Ok(None) | Err(Error::CutShort { .. }) => return Err(Error::UnknownFormat),
            Err(error) => return Err(error),
        };
        if magic == pcapng::SECTION_HEADER.to_be_bytes() {
            Ok(Reader::Pcapng(pcapng::Reader::new(input)))
        } else {
            Ok(Reader::Pcap(pcap::Reader::new(input)?))
        }
    }

    /// The next packet. None at the end of the file. (Not an iterator: the record borrows the reader's buffer.)
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        match self {
            Reader::Pcap(reader) => reader.next_record(),
            Reader::Pcapng(reader) => reader.next_record(),
        }
    }
}

/// The longest record or block that is believed: more than any link layer has, and little enough that a hostile length
/// cannot take the memory.
pub(crate) const MAX_RECORD: usize = 1 << 24;

/// A window of a file: reads ahead in large pieces, so that a record costs neither a call nor a copy.
pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl<R: Read> Input<R> {
    /// Bytes read at once; a few times what a second-level cache holds gains nothing.
    const READ_AHEAD: usize = 1 << 18;

    pub(crate) fn new(source: R) -> Input<R> {
        Input { source, buffer: vec![0; Self::READ_AHEAD], start: 0, end: 0, offset: 0 }
    }

    /// The next `count` bytes without consuming them. None if the file ends right here.
    #[inline]
    pub(crate) fn get(&mut self, count: usize) -> Result<Option<&[u8]>, Error> {
        if self.end - self.start < count && !self.fill(count)? {
            return Ok(None);
        }
        Ok(Some(&self.buffer[self.start..self.start + count]))
    }

    /// Passes `count` bytes that [`Input::get`] gave.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// The last `count` bytes passed.
    #[inline]
    pub(crate) fn passed(&self, count: usize) -> &[u8] {
        &self.buffer[self.start - count..self.start]
    }

    /// Offset of the next byte in the file.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until `count` bytes are there. False if the file ends right here.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<bool, Error> {
        debug_assert!(count <= MAX_RECORD);
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < count {
            self.buffer.resize(count.next_power_of_two(), 0);
        }
        while self.end < count {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) if self.end == 0 => return Ok(false),
                Ok(0) => return Err(Error::CutShort { offset: self.offset }),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What is read through a decompressor ends so if its file was cut off.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(Error::CutShort { offset: self.offset });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Big,
    Little,
}

impl Order {
    #[inline]
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let two = [bytes[at], bytes[at + 1]];
        if self == Order::Big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }
    }

    #[inline]
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Order::Big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record that outlives its reader.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Read {
        pub(crate) t_ns: u64,
        pub(crate) wire_length: u32,
        pub(crate) link: LinkType,
        pub(crate) bytes: Vec<u8>,
    }

    impl Read {
        pub(crate) fn new(t_ns: u64, wire_length: u32, link: LinkType, bytes: &[u8]) -> Read {
            Read { t_ns, wire_length, link, bytes: bytes.to_vec() }
        }
    }

    /// Every record of a file, and how it ended.
    pub(crate) fn read(file: &[u8]) -> (Vec<Read>, Result<(), Error>) {
        read_from(file)
    }

    fn read_from(file: impl io::Read) -> (Vec<Read>, Result<(), Error>) {
        let mut records = Vec::new();
        let mut reader = match Reader::new(file) {
            Ok(reader) => reader,
            Err(error) => return (records, Err(error)),
        };
        loop {
            match reader.next_record() {
                Ok(Some(Record { t_ns, wire_length, link, bytes })) => {
                    records.push(Read::new(t_ns, wire_length, link, bytes));
                }
                Ok(None) => return (records, Ok(())),
                Err(error) => return (records, Err(error)),
            }
        }
    }

    fn ip_of(link: LinkType, bytes: &[u8]) -> Option<(Vec<u8>, u32)> {
        let record = Record { t_ns: 0, wire_length: bytes.len() as u32, link, bytes };
        record.ip().ok().map(|(ip, length)| (ip.to_vec(), length))
    }

    #[test]
    fn finds_the_ip_packet_behind_each_link_layer() {
        let behind = |header: &[u8]| [header, &[0x45, 0, 1, 2]].concat();
        let found = Some((vec![0x45, 0, 1, 2], 4));
        let macs = [0u8; 12];
        assert_eq!(ip_of(LinkType::ETHERNET, &behind(&[&macs[..], &[8, 0]].concat())), found);
        assert_eq!(ip_of(LinkType::ETHERNET, &behind(&[&macs[..], &[0x81, 0, 0, 5, 8, 0]].concat())), found);
        assert_eq!(ip_of(LinkType::ETHERNET, &behind(&[&macs[..], &[8, 6]].concat())), None, "ARP");
        assert_eq!(ip_of(LinkType::RAW, &behind(&[])), found);
        assert_eq!(ip_of(LinkType::NULL, &behind(&[2, 0, 0, 0])), found);
        assert_eq!(ip_of(LinkType::LINUX_SLL, &behind(&[&[0; 14][..], &[8, 0]].concat())), found);
        assert_eq!(ip_of(LinkType::LINUX_SLL2, &behind(&[&[0x86, 0xdd][..], &[0; 18]].concat())), found);
        assert_eq!(ip_of(LinkType(105), &behind(&[0; 24])), None, "802.11");
        assert_eq!(ip_of(LinkType::ETHERNET, &macs), None);
        assert_eq!(ip_of(LinkType::ETHERNET, &[0x81; 400].map(|_| 0x81)), None, "tags without end");
    }

    #[test]
    fn a_source_that_ends_before_it_should_is_cut_short_there() {
        /// Source that ends like a decompressor whose file was cut off.
        struct Broken<'a>(&'a [u8]);

        impl io::Read for Broken<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buffer) {
                    Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                    result => result,
                }
            }
        }

        let mut writer = pcap::Writer::new(Vec::new(), LinkType::RAW, 100).unwrap();
        writer.packet(1, 3, b"abc").unwrap();
        let whole = writer.get_mut().len() as u64;
        let (records, end) = read_from(Broken(writer.get_mut()));
        assert_eq!(records.len(), 1);
        assert!(matches!(end, Err(Error::CutShort { offset }) if offset == whole));
        assert!(matches!(read_from(Broken(b"ab")).1, Err(Error::UnknownFormat)));
    }

    #[test]
    fn a_file_of_another_format_says_so() {
        for bytes in [&b""[..], b"ab", b"hello, world, this is a text"] {
            assert!(matches!(Reader::new(bytes), Err(Error::UnknownFormat)));
        }
    }
}
