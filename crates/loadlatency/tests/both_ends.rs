//! Both ends over the loopback: what is measured, who is refused, and how a run ends early.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use common::TestServer;
use loadlatency::{client, server, wire};
use measure::{Direction, Document, Scenario, classic};

static NEVER: AtomicBool = AtomicBool::new(false);

fn measured(options: &client::Options) -> (Document, String) {
    let mut printed = String::new();
    let outcome = client::run(options, &NEVER, &mut |piece| printed.push_str(piece)).expect("a run");
    assert_eq!(outcome.error, None);
    (outcome.document, printed)
}

fn bytes_of_bins(scenario: &Scenario) -> Vec<(u64, u64)> {
    scenario.transfers.iter().map(|t| (t.bytes, t.bins.iter().sum())).collect()
}

#[test]
fn scenarios_are_carried_out_and_every_metric_is_there() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let (document, printed) = measured(&server.client("127.0.0.1", &[1, 2, 12], 1.2));
    assert_eq!(printed, document.classic, "what is printed on the way is what is kept");
    assert_eq!(document.conditions.status, "complete");
    let read: Vec<_> = printed.lines().filter_map(|line| classic::parse(line).ok()).collect();
    assert_eq!(read.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 12]);

    let scenarios = &document.observed.scenarios;
    let names = |s: &Scenario| s.transfers.iter().map(|t| t.name.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(scenarios.iter().map(names).collect::<Vec<_>>(), ["down1", "up1", "up1 down1 up2 down2"]);
    for (scenario, metrics) in scenarios.iter().zip(&document.metrics) {
        assert!((1_200_000_000..5_000_000_000).contains(&scenario.duration_ns));
        assert!(!scenario.forced && !scenario.interrupted);
        for (bytes, in_bins) in bytes_of_bins(scenario) {
            assert!(bytes > 0);
            assert_eq!(bytes, in_bins, "every byte lies in an interval");
        }
        for transfer in &scenario.transfers {
            assert_eq!(transfer.killed, None);
            assert!(transfer.start_ns < transfer.end_ns);
            assert!(transfer.longest_gap_ns < transfer.end_ns - transfer.start_ns);
            let known = cfg!(not(target_vendor = "apple"));
            assert_eq!((transfer.sender.cc.is_some(), transfer.receiver.ecn.is_some()), (known, known));
        }
        assert!(scenario.pings.iter().any(|p| p.answered));
        assert!(metrics.smoothness_hz > 0.0 && metrics.responsiveness_hz.is_some());
        assert!(metrics.rpm.is_some(), "probes of all three kinds: {metrics:?}");
        assert!(metrics.one_way.is_some() && metrics.bufferbloat.is_some());
    }
    assert!(document.overall.upload_capacity_kib_s > Some(0.0));
    assert!(document.overall.download_capacity_kib_s > Some(0.0));
    assert!(document.metrics[2].jain_up.is_some());
}

#[test]
fn ipv6_a_secret_and_a_staircase() {
    let secret = "correct horse".to_owned();
    let server =
        TestServer::start("::1", server::Options { secret: secret.clone(), ..server::Options::default() });
    let options =
        client::Options { secret, staircase: true, scenarios: None, ..server.client("[::1]", &[], 0.5) };
    let (document, _) = measured(&options);
    let stairs = document.staircase.expect("a staircase");
    let counts: Vec<_> = stairs.steps.iter().map(|s| (s.uploads, s.downloads)).collect();
    assert_eq!(counts, (1..=8).map(|k| (k, k)).collect::<Vec<_>>());
    assert_eq!(stairs.classes.iter().map(|c| c.dscp).collect::<Vec<_>>(), [0, 8, 40, 46]);
    assert!(
        document.classic.lines().count() == 1,
        "it has no part in the classic output: {}",
        document.classic
    );
}

#[test]
fn those_who_do_not_know_the_secret_are_refused() {
    let options = server::Options { secret: "open sesame".into(), ..server::Options::default() };
    let server = TestServer::start("127.0.0.1", options);
    for secret in ["", "open sesam"] {
        let options = client::Options { secret: secret.into(), ..server.client("127.0.0.1", &[1], 0.5) };
        let why = client::run(&options, &NEVER, &mut |_| ()).expect_err("refused").to_string();
        assert!(why.contains("refused the secret"), "{why}");
    }
    let open = TestServer::start("127.0.0.1", server::Options::default());
    let options = client::Options { secret: "open sesame".into(), ..open.client("127.0.0.1", &[1], 0.5) };
    let why =
        client::run(&options, &NEVER, &mut |_| ()).expect_err("a server that knows no secret").to_string();
    assert!(why.contains("does not know the secret"), "{why}");
}

#[test]
fn one_client_at_a_time() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    // So long that it is not over, however late the second comes.
    let endless = server.client("127.0.0.1", &[1], 600.0);
    let options = client::Options { duration_s: Some(1.5), ..endless.clone() };
    let cancel = AtomicBool::new(false);
    thread::scope(|scope| {
        let first = scope.spawn(|| client::run(&endless, &cancel, &mut |_| ()).expect("what there is"));
        let begun = server.said.recv_timeout(Duration::from_secs(20)).expect("says so");
        assert!(begun.contains("begins"), "{begun}");
        let why = client::run(&options, &NEVER, &mut |_| ()).expect_err("the server is busy").to_string();
        cancel.store(true, Ordering::Relaxed);
        assert!(why.contains("another client"), "{why}");
        let outcome = first.join().expect("is not disturbed");
        assert_eq!(outcome.error.as_deref(), Some("interrupted"));
    });
    assert_eq!(measured(&options).0.conditions.status, "complete", "and the next is served");
}

/// Passes connections on to a server, what a client says a while after it was said; its port.
fn delaying(server_port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for near in listener.incoming() {
            let Ok(near) = near else { return };
            let far = TcpStream::connect(("127.0.0.1", server_port)).expect("the server");
            join(&near, &far, Duration::from_millis(50), u64::MAX);
        }
    });
    port
}

#[test]
fn clients_one_right_after_the_other_are_all_served() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let close_by = server.client("127.0.0.1", &[], 1.0);
    // The goodbye of one far away is still on its way when one close by comes.
    let far_away = client::Options { port: delaying(server.port), ..close_by.clone() };
    for options in [&far_away, &close_by, &close_by, &far_away, &close_by] {
        assert_eq!(measured(options).0.conditions.status, "complete");
    }
    // So is that of one that was interrupted.
    let cancelled = AtomicBool::new(true);
    let outcome = client::run(&far_away, &cancelled, &mut |_| ()).expect("what there is");
    assert_eq!(outcome.error.as_deref(), Some("interrupted"));
    assert_eq!(measured(&close_by).0.conditions.status, "complete");
}

#[test]
fn another_version_is_told_so() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connected");
    stream.write_all(b"LDLT\x00\x63\x01\x000123456789abcdef").expect("sent");
    let mut answer = [0; wire::GREETING];
    stream.read_exact(&mut answer).expect("answered");
    assert_eq!(wire::read_answer(&answer), Some(wire::Status::Version));
}

#[test]
fn an_interrupt_ends_a_run_with_the_results_so_far() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let options = server.client("127.0.0.1", &[1, 2, 3], 60.0);
    let cancel = AtomicBool::new(false);
    let mut pieces = 0;
    let outcome = thread::scope(|scope| {
        client::run(&options, &cancel, &mut |piece| {
            pieces += 1;
            // Two seconds into the flows, whenever they begin.
            if piece.contains("Scenario 1: ") {
                scope.spawn(|| {
                    thread::sleep(Duration::from_secs(2));
                    cancel.store(true, Ordering::Relaxed);
                });
            }
        })
        .expect("what there is")
    });
    assert_eq!(outcome.error.as_deref(), Some("interrupted"));
    assert_eq!(outcome.document.conditions.status, "interrupted");
    let [scenario] = outcome.document.observed.scenarios.as_slice() else { panic!("one was begun") };
    assert!(scenario.interrupted);
    assert_eq!(
        (scenario.transfers[0].direction, scenario.transfers[0].killed.clone()),
        (Direction::Down, None)
    );
    assert!(outcome.document.overall.download_capacity_kib_s > Some(0.0));
}

#[test]
fn a_scenario_ends_when_it_is_stable_or_is_forced_to() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let options =
        client::Options { duration_s: None, at_most_s: 1.5, ..server.client("127.0.0.1", &[1], 1.0) };
    let (document, _) = measured(&options);
    let forced = &document.observed.scenarios[0];
    assert!(forced.forced, "1.5 s are too short to tell");
    assert!((1_500_000_000..4_000_000_000).contains(&forced.duration_ns));
    let options = client::Options { at_most_s: 8.0, ..options };
    let (document, _) = measured(&options);
    let ended = &document.observed.scenarios[0];
    // On a machine that others use it may never be; there, what ends by itself in the last second may end after it.
    assert!(!ended.forced || ended.duration_ns >= 8_000_000_000);
    assert!(ended.duration_ns >= 6_000_000_000, "six whole seconds are looked at");
}

/// Bytes of a download after which it is cut.
const CUT_AFTER: u64 = 16 << 20;

/// Passes connections on to a server, and cuts the first download in its midst; its port.
fn cutting(server_port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        let mut cut = false;
        for stream in listener.incoming() {
            let Ok(mut near) = stream else { return };
            let far = TcpStream::connect(("127.0.0.1", server_port)).expect("the server");
            // A connection that is opened to time that says nothing.
            let mut greeting = [0; wire::GREETING];
            if near.read_exact(&mut greeting).is_err() || (&far).write_all(&greeting).is_err() {
                continue;
            }
            let mut opening = [0; wire::SESSION + 6];
            let is_flow = wire::read_greeting(&greeting) == Ok(wire::Role::Flow);
            if is_flow && (near.read_exact(&mut opening).is_err() || (&far).write_all(&opening).is_err()) {
                continue;
            }
            let direction = wire::Opening::read(&opening).map(|flow| flow.direction);
            if is_flow && !cut && direction == Some(Direction::Down) {
                cut = true;
                join(&near, &far, Duration::ZERO, CUT_AFTER);
            } else {
                join(&near, &far, Duration::ZERO, u64::MAX);
            }
        }
    });
    port
}

/// Passes on what either end says to the other, what comes from `near` so much later; cuts the connection after so many
/// bytes from `far`.
fn join(near: &TcpStream, far: &TcpStream, later: Duration, cut_after: u64) {
    for (from, to, later, most) in [(near, far, later, u64::MAX), (far, near, Duration::ZERO, cut_after)] {
        let [mut from, mut to] = [from, to].map(|stream| stream.try_clone().expect("cloned"));
        thread::spawn(move || {
            let (mut some, mut passed) = ([0; 16 << 10], 0);
            while passed < most
                && let Ok(count @ 1..) = from.read(&mut some)
            {
                thread::sleep(later);
                if to.write_all(&some[..count]).is_err() {
                    break;
                }
                passed += count as u64;
            }
            // However it ended, the other side is told, if it is still there.
            let how = if passed < most { Shutdown::Write } else { Shutdown::Both };
            let _ = to.shutdown(how);
            if passed >= most {
                let _ = from.shutdown(how);
            }
        });
    }
}

#[test]
fn a_connection_that_dies_counts_as_zero_and_the_run_goes_on() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let options = client::Options { port: cutting(server.port), ..server.client("127.0.0.1", &[3, 1], 2.0) };
    let (document, printed) = measured(&options);
    let killed = &document.observed.scenarios[0];
    let dead: Vec<_> = killed.transfers.iter().filter(|t| t.killed.is_some()).collect();
    assert_eq!(dead.len(), 1, "{:?}", killed.transfers.iter().map(|t| &t.killed).collect::<Vec<_>>());
    assert!(dead[0].end_ns < killed.duration_ns && dead[0].bytes > 0);
    assert!(
        printed.contains("Scenario 3: 0 uploads, 2 downloads... 0 KiB/s down, 0.00 Hz smoothness\n"),
        "{printed}"
    );
    assert!(printed.contains("Download Capacity: 0 KiB/s\n"), "{printed}");
    assert!(document.metrics[1].down_kib_s > Some(0.0), "the next scenario is well");
}

#[test]
fn a_session_has_an_end() {
    let options = server::Options { session_timeout_s: 4, ..server::Options::default() };
    let server = TestServer::start("127.0.0.1", options);
    let outcome =
        client::run(&server.client("127.0.0.1", &[4], 60.0), &NEVER, &mut |_| ()).expect("what there is");
    assert_eq!(outcome.error.as_deref(), Some("the server ended the run: it took longer than 4 s"));
    assert_eq!(outcome.document.conditions.status, "failed");
    let [scenario] = outcome.document.observed.scenarios.as_slice() else { panic!("one was begun") };
    assert!(scenario.interrupted);
    assert!(scenario.transfers.iter().all(|t| t.killed.is_none()), "the end of the run killed nobody");
}

#[test]
fn a_silent_client_is_given_up() {
    let server =
        TestServer::start("127.0.0.1", server::Options { idle_timeout_s: 3, ..server::Options::default() });
    let mut silent = TcpStream::connect(("127.0.0.1", server.port)).expect("connected");
    silent
        .write_all(&[&wire::greeting(wire::Role::Pinger)[..], &[0; wire::NONCE + wire::PROOF]].concat())
        .expect("sent");
    let lines: Vec<String> =
        (0..2).map(|_| server.said.recv_timeout(Duration::from_secs(20)).expect("says so")).collect();
    assert!(lines[1].contains("nothing was heard for 3 s"), "{lines:?}");
    let (document, _) = measured(&server.client("127.0.0.1", &[1], 0.5));
    assert_eq!(document.conditions.status, "complete");
}

#[test]
fn a_server_that_is_none_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("sent");
        let mut rest = Vec::new();
        // Until the client is gone.
        let _ = stream.read_to_end(&mut rest);
    });
    let options = client::Options { host: "127.0.0.1".into(), port, ..client::Options::default() };
    let why = client::run(&options, &NEVER, &mut |_| ()).expect_err("no server").to_string();
    assert!(why.ends_with("this is no loadlatency server"), "{why}");
    let closed = client::Options { port: 1, ..options };
    let why = client::run(&closed, &NEVER, &mut |_| ()).expect_err("nobody listens").to_string();
    assert!(why.starts_with("cannot reach 127.0.0.1:1"), "{why}");
}

#[test]
fn the_document_describes_the_bytes() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/wire.md")).expect("the page");
    for number in [wire::VERSION.into(), u64::from(wire::PORT), u64::from(wire::MAX_BLOCK)] {
        assert!(text.contains(&number.to_string()), "{number} is not in src/wire.md");
    }
}
