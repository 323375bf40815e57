//! Admission: policies in CEL and webhooks that may change or reject a write.
//!
//! The write pipeline calls [`Admission::admit`] at two places, before the object is validated and before it is stored. A write that
//! meets another version of the object starts again from its read, and is then admitted again, as by kube-apiserver. No lock is
//! held while a webhook is called.
//!
//! A webhook sees exactly what is stored: uid and generated name included.
//!
//! # Lock order
//!
//! The warnings of a request and the compiled webhooks are locked alone, and never across an await.

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

use std::fmt;
use std::ops::Deref;

use parking_lot::Mutex;
use serde_json::{Map, Value};

pub(crate) use attributes::{Attributes, Operation, ReviewKind};
pub(crate) use hooks::HookCache;
pub(crate) use request::Scope;

use crate::auth::Auth;

type Object = Map<String, Value>;

/// Admits writes: plugins, quotas, policies and webhooks.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) auth: Auth,
    pub(crate) hooks: HookCache,
}

impl Deref for Admission {
    type Target = Auth;

    fn deref(&self) -> &Auth {
        &self.auth
    }
}

/// The two phases of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before validation: the object may be changed.
    Mutate,
    /// Before the object is stored: the write may only be rejected.
    Validate,
}

/// A request whose writes are admitted: its attributes, and the warnings of the webhooks and policies so far.
pub(crate) struct AdmissionRequest {
    pub(crate) attributes: Attributes,
    warnings: Mutex<Vec<String>>,
}

impl AdmissionRequest {
    pub(crate) fn new(attributes: Attributes) -> Self {
        Self { attributes, warnings: Mutex::default() }
    }

    /// Adds a warning for the client, unless it is there already.
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
