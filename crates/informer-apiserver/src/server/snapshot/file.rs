use std::fs;
#[cfg(unix)]
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::{RestoreError, Snapshot};
use crate::server::ApiServer;

const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct SnapshotFile<S> {
    #[serde(rename = "informerSnapshot")]
    format: u32,
    state: S,
}

/// A snapshot file could not be written or restored. The server's state is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The snapshot file cannot be written. An existing file is unchanged, unless the only failure was the
    /// sync of its directory.
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
    /// The file is not a snapshot file, or it is truncated.
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
    /// The snapshot file has a format that this version of the crate does not support.
    #[error("{} is a snapshot of format {found}, and this program reads format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
    },
    /// The state in the snapshot file could not be restored.
    #[error("cannot restore the snapshot {}", path.display())]
    Restore {
        /// The file.
        path: PathBuf,
        /// The restore error.
        source: RestoreError,
    },
}

impl Snapshot {
    /// Writes the snapshot atomically to a file. Only the owner of the file can read it, because a snapshot
    /// contains Secrets.
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
        // The format is checked before the state is parsed, because the state of another format may not be
        // parsable.
        let file: SnapshotFile<serde::de::IgnoredAny> =
            serde_json::from_slice(&text).map_err(|error| broken(path, &error))?;
        if file.format != FORMAT {
            return Err(SnapshotError::Format { path: path.to_owned(), found: file.format });
        }
        let file: SnapshotFile<Self> = serde_json::from_slice(&text).map_err(|error| broken(path, &error))?;
        Ok(file.state)
    }
}

/// Writes a new file with a random name next to `path`, and renames it to `path`. Before the rename, no
/// existing link or file is followed or overwritten.
fn write(path: &Path, state: &Snapshot) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // `tempfile` creates the file so that only its owner can read it, and removes it if a later step fails.
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

/// Syncs a directory to disk, so that the rename of a file in it survives a crash of the operating system.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the error for a file that cannot be parsed. The error does not quote the content, which may be
/// secret.
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
    /// Returns an error if the file cannot be read, is not a snapshot, or cannot be restored. In case of an
    /// error the server's state is unchanged.
    pub fn restore_from(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        let restored = self.restore(Snapshot::open(path)?);
        restored.map_err(|source| SnapshotError::Restore { path: path.to_owned(), source })
    }
}
