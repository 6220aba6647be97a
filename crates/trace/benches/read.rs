//! Speed at which captures are read: records alone, into connections, and into series; bytes of the file per
//! second.

use std::hint::black_box;
use std::io::Cursor;
use std::net::Ipv4Addr;

use criterion::{Criterion, Throughput};
use trace::series::{Series, Stream};
use trace::{Connections, Direction};
use wire::capture::{LinkType, Reader};
use wire::codec::{Ends, SynLayout};
use wire::{Flags, Options, Segment, pcap};

const MSS: u32 = 1448;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("read");
    group.sample_size(10);
    for (name, snaplen, flows) in
        [("whole packets", 65535, 1), ("96 bytes", 96, 1), ("96 bytes, 100 flows", 96, 100)]
    {
        let file = capture(snaplen, flows, 64 << 20);
        group.throughput(Throughput::Bytes(file.len() as u64));
        group.bench_function(format!("records, {name}"), |bencher| bencher.iter(|| records(&file)));
        group.bench_function(format!("connections, {name}"), |bencher| {
            bencher.iter(|| {
                let mut connections = Connections::new();
                trace::read(Cursor::new(&file), &mut connections, |seen, _| {
                    black_box(seen.offset);
                })
                .expect("a good capture");
                connections.list().len()
            });
        });
        group.bench_function(format!("series, {name}"), |bencher| {
            bencher.iter(|| {
                let mut series = Series::new(Stream { connection: 0, direction: Direction::Forward });
                trace::read(Cursor::new(&file), &mut Connections::new(), |seen, connection| {
                    series.add(seen, connection)
                })
                .expect("a good capture");
                series.data.t_ns.len()
            });
        });
    }
    group.finish();
    criterion.final_summary();
}

fn records(file: &[u8]) -> u64 {
    let mut reader = Reader::new(Cursor::new(file)).expect("a capture");
    let mut bytes = 0;
    while let Some(record) = reader.next_record().expect("a good capture") {
        bytes += u64::from(record.wire_length);
    }
    bytes
}

/// Bulk flows, an acknowledgement with SACK blocks for every second segment, about `size` bytes of file.
fn capture(snaplen: u32, flows: u32, size: usize) -> Vec<u8> {
    let mut writer = pcap::Writer::new(Vec::with_capacity(size + 4096), LinkType::ETHERNET, snaplen)
        .expect("memory is written");
    let base =
        Segment { options: Options::TIMESTAMPS, flags: Flags::ACK, window: 1000, ..Segment::default() };
    let mut n = 0u32;
    while writer.get_mut().len() < size {
        let ends = Ends {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 1, 1),
            sport: (n % flows) as u16,
            dport: 5201,
        };
        let (segment, t_ns) = (n / flows, u64::from(n) * 12_000);
        let data = Segment { seq: segment.wrapping_mul(MSS), len: MSS, tsval: segment, ..base };
        writer.tcp(t_ns, &data, &ends, SynLayout::Linux, n).expect("memory is written");
        if segment % 2 == 1 {
            let mut ack = Segment { ack: data.seq.wrapping_add(MSS), ..base };
            ack.sack.push(ack.ack.wrapping_add(MSS), ack.ack.wrapping_add(3 * MSS));
            writer.tcp(t_ns + 1, &ack, &ends.reversed(), SynLayout::Linux, n).expect("memory is written");
        }
        n += 1;
    }
    std::mem::take(writer.get_mut())
}
