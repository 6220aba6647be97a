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

impl QueueConfig {
    /// Checks what parsing cannot: that the discipline can be made of these parameters.
    ///
    /// # Errors
    /// One line: the parameter, what was found, what is allowed.
    pub fn check(&self) -> Result<(), String> {
        let positive = |key: &str, value: u64| match value {
            0 => Err(format!("queue {key}: found 0; expected above 0")),
            _ => Ok(()),
        };
        let flows = |flows: u32| match flows {
            1..=MOST_FLOWS => Ok(()),
            _ => Err(format!("queue flows: found {flows}; expected 1 to {MOST_FLOWS}")),
        };
        match self {
            QueueConfig::Pfifo { .. } | QueueConfig::Bfifo { .. } | QueueConfig::Netem { .. } => Ok(()),
            QueueConfig::Codel { interval_ns, .. } => positive("interval_ns", *interval_ns),
            QueueConfig::Red(red) => {
                positive("avpkt_bytes", red.avpkt_bytes)?;
                positive("bandwidth_bps", red.bandwidth_bps)?;
                if red.min_bytes >= red.max_bytes {
                    let (min, max) = (red.min_bytes, red.max_bytes);
                    return Err(format!("queue min_bytes: found {min}; expected below max_bytes, {max}"));
                }
                if red.nodrop && !red.ecn {
                    return Err("queue nodrop: found true; expected false, or ecn true too".into());
                }
                Ok(())
            }
            QueueConfig::FqCodel(fq) => {
                flows(fq.flows)?;
                positive("quantum_bytes", fq.quantum_bytes.into())?;
                positive("interval_ns", fq.interval_ns)
            }
            QueueConfig::Pie(pie) => positive("tupdate_ns", pie.tupdate_ns),
            QueueConfig::FqPie(fq) => {
                flows(fq.flows)?;
                positive("quantum_bytes", fq.quantum_bytes.into())?;
                positive("tupdate_ns", fq.tupdate_ns)
            }
            QueueConfig::Cake(cake) => {
                positive("bandwidth_bps", cake.bandwidth_bps.unwrap_or(1))?;
                positive("rtt_ns", cake.rtt_ns)
            }
            QueueConfig::Dualpi2(dualpi2) => {
                positive("tupdate_ns", dualpi2.tupdate_ns)?;
                positive("coupling_factor", dualpi2.coupling_factor.into())?;
                match dualpi2.classic_protection {
                    0..=100 => Ok(()),
                    more => Err(format!(
                        "queue classic_protection: found {more}; expected at most 100 (per cent)"
                    )),
                }
            }
        }
    }
}

/// The most queues of a discipline that hashes flows to queues (Linux fq_codel_change and fq_pie_change).
const MOST_FLOWS: u32 = 65_536;

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
        /// Only packets to this port; null: any.
        dport: Option<u16>,
        /// Only packets from this port; null: any.
        sport: Option<u16>,
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

impl LossConfig {
    /// Checks what parsing cannot: that the packets to lose exist.
    ///
    /// # Errors
    /// One line.
    pub fn check(&self) -> Result<(), String> {
        match self {
            LossConfig::Nth { every, packet, .. } if packet >= every => {
                Err("loss nth needs every >= 1 and packet below every".into())
            }
            _ => Ok(()),
        }
    }
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

impl JitterConfig {
    /// Checks what parsing cannot: that there are values to draw from.
    ///
    /// # Errors
    /// One line.
    pub fn check(&self) -> Result<(), String> {
        let has_values = self.table.as_ref().is_some_and(|table| !table.is_empty());
        if self.kind == JitterKind::Table && !has_values {
            return Err("jitter table: found no values; expected at least one".into());
        }
        Ok(())
    }
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

impl ShaperConfig {
    /// Checks what parsing cannot: that something can ever pass.
    ///
    /// # Errors
    /// One line: the parameter, what was found, what is allowed.
    pub fn check(&self) -> Result<(), String> {
        match self {
            ShaperConfig::TokenBucket { rate_bps: 0, .. } | ShaperConfig::Policer { rate_bps: 0, .. } => {
                Err("shaper rate_bps: found 0; expected above 0".into())
            }
            ShaperConfig::TokenBucket { .. } | ShaperConfig::Policer { .. } => Ok(()),
            ShaperConfig::Trace { opportunities_ns, period_ns, bytes } => {
                let ordered = opportunities_ns.is_sorted();
                if !ordered || opportunities_ns.last().is_none_or(|last| last > period_ns) {
                    return Err(
                        "shaper opportunities_ns: expected times in ascending order up to period_ns".into()
                    );
                }
                if *period_ns == 0 || *bytes == 0 {
                    return Err("shaper period_ns, bytes: expected above 0".into());
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(json: &str) -> QueueConfig {
        serde_json::from_str(json).expect("a queue")
    }

    #[test]
    fn a_discipline_that_cannot_be_made_is_refused_with_its_parameter() {
        let red = |min: u64, max: u64| {
            queue(&format!(
                r#"{{"kind": "red", "limit_bytes": 100000, "min_bytes": {min}, "max_bytes": {max},
                    "avpkt_bytes": 1000, "burst_packets": 20, "probability_ppb": 20000000,
                    "bandwidth_bps": 10000000, "ecn": false, "harddrop": false, "nodrop": false,
                    "adaptive": false}}"#
            ))
        };
        assert_eq!(red(10_000, 30_000).check(), Ok(()));
        let why = red(50_000, 40_000).check().expect_err("thresholds the wrong way round");
        assert_eq!(why, "queue min_bytes: found 50000; expected below max_bytes, 40000");
        let QueueConfig::Red(config) = red(10_000, 30_000) else { panic!("red is red") };
        let nodrop = |ecn| QueueConfig::Red(RedConfig { nodrop: true, ecn, ..config.clone() }).check();
        assert_eq!(nodrop(true), Ok(()));
        assert_eq!(nodrop(false), Err("queue nodrop: found true; expected false, or ecn true too".into()));

        let dualpi2 = |coupling: u32, protection: u32| {
            queue(&format!(
                r#"{{"kind": "dualpi2", "limit_packets": 10000, "target_ns": 15000000, "tupdate_ns": 16000000,
                    "alpha_ppb": 160000000, "beta_ppb": 3200000000, "coupling_factor": {coupling},
                    "step_thresh_ns": 1000000, "classic_protection": {protection}, "drop_on_overload": true}}"#
            ))
        };
        assert_eq!(dualpi2(2, 10).check(), Ok(()));
        let fq_codel = |flows: u32| {
            queue(&format!(
                r#"{{"kind": "fq_codel", "limit_packets": 10240, "flows": {flows}, "quantum_bytes": 1514,
                    "target_ns": 5000000, "interval_ns": 100000000, "ecn": true, "ce_threshold_ns": null,
                    "memory_limit_bytes": 33554432, "drop_batch": 64}}"#
            ))
        };
        assert_eq!(fq_codel(65_536).check(), Ok(()));
        assert_eq!(fq_codel(0).check(), Err("queue flows: found 0; expected 1 to 65536".into()));
        assert_eq!(fq_codel(65_537).check(), Err("queue flows: found 65537; expected 1 to 65536".into()));
        assert!(dualpi2(0, 10).check().is_err_and(|why| why.contains("coupling_factor")));
        assert!(dualpi2(2, 101).check().is_err_and(|why| why.contains("classic_protection")));
    }

    #[test]
    fn a_loss_of_no_packet_is_refused() {
        let nth = |every, packet| {
            LossConfig::Nth { every, packet, min_payload: 0, dport: None, sport: None }.check()
        };
        assert_eq!(nth(1, 0), Ok(()));
        assert!(nth(0, 0).is_err() && nth(5, 5).is_err());
    }

    #[test]
    fn jitter_without_values_to_draw_from_is_refused() {
        let jitter = |kind, table| JitterConfig { kind, sd_ns: 1, reorder: false, table }.check();
        assert_eq!(jitter(JitterKind::Normal, None), Ok(()));
        assert_eq!(jitter(JitterKind::Table, Some(vec![0])), Ok(()));
        assert!(jitter(JitterKind::Table, None).is_err());
        assert!(jitter(JitterKind::Table, Some(Vec::new())).is_err());
    }

    #[test]
    fn a_shaper_that_lets_nothing_pass_is_refused() {
        let trace = |times: &[u64], period_ns, bytes| {
            ShaperConfig::Trace { opportunities_ns: times.to_vec(), period_ns, bytes }.check()
        };
        assert_eq!(trace(&[1, 2], 2, 1504), Ok(()));
        for (times, period, bytes) in
            [(&[2, 1][..], 2, 1504), (&[], 2, 1504), (&[3], 2, 1504), (&[0], 0, 1504), (&[1], 1, 0)]
        {
            assert!(trace(times, period, bytes).is_err(), "{times:?} of {period}, {bytes}");
        }
        assert!(ShaperConfig::Policer { rate_bps: 0, burst_bytes: 1 }.check().is_err());
    }
}
