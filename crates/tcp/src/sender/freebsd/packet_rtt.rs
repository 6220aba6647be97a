//! RTTs of single packets for delay-based congestion control, as FreeBSD's h_ertt(4) measures them: transmissions are
//! matched with acknowledgements, and one marked packet per RTT delimits a measurement round.

use std::collections::VecDeque;

use crate::cc::freebsd::{CcVar, PacketDelays};

/// Number of acknowledgements of more than one segment in a row that make it certain that ACKs are delayed.
const DELAYED_ACK_SMOOTH: u32 = 5;

/// Transmission of a segment.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    end: u64,
    /// Millisecond timestamp.
    at: u32,
    /// Begins a measurement round.
    marked: bool,
}

/// The helper's state. RTTs are in ticks of the timestamp clock, one more than the difference.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketRtt {
    sent: VecDeque<Sent>,
    /// The last RTT measured; 0 before the first.
    pub rtt: u32,
    /// Other measurements.
    delays: PacketDelays,
    /// A round has ended and the congestion control has not been told yet.
    pub new_measurement: bool,
    /// A marked packet is on its way.
    measuring: bool,
    /// Number of bytes sent since the marked packet was, and with it.
    sent_since_mark: u64,
    /// Evidence that the receiver delays ACKs.
    delayed: u32,
}

impl PacketRtt {
    /// Data leaves.
    pub(crate) fn on_sent(&mut self, seq: u64, end: u64, at: u32) {
        let marked = !self.measuring;
        self.measuring = true;
        self.sent_since_mark = if marked { 0 } else { self.sent_since_mark } + (end - seq);
        self.sent.push_back(Sent { seq, end, at, marked });
    }

    /// An ACK arrives that advances, or that the scoreboard takes for news: `ack` is its cumulative acknowledgement or, where
    /// that does not advance, the highest byte it reports; `acked` bytes are cumulatively acknowledged by it. `sacked`: the
    /// scoreboard was in use (delayed ACKs are not guessed at then). `maxseg` is what the system takes for a segment.
    pub(crate) fn on_ack(
        &mut self,
        ack: u64,
        acked: u64,
        sacked: bool,
        echo: Option<u32>,
        now: u32,
        maxseg: u64,
    ) {
        // The mark of a packet that cannot be measured itself goes over to the next; what those sent is not counted.
        let mut heir: Option<Sent> = None;
        let mut passed_over = 0;
        let mut measured = None;
        let mut pass_on = |front: Sent| {
            if front.marked || heir.is_some() {
                heir = Some(front);
                passed_over += front.end - front.seq;
            }
        };
        while let Some(&front) = self.sent.front() {
            if ack > front.end {
                pass_on(front);
                self.sent.pop_front();
                continue;
            }
            let length = front.end - front.seq;
            let several = !sacked && (acked > maxseg || acked > length);
            if several {
                self.delayed = (self.delayed + 1).min(DELAYED_ACK_SMOOTH);
            } else if !sacked && (acked == maxseg || acked == length) {
                self.delayed = self.delayed.saturating_sub(1);
            }
            if let Some(echo) = echo.filter(|&echo| echo != 0) {
                // A receiver that delays ACKs echoes the first of the segments it acknowledges; another echoes this one.
                if self.delayed == 0 && wire::seq::before(echo, front.at) {
                    break;
                }
                if wire::seq::before(front.at, echo) {
                    // What is echoed left later: this transmission was repeated.
                    pass_on(front);
                    self.sent.pop_front();
                    continue;
                }
            }
            if ack <= front.seq {
                break;
            }
            // One segment acknowledged late by a receiver that waits for two says nothing about the path.
            if several || self.delayed == 0 || sacked {
                self.measure(now.wrapping_sub(front.at) + 1);
            }
            measured = front.marked.then_some(front);
            self.sent.pop_front();
            break;
        }
        // One that was passed over is measured all the same, late as it is.
        if let Some(of) = heir.or(measured) {
            let again = heir.map_or(0, |heir| heir.end - heir.seq);
            self.delays.marked_rtt = now.wrapping_sub(of.at) + 1;
            self.delays.marked_bytes = (self.sent_since_mark + again).wrapping_sub(passed_over);
            self.new_measurement = true;
            self.measuring = false;
        }
    }

    fn measure(&mut self, rtt: u32) {
        self.rtt = rtt;
        let delays = &mut self.delays;
        delays.min_rtt = if delays.min_rtt == 0 { rtt } else { delays.min_rtt.min(rtt) };
        delays.max_rtt = delays.max_rtt.max(rtt);
    }

    /// Tells the congestion control.
    pub(crate) fn tell(&mut self, ccv: &mut CcVar) {
        ccv.delay_rtt = self.rtt;
        if std::mem::take(&mut self.new_measurement) {
            self.delays.marked_cwnd = ccv.cwnd;
            ccv.new_measurement = true;
        }
        ccv.delays = self.delays;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_when_the_marked_packet_or_its_heir_is_acknowledged() {
        let mut rtt = PacketRtt::default();
        for n in 0..4 {
            rtt.on_sent(n * 100, (n + 1) * 100, 10 + n as u32);
        }
        rtt.on_ack(200, 200, false, None, 30, 100);
        assert_eq!((rtt.rtt, rtt.new_measurement), (20, true), "the second packet inherits the mark");
        rtt.new_measurement = false;
        rtt.on_ack(400, 200, false, None, 40, 100);
        assert_eq!((rtt.rtt, rtt.new_measurement), (28, false), "no packet was marked since");
        rtt.on_sent(400, 500, 50);
        rtt.on_ack(500, 100, false, None, 60, 100);
        assert!(rtt.new_measurement);
        assert_eq!(rtt.rtt, 28, "a lone acknowledgement of a receiver that delays");
    }
}
