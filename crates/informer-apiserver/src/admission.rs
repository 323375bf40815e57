//! Admission: webhooks that see a write before it is done, and may change or refuse it.
//!
//! A write is decided by plain functions that hold no lock and never wait; a webhook is somewhere else, and takes its time. So
//! the two take turns. The write path asks its [`Attempt`] at two places, before the object is checked and before it is
//! stored. What has not been asked yet ends the write there and leaves a [`Question`]; the question is answered
//! ([`Shared::answer`]), and the write is decided anew, with the answer at hand. A write that meets another version of the
//! object asks again, as upstream does. Where no webhook is configured there is no attempt, and nothing of this happens.
//!
//! What a webhook has seen is what is stored: an answer carries the whole object, uid and generated name included.
//!
//! # Lock order
//!
//! `Attempt::state` and the compiled hooks are taken alone, and never over an await.

mod attributes;
mod conditions;
mod dispatch;
mod hooks;
mod matching;
mod review;

use std::fmt;

use parking_lot::Mutex;
use serde_json::{Map, Value};

pub(crate) use attributes::{Attributes, Operation, ReviewKind};
pub(crate) use hooks::HookCache;

use crate::error::ApiError;

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
pub(crate) struct Question {
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
    question: Option<Question>,
    warnings: Vec<String>,
}

struct Said {
    occasion: Occasion,
    /// Taken in the present run of the write.
    taken: bool,
    outcome: Result<Option<Object>, ApiError>,
}

impl Attempt {
    pub(crate) fn new(attributes: Attributes) -> Self {
        Self { attributes, state: Mutex::default() }
    }

    /// Before the write is decided, again.
    pub(crate) fn begin(&self) {
        self.state.lock().said.iter_mut().for_each(|said| said.taken = false);
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
            let question = Question { occasion, object: object.cloned(), old: old.cloned() };
            state.question = Some(question);
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
