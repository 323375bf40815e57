//! The columns and cells of an object in a `Table`.

use jiff::Timestamp;
use serde_json::Value;

use crate::model::jsonpath;
use crate::model::kinds::KindDefinition;
use crate::model::table::text::age;
use crate::model::table::{PrinterColumn, TableRow};

impl KindDefinition {
    pub(crate) fn table_columns(&self) -> Vec<PrinterColumn> {
        if self.descriptor.cells.is_some() {
            return self.columns.clone();
        }
        let mut name = PrinterColumn::new("Name", "string");
        "name".clone_into(&mut name.format);
        let mut all = vec![name];
        if !self.is_custom() {
            all.push(PrinterColumn::new("Created At", "date"));
        } else if self.columns.is_empty() {
            all.push(PrinterColumn::new("Age", "date"));
        } else {
            all.extend(self.columns.iter().cloned());
        }
        all
    }

    /// Returns the table cells of an object of this kind, in the order of the columns.
    pub(crate) fn table_cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = TableRow { object, now };
        if let Some(cells) = self.descriptor.cells {
            return cells(&row);
        }
        let created = &object["metadata"]["creationTimestamp"];
        if !self.is_custom() {
            vec![row.name(), created.clone()]
        } else if self.columns.is_empty() {
            vec![row.name(), row.age()]
        } else {
            let custom = self.columns.iter().map(|column| custom_cell(&row, column));
            std::iter::once(row.name()).chain(custom).collect()
        }
    }
}

fn custom_cell(row: &TableRow<'_>, column: &PrinterColumn) -> Value {
    if column.path.is_empty() {
        return row.age();
    }
    let Some(value) = jsonpath::first(row.object, &column.path) else { return Value::Null };
    match (column.cell_type.as_str(), value) {
        ("date", Value::String(_)) => age(value, row.now).into(),
        ("integer", Value::Number(number)) if number.is_i64() => value.clone(),
        ("integer", Value::Number(number)) => number
            .as_f64()
            .map_or(Value::Null, |number| serde_json::from_str(&format!("{number:.0}")).unwrap_or_default()),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => {
            value.clone()
        }
        ("string", value) => value.to_string().into(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests;
