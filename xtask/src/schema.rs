//! Generates the table of built-in kinds in `informer-schema`, and compares encoding, decoding and patching
//! in that crate with Go.

use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use thiserror::Error;

use crate::cargo::command;
use crate::go::{Go, GoError, Module, target};
use crate::real::{Cluster, RealError, Server};
use crate::report::Report;

const CRATE: &str = "crates/informer-schema";

/// Seed, number per kind and size of the generated objects and patches that are stored in the repository.
/// With them, the tests of `informer-schema` need neither Go nor a server.
const RECORDED: Fill = Fill { seed: 1, count: 2, size: 60 };

/// Time limit for etcd or kube-apiserver to become ready. Even on a slow, busy machine each of them needs
/// only a fraction of this limit.
const READY_WITHIN: Duration = Duration::from_secs(120);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Generate N new objects of each kind instead of the table of built-in kinds, and compare how this
    /// library and Go transcode them and merge patches. Writes no file of the repository.
    #[arg(long, value_name = "N")]
    verify: Option<usize>,
    /// Seed with which the objects of `--verify` are generated [default: random]. The report contains it, so
    /// that a failure can be reproduced.
    #[arg(long, requires = "verify")]
    seed: Option<u32>,
}

#[derive(Debug, Error)]
enum SchemaError {
    #[error(transparent)]
    Go(#[from] GoError),
    #[error(transparent)]
    Real(#[from] RealError),
    #[error("cannot run {program}")]
    Start {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{program} failed; its messages are above")]
    Failed { program: String },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

#[derive(Clone, Copy)]
struct Fill {
    seed: u32,
    count: usize,
    /// Approximate number of field values in one generated object.
    size: usize,
}

pub(crate) fn run(root: &Path, options: &Options, check: bool) -> Report {
    let mut report = Report::new("schema");
    let outcome = match options.verify {
        Some(count) => verify(root, count, options.seed, &mut report),
        None => generate(root, check, &mut report),
    };
    if let Err(error) = outcome {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        report.problems.push(format!("{error}{}", cause.unwrap_or_default()));
    }
    report
}

/// Writes the table of built-in kinds, and the objects, patches and list responses for the tests of
/// `informer-schema`. With `check`, writes nothing and compares them with the files in the repository, except
/// for the list responses.
fn generate(root: &Path, check: bool, report: &mut Report) -> Result<(), SchemaError> {
    let go = Go::find(root)?;
    let types = Types::built(root, &go)?;
    let program = types.newest.program.clone();
    let (table, served) = with_servers(root, &go, |all, plain| {
        let mut flags = vec![OsStr::new("table"), "--kubeconfig".as_ref(), all];
        flags.extend([OsStr::new("--default-kubeconfig"), plain]);
        flags.extend([OsStr::new("--served-types"), types.served.catalog.as_os_str()]);
        Ok((output(&program, &flags)?, lists(&program, all)?))
    })?;
    let files = [
        ("src/builtin.txt", table),
        ("tests/corpus/objects.jsonl.gz", types.objects(RECORDED)?),
        ("tests/corpus/patches.jsonl.gz", filled(&program, "patches", RECORDED, &[])?),
    ];
    for (name, bytes) in files {
        let path = root.join(CRATE).join(name);
        report.figure(format!("{name}, bytes"), bytes.len() as f64);
        if !check {
            std::fs::write(&path, bytes).map_err(|source| SchemaError::Write { path, source })?;
        } else if std::fs::read(&path).ok() != Some(bytes) {
            report.problems.push(format!("{CRATE}/{name} differs from the output of `cargo xtask schema`"));
        }
    }
    // With `check`, the recorded list responses are not compared with their file, because the server that was
    // started for this run has assigned other UIDs and creation times to its objects.
    if !check {
        let path = root.join(CRATE).join("tests/corpus/served.jsonl.gz");
        std::fs::write(&path, served).map_err(|source| SchemaError::Write { path, source })?;
    }
    Ok(())
}

/// The Go program `schema`, built with one release of the Kubernetes types, and the path of the file with its
/// catalog of these types.
struct Built {
    program: PathBuf,
    catalog: PathBuf,
}

impl Built {
    fn new(root: &Path, go: &Go, module: Module, file: &str) -> Result<Self, SchemaError> {
        let program = go.build(module, "schema")?;
        let catalog = target(root).join(file);
        let types = output(&program, &["types"])?;
        std::fs::write(&catalog, types)
            .map_err(|source| SchemaError::Write { path: catalog.clone(), source })?;
        Ok(Self { program, catalog })
    }
}

struct Types {
    served: Built,
    newest: Built,
}

impl Types {
    fn built(root: &Path, go: &Go) -> Result<Self, SchemaError> {
        let served = Built::new(root, go, Module::Servers, "served-types.json")?;
        let newest = Built::new(root, go, Module::NewestTypes, "newest-types.json")?;
        Ok(Self { served, newest })
    }

    /// Generates objects of every kind in both releases of the Kubernetes types: first those of the newest
    /// types, then those of kinds that exist only in the types of the served release.
    fn objects(&self, fill: Fill) -> Result<Vec<u8>, SchemaError> {
        let mut objects = filled(&self.newest.program, "corpus", fill, &[])?;
        let without = [OsStr::new("--without"), self.newest.catalog.as_os_str()];
        objects.extend(filled(&self.served.program, "corpus", fill, &without)?);
        Ok(objects)
    }
}

/// Lists every resource of the server of a kubeconfig with the Go program `schema`. Returns its output: the
/// responses in JSON and in protobuf.
fn lists(program: &Path, kubeconfig: &OsStr) -> Result<Vec<u8>, SchemaError> {
    output(program, &[OsStr::new("served"), "--kubeconfig".as_ref(), kubeconfig])
}

/// Starts two real API servers, calls `work` with the paths of their kubeconfigs, and stops the servers. The
/// first one serves every API version. The second one runs without additional flags, so it shows which
/// versions are served by default.
fn with_servers<T>(
    root: &Path,
    go: &Go,
    work: impl FnOnce(&OsStr, &OsStr) -> Result<T, SchemaError>,
) -> Result<T, SchemaError> {
    let folder = |name: &str| target(root).join("real-schema").join(name);
    let all = started(go, &folder("all"), &["--runtime-config=api/all=true".to_owned()])?;
    let outcome = started(go, &folder("plain"), &[]).map_err(SchemaError::from).and_then(|plain| {
        let config = |name: &str| folder(name).join("admin.conf");
        let outcome = work(config("all").as_os_str(), config("plain").as_os_str());
        plain.stop_all()?;
        outcome
    });
    all.stop_all()?;
    outcome
}

fn started(go: &Go, folder: &Path, flags: &[String]) -> Result<Cluster, RealError> {
    // `Cluster::prepare` chooses ports that are free at that time. The build may take minutes, so it precedes
    // that choice.
    for server in [Server::Etcd, Server::KubeApiserver] {
        go.build(Module::Servers, server.program())?;
    }
    let mut cluster = Cluster::prepare(folder)?;
    let up = cluster
        .start(go, Server::Etcd, &[], READY_WITHIN)
        .and_then(|()| cluster.start(go, Server::KubeApiserver, flags, READY_WITHIN));
    match up {
        Ok(()) => Ok(cluster),
        Err(error) => {
            let _ = cluster.stop_all();
            Err(error)
        }
    }
}

/// Compares `informer-schema` with Go on new data. The Go program `schema` generates objects and patches, and
/// lists the resources of a real server. The tests `golden` and `merge` of `informer-schema` then check that
/// data.
fn verify(root: &Path, count: usize, seed: Option<u32>, report: &mut Report) -> Result<(), SchemaError> {
    let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish() as u32);
    let go = Go::find(root)?;
    let types = Types::built(root, &go)?;
    let program = &types.newest.program;
    let served = with_servers(root, &go, |all, _| lists(program, all))?;
    let folder = target(root).join("schema-corpus");
    let write = |path: PathBuf, bytes: Vec<u8>| {
        std::fs::write(&path, bytes).map_err(|source| SchemaError::Write { path, source })
    };
    std::fs::create_dir_all(&folder).map_err(|source| SchemaError::Write { path: folder.clone(), source })?;
    let fill = Fill { seed, count, size: 120 };
    write(folder.join("objects.jsonl.gz"), types.objects(fill)?)?;
    write(folder.join("served.jsonl.gz"), served)?;
    write(folder.join("patches.jsonl.gz"), filled(program, "patches", fill, &[])?)?;
    let status = command()
        .current_dir(root)
        .args(["test", "-p", "informer-schema", "--test", "golden", "--test", "merge"])
        .env("INFORMER_SCHEMA_CORPUS", &folder)
        .status()
        .map_err(|source| SchemaError::Start { program: "cargo test".to_owned(), source })?;
    report.figure("seed", f64::from(seed));
    report.figure("objects of each kind", count as f64);
    if status.success() {
        Ok(())
    } else {
        Err(SchemaError::Failed { program: format!("the comparison with seed {seed}") })
    }
}

fn filled(program: &Path, what: &str, fill: Fill, more: &[&OsStr]) -> Result<Vec<u8>, SchemaError> {
    let (seed, count, size) = (fill.seed.to_string(), fill.count.to_string(), fill.size.to_string());
    let flags = [what, "--seed", &seed, "--count", &count, "--size", &size].map(OsStr::new);
    output(program, &[&flags, more].concat())
}

/// Runs a program and returns its standard output as bytes. Its standard error is that of this command. A
/// failing exit status is an error.
fn output(program: &Path, flags: &[impl AsRef<OsStr>]) -> Result<Vec<u8>, SchemaError> {
    let name = program.display().to_string();
    let output = Command::new(program).args(flags).stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|source| SchemaError::Start { program: name.clone(), source })?;
    if output.status.success() { Ok(output.stdout) } else { Err(SchemaError::Failed { program: name }) }
}
