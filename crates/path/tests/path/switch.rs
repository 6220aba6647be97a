//! The shared-buffer switch: its memory, its fairness to idle ports, and its pause frames.

use crate::common::{self, Bug, Feed, Log, Pkt, equal, run_stepped};
use path::{
    DropReason, Link, LinkConfig, Mode, Output, PauseConfig, PfifoConfig, QueueConfig, Switch, SwitchConfig,
    stream,
};
use proptest::prelude::*;

const GIGABIT: u64 = 1_000_000_000;

fn port(delay_ns: u64) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(GIGABIT),
        delay_ns,
        queue: QueueConfig::Pfifo(PfifoConfig { limit_packets: 100_000 }),
        overhead: 0,
        ..LinkConfig::default()
    }
}

fn switch(config: &SwitchConfig, ports: usize) -> Switch<Pkt> {
    let ports: Vec<_> = (0..ports).map(|i| port(i as u64 * 1000)).collect();
    Switch::new(config, &ports, &|port, purpose| stream(7, 0, purpose, &port.to_string()))
}

/// Feeds a switch with packets whose `dst` is the port, event by event.
fn run(buffer_bytes: u64, ports: usize, arrivals: &[(u64, Pkt)]) -> Log {
    let mut switch = switch(&SwitchConfig { buffer_bytes, pause: None }, ports);
    let mut log = Log::default();
    for (at, packet) in arrivals {
        catch_up(&mut switch, ports, *at, &mut log);
        switch.arrive(usize::from(packet.dst), *at, packet.clone(), &mut log);
    }
    catch_up(&mut switch, ports, u64::MAX, &mut log);
    log
}

fn catch_up(switch: &mut Switch<Pkt>, ports: usize, until: u64, out: &mut impl Output<Pkt>) {
    let first = |switch: &Switch<Pkt>| {
        (0..ports).filter_map(|port| switch.next_event(port).map(|at| (at, port))).min()
    };
    while let Some((at, port)) = first(switch)
        && at <= until
    {
        switch.on_event(port, at, out);
    }
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, Pkt)>> {
    let gap = prop_oneof![3 => Just(0), 1 => Just(8000_u64), 2 => 0..20_000_u64];
    prop::collection::vec((gap, prop_oneof![Just(1000_u32), 40..1500_u32], 0..3_u16), 1..120).prop_map(
        |steps| {
            let mut at = 0;
            let packet = |(id, (gap, bytes, dst)): (usize, (u64, u32, u16))| {
                at += gap;
                (at, Pkt { dst, ..Pkt::new(id as u32, bytes) })
            };
            steps.into_iter().enumerate().map(packet).collect()
        },
    )
}

/// Bytes in the buffer when packet `id` arrives, from nothing but what came out.
fn used(arrivals: &[(u64, Pkt)], log: &Log, id: u32) -> u64 {
    let now = arrivals[id as usize].0;
    let inside = |(far_end, packet): &&(u64, Pkt)| {
        let left = far_end - u64::from(packet.dst) * 1000;
        packet.id < id && left > now
    };
    log.forwarded.iter().filter(inside).map(|(_, packet)| u64::from(packet.bytes)).sum()
}

#[test]
fn the_buffer_is_neither_exceeded_nor_wasted() {
    let property = |(buffer, arrivals): &(u64, Vec<(u64, Pkt)>), bug| {
        let size = match bug {
            Bug::Roomy => buffer + 1,
            Bug::Narrow => buffer.saturating_sub(1),
            _ => *buffer,
        };
        let log = run(size, 3, arrivals);
        let fits = |id: u32| used(arrivals, &log, id) + u64::from(arrivals[id as usize].1.bytes) <= *buffer;
        if let Some((_, packet)) = log.forwarded.iter().find(|(_, packet)| !fits(packet.id)) {
            return Err(format!("packet {} had no room", packet.id));
        }
        match log.dropped.iter().find(|drop| fits(drop.1) || drop.2 != DropReason::Overlimit) {
            Some(drop) => Err(format!("{drop:?} had room")),
            None if log.forwarded.len() + log.dropped.len() != arrivals.len() => Err("not conserved".into()),
            None => Ok(()),
        }
    };
    common::check("buffer", || (0..8000_u64, arrivals()), property, &[Bug::Roomy, Bug::Narrow]);
}

#[test]
fn with_memory_enough_every_port_is_a_link_of_its_own() {
    let property = |arrivals: &Vec<(u64, Pkt)>, bug| {
        let log = run(if bug == Bug::Narrow { 3000 } else { 1 << 40 }, 3, arrivals);
        for dst in 0..3 {
            let own: Vec<_> = arrivals.iter().filter(|(_, packet)| packet.dst == dst).cloned().collect();
            let alone =
                run_stepped(&port(u64::from(dst) * 1000), &Feed { arrivals: own, questions: Vec::new() });
            let through: Vec<_> = log.forwarded.iter().filter(|(_, p)| p.dst == dst).cloned().collect();
            equal("forwarded", &through, &alone.forwarded)?;
        }
        Ok(())
    };
    common::check("ports", arrivals, property, &[Bug::Narrow]);
}

#[test]
fn one_port_may_take_what_the_others_leave() {
    // 125 KB and a burst of 200 packets of 1000 bytes for one port: 125 of them find room, and none departs meanwhile.
    let burst: Vec<_> = (0..200).map(|id| (0, Pkt::new(id, 1000))).collect();
    assert_eq!(run(125_000, 4, &burst).dropped.len(), 75);
}

/// Two hosts at 1 Gbit/s each send to one port of 1 Gbit/s; their links pause when the switch asks, 2 us later.
fn two_to_one(pause: Option<PauseConfig>) -> (usize, usize, u64) {
    const PAUSE_DELAY: u64 = 2000;
    let mut switch = switch(&SwitchConfig { buffer_bytes: 50_000, pause }, 1);
    let mut hosts: Vec<Link<Pkt>> = (0..2).map(|_| common::link(&port(0), Mode::Stepped)).collect();
    let mut out = TwoToOne::default();
    let mut id = 0;
    for host in &mut hosts {
        for _ in 0..500 {
            host.arrive(0, Pkt { dst: 0, ..Pkt::new(id, 1000) }, &mut out.to_switch);
            id += 1;
        }
    }
    loop {
        out.to_switch.sort_unstable_by_key(|(at, packet)| (*at, packet.id));
        let hop = |at: Option<u64>, what: u8, which: usize| at.map(|at| (at, what, which));
        let next = [
            hop(out.log.paused.first().map(|&(at, _)| at + PAUSE_DELAY), 0, 0),
            hop(switch.next_event(0), 1, 0),
            hop(switch.next_release(), 2, 0),
            hop(hosts[0].next_event(), 3, 0),
            hop(hosts[1].next_event(), 3, 1),
            hop(out.to_switch.first().map(|&(at, _)| at), 4, 0),
        ];
        let Some((now, what, which)) = next.into_iter().flatten().min() else { break };
        match what {
            0 => {
                let (_, paused) = out.log.paused.remove(0);
                hosts.iter_mut().for_each(|host| host.pause(now, paused, &mut out.to_switch));
            }
            1 => switch.on_event(0, now, &mut out.log),
            2 => switch.update(now, &mut out.log),
            3 => hosts[which].on_event(now, &mut out.to_switch),
            _ => {
                let (_, packet) = out.to_switch.remove(0);
                switch.arrive(0, now, packet, &mut out.log);
                out.most = out.most.max(switch.used(now));
            }
        }
    }
    (out.log.forwarded, out.log.dropped, out.most)
}

#[derive(Default)]
struct TwoToOne {
    to_switch: Vec<(u64, Pkt)>,
    log: Behind,
    most: u64,
}

/// Counts of what comes out of the switch.
#[derive(Default)]
struct Behind {
    forwarded: usize,
    dropped: usize,
    paused: Vec<(u64, bool)>,
}

impl Output<Pkt> for Vec<(u64, Pkt)> {
    fn forward(&mut self, at: u64, packet: Pkt, _waited: u64, _sent: u64) {
        self.push((at, packet));
    }
    fn dropped(&mut self, _at: u64, packet: &Pkt, why: DropReason) {
        panic!("a host drops {packet:?}: {why:?}");
    }
    fn marked(&mut self, _at: u64, _packet: &Pkt) {}
}

impl Output<Pkt> for Behind {
    fn forward(&mut self, _at: u64, _packet: Pkt, _waited: u64, _sent: u64) {
        self.forwarded += 1;
    }
    fn dropped(&mut self, _at: u64, _packet: &Pkt, _why: DropReason) {
        self.dropped += 1;
    }
    fn marked(&mut self, _at: u64, _packet: &Pkt) {}
    fn paused(&mut self, at: u64, paused: bool) {
        self.paused.push((at, paused));
    }
}

#[test]
fn pause_frames_move_the_queue_to_the_hosts() {
    let (forwarded, dropped, most) = two_to_one(None);
    // 1000 packets come in 4 ms and leave in 8: half of them find no room, but for the 50 in the buffer.
    assert!((440..=460).contains(&dropped), "{dropped}");
    assert_eq!((forwarded + dropped, most), (1000, 50_000));
    let (forwarded, dropped, most) = two_to_one(Some(PauseConfig { stop_bytes: 30_000, go_bytes: 20_000 }));
    assert_eq!((forwarded, dropped), (1000, 0));
    // At 2 Gbit/s in 2 us 500 bytes arrive, besides what each host was sending.
    assert!((30_000..=34_000).contains(&most), "{most}");
}

/// A switch sends to a neighbour that pauses it: what cannot leave fills its memory, until it asks others to pause itself.
#[test]
fn a_switch_that_is_paused_pauses_those_behind_it() {
    let pause = Some(PauseConfig { stop_bytes: 30_000, go_bytes: 20_000 });
    let mut switch = switch(&SwitchConfig { buffer_bytes: 50_000, pause }, 2);
    let mut log = Behind::default();
    switch.pause(0, 0, true, &mut log);
    // 1000 bytes each 10 us, more than enough time for port 0 to send them if it could.
    for id in 0..40 {
        let at = u64::from(id) * 10_000;
        switch.on_event(0, at, &mut log);
        switch.arrive(0, at, Pkt::new(id, 1000), &mut log);
    }
    assert_eq!((log.forwarded, log.dropped, switch.used(400_000)), (0, 0, 40_000));
    assert_eq!(log.paused, [(29 * 10_000, true)], "the 30th packet makes it 30,000 bytes");
    // The other port goes on.
    switch.arrive(1, 400_000, Pkt::new(40, 1000), &mut log);
    assert_eq!(log.forwarded, 1);
    switch.pause(0, 500_000, false, &mut log);
    while let Some(at) = switch.next_event(0).into_iter().chain(switch.next_release()).min() {
        switch.on_event(0, at, &mut log);
    }
    assert_eq!((log.forwarded, log.dropped), (41, 0));
    // 20 packets at 8 us each have left when 20,000 bytes are left.
    assert_eq!(log.paused[1..], [(500_000 + 20 * 8000, false)]);
}
