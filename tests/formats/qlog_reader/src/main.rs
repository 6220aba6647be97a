//! Reads a qlog file with the crate `qlog` of quiche, which has a type for each event of the draft, and prints a line for each trace:
//! its vantage point, and how many events of each kind there are. A field that the draft does not have is an error.

use std::collections::BTreeMap;
use std::error::Error;

use qlog::Qlog;
use qlog::events::EventData;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("the file is missing")?;
    let log: Qlog = serde_json::from_slice(&std::fs::read(file)?)?;
    for trace in &log.traces {
        let mut counts = BTreeMap::<&str, usize>::new();
        for event in &trace.events {
            let kind = match &event.data {
                EventData::QuicMetricsUpdated(metrics) if metrics.ex_data.is_empty() => "metrics",
                EventData::QuicCongestionStateUpdated(_) => "state",
                EventData::QuicPacketLost(_) => "lost",
                EventData::QuicTimerUpdated(_) => "timer",
                other => return Err(format!("not expected: {other:?}").into()),
            };
            *counts.entry(kind).or_default() += 1;
        }
        let end = trace.vantage_point.as_ref().map(|point| &point.ty);
        println!("{} {end:?} {counts:?}", serde_json::to_string(&trace.event_schemas)?);
    }
    Ok(())
}
