//! Reads settings of a kubeconfig that `kube_client::Config` discards.

use std::path::PathBuf;

use kube_client::config::Kubeconfig;

/// Returns the path of the CA certificate file of the kubeconfig's current cluster, if the kubeconfig names
/// one. `kube_client::Config` keeps only the content of the file, which becomes obsolete when the CA is
/// rotated.
pub(super) fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| &context.name == current)?.context.as_ref()?;
    let cluster =
        kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.as_ref()?;
    let inline = cluster.certificate_authority_data.is_some();
    cluster.certificate_authority.as_ref().filter(|_| !inline).map(PathBuf::from)
}

#[cfg(test)]
mod tests;
