//! Configurations of loss, jitter and shapers, as they stand in a scenario: fully resolved, serde.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason why nothing can be made of a loss, a jitter or a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// [`LossConfig::Nth`] that loses none.
    #[error("loss nth needs every >= 1 and packet below every")]
    LossOfNoPacket,
    /// [`JitterKind::Table`] without a table.
    #[error("jitter table: found no values; expected at least one")]
    JitterWithoutValues,
    /// A token bucket or policer that lets nothing pass.
    #[error("shaper rate_bps: found 0; expected above 0")]
    ShaperWithoutRate,
    /// [`ShaperConfig::Trace`] with no opportunity, or with one behind the next one or the period's end.
    #[error("shaper opportunities_ns: expected times in ascending order up to period_ns")]
    TraceOutOfOrder,
    /// [`ShaperConfig::Slots`] without time between them, or that take nothing.
    #[error("shaper interval_ns, packets, bytes: expected above 0")]
    SlotsOfNothing,
    /// [`ShaperConfig::Trace`] without length, or whose opportunities carry nothing.
    #[error("shaper period_ns, bytes: expected above 0")]
    TraceOfNothing,
}

/// Loss of packets before the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        /// Packet of the period that is lost, below `every`; 0 is the first.
        packet: u32,
        /// Only packets with at least this many payload bytes are counted and dropped.
        min_payload: u32,
        /// Only packets to this port. Null: any.
        dport: Option<u16>,
        /// Only packets from this port. Null: any.
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
    /// They do not.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            LossConfig::Nth { every, packet, .. } if packet >= every => Err(ConfigError::LossOfNoPacket),
            _ => Ok(()),
        }
    }
}

/// Variation of a link's delay, as netem's `delay TIME JITTER distribution KIND`. A delay never goes below zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JitterConfig {
    /// Distribution.
    pub kind: JitterKind,
    /// Standard deviation; of the uniform distribution, half its width, as in netem.
    pub sd_ns: u64,
    /// Let packets overtake each other; if not, one that would waits for its predecessor.
    pub reorder: bool,
    /// Deviations, equally likely, in units of `sd_ns` / 8192, as in netem's .dist files. For
    /// [`JitterKind::Table`].
    pub table: Option<Vec<i16>>,
}

impl JitterConfig {
    /// Checks what parsing cannot: that there are values to draw from.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let has_values = self.table.as_ref().is_some_and(|table| !table.is_empty());
        if self.kind == JitterKind::Table && !has_values {
            return Err(ConfigError::JitterWithoutValues);
        }
        Ok(())
    }
}

/// Distribution of jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Limit of a link besides its rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ShaperConfig {
    /// Packets wait for tokens, as in tc-tbf(8). Of a queue that an AQM controls, the first of them is out of the
    /// discipline's hands, so that its limit counts those behind it.
    TokenBucket {
        /// Rate of the tokens.
        rate_bps: u64,
        /// Bytes that may leave at once, with overhead; larger packets are dropped.
        burst_bytes: u32,
        /// A second bucket, of which a packet needs as many tokens (`peakrate` and `mtu` of tc-tbf(8)).
        peak: Option<PeakConfig>,
    },
    /// A class of tc-htb(8): a packet leaves whenever neither bucket is overdrawn, whatever its size, and is then taken from both.
    /// Until it leaves it stays in the discipline.
    Htb {
        /// Rate of the tokens.
        rate_bps: u64,
        /// Rate of the second bucket's tokens.
        ceil_bps: u64,
        /// Most bytes in the bucket.
        burst_bytes: u32,
        /// Most bytes in the second bucket.
        cburst_bytes: u32,
    },
    /// Packets that arrive and find no tokens are dropped, before the queue.
    Policer {
        /// Rate of the tokens.
        rate_bps: u64,
        /// Bytes that may arrive at once, with overhead.
        burst_bytes: u32,
    },
    /// Packets wait for slots, as behind the turns of a Wi-Fi station, the grants of a cable modem or the frames of a satellite's
    /// terminal: those that wait when a slot opens leave together at the link's rate, so many of them as the slot takes. What comes
    /// later waits for the next one.
    Slots {
        /// Time from one slot to the next; one opens at time 0.
        interval_ns: u64,
        /// Packets of a slot at most. None: as many as wait.
        packets: Option<u32>,
        /// Bytes of a slot at most, with overhead. The last packet may exceed them, and the slots behind it have so much less. None: no
        /// limit.
        bytes: Option<u32>,
    },
    /// Delivery opportunities as in a mahimahi trace, repeated for ever; the link has no other rate.
    Trace {
        /// Times of the opportunities, ascending.
        opportunities_ns: Vec<u64>,
        /// Time when the trace starts again: at least the last of the opportunities.
        period_ns: u64,
        /// Bytes that leave at each opportunity (1504 in mahimahi).
        bytes: u32,
    },
}

/// The second bucket of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeakConfig {
    /// Rate of its tokens.
    pub rate_bps: u64,
    /// Bytes that may leave at once, with overhead; larger packets are dropped.
    pub burst_bytes: u32,
}

impl ShaperConfig {
    /// The least rate of its buckets, or what its slots carry; None of a trace, and of slots whose bytes are not limited.
    #[must_use]
    pub fn rate_bps(&self) -> Option<u64> {
        match *self {
            ShaperConfig::TokenBucket { rate_bps, peak, .. } => {
                Some(peak.map_or(rate_bps, |peak| peak.rate_bps.min(rate_bps)))
            }
            ShaperConfig::Htb { rate_bps, ceil_bps, .. } => Some(rate_bps.min(ceil_bps)),
            ShaperConfig::Policer { rate_bps, .. } => Some(rate_bps),
            ShaperConfig::Slots { interval_ns, bytes, .. } => {
                let bps = |bytes| u128::from(bytes) * 8_000_000_000 / u128::from(interval_ns.max(1));
                bytes.map(|bytes| u64::try_from(bps(bytes)).unwrap_or(u64::MAX).max(1))
            }
            ShaperConfig::Trace { .. } => None,
        }
    }

    /// Checks what parsing cannot: that something can ever pass.
    ///
    /// # Errors
    /// The parameter, what was found, what is allowed.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let ShaperConfig::Slots { interval_ns, packets, bytes } = *self {
            let nothing = interval_ns == 0 || packets == Some(0) || bytes == Some(0);
            return if nothing { Err(ConfigError::SlotsOfNothing) } else { Ok(()) };
        }
        if self.rate_bps() == Some(0) {
            return Err(ConfigError::ShaperWithoutRate);
        }
        match self {
            ShaperConfig::TokenBucket { .. }
            | ShaperConfig::Htb { .. }
            | ShaperConfig::Policer { .. }
            | ShaperConfig::Slots { .. } => Ok(()),
            ShaperConfig::Trace { opportunities_ns, period_ns, bytes } => {
                let ordered = opportunities_ns.is_sorted();
                if !ordered || opportunities_ns.last().is_none_or(|last| last > period_ns) {
                    return Err(ConfigError::TraceOutOfOrder);
                }
                if *period_ns == 0 || *bytes == 0 {
                    return Err(ConfigError::TraceOfNothing);
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let htb = |ceil_bps| ShaperConfig::Htb { rate_bps: 1, ceil_bps, burst_bytes: 0, cburst_bytes: 0 };
        assert!(htb(1).check().is_ok() && htb(0).check().is_err());
        let slots =
            |interval_ns, packets, bytes| ShaperConfig::Slots { interval_ns, packets, bytes }.check().is_ok();
        assert!(slots(1, None, None) && slots(u64::MAX, Some(1), Some(1)));
        let slow = ShaperConfig::Slots { interval_ns: u64::MAX, packets: None, bytes: Some(1) };
        assert_eq!(slow.rate_bps(), Some(1), "a rate that divides");
        assert!(!slots(0, None, None) && !slots(1, Some(0), None) && !slots(1, None, Some(0)));
        let peak = Some(PeakConfig { rate_bps: 0, burst_bytes: 1 });
        assert!(ShaperConfig::TokenBucket { rate_bps: 1, burst_bytes: 1, peak }.check().is_err());
    }
}
