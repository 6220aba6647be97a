//! TCP Fast Open in a run: applications use it wherever the system that opens allows it and the one that accepts takes it.

use contract::ids::{ConnectionId, FlowId, HostId};
use tcp::fast_open::{Attempt, Welcome};
use wire::Segment;

use super::Simulation;
use crate::flow::FlowApp;

impl Simulation {
    /// Way in which a flow opens its connection. None: without Fast Open, as its receiver takes none (net.ipv4.tcp_fastopen,
    /// net.inet.tcp.fastopen.server_enable), or as its sender does without.
    pub(super) fn fast_open_attempt(&mut self, flow: FlowId) -> Option<Attempt> {
        let run = &self.flows[flow.index()];
        let (from, to) = (run.from, run.to);
        let accepts = self.hosts[to.index()].stack.kernel()?.spec().fast_open.server;
        let machine = &mut self.hosts[from.index()];
        let settings = machine.stack.kernel().filter(|_| accepts)?.spec().fast_open;
        machine.fast_open.attempt(&settings, u64::from(to.0), self.now)
    }

    /// Verdict of a flow's receiver on its SYN.
    pub(super) fn welcome(&self, flow: FlowId, syn: &Segment) -> Welcome {
        let run = &self.flows[flow.index()];
        let machine = &self.hosts[run.to.index()];
        let Some(profile) = machine.stack.kernel() else { return Welcome::Plain(None) };
        let [from, to] = [run.from, run.to].map(|HostId(number)| number.to_be_bytes());
        machine.fast_open.welcome(&profile.spec().fast_open, syn, [&from, &to])
    }

    /// Hands what a connection has found out to the host that opened it.
    pub(super) fn learn_fast_open(&mut self, connection: ConnectionId) {
        let Some(endpoint) = self.connections[connection.index()].tcp_mut() else { return };
        let Some(news) = endpoint.fast_open_news() else { return };
        let run = &self.flows[connection.flow().index()];
        let (to, machine) = (run.to, &mut self.hosts[run.from.index()]);
        if let Some(profile) = machine.stack.kernel() {
            let settings = profile.spec().fast_open;
            machine.fast_open.learn(&settings, u64::from(to.0), self.now, &news);
        }
    }

    /// Lets the application write before the SYN leaves, which takes along what it has room for.
    pub(super) fn write_with_syn(&mut self, connection: ConnectionId) {
        let flow = &mut self.flows[connection.flow().index()];
        if !matches!(flow.app, FlowApp::Bulk(_)) {
            self.run_app_model(connection);
        } else if let Some(endpoint) = self.connections[connection.index()].tcp_mut() {
            Self::run_bulk_app(endpoint, flow, connection, self.now);
        }
    }
}
