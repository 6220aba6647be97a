//! `cwndlab._native.Capture`: a packet capture, read and worked through by `crates/trace`.

use std::path::Path;
use std::sync::Arc;

use contract::table::{Batch, Column, ColumnData};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trace::capture;
use trace::clock::{self, Clock};
use trace::connection::{Direction, Half};
use trace::pairs;
use trace::rounds::rounds;
use trace::series::Stream;
use trace::throughput::Count;

use crate::error::Error;
use crate::{RecordBatch, Result};

/// A pcap or pcapng file in memory; raises ValueError, with one line, when it cannot be read. `pairs` keeps what finding its
/// packets in another capture needs. `beside` is another file by the same clock, as where each holds one direction: both
/// together are the capture.
#[pyclass(module = "cwndlab._native", frozen)]
pub struct Capture {
    capture: capture::Capture,
}

#[pymethods]
impl Capture {
    #[new]
    #[pyo3(signature = (path, pairs, beside=None))]
    fn new(py: Python<'_>, path: &str, pairs: bool, beside: Option<&str>) -> Result<Capture> {
        let whole = py.detach(|| match beside {
            Some(beside) => capture::Capture::open_both(Path::new(path), Path::new(beside), pairs),
            None => capture::Capture::open(Path::new(path), pairs),
        });
        Ok(Capture { capture: whole? })
    }

    /// First and last time in ns, None without a TCP packet.
    #[getter]
    fn span(&self) -> Option<(u64, u64)> {
        self.capture.span
    }

    /// Packets that were not used; see [`not_used`].
    fn skipped(&self) -> NotUsed {
        not_used(&self.capture.skipped)
    }

    /// Every connection: its ends as the side that opened it sees them, and counters of both directions.
    fn connections<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for connection in self.capture.connections.list() {
            let entry = PyDict::new(py);
            entry.set_item("source", connection.ends.src.to_string())?;
            entry.set_item("source_port", connection.ends.sport)?;
            entry.set_item("target", connection.ends.dst.to_string())?;
            entry.set_item("target_port", connection.ends.dport)?;
            entry.set_item("first_ns", connection.first_ns)?;
            entry.set_item("last_ns", connection.last_ns)?;
            entry.set_item("forward", half(py, connection.half(Direction::Forward))?)?;
            entry.set_item("backward", half(py, connection.half(Direction::Backward))?)?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// The data segments of a direction: t_ns, offset, bytes, repeated_bytes, flight_bytes.
    fn data(&self, connection: usize, backward: bool) -> Result<RecordBatch> {
        let data = &self.series(connection, backward)?.data;
        Ok(batch(vec![
            ("t_ns", ColumnData::U64(data.t_ns.clone())),
            ("offset", ColumnData::I64(data.offset.clone())),
            ("bytes", ColumnData::U32(data.bytes.clone())),
            ("repeated_bytes", ColumnData::U32(data.repeated_bytes.clone())),
            ("flight_bytes", ColumnData::U64(data.flight_bytes.clone())),
        ]))
    }

    /// The acknowledgements for the data of a direction: t_ns, acked, window_bytes, duplicate, flight_bytes.
    fn acks(&self, connection: usize, backward: bool) -> Result<RecordBatch> {
        let acks = &self.series(connection, backward)?.acks;
        Ok(batch(vec![
            ("t_ns", ColumnData::U64(acks.t_ns.clone())),
            ("acked", ColumnData::I64(acks.acked.clone())),
            ("window_bytes", ColumnData::U64(acks.window_bytes.clone())),
            ("duplicate", ColumnData::U32(acks.duplicate.iter().map(|&is| u32::from(is)).collect())),
            ("flight_bytes", ColumnData::U64(acks.flight_bytes.clone())),
        ]))
    }

    /// The SACK blocks for the data of a direction: t_ns, offset, bytes, duplicate (D-SACK).
    fn sacks(&self, connection: usize, backward: bool) -> Result<RecordBatch> {
        let sacks = &self.series(connection, backward)?.sacks;
        Ok(batch(vec![
            ("t_ns", ColumnData::U64(sacks.t_ns.clone())),
            ("offset", ColumnData::I64(sacks.offset.clone())),
            ("bytes", ColumnData::U32(sacks.bytes.clone())),
            ("duplicate", ColumnData::U32(sacks.duplicate.iter().map(|&is| u32::from(is)).collect())),
        ]))
    }

    /// Round-trip samples (ns), segments per acknowledgement, and flight per round trip (bytes), each with t_ns and value.
    fn rounds(
        &self,
        py: Python<'_>,
        connection: usize,
        backward: bool,
        mss: u32,
    ) -> Result<(RecordBatch, RecordBatch, RecordBatch)> {
        let series = self.series(connection, backward)?;
        let found = py.detach(|| rounds(series, mss));
        Ok((values(found.rtt), values(found.segments), values(found.flight)))
    }

    /// Bytes in sliding windows of `width_ns` that begin every `step_ns`: t_ns is a window's centre. `count` is `payload`,
    /// `ip` or `frame` for what the packets of a direction carry, or `acked` for what was newly acknowledged.
    fn throughput(
        &self,
        py: Python<'_>,
        connection: usize,
        backward: bool,
        count: &str,
        width_ns: u64,
        step_ns: u64,
    ) -> Result<RecordBatch> {
        let stream = stream(connection, backward);
        let windows = py.detach(|| {
            match count {
                "payload" => self.capture.throughput(stream, Count::Payload, width_ns, step_ns),
                "ip" => self.capture.throughput(stream, Count::Ip, width_ns, step_ns),
                "frame" => self.capture.throughput(stream, Count::Frame, width_ns, step_ns),
                "acked" => self.capture.acknowledged(stream, width_ns, step_ns),
                _ => return Err(Error::Count(count.to_owned())),
            }
            .map_err(Error::from)
        })?;
        Ok(values(windows.into_iter().map(|window| (window.centre_ns, window.bytes)).collect()))
    }

    /// The packets of a connection here, at the sender's side, and in `other`, at the receiver's side: a dict of
    /// `round_trips`, `delays`, `delays_back` (t_ns by this clock, value in ns), `lost` (t_ns, offset, bytes), counts, and
    /// the other clock's `offset_ns` and `skew`, which `same_clock` takes to be 0.
    #[pyo3(signature = (connection, backward, other, other_connection, turned, same_clock))]
    fn pairs<'py>(
        &self,
        connection: usize,
        backward: bool,
        other: &Bound<'py, Capture>,
        other_connection: usize,
        turned: bool,
        same_clock: bool,
    ) -> Result<Bound<'py, PyDict>> {
        let here = self.capture.sightings(connection).ok_or(Error::NoConnection)?;
        let (py, there) =
            (other.py(), other.get().capture.sightings(other_connection).ok_or(Error::NoConnection)?);
        let out = direction(backward);
        let (matching, trips, clock, delays) = py.detach(|| {
            let matching =
                if turned { pairs::matching(here, &there.turned()) } else { pairs::matching(here, there) };
            let trips = pairs::round_trips(&matching.matched, out);
            let clock = if same_clock { Some(Clock::SAME) } else { clock::estimate(&matching.matched, out) };
            let delays = clock.map(|clock| {
                [out, out.reversed()].map(|way| {
                    let mut found: Vec<(u64, i64)> = matching
                        .matched
                        .iter()
                        .filter(|packet| packet.direction == way)
                        .map(|packet| (packet.reference_ns, clock.delay_ns(packet, out)))
                        .collect();
                    found.sort_by_key(|delay| delay.0);
                    found
                })
            });
            (matching, trips, clock, delays)
        });
        let entry = PyDict::new(py);
        let trips = trips.iter().map(|sample| (sample.t_ns, sample.rtt_ns)).collect();
        entry.set_item("round_trips", Py::new(py, signed(trips))?)?;
        let [there_delays, back_delays] = delays.unwrap_or_default();
        entry.set_item("delays", Py::new(py, signed(there_delays))?)?;
        entry.set_item("delays_back", Py::new(py, signed(back_delays))?)?;
        let (mut t_ns, mut offset, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for packet in matching.lost(out) {
            t_ns.push(packet.t_ns);
            offset.push(packet.offset);
            bytes.push(packet.bytes);
        }
        let lost = batch(vec![
            ("t_ns", ColumnData::U64(t_ns)),
            ("offset", ColumnData::I64(offset)),
            ("bytes", ColumnData::U32(bytes)),
        ]);
        entry.set_item("lost", Py::new(py, lost)?)?;
        entry.set_item("matched", matching.matched.len())?;
        entry.set_item("only_here", matching.at_reference.len())?;
        entry.set_item("only_there", matching.at_monitor.len())?;
        entry.set_item("ambiguous", matching.ambiguous)?;
        entry.set_item("offset_ns", clock.map(|clock| clock.offset_ns))?;
        entry.set_item("skew", clock.map(|clock| clock.skew))?;
        Ok(entry)
    }
}

impl Capture {
    fn series(&self, connection: usize, backward: bool) -> Result<&trace::series::Series> {
        self.capture.series(stream(connection, backward)).ok_or(Error::NoConnection)
    }
}

fn direction(backward: bool) -> Direction {
    if backward { Direction::Backward } else { Direction::Forward }
}

fn stream(connection: usize, backward: bool) -> Stream {
    Stream { connection, direction: direction(backward) }
}

fn half<'py>(py: Python<'py>, half: &Half) -> Result<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("packets", half.packets)?;
    entry.set_item("ip_bytes", half.ip_bytes)?;
    entry.set_item("data_packets", half.data_packets)?;
    entry.set_item("payload_bytes", half.payload_bytes)?;
    entry.set_item("repeated_packets", half.repeated_packets)?;
    entry.set_item("repeated_bytes", half.repeated_bytes)?;
    entry.set_item("acked_bytes", half.acked_bytes())?;
    entry.set_item("duplicate_acks", half.duplicate_acks)?;
    entry.set_item("ece_packets", half.ece_packets)?;
    entry.set_item("largest_payload", half.largest_payload)?;
    entry.set_item("mss", half.mss)?;
    entry.set_item("first_seq", half.first_seq())?;
    Ok(entry)
}

fn values(rows: Vec<(u64, u64)>) -> RecordBatch {
    let (t_ns, value) = rows.into_iter().unzip();
    batch(vec![("t_ns", ColumnData::U64(t_ns)), ("value", ColumnData::U64(value))])
}

fn signed(rows: Vec<(u64, i64)>) -> RecordBatch {
    let (t_ns, value) = rows.into_iter().unzip();
    batch(vec![("t_ns", ColumnData::U64(t_ns)), ("value", ColumnData::I64(value))])
}

fn batch(columns: Vec<(&'static str, ColumnData)>) -> RecordBatch {
    let rows = columns.first().map_or(0, |(_, data)| data.len());
    let columns = columns.into_iter().map(|(name, data)| Column { name, data, validity: None }).collect();
    RecordBatch::of(Arc::new(Batch { rows, columns }))
}

pub(crate) type NotUsed = (Vec<(String, u64)>, u64, u64, u64, bool);

/// Parts of a capture that were not used: packets that are not TCP, by what they are, fragments, packets cut short,
/// malformed ones; and whether the file ends in the middle of a record.
pub(crate) fn not_used(skipped: &trace::Skipped) -> NotUsed {
    let other = skipped.other.iter().map(|(what, &count)| (what.to_string(), count));
    (other.collect(), skipped.fragments, skipped.cut_short, skipped.malformed, skipped.file_ends_at.is_some())
}
