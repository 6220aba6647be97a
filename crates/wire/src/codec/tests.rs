//! Packets written are read back; layouts, lengths, checksums; hostile bytes.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::read::ecn;
use super::write::OptionBytes;
use super::*;
use crate::segment::{AccEcnCounters, Flags, Options};

const ENDS: Ends<Ipv4Addr> =
    Ends { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 1, 1), sport: 40000, dport: 5201 };
const ALL: Options =
    Options(Options::MSS.0 | Options::WSCALE.0 | Options::SACK_PERMITTED.0 | Options::TIMESTAMPS.0);

const ESTABLISHED: Options = Options(Options::TIMESTAMPS.0 | Options::ACCECN.0);

fn options_of(segment: &Segment, layout: SynLayout) -> Vec<u8> {
    OptionBytes::of(segment, layout).as_slice().to_vec()
}

#[test]
fn a_syn_of_each_system_has_its_layout() {
    let syn = Segment {
        flags: Flags::SYN,
        options: ALL,
        mss: 1460,
        wscale: 7,
        tsval: 0x01020304,
        ..Segment::default()
    };
    let mss = [2, 4, 5, 180];
    let timestamps = [8, 10, 1, 2, 3, 4, 0, 0, 0, 0];
    let layout = |layout| options_of(&syn, layout);
    assert_eq!(layout(SynLayout::Linux), [&mss[..], &[4, 2], &timestamps, &[1, 3, 3, 7]].concat());
    assert_eq!(layout(SynLayout::FreeBsd), [&mss[..], &[1, 3, 3, 7], &[4, 2], &timestamps].concat());
    let plain = Segment { options: Options(ALL.0 & !Options::TIMESTAMPS.0), wscale: 8, ..syn };
    assert_eq!(
        options_of(&plain, SynLayout::Windows),
        [&mss[..], &[1, 3, 3, 8], &[1, 1, 4, 2]].concat(),
        "Windows 7 sends no timestamps by default"
    );
    assert_eq!(options_of(&plain, SynLayout::FreeBsd), [&mss[..], &[1, 3, 3, 8], &[4, 2, 0, 0]].concat());
    assert_eq!(options_of(&plain, SynLayout::Linux), [&mss[..], &[1, 1, 4, 2], &[1, 3, 3, 8]].concat());
}

/// The layouts of `tcp_options_write` in Linux's tcp_output.c.
#[test]
fn counters_of_accurate_ecn_stand_behind_timestamps_and_in_the_padding_of_sack_blocks() {
    let mut segment = Segment { options: Options::ACCECN, ..Segment::default() };
    segment.accecn = AccEcnCounters::new(AccEcnCounters::ORDER_1);
    segment.accecn.push(0x01_0203);
    let mut blocked = segment;
    blocked.sack.push(7, 9);
    let block = [0, 0, 0, 7, 0, 0, 0, 9];
    assert_eq!(options_of(&segment, SynLayout::Linux), [174, 5, 1, 2, 3, 1, 1, 1]);
    assert_eq!(options_of(&blocked, SynLayout::Linux), [&[174, 5, 1, 2, 3, 1, 5, 10][..], &block].concat());
    blocked.accecn = AccEcnCounters::new(AccEcnCounters::ORDER_0);
    assert_eq!(options_of(&blocked, SynLayout::Linux), [&[172, 2, 5, 10][..], &block].concat());

    let options = Options(Options::MSS.0 | Options::SACK_PERMITTED.0 | Options::ACCECN.0);
    let syn = Segment { options, mss: 1460, flags: Flags::SYN, ..segment };
    let counters = [174, 5, 1, 2, 3, 1, 1, 1];
    assert_eq!(options_of(&syn, SynLayout::Linux), [&[2, 4, 5, 180][..], &counters, &[1, 1, 4, 2]].concat());
    let stamped = Segment { options: options | Options::TIMESTAMPS, ..syn };
    let timestamps = [4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        options_of(&stamped, SynLayout::Linux),
        [&[2, 4, 5, 180][..], &timestamps, &counters].concat()
    );
}

#[test]
fn every_layout_takes_the_bytes_that_a_segment_says() {
    for bits in 0..16 {
        for layout in [SynLayout::FreeBsd, SynLayout::Linux, SynLayout::Windows] {
            let syn = Segment { flags: Flags::SYN, options: Options(bits), ..Segment::default() };
            assert_eq!(options_of(&syn, layout).len() as u32, syn.option_bytes(), "{bits:04b} {layout:?}");
        }
    }
}

#[test]
fn a_fourth_sack_block_beside_timestamps_does_not_fit() {
    let mut segment = Segment { options: Options::TIMESTAMPS, flags: Flags::ACK, ..Segment::default() };
    (0..4).for_each(|block| segment.sack.push(block, block + 1));
    let mut bytes = Vec::new();
    write(&mut bytes, &segment, &ENDS, SynLayout::Linux, 1, Payload::Bytes(&[]));
    let read = parse(&bytes, bytes.len() as u32).unwrap();
    assert_eq!(read.segment.sack.as_slice(), &segment.sack.as_slice()[..3]);
    assert_eq!(bytes.len(), 80);
}

#[test]
fn snaplen_cuts_the_packet_but_not_its_lengths() {
    let segment =
        Segment { len: 1448, options: Options::TIMESTAMPS, flags: Flags::ACK, ..Segment::default() };
    let mut bytes = vec![0xee; 3];
    let length = write(&mut bytes, &segment, &ENDS, SynLayout::Linux, 9, Payload::Zeros { snaplen: 60 });
    assert_eq!((length, bytes.len()), (1500, 63));
    let read = parse(&bytes[3..], length).unwrap();
    assert_eq!((read.segment.len, read.payload.len(), read.ip_id), (1448, 8, 9));
    assert_eq!(read.checksum_ok(), None);
    let mut whole = Vec::new();
    write(&mut whole, &segment, &ENDS, SynLayout::Linux, 9, Payload::Zeros { snaplen: u32::MAX });
    assert_eq!(parse(&whole, length).unwrap().checksum_ok(), Some(true));
    assert_eq!(whole[..60], bytes[3..]);
}

#[test]
fn a_packet_above_64_kib_is_written_with_length_zero_and_read_back() {
    let segment = Segment { len: 100_000, flags: Flags::ACK, ..Segment::default() };
    let mut bytes = Vec::new();
    let length = write(&mut bytes, &segment, &ENDS, SynLayout::Linux, 0, Payload::Zeros { snaplen: 96 });
    assert_eq!(bytes[2..4], [0, 0]);
    assert_eq!(parse(&bytes, length).unwrap().segment.len, 100_000);
}

#[test]
fn link_layer_padding_is_no_payload() {
    let mut bytes = Vec::new();
    let segment = Segment { flags: Flags::ACK, ..Segment::default() };
    write(&mut bytes, &segment, &ENDS, SynLayout::Linux, 0, Payload::Bytes(&[]));
    bytes.resize(46, 0);
    let read = parse(&bytes, 46).unwrap();
    assert_eq!((read.segment.len, read.payload.len(), read.checksum_ok()), (0, 0, Some(true)));
}

#[test]
fn what_is_not_tcp_says_so() {
    let mut udp = Vec::new();
    let segment = Segment { flags: Flags::ACK, ..Segment::default() };
    write(&mut udp, &segment, &ENDS, SynLayout::Linux, 0, Payload::Bytes(&[]));
    let reason = |bytes: &[u8]| parse(bytes, bytes.len() as u32).map(|_| ()).unwrap_err();
    let changed = |at: usize, value: u8| {
        let mut bytes = udp.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(reason(&changed(9, 17)), NotTcp::Protocol(17));
    assert_eq!(reason(&changed(0, 0x55)), NotTcp::Version(5));
    assert_eq!(reason(&changed(7, 1)), NotTcp::Fragment);
    assert_eq!(reason(&changed(0, 0x44)), NotTcp::Malformed);
    assert_eq!(reason(&changed(3, 39)), NotTcp::Malformed, "shorter than the headers");
    assert_eq!(reason(&changed(32, 0xf0)), NotTcp::Malformed, "options beyond the packet");
    assert_eq!(reason(&udp[..30]), NotTcp::CutShort);
    assert_eq!(reason(&[]), NotTcp::CutShort);
}

#[test]
fn extension_headers_of_ipv6_are_passed() {
    let ends = Ends { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::LOCALHOST, sport: 1, dport: 2 };
    let segment = Segment { seq: 77, flags: Flags::ACK, ..Segment::default() };
    let mut bytes = Vec::new();
    write(&mut bytes, &segment, &ends, SynLayout::Linux, 0, Payload::Bytes(&[]));
    let behind = |headers: &[(u8, u8)]| {
        let mut packet = bytes.clone();
        // From the last to the first, each between the IPv6 header and what is there already.
        for &(kind, length) in headers.iter().rev() {
            let units = usize::from(length);
            let size = match kind {
                44 => 8,
                51 => (units + 2) * 4,
                _ => (units + 1) * 8,
            };
            let mut header = vec![0; size];
            (header[0], header[1]) = (packet[6], if kind == 44 { 0 } else { length });
            packet.splice(40..40, header);
            packet[6] = kind;
        }
        let length = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        packet
    };
    let check = |headers: &[(u8, u8)]| {
        let packet = behind(headers);
        let read = parse(&packet, packet.len() as u32).unwrap();
        assert_eq!((read.segment.seq, read.segment.len, read.ends.dport), (77, 0, 2), "{headers:?}");
        assert_eq!((read.ip_bytes, read.checksum_ok()), (packet.len() as u32, Some(true)), "{headers:?}");
        assert_eq!(parse(&packet[..packet.len() - 20], packet.len() as u32).unwrap_err(), NotTcp::CutShort);
    };
    // Hop-by-hop, routing, fragment (the first), AH, destination, mobility, host identity, Shim6: every length there is.
    for kind in [0, 43, 44, 51, 60, 135, 139, 140] {
        (0..=u8::MAX).filter(|length| kind != 51 || *length > 0).for_each(|length| check(&[(kind, length)]));
    }
    // In the order of RFC 8200 section 4.1, some longer than others.
    check(&[(0, 0), (60, 255), (43, 4), (44, 0), (51, 4), (60, 31)]);
    // What is encrypted, and what has nothing behind it, is not TCP.
    for (kind, name) in [(50, "ESP"), (59, "IP protocol 59")] {
        let mut packet = behind(&[(0, 3)]);
        packet[40] = kind;
        assert_eq!(parse(&packet, packet.len() as u32).unwrap_err().to_string(), name);
    }
}

fn segments() -> impl Strategy<Value = Segment> {
    let sack = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
    let numbers = any::<(u32, u32, u32, u32, u16, u16, u8)>();
    let counters = (any::<bool>(), prop::collection::vec(any::<u32>(), 0..=3));
    (numbers, sack, 0..0x200u16, 0..32u8, 0..4u8, 0..200u32, counters).prop_map(
        |((seq, ack, tsval, tsecr, window, mss, wscale), blocks, flags, options, class, len, counters)| {
            let flags = Flags(flags);
            let mut segment =
                Segment { seq, ack, window, flags, len, ecn: ecn(class), frames: 1, ..Segment::default() };
            segment.options = Options(if flags.has(Flags::SYN) { options } else { options & ESTABLISHED.0 });
            if segment.options.has(Options::MSS) {
                segment.mss = mss;
            }
            if segment.options.has(Options::WSCALE) {
                segment.wscale = wscale;
            }
            if segment.options.has(Options::TIMESTAMPS) {
                (segment.tsval, segment.tsecr) = (tsval, tsecr);
            }
            if segment.options.has(Options::ACCECN) {
                let [order_0, order_1] = [AccEcnCounters::ORDER_0, AccEcnCounters::ORDER_1];
                segment.accecn = AccEcnCounters::new(if counters.0 { order_1 } else { order_0 });
                counters.1.iter().for_each(|&counter| segment.accecn.push(counter));
            }
            let fitting = (MAX_OPTIONS as u32 - segment.option_bytes()).saturating_sub(4) / 8;
            blocks.iter().take(fitting as usize).for_each(|&(left, right)| segment.sack.push(left, right));
            segment
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(segment in segments(), layout in 0..3, src: u128, dst: u128, data: [u8; 200]) {
        let layout = [SynLayout::FreeBsd, SynLayout::Linux, SynLayout::Windows][layout as usize];
        let data = &data[..segment.len as usize];
        let mut v4 = Vec::new();
        let ends = Ends { src: Ipv4Addr::from(src as u32), dst: Ipv4Addr::from(dst as u32), sport: 1, dport: 2 };
        let length = write(&mut v4, &segment, &ends, layout, 7, Payload::Bytes(data));
        prop_assert_eq!(length, segment.tcp_bytes() + 20);
        let read = parse(&v4, length).unwrap();
        prop_assert_eq!((read.segment, read.ip_bytes), (segment, length));
        prop_assert_eq!(read.payload, data);
        prop_assert_eq!(read.checksum_ok(), Some(true));
        prop_assert_eq!(read.ends.src, IpAddr::V4(ends.src));
        prop_assert_eq!(checksum::of(sum(&v4[..20])), 0, "the header checksum");

        let mut v6 = Vec::new();
        let ends = Ends { src: Ipv6Addr::from(src), dst: Ipv6Addr::from(dst), sport: 1, dport: 2 };
        let length = write(&mut v6, &segment, &ends, layout, 0x5_4321, Payload::Bytes(data));
        prop_assert_eq!(length, segment.tcp_bytes() + 40);
        let read = parse(&v6, length).unwrap();
        prop_assert_eq!((read.segment, read.ip_bytes), (segment, length));
        prop_assert_eq!(read.checksum_ok(), Some(true));
        prop_assert_eq!(read.ends.dst, IpAddr::V6(ends.dst));
    }

    #[test]
    fn one_flipped_bit_is_noticed(segment in segments(), data: [u8; 200], at: prop::sample::Index, bit in 0..8u8) {
        let mut bytes = Vec::new();
        let data = &data[..segment.len as usize];
        let length = write(&mut bytes, &segment, &ENDS, SynLayout::Linux, 7, Payload::Bytes(data));
        // Behind the IP header, but not in the data offset, which moves the border between header and payload.
        let at = 20 + at.index(bytes.len() - 20);
        prop_assume!(at != 32);
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(parse(&bytes, length).unwrap().checksum_ok(), Some(false));
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), wire_length: u32, version in 0..3) {
        // Most random bytes fail at the first look; make some that get further.
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x60, *first][version as usize];
        }
        if let Some(protocol) = bytes.get_mut([9, 6, 9][version as usize]) {
            *protocol = PROTOCOL_TCP;
        }
        if let Some(flags) = bytes.get_mut(6).filter(|_| version == 0) {
            *flags = 0x40;
        }
        if let Some(offset) = bytes.get_mut(7).filter(|_| version == 0) {
            *offset = 0;
        }
        if let Ok(packet) = parse(&bytes, wire_length) {
            prop_assert!(packet.payload.len() as u32 <= packet.segment.len);
            packet.checksum_ok();
        }
    }
}
