use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kube_client::config::Kubeconfig;

use super::ServerError;

/// A kube-apiserver and an etcd whose files are in a directory of `cargo xtask real up`.
#[derive(Debug)]
pub struct Real {
    folder: PathBuf,
    xtask: PathBuf,
    address: SocketAddr,
}

impl Real {
    /// Uses the kube-apiserver and the etcd whose files are in a directory. The program `xtask` starts and
    /// stops them.
    ///
    /// # Errors
    ///
    /// When the directory contains no servers.
    pub fn new(folder: &Path, xtask: &Path) -> Result<Self, ServerError> {
        let path = folder.join("admin.conf");
        let kubeconfig = read(&path)?;
        let cluster = kubeconfig.clusters.first().and_then(|cluster| cluster.cluster.as_ref());
        let url = cluster.and_then(|cluster| cluster.server.as_deref()).unwrap_or_default();
        let address = url.trim_start_matches("https://").parse().map_err(|_| ServerError::File {
            path: path.display().to_string(),
            source: std::io::Error::other(format!("{url} is not an IP address and port")),
        })?;
        Ok(Self { folder: folder.to_owned(), xtask: xtask.to_owned(), address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn text(&self, name: &str) -> Result<String, ServerError> {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path)
            .map_err(|source| ServerError::File { path: path.display().to_string(), source })
    }

    pub(crate) fn token_of(&self, user: &str) -> Result<String, ServerError> {
        let text = self.text("tokens.csv")?;
        let mut lines = text.lines().filter_map(|line| line.split_once(','));
        let found = lines.find(|(_, rest)| rest.split(',').next() == Some(user));
        found.map(|(token, _)| token.to_owned()).ok_or(ServerError::File {
            path: self.folder.join("tokens.csv").display().to_string(),
            source: std::io::Error::other(format!("unknown user {user}")),
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
