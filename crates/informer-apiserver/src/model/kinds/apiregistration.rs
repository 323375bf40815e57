//! The kinds of the group `apiregistration.k8s.io`.

pub(crate) mod api_service;
