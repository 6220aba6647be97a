//! Applications as a run is set up with them.

use std::collections::VecDeque;

use apps::{
    Arrivals, BACKGROUND_WRITE, Bulk, Datagrams, End, Incast, Lengths, OnOff, Paced, Pinger, Player,
    Requests, Rounds, Server, Sink, Transfers,
};
use contract::ids::FlowId;
use contract::scenario::{App, Distribution, Flow, LoadPart, Scenario};
use path::Nanos;

use crate::flow::{Background, FlowApp, Pair, Snapshot};

/// An incast: the flows that are asked together.
pub struct IncastGroup {
    name: String,
    /// When rounds begin.
    pub rounds: Rounds,
    /// The flows.
    pub members: Vec<FlowId>,
    /// When the present round began.
    pub began: Nanos,
    /// Answers in the present round.
    pub answers: usize,
}

/// Adds a flow for each connection that background traffic may have at a time; returns, for every flow, the one that
/// it is a transfer of.
pub fn add_background_flows(scenario: &mut Scenario) -> Vec<Option<FlowId>> {
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
pub fn incast_groups(scenario: &Scenario) -> Vec<IncastGroup> {
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

/// The application of flow `id`, which is opened at `start`, and whether it ends by itself.
pub fn build(
    scenario: &Scenario,
    id: FlowId,
    start: Nanos,
    parents: &[Option<FlowId>],
    groups: &[IncastGroup],
) -> (FlowApp, bool) {
    let flow = &scenario.flows[id.index()];
    let streams = |purpose: &str| path::stream(scenario.seed, scenario.repeat, purpose, &flow.name);
    let ends = flow.stop_ns.unwrap_or(Nanos::MAX).min(scenario.duration_ns);
    let sends = |sender: Box<dyn End>| FlowApp::Modelled(Pair::new(sender, Box::new(Sink)));
    let answers = |asker: Box<dyn End>| FlowApp::Modelled(Pair::new(Box::new(Server::default()), asker));
    match flow.app {
        App::Bulk { bytes, write_bytes } => (FlowApp::Bulk(Bulk::new(bytes, write_bytes)), bytes.is_some()),
        App::Fixed { size_bytes, write_bytes } => {
            (FlowApp::Bulk(Bulk::new(Some(size_bytes), write_bytes)), true)
        }
        App::RateLimited { rate_bps, write_bytes } => {
            (sends(Box::new(Paced::new(rate_bps, write_bytes, ends))), false)
        }
        App::OnOff { on_ns, off_ns, rate_bps, write_bytes, distribution } => {
            let random = (distribution == Distribution::Exponential).then(|| streams("on-off"));
            let lengths = Lengths::new(on_ns, off_ns, random);
            (sends(Box::new(OnOff::new(lengths, rate_bps, write_bytes, ends))), false)
        }
        App::RequestResponse { requests, request_bytes, response_bytes, think_ns } => {
            let client = Requests::new(requests, request_bytes, response_bytes, think_ns);
            (answers(Box::new(client)), requests.is_some())
        }
        App::Incast { size_bytes, request_bytes, rounds, .. } => {
            let group = groups.iter().position(|g| g.members.contains(&id)).unwrap_or(0);
            let client = Incast::new(rounds, request_bytes, size_bytes);
            (FlowApp::Incast(Box::new(Pair::new(Server::default(), client)), group as u32), rounds.is_some())
        }
        App::Video { rate_bps, chunk_ns, buffer_ns, request_bytes } => {
            (answers(Box::new(Player::new(rate_bps, chunk_ns, buffer_ns, request_bytes))), false)
        }
        App::UdpCbr { rate_bps, payload_bytes, .. } => {
            (FlowApp::Datagrams(Datagrams::at_rate(rate_bps, payload_bytes)), false)
        }
        App::Voip { frame_ns, payload_bytes, .. } => {
            (FlowApp::Datagrams(Datagrams::every(frame_ns, payload_bytes, false)), false)
        }
        App::Ping { interval_ns, payload_bytes } => {
            (FlowApp::Datagrams(Datagrams::every(interval_ns, payload_bytes, true)), false)
        }
        App::Loadlatency { part: LoadPart::Pinger, ping_bytes, interval_ns, .. } => {
            let pair = Pair::new(Pinger::new(ping_bytes, interval_ns), Server::with_stamps());
            (FlowApp::Pinger(Box::new(pair)), false)
        }
        App::Loadlatency { write_bytes, .. } => {
            let pair = Pair::new(Bulk::new(None, write_bytes), Arrivals::new(start));
            (FlowApp::Load(Box::new(pair)), false)
        }
        App::Background { load_bps, size_bytes, shape_milli, .. } => {
            let transfers = (0..).map(FlowId).zip(parents).filter(|(_, parent)| **parent == Some(id));
            let mut free: Vec<FlowId> = transfers.map(|(transfer, _)| transfer).collect();
            // The first is used first.
            free.reverse();
            let background = Background {
                draws: Transfers::new(load_bps, size_bytes, shape_milli, &streams),
                next: None,
                transfers: free.clone(),
                free,
                waiting: VecDeque::new(),
                finished: Snapshot::default(),
            };
            (FlowApp::Background(Box::new(background)), false)
        }
    }
}
