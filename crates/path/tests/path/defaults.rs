//! The configuration of a queue discipline made from nothing but the catalogue, as the experiment file does it.

use path::{Kind, QueueConfig};

/// Linux's defaults; of RED, what `tc` derives from a limit of 400 KB; of the rest, what Linux derives from a link with
/// packets of 1500 bytes.
pub(crate) fn queue(kind: &Kind) -> QueueConfig {
    let json = kind.values(|param| {
        let derived = match (kind.kind, param.field) {
            ("bfifo", "limit_bytes") => 1_514_000,
            ("red", "limit_bytes") => 400_000,
            ("red", "min_bytes") => 33_333,
            ("red", "max_bytes") => 100_000,
            ("red", "burst_packets") => 55,
            ("choke", "limit_packets") => 1000,
            ("choke", "min_packets") => 83,
            ("choke", "max_packets") => 250,
            ("choke", "burst_packets") => 138,
            ("fq", "quantum_bytes") => 3000,
            ("fq", "initial_quantum_bytes") => 15_000,
            (_, "quantum_bytes") => 1500,
            ("cake", "memlimit_bytes") => 10_240 * 1500,
            ("dualpi2", "memlimit_bytes") => 10_000 * 2 * 1500,
            _ => return None,
        };
        Some(derived.into())
    });
    serde_json::from_value(json.into()).unwrap_or_else(|error| panic!("{}: {error}", kind.kind))
}
