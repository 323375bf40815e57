//! Expressions in CEL: parsing and type checking of the expressions of policies and webhooks.

#[cfg(feature = "cel")]
pub(crate) mod check;
#[cfg(feature = "cel")]
pub(crate) mod functions;
#[cfg(feature = "cel")]
pub(crate) mod made;
#[cfg(feature = "cel")]
pub(crate) mod types;
#[cfg(not(feature = "cel"))]
mod unchecked;

#[cfg(feature = "cel")]
pub(crate) use check::Declared;
#[cfg(not(feature = "cel"))]
pub(crate) use unchecked::Declared;

/// Under this name the objects that an expression makes have the name of their type: no member of an object can be called so.
pub(crate) const TYPE_NAME: &str = "\0type";
