//! Benchmarks of the embedded API server, in a separate process and in the process of the client, and of a
//! real kube-apiserver with etcd. The same client program measures all of them.
//!
//! Each run starts every server again, so that the client always creates its objects on an empty server.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::Deserialize;

use super::peers::{BenchError, Limit, Program, Samples, Target, Turns, build_other, build_ours, judge};
use super::sections;
use crate::deadline::Deadline;
use crate::go::{Go, target};
use crate::real::{Cluster, Server as Part, told};
use crate::report::Report;

const TLS: &str = "embedded, TLS";
const PLAIN: &str = "embedded, plaintext";
/// The name under which the embedded server is measured inside the process of the client, as tests use it:
/// without a separate process and without a socket.
const HERE: &str = "embedded, in process";
const REAL: &str = "kube-apiserver 1.36.3, TLS";

const START: &str = "start to the first response, ms";
const EMPTY: &str = "empty server, RSS MB";
const CREATES: &str = "creates, a second";
const LIST: &str = "list as JSON, objects a second";
const LIST_PROTOBUF: &str = "list as protobuf, objects a second";
const DELIVERIES: &str = "one write at a time, deliveries a second";
const STALLED: &str = "a watch that never reads, RSS KB";

const TARGETS: [Target; 3] = [
    Target { program: PLAIN, case: START, limit: Limit::Plain(20.0) },
    Target { program: PLAIN, case: EMPTY, limit: Limit::Plain(20.0) },
    // A watch whose client never reads may take at most 2 MB of the server's memory, for references to events
    // and for the buffers of its connection.
    Target { program: TLS, case: STALLED, limit: Limit::Plain(2048.0) },
];

/// Cases in which the embedded server must have [`TIMES`] times the throughput of the real kube-apiserver,
/// which serves only TLS. The factor applies to requests to the embedded server over TLS, over plaintext and
/// in process alike.
const FASTER: [&str; 4] = [CREATES, LIST, LIST_PROTOBUF, DELIVERIES];
const TIMES: f64 = 20.0;

const READY_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Apiserver {
    /// Number of pods to create and list in each run. With 100,000 pods a real server needs about 8 GB of
    /// memory and five minutes per run.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Skip the real server, which needs Go. Its column in the printed tables is then empty, the report has
    /// no ratios, and targets relative to the real server are not checked.
    #[arg(long)]
    alone: bool,
}

pub(crate) fn run(root: &Path, options: &Apiserver, turns: Turns) -> Report {
    let mut report = Report::new("bench apiserver");
    turns.tell(&mut report);
    if let Err(error) = measure(root, options, turns, &mut report) {
        report.problems.push(told(&error));
    }
    report
}

struct Programs<'a> {
    root: &'a Path,
    options: &'a Apiserver,
    turns: Turns,
    bench: PathBuf,
    informer: PathBuf,
    go: Option<Go>,
}

fn measure(root: &Path, options: &Apiserver, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let bench = build_ours(root, "apiserver-bench")?;
    let informer = build_other(root, "informer-cli", "informer")?;
    let go = if options.alone {
        None
    } else {
        Some(Go::find(root).map_err(|error| BenchError::Build(error.to_string()))?)
    };
    let programs = Programs { root, options, turns, bench, informer, go };
    let mut samples = Samples::default();
    for run in 1..=turns.runs() {
        eprintln!("run {run} of {}", turns.runs());
        for name in [PLAIN, TLS] {
            let embedded = programs.embedded(name)?;
            samples.run(&embedded.load(&programs), turns)?;
            // The next measured program starts the embedded server again. The new server reuses the
            // certificates of this one, so the same CA certificate verifies it.
            let authority = embedded.authority.clone();
            drop(embedded);
            samples.run(&programs.start(name, authority.as_deref()), turns)?;
        }
        samples.run(&programs.here(), turns)?;
        if let Some(go) = &programs.go {
            programs.real(go, &mut samples)?;
        }
    }
    let columns = [TLS, PLAIN, HERE, REAL].map(|name| programs.program(name, Vec::new()));
    println!("{}\n", samples.table(&columns));
    println!("{}\n", samples.times(&columns[..3], REAL));
    report.figure("objects", options.objects as f64);
    samples.report(&[TLS, PLAIN, HERE], &[REAL], report);
    sections::by_case(&samples, &[TLS, PLAIN, HERE], &[REAL], report);
    let faster = [TLS, PLAIN, HERE].into_iter().flat_map(|program| FASTER.map(|case| (program, case)));
    let limit = |(program, case)| Target { program, case, limit: Limit::Times { of: REAL, at_least: TIMES } };
    let faster: Vec<Target> = faster.map(limit).collect();
    judge(TARGETS.iter().chain(&faster), &samples, report);
    Ok(())
}

impl Programs<'_> {
    fn folder(&self, name: &str) -> String {
        target(self.root).join("bench-apiserver").join(name).display().to_string()
    }

    fn program(&self, name: &'static str, arguments: Vec<String>) -> Program {
        Program { name, path: self.bench.clone(), arguments }
    }

    /// Returns the program that starts the embedded server as a new process and measures the time to its
    /// first response.
    fn start(&self, name: &'static str, authority: Option<&str>) -> Program {
        let (informer, certificates) = (self.informer.display().to_string(), self.folder("certificates"));
        let mut words = vec!["start"];
        words.extend(authority.into_iter().flat_map(|file| ["--authority", file]));
        words.extend([informer.as_str(), "serve", "--listen", "127.0.0.1:PORT"]);
        words.extend(authority.into_iter().flat_map(|_| ["--cert-dir", certificates.as_str()]));
        self.program(name, words.into_iter().map(str::to_owned).collect())
    }

    fn embedded(&self, name: &'static str) -> Result<Embedded, BenchError> {
        let failed = |why: String| BenchError::Server { program: name.to_owned(), why };
        let folder = PathBuf::from(self.folder(""));
        std::fs::create_dir_all(&folder).map_err(|error| failed(error.to_string()))?;
        let kubeconfig = folder.join("kubeconfig");
        let mut command = self.turns.command(&self.informer);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--kubeconfig"]).arg(&kubeconfig);
        if name == TLS {
            command.args(["--cert-dir", &self.folder("certificates")]);
        }
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|source| BenchError::Start { program: name.to_owned(), source })?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        }
        let served: Result<Served, _> = serde_json::from_str(&line);
        let mut embedded = Embedded { name, url: String::new(), authority: None, child };
        embedded.url = served.map_err(|error| failed(error.to_string()))?.url;
        let text = std::fs::read_to_string(&kubeconfig).map_err(|error| failed(error.to_string()))?;
        let authority = text.split_once("certificate-authority-data\":\"").map(|(_, rest)| rest);
        let authority = authority.and_then(|rest| STANDARD.decode(rest.split('"').next()?).ok());
        if let Some(pem) = authority {
            let path = folder.join("authority.pem");
            std::fs::write(&path, pem).map_err(|error| failed(error.to_string()))?;
            embedded.authority = Some(path.display().to_string());
        }
        Ok(embedded)
    }

    fn real(&self, go: &Go, samples: &mut Samples) -> Result<(), BenchError> {
        let failed = |error: crate::real::RealError| BenchError::Server {
            program: REAL.to_owned(),
            why: told(&error),
        };
        for part in [Part::Etcd, Part::KubeApiserver] {
            go.build(crate::go::Module::Servers, part.program())
                .map_err(|error| BenchError::Build(error.to_string()))?;
        }
        let folder = PathBuf::from(self.folder("real"));
        let mut cluster = Cluster::prepare(&folder).map_err(failed)?;
        let clock = Deadline::after(READY_WITHIN);
        let outcome = [Part::Etcd, Part::KubeApiserver]
            .into_iter()
            .try_for_each(|part| cluster.start(go, part, &[], READY_WITHIN))
            .map_err(failed)
            .and_then(|()| self.hurry(&cluster));
        samples.push(REAL, START.to_owned(), clock.elapsed().as_secs_f64() * 1e3);
        let pid = |part| {
            cluster.servers.iter().find(|started| started.server == part).map(|started| started.process.pid)
        };
        let (etcd, apiserver) =
            (pid(Part::Etcd).unwrap_or_default(), pid(Part::KubeApiserver).unwrap_or_default());
        let mut words = self.load(&cluster.url, apiserver);
        words.extend(["--authority".to_owned(), folder.join("ca.crt").display().to_string()]);
        words.extend(["--token", cluster.token(), "--beside", &etcd.to_string()].map(str::to_owned));
        let outcome = outcome.and_then(|()| samples.run(&self.program(REAL, words), self.turns));
        cluster.stop_all().map_err(failed)?;
        outcome
    }

    /// With `--realtime`, gives the running kube-apiserver and etcd the real-time priority of the other
    /// measured programs, with the command `chrt`. Does nothing without `--realtime`.
    fn hurry(&self, cluster: &Cluster) -> Result<(), BenchError> {
        let program = "chrt";
        for started in cluster.servers.iter().filter(|_| self.turns.is_realtime()) {
            let pid = started.process.pid.to_string();
            let done = Command::new(program).args(["--all-tasks", "--fifo", "--pid", "10", &pid]).status();
            done.map_err(|source| BenchError::Start { program: program.to_owned(), source })?;
        }
        Ok(())
    }

    fn load(&self, url: &str, pid: u32) -> Vec<String> {
        let mut words = self.load_of_objects();
        words.extend(["--server", url, "--pids", &pid.to_string()].map(str::to_owned));
        words
    }

    fn here(&self) -> Program {
        self.program(HERE, self.load_of_objects())
    }

    fn load_of_objects(&self) -> Vec<String> {
        ["load", "--objects", &self.options.objects.to_string()].map(str::to_owned).to_vec()
    }
}

/// The line that `informer serve --json` prints when the server accepts connections. It contains the URL of
/// the server.
#[derive(Debug, Deserialize)]
struct Served {
    url: String,
}

/// A running process of the embedded server. Dropping an `Embedded` kills the process.
struct Embedded {
    name: &'static str,
    url: String,
    authority: Option<String>,
    child: Child,
}

impl Embedded {
    fn load(&self, programs: &Programs<'_>) -> Program {
        let mut words = programs.load(&self.url, self.child.id());
        if let Some(path) = &self.authority {
            words.extend(["--authority".to_owned(), path.clone()]);
        }
        programs.program(self.name, words)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The error of `kill` is ignored: it only means that the server process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
