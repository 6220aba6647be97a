//! Captures of any bytes: each is refused, or read and worked through whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::capture::Capture;
use trace::clock;
use trace::connection::Direction::{Backward, Forward};
use trace::pairs::{matching, round_trips};
use trace::rounds::rounds;
use trace::series::Stream;
use trace::throughput::Count;

const SECOND: u64 = 1_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(capture) = Capture::read(bytes, true) {
        (0..capture.connections.list().len()).for_each(|connection| evaluate(&capture, connection));
    }
});

fn evaluate(capture: &Capture, connection: usize) {
    let is_short = capture.span.is_some_and(|(first, last)| last - first < 1000 * SECOND);
    for direction in [Forward, Backward] {
        let stream = Stream { connection, direction };
        if let Some(series) = capture.series(stream) {
            let found = rounds(series, 1448);
            assert!(found.rtt.len() <= found.segments.len());
        }
        if is_short {
            for count in [Count::Payload, Count::Ip, Count::Frame] {
                let _ = capture.throughput(stream, count, SECOND, SECOND);
            }
            let _ = capture.acknowledged(stream, SECOND, SECOND);
        }
    }
    // The capture as if it had been taken at both ends.
    let (Some(mine), Some(theirs)) = (capture.sightings(connection), capture.sightings(0)) else { return };
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
