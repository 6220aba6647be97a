//! Setting up a run.

use std::sync::Arc;

use contract::ids::{FlowId, HostId};
use contract::record::Recorder;
use contract::scenario::{self, Ecn, Sampling, Scenario};
use guest::{GuestStack, Machine};
use path::Xoshiro256PlusPlus;
use tcp::cc::experiment::module;
use tcp::cc::foreign::{self, Foreign, Trouble};
use tcp::stack::{EcnMode, Family, Profile, ProfileError};
use tcp::{HostClock, Nanos};
use units::SECOND;
use wire::Segment;

use super::fragments::Fragments;
use super::prefetch::Prefetcher;
use super::recording::{Recording, Window};
use super::{HostRun, Simulation, mtu};
use crate::Outside;
use crate::applications::{self, IncastGroup};
use crate::capture::{Captures, address};
use crate::cheat::Cheat;
use crate::check;
use crate::draws;
use crate::error::{Error, FlowError, HostError};
use crate::event_queue::{EventQueue, NEVER, Source, Sources};
use crate::flow::{FlowApp, FlowRun};
use crate::host_edge::{Egress, Ingress};
use crate::host_stack::HostStack;
use crate::limits::Capacity;
use crate::network::{self, Network};
use crate::packet::Packet;
use crate::topology::Topology;

/// Up to this many flows, percentiles are within 0.05 %; beyond it within 0.4 %, to bound memory.
const FINE_HISTOGRAMS: usize = 256;

impl Simulation {
    /// Sets up a run; `run_id` goes into every row.
    ///
    /// # Errors
    /// What in the scenario the engine refuses.
    pub fn new(scenario: &str, run_id: u32) -> Result<Simulation, Error> {
        Simulation::with_outside(scenario, run_id, &Outside::default())
    }

    /// Sets up a run as [`Simulation::new`] does, with congestion controls and guests from outside.
    ///
    /// # Errors
    /// What in the scenario the engine refuses, or why a module does not begin.
    pub fn with_outside(scenario: &str, run_id: u32, outside: &Outside) -> Result<Simulation, Error> {
        let scenario = contract::parse(scenario)?;
        let mut stacks = check::check(&scenario, outside)?;
        let trouble = Trouble::default();
        vary(&scenario, &mut stacks)?;
        load(&scenario, &outside.modules, &mut stacks, &trouble)?;
        Simulation::set_up(scenario, run_id, false, stacks, trouble)
    }

    /// Sets up a run as [`Simulation::new`] does, from a parsed scenario. `force_stepped` makes every hop wait for
    /// events: slower, and equal in every result.
    ///
    /// # Errors
    /// What in the scenario the engine refuses.
    pub fn from_scenario(scenario: Scenario, run_id: u32, force_stepped: bool) -> Result<Simulation, Error> {
        let mut stacks = check::check(&scenario, &Outside::default())?;
        vary(&scenario, &mut stacks)?;
        Simulation::set_up(scenario, run_id, force_stepped, stacks, Trouble::default())
    }

    fn set_up(
        mut scenario: Scenario,
        run_id: u32,
        force_stepped: bool,
        stacks: Vec<HostStack>,
        trouble: Trouble,
    ) -> Result<Simulation, Error> {
        draws::add_phases(&mut scenario);
        let topology = Topology::new(&scenario)?;
        let named = scenario.flows.len();
        let parents = applications::add_background_flows(&mut scenario);
        let groups = applications::incast_groups(&scenario);
        let hosts = hosts(&scenario, stacks, &trouble)?;
        let flows = flows(&scenario, &topology, &parents, &groups)?;
        let families: Vec<Family> = hosts.iter().map(|host| host.stack.family()).collect();
        let tracked: Vec<bool> = hosts.iter().map(|host| host.stack.watches_interface()).collect();
        let recording = recording(&scenario, run_id, named, &families)?;
        let captured = recording.captures.links();
        let cuttable =
            |host: &HostRun| host.ip.is_v4() && host.stack.kernel().is_some_and(|p| !p.spec().sets_df);
        let fragmentable = hosts.iter().map(cuttable).collect();
        let network = Network::new(&scenario, topology, &tracked, fragmentable, &captured, force_stepped);
        let intercepted = !scenario.record.pcap.is_empty() || hosts.iter().any(HostRun::has_edge);
        // Of other applications both ends have their turns at the same events.
        let apart = |flow: &FlowRun| matches!(flow.app, FlowApp::Bulk(_) | FlowApp::Datagrams);
        let has_guests = hosts.iter().any(|host| host.stack.kernel().is_none());
        let run_ahead = if intercepted || has_guests || recording.per_ack || !flows.iter().all(apart) {
            vec![None; scenario.links.len()]
        } else {
            network.run_ahead(&scenario)
        };
        let (services, arrivals) = network.sources();
        let events = EventQueue::new(&Sources {
            services,
            egresses: hosts.iter().map(HostRun::sends_later).collect(),
            arrivals,
            ingresses: hosts.iter().map(|host| host.ingress.is_some()).collect(),
            timers: 2 * flows.len(),
            departures: tracked,
            rounds: groups.len(),
            apps: flows.len(),
        });
        let mut run = Simulation {
            now: 0,
            until: NEVER,
            event_count: 0,
            packet_count: 0,
            app_waits: false,
            finished: false,
            events,
            network,
            capacity: Capacity::new(&scenario),
            connections: applications::transports(&scenario),
            hosts,
            prefetcher: Prefetcher::new(scenario.links.len(), flows.len()),
            flows,
            groups,
            recording,
            intercepted,
            scratch: Segment::default(),
            arrived: Packet::default(),
            guest_packet: Vec::new(),
            next_change: 0,
            waiting_changes: Vec::new(),
            due_changes: Vec::new(),
            run_ahead,
            no_fast_path: false,
            trouble,
            scenario,
        };
        run.set_first_events(named);
        Ok(run)
    }

    /// Sets the sources that run without anything having happened. `named` flows are those of the experiment.
    fn set_first_events(&mut self, named: usize) {
        let Simulation { events, scenario, flows, network, recording, .. } = self;
        for (flow, run) in (0..).map(FlowId).zip(&flows[..named]) {
            events.set_occasional(Source::App(flow), run.start);
        }
        if let Some(change) = scenario.schedule.first() {
            events.set_occasional(Source::Change, change.at_ns);
        }
        if let Sampling::Interval { interval_ns } = scenario.record.tcp {
            events.set_occasional(Source::SampleTcp, interval_ns);
        }
        events.set_occasional(Source::Second, SECOND);
        events.set_occasional(Source::Window, scenario.measure.from_ns);
        match scenario.record.queue {
            Sampling::Interval { .. } => events.set_occasional(Source::SampleQueue, 0),
            Sampling::PerAck | Sampling::Off => {
                for &link in &recording.observed {
                    network.next_query(link, scenario.measure.from_ns);
                }
            }
        }
    }
}

/// The next number of a random stream.
pub(super) fn draw(random: &mut Xoshiro256PlusPlus) -> u64 {
    rand_core::RngCore::next_u64(random)
}

fn recording(
    scenario: &Scenario,
    run_id: u32,
    named: usize,
    families: &[Family],
) -> Result<Recording, Error> {
    Ok(Recording {
        recorder: Recorder::new(
            run_id,
            scenario.flows[..named].iter().map(|flow| flow.name.as_str()),
            scenario.hop_names().iter().map(String::as_str),
        ),
        captures: Captures::new(scenario, families)?,
        observed: scenario.links_where(|link| link.observe),
        per_ack: scenario.record.tcp == Sampling::PerAck,
        window: Window::Before,
        links_before: Vec::new(),
        links_after: Vec::new(),
    })
}

/// Gives each host its copy of the modules that its flows use: those that it sends, and those that it accepts if they need ECN.
fn load(
    scenario: &Scenario,
    modules: &[Arc<dyn Foreign>],
    stacks: &mut [HostStack],
    trouble: &Trouble,
) -> Result<(), Error> {
    let mut need_ecn = Vec::new();
    for (host, stack) in scenario.hosts.iter().zip(&mut *stacks) {
        let Some(profile) = stack.kernel_mut() else { continue };
        let sends = |name: &str| scenario.flows.iter().any(|flow| flow.from == host.name && flow.cc == name);
        for module in
            check::of_family(modules, &**profile).filter(|module| sends(module.name())).collect::<Vec<_>>()
        {
            load_one(scenario, module, host, &mut **profile, trouble)?;
            if profile.sender(module.name(), 0).needs_ecn() {
                need_ecn.push(module.name().to_owned());
            }
        }
    }
    for (host, stack) in scenario.hosts.iter().zip(stacks) {
        let Some(profile) = stack.kernel_mut() else { continue };
        let accepts = |name: &str| {
            need_ecn.iter().any(|cc| cc == name)
                && scenario.flows.iter().any(|flow| flow.to == host.name && flow.cc == name)
        };
        for module in
            check::of_family(modules, &**profile).filter(|module| accepts(module.name())).collect::<Vec<_>>()
        {
            if !profile.congestion_controls().contains(&module.name()) {
                load_one(scenario, module, host, &mut **profile, trouble)?;
            }
        }
    }
    Ok(())
}

fn load_one(
    scenario: &Scenario,
    module: &Arc<dyn Foreign>,
    host: &scenario::Host,
    profile: &mut dyn Profile,
    trouble: &Trouble,
) -> Result<(), Error> {
    let sysctls: Vec<(String, i64)> = host.sysctl.iter().map(|(key, value)| (key.clone(), *value)).collect();
    let mut random = path::stream(scenario.seed, scenario.repeat, "module", &host.name);
    let seat = foreign::Host {
        sysctls: &sysctls,
        boot: boot(scenario, host),
        hz: host.hz,
        random: draw(&mut random),
        trouble: trouble.clone(),
    };
    let wrong = |why| Error::Host { host: host.name.clone(), why };
    let refused = |why| wrong(HostError::Module { name: module.name().to_owned(), why });
    let loaded = module.load(&seat).map_err(refused)?;
    profile.register(module.name(), &loaded).map_err(|error| wrong(error.into()))
}

/// Gives every host the built-in congestion controls of which flows change constants.
fn vary(scenario: &Scenario, stacks: &mut [HostStack]) -> Result<(), Error> {
    for (host, stack) in scenario.hosts.iter().zip(stacks) {
        let Some(profile) = stack.kernel_mut() else { continue };
        let family = profile.spec().family.as_str();
        for flow in &scenario.flows {
            let name = registered(flow);
            if let Some(module) = flow.cc_params.as_ref().and_then(|params| module(params, &flow.cc, family))
                && !profile.congestion_controls().contains(&name.as_str())
            {
                let wrong = |why: ProfileError| Error::Host { host: host.name.clone(), why: why.into() };
                profile.register(&name, &module).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

/// The name that a flow's congestion control is registered by: one that says the constants, where it changes any.
pub(super) fn registered(flow: &scenario::Flow) -> String {
    flow.cc_params.as_ref().map_or_else(|| flow.cc.clone(), |params| format!("{params:?}"))
}

/// Local time of a host when the run begins: up for 100 s to 1100 s, at a random point of a tick.
fn boot(scenario: &Scenario, host: &scenario::Host) -> Nanos {
    let mut random = path::stream(scenario.seed, scenario.repeat, "clock", &host.name);
    100 * SECOND + draw(&mut random) % (1000 * SECOND)
}

fn hosts(scenario: &Scenario, stacks: Vec<HostStack>, trouble: &Trouble) -> Result<Vec<HostRun>, Error> {
    let host = |((id, host), mut stack): ((HostId, &scenario::Host), HostStack)| {
        if network::paces(scenario, host)
            && let Some(profile) = stack.kernel_mut()
        {
            profile.leave_pacing_to_queue();
        }
        let mut random = path::stream(scenario.seed, scenario.repeat, "clock", &host.name);
        // The first is the time since boot.
        draw(&mut random);
        let machine = match stack {
            HostStack::Guest(stack) => Some(machine(scenario, id, host, stack, trouble)?),
            HostStack::Kernel(_) => None,
        };
        Ok(HostRun {
            machine,
            clock: HostClock::new(host.hz, boot(scenario, host), 0),
            timestamp_offset: draw(&mut random) as u32,
            fast_open: tcp::fast_open::Host::new([scenario.seed, u64::from(id.0)]),
            ip: host.ip,
            mss: host.mss,
            peers: tcp::peers::Memory::default(),
            fragments: Fragments::default(),
            ecn: match host.ecn {
                Ecn::Off => EcnMode::Off,
                Ecn::Accept => EcnMode::Accept,
                Ecn::On => EcnMode::On,
                Ecn::Accurate => EcnMode::Accurate,
                Ecn::OnAcceptAccurate => EcnMode::OnAcceptAccurate,
                Ecn::AcceptAccurate => EcnMode::AcceptAccurate,
            },
            tso: host.nic.tso,
            veth: host.nic.veth,
            tso_max: host.nic.tso_max,
            full: host.nic.full,
            ingress: ingress(scenario, id, host, stack.family()),
            egress: egress(scenario, id, host),
            cheat: host.cheats.map(|cheat| Box::new(Cheat::new(cheat, 2 * scenario.flows.len()))),
            stack,
            waiting: Vec::new(),
        })
    };
    (0..).map(HostId).zip(&scenario.hosts).zip(stacks).map(host).collect()
}

/// Begins a guest on a host.
fn machine(
    scenario: &Scenario,
    id: HostId,
    host: &scenario::Host,
    stack: &GuestStack,
    trouble: &Trouble,
) -> Result<Box<dyn Machine>, Error> {
    let sysctls: Vec<(String, i64)> = host.sysctl.iter().map(|(key, value)| (key.clone(), *value)).collect();
    let trouble = trouble.clone();
    let (name, guest) = (host.name.clone(), stack.name);
    let settings = guest::Host {
        address: address(id),
        mtu: u16::try_from(mtu(host.ip, host.mss)).unwrap_or(u16::MAX),
        ecn: match host.ecn {
            Ecn::Off => guest::EcnMode::Off,
            Ecn::Accept | Ecn::AcceptAccurate => guest::EcnMode::Accept,
            Ecn::On | Ecn::OnAcceptAccurate | Ecn::Accurate => guest::EcnMode::On,
        },
        seed: super::guests::seed(scenario, "machine", &host.name),
        send_buffer: scenario.flows.iter().find(|flow| flow.from == host.name).and_then(|flow| flow.sndbuf),
        receive_buffer: scenario.flows.iter().find(|flow| flow.to == host.name).and_then(|flow| flow.rcvbuf),
        sysctls: &sysctls,
        now: 0,
        fail: Arc::new(move |why| trouble.report(format!("host {name}: {guest}: {why}"))),
    };
    let refused =
        |why| Error::Host { host: host.name.clone(), why: HostError::Refused { stack: guest, why } };
    stack.boot.boot(&settings).map_err(refused)
}

fn ingress(scenario: &Scenario, id: HostId, host: &scenario::Host, family: Family) -> Option<Ingress> {
    let streams = |purpose: &str, place: &str| {
        path::stream(scenario.seed, scenario.repeat, purpose, &format!("{}.{place}", host.name))
    };
    Ingress::new(host, family, [0, 1, 2].map(|place| scenario.place_hop(id, place)), &streams)
}

fn egress(scenario: &Scenario, id: HostId, host: &scenario::Host) -> Option<Egress> {
    let streams = |purpose: &str| {
        path::stream(scenario.seed, scenario.repeat, purpose, &format!("{}.egress", host.name))
    };
    Egress::new(host, scenario.place_hop(id, 0), &streams)
}

fn flows(
    scenario: &Scenario,
    topology: &Topology,
    parents: &[Option<FlowId>],
    groups: &[IncastGroup],
) -> Result<Vec<FlowRun>, Error> {
    let host = |flow: &scenario::Flow, name: &str| {
        let no_host = || FlowError::NoHost(name.to_owned()).of(flow);
        scenario.host(name).ok_or_else(no_host)
    };
    let starts = draws::starts(scenario);
    let mantissa_bits = if scenario.flows.len() <= FINE_HISTOGRAMS { 10 } else { 7 };
    let flow = |(id, flow): (FlowId, &scenario::Flow)| {
        let start = starts[id.index()];
        let app = applications::build(scenario, id, start, parents, groups);
        let [from, to] = [host(flow, &flow.from)?, host(flow, &flow.to)?];
        let ip = scenario.hosts[from.index()].ip;
        let mut run = FlowRun::new(id, flow, app, [from, to], start, ip.header() as u8, mantissa_bits);
        run.parent = parents[id.index()];
        let path = topology.path(from, to);
        let link = path.iter().map(|link| &scenario.links[link.index()]);
        let link = link.clone().find(|link| link.bottleneck).or(link.clone().next());
        run.overhead = link.map_or(0, |link| link.overhead);
        Ok(run)
    };
    (0..).map(FlowId).zip(&scenario.flows).map(flow).collect()
}
