//! Background traffic: transfers that arrive at random, each over a connection of its own.

use path::exponential;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore;

use crate::{Bulk, Draws, End, Message, Metric, Nanos, Socket};

/// Size of one write of a background transfer.
pub const BACKGROUND_WRITE: u64 = 131_072;

/// Bytes of a transfer at most, those of the largest size of an experiment file.
const LARGEST_TRANSFER: u64 = 1 << 50;

/// The transfers of background traffic, one after the other: Poisson arrivals of drawn sizes.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// Mean time between two.
    interval: Nanos,
    /// Distribution of their bytes.
    sizes: Draws,
    arrivals: Xoshiro256PlusPlus,
    random: Xoshiro256PlusPlus,
}

impl Transfers {
    /// Transfers of these `sizes` that make `load_bps` together; `streams` gives the random stream of a purpose.
    pub fn new(load_bps: u64, sizes: Draws, streams: &dyn Fn(&str) -> Xoshiro256PlusPlus) -> Transfers {
        let interval = u128::from(sizes.mean()) * 8_000_000_000 / u128::from(load_bps);
        Transfers {
            interval: Nanos::try_from(interval).unwrap_or(Nanos::MAX),
            sizes,
            arrivals: streams("arrivals"),
            random: streams("sizes"),
        }
    }

    /// The next one: the time since the one before it (or the flow's start), and its bytes.
    pub fn draw(&mut self) -> (Nanos, u64) {
        let after = exponential(&mut self.arrivals, self.interval).max(1);
        // Of a list any size is as likely, whatever its place.
        let place = if matches!(self.sizes, Draws::List { .. }) { self.random.next_u64() } else { 0 };
        (after, self.sizes.draw(&mut self.random, place).clamp(1, LARGEST_TRANSFER))
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

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: u64 = 8_000_000;

    fn drawn(sizes: Draws) -> Vec<(Nanos, u64)> {
        let mut transfers = Transfers::new(LOAD, sizes, &|purpose| path::stream(5, 0, purpose, "f1"));
        (0..200_000).map(|_| transfers.draw()).collect()
    }

    #[test]
    fn sizes_of_any_distribution_make_the_load() {
        for sizes in [
            Draws::Constant { value: 20_000 },
            Draws::Lognormal { mean: 20_000, deviation: 30_000 },
            Draws::Pareto { mean: 20_000, shape_milli: 3000 },
            Draws::List { values: vec![1000, 2000, 57_000] },
        ] {
            let (time, bytes) = drawn(sizes.clone())
                .iter()
                .fold((0, 0), |(time, all), (after, size)| (time + after, all + size));
            let load = bytes as f64 * 8e9 / time as f64;
            assert!((load - LOAD as f64).abs() < 0.02 * LOAD as f64, "{sizes:?}: {load}");
        }
    }

    #[test]
    fn sizes_of_a_list_are_as_likely_in_any_order() {
        let found = drawn(Draws::List { values: vec![1, 2, 3] });
        let pairs = found.windows(2).filter(|pair| pair[0].1 == 1 && pair[1].1 == 1).count() as f64;
        let share = pairs / found.len() as f64;
        assert!((share - 1.0 / 9.0).abs() < 0.005, "{share}");
    }

    #[test]
    fn a_transfer_has_a_byte_at_least() {
        let found = drawn(Draws::Normal { mean: 1, deviation: 10 });
        assert!(found.iter().all(|&(_, size)| size >= 1));
    }
}
