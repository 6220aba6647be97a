//! What the engine knows, as JSON: the one place from which Python takes every name.

use contract::catalogue::{Catalogue, Kind, Param, Stack, Sysctl};
use contract::scenario::Ecn;
use tcp::profile;
use tcp::stack::{EcnMode, Profile};

/// Stacks with their congestion controls and sysctls, queue kinds with their parameters, losses and applications.
pub fn catalogue() -> String {
    let stacks = profile::all();
    let queue = |queue: &path::QueueKind| Kind {
        kind: queue.kind,
        params: queue.params.iter().map(parameter).collect(),
    };
    contract::to_json(&Catalogue {
        stacks: stacks.iter().map(|profile| stack(&**profile)).collect(),
        newest: stacks.iter().map(|profile| (profile.spec().family.as_str(), profile.spec().name)).collect(),
        queues: path::catalogue().iter().map(queue).collect(),
        losses: vec!["random", "nth", "gilbert", "list"],
        apps: apps(),
        load_scenarios: loadlatency::SCENARIOS.map(|mix| [mix.uploads, mix.downloads]).to_vec(),
    })
}

fn parameter(param: &path::Param) -> Param {
    Param { name: param.name, unit: param.unit, default: param.default, choices: Some(param.choices) }
}

/// Applications with their parameters; one without a default may be absent or must be given, as the schema says.
fn apps() -> Vec<Kind> {
    let app = |kind, params: &[Param]| Kind { kind, params: params.to_vec() };
    let param = |name, unit| Param { name, unit, default: None, choices: None };
    let default = |name, unit, value| Param { name, unit, default: Some(value), choices: None };
    let choice = |name, choices| Param { name, unit: "choice", default: Some(0), choices: Some(choices) };
    let write = default("write", "bytes", 131_072);
    let request = default("request", "bytes", 100);
    let think = default("think", "ns", 0);
    let ecn = choice("ecn", &["off", "ect0", "ect1"]);
    vec![
        app("bulk", &[write]),
        app("fixed", &[param("size", "bytes"), write]),
        app("rate-limited", &[param("rate", "bps"), write]),
        app(
            "on-off",
            &[
                param("on", "ns"),
                param("off", "ns"),
                param("rate", "bps"),
                write,
                choice("distribution", &["fixed", "exponential"]),
            ],
        ),
        app("request-response", &[param("requests", "count"), request, param("response", "bytes"), think]),
        app("incast", &[param("size", "bytes"), request, param("rounds", "count"), think]),
        app("udp-cbr", &[param("rate", "bps"), default("payload", "bytes", 1472), ecn]),
        app("voip", &[default("frame", "ns", 20_000_000), default("payload", "bytes", 172), ecn]),
        app("ping", &[default("interval", "ns", 100_000_000), default("payload", "bytes", 56)]),
        app(
            "video",
            &[
                param("rate", "bps"),
                default("chunk", "ns", 4_000_000_000),
                default("buffer", "ns", 30_000_000_000),
                request,
            ],
        ),
        app(
            "background",
            &[
                param("load", "bps"),
                default("size", "bytes", 100_000),
                default("shape", "milli", 1500),
                default("connections", "count", 64),
            ],
        ),
        app(
            "loadlatency",
            &[
                param("scenario", "count"),
                write,
                default("ping", "bytes", 16),
                default("interval", "ns", 20_000_000),
                default("idle", "ns", 2_000_000_000),
            ],
        ),
    ]
}

fn stack(profile: &dyn Profile) -> Stack {
    let spec = profile.spec();
    let sysctl = |sysctl: &tcp::stack::Sysctl| Sysctl {
        name: sysctl.name,
        default: sysctl.default,
        min: sysctl.min,
        max: sysctl.max,
        about: sysctl.about,
    };
    Stack {
        name: spec.name,
        family: spec.family.as_str(),
        inferred: spec.inferred,
        default_cc: spec.cc[0],
        cc: spec.cc,
        cc_alias: spec.cc_alias.iter().copied().collect(),
        hz: spec.hz,
        ecn: match spec.ecn {
            EcnMode::Off => Ecn::Off,
            EcnMode::Accept => Ecn::Accept,
            EcnMode::On => Ecn::On,
        },
        sysctls: profile.sysctls().iter().map(sysctl).collect(),
    }
}
