use std::fmt;
use std::sync::Arc;

use informer_core::{FieldSelector, Gvr, LabelSelector};

/// The query parameters that a list or watch sets itself.
const RESERVED: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];

/// The options of the list and watch requests of one informer that a [tweak](ListOptionsTweak) can change.
/// Page size and timeouts are in the configuration of the reflector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListWatchOptions {
    /// The label selector, which the server evaluates.
    pub labels: LabelSelector,
    /// The field selector, which the server evaluates.
    pub fields: FieldSelector,
    parameters: Vec<(String, String)>,
}

impl ListWatchOptions {
    /// Returns options with these selectors.
    pub fn new(labels: LabelSelector, fields: FieldSelector) -> Self {
        Self { labels, fields, parameters: Vec::new() }
    }

    /// Adds a query parameter to each list and watch request, for servers with parameters of their own.
    ///
    /// # Panics
    ///
    /// Panics if the informer sets this parameter itself, such as `resourceVersion` or `labelSelector`.
    #[track_caller]
    pub fn parameter(&mut self, name: impl Into<String>, value: impl Into<String>) -> &mut Self {
        let name = name.into();
        assert!(!RESERVED.contains(&&*name), "an informer sets the query parameter `{name}` itself");
        self.parameters.push((name, value.into()));
        self
    }

    /// Returns the query parameters that were added.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }
}

/// A function that changes the options of the list and watch requests of an informer, by its resource.
///
/// It is called when an informer is created or looked up, and must make the same changes each time. Upstream
/// calls `TweakListOptionsFunc` before each request, where it can also change the resourceVersion. Here the
/// reflector sets the resourceVersion.
#[derive(Clone)]
pub struct ListOptionsTweak(Arc<TweakFn>);

type TweakFn = dyn Fn(&Gvr, &mut ListWatchOptions) + Send + Sync;

impl ListOptionsTweak {
    /// Creates a tweak from a function.
    pub fn new(function: impl Fn(&Gvr, &mut ListWatchOptions) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Changes the options of an informer of `gvr`.
    pub fn apply(&self, gvr: &Gvr, options: &mut ListWatchOptions) {
        (self.0)(gvr, options);
    }
}

impl fmt::Debug for ListOptionsTweak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListOptionsTweak").finish_non_exhaustive()
    }
}
