//! Whether a scenario asks of guests what they can do: every refusal is one line.

use contract::scenario::{App, Ecn, Flow, Host, Scenario};
use guest::GuestStack;

use crate::error::{Error, FlowError, HostError};

/// Headers of IPv4 and TCP less those of IPv4 and UDP, bytes: how much larger a datagram's payload is than a segment's.
const SHORTER_HEADERS: u16 = 12;

/// Applications that are carried out over guests.
const APPS: &str = "bulk, fixed, rate-limited, on-off, request-response, video, and those of datagrams";

/// Whether an application is of datagrams, which go past the transport of a host.
fn is_of_datagrams(app: &App) -> bool {
    matches!(app, App::UdpCbr { .. } | App::Voip { .. } | App::UdpVbr { .. } | App::Ping { .. })
}

/// Checks a host whose stack is a guest.
pub(super) fn check_host(host: &Host, stack: &GuestStack) -> Result<(), HostError> {
    let refused = |key: &'static str, why: String| Err(HostError::Guest { stack: stack.name, key, why });
    if let Some(sysctl) = host.sysctl.keys().next() {
        return refused("sysctl", format!("found {sysctl}; expected none, as it has none"));
    }
    if !matches!(host.ecn, Ecn::On | Ecn::Off) {
        let found = host.ecn.as_str();
        return refused("ecn", format!("found {found}; expected on or off, as nothing is agreed on"));
    }
    let least = stack.payload[0] - SHORTER_HEADERS;
    if host.mss < least {
        return refused("mss", format!("found {}; expected at least {least}", host.mss));
    }
    if host.nic.tso {
        return refused("nic.tso", "found true; expected false, as it sends datagrams one by one".to_owned());
    }
    if host.nic.gro || host.nic.lro || host.ack_every.is_some() {
        let why = "found an aggregation of segments; expected none, as it receives datagrams".to_owned();
        return refused(if host.ack_every.is_some() { "ack_every" } else { "nic" }, why);
    }
    Ok(())
}

/// Checks a flow one of whose hosts has a guest.
pub(super) fn check_flow(scenario: &Scenario, flow: &Flow) -> Result<(), FlowError> {
    if is_of_datagrams(&flow.app) {
        return Ok(());
    }
    let stack = |name: &str| scenario.hosts.iter().find(|host| host.name == name).map(|host| &host.stack);
    let (Some(from), Some(to)) = (stack(&flow.from), stack(&flow.to)) else { return Ok(()) };
    let Some(known) = guest::find(from).filter(|_| from == to) else {
        return Err(FlowError::OtherStack { from: from.clone(), to: to.clone() });
    };
    if matches!(flow.app, App::Incast { .. } | App::Background { .. } | App::Loadlatency { .. }) {
        return Err(FlowError::GuestApp { stack: known.name, known: APPS });
    }
    if !known.cc.contains(&flow.cc.as_str()) {
        let (stack, cc) = (from.clone(), flow.cc.clone());
        let known = known.cc.iter().map(|&cc| cc.to_owned()).collect();
        return Err(FlowError::NoCc { stack, cc, known });
    }
    for (key, is_set) in [
        ("cc_params", flow.cc_params.is_some()),
        ("sndbuf", flow.sndbuf.is_some()),
        ("rcvbuf", flow.rcvbuf.is_some()),
    ] {
        if is_set {
            return Err(FlowError::GuestKey { stack: known.name, key });
        }
    }
    Ok(())
}

/// Checks that nothing duplicates packets in a run with guests: the bytes of a datagram are handed over once.
pub(super) fn check_duplication(scenario: &Scenario) -> Result<(), Error> {
    let Some(guest) = scenario.hosts.iter().find(|host| guest::find(&host.stack).is_some()) else {
        return Ok(());
    };
    let links = scenario.links.iter().map(|link| (&link.name, link.duplicate_ppb));
    let hosts = scenario.hosts.iter().flat_map(|host| {
        let stages = [&host.ingress.before_gro, &host.ingress.after_gro];
        let ingress = stages.into_iter().flatten().map(|stage| stage.duplicate_ppb);
        let egress = host.egress.iter().map(|egress| egress.duplicate_ppb);
        ingress.chain(egress).map(|duplicate| (&host.name, duplicate))
    });
    match links.chain(hosts).find(|(_, duplicate)| *duplicate > 0) {
        Some((name, _)) => Err(Error::DuplicateToGuest { place: name.clone(), host: guest.name.clone() }),
        None => Ok(()),
    }
}
