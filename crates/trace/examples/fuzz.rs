//! Feeds damaged pcap and pcapng files to the readers and everything behind them, for as long as asked.
//!
//! ```text
//! cargo run --profile ci -p cwndlab-trace --example fuzz -- SECONDS SEED FILE...
//! ```
//!
//! Each file named is a sample; what is fed are samples with a few random changes. A panic is a failure, and prints the seed
//! and the number of the file.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use trace::capture::Capture;
use trace::clock;
use trace::connection::Direction::{Backward, Forward};
use trace::pairs::{matching, round_trips};
use trace::rounds::rounds;
use trace::series::Stream;
use trace::throughput::Count;

fn main() {
    let mut arguments = env::args().skip(1);
    let seconds: u64 = arguments.next().and_then(|word| word.parse().ok()).expect("SECONDS");
    let seed: u64 = arguments.next().and_then(|word| word.parse().ok()).expect("SEED");
    let samples: Vec<Vec<u8>> = arguments.map(|file| fs::read(file).expect("a sample")).collect();
    assert!(!samples.is_empty(), "name at least one sample");
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut tried, mut read) = (0_u64, 0_u64);
    while Instant::now() < until {
        let mut random = Random(seed ^ tried.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let sample = &samples[random.below(samples.len())];
        let other = &samples[random.below(samples.len())];
        let bytes = damaged(sample, other, &mut random);
        tried += 1;
        let result = std::panic::catch_unwind(|| evaluate(&bytes, other));
        match result {
            Ok(good) => read += u64::from(good),
            Err(_) => panic!("seed {seed}, file {}", tried - 1),
        }
    }
    println!("{tried} files in {seconds} s, {read} read to their end, no failure");
}

/// Reads a damaged capture and works through all of it, also against a whole one. Whether it was read.
fn evaluate(bytes: &[u8], other: &[u8]) -> bool {
    let Ok(capture) = Capture::read(bytes, true) else { return false };
    let other = Capture::read(other, true).expect("samples are good");
    for connection in 0..capture.connections.list().len() {
        for direction in [Forward, Backward] {
            let stream = Stream { connection, direction };
            if let Some(series) = capture.series(stream) {
                let found = rounds(series, 1448);
                assert!(found.rtt.len() <= found.segments.len());
            }
            let second = 1_000_000_000;
            if capture.span.is_some_and(|(first, last)| last - first < 1000 * second) {
                for count in [Count::Payload, Count::Ip, Count::Frame] {
                    let _ = capture.throughput(stream, count, second, second);
                }
                let _ = capture.acknowledged(stream, second, second);
            }
        }
        if let (Some(mine), Some(theirs)) = (capture.sightings(connection), other.sightings(0)) {
            let found = matching(mine, theirs);
            assert!(found.lost(Forward).count() <= found.at_reference.len());
            let trips = round_trips(&found.matched, Forward);
            assert!(trips.len() <= found.matched.len());
            if let Some(clock) = clock::estimate(&found.matched, Forward) {
                found.matched.iter().for_each(|packet| {
                    clock.delay_ns(packet, Forward);
                });
            }
        }
    }
    true
}

/// The sample with one to eight changes.
fn damaged(sample: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..=random.below(8) {
        if bytes.is_empty() {
            break;
        }
        let start = random.below(bytes.len());
        let length = [1, 2, 4, 8, 40, 2000][random.below(6)];
        let end = (start + length).min(bytes.len());
        match random.below(7) {
            0 => bytes[start] = random.next() as u8,
            1 => bytes[start] ^= 1 << random.below(8),
            2 => drop(bytes.drain(start..end)),
            3 => {
                let piece = bytes[start..end].to_vec();
                bytes.splice(start..start, piece);
            }
            4 => {
                let at = random.below(other.len());
                let piece = other[at..(at + length).min(other.len())].to_vec();
                bytes.splice(start..end, piece);
            }
            5 => bytes.truncate(start),
            _ => bytes[start..end].fill_with(|| random.next() as u8),
        }
    }
    bytes
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
