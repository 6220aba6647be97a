//! The Python module `cwndlab._native`: a thin face over the engine.

mod arrow;
mod capture;
mod controller;
mod error;
mod reference;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use contract::ids::FlowId;
use contract::table::Batch;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};

use error::Error;

/// Result of a function of the module.
type Result<T> = std::result::Result<T, Error>;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::capture::Capture;
    #[pymodule_export]
    use super::controller::{PyFlow, controller_inside};
    #[pymodule_export]
    use super::reference::{Reference, references};
    #[pymodule_export]
    use super::tool::{
        loadlatency_document, loadlatency_read, loadlatency_run, loadlatency_scenarios, loadlatency_serve,
    };
    #[pymodule_export]
    use super::{
        Emulator, RecordBatch, Simulation, TcpSampler, agent, annotate, catalogue, check, check_live_app,
        describe_module, loadlatency_overall, packet_text, phases, run_script, schemas, script_needs,
        set_offloads, start_times, version, watch_modules, watched_module,
    };
}

/// JSON: every stack, congestion control, sysctl, queue kind, loss kind and app the engine knows.
#[pyfunction]
fn catalogue() -> String {
    sim::catalogue()
}

/// JSON Schema: the types of the Scenario, the summary and the catalogue.
#[pyfunction]
fn schemas() -> String {
    contract::schemas()
}

/// Raise ValueError, with one line, if the engine would refuse this Scenario (JSON). `modules`: congestion controls from
/// outside, which are not loaded (JSON; see the stub).
#[pyfunction]
#[pyo3(signature = (scenario, modules = "[]"))]
fn check(scenario: &str, modules: &str) -> Result<()> {
    Ok(sim::check(scenario, &outside(modules)?)?)
}

/// Congestion controls and guests that a run has from outside: a JSON list of descriptions.
fn outside(list: &str) -> Result<sim::Outside> {
    Ok(sim::Outside {
        modules: foreign_cc::modules(list, controller::plain)?,
        guests: foreign_cc::guests(list)?,
    })
}

/// JSON: family and knobs of a compiled congestion control, whose bytes have this hash, and which is loaded for that, and
/// initialised. Raises ValueError with one line.
#[pyfunction]
fn describe_module(file: PathBuf, sha256: &str) -> Result<String> {
    Ok(serde_json::to_string(&foreign_cc::describe(&file, sha256)?)?)
}

/// Have `file` say from now on which hook of a congestion control from outside runs in this process.
#[pyfunction]
fn watch_modules(file: PathBuf) -> Result<()> {
    foreign_cc::witness::watch(&file).map_err(|error| Error::File(file.display().to_string(), error))
}

/// The last call of a hook by the process that writes `file`: its number, whether it has not returned, and hook and time in
/// words. None: there was none yet.
#[pyfunction]
fn watched_module(file: PathBuf) -> Option<(u64, bool, String)> {
    foreign_cc::witness::read(&file).map(|seen| (seen.calls, seen.inside, seen.call))
}

/// Times when the flows of a Scenario (JSON) start, in ns of the run, in their order. Raises ValueError, with one
/// line, where it is no Scenario.
#[pyfunction]
fn start_times(scenario: &str) -> Result<Vec<u64>> {
    Ok(sim::starts(&contract::parse(scenario)?))
}

/// Delays, ns, that the run of a Scenario (JSON) adds to links, by their names. Raises ValueError, with one line, where
/// it is no Scenario.
#[pyfunction]
fn phases(scenario: &str) -> Result<BTreeMap<String, u64>> {
    Ok(sim::phases(&contract::parse(scenario)?))
}

/// Raise ValueError, with one line, if live hosts cannot carry this application (JSON, as in a Scenario) out, over a guest or not.
#[pyfunction]
#[pyo3(signature = (app, over_guest=false))]
fn check_live_app(app: &str, over_guest: bool) -> Result<()> {
    Ok(::agent::check_app(&serde_json::from_str(app)?, over_guest)?)
}

/// Be the agent of a host, with these arguments: see the stub. It does not return.
#[pyfunction]
fn agent(py: Python<'_>, arguments: Vec<String>) {
    py.detach(|| ::agent::run(&arguments))
}

/// Hand the TCP packets of a capture file to `write` as tcpdump prints them, a line each, at most `limit` lines, some at a
/// time; `flights` makes one line of data that follows in sequence. Raises ValueError, with one line, when the file cannot be
/// read to its end, and whatever `write` raises. Returns the number of lines, and what was passed over, as `Capture.skipped`.
#[pyfunction]
fn packet_text(
    py: Python<'_>,
    path: &str,
    flights: bool,
    limit: Option<usize>,
    write: Py<PyAny>,
) -> Result<(usize, capture::NotUsed)> {
    let limit = limit.unwrap_or(usize::MAX);
    py.detach(|| {
        let source = trace::capture::source(Path::new(path)).map_err(wire::capture::Error::from)?;
        let (mut text, mut lines, mut written) = (String::new(), 0, Ok(()));
        let hand_over = |text: &mut String| {
            let told = Python::attach(|py| write.call1(py, (text.as_str(),)).map(drop));
            text.clear();
            told
        };
        let read = trace::text::print(source, flights, |line| {
            if lines < limit {
                text.push_str(line);
                text.push('\n');
                lines += 1;
            }
            if text.len() > PIECE {
                written = hand_over(&mut text);
            }
            lines < limit && written.is_ok()
        });
        written?;
        hand_over(&mut text)?;
        Ok((lines, capture::not_used(&read?)))
    })
}

/// Write the captures of several points, `(name, path)`, as one pcapng file with comments to `path`. `fates` are what no capture
/// shows: (t_ns, place, port of the opening side, offset, whether it was a mark, why). Raises ValueError, with one line, when a
/// capture cannot be read or the file not be written. Returns the numbers of packets and of comments.
#[pyfunction]
fn annotate(
    py: Python<'_>,
    points: Vec<(String, std::path::PathBuf)>,
    fates: Vec<(u64, String, u16, u64, bool, String)>,
    program: &str,
    path: std::path::PathBuf,
) -> Result<(u64, u64)> {
    let points: Vec<_> =
        points.into_iter().map(|(name, path)| trace::annotated::Point { name, path }).collect();
    let fates: Vec<_> = fates
        .into_iter()
        .map(|(t_ns, place, port, offset, marked, why)| trace::annotated::Fate {
            t_ns,
            place,
            port,
            offset,
            marked,
            why,
        })
        .collect();
    py.detach(|| {
        let file = std::fs::File::create(path).map_err(wire::capture::Error::from)?;
        Ok(trace::annotated::write(&points, &fates, program, std::io::BufWriter::new(file))?)
    })
}

/// Bytes of text handed over at a time.
const PIECE: usize = 1 << 18;

/// Run the packetdrill script `text`, called `name` in messages, against the modelled stack `stack`, or `live`: this
/// host's kernel. `tolerance_usecs` takes the place of the script's; with `end_unseen` packets behind the last event are not
/// looked at. Returns (exit code, message or None, printed lines);
/// the exit code is 0 if it passed, 1 if the stack did something else, 2 if the script or the stack's name is wrong.
#[pyfunction]
#[pyo3(signature = (text, name, stack, defines, tolerance_usecs = None, *, end_unseen = false))]
fn run_script(
    py: Python<'_>,
    text: &str,
    name: &str,
    stack: &str,
    defines: Vec<(String, String)>,
    tolerance_usecs: Option<u64>,
    end_unseen: bool,
) -> (u8, Option<String>, Vec<String>) {
    let tolerance = tolerance_usecs.map(|usecs| usecs.saturating_mul(1000));
    let choices = script::Choices { defines, tolerance, end_unseen };
    let outcome = py.detach(|| match stack {
        "live" => live::run_script(text, name, &choices),
        _ => script::run_file(text, name, stack, &choices),
    });
    (outcome.exit_code, outcome.message, outcome.output)
}

/// Names of what a packetdrill script needs and a model lacks; with `kernel`, what driving this host's kernel lacks.
#[pyfunction]
fn script_needs(text: &str, kernel: bool) -> Vec<String> {
    script::features::missing(text, kernel)
}

/// Switch segmentation (`tso`) and receive aggregation (`gro`) of an interface on or off, each with the offloads it needs;
/// raises OSError with one line.
#[pyfunction]
#[pyo3(signature = (netns, interface, *, tso, gro))]
fn set_offloads(py: Python<'_>, netns: Option<&str>, interface: &str, tso: bool, gro: bool) -> Result<()> {
    Ok(py.detach(|| live::offload::set(netns, interface, tso, gro))?)
}

/// The metrics printed under the scenario lines of a loadlatency run in its classic form: (upload capacity and download
/// capacity in KiB/s, responsiveness and smoothness in Hz), rounded down; responsiveness is None, as those lines do not give
/// it. Lines of other kinds are passed over; a scenario's line that cannot be read raises ValueError.
#[pyfunction]
fn loadlatency_overall(text: &str) -> Result<(f64, f64, Option<f64>, f64)> {
    let scenarios = text
        .lines()
        .filter(|line| line.starts_with("Scenario "))
        .map(|line| measure::classic::parse(line).map(|(_, measured)| measured))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let overall = measure::overall(&scenarios);
    Ok((
        overall.upload_capacity.floor(),
        overall.download_capacity.floor(),
        overall.responsiveness.map(f64::floor),
        overall.smoothness.floor(),
    ))
}

/// Version of the engine, whether it was built with overflow checks and assertions, and a hash of its sources (`build.rs`),
/// such as `0.2.0 (release) sources 3f2a91c0d4e5`.
#[pyfunction]
fn version() -> &'static str {
    if cfg!(debug_assertions) {
        concat!(env!("CARGO_PKG_VERSION"), " (checked) sources ", env!("CWNDLAB_SOURCES"))
    } else {
        concat!(env!("CARGO_PKG_VERSION"), " (release) sources ", env!("CWNDLAB_SOURCES"))
    }
}

/// Run of a Scenario (JSON); raises ValueError, with one line, if the engine refuses it.
#[pyclass(module = "cwndlab._native")]
struct Simulation {
    // Never locked: every method has the object to itself. It makes the class one that threads may share.
    run: Mutex<sim::Simulation>,
}

impl Simulation {
    fn get(&mut self) -> Result<&mut sim::Simulation> {
        self.run.get_mut().map_err(|_| Error::RunFailedEarlier)
    }
}

/// Events between two looks whether a congestion control from outside has failed.
const EVENTS_PER_LOOK: u64 = 4096;

/// Raises RuntimeError with one line where a congestion control from outside has failed.
fn failure(run: &sim::Simulation) -> Result<()> {
    run.failure().map_or(Ok(()), |why| Err(Error::RunFailed(why.to_owned())))
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (scenario, run_id, modules = "[]"))]
    fn new(py: Python<'_>, scenario: &str, run_id: u32, modules: &str) -> Result<Simulation> {
        let outside = outside(modules)?;
        let run = py.detach(|| sim::Simulation::with_outside(scenario, run_id, &outside))?;
        Ok(Simulation { run: Mutex::new(run) })
    }

    /// Run at most so many events, with the GIL released. True when the run is over.
    fn advance(&mut self, py: Python<'_>, events: u64) -> Result<bool> {
        let run = self.get()?;
        let over = py.detach(|| {
            let mut left = events;
            while left > 0 && run.failure().is_none() {
                let step = left.min(EVENTS_PER_LOOK);
                if run.advance(step) {
                    return true;
                }
                left -= step;
            }
            false
        });
        failure(run)?;
        Ok(over)
    }

    /// Carry out every event before `t_ns` and none at it, with the GIL released. True when the run is over.
    fn run_until(&mut self, py: Python<'_>, t_ns: u64) -> Result<bool> {
        let run = self.get()?;
        let over = py.detach(|| run.run_until(t_ns));
        failure(run)?;
        Ok(over)
    }

    /// Returns what TCP_INFO would say of a flow's sender now, by the names of the `tcp` table's columns. None
    /// without a connection.
    fn observe<'py>(&mut self, py: Python<'py>, flow: &str) -> Result<Option<Bound<'py, PyDict>>> {
        let run = self.get()?;
        let Some(number) = run.scenario().flows.iter().position(|known| known.name == flow) else {
            return Err(Error::NoFlow(flow.to_owned()));
        };
        let Some(info) = run.observe(FlowId(number as u32)) else { return Ok(None) };
        let seen = PyDict::new(py);
        seen.set_item("state", info.phase.map(|phase| phase.as_str()))?;
        seen.set_item("cwnd_bytes", info.cwnd)?;
        seen.set_item("ssthresh_bytes", info.ssthresh)?;
        seen.set_item("srtt_ns", info.srtt)?;
        seen.set_item("rto_ns", info.rto)?;
        seen.set_item("inflight_bytes", info.inflight)?;
        seen.set_item("acknowledged_bytes", info.acknowledged)?;
        seen.set_item("sent_segments", info.sent)?;
        seen.set_item("retransmits", info.retransmits)?;
        seen.set_item("pacing_bps", info.pacing_bps)?;
        seen.set_item("send_window_bytes", info.window)?;
        seen.set_item("send_buffer_bytes", info.buffer)?;
        Ok(Some(seen))
    }

    /// Virtual time reached, nanoseconds.
    #[getter]
    fn now_ns(&mut self) -> Result<u64> {
        Ok(self.get()?.now_ns())
    }

    /// Record batches finished since the last call: (table, object with `__arrow_c_array__`).
    fn take(&mut self) -> Result<Vec<(&'static str, RecordBatch)>> {
        Ok(record_batches(self.get()?.take()))
    }

    /// Bytes of captures finished since the last call: (capture point, bytes to append to its file).
    fn captures<'py>(&mut self, py: Python<'py>) -> Result<Vec<(String, Bound<'py, PyBytes>)>> {
        let captures = self.get()?.captures();
        Ok(captures.into_iter().map(|(point, bytes)| (point, PyBytes::new(py, &bytes))).collect())
    }

    /// JSON: counters and distributions of each flow and link over the measurement window.
    fn summary(&mut self) -> Result<String> {
        Ok(self.get()?.summary())
    }
}

/// The links of a Scenario in real time between interfaces of this host, where that is Linux; `config` is JSON. Raises
/// ValueError with one line if it is wrong.
#[pyclass(module = "cwndlab._native")]
struct Emulator {
    // As in `Simulation`.
    emulator: Mutex<live::emulator::Emulator>,
}

impl Emulator {
    fn get(&mut self) -> Result<&mut live::emulator::Emulator> {
        self.emulator.get_mut().map_err(|_| Error::LiveFailedEarlier("emulator"))
    }
}

#[pymethods]
impl Emulator {
    #[new]
    fn new(config: &str) -> Result<Emulator> {
        let emulator = live::emulator::Emulator::new(config)?;
        Ok(Emulator { emulator: Mutex::new(emulator) })
    }

    /// Open the sockets and let packets through; returns the CLOCK_MONOTONIC time, ns, that is t = 0.
    fn start(&mut self, py: Python<'_>) -> Result<u64> {
        let emulator = self.get()?;
        Ok(py.detach(|| emulator.start())?)
    }

    /// Move t = 0 to this CLOCK_MONOTONIC time, a little ahead or just past.
    fn mark_start(&mut self, t0_ns: u64) -> Result<()> {
        Ok(self.get()?.mark_start(t0_ns)?)
    }

    /// Live metrics as JSON.
    fn stats(&mut self) -> Result<String> {
        Ok(self.get()?.stats()?)
    }

    /// Ends the emulator; returns record batches (`queue`, `events`) and a report as JSON.
    fn stop(&mut self, py: Python<'_>) -> Result<(Vec<(&'static str, RecordBatch)>, String)> {
        let emulator = self.get()?;
        let (batches, report) = py.detach(|| emulator.stop())?;
        Ok((record_batches(batches), report))
    }
}

/// TCP_INFO of live sockets at an interval, on Linux; `config` is JSON. Raises ValueError with one line if it is wrong.
#[pyclass(module = "cwndlab._native")]
struct TcpSampler {
    // As in `Simulation`.
    sampler: Mutex<live::sampler::Sampler>,
}

impl TcpSampler {
    fn get(&mut self) -> Result<&mut live::sampler::Sampler> {
        self.sampler.get_mut().map_err(|_| Error::LiveFailedEarlier("sampler"))
    }
}

#[pymethods]
impl TcpSampler {
    #[new]
    fn new(config: &str) -> Result<TcpSampler> {
        let sampler = live::sampler::Sampler::new(config)?;
        Ok(TcpSampler { sampler: Mutex::new(sampler) })
    }

    /// Start sampling; returns the CLOCK_MONOTONIC time, ns, that is t = 0.
    fn start(&mut self, py: Python<'_>) -> Result<u64> {
        let sampler = self.get()?;
        Ok(py.detach(|| sampler.start())?)
    }

    /// Move t = 0 to this CLOCK_MONOTONIC time; rows before it are dropped.
    fn mark_start(&mut self, t0_ns: u64) -> Result<()> {
        Ok(self.get()?.mark_start(t0_ns)?)
    }

    /// Ends the sampler; returns record batches of `tcp` and a report as JSON.
    fn stop(&mut self, py: Python<'_>) -> Result<(Vec<(&'static str, RecordBatch)>, String)> {
        let sampler = self.get()?;
        let (batches, report) = py.detach(|| sampler.stop())?;
        Ok((record_batches(batches), report))
    }
}

fn record_batches(batches: Vec<(&'static str, Batch)>) -> Vec<(&'static str, RecordBatch)> {
    batches.into_iter().map(|(table, batch)| (table, RecordBatch { batch: Arc::new(batch) })).collect()
}

/// Rows of one table; `pyarrow.record_batch()` and `polars.from_arrow()` take it without a copy.
#[pyclass(module = "cwndlab._native", frozen)]
pub(crate) struct RecordBatch {
    batch: Arc<Batch>,
}

impl RecordBatch {
    /// Lends a batch to Python.
    fn of(batch: Arc<Batch>) -> RecordBatch {
        RecordBatch { batch }
    }
}

#[pymethods]
impl RecordBatch {
    /// The Arrow PyCapsule protocol. The schema asked for is not looked at, which the protocol allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let (schema, array) = arrow::export(&self.batch);
        // A capsule drops what it holds, unless a consumer has taken it over by then.
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema, array))
    }

    fn __len__(&self) -> usize {
        self.batch.rows
    }
}
