//! Which triggers concern a controller.
//!
//! A predicate saves queue work, never memory: the cache holds what it rejects, too. Predicates of one watch must all hold and are
//! asked in order, up to the first that does not.
//!
//! | predicate | an update passes where | anything else |
//! |---|---|---|
//! | [`resource_version_changed`] | the version is another: no resync | passes |
//! | [`generation_changed`] | the generation is another: a change of the spec | passes |
//! | [`labels_changed`], [`annotations_changed`] | these are others | passes |
//! | [`annotation_changed`] | this one is another | passes |
//! | [`selects`], [`namespaces`], [`object`] | the new state does | where its object does |
//! | [`funcs`] | the function for updates says so | the function for it says so |
//!
//! [`and`], [`or`] and [`not`] combine them; a closure `Fn(&Trigger<O>) -> bool` is a predicate, too.
//!
//! A status written by the controller itself does not change the generation, but labels and annotations do not either: who
//! filters by generation and reacts to labels takes [`or`].
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

/// Decides whether a trigger concerns a controller.
///
/// It runs in the task that delivers events and must not block. A panic is contained, counted and logged with the key; the
/// trigger counts as rejected.
pub trait Predicate<O>: Send + Sync + 'static {
    /// True where it does.
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
