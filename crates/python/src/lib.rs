//! The Python module `cwndlab._native`: a thin face over the engine.

use pyo3::prelude::*;

/// Version and build profile of the engine, such as `0.1.0 (ci)`.
#[pyfunction]
fn version() -> String {
    format!("{} ({})", env!("CARGO_PKG_VERSION"), if cfg!(debug_assertions) { "checked" } else { "release" })
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::version;
}
