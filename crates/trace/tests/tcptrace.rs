//! Captures of FreeBSD's own TCP, counted here and by tcptrace.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use trace::{Connections, Direction, Skipped, read};

/// Recordings at the sender's NIC, 100 bytes a packet.
fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../groundtruth/freebsd/stack");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".pcap.gz"));
    files.sort();
    assert!(!files.is_empty(), "captures in {}", folder.display());
    files
}

/// The two numbers, one for each direction, in a line of tcptrace's long output.
fn row(text: &str, label: &str) -> [u64; 2] {
    // A total of both directions may stand before it, under the same name.
    let line = text.lines().rfind(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no line {label:?} in\n{text}"));
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("two numbers in {line:?}"))
}

#[test]
fn the_same_packets_bytes_and_retransmissions() {
    let mut with_losses = 0;
    for gz in captures() {
        let mut connections = Connections::new();
        let skipped = read(GzDecoder::new(File::open(&gz).unwrap()), &mut connections, |_, _| {}).unwrap();
        // There are some packets of other protocols.
        assert_eq!(Skipped { other: Default::default(), ..skipped }, Skipped::default(), "{}", gz.display());

        let mut bytes = Vec::new();
        GzDecoder::new(File::open(&gz).unwrap()).read_to_end(&mut bytes).unwrap();
        let pcap = Path::new(env!("CARGO_TARGET_TMPDIR")).join(gz.file_stem().unwrap());
        fs::write(&pcap, bytes).unwrap();
        let run = Command::new("tcptrace").args(["-l", "-n", "-o2"]).arg(&pcap).output();
        let run = run.unwrap_or_else(|error| panic!("tcptrace (`make test` installs it): {error}"));
        let text = String::from_utf8(run.stdout).unwrap();

        // The first one found its port closed.
        let [refused, connection] = connections.list() else { panic!("two connections in {}", gz.display()) };
        assert!(refused.reset && !connection.reset);
        let halves = [Direction::Forward, Direction::Backward].map(|direction| connection.half(direction));
        let figures: [(&str, [u64; 2]); 6] = [
            ("total packets:", halves.map(|half| half.packets)),
            ("actual data pkts:", halves.map(|half| half.data_packets)),
            ("actual data bytes:", halves.map(|half| half.payload_bytes)),
            ("rexmt data pkts:", halves.map(|half| half.repeated_packets)),
            ("rexmt data bytes:", halves.map(|half| half.repeated_bytes)),
            ("sack pkts sent:", halves.map(|half| half.sack_packets)),
        ];
        for (label, ours) in figures {
            assert_eq!(ours, row(&text, label), "{label} {}\n{text}", gz.display());
        }
        with_losses += usize::from(halves[0].repeated_packets > 0);
    }
    assert!(with_losses > 0);
}
