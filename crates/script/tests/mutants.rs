//! Every planted bug of the models fails the script that is about its mechanism: a script that cannot fail shows nothing.

use script::{Choices, run_file};
use tcp::mutants::{Mutant, wake};

/// Tolerance of every event, nanoseconds, as in the test of the models.
const TOLERANCE: u64 = 4_000_000;

/// Mutants, each with the script that must notice it, and a stack on which the script passes otherwise.
const PLANTED: &[(Mutant, &str, &str)] = &[
    (Mutant::SlowStartCountsAcks, "linux-slow-start-4", "linux-6.18"),
    (Mutant::SlowStartCountsAcks, "linux-slow-start-45", "linux-6.8"),
    (Mutant::StretchAcksCount, "freebsd13-slow-start-45", "freebsd-13"),
    (Mutant::StretchAcksCount, "freebsd92-slow-start-4", "freebsd-9.2"),
    (Mutant::GrowsUnused, "linux-app-limited", "linux-6.18"),
    (Mutant::NoIdleRestart, "linux-idle-restart", "linux-6.18"),
    (Mutant::NoLimitedTransmit, "freebsd13-limited-transmit", "freebsd-13"),
    (Mutant::NoLimitedTransmit, "freebsd92-limited-transmit", "freebsd-9.2"),
    (Mutant::FourDuplicates, "linux-fast-retransmit-sack", "linux-6.18"),
    (Mutant::NoPartialAck, "linux-newreno-partial-ack", "linux-6.18"),
    (Mutant::NoDip, "freebsd92-fast-retransmit-sack", "freebsd-9.2"),
    (Mutant::NoPrr, "linux-prr", "linux-6.18"),
    (Mutant::NoPrr, "linux-sack-recovery-two-holes", "linux-6.8"),
    (Mutant::NoPrr, "freebsd13-fast-retransmit-sack", "freebsd-13"),
    (Mutant::NoReorderingWindow, "linux-rack-reordering", "linux-6.18"),
    (Mutant::LostRetransmissionStays, "linux-rack-lost-retransmission", "linux-6.18"),
    (Mutant::NoTailLossProbe, "linux-tlp-retransmit", "linux-6.18"),
    (Mutant::NoTailLossProbe, "linux-tlp-new-data", "linux-6.8"),
    (Mutant::NoFrto, "linux-frto-spurious", "linux-6.18"),
    (Mutant::NoBackoff, "linux-rto-backoff", "linux-6.18"),
    (Mutant::NoSlop, "freebsd92-rto-backoff", "freebsd-9.2"),
    (Mutant::NoTimestampUndo, "linux-rto-undo-timestamps", "linux-6.18"),
    (Mutant::NoTimeoutUndo, "freebsd13-rto-undo", "freebsd-13"),
    (Mutant::NoTimeoutUndo, "freebsd92-rto-undo", "freebsd-9.2"),
    (Mutant::CubicHalves, "linux-cubic-beta", "linux-6.18"),
    (Mutant::CubicWithoutK, "linux-cubic-growth", "linux-6.18"),
    (Mutant::NoHyStart, "linux-hystart-delay", "linux-6.18"),
    (Mutant::EchoIgnored, "linux-ecn-reduces", "linux-6.18"),
    (Mutant::EchoIgnored, "freebsd13-ecn-reduces", "freebsd-13"),
    (Mutant::NoCwr, "linux-ecn-reduces", "linux-6.8"),
    (Mutant::NoEcnEcho, "linux-ecn-echo", "linux-6.18"),
    (Mutant::NoEcnEcho, "freebsd13-ecn-echo", "freebsd-13"),
    (Mutant::WindowIgnored, "window-limits-sender", "linux-6.18"),
    (Mutant::NoPersist, "linux-zero-window", "linux-6.18"),
    (Mutant::NoWindowUpdate, "freebsd13-window-update", "freebsd-13"),
    (Mutant::NoDelayedAck, "freebsd13-delayed-ack", "freebsd-13"),
    (Mutant::NoDelayedAck, "freebsd92-delayed-ack", "freebsd-9.2"),
    (Mutant::NoQuickAck, "linux-quick-ack", "linux-6.18"),
    (Mutant::OutOfOrderWaits, "out-of-order-is-acknowledged", "freebsd-13"),
    (Mutant::NoDsack, "dsack", "linux-6.18"),
    (Mutant::DsackAlwaysBelieved, "linux-dsack-unexplained", "linux-6.18"),
    (Mutant::OldTimestampsEchoed, "linux-timestamps-echoed", "linux-6.18"),
    (Mutant::OldTimestampsEchoed, "freebsd13-timestamps-echoed", "freebsd-13"),
    (Mutant::NoNagle, "nagle", "linux-6.18"),
    (Mutant::SynSentOnce, "linux-syn-retransmit", "linux-6.18"),
    (Mutant::OffersAll, "synack-echoes-offers", "linux-6.18"),
    (Mutant::NoClosing, "freebsd-close-simultaneous", "freebsd-13"),
    (Mutant::TimeWaitSilent, "close-active", "linux-6.18"),
    (Mutant::UnreadMistaken, "linux-close-with-unread-data", "linux-6.18"),
    (Mutant::UnreadMistaken, "freebsd-close-with-unread-data", "freebsd-13"),
    (Mutant::DataAfterClose, "data-after-close", "linux-6.18"),
    (Mutant::SynNotHastened, "linux-syn-hastened", "linux-6.18"),
    (Mutant::ChallengesWithoutEnd, "linux-invalid-ratelimit", "linux-6.18"),
    (Mutant::StretchAcksCount, "windows-slow-start", "windows-7"),
    (Mutant::NoDelayedAck, "windows-delayed-ack", "windows-7"),
    (Mutant::NoBackoff, "windows-rto-backoff", "windows-7"),
    (Mutant::NoLimitedTransmit, "windows-fast-retransmit", "windows-7"),
    (Mutant::NoIdleRestart, "windows-idle-restart", "windows-7"),
    (Mutant::NoIdleRestart, "freebsd13-idle-restart", "freebsd-13"),
    (Mutant::NoIdleRestart, "freebsd92-idle-restart", "freebsd-9.2"),
    (Mutant::TimeWaitSilent, "close-time-wait", "linux-6.18"),
    (Mutant::SynSentOnce, "windows-syn-retransmit", "windows-7"),
    (Mutant::NoPersist, "windows-closed-window", "windows-7"),
    (Mutant::ResetIgnored, "reset-established", "freebsd-9.2"),
    (Mutant::ResetIgnored, "challenge-ack-syn", "linux-6.18"),
    (Mutant::AnyResetCounts, "challenge-ack-reset", "freebsd-13"),
    (Mutant::RackReducesAtOnce, "freebsd13rack-detection", "freebsd-13/rack"),
    (Mutant::RackWithoutWindow, "freebsd13rack-reordering-seen", "freebsd-13/rack"),
    (Mutant::RackWithoutWindow, "freebsd15rack-reordering-window", "freebsd-15-current/rack"),
    (Mutant::RackForgetsRetransmissions, "freebsd13rack-lost-retransmission", "freebsd-13/rack"),
    (Mutant::RackNeverProbes, "freebsd13rack-tlp", "freebsd-13/rack"),
    (Mutant::RackNeverProbes, "freebsd13rack-tlp-new-data", "freebsd-13/rack"),
    (Mutant::NoSlop, "freebsd13rack-rto", "freebsd-13/rack"),
    (Mutant::RackNeverUndoes, "freebsd13rack-undo", "freebsd-13/rack"),
    (Mutant::RackCreditLost, "freebsd13rack-recovery-exit", "freebsd-13/rack"),
    (Mutant::RackCreditLost, "freebsd13rack-recovery-exit-pipe", "freebsd-13/rack"),
    (Mutant::RackNeverWaits, "freebsd13rack-wait-after-burst", "freebsd-13/rack"),
    (Mutant::RackBurstsFreely, "freebsd13rack-burst", "freebsd-13/rack"),
    (Mutant::NoHyStartPlusPlus, "freebsd15rack-hystart", "freebsd-15-current/rack"),
];

#[test]
fn every_planted_bug_fails_its_script() {
    let mut missed = Vec::new();
    for &(mutant, name, stack) in PLANTED {
        let path = format!("{}/scripts/{name}.pkt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        wake(None);
        let choices = Choices { tolerance: Some(TOLERANCE), ..Choices::default() };
        let sound = run_file(&text, name, stack, &choices);
        assert_eq!(sound.exit_code, 0, "{name} on {stack} without a planted bug: {:?}", sound.message);
        wake(Some(mutant));
        let outcome = std::panic::catch_unwind(|| run_file(&text, name, stack, &choices));
        wake(None);
        let caught = outcome.map_or(Some("panicked".into()), |outcome| outcome.message);
        match caught {
            Some(message) => {
                println!("{mutant:?} on {stack}: {}", message.lines().next().unwrap_or_default())
            }
            None => missed.push(format!("{name} on {stack} does not notice {mutant:?}")),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
