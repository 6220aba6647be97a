//! Whether a scenario makes sense to the engine: every refusal is one line.

mod guests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use contract::scenario::{Cheat, Ecn, Flow, Host, Noise, Sampling, Scenario, VERSION};
use host::noise::STALLS_IN_WORK;
use tcp::cc::experiment;
use tcp::cc::foreign::Foreign;
use tcp::profile;
use tcp::stack::Profile;

use crate::Outside;
use crate::error::{Error, FlowError, HostError};
use crate::host_stack::HostStack;

/// Most acknowledgements that may leave for one.
const MOST_CHEATS: u32 = 10_000;

/// Checks everything that parsing cannot, and sets up each host's stack; what is from outside is not loaded, only
/// known of.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn check(scenario: &Scenario, outside: &Outside) -> Result<Vec<HostStack>, Error> {
    if scenario.version != VERSION {
        return Err(Error::Version(scenario.version));
    }
    if scenario.duration_ns == 0 {
        return Err(Error::Duration);
    }
    let measure = scenario.measure;
    if measure.from_ns >= measure.to_ns || measure.to_ns > scenario.duration_ns {
        return Err(Error::Measure);
    }
    for (key, sampling) in [("tcp", scenario.record.tcp), ("queue", scenario.record.queue)] {
        if sampling == (Sampling::Interval { interval_ns: 0 }) {
            return Err(Error::SampleInterval(key));
        }
    }
    if scenario.hosts.len() > usize::from(u16::MAX) || scenario.flows.len() > (1 << 24) {
        return Err(Error::TooMany);
    }
    contract::check_links(scenario)?;
    let (mut names, mut kernels) = (HashSet::new(), HashMap::new());
    for flow in &scenario.flows {
        if !names.insert(flow.name.as_str()) {
            return Err(Error::Twice { list: "flows", name: flow.name.clone() });
        }
        check_flow(scenario, outside, flow, &mut kernels).map_err(|why| why.of(flow))?;
    }
    guests::check_duplication(scenario, outside)?;
    let stack =
        |host: &Host| host_stack(host, outside).map_err(|why| Error::Host { host: host.name.clone(), why });
    scenario.hosts.iter().map(stack).collect()
}

/// `kernels`: stacks by name, of the flows that were looked at before. To make one costs more than all else here.
fn check_flow<'a>(
    scenario: &'a Scenario,
    outside: &Outside,
    flow: &Flow,
    kernels: &mut HashMap<&'a str, Option<Box<dyn Profile>>>,
) -> Result<(), FlowError> {
    if flow.stop_ns.is_some_and(|stop| stop <= flow.start_ns) {
        return Err(FlowError::Stop);
    }
    contract::check_app(&flow.app)?;
    for (key, bytes) in [("sndbuf", flow.sndbuf), ("rcvbuf", flow.rcvbuf)] {
        if let Some(bytes) = bytes
            && !(1..=i32::MAX as u64).contains(&bytes)
        {
            return Err(FlowError::Buffer { key, bytes });
        }
    }
    let Some(host) = scenario.hosts.iter().find(|h| h.name == flow.from) else {
        return Err(FlowError::NoHost(flow.from.clone()));
    };
    let other = scenario.hosts.iter().find(|other| other.name == flow.to);
    if other.is_some_and(|other| other.ip != host.ip) {
        return Err(FlowError::IpVersions { from: flow.from.clone(), to: flow.to.clone() });
    }
    let has_guest = [&flow.from, &flow.to].into_iter().any(|name| {
        let host = scenario.hosts.iter().find(|host| host.name == *name);
        host.is_some_and(|host| outside.guest(&host.stack).is_some())
    });
    if has_guest {
        guests::check_flow(scenario, outside, flow)?;
    }
    // A stack that is not known is refused with its host.
    let kernel = kernels.entry(&host.stack).or_insert_with(|| profile::find(&host.stack));
    let Some(profile) = kernel else { return Ok(()) };
    let mut known = profile.congestion_controls();
    known.extend(of_family(&outside.modules, &**profile).map(|module| module.name()));
    if !known.contains(&flow.cc.as_str()) {
        let known = known.into_iter().map(str::to_owned).collect();
        return Err(FlowError::NoCc { stack: host.stack.clone(), cc: flow.cc.clone(), known });
    }
    if let Some(params) = &flow.cc_params {
        params.check()?;
        if experiment::module(params, &flow.cc, profile.spec().family.as_str()).is_none() {
            return Err(FlowError::OtherCc { cc: flow.cc.clone(), params: params.kind() });
        }
    }
    Ok(())
}

/// Modules that have the hooks of a stack's family.
pub(crate) fn of_family<'a>(
    modules: &'a [Arc<dyn Foreign>],
    profile: &dyn Profile,
) -> impl Iterator<Item = &'a Arc<dyn Foreign>> {
    let family = profile.spec().family.as_str();
    modules.iter().filter(move |module| module.family() == family)
}

/// Fault of a receiver's cheat, in words.
fn wrong_cheat(cheat: Cheat) -> Option<String> {
    let (key, found, most) = match cheat {
        Cheat::AckDivision { parts } => ("parts", u64::from(parts), u64::from(MOST_CHEATS)),
        Cheat::DuplicateAcks { copies } => ("copies", u64::from(copies), u64::from(MOST_CHEATS)),
        Cheat::OptimisticAcks { rate_bps } => ("rate_bps", rate_bps, u64::MAX),
    };
    let expected = format!("{key}: found {found}; expected 1 to {most}");
    (!(1..=most).contains(&found)).then_some(expected)
}

fn host_stack(host: &Host, outside: &Outside) -> Result<HostStack, HostError> {
    if host.hz == 0 || host.hz > 10_000 || 1_000_000_000 % host.hz != 0 {
        return Err(HostError::Hz(host.hz));
    }
    if host.mss < 88 {
        return Err(HostError::Mss(host.mss));
    }
    let waits = host.nic.coalesce.is_none_or(|c| c.time_ns > 0);
    if host.ack_every.is_some_and(|segments| segments == 0 || !waits) {
        return Err(HostError::AckEvery);
    }
    if host.ack_every.is_some() && host.nic.coalesce.is_none() {
        return Err(HostError::AckEveryWithoutCoalesce);
    }
    if let Some(why) = host.cheats.and_then(wrong_cheat) {
        return Err(HostError::Cheats(why));
    }
    if host.noise.is_some_and(|n| n.stall.is_some_and(|s| s.every_ns == 0)) {
        return Err(HostError::Stall);
    }
    if let Some(Noise { processing: Some(work), stall: Some(stall) }) = host.noise
        && (work.mean_ns.saturating_add(work.sd_ns)) / STALLS_IN_WORK >= stall.every_ns
    {
        return Err(HostError::StallInProcessing(stall.every_ns));
    }
    if let Some(stack) = outside.guest(&host.stack) {
        guests::check_host(host, stack)?;
        return Ok(HostStack::Guest(stack));
    }
    let Some(mut profile) = profile::find(&host.stack) else {
        let kernels = profile::all();
        let guests = guest::STACKS.iter().chain(outside.guests.iter().copied()).map(|stack| stack.name);
        let known = kernels.iter().map(|p| p.spec().name).chain(guests).collect();
        return Err(HostError::NoStack { stack: host.stack.clone(), known });
    };
    let accurate = !matches!(host.ecn, Ecn::Off | Ecn::Accept | Ecn::On);
    if accurate && !profile.spec().accecn.known {
        return Err(HostError::AccurateEcn { found: host.ecn.as_str(), stack: host.stack.clone() });
    }
    for (sysctl, value) in &host.sysctl {
        let knob =
            of_family(&outside.modules, &*profile).flat_map(|m| m.knobs()).find(|knob| knob.name == *sysctl);
        let known = profile.sysctls().iter().any(|own| own.name == sysctl);
        if let Some(knob) = knob
            && !(knob.min..=knob.max).contains(value)
        {
            return Err(HostError::Knob { knob: knob.clone(), found: *value });
        }
        if knob.is_none() || known {
            profile::set_checked(&mut *profile, sysctl, *value)?;
        }
    }
    Ok(HostStack::Kernel(profile))
}
