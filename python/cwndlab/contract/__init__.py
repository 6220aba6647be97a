"""Types of what crosses between Python and Rust, as crates/contract defines them: a module for each document,
written by `make contract`."""
