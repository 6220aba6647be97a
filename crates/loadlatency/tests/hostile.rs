//! A server among enemies: random and mutated bytes, half-open and slow connections; a good client is served all the same.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::TestServer;
use loadlatency::auth;
use loadlatency::client;
use loadlatency::measure::Direction;
use loadlatency::server;
use loadlatency::wire::{self, Block, NONCE, Note, Opening, PROOF, Request, Role};

/// Connections with damage of each kind.
const ROUNDS: u64 = 60;

/// Random numbers that only depend on the seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
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

/// Opens a session by hand; its name.
fn open(port: u16) -> (TcpStream, [u8; wire::SESSION]) {
    let mut stream = connect(port);
    let nonce = [7; NONCE];
    stream.write_all(&[&wire::greeting(Role::Pinger)[..], &nonce].concat()).expect("sent");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
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
    let options = server.client("127.0.0.1", &[4], 0.5);
    // The server may still be finding out that the last enemy is gone.
    for _ in 0..50 {
        match client::run(&options, &never, &mut |_| ()) {
            Ok(outcome) => {
                assert_eq!(outcome.error, None);
                return assert!(outcome.document.overall.upload_capacity_kib_s > Some(0.0));
            }
            Err(why) => assert!(why.contains("another client"), "{why}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server stays busy");
}

#[test]
fn noise_and_damaged_conversations_do_not_stop_it() {
    let options = server::Options { idle_timeout_s: 1, ..server::Options::default() };
    let server = TestServer::start("127.0.0.1", options);
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
    pinger.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    let answer = say(&mut pinger, &Request::Report.to_bytes());
    assert!(
        answer.windows(9).any(|bytes| bytes == [129, 0, 0, 0, 20, 0, 0, 0, 77]),
        "a pong is among {answer:?}"
    );
    drop(pinger);
    a_good_client_is_served(&server);
}

#[test]
fn a_flow_number_serves_once_and_flows_have_a_limit() {
    let server = TestServer::start("127.0.0.1", server::Options::default());
    let (_pinger, name) = open(server.port);
    let status = |bytes: Vec<u8>| wire::read_answer(bytes.first_chunk().expect("an answer"));
    let mut kept = Vec::new();
    for id in 0..64 {
        let mut stream = connect(server.port);
        assert_eq!(status(say(&mut stream, &hello(name, id, Direction::Down))), Some(wire::Status::Fine));
        kept.push(stream);
    }
    for id in [3, 64] {
        let mut stream = connect(server.port);
        assert_eq!(
            status(say(&mut stream, &hello(name, id, Direction::Down))),
            Some(wire::Status::NoSession)
        );
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
