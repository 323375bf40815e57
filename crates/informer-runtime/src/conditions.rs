//! Status conditions: `status.conditions` of an object, as most controllers report their result.
//!
//! A condition has a type, such as `Ready`, a status, and the time at which the status changed last. The
//! functions of this module keep that time when only the reason or the message changes, as the API
//! conventions require.
//!
//! ```
//! use informer_runtime::Context;
//! use informer_runtime::conditions::{self, NewCondition};
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
//!
//! # struct Website { generation: Option<i64>, conditions: Vec<Condition> }
//! # fn example(ctx: &Context, mut site: Website, available: i32) {
//! let ready = NewCondition::new("Ready", available > 0, "Available")
//!     .message(format!("{available} replicas are available"))
//!     .observed_generation(site.generation);
//! if conditions::set(&mut site.conditions, ready, ctx.now()) {
//!     // The conditions have changed, so the status must be written.
//! }
//! # }
//! ```
//!
//! Upstream:
//! [`meta.SetStatusCondition`](https://pkg.go.dev/k8s.io/apimachinery/pkg/api/meta#SetStatusCondition) and
//! related functions.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The object is in the condition.
    True,
    /// The object is not in the condition.
    False,
    /// It is unknown whether the object is in the condition.
    Unknown,
}

/// A condition for [`set`], without the time of its last transition, which `set` determines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a condition has no effect until it is passed to `conditions::set`"]
pub struct NewCondition {
    type_: String,
    status: ConditionStatus,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
}

impl NewCondition {
    /// Creates a condition with an empty message. The type and the reason are words in CamelCase, for example
    /// `Ready` and `DeploymentFailed`. The API server rejects an empty reason if the CRD has the schema of
    /// `metav1.Condition`.
    pub fn new(
        condition_type: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
    ) -> Self {
        let (type_, status, reason) = (condition_type.into(), status.into(), reason.into());
        Self { type_, status, reason, message: String::new(), observed_generation: None }
    }

    /// Sets the message for people.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets `metadata.generation` of the object for which the condition was determined, so that readers know
    /// whether the condition is about the current spec.
    pub fn observed_generation(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Adds a condition, or updates the one of the same type. Returns true if the conditions have changed.
///
/// `lastTransitionTime` becomes `now` only if the condition is new or its status differs.
pub fn set(conditions: &mut Vec<Condition>, new: NewCondition, now: Timestamp) -> bool {
    let old = conditions.iter_mut().find(|old| old.type_ == new.type_);
    let last_transition_time = match &old {
        Some(old) if old.status == new.status.as_str() => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let NewCondition { type_, status, reason, message, observed_generation } = new;
    let status = status.as_str().to_owned();
    let new = Condition { last_transition_time, message, observed_generation, reason, status, type_ };
    match old {
        Some(old) if *old == new => false,
        Some(old) => {
            *old = new;
            true
        }
        None => {
            conditions.push(new);
            true
        }
    }
}

/// Removes the condition of a type. Returns true if there was one.
pub fn remove(conditions: &mut Vec<Condition>, condition_type: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != condition_type);
    conditions.len() < before
}

/// Returns the condition of a type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == condition_type)
}

/// Returns true if there is a condition of the type and its status is `True`.
pub fn is_true(conditions: &[Condition], condition_type: &str) -> bool {
    has_status(conditions, condition_type, ConditionStatus::True)
}

/// Returns true if there is a condition of the type and its status is `False`. A missing condition is neither
/// true nor false.
pub fn is_false(conditions: &[Condition], condition_type: &str) -> bool {
    has_status(conditions, condition_type, ConditionStatus::False)
}

fn has_status(conditions: &[Condition], condition_type: &str, status: ConditionStatus) -> bool {
    find(conditions, condition_type).is_some_and(|condition| condition.status == status.as_str())
}

impl ConditionStatus {
    /// Returns the value of the field `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: bool) -> NewCondition {
        NewCondition::new("Ready", status, "Tested").message("first").observed_generation(Some(1))
    }

    #[test]
    fn new_condition_is_added_with_the_current_time() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(false), at(1)));
        assert!(set(
            &mut conditions,
            NewCondition::new("Synced", ConditionStatus::Unknown, "Starting"),
            at(2)
        ));
        let types: Vec<_> =
            conditions.iter().map(|condition| (&*condition.type_, &*condition.status)).collect();
        assert_eq!(types, [("Ready", "False"), ("Synced", "Unknown")]);
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert!(is_false(&conditions, "Ready") && !is_true(&conditions, "Ready"));
        assert!(!is_true(&conditions, "Synced") && !is_false(&conditions, "Synced"));
        assert!(!is_true(&conditions, "Other") && !is_false(&conditions, "Other"));
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut conditions = Vec::new();
        set(&mut conditions, ready(false), at(1));
        assert!(!set(&mut conditions, ready(false), at(2)), "nothing has changed");
        assert!(set(&mut conditions, ready(false).message("second"), at(3)));
        assert!(set(&mut conditions, ready(false).message("second").observed_generation(Some(2)), at(4)));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!((&*conditions[0].message, conditions[0].observed_generation), ("second", Some(2)));
        assert!(set(&mut conditions, ready(true), at(5)));
        assert_eq!(conditions[0].last_transition_time, Time(at(5)));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn removed_condition_is_absent_and_others_stay() {
        let mut conditions = Vec::new();
        set(&mut conditions, ready(true), at(1));
        set(&mut conditions, NewCondition::new("Synced", true, "Done"), at(1));
        assert!(remove(&mut conditions, "Ready"));
        assert!(!remove(&mut conditions, "Ready"));
        assert!(find(&conditions, "Ready").is_none() && find(&conditions, "Synced").is_some());
    }
}
