//! Switches whose ports share their memory, and the pause frames that they send.

use std::collections::VecDeque;

use contract::ids::LinkId;
use contract::scenario::Scenario;
use path::{Link, LinkConfig, Nanos, Switch};

use super::output::LinkOutput;
use super::pool::PacketRef;

/// Port of a switch: which switch a link is a port of, and which port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortId {
    pub switch: usize,
    pub port: usize,
}

/// A switch, and what is connected to it.
pub(super) struct SwitchRun {
    pub switch: Switch<PacketRef>,
    /// Ports of the switch, as links.
    pub ports: Vec<LinkId>,
    /// Links that lead to it, and how long a pause frame takes to the far end of each.
    pub incoming: Vec<(LinkId, Nanos)>,
}

/// Pause frames on their way, in order of time.
#[derive(Default)]
pub(super) struct PauseFrames(VecDeque<PauseFrame>);

/// A request to stop sending, or to go on.
#[derive(Clone, Copy)]
pub(super) struct PauseFrame {
    /// Time when the frame takes effect.
    pub at: Nanos,
    /// Link that it stops.
    pub link: LinkId,
    /// Stop; or go on.
    pub pause: bool,
}

impl PauseFrames {
    /// A frame behind those of the same time.
    pub(super) fn send(&mut self, frame: PauseFrame) {
        let place = self.0.partition_point(|other| other.at <= frame.at);
        self.0.insert(place, frame);
    }

    /// Time when the next frame takes effect.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.0.front().map(|frame| frame.at)
    }

    /// The next one that takes effect at or before `now`.
    pub(super) fn take(&mut self, now: Nanos) -> Option<PauseFrame> {
        let due = self.next().is_some_and(|at| at <= now);
        if due { self.0.pop_front() } else { None }
    }
}

/// A link of its own, or a port of a switch.
pub(super) enum Hop<'a> {
    Link(&'a mut Link<PacketRef>),
    Port(&'a mut Switch<PacketRef>, usize),
}

impl Hop<'_> {
    #[inline]
    pub(super) fn arrive(&mut self, at: Nanos, packet: PacketRef, output: &mut LinkOutput<'_>) {
        match self {
            Hop::Link(link) => link.arrive(at, packet, output),
            Hop::Port(switch, port) => switch.arrive(*port, at, packet, output),
        }
    }

    /// [`Hop::arrive`] of a packet that its sender wants to leave no earlier than `due`.
    pub(super) fn arrive_due(
        &mut self,
        at: Nanos,
        due: Nanos,
        packet: PacketRef,
        output: &mut LinkOutput<'_>,
    ) {
        match self {
            Hop::Link(link) => link.arrive_due(at, due, packet, output),
            Hop::Port(switch, port) => switch.arrive(*port, at, packet, output),
        }
    }

    #[inline]
    pub(super) fn on_event(&mut self, now: Nanos, output: &mut LinkOutput<'_>) {
        match self {
            Hop::Link(link) => link.on_event(now, output),
            Hop::Port(switch, port) => {
                switch.on_event(*port, now, output);
                switch.update(now, output);
            }
        }
    }

    pub(super) fn pause(&mut self, now: Nanos, paused: bool, output: &mut LinkOutput<'_>) {
        match self {
            Hop::Link(link) => link.pause(now, paused, output),
            Hop::Port(switch, port) => switch.pause(*port, now, paused, output),
        }
    }
}

/// The switches of a scenario, and for each link the port it is.
pub(super) fn switches(scenario: &Scenario, per_change: bool) -> (Vec<SwitchRun>, Vec<Option<PortId>>) {
    let mut runs = Vec::new();
    let mut port_of = vec![None; scenario.links.len()];
    for node in &scenario.nodes {
        let Some(switch) = &node.switch else { continue };
        let ports: Vec<LinkId> = scenario.links_where(|link| link.from == node.name);
        let link = |port: usize| &scenario.links[ports[port].index()];
        let configs: Vec<LinkConfig> =
            (0..ports.len()).map(|port| link(port).path_config(per_change && link(port).observe)).collect();
        let streams =
            |port: usize, what: &str| path::stream(scenario.seed, scenario.repeat, what, &link(port).name);
        for (port, link) in ports.iter().enumerate() {
            port_of[link.index()] = Some(PortId { switch: runs.len(), port });
        }
        // A pause frame goes back the way the packets came: over the delay of the cable's other direction.
        let back = |id: LinkId| {
            let link = &scenario.links[id.index()];
            let back = scenario.links.iter().find(|back| back.from == link.to && back.to == link.from);
            (id, back.map_or(link.delay_ns, |back| back.delay_ns))
        };
        let incoming = scenario.links_where(|link| link.to == node.name).into_iter().map(back).collect();
        runs.push(SwitchRun { switch: Switch::new(switch, &configs, &streams), ports, incoming });
    }
    (runs, port_of)
}
