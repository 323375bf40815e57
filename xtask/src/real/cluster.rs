//! The servers of one data directory (etcd, kube-apiserver, kube-controller-manager): how each is started,
//! checked and stopped, and the file with their state.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ask::Peer;
use super::files;
use super::process::{Process, Signal, last_lines};
use crate::deadline::Deadline;
use crate::go::{Go, GoError, Module};

const STATE: &str = "real.json";

/// Names of the folder with etcd's data, and of the copy that `cargo xtask real backup` makes.
const DATA: &str = "etcd";
const BACKUP: &str = "etcd.backup";

/// The servers of a cluster, in the order in which they are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Server {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
}

impl Server {
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
        }
    }
}

#[derive(Debug, Error)]
pub(crate) enum RealError {
    #[error(transparent)]
    Go(#[from] GoError),
    #[error("{what} {path}", path = path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("servers of an earlier `cargo xtask real up` run in {}; `cargo xtask real down` stops them", .0.display())]
    Running(PathBuf),
    #[error("no servers in {}; `cargo xtask real up` starts them", .0.display())]
    Nothing(PathBuf),
    #[error("cannot start {server}")]
    Start {
        server: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{server} exited before it was ready; the end of its log {}:\n{lines}", log.display())]
    Ended { server: &'static str, log: PathBuf, lines: String },
    #[error("{server} was not ready within {limit:?}; the end of its log {}:\n{lines}", log.display())]
    NotReady { server: &'static str, limit: Duration, log: PathBuf, lines: String },
    #[error("cannot send a signal to {server}")]
    Signal {
        server: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("cannot stop {server}")]
    Stop {
        server: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("etcd did not compact: {0}")]
    Compact(String),
    #[error("cannot read {path}: {why}")]
    Get { path: String, why: String },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    api: u16,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Started {
    pub(crate) server: Server,
    program: PathBuf,
    arguments: Vec<String>,
    pub(crate) process: Process,
}

/// The servers that were started in a directory. Their addresses and processes are saved in the file
/// `real.json` there, so that a later command can stop them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cluster {
    folder: PathBuf,
    pub(crate) url: String,
    ports: Ports,
    token: String,
    pub(crate) servers: Vec<Started>,
}

impl Cluster {
    /// Reads the state file in which an earlier command recorded the servers that it started in a directory.
    /// The servers may have exited since then.
    pub(crate) fn open(folder: &Path) -> Result<Self, RealError> {
        let path = folder.join(STATE);
        let text = std::fs::read(&path).map_err(|_| RealError::Nothing(folder.to_owned()))?;
        serde_json::from_slice(&text).map_err(|error| RealError::File {
            what: "cannot read",
            path,
            source: io::Error::other(error),
        })
    }

    /// Creates a directory with certificates, tokens and kubeconfigs, and chooses free ports. Starts no
    /// server. Returns an error if servers of an earlier command still run in the directory. Data of servers
    /// that have exited is removed.
    pub(crate) fn prepare(folder: &Path) -> Result<Self, RealError> {
        if let Ok(earlier) = Self::open(folder) {
            if earlier.servers.iter().any(|started| started.process.runs()) {
                return Err(RealError::Running(folder.to_owned()));
            }
            earlier.remove()?;
        }
        std::fs::create_dir_all(folder).map_err(failure("cannot create", folder))?;
        let folder = folder.canonicalize().map_err(failure("cannot find", folder))?;
        let ports = Ports::free().map_err(failure("cannot find free ports for", &folder))?;
        let token = files::write(&folder, ports.api).map_err(failure("cannot write to", &folder))?;
        let url = format!("https://127.0.0.1:{}", ports.api);
        let cluster = Self { folder, url, ports, token, servers: Vec::new() };
        cluster.save()?;
        Ok(cluster)
    }

    pub(crate) fn start(
        &mut self,
        go: &Go,
        server: Server,
        more: &[String],
        limit: Duration,
    ) -> Result<(), RealError> {
        let program = go.build(Module::Servers, server.program())?;
        let mut arguments = self.arguments(server);
        arguments.extend_from_slice(more);
        self.run(server, program, arguments, limit)
    }

    /// Starts a server again with the same program and arguments, and waits until it is ready. If it still
    /// runs, only waits. Returns an error if the server was never started in this directory.
    pub(crate) fn start_again(&mut self, server: Server, limit: Duration) -> Result<(), RealError> {
        let place = self.servers.iter().position(|started| started.server == server);
        let place = place.ok_or_else(|| RealError::Nothing(self.folder.clone()))?;
        if self.servers[place].process.runs() {
            return self.wait(server, limit);
        }
        let earlier = self.servers.remove(place);
        self.run(server, earlier.program, earlier.arguments, limit)
    }

    fn run(
        &mut self,
        server: Server,
        program: PathBuf,
        arguments: Vec<String>,
        limit: Duration,
    ) -> Result<(), RealError> {
        let process = Process::start(&program, &arguments, &self.log(server));
        let process = process.map_err(|source| RealError::Start { server: server.program(), source })?;
        self.servers.push(Started { server, program, arguments, process });
        // The state file lists the processes of the cluster. It is written before the server is ready, so
        // that a later command can stop the server even if the present command fails or is interrupted.
        self.save()?;
        self.wait(server, limit)
    }

    fn wait(&self, server: Server, limit: Duration) -> Result<(), RealError> {
        let deadline = Deadline::after(limit);
        let name = server.program();
        let outcome = deadline.poll(|| match self.ready(server) {
            true => Some(true),
            false if !self.runs(server) => Some(false),
            false => None,
        });
        let log = self.log(server);
        let lines = || last_lines(&log, 10);
        match outcome {
            Some(true) => Ok(()),
            Some(false) => Err(RealError::Ended { server: name, lines: lines(), log }),
            None => Err(RealError::NotReady { server: name, limit: deadline.limit(), lines: lines(), log }),
        }
    }

    pub(crate) fn runs(&self, server: Server) -> bool {
        self.servers.iter().any(|started| started.server == server && started.process.runs())
    }

    /// Returns true if a server can process requests. A server that only accepts connections may not be ready
    /// yet.
    pub(crate) fn ready(&self, server: Server) -> bool {
        let path = match server {
            Server::Etcd => return matches!(self.etcd().ask("GET", "/health", ""), Ok((200, _))),
            Server::KubeApiserver => "/readyz",
            // kube-controller-manager listens on no port. It is ready when the service account `default`
            // exists, the first object that it creates.
            Server::KubeControllerManager => "/api/v1/namespaces/default/serviceaccounts/default",
        };
        let Ok(authority) = std::fs::read_to_string(self.folder.join("ca.crt")) else { return false };
        let api = Peer { port: self.ports.api, authority: Some(&authority), token: &self.token };
        matches!(api.ask("GET", path, ""), Ok((200, _)))
    }

    /// Reads an object or a list from kube-apiserver. `path` is the path of its URL, such as
    /// `/api/v1/services`.
    pub(super) fn get(&self, path: &str) -> Result<serde_json::Value, RealError> {
        let failed = |why: String| RealError::Get { path: path.to_owned(), why };
        let authority = self.folder.join("ca.crt");
        let authority = std::fs::read_to_string(&authority).map_err(|source| RealError::File {
            what: "cannot read",
            path: authority,
            source,
        })?;
        let api = Peer { port: self.ports.api, authority: Some(&authority), token: &self.token };
        match api.ask("GET", path, "") {
            Ok((200, body)) => serde_json::from_str(&body).map_err(|error| failed(error.to_string())),
            Ok((status, _)) => Err(failed(format!("status {status}"))),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    fn etcd(&self) -> Peer<'static> {
        Peer { port: self.ports.etcd, authority: None, token: "" }
    }

    /// Stops a server gracefully, and kills it if it exceeds the time limit for that. It is not an error if
    /// the server has already exited.
    pub(crate) fn stop(&self, server: Server) -> Result<(), RealError> {
        for started in self.servers.iter().filter(|started| started.server == server) {
            let stopped = started.process.stop();
            stopped.map_err(|source| RealError::Stop { server: server.program(), source })?;
        }
        Ok(())
    }

    /// Sends a signal to a server. It is not an error if the server has already exited.
    pub(crate) fn send(&self, server: Server, signal: Signal) -> Result<(), RealError> {
        for started in self.servers.iter().filter(|started| started.server == server) {
            let sent = started.process.send(signal);
            sent.map_err(|source| RealError::Signal { server: server.program(), source })?;
        }
        Ok(())
    }

    /// Stops all servers, the one started last first, and removes etcd's data, its backup and the state file.
    pub(crate) fn stop_all(self) -> Result<(), RealError> {
        for started in self.servers.iter().rev() {
            self.stop(started.server)?;
        }
        self.remove()
    }

    /// Compacts etcd's history at its newest revision, and waits until the compaction has finished. Returns
    /// the revision.
    pub(crate) fn compact(&self) -> Result<u64, RealError> {
        let refused = |error: &dyn std::fmt::Display| RealError::Compact(error.to_string());
        let key = STANDARD.encode("compaction asks for the revision");
        let (_, response) = self
            .etcd()
            .ask("POST", "/v3/kv/range", &format!(r#"{{"key":"{key}"}}"#))
            .map_err(|error| refused(&error))?;
        let header: serde_json::Value = serde_json::from_str(&response).map_err(|error| refused(&error))?;
        let revision = header["header"]["revision"].as_str().and_then(|revision| revision.parse().ok());
        let revision: u64 = revision.ok_or_else(|| refused(&response))?;
        let request = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        match self.etcd().ask("POST", "/v3/kv/compaction", &request) {
            Ok((200, _)) => Ok(revision),
            // etcd rejects a compaction if nothing was written since the last one. The history is compacted
            // in this case, so the rejection counts as success.
            Ok((_, response)) if response.contains("has been compacted") => Ok(revision),
            Ok((_, response)) => Err(refused(&response)),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Copies the data of etcd to the backup folder, replacing an earlier copy. etcd must be stopped.
    pub(crate) fn backup(&self) -> Result<(), RealError> {
        replace(&self.folder.join(DATA), &self.folder.join(BACKUP))
    }

    /// Replaces the data of etcd with the copy that `backup` made. etcd must be stopped.
    pub(crate) fn restore(&self) -> Result<(), RealError> {
        replace(&self.folder.join(BACKUP), &self.folder.join(DATA))
    }

    pub(crate) fn log(&self, server: Server) -> PathBuf {
        self.folder.join(format!("{}.log", server.program()))
    }

    fn save(&self) -> Result<(), RealError> {
        let path = self.folder.join(STATE);
        let text = serde_json::to_vec_pretty(self).expect("strings and numbers are JSON");
        std::fs::write(&path, text).map_err(failure("cannot write", &path))
    }

    /// Removes the data of etcd, its backup and the state file. Other files in the directory stay.
    fn remove(self) -> Result<(), RealError> {
        for data in [DATA, BACKUP] {
            remove_folder(&self.folder.join(data))?;
        }
        let path = self.folder.join(STATE);
        std::fs::remove_file(&path).map_err(failure("cannot remove", &path))
    }

    fn arguments(&self, server: Server) -> Vec<String> {
        let Ports { etcd, etcd_peer, api } = self.ports;
        let file = |name: &str| self.folder.join(name).display().to_string();
        match server {
            Server::Etcd => vec![
                format!("--data-dir={}", file(DATA)),
                format!("--listen-client-urls=http://127.0.0.1:{etcd}"),
                format!("--advertise-client-urls=http://127.0.0.1:{etcd}"),
                format!("--listen-peer-urls=http://127.0.0.1:{etcd_peer}"),
                "--unsafe-no-fsync=true".to_owned(),
                "--log-level=warn".to_owned(),
            ],
            Server::KubeApiserver => vec![
                format!("--etcd-servers=http://127.0.0.1:{etcd}"),
                format!("--secure-port={api}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", file("certs")),
                format!("--tls-cert-file={}", file("server.crt")),
                format!("--tls-private-key-file={}", file("server.key")),
                format!("--client-ca-file={}", file("ca.crt")),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-key-file={}", file("accounts.pub")),
                format!("--service-account-signing-key-file={}", file("accounts.key")),
                "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
                format!("--token-auth-file={}", file("tokens.csv")),
                "--authorization-mode=RBAC".to_owned(),
                "--allow-privileged=true".to_owned(),
                // The `ServiceAccount` plugin rejects pods whose service account does not exist. Only
                // kube-controller-manager creates service accounts, and servers are often started without it.
                "--disable-admission-plugins=ServiceAccount".to_owned(),
            ],
            Server::KubeControllerManager => vec![
                format!("--kubeconfig={}", file("admin.conf")),
                format!("--service-account-private-key-file={}", file("accounts.key")),
                format!("--root-ca-file={}", file("ca.crt")),
                "--leader-elect=false".to_owned(),
                "--use-service-account-credentials=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
        }
    }
}

impl Ports {
    /// Returns ports that were free at the time of the call. A listener holds each port until all ports are
    /// known, so that no two of them are equal.
    fn free() -> io::Result<Self> {
        let listeners = [0; 3].map(|_| TcpListener::bind(("127.0.0.1", 0)));
        let mut ports = [0; 3];
        for (port, listener) in ports.iter_mut().zip(&listeners) {
            *port = match listener {
                Ok(listener) => listener.local_addr()?.port(),
                Err(error) => return Err(io::Error::other(error.to_string())),
            };
        }
        let [etcd, etcd_peer, api] = ports;
        Ok(Self { etcd, etcd_peer, api })
    }
}

fn failure(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RealError + use<> {
    let path = path.to_owned();
    move |source| RealError::File { what, path, source }
}

fn remove_folder(folder: &Path) -> Result<(), RealError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failure("cannot remove", folder)(error)),
        _ => Ok(()),
    }
}

fn replace(from: &Path, to: &Path) -> Result<(), RealError> {
    remove_folder(to)?;
    copy(from, to).map_err(failure("cannot copy to", to))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    // The copy of a folder is readable only by its owner, because etcd does not start on a data folder that
    // other users can read.
    #[cfg(unix)]
    std::fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?
        } else {
            std::fs::copy(entry.path(), target).map(drop)?
        }
    }
    Ok(())
}
