//! Runs a script against a system: makes its calls, sends its packets, and compares what the system does.

mod calls;
mod flow;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use tcp::Nanos;
use thiserror::Error;
use wire::segment::{IPV4_HEADER, IPV6_HEADER, TCP_HEADER};
use wire::{Ecn, Flags};

use crate::code::{Code, Names};
use crate::packet::{self, PORT, Seen};
use crate::script::{
    Action, Call, CallEvent, EcnField, Event, Icmp, Options, Order, Packet, Script, TcpOption, UdpPorts, When,
};
use crate::system::System;
use flow::Flow;

/// A script that went as it should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets that were expected and came.
    pub packets: usize,
    /// Lines that the script printed, and differences that it allows.
    pub output: Vec<String>,
}

/// Failure of a script, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The script's name.
    pub name: String,
    /// The line of the event.
    pub line: u32,
    /// Message of the failure. One line.
    pub message: String,
    /// The packet as the script has it, with its time, and the one that came.
    pub packets: Vec<String>,
    /// Lines that the script had printed.
    pub output: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.name, self.line, self.message)?;
        self.packets.iter().try_for_each(|packet| write!(f, "\n{packet}"))
    }
}

impl std::error::Error for Failure {}

/// Runs `script` against `system`.
///
/// # Errors
/// The first event that did not go as it should.
pub fn run(script: &Script, system: &mut dyn System) -> Result<Report, Failure> {
    let mut runner = Runner {
        options: &script.options,
        system,
        flows: Vec::new(),
        arrived: VecDeque::new(),
        last: 0,
        lag: 0,
        blocked: None,
        listens: false,
        calls_out: false,
        descriptors: BTreeMap::new(),
        names: Names::default(),
        report: Report::default(),
    };
    let Err((line, wrong)) = runner.script(script) else { return Ok(runner.report) };
    let Wrong { message, packets, .. } = runner.system.broken().map_or(wrong, Wrong::from);
    Err(Failure { name: script.name.clone(), line, message, packets, output: runner.report.output })
}

/// The latest time of an event, nanoseconds: three years, and far below what 64 bits can count.
const MAX_TIME: Nanos = 100_000_000_000_000_000;

/// Difference between a packet and the script's, as the original tool says it.
#[derive(Debug, Error)]
enum Difference {
    #[error(
        "live packet field {name}: expected: {expected} ({expected:#x}) vs actual: {actual} ({actual:#x})"
    )]
    Field { name: &'static str, expected: u32, actual: u32 },
    #[error("live packet field ipv4 ecn bits: expected: ECT(0) or ECT(1)")]
    NotCapable,
    #[error(transparent)]
    Options(ShownOptions),
    #[error("bad outbound TCP timestamp value: {0}")]
    Timestamp(ShownOptions),
}

/// Options that differ.
#[derive(Debug, Error)]
#[error("bad outbound TCP options: expected: {expected} vs actual: {actual}")]
struct ShownOptions {
    expected: String,
    actual: String,
}

/// Fault of an event.
struct Wrong {
    message: String,
    packets: Vec<String>,
    /// Kind of the difference: a script may allow some kinds.
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Packet,
    Call,
    Other,
}

impl From<String> for Wrong {
    fn from(message: String) -> Wrong {
        Wrong { message, packets: Vec::new(), kind: Kind::Other }
    }
}

/// A call that blocks, and what it must return.
struct Blocked<'a> {
    line: u32,
    event: &'a CallEvent,
    until: Nanos,
}

struct Runner<'a> {
    options: &'a Options,
    system: &'a mut dyn System,
    flows: Vec<Flow>,
    /// Packets, or the rest of one, that came and have not been compared yet.
    arrived: VecDeque<(Nanos, Seen)>,
    /// Time of the event before.
    last: Nanos,
    /// Lateness of the last packet sent or the last call made, where the clock is a real one. It is added to
    /// tolerances.
    lag: Nanos,
    blocked: Option<Blocked<'a>>,
    /// A socket listens that no SYN has come to.
    listens: bool,
    /// A call may have opened a connection since the last one whose SYN was seen.
    calls_out: bool,
    /// The system's descriptors by the script's labels.
    descriptors: BTreeMap<i32, i32>,
    /// Names to which the script's code has given values.
    names: Names,
    report: Report,
}

impl<'a> Runner<'a> {
    fn script(&mut self, script: &'a Script) -> Result<(), (u32, Wrong)> {
        for order in &script.init {
            self.order(&script.name, order).map_err(|wrong| (order.line(), wrong))?;
        }
        for event in &script.events {
            let before = self.last;
            if let Err(wrong) = self.event(&script.name, event) {
                let goes_on = match wrong.kind {
                    Kind::Packet => self.options.packets_may_differ,
                    Kind::Call => self.options.calls_may_differ,
                    Kind::Other => false,
                };
                if !goes_on {
                    return Err((event.line, wrong));
                }
                self.report.output.push(format!("{}:{}: {}", script.name, event.line, wrong.message));
                self.last = self.last.max(before);
            }
        }
        let last = script.events.last().map_or(0, |event| event.line);
        let line = self.blocked.as_ref().map_or(last, |blocked| blocked.line);
        self.unblock().map_err(|wrong| (line, wrong))?;
        self.nothing_left(script).map_err(|wrong| (last, wrong))
    }

    fn event(&mut self, script: &str, event: &'a Event) -> Result<(), Wrong> {
        let (from, to) = match event.when {
            When::At(at) => (at, at),
            When::After(gap) => (self.last + gap, self.last + gap),
            When::Between(from, to) => (from, to),
            When::AfterBetween(from, to) => (self.last + from, self.last + to),
            When::Any => (0, Nanos::MAX),
        };
        if from > MAX_TIME {
            return Err(Wrong::from(format!("the script is longer than {} s", MAX_TIME / 1_000_000_000)));
        }
        if let Action::Expect(packet) = &event.action {
            return self.expect(packet, event.when, from, to);
        }
        self.system.run_until(from);
        self.lag = self.system.now().saturating_sub(from);
        let previous = std::mem::replace(&mut self.last, from);
        match &event.action {
            Action::Inject(packet) => {
                self.inject(packet);
                Ok(())
            }
            Action::Icmp(message) => {
                self.icmp(message);
                Ok(())
            }
            Action::Call(call) => {
                let base = if matches!(event.when, When::At(_)) { 0 } else { previous };
                self.call(event.line, call, call.until.map(|until| base + until))
            }
            Action::Code(code) => self.code(code),
            Action::Orders(orders) => orders.iter().try_for_each(|order| self.order(script, order)),
            Action::Expect(_) => Ok(()),
        }
    }

    /// Carries out what was read from a command. A sysctl that the system does not have is noted.
    fn order(&mut self, script: &str, order: &Order) -> Result<(), Wrong> {
        match order {
            Order::Set(setting) => match self.system.set(&setting.name, &setting.value) {
                Err(why) if why.unknown() && !setting.optional => {
                    self.report.output.push(format!("{script}:{}: not set: {why}", setting.line));
                    Ok(())
                }
                Err(why) if !setting.optional => Err(Wrong::from(format!("error in setting: {why}"))),
                _ => Ok(()),
            },
            Order::CountStates { state, count, .. } => {
                let found = self.system.states().map_err(|why| Wrong::from(why.to_string()))?;
                let alike = found.iter().filter(|known| **known == state).count();
                if alike == *count {
                    return Ok(());
                }
                Err(Wrong::from(format!(
                    "expected {count} in state {state}, found {alike}: {}",
                    found.join(", ")
                )))
            }
            Order::Counted { name, .. } => match self.system.counted(name.as_deref()) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let name = name.as_deref().unwrap_or_default();
                    Err(Wrong::from(format!("the system has not counted {name}")))
                }
                Err(why) => Err(Wrong::from(why.to_string())),
            },
            Order::Queue { paces, .. } => {
                self.system.queue(*paces).map_err(|why| Wrong::from(why.to_string()))
            }
            Order::Offload { on, .. } => self.system.offload(*on).map_err(|why| Wrong::from(why.to_string())),
            Order::Forget { .. } => self.system.forget().map_err(|why| Wrong::from(why.to_string())),
            Order::Drop { state, .. } => {
                self.system.drop_connections(state).map_err(|why| Wrong::from(why.to_string()))
            }
        }
    }

    fn code(&mut self, code: &Code) -> Result<(), Wrong> {
        let info = self.system.info().map_err(|why| Wrong::from(format!("error in code: {why}")))?;
        let lookup = |name: &str| {
            let found = info.iter().chain(CONSTANTS).find(|(known, _)| *known == name);
            found.map(|&(_, value)| value)
        };
        let output = &mut self.report.output;
        code.run(&lookup, &mut self.names, &mut |line| output.push(line))
            .map_err(|why| Wrong::from(format!("error in code: {why}")))
    }

    /// Checks at the end of the script that the system has sent no packet that was not expected. If the script ends
    /// with calls that close sockets, the answers to those are not compared.
    fn nothing_left(&mut self, script: &Script) -> Result<(), Wrong> {
        if self.options.end_unseen {
            return Ok(());
        }
        let last_action = script
            .events
            .iter()
            .rev()
            .find(|event| !matches!(event.action, Action::Code(_) | Action::Orders(_)));
        let closes = |event: &Event| {
            let Action::Call(call) = &event.action else { return false };
            matches!(call.call, Call::Close(_) | Call::Shutdown { .. })
        };
        if last_action.is_some_and(closes) {
            return Ok(());
        }
        let now = self.system.now();
        match self.next(now) {
            Some((at, seen)) => {
                let flow = self.flow_of(&seen);
                let shown = self.translated(flow, &seen.packet);
                Err(Wrong {
                    message:
                        "error handling packet: the system sent a packet that the script does not expect"
                            .into(),
                    packets: vec![dump("actual", at, &shown)],
                    kind: Kind::Packet,
                })
            }
            None => Ok(()),
        }
    }

    fn tolerance(&self, expected: Nanos) -> Nanos {
        let wait = expected.saturating_sub(self.last);
        let share = (u128::from(wait) * u128::from(self.options.tolerance_permille) / 1000) as Nanos;
        self.options.tolerance.max(share).saturating_add(self.lag)
    }
}

/// Names of Linux, and of FreeBSD's states with Linux's numbers, that assertions may use besides those of TCP_INFO.
const CONSTANTS: &[(&str, i64)] = &[
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_ESTABLISHED", 1),
    ("TCPI_SYN_SENT", 2),
    ("TCPI_SYN_RECEIVED", 3),
    ("TCPI_FIN_WAIT_1", 4),
    ("TCPI_FIN_WAIT_2", 5),
    ("TCPI_TIME_WAIT", 6),
    ("TCPI_CLOSED", 7),
    ("TCPI_CLOSE_WAIT", 8),
    ("TCPI_LAST_ACK", 9),
    ("TCPI_LISTEN", 10),
    ("TCPI_CLOSING", 11),
];

/// Port from which the peer opens its first connection; the next ones count up.
const FIRST_PORT: u16 = 40_001;

/// Packets to the system.
impl Runner<'_> {
    fn inject(&mut self, packet: &Packet) {
        let syn = packet.flags.has(Flags::SYN);
        let opens = syn && !packet.flags.has(Flags::ACK);
        // Behind a new call of listen, too.
        let listens = opens && std::mem::take(&mut self.listens);
        // A new peer begins where the one before did; another number belongs to the connection that was.
        let anew = |flow: &Flow| {
            listens || opens && flow.ended() && flow.peer_isn.is_none_or(|isn| isn == packet.seq)
        };
        if self.flows.last().is_none_or(anew) {
            let port = FIRST_PORT.wrapping_add(self.flows.len() as u16);
            self.flows.push(Flow::new(PORT, port));
        }
        let Some(flow) = self.flows.last_mut() else { return };
        if syn {
            flow.peer_isn.get_or_insert(packet.seq);
        }
        flow.reopens |= opens && flow.ended();
        flow.fin_received |= packet.flags.has(Flags::FIN);
        let own = flow.travels_in(packet.udp);
        flow.reset |= own && packet.flags.has(Flags::RST);
        let mut packet = packet.clone();
        let mut offset = flow.offset.unwrap_or(0);
        if !syn {
            offset = offset.wrapping_add(flow.own_isn);
            packet.seq = packet.seq.wrapping_add(flow.peer_isn.unwrap_or(0));
        }
        if packet.flags.has(Flags::ACK) {
            packet.ack = packet.ack.wrapping_add(offset);
        }
        for option in packet.options.iter_mut().flatten() {
            match option {
                TcpOption::Sack(blocks) => blocks.iter_mut().for_each(|(left, right)| {
                    *left = left.wrapping_add(offset);
                    *right = right.wrapping_add(offset);
                }),
                TcpOption::Timestamps { ecr, .. } => *ecr = wire_timestamp(&flow.timestamps, *ecr),
                _ => {}
            }
        }
        let bytes = packet::encode(&packet, &flow.ends.reversed());
        self.system.inject(&bytes, packet.udp);
    }
}

impl Runner<'_> {
    /// A message about a packet of the connection at hand.
    fn icmp(&mut self, message: &Icmp) {
        let Some(flow) = self.flows.last() else { return };
        let &Icmp { kind, code, mtu, seq, len, udp } = message;
        let seq = seq.wrapping_add(flow.offset.unwrap_or(0));
        let header = if self.options.ipv6 { IPV6_HEADER } else { IPV4_HEADER };
        let length = header + TCP_HEADER + len;
        self.system.icmp(&flow.ends, &tcp::endpoint::Icmp { kind, code, mtu, seq, length }, udp);
    }
}

/// The value on the wire for a timestamp echo of the script: the one that was sent for it. For a value that was not sent, it
/// differs from that of the nearest one sent by as much as in the script.
fn wire_timestamp(sent: &[(u32, u32)], script: u32) -> u32 {
    let nearest = sent.iter().min_by_key(|(known, _)| (script.wrapping_sub(*known) as i32).unsigned_abs());
    nearest.map_or(script, |&(known, wire)| wire.wrapping_add(script.wrapping_sub(known)))
}

/// Packets from the system.
impl Runner<'_> {
    fn next(&mut self, until: Nanos) -> Option<(Nanos, Seen)> {
        self.arrived.pop_front().or_else(|| self.system.next_packet(until))
    }

    /// The connection a packet belongs to; a new one for a SYN, and for what belongs to none.
    fn flow_of(&mut self, seen: &Seen) -> usize {
        if let Some(index) = self.flows.iter().rposition(|flow| flow.ends == seen.ends) {
            return index;
        }
        let mut flow = Flow::new(seen.ends.sport, seen.ends.dport);
        flow.ends = seen.ends;
        self.flows.push(flow);
        self.flows.len() - 1
    }

    /// The packet with the script's sequence numbers.
    fn translated(&self, flow: usize, packet: &Packet) -> Packet {
        let mut packet = packet.clone();
        let flow = &self.flows[flow];
        packet.seq = packet.seq.wrapping_sub(flow.offset.unwrap_or(0));
        if !packet.flags.has(Flags::SYN) {
            packet.seq = packet.seq.wrapping_sub(flow.own_isn);
            let peer = flow.peer_isn.unwrap_or(0);
            packet.ack = packet.ack.wrapping_sub(peer);
            for option in packet.options.iter_mut().flatten() {
                if let TcpOption::Sack(blocks) = option {
                    blocks.iter_mut().for_each(|(left, right)| {
                        *left = left.wrapping_sub(peer);
                        *right = right.wrapping_sub(peer);
                    });
                }
            }
        }
        if !packet.flags.has(Flags::ACK) {
            packet.ack = 0;
        }
        packet
    }

    fn expect(&mut self, expected: &Packet, when: When, from: Nanos, to: Nanos) -> Result<(), Wrong> {
        let tolerance = if when == When::Any { 0 } else { self.tolerance(to) };
        let deadline = match when {
            When::Any => self.system.now() + self.system.late_wait(),
            _ => to.saturating_add(tolerance).max(self.system.now()),
        };
        let mut wanted = expected.clone();
        let mut first = None;
        loop {
            let Some((at, seen)) = self.next(deadline) else {
                return Err(self.missing(expected, when, from, tolerance));
            };
            let index = self.flow_of(&seen);
            if self.is_of_another(index, &wanted, &seen.packet) {
                continue;
            }
            let mut actual = seen.packet.clone();
            self.learn(index, &wanted, &actual);
            let joins = !self.options.strict_segments && wanted.len > 0 && actual.len > 0;
            let mut part = wanted.clone();
            if joins {
                // PSH shows where the system's buffers end, which is not part of the protocol (docs/scripts.md).
                part.flags.0 = part.flags.0 & !Flags::PSH.0 | actual.flags.0 & Flags::PSH.0;
            }
            if joins && actual.len > wanted.len {
                // One segment is several in the script: the rest is compared later.
                let mut rest = seen.clone();
                rest.packet.seq = actual.seq.wrapping_add(wanted.len);
                rest.packet.len = actual.len - wanted.len;
                rest.packet.flags.0 &= !Flags::CWR.0;
                self.arrived.push_front((at, rest));
                actual.len = wanted.len;
                actual.flags.0 &= !Flags::FIN.0;
            } else if joins && actual.len < wanted.len {
                // Several segments are one in the script: FIN stands on the last one, CWR on the first.
                part.len = actual.len;
                part.flags.0 &= !Flags::FIN.0;
            }
            let shown = match wanted.absolute {
                true => actual.clone(),
                false => self.translated(index, &actual),
            };
            let time = first.unwrap_or(from.min(at));
            let wrong = |message: String| Wrong {
                message: format!("error handling packet: {message}"),
                packets: vec![dump("script", time, expected), dump("actual", at, &shown)],
                kind: Kind::Packet,
            };
            self.compare(index, &part, &shown).map_err(|difference| wrong(difference.to_string()))?;
            if when != When::Any && (at.saturating_add(tolerance) < from || at > to.saturating_add(tolerance))
            {
                return Err(wrong(late(when, from, to, at, tolerance)));
            }
            let flow = &mut self.flows[index];
            flow.fin_sent |= actual.flags.has(Flags::FIN);
            // A segment that came in another UDP is refused, and no connection ends.
            let own = flow.travels_in(actual.udp.map(UdpPorts::reversed));
            flow.reset |= own && actual.flags.has(Flags::RST);
            first.get_or_insert(at);
            if part.len == wanted.len {
                break;
            }
            wanted.seq = wanted.seq.wrapping_add(part.len);
            wanted.len -= part.len;
            wanted.flags.0 &= !Flags::CWR.0;
        }
        self.report.packets += 1;
        self.last = match when {
            When::At(_) | When::After(_) => from,
            _ => first.unwrap_or(from),
        };
        Ok(())
    }

    /// Whether a packet is of a connection that a newer one has taken the place of, also of one that is only expected: the
    /// original tool looks at the newest alone.
    fn is_of_another(&self, flow: usize, wanted: &Packet, seen: &Packet) -> bool {
        let opens = |packet: &Packet| packet.flags.has(Flags::SYN) && !packet.flags.has(Flags::ACK);
        let latest = &self.flows[flow];
        // The SYN of a connection that a reset has ended may be sent again after the call that opens the next one.
        let again = || {
            self.calls_out
                && latest.ended()
                && latest.offset.map(|it| it.wrapping_add(latest.own_isn)) == Some(seen.seq)
        };
        flow + 1 < self.flows.len() || opens(wanted) && latest.offset.is_some() && (!opens(seen) || again())
    }

    /// Takes from a packet how the system's sequence numbers and timestamps correspond to those of the script.
    fn learn(&mut self, flow: usize, expected: &Packet, actual: &Packet) {
        let flow = &mut self.flows[flow];
        let opens = expected.flags.has(Flags::SYN) && actual.flags.has(Flags::SYN);
        if opens && (flow.offset.is_none() || flow.reopens) {
            flow.reopens = false;
            flow.offset = Some(actual.seq.wrapping_sub(expected.seq));
            flow.own_isn = expected.seq;
            self.calls_out = false;
        }
        let timestamp = |packet: &Packet| {
            packet.options.iter().flatten().find_map(|option| match option {
                TcpOption::Timestamps { val, .. } => Some(*val),
                _ => None,
            })
        };
        if let (Some(script), Some(wire)) = (timestamp(expected), timestamp(actual)) {
            flow.timestamps.push((script, wire));
        }
    }

    /// Compares field by field.
    fn compare(&self, flow: usize, expected: &Packet, actual: &Packet) -> Result<(), Difference> {
        let field = |name, expected, actual| {
            if expected == actual {
                return Ok(());
            }
            Err(Difference::Field { name, expected, actual })
        };
        const FLAGS: &[(&str, Flags)] = &[
            ("tcp_fin", Flags::FIN),
            ("tcp_syn", Flags::SYN),
            ("tcp_rst", Flags::RST),
            ("tcp_psh", Flags::PSH),
            ("tcp_ack", Flags::ACK),
            ("tcp_ece", Flags::ECE),
            ("tcp_cwr", Flags::CWR),
            ("tcp_ae", Flags::AE),
        ];
        for (name, flag) in FLAGS {
            field(name, u32::from(expected.flags.has(*flag)), u32::from(actual.flags.has(*flag)))?;
        }
        if !expected.any_seq {
            field("tcp_seq", expected.seq, actual.seq)?;
        }
        let ports = |packet: &Packet| packet.udp.map_or((0, 0), |udp| (udp.sport.into(), udp.dport.into()));
        field("udp_src_port", ports(expected).0, ports(actual).0)?;
        field("udp_dst_port", ports(expected).1, ports(actual).1)?;
        field("tcp payload bytes", expected.len, actual.len)?;
        field("tcp_ack_seq", expected.ack, actual.ack)?;
        if let Some(window) = expected.window {
            field("tcp_window", u32::from(window), u32::from(actual.window.unwrap_or(0)))?;
        }
        match (expected.ecn, actual.ecn) {
            (Some(EcnField::Is(wanted)), Some(EcnField::Is(found))) => {
                field("ipv4 ecn bits", wanted as u32, found as u32)?;
            }
            (Some(EcnField::Capable), Some(EcnField::Is(Ecn::NotEct | Ecn::Ce))) => {
                return Err(Difference::NotCapable);
            }
            _ => {}
        }
        match (&expected.options, &actual.options) {
            (Some(wanted), Some(found)) => self.compare_options(flow, wanted, found),
            _ => Ok(()),
        }
    }

    fn compare_options(
        &self,
        flow: usize,
        expected: &[TcpOption],
        actual: &[TcpOption],
    ) -> Result<(), Difference> {
        let shown = |options: &[TcpOption]| {
            let words: Vec<String> = options.iter().map(TcpOption::to_string).collect();
            if words.is_empty() { "none".into() } else { words.join(",") }
        };
        let same = |(expected, actual): (&TcpOption, &TcpOption)| match (expected, actual) {
            (TcpOption::Timestamps { ecr, .. }, TcpOption::Timestamps { ecr: found, .. }) => ecr == found,
            _ => expected == actual,
        };
        let bad = || ShownOptions { expected: shown(expected), actual: shown(actual) };
        if expected.len() != actual.len() || !expected.iter().zip(actual).all(same) {
            return Err(Difference::Options(bad()));
        }
        let Some(tick) = self.options.timestamp_tick else { return Ok(()) };
        let Some(&(base_script, base_wire)) = self.flows[flow].timestamps.first() else { return Ok(()) };
        for pair in expected.iter().zip(actual) {
            if let (TcpOption::Timestamps { val, .. }, TcpOption::Timestamps { val: found, .. }) = pair {
                let off = val.wrapping_sub(base_script).wrapping_sub(found.wrapping_sub(base_wire)) as i32;
                if u64::from(off.unsigned_abs()) * tick > self.options.tolerance {
                    return Err(Difference::Timestamp(bad()));
                }
            }
        }
        Ok(())
    }

    /// The message for a packet that did not come in time: when it came, or that it did not come at all.
    fn missing(&mut self, expected: &Packet, when: When, from: Nanos, tolerance: Nanos) -> Wrong {
        let mut packets = vec![dump("script", if when == When::Any { 0 } else { from }, expected)];
        let mut message = "Timed out waiting for packet".to_string();
        let until = self.system.now() + self.system.late_wait();
        if let Some((at, seen)) = self.next(until) {
            let flow = self.flow_of(&seen);
            self.learn(flow, expected, &seen.packet);
            message = late(when, from, from, at, tolerance);
            packets.push(dump("actual", at, &self.translated(flow, &seen.packet)));
        }
        Wrong { message: format!("error handling packet: {message}"), packets, kind: Kind::Packet }
    }
}

fn late(when: When, from: Nanos, to: Nanos, at: Nanos, tolerance: Nanos) -> String {
    let range = if matches!(when, When::Between(..) | When::AfterBetween(..)) {
        format!("in time range {}~{}", seconds(from), seconds(to))
    } else {
        format!("at {}", seconds(from))
    };
    format!(
        "timing error: expected outbound packet {range} sec but happened at {} sec; tolerance {} sec",
        seconds(at),
        seconds(tolerance)
    )
}

fn dump(which: &str, at: Nanos, packet: &Packet) -> String {
    format!("{which} packet: {:>9} {packet}", seconds(at))
}

/// Seconds with six decimals, as the original tool prints times.
fn seconds(at: Nanos) -> String {
    let micros = at.saturating_add(500) / 1000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
