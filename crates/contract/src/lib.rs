//! Documents that an engine is given and gives back, whichever testbed it works for: the Scenario, the tables, the
//! summary, the catalogue. No simulator, and nothing of an operating system.
//!
//! Python's types of them (python/cwndlab/contract.py) are made from [`schemas`]: `make contract`.

pub mod catalogue;
mod check;
pub mod histogram;
pub mod ids;
pub mod kinds;
pub mod record;
pub mod scenario;
mod schemas;
pub mod summary;
pub mod table;
pub mod tables;

pub use apps::{AppError, check_app};
pub use catalogue::Catalogue;
pub use check::{HostError, LinkError, NetworkError, ParseError, ScheduleError, check_links, parse};
pub use scenario::Scenario;
pub use schemas::schemas;
pub use summary::Summary;

/// JSON as results have it: in every object, the keys in alphabetical order.
///
/// # Panics
/// If a value cannot be written as JSON, which no type of this crate allows.
pub fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).expect("keys are strings").to_string()
}
