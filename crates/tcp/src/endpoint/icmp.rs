//! ICMP errors of routers and of the peer's host: what they do to a connection, by state and system, and what follows
//! when a packet was too big for the path (RFC 1191, RFC 8201).

use wire::segment::{IPV6_HEADER, TCP_HEADER};
use wire::seq;

use super::{Endpoint, Failure, State};
use crate::clock::Nanos;
use crate::context::Context;
use crate::stack::IcmpRules;

/// An ICMP error, by the numbers of its IP version (RFC 792, RFC 4443), and what it quotes of our packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// MTU of the next link, for a packet that is too big; 0 from a router that does not tell.
    pub mtu: u32,
    /// Sequence number of the packet.
    pub seq: u32,
    /// Length of the packet with its IP header, bytes.
    pub length: u32,
}

impl Icmp {
    /// A router of IPv4 or IPv6 has dropped a packet for which the next link is too small.
    #[must_use]
    pub fn too_big(ip_header: u32, mtu: u32, seq: u32, length: u32) -> Icmp {
        let (kind, code) = if ip_header == IPV6_HEADER { TOO_BIG_V6 } else { TOO_BIG_V4 };
        Icmp { kind, code, mtu, seq, length }
    }
}

/// Meaning of an ICMP error to a socket, named as errno does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the error of that name")]
pub enum NetworkError {
    AccessDenied,
    HostDown,
    HostUnreachable,
    MessageSize,
    NetUnreachable,
    NoNet,
    NoProtocolOption,
    NotSupported,
    Protocol,
    Refused,
}

/// Types and codes: fragmentation needed, packet too big.
const TOO_BIG_V4: (u8, u8) = (3, 4);
const TOO_BIG_V6: (u8, u8) = (2, 0);
/// MTU of the next smaller kind of link, for a router that does not tell its own (ip_next_mtu of FreeBSD, after RFC 1191
/// section 7).
const PLATEAUS: [u32; 8] = [32_000, 17_914, 8166, 4352, 2002, 1492, 508, 296];
/// Payload for which a packet is worth sending, less than which no ICMP asks for (net.inet.tcp.minmss of FreeBSD).
const FREEBSD_MIN_MSS: u32 = 216;
/// Least MTU of a route of Linux (net.ipv4.route.min_pmtu); smaller ones are sent fragmented.
const LINUX_MIN_PMTU: u32 = 552;
/// Least MTU of IPv6 (RFC 8200 section 5).
const IPV6_MIN_MTU: u32 = 1280;

/// icmp_err_convert of net/ipv4/icmp.c, icmpv6_err_convert of net/ipv6/icmp.c.
fn linux_error(v6: bool, kind: u8, code: u8) -> Option<NetworkError> {
    use NetworkError::{
        AccessDenied, HostDown, HostUnreachable, MessageSize, NetUnreachable, NoNet, NoProtocolOption,
        NotSupported, Protocol, Refused,
    };
    Some(match (v6, kind, code) {
        (false, 3, 0 | 6 | 9 | 11) | (true, 1, 0) => NetUnreachable,
        (false, 3, 2) => NoProtocolOption,
        (false, 3, 3) | (true, 1, 4) => Refused,
        (false, 3, 4) | (true, 2, _) => MessageSize,
        (false, 3, 5) => NotSupported,
        (false, 3, 7) => HostDown,
        (false, 3, 8) => NoNet,
        (false, 3, 1 | 10 | 12..=15) | (false, 11, _) | (true, 3, _) | (true, 1, 2 | 3) => HostUnreachable,
        (true, 1, 1 | 5 | 6) => AccessDenied,
        (false, 12, _) | (true, 4, _) => Protocol,
        _ => return None,
    })
}

/// icmp_errmap of netinet/ip_icmp.c, icmp6_errmap of netinet6/icmp6.c.
fn freebsd_error(v6: bool, kind: u8, code: u8) -> Option<NetworkError> {
    use NetworkError::{HostUnreachable, MessageSize, NoProtocolOption, Refused};
    Some(match (v6, kind, code) {
        (false, 3, 4) | (true, 2, _) => MessageSize,
        (false, 3, 2 | 3 | 9 | 10 | 13) | (true, 1, 1 | 4) | (true, 4, 1) => Refused,
        (false, 3, _) | (true, 1, _) | (false, 11, 0) | (true, 3, 0) => HostUnreachable,
        (false, 12, 1) | (true, 4, 2) => NoProtocolOption,
        _ => return None,
    })
}

impl Endpoint {
    /// An ICMP error about one of our packets has come; false if a system that looks at that finds the packet was not under way.
    pub fn on_icmp(&mut self, now: Nanos, icmp: &Icmp) -> bool {
        let seq = seq::extend(self.snd.una, icmp.seq);
        let v6 = self.handshake.ip_header == IPV6_HEADER;
        match self.rules.icmp {
            IcmpRules::Ignored => {}
            IcmpRules::Linux => {
                let first = if self.opened_early() { self.snd.iss } else { self.snd.una };
                let under_way = (first..=self.snd.max).contains(&seq);
                self.on_icmp_of_linux(now, v6, seq, icmp);
                return under_way;
            }
            IcmpRules::FreeBsd { may_reset } => self.on_icmp_of_freebsd(now, v6, seq, icmp, may_reset),
        }
        true
    }

    /// tcp_v4_err and tcp_v6_err.
    fn on_icmp_of_linux(&mut self, now: Nanos, v6: bool, seq: u64, icmp: &Icmp) {
        let gone = matches!(self.state, State::Closed | State::TimeWait);
        let Some(error) = linux_error(v6, icmp.kind, icmp.code).filter(|_| !gone) else { return };
        if self.opened_early() && !self.handshake.accepted {
            // Nobody has it yet, and nobody is told before (tcp_v4_err).
            let fatal = error != NetworkError::MessageSize && (self.snd.iss..=self.snd.max).contains(&seq);
            if fatal {
                self.fail(now, Failure::Network(error));
            }
        } else if self.state == State::SynReceived && self.handshake.passive && !self.opened_early() {
            // A request of a listener is dropped without a word (tcp_req_err).
            let fatal = if v6 { true } else { icmp.kind != 3 || icmp.code < 2 };
            if seq == self.snd.iss && fatal && error != NetworkError::MessageSize {
                self.fail(now, Failure::Network(error));
            }
        } else if seq < self.snd.una || seq > self.snd.max {
            // Not about what is under way.
        } else if error == NetworkError::MessageSize {
            // Below the smallest MTU of a route a packet may be fragmented again, and is as large as that.
            let least = if v6 { IPV6_MIN_MTU } else { LINUX_MIN_PMTU };
            let mtu = icmp.mtu.max(least);
            let before = self.handshake.known.path_mtu;
            self.handshake.learn_path_mtu(mtu);
            self.reduce_path_mtu(now, mtu);
            // A SYN with data leaves at once without it (tcp_simple_retransmit).
            let less = before.is_none_or(|before| mtu < before);
            if self.state == State::SynSent && self.handshake.fast_open.carried > 0 && less {
                self.handshake.syn_due = true;
            }
        } else if matches!(self.state, State::SynSent | State::SynReceived) && !self.opened_early() {
            self.fail(now, Failure::Network(error));
        } else {
            self.soft_error = Some(error);
        }
    }

    /// tcp_ctlinput_with_port, tcp6_ctlinput_with_port, tcp_notify and tcp_drop_syn_sent.
    fn on_icmp_of_freebsd(&mut self, now: Nanos, v6: bool, seq: u64, icmp: &Icmp, may_reset: bool) {
        let Some(error) = freebsd_error(v6, icmp.kind, icmp.code) else { return };
        let too_big = error == NetworkError::MessageSize;
        if v6 && too_big && self.state != State::Closed {
            // Noted of the destination whatever the connection makes of it (icmp6_mtudisc_update).
            self.handshake.learn_path_mtu(icmp.mtu.max(IPV6_MIN_MTU));
        }
        let gone = matches!(self.state, State::Closed | State::TimeWait);
        if gone || seq < self.snd.una || seq >= self.snd.max {
            return;
        }
        if too_big {
            let smaller = |mtu: &&u32| **mtu < icmp.length;
            let mtu =
                if icmp.mtu > 0 { icmp.mtu } else { PLATEAUS.iter().find(smaller).copied().unwrap_or(0) };
            let mtu = mtu.max(if v6 { IPV6_MIN_MTU } else { FREEBSD_MIN_MSS + 2 * TCP_HEADER });
            // Before the handshake is over the MSS is what a peer takes that announces none.
            let open = !matches!(self.state, State::SynSent | State::SynReceived);
            if open && mtu < self.snd.mss + self.handshake.ip_header + TCP_HEADER {
                self.handshake.learn_path_mtu(mtu);
                self.reduce_path_mtu(now, mtu);
            }
            return;
        }
        let expired = (v6, icmp.kind) == (false, 11) || (v6, icmp.kind) == (true, 3);
        if may_reset && (error == NetworkError::Refused || expired) {
            if self.state == State::SynSent {
                self.fail(now, Failure::Network(error));
            }
        } else if self.state == State::Established && error == NetworkError::HostUnreachable {
            // Another route may do.
        } else if self.state < State::Established
            && self.handshake.sent > RETRANSMITTED_OFTEN
            && self.soft_error.is_some()
        {
            self.fail(now, Failure::Network(error));
        } else {
            self.soft_error = Some(error);
        }
    }

    /// The application asks for a smaller MSS than there is (TCP_MAXSEG); true if that is one, and an open connection's.
    pub fn lower_mss(&mut self, now: Nanos, mss: i64) -> bool {
        let fits = mss > i64::from(self.option_bytes()) && mss <= i64::from(self.snd.mss);
        if fits {
            self.set_mss(now, mss as u32);
        }
        fits
    }

    /// Packets may be as large as `mtu` from now on. What is under way and larger is lost.
    fn reduce_path_mtu(&mut self, now: Nanos, mtu: u32) {
        let mss = mtu - self.handshake.ip_header - TCP_HEADER;
        if mss < self.snd.mss {
            self.set_mss(now, mss);
        }
    }

    /// Sets the MSS of what leaves from now on, and tells the sender.
    pub(super) fn set_mss(&mut self, now: Nanos, mss: u32) {
        self.snd.mss = mss;
        self.snd.payload = mss - self.option_bytes();
        self.snd.grant.edge = 0;
        self.size_super_packets();
        if self.carries_data() {
            let mut cx = Context { now, clock: &self.clock, events: &mut self.events };
            self.sender.on_path_mtu(&mut self.snd, &mut cx);
        }
    }

    /// The error that the application is told of a connection which got no answer, if a router had said more than nothing.
    pub fn soft_error(&self) -> Option<NetworkError> {
        self.soft_error
    }

    /// Takes the last error that did not end the connection, and forgets it (SO_ERROR).
    pub fn take_soft_error(&mut self) -> Option<NetworkError> {
        self.soft_error.take()
    }

    /// The largest packet that the path is known to take, bytes with the IP header. None: nothing was learnt.
    pub fn path_mtu(&self) -> Option<u32> {
        self.handshake.known.path_mtu
    }
}

/// SYNs after which a second error ends an attempt (t_rxtshift > 3).
const RETRANSMITTED_OFTEN: usize = 4;
