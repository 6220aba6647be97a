//! Congestion controls compiled from C that was written for a kernel, and guests of shared libraries: loading them, and the engine's
//! calls of their functions.
//!
//! What is compiled along with a module (`python/cwndlab/foreign/c`) stands in for the kernel. It fills the kernel's structures
//! before each hook and reads them back, catches crashes, and measures processor time; [`exchange`] is what it and this crate
//! tell each other.

#![cfg(unix)]

#[allow(missing_docs)] // the header documents it
pub mod exchange;
mod floating;
mod freebsd;
mod guests;
mod kernel;
mod library;
mod linux;
pub mod plain;
pub mod witness;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tcp::cc::Module;
use tcp::cc::foreign::{Failure, Foreign, Host, Knob};

pub use guests::{GuestDescription, guests};
use kernel::OnHost;
use library::Library;

/// A compiled module, or a guest, as whoever compiled it describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Name by which flows choose the congestion control, or hosts the guest.
    pub name: String,
    /// `linux` or `freebsd`; of a guest, `guest`.
    pub family: String,
    /// The compiled file.
    pub file: PathBuf,
    /// Hash of the module's bytes; a class of Python has none.
    #[serde(default)]
    pub sha256: String,
    /// Knobs, in the module's order.
    pub knobs: Vec<KnobDescription>,
    /// Kind of the module.
    #[serde(default)]
    pub kind: Kind,
    /// Text of the module that holds a controller in Python.
    #[serde(default)]
    pub source: String,
    /// Class of a controller in Python.
    #[serde(default)]
    pub class: String,
    /// Description that a guest gives of itself.
    #[serde(default)]
    pub guest: Option<GuestDescription>,
}

/// Kind of a congestion control from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A kernel's module in C.
    #[default]
    Kernel,
    /// A shared library that exports `cwndlab_cc`.
    Library,
    /// A class in Python.
    Python,
    /// A shared library that exports `cwndlab_guest`.
    Guest,
}

/// A knob.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobDescription {
    /// Name by which an experiment sets the knob.
    pub name: String,
    /// Value that was compiled in.
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

/// The congestion controls of a JSON list of [`Description`]s; `python` makes controllers that are classes of Python.
///
/// # Errors
/// It is no such list.
pub fn modules(
    list: &str,
    python: fn(&Description) -> Box<plain::Load>,
) -> serde_json::Result<Vec<Arc<dyn Foreign>>> {
    let list: Vec<Description> = serde_json::from_str(list)?;
    let compiled = |description: Description| -> Arc<dyn Foreign> {
        let load = match description.kind {
            Kind::Kernel | Kind::Guest => None,
            Kind::Library => {
                Some(plain::shared_library::load(description.file.clone(), description.sha256.clone()))
            }
            Kind::Python => Some(python(&description)),
        };
        if let Some(load) = load {
            return Arc::new(plain::Plain { name: description.name, family: description.family, load });
        }
        let knob =
            |k: &KnobDescription| Knob { name: k.name.clone(), default: k.default, min: k.min, max: k.max };
        Arc::new(Compiled { knobs: description.knobs.iter().map(knob).collect(), description })
    };
    Ok(list.into_iter().filter(|described| described.kind != Kind::Guest).map(compiled).collect())
}

/// The family and the knobs of a compiled file whose bytes have this hash, after its initialisation has been tried.
///
/// # Errors
/// It cannot be loaded, or refuses.
pub fn describe(file: &Path, sha256: &str) -> Result<Description, Failure> {
    let library = Library::open(file, sha256)?;
    let family = library.ask(family);
    let host = exchange::Host { now_ns: 1 << 40, ticks: 1 << 20, random: 1, hz: 1000, abe: 0 };
    let compiled = library.ask(all_knobs);
    // SAFETY: the pointer is valid during the call.
    library
        .enter(|module| unsafe { (module.start)(&raw const host) })
        .map_err(|why| why.at(if family == "guest" { "its library" } else { "init" }))?;
    let knobs = if knobs_follow_init(&family) { library.ask(all_knobs) } else { compiled };
    let guest = if family == "guest" { Some(guests::described(&library)?) } else { None };
    Ok(Description {
        guest,
        name: String::new(),
        family,
        file: file.to_owned(),
        sha256: sha256.to_owned(),
        knobs,
        kind: Kind::Kernel,
        source: String::new(),
        class: String::new(),
    })
}

/// FreeBSD's sysctls can be set once a module is there, and modules set their defaults when they are loaded; Linux's parameters
/// are set before.
fn knobs_follow_init(family: &str) -> bool {
    family == "freebsd"
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

    fn load(&self, host: &Host<'_>) -> Result<Module, Failure> {
        let library =
            witness::during(&self.description.name, "its init", witness::NEVER, || self.initialised(host))?;
        let loaded = OnHost::new(self.description.name.clone(), library, host);
        match self.description.family.as_str() {
            "linux" => Ok(Module::Linux(Arc::new(loaded))),
            "freebsd" => Ok(Module::FreeBsd(Arc::new(loaded))),
            other => Err(Failure::Family(other.to_owned())),
        }
    }
}

impl Compiled {
    /// A copy with its knobs set and its initialisation called.
    fn initialised(&self, host: &Host<'_>) -> Result<Library, Failure> {
        let library = Library::open(&self.description.file, &self.description.sha256)?;
        if knobs_follow_init(self.family()) {
            start(&library, host)?;
            self.set_knobs(&library, host)?;
        } else {
            self.set_knobs(&library, host)?;
            start(&library, host)?;
        }
        Ok(library)
    }

    fn set_knobs(&self, library: &Library, host: &Host<'_>) -> Result<(), Failure> {
        for (at, knob) in self.knobs.iter().enumerate() {
            if let Some((_, value)) = host.sysctls.iter().find(|(name, _)| *name == knob.name) {
                // SAFETY: the module has a knob of this number.
                let set = |module: &exchange::Module| unsafe { (module.set_knob)(at as u32, *value) };
                library.enter(set).map_err(|why| why.at(format!("{} = {value}", knob.name)))?;
            }
        }
        Ok(())
    }
}

/// A time of the run, as messages have it.
fn seconds(at: u64) -> String {
    format!("{}.{:06} s", at / 1_000_000_000, at % 1_000_000_000 / 1000)
}

/// Calls the module's initialisation.
fn start(library: &Library, host: &Host<'_>) -> Result<(), Failure> {
    let tick = 1_000_000_000 / u64::from(host.hz);
    let clock = exchange::Host {
        now_ns: host.boot,
        ticks: host.boot / tick,
        random: host.random,
        hz: host.hz,
        abe: host.sysctls.iter().any(|(name, value)| name == "net.inet.tcp.cc.abe" && *value != 0).into(),
    };
    // SAFETY: the pointer is valid during the call.
    library.enter(|module| unsafe { (module.start)(&raw const clock) }).map_err(|why| why.at("its init"))
}
