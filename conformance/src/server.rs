//! The servers on which the suite runs, and the operations on servers that scenarios use.

mod access;
mod embedded;
mod process;
mod real;

use std::net::SocketAddr;
use std::time::Duration;

use informer::Gvr;
use informer::client::ClientError;
use informer_apiserver::{ExtraFieldError, SnapshotError, TlsError};
use serde_json::Value;
use thiserror::Error;

pub use embedded::Embedded;
pub use process::Spawned;
pub use real::Real;

use crate::Api;

/// A server on which the suite runs.
#[derive(Debug)]
pub enum Server {
    /// `informer-apiserver` in this process, on a socket.
    Embedded(Embedded),
    /// `informer serve` in a separate process, which can be killed.
    Spawned(Spawned),
    /// kube-apiserver with etcd, as started by `cargo xtask real up`.
    Real(Real),
}

/// The error of a failed operation on a server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// This kind of server does not support the operation.
    #[error("this server does not support {0}")]
    Unknown(&'static str),
    /// A file of the server cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The path of the file that cannot be read or written.
        path: String,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
    /// The kubeconfig of the server cannot be used.
    #[error("cannot use the kubeconfig {path}")]
    Kubeconfig {
        /// The path of the kubeconfig file.
        path: String,
        /// The error of the kubeconfig parser.
        #[source]
        source: kube_client::config::KubeconfigError,
    },
    /// No client can be created from the configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A command of `cargo xtask real` failed.
    #[error("{command} failed: {output}")]
    Control {
        /// The command that failed.
        command: String,
        /// The output of the failed command.
        output: String,
    },
    /// A socket of the embedded server or of a proxy cannot be opened.
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
    /// The embedded server cannot listen over TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The fields of a newer server version cannot be added to the schema table of the embedded server.
    #[error(transparent)]
    Fields(#[from] ExtraFieldError),
    /// The state of the embedded server cannot be restored.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A request of the suite to the server failed.
    #[error(transparent)]
    Api(#[from] crate::ApiError),
}

/// A custom kind that a scenario needs. Its schema accepts any object.
#[derive(Clone, Debug)]
pub(crate) struct CustomKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    /// The versions of the kind. The first one is the storage version.
    pub(crate) versions: Vec<&'static str>,
}

impl CustomKind {
    pub(crate) fn gvr(&self, version: &str) -> Gvr {
        Gvr::new(&*self.group, version, &*self.plural)
    }

    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl Server {
    /// Returns the name of the server for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embedded(server) if server.is_newer() => "newer embedded",
            Self::Embedded(_) => "embedded",
            Self::Spawned(_) => "embedded, in a process of its own",
            Self::Real(_) => "real",
        }
    }

    /// Returns true if the server's objects have fields that the client's compiled schema table does not
    /// know.
    pub(crate) fn is_newer(&self) -> bool {
        matches!(self, Self::Embedded(server) if server.is_newer())
    }

    /// Returns true if the server has a coordinator of leader elections, which watches LeaseCandidates.
    pub(crate) fn has_coordinator(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Embedded(server) => server.address(),
            Self::Spawned(server) => server.address(),
            Self::Real(server) => server.address(),
        }
    }

    /// Stops the API server and keeps its data.
    ///
    /// # Errors
    ///
    /// When the API server does not stop.
    pub async fn stop(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => {
                server.stop().await;
                Ok(())
            }
            Self::Spawned(server) => server.stop().await,
            Self::Real(server) => server.control(&["stop", "kube-apiserver"]).await,
        }
    }

    /// Kills the API server. Unsent responses are lost, and so is all state that exists only in memory.
    ///
    /// # Errors
    ///
    /// When the API server cannot be killed, or does not run in a separate process.
    pub async fn kill(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(_) => Err(ServerError::Unknown("termination by a signal")),
            Self::Spawned(server) => server.kill().await,
            Self::Real(server) => server.control(&["kill", "kube-apiserver"]).await,
        }
    }

    /// Pauses the process of the API server. Its connections stay open and deliver nothing.
    ///
    /// # Errors
    ///
    /// When the server does not run in a separate process.
    pub async fn pause(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(_) => Err(ServerError::Unknown("pausing by a signal")),
            Self::Spawned(server) => server.pause(),
            Self::Real(server) => server.control(&["pause", "kube-apiserver"]).await,
        }
    }

    /// Resumes a paused API server.
    ///
    /// # Errors
    ///
    /// When the server does not run in a separate process.
    pub async fn resume(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(_) => Err(ServerError::Unknown("pausing by a signal")),
            Self::Spawned(server) => server.resume(),
            Self::Real(server) => server.control(&["resume", "kube-apiserver"]).await,
        }
    }

    /// Starts the API server again, at the same address.
    ///
    /// # Errors
    ///
    /// When the API server does not start.
    pub async fn start(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => server.start().await,
            Self::Spawned(server) => server.start().await,
            Self::Real(server) => server.control(&["start", "kube-apiserver"]).await,
        }
    }

    /// Compacts the history of the server: older resource versions become unavailable.
    ///
    /// # Errors
    ///
    /// When the server rejects the compaction.
    pub async fn compact(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => {
                server.api().compact();
                Ok(())
            }
            Self::Spawned(_) => Err(ServerError::Unknown("compaction")),
            Self::Real(server) => server.control(&["compact"]).await,
        }
    }

    /// Saves the present state of the server for [`restore`](Self::restore).
    ///
    /// # Errors
    ///
    /// When the server cannot save its state.
    pub async fn backup(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => {
                server.backup();
                Ok(())
            }
            Self::Spawned(server) => server.backup().await,
            Self::Real(server) => server.control(&["backup"]).await,
        }
    }

    /// Restores the state saved by [`backup`](Self::backup). The server then assigns resource versions again
    /// that it had assigned to other changes after the backup.
    ///
    /// # Errors
    ///
    /// When the server cannot restore the state.
    pub async fn restore(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => server.restore(),
            Self::Spawned(server) => server.restore().await,
            Self::Real(server) => server.control(&["restore"]).await,
        }
    }

    /// Restarts the storage backend of the API server. The API server and its clients keep running.
    ///
    /// # Errors
    ///
    /// When the state cannot be restored.
    pub async fn restart_store(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => server.restart_store(),
            Self::Spawned(_) => Err(ServerError::Unknown("a separate storage backend")),
            Self::Real(server) => server.control(&["restart", "etcd"]).await,
        }
    }

    /// Creates the CRD of a custom kind, and waits until the server serves the kind.
    pub(crate) async fn define(api: &Api, kind: &CustomKind) -> Result<(), ServerError> {
        api.create(&definitions(), "", &definition(kind)).await?;
        for version in &kind.versions {
            // The server sends no notification when it starts to serve a kind, so this polls. The time limit
            // of the scenario ends the loop.
            while api.list(&kind.gvr(version), "default").await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }
}

pub(crate) fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

pub(crate) fn definition(kind: &CustomKind) -> Value {
    let schema = serde_json::json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }});
    let versions: Vec<Value> = kind.versions.iter().enumerate().map(|(index, version)| {
        serde_json::json!({"name": version, "served": true, "storage": index == 0, "schema": schema})
    }).collect();
    serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name()},
        "spec": {
            "group": kind.group, "scope": "Namespaced", "versions": versions,
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.to_lowercase()},
        },
    })
}
