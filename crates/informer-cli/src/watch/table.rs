//! The columns of `-o table` and `-o wide`, which are those of the server's `Table` responses.
//!
//! [`client`] returns a client that requests lists and watches as a `Table` whose rows also contain the
//! objects (`includeObject=Object`), as `kubectl get -w --sort-by` does. It rewrites each response to the
//! ordinary list or watch, in which each object has one additional member, [`COLUMNS`], with the names and
//! the cells of its row. The informer therefore works as with other output formats, the row of a change
//! arrives with the change, and no further request is sent.
//!
//! The columns are part of each object, because an update of a CRD can change its columns while earlier
//! objects are cached.
//!
//! # Lock order
//!
//! One lock guards the state of the columns of a kind. No other lock is taken while it is held.

mod rewrite;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{ACCEPT, CONTENT_LENGTH, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use informer::Object;
use informer::client::{Client, ResourceKind, ResponseBody};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tower::BoxError;

use super::Text;
use crate::failure::plain;

/// The member with the columns of an object. No field of a built-in kind begins with `$`.
const COLUMNS: &str = "$columns";

/// The maximum size of the response to one list request. It is kept in memory until it is rewritten.
const MAX_LIST_BYTES: usize = 1 << 30;
/// The maximum size of one watch event. The default of the client for an object is the same.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Prefers a `Table`. Servers without `Table` responses send ordinary objects.
const ACCEPT_TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

/// The number of spaces between two columns, and the minimum width of a column without them. Both are those
/// of kubectl.
const PADDING: usize = 3;
const MIN_WIDTH: usize = 3;

/// The maximum width to which a cell widens its column. A longer cell is printed in full and not aligned.
const MAX_WIDTH: usize = 256;

/// The name of a column in upper case, and the text of its cell in one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell(String, String);

/// Determines which columns the table of a kind has.
#[derive(Debug, Clone, Default)]
pub(super) struct TableOptions {
    /// True to print also the columns with a priority greater than 0.
    pub(super) wide: bool,
    /// True to begin each row with the namespace.
    pub(super) namespaces: bool,
    /// The prefix of names, such as `pod/`; empty if only one kind is watched.
    pub(super) prefix: String,
}

/// The columns of one kind, shared by the client, which receives rows, and the handler, which prints them.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    options: TableOptions,
    state: Arc<Mutex<Columns>>,
}

#[derive(Debug, Default)]
struct Columns {
    /// The definitions in the last response that had some. Of a watch, only the first event has them.
    definitions: Vec<Definition>,
    /// The width of each column: that of the longest cell so far. A list widens the columns before its first
    /// row is printed.
    widths: Vec<usize>,
}

/// An item of `columnDefinitions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Definition {
    name: String,
    #[serde(default)]
    priority: i64,
}

/// The header and the row of an object, aligned with the other rows of its kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    /// The names of the columns, which are equal for rows with the same columns.
    pub(super) names: Vec<String>,
    pub(super) header: String,
    pub(super) row: String,
}

impl Table {
    pub(super) fn new(options: TableOptions) -> Self {
        Self { options, state: Arc::default() }
    }

    /// Returns the lines for an object. `columns` is its member [`COLUMNS`]. Without it, the columns are
    /// those of kinds for which a server has no columns: name and creation time.
    pub(super) fn lines(&self, object: &Text, columns: Option<Vec<Cell>>, created: Option<&str>) -> Lines {
        let cells = columns.unwrap_or_else(|| {
            let created = created.unwrap_or("<unknown>").to_owned();
            let key = object.key();
            let cells = [Cell::new("Name", key.name().to_owned()), Cell::new("Created At", created)];
            self.complete(key.namespace(), cells.into())
        });
        let widths = self.widen(&cells);
        let line = |text: fn(&Cell) -> &str| {
            let mut line = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                line += &format!("{:width$}{:PADDING$}", text(cell), "");
            }
            line.truncate(line.trim_end().len());
            line
        };
        Lines {
            names: cells.iter().map(|Cell(name, _)| name.clone()).collect(),
            header: line(|Cell(name, _)| name),
            row: line(|Cell(_, text)| text),
        }
    }

    /// Adds the namespace and the prefix of the name to the columns of an object.
    fn complete(&self, namespace: Option<&str>, mut cells: Vec<Cell>) -> Vec<Cell> {
        if let Some(Cell(_, name)) = cells.first_mut() {
            name.insert_str(0, &self.options.prefix);
        }
        if let Some(namespace) = namespace.filter(|_| self.options.namespaces) {
            cells.insert(0, Cell::new("Namespace", namespace.to_owned()));
        }
        cells
    }

    /// Widens the columns to these cells. Returns their widths.
    fn widen(&self, cells: &[Cell]) -> Vec<usize> {
        let widths = &mut self.state.lock().widths;
        widths.resize(cells.len().max(widths.len()), MIN_WIDTH);
        for (width, Cell(name, text)) in widths.iter_mut().zip(cells) {
            let longest = name.chars().count().max(text.chars().count());
            *width = (*width).max(longest.min(MAX_WIDTH));
        }
        widths.clone()
    }
}

impl Cell {
    fn new(column: &str, text: String) -> Self {
        Self(plain(&column.to_uppercase()), plain(&text))
    }
}

/// Formats the value of a cell like kubectl: only the first line of a string, and nothing for `null`.
fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.split_once(['\n', '\r', '\u{c}']) {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        other => other.to_string(),
    }
}

/// Removes the columns from a decoded object and returns them.
pub(super) fn take_columns(object: &mut Value) -> Option<Vec<Cell>> {
    let columns = object.as_object_mut()?.remove(COLUMNS)?;
    serde_json::from_value(columns).ok()
}

/// Returns a client whose lists and watches of `kind` also contain the columns of each object.
pub(super) fn client(client: &Client, kind: &ResourceKind, table: &Table) -> Client {
    let namespace = client.default_namespace().to_owned();
    let collection = format!("/{}", kind.plural());
    let (client, kind, table) = (client.clone(), kind.kind().to_owned(), table.clone());
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let (client, kind, table) = (client.clone(), kind.clone(), table.clone());
        let is_collection = request.uri().path().ends_with(&collection);
        async move {
            let (mut head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            if !is_collection {
                return Ok(client.request(Request::from_parts(head, body)).await?);
            }
            head.headers.insert(ACCEPT, HeaderValue::from_static(ACCEPT_TABLE));
            let is_watch = has_parameter(&head.uri, "watch=true");
            head.uri = with_objects(&head.uri)?;
            let response = client.request(Request::from_parts(head, body)).await?;
            if response.status() == StatusCode::OK {
                rewritten(response, is_watch, &kind, table).await
            } else {
                Ok::<_, BoxError>(response)
            }
        }
    });
    Client::from_service(service, namespace)
}

fn has_parameter(uri: &Uri, parameter: &str) -> bool {
    uri.query().unwrap_or_default().split('&').any(|given| given == parameter)
}

/// Adds the parameter `includeObject=Object` to a URI.
fn with_objects(uri: &Uri) -> Result<Uri, http::uri::InvalidUri> {
    let mark = if uri.query().is_some_and(|query| !query.is_empty()) { '&' } else { '?' };
    let text = uri.to_string();
    format!("{}{mark}includeObject=Object", text.trim_end_matches('?')).parse()
}

async fn rewritten(
    response: Response<ResponseBody>,
    is_watch: bool,
    kind: &str,
    table: Table,
) -> Result<Response<ResponseBody>, BoxError> {
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let body = if is_watch {
        ResponseBody::new(watch_body(body, table))
    } else {
        let list = Limited::new(body, MAX_LIST_BYTES).collect().await?.to_bytes();
        let list = rewrite::list(&list, kind, &table).map_or(list, Bytes::from);
        ResponseBody::new(Full::new(list))
    };
    Ok(Response::from_parts(head, body))
}

/// Rewrites each line of the body of a watch as soon as it is complete.
fn watch_body(
    body: ResponseBody,
    table: Table,
) -> impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static {
    let lines = rewrite::WatchLines::new(table);
    let frames = stream::unfold((body.into_data_stream(), lines), async |(mut body, mut lines)| {
        let frame = match body.next().await? {
            Ok(data) => lines.push(&data).map_err(BoxError::from),
            Err(error) => Err(error),
        };
        Some((frame.map(http_body::Frame::data), (body, lines)))
    });
    StreamBody::new(frames)
}
