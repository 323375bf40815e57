//! Paths and query strings of requests.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::model::cause::{Cause, Causes};
use crate::model::error::ApiError;

/// The decoded parameters of a query string, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// Returns the first value of a query parameter; empty if the parameter is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Parses a boolean query parameter: every value except `0` and `false` (in any case) is true.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.given(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.given(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let why = if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            "value out of range"
        } else {
            "invalid syntax"
        };
        let quoted = serde_json::Value::from(text);
        text.parse()
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {quoted}: {why}")))
    }
}

/// Decodes the percent-encoding of a request path.
pub(crate) fn decoded_path(path: &str) -> String {
    crate::model::json::text(&Cow::from(percent_decode_str(path)))
}

/// Splits a request path into segments. As in kube-apiserver, the path is decoded first, and all slashes at
/// its ends are dropped. A segment between two slashes may be empty.
pub(crate) fn segments(path: &str) -> Vec<String> {
    match decoded_path(path).trim_matches('/') {
        "" => Vec::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// Validates the parameter `dryRun`, whose only valid value is `All`.
pub(crate) fn check_dry_run(stages: &[String], causes: &mut Causes) {
    if stages.iter().any(|stage| stage != "All") {
        let quoted: Vec<String> = stages.iter().map(|stage| format!("{stage:?}")).collect();
        let value = format!("[{}]", quoted.join(","));
        causes.push(Cause::not_supported("dryRun", &value, "\"All\""));
    }
}
