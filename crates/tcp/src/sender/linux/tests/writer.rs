//! Tests of the writer's side: what a call takes, what leaves during it, when the buffer grows.

use super::*;
use crate::sender::linux::scoreboard::{Packet, Scoreboard};

/// A sender with a buffer of 64,000 bytes, 10 of whose segments have left an interface that takes no time and are acknowledged.
fn woken(max_wnd: u64) -> Bench {
    let mut bench = Bench::new(&Config::linux_6_12(), "cubic");
    bench.snd.max_wnd = max_wnd;
    bench.with(|sender, snd, _| sender.set_send_buffer(snd, 64_000));
    bench.snd.end += 10 * MSS;
    // The sender hears of each when the next leaves, of the last before the next event.
    let mut left = 0;
    while let Poll::Send(transmit) = bench.with(|sender, snd, cx| sender.poll(snd, cx)) {
        bench.with(|sender, snd, cx| sender.on_tx_complete(snd, left, cx));
        left = transmit.len;
    }
    bench.now += DELAY;
    bench.with(|sender, snd, cx| sender.on_tx_complete(snd, left, cx));
    bench.acknowledge(FIRST, FIRST + 10 * MSS);
    (bench.sender.core.cwnd, bench.sender.core.ssthresh) = (400, 400);
    bench.snd.app_blocked = true;
    bench
}

/// A buffer begun is filled again as often as a burst of it leaves, whatever memory that takes: to the end of the window.
#[test]
fn a_call_fills_the_window_whatever_the_buffer_holds() {
    let bench = woken(1 << 30);
    assert_eq!(bench.sender.space(&bench.snd, u64::MAX), (45 + 400) * MSS);
}

/// Half of the largest window after the last push all is pushed: a buffer has to be begun, for which there is no memory.
#[test]
fn a_call_ends_where_it_pushes() {
    let mut bench = woken(200 * MSS);
    let burst = bench.sender.tso_segments(&bench.snd) * MSS;
    let space = bench.sender.space(&bench.snd, u64::MAX);
    assert!((90 * MSS..90 * MSS + burst).contains(&(space - 1)), "{space}");
    // A call that has ended has pushed what it wrote.
    bench.with(|sender, snd, _| sender.on_write_end(snd));
    let space = bench.sender.space(&bench.snd, u64::MAX);
    assert!((100 * MSS..100 * MSS + burst).contains(&(space - 1)), "{space}");
}

/// Two bursts leave for one ACK. After the first cwnd is not full, and the buffer of a writer that waits grows; had a single burst
/// filled cwnd, it would not.
#[test]
fn the_buffer_grows_between_bursts() {
    for (room, grows) in [(4, true), (2, false)] {
        let mut bench = woken(1 << 30);
        (bench.sender.core.cwnd, bench.sender.core.ssthresh) = (40, 40);
        (bench.snd.sndbuf_auto, bench.snd.app_blocked) = (true, false);
        bench.snd.end += 400 * MSS;
        bench.transmit(|_, _| None);
        assert_eq!(bench.sender.core.in_flight(), 40);
        bench.snd.app_blocked = true;
        let before = bench.sender.sndbuf_memory;
        bench.sender.core.cwnd += room;
        bench.transmit(|_, _| None);
        assert_eq!(bench.sender.core.in_flight(), 40 + room);
        assert_eq!(bench.sender.sndbuf_memory > before, grows, "room for {room}");
    }
}

/// One segment of room is less than a burst, which waits, unless a call fills the only buffer that stands.
#[test]
fn a_full_buffer_alone_does_not_wait() {
    for (written, waits) in [(30, true), (100, false)] {
        let mut bench = woken(1 << 30);
        (bench.sender.core.cwnd, bench.sender.core.ssthresh) = (40, 40);
        bench.snd.app_blocked = false;
        bench.snd.end += 38 * MSS;
        bench.transmit(|_, _| None);
        // The next ACK is near, and something has just left.
        bench.now += DELAY - 500 * MICROSECOND;
        bench.snd.end += MSS;
        bench.transmit(|_, _| None);
        bench.sender.core.cwnd = bench.sender.core.in_flight() + 1;
        let sent = bench.sent;
        bench.snd.end += written * MSS;
        bench.transmit(|_, _| None);
        assert_eq!(bench.sent == sent, waits, "{written} segments written");
    }
}

/// Memory counts buffers: bursts of two packets, of which SACKs report one each, until the peer throws what it reported away.
#[test]
fn buffers_are_counted_whatever_is_reported_and_forgotten() {
    let (mut board, mut core) = (Scoreboard::new(), Core::new(1));
    for id in 0..10 {
        board.push(Packet { seq: 10 * id, len: 10, ..Packet::default() });
        board.append_to_send_order(id);
        if id % 2 == 1 {
            board.end_burst(id, 0);
        }
    }
    assert_eq!(board.buffers(), 5);
    for id in [3, 4, 7] {
        board.mark_sacked(&mut core, id);
    }
    assert_eq!(board.buffers(), 7, "3 is cut from 2 and joined by 4, which is cut from 5, and 7 from 6");
    board.forget_sacks();
    assert_eq!(board.buffers(), 5);
    for _ in 0..10 {
        board.pop();
    }
    assert_eq!(board.buffers(), 0);
}

/// Three calls at one instant. Where all of the first could leave, its rest of 136 bytes has left by itself when the second begins.
/// The rest of the second waits for an ACK of that, unless Nagle's algorithm is off, and goes with the third.
#[test]
fn a_call_sends_what_it_can_before_the_next_begins() {
    for (cwnd, no_delay, short) in [(400, false, vec![136]), (10, false, vec![]), (400, true, vec![136, 100])]
    {
        let mut bench = woken(1 << 30);
        (bench.sender.core.cwnd, bench.sender.core.ssthresh) = (cwnd, cwnd);
        (bench.snd.app_blocked, bench.snd.no_delay) = (false, no_delay);
        for bytes in [10 * MSS + 136, 12 * MSS + 100, 4 * MSS] {
            bench.with(|sender, snd, _| sender.on_write_begin(snd));
            bench.snd.end += bytes;
            bench.with(|sender, snd, _| sender.on_write_end(snd));
        }
        bench.transmit(|bench, _| Some(bench.now));
        let lengths = bench.wire.iter().map(|(_, seq, end)| end - seq);
        let left: Vec<u64> = lengths.filter(|&length| length < MSS).collect();
        assert_eq!(left, short, "cwnd {cwnd}, TCP_NODELAY {no_delay}");
    }
}

/// A call with room for many times what it writes is not followed buffer by buffer, and takes what one that is followed takes.
#[test]
fn plenty_of_room_takes_what_is_wanted() {
    const CALL: u64 = 65_536;
    let mut bench = woken(1 << 30);
    bench.with(|sender, snd, _| sender.set_send_buffer(snd, 64 << 20));
    bench.snd.app_blocked = false;
    loop {
        let [short, long] = [false, true].map(|followed| {
            bench.snd.no_fast_path = followed;
            bench.sender.space(&bench.snd, CALL).min(CALL)
        });
        assert_eq!(short, long, "behind {} bytes", bench.snd.end - bench.snd.una);
        bench.snd.end += short;
        if short < CALL {
            break;
        }
    }
    assert!(bench.snd.end - bench.snd.una > 60 << 20);
}
