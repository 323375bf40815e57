use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static LOCAL_SUBJECT_ACCESS_REVIEW: KindDescriptor =
    KindDescriptor::new("authorization.k8s.io", "v1", "LocalSubjectAccessReview", Traits::REVIEW);

pub(crate) static SELF_SUBJECT_ACCESS_REVIEW: KindDescriptor =
    KindDescriptor::new("authorization.k8s.io", "v1", "SelfSubjectAccessReview", Traits::REVIEW);

pub(crate) static SELF_SUBJECT_RULES_REVIEW: KindDescriptor =
    KindDescriptor::new("authorization.k8s.io", "v1", "SelfSubjectRulesReview", Traits::REVIEW);

pub(crate) static SUBJECT_ACCESS_REVIEW: KindDescriptor =
    KindDescriptor::new("authorization.k8s.io", "v1", "SubjectAccessReview", Traits::REVIEW);
