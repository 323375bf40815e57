//! Predicates, which filter the triggers (events) that enqueue requests for a controller.
//!
//! A predicate saves reconciles but no memory, because the cache also contains rejected objects. All
//! predicates of a watch must hold for a trigger to pass; they are evaluated in order, up to the first
//! predicate that rejects the trigger.
//!
//! | predicate | an update passes if | other triggers pass |
//! |---|---|---|
//! | [`resource_version_changed`] | the resourceVersion differs: not a resync | always |
//! | [`generation_changed`] | the generation differs: a change of the spec | always |
//! | [`labels_changed`], [`annotations_changed`] | the labels or annotations differ | always |
//! | [`annotation_changed`] | this annotation differs | always |
//! | [`selects`], [`namespaces`], [`object`] | the new object matches | if their object matches |
//! | [`funcs`] | the function for updates returns true | if the function for them returns true |
//!
//! [`and`], [`or`] and [`not`] combine predicates; a closure `Fn(&Trigger<O>) -> bool` is a predicate, too.
//!
//! A status update does not change the generation, but neither does a change of labels or annotations: a
//! controller that filters by generation and reacts to labels needs [`or`].
//!
//! ```
//! use informer_cache::testing::TestObject;
//! use informer_control::predicate::{Predicate, generation_changed, labels_changed, not, or};
//!
//! let spec_or_labels = or(generation_changed(), labels_changed());
//! fn assert_predicate(_: impl Predicate<TestObject>) {}
//! assert_predicate(not(spec_or_labels));
//! ```
//!
//! Upstream: [`predicate`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/predicate).

mod changed;
mod combine;
mod funcs;
#[cfg(test)]
mod tests;

pub use changed::{
    AnnotationChanged, AnnotationsChanged, GenerationChanged, LabelsChanged, ResourceVersionChanged,
    annotation_changed, annotations_changed, generation_changed, labels_changed, resource_version_changed,
};
pub use combine::{And, Not, Or, and, not, or};
pub use funcs::{ObjectPredicate, PredicateFuncs, funcs, namespaces, object, selects};

use crate::Trigger;

/// A filter that decides which triggers (events of a watched kind) enqueue requests for a controller.
///
/// A predicate runs in the task that delivers events and must not block. If it panics, the panic is counted
/// and logged with the key, and the trigger is rejected.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a predicate on triggers of `{O}`",
    label = "not a predicate",
    note = "a closure takes `&Trigger<{O}>` and returns `bool`",
    note = "for a condition on the object alone, use `object(|object: &{O}| ..)`"
)]
pub trait Predicate<O>: Send + Sync + 'static {
    /// Returns true if the trigger passes, so that it enqueues requests; false if it is rejected.
    fn holds(&self, trigger: &Trigger<O>) -> bool;
}

impl<O, F: Fn(&Trigger<O>) -> bool + Send + Sync + 'static> Predicate<O> for F {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        self(trigger)
    }
}

impl<O: 'static> Predicate<O> for Box<dyn Predicate<O>> {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        (**self).holds(trigger)
    }
}
