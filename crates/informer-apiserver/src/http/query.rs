//! The parameters of a request.

use std::time::Duration;

use crate::error::{ApiError, Cause};

/// The decoded pairs of a query string, in their order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of a parameter; empty where it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// All values of a parameter that is given several times.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Anything but `0` and `false`, in letters of any case, is true.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.given(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.given(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let why = match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => "value out of range",
            false => "invalid syntax",
        };
        let quoted = serde_json::Value::from(text);
        text.parse()
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {quoted}: {why}")))
    }
}

/// The options of lists and watches.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListOptions {
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) version: String,
    pub(crate) matching: String,
    pub(crate) limit: u64,
    pub(crate) continue_token: String,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn parse(query: &Query) -> Result<Self, ApiError> {
        let seconds = query.integer("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Self {
            labels: query.text("labelSelector").to_owned(),
            fields: query.text("fieldSelector").to_owned(),
            version: query.text("resourceVersion").to_owned(),
            matching: query.text("resourceVersionMatch").to_owned(),
            limit: query.integer("limit")?.and_then(|limit| u64::try_from(limit).ok()).unwrap_or_default(),
            continue_token: query.text("continue").to_owned(),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            timeout: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            initial_events: query.flag("sendInitialEvents"),
        })
    }

    /// The rules for lists.
    pub(crate) fn check_list(&self) -> Result<(), ApiError> {
        let mut causes = Vec::new();
        if self.initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        self.check_match(&mut causes);
        refuse(causes)
    }

    fn check_match(&self, causes: &mut Vec<Cause>) {
        let mut forbid = |why: &str| causes.push(Cause::forbidden("resourceVersionMatch", why));
        match self.matching.as_str() {
            "" => {}
            _ if self.version.is_empty() && self.continue_token.is_empty() => {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            _ if !self.continue_token.is_empty() => {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            "Exact" if self.version == "0" => {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            "Exact" | "NotOlderThan" => {}
            other => causes.push(Cause::not_supported(
                "resourceVersionMatch",
                &format!("{other:?}"),
                "\"Exact\", \"NotOlderThan\", \"\"",
            )),
        }
    }

    /// Upstream treats a watch without a version as a streaming list.
    pub(crate) fn rewrite_legacy_watch(&mut self) {
        if self.initial_events.is_none() && self.matching.is_empty() && matches!(&*self.version, "" | "0") {
            self.initial_events = Some(true);
            self.matching = "NotOlderThan".to_owned();
        }
    }

    /// The rules for watches.
    pub(crate) fn check_watch(&self) -> Result<(), ApiError> {
        let mut causes = Vec::new();
        let mut forbid = |why: &str| causes.push(Cause::forbidden("resourceVersionMatch", why));
        match (self.initial_events, self.matching.as_str()) {
            (None, "") | (Some(_), "NotOlderThan") => {}
            (None, _) => {
                forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            }
            (Some(_), _) => forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        }
        if !matches!(&*self.matching, "" | "NotOlderThan") {
            let value = format!("{:?}", self.matching);
            causes.push(Cause::not_supported("resourceVersionMatch", &value, "\"NotOlderThan\""));
        }
        if !self.matching.is_empty() && !self.continue_token.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        refuse(causes)
    }
}

fn refuse(causes: Vec<Cause>) -> Result<(), ApiError> {
    match causes.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid_options("ListOptions", causes)),
    }
}

/// A version parameter: `None` where it is unset. The error is the text, which get, list and watch wrap differently.
pub(crate) fn parse_version(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if digits { "value out of range" } else { "invalid syntax" };
    match text.parse() {
        Ok(version) if digits => Ok(Some(version)),
        _ => Err(ApiError::bad_version(text, why)),
    }
}
