use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use informer::Gvr;
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};

use super::{CustomKind, ServerError, definition};
use crate::Api;

/// kube-apiserver and etcd in a directory of `cargo xtask real up`.
#[derive(Debug)]
pub struct Real {
    folder: PathBuf,
    /// The program that controls them.
    xtask: PathBuf,
    address: SocketAddr,
}

impl Real {
    /// The servers of a directory, controlled by the program `xtask`.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn new(folder: &Path, xtask: &Path) -> Result<Self, ServerError> {
        let path = folder.join("admin.conf");
        let kubeconfig = read(&path)?;
        let cluster = kubeconfig.clusters.first().and_then(|cluster| cluster.cluster.as_ref());
        let url = cluster.and_then(|cluster| cluster.server.as_deref()).unwrap_or_default();
        let address = url.trim_start_matches("https://").parse().map_err(|_| ServerError::File {
            path: path.display().to_string(),
            source: std::io::Error::other(format!("{url} is no address of this machine")),
        })?;
        Ok(Self { folder: folder.to_owned(), xtask: xtask.to_owned(), address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A file of the servers.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The configuration of a kubeconfig of the servers, by way of another address.
    pub(crate) async fn config(&self, name: &str, via: SocketAddr) -> Result<Config, ServerError> {
        let path = self.file(name);
        let mut kubeconfig = read(&path)?;
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|cluster| cluster.cluster.as_mut()) {
            cluster.server = Some(format!("https://{via}"));
        }
        configure(kubeconfig).await
    }

    /// The administrator's kubeconfig by way of another address.
    pub(super) fn kubeconfig(&self, via: SocketAddr) -> Result<String, ServerError> {
        let path = self.file("admin.conf");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ServerError::File { path: path.display().to_string(), source })?;
        Ok(text.replace(&self.address.to_string(), &via.to_string()))
    }

    /// The configuration of a user who has a token in a file, or none at all.
    pub(crate) async fn config_by_token_file(
        &self,
        via: SocketAddr,
        token: Option<&Path>,
    ) -> Result<Config, ServerError> {
        let mut kubeconfig = read(&self.file("admin.conf"))?;
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|cluster| cluster.cluster.as_mut()) {
            cluster.server = Some(format!("https://{via}"));
        }
        for user in kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
            user.token = None;
            user.token_file = token.map(|path| path.display().to_string());
        }
        configure(kubeconfig).await
    }

    /// The token of a user of the servers' token file.
    pub(crate) fn token_of(&self, user: &str) -> Result<String, ServerError> {
        let path = self.file("tokens.csv");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ServerError::File { path: path.display().to_string(), source })?;
        let mut lines = text.lines().filter_map(|line| line.split_once(','));
        let found = lines.find(|(_, rest)| rest.split(',').next() == Some(user));
        found.map(|(token, _)| token.to_owned()).ok_or(ServerError::File {
            path: path.display().to_string(),
            source: std::io::Error::other(format!("no user {user}")),
        })
    }

    pub(crate) async fn control(&self, command: &[&str]) -> Result<(), ServerError> {
        let output = tokio::process::Command::new(&self.xtask)
            .arg("real")
            .args(command)
            .arg("--dir")
            .arg(&self.folder)
            .output()
            .await?;
        if output.status.success() {
            return Ok(());
        }
        let command = format!("real {}", command.join(" "));
        Err(ServerError::Control { command, output: String::from_utf8_lossy(&output.stderr).into_owned() })
    }
}

fn read(path: &Path) -> Result<Kubeconfig, ServerError> {
    Kubeconfig::read_from(path)
        .map_err(|source| ServerError::Kubeconfig { path: path.display().to_string(), source })
}

async fn configure(kubeconfig: Kubeconfig) -> Result<Config, ServerError> {
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|source| ServerError::Kubeconfig { path: "(of the real server)".to_owned(), source })
}

/// Where definitions are.
pub(crate) fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Creates a definition and waits until its kind can be listed.
pub(super) async fn define(api: &Api, kind: &CustomKind) -> Result<(), ServerError> {
    api.create(&definitions(), "", &definition(kind)).await?;
    for version in &kind.versions {
        // The server says nothing when it begins to serve; the scenario's deadline bounds this.
        while api.list(&kind.gvr(version), "default").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}
