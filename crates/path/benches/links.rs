//! Cost of a packet on a link: fused, stepped, and under each queue discipline.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use path::{
    DropReason, Ecn, Link, LinkConfig, Mode, Output, Packet, PfifoConfig, QueueConfig, catalogue, stream,
};

#[path = "../tests/path/defaults.rs"]
mod defaults;

/// Packets of one measurement.
const PACKETS: u64 = 100_000;

/// Packet as large as the simulator's.
#[derive(Clone)]
struct Pkt {
    bytes: u32,
    flow: u32,
    ecn: Ecn,
    _header: [u64; 5],
}

impl Packet for Pkt {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn payload(&self) -> u32 {
        self.bytes - 52
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn ports(&self) -> (u16, u16) {
        (0, 0)
    }
    fn src(&self) -> u16 {
        0
    }
    fn dst(&self) -> u16 {
        1
    }
    fn dscp(&self) -> u8 {
        0
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn set_corrupt(&mut self) {}
}

#[derive(Default)]
struct Count {
    packets: u64,
    last: u64,
}

impl Output<Pkt> for Count {
    fn forward(&mut self, at: u64, _packet: Pkt, waited: u64, _sent: u64) {
        self.packets += 1;
        self.last = at ^ waited;
    }
    fn dropped(&mut self, _at: u64, _packet: &Pkt, _why: DropReason) {
        self.packets += 1;
    }
    fn marked(&mut self, _at: u64, _packet: &Pkt) {}
}

/// Bursts of ten packets of eight flows at about the link's rate, so that the queue comes and goes.
fn run(config: &LinkConfig, mode: Mode) -> Count {
    let mut link: Link<Pkt> = Link::new(config, &|purpose| stream(1, 0, purpose, "link"), mode);
    link.next_query(u64::MAX);
    let mut count = Count::default();
    for i in 0..PACKETS {
        let at = i / 10 * 121_000;
        while let Some(event) = link.next_event()
            && event <= at
        {
            link.on_event(event, &mut count);
        }
        let flow = (i as u32 % 8).wrapping_mul(0x9e37_79b9);
        link.arrive(at, Pkt { bytes: 1500, flow, ecn: Ecn::NotEct, _header: [0; 5] }, &mut count);
    }
    count
}

fn links(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("links");
    group.throughput(Throughput::Elements(PACKETS));
    let pfifo = LinkConfig {
        rate_bps: Some(1_000_000_000),
        delay_ns: 20_000_000,
        queue: QueueConfig::Pfifo(PfifoConfig { limit_packets: 83 }),
        ..LinkConfig::default()
    };
    let mut bench = |name: &str, config: &LinkConfig, mode| {
        group.bench_function(name, |bencher| bencher.iter(|| run(black_box(config), mode)));
    };
    bench("pfifo fused", &pfifo, Mode::Fused);
    bench("pfifo stepped", &pfifo, Mode::Stepped);
    for kind in catalogue() {
        bench(kind.kind, &LinkConfig { queue: defaults::queue(&kind), ..pfifo.clone() }, Mode::Stepped);
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    links(&mut criterion);
    criterion.final_summary();
}
