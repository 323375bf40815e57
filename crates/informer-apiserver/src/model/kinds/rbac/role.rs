use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::rbac::shared::check_rules;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, NameFormat};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("rbac.authorization.k8s.io", "v1", "Role", Traits::UPSERT)
        .bookmark(r#","rules":null"#)
        .name_format(Some(NameFormat::PathSegment))
        .null_list("rules")
        .rules(Rules::new(&[], &[Check::Call(|at, causes| check_rules(at, true, causes))]));
