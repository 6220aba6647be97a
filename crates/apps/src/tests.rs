//! Both ends over a pipe of bytes, as a kernel's sockets are: what an end knows of the other has crossed it.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Bytes on their way in one direction.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    closed: bool,
    written: u64,
}

/// End of a pair of pipes that takes and gives a few bytes at a time.
struct PipeEnd<'a> {
    pipes: &'a mut [Pipe; 2],
    side: usize,
    /// Bytes that the end still gives and takes in this turn.
    room: u64,
    available: u64,
}

impl Socket for PipeEnd<'_> {
    fn write(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.room);
        self.room -= taken;
        let pipe = &mut self.pipes[self.side];
        // What was said is in the pipe already, and part of the payload.
        let said = pipe.bytes.len() as u64 - (pipe.bytes.len() as u64).min(pipe.written);
        pipe.written += taken;
        pipe.bytes.extend(std::iter::repeat_n(0, taken.saturating_sub(said) as usize));
        taken
    }

    fn writable(&self) -> bool {
        true
    }

    fn read(&mut self, most: u64) -> u64 {
        let pipe = &mut self.pipes[self.side ^ 1];
        let taken = most.min(self.available).min(pipe.written.min(pipe.bytes.len() as u64));
        self.available -= taken;
        pipe.bytes.drain(..taken as usize);
        pipe.written -= taken;
        taken
    }

    fn at_end(&self) -> bool {
        self.pipes[self.side ^ 1].closed && self.pipes[self.side ^ 1].bytes.is_empty()
    }

    fn close(&mut self) {
        self.pipes[self.side].closed = true;
    }

    fn say(&mut self, message: Message) {
        let (header, length) = message.encode();
        self.pipes[self.side].bytes.extend(&header[..length]);
    }

    fn heard(&mut self) -> Option<Message> {
        let pipe = &mut self.pipes[self.side ^ 1];
        let begin: Vec<u8> = pipe.bytes.iter().copied().take(pipe.written as usize).collect();
        Message::decode(&begin).expect("a message")
    }
}

/// Lets both ends act in turns of at most `grain` bytes, a nanosecond each, until both have closed: what they saw, and
/// when they were done.
fn run(mut ends: [&mut dyn End; 2], grain: u64, stop_at: Nanos) -> (Vec<Metric>, Nanos) {
    let mut pipes = [Pipe::default(), Pipe::default()];
    let mut metrics = Vec::new();
    for now in 0..1_000_000 {
        for (side, end) in ends.iter_mut().enumerate() {
            if now == stop_at {
                end.stop();
            }
            let mut socket = PipeEnd { pipes: &mut pipes, side, room: grain, available: grain };
            end.turn(&mut socket, now, &mut metrics);
        }
        // The driver closes the accepting end when the opening one has.
        if pipes[0].closed && pipes[0].bytes.is_empty() {
            return (metrics, now);
        }
    }
    panic!("they never end");
}

fn responses(metrics: &[Metric]) -> usize {
    metrics.iter().filter(|metric| matches!(metric, Metric::Response(_))).count()
}

proptest! {
    #[test]
    fn a_server_that_was_told_nothing_answers_what_is_asked(
        requests in 1..5_u64,
        request in 24..2000_u64,
        response in 1..5000_u64,
        grain in 1..1500_u64,
    ) {
        let mut client = Requests::new(Some(requests), request, response, 0);
        let (metrics, _) = run([&mut Server::default(), &mut client], grain, Nanos::MAX);
        prop_assert_eq!(responses(&metrics) as u64, requests);
    }

    #[test]
    fn a_player_that_is_stopped_gets_its_chunk_and_its_server_closes(stop in 0..3000_u64, grain in 1..200_u64) {
        let mut player = Player::new(8_000_000, 1_000_000, 3_000_000, 30);
        let (metrics, end) = run([&mut Server::default(), &mut player], grain, stop);
        prop_assert!(end >= stop);
        prop_assert!(responses(&metrics) > 0 || stop == 0);
        prop_assert!(player.due().is_none());
    }

    #[test]
    fn a_transfer_says_when_it_arrived(bytes in 4..100_000_u64, grain in 500..5000_u64) {
        let mut sink = TransferSink::default();
        let (metrics, end) = run([&mut Transfer::new(bytes, 7), &mut sink], grain, Nanos::MAX);
        let told: Vec<Metric> = metrics;
        prop_assert!(told.is_empty() || told == [Metric::Completion(end.saturating_sub(7))]);
    }
}

#[test]
fn a_transfer_too_small_to_say_when_it_arrived_is_read_nevertheless() {
    let (metrics, _) = run([&mut Transfer::new(1, 7), &mut TransferSink::default()], 10, Nanos::MAX);
    assert_eq!(metrics, []);
}

#[test]
fn pings_know_both_ways() {
    let mut pinger = Pinger::new(32, 10);
    run([&mut pinger, &mut Server::with_stamps()], 100, 35);
    // The server acts in the same nanosecond after the pinger, which reads the answer in the next.
    let pings: Vec<Ping> = [0, 10, 20, 30].map(|sent| Ping { sent, there: 0, took: 1 }).to_vec();
    assert_eq!(pinger.pings(), pings);
}
