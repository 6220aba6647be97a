//! Congestion controls compiled from C that was written for a kernel: loading them, and the engine's calls of their hooks.
//!
//! What is compiled along with a module (`python/cwndlab/foreign/c`) stands in for the kernel. It fills the kernel's structures
//! before each hook and reads them back, catches crashes, and measures processor time; [`exchange`] is what it and this crate
//! tell each other.

#![cfg(unix)]

#[allow(missing_docs)] // the header documents it
pub mod exchange;
mod library;
mod linux;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tcp::cc::foreign::{Foreign, Host, Knob};
use tcp::cc::{Module, linux as hooks};

use library::Library;

/// A compiled module, as whoever compiled it describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// What flows call it.
    pub name: String,
    /// `linux` or `freebsd`.
    pub family: String,
    /// The compiled file.
    pub library: PathBuf,
    /// Its knobs, in the module's order.
    pub knobs: Vec<KnobDescription>,
}

/// A knob.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobDescription {
    /// As an experiment calls it.
    pub name: String,
    /// As compiled.
    pub default: i64,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

struct Compiled {
    description: Description,
    knobs: Vec<Knob>,
}

/// The modules of a JSON list of [`Description`]s.
///
/// # Errors
/// One line: it is no such list.
pub fn modules(list: &str) -> Result<Vec<Arc<dyn Foreign>>, String> {
    let list: Vec<Description> = serde_json::from_str(list).map_err(|error| error.to_string())?;
    let compiled = |description: Description| -> Arc<dyn Foreign> {
        let knob =
            |k: &KnobDescription| Knob { name: k.name.clone(), default: k.default, min: k.min, max: k.max };
        Arc::new(Compiled { knobs: description.knobs.iter().map(knob).collect(), description })
    };
    Ok(list.into_iter().map(compiled).collect())
}

/// JSON: the family and the knobs of a compiled file, after its initialisation has been tried.
///
/// # Errors
/// One line: it cannot be loaded, or refuses.
pub fn describe(file: &Path) -> Result<String, String> {
    let library = Library::open(file)?;
    let (family, knobs) = library.ask(|module| (family(module), all_knobs(module)));
    let host = exchange::Host { now_ns: 1 << 40, ticks: 1 << 20, random: 1, hz: 1000, reserved: 0 };
    // SAFETY: the pointer is valid during the call.
    library
        .enter(|module| unsafe { (module.start)(&raw const host) })
        .map_err(|why| format!("init: {why}"))?;
    let description = Description { name: String::new(), family, library: file.to_owned(), knobs };
    serde_json::to_string(&description).map_err(|error| error.to_string())
}

fn family(module: &exchange::Module) -> String {
    // SAFETY: the module's family is a C string.
    unsafe { library::text(module.family) }.unwrap_or_default()
}

fn all_knobs(module: &exchange::Module) -> Vec<KnobDescription> {
    let mut list = Vec::new();
    let mut knob =
        exchange::Knob { name: std::ptr::null(), value: 0, min: 0, max: 0, writable: 0, reserved: 0 };
    // SAFETY: `knob` is valid during each call, and the names it gets are C strings.
    while unsafe { (module.knob)(list.len() as u32, &raw mut knob) } != 0 {
        let name = unsafe { library::text(knob.name) }.unwrap_or_default();
        list.push(KnobDescription { name, default: knob.value, min: knob.min, max: knob.max });
    }
    list
}

impl Foreign for Compiled {
    fn name(&self) -> &str {
        &self.description.name
    }

    fn family(&self) -> &str {
        &self.description.family
    }

    fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    fn load(&self, host: &Host<'_>) -> Result<Module, String> {
        let library = Library::open(&self.description.library)?;
        for (at, knob) in self.knobs.iter().enumerate() {
            if let Some((_, value)) = host.sysctls.iter().find(|(name, _)| *name == knob.name) {
                // SAFETY: the module has a knob of this number.
                let set = |module: &exchange::Module| unsafe { (module.set_knob)(at as u32, *value) };
                library.enter(set).map_err(|why| format!("{} = {value}: {why}", knob.name))?;
            }
        }
        let tick = 1_000_000_000 / u64::from(host.hz);
        let clock = exchange::Host {
            now_ns: host.boot,
            ticks: host.boot / tick,
            random: host.random,
            hz: host.hz,
            reserved: 0,
        };
        // SAFETY: the pointer is valid during the call.
        library
            .enter(|module| unsafe { (module.start)(&raw const clock) })
            .map_err(|why| format!("its init: {why}"))?;
        match self.description.family.as_str() {
            "linux" => {
                let loaded = linux::OnHost::new(self.description.name.clone(), library, host);
                Ok(Module::Linux(Arc::new(loaded) as Arc<dyn hooks::Module>))
            }
            other => Err(format!("a module for {other} is not known here")),
        }
    }
}
