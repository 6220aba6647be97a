//! The congestion controls of one host, by name: one registry per family, built-in ones registered like any other.

use std::sync::Arc;

use thiserror::Error;

use super::foreign::Failure;

/// Module of one family, as a registry holds it.
pub trait Lifecycle {
    /// The module has been registered. One that refuses is not.
    ///
    /// # Errors
    /// Why it refuses.
    fn mod_init(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// The host is gone, and with it the module.
    fn mod_destroy(&self) {}
}

/// Reason why a module is not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// Name that is taken.
    #[error("congestion control {0} is there already")]
    Taken(String),
    /// Module that refuses.
    #[error("congestion control {name}: mod_init: {why}")]
    Refused {
        /// Name of the module.
        name: String,
        /// Reason of the refusal.
        why: Failure,
    },
}

/// The modules of one host. Clones share them.
#[derive(Debug)]
pub struct Registry<M: Lifecycle + ?Sized> {
    /// Modules in the order of registration; the first is the default.
    modules: Vec<(String, Arc<Registered<M>>)>,
}

#[derive(Debug)]
struct Registered<M: Lifecycle + ?Sized>(Arc<M>);

impl<M: Lifecycle + ?Sized> Drop for Registered<M> {
    fn drop(&mut self) {
        self.0.mod_destroy();
    }
}

impl<M: Lifecycle + ?Sized> Clone for Registry<M> {
    fn clone(&self) -> Registry<M> {
        Registry { modules: self.modules.clone() }
    }
}

impl<M: Lifecycle + ?Sized> Default for Registry<M> {
    fn default() -> Registry<M> {
        Registry { modules: Vec::new() }
    }
}

impl<M: Lifecycle + ?Sized> Registry<M> {
    /// Adds a module under a name of its own.
    ///
    /// # Errors
    /// The name is taken, or the module refuses.
    pub fn register(&mut self, name: &str, module: Arc<M>) -> Result<(), RegistryError> {
        if self.get(name).is_some() {
            return Err(RegistryError::Taken(name.to_owned()));
        }
        module.mod_init().map_err(|why| RegistryError::Refused { name: name.to_owned(), why })?;
        self.modules.push((name.to_owned(), Arc::new(Registered(module))));
        Ok(())
    }

    /// The module called `name`.
    pub fn get(&self, name: &str) -> Option<&M> {
        self.modules.iter().find(|(known, _)| known == name).map(|(_, module)| &*module.0)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(|(name, _)| name.as_str())
    }
}
