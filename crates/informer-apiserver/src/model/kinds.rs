//! Which kinds are served: the built-in ones and what tests register.

mod autoscalers;
mod builtin;
pub(crate) mod events;
mod subresources;

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value};

pub(crate) use autoscalers::{settle_first as settle_first_autoscaler, to_second as to_second_autoscaler};
pub(crate) use builtin::built_in;
pub(crate) use subresources::Subresource;

use crate::model::crd::Schema;
use crate::model::table::PrinterColumn;

/// A kind of objects that the server serves.
///
/// ```
/// use informer_apiserver::Kind;
///
/// let website = Kind::custom("example.com", "v1", "Website").short_names(["site"]).selectable(["spec.host"]);
/// assert_eq!(website.gvr().to_string(), "websites.v1.example.com");
/// ```
#[derive(Debug, Clone)]
pub struct Kind {
    pub(crate) gvr: Gvr,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Fields that field selectors may name besides `metadata.name` and `metadata.namespace`.
    pub(crate) selectable: Vec<String>,
    pub(crate) traits: Traits,
    /// Built-in kinds: what a bookmark object carries besides its metadata.
    pub(crate) bookmark: &'static str,
    /// Built-in kinds: the hash of the version in which servers store them.
    pub(crate) storage_hash: &'static str,
    /// Built-in kinds: what may be done.
    pub(crate) verbs: Vec<&'static str>,
    /// Built-in kinds: their subresources.
    pub(crate) subresources: Vec<Subresource>,
    /// Custom kinds: where the `/scale` subresource finds its numbers.
    pub(crate) scale: Option<ScalePaths>,
    /// Custom kinds: the columns of tables after the name.
    pub(crate) columns: Vec<PrinterColumn>,
    /// Custom kinds with a definition: what it says of their objects.
    pub(crate) schema: Option<Arc<Schema>>,
    /// Custom kinds with a definition: what clients are warned of who use this version.
    pub(crate) deprecated: Option<String>,
}

/// Where `/scale` finds its numbers, as JSON paths without the leading dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// How a kind differs from a plain object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traits(pub(crate) u16);

impl Traits {
    /// Custom resources: sorted keys, strict type meta, 404s of their own.
    pub(crate) const CUSTOM: Self = Self(1);
    /// Has a `/status` subresource, so that the main endpoint ignores `status`.
    pub(crate) const STATUS: Self = Self(2);
    /// `metadata.generation` counts changes of the specification.
    pub(crate) const GENERATION: Self = Self(4);
    /// DELETE answers with the object instead of a Status.
    pub(crate) const RETURNS_DELETED: Self = Self(8);
    /// PUT of a missing object creates it.
    pub(crate) const UPSERT: Self = Self(16);
    /// PUT without a resource version is refused.
    pub(crate) const NEEDS_VERSION: Self = Self(32);
    /// Field selectors are a set of the kind's own, and the error for another field says so.
    pub(crate) const OWN_FIELDS: Self = Self(64);
    /// Is asked, not stored: only `create` is served.
    pub(crate) const REVIEW: Self = Self(256);
    /// Metadata may be changed through `/status`, too: labels, annotations, finalizers.
    pub(crate) const STATUS_METADATA: Self = Self(512);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Kind {
    /// A namespaced custom resource with a `/status` subresource. Its plural is the lower-case kind with an `s`.
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
        }
    }

    /// The plural name, where it is not the lower-case kind with an `s`.
    pub fn plural(mut self, plural: impl Into<String>) -> Self {
        self.gvr.resource = plural.into();
        self
    }

    /// Short names for discovery.
    pub fn short_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.short_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Fields that field selectors may name, as `spec.host`.
    pub fn selectable(mut self, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.selectable = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Makes it cluster-scoped.
    pub fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// Takes the `/status` subresource away: the main endpoint writes `status` like any other field.
    pub fn without_status(mut self) -> Self {
        self.traits.0 &= !Traits::STATUS.0;
        self
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> &Gvr {
        &self.gvr
    }

    /// The kind, as `Website`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether its objects go by themselves after a time.
    pub(crate) fn expires(&self) -> bool {
        self.is("", "Event") || self.is("events.k8s.io", "Event")
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.traits.has(Traits::CUSTOM)
    }

    /// `pods`, or `deployments.apps`: how error messages name the resource.
    pub(crate) fn qualified_resource(&self) -> String {
        qualify(&self.gvr.resource, &self.gvr.group)
    }

    /// `Pod`, or `Deployment.apps`: how validation messages name the kind.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.gvr.group)
    }

    /// What clients are warned of who use the kind at all.
    pub(crate) fn deprecated(&self) -> Option<String> {
        let text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
        self.is("", "Endpoints").then(|| text.to_owned()).or_else(|| self.deprecated.clone())
    }

    /// `core`, or `apps`: how error messages name the package of the kind's type.
    pub(crate) fn go_package(&self) -> &str {
        match (self.is_custom(), self.gvr.group.split('.').next().unwrap_or_default()) {
            (true, _) => "unstructured",
            (false, "") => "core",
            (false, package) => package,
        }
    }

    /// Whether upstream answers lists of it from a cache; events are read from the store.
    pub(crate) fn is_cached(&self) -> bool {
        !self.is("", "Event") && !self.is("events.k8s.io", "Event")
    }

    /// True for the kind of this name in this built-in group.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        !self.is_custom() && self.gvr.group == group && self.kind == kind
    }

    /// Verbs in the order of discovery.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        const CUSTOM: [&str; 8] =
            ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        if self.is_custom() { CUSTOM.to_vec() } else { self.verbs.clone() }
    }
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Makes an object one of another version of the same kind, but for what schemas say. It must name its own version, or be of
/// the other one that there is.
pub(crate) fn reform(to: &Kind, object: &mut Map<String, Value>) {
    let same = object.get("apiVersion").is_some_and(|version| *version == to.api_version);
    if !same && is_autoscaler(to) {
        match to.gvr.version.as_str() {
            "v1" => autoscalers::to_first(object),
            _ => autoscalers::to_second(object),
        }
    } else if !same && to.is("events.k8s.io", "Event") {
        events::from_core(object);
    } else if !same && to.is("", "Event") {
        events::to_core(object);
    }
    object.insert("apiVersion".into(), to.api_version.clone().into());
}

pub(crate) fn is_autoscaler(kind: &Kind) -> bool {
    kind.is("autoscaling", "HorizontalPodAutoscaler")
}

/// The order of versions in discovery: stable before beta before alpha, then by number.
pub(crate) fn version_priority(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let rest = version.strip_prefix('v').unwrap_or("");
    for (word, rank) in [("beta", 1), ("alpha", 0)] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Some(major), Some(minor)) = (number(major), number(minor))
        {
            return (rank + 1, major, minor);
        }
    }
    number(rest).map_or((0, 0, 0), |major| (3, major, 0))
}

/// The name of the CRD that a custom kind would have.
pub(crate) fn definition_of(kind: &Kind) -> Option<String> {
    kind.is_custom().then(|| kind.qualified_resource())
}
