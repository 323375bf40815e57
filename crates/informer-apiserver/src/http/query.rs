//! The query parameters of list and watch requests.

use std::time::Duration;

use crate::model::cause::{Cause, Causes};
use crate::model::error::ApiError;
use crate::model::query::Query;

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

    pub(crate) fn check_list(&self) -> Result<(), ApiError> {
        let mut causes = Causes::default();
        if self.initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        self.check_match(&mut causes);
        refuse(causes)
    }

    fn check_match(&self, causes: &mut Causes) {
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

    /// Rewrites a watch without a resourceVersion, or with resourceVersion 0, as a streaming list.
    /// kube-apiserver does the same.
    pub(crate) fn rewrite_legacy_watch(&mut self) {
        if self.initial_events.is_none() && self.matching.is_empty() && matches!(&*self.version, "" | "0") {
            self.initial_events = Some(true);
            self.matching = "NotOlderThan".to_owned();
        }
    }

    pub(crate) fn check_watch(&self) -> Result<(), ApiError> {
        let mut causes = Causes::default();
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

fn refuse(causes: Causes) -> Result<(), ApiError> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("ListOptions", causes.into_vec())) }
}
