//! What any testbed refuses of a Scenario: every refusal is one line.

use apps::sent_in;

use crate::scenario::{App, Host, Scenario};

/// Payload of the largest UDP datagram, bytes (RFC 768 over RFC 791).
const LARGEST_DATAGRAM: u32 = 65_507;

/// Parses a scenario.
///
/// # Errors
/// One line saying what is wrong with the JSON.
pub fn parse(scenario: &str) -> Result<Scenario, String> {
    serde_json::from_str(scenario).map_err(|error| format!("scenario: {error}"))
}

/// Checks the links, the schedule and what hosts do to packets, whoever carries them out.
///
/// # Errors
/// One line.
pub fn check_links(scenario: &Scenario) -> Result<(), String> {
    for link in &scenario.links {
        let name = &link.name;
        if link.rate_bps == Some(0) {
            return Err(format!("link {name}: rate_bps must be above zero"));
        }
        if let Some(loss) = &link.loss {
            loss.check().map_err(|why| format!("link {name}: {why}"))?;
        }
        if let Some(jitter) = &link.jitter {
            jitter.check().map_err(|why| format!("link {name}: {why}"))?;
        }
        link.queue.check().map_err(|why| format!("link {name}: {why}"))?;
        if let Some(shaper) = &link.shaper {
            shaper.check().map_err(|why| format!("link {name}: {why}"))?;
        }
        let port = shares_memory(scenario, &link.from);
        if port && (link.duplicate_ppb > 0 || link.jitter.is_some()) {
            return Err(format!(
                "link {name}: a port of a switch with shared memory has no duplicate or jitter"
            ));
        }
        if matches!(link.queue, path::QueueConfig::Netem { .. }) {
            return Err(format!("link {name}: netem is for a host's egress"));
        }
        if link.mtu < 576 {
            return Err(format!("link {name}: mtu must be at least 576"));
        }
    }
    let mut last = 0;
    for change in &scenario.schedule {
        if !scenario.links.iter().any(|l| l.name == change.link) {
            return Err(format!("schedule: no link is called {}", change.link));
        }
        if change.at_ns < last {
            return Err("schedule: changes must be in order of time".into());
        }
        if scenario.links.iter().any(|l| l.name == change.link && shares_memory(scenario, &l.from)) {
            return Err(format!(
                "schedule: {} is a port of a switch with shared memory, which cannot change",
                change.link
            ));
        }
        if let Some(loss) = &change.loss {
            loss.check().map_err(|why| format!("schedule: {why}"))?;
        }
        if let Some(queue) = &change.queue {
            queue.check().map_err(|why| format!("schedule: {why}"))?;
            if matches!(queue, path::QueueConfig::Netem { .. }) {
                return Err(format!("schedule: {}: netem is for a host's egress", change.link));
            }
        }
        if change.rate_bps == Some(0) {
            return Err("schedule: rate_bps must be above zero".into());
        }
        last = change.at_ns;
    }
    scenario.hosts.iter().try_for_each(check_impairments)
}

/// What a host's egress and ingress do to packets.
fn check_impairments(host: &Host) -> Result<(), String> {
    let name = &host.name;
    let stages = [&host.ingress.before_gro, &host.ingress.after_gro];
    let losses = stages.into_iter().flatten().map(|s| &s.loss).chain(host.egress.iter().map(|e| &e.loss));
    for loss in losses.flatten() {
        loss.check().map_err(|why| format!("host {name}: {why}"))?;
    }
    let Some(egress) = &host.egress else { return Ok(()) };
    if let Some(jitter) = &egress.jitter {
        jitter.check().map_err(|why| format!("host {name}: egress: {why}"))?;
    }
    if egress.rate_bps == Some(0) {
        return Err(format!("host {name}: egress.rate_bps must be above zero"));
    }
    Ok(())
}

/// Whether `node` is a switch whose ports share memory.
fn shares_memory(scenario: &Scenario, node: &str) -> bool {
    scenario.nodes.iter().any(|n| n.name == node && n.switch.is_some())
}

/// Checks the numbers of an application, whoever carries it out.
///
/// # Errors
/// One line.
pub fn check_app(app: &App) -> Result<(), String> {
    let (positive, payload): (&[u64], u32) = match app {
        App::Bulk { bytes, write_bytes } => (&[bytes.unwrap_or(1), *write_bytes], 0),
        App::Fixed { size_bytes, write_bytes } => (&[*size_bytes, *write_bytes], 0),
        App::RateLimited { rate_bps, write_bytes } => (&[*rate_bps, *write_bytes], 0),
        App::OnOff { on_ns, off_ns, rate_bps, write_bytes, .. } => {
            let most = rate_bps.map_or(u64::MAX, |rate| sent_in(*on_ns, rate));
            if *write_bytes > most {
                return Err(format!(
                    "write_bytes: found {write_bytes}; expected at most {most}, what on_ns sends at rate_bps"
                ));
            }
            (&[*on_ns, *off_ns, rate_bps.unwrap_or(1), *write_bytes], 0)
        }
        App::RequestResponse { requests, request_bytes, response_bytes, .. } => {
            (&[requests.unwrap_or(1), *request_bytes, *response_bytes], 0)
        }
        App::Incast { size_bytes, request_bytes, rounds, .. } => {
            (&[*size_bytes, *request_bytes, rounds.unwrap_or(1)], 0)
        }
        App::UdpCbr { rate_bps, payload_bytes, .. } => {
            (&[*rate_bps, u64::from(*payload_bytes)], *payload_bytes)
        }
        App::Voip { frame_ns, payload_bytes, .. } => {
            (&[*frame_ns, u64::from(*payload_bytes)], *payload_bytes)
        }
        App::Ping { interval_ns, payload_bytes } => (&[*interval_ns], *payload_bytes),
        App::Video { rate_bps, chunk_ns, request_bytes, .. } => {
            let bytes = u128::from(*rate_bps) * u128::from(*chunk_ns) / 8_000_000_000;
            (&[*request_bytes, bytes as u64], 0)
        }
        App::Background { load_bps, size_bytes, shape_milli, connections } => {
            if *shape_milli <= 1000 || *connections == 0 {
                return Err("shape_milli must be above 1000 and connections above zero".into());
            }
            (&[*load_bps, *size_bytes], 0)
        }
        App::Loadlatency { scenario, write_bytes, ping_bytes, interval_ns, .. } => {
            let scenarios = loadlatency::SCENARIOS.len();
            if *scenario as usize > scenarios {
                return Err(format!("scenario must be at most {scenarios}"));
            }
            (&[u64::from(*scenario), *write_bytes, *ping_bytes, *interval_ns], 0)
        }
    };
    if positive.contains(&0) {
        return Err("a size, rate, number or length of its app is zero".into());
    }
    if payload > LARGEST_DATAGRAM {
        return Err(format!("payload_bytes must be at most {LARGEST_DATAGRAM}"));
    }
    Ok(())
}
