//! Applications over two modelled endpoints and a wire with a delay and no rate.

use std::collections::VecDeque;

use tcp::endpoint::State;
use tcp::profile;
use tcp::stack::{EcnMode, SocketOptions};
use tcp::{Config, HostClock, Listener, SynOutcome};

use apps::{
    Arrivals, Bulk, End, Incast, Lengths, Metric, OnOff, Paced, Ping, Pinger, Player, Requests, Server, Sink,
};

use super::*;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;
/// One-way delay of the wire.
const DELAY: Nanos = 10 * MS;

/// Sender and receiver, what is on its way to each, and what the application saw.
struct Lab {
    now: Nanos,
    ends: [Option<Endpoint>; 2],
    wires: [VecDeque<(Nanos, wire::Segment)>; 2],
    metrics: Vec<(Nanos, Metric)>,
    /// Payload read by the receiver, by the time it was.
    read: Vec<(Nanos, u64)>,
    talk: Talk,
    /// The receiver has read everything up to the end of the stream.
    ended: bool,
}

fn with_config<T>(work: impl FnOnce(&dyn tcp::stack::Profile, &Config<'_>) -> T) -> T {
    let profile = profile::find("freebsd-13").expect("a profile");
    let config = Config {
        clock: HostClock::new(1000, 0, 0),
        ip_header: 20,
        known: Default::default(),
        mss: 1460,
        ecn: EcnMode::Off,
        tso: false,
        veth: false,
        socket: SocketOptions { sndbuf: Some(1 << 20), rcvbuf: Some(1 << 20) },
        cc: "newreno",
        iss: 1,
        timestamp_offset: 0,
        random: 1,
    };
    work(&*profile, &config)
}

impl Lab {
    fn new() -> Lab {
        let client = with_config(|profile, config| Endpoint::connect(profile, config, 0));
        Lab {
            now: 0,
            ends: [Some(client), None],
            wires: [VecDeque::new(), VecDeque::new()],
            metrics: Vec::new(),
            read: Vec::new(),
            talk: Talk::default(),
            ended: false,
        }
    }

    fn turn(&mut self, side: usize, ends: &mut [&mut dyn End; 2]) {
        let now = self.now;
        let mut metrics = Vec::new();
        while let Some(endpoint) = &mut self.ends[side] {
            while let Some(segment) = endpoint.poll_transmit(now) {
                self.wires[side ^ 1].push_back((now + DELAY, segment));
            }
            let open = matches!(endpoint.state(), State::Established | State::CloseWait);
            let plain = Plain { endpoint, now };
            let mut socket = Talking { plain, talk: &mut self.talk, side };
            if !open || !ends[side].turn(&mut socket, now, &mut metrics) {
                break;
            }
        }
        self.metrics.extend(metrics.into_iter().map(|metric| (now, metric)));
        if side == 1
            && let Some(end) = &self.ends[1]
        {
            self.read.push((now, end.bytes_read()));
            self.ended |= end.at_eof();
        }
    }

    /// Runs to `end`; returns whether the sender has closed by then.
    fn run(&mut self, ends: &mut [&mut dyn End; 2], end: Nanos) -> bool {
        self.turn(0, ends);
        loop {
            let timer = |side: usize| self.ends[side].as_ref().and_then(Endpoint::next_timer);
            let arrival = |side: usize| self.wires[side].front().map(|&(at, _)| at);
            let next = [arrival(0), arrival(1), timer(0), timer(1), ends[0].due(), ends[1].due()];
            let next = next.into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            for side in 0..2 {
                while self.wires[side].front().is_some_and(|&(at, _)| at <= self.now) {
                    let (_, segment) = self.wires[side].pop_front().expect("looked");
                    match &mut self.ends[side] {
                        Some(end) => end.on_segment(self.now, &segment),
                        None => {
                            let outcome = with_config(|p, config| {
                                Listener::new(p).on_segment(self.now, &segment, config)
                            });
                            if let SynOutcome::Connection(connection) = outcome {
                                self.ends[side] = Some(*connection);
                            }
                        }
                    }
                    self.turn(side, ends);
                }
                if let Some(end) = &mut self.ends[side] {
                    end.on_timer(self.now);
                }
                self.turn(side, ends);
            }
        }
        self.now = end;
        self.ended
    }

    fn read_by(&self, t: Nanos) -> u64 {
        self.read.iter().rev().find(|(at, _)| *at <= t).map_or(0, |&(_, bytes)| bytes)
    }

    fn responses(&self) -> Vec<Nanos> {
        self.metrics
            .iter()
            .filter_map(|&(_, metric)| if let Metric::Response(took) = metric { Some(took) } else { None })
            .collect()
    }
}

#[test]
fn a_request_takes_a_round_trip_and_thinking_delays_the_next() {
    let mut app = Requests::new(Some(3), 100, 1000, 5 * MS);
    let mut lab = Lab::new();
    assert!(lab.run(&mut [&mut Server::default(), &mut app], SECOND));
    // Connected after three one-way delays; then request, response and thought.
    let expected = [50, 75, 100].map(|ms| (ms * MS, Metric::Response(20 * MS)));
    assert_eq!(lab.metrics, expected);
    assert_eq!(lab.read_by(SECOND), 3000);
}

#[test]
fn a_large_response_takes_as_many_round_trips_as_slow_start_needs() {
    let mut app = Requests::new(Some(1), 100, 40 * 1448, 0);
    let mut lab = Lab::new();
    lab.run(&mut [&mut Server::default(), &mut app], SECOND);
    // 10 segments, then 20, then the remaining 10: three round trips (RFC 6928).
    assert_eq!(lab.responses(), [60 * MS]);
}

#[test]
fn a_stopped_client_gets_its_answer_and_asks_no_more() {
    let mut app = Requests::new(None, 100, 1000, 0);
    let mut server = Server::default();
    let mut lab = Lab::new();
    lab.run(&mut [&mut server, &mut app], 200 * MS);
    app.stop();
    assert!(lab.run(&mut [&mut server, &mut app], SECOND));
    // Every 20 ms from 50 ms on; the one asked for at 190 ms is still answered.
    assert_eq!(lab.metrics.last(), Some(&(210 * MS, Metric::Response(20 * MS))));
    assert_eq!(lab.read_by(SECOND), 9000);
}

#[test]
fn a_paced_application_keeps_its_rate() {
    // Full segments of 1448 bytes, for which Nagle's algorithm waits for nothing: every 10 ms, the first at once.
    let mut app = Paced::new(1_158_400, 1448, Nanos::MAX);
    let mut lab = Lab::new();
    lab.run(&mut [&mut app, &mut Sink], SECOND);
    // Connected at 20 ms at the sender: 98 blocks from then to 990 ms, which arrive 10 ms later.
    assert_eq!(lab.read_by(SECOND), 98 * 1448);
    app.stop();
    assert!(lab.run(&mut [&mut app, &mut Sink], 2 * SECOND));
}

#[test]
fn on_and_off_alternate() {
    // 100 ms with a full segment every 10 ms, then 100 ms of silence.
    let mut app = OnOff::new(Lengths::new(100 * MS, 100 * MS, None), Some(1_158_400), 1448, Nanos::MAX);
    let mut lab = Lab::new();
    lab.run(&mut [&mut app, &mut Sink], SECOND);
    // On from 20 ms to 120 ms at the sender: 10 blocks; then from 220 ms.
    assert_eq!(lab.read_by(130 * MS), 10 * 1448);
    assert_eq!(lab.read_by(225 * MS), 10 * 1448);
    assert_eq!(lab.read_by(330 * MS), 20 * 1448);
    assert_eq!(lab.read_by(SECOND), 50 * 1448);
}

#[test]
fn a_rate_is_kept_whatever_the_size_of_a_write() {
    for write_bytes in [1, 1000, 12_500, 131_072, u64::MAX] {
        // 100 kbit/s are 12,500 bytes in a second.
        let mut paced = Paced::new(100_000, write_bytes, 20 * MS + 8 * SECOND);
        let mut lab = Lab::new();
        lab.run(&mut [&mut paced, &mut Sink], 10 * SECOND);
        assert_eq!(lab.read_by(10 * SECOND), 8 * 12_500, "steady, writes of {write_bytes}");
        let lengths = Lengths::new(SECOND, SECOND, None);
        let mut turns = OnOff::new(lengths, Some(100_000), write_bytes, Nanos::MAX);
        let mut lab = Lab::new();
        lab.run(&mut [&mut turns, &mut Sink], 9 * SECOND + 900 * MS);
        assert_eq!(lab.read_by(9 * SECOND + 900 * MS), 5 * 12_500, "in turns, writes of {write_bytes}");
    }
}

#[test]
fn times_too_short_for_a_byte_add_up() {
    // A bit in each second of sending: a byte in every eighth.
    let mut app = OnOff::new(Lengths::new(SECOND, SECOND, None), Some(1), 1, Nanos::MAX);
    let mut lab = Lab::new();
    lab.run(&mut [&mut app, &mut Sink], 100 * SECOND);
    assert_eq!(lab.read_by(100 * SECOND), 6);
}

#[test]
fn greedy_bursts_end_with_the_phase() {
    let mut app = OnOff::new(Lengths::new(50 * MS, 450 * MS, None), None, 10_000, Nanos::MAX);
    let mut lab = Lab::new();
    lab.run(&mut [&mut app, &mut Sink], 400 * MS);
    let first = lab.read_by(400 * MS);
    lab.run(&mut [&mut app, &mut Sink], 519 * MS);
    // What the socket held was sent, nothing more until the next phase at 520 ms.
    assert_eq!(lab.read_by(519 * MS), first);
    assert!(first > 1 << 20, "{first}");
    lab.run(&mut [&mut app, &mut Sink], SECOND);
    assert!(lab.read_by(SECOND) > first);
}

#[test]
fn a_player_fills_its_buffer_and_then_keeps_pace() {
    // Chunks of 1 s at 800 kbit/s are 100 KB; three of them are held.
    let mut app = Player::new(800_000, SECOND, 3 * SECOND, 100);
    let mut lab = Lab::new();
    lab.run(&mut [&mut Server::default(), &mut app], 10 * SECOND);
    let chunks: Vec<Nanos> = lab.metrics.iter().map(|&(at, _)| at / SECOND).collect();
    // Its buffer is full after the third; from then on there is room for one every second.
    assert_eq!(chunks, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert!(lab.metrics.iter().all(|(_, metric)| matches!(metric, Metric::Response(_))), "no stall");
}

#[test]
fn a_player_whose_chunks_come_too_late_stalls() {
    // A chunk of 1 ms takes a round trip of 20 ms.
    let mut app = Player::new(800_000, MS, 3 * MS, 100);
    let mut lab = Lab::new();
    lab.run(&mut [&mut Server::default(), &mut app], 200 * MS);
    let stalls = lab.metrics.iter().filter(|(_, metric)| *metric == Metric::Stall(19 * MS)).count();
    // Chunks at 50, 70 … 190 ms, of which the first starts to play.
    assert_eq!((lab.responses().len(), stalls), (8, 7));
}

#[test]
fn a_server_of_an_incast_answers_when_released() {
    let (mut server, mut client) = (Server::default(), Incast::new(Some(1), 64, 1448));
    let mut lab = Lab::new();
    lab.run(&mut [&mut server, &mut client], 100 * MS);
    assert_eq!(lab.metrics, []);
    client.release();
    lab.turn(1, &mut [&mut server, &mut client]);
    assert!(lab.run(&mut [&mut server, &mut client], SECOND));
    assert_eq!(lab.metrics, [(120 * MS, Metric::Response(20 * MS))]);
}

#[test]
fn pings_come_at_their_interval_and_one_at_a_time() {
    let mut app = Pinger::new(16, 50 * MS);
    let (mut server, mut lab) = (Server::with_stamps(), Lab::new());
    lab.run(&mut [&mut app, &mut server], 180 * MS);
    // Connected at 20 ms at the client; there and back 20 ms.
    let expected = [20, 70, 120].map(|ms| Ping { sent: ms * MS, there: 10 * MS, took: 20 * MS });
    assert_eq!(app.pings(), expected);
    assert_eq!(app.waiting_since(), Some(170 * MS));
    let mut eager = Pinger::new(16, MS);
    let (mut server, mut lab) = (Server::with_stamps(), Lab::new());
    lab.run(&mut [&mut eager, &mut server], 100 * MS);
    assert_eq!(eager.pings().iter().map(|ping| ping.sent / MS).collect::<Vec<_>>(), [20, 40, 60, 80]);
    eager.stop();
    assert!(lab.run(&mut [&mut eager, &mut server], SECOND), "it closes when the last one is answered");
    assert_eq!(eager.waiting_since(), None);
}

#[test]
fn a_flow_of_load_knows_its_longest_gap() {
    let (mut app, mut arrivals) = (Bulk::new(None, 131_072), Arrivals::new(0));
    let mut lab = Lab::new();
    lab.run(&mut [&mut app, &mut arrivals], 300 * MS);
    let before = arrivals.longest_gap(0, 300 * MS);
    // Data comes 30 ms after the opening; in slow start a round trip passes between flights.
    assert_eq!(before, 30 * MS);
    app.stop();
    assert!(lab.run(&mut [&mut app, &mut arrivals], 5 * SECOND));
    let ended = arrivals.longest_gap(0, 5 * SECOND);
    assert!(ended > 3 * SECOND, "the time after the last byte counts: {ended}");
    assert_eq!(arrivals.bins().iter().sum::<u64>(), lab.read_by(5 * SECOND));
    assert_eq!(Arrivals::new(0).longest_gap(MS, 3 * MS), 2 * MS, "nothing ever came");
}
