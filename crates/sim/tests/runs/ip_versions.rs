//! IPv6 differs from IPv4 by the 20 bytes of its longer header, and by nothing else.

use std::net::{IpAddr, Ipv6Addr};

use contract::scenario::{App, Capture, IpVersion, Scenario};
use wire::capture::Reader;
use wire::{Flags, Segment};

use crate::support::{MS, carry_out, dumbbell};

const SECONDS: u64 = 10;

fn scenario(stack: &str, ip: IpVersion, payload: u16) -> Scenario {
    let mut scenario = dumbbell(stack, "newreno", 10_000_000, 20 * MS, 1000, SECONDS);
    if stack.starts_with("linux") {
        scenario.flows[0].cc = "reno".into();
    }
    // A window that the queue holds: nothing is lost.
    scenario.flows[0].rcvbuf = Some(200_000);
    scenario.measure.from_ns = 2_000 * MS;
    for host in &mut scenario.hosts {
        (host.ip, host.mss) = (ip, payload);
    }
    scenario.record.pcap = vec![Capture { at: "a".into(), snaplen: 100 }];
    scenario
}

fn goodput(scenario: &Scenario) -> f64 {
    let outcome = carry_out(scenario, false);
    let goodput = outcome.summary["flows"][0]["goodput_bytes"].as_f64().expect("a number");
    goodput * 8.0 / (SECONDS as f64 - 2.0)
}

#[test]
fn a_full_link_carries_20_bytes_less_a_packet() {
    for (stack, options) in [("linux-6.18", 12), ("freebsd-15-current", 12), ("windows-7", 0)] {
        let share = |ip, mss| goodput(&scenario(stack, ip, mss)) / 10e6;
        // 1,500 bytes of packet and 14 of Ethernet each (RFC 8200: 40 bytes of header, RFC 9293: 20 and options).
        for (ip, mss) in [(IpVersion::Ipv4, 1460), (IpVersion::Ipv6, 1440)] {
            let wanted = f64::from(mss - options) / 1514.0;
            let found = share(ip, mss);
            assert!((found / wanted - 1.0).abs() < 0.002, "{stack}, {ip:?}: {found}, by hand {wanted}");
        }
    }
}

fn packets(scenario: &Scenario) -> Vec<(IpAddr, u32, Segment)> {
    let capture = &carry_out(scenario, false).captures["a"];
    let mut reader = Reader::new(&capture[..]).expect("a pcap file");
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().expect("a whole file") {
        let packet = wire::codec::parse(record.bytes, record.wire_length).expect("a TCP packet");
        found.push((packet.ends.src, record.wire_length, packet.segment));
    }
    found
}

#[test]
fn a_capture_has_packets_of_ipv6() {
    let seen = packets(&scenario("linux-6.18", IpVersion::Ipv6, 1440));
    let host = |number| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, number, 1));
    let (from, length, syn) = seen[0];
    assert_eq!((from, length, syn.mss), (host(0), 80, 1440), "40 bytes, 20 of TCP and 20 of options");
    assert!(syn.flags.has(Flags::SYN));
    assert_eq!(seen[1].0, host(1));
    assert!(seen.iter().any(|(_, length, segment)| (*length, segment.len) == (1500, 1428)));
}

#[test]
fn with_segments_of_equal_length_only_packets_differ() {
    let lengths = |ip| packets(&scenario("freebsd-13", ip, 1440)).into_iter().take(40);
    // The first round trips, before the queue fills: what is sent does not depend on how long a packet takes.
    for ((_, short, one), (_, long, other)) in lengths(IpVersion::Ipv4).zip(lengths(IpVersion::Ipv6)) {
        assert_eq!(
            (short + 20, one.len, one.flags, one.window),
            (long, other.len, other.flags, other.window)
        );
    }
}

#[test]
fn datagrams_have_the_longer_header_too() {
    let mut scenario = scenario("linux-6.18", IpVersion::Ipv6, 1440);
    scenario.flows[0].app = App::Ping { interval_ns: 100 * MS, payload_bytes: 56 };
    let capture = &carry_out(&scenario, false).captures["a"];
    let mut reader = Reader::new(&capture[..]).expect("a pcap file");
    let first = reader.next_record().expect("a whole file").expect("a packet");
    // Version 6; ICMPv6 (58), echo request (128): RFC 4443.
    assert_eq!((first.bytes[0] >> 4, first.bytes[6], first.bytes[40]), (6, 58, 128));
    assert_eq!(first.wire_length, 40 + 8 + 56);
}
