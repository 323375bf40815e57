//! Programs of this workspace, and of those beside it, that commands build and start.

use std::path::Path;
use std::process::Command;

/// Runs cargo, with its products in another folder where one is named.
pub(crate) fn cargo(root: &Path, arguments: &[&str], folder: Option<&Path>) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    if let Some(folder) = folder {
        command.env("CARGO_TARGET_DIR", folder);
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}
