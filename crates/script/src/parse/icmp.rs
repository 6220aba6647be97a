//! ICMP messages: `icmp unreachable frag_needed mtu 1200 [1:1001(1000)]`.

use super::{Parsed, Parser, Problem};
use crate::script::Icmp;

/// Types of ICMP for IPv4 with their codes (RFC 792); none: the code is 0 and not written.
const V4: &[(&str, u8, &[&str])] = &[
    (
        "unreachable",
        3,
        &[
            "net_unreachable",
            "host_unreachable",
            "protocol_unreachable",
            "port_unreachable",
            "frag_needed",
            "source_route_failed",
            "net_unknown",
            "host_unknown",
            "source_host_isolated",
            "net_prohibited",
            "host_prohibited",
            "net_unreachable_for_tos",
            "host_unreachable_for_tos",
            "packet_filtered",
            "precedence_violation",
            "precedence_cutoff",
        ],
    ),
    ("source_quench", 4, &[]),
    ("redirect", 5, &[]),
    ("time_exceeded", 11, &["ttl_exceeded_in_transit", "frag_reass_exceeded"]),
    ("parameter_problem", 12, &["code_0", "code_1", "code_2"]),
];

/// Types of ICMP for IPv6 with their codes (RFC 4443).
const V6: &[(&str, u8, &[&str])] = &[
    (
        "unreachable",
        1,
        &["no_route", "admin_prohibited", "not_neighbour", "address_unreachable", "port_unreachable"],
    ),
    ("packet_too_big", 2, &[]),
    ("time_exceeded", 3, &["exceeded_hop_limit", "exceeded_frag_time"]),
    ("parameter_problem", 4, &["header_field", "unknown_next_header", "unknown_option"]),
];

impl Parser<'_> {
    /// The message behind the word `icmp`.
    pub(super) fn icmp(&mut self) -> Parsed<Icmp> {
        let types = if self.ipv6 { V6 } else { V4 };
        self.space()?;
        let word = self.word()?;
        let found = types.iter().find(|(name, ..)| *name == word);
        let &(_, kind, codes) =
            found.ok_or_else(|| unknown("icmp", &word, types.iter().map(|known| known.0)))?;
        let mut code = 0;
        self.blanks();
        // Without a name the code is 0.
        let named =
            self.rest().starts_with(|c: char| c.is_ascii_alphabetic()) && !self.rest().starts_with("mtu");
        if named {
            let word = self.word()?;
            let word = self.defines.get(&word).unwrap_or(&word);
            let place = codes.iter().position(|name| name == word);
            code = place.ok_or_else(|| unknown("icmp", word, codes.iter().copied()))? as u8;
        }
        self.blanks();
        let mtu = if self.take_word("mtu") { self.number("mtu", u64::from(u32::MAX))? as u32 } else { 0 };
        self.blanks();
        // What quotes no packet is of the first one.
        if !self.take('[') {
            return Ok(Icmp { kind, code, mtu, seq: 0, len: 0, udp: None });
        }
        let (seq, len) = self.sequence()?;
        let udp = self.udp()?;
        self.need(']')?;
        Ok(Icmp { kind, code, mtu, seq, len, udp })
    }
}

fn unknown<'a>(what: &str, found: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    Problem::value(what, found, format!("one of {}", known.collect::<Vec<_>>().join(", ")))
}
