//! Snapshots in files.

use std::fs;
#[cfg(unix)]
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::{RestoreError, Snapshot};
use crate::server::ApiServer;

/// What the files of this version say they are.
const FORMAT: u32 = 1;

/// A snapshot as it is in a file.
#[derive(Serialize, Deserialize)]
struct Kept<S> {
    #[serde(rename = "informerSnapshot")]
    format: u32,
    state: S,
}

/// A snapshot that cannot be kept in a file, or brought back from one; the server is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be written. One that was there before is as it was.
    #[error("cannot write the snapshot {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read the snapshot {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a snapshot, or not all of one.
    #[error("{} is not a snapshot: {why} (line {line}, column {column}); delete it to start without it", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// In which way.
        why: &'static str,
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
    },
    /// The file was written by another version of this program.
    #[error("{} is a snapshot of format {found}, and this program reads format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
    },
    /// The state cannot be brought back.
    #[error("cannot go over to the snapshot {}", path.display())]
    Restore {
        /// The file.
        path: PathBuf,
        /// Why.
        source: RestoreError,
    },
}

impl Snapshot {
    /// Writes it to a file that only its owner may read, since Secrets are in it. The file is there as a whole or not at all.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        write(path, self).map_err(|source| SnapshotError::Write { path: path.to_owned(), source })
    }

    /// Reads what [`save`](Self::save) has written.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is not a snapshot of this version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        let path = path.as_ref();
        let unread = |source| SnapshotError::Read { path: path.to_owned(), source };
        let text = fs::read(path).map_err(unread)?;
        // The format first: the state of another one may look different.
        let kept: Kept<serde::de::IgnoredAny> =
            serde_json::from_slice(&text).map_err(|error| broken(path, &error))?;
        if kept.format != FORMAT {
            return Err(SnapshotError::Format { path: path.to_owned(), found: kept.format });
        }
        let kept: Kept<Self> = serde_json::from_slice(&text).map_err(|error| broken(path, &error))?;
        Ok(kept.state)
    }
}

/// Writes a new file with a random name next to `path`, and renames it. No existing link or file is followed or overwritten before
/// the rename.
fn write(path: &Path, state: &Snapshot) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Only the owner can read a temporary file. It is removed on failure.
    let mut partial = tempfile::Builder::new().prefix(".snapshot-").suffix(".partial").tempfile_in(folder)?;
    let mut out = BufWriter::new(partial.as_file_mut());
    serde_json::to_writer(&mut out, &Kept { format: FORMAT, state })?;
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

/// What is wrong with a file, without a word of what is in it.
fn broken(path: &Path, error: &serde_json::Error) -> SnapshotError {
    let why = match error.classify() {
        Category::Eof => "it ends too early",
        Category::Data => "something else is where its state should be",
        Category::Syntax | Category::Io => "it is not JSON",
    };
    SnapshotError::Broken { path: path.to_owned(), why, line: error.line(), column: error.column() }
}

impl ApiServer {
    /// Keeps the [whole state](Self::snapshot) in a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        self.snapshot().save(path)
    }

    /// Goes over to the state in a file, as [`restore`](Self::restore) does.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not a snapshot, or has objects of a kind that is not served. Then nothing has changed.
    pub fn restore_from(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let path = path.as_ref();
        let restored = self.restore(Snapshot::open(path)?);
        restored.map_err(|source| SnapshotError::Restore { path: path.to_owned(), source })
    }
}
