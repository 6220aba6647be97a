//! Background traffic: transfers that arrive at random, each over a connection of its own.

use apps::{BACKGROUND_WRITE, Bulk};
use contract::ids::FlowId;
use tcp::endpoint::State;

use super::Simulation;
use crate::event_queue::{NEVER, Source};
use crate::flow::FlowApp;
use crate::limits::Limits;
use crate::transport::Transport;

impl Simulation {
    /// A transfer arrives (the first time: the flow begins).
    pub(super) fn run_background(&mut self, flow: FlowId, over: bool) {
        let now = self.now;
        let FlowApp::Background(background) = &mut self.flows[flow.index()].app else { return };
        if over {
            self.events.set_occasional(Source::App(flow), NEVER);
            return;
        }
        let (after, size) = background.draws.draw();
        if let Some(size) = background.next.replace(size) {
            background.waiting.push_back((now, size));
        }
        self.events.set_occasional(Source::App(flow), now.saturating_add(after));
        self.start_transfers(flow);
    }

    /// Starts as many waiting transfers as there are free connections.
    fn start_transfers(&mut self, flow: FlowId) {
        while let FlowApp::Background(background) = &mut self.flows[flow.index()].app
            && let Some(&transfer) = background.free.last()
            && let Some((arrived, size)) = background.waiting.pop_front()
        {
            background.free.pop();
            let run = &mut self.flows[transfer.index()];
            run.app = FlowApp::Bulk(Bulk::new(Some(size), BACKGROUND_WRITE));
            run.start = arrived;
            run.completed = None;
            run.completion_told = false;
            run.ends[1].echo_delay = 0;
            run.uses += 1;
            self.open(transfer);
        }
    }

    /// A transfer that is over at both ends makes room for the next.
    pub(super) fn recycle(&mut self, transfer: FlowId) {
        let [opening, accepting] = [transfer.opening(), transfer.accepting()];
        let Some(sender) = self.connections[opening.index()].tcp() else { return };
        let failed = sender.failure().is_some();
        let closed = self.connections[accepting.index()].tcp().is_none_or(|e| e.state() == State::Closed);
        if !(failed || closed && matches!(sender.state(), State::Closed | State::TimeWait)) {
            return;
        }
        let totals = self.snapshot(transfer);
        self.flows[transfer.index()].limits = Limits::default();
        for side in [opening, accepting] {
            self.connections[side.index()] = Transport::Closed;
            self.events.set_timer(side, NEVER);
        }
        let Some(parent) = self.flows[transfer.index()].parent else { return };
        if let FlowApp::Background(background) = &mut self.flows[parent.index()].app {
            background.finished += totals;
            background.free.push(transfer);
        }
        self.start_transfers(parent);
    }
}
