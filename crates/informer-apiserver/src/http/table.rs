//! The `Table` representation, which `kubectl get` prints.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::table::PrinterColumn;
use crate::registry::storage::{EventType, Stored};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableForm {
    /// The client requests `meta.k8s.io/v1beta1`, which differs from `v1` only by its name.
    pub(crate) beta: bool,
    pub(crate) with: WithObject,
}

/// The part of the object that each table row contains in addition to its cells (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithObject {
    None,
    Metadata,
    Object,
}

/// A watch event that is sent as a table row.
#[derive(Clone, Copy)]
pub(crate) struct RowEvent<'a> {
    pub(crate) event_type: EventType,
    pub(crate) stored: &'a Stored,
    /// The resourceVersion of the event, which differs from that of `stored` for a deletion.
    pub(crate) version: u64,
}

impl WithObject {
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

impl TableForm {
    pub(crate) fn of<'a>(
        self,
        kind: &KindDefinition,
        metadata: Value,
        objects: impl Iterator<Item = &'a Stored>,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> = objects.map(|stored| self.row(kind, parse(stored.as_slice()), now)).collect();
        self.table(metadata, definitions(kind), rows)
    }

    pub(crate) fn of_one(self, kind: &KindDefinition, stored: &Stored, now: Timestamp) -> Value {
        let metadata = json!({"resourceVersion": stored.version.to_string()});
        self.of(kind, metadata, std::iter::once(stored), now)
    }

    /// Returns the JSON line of a watch event. Only the `first` line of a watch contains the column
    /// definitions.
    pub(crate) fn line(
        self,
        kind: &KindDefinition,
        event: RowEvent<'_>,
        first: bool,
        now: Timestamp,
    ) -> String {
        let RowEvent { event_type, stored, version } = event;
        let mut object = parse(stored.as_slice());
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let definitions = if first { definitions(kind) } else { Value::Null };
        let metadata = json!({"resourceVersion": version.to_string()});
        let table = self.table(metadata, definitions, vec![self.row(kind, object, now)]);
        format!("{{\"type\":\"{}\",\"object\":{table}}}\n", event_type.name())
    }

    /// Returns the JSON line of a watch bookmark: a `Table` whose only row contains the bookmark object.
    pub(crate) fn bookmark(
        self,
        kind: &KindDefinition,
        version: u64,
        initial_end: bool,
        now: Timestamp,
    ) -> String {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        let cells = kind.table_cells(&json!({"metadata": metadata}), now);
        let plain = metadata.clone();
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.with {
            WithObject::Object => {
                json!({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})
            }
            _ => partial(metadata),
        };
        let table = self.table(plain, Value::Null, vec![json!({"cells": cells, "object": object})]);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{table}}}\n")
    }

    fn table(self, metadata: Value, definitions: Value, rows: Vec<Value>) -> Value {
        let version = if self.beta { "v1beta1" } else { "v1" };
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        })
    }

    fn row(self, kind: &KindDefinition, object: Value, now: Timestamp) -> Value {
        let cells = kind.table_cells(&object, now);
        let object = match self.with {
            WithObject::None => Value::Null,
            WithObject::Metadata => partial(object["metadata"].clone()),
            WithObject::Object => object,
        };
        json!({"cells": cells, "object": object})
    }
}

fn partial(metadata: Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn definitions(kind: &KindDefinition) -> Value {
    let definition = |column: PrinterColumn| {
        json!({
            "name": column.name,
            "type": column.cell_type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    };
    kind.table_columns().into_iter().map(definition).collect()
}
