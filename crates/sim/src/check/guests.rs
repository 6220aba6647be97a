//! Whether a scenario asks of guests what they can do: every refusal is one line.

use contract::scenario::{App, Ecn, Flow, Host, IpVersion, Scenario};
use guest::{GuestStack, Kind, LONGER_HEADERS};

use crate::Outside;
use crate::error::{Error, FlowError, HostError};

/// Applications that are carried out over guests.
const APPS: &str = "bulk, fixed, rate-limited, on-off, request-response, video, and those of datagrams";

/// Whether an application is of datagrams, which go past the transport of a host.
fn is_of_datagrams(app: &App) -> bool {
    matches!(app, App::UdpCbr { .. } | App::Voip { .. } | App::UdpVbr { .. } | App::Ping { .. })
}

/// Checks a host whose stack is a guest.
pub(super) fn check_host(host: &Host, stack: &GuestStack) -> Result<(), HostError> {
    let refused = |key: &'static str, why: String| Err(HostError::Guest { stack: stack.name, key, why });
    if let Some(sysctl) = host.sysctl.keys().next().filter(|_| !stack.sysctls) {
        return refused("sysctl", format!("found {sysctl}; expected none, as it has none"));
    }
    let found = host.ecn.as_str();
    if stack.kind == Kind::Datagrams && !matches!(host.ecn, Ecn::On | Ecn::Off) {
        return refused("ecn", format!("found {found}; expected on or off, as nothing is agreed on"));
    }
    if !matches!(host.ecn, Ecn::On | Ecn::Off | Ecn::Accept) {
        return refused("ecn", format!("found {found}; expected on, off or accept"));
    }
    if host.ecn != Ecn::Off && !stack.ecn {
        return refused("ecn", format!("found {found}; expected off, as it has none"));
    }
    let least = match stack.kind {
        Kind::Datagrams => stack.payload[0] - LONGER_HEADERS,
        Kind::Packets => stack.payload[0],
    };
    if host.mss < least {
        return refused("mss", format!("found {}; expected at least {least}", host.mss));
    }
    if stack.kind == Kind::Packets && host.mss > stack.payload[1] {
        return refused("mss", format!("found {}; expected at most {}", host.mss, stack.payload[1]));
    }
    let (units, each) = match stack.kind {
        Kind::Datagrams => ("datagrams", "datagrams one by one"),
        Kind::Packets => ("packets", "packets one by one"),
    };
    if stack.kind == Kind::Packets && host.ip != IpVersion::Ipv4 {
        return refused("ip", "found ipv6; expected ipv4, as it takes and gives packets of IPv4".to_owned());
    }
    if host.nic.tso {
        return refused("nic.tso", format!("found true; expected false, as it sends {each}"));
    }
    if host.nic.gro || host.nic.lro || host.ack_every.is_some() {
        let why = format!("found an aggregation of segments; expected none, as it receives {units}");
        return refused(if host.ack_every.is_some() { "ack_every" } else { "nic" }, why);
    }
    if host.cheats.is_some() {
        return refused("cheats", "found a cheat; expected none, as it is for a kernel's TCP".to_owned());
    }
    Ok(())
}

/// Checks a flow one of whose hosts has a guest.
pub(super) fn check_flow(scenario: &Scenario, outside: &Outside, flow: &Flow) -> Result<(), FlowError> {
    if is_of_datagrams(&flow.app) {
        return Ok(());
    }
    let stack = |name: &str| scenario.hosts.iter().find(|host| host.name == name).map(|host| &host.stack);
    let (Some(from), Some(to)) = (stack(&flow.from), stack(&flow.to)) else { return Ok(()) };
    let guests = [from, to].map(|name| outside.guest(name));
    let speaks_datagrams = |guest: &GuestStack| guest.kind == Kind::Datagrams;
    if from != to && guests.into_iter().flatten().any(speaks_datagrams) {
        return Err(FlowError::OtherStack { from: from.clone(), to: to.clone() });
    }
    let Some(known) = guests.into_iter().flatten().next() else { return Ok(()) };
    if matches!(flow.app, App::Incast { .. } | App::Background { .. } | App::Loadlatency { .. }) {
        return Err(FlowError::GuestApp { stack: known.name, known: APPS });
    }
    if let [Some(sender), _] = guests {
        if !sender.cc.contains(&flow.cc.as_str()) {
            let (stack, cc) = (from.clone(), flow.cc.clone());
            let known = sender.cc.iter().map(|&cc| cc.to_owned()).collect();
            return Err(FlowError::NoCc { stack, cc, known });
        }
        if flow.cc_params.is_some() {
            return Err(FlowError::GuestKey { stack: sender.name, key: "cc_params" });
        }
    }
    for (key, is_set, guest) in
        [("sndbuf", flow.sndbuf.is_some(), guests[0]), ("rcvbuf", flow.rcvbuf.is_some(), guests[1])]
    {
        if let Some(guest) = guest.filter(|guest| is_set && !guest.buffers) {
            return Err(FlowError::GuestKey { stack: guest.name, key });
        }
    }
    Ok(())
}

/// Checks that nothing duplicates packets in a run with guests that send datagrams: the bytes of one are handed over once.
pub(super) fn check_duplication(scenario: &Scenario, outside: &Outside) -> Result<(), Error> {
    let sends_datagrams =
        |host: &&Host| outside.guest(&host.stack).is_some_and(|guest| guest.kind == Kind::Datagrams);
    let Some(guest) = scenario.hosts.iter().find(sends_datagrams) else {
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
