//! The configuration of a queue discipline made from nothing but the catalogue, as the experiment file does it.

use path::{QueueConfig, QueueKind};

/// Linux's defaults; of RED, what `tc` derives from a limit of 400 KB; of the rest, what Linux derives from a link with
/// packets of 1500 bytes.
pub fn queue(kind: &QueueKind) -> QueueConfig {
    let derived = [
        ("red", "limit_bytes", 400_000),
        ("red", "min_bytes", 33_333),
        ("red", "max_bytes", 100_000),
        ("red", "burst_packets", 55),
        ("fq_codel", "quantum_bytes", 1500),
        ("fq_pie", "quantum_bytes", 1500),
        ("cake", "memlimit_bytes", 10_240 * 1500),
    ];
    let mut json = serde_json::Map::from_iter([("kind".to_owned(), kind.kind.into())]);
    for param in kind.params {
        let (field, value) = match (param.unit, param.default) {
            ("bool", Some(default)) => (param.name.to_owned(), (default == 1).into()),
            ("choice", Some(place)) => (param.name.to_owned(), param.choices[place as usize].into()),
            ("count", default) => (param.name.to_owned(), default.into()),
            (unit, default) => (format!("{}_{unit}", param.name), default.into()),
        };
        let derived = derived.into_iter().find(|&(of, name, _)| of == kind.kind && name == field);
        json.insert(field, derived.map_or(value, |(.., value)| value.into()));
    }
    serde_json::from_value(json.into()).unwrap_or_else(|error| panic!("{}: {error}", kind.kind))
}
