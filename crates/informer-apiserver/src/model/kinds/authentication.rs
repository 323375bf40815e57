use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static SELF_SUBJECT_REVIEW: KindDescriptor =
    KindDescriptor::new("authentication.k8s.io", "v1", "SelfSubjectReview", Traits::REVIEW);

pub(crate) static TOKEN_REVIEW: KindDescriptor =
    KindDescriptor::new("authentication.k8s.io", "v1", "TokenReview", Traits::REVIEW);
