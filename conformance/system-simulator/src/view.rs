//! Views: a view is the informer of one kind in a program under test, whose cache is compared with the
//! server.

mod content;

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use informer_cache::InformerState;
use informer_core::{FieldSelector, Gvr, LabelSelector};
use informer_runtime::{CacheInformer, CacheRegistration};
use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use content::Content;

use crate::auditor::key_of;
use crate::check::Checks;
use crate::handler::{HandlerControl, Observer};
use crate::sample::Sample;

#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// The namespaces whose objects the view caches; all namespaces if empty.
    pub(crate) namespaces: Vec<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) transformed: bool,
}

/// The annotation in which the transform of a program counts how often it has processed the object.
pub(crate) const TRANSFORMED: &str = "transformed";

impl Selection {
    pub(crate) fn has_namespace_of(&self, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.namespaces.is_empty() || self.namespaces.iter().any(|own| own == namespace)
    }

    /// Returns true if the view selects an object of the server, so that its cache should hold it.
    pub(crate) fn selects(&self, object: &Value) -> bool {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels =
            labels.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect();
        let field = |path: &str| {
            let value = path.split('.').fold(object, |value, member| &value[member]);
            Some(value.as_str().unwrap_or_default().into())
        };
        self.has_namespace_of(object) && self.labels.matches(&labels) && self.fields.matches(field)
    }
}

/// The informer of one kind in one program under test, independent of the representation of its objects.
pub(crate) trait View: Send + Sync {
    fn name(&self) -> &str;
    fn gvr(&self) -> Gvr;
    fn selection(&self) -> &Selection;
    fn handler(&self) -> &HandlerControl;
    fn has_synced(&self) -> bool;
    fn states(&self) -> Vec<InformerState>;
    /// Returns the objects in the cache of the view, by key.
    fn held(&self) -> BTreeMap<String, Value>;
    /// Returns the content that the cache of the view should have for an object of the server.
    fn expected(&self, object: &Value) -> Value;
    fn remove_handler(&self);
}

pub(crate) struct TypedView<K, O: Content<K>> {
    name: String,
    informer: CacheInformer<O>,
    selection: Selection,
    handler: Arc<HandlerControl>,
    registration: Mutex<Option<CacheRegistration<O>>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Sample, O: Content<K>> TypedView<K, O> {
    pub(crate) fn new(
        name: String,
        informer: CacheInformer<O>,
        selection: Selection,
        checks: &Checks,
    ) -> Self {
        let handler = HandlerControl::new();
        let transformations: fn(&O) -> u64 = |object| {
            let count = &object.content()["metadata"]["annotations"][TRANSFORMED];
            count.as_str().and_then(|count| count.parse().ok()).unwrap_or(0)
        };
        let observer = Observer {
            name: name.clone(),
            control: Arc::clone(&handler),
            checks: checks.clone(),
            transformations: selection.transformed.then_some(transformations),
        };
        let registration = informer.add_handler(observer).expect("the informer has not stopped");
        let registration = Mutex::new(Some(registration));
        Self { name, informer, selection, handler, registration, kind: PhantomData }
    }
}

impl<K: Sample, O: Content<K>> View for TypedView<K, O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn gvr(&self) -> Gvr {
        K::gvr()
    }

    fn selection(&self) -> &Selection {
        &self.selection
    }

    fn handler(&self) -> &HandlerControl {
        &self.handler
    }

    fn has_synced(&self) -> bool {
        self.informer.has_synced()
    }

    fn states(&self) -> Vec<InformerState> {
        self.informer.scoped_informers().iter().map(|part| part.informer.state()).collect()
    }

    fn held(&self) -> BTreeMap<String, Value> {
        let objects = self.informer.list(&LabelSelector::default());
        objects.iter().map(|object| (object.key().to_string(), object.content())).collect()
    }

    fn expected(&self, object: &Value) -> Value {
        let mut expected = O::expected(object);
        if self.selection.transformed {
            expected["metadata"]["annotations"][TRANSFORMED] = "1".into();
        }
        expected
    }

    fn remove_handler(&self) {
        if let Some(registration) = self.registration.lock().take() {
            registration.remove();
            self.handler.set_removed();
        }
    }
}

/// Describes how the cache of a view differs from the objects of the server; `None` if they are equal. The
/// keys in `ignored` are not compared.
pub(crate) fn difference(view: &dyn View, objects: &[Value], ignored: &BTreeSet<String>) -> Option<String> {
    if !view.has_synced() {
        return Some(format!("{} is not synced: {:?}", view.name(), view.states()));
    }
    // The expected content is computed only for keys that are not ignored, because ignored objects may not be
    // decodable.
    let selected = objects.iter().filter(|object| view.selection().selects(object));
    let keyed = selected.map(|object| (key_of(object), object)).filter(|(key, _)| !ignored.contains(key));
    let expected: BTreeMap<_, _> = keyed.map(|(key, object)| (key, view.expected(object))).collect();
    let held = view.held();
    let keys: BTreeSet<_> = expected.keys().chain(held.keys()).collect();
    let mut keys = keys.into_iter().filter(|key| !ignored.contains(*key));
    let differs = keys.find(|key| expected.get(*key) != held.get(*key))?;
    let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), ToString::to_string);
    let (held, expected) = (show(held.get(differs)), show(expected.get(differs)));
    Some(format!("{} holds {differs} as {held}; the server has {expected}", view.name()))
}

/// Describes how the state that results from a handler's events differs from the objects of the server;
/// `None` if they are equal. Ignored keys are not compared.
pub(crate) fn handler_difference(
    view: &dyn View,
    objects: &[Value],
    ignored: &BTreeSet<String>,
) -> Option<String> {
    if view.handler().is_removed() {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let identity = |object: &Value| {
        let meta = &object["metadata"];
        (key_of(object), (text(&meta["uid"]), text(&meta["resourceVersion"])))
    };
    let selected = objects.iter().filter(|object| view.selection().selects(object));
    let expected: BTreeMap<_, _> = selected.map(identity).collect();
    let known = view.handler().known();
    let keys: BTreeSet<_> = expected.keys().chain(known.keys()).collect();
    let mut keys = keys.into_iter().filter(|key| !ignored.contains(*key));
    let differs = keys.find(|key| expected.get(*key) != known.get(*key))?;
    let (known, expected) = (known.get(differs), expected.get(differs));
    Some(format!("the handler of {} knows {differs} as {known:?}; the server has {expected:?}", view.name()))
}
