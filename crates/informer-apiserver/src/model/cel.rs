//! Parsing and type checking of the CEL expressions in admission policies and webhook match conditions.

#[cfg(feature = "cel")]
pub(crate) mod ast;
#[cfg(feature = "cel")]
pub(crate) mod check;
#[cfg(feature = "cel")]
pub(crate) mod functions;
#[cfg(feature = "cel")]
pub(crate) mod made;
#[cfg(feature = "cel")]
pub(crate) mod nesting;
#[cfg(feature = "cel")]
mod rule;
#[cfg(feature = "cel")]
pub(crate) mod types;
#[cfg(not(feature = "cel"))]
mod unchecked;

#[cfg(feature = "cel")]
pub(crate) use check::Declared;
#[cfg(feature = "cel")]
pub(crate) use rule::{RuleScope, uses};
#[cfg(not(feature = "cel"))]
pub(crate) use unchecked::Declared;

/// The map key that holds the type name of an object constructed in CEL. No field of an object can have this
/// name.
pub(crate) const TYPE_NAME: &str = "\0type";
