//! Readings by tshark and tcptrace of captures written here, and ours of captures that tshark writes.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::capture::{LinkType, Reader};
use wire::codec::{self, Ends, SynLayout};
use wire::{Ecn, Flags, Options, Segment, pcap};

const CLIENT: Ends<Ipv4Addr> =
    Ends { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 1, 1), sport: 40000, dport: 5201 };
const MSS: u32 = 1448;

/// A connection: handshake, ten segments of which the fourth is lost and sent again, close. (t_ns, from the client?, segment)
fn conversation() -> Vec<(u64, bool, Segment)> {
    let start = 1_700_000_000_123_456_789;
    let base = Segment {
        options: Options::TIMESTAMPS,
        window: 1000,
        flags: Flags::ACK,
        frames: 1,
        ..Segment::default()
    };
    let syn = Segment {
        options: Options::MSS | Options::WSCALE | Options::SACK_PERMITTED | Options::TIMESTAMPS,
        mss: 1460,
        wscale: 7,
        flags: Flags::SYN,
        // The sequence numbers wrap in the middle of the transfer.
        seq: u32::MAX - 5000,
        ..base
    };
    let first = syn.seq.wrapping_add(1);
    let server = Segment { seq: 901, ..base };
    let data = |n: u32| Segment {
        seq: first.wrapping_add(n * MSS),
        ack: 901,
        len: MSS,
        tsval: n,
        ecn: Ecn::Ect0,
        flags: Flags::ACK | Flags::PSH,
        ..base
    };
    let mut list = vec![
        (true, syn),
        (false, Segment { seq: 900, ack: first, flags: Flags::SYN | Flags::ACK, ..syn }),
        (true, Segment { seq: first, ack: 901, ..base }),
    ];
    list.extend((0..10).map(|n| (true, data(n))));
    for n in 4..10 {
        let mut duplicate = Segment { ack: first.wrapping_add(3 * MSS), ..server };
        duplicate.sack.push(first.wrapping_add(4 * MSS), first.wrapping_add((n + 1) * MSS));
        list.push((false, duplicate));
    }
    list.push((true, data(3)));
    let end = first.wrapping_add(10 * MSS);
    list.push((false, Segment { ack: end, flags: Flags::ACK | Flags::ECE, ..server }));
    list.push((true, Segment { seq: end, ack: 901, flags: Flags::FIN | Flags::ACK, ..base }));
    list.push((false, Segment { ack: end.wrapping_add(1), flags: Flags::FIN | Flags::ACK, ..server }));
    list.push((true, Segment { seq: end.wrapping_add(1), ack: 902, ..base }));
    list.into_iter()
        .enumerate()
        .map(|(i, (up, segment))| (start + i as u64 * 1_000_001, up, segment))
        .collect()
}

fn write(name: &str, link: LinkType, layout: SynLayout, snaplen: u32) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut writer = pcap::Writer::new(File::create(&path).unwrap(), link, snaplen).unwrap();
    for (index, (t_ns, up, segment)) in conversation().iter().enumerate() {
        let ends = if *up { CLIENT } else { CLIENT.reversed() };
        writer.tcp(*t_ns, segment, &ends, layout, index as u32).unwrap();
    }
    path
}

fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    let run = Command::new(program)
        .args(arguments)
        .arg(file)
        .output()
        .unwrap_or_else(|error| panic!("{program} (`make test` installs it): {error}"));
    assert!(run.status.success(), "{program}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

const CHECKS: [&str; 4] = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];

#[test]
fn tshark_finds_nothing_malformed_and_reads_what_was_meant() {
    let cases = [
        ("raw.pcap", LinkType::RAW, SynLayout::Linux, 65535),
        ("ethernet.pcap", LinkType::ETHERNET, SynLayout::FreeBsd, 65535),
        ("windows.pcap", LinkType::RAW, SynLayout::Windows, 65535),
        ("cut.pcap", LinkType::RAW, SynLayout::FreeBsd, 96),
    ];
    for (name, link, layout, snaplen) in cases {
        let file = write(name, link, layout, snaplen);
        // An expert item of severity "error" is anything tshark holds to be wrong.
        let wrong = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 \
                     || _ws.expert.severity >= 0x00800000";
        let bad = output("tshark", &[&CHECKS[..], &["-Y", wrong, "-r"]].concat(), &file);
        assert_eq!(bad, "", "{name}");

        let fields =
            "frame.time_epoch tcp.seq_raw tcp.ack_raw tcp.len tcp.flags ip.dsfield.ecn ip.id frame.len";
        let mut arguments = vec!["-T", "fields", "-E", "separator=,"];
        fields.split(' ').for_each(|field| arguments.extend(["-e", field]));
        arguments.push("-r");
        let header = if link == LinkType::ETHERNET { 14 } else { 0 };
        let wanted: String = conversation()
            .iter()
            .enumerate()
            .map(|(id, (t_ns, _, s))| {
                let (s_, ns) = (t_ns / 1_000_000_000, t_ns % 1_000_000_000);
                let length = s.tcp_bytes() + 20 + header;
                let (flags, ecn) = (s.flags.0, s.ecn as u8);
                format!(
                    "{s_}.{ns:09},{},{},{},0x{flags:04x},{ecn},0x{id:04x},{length}\n",
                    s.seq, s.ack, s.len
                )
            })
            .collect();
        assert_eq!(output("tshark", &arguments, &file), wanted, "{name}");

        let retransmissions = output(
            "tshark",
            &["-Y", "tcp.analysis.retransmission", "-T", "fields", "-e", "frame.number", "-r"],
            &file,
        );
        assert_eq!(retransmissions, "20\n", "{name}");
    }
}

#[test]
fn tcptrace_sees_a_complete_connection_and_one_retransmission() {
    for (name, link) in [("tcptrace-raw.pcap", LinkType::RAW), ("tcptrace-ethernet.pcap", LinkType::ETHERNET)]
    {
        let file = write(name, link, SynLayout::Linux, 96);
        let text = output("tcptrace", &["-l", "-n"], &file);
        let row = |label: &str| -> Vec<String> {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(label))
                .unwrap_or_else(|| panic!("{text}"));
            line.split_whitespace()
                .filter(|word| word.bytes().all(|b| b.is_ascii_digit()))
                .map(str::to_owned)
                .collect()
        };
        assert!(text.contains("complete conn: yes"), "{text}");
        assert_eq!(row("rexmt data pkts:"), ["1", "0"], "{text}");
        assert_eq!(row("unique bytes sent:"), ["14480", "0"], "{text}");
        assert_eq!(row("sack pkts sent:"), ["0", "6"], "{text}");
    }
}

#[test]
fn what_tshark_writes_as_pcapng_is_read_back() {
    let file = write("before.pcap", LinkType::ETHERNET, SynLayout::Linux, 65535);
    let pcapng = file.with_extension("pcapng");
    output("tshark", &["-F", "pcapng", "-w", pcapng.to_str().unwrap(), "-r"], &file);
    assert_eq!(fs::read(&pcapng).unwrap()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let mut reader = Reader::new(File::open(&pcapng).unwrap()).unwrap();
    for (t_ns, up, segment) in conversation() {
        let record = reader.next_record().unwrap().unwrap();
        let (ip, length) = record.ip().unwrap();
        let packet = codec::parse(ip, length).unwrap();
        assert_eq!((record.t_ns, packet.segment), (t_ns, segment));
        assert_eq!(packet.ends.sport, if up { 40000 } else { 5201 });
        assert_eq!(packet.checksum_ok(), Some(true));
    }
    assert!(reader.next_record().unwrap().is_none());
}
