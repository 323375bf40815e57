//! CEL expressions of admission policies and match conditions: variables, results and cost limits.

#[cfg(feature = "cel")]
mod authorizer;
#[cfg(feature = "cel")]
mod evaluate;
#[cfg(not(feature = "cel"))]
mod refuse;
#[cfg(feature = "cel")]
mod values;

use serde_json::Value;

use crate::admission::AdmissionAttributes;
use crate::admission::write::Write;
use crate::auth::Permissions;
use crate::model::user::User;

#[cfg(feature = "cel")]
pub(super) use evaluate::{Expression, Run};
#[cfg(not(feature = "cel"))]
pub(super) use refuse::{Expression, Run};

/// The result of a CEL expression. Results of types that admission does not distinguish are `Other`.
#[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "only read with the cel feature"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpressionValue {
    Bool(bool),
    Text(String),
    Null,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EvaluationError {
    pub(super) why: String,
    /// The cost budget is exhausted, so the caller must not evaluate further expressions.
    pub(super) budget_exhausted: bool,
}

impl EvaluationError {
    fn new(why: String) -> Self {
        Self { why, budget_exhausted: false }
    }
}

pub(super) type BoundVariables<'a> = [(&'static str, &'a Value)];

#[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "only read with the cel feature"))]
pub(super) struct AuthorizerInput<'a> {
    user: &'a User,
    permissions: Permissions,
    attributes: &'a AdmissionAttributes,
}

impl<'a> AuthorizerInput<'a> {
    pub(super) fn of(write: &Write<'a>, permissions: Permissions) -> Self {
        Self { user: &write.attributes.user, permissions, attributes: write.attributes }
    }
}
