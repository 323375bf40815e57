use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group whose members are authorized for all requests, regardless of RBAC.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// The user who sends a request.
///
/// ```
/// use informer_apiserver::User;
///
/// let alice = User::new("alice").groups(["developers"]);
/// assert_eq!(alice.name(), "alice");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Creates a user without groups.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), uid: String::new(), groups: Vec::new(), extra: BTreeMap::new() }
    }

    /// Sets the uid.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Sets the groups of the user. The group `system:authenticated` is added to them.
    pub fn groups(mut self, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.groups = groups.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the user of all requests to a server without authentication.
    pub(crate) fn administrator() -> Self {
        Self::new("admin").groups([MASTERS]).authenticated()
    }

    pub(crate) fn anonymous() -> Self {
        Self::new("system:anonymous").groups(["system:unauthenticated"])
    }

    pub(crate) fn authenticated(mut self) -> Self {
        if !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    pub(crate) fn info(&self) -> Value {
        let mut info = json!({"username": self.name});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.clone().into();
        }
        if !self.groups.is_empty() {
            info["groups"] = self.groups.clone().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}
