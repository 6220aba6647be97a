//! FreeBSD's sysctls of the host cache (tcp(4), tcp_hostcache.c).

use super::FreeBsd;
use crate::clock::SECOND;
use crate::profile::knob::{Knob, knob, knobs};

/// Entries of the cache, of which no run has as many (TCP_HOSTCACHE_HASHSIZE, TCP_HOSTCACHE_BUCKETLIMIT).
const ENTRIES: i64 = 512 * 30;

const LONGEST: i64 = i32::MAX as i64;

/// Sysctl by which the cache is switched on, in releases that have a switch and in those that have none.
pub(super) const SWITCHES: [Knob<FreeBsd>; 2] = knobs! {
    "net.inet.tcp.hostcache.enable", (0, 1),
        "what connections learn of the path is kept for later ones (FreeBSD's own default: 1)", (spec.peers.keeps: bool);
    "net.inet.tcp.hostcache.cachelimit", (0, ENTRIES),
        "peers of which it is kept what connections learn; more than 0 is as many as there are (FreeBSD's own default: 15360)",
        (|p| if p.spec.peers.keeps { ENTRIES } else { 0 }, |p, v| p.spec.peers.keeps = v != 0);
};

/// Sysctls of every release.
pub(super) const TIMES: [Knob<FreeBsd>; 2] = knobs! {
    "net.inet.tcp.hostcache.expire", (0, LONGEST),
        "seconds without use after which an entry of the host cache is old", (spec.peers.expire: SECOND * u64);
    "net.inet.tcp.hostcache.prune", (1, LONGEST),
        "seconds between two searches for old entries", (spec.peers.prune: SECOND * u64);
};
