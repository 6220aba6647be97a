//! Sender and receiver of media over a link of their own.

use std::collections::VecDeque;

use super::*;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

pub(super) fn media() -> Media {
    Media {
        controller: Controller::Scream,
        min_bps: 150_000,
        max_bps: 1_500_000,
        start_bps: 150_000,
        fps: 30,
        variation_ppb: 0,
        payload: 1200,
        feedback: None,
        ecn: EcnField::Off,
    }
}

/// Course of a run over a link with 50 ms each way and a queue of 300 ms.
struct Course {
    /// Target rate at each report.
    targets: Vec<(Nanos, u64)>,
    /// Queueing delays.
    queueing: Vec<(Nanos, Nanos)>,
    lost: u64,
    left_out: u64,
}

impl Course {
    fn mean_bps(&self, from: Nanos, to: Nanos) -> f64 {
        let of: Vec<u64> =
            self.targets.iter().filter(|(at, _)| (from..to).contains(at)).map(|&(_, bps)| bps).collect();
        of.iter().sum::<u64>() as f64 / of.len() as f64
    }

    fn mean_queueing(&self, from: Nanos, to: Nanos) -> f64 {
        let of: Vec<Nanos> =
            self.queueing.iter().filter(|(at, _)| (from..to).contains(at)).map(|&(_, wait)| wait).collect();
        of.iter().sum::<u64>() as f64 / of.len() as f64 / 1e6
    }
}

/// Carries media out over a link whose rate is a function of time; `hears` says whether a report of such a time gets through, `marks`
/// beyond which queueing delay a packet is marked.
fn carry(
    media: &Media,
    until: Nanos,
    rate: impl Fn(Nanos) -> u64,
    hears: impl Fn(Nanos) -> bool,
    marks: Option<Nanos>,
) -> Course {
    let mut sender = MediaSender::new(media, 0, path::stream(1, 0, "frames", "f"));
    let mut receiver = MediaReceiver::new(media);
    let mut there: VecDeque<(Nanos, Outgoing, bool)> = VecDeque::new();
    let mut back: VecDeque<(Nanos, Report)> = VecDeque::new();
    let (mut free_at, mut now) = (0, 0);
    let mut course = Course { targets: Vec::new(), queueing: Vec::new(), lost: 0, left_out: 0 };
    while now < until {
        while there.front().is_some_and(|&(at, ..)| at <= now) {
            let (at, packet, ce) = there.pop_front().expect("it is there");
            receiver.take(at, packet.number, packet.payload, ce, sender.ends_frame(packet.number));
        }
        while back.front().is_some_and(|(at, _)| *at <= now) {
            let (_, report) = back.pop_front().expect("it is there");
            let seen = sender.on_report(now, &report);
            course.targets.push((now, seen.target_bps));
            course.left_out += seen.left_out;
        }
        while let Some(packet) = sender.send(now) {
            let start = now.max(free_at);
            let wait = start - now;
            if wait > 300 * MS {
                course.lost += 1;
                continue;
            }
            course.queueing.push((now, wait));
            free_at = start + u64::from(packet.payload + 42) * 8 * SECOND / rate(start);
            there.push_back((free_at + 50 * MS, packet, marks.is_some_and(|beyond| wait > beyond)));
        }
        if receiver.due().is_some_and(|due| due <= now) {
            let report = receiver.report(now);
            if hears(now) {
                back.push_back((now + 50 * MS, report));
            }
        }
        let times =
            [Some(sender.due()), receiver.due(), there.front().map(|p| p.0), back.front().map(|p| p.0)];
        now = times.into_iter().flatten().min().expect("a frame").max(now);
    }
    course
}

const BOTH: [Controller; 2] = [Controller::Scream, Controller::Gcc];

/// RFC 8867 section 5.1: a single flow finds the capacity and follows it down, without a standing queue.
#[test]
fn media_follow_the_capacity() {
    for controller in BOTH {
        let media = Media { controller, ..media() };
        let rate = |at: Nanos| match at / SECOND {
            ..40 => 1_000_000,
            40..60 => 2_500_000,
            60..80 => 600_000,
            _ => 1_000_000,
        };
        let course = carry(&media, 100 * SECOND, rate, |_| true, None);
        let mean = |from, to| course.mean_bps(from * SECOND, to * SECOND) / 1e3;
        let found = [mean(30, 40), mean(55, 60), mean(70, 80), mean(95, 100)];
        assert!((650.0..1000.0).contains(&found[0]), "{controller:?}: {found:?}");
        assert!((1000.0..=1500.0).contains(&found[1]), "{controller:?}: {found:?}");
        assert!((350.0..600.0).contains(&found[2]), "{controller:?}: {found:?}");
        assert!((600.0..1000.0).contains(&found[3]), "{controller:?}: {found:?}");
        assert!(course.mean_queueing(20 * SECOND, 40 * SECOND) < 100.0, "{controller:?}");
    }
}

/// Where nothing limits the media, they reach their largest rate and stay there.
#[test]
fn media_reach_their_largest_rate() {
    for controller in BOTH {
        let media = Media { controller, ..media() };
        let course = carry(&media, 60 * SECOND, |_| 10_000_000, |_| true, None);
        assert!(course.mean_bps(50 * SECOND, 60 * SECOND) > 1.45e6, "{controller:?}");
        assert_eq!((course.lost, course.left_out), (0, 0), "{controller:?}");
    }
}

/// Without reports SCReAM sends little, and goes on when there are some again.
#[test]
fn a_window_without_reports_closes_and_opens_again() {
    let media = media();
    let silent = |at: Nanos| !(20 * SECOND..25 * SECOND).contains(&at);
    let course = carry(&media, 40 * SECOND, |_| 1_000_000, silent, None);
    let sent = course.queueing.iter().filter(|(at, _)| (22 * SECOND..25 * SECOND).contains(at)).count();
    // A packet of 1200 bytes takes 192 ms at 50 kbit/s.
    assert!((5..=30).contains(&sent), "{sent}");
    assert!(course.left_out > 0);
    assert!(course.mean_bps(28 * SECOND, 34 * SECOND) > 400_000.0);
}

/// Marks keep SCReAM's queue shorter than its delay target would; GCC does not look at them.
#[test]
fn scream_reacts_to_marks() {
    let queue = |controller, marks| {
        let course = carry(&Media { controller, ..media() }, 60 * SECOND, |_| 1_000_000, |_| true, marks);
        course.mean_queueing(30 * SECOND, 60 * SECOND)
    };
    let scream = [None, Some(10 * MS)].map(|marks| queue(Controller::Scream, marks));
    assert!(scream[1] < 0.8 * scream[0], "{scream:?}");
    assert_eq!(queue(Controller::Gcc, None), queue(Controller::Gcc, Some(10 * MS)));
}

/// A packet that comes late counts as lost once, and then widens the time that is waited for such.
#[test]
fn reordering_widens_the_time_that_is_waited() {
    let mut sender = MediaSender::new(&media(), 0, path::stream(1, 0, "frames", "f"));
    let mut now = 0;
    while sender.count() < 6 {
        while sender.send(now).is_some() {}
        now = sender.due();
    }
    let came = |at| Some(Arrival { at, ce: false });
    let report = |made, packets| Report { made, begin: 0, packets };
    let first = sender.on_report(1000 * MS, &report(990 * MS, vec![came(980 * MS), None, came(985 * MS)]));
    assert_eq!(first.lost_ppm, Some(333_333));
    let later = vec![came(980 * MS), came(1000 * MS), came(985 * MS), None, came(1001 * MS)];
    assert_eq!(sender.on_report(1020 * MS, &report(1010 * MS, later.clone())).lost_ppm, Some(0));
    assert_eq!(sender.reordering(), 20 * MS);
    assert_eq!(sender.on_report(1030 * MS, &report(1015 * MS, later.clone())).lost_ppm, None);
    assert_eq!(sender.on_report(1040 * MS, &report(1025 * MS, later)).lost_ppm, Some(1_000_000));
}
