//! Reads a capture and prints counters of each direction: `counters counters FILE`, or with all series in memory:
//! `counters series FILE`. What `benches/captures.py` measures.

use std::env;
use std::error::Error;
use std::fs::File;
use std::path::Path;

use trace::capture::Capture;
use trace::connection::{Connections, Direction};
use trace::series::Stream;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let usage = || "usage: counters counters|series FILE";
    let (what, path) = (arguments.next().ok_or_else(usage)?, arguments.next().ok_or_else(usage)?);
    if what == "series" {
        let capture = Capture::open(Path::new(&path), false)?;
        for connection in 0..capture.connections.list().len() {
            let series = capture.series(Stream { connection, direction: Direction::Forward });
            println!("{connection}: {} segments", series.map_or(0, |series| series.data.t_ns.len()));
        }
        return Ok(());
    }
    let file = File::open(&path)?;
    let mut connections = Connections::new();
    trace::read(file, &mut connections, |_, _| {})?;
    for connection in connections.list() {
        let half = connection.half(Direction::Forward);
        println!(
            "{}:{} packets {} payload {} repeated {}",
            connection.ends.src,
            connection.ends.sport,
            half.packets,
            half.payload_bytes,
            half.repeated_packets
        );
    }
    Ok(())
}
