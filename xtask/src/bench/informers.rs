//! Informers: ours, those of client-go and kube-rs's reflector, each a process of its own, on one server.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::peers::{BenchError, Limit, Program, Samples, Target, build_ours, in_turn};
use super::plot;
use crate::go::{Go, GoError, Module, target};
use crate::report::Report;

const OURS: &str = "informer";
const TYPED: &str = "informer, typed";
const DYNAMIC: &str = "informer, dynamic";
const CLIENT_GO: &str = "client-go 0.37.2";
const CLIENT_GO_JSON: &str = "client-go, JSON";
const CLIENT_GO_DYNAMIC: &str = "client-go, dynamic";
const KUBE_RS: &str = "kube-rs 5.0.0";
const KUBE_RS_DYNAMIC: &str = "kube-rs, dynamic";
const DRAIN: &str = "HTTP alone, JSON";
const DRAIN_PROTOBUF: &str = "HTTP alone, protobuf";

const SYNC: &str = "initial sync, s";
const SYNC_AND_READ: &str = "sync and every object read typed, s";
const PEAK: &str = "peak RSS, MB";
const STEADY: &str = "steady RSS an object, KB";
const RELIST: &str = "relist, nothing changed, client CPU s";
const EVENTS: &str = "events through one handler, a second";
const EVENTS_TYPED: &str = "events through one handler, read typed, a second";
const DELAY: &str = "event to handler, 1 handler, p50 us";
const DELAY_P99: &str = "event to handler, 1 handler, p99 us";

/// What is plotted, in this order.
const PLOTTED: [(&str, &str); 6] = [
    (SYNC, "initial sync, seconds"),
    (PEAK, "peak memory, MB"),
    (STEADY, "memory an object, KB"),
    (RELIST, "relist with nothing changed, CPU seconds"),
    (EVENTS, "events through one handler, a second"),
    (DELAY, "event to handler, median, microseconds"),
];

/// Informers on a server of objects.
#[derive(Debug, Args)]
pub(crate) struct Informers {
    /// How many objects the server has.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Of which kind they are.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// Who takes part.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Peer::Ours, Peer::ClientGo, Peer::KubeRs])]
    peers: Vec<Peer>,
    /// Draws the medians into this file.
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[default]
    Pod,
    /// A custom resource with the body of a pod.
    Crd,
    Configmap,
    Secret,
    Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    Ours,
    ClientGo,
    KubeRs,
}

pub(crate) fn run(root: &Path, options: &Informers, runs: usize) -> Report {
    let mut report = Report::new("bench");
    if let Err(error) = measure(root, options, runs, &mut report) {
        report.problems.push(error.to_string());
    }
    report
}

fn measure(root: &Path, options: &Informers, runs: usize, report: &mut Report) -> Result<(), BenchError> {
    let ours = build_ours(root, "informer-bench")?;
    let go = match options.peers.contains(&Peer::ClientGo).then(|| Go::find(root)) {
        Some(Ok(go)) => Some(
            go.build(Module::Peers, "informer-bench")
                .map_err(|error| BenchError::Build(error.to_string()))?,
        ),
        Some(Err(GoError::Missing(_))) => {
            println!("client-go skipped: no Go");
            None
        }
        Some(Err(error)) => return Err(BenchError::Build(error.to_string())),
        None => None,
    };
    let kube_rs = options.peers.contains(&Peer::KubeRs).then(|| build_kube_rs(root)).transpose()?;
    eprintln!("loading {} objects", options.objects);
    let server = Server::start(&ours, options)?;
    let programs = programs(options, &server.place, &ours, go.as_deref(), kube_rs.as_deref());
    let samples = in_turn(&programs, runs)?;
    drop(server);
    println!("{}\n", samples.table(&programs));
    let ours: Vec<_> =
        programs.iter().map(|program| program.name).filter(|name| name.starts_with(OURS)).collect();
    let peers = [CLIENT_GO, CLIENT_GO_JSON, CLIENT_GO_DYNAMIC, KUBE_RS, KUBE_RS_DYNAMIC];
    samples.report(&ours, &peers, report);
    targets(options.kind).iter().for_each(|target| target.judge(&samples, report));
    if let Some(path) = &options.plot {
        let picture = picture(options, &samples, &programs);
        std::fs::write(path, picture).map_err(|source| BenchError::Write { path: path.clone(), source })?;
    }
    Ok(())
}

/// Whoever takes part, in the order of the table.
fn programs(
    options: &Informers,
    place: &Place,
    ours: &Path,
    go: Option<&Path>,
    kube_rs: Option<&Path>,
) -> Vec<Program> {
    let kind = options.kind.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned());
    let built_in = options.kind != Kind::Crd;
    let flags = [
        ("--server", place.server.clone()),
        ("--control", place.control.clone()),
        ("--kind", kind.clone()),
        ("--objects", options.objects.to_string()),
    ];
    let flags: Vec<String> = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    let program = |name, path: &Path, before: &[&str], after: &[&str]| Program {
        name,
        path: path.to_owned(),
        arguments: before
            .iter()
            .map(|word| (*word).to_owned())
            .chain(flags.clone())
            .chain(after.iter().map(|word| (*word).to_owned()))
            .collect(),
    };
    let mut programs = vec![program(DRAIN, ours, &["drain"], &[])];
    if built_in {
        programs.push(program(DRAIN_PROTOBUF, ours, &["drain"], &["--encoding", "protobuf"]));
    }
    if options.peers.contains(&Peer::Ours) {
        programs.push(program(OURS, ours, &["peer"], &["--form", "lazy"]));
        if options.kind == Kind::Pod {
            programs.push(program(TYPED, ours, &["peer"], &["--form", "typed"]));
        }
        programs.push(program(DYNAMIC, ours, &["peer"], &["--form", "dynamic"]));
    }
    if let Some(go) = go {
        if built_in {
            programs.push(program(CLIENT_GO, go, &[], &[]));
            programs.push(program(CLIENT_GO_JSON, go, &[], &["--encoding", "json"]));
        }
        programs.push(program(CLIENT_GO_DYNAMIC, go, &[], &["--dynamic"]));
    }
    if let Some(kube_rs) = kube_rs {
        let objects = options.objects.to_string();
        let place = [place.server.as_str(), &place.control, &kind, &objects].map(str::to_owned);
        let peer = |name, word: &[&str]| Program {
            name,
            path: kube_rs.to_owned(),
            arguments: place.iter().cloned().chain(word.iter().map(|word| (*word).to_owned())).collect(),
        };
        if built_in {
            programs.push(peer(KUBE_RS, &[]));
        }
        programs.push(peer(KUBE_RS_DYNAMIC, &["dynamic"]));
    }
    programs
}

const fn target_of(case: &'static str, limit: Limit) -> Target {
    Target { program: OURS, case, limit }
}

/// What is aimed at, in parts of the peers' figures.
fn targets(kind: Kind) -> Vec<Target> {
    let part = |case, of, at_most| target_of(case, Limit::Part { of, at_most });
    match kind {
        Kind::Crd => {
            vec![part(SYNC, CLIENT_GO_DYNAMIC, 1.0 / 60.0), part(SYNC, KUBE_RS_DYNAMIC, 1.0 / 20.0)]
        }
        _ => vec![
            part(SYNC, CLIENT_GO, 0.1),
            part(SYNC_AND_READ, CLIENT_GO, 1.0 / 3.0),
            part(PEAK, CLIENT_GO, 0.25),
            part(PEAK, KUBE_RS, 0.1),
            part(RELIST, CLIENT_GO, 0.05),
            target_of(EVENTS, Limit::Times { of: CLIENT_GO, at_least: 16.0 }),
            target_of(EVENTS_TYPED, Limit::Times { of: CLIENT_GO, at_least: 6.0 }),
            target_of(DELAY, Limit::Scaled { at_most: 40.0, by: CLIENT_GO, case: DELAY, there: 163.0 }),
            target_of(
                DELAY_P99,
                Limit::Scaled { at_most: 100.0, by: CLIENT_GO, case: DELAY_P99, there: 4000.0 },
            ),
        ],
    }
}

fn build_kube_rs(root: &Path) -> Result<PathBuf, BenchError> {
    // In a folder of its own: it has other features of the same libraries.
    let folder = target(root).join("kube-rs");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--locked", "--release", "--bin", "kube-rs-bench"])
        .args(["--manifest-path", "conformance/kube-rs/Cargo.toml"])
        .env("CARGO_TARGET_DIR", &folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(folder.join("release/kube-rs-bench")),
        _ => Err(BenchError::Build("kube-rs-bench".to_owned())),
    }
}

/// Where the server is.
#[derive(Debug, Deserialize)]
struct Place {
    server: String,
    control: String,
}

/// The server of all programs, ended when dropped.
struct Server {
    process: Child,
    place: Place,
}

impl Server {
    fn start(program: &Path, options: &Informers) -> Result<Self, BenchError> {
        let failed = |source| BenchError::Start { program: "the server".to_owned(), source };
        let kind = options.kind.to_possible_value();
        let kind = kind.as_ref().map_or("pod", |kind| kind.get_name());
        let mut process = Command::new(program)
            .args(["serve", "--objects", &options.objects.to_string(), "--kind", kind])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(failed)?;
        }
        match serde_json::from_str(&line) {
            Ok(place) => Ok(Self { process, place }),
            Err(source) => {
                let _ = process.kill();
                Err(BenchError::Output { program: "the server".to_owned(), source })
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn picture(options: &Informers, samples: &Samples, programs: &[Program]) -> String {
    let panels = PLOTTED.iter().map(|&(case, title)| plot::Panel {
        title: title.to_owned(),
        bars: programs
            .iter()
            .filter_map(|program| Some((program.name.to_owned(), samples.median(program.name, case)?)))
            .collect(),
    });
    let mut title = String::new();
    // Writing to a string cannot fail.
    let _ = write!(title, "{} objects: {:?}", options.objects, options.kind);
    plot::svg(&title, &panels.collect::<Vec<_>>())
}
