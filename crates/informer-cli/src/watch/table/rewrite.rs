//! Rewrites the bodies of `Table` responses to those of ordinary lists and watches.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{COLUMNS, Cell, Definition, MAX_EVENT_BYTES, Table, cell_text};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableText<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(default)]
    column_definitions: Option<Vec<Definition>>,
    #[serde(borrow, default)]
    rows: Option<Vec<Row<'a>>>,
}

#[derive(Deserialize)]
struct Row<'a> {
    cells: Vec<Value>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct EventText<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The part of an object that is read to print its namespace.
#[derive(Deserialize, Default)]
struct ObjectText<'a> {
    #[serde(borrow, default)]
    metadata: MetadataText<'a>,
}

#[derive(Deserialize, Default)]
struct MetadataText<'a> {
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
}

/// Returns the list of the objects of a `Table`, with their columns; `None` if the body is not a `Table`.
pub(super) fn list(body: &[u8], kind: &str, table: &Table) -> Option<String> {
    let text: TableText<'_> = serde_json::from_slice(body).ok().filter(is_table)?;
    table.define(text.column_definitions);
    let metadata = text.metadata.map_or("{}", RawValue::get);
    let objects: Vec<String> =
        text.rows.into_iter().flatten().map(|row| table.object(&row, RowUse::Printed)).collect();
    let items = objects.join(",");
    Some(format!(
        "{{\"kind\":\"{kind}List\",\"apiVersion\":\"v1\",\"metadata\":{metadata},\"items\":[{items}]}}"
    ))
}

fn is_table(text: &TableText<'_>) -> bool {
    text.kind == "Table"
}

/// The use of the row of an object. The row of a bookmark is not printed, so it widens no column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowUse {
    Printed,
    Bookmark,
}

impl Table {
    fn define(&self, definitions: Option<Vec<Definition>>) {
        if let Some(definitions) = definitions.filter(|definitions| !definitions.is_empty()) {
            self.state.lock().definitions = definitions;
        }
    }

    /// Returns the object of a row, with its columns.
    fn object(&self, row: &Row<'_>, usage: RowUse) -> String {
        let object = row.object.get();
        let Some(members) = object.strip_prefix('{').filter(|_| usage == RowUse::Printed) else {
            return object.to_owned();
        };
        let ObjectText { metadata } = serde_json::from_str(object).unwrap_or_default();
        let cells = self.cells(&row.cells);
        let cells = self.complete(metadata.namespace.as_deref(), cells);
        self.widen(&cells);
        let cells = serde_json::to_string(&cells).expect("strings can be serialized");
        let comma = if members.trim_start().starts_with('}') { "" } else { "," };
        format!("{{\"{COLUMNS}\":{cells}{comma}{members}")
    }

    fn cells(&self, values: &[Value]) -> Vec<Cell> {
        let definitions = &self.state.lock().definitions;
        let shown = definitions.iter().zip(values);
        let shown = shown.filter(|(definition, _)| self.options.wide || definition.priority == 0);
        shown.map(|(definition, value)| Cell::new(&definition.name, cell_text(value))).collect()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a watch event has more than {MAX_EVENT_BYTES} bytes")]
pub(super) struct EventTooLarge;

/// Rewrites the events of a watch, each of which is a line.
pub(super) struct WatchLines {
    table: Table,
    /// The received part of an incomplete line.
    rest: Vec<u8>,
}

impl WatchLines {
    pub(super) fn new(table: Table) -> Self {
        Self { table, rest: Vec::new() }
    }

    /// Returns the lines that are complete with `data`; empty if there are none.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<Bytes, EventTooLarge> {
        let mut lines = String::new();
        let mut data = data;
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(&data[..=end]);
            lines.push_str(&self.event());
            data = &data[end + 1..];
        }
        self.rest.extend_from_slice(data);
        if self.rest.len() > MAX_EVENT_BYTES { Err(EventTooLarge) } else { Ok(lines.into()) }
    }

    /// Takes the complete line and rewrites its event. An event without a `Table`, such as an error, remains
    /// unchanged.
    fn event(&mut self) -> String {
        let line = std::mem::take(&mut self.rest);
        let rewritten = || {
            let event: EventText<'_> = serde_json::from_slice(&line).ok()?;
            let text: TableText<'_> = serde_json::from_str(event.object.get()).ok().filter(is_table)?;
            self.table.define(text.column_definitions);
            let usage = if event.r#type == "BOOKMARK" { RowUse::Bookmark } else { RowUse::Printed };
            let object = self.table.object(text.rows.as_ref()?.first()?, usage);
            let r#type = serde_json::to_string(&event.r#type).expect("strings can be serialized");
            Some(format!("{{\"type\":{},\"object\":{object}}}\n", r#type))
        };
        rewritten().unwrap_or_else(|| String::from_utf8_lossy(&line).into_owned())
    }
}
