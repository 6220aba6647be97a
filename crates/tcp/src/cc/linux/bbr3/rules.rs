//! Differences of versions 2 and 3 of BBR, whatever their parameters.

use super::{CWND_GAIN, UNIT};

/// Constants of a version, and which it is.
#[derive(Debug)]
pub(super) struct Rules {
    /// Version 2. Of each ACK it looks at the round trip's deliveries only where it updates its model; a probe ends at a queue of a
    /// quarter of a BDP, not where bandwidth grows no more; marks are counted whatever the peer has agreed on; and no tail loss probe
    /// tells of what it repaired.
    pub is_2: bool,
    /// Pacing gain of start-up: version 2 has 2 / ln 2 (bbr_high_gain), version 3 4 ln 2 (bbr_startup_pacing_gain).
    pub startup_pacing_gain: u32,
    /// cwnd above the BDP in start-up and DRAIN.
    pub startup_cwnd_gain: u32,
    /// ACKs that tell of losses in a round that end start-up, if too much was lost in it (bbr_full_loss_cnt).
    pub full_loss_events: u32,
    /// Part of the upper bound by which it grows at once when marks have ended (bbr_ecn_reprobe_gain); 0: it does not.
    pub reprobe_gain: u32,
}

pub(super) const TWO: Rules = Rules {
    is_2: true,
    startup_pacing_gain: UNIT * 2885 / 1000 + 1,
    startup_cwnd_gain: UNIT * 2885 / 1000 + 1,
    full_loss_events: 8,
    reprobe_gain: 0,
};

pub(super) const THREE: Rules = Rules {
    is_2: false,
    startup_pacing_gain: UNIT * 277 / 100 + 1,
    startup_cwnd_gain: CWND_GAIN,
    full_loss_events: 6,
    reprobe_gain: UNIT / 2,
};
