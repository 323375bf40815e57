use crate::model::kinds::{KindDefinition, Traits};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    /// The kind in the request and response bodies of the subresource, if it is not the kind of the object.
    pub(crate) of: Option<SubresourceKind>,
    pub(crate) verbs: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubresourceKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// True if discovery reports the group and version of this kind.
    pub(crate) foreign: bool,
}

/// Subresources whose requests kube-apiserver forwards to a kubelet, a pod or a service.
const FORWARDED: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Subresources whose requests open a connection. Admission reviews them with the operation CONNECT.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

impl Subresource {
    pub(crate) fn of(sub: informer_schema::SubresourceInfo) -> Self {
        let informer_schema::ResponseKind { group, version, kind, foreign } = sub.response_kind;
        let of = Some(SubresourceKind { group, version, kind, foreign });
        Self { name: sub.name, of, verbs: sub.verbs.collect() }
    }

    fn own(name: &'static str) -> Self {
        Self { name, of: None, verbs: vec!["get", "patch", "update"] }
    }

    pub(crate) fn is_forwarded(name: &str) -> bool {
        FORWARDED.contains(&name)
    }

    pub(crate) fn is_connection(name: &str) -> bool {
        CONNECTIONS.contains(&name)
    }
}

impl KindDefinition {
    /// Returns the subresources of the kind in discovery order.
    pub(crate) fn subresources(&self) -> Vec<Subresource> {
        if !self.is_custom() {
            return self.subresources.clone();
        }
        let mut all = Vec::new();
        if self.scale.is_some() {
            let of = SubresourceKind { group: "autoscaling", version: "v1", kind: "Scale", foreign: true };
            all.push(Subresource { of: Some(of), ..Subresource::own("scale") });
        }
        if self.traits.has(Traits::STATUS) {
            all.push(Subresource::own("status"));
        }
        all
    }
}
