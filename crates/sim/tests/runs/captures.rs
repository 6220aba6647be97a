//! Captures say what the run did.

use sim::scenario::Capture;
use wire::capture::{LinkType, Reader};

use crate::support::{MS, carry_out, column, dumbbell};

/// How many records of a capture carry payload.
fn data_packets(capture: &[u8]) -> usize {
    let mut reader = Reader::new(capture).expect("a pcap file");
    let mut count = 0;
    while let Some(record) = reader.next_record().expect("a whole file") {
        assert_eq!(record.link, LinkType::RAW);
        let packet = wire::codec::parse(record.bytes, record.wire_length).expect("a TCP packet");
        count += usize::from(packet.segment.len > 0);
    }
    count
}

#[test]
fn hosts_and_links_see_what_passes_them() {
    let mut scenario = dumbbell("freebsd-13", "newreno", 10_000_000, 40 * MS, 20, 5);
    let at = |name: &str| Capture { at: name.into(), snaplen: 100 };
    scenario.record.pcap = vec![at("a"), at("r1-r2"), at("r2-b")];
    let outcome = carry_out(&scenario, false);
    let sent = outcome.summary["flows"][0]["segments_sent"].as_u64().expect("a number") as usize;
    let drops = outcome.summary["flows"][0]["drops"].as_u64().expect("a number") as usize;
    assert!(drops > 0);
    assert_eq!(data_packets(&outcome.captures["a"]), sent, "a host's capture has every packet it sent");
    let entered = data_packets(&outcome.captures["r1-r2"]);
    assert!(
        entered <= sent && entered + 40 > sent,
        "{entered} of {sent}: the rest is still on the first cable"
    );
    let last = data_packets(&outcome.captures["r2-b"]);
    assert!(last + drops <= entered, "what the bottleneck dropped is not seen behind it");
    // Recording captures changes nothing else.
    scenario.record.pcap.clear();
    let plain = carry_out(&scenario, false);
    assert_eq!(column(&plain.tables["tcp"], "cwnd_bytes"), column(&outcome.tables["tcp"], "cwnd_bytes"));
}
