//! What both ends of a flow are, by its application.

use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use apps::{
    Bulk, Datagrams, End, Incast, Lengths, Message, OnOff, Paced, Player, Requests, Rounds, Server, Sink,
    Transfer, TransferSink, Transfers, chunk_bytes,
};
use contract::AppError;
use contract::scenario::{App, Distribution};
use thiserror::Error;

use crate::clock::locked;
use crate::datagrams::{self, STAMP};
use crate::driver::{Driven, Role, drive_incast};
use crate::echo;
use crate::metrics::Metrics;
use crate::order::Task;
use crate::socket::{Connection, Listener, connect, listen};

/// What an end does in a thread of its own: it ends with one line, or well.
pub type Work = Box<dyn FnOnce() -> Result<(), String> + Send>;

const NEVER: u64 = u64::MAX;

/// Why live hosts cannot carry out an application.
#[derive(Debug, Error)]
pub enum AppRefusal {
    /// Nobody can.
    #[error(transparent)]
    App(#[from] AppError),
    /// Its messages have no room for what they say.
    #[error("{bytes} bytes have no room for what a message says; at least {least}")]
    Short {
        /// Bytes of a message.
        bytes: u64,
        /// What it takes to say it.
        least: u64,
    },
}

/// Refuses an application that live hosts cannot carry out.
///
/// # Errors
/// Why not.
pub fn check(app: &App) -> Result<(), AppRefusal> {
    contract::check_app(app)?;
    let asks = |bytes, response| Some((bytes, Message::Request { bytes, response, last: true }.encode().1));
    let said = match *app {
        App::RequestResponse { request_bytes, response_bytes, .. } => asks(request_bytes, response_bytes),
        App::Incast { request_bytes, size_bytes, .. } => asks(request_bytes, size_bytes),
        App::Video { request_bytes, rate_bps, chunk_ns, .. } => {
            asks(request_bytes, chunk_bytes(rate_bps, chunk_ns))
        }
        App::UdpCbr { payload_bytes, .. } | App::Voip { payload_bytes, .. } => {
            Some((u64::from(payload_bytes), STAMP))
        }
        App::Background { size_bytes, shape_milli, .. } => {
            // The scale of a Pareto distribution of this mean and shape.
            let least = u128::from(size_bytes) * u128::from(shape_milli - 1000) / u128::from(shape_milli);
            Some((least as u64, Message::Transfer { arrived: u64::MAX }.encode().1))
        }
        _ => None,
    };
    match said {
        Some((bytes, least)) if bytes < least as u64 => Err(AppRefusal::Short { bytes, least: least as u64 }),
        _ => Ok(()),
    }
}

/// The end of a flow that opens it; it waits for its time.
///
/// # Errors
/// One line, if this host cannot begin.
pub fn send(task: &Task, metrics: &Metrics) -> Result<Work, String> {
    let (task, metrics) = (task.clone(), metrics.clone());
    let random = |purpose: &str| path::stream(task.seed, task.repeat, purpose, &task.flow);
    let (end, stop): (Box<dyn End>, u64) = match task.app {
        App::Bulk { bytes, write_bytes } => (Box::new(Bulk::new(bytes, write_bytes)), task.stop_ns),
        App::Fixed { size_bytes, write_bytes } => {
            (Box::new(Bulk::new(Some(size_bytes), write_bytes)), task.stop_ns)
        }
        App::RateLimited { rate_bps, write_bytes } => {
            (Box::new(Paced::new(rate_bps, write_bytes, task.stop_ns)), task.stop_ns)
        }
        App::OnOff { on_ns, off_ns, rate_bps, write_bytes, distribution } => {
            let drawn = (distribution == Distribution::Exponential).then(|| random("on-off"));
            let lengths = Lengths::new(on_ns, off_ns, drawn);
            (Box::new(OnOff::new(lengths, rate_bps, write_bytes, task.stop_ns)), task.stop_ns)
        }
        App::RequestResponse { .. } | App::Incast { .. } | App::Video { .. } => {
            (Box::new(Server::default()), NEVER)
        }
        App::Background { load_bps, size_bytes, shape_milli, connections } => {
            let transfers = Transfers::new(load_bps, size_bytes, shape_milli, &random);
            return Ok(Box::new(move || background(&task, transfers, connections, &metrics)));
        }
        App::UdpCbr { rate_bps, payload_bytes, ecn } => {
            let source = Datagrams::at_rate(rate_bps, payload_bytes);
            return Ok(Box::new(move || words(datagrams::send(&task, source, ecn, &metrics))));
        }
        App::Voip { frame_ns, payload_bytes, ecn } => {
            let source = Datagrams::every(frame_ns, payload_bytes, false);
            return Ok(Box::new(move || words(datagrams::send(&task, source, ecn, &metrics))));
        }
        App::Ping { interval_ns, payload_bytes } => {
            return Ok(Box::new(move || {
                metrics.clock.sleep_until(task.start_ns as i64);
                metrics.opens();
                words(echo::probe(&task, interval_ns, payload_bytes, &metrics))
            }));
        }
        App::Loadlatency { .. } => return Err("the loadlatency tool carries this out".into()),
    };
    Ok(Box::new(move || {
        metrics.clock.sleep_until(task.start_ns as i64);
        words(connect(&task, true, &metrics).and_then(|stream| open(end, stream, &metrics, stop)))
    }))
}

/// The end of a flow that accepts it; it listens when this returns.
///
/// # Errors
/// One line, if this host cannot.
pub fn receive(task: &Task, metrics: &Metrics) -> Result<Work, String> {
    let (task, metrics) = (task.clone(), metrics.clone());
    let end: Box<dyn End> = match task.app {
        App::RequestResponse { requests, request_bytes, response_bytes, think_ns } => {
            Box::new(Requests::new(requests, request_bytes, response_bytes, think_ns))
        }
        App::Video { rate_bps, chunk_ns, buffer_ns, request_bytes } => {
            Box::new(Player::new(rate_bps, chunk_ns, buffer_ns, request_bytes))
        }
        App::Background { .. } => {
            let listener = words(listen(&task))?;
            return Ok(Box::new(move || sinks(&listener, &metrics)));
        }
        App::UdpCbr { .. } | App::Voip { .. } => {
            let socket = words(datagrams::bind(&task))?;
            return Ok(Box::new(move || words(datagrams::receive(&socket, &metrics))));
        }
        // The kernel answers.
        App::Ping { .. } => return Ok(Box::new(|| Ok(()))),
        _ => Box::new(Sink),
    };
    let listener = words(listen(&task))?;
    Ok(Box::new(move || {
        let connection = listener.accept().and_then(|stream| Connection::new(stream, metrics.clone()));
        words(connection.and_then(|connection| {
            Driven::new(end, Role::Accepting, connection, metrics, task.stop_ns).drive()
        }))
    }))
}

/// The accepting ends of the flows of one incast, which are asked together; likewise.
///
/// # Errors
/// One line, if this host cannot.
pub fn gather(tasks: &[(Task, Metrics)]) -> Result<Work, String> {
    let mut listeners: Vec<(Listener, Incast, Metrics, u64)> = Vec::new();
    let mut group = Rounds::new(0, None, 0);
    for (task, metrics) in tasks {
        let App::Incast { size_bytes, request_bytes, rounds, think_ns, .. } = task.app else { continue };
        let end = Incast::new(rounds, request_bytes, size_bytes);
        listeners.push((words(listen(task))?, end, metrics.clone(), task.stop_ns));
        if listeners.len() == 1 {
            group = Rounds::new(tasks.len() as u32, rounds, think_ns);
        }
    }
    Ok(Box::new(move || {
        let accept = |(listener, end, metrics, stop): (Listener, Incast, Metrics, u64)| {
            let connection = Connection::new(listener.accept()?, metrics.clone())?;
            Ok(Driven::new(end, Role::Accepting, connection, metrics, stop))
        };
        let ends: io::Result<Vec<_>> = listeners.into_iter().map(accept).collect();
        words(ends.and_then(|ends| drive_incast(ends, group)))
    }))
}

fn open(end: Box<dyn End>, stream: TcpStream, metrics: &Metrics, stop: u64) -> io::Result<()> {
    let connection = Connection::new(stream, metrics.clone())?;
    Driven::new(end, Role::Opening, connection, metrics.clone(), stop).drive()
}

/// Transfers as they arrive, each over a connection of its own, as many at a time as are allowed.
fn background(
    task: &Task,
    mut transfers: Transfers,
    connections: u32,
    metrics: &Metrics,
) -> Result<(), String> {
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
            let _ = connect(&task, false, &metrics)
                .and_then(|stream| open(Box::new(Transfer::new(size, at)), stream, &metrics, NEVER));
            *locked(&free.0) += 1;
            free.1.notify_one();
        })?;
        let after;
        (after, size) = transfers.draw();
        at = at.saturating_add(after);
    }
    Ok(())
}

/// One transfer after the other, each from its own connection.
fn sinks(listener: &Listener, metrics: &Metrics) -> Result<(), String> {
    loop {
        let stream = words(listener.accept())?;
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

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    thread::Builder::new().spawn(work).map(drop).map_err(|error| format!("a thread: {error}"))
}

/// An error in words.
fn words<T>(result: io::Result<T>) -> Result<T, String> {
    result.map_err(|error| loadlatency::sys::in_words(&error))
}
