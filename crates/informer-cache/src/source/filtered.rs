//! A source whose objects pass a predicate of the program before they are cached.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use informer_core::Object;
use informer_core::panics::panic_text;

use super::{
    DynListWatch, ListPart, ListRequest, ListSource, ListStream, ListWatch, Listed, SourceContext,
    SourceError, WatchEvent, WatchRequest, WatchSource, WatchStream,
};
use crate::Undecodable;

/// A predicate over the objects of a source. Objects for which it returns false are not cached.
pub type ObjectFilter<O> = Arc<dyn Fn(&O) -> bool + Send + Sync>;

/// A source that removes the objects for which a predicate returns false, for conditions that no selector of
/// the server can express. [`SharedInformerBuilder::filter`](crate::SharedInformerBuilder::filter) wraps the
/// source of an informer with it.
///
/// The predicate is called once for each decoded state, as it arrives and before a
/// [transform](crate::SharedInformerBuilder::transform). An object that the server lists or creates and that
/// does not pass is dropped. If a change makes an object fail the predicate, the change is passed on as a
/// deletion, with the state that failed. A later change after which the object passes again arrives as an
/// addition.
///
/// The server still sends all objects, and the client decodes each before the predicate is called. If a label
/// or field selector can express the condition, use the selector, because the server then sends less. For a
/// condition on labels or single fields, use `Prefilter` of `informer-client`, which runs before objects are
/// decoded.
///
/// The predicate must depend on nothing but the object, because it is called only when the object changes. It
/// must be fast, because it runs on the task that reads the responses. If it panics, the object is
/// quarantined as undecodable, and the other objects are processed.
///
/// ```
/// use informer_cache::SharedInformer;
/// use informer_cache::testing::{StaticSource, TestObject, object};
/// use informer_core::Object;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let source = StaticSource::new([object("a", "1").with_text("keep"), object("b", "2")], "5");
/// let keep = |object: &TestObject| object.text() == "keep";
/// let informer = SharedInformer::builder(source).filter(keep).build();
/// let _run = informer.start();
/// informer.wait_for_sync(std::time::Duration::from_secs(5)).await?;
/// assert!(informer.indexer().contains("a") && !informer.indexer().contains("b"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Upstream has no counterpart ([kubernetes#115803](https://github.com/kubernetes/kubernetes/issues/115803),
/// [controller-runtime#3552](https://github.com/kubernetes-sigs/controller-runtime/issues/3552)).
pub struct FilteredSource<O: Object> {
    source: DynListWatch<O>,
    filter: Filter<O>,
}

/// The predicate, together with the description of the source for its error messages.
struct Filter<O> {
    source_description: Arc<str>,
    predicate: ObjectFilter<O>,
}

/// The error of an object whose filter panicked. The error is part of an [`Undecodable`], which also has the
/// key and the resourceVersion of the object.
#[derive(Debug, thiserror::Error)]
#[error("filter {source_description}: the predicate panicked: {panic}; it must not panic for any object")]
#[non_exhaustive]
pub struct FilterPanicked {
    /// The description of the source, for example `pods in namespace default`.
    pub source_description: Arc<str>,
    /// The message of the panic.
    pub panic: String,
}

impl<O: Object> FilteredSource<O> {
    /// Returns a source with the objects of `source` that pass the predicate.
    pub fn new(source: impl ListWatch<O>, predicate: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        Self::of(DynListWatch::new(source), Arc::new(predicate))
    }

    pub(crate) fn of(source: DynListWatch<O>, predicate: ObjectFilter<O>) -> Self {
        let source_description = source.describe().into();
        Self { source, filter: Filter { source_description, predicate } }
    }
}

impl<O: Object> Filter<O> {
    /// Returns whether the predicate accepts an object. If the predicate panics, returns the object as
    /// undecodable.
    fn passes(&self, object: &O) -> Result<bool, Undecodable> {
        // A panic of the predicate cannot leave a partly changed value behind, because the predicate only
        // reads the object.
        catch_unwind(AssertUnwindSafe(|| (self.predicate)(object))).map_err(|panic| {
            let panicked = FilterPanicked {
                source_description: Arc::clone(&self.source_description),
                panic: panic_text(&*panic).to_owned(),
            };
            Undecodable::new(Some(object.key().clone()), panicked)
                .with_version(object.uid(), object.resource_version().clone())
        })
    }

    /// Removes the objects that the predicate rejects from one part of a list. The result has an additional
    /// part for each object whose predicate panicked, and one with the number of rejected objects.
    fn part(&self, part: ListPart<O>) -> Vec<ListPart<O>> {
        let ListPart::Items(mut items) = part else { return vec![part] };
        let (mut others, mut rejected) = (Vec::new(), 0);
        items.retain(|item| match item {
            // The source has reused the object from the cache, because its state is unchanged. That state
            // passed the predicate when it arrived. The predicate must not see it again, because a transform
            // may have removed the fields that the predicate reads.
            Listed::Known(_) => true,
            Listed::Fresh(object) => match self.passes(object) {
                Ok(passes) => {
                    rejected += usize::from(!passes);
                    passes
                }
                Err(panicked) => {
                    others.push(ListPart::Undecodable(panicked));
                    false
                }
            },
        });
        // The reflector counts the pages without any object, and must not count a page of rejected ones.
        if rejected > 0 {
            others.push(ListPart::Rejected(rejected));
        }
        others.insert(0, ListPart::Items(items));
        others
    }

    /// Filters an initial event of a streaming list. A rejected object is reported as such, because it is
    /// progress of the list, in contrast to a deletion.
    fn initial(&self, event: WatchEvent<O>) -> WatchEvent<O> {
        let was_deleted = matches!(event, WatchEvent::Deleted(_));
        match self.event(event) {
            WatchEvent::Deleted(object) if !was_deleted => {
                WatchEvent::Rejected { key: object.key().clone(), version: object.resource_version().clone() }
            }
            event => event,
        }
    }

    /// Turns the event of an object that does not pass into a deletion. The source does not know whether the
    /// object is cached; the deletion of an object that is not cached has no effect but to move the version
    /// of the watch forward.
    fn event(&self, event: WatchEvent<O>) -> WatchEvent<O> {
        match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => match self.passes(object) {
                Ok(true) => event,
                Ok(false) => WatchEvent::Deleted(Arc::clone(object)),
                Err(panicked) => WatchEvent::Undecodable(panicked),
            },
            _ => event,
        }
    }
}

impl<O: Object> Filter<O> {
    /// Returns the event for a synthetic addition, with which a watch without a version begins. A rejected
    /// object that is not cached has no event: a deletion would move the version of the watch to that of the
    /// object, from which no watch could continue.
    fn synthetic(
        &self,
        object: Arc<O>,
        context: &SourceContext<O>,
    ) -> Option<Result<WatchEvent<O>, SourceError>> {
        let key = object.key().clone();
        match self.event(WatchEvent::Added(object)) {
            WatchEvent::Deleted(_) if !context.contains(key.as_str()) => None,
            event => Some(Ok(event)),
        }
    }
}

impl<O: Object> ListSource<O> for FilteredSource<O> {
    async fn list(&self, request: ListRequest<O>) -> Result<ListStream<O>, SourceError> {
        let (list, filter) = (self.source.list(request).await?, self.filter.clone());
        Ok(ListStream::new(list.flat_map(move |part| {
            let parts = match part {
                Ok(part) => filter.part(part).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(parts)
        })))
    }
}

impl<O: Object> WatchSource<O> for FilteredSource<O> {
    async fn watch(&self, request: WatchRequest<O>) -> Result<WatchStream<O>, SourceError> {
        let context = request.context.clone();
        let has_no_version = request.version.is_empty() || request.version.is_any();
        let mut is_synthetic = has_no_version && !request.send_initial_events;
        let mut is_initial = request.send_initial_events;
        let (watch, filter) = (self.source.watch(request).await?, self.filter.clone());
        Ok(WatchStream::new(watch.filter_map(move |event| {
            let event = match event {
                Ok(event) if is_synthetic => match event {
                    WatchEvent::Added(object) => filter.synthetic(object, &context),
                    rejected @ WatchEvent::Rejected { .. } => Some(Ok(rejected)),
                    event => {
                        is_synthetic = false;
                        Some(Ok(filter.event(event)))
                    }
                },
                Ok(event) if is_initial => {
                    is_initial = !matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. });
                    Some(Ok(filter.initial(event)))
                }
                event => Some(event.map(|event| filter.event(event))),
            };
            std::future::ready(event)
        })))
    }
}

impl<O: Object> ListWatch<O> for FilteredSource<O> {
    fn describe(&self) -> String {
        self.source.describe()
    }

    fn supports_streaming_list(&self) -> bool {
        self.source.supports_streaming_list()
    }

    fn streaming_list_failed(&self) {
        self.source.streaming_list_failed();
    }

    fn prefers_complete_lists(&self) -> bool {
        self.source.prefers_complete_lists()
    }

    async fn server_version(&self) -> Option<Arc<str>> {
        self.source.server_version().await
    }
}

impl<O> Clone for Filter<O> {
    fn clone(&self) -> Self {
        Self {
            source_description: Arc::clone(&self.source_description),
            predicate: Arc::clone(&self.predicate),
        }
    }
}

impl<O: Object> fmt::Debug for FilteredSource<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FilteredSource").field(&self.source).finish()
    }
}
