//! Congestion controls that are classes of Python: how the engine calls their methods.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foreign_cc::plain::{Controller, Event, Flow, Load, Maker};
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTraceback};
use tcp::cc::foreign::{Failure, Host};

/// Number of the method that runs, from 1; 0: none does. It is read by the handler that stops one that takes too long.
static INSIDE: AtomicU64 = AtomicU64::new(0);
/// Methods called so far.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The number of the method of a controller that runs now; 0: none does.
#[pyfunction]
pub(crate) fn controller_inside() -> u64 {
    INSIDE.load(Ordering::Relaxed)
}

/// A connection as a controller in Python sees it. Windows are bytes, times seconds; `cwnd` and `ssthresh` may be set.
#[pyclass(name = "Flow", module = "cwndlab._native")]
pub(crate) struct PyFlow {
    /// Time of the run.
    #[pyo3(get)]
    now: f64,
    /// Congestion window.
    #[pyo3(get, set)]
    cwnd: f64,
    /// Slow-start threshold; infinite before the first reduction.
    #[pyo3(get, set)]
    ssthresh: f64,
    /// Payload of a full segment.
    #[pyo3(get)]
    mss: f64,
    /// Smoothed round trip; 0: none yet.
    #[pyo3(get)]
    srtt: f64,
    /// Smallest round trip; 0: none yet.
    #[pyo3(get)]
    min_rtt: f64,
    /// Newest round trip; 0: none yet.
    #[pyo3(get)]
    rtt: f64,
    /// Bytes that this ACK newly acknowledges.
    #[pyo3(get)]
    acked: f64,
    /// Bytes in flight.
    #[pyo3(get)]
    in_flight: f64,
    /// Seeds whatever is drawn.
    #[pyo3(get)]
    seed: u64,
}

impl PyFlow {
    fn of(flow: &Flow) -> PyFlow {
        PyFlow {
            now: flow.now,
            cwnd: flow.cwnd,
            ssthresh: flow.ssthresh,
            mss: flow.mss,
            srtt: flow.srtt,
            min_rtt: flow.min_rtt,
            rtt: flow.rtt,
            acked: flow.acked,
            in_flight: flow.in_flight,
            seed: flow.seed,
        }
    }
}

/// Runs the source on each host, in names of its own, and takes the class.
pub(crate) fn load(source: String, file: String, class: String) -> Box<Load> {
    Box::new(move |_: &Host<'_>| {
        Python::attach(|py| {
            let wrong = |error: PyErr| Failure::Raised(format!("its module {}", told(py, &error)));
            let names = PyDict::new(py);
            let run = || -> PyResult<Py<PyAny>> {
                py.import(intern!(py, "cwndlab.foreign.controllers"))?.call_method0(intern!(py, "watch"))?;
                names.set_item("__name__", "cwndlab_controller")?;
                names.set_item("__file__", &file)?;
                let code = py
                    .import(intern!(py, "builtins"))?
                    .call_method1(intern!(py, "compile"), (&source, &file, "exec"))?;
                py.import(intern!(py, "builtins"))?.call_method1(intern!(py, "exec"), (code, &names))?;
                let found = names.get_item(&class)?;
                found
                    .map(Bound::unbind)
                    .ok_or_else(|| PyAttributeError::new_err(format!("has no class {class}")))
            };
            Ok(Arc::new(OnHost { class: run().map_err(wrong)? }) as Arc<dyn Maker>)
        })
    })
}

struct OnHost {
    class: Py<PyAny>,
}

impl Maker for OnHost {
    fn connect(&self, flow: &mut Flow) -> Result<Box<dyn Controller>, Failure> {
        Python::attach(|py| {
            let seen = Bound::new(py, PyFlow::of(flow)).map_err(|error| raised(py, &error))?;
            let made = guarded(|| self.class.bind(py).call0()).map_err(|error| raised(py, &error))?;
            let method = |names: [&str; 2]| {
                let found = made.getattr(names[0]).or_else(|_| made.getattr(names[1]));
                found.map(Bound::unbind).map_err(|error| raised(py, &error))
            };
            Ok(Box::new(Connection {
                flow: seen.unbind(),
                on_ack: method(["on_ack", "on_ack"])?,
                on_loss: method(["on_loss", "on_loss"])?,
                on_rto: method(["on_rto", "on_loss"])?,
                on_ecn: method(["on_ecn", "on_loss"])?,
            }) as Box<dyn Controller>)
        })
    }
}

struct Connection {
    flow: Py<PyFlow>,
    on_ack: Py<PyAny>,
    on_loss: Py<PyAny>,
    on_rto: Py<PyAny>,
    on_ecn: Py<PyAny>,
}

impl Controller for Connection {
    fn tell(&mut self, event: Event, flow: &mut Flow) -> Result<(), Failure> {
        let method = match event {
            Event::Create | Event::Destroy => return Ok(()),
            Event::Ack => &self.on_ack,
            Event::Loss => &self.on_loss,
            Event::Timeout => &self.on_rto,
            Event::Ecn => &self.on_ecn,
        };
        Python::attach(|py| {
            let seen = self.flow.bind(py);
            *seen.borrow_mut() = PyFlow::of(flow);
            guarded(|| method.bind(py).call1((seen,))).map_err(|error| raised(py, &error))?;
            let seen = seen.borrow();
            flow.cwnd = seen.cwnd;
            flow.ssthresh = seen.ssthresh;
            Ok(())
        })
    }
}

/// Calls a method, and says meanwhile that one runs.
fn guarded<T>(call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    INSIDE.store(CALLS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    let done = call();
    INSIDE.store(0, Ordering::Relaxed);
    done
}

/// An exception in one line: `raised KIND: WHAT (FILE:LINE)`, or what the guard says of one that took too long.
fn told(py: Python<'_>, error: &PyErr) -> String {
    let what = error.value(py).to_string();
    let kind = error.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    if kind == "TooLongError" {
        return what;
    }
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut place = String::new();
    let mut next: Option<Bound<'_, PyTraceback>> = error.traceback(py);
    while let Some(traceback) = next {
        place = line(&traceback).unwrap_or(place);
        next = traceback.getattr("tb_next").ok().and_then(|inner| inner.cast_into().ok());
    }
    format!("raised {kind}: {what}{place}")
}

fn raised(py: Python<'_>, error: &PyErr) -> Failure {
    Failure::Raised(told(py, error))
}

fn line(traceback: &Bound<'_, PyTraceback>) -> Option<String> {
    let code = traceback.getattr("tb_frame").ok()?.getattr("f_code").ok()?;
    let file: String = code.getattr("co_filename").ok()?.extract().ok()?;
    let number: u32 = traceback.getattr("tb_lineno").ok()?.extract().ok()?;
    let name = file.rsplit('/').next().unwrap_or_default();
    Some(format!(" ({name}:{number})"))
}

/// Loads a controller in Python for [`foreign_cc::modules`].
pub(crate) fn plain(description: &foreign_cc::Description) -> Box<Load> {
    let (source, class) = (description.source.clone(), description.class.clone());
    load(source, description.file.display().to_string(), class)
}
