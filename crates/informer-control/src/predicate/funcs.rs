use std::collections::BTreeSet;
use std::fmt;

use informer_cache::Event;
use informer_core::{LabelSelector, Object};

use super::Predicate;
use crate::Trigger;

type OnObject<O> = Box<dyn Fn(&O) -> bool + Send + Sync>;
type OnUpdate<O> = Box<dyn Fn(&O, &O) -> bool + Send + Sync>;

/// Creates a predicate from up to four functions, one for each type of trigger. A trigger passes if no
/// function is set for its type.
///
/// ```
/// use informer_cache::testing::TestObject;
/// use informer_control::predicate::funcs;
///
/// // Everything but deletions.
/// let predicate = funcs::<TestObject>().deleted(|_| false);
/// # let _ = predicate;
/// ```
pub fn funcs<O>() -> PredicateFuncs<O> {
    PredicateFuncs { added: None, updated: None, deleted: None, generic: None }
}

/// The predicate returned by [`funcs`].
pub struct PredicateFuncs<O> {
    added: Option<OnObject<O>>,
    updated: Option<OnUpdate<O>>,
    deleted: Option<OnObject<O>>,
    generic: Option<OnObject<O>>,
}

impl<O> PredicateFuncs<O> {
    /// Sets the function that decides whether the trigger for an added object passes.
    pub fn added(mut self, decide: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.added = Some(Box::new(decide));
        self
    }

    /// Sets the function that decides whether an update passes. The arguments of the function are the old and
    /// the new object.
    pub fn updated(mut self, decide: impl Fn(&O, &O) -> bool + Send + Sync + 'static) -> Self {
        self.updated = Some(Box::new(decide));
        self
    }

    /// Sets the function that decides whether a deletion passes. The argument of the function is the last
    /// known state of the object.
    pub fn deleted(mut self, decide: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.deleted = Some(Box::new(decide));
        self
    }

    /// Sets the function that decides whether a generic trigger passes.
    pub fn generic(mut self, decide: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.generic = Some(Box::new(decide));
        self
    }
}

impl<O: 'static> Predicate<O> for PredicateFuncs<O> {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        let decides = |decide: &Option<OnObject<O>>, object: &O| decide.as_ref().is_none_or(|f| f(object));
        match trigger {
            Trigger::Event(Event::Added { object, .. }) => decides(&self.added, object),
            Trigger::Event(Event::Deleted { last, .. }) => decides(&self.deleted, last),
            Trigger::Generic(object) => decides(&self.generic, object),
            Trigger::Event(Event::Updated { old, new, .. }) => {
                self.updated.as_ref().is_none_or(|decide| decide(old, new))
            }
        }
    }
}

impl<O> fmt::Debug for PredicateFuncs<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredicateFuncs")
            .field("added", &self.added.is_some())
            .field("updated", &self.updated.is_some())
            .field("deleted", &self.deleted.is_some())
            .field("generic", &self.generic.is_some())
            .finish()
    }
}

/// Returns a predicate that passes triggers for whose object `decide` returns true. `decide` receives the new
/// object of an update, or the last known state of a deleted object.
///
/// The update in which an object ceases to match does not pass. A controller that must clean up in that case
/// needs a predicate that also checks [`Trigger::old`].
pub fn object<F>(decide: F) -> ObjectPredicate<F> {
    ObjectPredicate(decide)
}

/// The predicate returned by [`object`].
#[derive(Clone, Copy)]
pub struct ObjectPredicate<F>(F);

impl<O, F: Fn(&O) -> bool + Send + Sync + 'static> Predicate<O> for ObjectPredicate<F> {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        (self.0)(trigger.object())
    }
}

impl<F> fmt::Debug for ObjectPredicate<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectPredicate").finish_non_exhaustive()
    }
}

/// Returns a predicate that passes triggers whose object matches a label selector; see [`object`] for which
/// state of the object is used.
pub fn selects<O: Object>(selector: LabelSelector) -> impl Predicate<O> {
    object(move |object: &O| selector.matches(object.labels()))
}

/// Returns a predicate that passes triggers whose object is in one of these namespaces. Triggers for
/// cluster-scoped objects never pass.
pub fn namespaces<O: Object>(names: impl IntoIterator<Item = impl Into<String>>) -> impl Predicate<O> {
    let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
    object(move |object: &O| object.key().namespace().is_some_and(|namespace| names.contains(namespace)))
}
