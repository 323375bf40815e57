use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use informer_cache::handler::on_event;
use informer_cache::{Event, HandlerOptions};
use informer_client::{Lazy, Metadata, Representation, Typed};
use informer_core::LabelSelector;
use parking_lot::Mutex;

use super::feed::Route;
use super::{Feed, Source};
use crate::cache::{CacheInformer, CacheRegistration};
use crate::handler::Handler;
use crate::predicate::Predicate;
use crate::{BoxError, KubeKind, ReconcileRequest, ScopedKind, Trigger};

/// Which objects a controller watches, in which form, and which of their changes concern it.
///
/// Controllers that watch one kind in one form share its informer, also with reads from the cache. Another form is another
/// informer, with a watch and a store of its own.
#[must_use = "a watch is given to a controller"]
pub struct Watch<O: Representation> {
    pub(crate) kind: ScopedKind,
    pub(crate) predicates: Vec<Box<dyn Predicate<O>>>,
    pub(crate) resync: Option<Duration>,
    pub(crate) every_owner: bool,
}

/// A kind in the lazy form, which reads from the cache share.
pub fn watch<K: KubeKind>() -> Watch<Lazy<K>> {
    watch_of(ScopedKind::of::<K>())
}

/// The metadata of a kind; the server sends nothing else.
pub fn watch_metadata<K: KubeKind>() -> Watch<Metadata<K>> {
    watch_of(ScopedKind::of::<K>())
}

/// A kind, decoded as it arrives.
pub fn watch_typed<K: KubeKind>() -> Watch<Typed<K>>
where
    Typed<K>: Representation,
{
    watch_of(ScopedKind::of::<K>())
}

/// A kind, compressed with a dictionary of its own: for what is many and seldom read. See
/// [`Cache::packed`](crate::Cache::packed).
#[cfg(feature = "packed")]
pub fn watch_packed<K: KubeKind>() -> Watch<informer_client::Packed<K>> {
    watch_of(ScopedKind::of::<K>())
}

/// A kind that is known at run time, in a form of your choice.
pub fn watch_of<O: Representation>(kind: impl Into<ScopedKind>) -> Watch<O> {
    Watch { kind: kind.into(), predicates: Vec::new(), resync: None, every_owner: false }
}

impl<O: Representation> Watch<O> {
    /// Only changes for which `predicate` holds, too.
    pub fn filter(mut self, predicate: impl Predicate<O>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// How often every object is looked at again, from the cache; zero for never. By default as the cache says.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Of owned objects: every owner of the kind is looked at, not only the one that manages the object.
    pub fn every_owner(mut self) -> Self {
        self.every_owner = true;
        self
    }
}

impl<O: Representation> fmt::Debug for Watch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &self.kind)
            .field("predicates", &self.predicates.len())
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

/// The events of a kind, from the manager's cache.
///
/// A kind that the server does not know yet, or may not be listed, is tried again until the controller's sync timeout: a CRD may be
/// installed meanwhile.
pub fn kind<O: Representation, R: ReconcileRequest>(
    watch: Watch<O>,
    handler: impl Handler<O, R>,
) -> Kind<O, R> {
    let mut route = Route::new(handler);
    watch.predicates.into_iter().for_each(|predicate| route.filter(predicate));
    Kind { kind: watch.kind, resync: watch.resync, route: Arc::new(route), live: Mutex::new(Life::Created) }
}

/// Made by [`kind`].
pub struct Kind<O: Representation, R: ReconcileRequest> {
    kind: ScopedKind,
    resync: Option<Duration>,
    route: Arc<Route<O, R>>,
    live: Mutex<Life<O>>,
}

/// Where a source is in its life.
enum Life<O: Representation> {
    Created,
    Starting,
    Running(CacheInformer<O>, Arc<CacheRegistration<O>>),
    Stopped,
}

impl<O: Representation> Life<O> {
    /// False where it was stopped meanwhile.
    fn run(&mut self, informer: CacheInformer<O>, registration: &Arc<CacheRegistration<O>>) -> bool {
        let starting = matches!(self, Self::Starting);
        if starting {
            *self = Self::Running(informer, Arc::clone(registration));
        }
        starting
    }
}

impl<O: Representation, R: ReconcileRequest> Source<R> for Kind<O, R> {
    fn name(&self) -> String {
        format!("kind {}", self.kind)
    }

    fn start(&self, feed: Feed<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            match &mut *self.live.lock() {
                life @ Life::Created => *life = Life::Starting,
                _ => return Err("it was started before".into()),
            }
            let (route, cache) = (Arc::clone(&self.route), &feed.services().cache);
            cache.check_form::<O>(&self.kind)?;
            let informer = cache.informer_of::<O>(&self.kind);
            let mut options =
                HandlerOptions::for_work_queue().name(format!("controller {}", feed.controller()));
            if let Some(period) = self.resync {
                options = options.resync(period);
            }
            let within = feed.sync_within();
            let handler = on_event(move |event: Event<O>| route.deliver(&Trigger::Event(event), &feed));
            let registration = Arc::new(informer.add_handler_with(options, handler)?);
            if !self.live.lock().run(informer, &registration) {
                registration.remove();
                return Err("it was stopped while it started".into());
            }
            Ok(registration.wait_for_sync(within).await?)
        })
    }

    fn replay(&self, feed: Feed<R>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let informer = match &*self.live.lock() {
                Life::Running(informer, _) => informer.clone(),
                _ => return,
            };
            self.route.replay(informer.list(&LabelSelector::everything()), &feed).await;
        })
    }

    fn stop(&self) {
        let before = std::mem::replace(&mut *self.live.lock(), Life::Stopped);
        if let Life::Running(_, registration) = before {
            registration.remove();
        }
    }
}

impl<O: Representation, R: ReconcileRequest> fmt::Debug for Kind<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("kind", &self.kind).finish_non_exhaustive()
    }
}
