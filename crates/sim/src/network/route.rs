//! The first hops from one host to another, worked out once: what a packet crosses before anything has to be decided.

use contract::ids::{HostId, LinkId};
use contract::scenario::Scenario;

use super::LinkMeta;
use crate::topology::Topology;

/// Beginning of the way from one host to another.
#[derive(Clone, Default)]
pub(super) struct FirstHops {
    /// The plain links up to the first other one.
    pub plain: Box<[LinkId]>,
    /// Hop behind these links.
    pub after_plain: AfterPlain,
}

/// Hop behind the plain links at the beginning of a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AfterPlain {
    /// The packet travels to the far end of this link, the last of them: a host, or a link that packets do not enter ahead of
    /// the clock.
    Deliver(LinkId),
    /// The packet enters this link at once.
    Enter(LinkId),
    /// Way that does not begin with plain links.
    #[default]
    Unknown,
}

/// The first hops between any two hosts that flows connect.
pub(super) struct Routes {
    /// `source * hosts + sink`.
    pairs: Vec<FirstHops>,
    hosts: usize,
}

impl Routes {
    /// Finds the routes of a scenario's flows, in both directions.
    pub(super) fn new(scenario: &Scenario, topology: &Topology, links: &[LinkMeta]) -> Routes {
        let hosts = scenario.hosts.len();
        let mut pairs = vec![FirstHops::default(); hosts * hosts];
        for flow in &scenario.flows {
            let (Some(a), Some(b)) = (scenario.host(&flow.from), scenario.host(&flow.to)) else { continue };
            for (source, sink) in [(a, b), (b, a)] {
                pairs[source.index() * hosts + sink.index()] =
                    FirstHops::new(&topology.path(source, sink), links);
            }
        }
        Routes { pairs, hosts }
    }

    /// Beginning of the way from one host to another.
    #[inline(always)]
    pub(super) fn between(&self, source: HostId, sink: HostId) -> &FirstHops {
        &self.pairs[source.index() * self.hosts + sink.index()]
    }
}

impl FirstHops {
    fn new(route: &[LinkId], links: &[LinkMeta]) -> FirstHops {
        let plain = route.iter().take_while(|link| links[link.index()].plain).count();
        let plain = &route[..plain];
        let after_plain = match (plain.last(), route.get(plain.len())) {
            (None, _) => AfterPlain::Unknown,
            (Some(_), Some(&next)) if links[next.index()].mode.takes_early() => AfterPlain::Enter(next),
            (Some(&last), _) => AfterPlain::Deliver(last),
        };
        FirstHops { plain: plain.into(), after_plain }
    }
}
