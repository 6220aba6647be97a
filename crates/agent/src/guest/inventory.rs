//! Inventory of a kernel: its release, congestion controls and settings.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde::Serialize;

use crate::error::Result;

use super::node::{FIRST_NODE, Node};

/// Folder of sysctls.
const SYSCTLS: &str = "/proc/sys/";
/// The congestion controls that there are.
const CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// File with the kernel's release and how it was built.
const VERSION: &str = "/proc/version";

/// Inventory that the guest writes.
#[derive(Debug, Serialize)]
struct Inventory {
    version: String,
    /// Congestion controls that sockets may choose, one word each.
    congestion_controls: String,
    /// Sysctls of a fresh network namespace that can be written, by dotted name.
    sysctls: BTreeMap<String, String>,
    /// Sysctls outside of all namespaces: those that have no other place are among them.
    global: BTreeMap<String, String>,
}

/// Writes the file `inventory.json`.
///
/// # Errors
/// As the system says.
pub(super) fn write() -> Result<()> {
    let node = Node::new(FIRST_NODE)?;
    let inventory = Inventory {
        version: version()?,
        congestion_controls: fs::read_to_string(CONTROLS)?,
        sysctls: node.inside(|| sysctls("net"))?,
        global: sysctls("net")?,
    };
    fs::write("/inventory.json", serde_json::to_vec(&inventory)?)?;
    Ok(())
}

/// Version that the kernel states.
///
/// # Errors
///
/// As the system says.
pub(super) fn version() -> io::Result<String> {
    Ok(fs::read_to_string(VERSION)?.trim().to_string())
}

fn sysctls(below: &str) -> io::Result<BTreeMap<String, String>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![Path::new(SYSCTLS).join(below)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let state = entry.metadata()?;
            if state.is_dir() {
                folders.push(entry.path());
            } else if state.permissions().mode() & 0o222 != 0
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                let name = entry.path().to_string_lossy().trim_start_matches(SYSCTLS).replace('/', ".");
                found.insert(name, text.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }
    Ok(found)
}
