//! The subresources of kinds.

use super::{Kind, Traits};

/// A path below an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    /// Group, version and kind of what is sent and answered, where they are not the object's own.
    pub(crate) of: Option<(&'static str, &'static str, &'static str)>,
    pub(crate) verbs: &'static [&'static str],
}

const READ_WRITE: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];

const STATUS: Subresource = Subresource { name: "status", of: None, verbs: READ_WRITE };
const SCALE: Subresource =
    Subresource { name: "scale", of: Some(("autoscaling", "v1", "Scale")), verbs: READ_WRITE };
const FINALIZE: Subresource = Subresource { name: "finalize", of: None, verbs: &["update"] };
const BINDING: Subresource = Subresource { name: "binding", of: Some(("", "v1", "Binding")), verbs: CREATE };
const EVICTION: Subresource =
    Subresource { name: "eviction", of: Some(("policy", "v1", "Eviction")), verbs: CREATE };
const TOKEN: Subresource =
    Subresource { name: "token", of: Some(("authentication.k8s.io", "v1", "TokenRequest")), verbs: CREATE };

impl Kind {
    /// The subresources that are served, in the order of discovery.
    pub(crate) fn subresources(&self) -> Vec<Subresource> {
        let mut all = Vec::new();
        if !self.is_custom() {
            match (self.gvr.group.as_str(), self.kind.as_str()) {
                ("", "Pod") => all.extend([BINDING, EVICTION]),
                ("", "Namespace") => all.push(FINALIZE),
                ("", "ServiceAccount") => all.push(TOKEN),
                ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController") => {
                    all.push(SCALE);
                }
                _ => {}
            }
        }
        if self.scale.is_some() {
            all.push(SCALE);
        }
        if self.traits.has(Traits::STATUS) {
            all.push(STATUS);
        }
        all
    }
}
