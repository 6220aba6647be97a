//! Offers and acknowledgements of sockets of each era: windows, quick and delayed ACKs, buffers, sysctls.

use crate::path::{Path, Run, SECOND, run};
use tcp::profile;
use tcp::stack::{Profile, SocketOptions};

const MS: u64 = 1_000_000;

fn stack(name: &str) -> Box<dyn Profile> {
    profile::find(name).expect("a stack")
}

/// Number of full packets that each pure ACK of the receiver newly acknowledged, with its time.
fn acknowledged(run: &Run) -> Vec<(u64, u32)> {
    let mut last = run.answers[0].1.ack;
    let mut list = Vec::new();
    for (t, segment) in &run.answers[1..] {
        list.push((*t, segment.ack.wrapping_sub(last) / 1448));
        last = segment.ack;
    }
    list
}

/// A real 6.18 over 10 Mb/s and 40 ms, several runs: 22 single ACKs, 4 to 6 for two packets each, 24 to 33 single ones
/// while the window opens, 4 to 7 doubles, then singles again; and these windows, each for some packets.
#[test]
fn acks_and_windows_are_those_of_the_real_receiver() {
    let profile = stack("linux-6.18");
    let path =
        Path { rate: Some(10_000_000), queue: 90, duration: 20 * SECOND, ..Path::new(profile.as_ref()) };
    let run = run(&path);
    let acks = acknowledged(&run);
    let mut at = 0;
    let mut lengths = Vec::new();
    for each in [1, 2, 1, 2, 1] {
        let length = acks[at..].iter().take_while(|ack| ack.1 == each).count();
        lengths.push(length);
        at += length;
    }
    println!("singles and doubles by turns: {lengths:?}");
    let bounds = [(20, 23), (4, 6), (24, 33), (4, 8), (20, 100)];
    for (length, (least, most)) in lengths.iter().zip(bounds) {
        assert!((least..=most).contains(length), "{lengths:?}");
    }
    let windows: Vec<u64> = run.answers[1..].iter().map(|(_, s)| u64::from(s.window) << 10).collect();
    for recorded in
        [80_896, 87_040, 92_160, 98_304, 112_640, 124_928, 130_048, 144_384, 151_552, 157_696, 163_840]
    {
        assert!(windows.contains(&recorded), "a window of {recorded}");
    }
    // In the second half of 20 s, where the window is open, it sent 3,586 ACKs for two packets and 729 for one: those that end
    // with PSH behind an odd one.
    let late: Vec<u32> =
        acks.iter().filter(|ack| ack.0 > 10 * SECOND && ack.1 > 0).map(|ack| ack.1).collect();
    let singles = late.iter().filter(|&&n| n == 1).count() as f64 / late.len() as f64;
    assert!((0.12..0.22).contains(&singles), "{singles} of {} late ACKs are for one", late.len());
}

#[test]
fn the_windows_of_syn_and_syn_ack_are_those_of_the_era() {
    for (name, window, scale) in [
        ("linux-3.9", 14_480, 7),
        ("linux-6.8", 65_160, 7),
        ("linux-6.12", 65_160, 7),
        ("linux-6.18", 65_160, 10),
    ] {
        let profile = stack(name);
        let run = run(&Path { duration: SECOND, ..Path::new(profile.as_ref()) });
        let syn_ack = run.answers[0].1;
        assert_eq!((u64::from(syn_ack.window), syn_ack.wscale), (window, scale), "{name}");
        let syn = run.sent[0].1;
        assert_eq!(syn.window, if name == "linux-3.9" { 14_600 } else { 64_240 }, "{name}");
    }
}

/// SO_RCVBUF is doubled; 3.9 offers half of that, modern kernels the share that packets really use. No autotuning then.
#[test]
fn a_fixed_receive_buffer_bounds_the_window() {
    for (name, least, most) in [("linux-3.9", 590_000, 600_000), ("linux-6.8", 740_000, 760_000)] {
        let mut profile = stack(name);
        profile::set_checked(profile.as_mut(), "net.core.rmem_max", 1 << 20).expect("a sysctl");
        let socket = SocketOptions { sndbuf: None, rcvbuf: Some(600_000) };
        let path =
            Path { socket, rate: Some(100_000_000), duration: 5 * SECOND, ..Path::new(profile.as_ref()) };
        let run = run(&path);
        let widest =
            run.answers[1..].iter().map(|(_, s)| u64::from(s.window) << run.answers[0].1.wscale).max();
        let widest = widest.expect("ACKs");
        assert!((least..=most).contains(&widest), "{name}: {widest}");
    }
}

/// Beyond rmem_max a larger request makes no difference.
#[test]
fn rmem_max_caps_the_request() {
    let profile = stack("linux-6.8");
    let ask = |bytes| profile.buffers(&SocketOptions { sndbuf: Some(bytes), rcvbuf: Some(bytes) });
    assert_eq!(ask(1 << 30), ((2 * 212_992, false), (2 * 212_992, false)));
    assert_eq!(ask(100_000), ((200_000, false), (200_000, false)));
}

/// Autotuning opens the window to what the path takes, within tcp_rmem's maximum; without it the window stays.
#[test]
fn autotuning_follows_the_path() {
    for name in ["linux-3.9", "linux-6.8", "linux-6.18"] {
        let goodput = |tcp_moderate_rcvbuf: i64, rmem_max: i64| {
            let mut profile = stack(name);
            let mut set =
                |name, value| profile::set_checked(profile.as_mut(), name, value).expect("a sysctl");
            set("net.ipv4.tcp_moderate_rcvbuf", tcp_moderate_rcvbuf);
            set("net.ipv4.tcp_rmem.max", rmem_max);
            let path = Path { rate: Some(200_000_000), duration: 10 * SECOND, ..Path::new(profile.as_ref()) };
            run(&path).read as f64 * 8.0 / 10e6
        };
        let (tuned, capped, fixed) = (goodput(1, 8 << 20), goodput(1, 400_000), goodput(0, 8 << 20));
        println!("{name}: autotuned {tuned:.0} Mb/s, within 400 KB {capped:.0}, fixed {fixed:.0}");
        assert!(tuned > 150.0, "{name}: {tuned}");
        // A window of 200 to 250 KB per 40 ms.
        assert!((35.0..55.0).contains(&capped), "{name}: {capped}");
        assert!(fixed < 20.0, "{name}: {fixed}");
    }
}

/// The last odd packet waits for the delayed-ACK timer, 40 ms; a short one after reading is acknowledged at once.
#[test]
fn a_delayed_ack_comes_after_40_ms() {
    let profile = stack("linux-6.8");
    let run = run(&Path {
        bytes: 401 * 1448,
        rate: Some(10_000_000),
        duration: 30 * SECOND,
        ..Path::new(profile.as_ref())
    });
    assert_eq!(run.read, 401 * 1448);
    let last = run.sent.iter().rfind(|(_, s)| s.len > 0).expect("data").0;
    let end = run.answers.last().expect("ACKs").0;
    assert!(
        end - last < 90 * MS,
        "the transfer ends within a delayed ACK of its last packet: {}",
        end - last
    );
}

/// Duplicate ACKs are compressed to one per millisecond after the first three (modern kernels, fast paths).
#[test]
fn duplicate_acks_are_compressed() {
    let duplicates = |nr: i64| {
        let mut profile = stack("linux-6.8");
        profile::set_checked(profile.as_mut(), "net.ipv4.tcp_comp_sack_nr", nr).expect("a sysctl");
        let path = Path {
            rate: Some(1_000_000_000),
            duration: SECOND,
            lose: |index, _| index == 1500,
            ..Path::new(profile.as_ref())
        };
        let run = run(&path);
        run.answers.iter().filter(|(_, s)| !s.sack.is_empty()).count()
    };
    let (compressed, all) = (duplicates(44), duplicates(0));
    println!("{compressed} duplicate ACKs compressed, {all} without");
    assert!(all > 400 && compressed * 8 < all);
}

/// Loses every other packet, so that each one that arrives is a block of its own; compression holds none of them
/// back for good, so that nothing is sent again that arrived. Without compression it is the same.
#[test]
fn compression_hides_no_block() {
    for (name, nr) in [("linux-6.8", 44), ("linux-6.18", 44), ("linux-6.18", 0)] {
        let mut profile = stack(name);
        profile::set_checked(profile.as_mut(), "net.ipv4.tcp_comp_sack_nr", nr).expect("a sysctl");
        let path = Path {
            cc: "reno",
            rate: Some(50_000_000),
            duration: 2 * SECOND,
            lose: |index, _| (300..500).contains(&index) && index % 2 == 0,
            ..Path::new(profile.as_ref())
        };
        let run = run(&path);
        let again = run.moments.last().expect("a sender").retransmits;
        assert_eq!((run.drops, again), (100, 100), "{name}, tcp_comp_sack_nr {nr}");
    }
}

/// A paced sender lets a millisecond of its rate leave at once, but at least two packets, whether or not the interface
/// segments: pairs at 10 Mbit/s, four packets at 50, eight at 100 (captures of 6.18: 2, 4 and 8).
#[test]
fn pacing_waits_between_bursts() {
    for (mbps, burst) in [(10, 2), (50, 3), (100, 7)] {
        let profile = stack("linux-6.18");
        let path = Path {
            cc: "bbr",
            rate: Some(mbps * 1_000_000),
            delay: 5_000_000,
            duration: 4 * SECOND,
            ..Path::new(profile.as_ref())
        };
        let run = run(&path);
        let late = run.sent.iter().filter(|(t, s)| *t > 2 * SECOND && s.len > 0);
        let mut bursts: Vec<(tcp::Nanos, usize)> = Vec::new();
        for &(t, _) in late {
            match bursts.last_mut() {
                Some((at, count)) if *at == t => *count += 1,
                _ => bursts.push((t, 1)),
            }
        }
        let mut sizes: Vec<usize> = bursts.iter().map(|&(_, count)| count).collect();
        sizes.sort_unstable();
        let usual = sizes[sizes.len() / 2];
        assert!((burst..=burst + 1).contains(&usual), "{mbps} Mbit/s: bursts of {usual}");
    }
}

/// Each sysctl changes what it says (those of congestion control and buffers are tested above and elsewhere).
#[test]
fn sysctls_do_what_they_say() {
    let with = |stack_name: &str, settings: &[(&str, i64)]| {
        let mut profile = stack(stack_name);
        for (name, value) in settings {
            profile::set_checked(profile.as_mut(), name, *value).expect("a sysctl");
        }
        let path = Path {
            rate: Some(10_000_000),
            queue: 50,
            duration: 10 * SECOND,
            lose: |index, _| index % 301 == 300,
            ..Path::new(profile.as_ref())
        };
        run(&path)
    };
    let plain = with("linux-6.8", &[]);
    let answers_with_sack = |run: &Run| run.answers.iter().filter(|(_, s)| !s.sack.is_empty()).count();
    assert!(answers_with_sack(&plain) > 0);
    let no_sack = with("linux-6.8", &[("net.ipv4.tcp_sack", 0)]);
    assert_eq!(answers_with_sack(&no_sack), 0);
    assert!(no_sack.read > plain.read / 4, "NewReno recovers: {} of {}", no_sack.read, plain.read);
    let no_stamps = with("linux-6.8", &[("net.ipv4.tcp_timestamps", 0)]);
    assert!(no_stamps.sent.iter().all(|(_, s)| !s.options.has(wire::Options::TIMESTAMPS)));
    assert!(no_stamps.sent.iter().any(|(_, s)| s.len == 1460));
    let no_scale = with("linux-6.8", &[("net.ipv4.tcp_window_scaling", 0)]);
    assert!(
        no_scale.sent.iter().chain(&no_scale.answers).all(|(_, s)| !s.options.has(wire::Options::WSCALE))
    );
    let threshold = with("linux-6.8", &[("net.ipv4.tcp_recovery", 0)]);
    assert!(threshold.read > plain.read * 9 / 10);
    let no_fack = with("linux-3.9", &[("net.ipv4.tcp_fack", 0)]);
    assert!(no_fack.read > with("linux-3.9", &[]).read * 8 / 10);
}

/// ECN: with both hosts asking, marks reduce the window without loss (RFC 3168).
#[test]
fn ecn_marks_reduce_without_loss() {
    for name in ["linux-3.9", "linux-6.8", "linux-6.18"] {
        let profile = stack(name);
        let path = Path {
            ecn: tcp::stack::EcnMode::On,
            rate: Some(10_000_000),
            queue: 90,
            mark_at: 30,
            duration: 30 * SECOND,
            ..Path::new(profile.as_ref())
        };
        let run = run(&path);
        let reductions = run.events.iter().filter(|e| e.1 == tcp::event::EventKind::Reduction).count();
        assert!(reductions > 5, "{name}: {reductions}");
        assert_eq!(run.moments.last().expect("moments").retransmits, run.drops, "{name}");
        assert!(run.read as f64 * 8.0 / 30e6 > 9.0, "{name}: {}", run.read);
    }
}

/// Carries the same bytes with segmentation offload, in fewer and larger segments, losses included.
#[test]
fn bursts_carry_the_same_stream() {
    for name in ["linux-3.9", "linux-6.8", "linux-6.18"] {
        let profile = stack(name);
        let path = Path {
            tso: true,
            rate: Some(100_000_000),
            queue: 100,
            bytes: 20_000_000,
            duration: 20 * SECOND,
            ..Path::new(profile.as_ref())
        };
        let run = run(&path);
        assert_eq!(run.read, 20_000_000, "{name}");
        let data = run.sent.iter().filter(|(_, s)| s.len > 0).count();
        assert!(data * 3 < 20_000_000 / 1448 * 2, "{name}: {data} segments");
        assert!(run.drops > 0);
    }
}
