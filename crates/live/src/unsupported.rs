//! The public items of the parts that need Linux, for other systems: each returns an error that says so.

/// The items of the module of this name.
pub mod emulator {
    use std::io;

    use contract::table::Batch;

    use crate::ConfigError;

    /// No value of this type exists.
    pub struct Emulator(std::convert::Infallible);

    impl Emulator {
        /// # Errors
        /// Always.
        pub fn new(_config: &str) -> Result<Emulator, ConfigError> {
            Err(ConfigError::Unsupported("the path emulator needs Linux"))
        }

        /// # Errors
        /// Never called.
        pub fn start(&mut self) -> io::Result<u64> {
            match self.0 {}
        }

        /// # Errors
        /// Never called.
        pub fn mark_start(&mut self, _zero: u64) -> io::Result<()> {
            match self.0 {}
        }

        /// # Errors
        /// Never called.
        pub fn stats(&self) -> io::Result<String> {
            match self.0 {}
        }

        /// # Errors
        /// Never called.
        pub fn stop(&mut self) -> io::Result<(Vec<(&'static str, Batch)>, String)> {
            match self.0 {}
        }
    }
}

/// The items of the module of this name.
pub mod offload {
    use std::io;

    /// # Errors
    /// Always.
    pub fn set(_namespace: Option<&str>, _interface: &str, _tso: bool, _gro: bool) -> io::Result<()> {
        Err(io::Error::other("offloads are switched on Linux only"))
    }
}

/// The items of the module of this name.
pub mod sampler {
    use std::io;

    use contract::table::Batch;

    use crate::ConfigError;

    /// No value of this type exists.
    pub struct Sampler(std::convert::Infallible);

    impl Sampler {
        /// # Errors
        /// Always.
        pub fn new(_config: &str) -> Result<Sampler, ConfigError> {
            Err(ConfigError::Unsupported("sockets are sampled on Linux only"))
        }

        /// # Errors
        /// Never called.
        pub fn start(&mut self) -> io::Result<u64> {
            match self.0 {}
        }

        /// # Errors
        /// Never called.
        pub fn mark_start(&mut self, _zero: u64) -> io::Result<()> {
            match self.0 {}
        }

        /// # Errors
        /// Never called.
        pub fn stop(&mut self) -> io::Result<(Vec<(&'static str, Batch)>, String)> {
            match self.0 {}
        }
    }
}
