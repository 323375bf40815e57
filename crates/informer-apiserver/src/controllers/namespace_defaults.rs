//! The objects of each namespace: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`. In a
//! cluster, the service account controller and the root CA publisher of kube-controller-manager maintain
//! them.

use informer_core::Gvr;
use serde_json::{Value, json};

use crate::admission::Scope;
use crate::controllers::ControllerManager;
use crate::model::json::parse;
use crate::model::write_options::WriteMode;
use crate::pipeline::ready::ready;
use crate::pipeline::{ACCOUNT, NAMESPACE_DEFAULTS_MANAGER, ROOT_CA};

/// The text that kube-controller-manager writes to the annotation of the ConfigMap.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
    internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed \
    across distributions of Kubernetes clusters.";

impl ControllerManager {
    /// Creates the objects of a namespace that do not exist, and restores the data of the ConfigMap. Does
    /// nothing if the namespace does not exist or is being deleted.
    pub(crate) fn sync_namespace_defaults(&self, namespace: &str) {
        let Some(root_ca) = self.root_ca.clone() else { return };
        let Ok(namespaces) = self.resource(&Gvr::new("", "v1", "namespaces")) else { return };
        if !self.find(&namespaces, None, namespace).is_ok_and(|stored| !stored.terminating) {
            return;
        }
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
        self.ensure("serviceaccounts", namespace, account);
        let bundle = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": DESCRIPTION}},
            "data": {"ca.crt": &*root_ca},
        });
        self.ensure("configmaps", namespace, bundle);
    }

    /// Creates an object, or updates it if its `data` differs. An error is ignored. If another write deleted
    /// the namespace or changed the object, it has queued the namespace again. If a ResourceQuota rejects the
    /// object, the next write of the namespace or of its default objects tries again.
    fn ensure(&self, resource: &str, namespace: &str, wanted: Value) {
        let Ok(resource) = self.resource(&Gvr::new("", "v1", resource)) else { return };
        let scope =
            Scope { manager: Some(NAMESPACE_DEFAULTS_MANAGER), ..Scope::new(&resource, Some(namespace)) };
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match self.find(&resource, Some(namespace), &name) {
            Err(_) => drop(ready(self.create(scope, wanted, WriteMode::Main))),
            Ok(stored) if stored.terminating => {}
            Ok(stored) => {
                let mut object = parse(stored.as_slice());
                if object["data"] != wanted["data"] {
                    object["data"] = wanted["data"].clone();
                    drop(ready(self.update(scope, &name, object, WriteMode::Main)));
                }
            }
        }
    }
}
