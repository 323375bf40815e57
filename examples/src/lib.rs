//! Shared set-up of the examples: the embedded server, or the cluster that `KUBECONFIG` names.
