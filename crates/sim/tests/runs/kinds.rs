//! Everything the catalogue names, as a part of a scenario. A discipline or an application that the catalogue's defaults do
//! not make, or a new kind of loss, stops the tests with its name until it has a place here.

use std::sync::LazyLock;

use crate::support::{MS, random_loss};
use contract::scenario::App;
use path::{LossConfig, Param, QueueConfig, Unit};
use serde_json::{Value, json};

static CATALOGUE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&sim::catalogue()).expect("the catalogue is JSON"));

fn word(value: &Value) -> String {
    value.as_str().expect("a name").to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().expect("a list")
}

/// Each kernel's stack with each of its congestion controls. Guests have tests of their own (`guests.rs`).
pub(crate) fn stacks() -> Vec<(String, String)> {
    let with_each = |stack: &Value| {
        list(stack, "cc").iter().map(|cc| (word(&stack["name"]), word(cc))).collect::<Vec<_>>()
    };
    let kernels = list(&CATALOGUE, "stacks").iter().filter(|stack| stack["guest"] == false);
    kernels.flat_map(with_each).collect()
}

/// Whether a stack has Accurate ECN.
pub(crate) fn accurate_ecn(stack: &str) -> bool {
    list(&CATALOGUE, "stacks").iter().any(|entry| entry["name"] == stack && entry["accurate_ecn"] == true)
}

/// The kinds that the catalogue has of `what`: `queues` or `apps`.
pub(crate) fn kinds(what: &str) -> Vec<String> {
    list(&CATALOGUE, what).iter().map(|entry| word(&entry["kind"])).collect()
}

/// The kinds of loss.
pub(crate) fn losses() -> Vec<String> {
    list(&CATALOGUE, "losses").iter().map(word).collect()
}

/// A discipline with times so short that it acts within seconds; what is not said here is the catalogue's default.
pub(crate) fn queue(kind: &str, limit_packets: u32, rate_bps: u64) -> QueueConfig {
    let known = path::catalogue().into_iter().find(|known| known.kind == kind).expect("it is there");
    let even = limit_packets.is_multiple_of(2);
    let json = known.values(|param| {
        Some(match (kind, param.field) {
            ("codel" | "pie", "limit_packets") => 1000.into(),
            (_, "limit_packets") => limit_packets.into(),
            ("bfifo", "limit_bytes") => (u64::from(limit_packets) * 1514).into(),
            ("red", "limit_bytes") => 200_000.into(),
            ("red", "min_bytes") => 10_000.into(),
            ("red", "max_bytes") => 40_000.into(),
            ("red", "burst_packets") => 20.into(),
            ("red", "probability_ppb") => 100_000_000.into(),
            ("red", "bandwidth_bps") => rate_bps.into(),
            ("red", "adaptive") => true.into(),
            ("cake", "bandwidth_bps") => even.then_some(rate_bps * 9 / 10).into(),
            ("cake" | "dualpi2", "memlimit_bytes") => (limit_packets * 4000).into(),
            ("choke", "min_packets") => 5.into(),
            ("choke", "max_packets") => 20.into(),
            ("choke", "burst_packets") => 8.into(),
            ("fq", "initial_quantum_bytes") => 15_140.into(),
            ("fq", "maxrate_bps") => even.then_some(rate_bps * 3 / 4).into(),
            ("fq", "ce_threshold_ns") => (5 * MS).into(),
            (_, "target_ns") => (5 * MS).into(),
            (_, "interval_ns" | "rtt_ns") => (30 * MS).into(),
            (_, "tupdate_ns") => (15 * MS).into(),
            (_, "quantum_bytes") => 1514.into(),
            (_, "dq_rate_estimator") => even.into(),
            _ => return None,
        })
    });
    serde_json::from_value(json.into()).unwrap_or_else(|error| panic!("{kind}: {error}: say it in kinds.rs"))
}

/// [`queue`], and the same with each of its switches turned and each of its choices taken, by name.
pub(crate) fn queue_variants(kind: &str, limit_packets: u32, rate_bps: u64) -> Vec<(String, QueueConfig)> {
    let plain = queue(kind, limit_packets, rate_bps);
    let json = serde_json::to_value(&plain).expect("a discipline is JSON");
    let entry = list(&CATALOGUE, "queues").iter().find(|entry| entry["kind"] == kind).expect("it is there");
    let mut variants = vec![(kind.to_owned(), plain)];
    for param in list(entry, "params").iter().filter(|param| param["field"] != "") {
        let name = word(&param["field"]);
        let values: Vec<Value> = match param["unit"].as_str() {
            Some("bool") => vec![(!json[&name].as_bool().expect("a switch")).into()],
            Some("choice") => list(param, "choices").iter().filter(|&c| *c != json[&name]).cloned().collect(),
            _ => continue,
        };
        for value in values {
            let mut changed = json.clone();
            let label = value.as_str().map_or(name.clone(), |choice| format!("{name}={choice}"));
            changed[&name] = value;
            if name == "nodrop" {
                changed["ecn"] = true.into();
            }
            variants
                .push((format!("{kind}:{label}"), serde_json::from_value(changed).expect("a discipline")));
        }
    }
    variants
}

/// A loss of about one packet in a hundred.
pub(crate) fn loss(kind: &str) -> Option<LossConfig> {
    match kind {
        "random" => random_loss(10_000_000),
        "nth" => Some(LossConfig::Nth { every: 100, packet: 40, min_payload: 1, dport: None, sport: None }),
        "gilbert" => Some(LossConfig::Gilbert {
            p_ppb: 5_000_000,
            r_ppb: 300_000_000,
            loss_bad_ppb: 700_000_000,
            loss_good_ppb: 100_000,
        }),
        "list" => Some(LossConfig::List { packets: vec![20, 60, 61, 62, 200, 500] }),
        _ => panic!("the loss {kind} is in no test of whole runs: give it a place in kinds.rs"),
    }
}

/// An application as the flows it is made of: a name, whether its data go the other way, what it does. All but the bulk
/// transfer are flows of a few megabits a second. What is not said here is the catalogue's default, and of what has none something
/// that suits such a flow.
pub(crate) fn app(kind: &str) -> Vec<(&'static str, bool, App)> {
    let known = App::KINDS.iter().find(|known| known.kind == kind).expect("it is there");
    let suits = |param: &Param| {
        let value: u64 = match param.unit {
            Unit::Bps => 3_000_000,
            Unit::Bytes => 20_000,
            Unit::Ns => 20 * MS,
            _ => 4,
        };
        param.required.then_some(value.into())
    };
    let json = known.values(|param| {
        Some(match (kind, param.field) {
            ("fixed", "size_bytes") => 300_000.into(),
            ("rate-limited" | "on-off", "write_bytes") => 10_000.into(),
            ("on-off", "on_ns") => (30 * MS).into(),
            ("on-off", "rate_bps") => 5_000_000.into(),
            ("on-off", "distribution") => "exponential".into(),
            ("request-response", "requests") => 5.into(),
            ("request-response", "response_bytes") => 30_000.into(),
            ("request-response", "think_ns") => (10 * MS).into(),
            ("incast", "think_ns") => (5 * MS).into(),
            ("udp-cbr", "payload_bytes") => 1000.into(),
            ("udp-vbr", "size") => json!({"kind": "extreme", "mode": 300, "scale": 90}),
            ("udp-vbr", "interval") => json!({"kind": "lognormal", "mean": MS, "deviation": MS / 2}),
            ("voip", "ecn") => "ect0".into(),
            ("media", "controller") => "scream".into(),
            ("media", "start_bps") => 1_000_000.into(),
            ("media", "ecn") => "ect0".into(),
            ("ping", "interval_ns") => (7 * MS).into(),
            ("video", "rate_bps") => 2_000_000.into(),
            ("video", "chunk_ns") => (200 * MS).into(),
            ("video", "buffer_ns") => (500 * MS).into(),
            ("background", "load_bps") => 5_000_000.into(),
            ("background", "size_bytes") => 20_000.into(),
            ("background", "connections") => 3.into(),
            _ => return suits(param),
        })
    });
    // One with what a Scenario says of it besides its parameters.
    let one = |besides: &[(&str, &str)]| {
        let mut json = json.clone();
        json.extend(besides.iter().map(|&(field, word)| (field.to_owned(), word.into())));
        serde_json::from_value(json.into())
            .unwrap_or_else(|error| panic!("{kind}: {error}: say it in kinds.rs"))
    };
    let load = |part| one(&[("group", "app"), ("part", part)]);
    match kind {
        "incast" => vec![("app", false, one(&[("group", "g")])), ("app2", false, one(&[("group", "g")]))],
        "media" => vec![("app", false, one(&[])), ("app2", true, one(&[("controller", "gcc")]))],
        "loadlatency" => vec![
            ("app", false, load("pinger")),
            ("app.up1", false, load("upload")),
            ("app.down1", true, load("download")),
        ],
        _ => vec![("app", false, one(&[]))],
    }
}
