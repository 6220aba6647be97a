//! Windows of a connection that begins with what its host knows of the peer, and what the host learns at the end
//! (tcp_hostcache(4)).

use wire::segment::{IPV4_HEADER, IPV6_HEADER, TCP_HEADER};

use super::rtt::Rtt;
use crate::cc::freebsd::CcVar;
use crate::peers::{Known, Lesson};
use crate::sender::SendState;

/// Sets the threshold that is known, of two segments at least (cc_conn_init).
pub(in crate::sender) fn begin_with(ccv: &mut CcVar, known: &Known) {
    if known.ssthresh > 0 {
        ccv.ssthresh = known.ssthresh.max(2 * ccv.mss);
    }
}

/// Lesson of the connection (tcp_discardcb). A threshold counts below half of the send buffer, in packets with their headers.
pub(in crate::sender) fn lesson(snd: &SendState, ccv: &CcVar, rtt: &Rtt) -> Option<Lesson> {
    let (rtt, rttvar) = rtt.known(ccv.hz)?;
    let header = if snd.ipv6 { IPV6_HEADER } else { IPV4_HEADER } + TCP_HEADER;
    let segments = ((ccv.ssthresh + ccv.maxseg / 2) / ccv.maxseg).max(2);
    let counts = ccv.ssthresh < snd.sndbuf / 2;
    let ssthresh = if counts { segments * (ccv.maxseg + u64::from(header)) } else { 0 };
    Some(Lesson { rtt, rttvar, ssthresh, ..Lesson::default() })
}
