//! Applications in a run: when they begin and stop, their turns, and the metrics they report.

use apps::Metric;
use contract::ids::{ConnectionId, FlowId};
use contract::kinds::{EVENT_APP, sample};
use contract::tables::{EventRow, SampleRow};
use path::Nanos;
use tcp::endpoint::State;

use super::Simulation;
use crate::event_queue::{NEVER, Source};
use crate::flow::FlowApp;
use crate::socket::{Plain, Talking};

impl Simulation {
    /// An event of a flow's application.
    pub(super) fn run_app(&mut self, flow: FlowId) {
        let run = &mut self.flows[flow.index()];
        let over = run.stop.is_some_and(|stop| stop <= self.now);
        match run.app {
            FlowApp::Datagrams if over => self.events.set_occasional(Source::App(flow), NEVER),
            FlowApp::Datagrams => self.send_datagram(flow),
            FlowApp::Media => self.run_media(flow),
            FlowApp::Background(_) => self.run_background(flow, over),
            _ if run.opening => self.open(flow),
            _ => self.app_turn(flow, over),
        }
    }

    /// The flow's start: opens its connection.
    pub(super) fn open(&mut self, flow: FlowId) {
        let run = &mut self.flows[flow.index()];
        run.opening = false;
        let stop = run.stop.filter(|&stop| stop > self.now && run.parent.is_none()).unwrap_or(NEVER);
        self.events.set_occasional(Source::App(flow), stop);
        self.connect(flow);
        self.service(flow.opening());
    }

    /// Stops the flow's application, or gives it a turn at both ends.
    fn app_turn(&mut self, flow: FlowId, over: bool) {
        self.events.set_occasional(Source::App(flow), NEVER);
        let run = &self.flows[flow.index()];
        let (from, to) = (run.from, run.to);
        self.complete_departures(from);
        self.complete_departures(to);
        let run = &mut self.flows[flow.index()];
        if over && !run.stopped {
            run.stopped = true;
            match &mut run.app {
                FlowApp::Bulk(bulk) => {
                    if let Some(endpoint) = self.connections[flow.opening().index()].tcp_mut() {
                        bulk.close(&mut Plain { endpoint, now: self.now });
                    }
                    self.close_guest(flow);
                }
                modelled => {
                    if let Some((ends, _)) = modelled.ends_mut() {
                        ends.into_iter().for_each(apps::End::stop);
                    }
                }
            }
        }
        self.network.set_woken_by_clock(true);
        self.service(flow.opening());
        if !matches!(self.flows[flow.index()].app, FlowApp::Bulk(_)) {
            self.service(flow.accepting());
        }
        self.network.set_woken_by_clock(false);
    }

    /// A modelled application's turn at one end; true if it did something that may let the endpoint send.
    #[cold]
    pub(super) fn run_app_model(&mut self, connection: ConnectionId) -> bool {
        let flow = connection.flow();
        let Some(endpoint) = self.connections[connection.index()].tcp_mut() else { return false };
        let run = &mut self.flows[flow.index()];
        let state = endpoint.state();
        // A flow of data has nothing to report until it ends, and is asked for every segment.
        run.needs_report |= !matches!(run.app, FlowApp::Load(_));
        let is_load = matches!(run.app, FlowApp::Load(_));
        let Some((ends, talk)) = run.app.ends_mut() else { return false };
        let side = connection.side() as usize;
        if matches!(state, State::Established | State::CloseWait) || endpoint.takes_early_data() {
            let flows = endpoint.data_may_flow();
            let mut socket = Talking { plain: Plain { endpoint, now: self.now }, talk, side };
            if ends[side].turn(&mut socket, self.now, &mut run.metrics) {
                return !is_load || side == 1 || flows;
            }
        }
        if side == 1 && endpoint.at_eof() && run.completed.is_none() {
            run.completed = Some(self.now);
            run.needs_report = true;
            if state == State::CloseWait {
                endpoint.shutdown(self.now);
                return true;
            }
        }
        false
    }

    /// Reports what has happened to a flow's application, and asks when it wants its next turn.
    #[cold]
    pub(super) fn report_app(&mut self, flow: FlowId) {
        let now = self.now;
        let run = &mut self.flows[flow.index()];
        run.needs_report = false;
        let named = run.parent.unwrap_or(flow);
        let inside = self.recording.is_measuring();
        let run = &mut self.flows[flow.index()];
        if let Some(completed) = run.completed
            && !run.completion_told
        {
            run.completion_told = true;
            let took = completed - run.start;
            if inside {
                run.tally.completion.add(took);
            }
            self.recording.recorder.sample(&SampleRow {
                t: now,
                flow: named.0,
                kind: sample::COMPLETION,
                value: took as i64,
            });
            self.report_milestone(flow, took);
        }
        self.collect_pings(flow);
        for metric in std::mem::take(&mut self.flows[flow.index()].metrics) {
            self.report_metric(flow, metric, inside);
        }
        if let FlowApp::Incast(_, group) = self.flows[flow.index()].app {
            self.note_incast_open(flow, group as usize);
        }
        let run = &self.flows[flow.index()];
        if run.parent.is_some() {
            self.recycle(flow);
        } else if let FlowApp::Modelled(_) | FlowApp::Pinger(_) = run.app
            && let Some(ends) = run.app.ends()
        {
            let stop = run.stop.filter(|_| !run.stopped);
            let due = ends.into_iter().filter_map(apps::End::due).chain(stop).min().unwrap_or(NEVER);
            self.events.set_occasional(Source::App(flow), due.max(now));
        }
    }

    /// Round trips that a pinger has completed since it was last asked.
    fn collect_pings(&mut self, flow: FlowId) {
        let run = &mut self.flows[flow.index()];
        if let FlowApp::Pinger(pair) = &run.app {
            let (known, pings) = (run.pings_told, pair.opening.pings());
            run.pings_told = pings.len();
            run.metrics.extend(pings[known..].iter().map(|ping| Metric::Response(ping.took)));
        }
    }

    /// The application of a flow has finished something that took so long: a transfer or a request.
    fn report_milestone(&mut self, flow: FlowId, took: Nanos) {
        let row = EventRow {
            t: self.now,
            flow: Some(self.named(flow).0),
            hop: None,
            kind: EVENT_APP,
            seq: Some(self.read_by(flow)),
            value: Some(took as i64),
        };
        self.recording.recorder.event(self.rank(flow), row);
    }

    fn report_metric(&mut self, flow: FlowId, metric: Metric, inside: bool) {
        let tally = &mut self.flows[flow.index()].tally;
        let (kind, value) = match metric {
            Metric::Response(took) => {
                if inside {
                    tally.response.add(took);
                }
                (sample::RESPONSE, took)
            }
            // The engine sees by itself when a transfer is complete.
            Metric::Completion(_) => return,
            Metric::Stall(lasted) => {
                if inside {
                    tally.stalls += 1;
                    tally.stalled += lasted;
                }
                (sample::STALL, lasted)
            }
        };
        self.recording.recorder.sample(&SampleRow { t: self.now, flow: flow.0, kind, value: value as i64 });
        if matches!(metric, Metric::Response(_)) {
            self.report_milestone(flow, value);
        }
        if let (FlowApp::Incast(_, group), Metric::Response(_)) = (&self.flows[flow.index()].app, metric) {
            let group = *group as usize;
            self.on_answer(flow, group, inside);
        }
    }
}
