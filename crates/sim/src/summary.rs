//! The summary of a run: counters and distributions over the measurement window.

use contract::ids::FlowId;
use contract::scenario::Scenario;
use contract::summary::{FlowSummary, GoodputSeconds, Limited, LinkSummary, SocketBuffer, Status, Summary};
use tcp::Endpoint;
use tcp::stack::{Buffer, SocketOptions};

use crate::engine::Simulation;
use crate::flow::{FlowApp, FlowRun, Tally};
use crate::limits::Divided;
use crate::transport::Transport;

impl Simulation {
    /// The metrics of each flow and observed link over the measurement window, as JSON; complete once the run is over.
    pub fn summary(&self) -> String {
        let flows = (0..)
            .map(FlowId)
            .zip(self.flow_runs())
            .filter(|(_, run)| run.parent.is_none())
            .map(|(id, run)| self.flow_summary(id, run, &self.tally(run)))
            .collect();
        let links = self
            .link_counters()
            .map(|(link, before, after)| LinkSummary {
                link: self.scenario().links[link.index()].name.clone(),
                packets: after.packets - before.packets,
                bytes: after.bytes - before.bytes,
                drops: after.drops - before.drops,
                ce_marks: Some(after.ce_marks - before.ce_marks),
                busy_ns: Some(after.busy_ns - before.busy_ns),
            })
            .collect();
        contract::to_json(&Summary { flows, links, events: Some(self.events()), packets: self.packets() })
    }

    /// Returns what was counted of a flow, its transfers included.
    fn tally(&self, run: &FlowRun) -> Tally {
        let mut tally = run.tally.clone();
        if let FlowApp::Background(background) = &run.app {
            for &transfer in &background.transfers {
                tally.merge(&self.flow_runs()[transfer.index()].tally);
            }
            tally.recoveries.sort_unstable();
        }
        tally
    }

    /// A buffer of a flow's connection at the end of the run, and what keeps it from growing.
    fn socket_buffer(&self, buffer: Buffer, flow: FlowId, run: &FlowRun) -> Option<SocketBuffer> {
        let spec = &self.scenario().flows[flow.index()];
        let socket = SocketOptions { sndbuf: spec.sndbuf, rcvbuf: spec.rcvbuf };
        let (host, bytes) = match buffer {
            Buffer::Send => (run.from, self.connection(flow.opening())?.send_buffer()),
            Buffer::Receive => (run.to, self.connection(flow.accepting())?.receive_buffer()),
        };
        let held_by = self.stack(host).kernel()?.holds_buffer(buffer, &socket, bytes).map(str::to_owned);
        Some(SocketBuffer { bytes, held_by })
    }

    fn flow_summary(&self, id: FlowId, run: &FlowRun, tally: &Tally) -> FlowSummary {
        let scenario = self.scenario();
        let endpoint = self.connection(id.opening());
        let guest = match self.transport(id.opening()) {
            Transport::Guest(end) => Some(&end.own.guest),
            _ => None,
        };
        let tells_cwnd = guest.is_none_or(|guest| guest.observe().cwnd.is_some());
        let before = tally.before.unwrap_or_default();
        let after = tally.after.unwrap_or_default();
        FlowSummary {
            flow: scenario.flows[id.index()].name.clone(),
            status: status(run, self.transport(id.opening()), scenario.duration_ns),
            goodput_bytes: after.read - before.read,
            unacknowledged_bytes: endpoint.map(Endpoint::unacknowledged),
            wire_bytes: Some(tally.wire_bytes),
            segments_sent: Some(after.segments - before.segments),
            retransmits: after.retransmits - before.retransmits,
            drops: Some(tally.drops),
            ce_marks: Some(tally.ce_marks),
            rtos: guest.is_none_or(|guest| guest.tells_timeouts()).then_some(tally.rtos),
            fast_recoveries: tally.recoveries.len() as u64,
            recovery_entries_ns: tally.recoveries.clone(),
            slow_start_exit_ns: tally.slow_start_exit,
            goodput_seconds: GoodputSeconds { from_ns: run.seconds_from, bytes: run.seconds.clone() },
            rtt: tally.rtt.metrics(),
            srtt_mean_ns: tally.srtt.mean(),
            queue_delay: tally.queue_delay.metrics(),
            cwnd_mean_bytes: tally.cwnd.mean().filter(|_| tells_cwnd),
            cwnd_max_bytes: tells_cwnd.then_some(tally.cwnd_max),
            limited_ns: if guest.is_some() {
                Limited::UNKNOWN
            } else {
                limited(&before.limited, &after.limited)
            },
            send_buffer: self.socket_buffer(Buffer::Send, id, run),
            receive_buffer: self.socket_buffer(Buffer::Receive, id, run),
            completion: tally.completion.metrics(),
            response: tally.response.metrics(),
            round: tally.round.metrics(),
            one_way: tally.one_way.metrics(),
            one_way_error_ns: None,
            stalls: tally.stalls,
            stalled_ns: tally.stalled,
            active_ns: active(run, scenario),
            completion_ns: run.completed.map(|at| at - run.start),
            start_ns: Some(run.start),
            load: self.load_summary(id),
        }
    }
}

/// Returns the times under each limit between two moments.
fn limited(before: &Divided, after: &Divided) -> Limited {
    let by = after.by - before.by;
    Limited {
        cwnd: Some(by.cwnd),
        rwnd: Some(by.rwnd),
        sndbuf: Some(by.sndbuf),
        app: Some(by.app),
        path: Some(after.path - before.path),
        host: Some(after.host - before.host),
        pacing: Some(by.pacing),
    }
}

fn status(run: &FlowRun, sender: &Transport, duration: u64) -> Status {
    let has_failed = match sender {
        // Whether a flow without a connection has anything to do is a matter of time only.
        Transport::Source(_) | Transport::MediaSource(_) if run.start < duration => return Status::Complete,
        Transport::Closed if matches!(run.app, FlowApp::Background(_)) && run.start < duration => {
            return Status::Complete;
        }
        Transport::Closed
        | Transport::Source(_)
        | Transport::Sink(_)
        | Transport::MediaSource(_)
        | Transport::MediaSink(_) => return Status::NotStarted,
        Transport::Tcp(endpoint) => endpoint.failure().is_some(),
        Transport::Guest(end) => end.own.guest.failure().is_some(),
    };
    let goes_on = !run.limited && run.stop.is_none_or(|stop| stop >= duration);
    match has_failed {
        true => Status::Failed,
        false if run.completed.is_some() || goes_on => Status::Complete,
        false => Status::Unfinished,
    }
}

/// Part of the measurement window in which the flow was active: while its connection was open and its transfer not
/// complete, or between start and stop.
fn active(run: &FlowRun, scenario: &Scenario) -> u64 {
    match run.app {
        FlowApp::Datagrams | FlowApp::Media | FlowApp::Background(_) => {
            let end = run.stop.unwrap_or(scenario.duration_ns).min(scenario.measure.to_ns);
            end.saturating_sub(run.start.max(scenario.measure.from_ns))
        }
        // A connection stays open for a while after its transfer is complete (TIME-WAIT).
        _ => match run.completed {
            None => run.tally.cwnd.time,
            Some(at) => {
                let (from, to) = (scenario.measure.from_ns, scenario.measure.to_ns);
                run.tally.cwnd.time.min(at.clamp(from, to) - run.start.clamp(from, at.clamp(from, to)))
            }
        },
    }
}
