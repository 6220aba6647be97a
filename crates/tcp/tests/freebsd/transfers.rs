//! Every FreeBSD release delivers every byte, whatever is lost and whatever is agreed.

use crate::lab::{self, Loss, Setup};
use tcp::profile::freebsd::release;
use tcp::stack::{EcnMode, Profile};

const RELEASES: [&str; 9] = [
    "freebsd-9.0",
    "freebsd-9.2",
    "freebsd-11",
    "freebsd-13",
    "freebsd-13/rack",
    "freebsd-15-current",
    "freebsd-15-current/rack",
    "freebsd-15-d49540",
    "freebsd-15-d49540/rack",
];

#[test]
fn every_release_delivers_every_byte_under_loss() {
    const BYTES: u64 = 300_000;
    for name in RELEASES {
        for &cc in release(name).expect("a release").spec().cc {
            for (sack, rfc1323) in [(1, 1), (0, 1), (1, 0), (0, 0)] {
                for random in 1..=12 {
                    let mut profile = release(name).expect("a release");
                    profile.set("net.inet.tcp.sack.enable", sack);
                    profile.set("net.inet.tcp.rfc1323", rfc1323);
                    let share = [0.0, 0.01, 0.05, 0.15][random as usize % 4];
                    let out = lab::run(&Setup {
                        sender: &profile,
                        receiver: &profile,
                        cc,
                        rate: 20_000_000,
                        rtt: 30_000_000,
                        buffer: 20,
                        mark_at: (random % 3 == 0).then_some(5),
                        loss: Loss::Random(share),
                        bytes: Some(BYTES),
                        buffers: Some(40_000),
                        duration: 600_000_000_000,
                        ecn: if random % 3 == 0 { EcnMode::On } else { EcnMode::Off },
                        random,
                        phase: 100_000 * random,
                        lag: 0,
                        aggregate: 1,
                    });
                    let what =
                        format!("{name} {cc} sack {sack} rfc1323 {rfc1323} loss {share} seed {random}");
                    assert_eq!(out.delivered, BYTES, "{what}");
                    assert!(out.complete, "{what}");
                }
            }
        }
    }
}
