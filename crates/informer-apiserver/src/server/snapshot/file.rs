//! Snapshot files.

use std::fs;
#[cfg(unix)]
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::{RestoreError, Snapshot};
use crate::server::ApiServer;

/// The version of the file format.
const FORMAT: u32 = 1;

/// The content of a snapshot file.
#[derive(Serialize, Deserialize)]
struct SnapshotFile<S> {
    #[serde(rename = "informerSnapshot")]
    format: u32,
    state: S,
}

/// A snapshot file could not be written or restored. The server is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be written. An existing file is unchanged, unless only the sync of its directory
    /// failed.
    #[error("cannot write the snapshot {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read the snapshot {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is not a snapshot, or is truncated.
    #[error("{} is not a snapshot: {why} (line {line}, column {column}); delete it to start without it", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The file has a format that this version does not support.
    #[error("{} is a snapshot of format {found}, and this program reads format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
    },
    /// The state could not be restored.
    #[error("cannot restore the snapshot {}", path.display())]
    Restore {
        /// The file.
        path: PathBuf,
        /// The restore error.
        source: RestoreError,
    },
}

impl Snapshot {
    /// Writes the snapshot atomically to a file that only its owner can read, because it contains Secrets.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        write(path, self).map_err(|source| SnapshotError::Write { path: path.to_owned(), source })
    }

    /// Reads a file that [`save`](Self::save) has written.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is not a snapshot of the supported format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        let path = path.as_ref();
        let unread = |source| SnapshotError::Read { path: path.to_owned(), source };
        let text = fs::read(path).map_err(unread)?;
        // Check the format first: the state of another format may not parse.
        let file: SnapshotFile<serde::de::IgnoredAny> =
            serde_json::from_slice(&text).map_err(|error| broken(path, &error))?;
        if file.format != FORMAT {
            return Err(SnapshotError::Format { path: path.to_owned(), found: file.format });
        }
        let file: SnapshotFile<Self> = serde_json::from_slice(&text).map_err(|error| broken(path, &error))?;
        Ok(file.state)
    }
}

/// Writes a new file with a random name next to `path`, and renames it. No existing link or file is followed
/// or overwritten before the rename.
fn write(path: &Path, state: &Snapshot) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only the owner can read a temporary file. It is removed on failure.
    let mut partial = tempfile::Builder::new().prefix(".snapshot-").suffix(".partial").tempfile_in(folder)?;
    let mut out = BufWriter::new(partial.as_file_mut());
    serde_json::to_writer(&mut out, &SnapshotFile { format: FORMAT, state })?;
    out.write_all(b"\n")?;
    out.flush()?;
    drop(out);
    partial.as_file().sync_all()?;
    partial.persist(path)?;
    sync_folder(folder)
}

/// Makes the rename survive a crash of the system.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Describes a parse error without quoting the content of the file, which may be secret.
fn broken(path: &Path, error: &serde_json::Error) -> SnapshotError {
    let why = match error.classify() {
        Category::Eof => "it is truncated",
        Category::Data => "its state has an invalid structure",
        Category::Syntax | Category::Io => "it is not JSON",
    };
    SnapshotError::Broken { path: path.to_owned(), why, line: error.line(), column: error.column() }
}

impl ApiServer {
    /// Writes a [snapshot](Self::snapshot) to a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        self.snapshot().save(path)
    }

    /// Restores the state from a file, as [`restore`](Self::restore) does.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a snapshot, or cannot be restored. The server is
    /// unchanged then.
    pub fn restore_from(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        let restored = self.restore(Snapshot::open(path)?);
        restored.map_err(|source| SnapshotError::Restore { path: path.to_owned(), source })
    }
}
