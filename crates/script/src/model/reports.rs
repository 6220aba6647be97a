//! Queue of reports of a socket as Linux has it (MSG_ERRQUEUE): what became of data handed over without a copy, and when data
//! left and was acknowledged.

use std::collections::VecDeque;

use tcp::Nanos;

use super::{Connection, Model};
use crate::errno::Errno;
use crate::message::{
    CODE_ZEROCOPY_COPIED, Control, ErrorReport, MSG_ERRQUEUE, MSG_TRUNC, Message, OPT_ID, OPT_TSONLY,
    ORIGIN_TIMESTAMPING, ORIGIN_ZEROCOPY, REPORTS_SOFTWARE, ReceiveFlags, STAMP_ACKNOWLEDGED,
    STAMP_SCHEDULED, STAMP_SENT, SendFlags, TX_ACK, TX_SCHED, TX_SOFTWARE,
};
use crate::system::{Output, Returned};

/// Reports of a connection, and what will be one.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    queue: VecDeque<Report>,
    /// Calls without a copy whose data is not acknowledged: (payload written with it, number of the call).
    lent: VecDeque<(u64, u32)>,
    /// Number of the next such call (sk_zckey).
    next_lent: u32,
    stamps: Vec<Stamp>,
    /// Payload from which the keys of time stamps count (sk_tskey).
    base: u64,
    /// Whether something was queued since the last look.
    news: bool,
}

#[derive(Clone, Copy, Debug)]
enum Report {
    /// Calls from the first to the last number are done with the buffers that they were given.
    Copied { first: u32, last: u32 },
    /// Time of an event in the life of a byte.
    Stamp { at: Nanos, event: i64, key: i64, payload: bool },
}

/// A byte whose times are asked for: the last of a call.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    /// Payload up to the byte and with it.
    end: u64,
    key: i64,
    /// SO_TIMESTAMPING as it was then.
    wanted: i64,
    sent: bool,
}

impl Reports {
    /// Whether a report waits.
    pub(super) fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether something was queued since the last call.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// A call has handed over data, all that was written up to `end`.
    pub(super) fn note_write(&mut self, end: u64, lent: bool, timestamping: i64) {
        if lent {
            self.lent.push_back((end, self.next_lent));
            self.next_lent = self.next_lent.wrapping_add(1);
        }
        if timestamping & (TX_SCHED | TX_SOFTWARE | TX_ACK) != 0 {
            let key = if timestamping & OPT_ID != 0 { (end - self.base) as i64 - 1 } else { 0 };
            self.stamps.push(Stamp { end, key, wanted: timestamping, sent: false });
        }
    }

    /// Keys of time stamps count from what is acknowledged by now.
    pub(super) fn count_from(&mut self, acknowledged: u64) {
        self.base = acknowledged;
    }

    /// A packet has left with the payload from `start` to `end`.
    pub(super) fn note_sent(&mut self, now: Nanos, start: u64, end: u64) {
        let (queue, news) = (&mut self.queue, &mut self.news);
        let gone = |stamp: &&mut Stamp| !stamp.sent && stamp.end > start && stamp.end <= end;
        for stamp in self.stamps.iter_mut().filter(gone) {
            stamp.sent = true;
            for (bit, event) in [(TX_SCHED, STAMP_SCHEDULED), (TX_SOFTWARE, STAMP_SENT)] {
                if stamp.wanted & bit != 0 {
                    queue.push_back(stamp.report(now, event));
                    *news = true;
                }
            }
        }
    }

    /// So much payload is acknowledged by now.
    pub(super) fn note_acknowledged(&mut self, now: Nanos, acknowledged: u64) {
        while let Some(&(_, call)) = self.lent.front().filter(|(end, _)| *end <= acknowledged) {
            self.lent.pop_front();
            self.news = true;
            match self.queue.back_mut() {
                // Calls that follow each other share a report (skb_zerocopy_notify_extend).
                Some(Report::Copied { last, .. }) if last.wrapping_add(1) == call => *last = call,
                _ => self.queue.push_back(Report::Copied { first: call, last: call }),
            }
        }
        let (queue, news) = (&mut self.queue, &mut self.news);
        self.stamps.retain(|stamp| {
            let waits = stamp.end > acknowledged;
            if !waits && stamp.wanted & TX_ACK != 0 {
                queue.push_back(stamp.report(now, STAMP_ACKNOWLEDGED));
                *news = true;
            }
            waits
        });
    }

    /// The oldest report, which is gone then.
    fn take(&mut self) -> Option<Message> {
        let report = |flags, control| Message { flags: MSG_ERRQUEUE | flags, control };
        Some(match self.queue.pop_front()? {
            Report::Copied { first, last } => report(
                0,
                vec![Control::Error(ErrorReport {
                    origin: ORIGIN_ZEROCOPY,
                    // The original tool's interface copies whatever leaves.
                    code: CODE_ZEROCOPY_COPIED,
                    info: i64::from(first),
                    data: i64::from(last),
                    ..ErrorReport::default()
                })],
            ),
            Report::Stamp { at, event, key, payload } => report(
                if payload { MSG_TRUNC } else { 0 },
                vec![
                    Control::Timestamp(at),
                    Control::Error(ErrorReport {
                        errno: i64::from(Errno::ENOMSG.0),
                        origin: ORIGIN_TIMESTAMPING,
                        info: event,
                        data: key,
                        ..ErrorReport::default()
                    }),
                ],
            ),
        })
    }
}

impl Stamp {
    fn report(&self, at: Nanos, event: i64) -> Report {
        Report::Stamp { at, event, key: self.key, payload: self.wanted & OPT_TSONLY == 0 }
    }
}

impl Connection {
    /// Payload acknowledged so far.
    pub(super) fn acknowledged(&self) -> u64 {
        self.endpoint.written() - self.endpoint.unacknowledged()
    }

    /// Notes what a call has handed over, of which something will be reported.
    pub(super) fn note_write(&mut self, flags: SendFlags) {
        let timestamping = self.settings.timestamping;
        // Nobody is told of times without this bit.
        let timestamping = if timestamping & REPORTS_SOFTWARE != 0 { timestamping } else { 0 };
        let lent = flags.zero_copy && self.settings.zero_copy;
        self.reports.note_write(self.endpoint.written(), lent, timestamping);
    }
}

impl Model {
    /// recvmsg. None: the call blocks.
    pub(super) fn read_message(&mut self, fd: i32, len: u64, flags: ReceiveFlags) -> Option<Returned> {
        if flags.errors {
            let message = match self.connection(fd) {
                Ok((connection, _)) => connection.reports.take(),
                Err(Errno::EBADF) => return Some(Err(Errno::EBADF).into()),
                Err(_) => None,
            };
            return Some(match message {
                Some(message) => Returned { result: Ok(0), output: Output::Message(message) },
                None => Err(Errno::EAGAIN).into(),
            });
        }
        let result = self.read(fd, len, flags)?;
        let mut message = Message::default();
        if result.is_ok()
            && let Ok((connection, _)) = self.connection(fd)
            && connection.settings.tells_unread
        {
            let unread = connection.endpoint.readable();
            // The end of the stream is worth a read (tcp_inq_hint).
            let unread = if unread == 0 && connection.endpoint.peer_closed() { 1 } else { unread };
            message.control.push(Control::Unread(unread as i64));
        }
        Some(Returned { result, output: Output::Message(message) })
    }
}
