//! Captures written packet by packet, and what is read of them.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use wire::capture::LinkType;
use wire::codec::{Ends, SynLayout};
use wire::{Flags, Options, Segment, pcap};

use crate::connection::Direction::{Backward, Forward};
use crate::pairs::{self, Sightings};
use crate::series::{Series, Stream};
use crate::throughput::{Count, Window, Windows};
use crate::{Connections, Skipped, read};

const ENDS: Ends<Ipv4Addr> =
    Ends { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 1, 1), sport: 40000, dport: 5201 };
const MS: u64 = 1_000_000;

/// A capture that is written line by line.
struct Tape {
    writer: pcap::Writer<Vec<u8>>,
    ends: Ends<Ipv4Addr>,
    /// Initial sequence numbers of both sides.
    isn: [u32; 2],
    packets: u16,
}

impl Tape {
    fn new(isn: [u32; 2]) -> Tape {
        let writer = pcap::Writer::new(Vec::new(), LinkType::ETHERNET, 100).unwrap();
        Tape { writer, ends: ENDS, isn, packets: 0 }
    }

    fn put(&mut self, t_ms: u64, forward: bool, segment: Segment) {
        self.put_numbered(t_ms * MS, forward, segment, self.packets);
        self.packets += 1;
    }

    fn put_numbered(&mut self, t_ns: u64, forward: bool, segment: Segment, ip_id: u16) {
        let ends = if forward { self.ends } else { self.ends.reversed() };
        self.writer.ipv4(t_ns, &segment, &ends, SynLayout::Linux, ip_id).unwrap();
    }

    fn handshake(&mut self, t_ms: u64) {
        let syn = Segment {
            seq: self.isn[0],
            flags: Flags::SYN,
            options: Options::MSS | Options::WSCALE,
            mss: 1460,
            wscale: 3,
            window: 65535,
            ..Segment::default()
        };
        self.put(t_ms, true, syn);
        let answer = Segment {
            seq: self.isn[1],
            ack: self.isn[0].wrapping_add(1),
            flags: Flags::SYN | Flags::ACK,
            wscale: 5,
            ..syn
        };
        self.put(t_ms + 10, false, answer);
        self.put(t_ms + 20, true, self.data(0, 0));
    }

    /// From the opening side: `len` bytes from `offset` on.
    fn data(&self, offset: u32, len: u32) -> Segment {
        let (seq, ack) = (self.isn[0].wrapping_add(1).wrapping_add(offset), self.isn[1].wrapping_add(1));
        Segment { seq, ack, len, flags: Flags::ACK, window: 100, ..Segment::default() }
    }

    /// From the other side: everything below `offset` arrived.
    fn ack(&self, offset: u32) -> Segment {
        let (seq, ack) = (self.isn[1].wrapping_add(1), self.isn[0].wrapping_add(1).wrapping_add(offset));
        Segment { seq, ack, flags: Flags::ACK, window: 200, ..Segment::default() }
    }

    fn file(&mut self) -> &[u8] {
        self.writer.get_mut()
    }
}

fn connections(file: &[u8]) -> Connections {
    let mut connections = Connections::new();
    assert_eq!(read(file, &mut connections, |_, _| {}).unwrap(), Skipped::default());
    connections
}

/// A transfer whose second of four segments is lost and sent again.
fn one_loss(isn: [u32; 2]) -> Tape {
    let mut tape = Tape::new(isn);
    tape.handshake(0);
    for n in 0..4 {
        tape.put(20 + u64::from(n), true, tape.data(n * 1000, 1000));
    }
    tape.put(40, false, tape.ack(1000));
    for t in [42, 43] {
        let mut duplicate = tape.ack(1000);
        duplicate.sack.push(isn[0].wrapping_add(2001), isn[0].wrapping_add(4001));
        duplicate.flags |= Flags::ECE;
        tape.put(t, false, duplicate);
    }
    tape.put(44, true, tape.data(1000, 1000));
    tape.put(64, false, tape.ack(4000));
    tape
}

#[test]
fn counts_a_loss_and_its_repair_wherever_the_numbers_wrap() {
    for isn in [[1000, 2000], [u32::MAX - 2500, 5], [u32::MAX, u32::MAX], [0x7fff_f000, 0x8000_0000]] {
        let all = connections(one_loss(isn).file());
        let [connection] = all.list() else { panic!("one connection") };
        assert_eq!(connection.ends.src, IpAddr::V4(ENDS.src));
        let data = connection.half(Forward);
        assert_eq!((data.data_packets, data.payload_bytes, data.acked_bytes()), (5, 5000, 4000), "{isn:?}");
        assert_eq!((data.repeated_packets, data.repeated_bytes), (1, 1000));
        assert_eq!((data.syn_seen, data.mss, data.largest_payload), (true, Some(1460), 1000));
        let acks = connection.half(Backward);
        assert_eq!((acks.advancing_acks, acks.duplicate_acks), (2, 2));
        assert_eq!((acks.sack_packets, acks.ece_packets), (2, 2));
        assert_eq!(connection.flight_bytes(Forward), 0);
    }
}

#[test]
fn series_hold_offsets_windows_and_flight() {
    let mut tape = one_loss([u32::MAX - 2500, 5]);
    let mut series = Series::new(Stream { connection: 0, direction: Forward });
    read(tape.file(), &mut Connections::new(), |seen, connection| series.add(seen, connection)).unwrap();
    assert_eq!(series.data.t_ns, [20, 21, 22, 23, 44].map(|t| t * MS));
    assert_eq!(series.data.offset, [0, 1000, 2000, 3000, 1000]);
    assert_eq!(series.data.repeated_bytes, [0, 0, 0, 0, 1000]);
    assert_eq!(series.data.flight_bytes, [1000, 2000, 3000, 4000, 3000]);
    assert_eq!(series.acks.t_ns, [10, 40, 42, 43, 64].map(|t| t * MS));
    assert_eq!(series.acks.acked, [0, 1000, 1000, 1000, 4000]);
    assert_eq!(series.acks.duplicate, [false, false, true, true, false]);
    // The window of a SYN is never scaled; those of the receiver are by its own scale of 5.
    assert_eq!(series.acks.window_bytes, [65535, 6400, 6400, 6400, 6400]);
    assert_eq!(series.acks.flight_bytes, [0, 3000, 3000, 3000, 0]);
}

#[test]
fn a_capture_that_starts_in_the_middle_counts_from_there() {
    let mut tape = Tape::new([500, 900]);
    tape.put(0, true, tape.data(5000, 1000));
    tape.put(1, false, tape.ack(5000));
    tape.put(2, true, tape.data(4000, 1000));
    tape.put(3, false, tape.ack(6000));
    let mut series = Series::new(Stream { connection: 0, direction: Forward });
    let mut all = Connections::new();
    read(tape.file(), &mut all, |seen, connection| series.add(seen, connection)).unwrap();
    assert_eq!(series.data.offset, [0, -1000]);
    assert_eq!(series.acks.acked, [0, 1000]);
    assert_eq!(series.acks.window_bytes, [200, 200], "the scale is not known");
    let half = all.list()[0].half(Forward);
    assert_eq!((half.syn_seen, half.repeated_bytes, half.acked_bytes()), (false, 1000, 1000));
}

#[test]
fn ports_used_again_make_another_connection_and_a_repeated_syn_does_not() {
    let mut tape = Tape::new([500, 900]);
    tape.handshake(0);
    let repeated = Segment { seq: 500, flags: Flags::SYN, ..Segment::default() };
    tape.put(30, true, repeated);
    tape.isn = [7_000_000, 8_000_000];
    tape.handshake(1000);
    tape.put(1021, true, tape.data(0, 10));
    let all = connections(tape.file());
    assert_eq!(all.list().iter().map(|c| c.first_ns / MS).collect::<Vec<_>>(), [0, 1000]);
    assert_eq!(all.list().iter().map(|c| c.half(Forward).payload_bytes).collect::<Vec<_>>(), [0, 10]);
    assert_eq!(all.list()[0].half(Forward).packets, 3);
}

#[test]
fn a_capture_that_starts_with_the_answer_knows_who_opened() {
    let mut tape = Tape::new([500, 900]);
    let answer = Segment { seq: 900, ack: 501, flags: Flags::SYN | Flags::ACK, ..Segment::default() };
    tape.put(0, false, answer);
    tape.put(1, true, tape.data(0, 100));
    let all = connections(tape.file());
    assert_eq!(all.list()[0].ends.sport, 40000);
    assert_eq!(all.list()[0].half(Forward).payload_bytes, 100);
}

#[test]
fn connections_are_kept_apart() {
    let mut tape = one_loss([1, 2]);
    tape.ends.sport = 40001;
    tape.handshake(100);
    tape.put(130, true, tape.data(0, 7));
    let all = connections(tape.file());
    assert_eq!(all.list().iter().map(|c| c.half(Forward).payload_bytes).collect::<Vec<_>>(), [5000, 7]);
}

#[test]
fn what_cannot_be_used_is_counted() {
    let mut tape = Tape::new([1, 2]);
    tape.handshake(0);
    tape.writer.packet(0, 60, &[0xff; 60]).unwrap();
    let udp = [&[0; 12][..], &[8, 0], &[0x45; 9], &[17], &[0; 30]].concat();
    tape.writer.packet(0, 60, &udp).unwrap();
    let mut file = tape.file().to_vec();
    let end = file.len() as u64;
    file.extend_from_slice(&[0; 7]);
    let mut all = Connections::new();
    let skipped = read(&file[..], &mut all, |_, _| {}).unwrap();
    assert_eq!(skipped, Skipped { other: 2, file_ends_at: Some(end), ..Skipped::default() });
    assert_eq!(all.list().len(), 1);
}

#[test]
fn windows_slide_are_labelled_at_their_centre_and_empty_ones_are_zero() {
    let mut windows = Windows::new(4, 2, 100, 112).unwrap();
    for (t, bytes) in [(99, 1000), (100, 1), (103, 2), (104, 4), (111, 8), (112, 1000)] {
        windows.add(t, bytes);
    }
    let window = |centre_ns, bytes| Window { centre_ns, bytes };
    assert_eq!(
        windows.finish(),
        [window(102, 3), window(104, 6), window(106, 4), window(108, 0), window(110, 8)]
    );
    assert!(Windows::new(5, 2, 0, 10).is_err());
    assert!(Windows::new(0, 0, 0, 10).is_err());
    assert!(Windows::new(1, 1, 0, u64::MAX).is_err());
    assert_eq!(Windows::new(20, 2, 0, 10).unwrap().finish(), []);
}

#[test]
fn throughput_counts_payload_ip_or_frame_bytes() {
    let mut tape = one_loss([1, 2]);
    let count = |tape: &mut Tape, count: Count| {
        let mut windows = Windows::new(10 * MS, 10 * MS, 0, 100 * MS).unwrap();
        read(tape.file(), &mut Connections::new(), |seen, _| {
            if seen.direction == Forward {
                windows.add(seen.t_ns, count.of(seen));
            }
        })
        .unwrap();
        windows.finish().iter().map(|window| window.bytes).collect::<Vec<_>>()
    };
    assert_eq!(count(&mut tape, Count::Payload), [0, 0, 4000, 0, 1000, 0, 0, 0, 0, 0]);
    // A SYN with 8 bytes of options; the third packet of the handshake has none.
    assert_eq!(count(&mut tape, Count::Ip), [48, 0, 4 * 1040 + 40, 0, 1040, 0, 0, 0, 0, 0]);
    assert_eq!(count(&mut tape, Count::Frame), [62, 0, 4 * 1054 + 54, 0, 1054, 0, 0, 0, 0, 0]);
}

/// A transfer as both ends capture it. One way takes `out_ns`, the way back `back_ns`, the far end answers every second
/// packet after `turn_ns`; its clock is `skew_ns` ahead. Every `lost`-th packet does not arrive.
fn both_ends(
    packets: u32,
    [out_ns, back_ns, turn_ns, skew_ns]: [u64; 4],
    lost: u32,
    numbered: bool,
) -> [Sightings; 2] {
    let (mut near, mut far) = (Tape::new([10, 20]), Tape::new([10, 20]));
    let mut answers = Vec::new();
    let mut sent = Vec::new();
    for n in 0..packets {
        let t = 1_000_000_000 + u64::from(n) * 250_000;
        let id = if numbered { n as u16 } else { 0 };
        sent.push((t, true, near.data(n * 1000, 1000), id));
        if n % lost == lost - 1 {
            continue;
        }
        far.put_numbered(t + out_ns + skew_ns, true, near.data(n * 1000, 1000), id);
        if n % 2 == 0 {
            let ack = near.ack(n * 1000 + 1000);
            far.put_numbered(t + out_ns + turn_ns + skew_ns, false, ack, id);
            answers.push((t + out_ns + turn_ns + back_ns, false, ack, id));
        }
    }
    sent.extend(answers);
    sent.sort_by_key(|&(t, ..)| t);
    for (t, forward, segment, id) in sent {
        near.put_numbered(t, forward, segment, id);
    }
    [near, far].map(|mut tape| {
        let mut sightings = Sightings::new();
        read(tape.file(), &mut Connections::new(), |seen, _| sightings.add(seen)).unwrap();
        sightings
    })
}

#[test]
fn pairs_measure_the_path_without_the_far_end_and_without_its_clock() {
    let delays = [20 * MS, 10 * MS, 100_000, 3_600_000 * MS];
    let [near, far] = both_ends(1000, delays, 50, true);
    let matching = pairs::matching(&near, &far);
    assert_eq!((matching.only_reference, matching.only_monitor, matching.ambiguous), (20, 0, 0));
    let samples = pairs::round_trips(&matching.matched, Forward);
    assert_eq!(samples.len(), 500, "one for each answer");
    assert!(samples.iter().all(|sample| sample.rtt_ns == 30 * MS as i64));
    assert_eq!(samples[0].t_ns, 1_000_000_000 + 30_100_000);
    // From the far end, without the near end's pauses: the same path.
    let back = pairs::round_trips(&pairs::matching(&far, &near).matched, Backward);
    assert!(!back.is_empty() && back.iter().all(|sample| sample.rtt_ns == 30 * MS as i64));
}

#[test]
fn packets_that_look_the_same_are_left_out() {
    let mut tape = Tape::new([10, 20]);
    for t in 0..3 {
        tape.put_numbered(t, true, tape.data(0, 1000), 0);
    }
    tape.put_numbered(3, true, tape.data(1000, 1000), 0);
    let mut sightings = Sightings::new();
    read(tape.file(), &mut Connections::new(), |seen, _| sightings.add(seen)).unwrap();
    let matching = pairs::matching(&sightings, &sightings);
    assert_eq!((matching.matched.len(), matching.ambiguous), (1, 6));
}

proptest! {
    #[test]
    fn pairs_find_any_delay(out in 1..50u64, back in 1..50u64, turn in 0..2_000_000u64, skew in 0..1u64 << 60, lost in 3..9u32, numbered: bool) {
        let [near, far] = both_ends(60, [out * MS, back * MS, turn, skew], lost, numbered);
        let samples = pairs::round_trips(&pairs::matching(&near, &far).matched, Forward);
        prop_assert!(!samples.is_empty());
        prop_assert!(samples.iter().all(|sample| sample.rtt_ns == ((out + back) * MS) as i64));
    }

    #[test]
    fn arbitrary_segments_never_panic(packets in prop::collection::vec(any::<(bool, u32, u32, u8, u16, u16)>(), 0..60)) {
        let mut tape = Tape::new([0, 0]);
        for (t, (forward, seq, ack, flags, len, window)) in packets.into_iter().enumerate() {
            let segment = Segment { seq, ack, len: u32::from(len), flags: Flags(flags), window, ..Segment::default() };
            tape.put(t as u64, forward, segment);
        }
        let mut all = Connections::new();
        let mut bytes = 0;
        read(tape.file(), &mut all, |seen, _| bytes += u64::from(seen.packet.segment.len)).unwrap();
        let halves = || all.list().iter().flat_map(|c| [c.half(Forward), c.half(Backward)]);
        prop_assert_eq!(halves().map(|half| half.payload_bytes).sum::<u64>(), bytes);
        prop_assert!(halves().all(|half| half.repeated_bytes <= half.payload_bytes));
    }
}
