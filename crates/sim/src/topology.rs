//! Hosts, nodes and links as numbers: routes, and which links can do without events.

use std::collections::{HashMap, HashSet, VecDeque};

use contract::ids::{HostId, LinkId};
use contract::scenario::{Link, Scenario};

use crate::error::{Error, FlowError};

/// Far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Host, by its number.
    Host(HostId),
    /// Router or switch.
    Node,
}

/// Feeder of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Feeder {
    Host(usize),
    Link(usize),
}

/// The network of a scenario. Places are numbered hosts first, then nodes.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// Far end of each link.
    pub ends: Vec<End>,
    /// Whether each link has one source of packets, so that its arrivals come in order of time.
    pub single_fed: Vec<bool>,
    hosts: usize,
    /// `next[place * hosts + host]`: the link to take, or u32::MAX.
    next: Vec<u32>,
    /// Places at which each link begins and ends.
    from: Vec<usize>,
    to: Vec<usize>,
}

const NO_ROUTE: u32 = u32::MAX;

impl Topology {
    /// Works out the routes: fewest links, ties by the order of links.
    ///
    /// # Errors
    /// When a name is unknown or a flow's ends do not reach each other.
    pub(crate) fn new(scenario: &Scenario) -> Result<Topology, Error> {
        let names: Vec<&str> = scenario
            .hosts
            .iter()
            .map(|h| h.name.as_str())
            .chain(scenario.nodes.iter().map(|n| n.name.as_str()))
            .collect();
        let mut place: HashMap<&str, usize> = HashMap::new();
        for (index, name) in names.iter().enumerate() {
            if place.insert(name, index).is_some() {
                return Err(Error::Twice { list: "hosts and nodes", name: (*name).to_owned() });
            }
        }
        let find = |link: &Link, end: &str| {
            let nowhere = || Error::LinkEnd { link: link.name.clone(), end: end.to_owned() };
            place.get(end).copied().ok_or_else(nowhere)
        };
        let hosts = scenario.hosts.len();
        let mut from = Vec::new();
        let mut to = Vec::new();
        let mut ends = Vec::new();
        let mut seen = HashSet::new();
        for link in &scenario.links {
            if !seen.insert(link.name.as_str()) {
                return Err(Error::Twice { list: "links", name: link.name.clone() });
            }
            from.push(find(link, &link.from)?);
            let end = find(link, &link.to)?;
            to.push(end);
            ends.push(if end < hosts { End::Host(HostId(end as u16)) } else { End::Node });
        }
        let next = routes(names.len(), hosts, &from, &to);
        let mut topology = Topology { ends, single_fed: Vec::new(), hosts, next, from, to };
        let mut feeders: Vec<HashSet<Feeder>> = vec![HashSet::new(); scenario.links.len()];
        for flow in &scenario.flows {
            let host = |name: &str| {
                let host = scenario.host(name).map(HostId::index);
                host.ok_or_else(|| FlowError::NoHost(name.to_owned()).of(flow))
            };
            let (a, b) = (host(&flow.from)?, host(&flow.to)?);
            if a == b {
                return Err(FlowError::SameHost.of(flow));
            }
            for (source, sink) in [(a, b), (b, a)] {
                topology
                    .walk(source, sink, |feeder, link| {
                        feeders[link].insert(feeder);
                    })
                    .map_err(|()| {
                        let [from, to] = [source, sink].map(|place| names[place].to_owned());
                        FlowError::NoPath { from, to }.of(flow)
                    })?;
            }
        }
        topology.single_fed = feeders.iter().map(|f| f.len() <= 1).collect();
        Ok(topology)
    }

    /// The link a host's packets to `dst` leave on.
    #[inline]
    pub(crate) fn first_link(&self, src: HostId, dst: HostId) -> LinkId {
        LinkId(self.next[src.index() * self.hosts + dst.index()])
    }

    /// The link after `link` for a packet to `dst`, where `link` ends at a node.
    #[inline]
    pub(crate) fn next_link(&self, link: LinkId, dst: HostId) -> LinkId {
        LinkId(self.next[self.to[link.index()] * self.hosts + dst.index()])
    }

    /// The link that leads from the node where `link` begins to `host`. None: it begins at a host, or no way leads there.
    pub(crate) fn link_of_router(&self, link: LinkId, host: HostId) -> Option<LinkId> {
        let place = self.from[link.index()];
        let next = self.next[place * self.hosts + host.index()];
        (place >= self.hosts && next != NO_ROUTE).then_some(LinkId(next))
    }

    /// The links that packets may take after `link`, some of them more than once.
    pub(crate) fn links_after(&self, link: LinkId) -> impl Iterator<Item = LinkId> + '_ {
        let row = self.to[link.index()] * self.hosts;
        self.next[row..row + self.hosts].iter().filter(|&&next| next != NO_ROUTE).map(|&next| LinkId(next))
    }

    /// Every link on the way from one host to another, in order.
    pub(crate) fn path(&self, source: HostId, sink: HostId) -> Vec<LinkId> {
        let mut links = Vec::new();
        // The constructor has checked the paths of all flows.
        let _ = self.walk(source.index(), sink.index(), |_, link| links.push(LinkId(link as u32)));
        links
    }

    fn walk(&self, source: usize, sink: usize, mut step: impl FnMut(Feeder, usize)) -> Result<(), ()> {
        let mut at = source;
        let mut feeder = Feeder::Host(source);
        while at != sink {
            let link = self.next[at * self.hosts + sink];
            if link == NO_ROUTE {
                return Err(());
            }
            step(feeder, link as usize);
            feeder = Feeder::Link(link as usize);
            at = self.to[link as usize];
        }
        Ok(())
    }
}

/// Breadth-first from every host, backwards. Hosts do not forward.
fn routes(places: usize, hosts: usize, from: &[usize], to: &[usize]) -> Vec<u32> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); places];
    for (link, &end) in to.iter().enumerate() {
        into[end].push(link);
    }
    let mut next = vec![NO_ROUTE; places * hosts];
    for host in 0..hosts {
        let mut distance = vec![usize::MAX; places];
        distance[host] = 0;
        let mut queue = VecDeque::from([host]);
        while let Some(place) = queue.pop_front() {
            if place < hosts && place != host {
                continue;
            }
            for &link in &into[place] {
                let source = from[link];
                if distance[source] == usize::MAX {
                    distance[source] = distance[place] + 1;
                    queue.push_back(source);
                }
            }
        }
        // The first link, in the scenario's order, that leads one step nearer.
        for (link, (&source, &end)) in from.iter().zip(to).enumerate() {
            let forwards = end == host || end >= hosts;
            let nearer = distance[end] != usize::MAX && distance[source] == distance[end] + 1;
            let slot = &mut next[source * hosts + host];
            if forwards && nearer && *slot == NO_ROUTE {
                *slot = link as u32;
            }
        }
    }
    next
}
