//! Calls index functions, and collects the values that they return in one string until a transaction applies
//! the values.
//!
//! Index functions are user code. They run under no lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use informer_core::ObjectKey;
use parking_lot::Mutex;

use crate::index::{IndexFn, IndexFnError, IndexKind};

const PANICKED: &str = "the index function panicked";

pub(crate) struct Definition<O> {
    pub(crate) name: Arc<str>,
    pub(crate) function: Arc<dyn IndexFn<O>>,
    pub(crate) kind: IndexKind,
    failures: Mutex<Option<IndexFailure>>,
}

/// The failures of one index function: their number, and the key and cause of the last one. [`IndexFn`]
/// describes the effect of a failure.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IndexFailure {
    /// The name of the index whose function failed.
    pub index: Arc<str>,
    /// The number of failures and panics of the index function since the index was added.
    pub count: u64,
    /// The key of the last object for which the index function failed or panicked.
    pub key: ObjectKey,
    /// The message of the last error that the index function returned, or a message that the index function
    /// panicked.
    pub cause: Arc<str>,
}

impl<O: 'static> Definition<O> {
    pub(crate) fn new(name: Arc<str>, function: Arc<dyn IndexFn<O>>) -> Self {
        let kind = function.kind();
        Self { name, function, kind, failures: Mutex::new(None) }
    }

    pub(crate) fn failure(&self) -> Option<IndexFailure> {
        self.failures.lock().clone()
    }

    fn record_failure(&self, key: &ObjectKey, cause: Arc<str>) {
        let mut failures = self.failures.lock();
        let count = failures.as_ref().map_or(0, |failure| failure.count) + 1;
        *failures = Some(IndexFailure { index: self.name.clone(), count, key: key.clone(), cause });
    }
}

/// The index values of many (object, index) pairs: one string that contains all values, with their positions.
#[derive(Default)]
pub(crate) struct Computed {
    text: String,
    /// The byte offsets in `text` at which each index value starts and ends.
    spans: Vec<(usize, usize)>,
    /// The end of each group in `spans`. A group contains the values of one object in one index.
    groups: Vec<usize>,
}

impl Computed {
    /// Calls the index function of each of `definitions` for one object. Adds one group of values for each
    /// function, in the order of `definitions`.
    pub(crate) fn add<O: 'static>(
        &mut self,
        definitions: &[Arc<Definition<O>>],
        key: &ObjectKey,
        object: &O,
    ) {
        for definition in definitions {
            self.add_one(definition, key, object);
        }
    }

    /// Computes the values of one object in one index for a lookup. A failure is returned to the caller of
    /// the lookup and is not counted.
    pub(crate) fn of<O: 'static>(
        definition: &Definition<O>,
        object: &O,
    ) -> Result<Vec<String>, IndexFnError> {
        let mut values = Vec::new();
        let mut emit = |value: &str| values.push(value.to_owned());
        catch_unwind(AssertUnwindSafe(|| definition.function.index(object, &mut emit)))
            .map_err(|_| PANICKED)??;
        Ok(values)
    }

    /// Returns the values of one object in one index, sorted and without duplicates. `group` is the number of
    /// the (object, index) pair, in the order in which the index functions were called.
    pub(crate) fn group(&self, group: usize) -> impl ExactSizeIterator<Item = &str> + Clone {
        let start = if group == 0 { 0 } else { self.groups[group - 1] };
        self.spans[start..self.groups[group]].iter().map(|(from, to)| &self.text[*from..*to])
    }

    fn add_one<O: 'static>(&mut self, definition: &Definition<O>, key: &ObjectKey, object: &O) {
        let (text_before, spans_before) = (self.text.len(), self.spans.len());
        let (text, spans) = (&mut self.text, &mut self.spans);
        let mut emit = |value: &str| {
            let start = text.len();
            text.push_str(value);
            spans.push((start, text.len()));
        };
        // `AssertUnwindSafe` is correct: if the index function panics, the values that it has emitted are
        // removed.
        let result = catch_unwind(AssertUnwindSafe(|| definition.function.index(object, &mut emit)));
        let failure: Option<Arc<str>> = match result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string().into()),
            Err(_) => Some(PANICKED.into()),
        };
        if let Some(cause) = failure {
            self.text.truncate(text_before);
            self.spans.truncate(spans_before);
            definition.record_failure(key, cause);
        }
        self.close_group(spans_before);
    }

    fn close_group(&mut self, start: usize) {
        if self.spans.len() - start > 1 {
            let text = &self.text;
            self.spans[start..].sort_unstable_by(|a, b| text[a.0..a.1].cmp(&text[b.0..b.1]));
            let mut group = self.spans.split_off(start);
            group.dedup_by(|a, b| text[a.0..a.1] == text[b.0..b.1]);
            self.spans.append(&mut group);
        }
        self.groups.push(self.spans.len());
    }
}

/// The values of one object in one index, sorted and without duplicates, as recorded in the ledger.
#[derive(Clone, Default)]
pub(crate) enum Values {
    /// The values are not computed yet, because the index is being added.
    #[default]
    Unknown,
    None,
    One(Arc<str>),
    #[expect(
        clippy::box_collection,
        reason = "a thin pointer: every object has one of these per index, 16 bytes"
    )]
    Many(Box<Vec<Arc<str>>>),
}

impl Values {
    pub(crate) fn as_slice(&self) -> &[Arc<str>] {
        match self {
            Self::Unknown | Self::None => &[],
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    pub(crate) fn equal<'a>(&self, values: impl ExactSizeIterator<Item = &'a str>) -> bool {
        let held = self.as_slice();
        held.len() == values.len() && held.iter().zip(values).all(|(held, value)| **held == *value)
    }
}

impl FromIterator<Arc<str>> for Values {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(values: I) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (None, _) => Self::None,
            (Some(one), None) => Self::One(one),
            (Some(first), Some(second)) => {
                Self::Many(Box::new([first, second].into_iter().chain(values).collect()))
            }
        }
    }
}
