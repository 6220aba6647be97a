//! Whether a scenario makes sense to the engine: every refusal is one line.

use std::collections::HashSet;

use tcp::profile::{self, Profile};

use crate::scenario::{App, Sampling, Scenario, VERSION};

/// Parses a scenario.
///
/// # Errors
/// One line saying what is wrong with the JSON.
pub fn parse(scenario: &str) -> Result<Scenario, String> {
    serde_json::from_str(scenario).map_err(|error| format!("scenario: {error}"))
}

/// Checks everything that parsing cannot, and sets up each host's stack.
///
/// # Errors
/// One line.
pub fn check(scenario: &Scenario) -> Result<Vec<Box<dyn Profile>>, String> {
    if scenario.version != VERSION {
        return Err(format!("version: found {}; expected {VERSION}", scenario.version));
    }
    if scenario.duration_ns == 0 {
        return Err("duration_ns: must be above zero".into());
    }
    let measure = scenario.measure;
    if measure.from_ns >= measure.to_ns || measure.to_ns > scenario.duration_ns {
        return Err("measure: must be a window within the run".into());
    }
    for (key, sampling) in [("tcp", scenario.record.tcp), ("queue", scenario.record.queue)] {
        if sampling == (Sampling::Interval { interval_ns: 0 }) {
            return Err(format!("record.{key}: the interval must be above zero"));
        }
    }
    if scenario.hosts.len() > usize::from(u16::MAX) || scenario.flows.len() > (1 << 24) {
        return Err("at most 65535 hosts and 2^24 flows".into());
    }
    check_links(scenario)?;
    check_flows(scenario)?;
    scenario.hosts.iter().map(host_profile).collect()
}

fn check_links(scenario: &Scenario) -> Result<(), String> {
    for link in &scenario.links {
        let name = &link.name;
        if link.rate_bps == Some(0) {
            return Err(format!("link {name}: rate_bps must be above zero"));
        }
        if let Some(path::LossConfig::Nth { every, packet, .. }) = &link.loss
            && (*every == 0 || packet >= every)
        {
            return Err(format!("link {name}: loss nth needs every >= 1 and packet below every"));
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
        if change.rate_bps == Some(0) {
            return Err("schedule: rate_bps must be above zero".into());
        }
        last = change.at_ns;
    }
    Ok(())
}

fn check_flows(scenario: &Scenario) -> Result<(), String> {
    let mut names = HashSet::new();
    for flow in &scenario.flows {
        let name = &flow.name;
        if !names.insert(name.as_str()) {
            return Err(format!("flows: {name} is there twice"));
        }
        if flow.stop_ns.is_some_and(|stop| stop <= flow.start_ns) {
            return Err(format!("flow {name}: stop_ns must be after start_ns"));
        }
        let App::Bulk { bytes, write_bytes } = flow.app;
        if write_bytes == 0 || bytes == Some(0) {
            return Err(format!("flow {name}: bytes and write_bytes must be above zero"));
        }
        let Some(host) = scenario.hosts.iter().find(|h| h.name == flow.from) else {
            return Err(format!("flow {name}: no host is called {}", flow.from));
        };
        let Some(profile) = profile::find(&host.stack) else { continue };
        if !profile.facts().cc.contains(&flow.cc.as_str()) {
            return Err(format!(
                "flow {name}: {} has no congestion control {}; it has {}",
                host.stack,
                flow.cc,
                profile.facts().cc.join(", ")
            ));
        }
    }
    Ok(())
}

fn host_profile(host: &crate::scenario::Host) -> Result<Box<dyn Profile>, String> {
    let name = &host.name;
    if host.hz == 0 || host.hz > 10_000 || 1_000_000_000 % host.hz != 0 {
        return Err(format!("host {name}: hz must divide 10^9 and be at most 10000; found {}", host.hz));
    }
    if host.mss < 88 {
        return Err(format!("host {name}: mss must be at least 88; found {}", host.mss));
    }
    if host.ack_every.is_some() || host.nic.gro || host.nic.lro {
        return Err(format!(
            "host {name}: receive aggregation (ack_every, gro, lro) is not supported by testbed sim yet"
        ));
    }
    let Some(mut profile) = profile::find(&host.stack) else {
        let known: Vec<&str> = profile::all().iter().map(|p| p.facts().name).collect();
        return Err(format!(
            "host {name}: no stack is called {}; there are {}",
            host.stack,
            known.join(", ")
        ));
    };
    for (sysctl, value) in &host.sysctl {
        profile::set_checked(&mut *profile, sysctl, *value).map_err(|e| format!("host {name}: {e}"))?;
    }
    Ok(profile)
}
