//! What is drawn for the flows of a run, wherever it is carried out: when they start, how long they send and rest, and the
//! transfers of background traffic. Real hosts ask here too, so that they do what the model does.

use contract::scenario::{App, Distribution, Flow, Scenario};
use host::app::Lengths;
use host::noise::{exponential, pareto};
use path::{Nanos, Xoshiro256PlusPlus};

use crate::error::DrawsError;

/// When each flow starts, in their order: its `start_ns` and its share of the start jitter.
pub fn starts(scenario: &Scenario) -> Vec<Nanos> {
    let start = |flow: &Flow| {
        let mut random = path::stream(scenario.seed, scenario.repeat, "start", &flow.name);
        let offset = match scenario.start_jitter_ns {
            0 => 0,
            jitter => rand_core::RngCore::next_u64(&mut random) % jitter,
        };
        flow.start_ns.saturating_add(offset)
    };
    scenario.flows.iter().map(start).collect()
}

/// How long an application sends and rests; `streams` gives the random stream of a purpose.
pub fn lengths(
    on: Nanos,
    off: Nanos,
    distribution: Distribution,
    streams: &dyn Fn(&str) -> Xoshiro256PlusPlus,
) -> Lengths {
    Lengths::new(on, off, (distribution == Distribution::Exponential).then(|| streams("on-off")))
}

/// The transfers of background traffic, one after the other: Poisson arrivals of Pareto-distributed sizes.
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
    /// Transfers of `size` bytes on average that make `load_bps` together; `streams` as for [`lengths`].
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

/// What the application of a flow draws, for whoever carries it out.
pub enum Draws {
    /// Times of sending and of resting.
    Lengths(Lengths),
    /// Background transfers.
    Transfers(Transfers),
}

impl Draws {
    /// Draws of the flow called `name`, whose application (JSON) is as in a scenario with this seed and repeat.
    ///
    /// # Errors
    /// For an application that the engine would refuse or that draws nothing.
    pub fn new(app: &str, seed: u64, repeat: u32, name: &str) -> Result<Draws, DrawsError> {
        let app: App = serde_json::from_str(app)?;
        crate::check::check_app(&app)?;
        let streams = |purpose: &str| path::stream(seed, repeat, purpose, name);
        match app {
            App::OnOff { on_ns, off_ns, distribution, .. } => {
                Ok(Draws::Lengths(lengths(on_ns, off_ns, distribution, &streams)))
            }
            App::Background { load_bps, size_bytes, shape_milli, .. } => {
                Ok(Draws::Transfers(Transfers::new(load_bps, size_bytes, shape_milli, &streams)))
            }
            _ => Err(DrawsError::DrawsNothing),
        }
    }

    /// The next draw: (ns of sending, ns of resting), or (ns since the transfer before, its bytes).
    pub fn draw(&mut self) -> (u64, u64) {
        match self {
            Draws::Lengths(lengths) => (lengths.turn(), lengths.turn()),
            Draws::Transfers(transfers) => transfers.draw(),
        }
    }
}
