//! Reading of pcapng files (draft-ietf-opsawg-pcapng): several sections and interfaces, any byte order and resolution.

use std::io::Read;

use super::{Error, Input, LinkType, MAX_RECORD, Order, Record};

/// Reads a pcapng file; [`super::Reader`] opens it. Blocks that hold no packet are passed over, and so are
/// simple packet blocks, which have no time. A packet before 1970 or after 2554 has the time of the one before it, and
/// [`LinkType::UNTIMED`].
pub struct Reader<R> {
    input: Input<R>,
    order: Order,
    interfaces: Vec<Interface>,
    /// Time of the last packet.
    t_ns: u64,
}

/// The type of the block every section begins with; the same in both byte orders.
pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;

impl<R: Read> Reader<R> {
    /// A reader at a section header block.
    pub(crate) fn new(input: Input<R>) -> Reader<R> {
        Reader { input, order: Order::Little, interfaces: Vec::new(), t_ns: 0 }
    }

    /// The next packet. None at the end of the file.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        loop {
            let offset = self.input.offset();
            let malformed = |what| Error::Malformed { offset, what };
            let Some(header) = self.input.get(12)? else { return Ok(None) };
            let kind = self.order.u32(header, 0);
            if kind == SECTION_HEADER {
                self.order = match Order::Little.u32(header, 8) {
                    BYTE_ORDER_MAGIC => Order::Little,
                    magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => Order::Big,
                    _ => return Err(malformed("a section without the byte-order magic")),
                };
                self.interfaces.clear();
            }
            let order = self.order;
            let length = order.u32(header, 4) as usize;
            if length < 12 || !length.is_multiple_of(4) {
                return Err(malformed("a block length that is not a multiple of four, or below 12"));
            }
            if length > MAX_RECORD {
                return Err(malformed("a block of more than 16 MiB"));
            }
            let block = self.input.get(length)?.unwrap_or_default();
            if order.u32(block, length - 4) as usize != length {
                return Err(malformed("a block whose two lengths differ"));
            }
            let body = &block[8..length - 4];
            match kind {
                INTERFACE_DESCRIPTION => {
                    if self.interfaces.len() == MAX_INTERFACES {
                        return Err(malformed("a section with more than 65,536 interfaces"));
                    }
                    self.interfaces.push(Interface::parse(order, body).map_err(malformed)?);
                }
                ENHANCED_PACKET | PACKET => {
                    if body.len() < 20 {
                        return Err(malformed("a packet block below its own header"));
                    }
                    // The obsolete packet block counts drops in the upper half.
                    let id = if kind == PACKET { u32::from(order.u16(body, 0)) } else { order.u32(body, 0) };
                    let Some(&interface) = self.interfaces.get(id as usize) else {
                        return Err(malformed("a packet of an interface that is not described"));
                    };
                    let ticks = u64::from(order.u32(body, 4)) << 32 | u64::from(order.u32(body, 8));
                    let kept = order.u32(body, 12) as usize;
                    let wire_length = order.u32(body, 16);
                    if kept > body.len() - 20 {
                        return Err(malformed("a packet longer than its block"));
                    }
                    let time = interface.nanoseconds(ticks);
                    let link = if time.is_some() { interface.link } else { LinkType::UNTIMED };
                    self.t_ns = time.unwrap_or(self.t_ns);
                    self.input.consume(length);
                    let bytes = &self.input.passed(length)[28..28 + kept];
                    let wire_length = wire_length.max(kept as u32);
                    return Ok(Some(Record { t_ns: self.t_ns, wire_length, link, bytes }));
                }
                _ => {}
            }
            self.input.consume(length);
        }
    }
}

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// The most interfaces of a section that are believed: a file that is compressed may hold any number of blocks.
const MAX_INTERFACES: usize = 1 << 16;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const ENHANCED_PACKET: u32 = 6;

/// Interface of a section: its link layer, and how its clock counts.
#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    ticks_per_second: u64,
    offset_s: i64,
}

impl Interface {
    fn parse(order: Order, body: &[u8]) -> Result<Interface, &'static str> {
        const OPTION_END: u16 = 0;
        const IF_TSRESOL: u16 = 9;
        const IF_TSOFFSET: u16 = 14;
        if body.len() < 8 {
            return Err("an interface block below its own header");
        }
        let mut interface =
            Interface { link: LinkType(order.u16(body, 0)), ticks_per_second: 1_000_000, offset_s: 0 };
        let mut options = &body[8..];
        while options.len() >= 4 {
            let (code, length) = (order.u16(options, 0), usize::from(order.u16(options, 2)));
            let Some(value) = options.get(4..4 + length) else {
                return Err("an option longer than its block");
            };
            match (code, length) {
                (OPTION_END, _) => break,
                (IF_TSRESOL, 1) => {
                    // The high bit chooses powers of two, otherwise of ten.
                    let exponent = u32::from(value[0] & 0x7f);
                    let base: u64 = if value[0] & 0x80 == 0 { 10 } else { 2 };
                    interface.ticks_per_second =
                        base.checked_pow(exponent).ok_or("a clock finer than 64 bits can count")?;
                }
                (IF_TSOFFSET, 8) => {
                    let (first, second) = (u64::from(order.u32(value, 0)), u64::from(order.u32(value, 4)));
                    let offset =
                        if order == Order::Big { first << 32 | second } else { second << 32 | first };
                    interface.offset_s = offset as i64;
                }
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(interface)
    }

    /// Nanoseconds since 1970, rounded down. None if they do not fit.
    #[inline]
    fn nanoseconds(self, ticks: u64) -> Option<u64> {
        if self.offset_s == 0 {
            match self.ticks_per_second {
                1_000_000_000 => return Some(ticks),
                1_000_000 => return ticks.checked_mul(1000),
                _ => {}
            }
        }
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        let offset_ns = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(i128::try_from(ns).ok()? + offset_ns).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::tests::{Read, read};
    use proptest::prelude::*;

    /// Builds pcapng files block by block.
    struct File {
        order: Order,
        bytes: Vec<u8>,
    }

    impl File {
        fn new(order: Order) -> File {
            let mut file = File { order, bytes: Vec::new() };
            file.section();
            file
        }

        fn word(&self, value: u32) -> [u8; 4] {
            if self.order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
        }

        fn half(&self, value: u16) -> [u8; 2] {
            if self.order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
        }

        fn block(&mut self, kind: u32, body: &[u8]) {
            let padded = body.len().next_multiple_of(4);
            let length = self.word(12 + padded as u32);
            let kind = self.word(kind);
            self.bytes.extend(kind);
            self.bytes.extend(length);
            self.bytes.extend(body);
            self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
            self.bytes.extend(length);
        }

        fn section(&mut self) {
            let body = [&self.word(BYTE_ORDER_MAGIC)[..], &self.half(1), &self.half(0), &[0xff; 8]].concat();
            self.block(SECTION_HEADER, &body);
        }

        fn interface(&mut self, link: LinkType, options: &[(u16, &[u8])]) {
            let mut body = [&self.half(link.0)[..], &[0; 2], &self.word(0)].concat();
            for (code, value) in options {
                body.extend(self.half(*code));
                body.extend(self.half(value.len() as u16));
                body.extend(*value);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            self.block(INTERFACE_DESCRIPTION, &body);
        }

        fn packet(&mut self, interface: u32, ticks: u64, data: &[u8]) {
            let words = [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, 1500];
            let mut body = words.map(|value| self.word(value)).concat();
            body.extend_from_slice(data);
            self.block(ENHANCED_PACKET, &body);
        }
    }

    #[test]
    fn reads_sections_interfaces_and_resolutions_in_both_byte_orders() {
        for order in [Order::Big, Order::Little] {
            let mut file = File::new(order);
            file.interface(LinkType::ETHERNET, &[]);
            file.interface(LinkType::RAW, &[(2, b"eth0"), (9, &[9]), (0, &[])]);
            file.packet(0, 1_500_000, b"abcde");
            file.block(0x0bad, b"unknown block");
            file.packet(1, 1_500_000, b"fg");
            file.section();
            file.interface(LinkType::RAW, &[(9, &[0x80 | 10])]);
            file.packet(0, 1024 + 512, b"h");
            let (records, end) = read(&file.bytes);
            assert!(end.is_ok());
            assert_eq!(
                records,
                [
                    Read::new(1_500_000_000, 1500, LinkType::ETHERNET, b"abcde"),
                    Read::new(1_500_000, 1500, LinkType::RAW, b"fg"),
                    Read::new(1_500_000_000, 1500, LinkType::RAW, b"h")
                ],
                "{order:?}"
            );
        }
    }

    #[test]
    fn the_time_offset_of_an_interface_is_added() {
        for order in [Order::Big, Order::Little] {
            let mut file = File::new(order);
            let offset = if order == Order::Big { (-2i64).to_be_bytes() } else { (-2i64).to_le_bytes() };
            file.interface(LinkType::RAW, &[(14, &offset)]);
            file.packet(0, 5_000_000, b"");
            file.packet(0, 1_000_000, b"before 1970");
            file.packet(0, 6_000_000, b"");
            let (records, end) = read(&file.bytes);
            assert!(end.is_ok());
            assert_eq!(
                records,
                [
                    Read::new(3_000_000_000, 1500, LinkType::RAW, b""),
                    Read::new(3_000_000_000, 1500, LinkType::UNTIMED, b"before 1970"),
                    Read::new(4_000_000_000, 1500, LinkType::RAW, b"")
                ]
            );
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_place() {
        let mut file = File::new(Order::Little);
        let start = file.bytes.len();
        file.packet(0, 0, b"");
        assert!(
            matches!(read(&file.bytes).1, Err(Error::Malformed { offset, .. }) if offset == start as u64)
        );

        let mut file = File::new(Order::Little);
        file.interface(LinkType::RAW, &[]);
        let start = file.bytes.len();
        file.packet(0, 0, b"abcd");
        let wrong = |at: usize, value: u8| {
            let mut bytes = file.bytes.clone();
            bytes[start + at] = value;
            matches!(read(&bytes).1, Err(Error::Malformed { offset, .. }) if offset == start as u64)
        };
        assert!(wrong(20, 5), "a packet longer than its block");
        assert!(wrong(4, 13), "an odd length");
        assert!(wrong(file.bytes.len() - start - 4, 40), "lengths that differ");
        let cut = &file.bytes[..file.bytes.len() - 1];
        assert!(matches!(read(cut).1, Err(Error::CutShort { offset }) if offset == start as u64));
    }

    #[test]
    fn interfaces_without_end_are_refused() {
        let mut file = File::new(Order::Little);
        for _ in 0..MAX_INTERFACES {
            file.interface(LinkType::RAW, &[]);
        }
        file.packet(MAX_INTERFACES as u32 - 1, 0, b"");
        let start = file.bytes.len() as u64;
        file.interface(LinkType::RAW, &[]);
        let (records, end) = read(&file.bytes);
        assert_eq!(records.len(), 1);
        assert!(matches!(end, Err(Error::Malformed { offset, .. }) if offset == start));
    }

    proptest! {
        #[test]
        fn hostile_files_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), big: bool) {
            let mut file = File::new(if big { Order::Big } else { Order::Little });
            file.interface(LinkType::ETHERNET, &[(9, &[6]), (14, &[0; 8])]);
            file.packet(0, 77, &[0x45; 30]);
            file.packet(0, 78, &[0x60; 50]);
            let mut bytes = file.bytes;
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            let (records, _) = read(&bytes);
            prop_assert!(records.len() <= 2);
        }
    }
}
