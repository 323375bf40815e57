//! The two servers that the suite runs on, and what scenarios may do to them.

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

/// A server that the suite runs on.
#[derive(Debug)]
pub enum Server {
    /// `informer-apiserver` in this process, on a socket.
    Embedded(Embedded),
    /// `informer serve`, in a process of its own: one that can be killed.
    Spawned(Spawned),
    /// kube-apiserver with etcd, as `cargo xtask real up` starts them.
    Real(Real),
}

/// Something that could not be done to a server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The server of this kind cannot do it.
    #[error("this server knows no {0}")]
    Unknown(&'static str),
    /// A file of the server cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: kube_client::config::KubeconfigError,
    },
    /// No client can be made of the configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A command of `cargo xtask real` failed.
    #[error("{command} failed: {output}")]
    Control {
        /// What was asked.
        command: String,
        /// What it said.
        output: String,
    },
    /// A socket cannot be had.
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
    /// The embedded server cannot listen over TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The fields of a newer server cannot be added to the embedded server's table.
    #[error(transparent)]
    Fields(#[from] ExtraFieldError),
    /// The embedded server's state does not come back.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A request of the suite itself failed.
    #[error(transparent)]
    Api(#[from] crate::ApiError),
}

/// A custom kind that a scenario needs. Its objects may hold anything.
#[derive(Clone, Debug)]
pub(crate) struct CustomKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    /// The first one is stored.
    pub(crate) versions: Vec<&'static str>,
}

impl CustomKind {
    pub(crate) fn gvr(&self, version: &str) -> Gvr {
        Gvr::new(&*self.group, version, &*self.plural)
    }

    /// The name of the definition.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl Server {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embedded(server) if server.is_newer() => "newer embedded",
            Self::Embedded(_) => "embedded",
            Self::Spawned(_) => "embedded, in a process of its own",
            Self::Real(_) => "real",
        }
    }

    /// True if its objects have fields that the client's table does not know.
    pub(crate) fn is_newer(&self) -> bool {
        matches!(self, Self::Embedded(server) if server.is_newer())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Embedded(server) => server.address(),
            Self::Spawned(server) => server.address(),
            Self::Real(server) => server.address(),
        }
    }

    /// Stops the API server; its data stay.
    ///
    /// # Errors
    ///
    /// When it does not stop.
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

    /// Ends the API server without a word: what it has not sent is lost, and what it keeps in memory, too.
    ///
    /// # Errors
    ///
    /// When it cannot be killed, or is no process of its own.
    pub async fn kill(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(_) => Err(ServerError::Unknown("end by a signal")),
            Self::Spawned(server) => server.kill().await,
            Self::Real(server) => server.control(&["kill", "kube-apiserver"]).await,
        }
    }

    /// Holds the process of the API server: its connections stay open, and nothing comes.
    ///
    /// # Errors
    ///
    /// When it is no process of its own.
    pub async fn pause(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(_) => Err(ServerError::Unknown("pause by a signal")),
            Self::Spawned(server) => server.pause(),
            Self::Real(server) => server.control(&["pause", "kube-apiserver"]).await,
        }
    }

    /// Lets a paused API server go on.
    ///
    /// # Errors
    ///
    /// When it is no process of its own.
    pub async fn resume(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(_) => Err(ServerError::Unknown("pause by a signal")),
            Self::Spawned(server) => server.resume(),
            Self::Real(server) => server.control(&["resume", "kube-apiserver"]).await,
        }
    }

    /// Starts the API server at the same address.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn start(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => server.start().await,
            Self::Spawned(server) => server.start().await,
            Self::Real(server) => server.control(&["start", "kube-apiserver"]).await,
        }
    }

    /// Forgets all history: what is older than now is gone.
    ///
    /// # Errors
    ///
    /// When that is refused.
    pub async fn compact(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => {
                server.api().compact();
                Ok(())
            }
            Self::Spawned(_) => Err(ServerError::Unknown("compaction from outside")),
            Self::Real(server) => server.control(&["compact"]).await,
        }
    }

    /// Keeps the present state, to go back to it.
    ///
    /// # Errors
    ///
    /// When that is refused.
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

    /// Goes back to the state that was kept: versions are used again for other changes.
    ///
    /// # Errors
    ///
    /// When that is refused.
    pub async fn restore(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => server.restore(),
            Self::Spawned(server) => server.restore().await,
            Self::Real(server) => server.control(&["restore"]).await,
        }
    }

    /// Stops what the API server keeps its state in, and starts it again; the API server and its clients stay.
    ///
    /// # Errors
    ///
    /// When the state does not come back.
    pub async fn restart_store(&self) -> Result<(), ServerError> {
        match self {
            Self::Embedded(server) => server.restart_store(),
            Self::Spawned(_) => Err(ServerError::Unknown("store apart from it")),
            Self::Real(server) => server.control(&["restart", "etcd"]).await,
        }
    }

    /// Serves a custom kind, and waits until it does.
    pub(crate) async fn define(api: &Api, kind: &CustomKind) -> Result<(), ServerError> {
        api.create(&definitions(), "", &definition(kind)).await?;
        for version in &kind.versions {
            // The server says nothing when it begins to serve; the scenario's deadline bounds this.
            while api.list(&kind.gvr(version), "default").await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }
}

/// Where definitions are.
pub(crate) fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// A definition that lets every object pass.
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
