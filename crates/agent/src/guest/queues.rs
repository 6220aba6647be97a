//! Looks at the queue disciplines of links.

use std::collections::BTreeMap;
use std::io;

use crate::error::{self, Result};

use super::netlink::{HEADER, Netlink, TAKEN, attributes, u32_at};
use super::node::Node;
use super::plan::{Counters, Link, Plan};

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
    /// Times at which the kernel noted the counters and was not asked for them yet.
    noted: Vec<u64>,
    found: Vec<Found>,
}

/// Counters of a link at a time: the time, the link's number, and what they were.
pub(super) type Found = (u64, usize, Counters);

/// Bytes of answers that wait at most, in the kernel's way of counting.
const ROOM: libc::c_int = 4 << 20;

/// Ways to ask about the links that are wanted, by node.
pub(super) fn open(plan: &Plan, nodes: &[Node], wanted: impl Fn(&Link) -> bool) -> Result<Vec<Queues>> {
    let mut by_node: BTreeMap<usize, Vec<(usize, Link)>> = BTreeMap::new();
    for (number, link) in plan.links.iter().enumerate().filter(|(_, link)| wanted(link)) {
        by_node.entry(link.node).or_default().push((number, link.clone()));
    }
    let opened = by_node.into_iter().map(|(node, links)| nodes[node].inside(move || Queues::open(links)));
    error::at("queue disciplines", opened.collect())
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
        let netlink = Netlink::open()?;
        netlink.set_room(ROOM)?;
        let request = (request, places.len());
        Ok(Queues { netlink, links, request, noted: Vec::new(), found: Vec::new() })
    }

    /// Counters of every link now.
    ///
    /// # Errors
    /// A queue discipline is gone, or what the kernel says.
    pub(super) fn look(&mut self) -> io::Result<Vec<(usize, Counters)>> {
        self.netlink.send(&self.request.0)?;
        Ok(self.answered(1)?.concat())
    }

    /// Has the kernel note the counters of every link now; they are fetched later, those of many times by one system call.
    ///
    /// # Errors
    /// A queue discipline is gone, or what the kernel says.
    pub(super) fn note(&mut self, time: u64) -> io::Result<()> {
        if (self.noted.len() + 1) * self.request.1 > TAKEN {
            self.fetch()?;
        }
        self.noted.push(time);
        self.netlink.send(&self.request.0)
    }

    /// Counters of all times at which they were noted.
    ///
    /// # Errors
    /// A queue discipline is gone, or what the kernel says.
    pub(super) fn finish(mut self) -> io::Result<Vec<Found>> {
        self.fetch()?;
        Ok(self.found)
    }

    fn fetch(&mut self) -> io::Result<()> {
        let times = std::mem::take(&mut self.noted);
        for (time, answer) in times.iter().zip(self.answered(times.len())?) {
            self.found.extend(answer.into_iter().map(|(link, counters)| (*time, link, counters)));
        }
        Ok(())
    }

    /// The answers to so many requests: of each the counters of every link.
    fn answered(&mut self, requests: usize) -> io::Result<Vec<Vec<(usize, Counters)>>> {
        let mut told = Vec::new();
        self.netlink.answered(self.request.1 * requests, &mut |body| told.push(parse(body)))?;
        told.chunks(self.request.1)
            .map(|told| self.counted(&told.iter().flatten().copied().collect()))
            .collect()
    }

    /// Counters of every link from those of its queue disciplines.
    fn counted(&self, told: &BTreeMap<(i32, u32), Counters>) -> io::Result<Vec<(usize, Counters)>> {
        let counted = |(number, link): &(usize, Link)| {
            let mut counters = told.get(&(link.interface, link.queue)).copied().ok_or_else(|| {
                io::Error::other(format!("link {}: its queue discipline is gone", link.name))
            })?;
            let netem = link.netem.and_then(|handle| told.get(&(link.interface, handle)));
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
