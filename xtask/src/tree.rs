//! A copy of the workspace, or of a folder of it, that a command may change. It is always at the same path,
//! so that cargo rebuilds only the crates whose files changed.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// The parent folder of the copy. `cargo xtask mutants` also writes its build products and logs below
    /// this folder.
    pub(crate) products: PathBuf,
}

/// Makes the folder `copy` equal to the workspace: to the files that git tracks or would add. Other files in
/// `copy` are removed. Equal files keep their modification time, by which cargo decides what to build. A file
/// that still contains a mutant after an interrupted test is restored.
pub(crate) fn update(workspace: &Path, copy: &Path) -> Result<Tree, String> {
    let wanted = files(workspace)?;
    fs::create_dir_all(copy).map_err(|error| format!("create {}: {error}", copy.display()))?;
    for file in &wanted {
        copy_file(&workspace.join(file), &copy.join(file))
            .map_err(|error| format!("copy {} to {}: {error}", file.display(), copy.display()))?;
    }
    remove_others(copy, &|file| wanted.iter().any(|kept| kept.starts_with(file)), Path::new(""))
        .map_err(|error| format!("remove old files from {}: {error}", copy.display()))?;
    let products = copy.parent().unwrap_or(copy).to_owned();
    Ok(Tree { root: copy.to_owned(), products })
}

/// Returns the paths of the files that git tracks or would add, relative to the root of the workspace.
fn files(workspace: &Path) -> Result<Vec<PathBuf>, String> {
    let mut command = Command::new("git");
    command.current_dir(workspace).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command.output().map_err(|error| format!("run git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    // Git still lists a file that was deleted, until the deletion is staged. Such files are left out.
    Ok(paths.filter(|path| workspace.join(path).is_file()).collect())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let content = fs::read(from)?;
    match fs::read(to) {
        Ok(present) if present == content => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::copy(from, to).map(drop)
}

/// Removes the files and folders below `folder` for whose paths the closure `wanted` returns false. All of
/// these paths are relative to `root`.
fn remove_others(root: &Path, wanted: &dyn Fn(&Path) -> bool, folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let is_folder = entry.file_type()?.is_dir();
        match (wanted(&path), is_folder) {
            (true, true) => remove_others(root, wanted, &path)?,
            (true, false) => {}
            (false, true) => fs::remove_dir_all(entry.path())?,
            (false, false) => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, content: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn copy_follows_the_workspace_and_keeps_equal_files_untouched() {
        let folder = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        let (workspace, copy) = (folder.join("workspace"), folder.join("products/tree"));
        write(&workspace, ".gitignore", "target/\n");
        write(&workspace, "src/a.rs", "a");
        write(&workspace, "src/b.rs", "b");
        write(&workspace, "target/product", "");
        assert!(Command::new("git").args(["init", "--quiet"]).arg(&workspace).status().unwrap().success());
        let tree = update(&workspace, &copy).unwrap();
        assert_eq!((&tree.root, tree.products), (&copy, folder.join("products")));
        assert!(
            copy.join("src/a.rs").exists() && !copy.join("target").exists() && !copy.join(".git").exists()
        );

        let modified = || fs::metadata(copy.join("src/a.rs")).unwrap().modified().unwrap();
        let before = modified();
        write(&copy, "src/b.rs", "a mutant");
        write(&copy, "old/c.rs", "c");
        write(&workspace, "src/new/d.rs", "d");
        update(&workspace, &copy).unwrap();
        assert_eq!(modified(), before);
        assert_eq!(fs::read_to_string(copy.join("src/b.rs")).unwrap(), "b");
        assert!(copy.join("src/new/d.rs").exists() && !copy.join("old").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
