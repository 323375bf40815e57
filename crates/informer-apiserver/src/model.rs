//! Pure functions over objects and kinds. The code in this module does not use tokio, locks or the clock.

pub(crate) mod cause;
pub(crate) mod cel;
pub(crate) mod crd;
pub(crate) mod duplicates;
pub(crate) mod error;
pub(crate) mod go_format;
pub(crate) mod json;
pub(crate) mod json_patch;
pub(crate) mod jsonpath;
pub(crate) mod kinds;
pub(crate) mod labels;
pub(crate) mod managed_fields;
pub(crate) mod metadata;
pub(crate) mod net;
pub(crate) mod object_meta;
pub(crate) mod quantity;
pub(crate) mod query;
pub(crate) mod re2;
pub(crate) mod rules;
pub(crate) mod schema;
pub(crate) mod selectors;
pub(crate) mod table;
pub(crate) mod typed;
pub(crate) mod user;
pub(crate) mod write_options;
pub(crate) mod yaml;
