//! Observations of both ends of a loadlatency scenario, and the tool's metrics made of them.

use apps::Ping;
use contract::ids::FlowId;
use contract::scenario::{App, LoadPart};
use contract::summary::{DataLoad, Load, PingerLoad};
use measure::SCENARIOS;
use measure::{Direction, End};
use path::Nanos;
use tcp::endpoint::Failure;

use crate::engine::Simulation;
use crate::flow::FlowApp;

impl Simulation {
    /// Observations for the summary: of a pinger its scenario and the metrics (docs/loadlatency.md), of a flow of
    /// data its longest gap. None of other flows.
    pub(crate) fn load_summary(&self, flow: FlowId) -> Option<Load> {
        match &self.scenario().flows[flow.index()].app {
            App::Loadlatency { group, scenario, part: LoadPart::Pinger, .. } => {
                let (observed, idle) = self.observed_load(flow, group, *scenario)?;
                let metrics = measure::metrics(&observed, &idle);
                Some(Load::Pinger(Box::new(PingerLoad { observed, metrics })))
            }
            App::Loadlatency { part, .. } => {
                let transfer = self.transfer(flow, direction(*part), self.flow_runs()[flow.index()].start);
                Some(Load::Data(DataLoad {
                    longest_gap_ns: transfer.longest_gap_ns,
                    killed: transfer.killed,
                }))
            }
            _ => None,
        }
    }

    /// A scenario as the tool would have observed it, and the idle pings. None before its flows were to begin.
    fn observed_load(
        &self,
        pinger: FlowId,
        group: &str,
        number: u32,
    ) -> Option<(measure::Scenario, Vec<measure::Ping>)> {
        let flows: Vec<(FlowId, Direction)> = (0..self.flow_runs().len() as u32)
            .map(FlowId)
            .filter_map(|flow| match &self.scenario().flows.get(flow.index())?.app {
                App::Loadlatency { group: of, part, .. } if of == group && *part != LoadPart::Pinger => {
                    Some((flow, direction(*part)))
                }
                _ => None,
            })
            .collect();
        let begin = flows.iter().map(|&(flow, _)| self.flow_runs()[flow.index()].start).min()?;
        let FlowApp::Pinger(pair) = &self.flow_runs()[pinger.index()].app else { return None };
        let app = &pair.opening;
        let end = self.end_of(pinger);
        let first = app.pings().first().map_or(begin, |ping| ping.sent);
        // One that was under way when the flows began is neither.
        let before = app.pings().iter().filter(|ping| ping.sent + ping.took <= begin);
        let idle_pings: Vec<measure::Ping> = before.map(|ping| round_trip(ping, first)).collect();
        let mut pings: Vec<measure::Ping> = app
            .pings()
            .iter()
            .filter(|ping| ping.sent >= begin)
            .map(|ping| round_trip(ping, begin))
            .collect();
        if let Some(sent) = app.waiting_since().filter(|&sent| sent >= begin) {
            pings.push(measure::Ping::unanswered(sent - begin, end.saturating_sub(sent)));
        }
        let scenario = measure::Scenario {
            number,
            flows: number
                .checked_sub(1)
                .and_then(|place| SCENARIOS.get(place as usize))
                .copied()
                .unwrap_or_default(),
            start_ns: begin.saturating_sub(first),
            duration_ns: end.saturating_sub(begin),
            transfers: flows.iter().map(|&(flow, way)| self.transfer(flow, way, begin)).collect(),
            idle_pings: idle_pings.clone(),
            pings,
            ..measure::Scenario::default()
        };
        Some((scenario, idle_pings))
    }

    /// A flow of data; times from `begin` on.
    fn transfer(&self, flow: FlowId, direction: Direction, begin: Nanos) -> measure::Transfer {
        let (run, spec) = (&self.flow_runs()[flow.index()], &self.scenario().flows[flow.index()]);
        let (start, end) = (run.start, self.end_of(flow).max(run.start));
        let (mut gap, mut bins) = (end - start, Vec::new());
        if let FlowApp::Load(load) = &run.app {
            gap = load.accepting.longest_gap(start, end);
            bins = load.accepting.bins().to_vec();
        }
        let sides = [flow.opening(), flow.accepting()].map(|side| self.connection(side));
        let failure = sides.iter().flatten().find_map(|endpoint| endpoint.failure());
        let ecn =
            |side: usize| sides[side].filter(|endpoint| endpoint.established()).map(tcp::Endpoint::uses_ecn);
        let name = spec.name.rsplit_once('.').map_or(spec.name.as_str(), |(_, own)| own);
        measure::Transfer {
            name: name.to_owned(),
            direction,
            dscp: 0,
            start_ns: start.saturating_sub(begin),
            end_ns: end.saturating_sub(begin),
            bytes: self.read_by(flow),
            longest_gap_ns: gap,
            killed: failure.map(|why| reason(why).to_owned()),
            bins,
            sender: End { cc: Some(spec.cc.clone()), ecn: ecn(0) },
            receiver: End { cc: None, ecn: ecn(1) },
        }
    }

    /// Time when a flow stops, or the run.
    fn end_of(&self, flow: FlowId) -> Nanos {
        self.flow_runs()[flow.index()].stop.unwrap_or(Nanos::MAX).min(self.scenario().duration_ns)
    }
}

fn reason(failure: Failure) -> &'static str {
    match failure {
        Failure::Reset => "reset by the other end",
        Failure::HandshakeTimeout => "no answer to its opening",
        Failure::Timeout => "no answer to retransmissions",
        Failure::Aborted => "aborted",
        Failure::Network(_) => "an ICMP error",
    }
}

fn direction(part: LoadPart) -> Direction {
    if part == LoadPart::Download { Direction::Down } else { Direction::Up }
}

fn round_trip(ping: &Ping, begin: Nanos) -> measure::Ping {
    let back = ping.took.saturating_sub(ping.there);
    measure::Ping {
        t_ns: ping.sent - begin,
        rtt_ns: ping.took,
        up_ns: i64::try_from(ping.there).ok(),
        down_ns: i64::try_from(back).ok(),
        answered: true,
    }
}
