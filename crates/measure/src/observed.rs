//! Observations of a run at either end, before any metric is made of them.
//!
//! Times are nanoseconds. Within a scenario they count from its start on the client's clock; those of the server are moved
//! to that clock with the offset of the idle pings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Flows;

/// Length of the intervals in which arrivals are counted, ns.
pub const BIN_NS: u64 = 100_000_000;

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Round trips of the idle link, before the first scenario; `t_ns` counts from the first of them.
    pub idle_pings: Vec<Ping>,
    /// Scenarios in the order in which they ran; the last may be cut short.
    pub scenarios: Vec<Scenario>,
}

/// Scenario that was carried out: one mix of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LoadScenario")]
pub struct Scenario {
    /// Place of the scenario among the nineteen, from 1; 0 for any other mix.
    pub number: u32,
    /// Number of flows that were to run.
    #[serde(flatten)]
    pub flows: Flows,
    /// Time when the scenario began, in ns after the first idle ping.
    pub start_ns: u64,
    /// Duration of the scenario, in ns.
    pub duration_ns: u64,
    /// Whether the scenario had to be ended, after `MAX_NS`, without having become stable.
    #[serde(default)]
    pub forced: bool,
    /// Whether the scenario was cut short, by its user or because an end was lost.
    #[serde(default)]
    pub interrupted: bool,
    /// A row per flow.
    pub transfers: Vec<Transfer>,
    /// Round trips just before the flows began, `t_ns` from the first of them; empty where there were none.
    #[serde(default)]
    pub idle_pings: Vec<Ping>,
    /// Round trips of the pinger while the flows ran, in order of their sending.
    pub pings: Vec<Ping>,
    /// Times that it took to open a new connection while the flows ran (`tcp_f` of the responsiveness draft).
    #[serde(default)]
    pub connects: Vec<Probe>,
    /// Round trips within the flows' own connections (`http_l` of the responsiveness draft).
    #[serde(default)]
    pub in_band: Vec<Probe>,
}

/// Flow of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LoadTransfer")]
pub struct Transfer {
    /// Name of the flow in tables and plots, such as `up1`.
    pub name: String,
    /// Direction of the data.
    pub direction: Direction,
    /// Differentiated services code point that the flow was sent with.
    #[serde(default)]
    pub dscp: u8,
    /// Time when the flow was asked to begin, in ns: the first gap counts from here.
    pub start_ns: u64,
    /// Time when the flow was told to stop, or died, in ns.
    pub end_ns: u64,
    /// Payload bytes the receiver read in between.
    pub bytes: u64,
    /// The longest time without data, that before the first and that after the last byte included.
    pub longest_gap_ns: u64,
    /// Reason why the stack ended the flow before it was told to stop. None if it did not.
    #[serde(default)]
    pub killed: Option<String>,
    /// Payload bytes in each `BIN_NS` from `start_ns`.
    #[serde(default)]
    pub bins: Vec<u64>,
    /// The sending system.
    #[serde(default)]
    pub sender: End,
    /// The receiving system.
    #[serde(default)]
    pub receiver: End,
}

/// Direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Data from the client to the server.
    Up,
    /// Data from the server to the client.
    Down,
}

/// Properties of an end of a connection, as the system says. None where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LoadEnd")]
pub struct End {
    /// Congestion control, by the system's own name (TCP_CONGESTION).
    pub cc: Option<String>,
    /// Whether ECN was negotiated (TCP_INFO, tcpi_options).
    pub ecn: Option<bool>,
}

/// A round trip of the pinger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "PingRow", into = "PingRow")]
#[schemars(rename = "LoadPing")]
pub struct Ping {
    /// Time when the ping was sent, in ns.
    pub t_ns: u64,
    /// Time until the answer, or until a ping without an answer was given up, in ns.
    pub rtt_ns: u64,
    /// The server's clock at its arrival less the client's at its sending: its changes are those of the way there.
    pub up_ns: Option<i64>,
    /// The client's clock at the answer's arrival less the server's at its sending.
    pub down_ns: Option<i64>,
    /// False if the scenario ended before the answer came.
    pub answered: bool,
}

impl Ping {
    /// Creates a ping that has waited for `waited_ns` and was given up.
    pub fn unanswered(t_ns: u64, waited_ns: u64) -> Ping {
        Ping { t_ns, rtt_ns: waited_ns, up_ns: None, down_ns: None, answered: false }
    }
}

/// A row `[t_ns, rtt_ns, up_ns, down_ns, answered]`: a run has thousands of them.
type PingRow = (u64, u64, Option<i64>, Option<i64>, bool);

impl From<PingRow> for Ping {
    fn from((t_ns, rtt_ns, up_ns, down_ns, answered): PingRow) -> Ping {
        Ping { t_ns, rtt_ns, up_ns, down_ns, answered }
    }
}

impl From<Ping> for PingRow {
    fn from(ping: Ping) -> PingRow {
        (ping.t_ns, ping.rtt_ns, ping.up_ns, ping.down_ns, ping.answered)
    }
}

/// A probe that knows only how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
#[schemars(rename = "LoadProbe")]
pub struct Probe {
    /// Time when the probe began, in ns.
    pub t_ns: u64,
    /// Duration of the probe, in ns.
    pub took_ns: u64,
}

impl From<(u64, u64)> for Probe {
    fn from((t_ns, took_ns): (u64, u64)) -> Probe {
        Probe { t_ns, took_ns }
    }
}

impl From<Probe> for (u64, u64) {
    fn from(probe: Probe) -> (u64, u64) {
        (probe.t_ns, probe.took_ns)
    }
}
