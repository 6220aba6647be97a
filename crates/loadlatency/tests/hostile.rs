//! Either end among enemies: random and mutated bytes, half-open and slow connections, lies; a good client is served all the same.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::TestServer;
use loadlatency::auth;
use loadlatency::client;
use loadlatency::payload::xorshift;
use loadlatency::server;
use loadlatency::wire::{self, Block, FlowReport, NONCE, Note, Opening, PROOF, Reply, Request, Role};
use measure::Direction;

/// Limit for what a sound server does soon; a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connections with damage of each kind.
const ROUNDS: u64 = 60;

/// Random numbers that only depend on the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        xorshift(&mut self.0)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll() as u8).collect()
    }

    /// A few bytes changed, cut or put in.
    fn damage(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                break;
            }
            let place = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[place] ^= 1 << self.below(8),
                1 => bytes[place] = [0, 1, 127, 128, 255][self.below(5)],
                2 => bytes.truncate(place),
                _ => bytes.insert(place, self.roll() as u8),
            }
        }
        bytes
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("set");
    stream
}

/// Everything a good client sends on a pinger's connection, as far as it does not depend on answers.
fn session() -> Vec<u8> {
    let mut bytes = wire::greeting(Role::Pinger).to_vec();
    bytes.extend([7; NONCE]);
    bytes.extend([0; PROOF]);
    for request in [Request::Ping(1), Request::Report, Request::Ping(2), Request::Stop, Request::Report] {
        bytes.extend(request.to_bytes());
    }
    bytes
}

/// Sends, and reads what comes until nothing more does; a server that closes early is in its right.
fn say(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    if stream.write_all(bytes).is_ok() {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut some) {
            answer.extend(&some[..count]);
        }
    }
    answer
}

/// Sends, and reads until what came is `enough`.
fn ask(stream: &mut TcpStream, bytes: &[u8], enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(bytes).expect("sent");
    let (mut answer, mut some) = (Vec::new(), [0; 4096]);
    while !enough(&answer) {
        match stream.read(&mut some) {
            Ok(count @ 1..) => answer.extend(&some[..count]),
            _ => break,
        }
    }
    answer
}

/// Opens a session by hand; returns its name.
fn open(port: u16) -> (TcpStream, [u8; wire::SESSION]) {
    let mut stream = connect(port);
    let nonce = [7; NONCE];
    stream.write_all(&[&wire::greeting(Role::Pinger)[..], &nonce].concat()).expect("sent");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut challenge = [0; wire::GREETING + NONCE];
    stream.read_exact(&mut challenge).expect("challenged");
    let proof = auth::proof("", "client", &[&nonce, &challenge[wire::GREETING..]]);
    stream.write_all(&proof).expect("sent");
    let mut welcome = [0; wire::GREETING + wire::SESSION];
    stream.read_exact(&mut welcome).expect("welcomed");
    (stream, std::array::from_fn(|k| welcome[wire::GREETING + k]))
}

fn hello(session: [u8; wire::SESSION], id: u32, direction: Direction) -> Vec<u8> {
    let opening = Opening { session, id, direction, dscp: 0 }.to_bytes();
    [&wire::greeting(Role::Flow)[..], &opening, &auth::proof("", "flow", &[&opening])].concat()
}

fn a_good_client_is_served(server: &TestServer) {
    let never = AtomicBool::new(false);
    let options = server.client("127.0.0.1", &[4], 2.0);
    let begun = Instant::now();
    // The server may still be finding out that the last enemy is gone.
    loop {
        match client::run(&options, &never, &mut |_| ()) {
            Ok(outcome) => {
                assert_eq!(outcome.error, None);
                return assert!(outcome.document.overall.upload_capacity_kib_s > Some(0.0));
            }
            Err(why) => assert!(why.to_string().contains("another client"), "{why}"),
        }
        assert!(begun.elapsed() < PATIENCE, "the server stays busy");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn noise_and_damaged_conversations_do_not_stop_it() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let mut dice = Dice(0x5eed_1234_5678_9abd);
    for _ in 0..ROUNDS {
        let count = dice.below(2000);
        let noise = dice.bytes(count);
        say(&mut connect(server.port), &noise);
        let damaged = dice.damage(session());
        say(&mut connect(server.port), &damaged);
        let damaged = dice.damage(hello([0; wire::SESSION], 1, Direction::Down));
        say(&mut connect(server.port), &damaged);
    }
    let refused = server.said.try_iter().filter(|line| line.contains("does not speak the protocol")).count();
    assert!(refused > 0, "it says whom it refuses");
    a_good_client_is_served(&server);
}

#[test]
fn damaged_flows_of_a_good_session_do_not_stop_it() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let mut dice = Dice(0x0dd_ba11);
    let (mut pinger, name) = open(server.port);
    for id in 0..ROUNDS as u32 {
        let block = Block { length: 100, probe: 1, echo: 2 }.to_bytes();
        let mut bytes = hello(name, 2 * id, Direction::Up);
        let whole = bytes.len();
        bytes.extend(dice.damage([&block[..], &[0; 100], &block, &[0; 100]].concat()));
        say(&mut connect(server.port), &bytes[..whole + dice.below(bytes.len() - whole + 1)]);
        let mut bytes = hello(name, 2 * id + 1, Direction::Down);
        bytes.extend(
            dice.damage([Note::default().to_bytes(), Note { probe: 1, echo: 9 }.to_bytes()].concat()),
        );
        // Gone while the server sends.
        let mut stream = connect(server.port);
        stream.write_all(&bytes).expect("sent");
    }
    // The session itself is well.
    pinger.write_all(&Request::Ping(77).to_bytes()).expect("sent");
    let pong = |bytes: &[u8]| bytes.windows(9).any(|bytes| bytes == [129, 0, 0, 0, 20, 0, 0, 0, 77]);
    let answer = ask(&mut pinger, &Request::Report.to_bytes(), pong);
    assert!(pong(&answer), "a pong is among {answer:?}");
    drop(pinger);
    a_good_client_is_served(&server);
}

#[test]
fn a_flow_number_serves_once_and_flows_have_a_limit() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let (_pinger, name) = open(server.port);
    let status = |stream: &mut TcpStream, bytes: &[u8]| {
        let answer = ask(stream, bytes, |answer| answer.first_chunk::<{ wire::GREETING }>().is_some());
        wire::read_answer(answer.first_chunk().expect("an answer"))
    };
    let mut kept = Vec::new();
    for id in 0..64 {
        let mut stream = connect(server.port);
        assert_eq!(status(&mut stream, &hello(name, id, Direction::Down)), Some(wire::Status::Fine));
        kept.push(stream);
    }
    for id in [3, 64] {
        let mut stream = connect(server.port);
        assert_eq!(status(&mut stream, &hello(name, id, Direction::Down)), Some(wire::Status::NoSession));
    }
}

#[test]
fn half_open_connections_keep_nobody_out() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    // More than the server waits for at a time: nothing said, or a part of a greeting.
    let silent: Vec<TcpStream> = (0..150)
        .map(|k| {
            let mut stream = connect(server.port);
            stream.write_all(&wire::greeting(Role::Pinger)[..k % 8]).expect("sent");
            stream
        })
        .collect();
    a_good_client_is_served(&server);
    drop(silent);
}

/// A server that speaks the protocol and lies in every number.
fn lie(listener: &TcpListener, seed: u64) {
    for (count, stream) in (1..).zip(listener.incoming()) {
        let Ok(mut stream) = stream else { return };
        let mut dice = Dice(seed.wrapping_mul(count) | 1);
        std::thread::spawn(move || -> std::io::Result<()> {
            let mut greeting = [0; wire::GREETING];
            stream.read_exact(&mut greeting)?;
            match wire::read_greeting(&greeting) {
                Ok(Role::Flow) => {
                    stream.read_exact(&mut [0; wire::FLOW])?;
                    stream.write_all(&wire::answer(wire::Status::Fine))?;
                    // Echoes of probes that nobody sent, among them; then bytes that are no blocks.
                    for _ in 0..dice.below(200) {
                        let block = Block { length: 16, probe: dice.roll(), echo: dice.roll() };
                        stream.write_all(&[&block.to_bytes()[..], &[0; 16]].concat())?;
                    }
                    stream.write_all(&dice.bytes(100))?;
                    std::thread::sleep(Duration::from_secs(2));
                    Ok(())
                }
                _ => lie_to_the_pinger(&mut stream, &mut dice),
            }
        });
    }
}

fn lie_to_the_pinger(stream: &mut TcpStream, dice: &mut Dice) -> std::io::Result<()> {
    stream.read_exact(&mut [0; NONCE])?;
    stream.write_all(&[&wire::answer(wire::Status::Fine)[..], &[1; NONCE]].concat())?;
    stream.read_exact(&mut [0; PROOF])?;
    let welcome = [&wire::answer(wire::Status::Fine)[..], &[2; wire::SESSION], &[3; PROOF], &[0]].concat();
    stream.write_all(&welcome)?;
    loop {
        let mut header = [0; wire::HEADER];
        stream.read_exact(&mut header)?;
        let (kind, length) = wire::read_header(header);
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body)?;
        let mut number = || if dice.below(3) == 0 { u64::MAX } else { dice.roll() };
        let reply = match Request::read(kind, &body) {
            Some(Request::Ping(ping)) => Reply::Pong(ping, number(), number()),
            Some(Request::Report) => {
                let mut flow = |id| FlowReport {
                    id,
                    bytes: number(),
                    first_ns: number(),
                    last_ns: number(),
                    end_ns: number(),
                    gap_ns: number(),
                    bins_from: 0,
                    bins: vec![number(); 3],
                    ..FlowReport::default()
                };
                let flows = (0..6).map(&mut flow).collect();
                Reply::Report(u64::MAX, flows)
            }
            Some(Request::Stop) => Reply::Stopped,
            _ => return Ok(()),
        };
        let bytes = reply.to_bytes();
        stream.write_all(&if dice.below(400) == 0 { dice.damage(bytes) } else { bytes })?;
    }
}

#[test]
fn a_client_survives_a_server_that_lies() {
    let never = AtomicBool::new(false);
    let mut believed = 0;
    for seed in 1..=4 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || lie(&listener, seed));
        let options = client::Options {
            host: "127.0.0.1".into(),
            port,
            scenarios: Some(vec![4, 4]),
            duration_s: Some(1.2),
            idle_timeout_s: 2,
            ..client::Options::default()
        };
        // Whether it believes all of that or gives up: it says so, and its document can be written and read.
        if let Ok(outcome) = client::run(&options, &never, &mut |_| ()) {
            believed += outcome.document.metrics.len();
            let text = serde_json::to_string(&outcome.document).expect("JSON");
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            assert!(!loadlatency::report::text(&outcome.document).contains("NaN"));
        }
    }
    assert!(believed > 0, "some lies are made into metrics");
}
