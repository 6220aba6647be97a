//! What stands for the parts that need Linux, where there is none: they say so.

/// As on Linux.
pub mod emulator {
    use std::io;

    use sim::table::Batch;

    const ABSENT: &str = "the path emulator needs Linux";

    /// Never made.
    pub struct Emulator(std::convert::Infallible);

    impl Emulator {
        /// # Errors
        /// Always.
        pub fn new(_config: &str) -> Result<Emulator, String> {
            Err(ABSENT.into())
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

/// As on Linux.
pub mod offload {
    use std::io;

    /// # Errors
    /// Always.
    pub fn set(_namespace: Option<&str>, _interface: &str, _tso: bool, _gro: bool) -> io::Result<()> {
        Err(io::Error::other("offloads are switched on Linux only"))
    }
}

/// As on Linux.
pub mod sampler {
    use std::io;

    use sim::table::Batch;

    /// Never made.
    pub struct Sampler(std::convert::Infallible);

    impl Sampler {
        /// # Errors
        /// Always.
        pub fn new(_config: &str) -> Result<Sampler, String> {
            Err("sockets are sampled on Linux only".into())
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
