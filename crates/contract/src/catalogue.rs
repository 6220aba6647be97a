//! Catalogue of what an engine knows: the one place from which Python takes every name.

use std::collections::BTreeMap;

use params::Kind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::scenario::Ecn;

/// Stacks with their congestion controls and sysctls, queue kinds with their parameters, losses and applications.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Catalogue {
    /// Every stack.
    pub stacks: Vec<Stack>,
    /// The newest stack of each family.
    pub newest: BTreeMap<&'static str, &'static str>,
    /// Queue disciplines.
    pub queues: Vec<Kind>,
    /// Kinds of loss.
    pub losses: Vec<&'static str>,
    /// Applications.
    pub apps: Vec<Kind>,
    /// Congestion controls of which an experiment may change constants.
    pub cc_params: Vec<Kind>,
    /// Uploads and downloads of each scenario of the loadlatency tool.
    pub load_scenarios: Vec<[u32; 2]>,
    /// Kinds of events that endpoints tell.
    pub events: Vec<&'static str>,
}

/// The TCP of an operating system, or a guest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Stack {
    /// Name of the stack, such as `freebsd-9.2`.
    pub name: &'static str,
    /// `freebsd`, `linux` or `windows`; of a guest, its own name without the version.
    pub family: &'static str,
    /// No recording of the real system stands behind it.
    pub inferred: bool,
    /// Transport protocol of somebody else in user space, carried out in virtual time by the engine alone.
    pub guest: bool,
    /// Guest that exchanges packets of TCP with any other stack.
    pub packets: bool,
    /// The congestion control of flows that name none.
    pub default_cc: &'static str,
    /// Congestion controls by the system's own names.
    pub cc: &'static [&'static str],
    /// Names accepted for congestion controls besides the system's own, with those meant.
    pub cc_alias: BTreeMap<&'static str, &'static str>,
    /// Clock ticks per second unless the experiment sets them.
    pub hz: u32,
    /// ECN unless the experiment sets it.
    pub ecn: Ecn,
    /// Whether it has Accurate ECN (RFC 9768).
    pub accurate_ecn: bool,
    /// Sysctls that the stack knows.
    pub sysctls: Vec<Sysctl>,
}

/// A sysctl that a stack knows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Sysctl {
    /// The real name.
    pub name: &'static str,
    /// Value in this system.
    pub default: i64,
    /// Smallest value allowed.
    pub min: i64,
    /// Largest value allowed.
    pub max: i64,
    /// Purpose and unit of the sysctl, in a few words.
    pub about: &'static str,
}
