//! Captures to per-connection series: throughput, retransmissions, acknowledgements, round-trip times.
//!
//! [`read`] walks through a pcap or pcapng file once and hands every TCP packet, put into its connection and with
//! sequence numbers that no longer wrap, to a visitor. What a visitor collects is up to it:
//!
//! | module | what it makes of the packets |
//! | --- | --- |
//! | [`connection`] | connections, their two directions, counters of each |
//! | [`series`] | one row for each data segment, acknowledgement or SACK block |
//! | [`throughput`] | bytes in sliding windows |
//! | [`rounds`] | round-trip samples, segments per acknowledgement, flight per round trip, at one capture point |
//! | [`pairs`] | packets seen in two captures: losses, round-trip times without synchronised clocks |
//! | [`clock`] | how the clocks of two captures differ, and one-way delays |
//! | [`text`] | lines as tcpdump prints them |
//! | [`annotated`] | one pcapng file of the captures of several points, with comments |
//! | [`capture`] | a capture in memory, for what needs several passes or captures |

pub mod annotated;
pub mod capture;
pub mod clock;
pub mod connection;
mod error;
mod merged;
pub mod pairs;
pub mod rounds;
pub mod series;
pub mod text;
pub mod throughput;

use std::collections::BTreeMap;
use std::io::Read;

use merged::Records;
use wire::capture::Reader;
use wire::codec::{self, NotTcp};

pub use connection::{Connection, Connections, Direction, Seen};
pub use error::{Error, MAX_CONNECTIONS, MAX_PACKETS, MAX_STEPS};

/// Counts of packets that were not TCP, and where the file ended early.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Packets that are not IP, or IP but not TCP, by what they are; also those of link layers that are not read.
    pub other: BTreeMap<NotTcp, u64>,
    /// Fragments without a TCP header.
    pub fragments: u64,
    /// TCP packets of which the capture holds too little.
    pub cut_short: u64,
    /// Packets whose headers contradict themselves.
    pub malformed: u64,
    /// Place where the file ends in the middle of a record, as when the capturing program was killed, in bytes from
    /// its start.
    pub file_ends_at: Option<u64>,
}

impl Skipped {
    fn count(&mut self, why: NotTcp) {
        match why {
            NotTcp::Fragment => self.fragments += 1,
            NotTcp::CutShort => self.cut_short += 1,
            NotTcp::Malformed => self.malformed += 1,
            other => *self.other.entry(other).or_default() += 1,
        }
    }
}

/// Reads a capture file to its end and hands each TCP packet to `visit`. A file cut short is read up to there.
///
/// `source` needs no buffering of its own.
///
/// # Errors
///
/// When the file cannot be read, is no capture, or contradicts itself; packets before that have been visited.
pub fn read<R: Read>(
    source: R,
    connections: &mut Connections,
    mut visit: impl FnMut(&Seen<'_>, &Connection),
) -> Result<Skipped, wire::capture::Error> {
    read_while(&mut Reader::new(source)?, connections, |seen, connection| {
        visit(seen, connection);
        true
    })
}

/// Reads as [`read`] does, until `visit` says that it wants no more.
fn read_while(
    records: &mut impl Records,
    connections: &mut Connections,
    mut visit: impl FnMut(&Seen<'_>, &Connection) -> bool,
) -> Result<Skipped, wire::capture::Error> {
    let mut skipped = Skipped::default();
    loop {
        let record = match records.next() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(skipped),
            Err(wire::capture::Error::CutShort { offset }) => {
                skipped.file_ends_at = Some(offset);
                return Ok(skipped);
            }
            Err(error) => return Err(error),
        };
        match record.ip().and_then(|(ip, wire_length)| codec::parse(ip, wire_length)) {
            Ok(packet) => {
                let (seen, connection) = connections.add(record.t_ns, record.wire_length, packet);
                if !visit(&seen, connection) {
                    return Ok(skipped);
                }
            }
            Err(why) => skipped.count(why),
        }
    }
}

#[cfg(test)]
mod tests;
