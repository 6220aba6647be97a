use super::*;
use crate::event::NO_VALUE;
use crate::linux_config::Config;

/// Round trip of the path, microseconds; 100 packets cross it in one.
const RTT_US: u64 = 40_000;

struct Path {
    bbr: Bbr3,
    core: Core,
    now_us: u64,
}

impl Path {
    fn new(change: fn(&mut Config)) -> Path {
        Path::of(Bbr3::version_3, change)
    }

    fn of(version: fn(&Shared) -> Bbr3, change: fn(&mut Config)) -> Path {
        let mut config = Config::linux_7_3();
        change(&mut config);
        let mut core = Core::new(3);
        (core.mss, core.srtt_us, core.min_rtt_us, core.delivered) = (1448, RTT_US, RTT_US as u32, 1);
        core.cwnd_limited = true;
        let mut bbr = version(&config.into());
        bbr.init(&mut core);
        Path { bbr, core, now_us: 0 }
    }

    /// Carries out a round trip in which so many packets arrived, of as many in flight.
    fn round(&mut self, delivered: u32, change: impl FnOnce(&mut RateSample)) {
        let prior_delivered = self.core.delivered;
        self.now_us += RTT_US;
        self.core.set_time(&crate::clock::HostClock::new(1000, 0, 0), self.now_us * 1000);
        self.core.delivered += u64::from(delivered);
        self.core.delivered_mstamp = self.now_us;
        self.core.packets_out = delivered;
        let mut sample = RateSample {
            delivered: Some(delivered),
            interval_us: RTT_US,
            prior_delivered,
            rtt_us: Some(RTT_US as u32),
            acked_sacked: delivered,
            prior_in_flight: delivered,
            tx_in_flight: delivered,
            ..RateSample::default()
        };
        change(&mut sample);
        self.bbr.cong_control(&mut self.core, &sample);
    }

    /// Values of events of a kind that were told.
    fn told(&self, of: EventKind) -> Vec<i64> {
        self.core.told.iter().filter(|(kind, _)| *kind == of).map(|&(_, value)| value).collect()
    }

    /// Rounds until it is in `phase`; returns how many.
    fn until(&mut self, phase: Phase, delivered: u32) -> u32 {
        for rounds in 0..200 {
            if self.bbr.mode == Mode::ProbeBw && self.bbr.phase == phase {
                return rounds;
            }
            self.round(delivered, |_| ());
        }
        panic!("{phase:?} does not come: {:?}", self.bbr);
    }

    /// A path of 100 packets whose bandwidth is known.
    fn known(change: fn(&mut Config)) -> Path {
        Path::known_of(Bbr3::version_3, change)
    }

    fn known_of(version: fn(&Shared) -> Bbr3, change: fn(&mut Config)) -> Path {
        let mut path = Path::of(version, change);
        for delivered in [10, 20, 40, 80, 100, 100, 100, 100] {
            path.round(delivered, |_| ());
        }
        path.until(Phase::Cruise, 84);
        path
    }
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drains() {
    let mut path = Path::new(|_| ());
    assert_eq!((path.bbr.pacing_gain, path.bbr.params.drain_gain), (710, 88));
    for delivered in [10, 20, 40, 80, 100, 100, 100] {
        path.round(delivered, |_| ());
        assert_eq!(path.bbr.mode, Mode::Startup);
    }
    path.round(100, |sample| sample.prior_in_flight = 200);
    assert!(path.bbr.full_bw_reached);
    // One burst more than a BDP counts as in flight while the gain is above 1.
    assert_eq!(path.bbr.mode, Mode::Drain);
    path.round(100, |_| ());
    assert_eq!((path.bbr.mode, path.bbr.phase), (Mode::ProbeBw, Phase::Cruise));
}

#[test]
fn startup_ends_by_six_losses_of_over_2_percent_and_bounds_what_is_in_flight() {
    for (lost, ends) in [(1, false), (6, true)] {
        let mut path = Path::new(|_| ());
        for delivered in [10, 20, 40, 80] {
            path.round(delivered, |_| ());
        }
        path.core.state = CaState::Recovery;
        for _ in 0..6 {
            path.round(100, |sample| {
                sample.losses = 1;
                (sample.lost, sample.prior_delivered) = (lost, 0);
            });
        }
        path.round(100, |sample| (sample.losses, sample.lost) = (1, lost));
        assert_eq!(path.bbr.full_bw_reached, ends, "{lost} of 100");
        assert_eq!(path.bbr.inflight_hi != UNBOUND, ends);
    }
}

#[test]
fn a_probe_refills_and_pushes_up_until_bandwidth_grows_no_more() {
    let mut path = Path::known(|_| ());
    let waited = path.until(Phase::Refill, 95);
    // 2 to 3 s, or as many rounds as there are packets, or 63.
    assert!((48..=76).contains(&(waited + 2)), "{waited} rounds of 40 ms");
    path.round(100, |_| ());
    assert_eq!(path.bbr.phase, Phase::Up);
    assert_eq!((path.bbr.pacing_gain, path.bbr.cwnd_gain), (320, 576));
    for _ in 0..3 {
        assert_eq!(path.bbr.phase, Phase::Up);
        path.round(100, |_| ());
    }
    assert_eq!((path.bbr.phase, path.bbr.pacing_gain), (Phase::Down, 232));
}

#[test]
fn loss_in_a_probe_leaves_what_was_in_flight_when_2_percent_were_lost() {
    let mut path = Path::known(|_| ());
    path.until(Phase::Up, 100);
    let lost = |lost| LostPacket { tx_in_flight: 120, lost, is_app_limited: false };
    path.bbr.packet_lost(&mut path.core, &lost(2));
    assert_eq!(path.bbr.inflight_hi, UNBOUND, "2 of 120 are less than 5/256");
    path.bbr.packet_lost(&mut path.core, &lost(3));
    assert_eq!(path.bbr.inflight_hi, 120);
    assert_eq!(path.bbr.phase, Phase::Down);
    path.bbr.packet_lost(&mut path.core, &LostPacket { tx_in_flight: 60, ..lost(9) });
    assert_eq!(path.bbr.inflight_hi, 120, "once per probe");
    assert_eq!(path.told(EventKind::BbrInflightHi), [120 * 1448]);
    // Cruising leaves 15 % of it to others.
    assert_eq!(path.bbr.inflight_with_headroom(), 120 - 120 * 38 / 256);
}

#[test]
fn loss_between_probes_cuts_lower_bounds_by_30_percent_and_a_probe_forgets_them() {
    let mut path = Path::known(|_| ());
    let before = (path.bbr.bw_latest, path.core.cwnd);
    path.round(50, |sample| (sample.losses, sample.lost) = (5, 5));
    // No lower than what arrived in the last round trip.
    assert_eq!((path.bbr.bw_lo, path.bbr.inflight_lo), (before.0, before.1 * 180 / 256));
    path.round(50, |sample| (sample.losses, sample.lost) = (5, 5));
    assert_eq!(
        (path.bbr.bw_lo, path.bbr.inflight_lo),
        (part(before.0, 180), part(before.1 * 180 / 256, 180))
    );
    assert_eq!(path.core.cwnd, path.bbr.inflight_lo);
    path.until(Phase::Refill, 50);
    assert_eq!((path.bbr.bw_lo, path.bbr.inflight_lo), (UNBOUND, UNBOUND));
}

#[test]
fn an_undo_brings_the_bounds_back() {
    let mut path = Path::known(|_| ());
    path.bbr.ssthresh(&mut path.core);
    let cwnd = path.core.cwnd;
    path.core.state = CaState::Recovery;
    path.round(50, |sample| (sample.losses, sample.lost) = (5, 5));
    path.round(50, |_| ());
    assert!(path.bbr.bw_lo < UNBOUND && path.core.cwnd < cwnd);
    let cut = i64::from(path.bbr.inflight_lo) * 1448;
    assert_eq!(path.bbr.undo_cwnd(&mut path.core), cwnd);
    assert_eq!((path.bbr.bw_lo, path.bbr.inflight_lo), (UNBOUND, UNBOUND));
    assert_eq!(path.told(EventKind::BbrInflightLo), [cut, NO_VALUE]);
}

#[test]
fn after_five_seconds_half_a_bdp_stays_in_flight_for_200_ms() {
    let mut path = Path::known(|_| ());
    let mut rounds = 0;
    while path.bbr.mode != Mode::ProbeRtt {
        path.round(84, |sample| sample.rtt_us = Some(RTT_US as u32 + 1000));
        rounds += 1;
        assert!(rounds < 130);
    }
    assert!(path.now_us > 5_000_000);
    assert_eq!(path.core.cwnd, path.bbr.bdp(path.bbr.bw(), 128));
    let before = path.now_us;
    while path.bbr.mode == Mode::ProbeRtt {
        path.round(path.core.cwnd, |_| ());
        assert!(path.now_us - before < 1_000_000, "{:?}", path.bbr);
    }
    assert!(path.now_us - before > 200_000, "{}", path.now_us - before);
    let phases = [EventKind::BbrProbeRtt, EventKind::BbrProbeBw, EventKind::BbrDown, EventKind::BbrCruise];
    let told: Vec<_> = path.core.told.iter().map(|&(kind, _)| kind).collect();
    let of_phases: Vec<_> = told.into_iter().filter(|kind| phases.contains(kind)).collect();
    assert!(of_phases.ends_with(&phases), "{of_phases:?}");
    assert_eq!(path.bbr.phase, Phase::Cruise);
}

#[test]
fn marks_count_where_routes_are_of_shallow_marks_and_round_trips_short() {
    fn low(config: &mut Config) {
        config.bbr3.marks = true;
    }
    fn low_anywhere(config: &mut Config) {
        low(config);
        config.bbr3.ecn_max_rtt_us = 0;
    }
    for (change, counts) in [((|_| ()) as fn(&mut Config), false), (low, false), (low_anywhere, true)] {
        let mut path = Path::known(change);
        path.core.ecn = true;
        path.bbr.loss_in_cycle = true;
        for _ in 0..3 {
            path.core.delivered_ce += 50;
            path.round(100, |sample| (sample.is_ece, sample.delivered_ce) = (true, 50));
        }
        assert_eq!(path.bbr.inflight_lo < UNBOUND, counts);
        assert_eq!(path.bbr.ecn_alpha < UNIT, counts);
        assert_eq!(path.bbr.bw_lo, UNBOUND, "marks cut no bandwidth");
    }
}

#[test]
fn bursts_of_short_paths_are_longer() {
    let mut path = Path::new(|_| ());
    path.core.pacing_rate = 10_000_000;
    path.bbr.size_bursts(&mut path.core);
    assert_eq!(path.core.tso_segs, 9765 / 1448);
    path.bbr.min_rtt_us = 600;
    path.bbr.size_bursts(&mut path.core);
    assert_eq!(path.core.tso_segs, (9765 + 32_768) / 1448);
}

const L4S: fn(&mut Config) = |_| ();
const L4S_2020: fn(&mut Config) = |config| config.bbr2 = BoundedBbr::L4S_2020;

#[test]
fn version_2_starts_up_and_drains_with_its_own_gains() {
    for change in [L4S, L4S_2020] {
        let mut path = Path::of(Bbr3::version_2, change);
        assert_eq!((path.bbr.pacing_gain, path.bbr.cwnd_gain), (739, 739));
        for delivered in [10, 20, 40, 80, 100, 100, 100] {
            path.round(delivered, |_| ());
            assert_eq!(path.bbr.mode, Mode::Startup);
        }
        path.round(100, |sample| sample.prior_in_flight = 200);
        assert_eq!((path.bbr.mode, path.bbr.pacing_gain, path.bbr.cwnd_gain), (Mode::Drain, 88, 739));
        path.round(100, |_| ());
        assert_eq!((path.bbr.mode, path.bbr.phase), (Mode::ProbeBw, Phase::Cruise));
    }
}

/// A sample within a round, lower than the round's, is growth to neither; one that is higher is to the newer.
#[test]
fn version_2_of_2020_looks_for_growth_once_a_round() {
    for (change, full) in [(L4S, 100), (L4S_2020, 50)] {
        let mut path = Path::of(Bbr3::version_2, change);
        path.round(50, |_| ());
        path.round(100, |sample| sample.prior_delivered = 0);
        assert_eq!(u64::from(path.bbr.full_bw), (full * BW_UNIT).div_ceil(RTT_US));
    }
}

#[test]
fn version_2_ends_start_up_by_eight_losses_and_bounds_what_is_in_flight_by_the_bdp() {
    for (acks, ends) in [(6, false), (7, true)] {
        let mut path = Path::of(Bbr3::version_2, L4S);
        for delivered in [10, 20, 40, 80] {
            path.round(delivered, |_| ());
        }
        path.core.state = CaState::Recovery;
        for _ in 0..acks {
            path.round(100, |sample| {
                (sample.losses, sample.lost, sample.prior_delivered) = (1, 6, 0);
            });
        }
        path.round(120, |sample| (sample.losses, sample.lost) = (1, 6));
        assert_eq!(path.bbr.full_bw_reached, ends, "{acks} and one more");
        if ends {
            assert_eq!(path.bbr.inflight_hi, path.bbr.bdp(path.bbr.max_bw(), UNIT));
        }
    }
}

/// Bandwidth that grows no more does not end a probe of version 2: what is in flight does, a quarter above the BDP, after a round trip.
#[test]
fn a_probe_of_version_2_ends_at_a_queue_of_a_quarter_of_the_bdp() {
    for (change, down, up_cwnd) in [(L4S, 232, 576), (L4S_2020, 192, 512)] {
        let mut path = Path::known_of(Bbr3::version_2, change);
        path.until(Phase::Up, 100);
        for _ in 0..6 {
            path.round(100, |_| ());
            assert_eq!((path.bbr.phase, path.bbr.cwnd_gain), (Phase::Up, up_cwnd));
        }
        let full = path.bbr.inflight_for(&path.core, path.bbr.max_bw(), 320);
        let below = full - path.core.tso_segs - 1;
        path.round(100, |sample| sample.prior_in_flight = below);
        assert_eq!(path.bbr.phase, Phase::Up);
        path.round(100, |sample| sample.prior_in_flight = full);
        assert_eq!((path.bbr.phase, path.bbr.pacing_gain), (Phase::Down, down));
    }
}

#[test]
fn marks_cut_version_2_on_every_path_and_half_of_the_packets_end_its_probe() {
    let mut path = Path::known_of(Bbr3::version_2, L4S);
    path.core.ecn = true;
    assert!(path.bbr.ecn_eligible, "alpha is kept from the first round on");
    let (cwnd, alpha) = (path.core.cwnd, path.bbr.ecn_alpha);
    assert!(alpha < UNIT);
    path.core.delivered_ce += 50;
    path.round(100, |sample| (sample.is_ece, sample.delivered_ce) = (true, 50));
    let alpha = part(alpha, 240) + part(128, 16);
    assert_eq!(path.bbr.ecn_alpha, alpha);
    assert_eq!(path.bbr.inflight_lo, part(cwnd, UNIT - part(alpha, 85)));
    assert_eq!(path.bbr.bw_lo, UNBOUND, "marks cut no bandwidth");
    // No growth at once where marks end.
    path.round(84, |_| ());
    assert_eq!(path.bbr.phase, Phase::Cruise);
    path.until(Phase::Up, 100);
    path.round(100, |sample| sample.delivered_ce = 49);
    assert_eq!(path.bbr.phase, Phase::Up);
    path.round(100, |sample| (sample.delivered_ce, sample.tx_in_flight) = (50, 90));
    assert_eq!((path.bbr.phase, path.bbr.inflight_hi), (Phase::Down, 90));
}

#[test]
fn version_2_without_ecn_enable_leaves_marks_alone() {
    let mut path = Path::known_of(Bbr3::version_2, |config| config.bbr2.marks = false);
    path.core.ecn = true;
    path.core.delivered_ce += 50;
    path.round(100, |sample| (sample.is_ece, sample.delivered_ce) = (true, 50));
    assert!(!path.bbr.ecn_eligible);
    assert_eq!(path.bbr.inflight_lo, UNBOUND);
}

#[test]
fn packets_of_version_2_alone_ask_for_ect_1() {
    let config = Config::linux_7_3().into();
    assert!(Bbr3::version_2(&config).sends_ect1() && !Bbr3::version_2(&config).is_l4s());
    assert!(!Bbr3::version_3(&config).sends_ect1());
}
