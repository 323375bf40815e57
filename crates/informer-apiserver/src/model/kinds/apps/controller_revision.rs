//! ControllerRevisions.

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, check_immutable, required};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("apps", "v1", "ControllerRevision", Traits::NONE)
        .bookmark(r#","data":null,"revision":0"#)
        .rules(Rules::new(&[], CHECKS).changes(UPDATE_CHECKS));

pub(crate) const CHECKS: &[Check] = &[Check::Call(|at, causes| {
    if at.get("data").is_none() {
        causes.push(required("data", "data is mandatory"));
    }
})];

pub(crate) const UPDATE_CHECKS: &[Check] = &[Check::Call(|at, causes| check_immutable(at, "data", causes))];
