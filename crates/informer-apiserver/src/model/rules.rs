//! Types and functions for the defaults, validation and warnings of the built-in kinds. The rules of each
//! kind are in `kinds/<group>/<kind>.rs`.
//!
//! A kind has a list of [`Default`]s and lists of [`Check`]s, mostly in the order in which kube-apiserver
//! applies them. The causes in a 422 response have the order of the checks.

pub(crate) mod checks;
pub(crate) mod defaults;
pub(crate) mod field_path;
pub(crate) mod path;
pub(crate) mod ranges;
pub(crate) mod resources;
pub(crate) mod scheduling;
pub(crate) mod warnings;
pub(crate) mod webhook_client;

use serde_json::{Map, Value};

pub(crate) use checks::{label_problems, path_segment_problems, qualified_problems};
pub(crate) use path::{get, set};
pub(crate) use webhook_client::check_conversion;

use crate::model::cause::{Cause, Causes};
use crate::model::json::Object;
use checks::{Check, FieldView};
use defaults::Default;

#[derive(Clone, Copy)]
pub(crate) struct Rules {
    defaults: &'static [Default],
    checks: &'static [Check],
    /// Validation of objects that a request creates, after `checks`. Objects that the program loads skip it:
    /// they may have been updated since their creation.
    created: &'static [Check],
    /// Validation of an update against the stored object. Runs after `checks`.
    changes: &'static [Check],
    status: &'static [Check],
    /// Validation of an update of the status against the stored object. Runs after `status`.
    status_changes: &'static [Check],
}

impl Rules {
    /// Rules of a kind without defaults and validation. Its objects are still converted to the form that Go
    /// encodes.
    pub(crate) const NORMALIZED: Self = Self::new(&[], &[]);

    pub(crate) const fn new(defaults: &'static [Default], checks: &'static [Check]) -> Self {
        Self { defaults, checks, created: &[], changes: &[], status: &[], status_changes: &[] }
    }

    pub(crate) const fn created(mut self, created: &'static [Check]) -> Self {
        self.created = created;
        self
    }

    pub(crate) const fn changes(mut self, changes: &'static [Check]) -> Self {
        self.changes = changes;
        self
    }

    pub(crate) const fn status(mut self, status: &'static [Check]) -> Self {
        self.status = status;
        self
    }

    pub(crate) const fn status_changes(mut self, changes: &'static [Check]) -> Self {
        self.status_changes = changes;
        self
    }

    pub(crate) fn fill(&self, object: &mut Map<String, Value>) {
        let mut whole = Value::Object(std::mem::take(object));
        defaults::fill(&mut whole, self.defaults);
        if let Value::Object(filled) = whole {
            *object = filled;
        }
    }

    pub(crate) fn check_created(&self, object: &mut Map<String, Value>) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Causes::default();
            checks::run(&FieldView::root(object, None), self.created, &mut causes);
            causes.into_vec()
        })
    }

    pub(crate) fn check_status(&self, object: &mut Map<String, Value>) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Causes::default();
            checks::run(&FieldView::root(object, None), self.status, &mut causes);
            causes.into_vec()
        })
    }

    pub(crate) fn check_status_update(&self, object: &mut Map<String, Value>, old: &Value) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Causes::default();
            checks::run(&FieldView::root(object, Some(old)), self.status_changes, &mut causes);
            causes.into_vec()
        })
    }

    /// Validates an object, and its changes if there is an old object.
    pub(crate) fn check(&self, object: &mut Map<String, Value>, old: Option<&Value>) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Causes::default();
            let at = FieldView::root(object, old);
            checks::run(&at, self.checks, &mut causes);
            if old.is_some() {
                checks::run(&at, self.changes, &mut causes);
            }
            causes.into_vec()
        })
    }
}

/// Calls a function that needs a [`Value`] with an object, without copying the object.
pub(crate) fn as_value<T>(object: &mut Map<String, Value>, look: impl FnOnce(&Value) -> T) -> T {
    let whole = Value::Object(std::mem::take(object));
    let seen = look(&whole);
    if let Value::Object(same) = whole {
        *object = same;
    }
    seen
}

/// Changes an object with a function that needs a [`Value`], without copying the object.
pub(crate) fn with_value(object: &mut Object, change: impl FnOnce(&mut Value)) {
    let mut whole = Value::Object(std::mem::take(object));
    change(&mut whole);
    if let Value::Object(changed) = whole {
        *object = changed;
    }
}

/// Adds a finalizer, unless the object has it.
pub(crate) fn add_finalizer(object: &mut Value, name: &str) {
    let mut names = get(object, "metadata.finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    if !names.iter().any(|known| known == name) {
        names.push(name.into());
        set(object, "metadata.finalizers", names.into());
    }
}
