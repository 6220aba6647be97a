//! What acknowledgements say at one capture point: round-trip samples, segments per acknowledgement, flight per round trip.
//!
//! Many segments per acknowledgement and a flight that grows by little per round trip are how stretch acknowledgements
//! show (RFC 2525 section 2.13; aggregation at the receiver makes them).

use std::collections::VecDeque;

use crate::series::Series;

/// Samples from one stream's acknowledgements. `rtt` and `segments` have a row for each acknowledgement that
/// advanced, `flight` one for each round trip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Time, and round-trip time from this capture point to the receiver and back: from the newest data covered to the
    /// acknowledgement, nanoseconds. None while data that were sent again are outstanding (Karn), as then it is not known
    /// what is being acknowledged, or holes held the acknowledgement back.
    pub rtt: Vec<(u64, u64)>,
    /// Time, and segments that were newly acknowledged.
    pub segments: Vec<(u64, u64)>,
    /// End of a round trip, and the largest flight in it, bytes. A round trip begins with the first data sent after the
    /// one before ended, and ends when these are acknowledged.
    pub flight: Vec<(u64, u64)>,
}

/// Works through both series of a stream in order of time. `mss` is the sender's segment size: a larger packet, captured
/// above segmentation or below aggregation, counts as many.
pub fn rounds(series: &Series, mss: u32) -> Rounds {
    let (data, acks) = (&series.data, &series.acks);
    let mut found = Rounds::default();
    let mut outstanding: VecDeque<Sent> = VecDeque::new();
    let (mut highest_acked, mut repeated_until) = (i64::MIN, i64::MIN);
    let mut round: Option<Round> = None;
    let (mut at_data, mut at_ack) = (0, 0);
    loop {
        let data_first = match (data.t_ns.get(at_data), acks.t_ns.get(at_ack)) {
            (None, None) => break,
            (Some(sent), Some(acked)) => sent <= acked,
            (sent, _) => sent.is_some(),
        };
        if data_first {
            let (t_ns, bytes) = (data.t_ns[at_data], data.bytes[at_data]);
            let end = data.offset[at_data] + i64::from(bytes);
            if data.repeated_bytes[at_data] > 0 {
                repeated_until = repeated_until.max(end);
            } else {
                outstanding.push_back(Sent { end, t_ns, segments: bytes.div_ceil(mss.max(1)) });
            }
            let flight = data.flight_bytes[at_data];
            match &mut round {
                Some(round) => round.flight = round.flight.max(flight),
                None => round = Some(Round { end, flight }),
            }
            at_data += 1;
            continue;
        }
        let (t_ns, acked) = (acks.t_ns[at_ack], acks.acked[at_ack]);
        at_ack += 1;
        if acked <= highest_acked {
            continue;
        }
        let (mut newest, mut segments) = (None, 0);
        while let Some(sent) = outstanding.front()
            && sent.end <= acked
        {
            segments += u64::from(sent.segments);
            newest = Some(sent.t_ns);
            outstanding.pop_front();
        }
        if let Some(sent_ns) = newest {
            found.segments.push((t_ns, segments));
            if highest_acked >= repeated_until {
                // Records of a capture may be out of order.
                found.rtt.push((t_ns, t_ns.saturating_sub(sent_ns)));
            }
        }
        highest_acked = acked;
        if let Some(over) = round.take_if(|round| round.end <= acked) {
            found.flight.push((t_ns, over.flight));
        }
    }
    found
}

/// New data on their way.
struct Sent {
    end: i64,
    t_ns: u64,
    segments: u32,
}

/// A round trip that is not over.
struct Round {
    end: i64,
    flight: u64,
}
