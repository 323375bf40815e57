//! The programs that the informer benchmarks measure, and their arguments.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::arguments::Kind;
use super::names::{
    CLIENT_GO, CLIENT_GO_DYNAMIC, CLIENT_GO_JSON, CLIENT_GO_METADATA, DRAIN, DRAIN_PROTOBUF,
    DRAIN_PROTOBUF_STREAM, DRAIN_STREAM, DYNAMIC, JSON, KUBE_RS, KUBE_RS_DYNAMIC, LIST, METADATA, OURS,
    PACKED, SPLIT, TYPED,
};
use super::server::BenchServer;
use crate::bench::peers::{BenchError, Program, build_kube_rs, build_ours};
use crate::go::{Go, GoError, Module};

/// The library of a measured informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Peer {
    Ours,
    ClientGo,
    KubeRs,
}

pub(super) struct Built {
    pub(super) ours: PathBuf,
    /// True if the informers of this library are measured. If false, the program `ours` still runs the
    /// embedded server, or creates and changes the objects of a real one, and does the plain HTTP reads.
    takes_part: bool,
    go: Option<PathBuf>,
    kube_rs: Option<PathBuf>,
}

impl Built {
    pub(super) fn build(root: &Path, peers: &[Peer]) -> Result<Self, BenchError> {
        let ours = build_ours(root, "informer-bench")?;
        let go = peers.contains(&Peer::ClientGo).then(|| build_go(root)).transpose()?.flatten();
        let kube_rs =
            peers.contains(&Peer::KubeRs).then(|| build_kube_rs(root, "kube-rs-bench")).transpose()?;
        Ok(Self { ours, takes_part: peers.contains(&Peer::Ours), go, kube_rs })
    }
}

fn build_go(root: &Path) -> Result<Option<PathBuf>, BenchError> {
    match Go::find(root) {
        Ok(go) => {
            let built = go.build(Module::Peers, "informer-bench");
            built.map(Some).map_err(|error| BenchError::Build(error.to_string()))
        }
        Err(GoError::Missing(_)) => {
            println!("client-go skipped: no Go");
            Ok(None)
        }
        Err(error) => Err(BenchError::Build(error.to_string())),
    }
}

pub(super) struct Lineup<'a> {
    pub(super) built: &'a Built,
    pub(super) place: &'a BenchServer,
    pub(super) kind: Kind,
    pub(super) objects: usize,
    pub(super) only_sync: bool,
    /// True if variants of client-go and kube-rs are also measured with which no target compares this
    /// library.
    pub(super) all: bool,
}

impl Lineup<'_> {
    fn words(&self) -> Vec<String> {
        let kind = self.kind.to_possible_value();
        let kind = kind.as_ref().map_or("pod", |kind| kind.get_name());
        let mut words: Vec<_> = match &self.place.kubeconfig {
            Some(path) => vec!["--kubeconfig".to_owned(), path.display().to_string()],
            None => vec!["--server".to_owned(), self.place.server.clone()],
        };
        let more = [("--control", &*self.place.control), ("--kind", kind)];
        words.extend(more.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]));
        words.extend(["--objects".to_owned(), self.objects.to_string()]);
        words
    }

    fn program(&self, name: &'static str, path: &Path, before: &[&str], after: &[&str]) -> Program {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Program {
            name,
            path: path.to_owned(),
            arguments: [owned(before), self.words(), owned(after)].concat(),
        }
    }

    pub(super) fn ours(&self, name: &'static str, words: &[&str], only_sync: bool) -> Program {
        let only_sync: &[&str] = if only_sync || self.only_sync { &["--only-sync"] } else { &[] };
        self.program(name, &self.built.ours, &["peer"], &[words, only_sync].concat())
    }

    fn peer(&self, name: &'static str, path: &Path, words: &[&str], only_sync: bool) -> Program {
        let only_sync: &[&str] = if only_sync || self.only_sync { &["--only-sync"] } else { &[] };
        self.program(name, path, &[], &[words, only_sync].concat())
    }

    /// Returns the program that measures an informer whose objects change all the time.
    pub(super) fn churn(&self, name: &'static str, words: &[&str]) -> Program {
        self.program(name, &self.built.ours, &["churn"], words)
    }

    /// Returns the program that syncs two informers of each of `kinds` kinds in one process.
    pub(super) fn many(&self, name: &'static str, kinds: &str) -> Program {
        self.program(name, &self.built.ours, &["many"], &["--kinds", kinds])
    }

    /// Returns all programs to measure, in the order of the columns of the printed table. Variants that are
    /// measured only for the time and the memory of the initial list exit after it.
    pub(super) fn everybody(&self) -> Vec<Program> {
        [self.drains(), self.all_of_ours(), self.all_of_go(), self.all_of_kube_rs()].concat()
    }

    fn built_in(&self) -> bool {
        self.kind != Kind::Crd
    }

    fn is_real(&self) -> bool {
        self.place.kubeconfig.is_some()
    }

    fn drains(&self) -> Vec<Program> {
        let drain = |name, words: &[&str]| self.program(name, &self.built.ours, &["drain"], words);
        let mut drains = vec![drain(DRAIN, &["--encoding", "json", "--list"])];
        if self.built_in() {
            drains.push(drain(DRAIN_PROTOBUF, &["--list"]));
        }
        // A real server encodes the response to a list and the events of a streaming list in different ways,
        // so plain HTTP reads of both are measured.
        if self.is_real() {
            drains.push(drain(DRAIN_STREAM, &["--encoding", "json"]));
            if self.built_in() {
                drains.push(drain(DRAIN_PROTOBUF_STREAM, &[]));
            }
        }
        drains
    }

    fn all_of_ours(&self) -> Vec<Program> {
        if !self.built.takes_part {
            return Vec::new();
        }
        let mut programs = vec![self.ours(OURS, &[], !self.built_in() && !self.is_real())];
        if self.is_real() {
            programs.push(self.ours(LIST, &["--list"], true));
            programs.push(self.ours(SPLIT, &["--split"], true));
        }
        match self.kind {
            Kind::Crd => programs.push(self.ours(DYNAMIC, &["--form", "dynamic"], true)),
            _ => programs.push(self.ours(JSON, &["--encoding", "json"], true)),
        }
        if self.kind == Kind::Pod && !self.is_real() {
            let forms = [(TYPED, "typed"), (PACKED, "packed"), (METADATA, "metadata")];
            programs.extend(forms.map(|(name, form)| self.ours(name, &["--form", form], true)));
        }
        programs
    }

    fn all_of_go(&self) -> Vec<Program> {
        let Some(go) = &self.built.go else { return Vec::new() };
        if self.kind == Kind::Crd {
            return vec![self.peer(CLIENT_GO_DYNAMIC, go, &["--dynamic"], true)];
        }
        let mut programs = vec![self.peer(CLIENT_GO, go, &[], false)];
        if self.all {
            programs.push(self.peer(CLIENT_GO_JSON, go, &["--encoding", "json"], true));
            programs.push(self.peer(CLIENT_GO_DYNAMIC, go, &["--dynamic"], true));
            programs.push(self.peer(CLIENT_GO_METADATA, go, &["--metadata"], true));
        }
        programs
    }

    fn all_of_kube_rs(&self) -> Vec<Program> {
        let Some(kube_rs) = &self.built.kube_rs else { return Vec::new() };
        if self.kind == Kind::Crd {
            return vec![self.peer(KUBE_RS_DYNAMIC, kube_rs, &["--dynamic"], true)];
        }
        let mut programs = vec![self.peer(KUBE_RS, kube_rs, &[], false)];
        if self.all {
            programs.push(self.peer(KUBE_RS_DYNAMIC, kube_rs, &["--dynamic"], true));
        }
        programs
    }
}
