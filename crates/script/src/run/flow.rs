//! State of a connection of a script, by which numbers and packets are told.

use std::net::Ipv4Addr;

use wire::codec::Ends;

use crate::packet::{LOCAL, REMOTE};
use crate::script::UdpPorts;

/// Connection, as the runner follows it to translate between the script's numbers and those on the wire.
pub(super) struct Flow {
    /// Addresses and ports, from the system to the peer.
    pub(super) ends: Ends<Ipv4Addr>,
    /// Added to the script's numbers of the system's stream.
    pub(super) offset: Option<u32>,
    /// Timestamp values the system has sent: (in the script, on the wire).
    pub(super) timestamps: Vec<(u32, u32)>,
    pub(super) fin_sent: bool,
    pub(super) fin_received: bool,
    pub(super) reset: bool,
    /// UDP that its packets to the system travel in, once one has come or gone.
    pub(super) udp: Option<Option<UdpPorts>>,
    /// The peer's first sequence number. Packets without SYN count from it.
    pub(super) peer_isn: Option<u32>,
    /// The system's first sequence number in the script. Only packets with SYN have it.
    pub(super) own_isn: u32,
    /// A SYN has come for it after it ended: the next one of the system begins a new stream.
    pub(super) reopens: bool,
}

impl Flow {
    pub(super) fn new(sport: u16, dport: u16) -> Flow {
        Flow {
            ends: Ends { src: LOCAL, dst: REMOTE, sport, dport },
            offset: None,
            timestamps: Vec::new(),
            fin_sent: false,
            fin_received: false,
            reset: false,
            udp: None,
            peer_isn: None,
            own_isn: 0,
            reopens: false,
        }
    }

    /// Whether packets of the connection travel to the system in this UDP, or in none; the first one tells.
    pub(super) fn travels_in(&mut self, udp: Option<UdpPorts>) -> bool {
        *self.udp.get_or_insert(udp) == udp
    }

    pub(super) fn ended(&self) -> bool {
        self.reset || (self.fin_sent && self.fin_received)
    }
}
