//! The format of a scenario file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::hooks::Reply;

/// A scenario: a script of requests to a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// A sentence about the behavior that the scenario shows.
    pub about: String,
    /// The webhooks of the scenario, by name. A webhook is served at `{webhook}/NAME`, and `{ca}` is their
    /// `caBundle`.
    #[serde(default)]
    pub webhooks: BTreeMap<String, Reply>,
    /// The steps of the scenario, in order.
    pub steps: Vec<Step>,
    /// The path of the scenario file without the suffix: `TOPIC/NAME`.
    #[serde(skip)]
    pub name: String,
}

/// One step of a scenario: a request, or a read from an open watch.
///
/// In paths, bodies and headers, `{ns}` is the scenario's own namespace, `{id}` is unique to the run, and
/// `{NAME}` is the value that an earlier step captured.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Method and path of the request, as `GET /api/v1/pods`.
    #[serde(rename = "do")]
    pub request: Option<String>,
    /// The user who sends the request, by the name in `users.csv`; `admin` by default. A reserved name (see
    /// `run.rs`) makes the request anonymous.
    pub user: Option<String>,
    /// The headers of the request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body of the request, sent as JSON.
    pub body: Option<Value>,
    /// The lengths of long strings that are inserted into the body, by JSON pointer.
    #[serde(default)]
    pub long: BTreeMap<String, usize>,
    /// The literal body of the request, instead of `body`.
    pub raw: Option<String>,
    /// True to send each character of `raw` as one byte with the number of the character, for bodies that are
    /// not UTF-8.
    #[serde(default)]
    pub bytes: bool,
    /// The number of nested lists by which the placeholder `{nested}` in `raw` is replaced.
    #[serde(default)]
    pub nested: usize,
    /// A name under which the response stream stays open, instead of reading the body.
    pub watch: Option<String>,
    /// The name of an open stream from which this step reads.
    pub read: Option<String>,
    /// Number of events that the step reads from a stream; by default it reads up to the end. For reviews,
    /// the maximum number of requests that are compared.
    pub events: Option<usize>,
    /// The name of a webhook. The step compares the requests that the webhook has received since the last
    /// such step.
    pub reviews: Option<String>,
    /// The name of an open stream that this step closes.
    pub close: Option<String>,
    /// The parts of the response that later steps can use: names for the values at JSON pointers.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// The step repeats the request until parts of the response have the values in this map. A key of the map
    /// is a JSON pointer into the body, or `status`.
    #[serde(default)]
    pub until: BTreeMap<String, Value>,
    /// True if the response is part of the setup and is not compared.
    #[serde(default)]
    pub setup: bool,
    /// The parts of the response body that are compared, by JSON pointer; the whole body by default.
    #[serde(default)]
    pub only: Vec<String>,
}
