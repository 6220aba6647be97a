//! Background traffic: transfers that arrive at random, each over a connection of its own.

use path::{exponential, pareto};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Bulk, End, Message, Metric, Nanos, Socket};

/// Size of one write of a background transfer.
pub const BACKGROUND_WRITE: u64 = 131_072;

/// The transfers of background traffic, one after the other: Poisson arrivals of Pareto-distributed sizes.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// Mean time between two.
    interval: Nanos,
    /// Mean size of one, bytes.
    size: u64,
    /// Shape of the distribution of sizes, in thousandths.
    shape_milli: u32,
    arrivals: Xoshiro256PlusPlus,
    sizes: Xoshiro256PlusPlus,
}

impl Transfers {
    /// Transfers of `size` bytes on average that make `load_bps` together; `streams` gives the random stream of a purpose.
    pub fn new(
        load_bps: u64,
        size: u64,
        shape_milli: u32,
        streams: &dyn Fn(&str) -> Xoshiro256PlusPlus,
    ) -> Transfers {
        let interval = u128::from(size) * 8_000_000_000 / u128::from(load_bps);
        Transfers {
            interval: Nanos::try_from(interval).unwrap_or(Nanos::MAX),
            size,
            shape_milli,
            arrivals: streams("arrivals"),
            sizes: streams("sizes"),
        }
    }

    /// The next one: the time since the one before it (or the flow's start), and its bytes.
    pub fn draw(&mut self) -> (Nanos, u64) {
        let after = exponential(&mut self.arrivals, self.interval).max(1);
        (after, pareto(&mut self.sizes, self.size, self.shape_milli))
    }
}

/// The sending end of a transfer, which says when it arrived.
#[derive(Clone, Debug)]
pub struct Transfer {
    bulk: Bulk,
    arrived: Option<Nanos>,
}

impl Transfer {
    /// Creates a transfer of `bytes` that arrived then. One that is too small to hold the time does not say it.
    pub fn new(bytes: u64, arrived: Nanos) -> Transfer {
        let (_, header) = Message::Transfer { arrived }.encode();
        Transfer {
            bulk: Bulk::new(Some(bytes), BACKGROUND_WRITE),
            arrived: (header as u64 <= bytes).then_some(arrived),
        }
    }
}

impl End for Transfer {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, metrics: &mut Vec<Metric>) -> bool {
        if let Some(arrived) = self.arrived.take() {
            socket.say(Message::Transfer { arrived });
        }
        self.bulk.turn(socket, now, metrics)
    }
}

/// The receiving end of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferSink {
    arrived: Option<Nanos>,
    ended: bool,
}

impl End for TransferSink {
    fn turn(&mut self, socket: &mut dyn Socket, now: Nanos, metrics: &mut Vec<Metric>) -> bool {
        if self.arrived.is_none() && !self.ended {
            match socket.heard() {
                Some(Message::Transfer { arrived }) => self.arrived = Some(arrived),
                None if !socket.at_end() => return false,
                _ => self.ended = true,
            }
        }
        let read = socket.read(u64::MAX) > 0;
        if let Some(arrived) = self.arrived
            && socket.at_end()
            && !std::mem::replace(&mut self.ended, true)
        {
            metrics.push(Metric::Completion(now.saturating_sub(arrived)));
        }
        read
    }
}
