//! Runs cargo to build and start programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Returns a command that runs cargo with the environment that a shell would give it; see [`program`].
pub(crate) fn command() -> Command {
    program("cargo")
}

/// Returns a command that runs a program with the environment that a shell would give it. The environment
/// variables that cargo has set for this program are removed: with them, build scripts of some crates would
/// run again, and all dependent crates would be rebuilt.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    let told = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(told) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs cargo in the workspace `root`, and returns an error if it fails. If `folder` is set, cargo writes its
/// build products to that folder.
pub(crate) fn cargo(root: &Path, arguments: &[&str], folder: Option<&Path>) -> Result<(), String> {
    let mut command = command();
    command.current_dir(root).args(arguments);
    if let Some(folder) = folder {
        command.env("CARGO_TARGET_DIR", folder);
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}
