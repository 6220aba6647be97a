//! What the engine knows, as JSON: the one place from which Python takes every name.

use serde_json::{Value, json};
use tcp::profile;
use tcp::stack::{EcnMode, Profile};

/// Stacks with their congestion controls and sysctls, queue kinds with their parameters, losses and applications.
pub fn catalogue() -> String {
    let stacks = profile::all();
    let mut newest = serde_json::Map::new();
    for stack in &stacks {
        newest.insert(stack.spec().family.as_str().into(), stack.spec().name.into());
    }
    let queues: Vec<Value> = path::catalogue()
        .iter()
        .map(|queue| {
            let params: Vec<Value> = queue
                .params
                .iter()
                .map(|p| json!({"name": p.name, "unit": p.unit, "default": p.default, "choices": p.choices}))
                .collect();
            json!({"kind": queue.kind, "params": params})
        })
        .collect();
    json!({
        "stacks": stacks.iter().map(|s| stack(&**s)).collect::<Vec<_>>(),
        "newest": newest,
        "queues": queues,
        "losses": ["random", "nth", "gilbert", "list"],
        "apps": apps(),
        "load_scenarios": loadlatency::SCENARIOS.map(|mix| [mix.uploads, mix.downloads]).to_vec(),
    })
    .to_string()
}

/// Applications with their parameters; one without a default may be absent or must be given, as the schema says.
fn apps() -> Value {
    let write = json!({"name": "write", "unit": "bytes", "default": 131_072});
    let request = json!({"name": "request", "unit": "bytes", "default": 100});
    let ecn = json!({"name": "ecn", "unit": "choice", "default": 0, "choices": ["off", "ect0", "ect1"]});
    let param = |name: &str, unit: &str| json!({"name": name, "unit": unit, "default": null});
    let default = |name: &str, unit: &str, value: u64| json!({"name": name, "unit": unit, "default": value});
    json!([
        {"kind": "bulk", "params": [write]},
        {"kind": "fixed", "params": [param("size", "bytes"), write]},
        {"kind": "rate-limited", "params": [param("rate", "bps"), write]},
        {"kind": "on-off", "params": [
            param("on", "ns"), param("off", "ns"), param("rate", "bps"), write,
            {"name": "distribution", "unit": "choice", "default": 0, "choices": ["fixed", "exponential"]},
        ]},
        {"kind": "request-response", "params": [
            param("requests", "count"), request, param("response", "bytes"), default("think", "ns", 0),
        ]},
        {"kind": "incast", "params": [
            param("size", "bytes"), request, param("rounds", "count"), default("think", "ns", 0),
        ]},
        {"kind": "udp-cbr", "params": [param("rate", "bps"), default("payload", "bytes", 1472), ecn]},
        {"kind": "voip", "params": [default("frame", "ns", 20_000_000), default("payload", "bytes", 172), ecn]},
        {"kind": "ping", "params": [default("interval", "ns", 100_000_000), default("payload", "bytes", 56)]},
        {"kind": "video", "params": [
            param("rate", "bps"), default("chunk", "ns", 4_000_000_000), default("buffer", "ns", 30_000_000_000), request,
        ]},
        {"kind": "background", "params": [
            param("load", "bps"), default("size", "bytes", 100_000), default("shape", "milli", 1500),
            default("connections", "count", 64),
        ]},
        {"kind": "loadlatency", "params": [
            param("scenario", "count"), write, default("ping", "bytes", 16), default("interval", "ns", 20_000_000),
            default("idle", "ns", 2_000_000_000),
        ]},
    ])
}

fn stack(profile: &dyn Profile) -> Value {
    let spec = profile.spec();
    let sysctls: Vec<Value> = profile
        .sysctls()
        .iter()
        .map(|s| json!({"name": s.name, "default": s.default, "min": s.min, "max": s.max, "about": s.about}))
        .collect();
    let alias: serde_json::Map<String, Value> =
        spec.cc_alias.iter().map(|&(from, to)| (from.to_owned(), to.into())).collect();
    json!({
        "name": spec.name,
        "family": spec.family.as_str(),
        "inferred": spec.inferred,
        "default_cc": spec.cc[0],
        "cc": spec.cc,
        "cc_alias": alias,
        "hz": spec.hz,
        "ecn": match spec.ecn {
            EcnMode::Off => "off",
            EcnMode::Accept => "accept",
            EcnMode::On => "on",
        },
        "sysctls": sysctls,
    })
}
