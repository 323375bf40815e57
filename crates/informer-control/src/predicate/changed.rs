use std::sync::Arc;

use informer_core::Object;

use super::Predicate;
use crate::Trigger;

/// What of the two states of an update is compared; whatever is no update passes.
fn changed<O>(trigger: &Trigger<O>, differs: impl Fn(&O, &O) -> bool) -> bool {
    trigger.old().is_none_or(|old| differs(old, trigger.object()))
}

macro_rules! changed {
    ($(#[$docs:meta])* $function:ident, $type:ident, $differs:expr) => {
        $(#[$docs])*
        pub fn $function() -> $type {
            $type
        }

        #[doc = concat!("Made by [`", stringify!($function), "`].")]
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
    /// Updates that are more than a resync: the resource version is another.
    resource_version_changed, ResourceVersionChanged, |old, new| old.resource_version() != new.resource_version()
}

changed! {
    /// Updates of the spec: the generation is another. Kinds without a generation (config maps, for one) have no such update, so that
    /// all of them are rejected.
    generation_changed, GenerationChanged, |old, new| old.generation() != new.generation()
}

changed! {
    /// Updates of labels.
    labels_changed, LabelsChanged, |old, new| old.labels() != new.labels()
}

changed! {
    /// Updates of annotations. Where the form of the objects holds none, there are none.
    annotations_changed, AnnotationsChanged, |old, new| old.annotations() != new.annotations()
}

/// Updates of one annotation: it came, went, or has another value.
pub fn annotation_changed(name: impl Into<Arc<str>>) -> AnnotationChanged {
    AnnotationChanged { name: name.into() }
}

/// Made by [`annotation_changed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationChanged {
    name: Arc<str>,
}

impl<O: Object> Predicate<O> for AnnotationChanged {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        changed(trigger, |old, new| old.annotation(&self.name) != new.annotation(&self.name))
    }
}
