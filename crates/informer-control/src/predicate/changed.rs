use std::sync::Arc;

use informer_core::Object;

use super::Predicate;
use crate::Trigger;

/// Returns true if the old and the new object of an update differ according to `differs`, or if the trigger
/// is not an update.
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
    /// Returns a predicate that passes updates whose resourceVersion differs. It rejects resyncs, and passes
    /// all triggers that are not updates.
    resource_version_changed, ResourceVersionChanged, |old, new| old.resource_version() != new.resource_version()
}

changed! {
    /// Returns a predicate that passes updates whose `metadata.generation` differs, which are changes of the
    /// spec. All updates of kinds without a generation, such as ConfigMap, are rejected.
    generation_changed, GenerationChanged, |old, new| old.generation() != new.generation()
}

changed! {
    /// Returns a predicate that passes updates whose labels differ.
    labels_changed, LabelsChanged, |old, new| old.labels() != new.labels()
}

changed! {
    /// Returns a predicate that passes updates whose annotations differ. For representations that do not
    /// store annotations, it rejects all updates.
    annotations_changed, AnnotationsChanged, |old, new| old.annotations() != new.annotations()
}

/// Returns a predicate that passes updates in which the annotation `name` was added, removed or changed.
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
