//! Numbers of hosts, links, flows and connections, each a type of its own.

/// A host, by its place in the scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u16);

impl HostId {
    /// Place of the host in a list of hosts.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A link, by its place in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// Place of the link in a list of links.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A flow, by its place in the scenario; the flows for transfers of background traffic come behind those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Place of the flow in a list of flows.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The side that opens the flow's connection and sends its bulk data.
    #[inline(always)]
    pub fn opening(self) -> ConnectionId {
        ConnectionId(2 * self.0)
    }

    /// The side that accepts the flow's connection.
    #[inline(always)]
    pub fn accepting(self) -> ConnectionId {
        ConnectionId(2 * self.0 + 1)
    }
}

/// Side of a flow's connection: the flow and the side in one number, so that both sides of a flow lie together in a
/// list and the opening side comes first among simultaneous timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that sends the SYN.
    Opening,
    /// The end that answers the SYN.
    Accepting,
}

impl ConnectionId {
    /// Place of the connection in a list of connections.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The flow of the connection.
    #[inline(always)]
    pub fn flow(self) -> FlowId {
        FlowId(self.0 / 2)
    }

    /// Side of the flow's connection.
    #[inline(always)]
    pub fn side(self) -> Side {
        if self.is_opening() { Side::Opening } else { Side::Accepting }
    }

    /// Whether it is the opening side.
    #[inline(always)]
    pub fn is_opening(self) -> bool {
        self.0 & 1 == 0
    }

    /// Opposite side of the connection.
    #[inline(always)]
    pub fn peer(self) -> ConnectionId {
        ConnectionId(self.0 ^ 1)
    }
}
