//! Captures written packet by packet, and what is read of them.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use wire::capture::LinkType;
use wire::codec::{self, Ends, NotTcp, Payload, SynLayout};
use wire::{Flags, Options, Segment, pcap};

use crate::capture::Capture;
use crate::clock::{self, Clock};
use crate::connection::Direction::{Backward, Forward};
use crate::pairs::{self, Alone, Matched, Sightings};
use crate::rounds::rounds;
use crate::series::{Series, Stream};
use crate::text;
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
        self.writer.tcp(t_ns, &segment, &ends, SynLayout::Linux, ip_id.into()).unwrap();
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

    /// Makes a segment from the opening side: `len` bytes from `offset` on.
    fn data(&self, offset: u32, len: u32) -> Segment {
        let (seq, ack) = (self.isn[0].wrapping_add(1).wrapping_add(offset), self.isn[1].wrapping_add(1));
        Segment { seq, ack, len, flags: Flags::ACK, window: 100, ..Segment::default() }
    }

    /// Makes an acknowledgement from the other side: everything below `offset` arrived.
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
fn sack_blocks_stand_where_their_bytes_do_and_tell_what_arrived_twice() {
    for isn in [[1000, 2000], [u32::MAX - 2500, 5], [u32::MAX, u32::MAX]] {
        let mut tape = one_loss(isn);
        let at = |offset: u32| isn[0].wrapping_add(1).wrapping_add(offset);
        for blocks in [
            // Below the acknowledgement: twice. Inside the next block: twice. Without end or turned round: no block.
            &[(3000, 4000)][..],
            &[(6000, 7000), (5000, 8000), (9000, 10_000)],
            &[(6000, 6000), (8000, 7000)],
        ] {
            let mut ack = tape.ack(4000);
            blocks.iter().for_each(|&(left, right)| ack.sack.push(at(left), at(right)));
            tape.put(70, false, ack);
        }
        let mut series = Series::new(Stream { connection: 0, direction: Forward });
        read(tape.file(), &mut Connections::new(), |seen, connection| series.add(seen, connection)).unwrap();
        let sacks = &series.sacks;
        assert_eq!(sacks.t_ns, [42, 43, 70, 70, 70, 70].map(|t| t * MS), "{isn:?}");
        assert_eq!(sacks.offset, [2000, 2000, 3000, 6000, 5000, 9000]);
        assert_eq!(sacks.bytes, [2000, 2000, 1000, 1000, 3000, 1000]);
        assert_eq!(sacks.duplicate, [false, false, true, true, false, false]);
    }
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
    let other = [(NotTcp::EtherType(0xffff), 1), (NotTcp::Protocol(17), 1)].into();
    assert_eq!(skipped, Skipped { other, file_ends_at: Some(end), ..Skipped::default() });
    assert_eq!(all.list().len(), 1);
    let mut lines = 0;
    let passed_over = text::print(&file[..], false, |_| {
        lines += 1;
        true
    });
    assert_eq!((passed_over.unwrap(), lines), (skipped, 3));
}

#[test]
fn packets_before_1970_are_counted_and_the_others_read() {
    let mut tape = Tape::new([1, 2]);
    tape.handshake(0);
    let mut records = Vec::new();
    let mut reader = wire::capture::Reader::new(tape.file()).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record.bytes.to_vec());
    }
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len().next_multiple_of(4) as u32).to_le_bytes();
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        [&kind.to_le_bytes()[..], &length, body, &padding, &length].concat()
    };
    let mut file =
        block(0x0a0d_0d0a, &[&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    // Times in microseconds, less 2 s.
    let options = [&[14, 0, 8, 0][..], &(-2i64).to_le_bytes()].concat();
    file.extend(block(1, &[&[1, 0, 0, 0, 0, 0, 0, 0][..], &options].concat()));
    for (ticks, bytes) in [1, 3_000_000, 3_000_001, 3_000_002].into_iter().zip(records.iter().cycle()) {
        let words = [0, 0, ticks, bytes.len() as u32, bytes.len() as u32].map(u32::to_le_bytes).concat();
        file.extend(block(6, &[&words[..], bytes].concat()));
    }
    let mut all = Connections::new();
    let mut times = Vec::new();
    let skipped = read(&file[..], &mut all, |seen, _| times.push(seen.t_ns)).unwrap();
    let other = [(NotTcp::Link(u16::MAX), 1)].into();
    assert_eq!(skipped, Skipped { other, ..Skipped::default() });
    assert_eq!(times, [1_000_000_000, 1_000_001_000, 1_000_002_000]);
    let mut lines = Vec::new();
    let passed_over = text::print(&file[..], false, |line| {
        lines.push(line.to_owned());
        true
    });
    assert_eq!((passed_over.unwrap(), lines.len()), (skipped, 3));
    assert!(lines[0].contains("00:00:00.000000"), "{}", lines[0]);
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
    let capture = Capture::read(one_loss([1, 2]).file(), false).unwrap();
    let counted = |count: Count| {
        let stream = Stream { connection: 0, direction: Forward };
        let windows = capture.throughput(stream, count, 10 * MS, 10 * MS).unwrap();
        windows.iter().map(|window| window.bytes).collect::<Vec<_>>()
    };
    assert_eq!(counted(Count::Payload), [0, 0, 4000, 0, 1000, 0, 0]);
    // A SYN with 8 bytes of options; the third packet of the handshake has none.
    assert_eq!(counted(Count::Ip), [48, 0, 4 * 1040 + 40, 0, 1040, 0, 0]);
    assert_eq!(counted(Count::Frame), [62, 0, 4 * 1054 + 54, 0, 1054, 0, 0]);
}

#[test]
fn lengths_that_are_too_much_for_one_line_of_text_stay_two() {
    let mut writer = pcap::Writer::new(Vec::new(), LinkType::RAW, 100).unwrap();
    let mut seq: u32 = 1;
    for _ in 0..2 {
        // A packet above 64 KiB has the length 0 in its header: that of the record counts.
        let segment = Segment { seq, len: 100_000, flags: Flags::ACK, ..Segment::default() };
        let mut bytes = Vec::new();
        let payload = Payload::Zeros { snaplen: 40 };
        codec::write(&mut bytes, &segment, &ENDS, SynLayout::Linux, 0, payload);
        writer.packet(0, u32::MAX, &bytes).unwrap();
        seq = seq.wrapping_add(u32::MAX - 40);
    }
    let mut lines = Vec::new();
    text::print(&writer.get_mut()[..], true, |line| {
        lines.push(line.to_owned());
        true
    })
    .unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
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
    assert_eq!((matching.at_reference.len(), matching.at_monitor.len(), matching.ambiguous), (20, 0, 0));
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

#[test]
fn what_one_point_saw_alone_is_named() {
    let [near, far] = both_ends(1000, [20 * MS, 10 * MS, 100_000, 0], 50, true);
    let matching = pairs::matching(&near, &far);
    let lost: Vec<&Alone> = matching.lost(Forward).collect();
    // The last packet of all was lost as well, but nothing that came after it arrived.
    assert_eq!(lost.iter().map(|alone| alone.offset).collect::<Vec<_>>()[..3], [49_000, 99_000, 149_000]);
    assert_eq!((lost.len(), matching.at_reference.len()), (19, 20));
    assert!(lost.iter().all(|alone| alone.direction == Forward && alone.bytes == 1000));
    assert_eq!(pairs::matching(&near, &far.turned()).matched, []);
}

/// Packets of both directions, every 10 ms and every 20 ms, through queues that are empty now and then, seen by a clock
/// that is `offset_ns` ahead at the beginning and runs `ppm` fast.
fn clouds(offset_ns: i64, ppm: f64, [out_ns, back_ns]: [i64; 2]) -> Vec<Matched> {
    let mut matched = Vec::new();
    for n in 0..6000_i64 {
        let t = 1_700_000_000_000_000_000 + n * 10_000_000;
        let ahead =
            |at: i64| offset_ns + ((at - 1_700_000_000_000_000_000) as f64 * ppm * 1e-6).round() as i64;
        // A sawtooth of 30 ms of queue towards the monitor that is empty once in 6 s.
        let queue = (n % 600) * 50_000;
        let arrives = t + out_ns + queue;
        let at = |reference: i64, monitor: i64, direction| Matched {
            reference_ns: reference as u64,
            monitor_ns: (monitor + ahead(reference)) as u64,
            direction,
        };
        matched.push(at(t, arrives, Forward));
        if n % 2 == 0 {
            matched.push(at(arrives + back_ns + (n % 7) * 1000, arrives, Backward));
        }
    }
    matched
}

#[test]
fn clocks_are_found_and_taken_out() {
    for (offset_ns, ppm) in [(0, 0.0), (3_600_000_000_000, 80.0), (-5_000_000_000, -120.0), (7, 0.001)] {
        let matched = clouds(offset_ns, ppm, [20_000_000, 20_000_000]);
        let clock = clock::estimate(&matched, Forward).expect("packets both ways");
        assert!((clock.skew * 1e6 - ppm).abs() < 0.01, "{} ppm of {ppm}", clock.skew * 1e6);
        for packet in &matched {
            let delay = clock.delay_ns(packet, Forward);
            let queue =
                if packet.direction == Forward { 20_000_000..50_030_000 } else { 20_000_000..20_030_000 };
            assert!(
                queue.contains(&(delay + 20_000)),
                "{delay} with a clock {offset_ns} ns and {ppm} ppm off"
            );
        }
    }
}

#[test]
fn what_cannot_be_known_is_halved() {
    let matched = clouds(1_000_000_000, 50.0, [30_000_000, 10_000_000]);
    let clock = clock::estimate(&matched, Forward).expect("packets both ways");
    let least = |way| {
        let delays = matched.iter().filter(|packet| packet.direction == way);
        delays.map(|packet| clock.delay_ns(packet, Forward)).min().expect("some")
    };
    assert!((least(Forward) - 20_000_000).abs() < 20_000 && (least(Backward) - 20_000_000).abs() < 20_000);
    let known = Clock { origin_ns: 1_700_000_000_000_000_000, offset_ns: 1_000_000_000, skew: 50e-6 };
    let exact = matched.iter().filter(|packet| packet.direction == Forward);
    assert_eq!(exact.map(|packet| known.delay_ns(packet, Forward)).min(), Some(30_000_000));
    assert_eq!(clock::estimate(&matched[..1], Forward), None);
    assert_eq!(clock::estimate(&[], Forward), None);
}

#[test]
fn rounds_say_what_acknowledgements_do() {
    let mut tape = Tape::new([7, 9]);
    tape.handshake(0);
    // A round of four segments, acknowledged two and two; a round of four, acknowledged at once, the first sent twice.
    for n in 0..4 {
        tape.put(20 + u64::from(n), true, tape.data(n * 1000, 1000));
    }
    tape.put(42, false, tape.ack(2000));
    tape.put(44, false, tape.ack(4000));
    for n in 4..8 {
        tape.put(44 + u64::from(n), true, tape.data(n * 1000, 1000));
    }
    tape.put(60, true, tape.data(4000, 1000));
    tape.put(80, false, tape.ack(8000));
    tape.put(81, true, tape.data(8000, 3000));
    tape.put(101, false, tape.ack(11_000));
    let mut series = Series::new(Stream { connection: 0, direction: Forward });
    read(tape.file(), &mut Connections::new(), |seen, connection| series.add(seen, connection)).unwrap();
    let found = rounds(&series, 1000);
    let ms = |rows: &[(u64, u64)]| rows.iter().map(|&(t, value)| (t / MS, value / MS)).collect::<Vec<_>>();
    // None from the acknowledgement that covers what was sent again.
    assert_eq!(ms(&found.rtt), [(42, 21), (44, 21), (101, 20)]);
    // A packet of three segments, as captured above segmentation, counts as three.
    assert_eq!(found.segments, [(42 * MS, 2), (44 * MS, 2), (80 * MS, 4), (101 * MS, 3)]);
    assert_eq!(found.flight, [(42 * MS, 4000), (80 * MS, 4000), (101 * MS, 3000)]);
}

#[test]
fn a_whole_capture_counts_in_windows() {
    let mut tape = one_loss([1, 2]);
    let capture = Capture::read(tape.file(), true).expect("a capture");
    let stream = Stream { connection: 0, direction: Forward };
    assert_eq!(capture.span, Some((0, 64 * MS)));
    let bytes = |windows: Vec<Window>| windows.iter().map(|window| window.bytes).collect::<Vec<_>>();
    assert_eq!(bytes(capture.acknowledged(stream, 10 * MS, 10 * MS).unwrap()), [0, 0, 0, 0, 1000, 0, 3000]);
    assert_eq!(capture.sightings(0).map(Sightings::len), Some(12));
    assert!(capture.series(Stream { connection: 1, ..stream }).is_none());
    assert!(capture.acknowledged(stream, 10 * MS, 3 * MS).is_err());
    assert_eq!(
        Capture::read(&[0; 40][..], false).unwrap_err().to_string(),
        "neither a pcap nor a pcapng file"
    );
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
    fn arbitrary_segments_never_panic(packets in prop::collection::vec(any::<(bool, u32, u32, u16, u16, u16)>(), 0..60)) {
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
