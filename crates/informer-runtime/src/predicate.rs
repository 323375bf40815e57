//! Predicates, which decide whether a trigger (an added, updated or deleted object) reaches a handler; see
//! [`informer_control::predicate`].

#[cfg(test)]
mod tests;

pub use informer_control::predicate::{
    And, AnnotationChanged, AnnotationsChanged, GenerationChanged, LabelsChanged, Not, ObjectPredicate, Or,
    Predicate, PredicateFuncs, ResourceVersionChanged, and, annotation_changed, annotations_changed, funcs,
    generation_changed, labels_changed, namespaces, not, object, or, resource_version_changed, selects,
};
