//! Cases for two endpoints, drawn at random.

use proptest::prelude::*;

use crate::driver::{Case, DELAYS, Path, Side};

/// Any two stacks over any path.
pub(crate) fn any_case() -> impl Strategy<Value = Case> {
    (any_side(), any_side(), any_path()).prop_map(|(a, b, path)| Case { a, b, path })
}

fn any_side() -> impl Strategy<Value = Side> {
    let sizes = prop_oneof![Just(0), 1..2_000u64, 1..60_000u64, 60_000..200_000u64];
    let mss = prop_oneof![Just(1460u16), Just(536), 88..1460u16];
    // Half of the initial sequence numbers wrap soon.
    let iss = prop_oneof![any::<u32>(), (0..50_000u32).prop_map(|before| 0u32.wrapping_sub(before))];
    let sndbuf = prop_oneof![Just(None), (2_000..100_000u64).prop_map(Some)];
    let rcvbuf =
        prop_oneof![Just(None), (3_000..100_000u64).prop_map(Some), (3_000..6_000u64).prop_map(Some)];
    let pause = prop_oneof![3 => Just(0u64), 1 => (1..400u64).prop_map(|ms| ms * 1_000_000)];
    (
        (any::<usize>(), any::<usize>(), mss, iss, sizes),
        (sndbuf, rcvbuf, 2_000..50_000u64, pause, any::<bool>(), any::<bool>()),
    )
        .prop_map(|((stack, cc, mss, iss, bytes), (sndbuf, rcvbuf, read, pause, tso, ecn))| Side {
            stack,
            cc,
            mss,
            iss,
            bytes,
            sndbuf,
            rcvbuf,
            read,
            pause,
            tso,
            ecn,
        })
}

fn any_path() -> impl Strategy<Value = Path> {
    let share = |most: u32| prop_oneof![Just(0), 0..most];
    (
        (0..DELAYS.len()).prop_map(|index| DELAYS[index]),
        prop_oneof![Just(0u64), 0..100_000u64, 0..50_000_000u64],
        share(300),
        share(201),
        share(100),
        share(500),
        share(500),
        share(50),
        any::<u64>(),
    )
        .prop_map(|(delay, jitter, jittered, loss, duplicate, cut, join, mark, seed)| Path {
            delay,
            jitter,
            jittered,
            loss,
            duplicate,
            cut,
            join,
            mark,
            seed,
        })
}
