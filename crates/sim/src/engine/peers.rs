//! Memory of hosts between connections in a run.

use contract::ids::{ConnectionId, HostId};
use tcp::peers::Known;

use super::Simulation;

impl Simulation {
    /// Knowledge of a host when a connection begins there.
    pub(super) fn recall(&mut self, host: HostId, connection: ConnectionId) -> Known {
        let peer = u64::from(self.peer_of(connection).0);
        let machine = &mut self.hosts[host.index()];
        let Some(profile) = machine.stack.kernel() else { return Known::default() };
        machine.peers.recall(&profile.spec().peers, peer, machine.clock.local(self.now))
    }

    /// Hands what a connection has learnt by its end to its host.
    pub(super) fn learn_of_peer(&mut self, connection: ConnectionId) {
        let Some(endpoint) = self.connections[connection.index()].tcp_mut() else { return };
        let Some(lesson) = endpoint.lesson() else { return };
        let (host, peer) = (self.host_of(connection), u64::from(self.peer_of(connection).0));
        let machine = &mut self.hosts[host.index()];
        if let Some(profile) = machine.stack.kernel() {
            machine.peers.learn(&profile.spec().peers, peer, machine.clock.local(self.now), lesson);
        }
    }
}
