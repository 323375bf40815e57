//! Kubeconfigs and clients for a server: for the administrator and for other users, by token, by certificate,
//! or anonymously.

use std::net::SocketAddr;
use std::path::Path;

use informer::client::Client;
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::{Embedded, Server, ServerError};

#[derive(Clone, Copy, Debug)]
enum Credential {
    Token,
    Certificate,
}

impl Server {
    /// Returns the administrator's configuration for the server at an address, which may be that of a
    /// [`Cable`](crate::Cable).
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be used.
    pub async fn config(&self, via: SocketAddr) -> Result<Config, ServerError> {
        configure(self.access(Credential::Token, via)?).await
    }

    /// Returns a kubeconfig of the administrator for the server at an address, for programs of any client
    /// library.
    ///
    /// # Errors
    ///
    /// When the real server's kubeconfig cannot be read.
    pub fn kubeconfig(&self, via: SocketAddr) -> Result<String, ServerError> {
        Ok(self.text(Credential::Token)?.replace(&self.address().to_string(), &via.to_string()))
    }

    /// Returns a client of the administrator with its own connections.
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be used.
    pub async fn client(&self, via: SocketAddr) -> Result<Client, ServerError> {
        Ok(Client::new(self.config(via).await?)?)
    }

    pub(crate) async fn config_by_certificate(&self, via: SocketAddr) -> Result<Config, ServerError> {
        configure(self.access(Credential::Certificate, via)?).await
    }

    /// Returns the configuration of a user whose token is in a file; without a file, that of an anonymous
    /// user.
    pub(crate) async fn config_by_token_file(
        &self,
        via: SocketAddr,
        token: Option<&Path>,
    ) -> Result<Config, ServerError> {
        let mut kubeconfig = self.access(Credential::Token, via)?;
        for user in kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
            user.token = None;
            user.token_file = token.map(|path| path.display().to_string());
        }
        configure(kubeconfig).await
    }

    /// Returns the token of a user. The users are `admin` and `guest-0` to `guest-7`.
    pub(crate) fn token_of(&self, user: &str) -> Result<String, ServerError> {
        match self {
            Self::Embedded(_) => Ok(Embedded::token_of(user)),
            Self::Spawned(_) => Err(ServerError::Unknown("users")),
            Self::Real(server) => server.token_of(user),
        }
    }

    fn text(&self, by: Credential) -> Result<String, ServerError> {
        match (self, by) {
            (Self::Embedded(server), by) => Ok(server.kubeconfig(matches!(by, Credential::Certificate)).to_owned()),
            (Self::Spawned(_), Credential::Certificate) => Err(ServerError::Unknown("users")),
            (Self::Spawned(server), Credential::Token) => Ok(serde_json::json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "embedded",
                "clusters": [{"name": "embedded", "cluster": {"server": format!("http://{}", server.address())}}],
                "users": [{"name": "nobody", "user": {}}],
                "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "nobody"}}],
            })
            .to_string()),
            (Self::Real(server), Credential::Token) => server.text("admin.conf"),
            (Self::Real(server), Credential::Certificate) => server.text("certificate.conf"),
        }
    }

    fn access(&self, by: Credential, via: SocketAddr) -> Result<Kubeconfig, ServerError> {
        let text = self.text(by)?.replace(&self.address().to_string(), &via.to_string());
        Kubeconfig::from_yaml(&text).map_err(unusable)
    }
}

async fn configure(kubeconfig: Kubeconfig) -> Result<Config, ServerError> {
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(unusable)
}

fn unusable(source: KubeconfigError) -> ServerError {
    ServerError::Kubeconfig { path: "(of the server)".to_owned(), source }
}
