//! The engine for a browser: a run of a Scenario in steps, its rows as columns of numbers, and the hashes of all of them.
//!
//! A page hands a Scenario (JSON) to [`Run::new`], goes through it with [`Run::run_until`], and after each step reads what
//! is new with [`Run::take`] and [`Run::column`].

mod hash;

use contract::table::{Batch, Column, ColumnData};
use wasm_bindgen::prelude::{JsError, wasm_bindgen};

pub use hash::{Hashes, hashes};

/// The tables that a run leaves, in the order in which their hashes are taken together.
pub const TABLES: [&str; 4] = ["tcp", "queue", "events", "samples"];

/// Run of a Scenario.
#[wasm_bindgen]
pub struct Run {
    simulation: sim::Simulation,
    scenario_hash: String,
    /// Every batch of the run so far.
    batches: Vec<(&'static str, Batch)>,
    /// Number of batches that were there before the last [`Run::take`].
    known: usize,
}

#[wasm_bindgen]
impl Run {
    /// A run that has not begun; throws what the engine refuses.
    #[wasm_bindgen(constructor)]
    pub fn new(scenario: &str) -> Result<Run, JsError> {
        Ok(Run::of(scenario)?)
    }

    /// Carries out every event before `t_ns`; true when the run is over.
    pub fn run_until(&mut self, t_ns: f64) -> bool {
        self.simulation.run_until(t_ns as u64)
    }

    /// Packets that hosts have put on the wire so far.
    pub fn packets(&self) -> f64 {
        self.simulation.packets() as f64
    }

    /// Makes the rows since the last call those that [`Run::column`] hands over.
    pub fn take(&mut self) {
        self.known = self.batches.len();
        self.batches.extend(self.simulation.take_recorded());
    }

    /// The new rows of a column: null as NaN, a name as its index in [`Run::names`].
    pub fn column(&self, table: &str, column: &str) -> Vec<f64> {
        let mut values = Vec::new();
        for found in self.new_columns(table, column) {
            append(&mut values, found);
        }
        values
    }

    /// The names of a column of names, as far as there are new rows.
    pub fn names(&self, table: &str, column: &str) -> Vec<String> {
        self.new_columns(table, column)
            .find_map(|found| match &found.data {
                ColumnData::Dict { values, .. } => Some(values.to_vec()),
                _ => None,
            })
            .unwrap_or_default()
    }

    /// JSON: counters and distributions of each flow and link over the measurement window.
    pub fn summary(&mut self) -> String {
        self.simulation.summary()
    }

    /// JSON: the hash of the Scenario, of each table's rows, and of all of them, once every row was taken.
    pub fn hashes(&self) -> String {
        let Hashes { tables, result } = hashes(&self.batches);
        serde_json::json!({"scenario": self.scenario_hash, "tables": tables, "result": result}).to_string()
    }
}

/// Reason why a Scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The engine refuses it.
    #[error(transparent)]
    Engine(#[from] sim::Error),
    /// Text that is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Run {
    /// Creates a run as [`Run::new`] does, outside a browser.
    ///
    /// # Errors
    ///
    /// What the engine refuses.
    pub fn of(scenario: &str) -> Result<Run, Refusal> {
        let simulation = sim::Simulation::new(scenario, 0)?;
        let scenario_hash = hash::of_scenario(scenario)?;
        Ok(Run { simulation, scenario_hash, batches: Vec::new(), known: 0 })
    }

    fn new_columns(&self, table: &str, column: &str) -> impl Iterator<Item = &Column> {
        self.batches[self.known..]
            .iter()
            .filter(move |(name, _)| *name == table)
            .filter_map(move |(_, batch)| batch.columns.iter().find(|found| found.name == column))
    }
}

fn append(values: &mut Vec<f64>, column: &Column) {
    let begin = values.len();
    match &column.data {
        ColumnData::U32(found) => values.extend(found.iter().map(|&value| f64::from(value))),
        ColumnData::U64(found) => values.extend(found.iter().map(|&value| value as f64)),
        ColumnData::I64(found) => values.extend(found.iter().map(|&value| value as f64)),
        ColumnData::Dict { indices, .. } => values.extend(indices.iter().map(|&index| f64::from(index))),
    }
    for (row, value) in values[begin..].iter_mut().enumerate() {
        if !hash::is_valid(column, row) {
            *value = f64::NAN;
        }
    }
}

/// Version of the engine.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
