//! Every queue discipline against the plain models of `reference/vectors.py`, packet by packet.

use std::process::Command;

use crate::common::Pkt;
use path::{DropReason, Ecn, Link, LinkConfig, Mode, Output, QueueConfig, stream};

/// Vector of a test: the link, what enters it, and the lines of what should happen.
struct Vector {
    config: LinkConfig,
    arrivals: Vec<(u64, Pkt)>,
    expected: Vec<String>,
}

/// Checks a discipline against vectors that its plain model computes now. `cases`: their number.
#[track_caller]
fn check(discipline: &str, cases: usize) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/path/reference/vectors.py");
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let made = Command::new(&python).args(["-B", script, discipline]).output().expect("Python runs");
    assert!(made.status.success(), "{python}: {}", String::from_utf8_lossy(&made.stderr));
    let text = String::from_utf8(made.stdout).unwrap();
    let vectors: Vec<&str> = text.split("vector ").skip(1).collect();
    assert_eq!(vectors.len(), cases);
    for vector in vectors {
        let (name, lines) = vector.split_once('\n').unwrap();
        check_vector(name, lines);
    }
}

fn check_vector(name: &str, text: &str) {
    let Vector { config, arrivals, expected } = parse(text);
    let mut link: Link<Pkt> = Link::new(&config, &|purpose| stream(7, 0, purpose, "link"), Mode::Stepped);
    let mut lines = Lines { arrived: arrivals.iter().map(|&(at, _)| at).collect(), lines: Vec::new() };
    for (at, packet) in arrivals {
        link.arrive(at, packet, &mut lines);
    }
    link.on_event(u64::MAX >> 1, &mut lines);
    for (number, (found, expected)) in lines.lines.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{name}: line {number} of what happened");
    }
    assert_eq!(lines.lines.len(), expected.len(), "{name}");
    assert!(expected.len() >= lines.arrived.len() && lines.arrived.len() > 900, "{name}");
}

#[test]
fn codel() {
    check("codel", 3);
}

#[test]
fn red() {
    check("red", 6);
}

#[test]
fn fq_codel() {
    check("fq_codel", 3);
}

#[test]
fn pie() {
    check("pie", 6);
}

#[test]
fn fq_pie() {
    check("fq_pie", 2);
}

#[test]
fn dualpi2() {
    check("dualpi2", 5);
}

#[test]
fn choke() {
    check("choke", 3);
}

#[test]
fn fq() {
    check("fq", 5);
}

#[test]
fn cake() {
    check("cake", 4);
}

/// Lines of what happens, in the words of the vectors.
struct Lines {
    arrived: Vec<u64>,
    lines: Vec<String>,
}

impl Output<Pkt> for Lines {
    fn forward(&mut self, _at: u64, packet: Pkt, waited: u64, _sent: u64) {
        let start = self.arrived[packet.id as usize] + waited;
        self.lines.push(format!("start {start} {}", packet.id));
    }
    fn dropped(&mut self, at: u64, packet: &Pkt, why: DropReason) {
        let why = match why {
            DropReason::Overlimit => "overlimit",
            DropReason::Aqm => "aqm",
            _ => panic!("a queue discipline does not drop for {why:?}"),
        };
        self.lines.push(format!("drop {at} {} {why}", packet.id));
    }
    fn marked(&mut self, at: u64, packet: &Pkt) {
        self.lines.push(format!("mark {at} {}", packet.id));
    }
}

fn parse(text: &str) -> Vector {
    let mut config = LinkConfig::default();
    let mut groups = Vec::new();
    let mut expected = Vec::new();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap();
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |i: usize| fields[i].parse::<u64>().unwrap();
        match word {
            "link" => {
                config.rate_bps = Some(number(0));
                config.overhead = number(1) as u32;
                config.mtu = number(2) as u32;
            }
            "queue" => config.queue = serde_json::from_str::<QueueConfig>(rest).unwrap(),
            "in" => {
                let ecn = match fields[7] {
                    "not-ect" => Ecn::NotEct,
                    "ect0" => Ecn::Ect0,
                    "ect1" => Ecn::Ect1,
                    other => panic!("{other}"),
                };
                for i in 0..number(2) {
                    let packet = Pkt {
                        flow: number(4) as u32,
                        src: number(5) as u16,
                        dst: number(6) as u16,
                        ecn,
                        ..Pkt::new(0, number(3) as u32)
                    };
                    groups.push((number(0) + i * number(1), packet));
                }
            }
            _ => expected.push(line.to_owned()),
        }
    }
    // Stable: simultaneous packets stay in the order of their lines.
    groups.sort_by_key(|&(at, _)| at);
    let number = |(id, (at, packet)): (usize, (u64, Pkt))| (at, Pkt { id: id as u32, ..packet });
    Vector { config, arrivals: groups.into_iter().enumerate().map(number).collect(), expected }
}
