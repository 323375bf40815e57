//! `informer envtest install`: creates a directory with the programs that envtest starts.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

const PROGRAMS: [&str; 2] = ["kube-apiserver", "etcd"];
/// The name of a file that marks directories of this command. Programs in the directory are replaced only if
/// this file exists; otherwise they belong to the user.
const MARK: &str = ".informer-envtest";

pub(super) fn run(directory: &Path, kubectl: Option<&Path>) -> Result<(), Failure> {
    let linked = install(directory, kubectl)?;
    let shown = directory.display();
    let mut out = io::stdout().lock();
    // Writing fails if stdout is closed. The error is ignored, because the programs are already installed.
    let _ = writeln!(
        out,
        "kube-apiserver and etcd are in {shown}; for Go programs set KUBEBUILDER_ASSETS={shown}"
    );
    if !linked {
        let _ = writeln!(out, "found no kubectl in PATH to link to; set --kubectl FILE");
    }
    Ok(())
}

/// Writes the programs `kube-apiserver` and `etcd` and a link to kubectl into a directory. Returns false if
/// no kubectl was found, so that the directory contains no link.
pub(crate) fn install(directory: &Path, kubectl: Option<&Path>) -> Result<bool, Failure> {
    let shown = directory.display();
    fs::create_dir_all(directory).map_err(|error| Failure::io(&format!("create {shown}"), error))?;
    let own = std::env::current_exe().map_err(|error| Failure::io("find this program", error))?;
    let mark = directory.join(MARK);
    if !mark.exists() {
        for name in PROGRAMS.iter().chain(&["kubectl"]) {
            let path = directory.join(name);
            if path.symlink_metadata().is_ok() {
                let path = path.display();
                let why = "it was not written by `informer envtest install`; name another directory";
                return Err(Failure::new(format!("refusing to overwrite {path}: {why}")));
            }
        }
        fs::write(&mark, "").map_err(|error| Failure::io(&format!("write to {shown}"), error))?;
    }
    for name in PROGRAMS {
        let path = directory.join(name).with_extension(std::env::consts::EXE_EXTENSION);
        place(&own, &path).map_err(|error| Failure::io(&format!("write {}", path.display()), error))?;
    }
    let kubectl = kubectl.map(Path::to_owned).or_else(|| find("kubectl"));
    let linked = kubectl.as_deref().map(|target| link(target, &directory.join("kubectl"))).transpose()?;
    Ok(linked.is_some())
}

/// Installs this executable at `path`, under the name of another program: as a hard link on the same file
/// system, otherwise as a copy.
fn place(program: &Path, path: &Path) -> io::Result<()> {
    remove(path)?;
    fs::hard_link(program, path).or_else(|_| fs::copy(program, path).map(drop))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn link(target: &Path, path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("link {} to {}", path.display(), target.display()), error);
    let target = fs::canonicalize(target).map_err(failed)?;
    remove(path).map_err(failed)?;
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(target, path);
    #[cfg(not(unix))]
    let linked = fs::copy(target, path).map(drop);
    linked.map_err(failed)
}

/// Returns the path of the first program with this name in PATH.
fn find(name: &str) -> Option<PathBuf> {
    let file = Path::new(name).with_extension(std::env::consts::EXE_EXTENSION);
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(&file))
        .find(|path| path.is_file())
}
