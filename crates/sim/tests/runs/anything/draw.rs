//! A scenario drawn from a list of choices: each key from its whole range, its ends more often than what lies between.

use std::collections::BTreeMap;

use contract::scenario::{
    App, Capture, Change, Cheat, Coalesce, Distribution, Draws, Ecn, EcnField, Egress, Flow, Host, Ingress,
    IngressStage, IpVersion, Link, LoadPart, Measure, Nic, Node, Noise, Processing, Record, Sampling,
    Scenario, Stall, VERSION, WhenFull,
};
use path::{
    BfifoConfig, CakeConfig, ChokeConfig, CodelConfig, Dualpi2Config, FlowMode, FqCodelConfig, FqConfig,
    FqPieConfig, JitterConfig, JitterKind, LossConfig, PauseConfig, PeakConfig, PfifoConfig, PieConfig,
    QueueConfig, RedConfig, ShaperConfig, SwitchConfig,
};
use tcp::profile;

/// Longest time of the experiment file, ns.
const TIME: u64 = 10_000_000_000_000_000;
/// Highest rate of the experiment file, bit/s.
const RATE: u64 = 10_000_000_000_000;
/// Largest size of the experiment file, bytes.
const SIZE: u64 = 1 << 50;
const PPB: u32 = 1_000_000_000;

/// The scenario that the choices lead to. Smaller choices, and 0 for those that are missing, lead to simpler scenarios.
pub(super) fn scenario(choices: Vec<u64>) -> Scenario {
    Draw(choices.into_iter()).scenario()
}

struct Draw(std::vec::IntoIter<u64>);

impl Draw {
    fn choice(&mut self) -> u64 {
        self.0.next().unwrap_or(0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.choice() % bound
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn flag(&mut self) -> bool {
        self.one_in(2)
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    /// Draws one of the range's ends, or anything between, where each power of two is as likely.
    fn range(&mut self, least: u64, most: u64) -> u64 {
        match self.below(10) {
            0 => least,
            1 => most,
            _ => {
                let bits = 64 - (most - least).leading_zeros();
                let width = self.below(u64::from(bits) + 1) as u32;
                let value = if width == 0 { 0 } else { self.choice() >> (64 - width) };
                least + value.min(most - least)
            }
        }
    }

    fn small(&mut self, least: u32, most: u32) -> u32 {
        self.range(least.into(), most.into()) as u32
    }

    /// A time that lets something happen within the events of a run, or any.
    fn time(&mut self) -> u64 {
        match self.below(6) {
            0 => self.range(0, TIME),
            1 => self.range(0, 5 * 3600 * 1_000_000_000),
            2 => self.range(30_000_000_000, 200_000_000_000),
            _ => self.range(0, 200_000_000),
        }
    }

    fn positive_time(&mut self) -> u64 {
        self.time().max(1)
    }

    fn rate(&mut self) -> u64 {
        match self.below(3) {
            0 => self.range(1, RATE),
            _ => self.range(100_000, 10_000_000_000),
        }
    }

    fn size(&mut self) -> u64 {
        match self.below(3) {
            0 => self.range(1, SIZE),
            _ => self.range(1, 1 << 20),
        }
    }

    /// Draws the size of a socket's buffer; now and then one that no socket has.
    fn buffer(&mut self) -> u64 {
        match self.below(30) {
            0 => self.range(1, SIZE),
            1..10 => self.range(1, 1 << 31),
            _ => self.range(1, 1 << 20),
        }
    }

    fn maybe<T>(&mut self, times: u64, draw: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        if self.one_in(times) { Some(draw(self)) } else { None }
    }

    fn share(&mut self) -> u32 {
        match self.below(3) {
            0 => 0,
            1 => self.small(0, 50_000_000),
            _ => self.small(0, PPB),
        }
    }

    fn scenario(&mut self) -> Scenario {
        let duration_ns = match self.below(3) {
            0 => self.positive_time(),
            _ => self.range(1_000_000_000, 600_000_000_000),
        };
        let from_ns = if self.flag() { 0 } else { self.range(0, duration_ns - 1) };
        let ipv6 = self.one_in(3);
        let nodes = ["r1", "r2"].map(|name| Node {
            name: name.into(),
            switch: self.maybe(8, |draw| {
                let buffer_bytes = draw.size();
                let pause = draw.maybe(2, |draw| {
                    let stop_bytes = draw.range(0, buffer_bytes);
                    PauseConfig { stop_bytes, go_bytes: draw.range(0, stop_bytes) }
                });
                SwitchConfig { buffer_bytes, pause }
            }),
        });
        let mut hosts: Vec<Host> = ["a", "b", "c"].map(|name| self.host(name)).to_vec();
        for host in &mut hosts {
            // One host alone is refused.
            host.ip = if ipv6 || self.one_in(100) { IpVersion::Ipv6 } else { IpVersion::Ipv4 };
        }
        let mut links = Vec::new();
        for (from, to) in [("a", "r1"), ("r1", "r2"), ("r2", "b"), ("c", "r1")] {
            for (from, to) in [(from, to), (to, from)] {
                let shared = nodes.iter().any(|node| node.name == from && node.switch.is_some());
                let port = shared && !self.one_in(20);
                links.push(self.link(from, to, port));
            }
        }
        let flows = (0..1 + self.below(4)).map(|number| self.flow(number, &hosts, duration_ns)).collect();
        let ports: Vec<&str> = nodes.iter().filter(|n| n.switch.is_some()).map(|n| n.name.as_str()).collect();
        let schedule = self.schedule(&links, &ports, duration_ns);
        let jittered = links.iter().filter(|_| self.one_in(4)).map(|link| link.name.clone());
        let phase_jitter_ns =
            jittered.collect::<Vec<_>>().into_iter().map(|name| (name, self.time())).collect();
        Scenario {
            version: VERSION,
            experiment: "anything".into(),
            seed: self.choice(),
            repeat: self.small(0, 9_999),
            duration_ns,
            start_jitter_ns: self.maybe(3, Draw::time).unwrap_or(0),
            phase_jitter_ns,
            measure: Measure { from_ns, to_ns: self.range(from_ns + 1, duration_ns), time_to_bps: None },
            record: self.record(),
            hosts,
            nodes: nodes.to_vec(),
            links,
            flows,
            schedule,
        }
    }

    fn record(&mut self) -> Record {
        let mut sampling = || match self.below(3) {
            0 => Sampling::Off,
            1 => Sampling::PerAck,
            _ => Sampling::Interval { interval_ns: self.range(1_000_000, TIME) },
        };
        let (tcp, queue) = (sampling(), sampling());
        let pcap = match self.below(6) {
            0 => vec![
                Capture { at: "a".into(), snaplen: self.small(40, 65_535) },
                Capture { at: "r1-r2".into(), snaplen: self.small(40, 100) },
            ],
            _ => vec![],
        };
        Record { tcp, queue, pcap }
    }

    fn host(&mut self, name: &str) -> Host {
        let stacks = profile::all();
        let stack = &stacks[self.below(stacks.len() as u64) as usize];
        let mut sysctl = BTreeMap::new();
        if self.flag() {
            for known in stack.sysctls() {
                if self.one_in(3) {
                    let span = known.max.wrapping_sub(known.min) as u64;
                    let value = known.min.wrapping_add(self.range(0, span) as i64);
                    let value = if self.flag() { known.default } else { value };
                    sysctl.insert(known.name.to_owned(), value);
                }
            }
        }
        let mss = match self.below(3) {
            0 => 1460,
            1 => self.small(64, 9000) as u16,
            _ => self.small(88, 65_495) as u16,
        };
        let coalesce = self.maybe(2, |draw| Coalesce {
            time_ns: draw.time(),
            frames: draw.small(0, 65_535),
            gro_flush_timeout_ns: draw.maybe(2, Draw::time).unwrap_or(0),
            napi_defer_hard_irqs: draw.small(0, 1000),
        });
        let waits = coalesce.is_some_and(|coalesce| coalesce.time_ns > 0);
        Host {
            name: name.into(),
            stack: stack.spec().name.into(),
            hz: self.of(&[10, 64, 100, 250, 1000, 10_000]),
            ip: IpVersion::Ipv4,
            mss,
            ecn: match stack.spec().accecn.known {
                true => self.of(&[Ecn::Accurate, Ecn::OnAcceptAccurate, Ecn::AcceptAccurate]),
                false => self.of(&[Ecn::Off, Ecn::Accept, Ecn::On]),
            },
            sysctl,
            nic: Nic {
                tx_queue: self.small(0, 1_000_000_000),
                full: self.of(&[WhenFull::Drop, WhenFull::Enobufs]),
                tso: self.flag(),
                tso_max: self.maybe(4, |draw| draw.small(1, 65_536)),
                gro: self.flag(),
                lro: self.flag(),
                coalesce,
                veth: false,
            },
            ack_every: self.maybe(6, |draw| draw.small(1, 10_000) as u16).filter(|_| waits),
            cheats: self.maybe(8, |draw| match draw.small(0, 2) {
                0 => Cheat::AckDivision { parts: draw.small(1, 10_000) },
                1 => Cheat::DuplicateAcks { copies: draw.small(1, 10_000) },
                _ => Cheat::OptimisticAcks { rate_bps: draw.range(1, 1_000_000_000) },
            }),
            noise: self.maybe(5, |draw| Noise {
                processing: draw.maybe(2, |draw| Processing { mean_ns: draw.time(), sd_ns: draw.time() }),
                stall: draw.maybe(2, |draw| Stall { every_ns: draw.positive_time(), length_ns: draw.time() }),
            }),
            egress: self.maybe(6, Draw::egress),
            ingress: Ingress {
                before_gro: self.maybe(6, Draw::stage),
                after_gro: self.maybe(6, Draw::stage),
            },
        }
    }

    fn egress(&mut self) -> Egress {
        Egress {
            limit_packets: self.small(1, 1_000_000_000),
            delay_ns: self.time(),
            jitter: self.maybe(3, Draw::jitter),
            loss: self.maybe(3, Draw::loss),
            duplicate_ppb: self.share(),
            corrupt_ppb: self.share(),
            rate_bps: self.maybe(2, Draw::rate),
        }
    }

    fn stage(&mut self) -> IngressStage {
        IngressStage {
            loss: self.maybe(2, Draw::loss),
            duplicate_ppb: self.share(),
            corrupt_ppb: self.share(),
            dport: self.maybe(4, |draw| draw.small(0, 65_535) as u16),
            sport: self.maybe(4, |draw| draw.small(0, 65_535) as u16),
            min_payload: self.small(0, 65_535),
        }
    }

    fn jitter(&mut self) -> JitterConfig {
        let kind = self.of(&[JitterKind::Uniform, JitterKind::Normal, JitterKind::Pareto, JitterKind::Table]);
        JitterConfig {
            kind,
            sd_ns: self.time(),
            reorder: self.flag(),
            table: (kind == JitterKind::Table || self.one_in(4))
                .then(|| (0..1 + self.below(4)).map(|_| self.choice() as i16).collect()),
        }
    }

    fn loss(&mut self) -> LossConfig {
        match self.below(4) {
            0 => LossConfig::Random { probability_ppb: self.share() },
            1 => {
                let every = self.small(1, 1_000_000_000);
                LossConfig::Nth {
                    every,
                    packet: self.small(0, every - 1),
                    min_payload: self.small(0, 10_000),
                    dport: self.maybe(4, |draw| draw.small(0, 65_535) as u16),
                    sport: self.maybe(4, |draw| draw.small(0, 65_535) as u16),
                }
            }
            2 => LossConfig::Gilbert {
                p_ppb: self.share(),
                r_ppb: self.share(),
                loss_bad_ppb: self.share(),
                loss_good_ppb: self.share(),
            },
            _ => {
                let mut packets: Vec<u64> = (0..self.below(6)).map(|_| self.range(0, u64::MAX)).collect();
                packets.sort_unstable();
                LossConfig::List { packets }
            }
        }
    }

    fn queue(&mut self) -> QueueConfig {
        let limit_packets = self.small(1, 1_000_000_000);
        let limit_bytes = self.size();
        let (target_ns, interval_ns, tupdate_ns) =
            (self.time(), self.positive_time(), self.range(1_000, TIME));
        let flows = self.small(1, 65_536);
        let quantum_bytes = self.small(1, 1 << 20);
        let (alpha, beta) = (self.small(0, 32), self.small(0, 32));
        let (ecn, bytemode, dq_rate_estimator) = (self.flag(), self.flag(), self.flag());
        let ce_threshold_ns = self.maybe(2, Draw::time);
        match self.below(13) {
            0 => QueueConfig::Bfifo(BfifoConfig { limit_bytes }),
            1 => QueueConfig::Codel(CodelConfig {
                limit_packets,
                target_ns,
                interval_ns,
                ecn,
                ce_threshold_ns,
            }),
            2 => QueueConfig::Red(self.red(limit_bytes, ecn)),
            3 => QueueConfig::FqCodel(FqCodelConfig {
                limit_packets,
                flows,
                quantum_bytes,
                target_ns,
                interval_ns,
                ecn,
                ce_threshold_ns,
                ce_threshold_selector: self.small(0, 3),
                ce_threshold_mask: self.small(0, 3),
                memory_limit_bytes: limit_bytes,
                drop_batch: self.small(1, 65_535),
            }),
            4 => QueueConfig::Pie(PieConfig {
                limit_packets,
                target_ns,
                tupdate_ns,
                alpha,
                beta,
                ecn,
                bytemode,
                dq_rate_estimator,
            }),
            5 => QueueConfig::FqPie(FqPieConfig {
                limit_packets,
                flows,
                target_ns,
                tupdate_ns,
                alpha,
                beta,
                quantum_bytes,
                memory_limit_bytes: limit_bytes,
                ecn_prob: self.small(0, 100),
                ecn,
                bytemode,
                dq_rate_estimator,
            }),
            6 => QueueConfig::Cake(self.cake(interval_ns)),
            7 => QueueConfig::Dualpi2(Dualpi2Config {
                limit_packets,
                target_ns,
                tupdate_ns,
                alpha_ppb: self.range(0, 256_000_000_000),
                beta_ppb: self.range(0, 256_000_000_000),
                coupling_factor: self.small(1, 255),
                memlimit_bytes: limit_bytes.min(u32::MAX.into()),
                step_thresh_ns: self.time(),
                step_packets: self.maybe(2, |draw| draw.small(0, 1_000_000_000)),
                min_qlen_step_packets: self.small(0, 1_000_000_000),
                classic_protection: self.small(0, 100),
                drop_on_overload: self.flag(),
                drop_enqueue: self.flag(),
                any_ect: self.flag(),
                split_gso: self.flag(),
            }),
            8 => QueueConfig::Choke(self.choke(limit_packets, ecn)),
            9 => QueueConfig::Fq(self.fq(limit_packets, quantum_bytes, ce_threshold_ns)),
            _ => QueueConfig::Pfifo(PfifoConfig { limit_packets }),
        }
    }

    fn choke(&mut self, limit_packets: u32, ecn: bool) -> ChokeConfig {
        let max_packets = self.small(1, 1_000_000_000);
        ChokeConfig {
            limit_packets: limit_packets.min(131_071),
            min_packets: self.small(0, max_packets - 1),
            max_packets,
            avpkt_bytes: self.range(1, 65_535),
            burst_packets: self.range(0, 1_000_000_000),
            probability_ppb: self.share(),
            bandwidth_bps: self.rate(),
            ecn,
        }
    }

    fn fq(&mut self, limit_packets: u32, quantum_bytes: u32, ce_threshold_ns: Option<u64>) -> FqConfig {
        FqConfig {
            limit_packets,
            flow_limit_packets: self.small(0, 1_000_000_000),
            quantum_bytes: quantum_bytes.max(256),
            initial_quantum_bytes: self.small(0, 1 << 20),
            maxrate_bps: self.maybe(2, |draw| draw.range(8, 34_000_000_000)),
            low_rate_threshold_bps: self.range(8, 34_000_000_000),
            refill_delay_ns: self.time(),
            orphan_mask: self.small(0, 65_535),
            ce_threshold_ns,
            horizon_ns: self.time(),
            horizon_drop: self.flag(),
        }
    }

    fn red(&mut self, limit_bytes: u64, ecn: bool) -> RedConfig {
        let max_bytes = self.range(1, limit_bytes.max(2));
        RedConfig {
            limit_bytes,
            min_bytes: self.range(0, max_bytes - 1),
            max_bytes,
            avpkt_bytes: self.range(1, 65_535),
            burst_packets: self.range(0, 1_000_000_000),
            probability_ppb: self.share(),
            bandwidth_bps: self.rate(),
            ecn,
            harddrop: self.flag(),
            nodrop: ecn && self.flag(),
            adaptive: self.flag(),
            nonlinear: self.flag(),
        }
    }

    fn cake(&mut self, rtt_ns: u64) -> CakeConfig {
        CakeConfig {
            bandwidth_bps: self.maybe(2, Draw::rate),
            rtt_ns,
            flow_mode: self.of(&[
                FlowMode::Flowblind,
                FlowMode::Srchost,
                FlowMode::Dsthost,
                FlowMode::Hosts,
                FlowMode::Flows,
                FlowMode::DualSrchost,
                FlowMode::DualDsthost,
                FlowMode::TripleIsolate,
            ]),
            memlimit_bytes: self.small(0, u32::MAX),
        }
    }

    fn shaper(&mut self) -> ShaperConfig {
        let (rate_bps, burst_bytes) = (self.rate(), self.small(0, u32::MAX));
        match self.below(5) {
            0 => {
                let peak = self.maybe(2, |draw| PeakConfig {
                    rate_bps: draw.rate(),
                    burst_bytes: draw.small(0, u32::MAX),
                });
                ShaperConfig::TokenBucket { rate_bps, burst_bytes, peak }
            }
            1 => ShaperConfig::Htb {
                rate_bps,
                ceil_bps: self.rate(),
                burst_bytes,
                cburst_bytes: self.small(0, u32::MAX),
            },
            2 => ShaperConfig::Policer { rate_bps, burst_bytes },
            3 => ShaperConfig::Slots {
                interval_ns: self.time().max(1),
                packets: self.maybe(2, |draw| draw.small(1, u32::MAX)),
                bytes: self.maybe(2, |draw| draw.small(1, u32::MAX)),
            },
            _ => {
                let mut opportunities_ns: Vec<u64> = (0..1 + self.below(5)).map(|_| self.time()).collect();
                opportunities_ns.sort_unstable();
                let last = opportunities_ns.last().copied().unwrap_or(0);
                let period_ns = self.range(last.max(1), TIME.max(last));
                ShaperConfig::Trace { opportunities_ns, period_ns, bytes: self.small(1, u32::MAX) }
            }
        }
    }

    fn link(&mut self, from: &str, to: &str, port: bool) -> Link {
        Link {
            name: format!("{from}-{to}"),
            from: from.into(),
            to: to.into(),
            rate_bps: self.maybe(3, Draw::rate),
            delay_ns: self.time(),
            queue: self.queue(),
            loss: self.maybe(6, Draw::loss),
            duplicate_ppb: if port || self.flag() { 0 } else { self.share() },
            corrupt_ppb: if self.flag() { 0 } else { self.share() / 4 },
            jitter: if port { None } else { self.maybe(6, Draw::jitter) },
            shaper: self.maybe(6, Draw::shaper),
            mtu: match self.below(4) {
                0 => self.small(576, 65_535),
                _ => 65_535,
            },
            black_hole: self.flag(),
            delay_first: self.below(8) == 0,
            overhead: match self.below(4) {
                0 => self.small(0, 1000),
                _ => self.small(0, 100),
            },
            observe: self.flag(),
            bottleneck: self.flag(),
        }
    }

    fn flow(&mut self, number: u64, hosts: &[Host], duration_ns: u64) -> Flow {
        let (from, to) = self.of(&[(0, 1), (1, 0), (2, 1), (0, 2)]);
        let stacks = profile::all();
        let algorithms: &[&str] = stacks
            .iter()
            .find(|stack| stack.spec().name == hosts[from].stack)
            .map_or(&[], |stack| stack.spec().cc);
        let start_ns = if self.flag() { 0 } else { self.range(0, duration_ns) };
        let app = self.app();
        Flow {
            name: format!("f{number}"),
            from: hosts[from].name.clone(),
            to: hosts[to].name.clone(),
            app,
            start_ns,
            stop_ns: self.maybe(4, |draw| draw.range(start_ns + 1, TIME.max(start_ns + 1))),
            cc: self.of(algorithms).into(),
            cc_params: None,
            sndbuf: self.maybe(2, Draw::buffer),
            rcvbuf: self.maybe(2, Draw::buffer),
        }
    }

    fn app(&mut self) -> App {
        let (write_bytes, request_bytes) = (self.size(), self.size());
        let ecn = self.of(&[EcnField::Off, EcnField::Ect0, EcnField::Ect1]);
        match self.below(14) {
            0 => App::Fixed { size_bytes: self.size(), write_bytes },
            1 => App::RateLimited { rate_bps: self.rate(), write_bytes },
            2 | 3 => {
                let (on_ns, rate_bps) = (self.positive_time(), self.maybe(2, Draw::rate));
                let most = rate_bps.map_or(SIZE, |rate| apps::sent_in(on_ns, rate).max(1));
                App::OnOff {
                    on_ns,
                    off_ns: self.positive_time(),
                    rate_bps,
                    write_bytes: self.range(1, most),
                    distribution: self.of(&[Distribution::Fixed, Distribution::Exponential]),
                }
            }
            4 => App::RequestResponse {
                requests: self.maybe(2, |draw| draw.range(1, 1_000_000_000)),
                request_bytes,
                response_bytes: self.size(),
                think_ns: self.time(),
            },
            5 => App::Incast {
                group: self.of(&["g", "h"]).into(),
                size_bytes: self.size(),
                request_bytes,
                rounds: self.maybe(2, |draw| draw.range(1, 1_000_000_000)),
                think_ns: self.time(),
            },
            6 => App::UdpCbr { rate_bps: self.rate(), payload_bytes: self.small(1, 65_507), ecn },
            7 => App::Voip { frame_ns: self.positive_time(), payload_bytes: self.small(1, 65_507), ecn },
            8 => App::Ping { interval_ns: self.positive_time(), payload_bytes: self.small(0, 65_507) },
            9 => App::Video {
                rate_bps: self.rate(),
                chunk_ns: self.positive_time(),
                buffer_ns: self.time(),
                request_bytes,
            },
            10 => App::Background {
                load_bps: self.rate(),
                size_bytes: self.size(),
                shape_milli: self.small(1001, u32::MAX),
                sizes: self.maybe(3, Draw::draws),
                connections: self.small(1, 100),
            },
            11 => App::Loadlatency {
                group: self.of(&["f0", "f1"]).into(),
                scenario: self.small(1, 19),
                part: self.of(&[LoadPart::Pinger, LoadPart::Upload, LoadPart::Download]),
                write_bytes,
                ping_bytes: self.size(),
                interval_ns: self.positive_time(),
            },
            12 => App::UdpVbr {
                size: self.draws(),
                interval: self.draws(),
                least_bytes: self.small(1, 100),
                payload_bytes: self.small(100, 65_507),
                ecn,
            },
            _ => App::Bulk { bytes: self.maybe(2, Draw::size), write_bytes },
        }
    }

    fn draws(&mut self) -> Draws {
        let (some, other) = (self.positive_time(), self.positive_time());
        match self.below(8) {
            0 => Draws::Constant { value: some },
            1 => Draws::Uniform { low: some.min(other), high: some.max(other) },
            2 => Draws::Exponential { mean: some },
            3 => Draws::Normal { mean: some, deviation: other },
            4 => Draws::Lognormal { mean: some, deviation: some },
            5 => Draws::Pareto { mean: some, shape_milli: self.small(1001, u32::MAX) },
            6 => Draws::Extreme { mode: some, scale: other },
            _ => Draws::List { values: vec![some, other] },
        }
    }

    fn schedule(&mut self, links: &[Link], ports: &[&str], duration_ns: u64) -> Vec<Change> {
        let fixed: Vec<&Link> = links.iter().filter(|link| !ports.contains(&link.from.as_str())).collect();
        if self.flag() {
            return vec![];
        }
        let mut times: Vec<u64> = (0..self.below(5)).map(|_| self.range(0, duration_ns)).collect();
        times.sort_unstable();
        times
            .into_iter()
            .map(|at_ns| Change {
                at_ns,
                on: None,
                link: fixed[self.below(fixed.len() as u64) as usize].name.clone(),
                rate_bps: self.maybe(2, Draw::rate),
                delay_ns: self.maybe(2, Draw::time),
                loss: self.maybe(4, Draw::loss),
                queue: self.maybe(4, Draw::queue),
                down: self.maybe(4, Draw::flag),
            })
            .collect()
    }
}
