//! `informer doctor`: checks whether a controller can work with a cluster and a user.
//!
//! The checks run one after the other, and send only reads, reviews of permissions and one short watch.

mod api;
mod certificates;
mod clock;
mod crds;
mod credentials;
mod findings;
mod manifests;
mod permissions;
mod server;
mod streaming;
mod webhooks;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use informer::client::Client;

use self::api::Api;
use self::findings::Findings;
use self::manifests::Manifests;
use crate::connection::ConnectionArguments;
use crate::failure::{Failure, chain};
use crate::watch::period;

/// The default timeout of each request that a check sends.
const REQUEST_TIMEOUT: &str = "10s";

/// Check whether a controller can work with a cluster and a user.
///
/// Each check prints a line with `ok`, `warning` or `problem`, and a remedy. The server and the user are
/// those of the kubeconfig (KUBECONFIG or ~/.kube/config, or the service account inside a cluster). Nothing
/// is changed in the cluster.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  informer doctor
      The cluster and the user of the kubeconfig.
  informer doctor --role config/rbac/role.yaml --crd config/crd/ --leader-election -n web
      Whether the user has the permissions of a role, and the CRDs are served.
  informer doctor --as system:serviceaccount:web:website-operator --role config/rbac/role.yaml
      The same for the service account of the operator.
  informer doctor -o json | jq '.checks[] | select(.level != \"ok\")'
      All warnings and problems, for programs.

Checks:
  kubeconfig      it is readable, and its context exists
  tls             the CA certificates are valid
  server          it is reachable; its version is near that of the Kubernetes types
  credentials     the server accepts them; certificates and tokens have not expired
  permissions     Leases, Events, and those of --role and --crd
  crds            they are established, and serve the versions of --crd
  webhooks        their services exist and have endpoints; their CA bundles are valid
  clock           the clocks of server and client agree
  fairness        requests are not rejected with 429; the flow schema of the user
  streaming-lists the server supports streaming lists (WatchList)

Exit codes:
  0  no check found a problem; there may be warnings
  1  a check found a problem
  2  wrong usage")]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    connection: ConnectionArguments,
    /// The namespace of the controller, for its Leases and Events; by default that of the kubeconfig. Kinds
    /// of --crd that the user can watch only in this namespace are then a warning and not a problem.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Check that the user can watch Leases, as standbys do to take over as soon as a Lease is released.
    #[arg(long)]
    leader_election: bool,
    /// Check that the user has the permissions of the Roles and ClusterRoles in this file, or in the files of
    /// this directory. Can be repeated.
    #[arg(long = "role", value_name = "FILE|DIR")]
    roles: Vec<PathBuf>,
    /// Check that the server serves the CRDs in this file, or in the files of this directory, and that the
    /// user can watch their objects. Can be repeated.
    #[arg(long = "crd", value_name = "FILE|DIR")]
    crds: Vec<PathBuf>,
    /// The format of the findings.
    #[arg(short, long, value_enum, default_value_t)]
    output: DoctorOutput,
    /// The timeout of each request, for example `500ms`, `5s` or `1m`.
    #[arg(long, value_name = "DURATION", value_parser = period::parse, default_value = REQUEST_TIMEOUT)]
    timeout: Duration,
}

/// The namespace in which the permissions of the controller are checked, and the features it uses.
struct Scope<'a> {
    /// The namespace of its Leases and Events.
    namespace: &'a str,
    /// True if the namespace is an option of the command line. The controller may then be restricted to it.
    is_explicit: bool,
    leader_election: bool,
}

/// The output format of `informer doctor`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DoctorOutput {
    /// One line for each check.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// Runs all checks of `informer doctor`, and prints their results. Returns a failure as the exit code if a
/// check found a problem.
pub(crate) async fn run(arguments: DoctorArguments) -> Result<ExitCode, Failure> {
    let roles = Manifests::read(&arguments.roles, &["Role", "ClusterRole"])?;
    let crds = Manifests::read(&arguments.crds, &["CustomResourceDefinition"])?;
    let mut findings = Findings::new(arguments.output == DoctorOutput::Text);
    check(&arguments, &roles, &crds, &mut findings).await;
    Ok(findings.finish())
}

async fn check(arguments: &DoctorArguments, roles: &Manifests, crds: &Manifests, findings: &mut Findings) {
    let config = match arguments.connection.config().await {
        Ok(config) => config,
        Err(failure) => {
            let remedy = "set KUBECONFIG or --kubeconfig to a readable file, or name a server with --server";
            return findings.problem("kubeconfig", failure.to_string(), remedy);
        }
    };
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    findings.ok("kubeconfig", format!("server {}, namespace {namespace}", config.cluster_url));
    let client = match Client::new(config.clone()) {
        Ok(client) => client,
        Err(error) => {
            let remedy = "repair the certificates and credentials of the user in the kubeconfig";
            return findings.problem("kubeconfig", chain(&error), remedy);
        }
    };
    // The checks of TLS and of expiry read only the kubeconfig. They run before the first request, because
    // they can explain why the server is unreachable.
    credentials::check_tls(&config, clock::now(), findings);
    credentials::check_expiry(&config.auth_info, clock::now(), findings);
    let api = Api::new(client, arguments.timeout);
    if !server::check(&api, findings).await || !credentials::check(&api, &config, findings).await {
        return;
    }
    let scope = Scope {
        namespace: &namespace,
        is_explicit: arguments.namespace.is_some(),
        leader_election: arguments.leader_election,
    };
    permissions::check(&api, &scope, roles, crds, findings).await;
    crds::check(&api, crds, findings).await;
    webhooks::check(&api, clock::now(), findings).await;
    streaming::check(&api, &scope, crds, findings).await;
    clock::check(&api.samples(), findings);
    server::check_fairness(&api, findings).await;
}
