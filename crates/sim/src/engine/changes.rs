//! Changes of the schedule: when their time has come, or the event that they wait for.

use contract::ids::FlowId;
use contract::kinds::{EVENT_CHANGE, event_named};
use contract::scenario::Scenario;
use contract::tables::EventRow;
use tcp::event::EventKind;

use super::Simulation;
use crate::event_queue::{NEVER, Source};

impl Simulation {
    /// Carries out the changes of the schedule that are due, or has them wait for their events from now on.
    pub(super) fn change_links(&mut self) {
        while let Some(change) = self.scenario.schedule.get(self.next_change)
            && change.at_ns <= self.now
        {
            if change.on.is_some() {
                self.waiting_changes.push(self.next_change);
            } else {
                self.change_link(self.next_change);
            }
            self.next_change += 1;
        }
        let next = self.scenario.schedule.get(self.next_change).map_or(NEVER, |change| change.at_ns);
        self.events.set_occasional(Source::Change, next);
        self.report_network(None);
    }

    /// Carries out the changes whose events have come.
    pub(super) fn change_links_now(&mut self) {
        for index in std::mem::take(&mut self.due_changes) {
            self.change_link(index);
        }
        self.report_network(None);
    }

    fn change_link(&mut self, index: usize) {
        let change = &self.scenario.schedule[index];
        let seed = (self.scenario.seed, self.scenario.repeat);
        let Some(link) = self.scenario.link(&change.link) else { return };
        let value = change.rate_bps.map(|rate| rate as i64);
        let row =
            EventRow { t: self.now, flow: None, hop: Some(link.0), kind: EVENT_CHANGE, seq: None, value };
        self.recording.recorder.event(link.0, row);
        self.capacity.change(link, change);
        self.network.change(link, self.now, &change.path_change(), seed, &mut self.events);
    }
}

/// Moves the changes that wait for such an event of a flow to those that are `due`.
pub(super) fn note_event(
    scenario: &Scenario,
    waiting: &mut Vec<usize>,
    due: &mut Vec<usize>,
    (flow, kind): (FlowId, EventKind),
) {
    waiting.retain(|&index| {
        let on = scenario.schedule[index].on.as_ref();
        let comes = on.is_some_and(|on| {
            event_named(&on.event) == Some(kind) && scenario.flows[flow.index()].name == on.flow
        });
        if comes {
            due.push(index);
        }
        !comes
    });
}
