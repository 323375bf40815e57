//! Admission attributes: the user, operation, target and options of a request, but not its objects.

use informer_core::Gvr;
use serde_json::{Value, json};

use crate::model::user::User;

/// The API group of webhook configurations, policies and bindings.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A connection to a subresource such as `pods/exec`.
    Connect,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReviewKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl ReviewKind {
    pub(crate) fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AdmissionAttributes {
    pub(crate) gvr: Gvr,
    /// The kind of the object in the request. For a subresource this can be another kind, for example
    /// `Scale`.
    pub(crate) kind: ReviewKind,
    pub(crate) subresource: String,
    /// The namespace of the written object. For a write to a Namespace object it is the name of that object.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user: User,
    pub(crate) dry_run: bool,
    /// The options of the request as `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions`;
    /// `null` for a connection, whose options are its object.
    pub(crate) options: Value,
    /// The request is a connection to a subresource such as `pods/exec`.
    pub(crate) connects: bool,
}

impl AdmissionAttributes {
    /// Returns the operation of the request. A write is a CREATE without an old object, and a DELETE without
    /// a new object.
    pub(super) fn operation(&self, has_object: bool, has_old: bool) -> Operation {
        match (has_object, has_old) {
            _ if self.connects => Operation::Connect,
            (false, _) => Operation::Delete,
            (true, false) => Operation::Create,
            (true, true) => Operation::Update,
        }
    }

    /// Returns true if the target is an admission policy or binding. Policies and webhooks do not apply to
    /// these writes. Otherwise a broken policy could block the request that repairs it.
    pub(crate) fn is_exempt(&self) -> bool {
        const EXEMPT: [&str; 4] = [
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ];
        self.gvr.group == GROUP && EXEMPT.contains(&self.gvr.resource.as_str())
    }

    /// Returns true if the target is a webhook configuration. Policies apply to these writes, but webhooks do
    /// not, so that a broken webhook can always be removed.
    pub(super) fn is_webhook_configuration(&self) -> bool {
        const CONFIGURATIONS: [&str; 2] =
            ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
        self.gvr.group == GROUP && CONFIGURATIONS.contains(&self.gvr.resource.as_str())
    }

    /// Returns true for TokenReview and the access reviews. Admission policies do not apply to them, because
    /// authentication and authorization of the cluster depend on their results.
    pub(super) fn is_review(&self) -> bool {
        let review = self.gvr.resource.ends_with("reviews");
        review && matches!(self.gvr.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
    }

    pub(super) fn is_namespace(&self) -> bool {
        self.gvr.group.is_empty() && self.gvr.resource == "namespaces"
    }

    /// Returns the request options for `operation`, for example `CreateOptions`. An update or patch request
    /// may create the object and then has options of another type.
    pub(super) fn options(&self, operation: Operation) -> Value {
        let mut options = self.options.clone();
        if operation == Operation::Create {
            options["kind"] = "CreateOptions".into();
        }
        options
    }
}

pub(super) fn resource_json(gvr: &Gvr) -> Value {
    json!({"group": gvr.group, "version": gvr.version, "resource": gvr.resource})
}
