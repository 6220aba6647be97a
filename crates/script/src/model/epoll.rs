//! Instances of epoll: which descriptors they watch, what wakes them, and what they report (fs/eventpoll.c).

use std::collections::BTreeMap;

use tcp::{Nanos, State};

use super::{Connection, Kind, Model};
use crate::errno::Errno;
use crate::message::{EPOLLET, EPOLLEXCLUSIVE, EPOLLONESHOT, EpollEvent, EpollOperation};
use crate::script::POLL_BITS;
use crate::system::{Output, Returned};

/// Bits that say how to watch, not what for.
const PRIVATE: u32 = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE;
/// A wake-up that does not say why.
const ANY: u32 = !0;

/// An instance.
#[derive(Debug, Default)]
pub(super) struct Epoll {
    watched: BTreeMap<i32, Watch>,
    /// Number of times that a descriptor became ready.
    woken: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    event: EpollEvent,
    /// Place in the order of those that may have something to report. None: not ready.
    ready: Option<u64>,
}

/// State of a connection at the last look, by which is told what has happened since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    readable: u64,
    state: State,
}

impl Look {
    pub(super) const FIRST: Look = Look { readable: 0, state: State::Closed };
}

/// Bits of poll that are reported whether asked for or not, and those of reading and writing.
fn bits() -> (u32, u32, u32) {
    let [into, out, err, hup, _] = POLL_BITS.map(|(_, bit)| bit as u32);
    (err | hup, into, out)
}

impl Epoll {
    fn wake(&mut self, fd: i32, why: u32) {
        let (always, ..) = bits();
        let Some(watch) = self.watched.get_mut(&fd) else { return };
        let events = watch.event.events & !PRIVATE;
        if events != 0 && (why == ANY || why & (events | always) != 0) && watch.ready.is_none() {
            self.woken += 1;
            watch.ready = Some(self.woken);
        }
    }
}

impl Connection {
    /// Bits of poll for events of the connection since the last call that wakes who waits for it.
    fn take_wakes(&mut self) -> u32 {
        let (_, into, out) = bits();
        let now = Look { readable: self.endpoint.readable(), state: self.endpoint.state() };
        let before = std::mem::replace(&mut self.look, now);
        if before.state != now.state {
            return ANY;
        }
        let mut wakes = if now.readable > before.readable { into } else { 0 };
        if self.reports.take_news() {
            wakes |= bits().0;
        }
        if self.no_space && self.endpoint.writable() {
            self.no_space = false;
            wakes |= out;
        }
        wakes
    }
}

impl Model {
    pub(super) fn epoll_create(&mut self) -> i64 {
        let fd = self.free_descriptor();
        self.epolls.insert(fd, Epoll::default());
        i64::from(fd)
    }

    /// Bits of a socket that poll reports. A writer without room is woken once there is some (SOCK_NOSPACE).
    pub(super) fn polled(&mut self, fd: i32) -> i16 {
        let (.., out) = bits();
        let found = self.readiness(fd);
        if u32::from(found as u16) & out == 0
            && let Ok((connection, _)) = self.connection(fd)
        {
            connection.no_space = true;
        }
        found
    }

    pub(super) fn epoll_control(
        &mut self,
        epoll: i32,
        operation: EpollOperation,
        fd: i32,
        event: EpollEvent,
    ) -> Result<i64, Errno> {
        if !self.sockets.contains_key(&fd) {
            return Err(Errno::EBADF);
        }
        let found = u32::from(self.polled(fd) as u16);
        let instance = self.epolls.get_mut(&epoll).ok_or(Errno::EINVAL)?;
        let known = instance.watched.contains_key(&fd);
        match operation {
            EpollOperation::Add if known => return Err(Errno::EEXIST),
            EpollOperation::Modify | EpollOperation::Delete if !known => return Err(Errno::ENOENT),
            EpollOperation::Delete => {
                instance.watched.remove(&fd);
                return Ok(0);
            }
            EpollOperation::Add | EpollOperation::Modify => {}
        }
        let ready = instance.watched.get(&fd).and_then(|watch| watch.ready);
        instance.watched.insert(fd, Watch { event, ready });
        if found != 0 {
            instance.wake(fd, found);
        }
        Ok(0)
    }

    /// epoll_wait. None: the call blocks.
    pub(super) fn epoll_wait(&mut self, epoll: i32, most: i32, deadline: Option<Nanos>) -> Option<Returned> {
        let Some(instance) = self.epolls.get(&epoll) else { return Some(Err(Errno::EINVAL).into()) };
        let mut ready: Vec<(u64, i32, EpollEvent)> = instance
            .watched
            .iter()
            .filter_map(|(&fd, watch)| Some((watch.ready?, fd, watch.event)))
            .collect();
        ready.sort_unstable_by_key(|(order, ..)| *order);
        let (always, ..) = bits();
        let mut reported = Vec::new();
        for (_, fd, event) in ready {
            if reported.len() as i32 >= most {
                break;
            }
            let found = u32::from(self.polled(fd) as u16) & (event.events & !PRIVATE | always);
            let Some(watch) = self.epolls.get_mut(&epoll).and_then(|instance| instance.watched.get_mut(&fd))
            else {
                continue;
            };
            if found == 0 || event.events & (EPOLLET | EPOLLONESHOT) != 0 {
                watch.ready = None;
            }
            if found != 0 {
                if event.events & EPOLLONESHOT != 0 {
                    watch.event.events &= PRIVATE;
                }
                reported.push(EpollEvent { events: found, datum: event.datum });
            }
        }
        if reported.is_empty() && deadline.is_none_or(|at| at > self.now) {
            return None;
        }
        Some(Returned { result: Ok(reported.len() as i64), output: Output::Epoll(reported) })
    }

    /// Forgets a descriptor that is closed; true if it was an instance.
    pub(super) fn epoll_forget(&mut self, fd: i32) -> bool {
        for instance in self.epolls.values_mut() {
            instance.watched.remove(&fd);
        }
        self.epolls.remove(&fd).is_some()
    }

    /// Wakes the instances that watch what has changed: call it after anything has happened.
    pub(super) fn wake_epolls(&mut self) {
        let (_, into, _) = bits();
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            let wakes = connection.take_wakes();
            if wakes == 0 || self.epolls.is_empty() {
                continue;
            }
            let listener = connection.listener;
            let own = |socket: &super::Socket| matches!(socket.kind, Kind::Connected(own) if own == index);
            let fd = self.sockets.iter().find(|(_, socket)| own(socket)).map(|(&fd, _)| fd);
            for instance in self.epolls.values_mut() {
                if let Some(fd) = fd {
                    instance.wake(fd, wakes);
                } else if let Some(fd) = listener {
                    instance.wake(fd, into);
                }
            }
        }
    }
}
