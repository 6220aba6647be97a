//! Gives ends of connections their turns, when something happens at their sockets and when they are due.

use std::io;

use apps::{End, Incast, Metric, Nanos, Rounds, Socket as _};

use crate::metrics::Metrics;
use crate::socket::Connection;
use crate::sys::{self, Ready, Wait};

/// Time between two looks at a socket that has something its end does not read yet, ns.
const LOOK: Nanos = 10_000_000;

const NEVER: Nanos = Nanos::MAX;

/// An end at its connection.
pub(crate) struct Driven<E> {
    end: E,
    connection: Connection,
    metrics: Metrics,
    role: Role,
    /// Time of the run when the end is told to stop, in ns.
    stop: Nanos,
    stopped: bool,
    /// Whether the connection holds something that the end does not read.
    unread: bool,
    is_over: bool,
}

/// Role of an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// End that opens the connection.
    Opening,
    /// End that accepts the connection, and closes after the other end.
    Accepting,
}

impl<E: End> Driven<E> {
    /// An end that has not had a turn; it is told to stop at `stop`.
    pub(crate) fn new(
        end: E,
        role: Role,
        connection: Connection,
        metrics: Metrics,
        stop: Nanos,
    ) -> Driven<E> {
        Driven { end, connection, metrics, role, stop, stopped: false, unread: false, is_over: false }
    }

    /// Gives the end its turns until its connection is over.
    ///
    /// # Errors
    /// Any failure of the connection.
    pub(crate) fn drive(mut self) -> io::Result<()> {
        let mut woken = Ready::default();
        loop {
            self.act(woken, &mut |_, _| ())?;
            if self.is_over {
                return Ok(());
            }
            let now = self.metrics.clock.now_ns();
            let (wait, due) = self.waits_for(now);
            woken = sleep(&[wait], now, due)?[0];
        }
    }

    /// Takes turns until the end waits for something; `told` hears of metrics, and when they came to be.
    fn act(&mut self, woken: Ready, told: &mut dyn FnMut(Metric, Nanos)) -> io::Result<()> {
        let came = self.connection.came();
        let mut metrics = Vec::new();
        loop {
            let now = self.metrics.clock.now_ns();
            if !self.stopped && now >= self.stop {
                self.stopped = true;
                self.end.stop();
            }
            self.connection.begin_turn();
            let busy = self.end.turn(&mut self.connection, now, &mut metrics);
            for metric in metrics.drain(..) {
                let (kind, value) = match metric {
                    Metric::Response(took) => ("response", took),
                    Metric::Stall(lasted) => ("stall", lasted),
                    Metric::Completion(took) => ("completion", took),
                };
                self.metrics.sample(now, kind, value);
                told(metric, now);
            }
            self.check()?;
            if !busy && !self.connection.is_spent() {
                break;
            }
        }
        self.connection.end_turn();
        self.unread = woken.read && self.connection.came() == came && !self.connection.look();
        self.finish()
    }

    /// Closes behind the end, and sees whether the connection is over.
    fn finish(&mut self) -> io::Result<()> {
        match self.role {
            Role::Opening if self.connection.is_closed() => {
                self.connection.skip();
                self.is_over = self.connection.has_ended();
            }
            // The other end has gone, and this one has nothing to say to it.
            Role::Opening if self.connection.has_ended() && !self.connection.is_full() => {
                self.connection.close();
                self.is_over = true;
            }
            Role::Accepting if self.connection.at_end() => {
                let now = self.metrics.clock.now_ns();
                self.metrics.ended(self.connection.last_read().unwrap_or(now), now);
                if !self.connection.is_closed() {
                    self.connection.close();
                }
                self.is_over = true;
            }
            _ => {}
        }
        self.check()
    }

    fn check(&mut self) -> io::Result<()> {
        self.connection.take_error().map_or(Ok(()), Err)
    }

    /// Returns what the end waits for, and when it wants a turn at the latest.
    fn waits_for(&self, now: Nanos) -> (Wait, Nanos) {
        let stop = if self.stopped { NEVER } else { self.stop };
        let look = if self.unread { now.saturating_add(LOOK) } else { NEVER };
        let wait = Wait {
            socket: self.connection.descriptor(),
            read: !self.unread && !self.connection.has_ended(),
            write: self.connection.is_full(),
        };
        (wait, self.end.due().unwrap_or(NEVER).min(stop).min(look))
    }
}

/// Gives the client's ends of an incast their turns, and begins its rounds, until all connections are over.
///
/// # Errors
/// What befell one of the connections.
pub(crate) fn drive_incast(mut ends: Vec<Driven<Incast>>, mut rounds: Rounds) -> io::Result<()> {
    let Some(clock) = ends.first().map(|first| first.metrics.clock.clone()) else { return Ok(()) };
    let (mut began, mut answers) = (0, 0);
    for _ in &ends {
        rounds.on_open(clock.now_ns());
    }
    let mut woken = vec![Ready::default(); ends.len()];
    while ends.iter().any(|end| !end.is_over) {
        let now = clock.now_ns();
        if rounds.due().is_some_and(|due| due <= now) {
            rounds.begin();
            (began, answers) = (now, 0);
            ends.iter_mut().for_each(|end| end.end.release());
        }
        let all = ends.len();
        for (end, woken) in ends.iter_mut().zip(&woken).filter(|(end, _)| !end.is_over) {
            let metrics = end.metrics.clone();
            end.act(*woken, &mut |metric, at| {
                if matches!(metric, Metric::Response(_)) {
                    rounds.on_answer(at);
                    answers += 1;
                    if answers == all {
                        metrics.sample(at, "round", at.saturating_sub(began));
                    }
                }
            })?;
        }
        let now = clock.now_ns();
        let waits: Vec<(Wait, Nanos)> = ends
            .iter()
            .map(|end| match end.waits_for(now) {
                (wait, _) if end.is_over => (Wait { socket: -1, ..wait }, NEVER),
                waits => waits,
            })
            .collect();
        let due = waits.iter().map(|wait| wait.1).chain(rounds.due()).min().unwrap_or(NEVER);
        let waits: Vec<Wait> = waits.into_iter().map(|wait| wait.0).collect();
        if ends.iter().any(|end| !end.is_over) {
            woken = sleep(&waits, now, due)?;
        }
    }
    Ok(())
}

fn sleep(waits: &[Wait], now: Nanos, due: Nanos) -> io::Result<Vec<Ready>> {
    sys::wait(waits, (due < NEVER).then(|| due.saturating_sub(now)))
}
