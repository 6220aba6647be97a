//! What any testbed refuses of a Scenario: every refusal is one line.

use crate::scenario::{Host, Scenario};

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
