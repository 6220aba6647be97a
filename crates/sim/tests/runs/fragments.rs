//! Packets that may be cut: a router whose next link is smaller sends them in parts, and the receiver has all or nothing.

use contract::scenario::{App, Capture, IpVersion, Scenario};
use path::LossConfig;

use crate::captures::data_packets;
use crate::milestones::rows;
use crate::support::{MS, Outcome, carry_out, column, dumbbell, link_mut};

const LINUX: (&str, i64) = ("net.ipv4.ip_no_pmtu_disc", 1);
const FREEBSD: (&str, i64) = ("net.inet.tcp.path_mtu_discovery", 0);
/// Payload of a hundred full segments.
const BYTES: u64 = 100 * 1448;

/// A transfer of a hundred segments over a bottleneck with an MTU; packets have no DF.
fn through(mtu: u32, stack: &str, (sysctl, value): (&str, i64)) -> Scenario {
    let cc = if stack.starts_with("linux") { "reno" } else { "newreno" };
    let mut scenario = dumbbell(stack, cc, 100_000_000, 20 * MS, 1000, 20);
    scenario.hosts[0].sysctl.insert(sysctl.into(), value);
    scenario.flows[0].app = App::Bulk { bytes: Some(BYTES), write_bytes: 131_072 };
    link_mut(&mut scenario, "r1-r2").mtu = mtu;
    scenario
}

/// Number and bytes of the packets that a link has carried.
fn carried(outcome: &Outcome, link: &str) -> (u64, u64) {
    let links = outcome.summary["links"].as_array().expect("links");
    let found = links.iter().find(|found| found["link"] == link).expect("the link");
    (found["packets"].as_u64().expect("a number"), found["bytes"].as_u64().expect("a number"))
}

/// Numbers of the flow: what was delivered, sent again, dropped, and its bytes at the receiver.
fn flow(outcome: &Outcome) -> [u64; 4] {
    let flow = &outcome.summary["flows"][0];
    ["goodput_bytes", "retransmits", "drops", "wire_bytes"].map(|key| flow[key].as_u64().expect("a number"))
}

/// By hand: of 1500 bytes a link of 1000 takes 20 and 976, a whole number of units of eight, and 20 and the other 504. SYN, ACK
/// and FIN pass whole: 60, 52 and 52 bytes. Each packet has 14 bytes more on the link.
#[test]
fn a_packet_without_df_is_cut_and_arrives_whole() {
    for (stack, sysctl) in [("linux-6.18", LINUX), ("freebsd-15-current", FREEBSD), ("freebsd-9.2", FREEBSD)]
    {
        for stepped in [false, true] {
            let outcome = carry_out(&through(1000, stack, sysctl), stepped);
            let [delivered, again, drops, wire] = flow(&outcome);
            assert_eq!([delivered, again, drops], [BYTES, 0, 0], "{stack}");
            let (packets, bytes) = carried(&outcome, "r1-r2");
            // A segment may have left with the FIN, and others shorter than the MSS.
            assert!((203..=206).contains(&packets), "{stack}: {packets}");
            let whole = 100 * (996 + 524 + 2 * 14);
            assert!((whole..whole + 6 * (60 + 14)).contains(&bytes), "{stack}: {bytes}, of which {whole}");
            assert!(wire >= 100 * (1520 + 14), "{stack}: {wire}");
        }
    }
}

/// A link behind it cuts the parts: 996 into 572 and 444, and 524 passes.
#[test]
fn a_smaller_link_cuts_parts_again() {
    let mut scenario = through(1000, "linux-6.18", LINUX);
    let last = link_mut(&mut scenario, "r2-b");
    (last.mtu, last.observe) = (576, true);
    let outcome = carry_out(&scenario, false);
    assert_eq!(flow(&outcome)[..3], [BYTES, 0, 0]);
    let (packets, _) = carried(&outcome, "r2-b");
    assert!((303..=306).contains(&packets), "{packets}");
}

/// The second part of the eleventh segment is lost: the segment is sent again, whole.
#[test]
fn a_lost_part_loses_the_packet() {
    let mut scenario = through(1000, "linux-6.18", LINUX);
    // After SYN, ACK, two parts of each segment before, and the first part.
    link_mut(&mut scenario, "r1-r2").loss = Some(LossConfig::List { packets: vec![2 + 2 * 10 + 1] });
    let outcome = carry_out(&scenario, false);
    let [delivered, again, drops, _] = flow(&outcome);
    assert_eq!([delivered, again, drops], [BYTES, 1, 1]);
    let lost = rows(&outcome, "events", "drop", &["seq"]);
    assert_eq!(lost.iter().map(|row| row[0]).collect::<Vec<_>>(), [10 * 1448]);
}

/// With DF, and of IPv6 always, the router says that they are too big, and the sender makes smaller ones.
#[test]
fn others_are_not_cut() {
    let with_df = through(1300, "linux-6.18", (LINUX.0, 0));
    let mut ipv6 = through(1300, "linux-6.18", LINUX);
    for host in &mut ipv6.hosts {
        (host.ip, host.mss) = (IpVersion::Ipv6, 1440);
    }
    for scenario in [with_df, ipv6] {
        let outcome = carry_out(&scenario, false);
        let [delivered, again, drops, _] = flow(&outcome);
        assert_eq!(delivered, BYTES);
        assert!(again > 0 && drops > 0, "{again} {drops}");
    }
}

/// Captures show packets whole and once: where they are cut, behind that, and at the receiver.
#[test]
fn captures_show_whole_packets() {
    let mut scenario = through(1000, "linux-6.18", LINUX);
    let places = ["a", "r1-r2", "r2-b", "b"];
    scenario.record.pcap = places.map(|at| Capture { at: at.into(), snaplen: 100 }).into();
    let outcome = carry_out(&scenario, false);
    let sent = outcome.summary["flows"][0]["segments_sent"].as_u64().expect("a number") as usize;
    for place in places {
        assert_eq!(data_packets(&outcome.captures[place]), sent, "{place}");
    }
    scenario.record.pcap.clear();
    let plain = carry_out(&scenario, false);
    assert_eq!(column(&plain.tables["tcp"], "cwnd_bytes"), column(&outcome.tables["tcp"], "cwnd_bytes"));
}
