//! Writes the files of a project: all of them, or none if one cannot be written.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::templates::File;
use crate::atomic_file::{self, Access};
use crate::failure::Failure;

/// Creates the folder of a project with its files. The folder must be empty or not exist. If a file cannot be
/// written, the folder is not created.
pub(super) fn create(folder: &Path, files: &[File]) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("create {}", folder.display()), error);
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().prefix(".informer-new-").tempdir_in(parent).map_err(failed)?;
    // The project is created in a subfolder, which is then moved to `folder`. The temporary folder itself is
    // not moved, because only the user may read it; the subfolder has the default permissions.
    let complete = temporary.path().join("project");
    for (path, content) in files {
        write(&complete.join(path), content)?;
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    fs::rename(&complete, folder).map_err(failed)
}

/// Replaces the content of a file atomically: a program that reads the file sees the old content or the new
/// one, and never a part.
pub(super) fn replace(path: &Path, content: &str) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("write {}", path.display()), error);
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    atomic_file::replace(path, content.as_bytes(), Access::Shared).map_err(failed)
}

fn write(path: &Path, content: &str) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("write {}", path.display()), error);
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, content).map_err(failed)
}

/// Formats the Rust files of a project with rustfmt. If rustfmt is not installed, the files are not changed.
pub(super) struct Formatter {
    /// The folder in which rustfmt runs. It searches for `rustfmt.toml` in this folder and its parents.
    folder: PathBuf,
}

impl Formatter {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(super) fn format(&self, (path, content): File) -> File {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        match is_rust.then(|| self.formatted(&content)).flatten() {
            Some(formatted) => (path, formatted),
            None => (path, content),
        }
    }

    /// Returns Rust code formatted with rustfmt. Returns `None` if rustfmt is not installed or fails.
    pub(super) fn formatted(&self, content: &str) -> Option<String> {
        let mut rustfmt = Command::new("rustfmt");
        rustfmt.args(["--edition", "2024", "--quiet"]).current_dir(&self.folder);
        rustfmt.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = rustfmt.spawn().ok()?;
        // rustfmt reads all of its input before it writes. So writing the input before reading the output
        // cannot deadlock.
        child.stdin.take()?.write_all(content.as_bytes()).ok()?;
        let output = child.wait_with_output().ok()?;
        output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()
    }
}
