//! Plans which informers a kind needs, and with which options. The plan depends only on the configuration of
//! the cache.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use informer_client::HashShares;
use informer_core::{FieldOperator, FieldRequirement, FieldSelector, Gvk, LabelSelector, Object};

use super::options::{InformerOptions, KindOptions};
use crate::ResourceKind;

pub(super) const NAMESPACE_FIELD: &str = "metadata.namespace";

#[derive(Debug, Clone, Default)]
pub(super) struct OptionLevels {
    pub(super) all: InformerOptions,
    /// The namespaces to which the cache is restricted, with the options of each; empty for all namespaces.
    /// The options under the empty name apply to all namespaces without an entry.
    pub(super) namespaces: BTreeMap<String, InformerOptions>,
    pub(super) kinds: HashMap<Gvk, KindOptions>,
}

/// The part of a kind that one informer caches. A kind has several informers if the cache is restricted to
/// some namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum InformerScope {
    /// All objects of the kind, in all namespaces.
    All,
    /// The objects of one namespace, given by its name.
    Namespace(String),
    /// The objects of all namespaces for which the cache has no separate informer.
    OtherNamespaces,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct InformerSelectors {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) shares: Option<HashShares>,
    /// True if the informer has a filter or a prefilter, a predicate of the program on the object.
    pub(crate) has_filter: bool,
}

#[derive(Debug, Clone)]
pub(super) struct InformerPlan {
    pub(super) scope: InformerScope,
    /// The namespace to which the informer's list and watch requests are restricted; `None` for requests to
    /// all namespaces.
    pub(super) namespace: Option<String>,
    /// True if the kind has further informers, for other namespaces.
    pub(super) is_one_of_several: bool,
    pub(super) options: InformerOptions,
}

impl OptionLevels {
    /// Plans the informers of a kind: one for all its objects, or one per configured namespace. The result is
    /// never empty.
    pub(super) fn plan(&self, kind: &ResourceKind) -> Vec<InformerPlan> {
        let none = KindOptions::default();
        let own = self.kinds.get(kind.gvk()).unwrap_or(&none);
        let namespaces = own.namespaces.as_ref().unwrap_or(&self.namespaces);
        if kind.is_cluster_scoped() || namespaces.is_empty() {
            let options = own.options.clone().or(&self.all).tweaked(&kind.gvr());
            return vec![informer_plan(InformerScope::All, options)];
        }
        let plan_of = |(namespace, nearest): (&String, &InformerOptions)| {
            let mut options = nearest.clone().or(&own.options);
            if let Some(of_cache) = self.namespaces.get(namespace) {
                options = options.or(of_cache);
            }
            options = options.or(&self.all).tweaked(&kind.gvr());
            if !namespace.is_empty() {
                return informer_plan(InformerScope::Namespace(namespace.clone()), options);
            }
            options.fields = Some(all_but(namespaces.keys(), options.fields));
            informer_plan(InformerScope::OtherNamespaces, options)
        };
        let is_one_of_several = namespaces.len() > 1;
        namespaces.iter().map(|part| InformerPlan { is_one_of_several, ..plan_of(part) }).collect()
    }
}

/// Returns a field selector that excludes these namespaces, in addition to the requirements of `fields`. It
/// is used by the informer of all other namespaces.
fn all_but<'a>(namespaces: impl Iterator<Item = &'a String>, fields: Option<FieldSelector>) -> FieldSelector {
    let others = namespaces.filter(|namespace| !namespace.is_empty());
    let excluded = others
        .map(|namespace| FieldRequirement::new(NAMESPACE_FIELD, FieldOperator::NotEquals, namespace.clone()));
    let selected = fields.iter().flat_map(|fields| fields.requirements().iter().cloned());
    excluded.chain(selected).fold(FieldSelector::everything(), FieldSelector::and)
}

fn informer_plan(scope: InformerScope, options: InformerOptions) -> InformerPlan {
    let namespace = match &scope {
        InformerScope::Namespace(namespace) => Some(namespace.clone()),
        _ => options.fields.as_ref().and_then(|fields| fields.required(NAMESPACE_FIELD)).map(str::to_owned),
    };
    InformerPlan { scope, namespace, is_one_of_several: false, options }
}

impl InformerPlan {
    pub(super) fn selectors<O: Object>(&self) -> InformerSelectors {
        InformerSelectors {
            labels: self.options.labels.clone().unwrap_or_default(),
            fields: self.options.fields.clone().unwrap_or_default(),
            shares: self.options.shares.clone(),
            has_filter: self.options.filter_of::<O>().is_some() || self.options.has_prefilter(),
        }
    }

    /// Returns the name of an informer for logs and metrics: its resource, followed by its namespace,
    /// selectors and representation if they are set.
    pub(super) fn name(&self, kind: &ResourceKind, representation: &str) -> String {
        let mut name = kind.gvr().to_string();
        let selectors = [
            ("namespace", self.namespace.clone()),
            ("labels", shown(self.options.labels.as_ref().filter(|labels| !labels.is_everything()))),
            ("fields", shown(self.options.fields.as_ref().filter(|fields| !fields.is_everything()))),
            ("share", shown(self.options.shares.as_ref())),
            ("form", Some(representation.to_owned()).filter(|name| !name.is_empty())),
        ];
        let parameters =
            self.options.parameters.iter().map(|(name, value)| (name.as_str(), Some(value.clone())));
        let parts = selectors.into_iter().chain(parameters);
        for (label, value) in parts.filter_map(|(label, value)| Some((label, value?))) {
            name.push_str(&format!(" {label}={value}"));
        }
        name
    }
}

fn shown(value: Option<&impl ToString>) -> Option<String> {
    value.map(ToString::to_string)
}

impl fmt::Display for InformerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all namespaces"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
            Self::OtherNamespaces => f.write_str("all other namespaces"),
        }
    }
}
