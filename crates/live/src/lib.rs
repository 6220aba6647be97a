//! Parts that touch this host's kernel. Only Linux has them; elsewhere [`run_script`] says so.

#[cfg(target_os = "linux")]
pub mod datagrams;
#[cfg(target_os = "linux")]
pub mod emulator;
mod error;
#[cfg(target_os = "linux")]
pub mod kernel;
#[cfg(target_os = "linux")]
pub mod offload;
#[cfg(target_os = "linux")]
pub mod peer;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
pub mod sampler;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
pub mod taps;
#[cfg(target_os = "linux")]
mod tcp_info;
#[cfg(target_os = "linux")]
pub mod tun;
#[cfg(not(target_os = "linux"))]
mod unsupported;

pub use error::ConfigError;
use script::{Choices, Outcome};
#[cfg(not(target_os = "linux"))]
pub use unsupported::{emulator, offload, sampler};

/// Runs the script `text`, called `name` in messages, against this host's kernel. As [`script::run_file`].
#[cfg(target_os = "linux")]
pub fn run_script(text: &str, name: &str, choices: &Choices) -> Outcome {
    kernel::run_file(text, name, choices)
}

/// Scripts cannot run against the kernel of this system.
#[cfg(not(target_os = "linux"))]
pub fn run_script(_text: &str, name: &str, _choices: &Choices) -> Outcome {
    let message = Some(format!("{name}: stack live: only the kernel of Linux can be driven"));
    Outcome { exit_code: 2, message, output: Vec::new() }
}
