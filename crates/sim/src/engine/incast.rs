//! Rounds of an incast: a client asks all servers of a group at once.

use contract::ids::FlowId;
use contract::kinds::sample;
use contract::tables::SampleRow;
use tcp::endpoint::State;

use super::Simulation;
use crate::event_queue::{NEVER, Source};
use crate::flow::FlowApp;

impl Simulation {
    /// A server has answered in full.
    pub(super) fn on_answer(&mut self, flow: FlowId, number: usize, inside: bool) {
        let group = &mut self.groups[number];
        group.rounds.on_answer(self.now);
        group.answers += 1;
        if group.answers == group.members.len() {
            let took = self.now - group.began;
            if inside {
                self.flows[flow.index()].tally.round.add(took);
            }
            let value = took as i64;
            self.recording.recorder.sample(&SampleRow {
                t: self.now,
                flow: flow.0,
                kind: sample::ROUND,
                value,
            });
        }
        let due = self.groups[number].rounds.due().unwrap_or(NEVER);
        self.events.set_occasional(Source::Round(number as u32), due);
    }

    pub(super) fn note_incast_open(&mut self, flow: FlowId, number: usize) {
        let run = &mut self.flows[flow.index()];
        let open =
            self.connections[flow.accepting().index()].tcp().is_some_and(|e| e.state() == State::Established);
        if open && !run.opened {
            run.opened = true;
            self.groups[number].rounds.on_open(self.now);
            let due = self.groups[number].rounds.due().unwrap_or(NEVER);
            self.events.set_occasional(Source::Round(number as u32), due);
        }
    }

    /// A round begins: everybody is asked.
    pub(super) fn begin_round(&mut self, number: usize) {
        self.events.set_occasional(Source::Round(number as u32), NEVER);
        let group = &mut self.groups[number];
        group.rounds.begin();
        group.began = self.now;
        group.answers = 0;
        for index in 0..self.groups[number].members.len() {
            let flow = self.groups[number].members[index];
            if let FlowApp::Incast(pair, _) = &mut self.flows[flow.index()].app {
                pair.accepting.release();
            }
            self.complete_departures(self.flows[flow.index()].to);
            self.service(flow.accepting());
        }
    }
}
