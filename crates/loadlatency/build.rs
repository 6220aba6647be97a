//! Links the program statically on Linux with glibc, so that `cargo build -p cwndlab-loadlatency` gives one file that runs elsewhere.
//!
//! Cargo knows no static linking for one program among others (`-C target-feature=+crt-static` is a whole target's, and the
//! Python module must not have it). What that option does at the link is done here for this program alone: the compiler
//! driver is asked for a static position-independent executable, and the C library's parts, which rustc asks for as
//! shared objects, are found first in a directory where each name leads to the archive. Where the system has no such archives
//! (Fedora keeps them in glibc-static), the program is linked as usual.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Libraries that rustc links on this target, and the archives that hold them: the unwinder, and the parts of the C
/// library.
const PARTS: [(&str, &str); 7] = [
    ("gcc_s", "gcc_eh"),
    ("c", "c"),
    ("m", "m"),
    ("util", "util"),
    ("rt", "rt"),
    ("pthread", "pthread"),
    ("dl", "dl"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let already =
        env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|found| found.split(',').any(|f| f == "crt-static"));
    if !native || already || !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    let Some(directory) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    if archives(&directory).is_some() {
        println!("cargo::rustc-link-arg-bin=loadlatency=-static-pie");
        println!("cargo::rustc-link-arg-bin=loadlatency=-L{}", directory.display());
    }
}

/// Leads the shared objects' names to the archives; None if one is missing.
fn archives(directory: &Path) -> Option<()> {
    found("rcrt1.o")?;
    for (shared, archive) in PARTS {
        let file = found(&format!("lib{archive}.a"))?;
        fs::write(directory.join(format!("lib{shared}.so")), format!("INPUT({})\n", file.display())).ok()?;
    }
    Some(())
}

/// Finds a file where the compiler driver, which also links, does.
fn found(name: &str) -> Option<PathBuf> {
    let driver = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let output = Command::new(driver).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_absolute().then_some(path).filter(|path| path.is_file())
}
