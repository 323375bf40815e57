use informer_core::ObjectKey;
use serde::{Deserialize, Serialize};

use super::FaultAction;
use crate::requests::{RequestRecord, Verb};

/// A file of fault rules, in JSON or YAML: `faults: [...]`, or a list without the key.
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
    /// The rules, in the order in which they are applied.
    pub faults: Vec<FaultRule>,
}

/// A fault rule: which requests it matches, when it fires, and the fault that it injects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRule {
    /// A name for readers of the file; it has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Selects the matching requests.
    #[serde(default, rename = "match")]
    pub on: FaultMatch,
    /// Selects the requests for which the rule fires, among those that match.
    #[serde(default)]
    pub when: FaultWhen,
    /// The fault to inject.
    pub action: FaultAction,
}

/// Selects requests. All fields that are set must match; an unset field matches every request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultMatch {
    /// The API verb.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// The plural resource name, for example `pods`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The API group; empty for the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The namespace in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The subresource in the path, for example `status`; empty for the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// True for server-side apply, false for all other requests. Apply has the verb `patch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<bool>,
    /// True for requests whose verb [writes](Verb::writes), false for all other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<bool>,
    /// True for requests that [begin to list](RequestRecord::is_initial_list) a collection, whether streamed
    /// or not; false for all other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_list: Option<bool>,
    /// A substring of the path, for example `/openapi/v3`. It also matches non-resource requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A substring of the `User-Agent` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// A substring of the decoded query, for example `sendInitialEvents=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

impl FaultMatch {
    /// Matches requests with a verb.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Matches watches of a resource.
    pub fn watch(resource: impl Into<String>) -> Self {
        Self { resource: Some(resource.into()), ..Self::verb(Verb::Watch) }
    }

    /// Matches lists of a resource.
    pub fn list(resource: impl Into<String>) -> Self {
        Self { resource: Some(resource.into()), ..Self::verb(Verb::List) }
    }

    /// Matches requests whose path contains `part`, for example `/apis/apps`.
    pub fn path(part: impl Into<String>) -> Self {
        Self { path: Some(part.into()), ..Self::default() }
    }

    /// Matches only requests for the object with this key: `NAMESPACE/NAME`, or `NAME` for a cluster-scoped
    /// kind.
    ///
    /// ```
    /// use informer_apiserver::{FaultMatch, Verb};
    ///
    /// let deletes = FaultMatch::verb(Verb::Delete).named("default/web-0");
    /// assert_eq!((deletes.namespace.as_deref(), deletes.name.as_deref()), (Some("default"), Some("web-0")));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the key is invalid, or if only create requests match: they have no name in their path. Match
    /// them by [namespace](Self::in_namespace).
    #[track_caller]
    pub fn named(self, key: &str) -> Self {
        let key: ObjectKey =
            key.parse().unwrap_or_else(|error| panic!("match requests for {key:?}: {error}"));
        assert!(
            self.verb != Some(Verb::Create),
            "match requests that create {key}: a create request has no name in its path; use in_namespace"
        );
        let namespace = key.namespace().map(str::to_owned).or(self.namespace);
        Self { namespace, name: Some(key.name().to_owned()), ..self }
    }

    /// Matches only requests for this namespace. Requests for all namespaces do not match.
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Returns true if all fields that are set match the request.
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
            && is(&self.subresource, Some(request.subresource.as_deref().unwrap_or_default()))
            && self.apply.is_none_or(|apply| apply == request.is_apply)
            && self.write.is_none_or(|write| write == request.verb.writes())
            && self.initial_list.is_none_or(|initial| initial == request.is_initial_list())
            && holds(&self.path, &request.path)
            && holds(&self.client, &request.user_agent)
            && holds(&self.query, &request.query)
    }
}

/// Selects the requests for which a rule fires, among those that match. All conditions that are set must
/// hold.
///
/// Each rule counts its matching requests from 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultWhen {
    /// Fires for this request only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Fires from this request on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The rule fires up to and including the matching request with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The rule fires for every n-th matching request; never for 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The rule fires at most this many times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The rule fires with this probability, between 0 and 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The seed of the random numbers that `probability` is compared with.
    #[serde(default)]
    pub seed: u64,
}

/// The error of [`FaultFile::parse`].
#[derive(Debug, thiserror::Error)]
#[error("cannot read the fault rules; write a list of {{match, when, action}}")]
pub struct ParseFaultsError {
    #[source]
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl FaultFile {
    /// Parses JSON or YAML.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is neither JSON nor YAML, or if it contains an unknown field or action.
    pub fn parse(text: &str) -> Result<Self, ParseFaultsError> {
        // YAML is first converted to JSON values, because the YAML deserializer requires tags for enum
        // variants.
        let value: serde_json::Value =
            serde_norway::from_str(text).map_err(|cause| ParseFaultsError { cause: cause.into() })?;
        let parsed = if value.is_array() {
            serde_json::from_value(value).map(|faults| Self { faults })
        } else {
            serde_json::from_value(value)
        };
        parsed.map_err(|cause| ParseFaultsError { cause: cause.into() })
    }
}
