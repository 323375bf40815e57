use std::collections::BTreeSet;
use std::fmt;

use informer_cache::Event;
use informer_core::{LabelSelector, Object};

use super::Predicate;
use crate::Trigger;

type OnObject<O> = Box<dyn Fn(&O) -> bool + Send + Sync>;
type OnUpdate<O> = Box<dyn Fn(&O, &O) -> bool + Send + Sync>;

/// Creates a predicate from up to four functions, one for each type of trigger. A trigger without a function
/// passes.
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
    /// Sets the function for added objects.
    pub fn added(mut self, decide: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.added = Some(Box::new(decide));
        self
    }

    /// Sets the function for updates; its arguments are the old and the new object.
    pub fn updated(mut self, decide: impl Fn(&O, &O) -> bool + Send + Sync + 'static) -> Self {
        self.updated = Some(Box::new(decide));
        self
    }

    /// Sets the function for deletions; its argument is the last known state.
    pub fn deleted(mut self, decide: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.deleted = Some(Box::new(decide));
        self
    }

    /// Sets the function for generic triggers.
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

/// Passes triggers whose object matches `decide`: the new object of an update, the last known state of a
/// deletion.
///
/// The update in which an object ceases to match does not pass. A controller that cleans up in that case also
/// checks [`Trigger::old`].
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

/// Passes triggers whose object matches a label selector; see [`object`] for which object that is.
pub fn selects<O: Object>(selector: LabelSelector) -> impl Predicate<O> {
    object(move |object: &O| selector.matches(object.labels()))
}

/// Passes triggers whose object is in one of these namespaces. Cluster-scoped objects never match.
pub fn namespaces<O: Object>(names: impl IntoIterator<Item = impl Into<String>>) -> impl Predicate<O> {
    let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
    object(move |object: &O| object.key().namespace().is_some_and(|namespace| names.contains(namespace)))
}
