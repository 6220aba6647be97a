//! Two endpoints driven by a few lines of code and no simulator: the endpoint's interface is everybody's.

use std::collections::VecDeque;

use tcp::peers::Known;
use tcp::profile;
use tcp::stack::{EcnMode, SocketOptions};
use tcp::{Config, Endpoint, HostClock, Listener, Nanos, State, SynOutcome};
use wire::Segment;

const ONE_WAY: Nanos = 10_000_000;

fn config(iss: u32) -> Config<'static> {
    Config {
        clock: HostClock::new(1000, 0, 0),
        ip_header: 20,
        known: Default::default(),
        mss: 1460,
        ecn: EcnMode::Off,
        tso: false,
        socket: SocketOptions { sndbuf: Some(200_000), rcvbuf: Some(200_000) },
        cc: "cubic",
        iss,
        veth: false,
        timestamp_offset: 0,
        random: 1,
    }
}

/// A wire with a delay in one direction: segments and when they arrive.
#[derive(Default)]
struct Wire(VecDeque<(Nanos, Segment)>);

impl Wire {
    fn take_from(&mut self, now: Nanos, endpoint: &mut Endpoint) {
        while let Some(segment) = endpoint.poll_transmit(now) {
            // This wire takes everything at once; Linux counts what has not left its host.
            endpoint.on_tx_complete(now, segment.len);
            self.0.push_back((now + ONE_WAY, segment));
        }
    }

    fn arrived(&mut self, now: Nanos) -> Option<Segment> {
        if self.0.front()?.0 > now { None } else { self.0.pop_front().map(|(_, segment)| segment) }
    }
}

/// Sends `bytes` from one system to another, every `lose`-th data segment lost once; returns what was read.
fn transfer(from: &str, to: &str, bytes: u64, lose: u64) -> u64 {
    let (client, server) = (profile::find(from).expect("a stack"), profile::find(to).expect("a stack"));
    let listener = Listener::new(&*server);
    let mut a = Endpoint::connect(&*client, &config(u32::MAX - 20_000), 0);
    let mut b: Option<Endpoint> = None;
    let (mut there, mut back) = (Wire::default(), Wire::default());
    let (mut written, mut read, mut data) = (0, 0, 0u64);
    for now in (0..120_000).map(|step| step * 1_000_000) {
        while let Some(segment) = there.arrived(now) {
            data += u64::from(segment.len > 0);
            if lose > 0 && segment.len > 0 && data.is_multiple_of(lose) {
                continue;
            }
            match &mut b {
                Some(endpoint) => endpoint.on_segment(now, &segment),
                None => match listener.on_segment(now, &segment, &config(77)) {
                    SynOutcome::Connection(endpoint) => b = Some(*endpoint),
                    _ => panic!("a SYN opens a connection"),
                },
            }
        }
        while let Some(segment) = back.arrived(now) {
            a.on_segment(now, &segment);
        }
        a.on_timer(now);
        if a.state() == State::Established {
            written += a.write(bytes - written);
            if written == bytes {
                a.shutdown(now);
            }
        }
        there.take_from(now, &mut a);
        if let Some(b) = &mut b {
            b.on_timer(now);
            back.take_from(now, b);
            read += b.read(now, u64::MAX);
            if b.at_eof() {
                b.close(now);
            }
            back.take_from(now, b);
            if b.state() == State::Closed && a.state() == State::TimeWait {
                return read;
            }
        }
    }
    panic!("{from} to {to}: {read} of {bytes} bytes read, {:?} and {:?}", a.state(), b.map(|b| b.state()));
}

#[test]
fn every_pair_of_systems_talks_and_closes() {
    let stacks = ["freebsd-9.2", "freebsd-13", "linux-3.9", "linux-6.8"];
    for from in stacks {
        for to in stacks {
            assert_eq!(transfer(from, to, 1_000_000, 0), 1_000_000, "{from} to {to}");
            assert_eq!(transfer(from, to, 300_000, 50), 300_000, "{from} to {to} with loss");
        }
    }
}

#[test]
fn a_segment_to_nobody_is_reset() {
    let server = profile::find("linux-6.8").expect("a stack");
    let stray = Segment { seq: 5, ack: 9, flags: wire::Flags::ACK, frames: 1, ..Segment::default() };
    match Listener::new(&*server).on_segment(0, &stray, &config(1)) {
        SynOutcome::Reset(reset) => {
            assert_eq!((reset.seq, reset.flags), (9, wire::Flags::RST));
        }
        _ => panic!("RFC 9293 section 3.10.7.2: an ACK to a listener is answered with a reset"),
    }
}

#[test]
fn a_reset_ends_the_connection() {
    let stack = profile::find("freebsd-13").expect("a stack");
    let mut a = Endpoint::connect(&*stack, &config(1), 0);
    let syn = a.poll_transmit(0).expect("a SYN");
    let refusal =
        Segment { ack: syn.seq + 1, flags: wire::Flags::RST | wire::Flags::ACK, ..Segment::default() };
    a.on_segment(1, &refusal);
    assert_eq!(a.state(), State::Closed);
    assert_eq!(a.failure(), Some(tcp::Failure::Reset));
}

const MS: Nanos = 1_000_000;

/// Opens a connection of two systems of one kind, each `prepared` before its handshake; returns both ends, and the
/// time.
fn opened(stack: &str, config: &Config<'_>, prepare: impl Fn(&mut Endpoint)) -> (Endpoint, Endpoint, Nanos) {
    let stack = profile::find(stack).expect("a stack");
    let mut a = Endpoint::connect(&*stack, config, 0);
    prepare(&mut a);
    let syn = a.poll_transmit(0).expect("a SYN");
    let SynOutcome::Connection(mut b) = Listener::new(&*stack).on_segment(ONE_WAY, &syn, config) else {
        panic!("a SYN opens a connection")
    };
    prepare(&mut b);
    a.on_segment(2 * ONE_WAY, &b.poll_transmit(ONE_WAY).expect("a SYN-ACK"));
    b.on_segment(3 * ONE_WAY, &a.poll_transmit(2 * ONE_WAY).expect("an ACK"));
    assert_eq!((a.state(), b.state()), (State::Established, State::Established));
    (a, *b, 3 * ONE_WAY)
}

fn newreno() -> Config<'static> {
    Config { cc: "newreno", ..config(1) }
}

/// First timeouts of connections of a live kernel 6.18 with 250 ticks a second, by the round trips that its tcp_metrics had, us.
#[test]
fn linux_begins_with_the_timeout_of_a_live_kernel() {
    let clock = HostClock::new(250, 0, 0);
    for (rtt, timeout) in [(39_080, 236), (43_005, 240), (50_922, 248)] {
        let known = Known { rtt: 8 * rtt, rttvar: 4 * rtt, ..Known::default() };
        let (mut a, _, now) = opened("linux-6.18", &Config { clock, known, cc: "reno", ..config(1) }, |_| ());
        let found = a.info(now).sender;
        assert_eq!((found.rto, found.ssthresh), (timeout * MS, None), "{rtt} us");
        // That of the handshake, 20 ms, or a tick more.
        assert!(found.srtt.expect("a round trip") <= 24 * MS);
    }
}

#[test]
fn the_interface_limits_super_packets_whoever_opened_the_connection() {
    // An initial window of 10 segments of 1448 bytes (freebsd-tcp.md A.2), and limits that are no whole segments.
    for (limit, expected) in [(None, 14_480), (Some(2896), 2896), (Some(4343), 2896), (Some(100), 1448)] {
        let prepare = |end: &mut Endpoint| limit.into_iter().for_each(|limit| end.limit_tso(limit));
        let (a, b, now) = opened("freebsd-13", &Config { tso: true, ..newreno() }, prepare);
        for mut end in [a, b] {
            end.write(100_000);
            let sent: Vec<u32> = std::iter::from_fn(|| end.poll_transmit(now)).map(|s| s.len).collect();
            assert_eq!(sent, vec![expected; 14_480 / expected as usize], "limit {limit:?}");
        }
    }
}

#[test]
fn freebsd_falls_back_to_a_window_of_one_segment_at_enobufs() {
    // freebsd-tcp.md A.15: W := 1 MSS, S unchanged, rexmt timer armed if idle -> slow start back.
    let (mut a, mut b, now) = opened("freebsd-13", &newreno(), |_| ());
    a.write(100_000);
    let sent = a.poll_transmit(now).expect("a segment");
    let refused = a.poll_transmit(now).expect("another");
    assert_eq!((sent.len, refused.len, a.cwnd()), (1448, 1448, 14_480));
    a.on_tx_dropped(now);
    assert_eq!(a.poll_transmit(now), None);
    assert_eq!((a.cwnd(), a.info(now).sender.ssthresh), (1448, None));

    b.on_segment(now + MS, &sent);
    b.on_timer(now + 200 * MS);
    let ack = b.poll_transmit(now + 200 * MS).expect("an ACK");
    a.on_segment(now + 200 * MS, &ack);
    assert_eq!((a.cwnd(), a.info(now).sender.ssthresh), (2 * 1448, None));
    let again = a.poll_transmit(now + 200 * MS).expect("the refused segment");
    assert_eq!((again.seq, again.len), (refused.seq, 1448));
}

#[test]
fn freebsd_waits_for_its_timer_when_the_only_segment_meets_enobufs() {
    // freebsd-tcp.md A.15 and A.12: the timer is armed if idle, and runs for at least 230 ms.
    let (mut a, _, now) = opened("freebsd-13", &newreno(), |_| ());
    a.write(100);
    let refused = a.poll_transmit(now).expect("a segment");
    a.on_tx_dropped(now);
    assert_eq!(a.poll_transmit(now), None);
    let due = a.next_timer().expect("the retransmission timer");
    assert!(due >= now + 230 * MS, "{due}");
    a.on_timer(due);
    assert_eq!(a.poll_transmit(due).map(|segment| (segment.seq, segment.len)), Some((refused.seq, 100)));
}

#[test]
fn rack_is_silent_for_10_ms_after_enobufs() {
    let (mut a, _, now) = opened("freebsd-15-current/rack", &newreno(), |_| ());
    a.write(100_000);
    let sent = a.poll_transmit(now).expect("a segment");
    let refused = a.poll_transmit(now).expect("another");
    assert_eq!(refused.seq, sent.seq.wrapping_add(1448));
    let cwnd = a.cwnd();
    a.on_tx_dropped(now);
    assert_eq!(a.poll_transmit(now), None);
    assert_eq!(a.next_timer(), Some(now + 10 * MS));
    a.on_timer(now + 10 * MS - 1);
    assert_eq!(a.poll_transmit(now + 10 * MS - 1), None);
    a.on_timer(now + 10 * MS);
    let again = a.poll_transmit(now + 10 * MS).expect("the refused segment");
    assert_eq!((again.seq, again.len), (refused.seq, 1448));
    assert_eq!((a.cwnd(), a.info(now).retransmits), (cwnd, 0));
}
