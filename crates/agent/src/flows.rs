//! Ends of a flow, by its application.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use apps::{End, Incast, Rounds, Server, Sink, Traffic, Transfer, TransferSink, Transfers};
use contract::scenario::App;

#[cfg(target_os = "linux")]
use crate::bulk;
use crate::clock::locked;
use crate::datagrams;
use crate::driver::{Driven, Role, drive_incast};
use crate::echo;
use crate::error::{self, AppRefusal, Error, Result};
use crate::metrics::Metrics;
use crate::order::Task;
use crate::socket::{Connection, Listener, connect, listen};

/// Work that an end does in a thread of its own.
pub(crate) type Work = Box<dyn FnOnce() -> Result<()> + Send>;

const NEVER: u64 = u64::MAX;

/// Refuses an application that live hosts cannot carry out, over a guest or over the kernel's TCP.
///
/// # Errors
/// Why not.
pub fn check(app: &App, over_guest: bool) -> std::result::Result<(), AppRefusal> {
    contract::check_app(app)?;
    let plain =
        matches!(app, App::Bulk { .. } | App::Fixed { .. } | App::RateLimited { .. } | App::OnOff { .. });
    if over_guest && !plain {
        return Err(AppRefusal::Guest);
    }
    match app.message() {
        Some((bytes, least)) if bytes < least as u64 => Err(AppRefusal::Short { bytes, least: least as u64 }),
        _ => Ok(()),
    }
}

/// Number of bytes that a bulk transfer sends (None: without an end), and of a write. None for any other application.
#[cfg(target_os = "linux")]
fn bulk(app: &App) -> Option<(Option<u64>, u64)> {
    match *app {
        App::Bulk { bytes, write_bytes } => Some((bytes, write_bytes)),
        App::Fixed { size_bytes, write_bytes } => Some((Some(size_bytes), write_bytes)),
        _ => None,
    }
}

/// Traffic of a flow's application.
fn traffic(task: &Task) -> Traffic {
    task.app.traffic(task.stop_ns, &|purpose| path::stream(task.seed, task.repeat, purpose, &task.flow))
}

/// The end of a flow that opens it; it waits for its time.
///
/// # Errors
/// If this host cannot begin.
pub(crate) fn send(task: &Task, metrics: &Metrics, is_guest: bool) -> Result<Work> {
    let (task, metrics) = (task.clone(), metrics.clone());
    #[cfg(target_os = "linux")]
    if is_guest && let Some((bytes, write)) = bulk(&task.app) {
        return Ok(Box::new(move || bulk::send(&task, bytes, write, &metrics)));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = is_guest;
    let (end, stop): (Box<dyn End>, u64) = match traffic(&task) {
        Traffic::Bulk(bulk) => (Box::new(bulk), task.stop_ns),
        Traffic::Connection { opening, accepting_stops: false, .. } => (opening, task.stop_ns),
        Traffic::Connection { opening, accepting_stops: true, .. } => (opening, NEVER),
        Traffic::Incast { .. } => (Box::new(Server::default()), NEVER),
        Traffic::Background(transfers, connections) => {
            return Ok(Box::new(move || background(&task, transfers, connections, &metrics)));
        }
        Traffic::Datagrams(source) if source.is_echoed() => {
            return Ok(Box::new(move || {
                metrics.clock.sleep_until(task.start_ns as i64);
                metrics.opens();
                Ok(echo::probe(&task, source, &metrics)?)
            }));
        }
        Traffic::Datagrams(source) => {
            return Ok(Box::new(move || Ok(datagrams::send(&task, source, &metrics)?)));
        }
        Traffic::Media(_) => return Err(Error::Media),
        Traffic::Load(_) | Traffic::Pinger(_) => return Err(Error::Load),
    };
    if let Some(stack) = &task.guest {
        return over_guest(end, stack, &task, metrics.clone(), true, stop);
    }
    Ok(Box::new(move || {
        metrics.clock.sleep_until(task.start_ns as i64);
        Ok(open(end, &task, true, &metrics, stop)?)
    }))
}

/// The end of a flow that accepts it; it listens when this returns.
///
/// # Errors
/// If this host cannot.
pub(crate) fn receive(task: &Task, metrics: &Metrics, is_guest: bool) -> Result<Work> {
    let (task, metrics) = (task.clone(), metrics.clone());
    #[cfg(target_os = "linux")]
    if is_guest && bulk(&task.app).is_some() {
        let listener = listen(&task)?;
        return Ok(Box::new(move || bulk::receive(&listener, &metrics)));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = is_guest;
    let end: Box<dyn End> = match traffic(&task) {
        Traffic::Connection { accepting, .. } => accepting,
        Traffic::Background(..) => {
            let listener = listen(&task)?;
            return Ok(Box::new(move || sinks(&listener, &metrics)));
        }
        // The kernel answers.
        Traffic::Datagrams(source) if source.is_echoed() => return Ok(Box::new(|| Ok(()))),
        Traffic::Datagrams(_) => {
            let socket = datagrams::bind(&task)?;
            return Ok(Box::new(move || Ok(datagrams::receive(&socket, &metrics)?)));
        }
        _ => Box::new(Sink),
    };
    if let Some(stack) = &task.guest {
        let stop = task.stop_ns;
        return over_guest(end, stack, &task, metrics.clone(), false, stop);
    }
    let listener = listen(&task)?;
    Ok(Box::new(move || {
        let connection = Connection::new(listener.accept()?, metrics.clone())?;
        Ok(Driven::new(end, Role::Accepting, connection, metrics, task.stop_ns).drive()?)
    }))
}

/// The accepting ends of the flows of one incast, which are asked together; likewise.
///
/// # Errors
/// If this host cannot.
pub(crate) fn gather(tasks: &[(Task, Metrics)]) -> Result<Work> {
    let mut listeners: Vec<(Listener, Incast, Metrics, u64)> = Vec::new();
    let mut group = Rounds::new(0, None, 0);
    for (task, metrics) in tasks {
        let Traffic::Incast { client, rounds, think } = traffic(task) else { continue };
        listeners.push((listen(task)?, client, metrics.clone(), task.stop_ns));
        if listeners.len() == 1 {
            group = Rounds::new(tasks.len() as u32, rounds, think);
        }
    }
    Ok(Box::new(move || {
        let accept = |(listener, end, metrics, stop): (Listener, Incast, Metrics, u64)| {
            let connection = Connection::new(listener.accept()?, metrics.clone())?;
            Ok(Driven::new(end, Role::Accepting, connection, metrics, stop))
        };
        let ends: io::Result<Vec<_>> = listeners.into_iter().map(accept).collect();
        Ok(drive_incast(ends?, group)?)
    }))
}

/// An end of a flow over a guest.
#[cfg(all(feature = "quinn", target_os = "linux"))]
use crate::stack::work as over_guest;

/// Refuses an end over a guest, where none is built in.
#[cfg(not(all(feature = "quinn", target_os = "linux")))]
fn over_guest(
    _end: Box<dyn End>,
    stack: &crate::order::Stack,
    _task: &Task,
    _metrics: Metrics,
    _opening: bool,
    _stop: u64,
) -> Result<Work> {
    Err(Error::NoGuest(stack.stack.clone()))
}

fn open(end: Box<dyn End>, task: &Task, own_port: bool, metrics: &Metrics, stop: u64) -> io::Result<()> {
    let stream = connect(task, own_port, metrics)?;
    let connection = Connection::opened(stream, metrics.clone(), task.fast_open)?;
    Driven::new(end, Role::Opening, connection, metrics.clone(), stop).drive()
}

/// Transfers as they arrive, each over a connection of its own, as many at a time as are allowed.
fn background(task: &Task, mut transfers: Transfers, connections: u32, metrics: &Metrics) -> Result<()> {
    let free = Arc::new((Mutex::new(connections), Condvar::new()));
    let (after, mut size) = transfers.draw();
    let mut at = task.start_ns.saturating_add(after);
    while at < task.stop_ns {
        metrics.clock.sleep_until(at as i64);
        let (task, metrics, free) = (task.clone(), metrics.clone(), Arc::clone(&free));
        spawn(move || {
            let mut left = locked(&free.0);
            while *left == 0 {
                left = free.1.wait(left).unwrap_or_else(PoisonError::into_inner);
            }
            *left -= 1;
            drop(left);
            // A transfer that fails is none that completes, as in the model.
            let _ = open(Box::new(Transfer::new(size, at)), &task, false, &metrics, NEVER);
            *locked(&free.0) += 1;
            free.1.notify_one();
        })?;
        let after;
        (after, size) = transfers.draw();
        at = at.saturating_add(after);
    }
    Ok(())
}

/// Takes one transfer after the other, each from its own connection.
fn sinks(listener: &Listener, metrics: &Metrics) -> Result<()> {
    loop {
        let stream = listener.accept()?;
        let metrics = metrics.clone();
        spawn(move || {
            // Likewise.
            let _ = Connection::new(stream, metrics.clone()).and_then(|connection| {
                Driven::new(TransferSink::default(), Role::Accepting, connection, metrics.unended(), NEVER)
                    .drive()
            });
        })?;
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    error::at("a thread", thread::Builder::new().spawn(work).map(drop))
}
