//! Mode in which each link is carried out: with as few events as what is asked of it allows.

use path::{Link, LinkConfig, Nanos};

use super::pool::PacketRef;

/// Mode in which a link is carried out. All modes give the same results; the first need fewer events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkMode {
    /// No events: when a packet enters, it is known at once when it reaches the far end.
    Fused,
    /// Transmissions have to be started, but nobody can tell if one is started up to `start_slack` late: no packet reaches
    /// the far end sooner. So packets enter many at a time, and one event starts what is due on all such links.
    Batched {
        /// Longest time by which a transmission may start late.
        start_slack: Nanos,
    },
    /// Packets may enter ahead of the clock. The start of each transmission is an event.
    Early,
    /// Packets enter when the clock has reached their time. The start of each transmission is an event.
    Stepped,
}

/// Criteria for the mode of a link.
pub(crate) struct ModeCriteria<'a> {
    /// Configuration of the link.
    pub config: &'a LinkConfig,
    /// Every hop is to wait for events, for comparison.
    pub force_stepped: bool,
    /// Whether all packets of the link come from one host or link, and so in order of time.
    pub single_fed: bool,
    /// Whether the schedule changes the link.
    pub changes: bool,
    /// Whether packets that enter the link are captured, or some are too big for it.
    pub inspected: bool,
    /// Whether the link is a port of a switch, whose ports share memory.
    pub is_switch_port: bool,
    /// Whether the switch at the link's far end may pause it.
    pub may_be_paused: bool,
    /// Whether the link is a host's network interface.
    pub fed_by_host: bool,
}

impl LinkMode {
    /// The mode of a link that needs the fewest events, and why it can have no better one.
    pub(crate) fn choose(link: &ModeCriteria<'_>) -> LinkMode {
        // What looks at the link or changes it at a time of its own must find it as it is then: captures, rows at every
        // change of the queue, the schedule, pause frames, the other ports of a switch. And packets of several links
        // come in order of time only one event after the other.
        if link.force_stepped
            || !link.single_fed
            || link.changes
            || link.inspected
            || link.is_switch_port
            || link.may_be_paused
            || link.config.report_changes
        {
            return LinkMode::Stepped;
        }
        // A drop-tail queue: whether and when a packet leaves depends only on those before it.
        if Link::<PacketRef>::can_fuse(link.config) {
            return LinkMode::Fused;
        }
        // A host's stack learns at once what becomes of its packets in its own interface. Jitter is drawn when a
        // transmission starts. Any other link only has to deliver in time.
        let start_slack = link.config.delay_ns.saturating_sub(1 + u64::from(link.config.delay_first));
        if link.fed_by_host || link.config.jitter.is_some() || start_slack == 0 {
            return LinkMode::Early;
        }
        LinkMode::Batched { start_slack }
    }

    /// Whether packets may enter ahead of the clock.
    pub(crate) fn takes_early(self) -> bool {
        self != LinkMode::Stepped
    }

    /// Whether the start of a transmission is an event of the link's own.
    pub(crate) fn has_service_events(self) -> bool {
        matches!(self, LinkMode::Early | LinkMode::Stepped)
    }

    /// Mode of [`path::Link`] for this one.
    pub(crate) fn of_link(self) -> path::Mode {
        match self {
            LinkMode::Fused => path::Mode::Fused,
            LinkMode::Batched { .. } | LinkMode::Early => path::Mode::Early,
            LinkMode::Stepped => path::Mode::Stepped,
        }
    }
}
