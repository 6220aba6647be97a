//! The agent as a program of its own: see the library.

#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: agent::memory::Kept = agent::memory::Kept::new();

#[cfg(unix)]
fn main() {
    agent::run(&std::env::args().skip(1).collect::<Vec<_>>())
}

#[cfg(not(unix))]
fn main() {
    eprintln!("error: the agent needs a Unix system");
    std::process::exit(2);
}
