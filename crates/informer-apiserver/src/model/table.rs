//! The `Table` representation of objects, which kubectl prints.

pub(crate) mod text;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::rules::warnings::text as text_of;

/// A column of a `Table`, or of `additionalPrinterColumns` in a CRD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) cell_type: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    /// The JSON path of the cell's value; only for custom kinds.
    pub(crate) path: String,
}

impl PrinterColumn {
    /// Creates a table column without a format, a description or a path.
    pub(crate) fn new(name: &str, cell_type: &str) -> Self {
        Self {
            name: name.to_owned(),
            cell_type: cell_type.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            path: String::new(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TableRow<'a> {
    pub(crate) object: &'a Value,
    pub(crate) now: Timestamp,
}

impl<'a> TableRow<'a> {
    pub(crate) fn spec(&self) -> &'a Value {
        &self.object["spec"]
    }

    pub(crate) fn status(&self) -> &'a Value {
        &self.object["status"]
    }

    pub(crate) fn name(&self) -> Value {
        json!(text_of(&self.object["metadata"]["name"]))
    }

    /// Returns the table cell with the time since the object's creation.
    pub(crate) fn age(&self) -> Value {
        json!(text::age(&self.object["metadata"]["creationTimestamp"], self.now))
    }
}
