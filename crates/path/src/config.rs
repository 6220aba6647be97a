//! Configurations of queue disciplines and impairments, as they stand in a scenario: fully resolved, serde.

use serde::{Deserialize, Serialize};

use crate::queue::{Dualpi2Config, FqCodelConfig, FqPieConfig, PieConfig, RedConfig};

/// A queue discipline and all its parameters, under their Linux `tc` names with the unit added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueConfig {
    /// First in, first out; an arrival that finds `limit_packets` waiting is dropped.
    Pfifo {
        /// Packets waiting; one more is in service.
        limit_packets: u32,
    },
    /// First in, first out; an arrival that would make more than `limit_bytes` wait is dropped.
    Bfifo {
        /// Bytes waiting, with the link's overhead per packet.
        limit_bytes: u64,
    },
    /// CoDel (RFC 8289).
    Codel {
        /// Packets waiting.
        limit_packets: u32,
        /// Acceptable standing sojourn time.
        target_ns: u64,
        /// Window over which the minimum is taken.
        interval_ns: u64,
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool,
    },
    /// RED (Floyd and Jacobson 1993).
    Red(RedConfig),
    /// FQ-CoDel (RFC 8290).
    #[serde(rename = "fq_codel")]
    FqCodel(FqCodelConfig),
    /// PIE (RFC 8033).
    Pie(PieConfig),
    /// FQ-PIE.
    #[serde(rename = "fq_pie")]
    FqPie(FqPieConfig),
    /// DualPI2 (RFC 9332).
    Dualpi2(Dualpi2Config),
}

/// Loss of packets before the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossConfig {
    /// Each packet independently.
    Random {
        /// Probability, parts per billion.
        probability_ppb: u32,
    },
    /// Every n-th packet, as iptables' statistic module counts: index modulo `every` equals `packet`.
    Nth {
        /// Period, at least 1.
        every: u32,
        /// Which of the period is lost, below `every`; 0 is the first packet.
        packet: u32,
        /// Only packets with at least this many payload bytes are counted and dropped.
        min_payload: u32,
    },
    /// Two-state Gilbert-Elliott chain, as netem's `loss gemodel p r 1-h 1-k`.
    Gilbert {
        /// Good to bad.
        p_ppb: u32,
        /// Bad to good.
        r_ppb: u32,
        /// Loss in the bad state.
        loss_bad_ppb: u32,
        /// Loss in the good state.
        loss_good_ppb: u32,
    },
    /// The packets with these indices (from 0, counting every packet that enters the link), ascending.
    List {
        /// Indices.
        packets: Vec<u64>,
    },
}
