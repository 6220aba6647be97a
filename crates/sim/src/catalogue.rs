//! What the engine knows, as JSON: the one place from which Python takes every name.

use serde_json::{Value, json};
use tcp::profile::{self, EcnMode, Profile};

/// Stacks with their congestion controls and sysctls, queue kinds with their parameters, losses and applications.
pub fn catalogue() -> String {
    let stacks = profile::all();
    let mut newest = serde_json::Map::new();
    for stack in &stacks {
        newest.insert(stack.facts().family.as_str().into(), stack.facts().name.into());
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
        "apps": [{"kind": "bulk", "params": [{"name": "write", "unit": "bytes", "default": 131_072}]}],
    })
    .to_string()
}

fn stack(profile: &dyn Profile) -> Value {
    let facts = profile.facts();
    let sysctls: Vec<Value> = profile
        .sysctls()
        .iter()
        .map(|s| json!({"name": s.name, "default": s.default, "min": s.min, "max": s.max, "about": s.about}))
        .collect();
    let alias: serde_json::Map<String, Value> =
        facts.cc_alias.iter().map(|&(from, to)| (from.to_owned(), to.into())).collect();
    json!({
        "name": facts.name,
        "family": facts.family.as_str(),
        "inferred": facts.inferred,
        "default_cc": facts.cc[0],
        "cc": facts.cc,
        "cc_alias": alias,
        "hz": facts.hz,
        "ecn": match facts.ecn {
            EcnMode::Off => "off",
            EcnMode::Accept => "accept",
            EcnMode::On => "on",
        },
        "sysctls": sysctls,
    })
}
