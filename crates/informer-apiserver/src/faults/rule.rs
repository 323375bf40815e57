//! Rules as data.

use serde::{Deserialize, Serialize};

use super::FaultAction;
use crate::requests::{RequestRecord, Verb};

/// A list of rules, as a file holds them: `faults: [...]`, or the bare list.
///
/// ```
/// use informer_apiserver::FaultFile;
///
/// let file = FaultFile::parse("
/// faults:
/// - match: {verb: watch, resource: pods}
///   when: {nth: 1}
///   action: {cut: {afterEvents: 3}}
/// ")?;
/// assert_eq!(file.faults.len(), 1);
/// # Ok::<(), informer_apiserver::ParseFaultsError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultFile {
    /// The rules, in the order in which they are held against a request.
    pub faults: Vec<FaultRule>,
}

/// Which requests go wrong, when, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which requests.
    #[serde(default, rename = "match")]
    pub on: FaultMatch,
    /// Which of them.
    #[serde(default)]
    pub when: FaultWhen,
    /// What happens to them.
    pub action: FaultAction,
}

/// Which requests a rule is about; what is not named matches everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultMatch {
    /// The verb.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// The plural resource, as `pods`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The API group; the core group is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The namespace in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A part of the path, as `/openapi/v3`: for what is no resource, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A part of the `User-Agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// A part of the query, as `sendInitialEvents=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

impl FaultMatch {
    /// Requests of one verb.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Watches of a resource.
    pub fn watch(resource: impl Into<String>) -> Self {
        Self { resource: Some(resource.into()), ..Self::verb(Verb::Watch) }
    }

    /// Lists of a resource.
    pub fn list(resource: impl Into<String>) -> Self {
        Self { resource: Some(resource.into()), ..Self::verb(Verb::List) }
    }

    /// Requests whose path has this part, as `/apis/apps`: discovery and the like.
    pub fn path(part: impl Into<String>) -> Self {
        Self { path: Some(part.into()), ..Self::default() }
    }

    /// True where the rule is about the request.
    pub fn matches(&self, request: &RequestRecord) -> bool {
        let gvr = request.gvr.as_ref();
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let holds =
            |part: &Option<String>, text: &str| part.as_deref().is_none_or(|part| text.contains(part));
        self.verb.is_none_or(|verb| verb == request.verb)
            && is(&self.resource, gvr.map(|gvr| gvr.resource.as_str()))
            && is(&self.group, gvr.map(|gvr| gvr.group.as_str()))
            && is(&self.namespace, request.namespace.as_deref())
            && is(&self.name, request.name.as_deref())
            && holds(&self.path, &request.path)
            && holds(&self.client, &request.user_agent)
            && holds(&self.query, &request.query)
    }
}

/// Which of the matching requests; all conditions that are named must hold. Counting begins at 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultWhen {
    /// This one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// From this one on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Up to and including this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Each n-th.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// With this probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Where the draws begin.
    #[serde(default)]
    pub seed: u64,
}

/// A text that holds no rules.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the fault rules; write a list of {{match, when, action}}")]
pub struct ParseFaultsError {
    #[source]
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl FaultFile {
    /// Reads JSON or YAML.
    ///
    /// # Errors
    ///
    /// When it is neither, or names a condition or an action that does not exist.
    pub fn parse(text: &str) -> Result<Self, ParseFaultsError> {
        // By way of JSON values: YAML proper would want actions written as tags.
        let value: serde_json::Value =
            serde_norway::from_str(text).map_err(|cause| ParseFaultsError { cause: cause.into() })?;
        let parsed = match value.is_array() {
            true => serde_json::from_value(value).map(|faults| Self { faults }),
            false => serde_json::from_value(value),
        };
        parsed.map_err(|cause| ParseFaultsError { cause: cause.into() })
    }
}
