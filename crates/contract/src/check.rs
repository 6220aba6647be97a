//! Checks of a Scenario for any testbed: every refusal is one line.

use params::ParamError;
use path::{ConfigError, QueueConfig};
use thiserror::Error;

use crate::kinds::event_named;
use crate::scenario::{Change, Host, Link, Scenario};

/// Text that is no Scenario.
#[derive(Debug, Error)]
#[error("scenario: {0}")]
pub struct ParseError(#[from] serde_json::Error);

/// A Scenario whose network nobody can carry out: which part of it, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// A link.
    #[error("link {link}: {why}")]
    Link {
        /// Name of the link.
        link: String,
        /// Fault of the link.
        why: LinkError,
    },
    /// A change of a link during the run.
    #[error("schedule: {0}")]
    Schedule(ScheduleError),
    /// Name in `phase_jitter_ns` that no link has.
    #[error("phase_jitter_ns: no link is called {0}")]
    Phase(String),
    /// Impairments of a host that cannot be.
    #[error("host {host}: {why}")]
    Host {
        /// Name of the host.
        host: String,
        /// Fault of the impairments.
        why: HostError,
    },
}

/// Reason why a link cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// Link that never sends.
    #[error("rate_bps must be above zero")]
    NoRate,
    /// Loss, jitter or shaper that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Queue discipline that cannot be.
    #[error(transparent)]
    Queue(#[from] ParamError),
    /// Port of a switch that delays or duplicates packets, which the switch has to count.
    #[error("a port of a switch with shared memory has no duplicate or jitter")]
    SharedMemory,
    /// A discipline of hosts.
    #[error("netem is for a host's egress")]
    Netem,
    /// MTU too small for IPv4 (RFC 791).
    #[error("mtu must be at least 576")]
    Mtu,
}

/// Reason why a link cannot change so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// Name that no link has.
    #[error("no link is called {0}")]
    NoLink(String),
    /// Name that no flow has, whose event a change waits for.
    #[error("no flow is called {0}")]
    NoFlow(String),
    /// Word that is no kind of an endpoint's events.
    #[error("endpoints tell no event {0}")]
    NoEvent(String),
    /// Change before the one above it.
    #[error("changes must be in order of time")]
    OutOfOrder,
    /// The link of this name shares its queue's memory.
    #[error("{0} is a port of a switch with shared memory, which cannot change")]
    SharedMemory(String),
    /// The new loss.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The new queue discipline.
    #[error(transparent)]
    Queue(#[from] ParamError),
    /// The link of this name would get a discipline of hosts.
    #[error("{0}: netem is for a host's egress")]
    Netem(String),
    /// The link would never send again.
    #[error("rate_bps must be above zero")]
    NoRate,
}

/// Reason why a host cannot do so to packets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// Loss that cannot be.
    #[error(transparent)]
    Loss(ConfigError),
    /// Jitter of an egress that cannot be.
    #[error("egress: {0}")]
    Jitter(ConfigError),
    /// Egress that never sends.
    #[error("egress.rate_bps must be above zero")]
    NoRate,
}

/// Parses a scenario.
///
/// ```
/// let json = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/two-hosts.json"));
/// let scenario = contract::parse(json)?;
/// contract::check_links(&scenario)?;
/// assert_eq!((scenario.hosts[0].name.as_str(), scenario.links[0].rate_bps), ("a", Some(10_000_000)));
///
/// let error = contract::parse("{}").expect_err("nothing has a default");
/// assert!(error.to_string().starts_with("scenario: missing field `version`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What is wrong with the JSON.
pub fn parse(scenario: &str) -> Result<Scenario, ParseError> {
    Ok(serde_json::from_str(scenario)?)
}

/// Checks the links, the schedule and what hosts do to packets, whoever carries them out.
///
/// # Errors
/// The first that cannot be carried out.
pub fn check_links(scenario: &Scenario) -> Result<(), NetworkError> {
    for link in &scenario.links {
        check_link(scenario, link).map_err(|why| NetworkError::Link { link: link.name.clone(), why })?;
    }
    let mut last = 0;
    for change in &scenario.schedule {
        check_change(scenario, change, last).map_err(NetworkError::Schedule)?;
        last = change.at_ns;
    }
    let has = |name: &str| scenario.links.iter().any(|link| link.name == name);
    if let Some(name) = scenario.phase_jitter_ns.keys().find(|name| !has(name)) {
        return Err(NetworkError::Phase(name.clone()));
    }
    scenario.hosts.iter().try_for_each(|host| {
        check_impairments(host).map_err(|why| NetworkError::Host { host: host.name.clone(), why })
    })
}

fn check_link(scenario: &Scenario, link: &Link) -> Result<(), LinkError> {
    if link.rate_bps == Some(0) {
        return Err(LinkError::NoRate);
    }
    if let Some(loss) = &link.loss {
        loss.check()?;
    }
    if let Some(jitter) = &link.jitter {
        jitter.check()?;
    }
    link.queue.check()?;
    if let Some(shaper) = &link.shaper {
        shaper.check()?;
    }
    if shares_memory(scenario, &link.from) && (link.duplicate_ppb > 0 || link.jitter.is_some()) {
        return Err(LinkError::SharedMemory);
    }
    if matches!(link.queue, QueueConfig::Netem { .. }) {
        return Err(LinkError::Netem);
    }
    if link.mtu < 576 {
        return Err(LinkError::Mtu);
    }
    Ok(())
}

/// `last` is when the change before it is made.
fn check_change(scenario: &Scenario, change: &Change, last: u64) -> Result<(), ScheduleError> {
    let name = || change.link.clone();
    let Some(link) = scenario.links.iter().find(|link| link.name == change.link) else {
        return Err(ScheduleError::NoLink(name()));
    };
    if change.at_ns < last {
        return Err(ScheduleError::OutOfOrder);
    }
    if shares_memory(scenario, &link.from) {
        return Err(ScheduleError::SharedMemory(name()));
    }
    if let Some(on) = &change.on {
        if !scenario.flows.iter().any(|flow| flow.name == on.flow) {
            return Err(ScheduleError::NoFlow(on.flow.clone()));
        }
        if event_named(&on.event).is_none() {
            return Err(ScheduleError::NoEvent(on.event.clone()));
        }
    }
    if let Some(loss) = &change.loss {
        loss.check()?;
    }
    if let Some(queue) = &change.queue {
        queue.check()?;
        if matches!(queue, QueueConfig::Netem { .. }) {
            return Err(ScheduleError::Netem(name()));
        }
    }
    if change.rate_bps == Some(0) {
        return Err(ScheduleError::NoRate);
    }
    Ok(())
}

/// Checks the impairments at a host's egress and ingress.
fn check_impairments(host: &Host) -> Result<(), HostError> {
    let stages = [&host.ingress.before_gro, &host.ingress.after_gro];
    let losses = stages.into_iter().flatten().map(|s| &s.loss).chain(host.egress.iter().map(|e| &e.loss));
    for loss in losses.flatten() {
        loss.check().map_err(HostError::Loss)?;
    }
    let Some(egress) = &host.egress else { return Ok(()) };
    if let Some(jitter) = &egress.jitter {
        jitter.check().map_err(HostError::Jitter)?;
    }
    if egress.rate_bps == Some(0) {
        return Err(HostError::NoRate);
    }
    Ok(())
}

/// Whether `node` is a switch whose ports share memory.
fn shares_memory(scenario: &Scenario, node: &str) -> bool {
    scenario.nodes.iter().any(|n| n.name == node && n.switch.is_some())
}
