//! Seed inputs.

use std::path::Path;

use crate::Target;

/// Returns the seeds of a target sorted by name: whole files of `fuzz/seeds/TARGET`.
///
/// # Panics
///
/// When the folder cannot be read. Without seeds, a target would silently test very little.
pub fn seeds(target: Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
    let entries = std::fs::read_dir(&folder);
    let entries =
        entries.unwrap_or_else(|error| panic!("cannot read the seeds in {}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    };
    paths.iter().map(read).collect()
}
