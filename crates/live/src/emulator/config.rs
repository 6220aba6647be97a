//! What the emulator is told: a Scenario, and which interfaces are the ends of its links.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;

use contract::Scenario;
use contract::scenario::Link;
use serde::Deserialize;

use crate::ConfigError;

/// Everything the emulator needs to know, as JSON. Unknown fields are refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Identifier of the run in the records.
    pub run_id: u32,
    /// The network namespace that holds the interfaces: a name under /run/netns, or a path; null: the caller's.
    pub netns: Option<String>,
    /// The run, whole. Used are its seed, repeat, record, measure, nodes, links and schedule, the names of its flows,
    /// and of its hosts egress and `ingress.before_gro`. Records name all links, as the simulator's do.
    pub scenario: Scenario,
    /// Cables: the links between interfaces. A link in no cable is somebody else's.
    pub cables: Vec<Cable>,
    /// Keys by which packets belong to flows; events of other packets have no flow. The first key that matches
    /// counts.
    pub flows: Vec<FlowKey>,
    /// Files for what enters a link, as pcap.
    pub captures: Vec<Capture>,
    /// Threads that carry packets, at least 1. Links of one switch stay together.
    pub threads: u32,
    /// Ask for real-time priority and locked memory, where the rights are there.
    pub real_time: bool,
}

/// Two interfaces and what lies between.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// Interface at one end.
    pub a: String,
    /// Interface at the other end.
    pub b: String,
    /// Link of the Scenario that takes packets from `a` to `b`; null: they cross at once.
    pub forward: Option<String>,
    /// Link of the Scenario that takes packets from `b` to `a`; null: they cross at once.
    pub reverse: Option<String>,
}

/// The packets of a flow: those that match, and those that match with both ends exchanged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowKey {
    /// Name of a flow of the Scenario.
    pub flow: String,
    /// Address of the flow's `from`.
    pub src: IpAddr,
    /// Address of the flow's `to`.
    pub dst: IpAddr,
    /// Port at `src`; null: any.
    pub sport: Option<u16>,
    /// Port at `dst`; null: packets without ports, such as ICMP's, alone.
    pub dport: Option<u16>,
}

/// A capture file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// A link's name.
    pub at: String,
    /// Bytes of each packet kept, from the IP header on.
    pub snaplen: u32,
    /// The file, which is overwritten.
    pub file: PathBuf,
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(json: &str) -> Result<Config, ConfigError> {
        let config: Config =
            serde_json::from_str(json).map_err(|error| ConfigError::Parse("emulator", error))?;
        config.check()?;
        Ok(config)
    }

    /// The Scenario's link of that name, with its number.
    pub fn link(&self, name: &str) -> Option<(u32, &Link)> {
        (0..).zip(&self.scenario.links).find(|(_, link)| link.name == name)
    }

    fn check(&self) -> Result<(), ConfigError> {
        contract::check_links(&self.scenario)?;
        if self.threads == 0 {
            return Err(ConfigError::Threads);
        }
        let mut seen = HashSet::new();
        for cable in &self.cables {
            for interface in [&cable.a, &cable.b] {
                if !seen.insert(interface) {
                    return Err(ConfigError::InterfaceTwice(interface.clone()));
                }
            }
        }
        let mut carried = HashSet::new();
        for name in self.cables.iter().flat_map(|cable| [&cable.forward, &cable.reverse]).flatten() {
            if self.link(name).is_none() {
                return Err(ConfigError::NoLink(name.clone()));
            }
            if !carried.insert(name) {
                return Err(ConfigError::LinkTwice(name.clone()));
            }
        }
        for capture in &self.captures {
            if !carried.contains(&capture.at) {
                return Err(ConfigError::Capture(capture.at.clone()));
            }
        }
        for key in &self.flows {
            if !self.scenario.flows.iter().any(|flow| flow.name == key.flow) {
                return Err(ConfigError::NoFlow("emulator", key.flow.clone()));
            }
        }
        Ok(())
    }
}
