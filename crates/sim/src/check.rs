//! Whether a scenario makes sense to the engine: every refusal is one line.

use std::collections::HashSet;

use contract::scenario::{Host, Noise, Sampling, Scenario, VERSION};
use host::noise::SKIPPED;
use tcp::profile;
use tcp::stack::Profile;

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
    contract::check_links(scenario)?;
    check_flows(scenario)?;
    scenario.hosts.iter().map(host_profile).collect()
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
        contract::check_app(&flow.app).map_err(|why| format!("flow {name}: {why}"))?;
        let Some(host) = scenario.hosts.iter().find(|h| h.name == flow.from) else {
            return Err(format!("flow {name}: no host is called {}", flow.from));
        };
        let Some(profile) = profile::find(&host.stack) else { continue };
        if !profile.spec().cc.contains(&flow.cc.as_str()) {
            return Err(format!(
                "flow {name}: {} has no congestion control {}; it has {}",
                host.stack,
                flow.cc,
                profile.spec().cc.join(", ")
            ));
        }
    }
    Ok(())
}

fn host_profile(host: &Host) -> Result<Box<dyn Profile>, String> {
    let name = &host.name;
    if host.hz == 0 || host.hz > 10_000 || 1_000_000_000 % host.hz != 0 {
        return Err(format!("host {name}: hz must divide 10^9 and be at most 10000; found {}", host.hz));
    }
    if host.mss < 88 {
        return Err(format!("host {name}: mss must be at least 88; found {}", host.mss));
    }
    let waits = host.nic.coalesce.is_none_or(|c| c.time_ns > 0);
    if host.ack_every.is_some_and(|segments| segments == 0 || !waits) {
        return Err(format!("host {name}: ack_every and the coalesce.time_ns it waits must be above zero"));
    }
    if host.ack_every.is_some() && host.nic.coalesce.is_none() {
        return Err(format!("host {name}: ack_every needs nic.coalesce, which says how long it waits"));
    }
    if host.noise.is_some_and(|n| n.stall.is_some_and(|s| s.every_ns == 0)) {
        return Err(format!("host {name}: noise.stall.every_ns must be above zero"));
    }
    if let Some(Noise { processing: Some(work), stall: Some(stall) }) = host.noise
        && (work.mean_ns.saturating_add(work.sd_ns)) / SKIPPED >= stall.every_ns
    {
        return Err(format!(
            "host {name}: noise.stall.every_ns: found {}; expected above a thousandth of noise.processing",
            stall.every_ns
        ));
    }
    let Some(mut profile) = profile::find(&host.stack) else {
        let known: Vec<&str> = profile::all().iter().map(|p| p.spec().name).collect();
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
