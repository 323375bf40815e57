//! The command-line options that select the API server and the user, and the client that is created from
//! them.

use std::path::PathBuf;

use clap::Args;
use informer::client::Client;
use informer::kube_client::Config;
use informer::kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::failure::{Failure, chain};

/// Selects the API server and the user.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectionArguments {
    /// The URL of the server, for example `http://127.0.0.1:8001`; no kubeconfig is then read.
    #[arg(long, value_name = "URL", value_parser = server_url)]
    pub(crate) server: Option<http::Uri>,
    /// The kubeconfig; by default KUBECONFIG or ~/.kube/config, or the service account inside a cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; by default its current context.
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    pub(crate) context: Option<String>,
    /// Send all requests as this user (impersonation), for example `alice` or
    /// `system:serviceaccount:NAMESPACE:NAME`.
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,
    /// Send all requests as a member of this group; requires --as. Can be repeated.
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    as_groups: Vec<String>,
}

pub(crate) fn server_url(text: &str) -> Result<http::Uri, String> {
    let advice = "write it as http://127.0.0.1:8001";
    let url: http::Uri = text.parse().map_err(|error| format!("not a URL ({error}); {advice}"))?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => Ok(url),
        _ => Err(format!("not the URL of a server; {advice}")),
    }
}

impl ConnectionArguments {
    /// Returns a client for the server of `--server` or of the kubeconfig that the options select. Without
    /// these options, the client uses the default kubeconfig, or the service account inside a cluster.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let Self { server, kubeconfig, context, as_user, .. } = self;
        if server.is_none() && kubeconfig.is_none() && context.is_none() && as_user.is_none() {
            return Client::try_default().await.map_err(|error| {
                let (advice, whole) = (error.to_string(), chain(&error));
                let causes = whole.strip_prefix(&advice).unwrap_or_default();
                Failure::new(format!("{advice}, or name a server with --server{causes}"))
            });
        }
        Client::new(self.config().await?).map_err(|error| Failure::new(chain(&error)))
    }

    /// Returns the configuration with which [`client`](Self::client) creates a client.
    pub(crate) async fn config(&self) -> Result<Config, Failure> {
        let Self { server, kubeconfig, context, as_user, as_groups } = self;
        let mut config = match server {
            Some(url) => Config::new(url.clone()),
            None if kubeconfig.is_none() && context.is_none() => {
                let failed = |error| Failure::new(format!("no server: {}", chain(&error)));
                Config::infer().await.map_err(failed)?
            }
            None => {
                let invalid = |error: &dyn std::error::Error| {
                    Failure::new(format!("the kubeconfig cannot be used: {}", chain(error)))
                };
                let file = match kubeconfig {
                    Some(file) => Kubeconfig::read_from(file),
                    None => Kubeconfig::read(),
                };
                let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
                let file = file.map_err(|error| invalid(&error))?;
                let authority = authority_file(&file, context.as_deref());
                Config::from_custom_kubeconfig(file, &options).await.map_err(|error| {
                    match (&error, authority) {
                        (KubeconfigError::ParseCertificates(_), Some(path)) => Failure::new(format!(
                            "the kubeconfig cannot be used: there is no valid CA certificate in {path}: {}",
                            chain(&error)
                        )),
                        _ => invalid(&error),
                    }
                })?
            }
        };
        if as_user.is_some() {
            config.auth_info.impersonate.clone_from(as_user);
            config.auth_info.impersonate_groups = Some(as_groups.clone()).filter(|groups| !groups.is_empty());
        }
        Ok(config)
    }
}

/// Returns the path of the CA certificate file of the cluster of a context, by default of the current one, if
/// the kubeconfig names a file.
fn authority_file(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    cluster.certificate_authority.clone().filter(|_| cluster.certificate_authority_data.is_none())
}
