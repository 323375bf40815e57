//! The subresources of kinds.

use crate::model::kinds::{Kind, Traits};

/// A path below an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    /// Group, version and kind of what is sent and answered, where they are not the object's own.
    pub(crate) of: Option<Of>,
    pub(crate) verbs: Vec<&'static str>,
}

/// What a subresource takes and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Of {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// Whether discovery names group and version.
    pub(crate) foreign: bool,
}

/// They lead to nodes, or change what only nodes do.
const NOWHERE: [&str; 7] = ["attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize"];

impl Subresource {
    /// From the table of the built-in kinds.
    pub(crate) fn of(sub: informer_schema::Subresource) -> Self {
        let informer_schema::ResponseKind { group, version, kind, foreign } = sub.response_kind;
        let of = Some(Of { group, version, kind, foreign });
        Self { name: sub.name, of, verbs: sub.verbs.collect() }
    }

    fn own(name: &'static str) -> Self {
        Self { name, of: None, verbs: vec!["get", "patch", "update"] }
    }

    /// Whether it is known but leads nowhere.
    pub(crate) fn leads_nowhere(name: &str) -> bool {
        NOWHERE.contains(&name)
    }
}

impl Kind {
    /// The subresources that discovery tells of, in its order.
    pub(crate) fn subresources(&self) -> Vec<Subresource> {
        if !self.is_custom() {
            return self.subresources.clone();
        }
        let mut all = Vec::new();
        if self.scale.is_some() {
            let of = Of { group: "autoscaling", version: "v1", kind: "Scale", foreign: true };
            all.push(Subresource { of: Some(of), ..Subresource::own("scale") });
        }
        if self.traits.has(Traits::STATUS) {
            all.push(Subresource::own("status"));
        }
        all
    }
}
