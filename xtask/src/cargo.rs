//! Programs of this workspace, and of those beside it, that commands build and start.

use std::path::Path;
use std::process::Command;

/// Cargo as a shell would start it. What cargo says about this program to this program is not handed on:
/// build scripts of some crates run again when it changes, and all that stands on them is built anew.
pub(crate) fn command() -> Command {
    let mut command = Command::new("cargo");
    let told = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(told) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs cargo, with its products in another folder where one is named.
pub(crate) fn cargo(root: &Path, arguments: &[&str], folder: Option<&Path>) -> Result<(), String> {
    let mut command = command();
    command.current_dir(root).args(arguments);
    if let Some(folder) = folder {
        command.env("CARGO_TARGET_DIR", folder);
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}
