//! Runs cargo to build and start programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::go::target;

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
/// build products to that folder, otherwise to its usual target folder.
pub(crate) fn cargo(root: &Path, arguments: &[&str], folder: Option<&Path>) -> Result<(), String> {
    let mut command = command();
    command.current_dir(root).args(arguments);
    if let Some(folder) = folder {
        command.env("CARGO_TARGET_DIR", folder);
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}

/// A program of the workspace that [`build`] can build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executable<'a> {
    pub(crate) package: &'a str,
    /// The arguments of `cargo build`, besides `--package`, that select the program and its features. If
    /// there are none, all programs of the package are built.
    pub(crate) selection: &'a [&'a str],
    /// True to build the program with the profile `release`, false to build it with the profile `dev`.
    pub(crate) release: bool,
    /// The path of the built program, without the extension `.exe`. It is relative to the folder `debug` or
    /// `release` in cargo's target folder.
    pub(crate) path: &'a str,
}

/// Returns true if the environment says that all programs have been built, so that [`build`] builds none.
pub(crate) fn is_prebuilt() -> bool {
    std::env::var_os("INFORMER_PREBUILT").is_some()
}

/// Builds a program of the workspace `root`, and returns its path.
///
/// If the environment variable `INFORMER_PREBUILT` is set, the program must exist and is not built. CI sets
/// this variable after it has built all programs with one command. Building one package alone would select
/// other features of the dependencies, and compile them again.
pub(crate) fn build(root: &Path, executable: Executable<'_>) -> Result<PathBuf, String> {
    let profile = if executable.release { "release" } else { "debug" };
    let path = target(root).join(profile).join(executable.path);
    let path = path.with_extension(std::env::consts::EXE_EXTENSION);
    if is_prebuilt() {
        if !path.exists() {
            return Err(format!("{} does not exist; unset INFORMER_PREBUILT to build it", path.display()));
        }
        return Ok(path);
    }
    let mut arguments = vec!["build", "--quiet", "--package", executable.package];
    arguments.extend(executable.selection);
    if executable.release {
        arguments.push("--release");
    }
    cargo(root, &arguments, None)?;
    Ok(path)
}

/// Builds the command `informer` with the profile `dev`, and returns its path.
pub(crate) fn build_informer(root: &Path) -> Result<PathBuf, String> {
    let selection = &["--bin", "informer"];
    build(root, Executable { package: "informer-cli", selection, release: false, path: "informer" })
}
