//! Label and field selectors of a request, resolved for the requested kind.

mod messages;

use std::sync::Arc;

use informer_core::{FieldOperator, FieldSelector, LabelSelector};

use crate::model::error::ApiError;
use crate::model::kinds::{KindDefinition, Traits};
use crate::registry::Resource;
use crate::registry::storage::{EventType, Stored};

#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: Vec<FieldTerm>,
}

#[derive(Debug, Clone)]
struct FieldTerm {
    field: Field,
    equal: bool,
    value: String,
}

#[derive(Debug, Clone, Copy)]
enum Field {
    Name,
    Namespace,
    Selectable(usize),
}

impl Filter {
    /// Returns a filter for all objects of a namespace, or of all namespaces if it is `None`.
    pub(crate) fn namespace(namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(str::to_owned), ..Self::default() }
    }

    pub(crate) fn parse(
        kind: &KindDefinition,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiError> {
        let labels =
            labels.parse().map_err(|error| ApiError::bad_request(messages::label_selector_error(&error)))?;
        let selector: FieldSelector =
            fields.parse().map_err(|error| messages::field_selector_error(kind, &error))?;
        let terms = selector.requirements().iter().map(|requirement| {
            Ok(FieldTerm {
                field: resolve(kind, requirement.field())?,
                equal: requirement.operator() == FieldOperator::Equals,
                value: requirement.value().to_owned(),
            })
        });
        let fields = terms.collect::<Result<_, ApiError>>()?;
        Ok(Self { namespace: namespace.map(str::to_owned), labels, fields })
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.fields.push(FieldTerm { field: Field::Name, equal: true, value: name.to_owned() });
        self
    }

    /// Returns true if the filter has a label or field selector. Lists with such a filter omit
    /// `remainingItemCount`.
    pub(crate) fn selects(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        let namespace = stored.key.namespace();
        self.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted))
            && self.labels.matches(&stored.labels)
            && self.fields.iter().all(|term| (term.field.of(stored) == term.value) == term.equal)
    }

    /// Returns a stored object in the API version of a resource, or `None` if the filter does not match it.
    pub(crate) fn pick(
        &self,
        resource: &Resource,
        stored: &Arc<Stored>,
        event: EventType,
    ) -> Option<Arc<Stored>> {
        if resource.is_shown(stored) {
            // Objects in their stored version are matched before they are cloned.
            return self.matches(stored).then(|| Arc::clone(stored));
        }
        resource.present(stored, event).filter(|stored| self.matches(stored))
    }

    /// Returns a common prefix of the keys of all matching objects.
    pub(crate) fn prefix(&self) -> String {
        let wanted = |term: &&FieldTerm| matches!(term.field, Field::Namespace) && term.equal;
        match (&self.namespace, self.fields.iter().find(wanted)) {
            (Some(namespace), _) => format!("{namespace}/"),
            (None, Some(term)) if !term.value.is_empty() => format!("{}/", term.value),
            (None, _) => String::new(),
        }
    }
}

impl Field {
    fn of(self, stored: &Stored) -> &str {
        match self {
            Self::Name => stored.key.name(),
            Self::Namespace => stored.key.namespace().unwrap_or_default(),
            // The object may have fewer field values than the kind has selectable fields, if the CRD was
            // changed after the object was written.
            Self::Selectable(index) => stored.fields.get(index).map_or("", |value| value),
        }
    }
}

fn resolve(kind: &KindDefinition, field: &str) -> Result<Field, ApiError> {
    let alias = kind.descriptor.field_aliases.iter().find(|(alias, _)| *alias == field);
    let field = alias.map_or(field, |(_, field)| field);
    match field {
        "metadata.name" => Ok(Field::Name),
        "metadata.namespace" if !kind.traits.has(Traits::NO_NAMESPACE_FIELD) => Ok(Field::Namespace),
        field => match kind.selectable.iter().position(|known| known == field) {
            Some(index) => Ok(Field::Selectable(index)),
            None if kind.traits.has(Traits::OWN_FIELDS) => {
                Err(ApiError::bad_request(format!("field label not supported: {field}")))
            }
            None => Err(ApiError::bad_request(format!(
                "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ))),
        },
    }
}
