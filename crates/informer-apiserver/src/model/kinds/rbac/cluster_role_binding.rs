use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::rbac::shared::{
    BINDING_DEFAULTS, BINDING_UPDATE_CHECKS, binding_cells, check_binding,
};
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, NameFormat};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", Traits::UPSERT)
        .name_format(Some(NameFormat::PathSegment))
        .rules(
            Rules::new(BINDING_DEFAULTS, &[Check::Call(|at, causes| check_binding(at, false, causes))])
                .changes(BINDING_UPDATE_CHECKS),
        )
        .cells(binding_cells);
