//! Captures say what the run did.

use contract::scenario::Capture;
use wire::capture::{LinkType, Reader};

use crate::support::{MS, carry_out, column, dumbbell};

/// Number of records of a capture that carry payload.
pub(crate) fn data_packets(capture: &[u8]) -> usize {
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

#[test]
fn super_packets_are_counted_as_the_wire_has_them() {
    for (stack, cc) in [("linux-6.8", "cubic"), ("freebsd-13", "newreno"), ("freebsd-13/rack", "newreno")] {
        let mut scenario = dumbbell(stack, cc, 50_000_000, 40 * MS, 60, 5);
        for host in &mut scenario.hosts {
            host.nic.tso = true;
        }
        scenario.record.pcap = vec![Capture { at: "a".into(), snaplen: 100 }];
        let outcome = carry_out(&scenario, false);
        let counted = |name: &str| outcome.summary["flows"][0][name].as_u64().expect("a number") as usize;
        let seen = sent(&outcome.captures["a"]);
        assert_eq!(counted("segments_sent"), seen.len(), "{stack}: its capture is below segmentation");
        let mut highest = 0;
        let again = seen.iter().filter(|&&(offset, len)| {
            let known = offset < highest;
            highest = highest.max(offset + len);
            known
        });
        assert_eq!(counted("retransmits"), again.count(), "{stack}");
        assert!(counted("retransmits") > 0, "{stack}");
    }
}

/// Payload of the capture's packets to the server, as (offset in the stream, length).
fn sent(capture: &[u8]) -> Vec<(u32, u32)> {
    let mut reader = Reader::new(capture).expect("a pcap file");
    let (mut first, mut found) = (None, Vec::new());
    while let Some(record) = reader.next_record().expect("a whole file") {
        let packet = wire::codec::parse(record.bytes, record.wire_length).expect("a TCP packet");
        if packet.segment.len > 0 {
            let first = *first.get_or_insert(packet.segment.seq);
            found.push((packet.segment.seq.wrapping_sub(first), packet.segment.len));
        }
    }
    found
}
