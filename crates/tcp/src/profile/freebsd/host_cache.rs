//! FreeBSD's sysctls of the host cache (tcp(4), tcp_hostcache.c).

use super::sysctls::Knob;
use crate::clock::SECOND;

/// Entries of the cache, of which no run has as many (TCP_HOSTCACHE_HASHSIZE, TCP_HOSTCACHE_BUCKETLIMIT).
const ENTRIES: i64 = 512 * 30;

/// Sysctl by which the cache is switched on, in releases that have a switch and in those that have none.
pub(super) const SWITCHES: [Knob; 2] = [
    Knob {
        name: "net.inet.tcp.hostcache.enable",
        min: 0,
        max: 1,
        about: "what connections learn of the path is kept for later ones (FreeBSD's own default: 1)",
        get: |p| i64::from(p.spec.peers.keeps),
        set: |p, value| p.spec.peers.keeps = value != 0,
    },
    Knob {
        name: "net.inet.tcp.hostcache.cachelimit",
        min: 0,
        max: ENTRIES,
        about: "peers of which it is kept what connections learn; more than 0 is as many as there are (FreeBSD's own default: 15360)",
        get: |p| if p.spec.peers.keeps { ENTRIES } else { 0 },
        set: |p, value| p.spec.peers.keeps = value != 0,
    },
];

/// Sysctls of every release.
pub(super) const TIMES: [Knob; 2] = [
    Knob {
        name: "net.inet.tcp.hostcache.expire",
        min: 0,
        max: i32::MAX as i64,
        about: "seconds without use after which an entry of the host cache is old",
        get: |p| (p.spec.peers.expire / SECOND) as i64,
        set: |p, value| p.spec.peers.expire = value as u64 * SECOND,
    },
    Knob {
        name: "net.inet.tcp.hostcache.prune",
        min: 1,
        max: i32::MAX as i64,
        about: "seconds between two searches for old entries",
        get: |p| (p.spec.peers.prune / SECOND) as i64,
        set: |p, value| p.spec.peers.prune = value as u64 * SECOND,
    },
];
