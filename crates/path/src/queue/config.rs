//! The configuration of a queue discipline, as it stands in a scenario: fully resolved, serde.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CakeConfig, Dualpi2Config, FqCodelConfig, FqPieConfig, PieConfig, RedConfig};

/// A queue discipline and all its parameters, under their Linux `tc` names with the unit added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
            1..=MAX_FLOWS => Ok(()),
            _ => Err(format!("queue flows: found {flows}; expected 1 to {MAX_FLOWS}")),
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
const MAX_FLOWS: u32 = 65_536;

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
}
