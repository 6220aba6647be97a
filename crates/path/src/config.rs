//! Configurations of queue disciplines and impairments, as they stand in a scenario: fully resolved, serde.

use serde::{Deserialize, Serialize};

use crate::queue::{CakeConfig, Dualpi2Config, FqCodelConfig, FqPieConfig, PieConfig, RedConfig};

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
        /// Mark every ECN-capable packet that waited longer; null: none.
        ce_threshold_ns: Option<u64>,
    },
    /// A host's egress as `tc netem` makes it: the link's delay and jitter come before its rate, and the limit counts
    /// every packet that has not left, those in the delay line too. No packet waits for an event.
    Netem {
        /// Packets inside (1000 unless told otherwise, in Linux).
        limit_packets: u32,
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
    /// CAKE.
    Cake(CakeConfig),
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

/// Variation of a link's delay, as netem's `delay TIME JITTER distribution KIND`. A delay never goes below zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JitterConfig {
    /// Distribution.
    pub kind: JitterKind,
    /// Standard deviation; of the uniform distribution, half its width, as in netem.
    pub sd_ns: u64,
    /// Let packets overtake each other; if not, one that would waits for its predecessor.
    pub reorder: bool,
    /// For [`JitterKind::Table`]: equally likely deviations in units of `sd_ns` / 8192, as in netem's .dist files.
    pub table: Option<Vec<i16>>,
}

/// Distribution of jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JitterKind {
    /// Uniform between -sd and sd.
    Uniform,
    /// Normal.
    Normal,
    /// Pareto with shape 3, less its mean.
    Pareto,
    /// Given values.
    Table,
}

/// What limits a link besides its rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ShaperConfig {
    /// Packets wait for tokens, as in tc-tbf(8). Of a queue that an AQM controls, the first of them is out of the
    /// discipline's hands, so that its limit counts those behind it.
    TokenBucket {
        /// Rate of the tokens.
        rate_bps: u64,
        /// Bytes that may leave at once, with overhead; larger packets are dropped.
        burst_bytes: u32,
    },
    /// Packets that arrive and find no tokens are dropped, before the queue.
    Policer {
        /// Rate of the tokens.
        rate_bps: u64,
        /// Bytes that may arrive at once, with overhead.
        burst_bytes: u32,
    },
    /// Delivery opportunities as in a mahimahi trace, repeated for ever; the link has no other rate.
    Trace {
        /// Times of the opportunities, ascending.
        opportunities_ns: Vec<u64>,
        /// When the trace starts again: at least the last of them.
        period_ns: u64,
        /// What leaves at each (1504 in mahimahi).
        bytes: u32,
    },
}
