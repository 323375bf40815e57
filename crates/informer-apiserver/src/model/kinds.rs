//! The kinds that the server serves: the built-in ones and those that the embedding program registers.

pub(crate) mod admissionregistration;
pub(crate) mod apiextensions;
pub(crate) mod apiregistration;
pub(crate) mod apps;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod certificates;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod descriptor;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod flowcontrol;
pub(crate) mod networking;
pub(crate) mod node;
pub(crate) mod policy;
pub(crate) mod rbac;
mod registry;
pub(crate) mod resource;
pub(crate) mod scheduling;
pub(crate) mod storage;
mod strategy;
mod subresources;
mod table;
mod workload;

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value};

use descriptor::KindDescriptor;
pub(crate) use registry::built_in;
pub(crate) use subresources::Subresource;

use crate::model::schema::{ScalePaths, Schema};
use crate::model::table::PrinterColumn;

/// A kind that the server serves.
///
/// ```
/// use informer_apiserver::KindDefinition;
///
/// let website =
///     KindDefinition::custom("example.com", "v1", "Website").short_names(["site"]).selectable(["spec.host"]);
/// assert_eq!(website.gvr().to_string(), "websites.v1.example.com");
/// ```
#[derive(Debug, Clone)]
pub struct KindDefinition {
    pub(crate) gvr: Gvr,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) selectable: Vec<String>,
    pub(crate) traits: Traits,
    /// The JSON of a bookmark object after its metadata. Built-in kinds only.
    pub(crate) bookmark: &'static str,
    /// The hash of the storage version, as reported in discovery. Built-in kinds only.
    pub(crate) storage_hash: &'static str,
    /// Built-in kinds: the supported verbs.
    pub(crate) verbs: Vec<&'static str>,
    /// Built-in kinds: the subresources.
    pub(crate) subresources: Vec<Subresource>,
    /// The JSON paths of the `/scale` subresource. Custom kinds only.
    pub(crate) scale: Option<ScalePaths>,
    /// The columns of a `Table` of this kind. For a custom kind the name column comes before them.
    pub(crate) columns: Vec<PrinterColumn>,
    pub(crate) schema: Option<Arc<Schema>>,
    pub(crate) deprecated: Option<String>,
    pub(crate) descriptor: &'static KindDescriptor,
}

/// Flags for the behavior of a kind that differs from kind to kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traits(pub(crate) u32);

impl Traits {
    pub(crate) const NONE: Self = Self(0);
    /// The kind is a custom resource: its keys are sorted, `apiVersion` and `kind` are required, and 404
    /// responses differ.
    pub(crate) const CUSTOM: Self = Self(1);
    /// The kind has a `/status` subresource, and writes to the main resource ignore changes of `status`.
    pub(crate) const STATUS: Self = Self(2);
    /// `metadata.generation` is incremented when the spec changes.
    pub(crate) const GENERATION: Self = Self(4);
    /// DELETE returns the deleted object instead of a Status.
    pub(crate) const RETURNS_DELETED: Self = Self(8);
    /// PUT creates the object if it does not exist.
    pub(crate) const UPSERT: Self = Self(16);
    /// PUT without a `metadata.resourceVersion` is rejected.
    pub(crate) const NEEDS_VERSION: Self = Self(32);
    /// The kind declares the fields that field selectors support, and the error for another field differs
    /// from that of most kinds.
    pub(crate) const OWN_FIELDS: Self = Self(64);
    /// The kind is a review: it is not stored and supports only `create`.
    pub(crate) const REVIEW: Self = Self(256);
    /// The `/status` subresource can also change labels, annotations and finalizers.
    pub(crate) const STATUS_METADATA: Self = Self(512 | Self::STATUS.0);

    /// `metadata.generation` is also incremented when annotations change.
    pub(crate) const ANNOTATIONS_COUNT: Self = Self(128);
    /// Objects of the kind expire after some time, and lists are not served from the watch cache.
    pub(crate) const EXPIRES: Self = Self(1024);
    /// A create keeps the `status` that the client sends.
    pub(crate) const STATUS_ON_CREATE: Self = Self(2048);
    /// Field selectors of the kind do not support `metadata.namespace`.
    pub(crate) const NO_NAMESPACE_FIELD: Self = Self(4096);
    /// The `/status` subresource does not change labels, even if it can change other metadata.
    pub(crate) const STATUS_KEEPS_LABELS: Self = Self(8192);
    /// A deletion has a grace period: it first marks the object, which is removed later.
    pub(crate) const GRACEFUL: Self = Self(16384);

    /// The names of finalizers need no domain.
    pub(crate) const UNQUALIFIED_FINALIZERS: Self = Self(32_768);
    /// An update is validated like a new object, which includes `metadata.generateName`.
    pub(crate) const REVALIDATES_METADATA: Self = Self(65_536);

    pub(crate) const SPEC_STATUS: Self = Self::STATUS.with(Self::GENERATION);
    pub(crate) const SPEC_STATUS_METADATA: Self = Self::SPEC_STATUS.with(Self::STATUS_METADATA);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl KindDefinition {
    /// Creates a namespaced custom resource with a `/status` subresource. Its plural is the lower-case kind
    /// with an `s`.
    pub fn custom(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        let kind = kind.into();
        let singular = kind.to_lowercase();
        let gvr = Gvr::new(group, version, format!("{singular}s"));
        Self {
            api_version: gvr.api_version(),
            gvr,
            list_kind: format!("{kind}List"),
            singular,
            kind,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            selectable: Vec::new(),
            traits: Traits::CUSTOM
                .with(Traits::STATUS)
                .with(Traits::GENERATION)
                .with(Traits::NEEDS_VERSION)
                .with(Traits::OWN_FIELDS),
            bookmark: "",
            storage_hash: "",
            verbs: Vec::new(),
            subresources: Vec::new(),
            scale: None,
            columns: Vec::new(),
            schema: None,
            deprecated: None,
            descriptor: &descriptor::CUSTOM,
        }
    }

    /// Sets the plural name, if it is not the lower-case kind with an `s`.
    pub fn plural(mut self, plural: impl Into<String>) -> Self {
        self.gvr.resource = plural.into();
        self
    }

    /// Sets the short names of the kind for discovery.
    pub fn short_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.short_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the fields that field selectors support, for example `spec.host`.
    pub fn selectable(mut self, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.selectable = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Makes the kind cluster-scoped.
    pub fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// Removes the `/status` subresource: the main endpoint writes `status` like any other field.
    pub fn without_status(mut self) -> Self {
        self.traits.0 &= !Traits::STATUS.0;
        self
    }

    /// Returns group, version and resource.
    pub fn gvr(&self) -> &Gvr {
        &self.gvr
    }

    /// Returns the kind, for example `Website`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn expires(&self) -> bool {
        self.traits.has(Traits::EXPIRES)
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.traits.has(Traits::CUSTOM)
    }

    /// Returns the resource as it appears in error messages: `pods` or `deployments.apps`.
    pub(crate) fn qualified_resource(&self) -> String {
        qualify(&self.gvr.resource, &self.gvr.group)
    }

    /// Returns the kind as it appears in validation messages: `Pod` or `Deployment.apps`.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.gvr.group)
    }

    /// Returns the Go package of the kind's type as it appears in error messages: `core` or `apps`.
    pub(crate) fn go_package(&self) -> &str {
        match (self.is_custom(), self.gvr.group.split('.').next().unwrap_or_default()) {
            (true, _) => "unstructured",
            (false, "") => "core",
            (false, package) => package,
        }
    }

    /// Returns true if kube-apiserver serves lists of the kind from its watch cache, which it does for all
    /// kinds except events.
    pub(crate) fn is_cached(&self) -> bool {
        !self.expires()
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        !self.is_custom() && self.gvr.group == group && self.kind == kind
    }

    /// Returns the verbs of the kind in the order of discovery.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        const CUSTOM: [&str; 8] =
            ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        if self.is_custom() { CUSTOM.to_vec() } else { self.verbs.clone() }
    }
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Converts an object to another version of its built-in kind, without defaulting. An object without
/// `apiVersion` is converted as if it had the other version.
pub(crate) fn convert_version(to: &KindDefinition, object: &mut Map<String, Value>) {
    let same = object.get("apiVersion").is_some_and(|version| *version == to.api_version);
    if let Some(convert) = to.descriptor.hooks.conversion.filter(|_| !same) {
        convert(object);
    }
    object.insert("apiVersion".into(), to.api_version.clone().into());
}

/// The stability of an API version, from the lowest to the highest priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    /// A version that is not named like those of Kubernetes.
    Unknown,
    Alpha,
    Beta,
    Stable,
}

/// The sort key of an API version for discovery. A version with a greater key is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VersionPriority {
    stability: Stability,
    /// The number after `v`.
    major: u32,
    /// The number after `alpha` or `beta`; 0 for a stable version.
    minor: u32,
}

/// Returns the sort key of an API version for discovery: stable before beta before alpha, then by number.
pub(crate) fn version_priority(version: &str) -> VersionPriority {
    let number = |text: &str| text.parse::<u32>().ok();
    let rest = version.strip_prefix('v').unwrap_or("");
    for (word, stability) in [("beta", Stability::Beta), ("alpha", Stability::Alpha)] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Some(major), Some(minor)) = (number(major), number(minor))
        {
            return VersionPriority { stability, major, minor };
        }
    }
    match number(rest) {
        Some(major) => VersionPriority { stability: Stability::Stable, major, minor: 0 },
        None => VersionPriority { stability: Stability::Unknown, major: 0, minor: 0 },
    }
}

/// Returns the name of the CRD that defines a custom kind.
pub(crate) fn definition_of(kind: &KindDefinition) -> Option<String> {
    kind.is_custom().then(|| kind.qualified_resource())
}
