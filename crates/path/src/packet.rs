//! Properties of a packet that a hop needs to know, and reports of the hop to whoever drives it.

pub use units::Nanos;

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// 00: not ECN-capable.
    NotEct,
    /// 01: ECT(1), which RFC 9331 gives to L4S traffic.
    Ect1,
    /// 10: ECT(0), classic ECN.
    Ect0,
    /// 11: congestion experienced.
    Ce,
}

/// A packet as a hop sees it.
pub trait Packet: Send {
    /// Length of the IP packet, bytes.
    fn bytes(&self) -> u32;
    /// Transport payload, bytes.
    fn payload(&self) -> u32;
    /// Hash of the flow's addresses, ports and protocol, well mixed.
    fn flow_hash(&self) -> u32;
    /// Source and destination port; 0 where there are none.
    fn ports(&self) -> (u16, u16);
    /// Number of the sending host.
    fn src(&self) -> u16;
    /// Number of the receiving host.
    fn dst(&self) -> u16;
    /// Differentiated services code point, 0 to 63.
    fn dscp(&self) -> u8;
    /// ECN field.
    fn ecn(&self) -> Ecn;
    /// Sets the ECN field to CE.
    fn set_ce(&mut self);
    /// Damages the packet: its receiver will discard it.
    fn set_corrupt(&mut self);
}

/// Reason why a hop dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The link's random, periodic or listed loss.
    Loss,
    /// The queue's limit.
    Overlimit,
    /// An active queue discipline's early drop.
    Aqm,
    /// The link was down.
    Down,
    /// Damaged on the way and dropped by the receiver. Never reported by a hop; it is here so that all drops share a type.
    Corrupt,
    /// A policer found no tokens.
    Policer,
    /// Larger than the link's MTU. Reported by the router ahead of the link.
    TooBig,
}

/// Receiver of what a link tells its driver. All times are exact and may lie ahead of the driver's clock.
pub trait Output<P> {
    /// The packet reaches the far end of the link at `at`. It has `waited` in the queue from its arrival to the start of its
    /// transmission, whose end is `sent`. Called when the transmission starts; on a fused link, when the packet arrives. For one
    /// link, `at` never decreases from call to call, unless jitter reorders.
    fn forward(&mut self, at: Nanos, packet: P, waited: Nanos, sent: Nanos);
    /// The packet was dropped at `at`.
    fn dropped(&mut self, at: Nanos, packet: &P, why: DropReason);
    /// The packet was marked CE at `at`.
    fn marked(&mut self, at: Nanos, packet: &P);
    /// A copy of this packet, for a link that sends it twice.
    fn duplicate(&mut self, packet: &P) -> P
    where
        P: Clone,
    {
        packet.clone()
    }
    /// The backlog after a packet entered or left the queue. Only called if [`crate::LinkConfig::report_changes`] is set.
    fn queue_changed(&mut self, _at: Nanos, _backlog_bytes: u64, _backlog_packets: u32) {}
    /// A switch asks the links that lead to it to pause, or to go on.
    fn paused(&mut self, _at: Nanos, _paused: bool) {}
}
