//! Everything the catalogue names, as a part of a scenario. What is new in the catalogue and has no place here stops the
//! tests with its name.

use std::sync::LazyLock;

use crate::support::{MS, random_loss};
use contract::scenario::{App, Distribution, EcnField, LoadPart};
use path::{
    CakeConfig, Dualpi2Config, FlowMode, FqCodelConfig, FqPieConfig, LossConfig, PieConfig, QueueConfig,
    RedConfig,
};
use serde_json::Value;

static CATALOGUE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&sim::catalogue()).expect("the catalogue is JSON"));

fn word(value: &Value) -> String {
    value.as_str().expect("a name").to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().expect("a list")
}

/// Each stack with each of its congestion controls.
pub fn stacks() -> Vec<(String, String)> {
    let with_each = |stack: &Value| {
        list(stack, "cc").iter().map(|cc| (word(&stack["name"]), word(cc))).collect::<Vec<_>>()
    };
    list(&CATALOGUE, "stacks").iter().flat_map(with_each).collect()
}

/// The kinds that the catalogue has of `what`: `queues` or `apps`.
pub fn kinds(what: &str) -> Vec<String> {
    list(&CATALOGUE, what).iter().map(|entry| word(&entry["kind"])).collect()
}

/// The kinds of loss.
pub fn losses() -> Vec<String> {
    list(&CATALOGUE, "losses").iter().map(word).collect()
}

/// A discipline with times so short that it acts within seconds.
pub fn queue(kind: &str, limit_packets: u32, rate_bps: u64) -> QueueConfig {
    let (target_ns, interval_ns) = (5 * MS, 30 * MS);
    let (tupdate_ns, memory_limit_bytes) = (15 * MS, 32 << 20);
    match kind {
        "pfifo" => QueueConfig::Pfifo { limit_packets },
        "bfifo" => QueueConfig::Bfifo { limit_bytes: u64::from(limit_packets) * 1514 },
        "codel" => QueueConfig::Codel {
            limit_packets: 1000,
            target_ns,
            interval_ns,
            ecn: false,
            ce_threshold_ns: None,
        },
        "red" => QueueConfig::Red(RedConfig {
            limit_bytes: 200_000,
            min_bytes: 10_000,
            max_bytes: 40_000,
            avpkt_bytes: 1000,
            burst_packets: 20,
            probability_ppb: 100_000_000,
            bandwidth_bps: rate_bps,
            ecn: false,
            harddrop: false,
            nodrop: false,
            adaptive: true,
        }),
        "fq_codel" => QueueConfig::FqCodel(FqCodelConfig {
            limit_packets,
            flows: 1024,
            quantum_bytes: 1514,
            target_ns,
            interval_ns,
            ecn: true,
            ce_threshold_ns: None,
            memory_limit_bytes,
            drop_batch: 64,
        }),
        "pie" => QueueConfig::Pie(PieConfig {
            limit_packets: 1000,
            target_ns,
            tupdate_ns,
            alpha: 2,
            beta: 20,
            ecn: false,
            bytemode: false,
            dq_rate_estimator: limit_packets.is_multiple_of(2),
        }),
        "fq_pie" => QueueConfig::FqPie(FqPieConfig {
            limit_packets,
            flows: 1024,
            target_ns,
            tupdate_ns,
            alpha: 2,
            beta: 20,
            quantum_bytes: 1514,
            memory_limit_bytes,
            ecn_prob: 10,
            ecn: false,
            bytemode: false,
            dq_rate_estimator: limit_packets.is_multiple_of(2),
        }),
        "cake" => QueueConfig::Cake(CakeConfig {
            bandwidth_bps: limit_packets.is_multiple_of(2).then_some(rate_bps * 9 / 10),
            rtt_ns: interval_ns,
            flow_mode: FlowMode::TripleIsolate,
            memlimit_bytes: limit_packets * 4000,
        }),
        "dualpi2" => QueueConfig::Dualpi2(Dualpi2Config {
            limit_packets,
            target_ns,
            tupdate_ns,
            alpha_ppb: 160_000_000,
            beta_ppb: 3_200_000_000,
            coupling_factor: 2,
            step_thresh_ns: MS,
            classic_protection: 10,
            drop_on_overload: true,
        }),
        _ => panic!("the queue discipline {kind} is in no test of whole runs: give it a place in kinds.rs"),
    }
}

/// [`queue`], and the same with each of its switches turned and each of its choices taken, by name.
pub fn queue_variants(kind: &str, limit_packets: u32, rate_bps: u64) -> Vec<(String, QueueConfig)> {
    let plain = queue(kind, limit_packets, rate_bps);
    let json = serde_json::to_value(&plain).expect("a discipline is JSON");
    let entry = list(&CATALOGUE, "queues").iter().find(|entry| entry["kind"] == kind).expect("it is there");
    let mut variants = vec![(kind.to_owned(), plain)];
    for param in list(entry, "params") {
        let name = word(&param["name"]);
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
pub fn loss(kind: &str) -> Option<LossConfig> {
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
/// transfer are flows of a few megabits a second.
pub fn app(kind: &str) -> Vec<(&'static str, bool, App)> {
    let (request_bytes, write_bytes) = (100, 131_072);
    let incast = || App::Incast {
        group: "g".into(),
        size_bytes: 20_000,
        request_bytes,
        rounds: None,
        think_ns: 5 * MS,
    };
    let load = |part| App::Loadlatency {
        group: "app".into(),
        scenario: 4,
        part,
        write_bytes,
        ping_bytes: 16,
        interval_ns: 20 * MS,
    };
    let one = match kind {
        "bulk" => App::Bulk { bytes: None, write_bytes },
        "fixed" => App::Fixed { size_bytes: 300_000, write_bytes },
        "rate-limited" => App::RateLimited { rate_bps: 3_000_000, write_bytes: 10_000 },
        "on-off" => App::OnOff {
            on_ns: 30 * MS,
            off_ns: 20 * MS,
            rate_bps: Some(5_000_000),
            write_bytes: 10_000,
            distribution: Distribution::Exponential,
        },
        "request-response" => App::RequestResponse {
            requests: Some(5),
            request_bytes,
            response_bytes: 30_000,
            think_ns: 10 * MS,
        },
        "incast" => return vec![("app", false, incast()), ("app2", false, incast())],
        "udp-cbr" => App::UdpCbr { rate_bps: 3_000_000, payload_bytes: 1000, ecn: EcnField::Off },
        "voip" => App::Voip { frame_ns: 20 * MS, payload_bytes: 172, ecn: EcnField::Ect0 },
        "ping" => App::Ping { interval_ns: 7 * MS, payload_bytes: 56 },
        "video" => App::Video { rate_bps: 2_000_000, chunk_ns: 200 * MS, buffer_ns: 500 * MS, request_bytes },
        "background" => {
            App::Background { load_bps: 5_000_000, size_bytes: 20_000, shape_milli: 1500, connections: 3 }
        }
        "loadlatency" => {
            return vec![
                ("app", false, load(LoadPart::Pinger)),
                ("app.up1", false, load(LoadPart::Upload)),
                ("app.down1", true, load(LoadPart::Download)),
            ];
        }
        _ => panic!("the application {kind} is in no test of whole runs: give it a place in kinds.rs"),
    };
    vec![("app", false, one)]
}
