//! pcap files (draft-ietf-opsawg-pcap): writing with nanoseconds, reading of every byte order and resolution.

use std::io::{self, Read, Write};

use super::{Error, Input, LinkType, MAX_RECORD, Order, Record};
use crate::codec::{self, Address, Ends, Payload, SynLayout};
use crate::datagram;
use crate::segment::{Ecn, Segment};

/// Writes a pcap file with nanosecond timestamps. Nothing is allocated for a packet once the first one is written.
pub struct Writer<W> {
    out: W,
    link: LinkType,
    snaplen: u32,
    scratch: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the file's header. `link` is [`LinkType::RAW`] or [`LinkType::ETHERNET`]; `snaplen` is how many bytes of
    /// each packet are kept, with the link-layer header.
    ///
    /// # Panics
    ///
    /// With another link type.
    pub fn new(mut out: W, link: LinkType, snaplen: u32) -> io::Result<Writer<W>> {
        assert!(matches!(link, LinkType::RAW | LinkType::ETHERNET), "{link:?} is not written");
        let mut header = [0u8; FILE_HEADER];
        header[0..4].copy_from_slice(&MAGIC_NS.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&snaplen.to_le_bytes());
        header[20..24].copy_from_slice(&u32::from(link.0).to_le_bytes());
        out.write_all(&header)?;
        Ok(Writer { out, link, snaplen, scratch: Vec::new() })
    }

    /// Writes a segment as an IP packet with a payload of zeros; `t_ns` is nanoseconds since 1970, or since the start
    /// of a simulation, `label` the identification of IPv4 or the flow label of IPv6.
    #[inline]
    pub fn tcp<A: Address>(
        &mut self,
        t_ns: u64,
        segment: &Segment,
        ends: &Ends<A>,
        layout: SynLayout,
        label: u32,
    ) -> io::Result<()> {
        self.ip(t_ns, ends, |buf, snaplen| {
            codec::write(buf, segment, ends, layout, label, Payload::Zeros { snaplen })
        })
    }

    /// Writes a datagram with `length` bytes of payload, all zeros, as an IP packet; otherwise as [`Writer::tcp`].
    pub fn datagram<A: Address>(
        &mut self,
        t_ns: u64,
        kind: datagram::Kind,
        ends: &Ends<A>,
        ecn: Ecn,
        length: u32,
    ) -> io::Result<()> {
        self.ip(t_ns, ends, |buf, snaplen| datagram::write(buf, kind, ends, ecn, length, snaplen))
    }

    /// Writes the packet that `write` appends, given how much of it is kept, behind its link layer.
    #[inline]
    fn ip<A: Address>(
        &mut self,
        t_ns: u64,
        ends: &Ends<A>,
        write: impl FnOnce(&mut Vec<u8>, u32) -> u32,
    ) -> io::Result<()> {
        self.scratch.clear();
        self.scratch.resize(RECORD_HEADER, 0);
        let mut header = 0;
        if self.link == LinkType::ETHERNET {
            header = ETHERNET_HEADER as u32;
            // Locally administered addresses made of the IP addresses, so that a viewer tells the hosts apart.
            for address in [ends.dst, ends.src] {
                self.scratch.extend_from_slice(&[0x02, 0x00]);
                self.scratch.extend_from_slice(&address.tail());
            }
            self.scratch.extend_from_slice(&A::ETHERTYPE);
        }
        let length = header + write(&mut self.scratch, self.snaplen.saturating_sub(header));
        self.scratch.truncate(RECORD_HEADER + self.snaplen as usize);
        let kept = (self.scratch.len() - RECORD_HEADER) as u32;
        self.scratch[..RECORD_HEADER].copy_from_slice(&record_header(t_ns, kept, length));
        self.out.write_all(&self.scratch)
    }

    /// Writes a packet that begins with the file's link layer and was `wire_length` bytes long.
    pub fn packet(&mut self, t_ns: u64, wire_length: u32, bytes: &[u8]) -> io::Result<()> {
        let kept = bytes.len().min(self.snaplen as usize);
        self.out.write_all(&record_header(t_ns, kept as u32, wire_length))?;
        self.out.write_all(&bytes[..kept])
    }

    /// Writer of the file; a simulation takes what is finished from here.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }
}

/// Reads a pcap file; [`super::Reader`] opens it.
pub struct Reader<R> {
    input: Input<R>,
    order: Order,
    link: LinkType,
    /// Nanoseconds in one unit of the sub-second field.
    unit_ns: u32,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(mut input: Input<R>) -> Result<Reader<R>, Error> {
        let header = input.get(FILE_HEADER)?.ok_or(Error::UnknownFormat)?;
        let (order, unit_ns) = match Order::Little.u32(header, 0) {
            MAGIC_US => (Order::Little, 1000),
            MAGIC_NS => (Order::Little, 1),
            magic if magic.swap_bytes() == MAGIC_US => (Order::Big, 1000),
            magic if magic.swap_bytes() == MAGIC_NS => (Order::Big, 1),
            _ => return Err(Error::UnknownFormat),
        };
        // The upper bits say whether frames carry a checksum at their end.
        let link = LinkType(order.u32(header, 20) as u16);
        input.consume(FILE_HEADER);
        Ok(Reader { input, order, link, unit_ns })
    }

    /// The next packet. None at the end of the file.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        let order = self.order;
        let offset = self.input.offset();
        let Some(header) = self.input.get(RECORD_HEADER)? else { return Ok(None) };
        let seconds = u64::from(order.u32(header, 0));
        let fraction = u64::from(order.u32(header, 4));
        let kept = order.u32(header, 8) as usize;
        let wire_length = order.u32(header, 12);
        if kept > MAX_RECORD - RECORD_HEADER {
            return Err(Error::Malformed { offset, what: "a record of more than 16 MiB" });
        }
        // The header is there, so the file does not end here: it has the whole record or is cut short.
        self.input.get(RECORD_HEADER + kept)?;
        self.input.consume(RECORD_HEADER + kept);
        Ok(Some(Record {
            t_ns: seconds * 1_000_000_000 + fraction * u64::from(self.unit_ns),
            // Some writers leave the length at 0 or below what they kept.
            wire_length: wire_length.max(kept as u32),
            link: self.link,
            bytes: self.input.passed(kept),
        }))
    }
}

const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const ETHERNET_HEADER: usize = 14;

fn record_header(t_ns: u64, kept: u32, wire_length: u32) -> [u8; RECORD_HEADER] {
    let mut header = [0u8; RECORD_HEADER];
    // Seconds are unsigned and last until 2106.
    header[0..4].copy_from_slice(&((t_ns / 1_000_000_000) as u32).to_le_bytes());
    header[4..8].copy_from_slice(&((t_ns % 1_000_000_000) as u32).to_le_bytes());
    header[8..12].copy_from_slice(&kept.to_le_bytes());
    header[12..16].copy_from_slice(&wire_length.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::capture;
    use crate::capture::tests::{Read, read};
    use crate::segment::{Flags, Options};
    use proptest::prelude::*;

    const ENDS: Ends<Ipv4Addr> =
        Ends { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 1, 1), sport: 40000, dport: 5201 };

    fn file(order: Order, magic: u32, records: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let word = |value: u32| if order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut bytes = Vec::new();
        for value in [magic, 0, 0, 0, 65535, 101] {
            bytes.extend(word(value));
        }
        for (seconds, fraction, data) in records {
            for value in [*seconds, *fraction, data.len() as u32, 1500] {
                bytes.extend(word(value));
            }
            bytes.extend_from_slice(data);
        }
        bytes
    }

    #[test]
    fn reads_both_byte_orders_and_resolutions() {
        for order in [Order::Big, Order::Little] {
            for (magic, ns) in [(MAGIC_US, 7_000), (MAGIC_NS, 7)] {
                let (records, end) = read(&file(order, magic, &[(3, 7, b"abc"), (4, 0, b"")]));
                assert!(end.is_ok());
                assert_eq!(
                    records,
                    [
                        Read::new(3_000_000_000 + ns, 1500, LinkType::RAW, b"abc"),
                        Read::new(4_000_000_000, 1500, LinkType::RAW, b"")
                    ],
                    "{order:?} {magic:x}"
                );
            }
        }
    }

    #[test]
    fn a_file_cut_short_gives_what_is_whole_and_says_where_it_ends() {
        let whole = file(Order::Little, MAGIC_NS, &[(3, 7, b"abc"), (4, 0, b"defg")]);
        for cut in 44..whole.len() {
            let (records, end) = read(&whole[..cut]);
            assert_eq!(records.len(), 1);
            match end {
                Ok(()) => assert_eq!(cut, 43),
                Err(Error::CutShort { offset }) => assert_eq!(offset, 43),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_refused_before_memory_is_taken() {
        let mut bytes = file(Order::Little, MAGIC_NS, &[(3, 7, b"abc")]);
        bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(read(&bytes).1, Err(Error::Malformed { offset: 24, .. })));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let segment = Segment {
            seq: 5,
            len: 1448,
            flags: Flags::ACK,
            options: Options::TIMESTAMPS,
            frames: 1,
            ..Segment::default()
        };
        for (link, header) in [(LinkType::RAW, 0), (LinkType::ETHERNET, 14)] {
            let mut writer = Writer::new(Vec::new(), link, 96).unwrap();
            writer.tcp(1_500_000_000_000_000_007, &segment, &ENDS, SynLayout::FreeBsd, 1).unwrap();
            let mut reader = capture::Reader::new(&writer.get_mut()[..]).unwrap();
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!((record.t_ns, record.wire_length), (1_500_000_000_000_000_007, 1500 + header));
            assert_eq!(record.bytes.len(), 96);
            let (ip, length) = record.ip().unwrap();
            let packet = codec::parse(ip, length).unwrap();
            assert_eq!((packet.segment, packet.ends.sport), (segment, 40000));
            assert!(reader.next_record().unwrap().is_none());
        }
    }

    #[test]
    fn packets_are_taken_while_the_file_goes_on() {
        let mut writer = Writer::new(Vec::new(), LinkType::RAW, 65535).unwrap();
        let mut file = std::mem::take(writer.get_mut());
        for t_ns in 0..3 {
            writer.packet(t_ns, 4, b"Eabc").unwrap();
            file.append(writer.get_mut());
        }
        let (records, end) = read(&file);
        assert!(end.is_ok());
        assert_eq!(records.iter().map(|record| record.t_ns).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_snaplen_within_the_link_header_is_kept() {
        let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 10).unwrap();
        writer.tcp(0, &Segment { len: 100, ..Segment::default() }, &ENDS, SynLayout::Linux, 0).unwrap();
        let (records, end) = read(writer.get_mut());
        assert!(end.is_ok());
        assert_eq!((records[0].wire_length, records[0].bytes.len()), (154, 10));
    }

    proptest! {
        #[test]
        fn hostile_files_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), lengths in any::<[u8; 8]>(), ns: bool) {
            let magic = if ns { MAGIC_NS } else { MAGIC_US };
            if bytes.len() >= 44 {
                bytes[..4].copy_from_slice(&magic.to_le_bytes());
                bytes[20] = lengths[0];
                bytes[21..24].fill(0);
                // A record length that may fit the file.
                bytes[32] = lengths[1];
                bytes[33..36].fill(0);
            }
            let (records, _) = read(&bytes);
            prop_assert!(records.iter().map(|record| record.bytes.len()).sum::<usize>() <= bytes.len());
        }
    }
}
