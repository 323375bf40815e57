//! Expressions in CEL over a request: what they see, what they come to, and what they may cost.

#[cfg(feature = "cel")]
mod authorizer;
#[cfg(feature = "cel")]
mod evaluate;
#[cfg(not(feature = "cel"))]
mod refuse;
#[cfg(feature = "cel")]
mod values;

use serde_json::Value;

use crate::admission::Attributes;
use crate::admission::matching::Write;
use crate::auth::Permissions;
use crate::model::user::User;

#[cfg(feature = "cel")]
pub(super) use evaluate::{Expression, Run};
#[cfg(not(feature = "cel"))]
pub(super) use refuse::{Expression, Run};

/// What an expression comes to, as far as it is asked.
#[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "nothing is evaluated"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Bool(bool),
    Text(String),
    Null,
    Other,
}

/// Why an expression comes to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) why: String,
    /// Nothing is left to be spent: the others are not evaluated either.
    pub(super) ends_all: bool,
}

impl Failure {
    fn new(why: String) -> Self {
        Self { why, ends_all: false }
    }
}

/// What expressions see, each under its name.
pub(super) type Subject<'a> = [(&'static str, &'a Value)];

/// Who asks what they may do, and about which object.
#[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "nothing is evaluated"))]
pub(super) struct Asker<'a> {
    user: &'a User,
    permissions: Permissions,
    attributes: &'a Attributes,
}

impl<'a> Asker<'a> {
    /// The user of a write.
    pub(super) fn of(write: &Write<'a>, permissions: Permissions) -> Self {
        Self { user: &write.attributes.user, permissions, attributes: write.attributes }
    }
}
