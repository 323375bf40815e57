//! Copies controller-runtime's sources to a writable folder. The tests of controller-runtime write into the
//! folders of their packages and start scripts, which Go's module cache does not allow.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{EnvtestError, io_error};

const MODULE: &str = "sigs.k8s.io/controller-runtime";

/// Copies the sources of the controller-runtime version that the Go module in the folder `module` requires.
/// The copy is below `folder`. Also writes a go.mod there that refers to the copy, and returns its path.
pub(super) fn prepare(module: &Path, folder: &Path) -> Result<PathBuf, EnvtestError> {
    let output = Command::new("go")
        .current_dir(module)
        .args(["mod", "download", "-json", MODULE])
        .output()
        .map_err(io_error("run go mod download"))?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|source| EnvtestError::Data { path: module.join("go.mod"), source })?;
    let cached = told["Dir"].as_str().ok_or(EnvtestError::Failed { command: "go mod download" })?;
    let version = told["Version"].as_str().unwrap_or_default();
    let copy = folder.join(format!("controller-runtime-{version}"));
    if !copy.join("go.mod").exists() {
        copy_tree(Path::new(cached), &copy).map_err(io_error(format!("copy {cached}")))?;
    }
    let text = fs::read_to_string(module.join("go.mod")).map_err(io_error("read go.mod"))?;
    let text = format!("{text}\nreplace {MODULE} => {}\n", copy.display());
    let modfile = folder.join("envtest.mod");
    fs::write(&modfile, text).map_err(io_error("write a go.mod"))?;
    fs::copy(module.join("go.sum"), folder.join("envtest.sum")).map_err(io_error("copy go.sum"))?;
    Ok(modfile)
}

/// Copies a folder with sources. go.mod is copied last, so that a copy that contains it is complete. Scripts
/// (`*.sh`) become executable.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut last = None;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else if entry.file_name() == "go.mod" {
            last = Some((entry.path(), target));
        } else {
            copy_file(&entry.path(), &target)?;
        }
    }
    last.map_or(Ok(()), |(from, to)| copy_file(&from, &to))
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    // Copies only the content of a file. Its permissions are not copied, because files in Go's module cache
    // are read-only.
    fs::write(to, fs::read(from)?)?;
    #[cfg(unix)]
    if to.extension().is_some_and(|extension| extension == "sh") {
        fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}
