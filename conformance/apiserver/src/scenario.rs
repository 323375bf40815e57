//! What a scenario says.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::hooks::Reply;

/// A script of requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it shows, in a sentence.
    pub about: String,
    /// The webhooks that the scenario plays, by name: they are at `{webhook}/NAME`, and `{ca}` is their `caBundle`.
    #[serde(default)]
    pub webhooks: BTreeMap<String, Reply>,
    /// What is requested, in order.
    pub steps: Vec<Step>,
    /// Its path without the suffix: `TOPIC/NAME`.
    #[serde(skip)]
    pub name: String,
}

/// One step: a request, or the reading of a watch that is open.
///
/// In paths, bodies and headers `{ns}` stands for a namespace of the scenario's own, `{id}` for a word that no other
/// run uses, and `{NAME}` for what an earlier step captured.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Method and path, as `GET /api/v1/pods`.
    #[serde(rename = "do")]
    pub request: Option<String>,
    /// Who asks: a name of `users.csv`, `nobody` for none; `admin` by default.
    pub user: Option<String>,
    /// Headers of the request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// Long texts in the body: how many letters, by JSON pointers to where they go.
    #[serde(default)]
    pub long: BTreeMap<String, usize>,
    /// The body, sent as it is.
    pub raw: Option<String>,
    /// Each letter of `raw` is sent as one byte, its number: for bodies that are no text.
    #[serde(default)]
    pub bytes: bool,
    /// How many lists `{nested}` in `raw` stands for, one in the other.
    #[serde(default)]
    pub nested: usize,
    /// Keeps the stream of the answer open under this name instead of reading the body.
    pub watch: Option<String>,
    /// Reads from the stream of this name.
    pub read: Option<String>,
    /// How many events are read; without it the stream is read to its end. Of reviews, how many count at most.
    pub events: Option<usize>,
    /// Takes what the webhook of this name was asked since the last time.
    pub reviews: Option<String>,
    /// Drops the stream of this name.
    pub close: Option<String>,
    /// Names for parts of the answer, by their JSON pointers.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// Repeats the request until a part of the answer has this value: by JSON pointer, and `status`.
    #[serde(default)]
    pub until: BTreeMap<String, Value>,
    /// The answer is part of the preparation, and is not compared.
    #[serde(default)]
    pub setup: bool,
    /// Which parts of the answer's body count, by JSON pointers; all of it by default.
    #[serde(default)]
    pub only: Vec<String>,
}
