//! The format of a scenario.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::hooks::Reply;

/// A script of requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// A sentence about the behavior that it shows.
    pub about: String,
    /// The webhooks of the scenario, by name. They are served at `{webhook}/NAME`, and `{ca}` is their
    /// `caBundle`.
    #[serde(default)]
    pub webhooks: BTreeMap<String, Reply>,
    /// The requests, in order.
    pub steps: Vec<Step>,
    /// The path of the scenario file without the suffix: `TOPIC/NAME`.
    #[serde(skip)]
    pub name: String,
}

/// One step: a request, or a read from an open watch.
///
/// In paths, bodies and headers, `{ns}` is the scenario's own namespace, `{id}` is unique to the run, and
/// `{NAME}` is the value that an earlier step captured.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Method and path, as `GET /api/v1/pods`.
    #[serde(rename = "do")]
    pub request: Option<String>,
    /// The user, by its name in `users.csv`; `admin` by default. A reserved name (see `run.rs`) makes the
    /// request anonymous.
    pub user: Option<String>,
    /// Headers of the request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// Long strings in the body: their lengths, by JSON pointer.
    #[serde(default)]
    pub long: BTreeMap<String, usize>,
    /// The literal body.
    pub raw: Option<String>,
    /// Sends each character of `raw` as one byte with its number, for bodies that are not UTF-8.
    #[serde(default)]
    pub bytes: bool,
    /// The number of nested lists that `{nested}` in `raw` stands for.
    #[serde(default)]
    pub nested: usize,
    /// Keeps the response stream open under this name instead of reading the body.
    pub watch: Option<String>,
    /// Reads from the stream of this name.
    pub read: Option<String>,
    /// How many events are read; by default the stream is read to its end. For reviews, the maximum number
    /// that is compared.
    pub events: Option<usize>,
    /// Takes the requests of the webhook with this name since the last time.
    pub reviews: Option<String>,
    /// Drops the stream of this name.
    pub close: Option<String>,
    /// Captures parts of the response under names, by JSON pointer.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// Repeats the request until a part of the response has this value, by JSON pointer or `status`.
    #[serde(default)]
    pub until: BTreeMap<String, Value>,
    /// The response is part of the setup and is not compared.
    #[serde(default)]
    pub setup: bool,
    /// The compared parts of the response body, by JSON pointer; all of it by default.
    #[serde(default)]
    pub only: Vec<String>,
}
