//! Matchers of objects, for waits and assertions.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;

use super::fields::{get_path, path_segments};

/// The maximum length of a field's value in the message of a failed wait, in characters.
pub(super) const MAX_VALUE: usize = 160;

/// A condition on an object that exists, with a description for the message of a failed wait.
///
/// Functions create matchers: [`has_condition`], [`has_field`], [`has_finalizer`], [`is_terminating`],
/// [`exists`], [`satisfies`] and [`not`]. A closure `Fn(&K) -> bool` converts to a matcher, too. No matcher
/// matches a missing object, not even `not`: use [`absent`].
///
/// ```
/// use informer::testing::{Matcher, has_condition, has_field};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// fn is_rolled_out(replicas: i32) -> Matcher<Deployment> {
///     has_condition("Available", "True").and(has_field("status.updatedReplicas", replicas))
/// }
/// let description = "condition Available is True, and status.updatedReplicas is 2";
/// assert_eq!(is_rolled_out(2).description(), description);
/// ```
pub struct Matcher<K> {
    description: String,
    check: Arc<Check<K>>,
}

/// A function that evaluates an object and its JSON. If the object does not match, returns the difference
/// from the expected state as an error.
type Check<K> = dyn Fn(&K, &Value) -> Result<(), String> + Send + Sync;

/// The state that [`TestServer::eventually`](super::TestServer::eventually) and
/// [`consistently`](super::TestServer::consistently) expect: a [`Matcher`], a closure `Fn(&K) -> bool`, or
/// [`absent`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an expectation of `{K}`",
    label = "not an expectation",
    note = "use a matcher such as `has_condition(\"Ready\", \"True\")`, `absent()`, or a closure \
            `|object: &{K}| -> bool`"
)]
pub trait Expectation<K> {
    /// The value that a successful wait returns: the object, or `()` for [`absent`].
    type Output;

    /// Returns a description of the expected state, for the message of a failed wait.
    fn description(&self) -> String;

    /// Compares an object with the expected state. `object` contains the typed object and its JSON, and is
    /// `None` if the object does not exist on the server.
    ///
    /// # Errors
    ///
    /// Returns the difference from the expected state.
    fn evaluate(&self, object: Option<(K, &Value)>) -> Result<Self::Output, String>;
}

/// The expectation that an object does not exist; see [`absent`].
pub struct Absent<K> {
    kind: PhantomData<fn() -> K>,
}

impl<K: 'static> Matcher<K> {
    fn of(
        description: String,
        check: impl Fn(&K, &Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { description, check: Arc::new(check) }
    }

    /// Returns a matcher of the objects that match both this matcher and `other`.
    pub fn and(self, other: impl Into<Self>) -> Self {
        let other = other.into();
        let description = format!("{}, and {}", self.description, other.description);
        Self::of(description, move |object, json| {
            (self.check)(object, json)?;
            (other.check)(object, json)
        })
    }

    /// Returns a matcher of the objects that match this matcher, `other`, or both.
    pub fn or(self, other: impl Into<Self>) -> Self {
        let other = other.into();
        let description = format!("({}, or {})", self.description, other.description);
        Self::of(description, move |object, json| {
            let Err(first) = (self.check)(object, json) else { return Ok(()) };
            (other.check)(object, json).map_err(|second| format!("{first}, and {second}"))
        })
    }

    /// Returns a description of the objects that this matcher accepts, for the message of a failed wait.
    pub fn description(&self) -> &str {
        &self.description
    }
}

/// Returns a matcher of the existing objects that do not match `matcher`. It does not match a missing object.
pub fn not<K: 'static>(matcher: impl Into<Matcher<K>>) -> Matcher<K> {
    let matcher = matcher.into();
    let description = format!("not: {}", matcher.description);
    Matcher::of(description, move |object, json| match (matcher.check)(object, json) {
        Ok(()) => Err(format!("it matches: {}", matcher.description)),
        Err(_) => Ok(()),
    })
}

/// Returns a matcher of all objects that exist.
pub fn exists<K: 'static>() -> Matcher<K> {
    Matcher::of("it exists".to_owned(), |_, _| Ok(()))
}

/// Returns the expectation that an object does not exist on the server.
pub fn absent<K>() -> Absent<K> {
    Absent { kind: PhantomData }
}

/// Returns a matcher of the objects whose `status.conditions` contain a condition with this type and status,
/// such as `("Ready", "True")`.
pub fn has_condition<K: 'static>(condition_type: &str, status: &str) -> Matcher<K> {
    let (condition_type, status) = (condition_type.to_owned(), status.to_owned());
    Matcher::of(format!("condition {condition_type} is {status}"), move |_, json| {
        let conditions = json["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        match conditions.iter().find(|condition| condition["type"] == *condition_type) {
            Some(condition) if condition["status"] == *status => Ok(()),
            Some(condition) => Err(format!("condition {}", shown(condition))),
            None if conditions.is_empty() => Err("it has no conditions".to_owned()),
            None => {
                let others: Vec<String> = conditions.iter().map(shown).collect();
                Err(format!("there is no condition {condition_type}; conditions: {}", others.join(", ")))
            }
        }
    })
}

fn shown(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let because = match (text("reason"), text("message")) {
        ("", "") => String::new(),
        (reason, "") => format!(" ({reason})"),
        (reason, message) => format!(" ({reason}: {})", truncated(message)),
    };
    format!("{} is {}{because}", text("type"), text("status"))
}

/// Returns a matcher of the objects whose JSON has this value at a path: `spec.replicas`,
/// `spec.containers[0].image`, or `metadata.labels[app.kubernetes.io/name]`. The value `null` means that the
/// field is not set.
pub fn has_field<K: 'static>(path: &str, value: impl Into<Value>) -> Matcher<K> {
    let (segments, path, value) = (path_segments(path), path.to_owned(), value.into());
    Matcher::of(format!("{path} is {}", shown_value(&value)), move |_, json| {
        let found = get_path(json, &segments).unwrap_or(&Value::Null);
        if *found == value { Ok(()) } else { Err(format!("{path} is {}", shown_value(found))) }
    })
}

pub(super) fn shown_value(value: &Value) -> String {
    if value.is_null() { "not set".to_owned() } else { truncated(&value.to_string()) }
}

pub(super) fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a matcher of the objects that have a finalizer.
pub fn has_finalizer<K: 'static>(name: &str) -> Matcher<K> {
    let name = name.to_owned();
    Matcher::of(format!("it has the finalizer {name}"), move |_, json| {
        let finalizers = &json["metadata"]["finalizers"];
        let found = finalizers.as_array().is_some_and(|all| all.iter().any(|finalizer| *finalizer == *name));
        if found { Ok(()) } else { Err(format!("metadata.finalizers is {}", shown_value(finalizers))) }
    })
}

/// Returns a matcher of the objects whose deletion has begun and waits for finalizers.
pub fn is_terminating<K: 'static>() -> Matcher<K> {
    Matcher::of("its deletion has begun".to_owned(), |_, json| match &json["metadata"]["deletionTimestamp"] {
        Value::Null => Err("metadata.deletionTimestamp is not set".to_owned()),
        _ => Ok(()),
    })
}

/// Returns a matcher of the objects for which the closure `condition` returns true. The message of a failed
/// wait contains the description, such as `all replicas are available`.
pub fn satisfies<K: 'static>(
    description: impl Into<String>,
    condition: impl Fn(&K) -> bool + Send + Sync + 'static,
) -> Matcher<K> {
    Matcher::of(description.into(), move |object, _| {
        if condition(object) { Ok(()) } else { Err("the condition does not hold".to_owned()) }
    })
}

/// The description of a closure that is used as a matcher without a description.
const CLOSURE: &str = "the closure returns true";

impl<K: 'static, F: Fn(&K) -> bool + Send + Sync + 'static> From<F> for Matcher<K> {
    fn from(condition: F) -> Self {
        satisfies(CLOSURE, condition)
    }
}

impl<K> Expectation<K> for Matcher<K> {
    type Output = K;

    fn description(&self) -> String {
        self.description.clone()
    }

    fn evaluate(&self, object: Option<(K, &Value)>) -> Result<K, String> {
        let (object, json) = object.ok_or("it does not exist")?;
        (self.check)(&object, json)?;
        Ok(object)
    }
}

impl<K, F: Fn(&K) -> bool> Expectation<K> for F {
    type Output = K;

    fn description(&self) -> String {
        CLOSURE.to_owned()
    }

    fn evaluate(&self, object: Option<(K, &Value)>) -> Result<K, String> {
        let (object, _) = object.ok_or("it does not exist")?;
        if self(&object) { Ok(object) } else { Err("the closure returns false".to_owned()) }
    }
}

impl<K> Expectation<K> for Absent<K> {
    type Output = ();

    fn description(&self) -> String {
        "it does not exist".to_owned()
    }

    fn evaluate(&self, object: Option<(K, &Value)>) -> Result<(), String> {
        let Some((_, json)) = object else { return Ok(()) };
        let metadata = &json["metadata"];
        Err(match metadata["deletionTimestamp"].as_str() {
            None => "it exists".to_owned(),
            Some(_) => format!("its deletion waits for finalizers {}", shown_value(&metadata["finalizers"])),
        })
    }
}

impl<K> Clone for Matcher<K> {
    fn clone(&self) -> Self {
        Self { description: self.description.clone(), check: Arc::clone(&self.check) }
    }
}

impl<K> fmt::Debug for Matcher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Matcher").field(&self.description).finish()
    }
}

impl<K> fmt::Debug for Absent<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Absent")
    }
}
