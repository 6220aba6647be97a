//! DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) as Linux's tcp_dctcp.c does it: Reno whose reaction to marks is as large as the
//! part of the packets that were marked, and whose receiver tells of each mark.

use super::reno::Reno;
use super::{AckEvent, CaState, CongestionControl, Core, CwndEvent};
use crate::linux_config::Shared;

/// All packets are marked: alpha in 1/1024 (DCTCP_MAX_ALPHA).
const MAX_ALPHA: u32 = 1 << ALPHA_BITS;
/// Fractional bits of alpha.
const ALPHA_BITS: u32 = 10;

/// The `dctcp` module.
#[derive(Debug)]
pub(super) struct Dctcp {
    config: Shared,
    reno: Reno,
    /// Part of the packets that are marked, a moving average.
    alpha: u32,
    /// Packets delivered, and of them marked, when the window of data at hand began.
    delivered: u64,
    delivered_ce: u64,
    /// The window of data ends there.
    window_end: u64,
    echo: EchoChanges,
    /// cwnd before the last reduction.
    loss_cwnd: u32,
    /// The peer has no ECN: this is Reno.
    without_ecn: bool,
}

impl Dctcp {
    pub(super) fn new(config: &Shared) -> Dctcp {
        Dctcp {
            config: config.clone(),
            reno: Reno::new(config),
            alpha: 0,
            delivered: 0,
            delivered_ce: 0,
            window_end: 0,
            echo: EchoChanges::default(),
            loss_cwnd: 0,
            without_ecn: false,
        }
    }

    fn begin_window(&mut self, core: &Core) {
        self.window_end = core.nxt;
        self.delivered = core.delivered;
        self.delivered_ce = core.delivered_ce;
    }

    /// Loss halves the window (dctcp_react_to_loss).
    fn on_loss(&mut self, core: &mut Core) {
        self.loss_cwnd = core.cwnd;
        core.ssthresh = (core.cwnd / 2).max(2);
    }
}

/// Receiver that tells of marks as they change: the newest data that came.
#[derive(Debug, Default)]
pub(super) struct EchoChanges {
    /// Whether it was marked.
    ce: bool,
    /// Next byte expected when it came.
    prior_nxt: u64,
}

impl EchoChanges {
    pub(super) fn new(core: &Core) -> EchoChanges {
        EchoChanges { ce: false, prior_nxt: core.receiving.nxt }
    }

    /// Data came, marked or not: a change is acknowledged at once. What waits for its ACK is acknowledged before that, with the
    /// echo that was true of it (dctcp_ece_ack_update).
    pub(super) fn on_data(&mut self, core: &mut Core, ce: bool) {
        let receiving = &mut core.receiving;
        if ce != self.ce {
            if receiving.delays_ack {
                receiving.answer.first = Some((self.prior_nxt, self.ce));
            }
            receiving.answer.ack_now = true;
        }
        receiving.answer.echoes_ce = ce;
        self.prior_nxt = receiving.nxt;
        self.ce = ce;
    }
}

impl CongestionControl for Dctcp {
    fn init(&mut self, core: &mut Core) {
        self.without_ecn = !core.ecn;
        self.alpha = self.config.dctcp_alpha_on_init.min(MAX_ALPHA);
        self.echo = EchoChanges::new(core);
        self.begin_window(core);
    }

    fn ssthresh(&mut self, core: &mut Core) -> u32 {
        if self.without_ecn {
            return self.reno.ssthresh(core);
        }
        self.loss_cwnd = core.cwnd;
        (core.cwnd - ((core.cwnd * self.alpha) >> (ALPHA_BITS + 1))).max(2)
    }

    fn cong_avoid(&mut self, core: &mut Core, ack: u64, acked: u32) {
        self.reno.cong_avoid(core, ack, acked);
    }

    /// A window of data is acknowledged: alpha becomes (1 - g) alpha + g F, with F the part that was marked.
    fn in_ack_event(&mut self, core: &mut Core, _event: AckEvent) {
        if self.without_ecn || core.una < self.window_end {
            return;
        }
        let g = self.config.dctcp_shift_g;
        let delivered = core.delivered - self.delivered;
        let marked = core.delivered_ce - self.delivered_ce;
        // What the shift leaves nothing of goes too.
        let decay = match self.alpha >> g {
            0 => self.alpha,
            decay => decay,
        };
        let share = (marked << (ALPHA_BITS - g)) / delivered.max(1);
        self.alpha = (u64::from(self.alpha - decay) + share).min(u64::from(MAX_ALPHA)) as u32;
        self.begin_window(core);
    }

    fn set_state(&mut self, core: &mut Core, state: CaState) {
        if !self.without_ecn && state == CaState::Recovery && core.state != state {
            self.on_loss(core);
        }
    }

    fn cwnd_event(&mut self, core: &mut Core, event: CwndEvent) {
        match event {
            _ if self.without_ecn => {}
            CwndEvent::EcnIsCe => self.echo.on_data(core, true),
            CwndEvent::EcnNoCe => self.echo.on_data(core, false),
            CwndEvent::Loss => self.on_loss(core),
            _ => {}
        }
    }

    fn undo_cwnd(&mut self, core: &mut Core) -> u32 {
        if self.without_ecn { self.reno.undo_cwnd(core) } else { core.cwnd.max(self.loss_cwnd) }
    }

    fn needs_ecn(&self) -> bool {
        !self.without_ecn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux_config::Config;

    fn connected(change: fn(&mut Config)) -> (Dctcp, Core) {
        let mut config = Config::linux_6_12();
        change(&mut config);
        let mut core = Core::new(1);
        (core.ecn, core.cwnd) = (true, 40);
        let mut dctcp = Dctcp::new(&config.into());
        dctcp.init(&mut core);
        (dctcp, core)
    }

    /// One window of data, of which so many packets are marked.
    fn window(dctcp: &mut Dctcp, core: &mut Core, packets: u64, marked: u64) -> u32 {
        core.delivered += packets;
        core.delivered_ce += marked;
        core.una = core.nxt;
        core.nxt += 1;
        dctcp.in_ack_event(core, AckEvent::ECE);
        dctcp.alpha
    }

    #[test]
    fn alpha_follows_the_part_that_is_marked() {
        let (mut dctcp, mut core) = connected(|_| ());
        assert_eq!(dctcp.ssthresh(&mut core), 20, "before the first window all is taken to be marked");
        assert_eq!(window(&mut dctcp, &mut core, 40, 10), 1024 - 64 + 16);
        assert_eq!(window(&mut dctcp, &mut core, 40, 0), 976 - 61);
        let (mut slow, mut core) =
            connected(|config| (config.dctcp_alpha_on_init, config.dctcp_shift_g) = (15, 8));
        assert_eq!(slow.ssthresh(&mut core), 40);
        // Less than the shift leaves falls to nothing.
        assert_eq!(window(&mut slow, &mut core, 100, 100), 4);
    }

    #[test]
    fn loss_halves_and_an_undo_restores() {
        let (mut dctcp, mut core) = connected(|config| config.dctcp_alpha_on_init = 0);
        assert_eq!(dctcp.ssthresh(&mut core), 40);
        dctcp.set_state(&mut core, CaState::Recovery);
        assert_eq!(core.ssthresh, 20);
        core.cwnd = 20;
        assert_eq!(dctcp.undo_cwnd(&mut core), 40);
        core.ssthresh = 20;
        dctcp.cwnd_event(&mut core, CwndEvent::Loss);
        assert_eq!(core.ssthresh, 10);
    }

    #[test]
    fn a_change_of_marks_is_answered_at_once() {
        let (mut dctcp, mut core) = connected(|_| ());
        let mut hear = |nxt, delays_ack, ce: bool| {
            core.receiving = super::super::Receiving { nxt, delays_ack, ..Default::default() };
            dctcp.cwnd_event(&mut core, if ce { CwndEvent::EcnIsCe } else { CwndEvent::EcnNoCe });
            let answer = core.receiving.answer;
            (answer.first, answer.ack_now, answer.echoes_ce)
        };
        assert_eq!(hear(100, true, false), (None, false, false));
        assert_eq!(hear(200, true, true), (Some((100, false)), true, true));
        assert_eq!(hear(300, false, true), (None, false, true));
        assert_eq!(hear(400, true, false), (Some((300, true)), true, false));
        assert_eq!(hear(500, false, true), (None, true, true));
    }

    #[test]
    fn without_ecn_it_is_reno() {
        let mut core = Core::new(1);
        core.cwnd = 40;
        let mut dctcp = Dctcp::new(&Config::linux_6_12().into());
        assert!(dctcp.needs_ecn());
        dctcp.init(&mut core);
        assert!(!dctcp.needs_ecn());
        dctcp.alpha = 0;
        assert_eq!(dctcp.ssthresh(&mut core), 20);
    }
}
