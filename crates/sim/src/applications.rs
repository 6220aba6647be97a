//! Applications as a run is set up with them.

use std::collections::VecDeque;

use apps::{Arrivals, BACKGROUND_WRITE, MediaSender, Rounds, Server, Traffic};
use contract::ids::FlowId;
use contract::scenario::{App, Flow, Scenario};
use path::Nanos;

use crate::flow::{Background, FlowApp, Pair, Snapshot};
use crate::transport::{DatagramSink, DatagramSource, MediaSink, Transport};

/// An incast: the flows that are asked together.
pub(crate) struct IncastGroup {
    name: String,
    /// Times when rounds begin.
    pub rounds: Rounds,
    /// The flows.
    pub members: Vec<FlowId>,
    /// Time when the present round began.
    pub began: Nanos,
    /// Answers in the present round.
    pub answers: usize,
}

/// Adds a flow for each connection that background traffic may have at a time; returns, for every flow, the one that
/// it is a transfer of.
pub(crate) fn add_background_flows(scenario: &mut Scenario) -> Vec<Option<FlowId>> {
    let mut parents = vec![None; scenario.flows.len()];
    for parent in 0..scenario.flows.len() {
        let flow = scenario.flows[parent].clone();
        let App::Background { connections, .. } = flow.app else { continue };
        for number in 1..=connections {
            let name = format!("{}#{number}", flow.name);
            let app = App::Bulk { bytes: Some(1), write_bytes: BACKGROUND_WRITE };
            scenario.flows.push(Flow { name, app, ..flow.clone() });
            parents.push(Some(FlowId(parent as u32)));
        }
    }
    parents
}

/// The groups of incasts of a scenario.
pub(crate) fn incast_groups(scenario: &Scenario) -> Vec<IncastGroup> {
    let mut groups: Vec<IncastGroup> = Vec::new();
    for (flow, spec) in (0..).map(FlowId).zip(&scenario.flows) {
        let App::Incast { group, rounds, think_ns, .. } = &spec.app else { continue };
        let known = groups.iter().position(|g| g.name == *group).unwrap_or_else(|| {
            let rounds = Rounds::new(0, *rounds, *think_ns);
            groups.push(IncastGroup {
                name: group.clone(),
                rounds,
                members: Vec::new(),
                began: 0,
                answers: 0,
            });
            groups.len() - 1
        });
        groups[known].members.push(flow);
    }
    for group in &mut groups {
        let App::Incast { rounds, think_ns, .. } = &scenario.flows[group.members[0].index()].app else {
            continue;
        };
        group.rounds = Rounds::new(group.members.len() as u32, *rounds, *think_ns);
    }
    groups
}

/// Both ends of each flow as they are before it starts, by the numbers of connections.
pub(crate) fn transports(scenario: &Scenario) -> Vec<Transport> {
    let ends = |flow: &Flow| match traffic(scenario, flow) {
        Traffic::Datagrams(datagrams) => {
            let sink = DatagramSink { echoes: datagrams.is_echoed(), bytes: 0 };
            [Transport::Source(DatagramSource { datagrams, sent: 0 }), Transport::Sink(sink)]
        }
        Traffic::Media(media) => {
            let frames = path::stream(scenario.seed, scenario.repeat, "frames", &flow.name);
            let sender = MediaSender::new(&media, flow.start_ns, frames);
            [Transport::MediaSource(Box::new(sender)), Transport::MediaSink(Box::new(MediaSink::new(&media)))]
        }
        _ => [Transport::Closed, Transport::Closed],
    };
    scenario.flows.iter().flat_map(ends).collect()
}

fn traffic(scenario: &Scenario, flow: &Flow) -> Traffic {
    let streams = |purpose: &str| path::stream(scenario.seed, scenario.repeat, purpose, &flow.name);
    let stop = flow.stop_ns.unwrap_or(Nanos::MAX).min(scenario.duration_ns);
    flow.app.traffic(stop, &streams)
}

/// The application of flow `id`, which is opened at `start`.
pub(crate) fn build(
    scenario: &Scenario,
    id: FlowId,
    start: Nanos,
    parents: &[Option<FlowId>],
    groups: &[IncastGroup],
) -> FlowApp {
    match traffic(scenario, &scenario.flows[id.index()]) {
        Traffic::Bulk(bulk) => FlowApp::Bulk(bulk),
        Traffic::Connection { opening, accepting, .. } => FlowApp::Modelled(Pair::new(opening, accepting)),
        Traffic::Incast { client, .. } => {
            let group = groups.iter().position(|g| g.members.contains(&id)).unwrap_or(0);
            FlowApp::Incast(Box::new(Pair::new(Server::default(), client)), group as u32)
        }
        Traffic::Datagrams(_) => FlowApp::Datagrams,
        Traffic::Media(_) => FlowApp::Media,
        Traffic::Pinger(pinger) => FlowApp::Pinger(Box::new(Pair::new(pinger, Server::with_stamps()))),
        Traffic::Load(bulk) => FlowApp::Load(Box::new(Pair::new(bulk, Arrivals::new(start)))),
        Traffic::Background(draws, _) => {
            let transfers = (0..).map(FlowId).zip(parents).filter(|(_, parent)| **parent == Some(id));
            let mut free: Vec<FlowId> = transfers.map(|(transfer, _)| transfer).collect();
            // The first is used first.
            free.reverse();
            FlowApp::Background(Box::new(Background {
                draws,
                next: None,
                transfers: free.clone(),
                free,
                waiting: VecDeque::new(),
                finished: Snapshot::default(),
            }))
        }
    }
}
