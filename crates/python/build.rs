//! Tells the linker on macOS that the symbols of Python come with the interpreter that loads the module, and the
//! module a hash of the sources it is made from: `CWNDLAB_SOURCES`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest as _, Sha256};

fn main() -> io::Result<()> {
    pyo3_build_config::add_extension_module_link_args();
    println!("cargo::rustc-env=CWNDLAB_SOURCES={}", &sources()?[..12]);
    Ok(())
}

/// SHA-256, in hexadecimal, of the names and contents of every crate's sources and manifest, of the workspace's, which has
/// the build profiles, and of the versions of all dependencies. The same on every machine for the same commit.
fn sources() -> io::Result<String> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../..");
    let mut files = vec![root.join("Cargo.toml"), root.join("Cargo.lock")];
    for member in entries(&root.join("crates"))? {
        files.extend(
            ["Cargo.toml", "build.rs"].map(|name| member.join(name)).into_iter().filter(|file| file.exists()),
        );
        // Also when a file comes or goes.
        println!("cargo::rerun-if-changed={}", member.join("src").display());
        below(&member.join("src"), &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let content = fs::read(&file)?;
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        hash.update(format!("{} {}\n", name.display(), content.len()));
        hash.update(content);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Adds all files of a directory and those below it, but what editors and systems leave behind.
fn below(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in entries(directory)? {
        if entry.is_dir() {
            below(&entry, files)?;
        } else if !entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            files.push(entry);
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
}
