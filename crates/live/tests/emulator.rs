//! The emulator and the sampler between real interfaces: what links do to datagrams and TCP of this host's kernel.
//!
//! Needs root and `ip`. Namespaces are removed at the end, and by the next run if a test is killed. What a loaded machine
//! can delay is never compared with an upper bound but the emulator's own account of it.
#![cfg(target_os = "linux")]

mod common;

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{A, B, Net, Received, receive, send};
use contract::table::{Batch, ColumnData};
use live::emulator::Emulator;
use live::sampler::Sampler;
use serde_json::{Value, json};

const MILLISECOND: u64 = 1_000_000;
const PAUSE: Duration = Duration::from_millis(2);

/// Ends the emulator: records and report.
fn stop(mut emulator: Emulator) -> (Vec<(&'static str, Batch)>, Value) {
    let (batches, report) = emulator.stop().expect("it ran");
    (batches, serde_json::from_str(&report).expect("JSON"))
}

/// Numbers of a column of all batches of a table; of names, their indices.
fn column(batches: &[(&'static str, Batch)], table: &str, name: &str) -> Vec<u64> {
    let of_batch =
        |batch: &Batch| match &batch.columns.iter().find(|column| column.name == name).unwrap().data {
            ColumnData::U32(values) => values.iter().map(|&value| u64::from(value)).collect(),
            ColumnData::U64(values) => values.clone(),
            ColumnData::I64(values) => values.iter().map(|&value| value as u64).collect(),
            ColumnData::Dict { indices, .. } => indices.iter().map(|&index| index as u64).collect::<Vec<_>>(),
        };
    batches.iter().filter(|(own, _)| *own == table).flat_map(|(_, batch)| of_batch(batch)).collect()
}

fn numbers(received: &[Received]) -> Vec<u64> {
    received.iter().map(|received| received.number).collect()
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn packets_are_delayed_by_what_the_link_says() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| scenario["links"][0]["delay_ns"] = json!(20 * MILLISECOND));
    let (a, b) = net.datagrams();
    // The kernel stamps what waits to be read.
    send(&a, 0..50, 1000, PAUSE);
    let received = receive(&b, 50);
    let (_, report) = stop(emulator);
    assert_eq!(numbers(&received), (0..50).collect::<Vec<_>>());
    let delays: Vec<u64> = received.iter().map(|packet| packet.at - packet.sent).collect();
    assert!(delays.iter().all(|&delay| delay >= 20 * MILLISECOND), "none is early: {delays:?}");
    assert_eq!(report["links"][0]["packets"], 50, "{report}");
    assert_eq!(report["health"]["unintended_drops"], 0, "{report}");
}

/// Times that packets are sent before they are found late: a machine with other things to do may be that often.
const ATTEMPTS: usize = 10;

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn half_of_the_packets_leave_nearly_in_time() {
    let _alone = common::alone();
    let net = Net::new();
    let (a, b) = net.datagrams();
    let mut reports = Vec::new();
    for _ in 0..ATTEMPTS {
        let emulator = net.emulator(|scenario| scenario["links"][0]["delay_ns"] = json!(20 * MILLISECOND));
        send(&a, 0..50, 1000, PAUSE);
        receive(&b, 50);
        let (_, report) = stop(emulator);
        if report["health"]["late"]["p50_ns"].as_u64().unwrap() < 10 * MILLISECOND {
            return;
        }
        reports.push(report);
    }
    panic!("{reports:?}");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn packets_leave_no_faster_than_the_rate() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| scenario["links"][0]["rate_bps"] = json!(20_000_000));
    let (a, b) = net.datagrams();
    send(&a, 0..200, 1000, Duration::ZERO);
    let received = receive(&b, 200);
    let (batches, report) = stop(emulator);
    assert_eq!(numbers(&received), (0..200).collect::<Vec<_>>());
    // 1000 bytes, 28 of headers and 14 of overhead, at 20 Mbit/s.
    let service = 1042 * 8 * 50;
    assert_eq!(report["links"][0]["busy_ns"], 200 * service, "{report}");
    // From the first packet's sending, not its arrival: nothing is read earlier than it was sent, or stamped earlier than
    // it arrived, but a busy machine does both late.
    for (packet, number) in received.iter().zip(1..) {
        let earliest = received[0].sent + number * service;
        assert!(packet.at + common::CLOCKS >= earliest, "packet {number} at {}; {report}", packet.at);
    }
    let backlog = column(&batches, "queue", "backlog_packets");
    assert!(backlog.iter().any(|&packets| packets > 20), "they wait: {backlog:?}");
    assert_eq!(report["flows"][0]["wire_bytes"], 200 * 1042, "{report}");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn losses_are_those_of_the_rule() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| {
        scenario["links"][0]["loss"] = json!({"kind": "nth", "every": 10, "packet": 3, "min_payload": 100});
    });
    let (a, b) = net.datagrams();
    send(&a, 0..100, 200, Duration::ZERO);
    // Too small for the rule.
    send(&a, 100..120, 50, Duration::ZERO);
    let received = receive(&b, 110);
    let (batches, report) = stop(emulator);
    let expected: Vec<u64> = (0..120).filter(|number| *number >= 100 || number % 10 != 3).collect();
    assert_eq!(numbers(&received), expected);
    assert_eq!(report["links"][0]["drops"], 10, "{report}");
    assert_eq!(report["flows"][0]["drops"], 10, "{report}");
    assert_eq!(column(&batches, "events", "kind"), [0; 10], "drops");
    assert_eq!(column(&batches, "events", "value"), [200; 10], "their payload");
    assert_eq!(column(&batches, "events", "hop"), [0; 10]);
    assert_eq!(column(&batches, "events", "flow"), [0; 10]);

    // Of a rule for ports, those of the packets decide.
    for (dport, expected) in [(5201, 90), (5202, 100)] {
        let emulator = net.emulator(|scenario| {
            scenario["links"][0]["loss"] =
                json!({"kind": "nth", "every": 10, "packet": 3, "min_payload": 100, "dport": dport, "sport": null});
        });
        send(&a, 0..100, 200, Duration::ZERO);
        assert_eq!(receive(&b, expected).len(), expected, "to {dport}");
        stop(emulator);
    }
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn a_full_queue_drops_and_says_so() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| {
        scenario["links"][0]["rate_bps"] = json!(1_000_000);
        scenario["links"][0]["queue"] = json!({"kind": "pfifo", "limit_packets": 10});
    });
    let (a, b) = net.datagrams();
    send(&a, 0..100, 1000, Duration::ZERO);
    let received = receive(&b, 11);
    let (batches, report) = stop(emulator);
    let drops = column(&batches, "events", "kind").len() as u64;
    assert!(received.len() >= 11, "one in service, ten wait: {}", received.len());
    assert!(drops > 0, "{report}");
    assert_eq!(received.len() as u64 + drops, 100);
    assert_eq!(column(&batches, "queue", "drops").into_iter().max(), Some(drops));
    assert!(column(&batches, "queue", "backlog_packets").into_iter().all(|packets| packets <= 10));
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn every_change_of_a_queue_can_be_recorded() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| {
        scenario["record"]["queue"] = json!({"kind": "per-ack"});
        scenario["links"][0]["rate_bps"] = json!(1_000_000);
    });
    let (a, b) = net.datagrams();
    send(&a, 0..20, 1000, Duration::ZERO);
    assert_eq!(receive(&b, 20).len(), 20);
    let (batches, report) = stop(emulator);
    let backlog = column(&batches, "queue", "backlog_packets");
    // One packet in, or one out.
    assert!(backlog.windows(2).all(|pair| pair[0].abs_diff(pair[1]) == 1), "{backlog:?}");
    assert!(backlog.iter().max() > Some(&5) && backlog.last() == Some(&0), "{backlog:?} {report}");
    assert!(column(&batches, "queue", "t_ns").is_sorted());
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn codel_marks_packets_that_can_be_marked() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| {
        scenario["links"][0]["rate_bps"] = json!(10_000_000);
        scenario["links"][0]["queue"] = json!({
            "kind": "codel", "limit_packets": 1000, "target_ns": 5 * MILLISECOND, "interval_ns": 20 * MILLISECOND,
            "ecn": true, "ce_threshold_ns": null,
        });
    });
    let (a, b) = net.datagrams();
    let ect0: libc::c_int = 2;
    // SAFETY: the value lives through the call and has the length given.
    let result = unsafe {
        libc::setsockopt(a.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS, (&raw const ect0).cast(), 4)
    };
    assert_eq!(result, 0);
    send(&a, 0..400, 1000, Duration::ZERO);
    let received = receive(&b, 400);
    let (batches, report) = stop(emulator);
    assert_eq!(received.len(), 400, "marked, not dropped: {report}");
    assert!(received.iter().all(|packet| packet.tos == 2 || packet.tos == 3), "{received:?}");
    let marked = received.iter().filter(|packet| packet.tos == 3).count();
    assert!(marked > 0, "{report}");
    assert_eq!(report["links"][0]["ce_marks"], marked, "{report}");
    assert_eq!(column(&batches, "events", "kind"), vec![1; marked], "marks");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn duplicates_arrive_twice_and_damaged_packets_do_not() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| {
        scenario["links"][0]["duplicate_ppb"] = json!(1_000_000_000);
        scenario["links"][0]["delay_ns"] = json!(MILLISECOND);
        // Behind the link, the wire of the receiving host duplicates once more.
        scenario["hosts"][1]["ingress"]["before_gro"] = json!({
            "loss": null, "duplicate_ppb": 1_000_000_000, "corrupt_ppb": 0, "dport": 5201, "sport": null,
            "min_payload": 100,
        });
    });
    let (a, b) = net.datagrams();
    send(&a, 0..20, 200, Duration::ZERO);
    send(&a, 20..40, 50, Duration::ZERO);
    let mut found = numbers(&receive(&b, 20 * 4 + 20 * 2));
    found.sort_unstable();
    let expected: Vec<u64> =
        (0..40).flat_map(|number| vec![number; if number < 20 { 4 } else { 2 }]).collect();
    assert_eq!(found, expected);
    let (_, report) = stop(emulator);
    assert_eq!(report["health"]["unintended_drops"], 0, "{report}");

    let emulator = net.emulator(|scenario| scenario["links"][0]["corrupt_ppb"] = json!(1_000_000_000));
    send(&a, 0..20, 200, Duration::ZERO);
    assert_eq!(numbers(&receive(&b, 0)), [0; 0], "the kernel finds the damage");
    let (batches, report) = stop(emulator);
    assert_eq!(report["links"][0]["packets"], 20, "they were sent on: {report}");
    assert_eq!(column(&batches, "events", "kind"), [0; 20], "drops");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn a_hosts_egress_delays_before_the_link() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| {
        scenario["hosts"][0]["egress"] = json!({
            "limit_packets": 10, "delay_ns": 30 * MILLISECOND, "jitter": null, "loss": null, "duplicate_ppb": 0,
            "corrupt_ppb": 0, "rate_bps": null,
        });
        scenario["links"][0]["delay_ns"] = json!(10 * MILLISECOND);
    });
    let (a, b) = net.datagrams();
    // The limit counts what is being delayed: of a burst, ten get in.
    send(&a, 0..50, 100, Duration::ZERO);
    let received = receive(&b, 10);
    let (batches, report) = stop(emulator);
    assert!(received.iter().all(|packet| packet.at - packet.sent >= 40 * MILLISECOND), "{received:?}");
    let drops = column(&batches, "events", "hop");
    assert!(received.len() >= 10 && received.len() + drops.len() == 50, "{report}");
    // Behind the two links, `a.egress` is the first hop.
    assert!(drops.iter().all(|&hop| hop == 2), "{drops:?}");
    assert_eq!(report["links"][0]["packets"], received.len(), "{report}");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn jitter_reorders_where_it_may() {
    let _alone = common::alone();
    let net = Net::new();
    let (a, b) = net.datagrams();
    for reorder in [false, true] {
        let emulator = net.emulator(|scenario| {
            scenario["links"][0]["delay_ns"] = json!(50 * MILLISECOND);
            scenario["links"][0]["jitter"] =
                json!({"kind": "uniform", "sd_ns": 40 * MILLISECOND, "reorder": reorder, "table": null});
        });
        send(&a, 0..100, 100, Duration::ZERO);
        let mut found = numbers(&receive(&b, 100));
        assert_eq!(found.is_sorted(), !reorder, "{found:?}");
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<_>>());
        drop(emulator);
    }
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn the_schedule_counts_from_the_mark() {
    let _alone = common::alone();
    let net = Net::new();
    let change = |at: u64, down: bool| {
        json!({"at_ns": at, "link": "there", "rate_bps": null, "delay_ns": null, "loss": null, "queue": null,
               "down": down})
    };
    let schedule = json!([change(500 * MILLISECOND, true), change(1500 * MILLISECOND, false)]);
    let mut emulator = net.started(|scenario| scenario["schedule"] = schedule, |_| ());
    let (a, b) = net.datagrams();
    thread::sleep(Duration::from_millis(800));
    // However long the set-up takes, what the schedule brings is not of it.
    send(&a, 0..10, 100, Duration::ZERO);
    assert_eq!(numbers(&receive(&b, 10)), (0..10).collect::<Vec<_>>());
    let ahead = common::now() + 300 * MILLISECOND;
    emulator.mark_start(ahead).unwrap();
    thread::sleep(Duration::from_millis(1100));
    send(&a, 10..20, 100, Duration::ZERO);
    let found = receive(&b, 0);
    // A machine that was held up for so long sends when it is up again, and what was sent then comes through.
    let early = found.iter().filter(|packet| packet.sent < ahead + 1400 * MILLISECOND).count();
    assert_eq!(early, 0, "{found:?}");
    thread::sleep(Duration::from_millis(1200));
    send(&a, 20..30, 100, Duration::ZERO);
    assert_eq!(numbers(&receive(&b, 10)), (20..30).collect::<Vec<_>>());
    let (batches, report) = stop(emulator);
    let drops = column(&batches, "events", "kind").len();
    assert_eq!(found.len() + drops, 10, "those of the outage, and no others: {report}");
    assert_eq!(column(&batches, "queue", "t_ns")[0], 0, "samples begin at t = 0");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn ports_of_a_switch_share_its_memory() {
    let _alone = common::alone();
    let net = Net::new();
    // The link comes from a switch with room for ten packets, whatever the queue would take.
    let emulator = net.emulator(|scenario| {
        scenario["nodes"] = json!([{"name": "s", "switch": {"buffer_bytes": 10 * 1042, "pause": null}}]);
        scenario["links"][0]["from"] = json!("s");
        scenario["links"][1]["to"] = json!("s");
        scenario["links"][0]["rate_bps"] = json!(1_000_000);
    });
    let (a, b) = net.datagrams();
    send(&a, 0..50, 1000, Duration::ZERO);
    let received = receive(&b, 10);
    let (batches, report) = stop(emulator);
    let drops = column(&batches, "events", "kind").len();
    assert_eq!(received.len() + drops, 50, "{report}");
    assert!(received.len() >= 10 && drops > 0, "{report}");
    let most = column(&batches, "queue", "backlog_bytes").into_iter().max().unwrap();
    assert!(most <= 10 * 1042, "{most}");
}

/// Sends so many bytes over TCP from `a` to `b`; does `when_there` when all have arrived, before the connection ends.
fn transfer(net: &Net, bytes: usize, when_there: impl FnOnce()) {
    let listener = net.inside("b", || TcpListener::bind(SocketAddrV4::new(B, 5201)).expect("a listener"));
    let (arrived, there) = mpsc::channel();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut all = vec![0; bytes];
            stream.read_exact(&mut all).expect("the kernel delivers it");
            arrived.send(()).expect("awaited");
            assert_eq!(stream.read(&mut [0]).expect("the end"), 0, "and nothing else");
            all
        });
        let mut stream =
            net.inside("a", || TcpStream::connect(SocketAddrV4::new(B, 5201)).expect("a connection"));
        let sent: Vec<u8> = (0..bytes).map(|index| (index / 3) as u8).collect();
        stream.write_all(&sent).expect("the kernel takes it");
        there.recv().expect("all of it arrives");
        when_there();
        stream.shutdown(Shutdown::Write).expect("an open connection");
        assert_eq!(reader.join().unwrap(), sent);
    });
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn super_packets_are_cut_before_the_link() {
    super_packets_are_cut(false);
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn super_packets_are_cut_behind_the_hosts_netem() {
    super_packets_are_cut(true);
}

fn super_packets_are_cut(egress: bool) {
    let _alone = common::alone();
    let net = Net::new();
    net.offloads(true);
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cwndlab-test-{}.pcap", std::process::id()));
    let emulator = net.emulator_with(
        |scenario| {
            scenario["links"][0]["delay_ns"] = json!(5 * MILLISECOND);
            scenario["links"][0]["corrupt_ppb"] = json!(1_000_000);
            if egress {
                scenario["hosts"][0]["egress"] = json!({
                    "limit_packets": 1000, "delay_ns": 5 * MILLISECOND, "jitter": null, "loss": null,
                    "duplicate_ppb": 0, "corrupt_ppb": 0, "rate_bps": null,
                });
            }
        },
        |config| config["captures"] = json!([{"at": "there", "snaplen": 65_535, "file": file}]),
    );
    transfer(&net, 3_000_000, || ());
    let (batches, report) = stop(emulator);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut reader = wire::capture::Reader::new(bytes.as_slice()).unwrap();
    let (mut packets, mut longest, mut payload) = (0, 0, 0);
    while let Some(record) = reader.next_record().unwrap() {
        let (ip, length) = record.ip().unwrap();
        longest = longest.max(length);
        let packet = wire::codec::parse(ip, length).unwrap();
        assert_ne!(packet.checksum_ok(), Some(false), "packet {packets}");
        payload += u64::from(length) - 52;
        packets += 1;
    }
    assert_eq!(longest, 1500, "{report}");
    assert_eq!(report["links"][0]["packets"], packets, "{report}");
    assert!(payload >= 3_000_000, "{payload}");
    // Damaged segments are dropped by the receiver, and say where they belong in the stream.
    for offset in column(&batches, "events", "seq") {
        assert!(offset < 3_000_000, "{offset}");
    }
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn super_packets_pass_whole_where_the_link_takes_them() {
    let _alone = common::alone();
    let net = Net::new();
    net.offloads(true);
    let emulator = net.emulator(|scenario| {
        for link in 0..2 {
            scenario["links"][link]["mtu"] = json!(65_535);
            scenario["links"][link]["delay_ns"] = json!(5 * MILLISECOND);
        }
    });
    transfer(&net, 3_000_000, || ());
    let (_, report) = stop(emulator);
    let packets = report["links"][0]["packets"].as_u64().unwrap();
    assert!(packets < 3_000_000 / 1448 / 2, "they were not cut: {report}");
    assert_eq!(report["health"]["unintended_drops"], 0, "{report}");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn the_sampler_follows_a_connection() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|scenario| {
        for link in 0..2 {
            scenario["links"][link]["delay_ns"] = json!(10 * MILLISECOND);
        }
    });
    let config = json!({
        "run_id": 1, "interval_ns": 5 * MILLISECOND, "flows": ["f0", "f1"],
        "sockets": [{"flow": "f1", "netns": net.place("a"), "local_port": null, "remote_port": 5201}],
        "recoveries": false,
    });
    let mut sampler = Sampler::new(&config.to_string()).unwrap();
    sampler.start().unwrap();
    transfer(&net, 2_000_000, || thread::sleep(Duration::from_millis(1500)));
    drop(emulator);
    let (batches, report) = sampler.stop().unwrap();
    let of = |name: &str| column(&batches, "tcp", name);
    assert!(of("flow").iter().all(|&flow| flow == 1) && of("flow").len() > 10, "{report}");
    assert!(of("t_ns").is_sorted());
    assert_eq!(of("delivered_bytes").into_iter().max(), Some(2_000_000), "{report}");
    assert!(of("delivered_bytes").is_sorted());
    assert!(of("min_rtt_ns").into_iter().max().is_some_and(|rtt| rtt >= 20 * MILLISECOND));
    assert!(of("cwnd_bytes").iter().all(|&cwnd| cwnd > 0));
    assert!(of("remote_port").iter().all(|&port| port == 5201));
    assert!(of("busy_ns").into_iter().max().is_some_and(|busy| busy >= 20 * MILLISECOND));
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn directions_without_a_link_pass_at_once_and_threads_may_be_several() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator_with(
        |scenario| scenario["links"][1]["delay_ns"] = json!(30 * MILLISECOND),
        |config| {
            config["cables"][0]["forward"] = json!(null);
            config["threads"] = json!(2);
        },
    );
    let (a, b) = net.datagrams();
    b.connect(SocketAddrV4::new(A, 5201)).unwrap();
    send(&a, 0..20, 100, Duration::ZERO);
    assert_eq!(numbers(&receive(&b, 20)), (0..20).collect::<Vec<_>>());
    send(&b, 20..40, 100, Duration::ZERO);
    let back = receive(&a, 20);
    assert_eq!(numbers(&back), (20..40).collect::<Vec<_>>());
    assert!(back.iter().all(|packet| packet.at - packet.sent >= 30 * MILLISECOND), "{back:?}");
    let (batches, report) = stop(emulator);
    assert_eq!(report["health"]["packets"], 40, "of both threads: {report}");
    assert_eq!(report["links"].as_array().map(Vec::len), Some(1), "one link is carried out: {report}");
    assert!(column(&batches, "queue", "hop").iter().all(|&hop| hop == 1), "only `back` is there");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn an_interface_that_goes_away_is_told_of() {
    let _alone = common::alone();
    let net = Net::new();
    let emulator = net.emulator(|_| ());
    net.remove("a", "eth0");
    let cpu = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        time.tv_sec as u64 * 1000 * MILLISECOND + time.tv_nsec as u64
    };
    let before = cpu();
    thread::sleep(Duration::from_millis(500));
    // A wait that the error ends would burn a processor.
    assert!(cpu() - before < 250 * MILLISECOND, "it rests");
    let (_, report) = stop(emulator);
    assert_eq!(report["health"]["unreliable"], true, "{report}");
    assert!(report["health"]["reason"].as_str().unwrap().contains("went down or away"), "{report}");
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn nothing_is_left_of_a_killed_emulator() {
    let Some(config) = env::var_os(VICTIM) else {
        let _alone = common::alone();
        let net = Net::new();
        let sockets = || net.inside("e", || std::fs::read_to_string("/proc/thread-self/net/packet").unwrap());
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--include-ignored", "--exact", "nothing_is_left_of_a_killed_emulator", "--nocapture"])
            .env(VICTIM, net.config(|_| (), |_| ()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "ready"), "the emulator runs");
        assert_eq!(sockets().lines().count(), 1 + 4, "two in and two out");
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert_eq!(sockets().lines().count(), 1, "only the heading");
        return;
    };
    let mut emulator = Emulator::new(&config.to_string_lossy()).unwrap();
    emulator.start().unwrap();
    println!("\nready");
    thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn what_is_missing_is_named() {
    let _alone = common::alone();
    let net = Net::new();
    let refusal = |configure: &dyn Fn(&mut Value)| {
        let config = net.config(|_| (), configure);
        let error = Emulator::new(&config)
            .map_err(|error| error.to_string())
            .and_then(|mut emulator| emulator.start().map_err(|error| error.to_string()));
        error.expect_err("something is missing")
    };
    let line = refusal(&|config| config["netns"] = json!("cwndlab-nowhere"));
    assert!(line.contains("network namespace cwndlab-nowhere"), "{line}");
    let line = refusal(&|config| config["cables"][0]["b"] = json!("c0"));
    assert!(line.contains("interface c0"), "{line}");
    let line = refusal(&|config| config["cables"][0]["forward"] = json!("their"));
    assert!(line.contains("no link is called their"), "{line}");
    let line = refusal(&|config| config["scenario"]["links"][0]["rate_bps"] = json!(0));
    assert!(line.contains("link there: rate_bps must be above zero"), "{line}");
    let line = refusal(&|config| config["cable"] = json!([]));
    assert!(line.contains("unknown field `cable`"), "{line}");
    let line = live::offload::set(Some(&net.place("e")), "c0", false, false).unwrap_err().to_string();
    assert!(line.contains("interface c0"), "{line}");
}

/// Set for the process that is stopped: the name of its emulator's namespace.
const VICTIM: &str = "CWNDLAB_TEST_STOPPED";

#[test]
#[ignore = "needs root and ip (iproute2)"]
fn a_run_that_was_held_up_is_unreliable() {
    if env::var_os(VICTIM).is_some() {
        let net = Net::new();
        let emulator = net.emulator(|scenario| scenario["links"][0]["delay_ns"] = json!(200 * MILLISECOND));
        let (a, _b) = net.datagrams();
        // Until told, so that there is traffic when the process is stopped, however busy the machine.
        let told = thread::spawn(|| std::io::stdin().read_line(&mut String::new()));
        println!("\nready");
        while !told.is_finished() {
            send(&a, 0..10, 100, PAUSE);
        }
        let (_, report) = stop(emulator);
        println!("\nreport {report}");
        return;
    }
    let _alone = common::alone();
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--include-ignored", "--exact", "a_run_that_was_held_up_is_unreliable", "--nocapture"])
        .env(VICTIM, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "ready"), "the emulator runs");
    let process = victim.id() as libc::pid_t;
    // Packets of the last 200 ms are on their way, for as many times as a busy machine keeps the sender from sending.
    for signal in [libc::SIGCONT, libc::SIGSTOP].into_iter().cycle().take(7) {
        // SAFETY: plain call; the process is a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
        thread::sleep(Duration::from_millis(300));
    }
    drop(victim.stdin.take()); // its input is at its end
    let report = lines.find_map(|line| line.strip_prefix("report ").map(str::to_string)).expect("a report");
    assert!(victim.wait().unwrap().success());
    let report: Value = serde_json::from_str(&report).unwrap();
    let health = &report["health"];
    assert_eq!(health["unreliable"], true, "{report}");
    assert!(health["late"]["max_ns"].as_u64().unwrap() > 50 * MILLISECOND, "{report}");
    assert!(health["reason"].as_str().unwrap().contains("after their time"), "{report}");
}
