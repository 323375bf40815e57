use std::sync::Arc;

use informer_core::Object;

use super::Predicate;
use crate::Trigger;

/// Compares the two states of an update; any other trigger passes.
fn changed<O>(trigger: &Trigger<O>, differs: impl Fn(&O, &O) -> bool) -> bool {
    trigger.old().is_none_or(|old| differs(old, trigger.object()))
}

macro_rules! changed {
    ($(#[$docs:meta])* $function:ident, $type:ident, $differs:expr) => {
        $(#[$docs])*
        pub fn $function() -> $type {
            $type
        }

        #[doc = concat!("The predicate returned by [`", stringify!($function), "`].")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $type;

        impl<O: Object> Predicate<O> for $type {
            fn holds(&self, trigger: &Trigger<O>) -> bool {
                changed(trigger, $differs)
            }
        }
    };
}

changed! {
    /// Passes updates whose resourceVersion differs, which excludes resyncs.
    resource_version_changed, ResourceVersionChanged, |old, new| old.resource_version() != new.resource_version()
}

changed! {
    /// Passes updates whose generation differs: changes of the spec. Kinds without a generation, such as
    /// ConfigMap, never change it, so all their updates are rejected.
    generation_changed, GenerationChanged, |old, new| old.generation() != new.generation()
}

changed! {
    /// Passes updates whose labels differ.
    labels_changed, LabelsChanged, |old, new| old.labels() != new.labels()
}

changed! {
    /// Passes updates whose annotations differ. Representations without annotations have no such update.
    annotations_changed, AnnotationsChanged, |old, new| old.annotations() != new.annotations()
}

/// Passes updates in which one annotation was added, removed or changed.
pub fn annotation_changed(name: impl Into<Arc<str>>) -> AnnotationChanged {
    AnnotationChanged { name: name.into() }
}

/// The predicate returned by [`annotation_changed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationChanged {
    name: Arc<str>,
}

impl<O: Object> Predicate<O> for AnnotationChanged {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        changed(trigger, |old, new| old.annotation(&self.name) != new.annotation(&self.name))
    }
}
