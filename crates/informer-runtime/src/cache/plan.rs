//! Which informers a kind gets, and with which options. Pure: from what was configured alone.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use informer_client::HashShares;
use informer_core::{FieldOperator, FieldRequirement, FieldSelector, Gvk, LabelSelector};

use super::options::{InformerOptions, KindOptions};
use crate::ScopedKind;

/// The field by which a selector chooses a namespace.
pub(super) const NAMESPACE_FIELD: &str = "metadata.namespace";

/// What was configured.
#[derive(Debug, Clone, Default)]
pub(super) struct Levels {
    pub(super) all: InformerOptions,
    /// Empty: all namespaces. The empty name stands for all that are not listed.
    pub(super) namespaces: BTreeMap<String, InformerOptions>,
    pub(super) kinds: HashMap<Gvk, KindOptions>,
}

/// The objects that one informer of a kind holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PartScope {
    /// All of the kind.
    All,
    /// Those of one namespace.
    Namespace(String),
    /// Those of all namespaces that have no informer of their own.
    OtherNamespaces,
}

/// The selectors of an informer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selects {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) shares: Option<HashShares>,
}

/// One informer to be made.
#[derive(Debug, Clone)]
pub(super) struct PartPlan {
    pub(super) scope: PartScope,
    /// The namespace in URLs.
    pub(super) namespace: Option<String>,
    pub(super) options: InformerOptions,
}

impl Levels {
    /// The informers of a kind, at least one.
    pub(super) fn plan(&self, kind: &ScopedKind) -> Vec<PartPlan> {
        let none = KindOptions::default();
        let own = self.kinds.get(kind.gvk()).unwrap_or(&none);
        let namespaces = own.namespaces.as_ref().unwrap_or(&self.namespaces);
        if kind.is_cluster_scoped() || namespaces.is_empty() {
            return vec![part(PartScope::All, own.options.clone().or(&self.all))];
        }
        let plan_of = |(namespace, nearest): (&String, &InformerOptions)| {
            let mut options = nearest.clone().or(&own.options);
            if let Some(of_cache) = self.namespaces.get(namespace) {
                options = options.or(of_cache);
            }
            options = options.or(&self.all);
            if !namespace.is_empty() {
                return part(PartScope::Namespace(namespace.clone()), options);
            }
            options.fields = Some(all_but(namespaces.keys(), options.fields));
            part(PartScope::OtherNamespaces, options)
        };
        namespaces.iter().map(plan_of).collect()
    }
}

/// A selector of every namespace but these, and of what `fields` selects.
fn all_but<'a>(namespaces: impl Iterator<Item = &'a String>, fields: Option<FieldSelector>) -> FieldSelector {
    let others = namespaces.filter(|namespace| !namespace.is_empty());
    let apart = others
        .map(|namespace| FieldRequirement::new(NAMESPACE_FIELD, FieldOperator::NotEquals, namespace.clone()));
    let chosen = fields.iter().flat_map(|fields| fields.requirements().iter().cloned());
    apart.chain(chosen).fold(FieldSelector::everything(), FieldSelector::and)
}

fn part(scope: PartScope, options: InformerOptions) -> PartPlan {
    let namespace = match &scope {
        PartScope::Namespace(namespace) => Some(namespace.clone()),
        _ => options.fields.as_ref().and_then(|fields| fields.required(NAMESPACE_FIELD)).map(str::to_owned),
    };
    PartPlan { scope, namespace, options }
}

impl PartPlan {
    pub(super) fn selects(&self) -> Selects {
        Selects {
            labels: self.options.labels.clone().unwrap_or_default(),
            fields: self.options.fields.clone().unwrap_or_default(),
            shares: self.options.shares.clone(),
        }
    }

    /// The name of the informer: its resource and what it selects.
    pub(super) fn name(&self, kind: &ScopedKind, form: &str) -> String {
        let mut name = kind.kind().gvr().to_string();
        let selectors = [
            ("namespace", self.namespace.clone()),
            ("labels", shown(self.options.labels.as_ref().filter(|labels| !labels.is_everything()))),
            ("fields", shown(self.options.fields.as_ref().filter(|fields| !fields.is_everything()))),
            ("share", shown(self.options.shares.as_ref())),
            ("form", Some(form.to_owned()).filter(|form| !form.is_empty())),
        ];
        for (what, value) in selectors.into_iter().filter_map(|(what, value)| Some((what, value?))) {
            name.push_str(&format!(" {what}={value}"));
        }
        name
    }
}

fn shown(value: Option<&impl ToString>) -> Option<String> {
    value.map(ToString::to_string)
}

impl fmt::Display for PartScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all namespaces"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
            Self::OtherNamespaces => f.write_str("all other namespaces"),
        }
    }
}
