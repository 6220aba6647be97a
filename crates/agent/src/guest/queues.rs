//! Looks at the queue disciplines of links.

use std::collections::BTreeMap;
use std::io;

use super::netlink::{HEADER, Netlink, attributes, u32_at};
use super::plan::{Counters, Link};

/// RTM_GETQDISC, and the flags by which one is told of (NLM_F_REQUEST, NLM_F_ECHO).
const GET: u16 = 38;
const REQUEST: u16 = 1 | 8;
/// Bytes of struct tcmsg.
const TCMSG: usize = 20;
/// TCA_KIND, TCA_STATS2; in that TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP.
const KIND: u16 = 1;
const STATS: u16 = 7;
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
const OWN: u16 = 4;

/// The links of a node, and a way to ask about them.
pub(super) struct Queues {
    netlink: Netlink,
    links: Vec<(usize, Link)>,
    /// Requests for the counters of all of them, and how many those are.
    request: (Vec<u8>, usize),
}

impl Queues {
    /// Opens the links, by their number, that lead from the node in whose thread this is called.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn open(links: Vec<(usize, Link)>) -> io::Result<Queues> {
        let places = |(_, link): &(usize, Link)| {
            [Some(link.queue), link.netem]
                .into_iter()
                .flatten()
                .map(|handle| (link.interface, handle))
                .collect()
        };
        let places: Vec<Vec<(i32, u32)>> = links.iter().map(places).collect();
        let places = places.concat();
        let request = places.iter().flat_map(|&(interface, handle)| request(interface, handle)).collect();
        Ok(Queues { netlink: Netlink::open()?, links, request: (request, places.len()) })
    }

    /// Counters of every link now.
    ///
    /// # Errors
    /// A queue discipline is gone, or what the kernel says.
    pub(super) fn look(&mut self) -> io::Result<Vec<(usize, Counters)>> {
        let mut found: BTreeMap<(i32, u32), Counters> = BTreeMap::new();
        let (request, answers) = &self.request;
        self.netlink.ask(request, *answers, &mut |body| {
            if let Some((place, counters)) = parse(body) {
                found.insert(place, counters);
            }
        })?;
        let counted = |(number, link): &(usize, Link)| {
            let mut counters = found.get(&(link.interface, link.queue)).copied().ok_or_else(|| {
                io::Error::other(format!("link {}: its queue discipline is gone", link.name))
            })?;
            let netem = link.netem.and_then(|handle| found.get(&(link.interface, handle)));
            // What netem counts as dropped are losses, and what its child refused.
            counters.lost = netem.map_or(0, |netem| netem.drops.saturating_sub(counters.drops));
            counters.drops += counters.lost;
            Ok((*number, counters))
        };
        self.links.iter().map(counted).collect()
    }
}

/// A request for one queue discipline.
fn request(interface: i32, handle: u32) -> Vec<u8> {
    let mut message = vec![0; HEADER + TCMSG];
    message[0..4].copy_from_slice(&((HEADER + TCMSG) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&GET.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    message[HEADER + 4..HEADER + 8].copy_from_slice(&interface.to_ne_bytes());
    message[HEADER + 8..HEADER + 12].copy_from_slice(&handle.to_ne_bytes());
    message
}

/// Interface and handle of a queue discipline, and its counters.
fn parse(body: &[u8]) -> Option<((i32, u32), Counters)> {
    let (interface, handle) = (u32_at(body.get(..TCMSG)?, 4) as i32, u32_at(body, 8));
    let told: BTreeMap<u16, &[u8]> = attributes(&body[TCMSG..]).collect();
    let kind = told.get(&KIND).map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_string());
    let stats: BTreeMap<u16, &[u8]> = attributes(told.get(&STATS)?).collect();
    let (basic, queue) = (stats.get(&BASIC)?, stats.get(&QUEUE)?);
    let own = stats.get(&OWN).copied().unwrap_or_default();
    let counters = Counters {
        bytes: u64::from_ne_bytes(basic.get(..8)?.try_into().ok()?),
        packets: u64::from(u32_at(basic.get(..12)?, 8)),
        backlog_packets: u64::from(u32_at(queue.get(..12)?, 0)),
        backlog_bytes: u64::from(u32_at(queue, 4)),
        drops: u64::from(u32_at(queue, 8)),
        lost: 0,
        marks: kind.and_then(|kind| marks(&kind, own)),
    };
    Some(((interface, handle), counters))
}

/// Packets that a discipline has marked, by the structures of linux/pkt_sched.h.
fn marks(kind: &str, own: &[u8]) -> Option<u64> {
    let word = |at: usize| own.get(at..at + 4).map(|bytes| u64::from(u32_at(bytes, 0)));
    match kind {
        "pfifo" | "bfifo" | "tbf" => Some(0),
        // struct tc_red_xstats: early, pdrop, other, marked. struct tc_choke_xstats likewise.
        "red" | "choke" => word(12),
        // struct tc_codel_xstats: maxpacket, count, lastcount, ldelay, drop_next, drop_overlimit, ecn_mark, dropping, ce_mark.
        "codel" => Some(word(24)? + word(32).unwrap_or(0)),
        // struct tc_fq_codel_xstats: type, maxpacket, drop_overlimit, ecn_mark, new_flow_count, new_flows_len, old_flows_len,
        // ce_mark.
        "fq_codel" => Some(word(12)? + word(28).unwrap_or(0)),
        // struct tc_pie_xstats: prob (64 bits), delay, avg_dq_rate, dq_rate_estimating, packets_in, dropped, overlimit, maxq,
        // ecn_mark.
        "pie" => word(36),
        _ => None,
    }
}
