//! What is drawn for the flows of a run, wherever it is carried out: when they start, how long they send and rest, and the
//! transfers of background traffic. Real hosts ask here too, so that they do what the model does.

use apps::{Lengths, Transfers};
use contract::scenario::{App, Distribution, Flow, Scenario};
use path::Nanos;

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
    /// One line, for an application that the engine would refuse or that draws nothing.
    pub fn new(app: &str, seed: u64, repeat: u32, name: &str) -> Result<Draws, String> {
        let app: App = serde_json::from_str(app).map_err(|error| format!("app: {error}"))?;
        crate::check::check_app(&app)?;
        let streams = |purpose: &str| path::stream(seed, repeat, purpose, name);
        match app {
            App::OnOff { on_ns, off_ns, distribution, .. } => {
                let random = (distribution == Distribution::Exponential).then(|| streams("on-off"));
                Ok(Draws::Lengths(Lengths::new(on_ns, off_ns, random)))
            }
            App::Background { load_bps, size_bytes, shape_milli, .. } => {
                Ok(Draws::Transfers(Transfers::new(load_bps, size_bytes, shape_milli, &streams)))
            }
            _ => Err("app: expected on-off or background, which draw".into()),
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
