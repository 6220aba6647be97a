//! What an engine is given and gives back, whichever testbed it works for: the Scenario, the tables, the histogram of a
//! summary. No simulator, and nothing of an operating system.

mod check;
pub mod histogram;
pub mod ids;
pub mod record;
pub mod scenario;
pub mod table;

pub use check::{check_links, parse};
pub use scenario::Scenario;
