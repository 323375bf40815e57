//! Admission of writes: built-in plugins, CEL policies and webhooks.
//!
//! The write pipeline runs the two phases of admission for each write: [`Phase::Mutate`] before the object is
//! validated, and [`Phase::Validate`] before it is stored. After a resourceVersion conflict the write is
//! repeated from its read, which includes both phases. No lock is held while a webhook is called.
//!
//! Webhooks receive the object as it will be stored, including its UID and generated name.
//!
//! # Lock order
//!
//! The request's warnings, the compiled webhooks and the compiled policies each have a lock. No other lock is
//! taken while one of them is held, and none of them is held across an await.

mod attributes;
mod conditions;
mod decode;
mod dispatch;
mod expressions;
mod hooks;
mod matching;
pub(crate) mod plugins;
mod policies;
pub(crate) mod quota;
mod request;
mod review;
mod versions;
mod write;

use std::fmt;
use std::ops::Deref;

use parking_lot::Mutex;
use serde_json::{Map, Value};

pub(crate) use attributes::{AdmissionAttributes, Operation, ReviewKind};
pub(crate) use hooks::HookCache;
pub(crate) use policies::AdmissionPolicyCache;
pub(crate) use request::Scope;

use crate::auth::Auth;
use plugins::EnabledPlugins;

type Object = Map<String, Value>;

#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) auth: Auth,
    pub(crate) hooks: HookCache,
    pub(crate) policies: AdmissionPolicyCache,
    pub(crate) plugins: EnabledPlugins,
}

impl Deref for Admission {
    type Target = Auth;

    fn deref(&self) -> &Auth {
        &self.auth
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Mutating admission, before validation: plugins may modify the object.
    Mutate,
    /// Validating admission, before the object is stored: plugins may only reject the write.
    Validate,
}

/// Attributes of a write request in admission, and the warnings that webhooks and policies have returned for
/// it so far.
pub(crate) struct AdmissionRequest {
    pub(crate) attributes: AdmissionAttributes,
    warnings: Mutex<Vec<String>>,
}

impl AdmissionRequest {
    pub(crate) fn new(attributes: AdmissionAttributes) -> Self {
        Self { attributes, warnings: Mutex::default() }
    }

    /// Adds a warning for the client, unless the request already has the same one.
    pub(crate) fn warn(&self, warning: String) {
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }
}

impl fmt::Debug for AdmissionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionRequest").field("attributes", &self.attributes).finish_non_exhaustive()
    }
}
