//! Admission: webhooks and policies that see a write before it is done, and may change or refuse it.
//!
//! A write is decided by plain functions that hold no lock and never wait; a webhook is somewhere else, and takes its time. So
//! the two take turns. The write path asks its [`Attempt`] at two places, before the object is checked and before it is
//! stored. What has not been asked yet ends the write there and leaves a [`Question`]; the question is answered
//! ([`Shared::answer`]), and the write is decided anew, with the answer at hand. A write that meets another version of the
//! object asks again, as upstream does. Policies need nobody else, but are asked where webhooks are. Where none of them is configured
//! there is no attempt, and nothing of this happens.
//!
//! What a webhook has seen is what is stored: an answer carries the whole object, uid and generated name included.
//! Webhooks of [conversion](crate::convert) are asked in the same way.
//!
//! # Lock order
//!
//! `Attempt::state` and the compiled hooks are taken alone, and never over an await.

mod attributes;
mod conditions;
mod dispatch;
mod expressions;
mod hooks;
mod matching;
mod policies;
mod review;
mod versions;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};

pub(crate) use attributes::{Attributes, Operation, ReviewKind};
pub(crate) use expressions::Declared;
pub(crate) use hooks::HookCache;

use crate::convert::Converted;
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::storage::Stored;

/// Questions that one write may leave; each change that it meets costs two. Upstream gives up on a patch after five.
pub(crate) const QUESTIONS_MAX: usize = 64;

type Object = Map<String, Value>;

/// When a write asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before the object is checked: it may be changed.
    Mutate,
    /// Before it is stored.
    Validate,
}

/// What is asked, apart from the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occasion {
    pub(crate) phase: Phase,
    pub(crate) operation: Operation,
    /// The version of the stored object; 0 for none.
    pub(crate) version: u64,
}

/// What the write path wants to know.
pub(crate) enum Question {
    /// What webhooks say about an object.
    Review(Review),
    /// What a stored object is in the version of the resource.
    Show(Arc<Resource>, Arc<Stored>),
    /// How an object of the resource's version is stored, in the place of one of this version (0 for none).
    Store(Arc<Resource>, Object, u64),
    /// What an object is in the version of the resource.
    Other(Arc<Resource>, Object),
}

/// What webhooks are asked about.
pub(crate) struct Review {
    pub(crate) occasion: Occasion,
    pub(crate) object: Option<Object>,
    pub(crate) old: Option<Object>,
}

/// One write, with what webhooks have said about it.
pub(crate) struct Attempt {
    pub(crate) attributes: Attributes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    said: Vec<Said>,
    /// Stored objects in the version of the request, by their versions.
    shown: Vec<(u64, Result<Arc<Stored>, ApiError>)>,
    converted: Vec<Stores>,
    /// Objects, and what they are in other versions.
    others: Vec<(String, Object, Result<Object, ApiError>)>,
    question: Option<Question>,
    warnings: Vec<String>,
}

struct Said {
    occasion: Occasion,
    /// Taken in the present run of the write.
    taken: bool,
    outcome: Result<Option<Object>, ApiError>,
}

/// How an object is to be stored.
struct Stores {
    version: u64,
    /// Taken in the present run of the write.
    taken: bool,
    outcome: Result<Converted, ApiError>,
}

impl Attempt {
    pub(crate) fn new(attributes: Attributes) -> Self {
        Self { attributes, state: Mutex::default() }
    }

    /// Before the write is decided, again.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        state.said.iter_mut().for_each(|said| said.taken = false);
        state.converted.iter_mut().for_each(|stores| stores.taken = false);
    }

    /// What webhooks say about an object; it becomes what they made of it. Where they have not been asked, the error is
    /// none that a client sees: [`take_question`](Self::take_question) has what to ask.
    pub(crate) fn review(
        &self,
        occasion: Occasion,
        object: Option<&mut Object>,
        old: Option<&Object>,
    ) -> Result<(), ApiError> {
        let mut state = self.state.lock();
        let known = state.said.iter_mut().find(|said| said.occasion == occasion && !said.taken);
        let Some(said) = known else {
            let review = Review { occasion, object: object.cloned(), old: old.cloned() };
            state.question = Some(Question::Review(review));
            return Err(ApiError::internal("webhooks have not been asked"));
        };
        said.taken = true;
        let answered = said.outcome.clone()?;
        drop(state);
        if let (Some(object), Some(answered)) = (object, answered) {
            *object = answered;
        }
        Ok(())
    }

    /// What the write ended for.
    pub(crate) fn take_question(&self) -> Option<Question> {
        self.state.lock().question.take()
    }

    /// A stored object in the version of a resource, as the webhook says.
    pub(crate) fn show(
        &self,
        resource: &Arc<Resource>,
        stored: &Arc<Stored>,
    ) -> Result<Arc<Stored>, ApiError> {
        let mut state = self.state.lock();
        if let Some((_, known)) = state.shown.iter().find(|(version, _)| *version == stored.version) {
            return known.clone();
        }
        state.question = Some(Question::Show(Arc::clone(resource), Arc::clone(stored)));
        Err(ApiError::internal("the conversion webhook has not been asked"))
    }

    /// How an object of the version of a resource is stored in the place of one of this version, as the webhook says.
    pub(crate) fn store(
        &self,
        resource: &Arc<Resource>,
        object: &Object,
        version: u64,
    ) -> Result<Converted, ApiError> {
        let mut state = self.state.lock();
        let known = state.converted.iter_mut().find(|stores| stores.version == version && !stores.taken);
        let Some(stores) = known else {
            state.question = Some(Question::Store(Arc::clone(resource), object.clone(), version));
            return Err(ApiError::internal("the conversion webhook has not been asked"));
        };
        stores.taken = true;
        stores.outcome.clone()
    }

    /// An object in the version of another resource, as the webhook says.
    pub(crate) fn other(&self, resource: &Arc<Resource>, object: &Object) -> Result<Object, ApiError> {
        let mut state = self.state.lock();
        let version = &resource.kind.api_version;
        let known = state.others.iter().find(|(known, of, _)| known == version && of == object);
        if let Some((_, _, outcome)) = known {
            return outcome.clone();
        }
        state.question = Some(Question::Other(Arc::clone(resource), object.clone()));
        Err(ApiError::internal("the conversion webhook has not been asked"))
    }

    pub(crate) fn has_question(&self) -> bool {
        self.state.lock().question.is_some()
    }

    pub(crate) fn is_in(&self, resource: &Resource, object: Object, outcome: Result<Object, ApiError>) {
        self.state.lock().others.push((resource.kind.api_version.clone(), object, outcome));
    }

    pub(crate) fn shown(&self, version: u64, outcome: Result<Arc<Stored>, ApiError>) {
        self.state.lock().shown.push((version, outcome));
    }

    pub(crate) fn stores(&self, version: u64, outcome: Result<Converted, ApiError>) {
        self.state.lock().converted.push(Stores { version, taken: false, outcome });
    }

    pub(crate) fn answer(&self, occasion: Occasion, outcome: Result<Option<Object>, ApiError>) {
        self.state.lock().said.push(Said { occasion, taken: false, outcome });
    }

    /// A warning for the client; it is told once.
    pub(crate) fn warn(&self, warning: String) {
        let mut state = self.state.lock();
        if !state.warnings.contains(&warning) {
            state.warnings.push(warning);
        }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.state.lock().warnings.clone()
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("attributes", &self.attributes).finish_non_exhaustive()
    }
}
